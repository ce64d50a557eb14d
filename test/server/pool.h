/*
 * pool.h
 *		Memory that is freed at once: one pool per policy and per evaluation.
 *
 * A pool owns everything allocated from it until pool_reset() or pool_destroy().
 * Allocation does not fail: a server without memory cannot answer, and must not
 * answer wrongly, so it ends with a message.  An evaluation is kept from getting
 * there by asking pool_bytes().
 */
#ifndef VERDICT_SERVER_POOL_H
#define VERDICT_SERVER_POOL_H

#include <stddef.h>

#define POOL_CLASSES 96

typedef struct pool_chunk pool_chunk;

typedef struct pool
{
	pool_chunk *chunks;			/* the one in use first */
	size_t bytes;				/* held from malloc */
	void *unused[POOL_CLASSES]; /* given back, by size class */
} pool;

/* A pool of all zero bytes is an empty pool. */

/* Aligned for any type, not cleared.  Size 0 is allowed. */
extern void *pool_alloc(pool *pool, size_t size);
/* The same, all zero. */
extern void *pool_zero(pool *pool, size_t size);
/* A copy of size bytes with a NUL after them. */
extern char *pool_copy(pool *pool, const char *bytes, size_t size);
/* Makes the memory reusable; size is the one it was allocated with. */
extern void pool_free(pool *pool, void *memory, size_t size);
/* Frees everything in the pool; keeps a little for the next use of it. */
extern void pool_reset(pool *pool);
extern void pool_destroy(pool *pool);
extern size_t pool_bytes(const pool *pool);

/* malloc() and realloc() that do not fail, in the same sense. */
extern void *memory_alloc(size_t size);
extern void *memory_resize(void *memory, size_t size);
extern char *memory_copy(const char *text);

#endif /* VERDICT_SERVER_POOL_H */
