/*
 * read_ahead.h
 *		A node of plans that asks for the checks of several rows together.
 */
#ifndef VERDICT_PG_READ_AHEAD_H
#define VERDICT_PG_READ_AHEAD_H

/* Installs the hooks; from _PG_init, once. */
extern void verdict_read_ahead_init(void);

#endif /* VERDICT_PG_READ_AHEAD_H */
