/*
 * arena.h
 *		Many small allocations that are freed together, with a cap.
 *
 * Parsed facts and unpacked messages live here: one owner (who holds the
 * arena), one release.  The cap bounds what a hostile answer can make protobuf-c
 * allocate (up to 48 times its own size, measured).
 */
#ifndef VERDICT_ARENA_H
#define VERDICT_ARENA_H

#include "host.h"

#include <protobuf-c/protobuf-c.h>

typedef struct verdict_arena_block verdict_arena_block;

typedef struct verdict_arena
{
	const verdict_host *host;
	verdict_arena_block *blocks;
	size_t used; /* bytes handed out so far */
	size_t maximum;
	bool exhausted;				  /* the cap was met */
	bool no_memory;				  /* the host had no memory */
	ProtobufCAllocator allocator; /* draws from this arena, frees nothing */
} verdict_arena;

/* Prepares an empty arena; allocates nothing.  It must not be moved. */
extern void verdict_arena_init(verdict_arena *arena, const verdict_host *host, size_t maximum);
/* Aligned for any type; NULL when the cap is met or there is no memory. */
extern void *verdict_arena_alloc(verdict_arena *arena, size_t size);
extern char *verdict_arena_strndup(verdict_arena *arena, const char *bytes, size_t size);
/* Frees all but one block, for reuse; what was handed out is invalid. */
extern void verdict_arena_reset(verdict_arena *arena);
extern void verdict_arena_free(verdict_arena *arena);

#endif /* VERDICT_ARENA_H */
