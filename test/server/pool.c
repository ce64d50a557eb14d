/*
 * pool.c
 *		See pool.h.
 *
 * Sizes are rounded up to a class, multiples of 16 up to 512 and powers of two
 * above, so that memory given back fits the next request of the class.
 */
#include "pool.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_SIZE ((size_t) 64 * 1024)
#define SMALL_LIMIT 512
#define SMALL_CLASSES (SMALL_LIMIT / 16 + 1)

struct pool_chunk
{
	pool_chunk *next;
	size_t size; /* of the bytes after this header */
	size_t used;
	size_t padding; /* keeps what follows aligned */
};

void *
memory_resize(void *memory, size_t size)
{
	void *result = realloc(memory, size > 0 ? size : 1);

	if (result == NULL)
	{
		fprintf(stderr, "verdict-dev: out of memory\n");
		abort();
	}
	return result;
}

void *
memory_alloc(size_t size)
{
	return memory_resize(NULL, size);
}

char *
memory_copy(const char *text)
{
	size_t size = strlen(text) + 1;

	return memcpy(memory_alloc(size), text, size);
}

/* The class of a size, which is rounded up to what the class holds. */
static int
size_class(size_t *size)
{
	size_t rounded;
	int class;

	if (*size <= SMALL_LIMIT)
	{
		rounded = *size == 0 ? 16 : (*size + 15) & ~(size_t) 15;
		*size = rounded;
		return (int) (rounded / 16);
	}
	rounded = SMALL_LIMIT * 2;
	class = SMALL_CLASSES;
	while (rounded < *size)
	{
		if (rounded > SIZE_MAX / 4)
		{
			fprintf(stderr, "verdict-dev: out of memory\n");
			abort();
		}
		rounded *= 2;
		class ++;
	}
	*size = rounded;
	return class;
}

void *
pool_alloc(pool *pool, size_t size)
{
	int class = size_class(&size);
	pool_chunk *chunk = pool->chunks;
	void *memory = pool->unused[class];

	if (memory != NULL)
	{
		memcpy(&pool->unused[class], memory, sizeof(void *));
		return memory;
	}
	if (chunk == NULL || chunk->size - chunk->used < size)
	{
		size_t wanted = size > CHUNK_SIZE / 4 ? size : CHUNK_SIZE;
		pool_chunk *fresh = memory_alloc(sizeof(pool_chunk) + wanted);

		fresh->size = wanted;
		fresh->used = 0;
		pool->bytes += sizeof(pool_chunk) + wanted;
		if (wanted == size && chunk != NULL)
		{
			/* A chunk of its own: go on filling the one in use. */
			fresh->next = chunk->next;
			chunk->next = fresh;
		}
		else
		{
			fresh->next = chunk;
			pool->chunks = fresh;
		}
		chunk = fresh;
	}
	memory = (char *) (chunk + 1) + chunk->used;
	chunk->used += size;
	return memory;
}

void *
pool_zero(pool *pool, size_t size)
{
	return memset(pool_alloc(pool, size), 0, size);
}

char *
pool_copy(pool *pool, const char *bytes, size_t size)
{
	char *copy = pool_alloc(pool, size + 1);

	memcpy(copy, bytes, size);
	copy[size] = '\0';
	return copy;
}

void
pool_free(pool *pool, void *memory, size_t size)
{
	int class = size_class(&size);

	memcpy(memory, &pool->unused[class], sizeof(void *));
	pool->unused[class] = memory;
}

void
pool_reset(pool *pool)
{
	pool_chunk *kept = NULL;

	while (pool->chunks != NULL)
	{
		pool_chunk *chunk = pool->chunks;

		pool->chunks = chunk->next;
		if (kept == NULL && chunk->size == CHUNK_SIZE)
			kept = chunk;
		else
			free(chunk);
	}
	memset(pool, 0, sizeof(*pool));
	if (kept != NULL)
	{
		kept->next = NULL;
		kept->used = 0;
		pool->chunks = kept;
		pool->bytes = sizeof(pool_chunk) + kept->size;
	}
}

void
pool_destroy(pool *pool)
{
	pool_reset(pool);
	free(pool->chunks);
	memset(pool, 0, sizeof(*pool));
}

size_t
pool_bytes(const pool *pool)
{
	return pool->bytes;
}
