/*
 * outbox.c
 *		Writing rows of verdict_outbox.
 */
#include "outbox.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_type.h"
#include "ledger.h"
#include "miscadmin.h"
#include "statement.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/xid8.h"

enum
{
	COLUMN_SERVER,
	COLUMN_ROLE,
	COLUMN_METHOD,
	COLUMN_CHANGES,
	COLUMN_PAYLOAD,
	COLUMN_KEY,
	COLUMN_FINGERPRINT,
	COLUMN_LEDGER_KEY,
	COLUMN_TRANSACTION,
	COLUMN_SYSTEM,
	COLUMN_DATABASE,
	COLUMN_QUEUED_AT,
	COLUMNS
};

static verdict_statement insert_statement = {
	.text = "INSERT INTO %1$s.verdict_outbox (server, role, method, changes, payload, "
			"idempotency_key, fingerprint, ledger_key, transaction, system_identifier, database, "
			"queued_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
	.parameters = COLUMNS,
	.types = {TEXTOID, REGROLEOID, TEXTOID, INT4OID, BYTEAOID, TEXTOID, BYTEAOID, BYTEAOID, XID8OID,
			  INT8OID, OIDOID, TIMESTAMPTZOID}};

void
verdict_outbox_write(const verdict_outbox_batch *batch)
{
	verdict_statement_call call;
	Datum values[COLUMNS];
	char nulls[COLUMNS];

	verdict_statement_begin(&call, "verdict_outbox");
	memset(nulls, ' ', sizeof(nulls));
	values[COLUMN_SERVER] = CStringGetTextDatum(batch->server);
	values[COLUMN_ROLE] = ObjectIdGetDatum(batch->role);
	values[COLUMN_METHOD] = CStringGetTextDatum(verdict_method_name(batch->method));
	values[COLUMN_CHANGES] = Int32GetDatum((int32) batch->changes);
	values[COLUMN_PAYLOAD] = verdict_bytes_datum(batch->payload, batch->payload_size);
	values[COLUMN_KEY] = CStringGetTextDatum(batch->key);
	values[COLUMN_FINGERPRINT] = verdict_bytes_datum(batch->fingerprint, VERDICT_FINGERPRINT_SIZE);
	values[COLUMN_LEDGER_KEY] = (Datum) 0;
	if (batch->ledger_key != NULL)
		values[COLUMN_LEDGER_KEY] = verdict_bytes_datum(batch->ledger_key, VERDICT_LEDGER_KEY_SIZE);
	else
		nulls[COLUMN_LEDGER_KEY] = 'n';
	values[COLUMN_TRANSACTION] = FullTransactionIdGetDatum(GetTopFullTransactionId());
	values[COLUMN_SYSTEM] = Int64GetDatum((int64) GetSystemIdentifier());
	values[COLUMN_DATABASE] = ObjectIdGetDatum(MyDatabaseId);
	values[COLUMN_QUEUED_AT] = TimestampTzGetDatum(GetCurrentTimestamp());
	verdict_statement_run(&call, &insert_statement, values, nulls, SPI_OK_INSERT);
	verdict_statement_end(&call);
}
