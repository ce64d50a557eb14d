/*
 * wait.h
 *		The host table of a backend: memory, clock, randomness, and a wait that
 *		listens to sockets, latch and postmaster together.
 */
#ifndef VERDICT_PG_WAIT_H
#define VERDICT_PG_WAIT_H

#include "verdict.h"

/* One table a process; never freed. */
extern const verdict_host *verdict_backend_host(void);

/*
 * Milliseconds of a clock that nobody sets, for what is to happen after a while: the
 * time of day may be set back, and what is due by it would wait for that.
 */
extern int64 verdict_now_ms(void);

/*
 * Writes a line to the server's log, or wherever "elevel" (below ERROR) says, while
 * core frames are on the stack: without the statement, which may hold facts, and
 * without raising.  An interrupt stays pending.
 */
extern void verdict_wait_log(int elevel, const char *message);

/*
 * To be called after the core returned VERDICT_CAUSE_INTERRUPTED: runs
 * CHECK_FOR_INTERRUPTS(), re-raises what an interrupt raised during the wait,
 * and, if neither ends the statement, raises 57014 itself.
 */
extern void verdict_wait_raise_interrupt(void) pg_attribute_noreturn();

#endif /* VERDICT_PG_WAIT_H */
