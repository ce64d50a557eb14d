/*
 * launcher.c
 *		The process that starts a worker in each database that wants one.
 *
 * Invariants
 *	- Which databases want one is in shared memory; what is known here is only when
 *	  the next start of each is due, and it may be lost with the process.
 *	- At its start it asks every database, since rows may have waited for longer
 *	  than anybody here remembers; a worker that finds no extension goes away and
 *	  its database is not asked again until somebody queues a row.
 *	- A worker that ends is started again at most once a second, and less often the
 *	  more often it ends soon.
 *	- When there are fewer slots than databases, workers make room for each other, and
 *	  the database whose last worker is longest ago comes first.
 *	- A database that nobody may connect to stays one that wants a worker, and gets it
 *	  when somebody may.
 *	- It holds no transaction while it waits.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "shared.h"
#include "wait.h"
#include "worker.h"

extern PGDLLEXPORT void verdict_launcher_main(Datum argument) pg_attribute_noreturn();

#define AT_ONCE 64			 /* vacancies looked at together */
#define RESTART_MIN_MS 1000	 /* between two starts in one database */
#define RESTART_MAX_MS 60000 /* ... when it never lives long */
#define SOON_MS 2000		 /* a shorter life is short */
#define RETRY_MS 5000		 /* when nothing can be started, by what others have done */
#define TELL_AGAIN_MS 600000 /* of a want of slots */
/*
 * Between two starts, unless the worker before has ended: at the launcher's own start
 * most databases have no work, and other extensions want workers, too.
 */
#define SPACING_MS 50

typedef struct start_record
{
	Oid database; /* hash key */
	BackgroundWorkerHandle *handle;
	int64 started; /* this and all other times: of verdict_now_ms() */
	int64 due;
	int pause_ms; /* to the start after the next */
} start_record;

static HTAB *records = NULL;
static int64 next_start = 0; /* of any worker */
static int64 tell_again = 0; /* of a want of slots */
static bool slot_needed = false;

void
verdict_launcher_register(void)
{
	BackgroundWorker launcher;

	if (!process_shared_preload_libraries_in_progress || IsBinaryUpgrade)
		return;
	memset(&launcher, 0, sizeof(launcher));
	launcher.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	launcher.bgw_start_time = BgWorkerStart_RecoveryFinished;
	launcher.bgw_restart_time = 1;
	strlcpy(launcher.bgw_library_name, "verdict", sizeof(launcher.bgw_library_name));
	strlcpy(launcher.bgw_function_name, "verdict_launcher_main",
			sizeof(launcher.bgw_function_name));
	strlcpy(launcher.bgw_name, "verdict launcher", sizeof(launcher.bgw_name));
	strlcpy(launcher.bgw_type, "verdict launcher", sizeof(launcher.bgw_type));
	RegisterBackgroundWorker(&launcher);
}

typedef enum database_state
{
	DATABASE_GONE,
	DATABASE_CLOSED, /* nobody may connect, a worker neither */
	DATABASE_OPEN
} database_state;

static bool
is_open(Form_pg_database database)
{
	/* A limit below "none" is that of a database whose DROP was interrupted. */
	return database->datallowconn && database->datconnlimit >= -1;
}

/* Asks for a worker in every database that lets anybody connect. */
static void
want_all(void)
{
	Relation catalog;
	TableScanDesc scan;
	HeapTuple tuple;

	StartTransactionCommand();
	(void) GetTransactionSnapshot();
	catalog = table_open(DatabaseRelationId, AccessShareLock);
	scan = table_beginscan_catalog(catalog, 0, NULL);
	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		Form_pg_database database = (Form_pg_database) GETSTRUCT(tuple);

		if (is_open(database))
			verdict_shared_want(database->oid);
	}
	table_endscan(scan);
	table_close(catalog, AccessShareLock);
	CommitTransactionCommand();
}

static database_state
state_of(Oid database)
{
	HeapTuple tuple;
	database_state state = DATABASE_GONE;

	StartTransactionCommand();
	tuple = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(database));
	if (HeapTupleIsValid(tuple))
	{
		state = is_open((Form_pg_database) GETSTRUCT(tuple)) ? DATABASE_OPEN : DATABASE_CLOSED;
		ReleaseSysCache(tuple);
	}
	CommitTransactionCommand();
	return state;
}

static start_record *
record_of(Oid database)
{
	bool found;
	start_record *record = hash_search(records, &database, HASH_ENTER, &found);

	if (!found)
	{
		record->handle = NULL;
		record->started = 0;
		record->due = 0;
		record->pause_ms = RESTART_MIN_MS;
	}
	return record;
}

/* The worker that was started is gone: decides when the next one is due. */
static void
note_end(start_record *record, int64 now)
{
	pfree(record->handle);
	record->handle = NULL;
	if (verdict_shared_was_dismissed(record->database) || now - record->started > SOON_MS)
		record->pause_ms = RESTART_MIN_MS;
	record->due = record->started + record->pause_ms;
	record->pause_ms = Min(record->pause_ms * 2, RESTART_MAX_MS);
	next_start = now;
}

/* Both the start of a worker and its end are told by a signal. */
static void
note_ends(int64 now)
{
	start_record *record;
	HASH_SEQ_STATUS scan;
	pid_t process;

	hash_seq_init(&scan, records);
	while ((record = hash_seq_search(&scan)) != NULL)
	{
		if (record->handle != NULL &&
			GetBackgroundWorkerPid(record->handle, &process) == BGWH_STOPPED)
			note_end(record, now);
	}
}

static bool
start_worker(start_record *record)
{
	BackgroundWorker worker;

	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	strlcpy(worker.bgw_library_name, "verdict", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "verdict_worker_main", sizeof(worker.bgw_function_name));
	snprintf(worker.bgw_name, sizeof(worker.bgw_name), "verdict worker for database %u",
			 record->database);
	strlcpy(worker.bgw_type, "verdict worker", sizeof(worker.bgw_type));
	worker.bgw_main_arg = ObjectIdGetDatum(record->database);
	worker.bgw_notify_pid = MyProcPid;
	return RegisterDynamicBackgroundWorker(&worker, &record->handle);
}

/* There was no slot for a worker. */
static void
want_slot(Oid database, int64 now)
{
	if (now >= tell_again)
	{
		tell_again = now + TELL_AGAIN_MS;
		ereport(
			WARNING,
			(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
			 errmsg("no background worker slot is left for the outbox of database %u", database),
			 errdetail("Its batches wait until the worker of another database makes room."),
			 errhint("Increase max_worker_processes.")));
	}
	verdict_shared_need_slot(true);
	slot_needed = true;
	next_start = now + RETRY_MS;
}

/*
 * Starts the worker of a record that is due; returns when to try again, or PG_INT64_MAX
 * when its database wants none any more or has one.
 */
static int64
start_due(start_record *record, int64 now)
{
	Oid database = record->database;

	switch (state_of(database))
	{
		case DATABASE_GONE:
			verdict_shared_forget_database(database);
			hash_search(records, &database, HASH_REMOVE, NULL);
			return PG_INT64_MAX;
		case DATABASE_CLOSED:
			record->due = now + RETRY_MS;
			return record->due;
		case DATABASE_OPEN:
			break;
	}
	if (!start_worker(record))
	{
		want_slot(database, now);
		return next_start;
	}
	record->started = now;
	next_start = now + SPACING_MS;
	if (slot_needed)
		verdict_shared_need_slot(false);
	slot_needed = false;
	return PG_INT64_MAX;
}

/*
 * Starts what is due longest, by when its last worker began; returns how long until
 * something else is, -1 for nothing.
 */
static long
start_workers(void)
{
	Oid databases[AT_ONCE];
	int count = verdict_shared_vacancies(databases, AT_ONCE);
	int64 now = verdict_now_ms();
	int64 next = PG_INT64_MAX;
	start_record *first = NULL;

	note_ends(now);
	for (int i = 0; i < count; i++)
	{
		start_record *record = record_of(databases[i]);
		int64 due = Max(record->due, next_start);

		if (record->handle != NULL)
			continue;
		if (due > now)
			next = Min(next, due);
		else if (first == NULL)
			first = record;
		else
		{
			if (record->started < first->started)
				first = record;
			next = now;
		}
	}
	if (first != NULL)
		next = Min(next, start_due(first, now));

	/* More than were looked at: soon. */
	if (count == AT_ONCE)
		next = Min(next, now + RESTART_MIN_MS);
	return next == PG_INT64_MAX ? -1 : (long) Max(Max(next, next_start) - now, 0);
}

void
verdict_launcher_main(Datum argument)
{
	HASHCTL control = {
		.keysize = sizeof(Oid),
		.entrysize = sizeof(start_record),
	};
	uint32 event;

	(void) argument;
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	pgstat_report_activity(STATE_IDLE, NULL);

	records = hash_create("verdict workers", 16, &control, HASH_ELEM | HASH_BLOBS);
	event = verdict_wait_event_new("VerdictLauncher");
	verdict_shared_launcher_begin();
	want_all();

	for (;;)
	{
		long wait_ms;

		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		wait_ms = start_workers();
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_EXIT_ON_PM_DEATH | (wait_ms >= 0 ? WL_TIMEOUT : 0),
						 wait_ms, event);
	}
}
