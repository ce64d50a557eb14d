/*
 * shared_deliver.c
 *		The shared memory as launcher, workers and commands use it.
 *
 * Invariants
 *	- Who gets the post of a database's deliverer gives it back when it exits, after
 *	  the process has left the list of the database's users.
 *	- A command that keeps workers away from a database lets them back when its
 *	  process exits, if not before.
 */
#include "worker.h"

#include <signal.h>

#include "miscadmin.h"
#include "shared_slots.h"
#include "storage/ipc.h"
#include "wait.h"

/* How long a command waits for a worker to end, before it goes its own way. */
#define KEEP_AWAY_MS 10000

static int post = -1; /* the database whose deliverer this process is */
static Oid kept_away = InvalidOid;

/* --------------------------------------------------------------- launcher */

static void
launcher_exit(int code, Datum argument)
{
	(void) code;
	(void) argument;
	LWLockAcquire(verdict_slots->lock, LW_EXCLUSIVE);
	if (verdict_slots->launcher == MyLatch)
		verdict_slots->launcher = NULL;
	LWLockRelease(verdict_slots->lock);
}

void
verdict_shared_launcher_begin(void)
{
	LWLockAcquire(verdict_slots->lock, LW_EXCLUSIVE);
	verdict_slots->launcher = MyLatch;
	LWLockRelease(verdict_slots->lock);
	on_shmem_exit(launcher_exit, (Datum) 0);
}

void
verdict_shared_want(Oid database)
{
	int i;

	LWLockAcquire(verdict_slots->lock, LW_EXCLUSIVE);
	i = verdict_slot_make_database(database);
	if (i >= 0)
		verdict_slots->databases[i].wanted = true;
	LWLockRelease(verdict_slots->lock);
}

int
verdict_shared_vacancies(Oid *databases, int size)
{
	int count = 0;

	LWLockAcquire(verdict_slots->lock, LW_SHARED);
	for (int i = 0; i < DATABASES && count < size; i++)
	{
		const database_slot *slot = &verdict_slots->databases[i];

		if (OidIsValid(slot->database) && slot->wanted && slot->deliverer == 0 && slot->away == 0)
			databases[count++] = slot->database;
	}
	LWLockRelease(verdict_slots->lock);
	return count;
}

void
verdict_shared_need_slot(bool needed)
{
	LWLockAcquire(verdict_slots->lock, LW_EXCLUSIVE);
	verdict_slots->slot_needed = needed;
	for (int i = 0; needed && i < DATABASES; i++)
	{
		if (verdict_slots->databases[i].deliverer != 0)
			SetLatch(verdict_slots->databases[i].latch);
	}
	LWLockRelease(verdict_slots->lock);
}

bool
verdict_shared_was_dismissed(Oid database)
{
	bool dismissed = false;
	int i;

	LWLockAcquire(verdict_slots->lock, LW_EXCLUSIVE);
	i = verdict_slot_find_database(database);
	if (i >= 0)
	{
		dismissed = verdict_slots->databases[i].dismissed;
		verdict_slots->databases[i].dismissed = false;
	}
	LWLockRelease(verdict_slots->lock);
	return dismissed;
}

void
verdict_shared_forget_database(Oid database)
{
	int i;

	LWLockAcquire(verdict_slots->lock, LW_EXCLUSIVE);
	i = verdict_slot_find_database(database);
	if (i >= 0 && verdict_slots->databases[i].deliverer == 0 &&
		verdict_slots->databases[i].away == 0)
	{
		verdict_slots->databases[i].database = InvalidOid;
		for (int j = 0; j < SERVERS; j++)
		{
			if (verdict_slots->names[j].database == database)
				verdict_slots->names[j].database = verdict_slots->names[j].server = InvalidOid;
		}
	}
	LWLockRelease(verdict_slots->lock);
}

/* ------------------------------------------------------------ one who delivers */

void
verdict_shared_deliverer_end(void)
{
	database_slot *slot;

	if (post < 0)
		return;
	slot = &verdict_slots->databases[post];
	LWLockAcquire(verdict_slots->lock, LW_EXCLUSIVE);
	slot->deliverer = 0;
	slot->latch = NULL;
	if (slot->wanted && verdict_slots->launcher != NULL)
		SetLatch(verdict_slots->launcher);
	LWLockRelease(verdict_slots->lock);
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
	LWLockAcquire(verdict_slots->lock, LW_EXCLUSIVE);
	i = verdict_slot_make_database(database);
	if (i >= 0 && verdict_slots->databases[i].deliverer == 0 &&
		(foreground || verdict_slots->databases[i].away == 0))
	{
		verdict_slots->databases[i].deliverer = MyProcPid;
		verdict_slots->databases[i].foreground = foreground;
		verdict_slots->databases[i].latch = MyLatch;
		post = i;
	}
	LWLockRelease(verdict_slots->lock);

	/* In a worker this comes before it is known as a user of the database, so
	 * that the post is given back after that has ended. */
	if (post >= 0 && !registered)
	{
		on_shmem_exit(deliverer_exit, (Datum) 0);
		registered = true;
	}
	return post >= 0;
}

/* The database wants no worker until it is kicked again; under the lock. */
static bool
dismiss(uint64 kicks)
{
	if (verdict_slots->databases[post].kicks != kicks)
		return false;
	verdict_slots->databases[post].wanted = false;
	verdict_slots->databases[post].dismissed = true;
	return true;
}

bool
verdict_shared_dismiss(uint64 kicks)
{
	bool dismissed;

	LWLockAcquire(verdict_slots->lock, LW_EXCLUSIVE);
	dismissed = dismiss(kicks);
	LWLockRelease(verdict_slots->lock);
	return dismissed;
}

bool
verdict_shared_yield(uint64 kicks, bool more)
{
	bool yields;

	LWLockAcquire(verdict_slots->lock, LW_EXCLUSIVE);
	yields = verdict_slots->slot_needed;
	if (yields)
	{
		/* One is enough for one. */
		verdict_slots->slot_needed = false;
		verdict_slots->databases[post].dismissed = true;
		if (!more)
			(void) dismiss(kicks);
	}
	LWLockRelease(verdict_slots->lock);
	return yields;
}

bool
verdict_shared_kicked(uint64 kicks)
{
	bool kicked;

	LWLockAcquire(verdict_slots->lock, LW_SHARED);
	kicked = verdict_slots->databases[post].kicks != kicks;
	LWLockRelease(verdict_slots->lock);
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
	LWLockAcquire(verdict_slots->lock, LW_EXCLUSIVE);
	*kicks = verdict_slots->databases[post].kicks;
	for (int i = 0; i < SERVERS; i++)
	{
		server_slot *slot = &verdict_slots->servers[i];

		if (verdict_slots->names[i].database != MyDatabaseId)
			continue;
		slot->looked = true;
		if (slot->committing > 0 || slot->written == slot->drained)
			continue;
		(*notes)[count].server = verdict_slots->names[i].server;
		(*notes)[count++].position = slot->written;
	}
	LWLockRelease(verdict_slots->lock);
	return count;
}

void
verdict_shared_drained(const verdict_note *note)
{
	int i;

	LWLockAcquire(verdict_slots->lock, LW_EXCLUSIVE);
	i = verdict_slot_find_server(MyDatabaseId, note->server);
	if (i >= 0)
		verdict_slots->servers[i].drained = Max(verdict_slots->servers[i].drained, note->position);
	LWLockRelease(verdict_slots->lock);
}

void
verdict_shared_answered(uint64 transaction, bool refused)
{
	if (verdict_slots == NULL)
		return;
	LWLockAcquire(verdict_slots->lock, LW_EXCLUSIVE);
	for (int i = 0; i < verdict_slots->waiters_used; i++)
	{
		waiter_slot *slot = &verdict_slots->waiters[i];

		if (slot->transaction != transaction || slot->database != MyDatabaseId)
			continue;
		if (slot->left > 0)
			slot->left--;
		slot->refused = slot->refused || refused;
		if (slot->left == 0 || slot->refused)
			SetLatch(slot->latch);
	}
	LWLockRelease(verdict_slots->lock);
	if (post >= 0)
		ConditionVariableBroadcast(&verdict_slots->databases[post].changed);
}

/* --------------------------------------------------------------- commands */

void
verdict_shared_let_back(void)
{
	int i;

	if (verdict_slots == NULL || !OidIsValid(kept_away))
		return;
	LWLockAcquire(verdict_slots->lock, LW_EXCLUSIVE);
	i = verdict_slot_find_database(kept_away);
	if (i >= 0)
		verdict_slots->databases[i].away--;
	if (verdict_slots->launcher != NULL)
		SetLatch(verdict_slots->launcher);
	LWLockRelease(verdict_slots->lock);
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

	LWLockAcquire(verdict_slots->lock, LW_SHARED);
	/* A session that delivers by hand is a user of the database like any other. */
	there = slot->deliverer != 0 && !slot->foreground;
	if (there && send_signal)
		(void) kill(slot->deliverer, SIGTERM);
	LWLockRelease(verdict_slots->lock);
	return there;
}

void
verdict_shared_keep_away(Oid database)
{
	static bool registered = false;
	bool first = true;
	int64 until;
	database_slot *slot;
	int i;

	if (verdict_slots == NULL)
		return;
	if (!registered)
		before_shmem_exit(let_back_at_exit, (Datum) 0);
	registered = true;

	/* One at a time is enough: a transaction that needs several holds them locked. */
	verdict_shared_let_back();
	LWLockAcquire(verdict_slots->lock, LW_EXCLUSIVE);
	i = verdict_slot_make_database(database);
	if (i >= 0)
	{
		verdict_slots->databases[i].away++;
		kept_away = database;
	}
	LWLockRelease(verdict_slots->lock);
	if (i < 0)
		return;

	slot = &verdict_slots->databases[i];
	until = verdict_now_ms() + KEEP_AWAY_MS;
	while (end_worker(slot, first) && verdict_now_ms() < until)
	{
		first = false;
		(void) ConditionVariableTimedSleep(&slot->changed, 100, verdict_slot_wait_event());
	}
	ConditionVariableCancelSleep();
}
