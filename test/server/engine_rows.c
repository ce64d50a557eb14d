/*
 * engine_rows.c
 *		See engine_rows.h.
 */
#include "engine_rows.h"

#include <string.h>

static size_t
hash_row(const value_id *row, size_t width)
{
	uint64_t hash = 0;

	for (size_t i = 0; i < width; i++)
	{
		hash = (hash ^ (uint64_t) row[i]) * UINT64_C(0x9e3779b97f4a7c15);
		hash ^= hash >> 29;
	}
	hash *= UINT64_C(0xd6e8feb86659fd93);
	return (size_t) (hash ^ hash >> 32);
}

static void
grow_table(row_set *set, row_list *list)
{
	size_t size = list->table_size > 0 ? list->table_size * 2 : 16;

	if (list->table_size > 0)
		pool_free(set->pool, list->table, list->table_size * sizeof(*list->table));
	list->table = pool_zero(set->pool, size * sizeof(*list->table));
	list->table_size = size;
	for (size_t i = 0; i < list->count; i++)
	{
		size_t slot = hash_row(list->values + i * set->width, set->width) & (size - 1);

		while (list->table[slot] != 0)
			slot = (slot + 1) & (size - 1);
		list->table[slot] = (uint32_t) (i + 1);
	}
}

static void
add(row_set *set, row_list *list, const value_id *row)
{
	size_t bytes = set->width * sizeof(value_id);
	size_t slot;

	if (list->count > set->limit)
		return;
	if (list->count * 2 >= list->table_size)
		grow_table(set, list);
	slot = hash_row(row, set->width) & (list->table_size - 1);
	while (list->table[slot] != 0)
	{
		if (bytes == 0 ||
			memcmp(list->values + (list->table[slot] - 1) * set->width, row, bytes) == 0)
			return;
		slot = (slot + 1) & (list->table_size - 1);
	}
	if (list->count == list->room)
	{
		size_t room = list->room > 0 ? list->room * 2 : 16;
		value_id *values = pool_alloc(set->pool, room * bytes);

		if (list->count > 0)
		{
			memcpy(values, list->values, list->count * bytes);
			pool_free(set->pool, list->values, list->room * bytes);
		}
		list->values = values;
		list->room = room;
	}
	memcpy(list->values + list->count * set->width, row, bytes);
	list->table[slot] = (uint32_t) ++list->count;
}

void
row_set_add(row_set *set, const value_id *row)
{
	for (size_t i = 0; i < set->width; i++)
	{
		if (value_is_any(row[i]))
		{
			add(set, &set->any, row);
			return;
		}
	}
	add(set, &set->specific, row);
}

bool
row_set_truncated(const row_set *set)
{
	return set->any.count + set->specific.count > set->limit;
}

size_t
row_set_count(const row_set *set)
{
	return row_set_truncated(set) ? set->limit : set->any.count + set->specific.count;
}

const value_id *
row_set_row(const row_set *set, size_t index)
{
	if (index < set->any.count)
		return set->any.values + index * set->width;
	return set->specific.values + (index - set->any.count) * set->width;
}
