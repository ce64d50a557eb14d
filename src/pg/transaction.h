/*
 * transaction.h
 *		The sessions of a transaction and what has to be undone when it ends.
 */
#ifndef VERDICT_PG_TRANSACTION_H
#define VERDICT_PG_TRANSACTION_H

#include "verdict.h"

/*
 * The session of the current top-level transaction with verdict.server, made at
 * the first call: fresh UUID, verdict.consistency, the revision of
 * verdict.revision when set.  Each server has its own, since a revision means
 * something only to the instance that gave it.  Raises when that revision is
 * malformed and when no server is set.  Valid until the transaction ends.
 */
extern verdict_session *verdict_transaction_session(void);

/*
 * Replaces that session by a fresh scope without an observed revision.  NULL id =
 * a fresh UUID; DEFAULT consistency = session, as the client's page says of new
 * sessions.
 */
extern void verdict_transaction_new_session(const char *id, verdict_consistency consistency);

/* The ordinal of the next batch in this transaction; never goes back. */
extern uint64 verdict_transaction_next_ordinal(void);

/*
 * Remembers that changes were sent in the current subtransaction, so that a
 * rollback can warn that they stay; refuses PREPARE TRANSACTION from then on.
 */
extern void verdict_transaction_changes_sent(uint64 count);

/* How many changes of this transaction have been sent. */
extern uint64 verdict_transaction_changes(void);

/*
 * Memory of the core that is alive while code that can raise runs.  A held
 * object is freed by verdict_release_*(), when the (sub)transaction that was
 * current when it was held is rolled back, or when the top-level transaction
 * ends.  When there is no memory to hold it, it is freed and 53200 raised.
 */
extern void verdict_hold_rows(verdict_rows *rows);
extern void verdict_release_rows(verdict_rows *rows);

/* Registers the callbacks; from _PG_init, once. */
extern void verdict_transaction_init(void);

#endif /* VERDICT_PG_TRANSACTION_H */
