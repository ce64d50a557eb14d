/*
 * reconcile_progress.c
 *		How far each call of verdict_reconcile_facts() is, for everyone to see.
 *
 * A place is written by the process that has taken it and by nobody else; its lock
 * is held for a copy of a few words.  A call that finds no place goes on unseen.
 */
#include "reconcile_progress.h"

#include "catalog/pg_authid.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "postmaster/postmaster.h"
#include "read.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/acl.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(verdict_sql_progress_reconcile);

/* The columns of verdict_progress_reconcile(). */
enum
{
	COLUMN_PID,
	COLUMN_DATABASE,
	COLUMN_SERVER,
	COLUMN_PREDICATE,
	COLUMN_PHASE,
	COLUMN_FACTS,
	COLUMN_ROWS,
	COLUMN_DIFFERENCES,
	COLUMN_REPAIRED,
	COLUMN_BATCHES,
	COLUMN_BATCHES_SENT,
	COLUMNS
};

static const char *const phases[] = {
	[VERDICT_RECONCILE_LISTING] = "listing facts",
	[VERDICT_RECONCILE_QUERYING] = "running the query",
	[VERDICT_RECONCILE_COMPARING] = "comparing",
	[VERDICT_RECONCILE_REPAIRING] = "repairing",
};

typedef struct place_content
{
	int pid; /* 0: the place is free */
	Oid database;
	Oid role;
	Oid server;
	char predicate[NAMEDATALEN]; /* its beginning */
	verdict_reconcile_progress progress;
} place_content;

typedef struct shared_place
{
	slock_t lock;
	place_content content;
} shared_place;

static shared_place *places = NULL;

static shmem_request_hook_type previous_request = NULL;
static shmem_startup_hook_type previous_startup = NULL;

/* Whoever can run a statement may take a place. */
static int
place_count(void)
{
	return MaxConnections + max_worker_processes;
}

static Size
places_size(void)
{
	return mul_size(place_count(), sizeof(shared_place));
}

static void
request(void)
{
	if (previous_request != NULL)
		previous_request();
	RequestAddinShmemSpace(places_size());
}

static void
startup(void)
{
	bool found;

	if (previous_startup != NULL)
		previous_startup();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	places = ShmemInitStruct("verdict_progress_reconcile", places_size(), &found);
	if (!found)
	{
		memset(places, 0, places_size());
		for (int i = 0; i < place_count(); i++)
			SpinLockInit(&places[i].lock);
	}
	LWLockRelease(AddinShmemInitLock);
}

void
verdict_reconcile_progress_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;
	verdict_request_shared_memory(request, &previous_request);
	previous_startup = shmem_startup_hook;
	shmem_startup_hook = startup;
}

/* Puts the content into the place if that is free. */
static bool
take(shared_place *place, const place_content *content)
{
	bool was_free;

	SpinLockAcquire(&place->lock);
	was_free = place->content.pid == 0;
	if (was_free)
		place->content = *content;
	SpinLockRelease(&place->lock);
	return was_free;
}

int
verdict_reconcile_progress_start(Oid server, const char *predicate)
{
	place_content content = {
		.pid = MyProcPid, .database = MyDatabaseId, .role = GetUserId(), .server = server};

	if (places == NULL)
		return -1;
	strlcpy(content.predicate, predicate, sizeof(content.predicate));
	for (int i = 0; i < place_count(); i++)
	{
		if (take(&places[i], &content))
			return i;
	}
	return -1;
}

void
verdict_reconcile_progress_report(int place, const verdict_reconcile_progress *progress)
{
	if (place < 0)
		return;
	SpinLockAcquire(&places[place].lock);
	places[place].content.progress = *progress;
	SpinLockRelease(&places[place].lock);
}

void
verdict_reconcile_progress_end(int place)
{
	if (place < 0)
		return;
	SpinLockAcquire(&places[place].lock);
	places[place].content.pid = 0;
	SpinLockRelease(&places[place].lock);
}

static void
put_place(Tuplestorestate *result, TupleDesc descriptor, const place_content *content)
{
	const verdict_reconcile_progress *progress = &content->progress;
	Datum values[COLUMNS] = {0};
	bool nulls[COLUMNS];

	values[COLUMN_PID] = Int32GetDatum(content->pid);
	values[COLUMN_DATABASE] = ObjectIdGetDatum(content->database);
	memset(nulls, true, sizeof(nulls));
	nulls[COLUMN_PID] = false;
	nulls[COLUMN_DATABASE] = false;
	if (has_privs_of_role(GetUserId(), content->role) ||
		has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS))
	{
		memset(nulls, false, sizeof(nulls));
		values[COLUMN_SERVER] = ObjectIdGetDatum(content->server);
		values[COLUMN_PREDICATE] = CStringGetTextDatum(content->predicate);
		values[COLUMN_PHASE] = CStringGetTextDatum(phases[progress->phase]);
		values[COLUMN_FACTS] = Int64GetDatum(progress->facts);
		values[COLUMN_ROWS] = Int64GetDatum(progress->rows);
		values[COLUMN_DIFFERENCES] = Int64GetDatum(progress->differences);
		values[COLUMN_REPAIRED] = Int64GetDatum(progress->repaired);
		values[COLUMN_BATCHES] = Int64GetDatum(progress->batches);
		values[COLUMN_BATCHES_SENT] = Int64GetDatum(progress->batches_sent);
	}
	tuplestore_putvalues(result, descriptor, values, nulls);
}

Datum
verdict_sql_progress_reconcile(PG_FUNCTION_ARGS)
{
	TupleDesc descriptor;
	Tuplestorestate *result;

	if (get_call_result_type(fcinfo, NULL, &descriptor) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	result = verdict_begin_set(fcinfo, descriptor);
	for (int i = 0; places != NULL && i < place_count(); i++)
	{
		place_content content;

		SpinLockAcquire(&places[i].lock);
		content = places[i].content;
		SpinLockRelease(&places[i].lock);
		if (content.pid != 0)
			put_place(result, descriptor, &content);
	}
	PG_RETURN_NULL();
}
