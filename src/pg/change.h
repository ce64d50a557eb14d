/*
 * change.h
 *		The one way that changes go, whatever asks for them.
 */
#ifndef VERDICT_PG_CHANGE_H
#define VERDICT_PG_CHANGE_H

#include "verdict.h"

/*
 * Hands changes of facts over, in order, applied whole or not at all.  In
 * immediate mode they are sent now; returns how many had an effect.  Raises
 * 25006 in a read-only transaction or during recovery.
 */
extern uint32 verdict_change_facts(const verdict_change *changes, size_t count);

/* The same for the policy. */
extern void verdict_change_policy(const char *policy);

#endif /* VERDICT_PG_CHANGE_H */
