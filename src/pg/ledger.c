/*
 * ledger.c
 *		verdict_ledger: what has been done under the keys of applications.
 *
 * Invariants
 *	- An entry is claimed in the caller's own transaction, so it is there exactly
 *	  when the transaction is.  Whoever comes second waits for the first in the
 *	  unique index, as for any other row, and what the wait ends with is what the
 *	  isolation level makes of it.
 *	- The text of an application's key is hashed before it gets here.
 */
#include "ledger.h"

#include "catalog/pg_type.h"
#include "common/int.h"
#include "datatype/timestamp.h"
#include "error.h"
#include "miscadmin.h"
#include "statement.h"
#include "read.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(verdict_sql_prune_ledger);

/* What an instance keeps its keys for, at least; so long a repeat must be known. */
#define RETENTION_MINIMUM ((int64) 24 * USECS_PER_HOUR)

/* Of an entry: what the first four parameters of a statement about one are. */
#define IDENTITY                                                                                   \
	"key OPERATOR(pg_catalog.=) $1 AND server OPERATOR(pg_catalog.=) $2 "                          \
	"AND caller OPERATOR(pg_catalog.=) $3 AND method OPERATOR(pg_catalog.=) $4"

static verdict_statement claim_statement = {
	.text =
		"INSERT INTO %1$s.verdict_ledger (key, server, caller, method, fingerprint, recorded_at) "
		"VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING",
	.parameters = 6,
	.types = {BYTEAOID, TEXTOID, REGROLEOID, TEXTOID, BYTEAOID, TIMESTAMPTZOID}};

static verdict_statement look_statement = {
	.text = "SELECT fingerprint, changed, revision FROM %1$s.verdict_ledger "
			"WHERE " IDENTITY,
	.parameters = 4,
	.types = {BYTEAOID, TEXTOID, REGROLEOID, TEXTOID}};

static verdict_statement record_statement = {
	.text = "UPDATE %1$s.verdict_ledger SET changed = $5, revision = $6 WHERE " IDENTITY,
	.parameters = 6,
	.types = {BYTEAOID, TEXTOID, REGROLEOID, TEXTOID, INT8OID, TEXTOID}};

/* What still waits in the outbox has to be found when its answer comes. */
static verdict_statement prune_statement = {
	.text = "DELETE FROM %1$s.verdict_ledger AS ledger WHERE recorded_at OPERATOR(pg_catalog.<) $1 "
			"AND NOT EXISTS (SELECT FROM %1$s.verdict_outbox AS outbox "
			"WHERE outbox.ledger_key OPERATOR(pg_catalog.=) ledger.key "
			"AND outbox.server OPERATOR(pg_catalog.=) ledger.server "
			"AND outbox.role OPERATOR(pg_catalog.=) ledger.caller "
			"AND outbox.method OPERATOR(pg_catalog.=) ledger.method)",
	.parameters = 1,
	.types = {TIMESTAMPTZOID}};

static void
identity_values(const verdict_ledger_entry *entry, Datum *values)
{
	values[0] = verdict_bytes_datum(entry->key, VERDICT_LEDGER_KEY_SIZE);
	values[1] = CStringGetTextDatum(entry->server);
	values[2] = ObjectIdGetDatum(entry->role);
	values[3] = CStringGetTextDatum(verdict_method_name(entry->method));
}

/* Column "number" (from 1) of the row that was found; false when it is null. */
static bool
found_column(int number, Datum *value)
{
	bool null;

	*value = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, number, &null);
	return !null;
}

/* Takes the answer from the row that was found, and refuses it for other changes. */
static void
replay(const verdict_ledger_entry *entry, int64 *changed, char *revision)
{
	Datum value;
	const bytea *fingerprint;

	if (!found_column(1, &value))
		elog(ERROR, "verdict_ledger has an entry without a fingerprint");
	fingerprint = DatumGetByteaPP(value);
	if (VARSIZE_ANY_EXHDR(fingerprint) != VERDICT_FINGERPRINT_SIZE ||
		memcmp(VARDATA_ANY(fingerprint), entry->fingerprint, VERDICT_FINGERPRINT_SIZE) != 0)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("verdict.idempotency_key was used for other changes before"),
						errdetail("A key stands for the same changes, made by the same role at "
								  "server \"%s\" in the same order.",
								  entry->server),
						errhint("Give every operation of the application a key of its own.")));

	*changed = found_column(2, &value) ? DatumGetInt64(value) : -1;
	if (found_column(3, &value))
		strlcpy(revision, TextDatumGetCString(value), VERDICT_REVISION_MAX_TEXT + 1);
	else
		*revision = '\0';
}

void
verdict_ledger_key(const char *application_key, uint64 number, unsigned char *key)
{
	verdict_status status;

	verdict_status_init(&status);
	if (!verdict_application_key_hash(application_key, number, key, &status))
		verdict_report_failure(&status, "hash verdict.idempotency_key");
}

bool
verdict_ledger_claim(const verdict_ledger_entry *entry, int64 *changed, char *revision)
{
	verdict_statement_call call;
	Datum values[6];
	bool ours;

	verdict_statement_begin(&call, "verdict_ledger");
	identity_values(entry, values);
	values[4] = verdict_bytes_datum(entry->fingerprint, VERDICT_FINGERPRINT_SIZE);
	values[5] = TimestampTzGetDatum(GetCurrentTimestamp());
	for (;;)
	{
		ours = verdict_statement_run(&call, &claim_statement, values, NULL, SPI_OK_INSERT) > 0;
		if (ours)
			break;
		if (verdict_statement_run(&call, &look_statement, values, NULL, SPI_OK_SELECT) > 0)
		{
			replay(entry, changed, revision);
			break;
		}
		/* It was pruned in between. */
		CHECK_FOR_INTERRUPTS();
	}
	verdict_statement_end(&call);
	return ours;
}

void
verdict_ledger_record(const verdict_ledger_entry *entry, int64 changed, const char *revision)
{
	verdict_statement_call call;
	Datum values[6];
	char nulls[6] = {' ', ' ', ' ', ' ', ' ', ' '};

	verdict_statement_begin(&call, "verdict_ledger");
	identity_values(entry, values);
	values[4] = Int64GetDatum(changed);
	if (changed < 0)
		nulls[4] = 'n';
	if (revision[0] != '\0')
		values[5] = CStringGetTextDatum(revision);
	else
	{
		values[5] = (Datum) 0;
		nulls[5] = 'n';
	}
	verdict_statement_run(&call, &record_statement, values, nulls, SPI_OK_UPDATE);
	verdict_statement_end(&call);
}

/*
 * The moment before which entries are older than the interval: a month counts as
 * 30 days and a day as 24 hours, as when intervals are compared, whatever the
 * clocks of the time zone do.
 */
static TimestampTz
older_than(const Interval *retention)
{
	int64 days = (int64) retention->month * DAYS_PER_MONTH + retention->day;
	int64 span;
	TimestampTz cutoff;

	if (days > INT64_MAX / USECS_PER_DAY)
		return DT_NOBEGIN;
	if (days < INT64_MIN / USECS_PER_DAY ||
		pg_add_s64_overflow(days * USECS_PER_DAY, retention->time, &span))
		span = days < 0 ? INT64_MIN : INT64_MAX;
	if (span < RETENTION_MINIMUM)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("the ledger must keep its entries for at least 24 hours"),
						errdetail("An application that repeats a transaction whose COMMIT was not "
								  "answered would make its changes a second time.")));
	if (pg_sub_s64_overflow(GetCurrentTimestamp(), span, &cutoff) || !IS_VALID_TIMESTAMP(cutoff))
		return DT_NOBEGIN;
	return cutoff;
}

Datum
verdict_sql_prune_ledger(PG_FUNCTION_ARGS)
{
	verdict_statement_call call;
	Datum cutoff;
	uint64 removed;

	verdict_require_argument(fcinfo, 0, "retention");
	cutoff = TimestampTzGetDatum(older_than(PG_GETARG_INTERVAL_P(0)));
	verdict_statement_begin(&call, "verdict_ledger");
	removed = verdict_statement_run(&call, &prune_statement, &cutoff, NULL, SPI_OK_DELETE);
	verdict_statement_end(&call);
	PG_RETURN_INT64((int64) removed);
}
