/*
 * memory.c
 *		The core's memory taken from a memory context.
 *
 * Nothing here raises, as core frames are on the stack.  PostgreSQL before 16
 * has no repalloc() that returns NULL, so each piece remembers its size in front
 * of it and grows by a copy.
 */
#include "postgres.h"

#include "utils/memutils.h"
#include "utils/palloc.h"

#include "memory.h"

#define SIZE_PREFIX MAXALIGN(sizeof(Size))

static void *
context_allocate(void *context, void *pointer, size_t size)
{
	/* A piece that grows stays where it is. */
	MemoryContext owner = pointer == NULL ? CurrentMemoryContext
										  : GetMemoryChunkContext((char *) pointer - SIZE_PREFIX);
	char *piece;

	(void) context;

	/* More than any context gives; asking for it would raise. */
	if (size > MaxAllocHugeSize - SIZE_PREFIX)
		return NULL;
	piece =
		MemoryContextAllocExtended(owner, size + SIZE_PREFIX, MCXT_ALLOC_NO_OOM | MCXT_ALLOC_HUGE);
	if (piece == NULL)
		return NULL;
	*(Size *) piece = size;
	piece += SIZE_PREFIX;
	if (pointer != NULL)
	{
		char *old = (char *) pointer - SIZE_PREFIX;

		memcpy(piece, pointer, Min(size, *(Size *) old));
		pfree(old);
	}
	return piece;
}

static void
context_release(void *context, void *pointer)
{
	(void) context;

	if (pointer != NULL)
		pfree((char *) pointer - SIZE_PREFIX);
}

const verdict_host *
verdict_context_host(void)
{
	static const verdict_host host = {.allocate = context_allocate, .release = context_release};

	return &host;
}
