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
#include "utils/timestamp.h"

#include "shared.h"
#include "worker.h"

extern PGDLLEXPORT void verdict_launcher_main(Datum argument) pg_attribute_noreturn();

#define AT_ONCE 64			  /* vacancies looked at together */
#define RESTART_MIN_MS 1000	  /* between two starts in one database */
#define RESTART_MAX_MS 60000  /* ... when it never lives long */
#define SOON_MS 2000		  /* a shorter life is short */
#define NO_SLOT_RETRY_MS 5000 /* when max_worker_processes is used up */

typedef struct start_record
{
	Oid database; /* hash key */
	BackgroundWorkerHandle *handle;
	TimestampTz started;
	TimestampTz due;
	int pause_ms; /* to the start after the next */
} start_record;

static HTAB *records = NULL;
static bool told_no_slot = false;

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

		if (database->datallowconn)
			verdict_shared_want(database->oid);
	}
	table_endscan(scan);
	table_close(catalog, AccessShareLock);
	CommitTransactionCommand();
}

static bool
may_connect(Oid database)
{
	HeapTuple tuple;
	bool may = false;

	StartTransactionCommand();
	tuple = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(database));
	if (HeapTupleIsValid(tuple))
	{
		may = ((Form_pg_database) GETSTRUCT(tuple))->datallowconn;
		ReleaseSysCache(tuple);
	}
	CommitTransactionCommand();
	return may;
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
note_end(start_record *record, TimestampTz now)
{
	pfree(record->handle);
	record->handle = NULL;
	if (verdict_shared_was_dismissed(record->database) ||
		TimestampDifferenceExceeds(record->started, now, SOON_MS))
		record->pause_ms = RESTART_MIN_MS;
	record->due = TimestampTzPlusMilliseconds(record->started, record->pause_ms);
	record->pause_ms = Min(record->pause_ms * 2, RESTART_MAX_MS);
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

/* Starts what is due; returns how long until something else is, -1 for nothing. */
static long
start_workers(void)
{
	Oid databases[AT_ONCE];
	int count = verdict_shared_vacancies(databases, AT_ONCE);
	TimestampTz now = GetCurrentTimestamp();
	long next_ms = -1;

	for (int i = 0; i < count; i++)
	{
		start_record *record = record_of(databases[i]);
		pid_t process;
		long left_ms;

		if (record->handle != NULL)
		{
			BgwHandleStatus status = GetBackgroundWorkerPid(record->handle, &process);

			/* Its start and its end are both told by a signal. */
			if (status == BGWH_STARTED || status == BGWH_NOT_YET_STARTED)
				continue;
			note_end(record, now);
		}

		left_ms = record->due > now ? TimestampDifferenceMilliseconds(now, record->due) : 0;
		if (left_ms == 0 && !may_connect(databases[i]))
		{
			verdict_shared_forget_database(databases[i]);
			hash_search(records, &databases[i], HASH_REMOVE, NULL);
			continue;
		}
		if (left_ms == 0 && start_worker(record))
		{
			record->started = now;
			told_no_slot = false;
			continue;
		}
		if (left_ms == 0)
		{
			if (!told_no_slot)
				ereport(WARNING,
						(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
						 errmsg("no background worker slot is left for the outbox of database %u",
								databases[i]),
						 errdetail("Batches of verdict_outbox wait until there is one."),
						 errhint("Increase max_worker_processes.")));
			told_no_slot = true;
			record->due = TimestampTzPlusMilliseconds(now, NO_SLOT_RETRY_MS);
			left_ms = NO_SLOT_RETRY_MS;
		}
		next_ms = next_ms < 0 ? left_ms : Min(next_ms, left_ms);
	}

	/* More than were looked at: soon. */
	if (count == AT_ONCE)
		next_ms = next_ms < 0 ? RESTART_MIN_MS : Min(next_ms, RESTART_MIN_MS);
	return next_ms;
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
