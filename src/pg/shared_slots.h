/*
 * shared_slots.h
 *		How the shared memory is laid out: for shared.c and shared_deliver.c only.
 *
 * Everything in it is read and written under its lock, for a moment: nothing waits,
 * allocates or raises while it is held.
 */
#ifndef VERDICT_PG_SHARED_SLOTS_H
#define VERDICT_PG_SHARED_SLOTS_H

#include "verdict.h"

#include "storage/condition_variable.h"
#include "storage/lwlock.h"

/* A database that does not find a slot has no worker; a server that does not
 * counts as not known; a transaction that does not waits for nobody. */
#define DATABASES 512
#define SERVERS 256
#define WAITERS 1024

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
	bool looked; /* a worker has looked since the slot was made */
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
	bool slot_needed;	 /* a database waits for another's worker to end */
	uint64 last_written; /* of any server, so that no position comes twice */
	int next_victim;	 /* where the search for a server slot to reuse begins */
	int waiters_used;	 /* no waiter stands at or behind it */
	database_slot databases[DATABASES];
	server_name names[SERVERS];
	server_slot servers[SERVERS];
	waiter_slot waiters[WAITERS];
} shared_state;

/* NULL without shared memory. */
extern shared_state *verdict_slots;

/* Under the lock: the slot of a database, of a server of a database; -1 for none. */
extern int verdict_slot_find_database(Oid database);
extern int verdict_slot_find_server(Oid database, Oid server);

/* The slot of a database, made when there is none; -1 when all are in use. */
extern int verdict_slot_make_database(Oid database);

/* Under the lock: wakes the deliverer of a database, or asks for one. */
extern void verdict_slot_kick(Oid database);

/* What waiting for an answer is called in pg_stat_activity. */
extern uint32 verdict_slot_wait_event(void);

#endif /* VERDICT_PG_SHARED_SLOTS_H */
