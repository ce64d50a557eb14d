/*
 * read.h
 *		What the SQL functions that read have in common.
 */
#ifndef VERDICT_PG_READ_H
#define VERDICT_PG_READ_H

#include "verdict.h"

#include "access/tupdesc.h"
#include "utils/tuplestore.h"

/* What a call of the core needs; valid as server.h and transaction.h say. */
typedef struct verdict_read
{
	verdict_client *client;
	verdict_session *session;
	verdict_read_options options;
	struct verdict_transaction_server *scope; /* of scope.h: NULL when it has no part */
	Oid scope_server;
} verdict_read;

/* Raises 22004 when argument number "number" is NULL, by its name. */
extern void verdict_require_argument(FunctionCallInfo fcinfo, int number, const char *name);

/* A text argument as UTF-8 in the current context; not NULL. */
extern char *verdict_text_argument(FunctionCallInfo fcinfo, int number);
/* The same for an action: raises 22023 when it is empty. */
extern char *verdict_action_argument(FunctionCallInfo fcinfo, int number);

/* The consistency of that name; raises 22023 when it is none of the three words. */
extern verdict_consistency verdict_consistency_of(struct varlena *name);
/* The optional argument "consistency": DEFAULT when NULL; raises likewise. */
extern verdict_consistency verdict_consistency_argument(FunctionCallInfo fcinfo, int number);

/*
 * Reads the optional argument "consistency" (22023 when it is none of the three
 * words), then finds client and session.  To be called after all other arguments
 * have been checked, so that a wrong call never depends on the server.
 */
extern void
verdict_read_start(FunctionCallInfo fcinfo, int consistency_argument, verdict_read *read);

/* The same with a consistency that is known. */
extern void verdict_read_begin(verdict_consistency consistency, verdict_read *read);

/*
 * Gives every stored fact that matches a pattern (NULL: every fact) to "take", page
 * by page, in a memory context that is reset after each; "take" may raise.  Raises
 * the failure of a call, and 08P01 when the pages go round in a circle.
 */
extern void
verdict_each_fact(verdict_read *read, const verdict_fact *pattern,
				  void (*take)(void *argument, const verdict_fact *fact), void *argument);

/*
 * Sends a query and holds its rows (transaction.h); the caller releases them.
 * Raises the failure of the call, and 54000 when the instance cut the answer.
 * "status" is what the rows' own failures are to be added to.
 */
extern verdict_rows *
verdict_read_query(verdict_read *read, const verdict_fact *pattern, verdict_status *status);

/*
 * Raises 08P01 when a value of an answer is not what its variable asked for: a
 * typed variable binds identities of its type only.
 */
extern void verdict_check_binding(const verdict_variable *variable, const verdict_value *value);

/*
 * Starts the result of a set-returning function in materialize mode; raises
 * 0A000 when the caller cannot take one.  The descriptor is copied.
 */
extern Tuplestorestate *verdict_begin_set(FunctionCallInfo fcinfo, TupleDesc descriptor);

#endif /* VERDICT_PG_READ_H */
