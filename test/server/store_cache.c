/*
 * store_cache.c
 *		Numbers of the values that were looked up last, and texts of the numbers,
 *		so that a value that comes again and again costs no look-up in the file.
 *
 * One entry a slot, the newest wins.  Both hold only values that the store has:
 * what a transaction added is gone from here when the transaction is rolled back,
 * since then everything is forgotten.
 *
 * A long answer is made of very many texts, each once, in the order of their
 * numbers; so there is room for a million, of which only what is used is memory.
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

#define TEXT_SLOTS 1048576 /* a power of two */
#define LONGEST_TEXT 23

struct cached_text
{
	value_id id; /* 0 = the slot is empty */
	char text[LONGEST_TEXT + 1];
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

static cached_text *
text_slot(const store *store, value_id id)
{
	return &store->texts[(uint64_t) (id >> VALUE_TYPE_BITS) & (TEXT_SLOTS - 1)];
}

const char *
store_cache_find_text(const store *store, value_id id)
{
	const cached_text *slot;

	if (store->texts == NULL)
		return NULL;
	slot = text_slot(store, id);
	return slot->id == id ? slot->text : NULL;
}

void
store_cache_add_text(store *store, value_id id, const char *text, size_t size)
{
	cached_text *slot;

	if (size > LONGEST_TEXT)
		return;
	/* Large enough to come from the system as pages that are zero until touched. */
	if (store->texts == NULL)
		store->texts = calloc(TEXT_SLOTS, sizeof(cached_text));
	if (store->texts == NULL)
		return;
	slot = text_slot(store, id);
	slot->id = id;
	memcpy(slot->text, text, size);
	slot->text[size] = '\0';
}

void
store_cache_forget(store *store)
{
	for (size_t i = 0; store->cache != NULL && i < SLOTS; i++)
	{
		free(store->cache[i].text);
		store->cache[i].text = NULL;
	}
	free(store->texts);
	store->texts = NULL;
}

void
store_cache_close(store *store)
{
	store_cache_forget(store);
	free(store->cache);
	store->cache = NULL;
}
