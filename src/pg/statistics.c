/*
 * statistics.c
 *		What became of the calls of each server, and the retry budget of each.
 *
 * Invariants
 *	- A slot belongs to one server of one database.  To whom is changed only under
 *	  the area's lock and the slot's together, so it may be read under either.
 *	- Counters and budget of a slot are touched only under its spinlock; nothing
 *	  that can raise or wait runs under it.
 *	- A slot may be taken away from a server at any time, by a reset or by a server
 *	  that there was no room for: whoever locks a slot looks whose it is.
 *	- Without shared memory the area is this backend's own and its lock is not
 *	  taken; all else is the same.
 */
#include "statistics.h"

#include <time.h>

#include "catalog/pg_type.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "read.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

/*
 * More servers than this are seldom; then the one not called for the longest time
 * is forgotten.
 */
#define SHARED_SLOTS 128
#define OWN_SLOTS 16

#define CODES (VERDICT_UNAUTHENTICATED + 1)
#define SHARED_NAME "verdict statistics"

typedef struct method_counters
{
	int64 calls;
	int64 codes[CODES]; /* by Connect code, success among them */
	int64 attempts;
	int64 sends;
	int64 retries;
	int64 waits_503;
	int64 budget_refusals;
	int64 bytes_sent;
	int64 bytes_received;
	int64 time_us;
	int64 times[VERDICT_TIME_BUCKETS];
} method_counters;

typedef struct server_slot
{
	slock_t lock;
	Oid database; /* InvalidOid in a free slot */
	Oid server;
	char name[NAMEDATALEN];
	int64 used; /* second of the last call */
	verdict_retry_budget budget;
	method_counters methods[VERDICT_METHODS];
} server_slot;

typedef struct statistics_area
{
	TimestampTz reset_at;
	int count;
	server_slot slots[FLEXIBLE_ARRAY_MEMBER];
} statistics_area;

static statistics_area *area = NULL;
static LWLock *area_lock = NULL; /* NULL: the area is this backend's own */

static shmem_request_hook_type previous_request = NULL;
static shmem_startup_hook_type previous_startup = NULL;

PG_FUNCTION_INFO_V1(verdict_sql_stat_calls);
PG_FUNCTION_INFO_V1(verdict_sql_stat_retry_budget);
PG_FUNCTION_INFO_V1(verdict_sql_stat_reset);

/* ---- the area ---- */

static Size
area_size(int count)
{
	return add_size(offsetof(statistics_area, slots), mul_size(count, sizeof(server_slot)));
}

static void
init_area(statistics_area *fresh, int count)
{
	memset(fresh, 0, area_size(count));
	fresh->count = count;
	fresh->reset_at = GetCurrentTimestamp();
	for (int i = 0; i < count; i++)
		SpinLockInit(&fresh->slots[i].lock);
}

static void
request_memory(void)
{
	if (previous_request != NULL)
		previous_request();
	RequestAddinShmemSpace(area_size(SHARED_SLOTS));
	RequestNamedLWLockTranche(SHARED_NAME, 1);
}

static void
start_memory(void)
{
	bool found;

	if (previous_startup != NULL)
		previous_startup();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	area = ShmemInitStruct(SHARED_NAME, area_size(SHARED_SLOTS), &found);
	if (!found)
		init_area(area, SHARED_SLOTS);
	area_lock = &GetNamedLWLockTranche(SHARED_NAME)[0].lock;
	LWLockRelease(AddinShmemInitLock);
}

void
verdict_statistics_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;
	previous_startup = shmem_startup_hook;
	shmem_startup_hook = start_memory;
	verdict_request_shared_memory(request_memory, &previous_request);
}

/* May raise for want of memory. */
static void
need_area(void)
{
	statistics_area *own;

	if (area != NULL)
		return;
	own = MemoryContextAlloc(TopMemoryContext, area_size(OWN_SLOTS));
	init_area(own, OWN_SLOTS);
	area = own;
}

static void
lock_area(LWLockMode mode)
{
	if (area_lock != NULL)
		LWLockAcquire(area_lock, mode);
}

static void
unlock_area(void)
{
	if (area_lock != NULL)
		LWLockRelease(area_lock);
}

/* ---- slots ---- */

static bool
is_slot_of(const server_slot *slot, const verdict_statistics_server *server)
{
	return slot->server == server->server && slot->database == server->database;
}

/* Whether "slot" is the better one to take for another server. */
static bool
is_better(const server_slot *slot, const server_slot *than)
{
	if (!OidIsValid(than->database) || !OidIsValid(slot->database))
		return OidIsValid(than->database);
	return slot->used < than->used;
}

/* The server's slot, or one that is made its own. */
static void
find_slot(verdict_statistics_server *server)
{
	int chosen = 0;

	lock_area(LW_EXCLUSIVE);
	for (int i = 0; i < area->count; i++)
	{
		if (is_slot_of(&area->slots[i], server))
		{
			chosen = i;
			break;
		}
		if (is_better(&area->slots[i], &area->slots[chosen]))
			chosen = i;
	}
	server->slot = chosen;
	if (!is_slot_of(&area->slots[chosen], server))
	{
		server_slot *slot = &area->slots[chosen];

		SpinLockAcquire(&slot->lock);
		slot->database = server->database;
		slot->server = server->server;
		slot->used = (int64) time(NULL);
		verdict_retry_budget_init(&slot->budget);
		memset(slot->methods, 0, sizeof(slot->methods));
		SpinLockRelease(&slot->lock);
	}
	strlcpy(area->slots[chosen].name, server->name, NAMEDATALEN);
	unlock_area();
}

/* The server's slot, locked. */
static server_slot *
lock_slot(verdict_statistics_server *server)
{
	for (;;)
	{
		server_slot *slot = &area->slots[server->slot];

		SpinLockAcquire(&slot->lock);
		if (is_slot_of(slot, server))
			return slot;
		SpinLockRelease(&slot->lock);
		find_slot(server);
	}
}

void
verdict_statistics_open(verdict_statistics_server *server, Oid oid, const char *name)
{
	need_area();
	server->database = MyDatabaseId;
	server->server = oid;
	strlcpy(server->name, name, NAMEDATALEN);
	server->slot = 0;
	find_slot(server);
}

verdict_retry_budget *
verdict_statistics_lock_budget(verdict_statistics_server *server)
{
	return &lock_slot(server)->budget;
}

void
verdict_statistics_unlock_budget(verdict_statistics_server *server)
{
	SpinLockRelease(&area->slots[server->slot].lock);
}

static int
time_bucket(int64 us)
{
	int bucket = us < 64 ? 0 : pg_leftmost_one_pos64((uint64) us) - 5;

	return Min(bucket, VERDICT_TIME_BUCKETS - 1);
}

void
verdict_statistics_count(verdict_statistics_server *server, const verdict_call_report *report)
{
	const verdict_status *status = report->status;
	int bucket = time_bucket(report->duration_us);
	int64 now = (int64) time(NULL);
	server_slot *slot = lock_slot(server);
	method_counters *counters = &slot->methods[report->method];

	slot->used = now;
	counters->calls++;
	counters->codes[status->code]++;
	counters->attempts += status->attempts;
	counters->sends += status->sends;
	counters->retries += report->retries;
	counters->waits_503 += report->waits_503;
	counters->budget_refusals += report->budget_refused ? 1 : 0;
	counters->bytes_sent += report->bytes_sent;
	counters->bytes_received += report->bytes_received;
	counters->time_us += report->duration_us;
	counters->times[bucket]++;
	SpinLockRelease(&slot->lock);
}

/* ---- SQL ---- */

/* Starts the result; "*columns" gets how many columns it has. */
static Tuplestorestate *
begin_result(FunctionCallInfo fcinfo, int columns, TupleDesc *descriptor)
{
	if (get_call_result_type(fcinfo, NULL, descriptor) != TYPEFUNC_COMPOSITE ||
		(*descriptor)->natts != columns)
		elog(ERROR, "unexpected result type of a function of extension \"verdict\"");
	return verdict_begin_set(fcinfo, *descriptor);
}

/* Database, server and its name: the first columns of both views. */
#define KEY_COLUMNS 3

static int
put_key(const server_slot *slot, Datum *values)
{
	values[0] = ObjectIdGetDatum(slot->database);
	values[1] = ObjectIdGetDatum(slot->server);
	values[2] = CStringGetTextDatum(slot->name);
	return KEY_COLUMNS;
}

/* A copy of the slot that is consistent in itself; false for a free one. */
static bool
copy_slot(int index, server_slot *copy)
{
	server_slot *slot = &area->slots[index];

	lock_area(LW_SHARED);
	SpinLockAcquire(&slot->lock);
	memcpy(copy, slot, sizeof(server_slot));
	SpinLockRelease(&slot->lock);
	unlock_area();
	return OidIsValid(copy->database);
}

#define CALL_COLUMNS (KEY_COLUMNS + 3 + (CODES - 1) + 10)

static void
put_method(const server_slot *slot, int method, TimestampTz reset_at, Tuplestorestate *result,
		   TupleDesc descriptor)
{
	const method_counters *counters = &slot->methods[method];
	Datum values[CALL_COLUMNS];
	bool nulls[CALL_COLUMNS] = {false};
	Datum times[VERDICT_TIME_BUCKETS];
	int column = put_key(slot, values);

	for (int i = 0; i < VERDICT_TIME_BUCKETS; i++)
		times[i] = Int64GetDatum(counters->times[i]);

	values[column++] = CStringGetTextDatum(verdict_method_name((verdict_method) method));
	values[column++] = Int64GetDatum(counters->calls);
	values[column++] = Int64GetDatum(counters->calls - counters->codes[VERDICT_OK]);
	for (int code = VERDICT_OK + 1; code < CODES; code++)
		values[column++] = Int64GetDatum(counters->codes[code]);
	values[column++] = Int64GetDatum(counters->attempts);
	values[column++] = Int64GetDatum(counters->sends);
	values[column++] = Int64GetDatum(counters->retries);
	values[column++] = Int64GetDatum(counters->waits_503);
	values[column++] = Int64GetDatum(counters->budget_refusals);
	values[column++] = Int64GetDatum(counters->bytes_sent);
	values[column++] = Int64GetDatum(counters->bytes_received);
	values[column++] = Float8GetDatum((double) counters->time_us / 1000.0);
	values[column++] = PointerGetDatum(construct_array(
		times, VERDICT_TIME_BUCKETS, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
	values[column++] = TimestampTzGetDatum(reset_at);
	Assert(column == CALL_COLUMNS);
	tuplestore_putvalues(result, descriptor, values, nulls);
}

Datum
verdict_sql_stat_calls(PG_FUNCTION_ARGS)
{
	TupleDesc descriptor;
	Tuplestorestate *result = begin_result(fcinfo, CALL_COLUMNS, &descriptor);
	server_slot *slot = palloc(sizeof(server_slot));

	need_area();
	for (int i = 0; i < area->count; i++)
	{
		if (!copy_slot(i, slot))
			continue;
		for (int method = 0; method < VERDICT_METHODS; method++)
		{
			if (slot->methods[method].calls > 0)
				put_method(slot, method, area->reset_at, result, descriptor);
		}
	}
	return (Datum) 0;
}

#define BUDGET_COLUMNS (KEY_COLUMNS + 3)

Datum
verdict_sql_stat_retry_budget(PG_FUNCTION_ARGS)
{
	TupleDesc descriptor;
	Tuplestorestate *result = begin_result(fcinfo, BUDGET_COLUMNS, &descriptor);
	server_slot *slot = palloc(sizeof(server_slot));

	need_area();
	for (int i = 0; i < area->count; i++)
	{
		Datum values[BUDGET_COLUMNS];
		bool nulls[BUDGET_COLUMNS] = {false};
		int column;

		if (!copy_slot(i, slot))
			continue;
		column = put_key(slot, values);
		values[column++] = Float8GetDatum((double) slot->budget.millitokens / 1000.0);
		values[column++] = Int64GetDatum((int64) slot->budget.granted);
		values[column++] = Int64GetDatum((int64) slot->budget.refused);
		Assert(column == BUDGET_COLUMNS);
		tuplestore_putvalues(result, descriptor, values, nulls);
	}
	return (Datum) 0;
}

Datum
verdict_sql_stat_reset(PG_FUNCTION_ARGS)
{
	TimestampTz now = GetCurrentTimestamp();

	(void) fcinfo;
	need_area();
	lock_area(LW_EXCLUSIVE);
	for (int i = 0; i < area->count; i++)
	{
		SpinLockAcquire(&area->slots[i].lock);
		area->slots[i].database = InvalidOid;
		area->slots[i].server = InvalidOid;
		SpinLockRelease(&area->slots[i].lock);
	}
	area->reset_at = now;
	unlock_area();
	PG_RETURN_VOID();
}
