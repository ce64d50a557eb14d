/*
 * arena.c
 *		See arena.h.  Blocks form a list with the newest first; only the newest
 *		has free room that is used.  "used" counts rounded sizes and never the
 *		blocks' own overhead, so a cap means the same whatever the block sizes.
 */
#include "arena.h"

#include <string.h>

#define ALIGNMENT 16 /* enough for any type, as malloc's */
#define SMALLEST_BLOCK 1024
#define LARGEST_BLOCK (64 * 1024)

struct verdict_arena_block
{
	verdict_arena_block *next;
	size_t size; /* bytes behind the header */
	size_t filled;
};

#define BLOCK_HEADER ((sizeof(verdict_arena_block) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT)

static void *
arena_allocator_alloc(void *allocator_data, size_t size)
{
	return verdict_arena_alloc(allocator_data, size);
}

static void
arena_allocator_free(void *allocator_data, void *pointer)
{
	/* freed with the arena */
	(void) allocator_data;
	(void) pointer;
}

void
verdict_arena_init(verdict_arena *arena, const verdict_host *host, size_t maximum)
{
	memset(arena, 0, sizeof(*arena));
	arena->host = host;
	arena->maximum = maximum;
	arena->allocator.alloc = arena_allocator_alloc;
	arena->allocator.free = arena_allocator_free;
	arena->allocator.allocator_data = arena;
}

void *
verdict_arena_alloc(verdict_arena *arena, size_t size)
{
	verdict_arena_block *block = arena->blocks;
	void *result;

	if (size == 0)
		size = 1;
	if (size > SIZE_MAX - ALIGNMENT - BLOCK_HEADER)
	{
		arena->exhausted = true;
		return NULL;
	}
	size = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	if (size > arena->maximum - arena->used)
	{
		arena->exhausted = true;
		return NULL;
	}

	if (block == NULL || size > block->size - block->filled)
	{
		size_t block_size = block == NULL ? SMALLEST_BLOCK : block->size * 2;

		/* A huge block may precede: growth is by what is usual, not by it. */
		if (block_size > LARGEST_BLOCK)
			block_size = LARGEST_BLOCK;
		if (block_size < size)
			block_size = size;
		block = verdict_alloc(arena->host, BLOCK_HEADER + block_size);
		if (block == NULL)
		{
			arena->no_memory = true;
			return NULL;
		}
		block->next = arena->blocks;
		block->size = block_size;
		block->filled = 0;
		arena->blocks = block;
	}
	result = (char *) block + BLOCK_HEADER + block->filled;
	block->filled += size;
	arena->used += size;
	return result;
}

char *
verdict_arena_strndup(verdict_arena *arena, const char *bytes, size_t size)
{
	char *copy;

	if (size == SIZE_MAX)
	{
		arena->exhausted = true;
		return NULL;
	}
	copy = verdict_arena_alloc(arena, size + 1);
	if (copy == NULL)
		return NULL;
	if (size > 0)
		memcpy(copy, bytes, size);
	copy[size] = '\0';
	return copy;
}

/* Frees the blocks behind the newest. */
static void
free_older_blocks(verdict_arena *arena)
{
	verdict_arena_block *block;

	while ((block = arena->blocks->next) != NULL)
	{
		arena->blocks->next = block->next;
		verdict_free(arena->host, block);
	}
}

void
verdict_arena_reset(verdict_arena *arena)
{
	if (arena->blocks != NULL)
	{
		free_older_blocks(arena);
		/* One large element must not pin its memory for all that follow. */
		if (arena->blocks->size > LARGEST_BLOCK)
		{
			verdict_free(arena->host, arena->blocks);
			arena->blocks = NULL;
		}
		else
			arena->blocks->filled = 0;
	}
	arena->used = 0;
	arena->exhausted = false;
	arena->no_memory = false;
}

void
verdict_arena_free(verdict_arena *arena)
{
	if (arena->blocks != NULL)
	{
		free_older_blocks(arena);
		verdict_free(arena->host, arena->blocks);
		arena->blocks = NULL;
	}
	verdict_arena_reset(arena);
}
