/*
 * store_internal.h
 *		Between the files of the store only.
 */
#ifndef VERDICT_SERVER_STORE_INTERNAL_H
#define VERDICT_SERVER_STORE_INTERNAL_H

#include <sqlite3.h>

#include "store.h"

typedef enum statement_kind
{
	STATEMENT_HAS,
	STATEMENT_MATCH,
	STATEMENT_SCAN,
	STATEMENT_SCAN_AFTER,
	STATEMENT_INSERT,
	STATEMENT_DELETE
} statement_kind;

/* One prepared statement of a relation, for one set of given arguments. */
typedef struct relation_statement relation_statement;

struct relation_statement
{
	statement_kind kind;
	uint64_t given;
	sqlite3_stmt *statement;
	relation_statement *next;
};

#define RELATION_IS_TYPE (-1)

/* A name with a number: of a relation, or of an identity type. */
struct relation
{
	char *name;
	int arity;						/* RELATION_IS_TYPE for an identity type */
	int64_t number;					/* 0 = the store does not have it */
	relation_statement *statements; /* the one used last first */
	int statement_count;
};

typedef enum transaction_state
{
	TRANSACTION_NONE,
	TRANSACTION_READ,
	TRANSACTION_WRITE
} transaction_state;

/* A value that the store does not have, known for one request. */
typedef struct temporary_value
{
	int64_t type;
	char *text;
} temporary_value;

/* What store_cache.c keeps of a value. */
typedef struct cached_value cached_value;
typedef struct cached_text cached_text;

struct store
{
	sqlite3 *database;
	transaction_state transaction;
	uint64_t generation;
	uint64_t position;		/* of the last commit */
	uint64_t next_position; /* of the transaction that runs */
	int64_t pruned;			/* when old records were last forgotten, seconds */

	relation **table;  /* by name and arity: open addressing */
	size_t table_size; /* a power of two */
	size_t table_count;
	relation **numbered; /* by number, from VALUE_TYPE_IDENTITY */
	size_t numbered_count;
	size_t numbered_room;
	size_t numbered_committed;
	int64_t next_serial;
	int64_t first_serial; /* of the transaction that runs */

	cached_value *cache;
	cached_text *texts; /* NULL until there is one */

	temporary_value *values;
	size_t value_count;
	size_t value_room;
	char **types;
	size_t type_count;
	size_t type_room;

	sqlite3_stmt *begin_read;
	sqlite3_stmt *begin_write;
	sqlite3_stmt *commit;
	sqlite3_stmt *find_value;
	sqlite3_stmt *get_value;
	sqlite3_stmt *add_value;
	sqlite3_stmt *add_symbol;
	sqlite3_stmt *set_position;
	sqlite3_stmt *set_policy;
	sqlite3_stmt *find_record;
	sqlite3_stmt *add_record;
	sqlite3_stmt *forget_records;
};

/* Fills the error from SQLite's last one; returns false. */
extern bool store_fail(store *store, const char *doing, engine_error *error);
/* Makes sure that a transaction is open to read in. */
extern bool store_begin_read(store *store, engine_error *error);
/* Runs a statement that gives no row, and resets it. */
extern bool
store_run(store *store, sqlite3_stmt *statement, const char *doing, engine_error *error);
/* Prepares a statement that is kept. */
extern bool
store_prepare(store *store, const char *sql, sqlite3_stmt **statement, engine_error *error);

/* Of store_cache.c: hashes, and numbers of values that the store has. */
extern uint64_t store_hash_text(const char *text, uint64_t seed);
extern void store_cache_open(store *store);
extern bool
store_cache_find(const store *store, int64_t type, const char *text, uint64_t hash, value_id *id);
extern void store_cache_add(store *store, const char *text, uint64_t hash, value_id id);
/* The text of a value, good until the next one is added; NULL when it is not known. */
extern const char *store_cache_find_text(const store *store, value_id id);
extern void store_cache_add_text(store *store, value_id id, const char *text, size_t size);
/* On rollback: what was added may be gone. */
extern void store_cache_forget(store *store);
extern void store_cache_close(store *store);

/* Of store_symbol.c, for opening, rolling back and closing. */
extern bool store_load_symbols(store *store, engine_error *error);
extern void store_drop_new_symbols(store *store);
extern void store_free_symbols(store *store);
/* Gives the name a number, inside a write transaction, unless it has one. */
extern bool store_number_symbol(store *store, relation *symbol, engine_error *error);

#endif /* VERDICT_SERVER_STORE_INTERNAL_H */
