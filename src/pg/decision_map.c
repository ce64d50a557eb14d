/*
 * decision_map.c
 *		What is known of resources of one type, by their ids.
 *
 * Integers are kept as bits, 64 neighbours to an entry: tables are scanned mostly
 * in the order of their keys, so that the next look-up finds the entry of the
 * last one, and half a million ids take less than a megabyte.
 */
#include "decision_map.h"

#include "common/hashfn.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#define INITIAL_ENTRIES 4

typedef struct integer_block
{
	int64 number; /* id >> 6 */
	uint64 known;
	uint64 allowed; /* a subset of known */
	char status;
} integer_block;

typedef struct uuid_entry
{
	pg_uuid_t id;
	bool allowed;
	char status;
} uuid_entry;

typedef struct text_key
{
	const char *bytes;
	uint32 size;
} text_key;

typedef struct text_entry
{
	text_key id;
	uint32 hash;
	bool allowed;
	char status;
} text_entry;

static inline uint32
hash_text(text_key key)
{
	return hash_bytes((const unsigned char *) key.bytes, (int) key.size);
}

static inline bool
text_equal(text_key left, text_key right)
{
	return left.size == right.size && memcmp(left.bytes, right.bytes, left.size) == 0;
}

static inline uint32
hash_integer(int64 number)
{
	return murmurhash32((uint32) number ^ (uint32) ((uint64) number >> 32));
}

#define SH_PREFIX integers
#define SH_ELEMENT_TYPE integer_block
#define SH_KEY_TYPE int64
#define SH_KEY number
#define SH_HASH_KEY(table, key) hash_integer(key)
#define SH_EQUAL(table, left, right) ((left) == (right))
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

#define SH_PREFIX uuids
#define SH_ELEMENT_TYPE uuid_entry
#define SH_KEY_TYPE pg_uuid_t
#define SH_KEY id
#define SH_HASH_KEY(table, key) hash_bytes((key).data, UUID_LEN)
#define SH_EQUAL(table, left, right) (memcmp((left).data, (right).data, UUID_LEN) == 0)
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

#define SH_PREFIX texts
#define SH_ELEMENT_TYPE text_entry
#define SH_KEY_TYPE text_key
#define SH_KEY id
#define SH_HASH_KEY(table, key) hash_text(key)
#define SH_EQUAL(table, left, right) text_equal(left, right)
#define SH_STORE_HASH
#define SH_GET_HASH(table, entry) ((entry)->hash)
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

struct verdict_decision_map
{
	MemoryContext parent;
	MemoryContext context;	 /* NULL until something is in it */
	integers_hash *integers; /* each NULL until something is in it */
	uuids_hash *uuids;
	texts_hash *texts;
	integer_block *last; /* of the last look-up, or NULL; moves when integers grow */
};

/* ---- ids ---- */

static bool
parse_integer(const char *text, size_t size, int64 *integer)
{
	bool negative = size > 0 && text[0] == '-';
	size_t position = negative ? 1 : 0;
	uint64 limit = negative ? (uint64) PG_INT64_MAX + 1 : (uint64) PG_INT64_MAX;
	uint64 value = 0;

	/* Only the text that the type itself would give. */
	if (position == size || size > 20)
		return false;
	if (text[position] == '0' && (negative || size > 1))
		return false;
	for (; position < size; position++)
	{
		uint64 digit = (unsigned char) text[position] - (uint64) '0';

		if (digit > 9 || value > (limit - digit) / 10)
			return false;
		value = value * 10 + digit;
	}
	*integer = negative ? (int64) (0 - value) : (int64) value;
	return true;
}

static int
hexadecimal(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

static bool
parse_uuid(const char *text, size_t size, pg_uuid_t *uuid)
{
	size_t position = 0;

	if (size != 36)
		return false;
	for (int i = 0; i < UUID_LEN; i++)
	{
		int high;
		int low;

		if ((i == 4 || i == 6 || i == 8 || i == 10) && text[position++] != '-')
			return false;
		high = hexadecimal(text[position++]);
		low = hexadecimal(text[position++]);
		if (high < 0 || low < 0)
			return false;
		uuid->data[i] = (unsigned char) (high << 4 | low);
	}
	return true;
}

void
verdict_id_of_text(const char *text, size_t size, verdict_id *id)
{
	if (parse_integer(text, size, &id->as.integer))
		id->kind = VERDICT_ID_INTEGER;
	else if (parse_uuid(text, size, &id->as.uuid))
		id->kind = VERDICT_ID_UUID;
	else
	{
		id->kind = VERDICT_ID_TEXT;
		id->as.text.bytes = text;
		id->as.text.size = (uint32) size;
	}
}

char *
verdict_id_to_text(const verdict_id *id)
{
	switch (id->kind)
	{
		case VERDICT_ID_INTEGER:
			return psprintf(INT64_FORMAT, id->as.integer);
		case VERDICT_ID_UUID:
			return DatumGetCString(DirectFunctionCall1(uuid_out, UUIDPGetDatum(&id->as.uuid)));
		case VERDICT_ID_TEXT:
			break;
	}
	return pnstrdup(id->as.text.bytes, id->as.text.size);
}

/* ---- maps ---- */

verdict_decision_map *
verdict_map_create(void)
{
	verdict_decision_map *map = palloc0(sizeof(*map));

	map->parent = CurrentMemoryContext;
	return map;
}

void
verdict_map_clear(verdict_decision_map *map)
{
	MemoryContext parent = map->parent;

	if (map->context != NULL)
		MemoryContextDelete(map->context);
	memset(map, 0, sizeof(*map));
	map->parent = parent;
}

Size
verdict_map_size(const verdict_decision_map *map)
{
	return map->context != NULL ? MemoryContextMemAllocated(map->context, false) : 0;
}

verdict_known
verdict_map_find_integer(verdict_decision_map *map, int64 id)
{
	integer_block *block = map->last;
	uint64 bit = UINT64CONST(1) << (id & 63);

	if (block == NULL || block->number != id >> 6)
	{
		if (map->integers == NULL)
			return VERDICT_NOT_KNOWN;
		block = integers_lookup(map->integers, id >> 6);
		if (block == NULL)
			return VERDICT_NOT_KNOWN;
		map->last = block;
	}
	if ((block->known & bit) == 0)
		return VERDICT_NOT_KNOWN;
	return (block->allowed & bit) != 0 ? VERDICT_KNOWN_YES : VERDICT_KNOWN_NO;
}

verdict_known
verdict_map_find(verdict_decision_map *map, const verdict_id *id)
{
	switch (id->kind)
	{
		case VERDICT_ID_INTEGER:
			return verdict_map_find_integer(map, id->as.integer);
		case VERDICT_ID_UUID:
			if (map->uuids != NULL)
			{
				uuid_entry *entry = uuids_lookup(map->uuids, id->as.uuid);

				if (entry != NULL)
					return entry->allowed ? VERDICT_KNOWN_YES : VERDICT_KNOWN_NO;
			}
			break;
		case VERDICT_ID_TEXT:
			if (map->texts != NULL)
			{
				text_key key = {id->as.text.bytes, id->as.text.size};
				text_entry *entry = texts_lookup(map->texts, key);

				if (entry != NULL)
					return entry->allowed ? VERDICT_KNOWN_YES : VERDICT_KNOWN_NO;
			}
			break;
	}
	return VERDICT_NOT_KNOWN;
}

static bool
put_integer(verdict_decision_map *map, int64 id, bool allowed)
{
	uint64 bit = UINT64CONST(1) << (id & 63);
	integer_block *block = map->last;
	bool is_new;

	if (block == NULL || block->number != id >> 6)
	{
		bool found;

		if (map->integers == NULL)
			map->integers = integers_create(map->context, INITIAL_ENTRIES, NULL);
		map->last = NULL;
		block = integers_insert(map->integers, id >> 6, &found);
		if (!found)
			block->known = block->allowed = 0;
		map->last = block;
	}
	is_new = (block->known & bit) == 0;
	block->known |= bit;
	if (allowed)
		block->allowed |= bit;
	else
		block->allowed &= ~bit;
	return is_new;
}

bool
verdict_map_put(verdict_decision_map *map, const verdict_id *id, bool allowed)
{
	bool found = false;

	if (map->context == NULL)
		map->context =
			AllocSetContextCreate(map->parent, "verdict decisions", ALLOCSET_SMALL_SIZES);
	switch (id->kind)
	{
		case VERDICT_ID_INTEGER:
			return put_integer(map, id->as.integer, allowed);
		case VERDICT_ID_UUID:
		{
			uuid_entry *entry;

			if (map->uuids == NULL)
				map->uuids = uuids_create(map->context, INITIAL_ENTRIES, NULL);
			entry = uuids_insert(map->uuids, id->as.uuid, &found);
			entry->allowed = allowed;
			break;
		}
		case VERDICT_ID_TEXT:
		{
			text_key key = {id->as.text.bytes, id->as.text.size};
			text_entry *entry;

			if (map->texts == NULL)
				map->texts = texts_create(map->context, INITIAL_ENTRIES, NULL);
			entry = texts_lookup(map->texts, key);
			if (entry == NULL)
			{
				/* Copied before it is in the table, so that nothing there is half made. */
				char *copy = MemoryContextAlloc(map->context, key.size);

				memcpy(copy, key.bytes, key.size);
				key.bytes = copy;
				entry = texts_insert(map->texts, key, &found);
			}
			else
				found = true;
			entry->allowed = allowed;
			break;
		}
	}
	return !found;
}
