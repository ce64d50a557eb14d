/*
 * planner.h
 *		What planning knows of calls of this library's functions.
 */
#ifndef VERDICT_PG_PLANNER_H
#define VERDICT_PG_PLANNER_H

#include "decision.h"

#include "nodes/nodes.h"

/*
 * Whether a function is the one of this library with that C symbol, and as it was
 * when the extension was made: everybody may execute it, it acts as its caller and
 * changes no setting.
 */
extern bool verdict_is_as_made(Oid function, const char *symbol);

/* Whether an expression is a constant text that can be the type of an identity. */
extern bool verdict_is_identifier_constant(Node *node);

/*
 * The text of an argument that is known when a statement is planned: a constant
 * that is not NULL, or verdict_actor() while verdict.actor is set.  The piece points
 * into either.
 */
extern bool verdict_known_piece(Node *argument, verdict_piece *piece);

#endif /* VERDICT_PG_PLANNER_H */
