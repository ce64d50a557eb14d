/*
 * transaction.h
 *		What a top-level transaction has to do with each server, and what has to
 *		be undone when it ends.
 */
#ifndef VERDICT_PG_TRANSACTION_H
#define VERDICT_PG_TRANSACTION_H

#include "verdict.h"

#include "pending.h"

typedef enum verdict_scope_state
{
	VERDICT_SCOPE_NONE,
	VERDICT_SCOPE_ASKING, /* an authoritative read is to tell where it begins */
	VERDICT_SCOPE_BEGUN
} verdict_scope_state;

/*
 * One server in this transaction.  The session is made at the first call; each
 * server has its own, since a revision means something only to the instance that
 * gave it.
 */
typedef struct verdict_transaction_server
{
	struct verdict_transaction_server *next;
	bool has_session;
	verdict_session session;
	verdict_scope_state scope; /* see scope.h */
	verdict_pending pending;
	bool outbox;					  /* what is pending goes to the outbox */
	bool direct;					  /* a change was sent or may have been sent */
	uint32 rows;					  /* written to the outbox, rolled back ones included */
	Oid oid;						  /* of the foreign server; set with the first row */
	char name[FLEXIBLE_ARRAY_MEMBER]; /* as verdict.server has it */
} verdict_transaction_server;

/*
 * The entry of the server that verdict.server names, made when there is none.
 * Raises when no server is set.  Valid until the transaction ends.
 */
extern verdict_transaction_server *verdict_transaction_current(void);

/* The entry of a server by its name; NULL when there is none. */
extern verdict_transaction_server *verdict_transaction_find(const char *name);

/* All of them, linked by "next". */
extern verdict_transaction_server *verdict_transaction_servers(void);

/*
 * The session with a server, made at the first call: fresh UUID,
 * verdict.consistency, the revision of verdict.revision when set.  Raises when that
 * revision is malformed.  Valid until the transaction ends.
 */
extern verdict_session *verdict_transaction_session_with(verdict_transaction_server *server);

/* The session with the server of verdict.server. */
extern verdict_session *verdict_transaction_session(void);

/*
 * Replaces that session by a fresh scope without an observed revision.  NULL id =
 * a fresh UUID; DEFAULT consistency = session, as the client's page says of new
 * sessions.
 */
extern void verdict_transaction_new_session(const char *id, verdict_consistency consistency);

/*
 * Numbers a batch, unless it has its number: the next ordinal of this transaction,
 * which never goes back, and the next of the batches under an application key
 * (NULL for none).
 */
extern void verdict_transaction_number(verdict_batch_number *number, const char *application_key);

/*
 * Says that the current subtransaction is about to change something.  To be called
 * before a change is queued or sent: nothing has to be allocated afterwards.
 */
extern void verdict_transaction_enter_level(void);

/*
 * Counts changes that were sent, as made by the subtransaction of a nest level, so
 * that a rollback can warn that they stay; refuses PREPARE TRANSACTION from then
 * on.  Never raises.
 */
extern void verdict_transaction_sent(int nesting, uint64 changes);

/* The same for changes of which nobody knows; of the current subtransaction. */
extern void verdict_transaction_maybe_sent(uint64 changes);

/* Counts a row that the current subtransaction has written to the outbox. */
extern void verdict_transaction_row_written(void);

/* How many such rows there are, but for those that were rolled back. */
extern uint32 verdict_transaction_rows(void);

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
