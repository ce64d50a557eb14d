/*
 * change.h
 *		The one way that changes go, whatever asks for them.
 *
 * verdict.mutation_mode decides when a change is sent:
 *	- immediate: in the call;
 *	- deferred: with all others of the transaction, before the first read that has
 *	  to see them, else just before commit;
 *	- outbox: after commit, by whoever delivers the rows of verdict_outbox.
 */
#ifndef VERDICT_PG_CHANGE_H
#define VERDICT_PG_CHANGE_H

#include "verdict.h"

#include "transaction.h"

/*
 * Hands changes of facts over, in order, with the user mapping of a role (usually
 * GetUserId()).  True when they were sent and answered, applied whole or not at
 * all; *changed is then how many had an effect.  Raises 25006 in a read-only
 * transaction and during recovery, 55000 for modes that do not mix.
 */
extern bool
verdict_change_facts(Oid role, const verdict_change *changes, size_t count, uint32 *changed);

/*
 * The same for changes that are encoded already, such as those of many rows:
 * elements as verdict_encode_change() makes them, one after the other, with the size
 * of each.  In immediate mode they are sent in batches of at most the server's batch_size.
 */
extern void
verdict_change_elements(Oid role, const char *elements, const uint32 *sizes, size_t count);

/*
 * For changes that come after long work: raises now what a change by that role in
 * the mode of now would raise before it is queued or sent.  Returns the batch_size
 * of the server.
 */
extern int verdict_change_prepare(Oid role);

/* Hands a policy over, as the current user; otherwise as verdict_change_facts(). */
extern bool verdict_change_policy(const char *policy);

/* Sends what is pending for a server: a read is coming that has to see it. */
extern void verdict_change_flush(verdict_transaction_server *server);

/*
 * In XACT_EVENT_PRE_COMMIT and XACT_EVENT_PRE_PREPARE: sends what is pending, or
 * writes it to the outbox.  Before PREPARE TRANSACTION pending changes that are
 * not for the outbox are refused (0A000).
 */
extern void verdict_change_before_commit(bool prepare);

#endif /* VERDICT_PG_CHANGE_H */
