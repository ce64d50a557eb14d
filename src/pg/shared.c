/*
 * shared.c
 *		Shared memory of backends, workers and launcher.
 *
 * Invariants
 *	- Everything in it is read and written under one LWLock, for a moment: nothing
 *	  waits, allocates or raises while it is held.
 *	- A server's outbox is taken for empty only when no transaction is between
 *	  verdict_shared_announce() and its end ("committing" is 0) and a look at the
 *	  table that began after the last of them ended has found it empty ("drained"
 *	  has reached "written").  A slot starts as "not known": drained is 0.
 *	- A slot of a server with transactions under way is never given to another.
 *	- "whole" says that "revision" covers every change of this database that was
 *	  answered: an authoritative read has said so, and each answer since was merged.
 *	  Anything that casts doubt on it takes it back.
 *	- Who gets the post of a database's deliverer gives it back when it exits.
 */
#include "shared.h"

#include <signal.h>

#include "access/xact.h"
#include "miscadmin.h"
#include "nodes/pg_list.h"
#include "storage/condition_variable.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"
#include "worker.h"

#define NAME "verdict"

/* A database that does not find a slot has no worker; a server that does not
 * counts as not known; a transaction that does not waits for nobody. */
#define DATABASES 512
#define SERVERS 256
#define WAITERS 1024

/* How long a command waits for a worker to end, before it goes its own way. */
#define KEEP_AWAY_MS 10000

typedef struct database_slot
{
	Oid database;	/* InvalidOid: free */
	bool wanted;	/* a worker is to run here */
	bool dismissed; /* the last one had nothing to work for */
	bool foreground;
	int away;		 /* commands that keep workers away */
	pid_t deliverer; /* 0: none */
	Latch *latch;	 /* the deliverer's */
	uint64 kicks;	 /* grows when there is something new to look for */
	ConditionVariable changed;
} database_slot;

/* Apart from the slots, so that a search passes over little memory. */
typedef struct server_name
{
	Oid database;
	Oid server; /* InvalidOid: free */
} server_name;

typedef struct server_slot
{
	uint32 committing;
	uint64 written;
	uint64 drained;
	bool whole;
	verdict_revision revision;
} server_slot;

typedef struct waiter_slot
{
	uint64 transaction; /* 0: free */
	Oid database;
	uint32 left; /* rows without an answer */
	bool refused;
	Latch *latch;
} waiter_slot;

typedef struct shared_state
{
	LWLock *lock;
	Latch *launcher;
	uint64 last_written; /* of any server, so that no position comes twice */
	int next_victim;	 /* where the search for a server slot to reuse begins */
	int waiters_used;	 /* no waiter stands at or behind it */
	database_slot databases[DATABASES];
	server_name names[SERVERS];
	server_slot servers[SERVERS];
	waiter_slot waiters[WAITERS];
} shared_state;

static shared_state *shared = NULL;

/* What this process has said and must take back. */
static List *announced = NIL; /* slots of servers, in TopTransactionContext */
static bool announced_any = false;
static int waiter = -1;
static Oid waiter_server = InvalidOid;
static int post = -1; /* the database whose deliverer this process is */
static Oid kept_away = InvalidOid;

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

static uint32
scope_wait_event(void)
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
	shared = ShmemInitStruct(NAME, sizeof(shared_state), &found);
	if (!found)
	{
		memset(shared, 0, sizeof(shared_state));
		shared->lock = &GetNamedLWLockTranche(NAME)->lock;
		for (int i = 0; i < DATABASES; i++)
			ConditionVariableInit(&shared->databases[i].changed);
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
	return shared != NULL;
}

/* ------------------------------------------------------------------ slots */

/* The slot of a database, or -1; under the lock. */
static int
find_database(Oid database)
{
	for (int i = 0; i < DATABASES; i++)
	{
		if (shared->databases[i].database == database)
			return i;
	}
	return -1;
}

/* A slot that nobody uses, or -1. */
static int
vacant_database(void)
{
	int i = find_database(InvalidOid);

	for (int candidate = 0; i < 0 && candidate < DATABASES; candidate++)
	{
		const database_slot *slot = &shared->databases[candidate];

		if (!slot->wanted && slot->deliverer == 0 && slot->away == 0)
			i = candidate;
	}
	return i;
}

/* The slot of a database, made when there is none; -1 when all are in use. */
static int
make_database(Oid database)
{
	int i = find_database(database);

	if (i < 0 && (i = vacant_database()) >= 0)
	{
		database_slot *slot = &shared->databases[i];

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

static int
find_server(Oid database, Oid server)
{
	for (int i = 0; i < SERVERS; i++)
	{
		if (shared->names[i].server == server && shared->names[i].database == database)
			return i;
	}
	return -1;
}

/* A slot that nobody uses: a free one, or one that has to make room; or -1. */
static int
vacant_server(void)
{
	int i = find_server(InvalidOid, InvalidOid);

	for (int tries = 0; i < 0 && tries < SERVERS; tries++)
	{
		int candidate = shared->next_victim;

		shared->next_victim = (candidate + 1) % SERVERS;
		if (shared->servers[candidate].committing == 0)
			i = candidate;
	}
	return i;
}

static int
make_server(Oid server)
{
	int i = find_server(MyDatabaseId, server);

	if (i < 0 && (i = vacant_server()) >= 0)
	{
		shared->names[i].database = MyDatabaseId;
		shared->names[i].server = server;
		memset(&shared->servers[i], 0, sizeof(server_slot));
		shared->servers[i].written = ++shared->last_written;
	}
	return i;
}

/* Wakes the deliverer of a database, or asks for one; under the lock. */
static void
kick(Oid database)
{
	int i = make_database(database);
	database_slot *slot;

	if (i < 0)
		return;
	slot = &shared->databases[i];
	slot->kicks++;
	slot->wanted = true;
	if (slot->deliverer != 0)
		SetLatch(slot->latch);
	else if (shared->launcher != NULL)
		SetLatch(shared->launcher);
}

void
verdict_shared_kick(void)
{
	if (shared == NULL || RecoveryInProgress())
		return;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	kick(MyDatabaseId);
	LWLockRelease(shared->lock);
}

void
verdict_shared_wake(void)
{
	int i;

	if (shared == NULL || RecoveryInProgress())
		return;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	i = find_database(MyDatabaseId);
	if (i >= 0 && (shared->databases[i].wanted || shared->databases[i].deliverer != 0))
		kick(MyDatabaseId);
	LWLockRelease(shared->lock);
}

/* --------------------------------------------------------------- backends */

void
verdict_shared_announce(Oid server)
{
	MemoryContext caller;
	int slot;

	if (shared == NULL)
		return;
	announced_any = true;

	caller = MemoryContextSwitchTo(TopTransactionContext);
	/* The room for it first: nothing can fail once it is counted. */
	announced = lappend_int(announced, -1);
	MemoryContextSwitchTo(caller);

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	slot = OidIsValid(server) ? make_server(server) : -1;
	if (slot >= 0 && !list_member_int(announced, slot))
	{
		shared->servers[slot].committing++;
		shared->servers[slot].written = ++shared->last_written;
		llast_int(announced) = slot;
	}
	LWLockRelease(shared->lock);
	if (llast_int(announced) < 0)
		announced = list_delete_last(announced);
}

void
verdict_shared_expect(uint64 transaction, uint32 batches, Oid server)
{
	if (shared == NULL || batches == 0)
		return;
	(void) commit_wait_event();
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < WAITERS && waiter < 0; i++)
	{
		if (shared->waiters[i].transaction == 0)
			waiter = i;
	}
	if (waiter >= 0)
	{
		waiter_slot *slot = &shared->waiters[waiter];

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
		shared->waiters_used = Max(shared->waiters_used, waiter + 1);
	}
	LWLockRelease(shared->lock);
}

/* Nobody waits any more; under the lock. */
static void
stop_waiting(void)
{
	if (waiter < 0)
		return;
	shared->waiters[waiter].transaction = 0;
	while (shared->waiters_used > 0 && shared->waiters[shared->waiters_used - 1].transaction == 0)
		shared->waiters_used--;
	waiter = -1;
	waiter_server = InvalidOid;
}

void
verdict_shared_end(bool kept)
{
	ListCell *cell;

	if (shared == NULL || (!announced_any && waiter < 0))
		return;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	foreach (cell, announced)
		shared->servers[lfirst_int(cell)].committing--;
	/* After a rollback too: the worker has to see that nothing came. */
	if (announced_any)
		kick(MyDatabaseId);
	if (!kept)
		stop_waiting();
	LWLockRelease(shared->lock);

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
	TimestampTz until;
	int found;

	revision[0] = '\0';
	if (shared == NULL || waiter < 0)
		return VERDICT_AWAIT_TIMEOUT;

	until = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), timeout_ms);
	for (;;)
	{
		const waiter_slot *slot = &shared->waiters[waiter];
		long left_ms;

		ResetLatch(MyLatch);
		LWLockAcquire(shared->lock, LW_SHARED);
		if (slot->refused)
			result = VERDICT_AWAIT_REFUSED;
		else if (slot->left == 0)
			result = VERDICT_AWAIT_ANSWERED;
		LWLockRelease(shared->lock);

		left_ms = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), until);
		if (result != VERDICT_AWAIT_TIMEOUT || left_ms <= 0 || wanted_elsewhere())
			break;
		/* The process must not exit in here; it notices the postmaster's end later. */
		if (WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_POSTMASTER_DEATH, left_ms,
					  commit_wait_event()) &
			WL_POSTMASTER_DEATH)
			break;
	}

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	found = find_server(MyDatabaseId, waiter_server);
	if (result == VERDICT_AWAIT_ANSWERED && found >= 0)
		verdict_revision_print(&shared->servers[found].revision, revision);
	stop_waiting();
	LWLockRelease(shared->lock);

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

	if (shared == NULL)
		return;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	i = make_server(server);
	if (i >= 0)
	{
		server_slot *slot = &shared->servers[i];

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
	LWLockRelease(shared->lock);
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
	if (shared == NULL)
		return false;
	LWLockAcquire(shared->lock, LW_SHARED);
	i = find_server(MyDatabaseId, server);
	if (i >= 0)
	{
		const server_slot *slot = &shared->servers[i];

		empty = slot->committing == 0 && slot->written == slot->drained;
		ask = slot->drained == 0;
		if (slot->whole)
			*revision = slot->revision;
	}
	LWLockRelease(shared->lock);

	/* Nobody has looked yet since the slot was made. */
	if (ask)
		verdict_shared_kick();
	return empty;
}

void
verdict_shared_wait_for_answer(long timeout_ms)
{
	int i;

	Assert(shared != NULL);
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	i = make_database(MyDatabaseId);
	LWLockRelease(shared->lock);
	if (i < 0)
		pg_usleep(Min(timeout_ms, 20) * 1000);
	else
		(void) ConditionVariableTimedSleep(&shared->databases[i].changed, timeout_ms,
										   scope_wait_event());
}

/* --------------------------------------------------------------- launcher */

static void
launcher_exit(int code, Datum argument)
{
	(void) code;
	(void) argument;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	if (shared->launcher == MyLatch)
		shared->launcher = NULL;
	LWLockRelease(shared->lock);
}

void
verdict_shared_launcher_begin(void)
{
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	shared->launcher = MyLatch;
	LWLockRelease(shared->lock);
	on_shmem_exit(launcher_exit, (Datum) 0);
}

void
verdict_shared_want(Oid database)
{
	int i;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	i = make_database(database);
	if (i >= 0)
		shared->databases[i].wanted = true;
	LWLockRelease(shared->lock);
}

int
verdict_shared_vacancies(Oid *databases, int size)
{
	int count = 0;

	LWLockAcquire(shared->lock, LW_SHARED);
	for (int i = 0; i < DATABASES && count < size; i++)
	{
		const database_slot *slot = &shared->databases[i];

		if (OidIsValid(slot->database) && slot->wanted && slot->deliverer == 0 && slot->away == 0)
			databases[count++] = slot->database;
	}
	LWLockRelease(shared->lock);
	return count;
}

bool
verdict_shared_was_dismissed(Oid database)
{
	bool dismissed = false;
	int i;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	i = find_database(database);
	if (i >= 0)
	{
		dismissed = shared->databases[i].dismissed;
		shared->databases[i].dismissed = false;
	}
	LWLockRelease(shared->lock);
	return dismissed;
}

void
verdict_shared_forget_database(Oid database)
{
	int i;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	i = find_database(database);
	if (i >= 0 && shared->databases[i].deliverer == 0 && shared->databases[i].away == 0)
	{
		shared->databases[i].database = InvalidOid;
		for (int j = 0; j < SERVERS; j++)
		{
			if (shared->names[j].database == database)
				shared->names[j].database = shared->names[j].server = InvalidOid;
		}
	}
	LWLockRelease(shared->lock);
}

/* ------------------------------------------------------------ one who delivers */

void
verdict_shared_deliverer_end(void)
{
	database_slot *slot;

	if (post < 0)
		return;
	slot = &shared->databases[post];
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	slot->deliverer = 0;
	slot->latch = NULL;
	if (slot->wanted && shared->launcher != NULL)
		SetLatch(shared->launcher);
	LWLockRelease(shared->lock);
	post = -1;
	ConditionVariableBroadcast(&slot->changed);
}

static void
deliverer_exit(int code, Datum argument)
{
	(void) code;
	(void) argument;
	verdict_shared_deliverer_end();
}

bool
verdict_shared_deliverer_begin(Oid database, bool foreground)
{
	static bool registered = false;
	int i;

	Assert(post < 0);
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	i = make_database(database);
	if (i >= 0 && shared->databases[i].deliverer == 0 &&
		(foreground || shared->databases[i].away == 0))
	{
		shared->databases[i].deliverer = MyProcPid;
		shared->databases[i].foreground = foreground;
		shared->databases[i].latch = MyLatch;
		post = i;
	}
	LWLockRelease(shared->lock);

	/* In a worker this comes before it is known as a user of the database, so
	 * that the post is given back after that has ended. */
	if (post >= 0 && !registered)
	{
		on_shmem_exit(deliverer_exit, (Datum) 0);
		registered = true;
	}
	return post >= 0;
}

bool
verdict_shared_dismiss(uint64 kicks)
{
	bool dismissed;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	dismissed = shared->databases[post].kicks == kicks;
	if (dismissed)
	{
		shared->databases[post].wanted = false;
		shared->databases[post].dismissed = true;
	}
	LWLockRelease(shared->lock);
	return dismissed;
}

bool
verdict_shared_kicked(uint64 kicks)
{
	bool kicked;

	LWLockAcquire(shared->lock, LW_SHARED);
	kicked = shared->databases[post].kicks != kicks;
	LWLockRelease(shared->lock);
	return kicked;
}

int
verdict_shared_note(verdict_note **notes, uint64 *kicks)
{
	int count = 0;

	*notes = NULL;
	*kicks = 0;
	if (post < 0)
		return 0;
	*notes = palloc(SERVERS * sizeof(verdict_note));
	LWLockAcquire(shared->lock, LW_SHARED);
	*kicks = shared->databases[post].kicks;
	for (int i = 0; i < SERVERS; i++)
	{
		const server_slot *slot = &shared->servers[i];

		if (shared->names[i].database != MyDatabaseId || slot->committing > 0 ||
			slot->written == slot->drained)
			continue;
		(*notes)[count].server = shared->names[i].server;
		(*notes)[count++].position = slot->written;
	}
	LWLockRelease(shared->lock);
	return count;
}

void
verdict_shared_drained(const verdict_note *note)
{
	int i;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	i = find_server(MyDatabaseId, note->server);
	if (i >= 0)
		shared->servers[i].drained = Max(shared->servers[i].drained, note->position);
	LWLockRelease(shared->lock);
}

void
verdict_shared_answered(uint64 transaction, bool refused)
{
	if (shared == NULL)
		return;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < shared->waiters_used; i++)
	{
		waiter_slot *slot = &shared->waiters[i];

		if (slot->transaction != transaction || slot->database != MyDatabaseId)
			continue;
		if (slot->left > 0)
			slot->left--;
		slot->refused = slot->refused || refused;
		if (slot->left == 0 || slot->refused)
			SetLatch(slot->latch);
	}
	LWLockRelease(shared->lock);
	if (post >= 0)
		ConditionVariableBroadcast(&shared->databases[post].changed);
}

/* --------------------------------------------------------------- commands */

void
verdict_shared_let_back(void)
{
	int i;

	if (shared == NULL || !OidIsValid(kept_away))
		return;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	i = find_database(kept_away);
	if (i >= 0)
		shared->databases[i].away--;
	if (shared->launcher != NULL)
		SetLatch(shared->launcher);
	LWLockRelease(shared->lock);
	kept_away = InvalidOid;
}

static void
let_back_at_exit(int code, Datum argument)
{
	(void) code;
	(void) argument;
	verdict_shared_let_back();
}

/* Asks the database's worker to end; false when there is none. */
static bool
end_worker(database_slot *slot, bool send_signal)
{
	bool there;

	LWLockAcquire(shared->lock, LW_SHARED);
	/* A session that delivers by hand is a user of the database like any other. */
	there = slot->deliverer != 0 && !slot->foreground;
	if (there && send_signal)
		(void) kill(slot->deliverer, SIGTERM);
	LWLockRelease(shared->lock);
	return there;
}

void
verdict_shared_keep_away(Oid database)
{
	static bool registered = false;
	bool first = true;
	TimestampTz until;
	database_slot *slot;
	int i;

	if (shared == NULL)
		return;
	if (!registered)
		before_shmem_exit(let_back_at_exit, (Datum) 0);
	registered = true;

	/* One at a time is enough: a transaction that needs several holds them locked. */
	verdict_shared_let_back();
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	i = make_database(database);
	if (i >= 0)
	{
		shared->databases[i].away++;
		kept_away = database;
	}
	LWLockRelease(shared->lock);
	if (i < 0)
		return;

	slot = &shared->databases[i];
	until = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), KEEP_AWAY_MS);
	while (end_worker(slot, first) && GetCurrentTimestamp() < until)
	{
		first = false;
		(void) ConditionVariableTimedSleep(&slot->changed, 100, scope_wait_event());
	}
	ConditionVariableCancelSleep();
}
