/*
 * manage.c
 *		The outbox in the hands of people: delivering without a worker, and what
 *		becomes of rows that are not sent by themselves.
 *
 * Invariants
 *	- At most one delivers in a database: with shared memory its deliverer's post says
 *	  who, else a lock that no user can take.
 *	- The procedure is connected to SPI as one that may end transactions, and gives
 *	  post and lock back however it ends.
 *	- Only a row that nobody sends can be sent again or dropped: one that is parked, or
 *	  one of another origin.
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "storage/condition_variable.h"
#include "storage/lock.h"
#include "utils/builtins.h"
#include "utils/xid8.h"

#include "pause.h"
#include "server.h"
#include "shared.h"
#include "statement.h"
#include "transaction.h"
#include "worker.h"

PG_FUNCTION_INFO_V1(verdict_sql_deliver);
PG_FUNCTION_INFO_V1(verdict_sql_outbox_resend);
PG_FUNCTION_INFO_V1(verdict_sql_outbox_drop);

#define TABLE "verdict_outbox"
#define ANSWER_POLL_MS 100

/* Advisory locks of users are of the classes 1 and 2. */
#define DELIVERY_LOCK_CLASS 3

static verdict_statement pending_statement = {
	.text = "SELECT pg_catalog.count(*), pg_catalog.max(id) FROM %1$s.verdict_outbox "
			"WHERE parked_at IS NULL AND system_identifier OPERATOR(pg_catalog.=) $1 "
			"AND database OPERATOR(pg_catalog.=) $2 AND id OPERATOR(pg_catalog.<=) $3",
	.parameters = 3,
	.types = {INT8OID, OIDOID, INT8OID}};

/* A row that nobody sends, locked. */
static verdict_statement stuck_statement = {
	.text = "SELECT server, parked_at IS NOT NULL OR system_identifier OPERATOR(pg_catalog.<>) $2 "
			"OR database OPERATOR(pg_catalog.<>) $3 FROM %1$s.verdict_outbox "
			"WHERE id OPERATOR(pg_catalog.=) $1 FOR UPDATE",
	.parameters = 3,
	.types = {INT8OID, INT8OID, OIDOID}};

static verdict_statement resend_statement = {
	.text = "UPDATE %1$s.verdict_outbox SET parked_at = NULL, attempts = 0, error_code = NULL, "
			"error_message = NULL, system_identifier = $2, database = $3, transaction = $4 "
			"WHERE id OPERATOR(pg_catalog.=) $1",
	.parameters = 4,
	.types = {INT8OID, INT8OID, OIDOID, XID8OID}};

/* What was never done must not stand in the ledger as done. */
static verdict_statement unclaim_statement = {
	.text = "DELETE FROM %1$s.verdict_ledger AS ledger USING %1$s.verdict_outbox AS outbox "
			"WHERE outbox.id OPERATOR(pg_catalog.=) $1 "
			"AND outbox.ledger_key OPERATOR(pg_catalog.=) ledger.key "
			"AND outbox.server OPERATOR(pg_catalog.=) ledger.server "
			"AND outbox.role OPERATOR(pg_catalog.=) ledger.caller "
			"AND outbox.method OPERATOR(pg_catalog.=) ledger.method",
	.parameters = 1,
	.types = {INT8OID}};

static verdict_statement drop_statement = {
	.text = "DELETE FROM %1$s.verdict_outbox WHERE id OPERATOR(pg_catalog.=) $1",
	.parameters = 1,
	.types = {INT8OID}};

/* ------------------------------------------------------------- delivering */

static void
delivery_lock(LOCKTAG *tag)
{
	SET_LOCKTAG_ADVISORY(*tag, MyDatabaseId, 0, 0, DELIVERY_LOCK_CLASS);
}

/* Becomes the one who delivers here; false when another is. */
static bool
take_over(void)
{
	LOCKTAG tag;

	if (verdict_shared_active())
		return verdict_shared_deliverer_begin(MyDatabaseId, true);
	delivery_lock(&tag);
	return LockAcquire(&tag, ExclusiveLock, true, true) != LOCKACQUIRE_NOT_AVAIL;
}

static void
give_back(void)
{
	LOCKTAG tag;

	verdict_server_hold(false);
	if (verdict_shared_active())
		verdict_shared_deliverer_end();
	else
	{
		delivery_lock(&tag);
		(void) LockRelease(&tag, ExclusiveLock, true);
	}
}

/* Batches that are to be sent, with ids up to *last, which is then the largest. */
static int64
count_pending(int64 *last)
{
	verdict_statement_call call;
	Datum values[3];
	int64 count;
	bool null;

	verdict_statement_begin(&call, TABLE);
	values[0] = Int64GetDatum((int64) GetSystemIdentifier());
	values[1] = ObjectIdGetDatum(MyDatabaseId);
	values[2] = Int64GetDatum(*last);
	verdict_statement_run(&call, &pending_statement, values, NULL, SPI_OK_SELECT);
	count = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &null));
	if (count > 0)
		*last =
			DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 2, &null));
	verdict_statement_end(&call);
	return count;
}

/* Sends everything that can be sent; returns how many batches were answered. */
static int64
deliver_all(void)
{
	int64 delivered = 0;
	verdict_round round;

	/* What failed a while ago is tried at once by one who asks now. */
	verdict_pauses_reset();
	do
	{
		verdict_deliver_round(false, &round);
		delivered += (int64) round.delivered;
	} while (round.more);
	return delivered;
}

static int64
deliver_here(void)
{
	volatile int64 delivered = 0;

	PG_TRY();
	{
		delivered = deliver_all();
	}
	PG_CATCH();
	{
		give_back();
		PG_RE_THROW();
	}
	PG_END_TRY();
	give_back();
	return delivered;
}

/*
 * Waits until the worker has answered what is pending now; if it goes away, takes
 * its place.
 */
static int64
deliver(void)
{
	int64 last = PG_INT64_MAX;
	int64 before;

	if (take_over())
		return deliver_here();
	if (!verdict_shared_active())
		ereport(ERROR, (errcode(ERRCODE_OBJECT_IN_USE),
						errmsg("another session delivers the outbox of this database")));

	before = count_pending(&last);
	verdict_shared_kick();
	for (int64 left = before; left > 0; left = count_pending(&last))
	{
		/* No snapshot and no lock while it waits. */
		SPI_commit();
		if (take_over())
			return before - left + deliver_here();
		verdict_shared_wait_for_answer(ANSWER_POLL_MS);
	}
	ConditionVariableCancelSleep();
	return before;
}

Datum
verdict_sql_deliver(PG_FUNCTION_ARGS)
{
	int64 delivered;

	if (fcinfo->context == NULL || !IsA(fcinfo->context, CallContext) ||
		((CallContext *) fcinfo->context)->atomic)
		ereport(ERROR, (errcode(ERRCODE_INVALID_TRANSACTION_TERMINATION),
						errmsg("verdict_deliver() cannot run inside a transaction block"),
						errdetail("It commits after each batch.")));
	PreventCommandDuringRecovery("CALL verdict_deliver()");
	if (SPI_connect_ext(SPI_OPT_NONATOMIC) != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	delivered = deliver();
	SPI_finish();
	ereport(NOTICE, (errmsg_plural("%lld batch was delivered", "%lld batches were delivered",
								   (unsigned long) delivered, (long long) delivered)));
	PG_RETURN_VOID();
}

/* ------------------------------------------------- rows that nobody sends */

/* The end of the transaction wakes the worker, and nobody takes the outbox for empty
 * before that. */
static void
announce(const char *name)
{
	ForeignServer *server = GetForeignServerByName(name, true);

	/* Without a level that end would not be told. */
	verdict_transaction_enter_level();
	verdict_shared_announce(server == NULL ? InvalidOid : server->serverid);
}

/* Locks the row; raises unless it is one that nobody sends. */
static void
lock_stuck(const verdict_statement_call *call, int64 id, char **server)
{
	Datum values[3];
	bool null;

	values[0] = Int64GetDatum(id);
	values[1] = Int64GetDatum((int64) GetSystemIdentifier());
	values[2] = ObjectIdGetDatum(MyDatabaseId);
	if (verdict_statement_run(call, &stuck_statement, values, NULL, SPI_OK_SELECT) == 0)
		ereport(ERROR, (errcode(ERRCODE_NO_DATA_FOUND),
						errmsg("verdict_outbox has no batch %lld", (long long) id)));
	if (!DatumGetBool(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 2, &null)))
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("batch %lld of verdict_outbox waits for its answer", (long long) id),
						errdetail("It is sent until it is answered.")));
	*server = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);
}

Datum
verdict_sql_outbox_resend(PG_FUNCTION_ARGS)
{
	int64 id = PG_GETARG_INT64(0);
	verdict_statement_call call;
	Datum values[4];
	char *name;

	verdict_statement_begin(&call, TABLE);
	lock_stuck(&call, id, &name);
	announce(name);
	values[0] = Int64GetDatum(id);
	values[1] = Int64GetDatum((int64) GetSystemIdentifier());
	values[2] = ObjectIdGetDatum(MyDatabaseId);
	values[3] = FullTransactionIdGetDatum(GetTopFullTransactionId());
	verdict_statement_run(&call, &resend_statement, values, NULL, SPI_OK_UPDATE);
	verdict_statement_end(&call);
	PG_RETURN_VOID();
}

Datum
verdict_sql_outbox_drop(PG_FUNCTION_ARGS)
{
	int64 id = PG_GETARG_INT64(0);
	verdict_statement_call call;
	Datum values[1];
	char *name;

	verdict_statement_begin(&call, TABLE);
	lock_stuck(&call, id, &name);
	announce(name);
	values[0] = Int64GetDatum(id);
	verdict_statement_run(&call, &unclaim_statement, values, NULL, SPI_OK_DELETE);
	verdict_statement_run(&call, &drop_statement, values, NULL, SPI_OK_DELETE);
	verdict_statement_end(&call);
	PG_RETURN_VOID();
}
