/*
 * memory.h
 *		The core's memory taken from a memory context.
 */
#ifndef VERDICT_PG_MEMORY_H
#define VERDICT_PG_MEMORY_H

#include "verdict.h"

/*
 * A host table for arenas and buffers whose memory goes with the memory context
 * that is current when it is allocated first; nothing needs to be freed.  It serves
 * memory only: clock, randomness and wait are absent.  Never raises: the core
 * sees NULL when there is no memory.
 */
extern const verdict_host *verdict_context_host(void);

/*
 * The most that one arena or buffer of the PostgreSQL side takes: what fits a
 * value of PostgreSQL.
 */
#define VERDICT_CONTEXT_MAXIMUM ((size_t) 0x3fffffff)

#endif /* VERDICT_PG_MEMORY_H */
