/*
 * store_fact.c
 *		Stored facts: one table a relation, one integer column an argument.
 *
 * The primary key is the whole row, so a ground look-up is one probe.  Each of
 * the next few columns has an index; SQLite puts the primary key behind it, so
 * that it also holds the whole row.  A predicate without arguments has one
 * column that is always 0.
 *
 * Statements are kept with the relation, one for each set of given arguments.
 */
#include "store_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

/* Columns with an index of their own, counting the primary key's first. */
#define INDEXED_COLUMNS 8

/* Statements kept a relation: many arguments make for very many sets of them. */
#define KEPT_STATEMENTS 64

static int
column_count(const relation *relation)
{
	return relation->arity > 0 ? relation->arity : 1;
}

/* Column names (or a text for each) with commas, for those in the set. */
static void
append_columns(sqlite3_str *sql, const relation *relation, uint64_t set, const char *text)
{
	const char *comma = "";

	for (int i = 0; i < column_count(relation); i++)
	{
		if ((set >> i & 1) == 0)
			continue;
		if (text != NULL)
			sqlite3_str_appendf(sql, "%s%s", comma, text);
		else
			sqlite3_str_appendf(sql, "%sa%d", comma, i);
		comma = ",";
	}
}

static void
append_condition(sqlite3_str *sql, const relation *relation, uint64_t given)
{
	const char *word = " WHERE ";

	for (int i = 0; i < column_count(relation); i++)
	{
		if ((given >> i & 1) != 0)
		{
			sqlite3_str_appendf(sql, "%sa%d=?", word, i);
			word = " AND ";
		}
	}
}

static bool
make_table(store *store, relation *relation, engine_error *error)
{
	sqlite3_str *sql = sqlite3_str_new(store->database);
	char *text;
	bool done;

	if (!store_number_symbol(store, relation, error))
	{
		sqlite3_free(sqlite3_str_finish(sql));
		return false;
	}
	sqlite3_str_appendf(sql, "CREATE TABLE fact_%lld (", (long long) relation->number);
	for (int i = 0; i < column_count(relation); i++)
		sqlite3_str_appendf(sql, "a%d INTEGER NOT NULL,", i);
	sqlite3_str_appendall(sql, "PRIMARY KEY (");
	append_columns(sql, relation, UINT64_MAX, NULL);
	sqlite3_str_appendall(sql, ")) WITHOUT ROWID;");
	for (int i = 1; i < column_count(relation) && i < INDEXED_COLUMNS; i++)
		sqlite3_str_appendf(sql, "CREATE INDEX fact_%lld_%d ON fact_%lld (a%d);",
							(long long) relation->number, i, (long long) relation->number, i);
	text = sqlite3_str_finish(sql);
	done = text != NULL && sqlite3_exec(store->database, text, NULL, NULL, NULL) == SQLITE_OK;
	if (!done)
		store_fail(store, "making a table of facts", error);
	sqlite3_free(text);
	return done;
}

/* The text of a statement, from sqlite3_malloc(). */
static char *
statement_text(store *store, const relation *relation, statement_kind kind, uint64_t given)
{
	sqlite3_str *sql = sqlite3_str_new(store->database);
	long long number = relation->number;

	switch (kind)
	{
		case STATEMENT_INSERT:
			sqlite3_str_appendf(sql, "INSERT OR IGNORE INTO fact_%lld VALUES (", number);
			append_columns(sql, relation, UINT64_MAX, "?");
			sqlite3_str_appendall(sql, ")");
			break;
		case STATEMENT_DELETE:
			sqlite3_str_appendf(sql, "DELETE FROM fact_%lld", number);
			append_condition(sql, relation, given);
			break;
		case STATEMENT_HAS:
			sqlite3_str_appendf(sql, "SELECT 1 FROM fact_%lld", number);
			append_condition(sql, relation, given);
			sqlite3_str_appendall(sql, " LIMIT 1");
			break;
		case STATEMENT_MATCH:
			sqlite3_str_appendall(sql, "SELECT ");
			append_columns(sql, relation, ~given, NULL);
			sqlite3_str_appendf(sql, " FROM fact_%lld", number);
			append_condition(sql, relation, given);
			break;
		case STATEMENT_SCAN:
		case STATEMENT_SCAN_AFTER:
			sqlite3_str_appendall(sql, "SELECT ");
			append_columns(sql, relation, UINT64_MAX, NULL);
			sqlite3_str_appendf(sql, " FROM fact_%lld", number);
			append_condition(sql, relation, given);
			if (kind == STATEMENT_SCAN_AFTER)
			{
				sqlite3_str_appendall(sql, given != 0 ? " AND (" : " WHERE (");
				append_columns(sql, relation, UINT64_MAX, NULL);
				sqlite3_str_appendall(sql, ") > (");
				append_columns(sql, relation, UINT64_MAX, "?");
				sqlite3_str_appendall(sql, ")");
			}
			sqlite3_str_appendall(sql, " ORDER BY ");
			append_columns(sql, relation, UINT64_MAX, NULL);
			break;
	}
	return sqlite3_str_finish(sql);
}

/* Finalizes the statement of a relation that was used least recently. */
static void
drop_last_statement(relation *relation)
{
	relation_statement **link = &relation->statements;

	while ((*link)->next != NULL)
		link = &(*link)->next;
	sqlite3_finalize((*link)->statement);
	free(*link);
	*link = NULL;
	relation->statement_count--;
}

static sqlite3_stmt *
get_statement(store *store, relation *relation, statement_kind kind, uint64_t given,
			  engine_error *error)
{
	relation_statement **link = &relation->statements;
	relation_statement *found;
	sqlite3_stmt *statement;
	char *text;
	bool done;

	while ((found = *link) != NULL)
	{
		if (found->kind == kind && found->given == given)
		{
			*link = found->next;
			found->next = relation->statements;
			relation->statements = found;
			return found->statement;
		}
		link = &found->next;
	}
	text = statement_text(store, relation, kind, given);
	if (text == NULL)
	{
		engine_fail(error, ENGINE_INTERNAL, "out of memory");
		return NULL;
	}
	done = store_prepare(store, text, &statement, error);
	sqlite3_free(text);
	if (!done)
		return NULL;
	if (relation->statement_count == KEPT_STATEMENTS)
		drop_last_statement(relation);
	relation->statement_count++;
	found = memory_alloc(sizeof(*found));
	found->kind = kind;
	found->given = given;
	found->statement = statement;
	found->next = relation->statements;
	relation->statements = found;
	return statement;
}

/* The arguments that are given, as columns of the table. */
static uint64_t
given_set(const relation *relation, const value_id *args)
{
	uint64_t given = 0;

	for (int i = 0; i < relation->arity; i++)
	{
		if (!value_is_any(args[i]))
			given |= UINT64_C(1) << i;
	}
	return relation->arity > 0 ? given : 1;
}

static void
bind_given(sqlite3_stmt *statement, const relation *relation, const value_id *args)
{
	int at = 1;

	if (relation->arity == 0)
		sqlite3_bind_int64(statement, 1, 0);
	for (int i = 0; i < relation->arity; i++)
	{
		if (!value_is_any(args[i]))
			sqlite3_bind_int64(statement, at++, args[i]);
	}
}

static bool
change(store *store, relation *relation, statement_kind kind, const value_id *args, bool *changed,
	   engine_error *error)
{
	sqlite3_stmt *statement =
		get_statement(store, relation, kind, given_set(relation, args), error);

	if (statement == NULL)
		return false;
	bind_given(statement, relation, args);
	if (!store_run(store, statement, "changing a fact", error))
		return false;
	*changed = sqlite3_changes(store->database) > 0;
	return true;
}

bool
store_insert_fact(store *store, relation *relation, const value_id *args, bool *changed,
				  engine_error *error)
{
	if (relation->number == 0 && !make_table(store, relation, error))
		return false;
	return change(store, relation, STATEMENT_INSERT, args, changed, error);
}

bool
store_delete_fact(store *store, relation *relation, const value_id *args, bool *changed,
				  engine_error *error)
{
	*changed = false;
	return relation->number == 0 || change(store, relation, STATEMENT_DELETE, args, changed, error);
}

bool
store_has_fact(store *store, relation *relation, const value_id *args, bool *found,
			   engine_error *error)
{
	sqlite3_stmt *statement;
	int step;

	*found = false;
	if (relation->number == 0)
		return true;
	if (!store_begin_read(store, error))
		return false;
	statement = get_statement(store, relation, STATEMENT_HAS, given_set(relation, args), error);
	if (statement == NULL)
		return false;
	bind_given(statement, relation, args);
	step = sqlite3_step(statement);
	if (step != SQLITE_ROW && step != SQLITE_DONE)
		store_fail(store, "looking a fact up", error);
	*found = step == SQLITE_ROW;
	sqlite3_reset(statement);
	return step == SQLITE_ROW || step == SQLITE_DONE;
}

bool
store_match(store *store, relation *relation, const value_id *args, pool *pool, store_rows *rows,
			engine_error *error)
{
	uint64_t given = given_set(relation, args);
	size_t width = (size_t) relation->arity - (size_t) __builtin_popcountll(given);
	sqlite3_stmt *statement;
	int step;

	memset(rows, 0, sizeof(*rows));
	rows->width = width;
	if (relation->number == 0)
		return true;
	if (!store_begin_read(store, error))
		return false;
	statement = get_statement(store, relation, STATEMENT_MATCH, given, error);
	if (statement == NULL)
		return false;
	bind_given(statement, relation, args);
	while ((step = sqlite3_step(statement)) == SQLITE_ROW)
	{
		value_id *row;

		if ((rows->count + 1) * width * sizeof(value_id) > rows->capacity)
		{
			size_t capacity =
				rows->capacity > 0 ? rows->capacity * 2 : 4 * width * sizeof(value_id);
			value_id *larger = pool_alloc(pool, capacity);

			if (rows->capacity > 0)
			{
				memcpy(larger, rows->values, rows->capacity);
				pool_free(pool, rows->values, rows->capacity);
			}
			rows->values = larger;
			rows->capacity = capacity;
		}
		row = rows->values + rows->count * width;
		for (size_t i = 0; i < width; i++)
			row[i] = sqlite3_column_int64(statement, (int) i);
		rows->count++;
	}
	if (step != SQLITE_DONE)
		store_fail(store, "looking facts up", error);
	sqlite3_reset(statement);
	return step == SQLITE_DONE;
}

bool
store_scan_open(store *store, relation *relation, const value_id *args, const value_id *after,
				store_scan *scan, engine_error *error)
{
	uint64_t given = given_set(relation, args);
	int at;

	scan->arity = relation->arity;
	scan->statement = NULL;
	/* Nothing is stored, or the one row without arguments lies behind. */
	if (relation->number == 0 || (after != NULL && relation->arity == 0))
		return true;
	if (!store_begin_read(store, error))
		return false;
	scan->statement = get_statement(
		store, relation, after == NULL ? STATEMENT_SCAN : STATEMENT_SCAN_AFTER, given, error);
	if (scan->statement == NULL)
		return false;
	bind_given(scan->statement, relation, args);
	at = __builtin_popcountll(given) + 1;
	for (int i = 0; after != NULL && i < relation->arity; i++)
		sqlite3_bind_int64(scan->statement, at + i, after[i]);
	return true;
}

bool
store_scan_next(store *store, store_scan *scan, value_id *args, bool *found, engine_error *error)
{
	int step = scan->statement == NULL ? SQLITE_DONE : sqlite3_step(scan->statement);

	*found = step == SQLITE_ROW;
	if (step != SQLITE_ROW && step != SQLITE_DONE)
		return store_fail(store, "reading facts", error);
	for (int i = 0; *found && i < scan->arity; i++)
		args[i] = sqlite3_column_int64(scan->statement, i);
	return true;
}

void
store_scan_close(store_scan *scan)
{
	if (scan->statement != NULL)
		sqlite3_reset(scan->statement);
	scan->statement = NULL;
}
