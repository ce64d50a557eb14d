/*
 * scope.c
 *		verdict.session_scope = database.
 *
 * Invariants
 *	- A session's scope has begun only when it has observed a revision that covers
 *	  every change this database had committed before the snapshot of the statement
 *	  that read first.  Until then each of its reads tries again.
 *	- When in doubt it waits, and in the end it fails: a batch that was refused, or
 *	  whose server nobody knows, is one that has no answer.
 *	- Where this transaction's own batches stand in the outbox already, nobody waits
 *	  for them: they leave with its commit.
 *	- No lock is held on the outbox while it waits.
 */
#include "scope.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "error.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "shared.h"
#include "statement.h"
#include "storage/condition_variable.h"
#include "storage/latch.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/xid8.h"
#include "wait.h"

/* How often the table is looked at when nobody tells, and when somebody does. */
#define POLL_MS 20
#define TOLD_POLL_MS 500

/* The columns of a row that matter here. */
typedef struct outbox_columns
{
	AttrNumber id;
	AttrNumber server;
	AttrNumber transaction;
	AttrNumber system_identifier;
	AttrNumber database;
	AttrNumber parked_at;
} outbox_columns;

typedef enum row_kind
{
	ROW_OTHERS, /* no reason to wait */
	ROW_PENDING,
	ROW_PARKED
} row_kind;

static AttrNumber
column(Relation table, const char *name)
{
	AttrNumber number = get_attnum(RelationGetRelid(table), name);

	if (number == InvalidAttrNumber)
		elog(ERROR, "verdict_outbox has no column %s", name);
	return number;
}

static Relation
open_outbox(outbox_columns *columns)
{
	Oid oid = verdict_extension_relation("verdict_outbox");
	Relation table = OidIsValid(oid) ? try_relation_open(oid, AccessShareLock) : NULL;

	if (table == NULL)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("extension \"verdict\" is not installed in this database"),
						errhint("Run CREATE EXTENSION verdict.")));
	columns->id = column(table, "id");
	columns->server = column(table, "server");
	columns->transaction = column(table, "transaction");
	columns->system_identifier = column(table, "system_identifier");
	columns->database = column(table, "database");
	columns->parked_at = column(table, "parked_at");
	return table;
}

static Datum
value_of(HeapTuple tuple, Relation table, AttrNumber number)
{
	bool null;
	Datum value = heap_getattr(tuple, number, RelationGetDescr(table), &null);

	if (null)
		elog(ERROR, "column %d of verdict_outbox is null", number);
	return value;
}

static bool
is_own_transaction(FullTransactionId transaction)
{
	FullTransactionId own = GetTopFullTransactionIdIfAny();

	return FullTransactionIdIsValid(own) && FullTransactionIdEquals(own, transaction);
}

/*
 * A row whose server nobody knows counts for every server: it may have been renamed
 * since.
 */
static row_kind
kind_of(HeapTuple tuple, Relation table, const outbox_columns *columns, const char *server)
{
	char *name;
	bool ours;

	if (DatumGetInt64(value_of(tuple, table, columns->system_identifier)) !=
			(int64) GetSystemIdentifier() ||
		DatumGetObjectId(value_of(tuple, table, columns->database)) != MyDatabaseId ||
		is_own_transaction(DatumGetFullTransactionId(value_of(tuple, table, columns->transaction))))
		return ROW_OTHERS;

	name = TextDatumGetCString(value_of(tuple, table, columns->server));
	ours = strcmp(name, server) == 0 || GetForeignServerByName(name, true) == NULL;
	pfree(name);
	if (!ours)
		return ROW_OTHERS;
	return heap_attisnull(tuple, columns->parked_at, RelationGetDescr(table)) ? ROW_PENDING
																			  : ROW_PARKED;
}

/*
 * Goes through the outbox in the order of its ids, or against it, up to the first
 * row that is a reason to wait; a NULL snapshot is one of now.  False when there is
 * none with an id up to "limit".
 */
static bool
find_row(const char *server, ScanDirection direction, Snapshot snapshot, int64 limit, int64 *id,
		 row_kind *kind)
{
	outbox_columns columns;
	Relation table = open_outbox(&columns);
	Relation index = index_open(verdict_primary_key(table), AccessShareLock);
	SysScanDesc scan = systable_beginscan_ordered(table, index, snapshot, 0, NULL);
	HeapTuple tuple;
	bool found = false;

	while (!found && (tuple = systable_getnext_ordered(scan, direction)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		*id = DatumGetInt64(value_of(tuple, table, columns.id));
		if (*id > limit && ScanDirectionIsForward(direction))
			break;
		*kind = kind_of(tuple, table, &columns, server);
		found = *kind != ROW_OTHERS;
	}
	systable_endscan_ordered(scan);
	index_close(index, AccessShareLock);
	relation_close(table, AccessShareLock);
	return found;
}

static void
wait_a_moment(bool told, long left_ms)
{
	static uint32 event = 0;

	if (told)
	{
		verdict_shared_wait_for_answer(Min(left_ms, TOLD_POLL_MS));
		return;
	}
	if (event == 0)
		event = verdict_wait_event_new("VerdictScope");
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 Min(left_ms, POLL_MS), event);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

static void
wait_for_answers(const char *server, int64 until)
{
	bool told = verdict_shared_active() && !RecoveryInProgress();
	Snapshot snapshot = ActiveSnapshotSet() ? GetActiveSnapshot() : NULL;
	int64 last;
	int64 id;
	row_kind kind;

	/* The last row that the statement's snapshot sees, and all before it. */
	if (!find_row(server, BackwardScanDirection, snapshot, 0, &last, &kind))
		return;
	while (find_row(server, ForwardScanDirection, NULL, last, &id, &kind))
	{
		long left_ms = (long) (until - verdict_now_ms());

		if (kind == ROW_PARKED)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("batch %lld of verdict_outbox was committed but refused by server "
							"\"%s\"",
							(long long) id, server),
					 errdetail("With verdict.session_scope = database nothing is read that does "
							   "not have everything this database has committed."),
					 errhint("Send it again with verdict_outbox_resend(), or give it up with "
							 "verdict_outbox_drop().")));
		if (left_ms <= 0)
			ereport(
				ERROR,
				(errcode(ERRCODE_CONNECTION_EXCEPTION),
				 errmsg("changes that this database has committed for server \"%s\" were not "
						"answered in time",
						server),
				 errdetail("The first of them is batch %lld of verdict_outbox.", (long long) id),
				 verdict_shared_active()
					 ? errhint("verdict_outbox_status tells what it waits for.")
					 : errhint("No worker delivers them: add verdict to "
							   "shared_preload_libraries, or run CALL verdict_deliver().")));
		wait_a_moment(told, left_ms);
	}
	if (told)
		ConditionVariableCancelSleep();
}

/* False when the session cannot take the revision: it is of another history. */
static bool
observe(verdict_session *session, const verdict_revision *revision)
{
	char text[VERDICT_REVISION_MAX_TEXT + 1];
	verdict_status status;

	verdict_status_init(&status);
	return verdict_revision_print(revision, text) > 0 &&
		   verdict_session_observe(session, text, &status);
}

void
verdict_scope_begin(verdict_transaction_server *entry, const verdict_server *server,
					verdict_read *read)
{
	int limit_ms = verdict_client_read_timeout_ms(server->client);
	int64 until;
	verdict_revision revision;

	read->scope = NULL;
	if (verdict_setting_session_scope != VERDICT_SCOPE_DATABASE ||
		entry->scope == VERDICT_SCOPE_BEGUN)
		return;
	read->scope = entry;
	read->scope_server = server->oid;

	if (RecoveryInProgress() || !verdict_shared_look(server->oid, &revision))
	{
		until = verdict_now_ms() + limit_ms;
		wait_for_answers(entry->name, until);
		read->options.deadline_ms = Max(1, (int) (until - verdict_now_ms()));
		(void) verdict_shared_look(server->oid, &revision);
	}

	/* On a standby nobody tells what the primary's changes were answered with. */
	if (!RecoveryInProgress() && revision.shards > 0 && observe(read->session, &revision))
		entry->scope = VERDICT_SCOPE_BEGUN;
	else
	{
		entry->scope = VERDICT_SCOPE_ASKING;
		read->options.consistency = VERDICT_CONSISTENCY_AUTHORITATIVE;
	}
}

void
verdict_scope_end(verdict_read *read, const verdict_status *status)
{
	static const verdict_revision unknown;

	if (read->scope == NULL)
		return;
	if (status->code == VERDICT_OK && read->scope->scope == VERDICT_SCOPE_ASKING)
	{
		if (!RecoveryInProgress())
			verdict_shared_publish_whole(read->scope_server, &read->session->observed);
		read->scope->scope = VERDICT_SCOPE_BEGUN;
	}
	/* Perhaps the instance has another history now: the next session is to ask. */
	else if (status->code == VERDICT_FAILED_PRECONDITION &&
			 read->scope->scope == VERDICT_SCOPE_BEGUN)
		verdict_shared_publish_whole(read->scope_server, &unknown);
}
