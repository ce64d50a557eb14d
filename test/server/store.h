/*
 * store.h
 *		Facts, policy and idempotency records in one SQLite file.
 *
 * Values and predicates are kept once and known by number.  A number that a
 * write transaction gave out is gone when it is rolled back.  Reads run in one
 * SQLite read transaction that stays open until the next write, since nobody
 * else writes: the file is locked for this process.
 *
 * Functions that return bool are false with the error filled when SQLite failed
 * (internal); nothing is "absent" because it could not be read.
 */
#ifndef VERDICT_SERVER_STORE_H
#define VERDICT_SERVER_STORE_H

#include "engine.h"
#include "pool.h"

typedef struct store store;

/* Values. */

typedef enum store_kind
{
	STORE_IDENTITY,
	STORE_STRING,
	STORE_INTEGER,
	STORE_BOOLEAN
} store_kind;

typedef struct store_value
{
	store_kind kind;
	const char *type; /* of an identity */
	const char *text; /* of an identity (its id) or string */
	int64_t integer;  /* also 0 or 1 for false or true */
} store_value;

/*
 * The number of a value: its type in the low bits and a serial above.  Serial 0
 * of an identity type means any identity of the type; 0 itself means any value.
 * Booleans and all but the largest integers are their own serial and need no row.
 */
typedef int64_t value_id;

#define VALUE_ANY ((value_id) 0)
/* No value: also what value_meet() gives when nothing is in both. */
#define VALUE_NONE ((value_id) -1)

#define VALUE_TYPE_BITS 20
#define VALUE_TYPE_STRING 1
#define VALUE_TYPE_BOOLEAN 2
#define VALUE_TYPE_INTEGER 3
#define VALUE_TYPE_LARGE_INTEGER 4
#define VALUE_TYPE_IDENTITY 16 /* identity types are numbered from here */

static inline int64_t
value_type(value_id id)
{
	return id & (((int64_t) 1 << VALUE_TYPE_BITS) - 1);
}

static inline bool
value_is_any(value_id id)
{
	return (id >> VALUE_TYPE_BITS) == 0;
}

/* What two values have in common, either of which may be an any value. */
static inline value_id
value_meet(value_id a, value_id b)
{
	if (a == b || b == VALUE_ANY)
		return a;
	if (a == VALUE_ANY)
		return b;
	if (value_is_any(a) && value_type(a) == value_type(b))
		return b;
	if (value_is_any(b) && value_type(a) == value_type(b))
		return a;
	return VALUE_NONE;
}

/*
 * The number of a value.  With add, inside a write transaction, a value that the
 * store does not have is added; else it gets a number of its own, which no fact
 * holds and which is good until store_forget().
 */
extern bool store_find_value(store *store, const store_value *value, bool add, value_id *id,
							 engine_error *error);
/* The any value of an identity type, likewise. */
extern bool
store_find_type(store *store, const char *type, bool add, value_id *id, engine_error *error);
extern void store_forget(store *store);
/* The value of a number that is not an any value; texts are in the pool. */
extern bool
store_get_value(store *store, value_id id, pool *pool, store_value *value, engine_error *error);
/* True with the integer when the value is one. */
extern bool store_get_integer(store *store, value_id id, bool *is_integer, int64_t *integer,
							  engine_error *error);
/* The name of the type of an identity or any-of-a-type value. */
extern const char *store_type_name(store *store, value_id id);

/* Facts. */

#define STORE_MAX_ARGUMENTS 64

/*
 * The stored facts of a predicate and a number of arguments.  It lives as long
 * as the store.
 */
typedef struct relation relation;

/* NULL when there is none and add is not set. */
extern relation *store_relation(store *store, const char *predicate, int arity, bool add);
extern const char *relation_predicate(const relation *relation);
extern int relation_arity(const relation *relation);

/* Inside a write transaction. */
extern bool store_insert_fact(store *store, relation *relation, const value_id *args, bool *changed,
							  engine_error *error);
extern bool store_delete_fact(store *store, relation *relation, const value_id *args, bool *changed,
							  engine_error *error);

/*
 * The facts that have the given values; VALUE_ANY (or an any of a type) leaves
 * an argument open.
 */
extern bool store_has_fact(store *store, relation *relation, const value_id *args, bool *found,
						   engine_error *error);
/*
 * All of them, as rows of the open arguments only, in one array of the pool;
 * give it back with pool_free(rows, capacity).
 */
typedef struct store_rows
{
	value_id *values;
	size_t width;	 /* values a row */
	size_t count;	 /* rows */
	size_t capacity; /* bytes allocated */
} store_rows;

extern bool store_match(store *store, relation *relation, const value_id *args, pool *pool,
						store_rows *rows, engine_error *error);

/*
 * Facts one at a time, in the order of their arguments' numbers, after a place
 * (NULL = from the start).  No write may come between open and close.  The next
 * function sets *found to false at the end.
 */
typedef struct store_scan
{
	struct sqlite3_stmt *statement;
	int arity;
} store_scan;

extern bool store_scan_open(store *store, relation *relation, const value_id *args,
							const value_id *after, store_scan *scan, engine_error *error);
extern bool
store_scan_next(store *store, store_scan *scan, value_id *args, bool *found, engine_error *error);
extern void store_scan_close(store_scan *scan);

/*
 * The relation with the lowest number above the given one that has stored (or
 * once had) facts, NULL at the end.  With a predicate, only of that predicate.
 */
extern relation *store_next_relation(store *store, int64_t number, const char *predicate);
extern int64_t relation_number(const relation *relation);

/* Life. */

/* With copy_of, all that the file held gives way to what that store holds. */
extern store *store_open(const char *path, store *copy_of, engine_error *error);
extern void store_close(store *store);

/* Write transactions.  A commit is durable when it returns true. */
extern bool store_begin(store *store, engine_error *error);
extern bool store_commit(store *store, engine_error *error);
extern void store_rollback(store *store);

/*
 * Whether a commit must outlive the machine (it does, unless this says otherwise)
 * or only the program: a copy that is made anew when it is behind needs no more.
 */
extern bool store_set_durable(store *store, bool durable, engine_error *error);

/* State. */

/*
 * The instance's name in revisions: the one that the file has, else the given
 * one, which it has from then on.
 */
extern bool
store_instance(store *store, const char *fresh, char *name, size_t size, engine_error *error);
/* Has history fork: the position stays, the generation is a greater one. */
extern bool store_set_generation(store *store, uint64_t generation, engine_error *error);
extern void store_position(const store *store, uint64_t *generation, uint64_t *position);
/* Inside a write transaction: takes the next position. */
extern bool store_take_position(store *store, uint64_t *position, engine_error *error);
/* The policy's text, new in the pool; empty before the first one is set. */
extern bool store_get_policy(store *store, pool *pool, const char **text, engine_error *error);
extern bool store_set_policy(store *store, const char *text, engine_error *error);

/* Idempotency records. */

#define STORE_HASH_SIZE 32

typedef struct store_key
{
	uint8_t caller[STORE_HASH_SIZE];
	const char *method;
	uint8_t hash[STORE_HASH_SIZE];
} store_key;

typedef struct store_record
{
	uint8_t payload[STORE_HASH_SIZE];
	uint8_t *answer; /* in the pool */
	size_t answer_size;
	uint64_t position;
} store_record;

extern bool store_find_record(store *store, const store_key *key, pool *pool, bool *found,
							  store_record *record, engine_error *error);
/* Inside a write transaction; forgets records that are old enough. */
extern bool store_add_record(store *store, const store_key *key, const store_record *record,
							 engine_error *error);

#endif /* VERDICT_SERVER_STORE_H */
