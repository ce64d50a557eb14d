/*
 * scope.h
 *		verdict.session_scope = database: a session that starts from what this
 *		database has committed.
 */
#ifndef VERDICT_PG_SCOPE_H
#define VERDICT_PG_SCOPE_H

#include "read.h"
#include "server.h"
#include "transaction.h"

/*
 * Before a read that is not eventual, of a session that has not begun its scope:
 * waits, no longer than the read may take, until every outbox batch that the
 * statement's snapshot sees as committed is answered, and has the session observe
 * what covers them.  Where nothing is known that does, makes this read an
 * authoritative one.  Lowers the read's deadline by the time it took.  Raises 08000
 * when the time is over, 55000 for a batch that was refused.
 */
extern void verdict_scope_begin(verdict_transaction_server *entry, const verdict_server *server,
								verdict_read *read);

/* After the read, whatever it has come to, before its failure is raised. */
extern void verdict_scope_end(verdict_read *read, const verdict_status *status);

#endif /* VERDICT_PG_SCOPE_H */
