/*
 * worker.h
 *		The side of those who deliver: launcher, workers, CALL verdict_deliver(),
 *		and the commands that need a database without a worker.
 *
 * What stands in shared memory is in shared.c; the functions here that begin with
 * verdict_shared_ are its other face, for those who deliver.  None of them does
 * anything when there is no shared memory.
 */
#ifndef VERDICT_PG_WORKER_H
#define VERDICT_PG_WORKER_H

#include "verdict.h"

/* ------------------------------------------------------------ the launcher */

/* The latch of this process is the launcher's until it exits. */
extern void verdict_shared_launcher_begin(void);

/* Marks a database as one that is to have a worker. */
extern void verdict_shared_want(Oid database);

/*
 * Databases that want a worker, have none, and are kept free by no command; at
 * most "size" of them.
 */
extern int verdict_shared_vacancies(Oid *databases, int size);

/*
 * Whether the database's last worker ended by verdict_shared_dismiss() or to make room;
 * forgotten then.
 */
extern bool verdict_shared_was_dismissed(Oid database);

/*
 * Says that a database has no worker for want of a slot (max_worker_processes), or that
 * none has any more.  While one has, a worker ends when its turn is over.
 */
extern void verdict_shared_need_slot(bool needed);

/* Drops all that is known of a database that is not there any more. */
extern void verdict_shared_forget_database(Oid database);

/* ----------------------------------------------------- one who delivers */

/*
 * Takes the post of the database's only deliverer, until this process exits or
 * verdict_shared_deliverer_end().  A worker ("foreground" false) calls it before it
 * connects.  False when somebody else has it, or a command keeps workers away.
 */
extern bool verdict_shared_deliverer_begin(Oid database, bool foreground);
extern void verdict_shared_deliverer_end(void);

/*
 * For a worker that has found nothing to work for: the database wants none, unless
 * its latch was set for new rows since verdict_shared_note() returned "kicks"; then
 * false, and the worker stays.
 */
extern bool verdict_shared_dismiss(uint64 kicks);

/*
 * For a worker that could end now: whether it is to, because another database needs its
 * slot.  Its own goes on wanting one when it has more to do ("more"), or new rows came
 * since verdict_shared_note() returned "kicks".
 */
extern bool verdict_shared_yield(uint64 kicks, bool more);

/* Whether new rows were committed since verdict_shared_note() returned "kicks". */
extern bool verdict_shared_kicked(uint64 kicks);

/*
 * What a look at the outbox can later say of each server: taken before the look's
 * snapshot.  "position" is 0 when a transaction is about to write rows.
 */
typedef struct verdict_note
{
	Oid server;
	uint64 position;
} verdict_note;

/* Notes of this database's servers in *notes (palloc'd); returns their number. */
extern int verdict_shared_note(verdict_note **notes, uint64 *kicks);

/* The look found no row of the note's server. */
extern void verdict_shared_drained(const verdict_note *note);

/*
 * A row of the transaction is gone (answered) or parked (refused): tells who waits
 * in verdict_shared_await(), and whoever waits for the outbox of this database.
 */
extern void verdict_shared_answered(uint64 transaction, bool refused);

/* ------------------------------------------------------------- commands */

/*
 * Ends the database's worker and keeps others from starting until
 * verdict_shared_let_back() or the end of this process.  Waits at most ten seconds.
 */
extern void verdict_shared_keep_away(Oid database);
extern void verdict_shared_let_back(void);

/* Wakes this database's worker, or asks for one.  Never raises. */
extern void verdict_shared_kick(void);
/* The same only where there is, or ought to be, a worker already. */
extern void verdict_shared_wake(void);

/* ----------------------------------------------------------- delivering */

/* How a round over the outbox ended. */
typedef struct verdict_round
{
	bool installed;	  /* the extension is in the database */
	bool prepared;	  /* there are prepared transactions; known in a worker only */
	uint64 kicks;	  /* of verdict_shared_note(), in a worker only */
	bool more;		  /* something was tried: another round may find more */
	int next_ms;	  /* when a row that waits is due, -1 when none is */
	uint64 delivered; /* rows answered in this round */
	uint64 parked;	  /* rows refused for good */
	uint64 waiting;	  /* sends that failed and are to be repeated */
} verdict_round;

/*
 * One look at the outbox: sends what is there, in order, and records each answer.
 * In a worker without a transaction, else in a procedure that may end
 * transactions, connected to SPI.  Raises what the database raises.
 */
extern void verdict_deliver_round(bool worker, verdict_round *round);

/* Hooks of commands, and the launcher's registration; from _PG_init. */
extern void verdict_hook_init(void);
extern void verdict_launcher_register(void);

#endif /* VERDICT_PG_WORKER_H */
