/*
 * pause.h
 *		Servers whose batches wait, because a send to them has failed.
 */
#ifndef VERDICT_PG_PAUSE_H
#define VERDICT_PG_PAUSE_H

#include "verdict.h"

/* Before a round over the outbox, and before anything below. */
extern void verdict_pauses_begin_round(void);

/* The names of the servers that are not due yet, as text[]: the others are what
 * the look is to ask for. */
extern Datum verdict_pauses_blocked(void);

/* A send to the server has failed.  True when none had failed before. */
extern bool verdict_pause_begin(const char *name);

/* A send to the server has succeeded. */
extern void verdict_pause_end(const char *name);

/* Whether the server has failed in this round. */
extern bool verdict_pause_is_new(const char *name);

/* The latest look has found no row at all: what it asked for waits no more. */
extern void verdict_pauses_forget_absent(void);

/* Milliseconds until the first of the servers is due, -1 when there is none. */
extern int verdict_pauses_next_ms(void);

/* All of them are due now. */
extern void verdict_pauses_reset(void);

#endif /* VERDICT_PG_PAUSE_H */
