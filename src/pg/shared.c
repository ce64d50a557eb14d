/*
 * shared.c
 *		The shared memory: its slots, and what backends say and ask there.
 *
 * Invariants
 *	- A server's outbox is taken for empty only when no transaction is between
 *	  verdict_shared_announce() and its end ("committing" is 0) and a look at the
 *	  table that began after the last of them ended has found it empty ("drained"
 *	  has reached "written").  A slot starts as "not known": drained is 0.
 *	- A slot of a server with transactions under way is never given to another.
 *	- "whole" says that "revision" covers every change of this database that was
 *	  answered: an authoritative read has said so, and each answer since was merged.
 *	  Anything that casts doubt on it takes it back.
 */
#include "shared.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "nodes/pg_list.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "shared_slots.h"
#include "wait.h"
#include "worker.h"

#define NAME "verdict"

shared_state *verdict_slots = NULL;

/* What this process has said and must take back. */
static List *announced = NIL; /* slots of servers, in TopTransactionContext */
static bool announced_any = false;
static int waiter = -1;
static Oid waiter_server = InvalidOid;

static shmem_request_hook_type previous_request = NULL;
static shmem_startup_hook_type previous_startup = NULL;

/* Made where it may raise, before it is needed where nothing may. */
static uint32
commit_wait_event(void)
{
	static uint32 event = 0;

	if (event == 0)
		event = verdict_wait_event_new("VerdictCommit");
	return event;
}

uint32
verdict_slot_wait_event(void)
{
	static uint32 event = 0;

	if (event == 0)
		event = verdict_wait_event_new("VerdictScope");
	return event;
}

static void
startup(void)
{
	bool found;

	if (previous_startup != NULL)
		previous_startup();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	verdict_slots = ShmemInitStruct(NAME, sizeof(shared_state), &found);
	if (!found)
	{
		memset(verdict_slots, 0, sizeof(shared_state));
		verdict_slots->lock = &GetNamedLWLockTranche(NAME)->lock;
		for (int i = 0; i < DATABASES; i++)
			ConditionVariableInit(&verdict_slots->databases[i].changed);
	}
	LWLockRelease(AddinShmemInitLock);
}

static void
request(void)
{
	if (previous_request != NULL)
		previous_request();
	RequestAddinShmemSpace(MAXALIGN(sizeof(shared_state)));
	RequestNamedLWLockTranche(NAME, 1);
}

void
verdict_shared_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;
	verdict_request_shared_memory(request, &previous_request);
	previous_startup = shmem_startup_hook;
	shmem_startup_hook = startup;
}

bool
verdict_shared_active(void)
{
	return verdict_slots != NULL;
}

/* ------------------------------------------------------------------ slots */

/* The slot of a database, or -1; under the lock. */
int
verdict_slot_find_database(Oid database)
{
	for (int i = 0; i < DATABASES; i++)
	{
		if (verdict_slots->databases[i].database == database)
			return i;
	}
	return -1;
}

/* A slot that nobody uses, or -1. */
static int
vacant_database(void)
{
	int i = verdict_slot_find_database(InvalidOid);

	for (int candidate = 0; i < 0 && candidate < DATABASES; candidate++)
	{
		const database_slot *slot = &verdict_slots->databases[candidate];

		if (!slot->wanted && slot->deliverer == 0 && slot->away == 0)
			i = candidate;
	}
	return i;
}

/* The slot of a database, made when there is none; -1 when all are in use. */
int
verdict_slot_make_database(Oid database)
{
	int i = verdict_slot_find_database(database);

	if (i < 0 && (i = vacant_database()) >= 0)
	{
		database_slot *slot = &verdict_slots->databases[i];

		slot->database = database;
		slot->wanted = false;
		slot->dismissed = false;
		slot->foreground = false;
		slot->away = 0;
		slot->deliverer = 0;
		slot->latch = NULL;
		slot->kicks = 0;
	}
	return i;
}

int
verdict_slot_find_server(Oid database, Oid server)
{
	for (int i = 0; i < SERVERS; i++)
	{
		if (verdict_slots->names[i].server == server &&
			verdict_slots->names[i].database == database)
			return i;
	}
	return -1;
}

/* A slot that nobody uses: a free one, or one that has to make room; or -1. */
static int
vacant_server(void)
{
	int i = verdict_slot_find_server(InvalidOid, InvalidOid);

	for (int tries = 0; i < 0 && tries < SERVERS; tries++)
	{
		int candidate = verdict_slots->next_victim;

		verdict_slots->next_victim = (candidate + 1) % SERVERS;
		if (verdict_slots->servers[candidate].committing == 0)
			i = candidate;
	}
	return i;
}

static int
make_server(Oid server)
{
	int i = verdict_slot_find_server(MyDatabaseId, server);

	if (i < 0 && (i = vacant_server()) >= 0)
	{
		verdict_slots->names[i].database = MyDatabaseId;
		verdict_slots->names[i].server = server;
		memset(&verdict_slots->servers[i], 0, sizeof(server_slot));
		verdict_slots->servers[i].written = ++verdict_slots->last_written;
	}
	return i;
}

/* Wakes the deliverer of a database, or asks for one; under the lock. */
void
verdict_slot_kick(Oid database)
{
	int i = verdict_slot_make_database(database);
	database_slot *slot;

	if (i < 0)
		return;
	slot = &verdict_slots->databases[i];
	slot->kicks++;
	slot->wanted = true;
	if (slot->deliverer != 0)
		SetLatch(slot->latch);
	else if (verdict_slots->launcher != NULL)
		SetLatch(verdict_slots->launcher);
}

void
verdict_shared_kick(void)
{
	if (verdict_slots == NULL || RecoveryInProgress())
		return;
	LWLockAcquire(verdict_slots->lock, LW_EXCLUSIVE);
	verdict_slot_kick(MyDatabaseId);
	LWLockRelease(verdict_slots->lock);
}

void
verdict_shared_wake(void)
{
	int i;

	if (verdict_slots == NULL || RecoveryInProgress())
		return;
	LWLockAcquire(verdict_slots->lock, LW_EXCLUSIVE);
	i = verdict_slot_find_database(MyDatabaseId);
	if (i >= 0 &&
		(verdict_slots->databases[i].wanted || verdict_slots->databases[i].deliverer != 0))
		verdict_slot_kick(MyDatabaseId);
	LWLockRelease(verdict_slots->lock);
}

/* --------------------------------------------------------------- backends */

void
verdict_shared_announce(Oid server)
{
	MemoryContext caller;
	int slot;

	if (verdict_slots == NULL)
		return;
	announced_any = true;

	caller = MemoryContextSwitchTo(TopTransactionContext);
	/* The room for it first: nothing can fail once it is counted. */
	announced = lappend_int(announced, -1);
	MemoryContextSwitchTo(caller);

	LWLockAcquire(verdict_slots->lock, LW_EXCLUSIVE);
	slot = OidIsValid(server) ? make_server(server) : -1;
	if (slot >= 0 && !list_member_int(announced, slot))
	{
		verdict_slots->servers[slot].committing++;
		verdict_slots->servers[slot].written = ++verdict_slots->last_written;
		llast_int(announced) = slot;
	}
	LWLockRelease(verdict_slots->lock);
	if (llast_int(announced) < 0)
		announced = list_delete_last(announced);
}

void
verdict_shared_expect(uint64 transaction, uint32 batches, Oid server)
{
	if (verdict_slots == NULL || batches == 0)
		return;
	(void) commit_wait_event();
	LWLockAcquire(verdict_slots->lock, LW_EXCLUSIVE);
	for (int i = 0; i < WAITERS && waiter < 0; i++)
	{
		if (verdict_slots->waiters[i].transaction == 0)
			waiter = i;
	}
	if (waiter >= 0)
	{
		waiter_slot *slot = &verdict_slots->waiters[waiter];

		if (slot->transaction == 0)
		{
			slot->left = 0;
			slot->refused = false;
		}
		slot->transaction = transaction;
		slot->database = MyDatabaseId;
		slot->latch = MyLatch;
		slot->left += batches;
		waiter_server = server;
		verdict_slots->waiters_used = Max(verdict_slots->waiters_used, waiter + 1);
	}
	LWLockRelease(verdict_slots->lock);
}

/* Nobody waits any more; under the lock. */
static void
stop_waiting(void)
{
	if (waiter < 0)
		return;
	verdict_slots->waiters[waiter].transaction = 0;
	while (verdict_slots->waiters_used > 0 &&
		   verdict_slots->waiters[verdict_slots->waiters_used - 1].transaction == 0)
		verdict_slots->waiters_used--;
	waiter = -1;
	waiter_server = InvalidOid;
}

void
verdict_shared_end(bool kept)
{
	ListCell *cell;

	if (verdict_slots == NULL || (!announced_any && waiter < 0))
		return;

	LWLockAcquire(verdict_slots->lock, LW_EXCLUSIVE);
	foreach (cell, announced)
		verdict_slots->servers[lfirst_int(cell)].committing--;
	/* After a rollback too: the worker has to see that nothing came. */
	if (announced_any)
		verdict_slot_kick(MyDatabaseId);
	if (!kept)
		stop_waiting();
	LWLockRelease(verdict_slots->lock);

	/* The list's memory goes with TopTransactionContext. */
	announced = NIL;
	announced_any = false;
}

/* Whether something else wants this process back. */
static bool
wanted_elsewhere(void)
{
	return QueryCancelPending || ProcDiePending || ProcSignalBarrierPending;
}

verdict_await_result
verdict_shared_await(int timeout_ms, char *revision)
{
	verdict_await_result result = VERDICT_AWAIT_TIMEOUT;
	int64 until;
	int found;

	revision[0] = '\0';
	if (verdict_slots == NULL || waiter < 0)
		return VERDICT_AWAIT_TIMEOUT;

	until = verdict_now_ms() + timeout_ms;
	for (;;)
	{
		const waiter_slot *slot = &verdict_slots->waiters[waiter];
		long left_ms;

		ResetLatch(MyLatch);
		LWLockAcquire(verdict_slots->lock, LW_SHARED);
		if (slot->refused)
			result = VERDICT_AWAIT_REFUSED;
		else if (slot->left == 0)
			result = VERDICT_AWAIT_ANSWERED;
		LWLockRelease(verdict_slots->lock);

		left_ms = (long) (until - verdict_now_ms());
		if (result != VERDICT_AWAIT_TIMEOUT || left_ms <= 0 || wanted_elsewhere())
			break;
		/* The process must not exit in here; it notices the postmaster's end later. */
		if (WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_POSTMASTER_DEATH, left_ms,
					  commit_wait_event()) &
			WL_POSTMASTER_DEATH)
			break;
	}

	LWLockAcquire(verdict_slots->lock, LW_EXCLUSIVE);
	found = verdict_slot_find_server(MyDatabaseId, waiter_server);
	if (result == VERDICT_AWAIT_ANSWERED && found >= 0)
		verdict_revision_print(&verdict_slots->servers[found].revision, revision);
	stop_waiting();
	LWLockRelease(verdict_slots->lock);

	/* What else had set the latch finds it set. */
	SetLatch(MyLatch);
	return result;
}

/* Takes back what is known of the server's revision; under the lock. */
static void
doubt(server_slot *slot)
{
	slot->whole = false;
	slot->revision.shards = 0;
}

/* "whole": the revision comes from an authoritative read. */
static void
publish(Oid server, const verdict_revision *revision, bool whole)
{
	int i;

	if (verdict_slots == NULL)
		return;
	LWLockAcquire(verdict_slots->lock, LW_EXCLUSIVE);
	i = make_server(server);
	if (i >= 0)
	{
		server_slot *slot = &verdict_slots->servers[i];

		if (revision->shards == 0)
			doubt(slot);
		else if (verdict_revision_merge(&slot->revision, revision) == VERDICT_MERGE_OK)
			slot->whole = slot->whole || whole;
		else if (strcmp(slot->revision.instance, revision->instance) != 0 ||
				 slot->revision.generation <= revision->generation)
		{
			/* Another history: of the one before nothing is asked any more. */
			slot->revision = *revision;
			slot->whole = whole;
		}
	}
	LWLockRelease(verdict_slots->lock);
}

void
verdict_shared_publish(Oid server, const verdict_revision *revision)
{
	publish(server, revision, false);
}

void
verdict_shared_publish_whole(Oid server, const verdict_revision *revision)
{
	publish(server, revision, true);
}

bool
verdict_shared_look(Oid server, verdict_revision *revision)
{
	bool empty = false;
	bool ask = false;
	int i;

	revision->shards = 0;
	if (verdict_slots == NULL)
		return false;
	LWLockAcquire(verdict_slots->lock, LW_SHARED);
	i = verdict_slot_find_server(MyDatabaseId, server);
	if (i >= 0)
	{
		const server_slot *slot = &verdict_slots->servers[i];

		empty = slot->committing == 0 && slot->written == slot->drained;
		ask = !slot->looked;
		if (slot->whole)
			*revision = slot->revision;
	}
	LWLockRelease(verdict_slots->lock);

	/* Nobody has looked yet since the slot was made. */
	if (ask)
		verdict_shared_kick();
	return empty;
}

void
verdict_shared_wait_for_answer(long timeout_ms)
{
	int i;

	Assert(verdict_slots != NULL);
	LWLockAcquire(verdict_slots->lock, LW_EXCLUSIVE);
	i = verdict_slot_make_database(MyDatabaseId);
	LWLockRelease(verdict_slots->lock);
	if (i < 0)
	{
		pg_usleep(Min(timeout_ms, 20) * 1000);
		CHECK_FOR_INTERRUPTS();
	}
	else
		(void) ConditionVariableTimedSleep(&verdict_slots->databases[i].changed, timeout_ms,
										   verdict_slot_wait_event());
}
