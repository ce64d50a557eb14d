/*
 * store_cache.c
 *		Numbers of the values that were looked up last, so that a value that comes
 *		again and again costs no look-up in the file.
 *
 * One entry a slot, the newest wins.  It holds only values that the store has:
 * what a transaction added is gone from here when the transaction is rolled back,
 * since then everything is forgotten.
 */
#include "store_internal.h"

#include <stdlib.h>
#include <string.h>

#define SLOTS 65536 /* a power of two */
/* Longer texts are rare, and would make the cache's memory unbounded. */
#define LONGEST 255

struct cached_value
{
	uint64_t hash;
	value_id id;
	char *text; /* NULL = the slot is empty */
};

uint64_t
store_hash_text(const char *text, uint64_t seed)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ seed;

	for (; *text != '\0'; text++)
		hash = (hash ^ (unsigned char) *text) * UINT64_C(0x100000001b3);
	return hash ^ hash >> 32;
}

void
store_cache_open(store *store)
{
	store->cache = memory_alloc(SLOTS * sizeof(cached_value));
	memset(store->cache, 0, SLOTS * sizeof(cached_value));
}

bool
store_cache_find(const store *store, int64_t type, const char *text, uint64_t hash, value_id *id)
{
	const cached_value *slot = &store->cache[hash & (SLOTS - 1)];

	if (slot->text == NULL || slot->hash != hash || value_type(slot->id) != type ||
		strcmp(slot->text, text) != 0)
		return false;
	*id = slot->id;
	return true;
}

void
store_cache_add(store *store, const char *text, uint64_t hash, value_id id)
{
	cached_value *slot = &store->cache[hash & (SLOTS - 1)];

	if (strlen(text) > LONGEST)
		return;
	free(slot->text);
	slot->text = memory_copy(text);
	slot->hash = hash;
	slot->id = id;
}

void
store_cache_forget(store *store)
{
	for (size_t i = 0; store->cache != NULL && i < SLOTS; i++)
	{
		free(store->cache[i].text);
		store->cache[i].text = NULL;
	}
}

void
store_cache_close(store *store)
{
	store_cache_forget(store);
	free(store->cache);
	store->cache = NULL;
}
