/*
 * deliver.c
 *		One round over the outbox: read, send, record.
 *
 * Invariants
 *	- While a batch is being sent there is no snapshot and no lock, in a worker no
 *	  transaction either.
 *	- Only rows that this database has queued itself are sent: those of a restored
 *	  or copied database carry another origin.
 *	- Nothing is sent that a crash could take back: what was read is on disk before
 *	  it leaves.
 *	- A row goes when its answer is known, and in no other way; sent again after a
 *	  crash in between it has the same key.  Rows of one server are sent in the order
 *	  of their ids, and behind one that waits all others of its server wait.
 *	- What is known of an answer is published before the row goes, and told to those
 *	  who wait for it after that has been committed.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/twophase.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "catalog/pg_type.h"
#include "catalog/pg_user_mapping.h"
#include "executor/spi.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/xid8.h"

#include "error.h"
#include "ledger.h"
#include "pause.h"
#include "server.h"
#include "shared.h"
#include "statement.h"
#include "wait.h"
#include "worker.h"

/* What is read at once: so many rows, and no more when they pass so many bytes. */
#define ROWS_AT_ONCE 1000
#define BYTES_AT_ONCE (4 * 1024 * 1024)

#define TABLE "verdict_outbox"

/* The rows that this database has queued itself; the first two parameters. */
#define OWN "system_identifier OPERATOR(pg_catalog.=) $1 AND database OPERATOR(pg_catalog.=) $2"

/*
 * The row that was read; the first two parameters.  An id alone may be that of another
 * row by now: the table was emptied, or the extension made anew.
 */
#define THIS_ROW "id OPERATOR(pg_catalog.=) $1 AND idempotency_key OPERATOR(pg_catalog.=) $2"

static verdict_statement read_statement = {
	.text = "SELECT id, server, role, method, payload, idempotency_key, fingerprint, ledger_key, "
			"transaction FROM (SELECT *, pg_catalog.sum(pg_catalog.octet_length(payload)) "
			"OVER (ORDER BY id) AS bytes FROM (SELECT * FROM %1$s.verdict_outbox WHERE " OWN
			" AND parked_at IS NULL AND server OPERATOR(pg_catalog.<>) ALL ($3) "
			"ORDER BY id LIMIT $4) AS first) AS counted WHERE bytes OPERATOR(pg_catalog.-) "
			"pg_catalog.octet_length(payload) OPERATOR(pg_catalog.<) $5 ORDER BY id",
	.parameters = 5,
	.types = {INT8OID, OIDOID, TEXTARRAYOID, INT8OID, INT8OID}};

static verdict_statement busy_statement = {
	.text = "SELECT DISTINCT server FROM %1$s.verdict_outbox WHERE " OWN,
	.parameters = 2,
	.types = {INT8OID, OIDOID}};

static verdict_statement prepared_statement = {
	.text = "SELECT FROM pg_catalog.pg_prepared_xact() WHERE dbid OPERATOR(pg_catalog.=) $1",
	.parameters = 1,
	.types = {OIDOID}};

static verdict_statement delete_statement = {
	.text = "DELETE FROM %1$s.verdict_outbox WHERE " THIS_ROW,
	.parameters = 2,
	.types = {INT8OID, TEXTOID},
};

static verdict_statement failure_statement = {
	.text = "UPDATE %1$s.verdict_outbox SET attempts = attempts OPERATOR(pg_catalog.+) 1, "
			"last_attempt_at = pg_catalog.clock_timestamp(), error_code = $3, error_message = $4, "
			"parked_at = CASE WHEN $5 THEN pg_catalog.clock_timestamp() END WHERE " THIS_ROW,
	.parameters = 5,
	.types = {INT8OID, TEXTOID, TEXTOID, TEXTOID, BOOLOID}};

typedef struct outbox_row
{
	int64 id;
	char *server;
	Oid role;
	char *method;
	bytea *payload;
	char *key;
	bytea *fingerprint;
	bytea *ledger_key; /* or NULL */
	uint64 transaction;
} outbox_row;

/* What became of one send. */
typedef enum row_fate
{
	ROW_ANSWERED,
	ROW_REFUSED, /* for good: it is parked */
	ROW_WAITS,
	ROW_GONE /* it was taken away meanwhile */
} row_fate;

typedef struct row_result
{
	row_fate fate;
	Oid server;
	const char *error_code; /* of REFUSED and WAITS */
	const char *error_message;
	bool for_log;	/* the message was made on this side */
	bool from_core; /* the message is UTF-8 */
	uint32 changed;
	char revision[VERDICT_REVISION_MAX_TEXT + 1];
} row_result;

/* ------------------------------------------------------------------ steps */

/* A step is a short transaction of a worker, or a part of a procedure's. */
static void
begin_step(bool worker)
{
	if (!worker)
		return;
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
}

static void
end_step(bool worker)
{
	if (worker)
	{
		CommitTransactionCommand();
		pgstat_report_stat(false);
	}
	else
		SPI_commit();
}

static bool
installed(void)
{
	return OidIsValid(verdict_extension_relation(TABLE));
}

/* ---------------------------------------------------------------- reading */

static bool
is_null(HeapTuple tuple, TupleDesc descriptor, int column)
{
	bool null;

	(void) SPI_getbinval(tuple, descriptor, column, &null);
	return null;
}

static Datum
column_of(HeapTuple tuple, TupleDesc descriptor, int column)
{
	bool null;
	Datum value = SPI_getbinval(tuple, descriptor, column, &null);

	if (null)
		elog(ERROR, "column %d of verdict_outbox is null", column);
	return value;
}

/* A copy of the row in the current context. */
static outbox_row *
copy_row(HeapTuple tuple, TupleDesc descriptor)
{
	outbox_row *row = palloc0(sizeof(outbox_row));

	row->id = DatumGetInt64(column_of(tuple, descriptor, 1));
	row->server = TextDatumGetCString(column_of(tuple, descriptor, 2));
	row->role = DatumGetObjectId(column_of(tuple, descriptor, 3));
	row->method = TextDatumGetCString(column_of(tuple, descriptor, 4));
	row->payload = DatumGetByteaPCopy(column_of(tuple, descriptor, 5));
	row->key = TextDatumGetCString(column_of(tuple, descriptor, 6));
	row->fingerprint = DatumGetByteaPCopy(column_of(tuple, descriptor, 7));
	if (!is_null(tuple, descriptor, 8))
		row->ledger_key = DatumGetByteaPCopy(column_of(tuple, descriptor, 8));
	row->transaction =
		U64FromFullTransactionId(DatumGetFullTransactionId(column_of(tuple, descriptor, 9)));
	return row;
}

static void
own_values(Datum *values)
{
	values[0] = Int64GetDatum((int64) GetSystemIdentifier());
	values[1] = ObjectIdGetDatum(MyDatabaseId);
}

/* Rows that can be sent now, in "context". */
static List *
read_rows(const verdict_statement_call *call, MemoryContext context)
{
	Datum values[5];
	MemoryContext caller;
	List *rows = NIL;

	own_values(values);
	values[2] = verdict_pauses_blocked();
	values[3] = Int64GetDatum(ROWS_AT_ONCE);
	values[4] = Int64GetDatum(BYTES_AT_ONCE);
	verdict_statement_run(call, &read_statement, values, NULL, SPI_OK_SELECT);
	caller = MemoryContextSwitchTo(context);
	for (uint64 i = 0; i < SPI_processed; i++)
		rows = lappend(rows, copy_row(SPI_tuptable->vals[i], SPI_tuptable->tupdesc));
	MemoryContextSwitchTo(caller);
	return rows;
}

static bool
has_prepared_transactions(const verdict_statement_call *call)
{
	Datum values[1];

	if (max_prepared_xacts == 0)
		return false;
	values[0] = ObjectIdGetDatum(MyDatabaseId);
	return verdict_statement_run(call, &prepared_statement, values, NULL, SPI_OK_SELECT) > 0;
}

/*
 * Tells which of the noted servers have no row.  While a row names a server that
 * does not exist nobody knows whose it is: the server may have another name by now.
 */
static void
tell_drained(const verdict_statement_call *call, const verdict_note *notes, int count)
{
	Datum values[2];
	List *busy = NIL;

	if (count == 0)
		return;
	own_values(values);
	verdict_statement_run(call, &busy_statement, values, NULL, SPI_OK_SELECT);
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		char *name = SPI_getvalue(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1);
		ForeignServer *server = GetForeignServerByName(name, true);

		if (server == NULL)
			return;
		busy = lappend_oid(busy, server->serverid);
	}
	for (int i = 0; i < count; i++)
	{
		if (!list_member_oid(busy, notes[i].server))
			verdict_shared_drained(&notes[i]);
	}
}

/*
 * With synchronous_commit off a transaction is seen before it is safe, and so may
 * those be whose rows were read: waits until all that was written is on disk.
 */
static void
make_durable(void)
{
	XLogRecPtr end = GetXLogInsertRecPtr();

	/* Behind the header of a page that nothing stands on yet: its beginning. */
	if (XLogSegmentOffset(end, wal_segment_size) == SizeOfXLogLongPHD)
		end -= SizeOfXLogLongPHD;
	else if (end % XLOG_BLCKSZ == SizeOfXLogShortPHD)
		end -= SizeOfXLogShortPHD;
	XLogFlush(end);
}

/* Reads into "context"; fills what of *round is known from it. */
static List *
look(bool worker, MemoryContext context, verdict_round *round)
{
	verdict_statement_call call;
	verdict_note *notes = NULL;
	int noted = 0;
	List *rows = NIL;

	/*
	 * In this order: notes, prepared transactions, the look for busy servers.  Then
	 * a transaction whose rows that look does not see was under way in one of the
	 * former.  Only in a worker does each statement see what was there before it.
	 */
	if (worker)
		noted = verdict_shared_note(&notes, &round->kicks);
	begin_step(worker);
	round->installed = installed();
	if (round->installed)
	{
		verdict_statement_begin(&call, TABLE);
		rows = read_rows(&call, context);
		round->prepared = worker && has_prepared_transactions(&call);
		if (!round->prepared && list_length(rows) < ROWS_AT_ONCE)
			tell_drained(&call, notes, noted);
		verdict_statement_end(&call);
	}
	end_step(worker);
	if (rows != NIL)
		make_durable();
	return rows;
}

/* ---------------------------------------------------------------- sending */

/* Whether the row is still to be sent. */
static bool
still_there(const outbox_row *row)
{
	Oid oid = verdict_extension_relation(TABLE);
	Relation table = OidIsValid(oid) ? try_relation_open(oid, AccessShareLock) : NULL;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple tuple;
	bool there = false;

	if (table == NULL)
		return false;
	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(row->id));
	scan = systable_beginscan(table, verdict_primary_key(table), true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
	{
		bool null;
		Datum now =
			heap_getattr(tuple, get_attnum(oid, "idempotency_key"), RelationGetDescr(table), &null);

		there = !null && strcmp(TextDatumGetCString(now), row->key) == 0;
	}
	systable_endscan(scan);
	relation_close(table, AccessShareLock);
	return there;
}

static void
set_failure(row_result *result, row_fate fate, const char *code, char *message)
{
	result->fate = fate;
	result->error_code = code;
	result->error_message = message;
	result->for_log = true;
	result->from_core = false;
}

static char *
sqlstate_text(int sqlstate)
{
	return pstrdup(unpack_sql_state(sqlstate));
}

/*
 * verdict_server_use(), with what it raises made a failure of the row: the server
 * may be usable at the next try.
 */
static verdict_client *
use_server(const outbox_row *row, row_result *result)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	verdict_client *volatile client = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		client = verdict_server_use(row->server, row->role)->client;
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		ErrorData *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		set_failure(result, ROW_WAITS, sqlstate_text(error->sqlerrcode), error->message);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return client;
}

static bool
has_mapping(Oid role, Oid server)
{
	return SearchSysCacheExists2(USERMAPPINGUSERSERVER, ObjectIdGetDatum(role),
								 ObjectIdGetDatum(server)) ||
		   SearchSysCacheExists2(USERMAPPINGUSERSERVER, ObjectIdGetDatum(InvalidOid),
								 ObjectIdGetDatum(server));
}

/*
 * The client for a row, or NULL with its result.  What the role has lost is for
 * somebody to decide: the row is parked.
 */
static verdict_client *
find_client(const outbox_row *row, row_result *result)
{
	ForeignServer *server;

	if (!still_there(row))
	{
		result->fate = ROW_GONE;
		return NULL;
	}
	if (!SearchSysCacheExists1(AUTHOID, ObjectIdGetDatum(row->role)))
	{
		set_failure(result, ROW_REFUSED, sqlstate_text(ERRCODE_UNDEFINED_OBJECT),
					psprintf("role with OID %u does not exist", row->role));
		return NULL;
	}
	/* Not by us; and what waits is known by a name that a server can have. */
	if (strlen(row->server) >= NAMEDATALEN)
	{
		set_failure(result, ROW_REFUSED, sqlstate_text(ERRCODE_NAME_TOO_LONG),
					pstrdup("the name of the server is too long"));
		return NULL;
	}
	server = GetForeignServerByName(row->server, true);
	if (server == NULL)
	{
		set_failure(result, ROW_WAITS, sqlstate_text(ERRCODE_UNDEFINED_OBJECT),
					psprintf("server \"%s\" does not exist", row->server));
		return NULL;
	}
	result->server = server->serverid;
	if (verdict_server_aclcheck(server->serverid, row->role) != ACLCHECK_OK)
	{
		set_failure(result, ROW_REFUSED, sqlstate_text(ERRCODE_INSUFFICIENT_PRIVILEGE),
					psprintf("role \"%s\" has no USAGE on server \"%s\"",
							 GetUserNameFromId(row->role, false), row->server));
		return NULL;
	}
	if (!has_mapping(row->role, server->serverid))
	{
		set_failure(result, ROW_REFUSED, sqlstate_text(ERRCODE_UNDEFINED_OBJECT),
					psprintf("role \"%s\" has no user mapping for server \"%s\"",
							 GetUserNameFromId(row->role, false), row->server));
		return NULL;
	}
	return use_server(row, result);
}

static bool
method_of(const char *name, verdict_method *method)
{
	static const verdict_method mutations[] = {
		VERDICT_METHOD_INSERT_FACT, VERDICT_METHOD_DELETE_FACT, VERDICT_METHOD_BATCH_FACTS,
		VERDICT_METHOD_SET_POLICY};

	for (size_t i = 0; i < lengthof(mutations); i++)
	{
		if (strcmp(verdict_method_name(mutations[i]), name) == 0)
		{
			*method = mutations[i];
			return true;
		}
	}
	return false;
}

/*
 * Whether an answer ends the matter: the instance itself has said that it will not
 * do this.  All else can change by itself, or when somebody mends a setting.
 */
static bool
refused_for_good(const verdict_status *status)
{
	if (status->cause == VERDICT_CAUSE_ARGUMENT)
		return true;
	if (status->inferred || status->cause != VERDICT_CAUSE_REMOTE)
		return false;
	switch (status->code)
	{
		case VERDICT_INVALID_ARGUMENT:
		case VERDICT_NOT_FOUND:
		case VERDICT_ALREADY_EXISTS:
		case VERDICT_PERMISSION_DENIED:
		case VERDICT_FAILED_PRECONDITION:
		case VERDICT_OUT_OF_RANGE:
		case VERDICT_UNIMPLEMENTED:
			return true;
		default:
			return false;
	}
}

/* The call itself.  Allocates in the current context; raises interrupts only. */
static void
send_row(const outbox_row *row, verdict_client *client, row_result *result)
{
	verdict_session session;
	verdict_status status;
	verdict_method method;

	verdict_status_init(&status);
	if (!method_of(row->method, &method))
	{
		set_failure(result, ROW_REFUSED, sqlstate_text(ERRCODE_INVALID_PARAMETER_VALUE),
					psprintf("\"%s\" is no method that changes anything", row->method));
		return;
	}
	if (verdict_session_init(&session, verdict_backend_host(), NULL, VERDICT_CONSISTENCY_DEFAULT,
							 &status) &&
		verdict_client_mutate(client, &session, method, VARDATA_ANY(row->payload),
							  VARSIZE_ANY_EXHDR(row->payload), row->key, 0, &result->changed,
							  &status))
	{
		result->fate = ROW_ANSWERED;
		verdict_shared_publish(result->server, &session.observed);
		(void) verdict_revision_print(&session.observed, result->revision);
		return;
	}
	if (status.cause == VERDICT_CAUSE_INTERRUPTED)
		verdict_wait_raise_interrupt();
	set_failure(result, refused_for_good(&status) ? ROW_REFUSED : ROW_WAITS,
				verdict_code_name(status.code), pstrdup(status.message));
	result->for_log = status.cause != VERDICT_CAUSE_REMOTE && status.cause != VERDICT_CAUSE_HTTP &&
					  status.cause != VERDICT_CAUSE_ANSWER;
	result->from_core = true;
}

/* -------------------------------------------------------------- recording */

static void
record_ledger(const outbox_row *row, const row_result *result)
{
	verdict_ledger_entry entry;

	if (row->ledger_key == NULL || VARSIZE_ANY_EXHDR(row->ledger_key) != VERDICT_LEDGER_KEY_SIZE ||
		!method_of(row->method, &entry.method))
		return;
	entry.server = row->server;
	entry.role = row->role;
	memcpy(entry.key, VARDATA_ANY(row->ledger_key), VERDICT_LEDGER_KEY_SIZE);
	entry.fingerprint = (const unsigned char *) VARDATA_ANY(row->fingerprint);
	verdict_ledger_record(&entry, result->changed, result->revision);
}

static void
row_values(const outbox_row *row, Datum *values)
{
	values[0] = Int64GetDatum(row->id);
	values[1] = CStringGetTextDatum(row->key);
}

static uint64
record_answer(const outbox_row *row, const row_result *result)
{
	verdict_statement_call call;
	Datum values[2];
	uint64 removed;

	verdict_statement_begin(&call, TABLE);
	row_values(row, values);
	removed = verdict_statement_run(&call, &delete_statement, values, NULL, SPI_OK_DELETE);
	verdict_statement_end(&call);
	if (removed > 0)
		record_ledger(row, result);
	return removed;
}

/* In the database's encoding, so far as it can be said there. */
static const char *
message_of(const row_result *result)
{
	return result->from_core ? verdict_from_utf8_lossy(result->error_message)
							 : result->error_message;
}

static uint64
record_failure(const outbox_row *row, const row_result *result)
{
	verdict_statement_call call;
	Datum values[5];
	uint64 updated;

	verdict_statement_begin(&call, TABLE);
	row_values(row, values);
	values[2] = CStringGetTextDatum(result->error_code);
	values[3] = CStringGetTextDatum(message_of(result));
	values[4] = BoolGetDatum(result->fate == ROW_REFUSED);
	updated = verdict_statement_run(&call, &failure_statement, values, NULL, SPI_OK_UPDATE);
	verdict_statement_end(&call);
	return updated;
}

static void
record(const outbox_row *row, const row_result *result, bool worker)
{
	begin_step(worker);
	if (installed())
	{
		uint64 found =
			result->fate == ROW_ANSWERED ? record_answer(row, result) : record_failure(row, result);

		/* Somebody's trigger: without the error it would be sent again at once. */
		if (found == 0 && still_there(row))
			ereport(ERROR,
					(errcode(ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION),
					 errmsg("what became of batch %lld could not be recorded in verdict_outbox",
							(long long) row->id),
					 errhint("Look for triggers on the table.")));
	}
	end_step(worker);
	if (result->fate != ROW_WAITS)
		verdict_shared_answered(row->transaction, result->fate == ROW_REFUSED);
}

/* What the instance has said may tell facts, so the log does not repeat it. */
static void
report_failure(const outbox_row *row, const row_result *result, bool worker)
{
	if (result->fate == ROW_REFUSED)
		ereport(
			WARNING,
			(errmsg("batch %lld of verdict_outbox was refused and is parked", (long long) row->id),
			 result->for_log ? errdetail_internal("%s", message_of(result))
							 : errdetail("Server \"%s\" answered with Connect code %s.",
										 row->server, result->error_code),
			 errhint("See verdict_outbox_status, then send it again with "
					 "verdict_outbox_resend(%lld) or give it up with verdict_outbox_drop(%lld).",
					 (long long) row->id, (long long) row->id)));
	else
		ereport(worker ? LOG : WARNING,
				(errmsg("batches of verdict_outbox for server \"%s\" wait", row->server),
				 result->for_log ? errdetail_internal("%s", message_of(result))
								 : errdetail("Batch %lld was answered with Connect code %s.",
											 (long long) row->id, result->error_code)));
}

/* ------------------------------------------------------------------ a round */

static void
show_activity(bool worker, const outbox_row *row)
{
	if (worker)
		pgstat_report_activity(STATE_RUNNING,
							   psprintf("sending batch %lld to server %s", (long long) row->id,
										quote_identifier(row->server)));
}

/* Sends one row and records what became of it; in a context of its own. */
static void
deliver_row(const outbox_row *row, bool worker, verdict_round *round)
{
	MemoryContext context = CurrentMemoryContext;
	row_result result;
	verdict_client *client;

	memset(&result, 0, sizeof(result));
	begin_step(worker);
	MemoryContextSwitchTo(context);
	client = find_client(row, &result);
	/* From here on the client outlives the transaction that has found it. */
	verdict_server_hold(true);
	end_step(worker);
	MemoryContextSwitchTo(context);

	if (client != NULL)
	{
		show_activity(worker, row);
		send_row(row, client, &result);
	}
	verdict_server_hold(false);
	if (result.fate == ROW_GONE)
		return;

	record(row, &result, worker);
	MemoryContextSwitchTo(context);
	switch (result.fate)
	{
		case ROW_ANSWERED:
			round->delivered++;
			verdict_pause_end(row->server);
			break;
		case ROW_REFUSED:
			round->parked++;
			report_failure(row, &result, worker);
			break;
		case ROW_WAITS:
			round->waiting++;
			if (verdict_pause_begin(row->server) || !worker)
				report_failure(row, &result, worker);
			break;
		case ROW_GONE:
			break;
	}
}

void
verdict_deliver_round(bool worker, verdict_round *round)
{
	MemoryContext caller = CurrentMemoryContext;
	MemoryContext context = AllocSetContextCreate(caller, "verdict round", ALLOCSET_DEFAULT_SIZES);
	MemoryContext row_context =
		AllocSetContextCreate(context, "verdict batch", ALLOCSET_DEFAULT_SIZES);
	List *rows;
	ListCell *cell;

	memset(round, 0, sizeof(*round));
	verdict_pauses_begin_round();

	MemoryContextSwitchTo(context);
	rows = look(worker, context, round);
	foreach (cell, rows)
	{
		const outbox_row *row = lfirst(cell);

		CHECK_FOR_INTERRUPTS();
		if (verdict_pause_is_new(row->server))
			continue;
		MemoryContextSwitchTo(row_context);
		deliver_row(row, worker, round);
		MemoryContextReset(row_context);
	}

	/* Another look tells whether there is more, or something behind what waits. */
	round->more = rows != NIL;
	if (rows == NIL)
		verdict_pauses_forget_absent();
	round->next_ms = verdict_pauses_next_ms();
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(context);
}
