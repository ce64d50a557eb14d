/*
 * store_symbol.c
 *		Names and values and their numbers.
 *
 * Names of relations and identity types are all in memory, since there are few;
 * values are looked up in the file, those of late in a cache before it.  A name
 * gets its number when the store first needs it: numbered[] past
 * numbered_committed is what the write transaction that runs has added, and goes
 * again when it is rolled back.
 */
#include "store_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

/* Numbers that fit the type bits, less some for types of one request. */
#define TYPE_LIMIT (((int64_t) 1 << VALUE_TYPE_BITS) - 1)
#define SYMBOL_LIMIT (TYPE_LIMIT - 0xffff)
/* Serials from here on belong to values of one request. */
#define TEMPORARY_SERIAL ((int64_t) 1 << 42)

static void
place_symbol(store *store, relation *symbol)
{
	size_t slot =
		store_hash_text(symbol->name, (uint64_t) (symbol->arity + 1)) & (store->table_size - 1);

	while (store->table[slot] != NULL)
		slot = (slot + 1) & (store->table_size - 1);
	store->table[slot] = symbol;
}

static relation *
find_symbol(store *store, const char *name, int arity, bool add)
{
	relation *symbol;

	if (store->table_size > 0)
	{
		size_t slot = store_hash_text(name, (uint64_t) (arity + 1)) & (store->table_size - 1);

		while ((symbol = store->table[slot]) != NULL)
		{
			if (symbol->arity == arity && strcmp(symbol->name, name) == 0)
				return symbol;
			slot = (slot + 1) & (store->table_size - 1);
		}
	}
	if (!add)
		return NULL;
	if (store->table_count * 2 >= store->table_size)
	{
		relation **old = store->table;
		size_t old_size = store->table_size;

		store->table_size = old_size > 0 ? old_size * 2 : 256;
		store->table = memory_alloc(store->table_size * sizeof(relation *));
		memset(store->table, 0, store->table_size * sizeof(relation *));
		for (size_t i = 0; i < old_size; i++)
		{
			if (old[i] != NULL)
				place_symbol(store, old[i]);
		}
		free(old);
	}
	symbol = memory_alloc(sizeof(*symbol));
	memset(symbol, 0, sizeof(*symbol));
	symbol->name = memory_copy(name);
	symbol->arity = arity;
	place_symbol(store, symbol);
	store->table_count++;
	return symbol;
}

static void
append_numbered(store *store, relation *symbol)
{
	if (store->numbered_count == store->numbered_room)
	{
		store->numbered_room = store->numbered_room * 2 + 64;
		store->numbered = memory_resize(store->numbered, store->numbered_room * sizeof(relation *));
	}
	symbol->number = VALUE_TYPE_IDENTITY + (int64_t) store->numbered_count;
	store->numbered[store->numbered_count++] = symbol;
}

bool
store_number_symbol(store *store, relation *symbol, engine_error *error)
{
	sqlite3_stmt *statement = store->add_symbol;
	int64_t number = VALUE_TYPE_IDENTITY + (int64_t) store->numbered_count;

	if (symbol->number != 0)
		return true;
	if (number >= SYMBOL_LIMIT)
		return engine_fail(error, ENGINE_RESOURCE_EXHAUSTED,
						   "the store has room for %" PRId64 " predicates and identity types",
						   SYMBOL_LIMIT - VALUE_TYPE_IDENTITY);
	sqlite3_bind_int64(statement, 1, number);
	sqlite3_bind_text(statement, 2, symbol->name, -1, SQLITE_STATIC);
	sqlite3_bind_int(statement, 3, symbol->arity);
	if (!store_run(store, statement, "storing a name", error))
		return false;
	append_numbered(store, symbol);
	return true;
}

bool
store_load_symbols(store *store, engine_error *error)
{
	sqlite3_stmt *statement;
	bool done = true;
	int step;

	if (!store_prepare(store, "SELECT number, name, arity FROM symbol ORDER BY number", &statement,
					   error))
		return false;
	while ((step = sqlite3_step(statement)) == SQLITE_ROW)
	{
		const char *name = (const char *) sqlite3_column_text(statement, 1);

		if (name == NULL || sqlite3_column_int64(statement, 0) !=
								VALUE_TYPE_IDENTITY + (int64_t) store->numbered_count)
		{
			done = engine_fail(error, ENGINE_INTERNAL, "the names in the store are damaged");
			break;
		}
		append_numbered(store, find_symbol(store, name, sqlite3_column_int(statement, 2), true));
	}
	if (done && step != SQLITE_DONE)
		done = store_fail(store, "reading the names", error);
	sqlite3_finalize(statement);
	store->numbered_committed = store->numbered_count;
	return done;
}

static void
free_statements(relation *symbol)
{
	while (symbol->statements != NULL)
	{
		relation_statement *statement = symbol->statements;

		symbol->statements = statement->next;
		sqlite3_finalize(statement->statement);
		free(statement);
	}
	symbol->statement_count = 0;
}

void
store_drop_new_symbols(store *store)
{
	while (store->numbered_count > store->numbered_committed)
	{
		relation *symbol = store->numbered[--store->numbered_count];

		symbol->number = 0;
		free_statements(symbol);
	}
}

void
store_free_symbols(store *store)
{
	for (size_t i = 0; i < store->table_size; i++)
	{
		if (store->table[i] != NULL)
		{
			free_statements(store->table[i]);
			free(store->table[i]->name);
			free(store->table[i]);
		}
	}
	free(store->table);
	free(store->numbered);
}

/* Relations. */

relation *
store_relation(store *store, const char *predicate, int arity, bool add)
{
	return find_symbol(store, predicate, arity, add);
}

const char *
relation_predicate(const relation *relation)
{
	return relation->name;
}

int
relation_arity(const relation *relation)
{
	return relation->arity;
}

int64_t
relation_number(const relation *relation)
{
	return relation->number;
}

relation *
store_next_relation(store *store, int64_t number, const char *predicate)
{
	size_t i = number < VALUE_TYPE_IDENTITY ? 0 : (size_t) (number - VALUE_TYPE_IDENTITY) + 1;

	for (; i < store->numbered_count; i++)
	{
		relation *found = store->numbered[i];

		if (found->arity != RELATION_IS_TYPE &&
			(predicate == NULL || strcmp(found->name, predicate) == 0))
			return found;
	}
	return NULL;
}

/* Types. */

static value_id
temporary_type(store *store, const char *type)
{
	size_t i = 0;

	while (i < store->type_count && strcmp(store->types[i], type) != 0)
		i++;
	if (i == store->type_count)
	{
		if (store->type_count == store->type_room)
		{
			store->type_room = store->type_room * 2 + 8;
			store->types = memory_resize(store->types, store->type_room * sizeof(char *));
		}
		store->types[store->type_count++] = memory_copy(type);
	}
	return TYPE_LIMIT - (int64_t) i;
}

bool
store_find_type(store *store, const char *type, bool add, value_id *id, engine_error *error)
{
	relation *symbol = find_symbol(store, type, RELATION_IS_TYPE, add);

	if (add && !store_number_symbol(store, symbol, error))
		return false;
	*id = symbol != NULL && symbol->number != 0 ? symbol->number : temporary_type(store, type);
	return true;
}

const char *
store_type_name(store *store, value_id id)
{
	int64_t type = value_type(id);

	if (type > SYMBOL_LIMIT)
		return store->types[TYPE_LIMIT - type];
	return store->numbered[type - VALUE_TYPE_IDENTITY]->name;
}

/* Values. */

static value_id
make_id(int64_t serial, int64_t type)
{
	return serial << VALUE_TYPE_BITS | type;
}

static value_id
temporary_value_id(store *store, int64_t type, const char *text)
{
	size_t i = 0;

	while (i < store->value_count &&
		   (store->values[i].type != type || strcmp(store->values[i].text, text) != 0))
		i++;
	if (i == store->value_count)
	{
		if (store->value_count == store->value_room)
		{
			store->value_room = store->value_room * 2 + 8;
			store->values =
				memory_resize(store->values, store->value_room * sizeof(temporary_value));
		}
		store->values[i].type = type;
		store->values[i].text = memory_copy(text);
		store->value_count++;
	}
	return make_id(TEMPORARY_SERIAL + (int64_t) i, type);
}

void
store_forget(store *store)
{
	while (store->value_count > 0)
		free(store->values[--store->value_count].text);
	while (store->type_count > 0)
		free(store->types[--store->type_count]);
}

/* Adds the value unless the store has it: one step down the index, not two. */
static bool
add_text(store *store, int64_t type, const char *text, bool *added, value_id *id,
		 engine_error *error)
{
	sqlite3_stmt *statement = store->add_value;

	if (store->next_serial >= TEMPORARY_SERIAL)
		return engine_fail(error, ENGINE_RESOURCE_EXHAUSTED,
						   "the store has no number left for a value");
	*id = make_id(store->next_serial, type);
	sqlite3_bind_int64(statement, 1, *id);
	sqlite3_bind_int64(statement, 2, type);
	sqlite3_bind_text(statement, 3, text, -1, SQLITE_STATIC);
	if (!store_run(store, statement, "storing a value", error))
		return false;
	*added = sqlite3_changes(store->database) > 0;
	if (*added)
		store->next_serial++;
	return true;
}

static bool
find_text(store *store, int64_t type, const char *text, bool add, value_id *id, engine_error *error)
{
	sqlite3_stmt *statement = store->find_value;
	uint64_t hash = store_hash_text(text, (uint64_t) type);
	bool added = false;
	int step;

	if (store_cache_find(store, type, text, hash, id))
		return true;
	if (add && !add_text(store, type, text, &added, id, error))
		return false;
	if (!added)
	{
		if (!store_begin_read(store, error))
			return false;
		sqlite3_bind_int64(statement, 1, type);
		sqlite3_bind_text(statement, 2, text, -1, SQLITE_STATIC);
		step = sqlite3_step(statement);
		if (step == SQLITE_ROW)
			*id = sqlite3_column_int64(statement, 0);
		else if (step != SQLITE_DONE || add)
			store_fail(store, "looking a value up", error);
		sqlite3_reset(statement);
		if (step != SQLITE_ROW)
		{
			if (step != SQLITE_DONE || add)
				return false;
			*id = temporary_value_id(store, type, text);
			return true;
		}
	}
	store_cache_add(store, text, hash, *id);
	return true;
}

bool
store_find_value(store *store, const store_value *value, bool add, value_id *id,
				 engine_error *error)
{
	uint64_t folded;
	char text[32];
	value_id type;

	switch (value->kind)
	{
		case STORE_STRING:
			return find_text(store, VALUE_TYPE_STRING, value->text, add, id, error);
		case STORE_BOOLEAN:
			*id = make_id(value->integer != 0 ? 2 : 1, VALUE_TYPE_BOOLEAN);
			return true;
		case STORE_INTEGER:
			/* Small numbers of either sign to small serials. */
			folded = (uint64_t) value->integer << 1 ^ (uint64_t) (value->integer < 0 ? -1 : 0);
			if (folded < (uint64_t) TEMPORARY_SERIAL - 1)
			{
				*id = make_id((int64_t) folded + 1, VALUE_TYPE_INTEGER);
				return true;
			}
			snprintf(text, sizeof(text), "%" PRId64, value->integer);
			return find_text(store, VALUE_TYPE_LARGE_INTEGER, text, add, id, error);
		case STORE_IDENTITY:
			break;
	}
	return store_find_type(store, value->type, add, &type, error) &&
		   find_text(store, type, value->text, add, id, error);
}

static bool
get_text(store *store, value_id id, pool *pool, const char **text, engine_error *error)
{
	sqlite3_stmt *statement = store->get_value;
	int64_t serial = id >> VALUE_TYPE_BITS;
	const char *stored = NULL;

	if (serial >= TEMPORARY_SERIAL)
	{
		stored = store->values[serial - TEMPORARY_SERIAL].text;
		*text = pool_copy(pool, stored, strlen(stored));
		return true;
	}
	stored = store_cache_find_text(store, id);
	if (stored != NULL)
	{
		*text = pool_copy(pool, stored, strlen(stored));
		return true;
	}
	if (!store_begin_read(store, error))
		return false;
	sqlite3_bind_int64(statement, 1, id);
	if (sqlite3_step(statement) == SQLITE_ROW)
		stored = (const char *) sqlite3_column_text(statement, 0);
	if (stored == NULL)
		store_fail(store, "reading a value", error);
	else
	{
		size_t size = (size_t) sqlite3_column_bytes(statement, 0);

		*text = pool_copy(pool, stored, size);
		store_cache_add_text(store, id, stored, size);
	}
	sqlite3_reset(statement);
	return stored != NULL;
}

bool
store_get_integer(store *store, value_id id, bool *is_integer, int64_t *integer,
				  engine_error *error)
{
	uint64_t folded;
	pool pool = {0};
	const char *text;
	bool done;

	*is_integer = true;
	if (value_type(id) == VALUE_TYPE_INTEGER)
	{
		folded = (uint64_t) (id >> VALUE_TYPE_BITS) - 1;
		*integer = (int64_t) (folded >> 1 ^ (0 - (folded & 1)));
		return true;
	}
	if (value_type(id) != VALUE_TYPE_LARGE_INTEGER)
	{
		*is_integer = false;
		return true;
	}
	done = get_text(store, id, &pool, &text, error);
	if (done)
		*integer = strtoll(text, NULL, 10);
	pool_destroy(&pool);
	return done;
}

bool
store_get_value(store *store, value_id id, pool *pool, store_value *value, engine_error *error)
{
	bool is_integer;

	memset(value, 0, sizeof(*value));
	switch (value_type(id))
	{
		case VALUE_TYPE_STRING:
			value->kind = STORE_STRING;
			return get_text(store, id, pool, &value->text, error);
		case VALUE_TYPE_BOOLEAN:
			value->kind = STORE_BOOLEAN;
			value->integer = (id >> VALUE_TYPE_BITS) == 2;
			return true;
		case VALUE_TYPE_INTEGER:
		case VALUE_TYPE_LARGE_INTEGER:
			value->kind = STORE_INTEGER;
			return store_get_integer(store, id, &is_integer, &value->integer, error);
		default:
			value->kind = STORE_IDENTITY;
			value->type = store_type_name(store, id);
			return get_text(store, id, pool, &value->text, error);
	}
}
