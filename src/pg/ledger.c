/*
 * ledger.c
 *		verdict_ledger: what has been done under the keys of applications.
 *
 * Invariants
 *	- Everything runs as the table's owner, in statements whose names and
 *	  operators all carry their schema: whoever makes a change needs no right on
 *	  the table, and nothing on his search_path gets to run as its owner.
 *	- An entry is claimed in the caller's own transaction, so it is there exactly
 *	  when the transaction is.  Whoever comes second waits for the first in the
 *	  unique index, as for any other row, and what the wait ends with is what the
 *	  isolation level makes of it.
 *	- The text of an application's key is hashed before it gets here.
 *	- Nobody's memory grows: a plan for each statement is kept and replaced when
 *	  the table it was made for is another one.
 */
#include "ledger.h"

#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "datatype/timestamp.h"
#include "error.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "outbox.h"
#include "read.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(verdict_sql_prune_ledger);

/* What an instance keeps its keys for, at least; so long a repeat must be known. */
#define RETENTION_MINIMUM ((int64) 24 * USECS_PER_HOUR)

/* Of an entry: what the first four parameters of a statement about one are. */
#define IDENTITY                                                                                   \
	"key OPERATOR(pg_catalog.=) $1 AND server OPERATOR(pg_catalog.=) $2 "                          \
	"AND caller OPERATOR(pg_catalog.=) $3 AND method OPERATOR(pg_catalog.=) $4"

typedef struct statement
{
	const char *text; /* with the names of the ledger and, if need be, the outbox */
	int parameters;
	Oid types[6];

	/* The plan and what it was made for. */
	SPIPlanPtr plan;
	Oid relation;
	NameData schema;
} statement;

static statement claim_statement = {
	.text = "INSERT INTO %s (key, server, caller, method, fingerprint, recorded_at) "
			"VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING",
	.parameters = 6,
	.types = {BYTEAOID, TEXTOID, REGROLEOID, TEXTOID, BYTEAOID, TIMESTAMPTZOID}};

static statement look_statement = {.text = "SELECT fingerprint, changed, revision FROM %s "
										   "WHERE " IDENTITY,
								   .parameters = 4,
								   .types = {BYTEAOID, TEXTOID, REGROLEOID, TEXTOID}};

static statement record_statement = {
	.text = "UPDATE %s SET changed = $5, revision = $6 WHERE " IDENTITY,
	.parameters = 6,
	.types = {BYTEAOID, TEXTOID, REGROLEOID, TEXTOID, INT8OID, TEXTOID}};

/* What still waits in the outbox has to be found when its answer comes. */
static statement prune_statement = {
	.text = "DELETE FROM %s AS ledger WHERE recorded_at OPERATOR(pg_catalog.<) $1 "
			"AND NOT EXISTS (SELECT FROM %s AS outbox "
			"WHERE outbox.ledger_key OPERATOR(pg_catalog.=) ledger.key "
			"AND outbox.server OPERATOR(pg_catalog.=) ledger.server "
			"AND outbox.role OPERATOR(pg_catalog.=) ledger.caller "
			"AND outbox.method OPERATOR(pg_catalog.=) ledger.method)",
	.parameters = 1,
	.types = {TIMESTAMPTZOID}};

/* What a statement runs in. */
typedef struct ledger_call
{
	Oid relation;
	const char *schema;
	Oid user;
	int security;
	bool snapshot;
} ledger_call;

static Oid
relation_owner(Oid relation)
{
	HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relation));
	Oid owner;

	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	return owner;
}

/*
 * An error between the two needs no care: the (sub)transaction that it ends gives
 * back the user, the snapshot and what SPI holds.
 */
static void
begin_call(ledger_call *call)
{
	Oid owner = InvalidOid;

	call->relation = verdict_extension_relation("verdict_ledger");
	if (OidIsValid(call->relation))
		owner = relation_owner(call->relation);
	if (!OidIsValid(owner))
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("extension \"verdict\" is not installed in this database"),
						errdetail("Idempotency keys are kept in its table verdict_ledger."),
						errhint("Run CREATE EXTENSION verdict.")));
	call->schema = get_namespace_name(get_rel_namespace(call->relation));

	/* A commit callback has none. */
	call->snapshot = !ActiveSnapshotSet();
	if (call->snapshot)
		PushActiveSnapshot(GetTransactionSnapshot());
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	GetUserIdAndSecContext(&call->user, &call->security);
	SetUserIdAndSecContext(owner, call->security | SECURITY_LOCAL_USERID_CHANGE |
									  SECURITY_RESTRICTED_OPERATION | SECURITY_NOFORCE_RLS);
}

static void
end_call(const ledger_call *call)
{
	SetUserIdAndSecContext(call->user, call->security);
	SPI_finish();
	if (call->snapshot)
		PopActiveSnapshot();
}

/* Makes the statement's plan, unless it has the right one. */
static void
prepare(const ledger_call *call, statement *statement)
{
	char *text;
	SPIPlanPtr plan;

	if (statement->plan != NULL && statement->relation == call->relation &&
		strcmp(NameStr(statement->schema), call->schema) == 0)
		return;

	text = psprintf(statement->text, quote_qualified_identifier(call->schema, "verdict_ledger"),
					quote_qualified_identifier(call->schema, "verdict_outbox"));
	plan = SPI_prepare(text, statement->parameters, statement->types);
	if (plan == NULL)
		elog(ERROR, "SPI_prepare failed: %s", SPI_result_code_string(SPI_result));
	if (statement->plan != NULL)
		SPI_freeplan(statement->plan);
	statement->plan = NULL;
	if (SPI_keepplan(plan) != 0)
		elog(ERROR, "SPI_keepplan failed");
	statement->plan = plan;
	statement->relation = call->relation;
	namestrcpy(&statement->schema, call->schema);
}

/* Runs it with the snapshot that a statement of the caller would get now. */
static uint64
run(const ledger_call *call, statement *statement, Datum *values, const char *nulls, int expected)
{
	int result;

	prepare(call, statement);
	result = SPI_execute_plan(statement->plan, values, nulls, false, 0);
	if (result != expected)
		elog(ERROR, "a statement on verdict_ledger failed: %s", SPI_result_code_string(result));
	return SPI_processed;
}

static Datum
bytes_datum(const unsigned char *bytes, size_t size)
{
	bytea *datum = palloc(VARHDRSZ + size);

	SET_VARSIZE(datum, VARHDRSZ + size);
	memcpy(VARDATA(datum), bytes, size);
	return PointerGetDatum(datum);
}

static void
identity_values(const verdict_ledger_entry *entry, Datum *values)
{
	values[0] = bytes_datum(entry->key, VERDICT_LEDGER_KEY_SIZE);
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
	ledger_call call;
	Datum values[6];
	bool ours;

	begin_call(&call);
	identity_values(entry, values);
	values[4] = bytes_datum(entry->fingerprint, VERDICT_FINGERPRINT_SIZE);
	values[5] = TimestampTzGetDatum(GetCurrentTimestamp());
	for (;;)
	{
		ours = run(&call, &claim_statement, values, NULL, SPI_OK_INSERT) > 0;
		if (ours)
			break;
		if (run(&call, &look_statement, values, NULL, SPI_OK_SELECT) > 0)
		{
			replay(entry, changed, revision);
			break;
		}
		/* It was pruned in between. */
		CHECK_FOR_INTERRUPTS();
	}
	end_call(&call);
	return ours;
}

void
verdict_ledger_record(const verdict_ledger_entry *entry, int64 changed, const char *revision)
{
	ledger_call call;
	Datum values[6];
	char nulls[6] = {' ', ' ', ' ', ' ', ' ', ' '};

	begin_call(&call);
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
	run(&call, &record_statement, values, nulls, SPI_OK_UPDATE);
	end_call(&call);
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
	ledger_call call;
	Datum cutoff;
	uint64 removed;

	verdict_require_argument(fcinfo, 0, "retention");
	cutoff = TimestampTzGetDatum(older_than(PG_GETARG_INTERVAL_P(0)));
	begin_call(&call);
	removed = run(&call, &prune_statement, &cutoff, NULL, SPI_OK_DELETE);
	end_call(&call);
	PG_RETURN_INT64((int64) removed);
}
