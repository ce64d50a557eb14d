/*
 * shared.h
 *		What the backends and workers of a cluster tell each other about batches
 *		of the outbox, in shared memory.
 *
 * It exists when the library was preloaded (shared_preload_libraries).  When it
 * was not, every function here does nothing and says so by what it returns, and
 * whoever asks goes the slower way over the tables.
 */
#ifndef VERDICT_PG_SHARED_H
#define VERDICT_PG_SHARED_H

#include "verdict.h"

/* From _PG_init while libraries are preloaded. */
extern void verdict_shared_init(void);

/* Whether there is shared memory, so that a worker delivers. */
extern bool verdict_shared_active(void);

/*
 * Says that this transaction is about to write rows for a server, before the
 * first of them is written; may be said again.  From then until
 * verdict_shared_end() nobody takes that server's outbox for empty.  InvalidOid: a
 * server that is not there, only the worker is woken at the end.  May raise (out of
 * slots is no error: such a server counts as "not known to be empty").
 */
extern void verdict_shared_announce(Oid server);

/*
 * Before commit, after the last row: this transaction will wait for the answers
 * to its "batches" rows and wants to know the revision of "server"'s.
 */
extern void verdict_shared_expect(uint64 transaction, uint32 batches, Oid server);

/*
 * End of the top-level transaction, whatever the end: nothing that was announced
 * is under way any more; "kept" (COMMIT, PREPARE) wakes the worker.  Never raises.
 */
extern void verdict_shared_end(bool kept);

typedef enum verdict_await_result
{
	VERDICT_AWAIT_ANSWERED, /* all batches were applied */
	VERDICT_AWAIT_REFUSED,	/* one was refused for good and is parked */
	VERDICT_AWAIT_TIMEOUT	/* also: interrupted, nothing expected, not preloaded */
} verdict_await_result;

/*
 * After the commit and verdict_shared_end(true): waits for what
 * verdict_shared_expect() asked for, at most "timeout_ms"; ends early on cancel
 * and terminate, which stay pending.  "revision" gets the server's revision as
 * text, "" for none.  Never raises.
 */
extern verdict_await_result verdict_shared_await(int timeout_ms, char *revision);

/*
 * This database's changes at "server" reach up to this revision at least: said
 * after every change that was answered, by whoever sent it.  Never raises.
 */
extern void verdict_shared_publish(Oid server, const verdict_revision *revision);

/*
 * The same for the revision of an authoritative read that was sent when every
 * change committed before had been answered: what was published so far and this
 * together cover all that this database has changed.  A revision without shards,
 * or of another history, takes that back.
 */
extern void verdict_shared_publish_whole(Oid server, const verdict_revision *revision);

/*
 * For a session that starts from what this database has committed: whether the
 * server's outbox is known to be empty, with one look.  "revision" gets what covers
 * every change of this database that was answered, or no shards when that is not
 * known.
 */
extern bool verdict_shared_look(Oid server, verdict_revision *revision);

/*
 * Waits until the worker has an answer, or until the time is over; the first call
 * returns at once, so that the caller looks once more.  To be ended by
 * ConditionVariableCancelSleep().  Only when verdict_shared_active(); runs
 * CHECK_FOR_INTERRUPTS().
 */
extern void verdict_shared_wait_for_answer(long timeout_ms);

#endif /* VERDICT_PG_SHARED_H */
