/*
 * store.c
 *		The SQLite file: opening, transactions, state, idempotency records.
 *
 * One connection, locked for this process.  A read transaction is left open
 * after reads, since nobody else writes, and ended by the next write.
 */
#include "store_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "text.h"

/* "vdct": marks the file as a store of this program. */
#define APPLICATION_ID 0x76646374
#define FORMAT_VERSION 1

/*
 * The wire contract asks for 24 hours at least; twice that leaves room for a
 * clock that was set.
 */
#define RECORD_LIFE_SECONDS (48 * 3600)
#define RECORD_PRUNE_SECONDS 600

bool
store_fail(store *store, const char *doing, engine_error *error)
{
	return engine_fail(error, ENGINE_INTERNAL, "%s: %s", doing, sqlite3_errmsg(store->database));
}

bool
store_prepare(store *store, const char *sql, sqlite3_stmt **statement, engine_error *error)
{
	if (sqlite3_prepare_v3(store->database, sql, -1, SQLITE_PREPARE_PERSISTENT, statement, NULL) !=
		SQLITE_OK)
		return store_fail(store, "preparing a statement", error);
	return true;
}

bool
store_run(store *store, sqlite3_stmt *statement, const char *doing, engine_error *error)
{
	bool done = sqlite3_step(statement) == SQLITE_DONE;

	if (!done)
		store_fail(store, doing, error);
	sqlite3_reset(statement);
	return done;
}

static bool
execute(store *store, const char *sql, const char *doing, engine_error *error)
{
	if (sqlite3_exec(store->database, sql, NULL, NULL, NULL) == SQLITE_OK)
		return true;
	if (sqlite3_errcode(store->database) == SQLITE_BUSY)
		return engine_fail(error, ENGINE_INTERNAL, "%s: %s", doing,
						   "the file is in use by another process");
	return store_fail(store, doing, error);
}

bool
store_begin_read(store *store, engine_error *error)
{
	if (store->transaction != TRANSACTION_NONE)
		return true;
	if (!store_run(store, store->begin_read, "beginning to read", error))
		return false;
	store->transaction = TRANSACTION_READ;
	return true;
}

bool
store_begin(store *store, engine_error *error)
{
	if (store->transaction == TRANSACTION_READ)
	{
		if (!store_run(store, store->commit, "ending to read", error))
			return false;
		store->transaction = TRANSACTION_NONE;
	}
	if (!store_run(store, store->begin_write, "beginning to write", error))
		return false;
	store->transaction = TRANSACTION_WRITE;
	store->next_position = store->position;
	store->first_serial = store->next_serial;
	return true;
}

bool
store_commit(store *store, engine_error *error)
{
	if (!store_run(store, store->commit, "committing", error))
	{
		store_rollback(store);
		return false;
	}
	store->transaction = TRANSACTION_NONE;
	store->position = store->next_position;
	store->numbered_committed = store->numbered_count;
	return true;
}

void
store_rollback(store *store)
{
	if (store->transaction != TRANSACTION_WRITE)
		return;
	/* Before the tables go that their statements name. */
	store_drop_new_symbols(store);
	if (store->next_serial != store->first_serial)
		store_cache_forget(store);
	/* SQLite may have rolled back by itself, for instance on a full disk. */
	if (!sqlite3_get_autocommit(store->database))
		sqlite3_exec(store->database, "ROLLBACK", NULL, NULL, NULL);
	store->transaction = TRANSACTION_NONE;
}

/* State. */

void
store_position(const store *store, uint64_t *generation, uint64_t *position)
{
	*generation = store->generation;
	*position = store->position;
}

bool
store_take_position(store *store, uint64_t *position, engine_error *error)
{
	*position = store->next_position = store->position + 1;
	sqlite3_bind_int64(store->set_position, 1, (int64_t) *position);
	return store_run(store, store->set_position, "taking a position", error);
}

bool
store_get_policy(store *store, pool *pool, const char **text, engine_error *error)
{
	sqlite3_stmt *statement;
	bool done = false;

	if (!store_begin_read(store, error) ||
		!store_prepare(store, "SELECT policy FROM state", &statement, error))
		return false;
	if (sqlite3_step(statement) == SQLITE_ROW)
	{
		const char *stored = (const char *) sqlite3_column_text(statement, 0);

		if (stored != NULL)
		{
			*text = pool_copy(pool, stored, (size_t) sqlite3_column_bytes(statement, 0));
			done = true;
		}
	}
	if (!done)
		store_fail(store, "reading the policy", error);
	sqlite3_finalize(statement);
	return done;
}

bool
store_set_policy(store *store, const char *text, engine_error *error)
{
	bool done;

	sqlite3_bind_text(store->set_policy, 1, text, -1, SQLITE_STATIC);
	done = store_run(store, store->set_policy, "storing the policy", error);
	sqlite3_clear_bindings(store->set_policy);
	return done;
}

bool
store_set_generation(store *store, uint64_t generation, engine_error *error)
{
	char sql[96];

	sqlite3_snprintf(sizeof(sql), sql, "UPDATE state SET generation = %lld",
					 (long long) generation);
	if (!store_begin(store, error))
		return false;
	if (!execute(store, sql, "storing the generation", error))
	{
		store_rollback(store);
		return false;
	}
	if (!store_commit(store, error))
		return false;
	store->generation = generation;
	return true;
}

bool
store_set_durable(store *store, bool durable, engine_error *error)
{
	/* It cannot be changed inside a transaction, also of reads. */
	if (store->transaction == TRANSACTION_READ)
	{
		if (!store_run(store, store->commit, "ending to read", error))
			return false;
		store->transaction = TRANSACTION_NONE;
	}
	return execute(store, durable ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL",
				   "setting the store up", error);
}

/* The name has a table of its own, made when it is first asked for. */
bool
store_instance(store *store, const char *fresh, char *name, size_t size, engine_error *error)
{
	sqlite3_stmt *statement;
	char *sql = sqlite3_mprintf("CREATE TABLE IF NOT EXISTS instance"
								" (one INTEGER PRIMARY KEY CHECK (one = 1), name TEXT NOT NULL);"
								"INSERT OR IGNORE INTO instance VALUES (1, %Q)",
								fresh);
	bool done;

	if (sql == NULL)
		return engine_fail(error, ENGINE_INTERNAL, "out of memory");
	done = store_begin(store, error);
	if (done && (!execute(store, sql, "naming the instance", error) || !store_commit(store, error)))
	{
		store_rollback(store);
		done = false;
	}
	sqlite3_free(sql);
	if (!done || !store_begin_read(store, error) ||
		!store_prepare(store, "SELECT name FROM instance", &statement, error))
		return false;
	done = sqlite3_step(statement) == SQLITE_ROW;
	if (done)
		snprintf(name, size, "%s", (const char *) sqlite3_column_text(statement, 0));
	else
		store_fail(store, "reading the instance's name", error);
	sqlite3_finalize(statement);
	return done;
}

/* Idempotency records. */

static void
bind_key(sqlite3_stmt *statement, const store_key *key)
{
	sqlite3_bind_blob(statement, 1, key->caller, STORE_HASH_SIZE, SQLITE_STATIC);
	sqlite3_bind_text(statement, 2, key->method, -1, SQLITE_STATIC);
	sqlite3_bind_blob(statement, 3, key->hash, STORE_HASH_SIZE, SQLITE_STATIC);
}

bool
store_find_record(store *store, const store_key *key, pool *pool, bool *found, store_record *record,
				  engine_error *error)
{
	sqlite3_stmt *statement = store->find_record;
	bool done = true;
	int step;

	*found = false;
	if (!store_begin_read(store, error))
		return false;
	bind_key(statement, key);
	step = sqlite3_step(statement);
	if (step == SQLITE_ROW && sqlite3_column_bytes(statement, 0) == STORE_HASH_SIZE)
	{
		*found = true;
		memcpy(record->payload, sqlite3_column_blob(statement, 0), STORE_HASH_SIZE);
		record->answer_size = (size_t) sqlite3_column_bytes(statement, 1);
		record->answer = (uint8_t *) pool_copy(
			pool, record->answer_size > 0 ? sqlite3_column_blob(statement, 1) : "",
			record->answer_size);
		record->position = (uint64_t) sqlite3_column_int64(statement, 2);
	}
	else if (step != SQLITE_DONE)
		done = store_fail(store, "reading an idempotency record", error);
	sqlite3_reset(statement);
	return done;
}

bool
store_add_record(store *store, const store_key *key, const store_record *record,
				 engine_error *error)
{
	sqlite3_stmt *statement = store->add_record;
	int64_t now = (int64_t) time(NULL);

	if (now - store->pruned >= RECORD_PRUNE_SECONDS || now < store->pruned)
	{
		sqlite3_bind_int64(store->forget_records, 1, now - RECORD_LIFE_SECONDS);
		if (!store_run(store, store->forget_records, "forgetting old idempotency records", error))
			return false;
		store->pruned = now;
	}
	bind_key(statement, key);
	sqlite3_bind_blob(statement, 4, record->payload, STORE_HASH_SIZE, SQLITE_STATIC);
	/* Bytes of size zero with a null pointer would be NULL. */
	sqlite3_bind_blob(statement, 5, record->answer_size > 0 ? (const void *) record->answer : "",
					  (int) record->answer_size, SQLITE_STATIC);
	sqlite3_bind_int64(statement, 6, (int64_t) record->position);
	sqlite3_bind_int64(statement, 7, now);
	return store_run(store, statement, "writing an idempotency record", error);
}

/* Opening and closing. */

static const char schema[] =
	"CREATE TABLE state (one INTEGER PRIMARY KEY CHECK (one = 1),"
	"  generation INTEGER NOT NULL, position INTEGER NOT NULL,"
	"  policy TEXT NOT NULL);"
	"INSERT INTO state VALUES (1, 1, 0, '');"
	/* Predicates with their number of arguments; identity types with -1. */
	"CREATE TABLE symbol (number INTEGER PRIMARY KEY, name TEXT NOT NULL,"
	"  arity INTEGER NOT NULL, UNIQUE (name, arity));"
	"CREATE TABLE value (id INTEGER PRIMARY KEY, type INTEGER NOT NULL,"
	"  text TEXT NOT NULL, UNIQUE (type, text));"
	"CREATE TABLE idempotency (caller BLOB NOT NULL, method TEXT NOT NULL,"
	"  key BLOB NOT NULL, payload BLOB NOT NULL, answer BLOB NOT NULL,"
	"  position INTEGER NOT NULL, created INTEGER NOT NULL,"
	"  PRIMARY KEY (caller, method, key)) WITHOUT ROWID;"
	"CREATE INDEX idempotency_created ON idempotency (created);";

static bool
read_integer(store *store, const char *sql, int64_t *integer, engine_error *error)
{
	sqlite3_stmt *statement;
	bool done;

	if (!store_prepare(store, sql, &statement, error))
		return false;
	done = sqlite3_step(statement) == SQLITE_ROW;
	if (done)
		*integer = sqlite3_column_int64(statement, 0);
	else
		store_fail(store, "reading the store", error);
	sqlite3_finalize(statement);
	return done;
}

/* Makes the tables in a new file, or checks that they are this program's. */
static bool
check_format(store *store, engine_error *error)
{
	int64_t application;
	int64_t version;
	int64_t tables;

	if (!read_integer(store, "PRAGMA application_id", &application, error) ||
		!read_integer(store, "PRAGMA user_version", &version, error) ||
		!read_integer(store, "SELECT count(*) FROM sqlite_schema", &tables, error))
		return false;
	if (application == 0 && tables == 0)
	{
		char mark[128];

		sqlite3_snprintf(sizeof(mark), mark, "PRAGMA application_id = %d; PRAGMA user_version = %d",
						 APPLICATION_ID, FORMAT_VERSION);
		return execute(store, schema, "making the store", error) &&
			   execute(store, mark, "making the store", error);
	}
	if (application != APPLICATION_ID)
		return engine_fail(error, ENGINE_INTERNAL,
						   "the file is an SQLite database, but not a store of verdict-dev");
	if (version != FORMAT_VERSION)
		return engine_fail(error, ENGINE_INTERNAL,
						   "the store has format %lld, this program knows %d", (long long) version,
						   FORMAT_VERSION);
	return true;
}

static bool
prepare_all(store *store, engine_error *error)
{
	return store_prepare(store, "SELECT id FROM value WHERE type = ? AND text = ?",
						 &store->find_value, error) &&
		   store_prepare(store, "SELECT text FROM value WHERE id = ?", &store->get_value, error) &&
		   store_prepare(store, "INSERT OR IGNORE INTO value VALUES (?, ?, ?)", &store->add_value,
						 error) &&
		   store_prepare(store, "INSERT INTO symbol VALUES (?, ?, ?)", &store->add_symbol, error) &&
		   store_prepare(store, "UPDATE state SET position = ?", &store->set_position, error) &&
		   store_prepare(store, "UPDATE state SET policy = ?", &store->set_policy, error) &&
		   store_prepare(store,
						 "SELECT payload, answer, position FROM idempotency"
						 " WHERE caller = ? AND method = ? AND key = ?",
						 &store->find_record, error) &&
		   store_prepare(store, "INSERT INTO idempotency VALUES (?, ?, ?, ?, ?, ?, ?)",
						 &store->add_record, error) &&
		   store_prepare(store, "DELETE FROM idempotency WHERE created < ?", &store->forget_records,
						 error);
}

/* Replaces the whole content of the file by that of the other store. */
static bool
copy_database(store *to, store *from, engine_error *error)
{
	sqlite3_backup *backup = sqlite3_backup_init(to->database, "main", from->database, "main");
	int result;

	if (backup == NULL)
		return store_fail(to, "copying a store", error);
	sqlite3_backup_step(backup, -1);
	result = sqlite3_backup_finish(backup);
	if (result != SQLITE_OK)
		return engine_fail(error, ENGINE_INTERNAL, "copying a store: %s", sqlite3_errstr(result));
	return true;
}

static bool
open_database(store *store, const char *path, struct store *copy_of, engine_error *error)
{
	/*
	 * The lock is taken by the first transaction and kept.  FULL makes a commit
	 * durable in write-ahead mode, too.
	 */
	static const char settings[] = "PRAGMA locking_mode = EXCLUSIVE;"
								   "PRAGMA journal_mode = WAL;"
								   "PRAGMA synchronous = FULL;"
								   "PRAGMA mmap_size = 4294967296;"
								   "PRAGMA cache_size = -131072;"
								   /* 256 MB: a batch of new values touches a thousand pages
									* all over the indexes, most of them again in the next. */
								   "PRAGMA wal_autocheckpoint = 65536;"
								   "PRAGMA temp_store = MEMORY;";
	int64_t generation;
	int64_t position;
	int64_t largest;

	/*
	 * One thread, no statistics: a look-up takes a sixth less.  Refused, and not
	 * needed, when SQLite is in use already.
	 */
	sqlite3_config(SQLITE_CONFIG_SINGLETHREAD);
	sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
	if (sqlite3_open_v2(path, &store->database,
						SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
						NULL) != SQLITE_OK)
	{
		if (store->database == NULL)
			return engine_fail(error, ENGINE_INTERNAL, "out of memory");
		return store_fail(store, "opening the store", error);
	}
	if ((copy_of != NULL && !copy_database(store, copy_of, error)) ||
		!execute(store, settings, "opening the store", error) ||
		!store_prepare(store, "BEGIN", &store->begin_read, error) ||
		!store_prepare(store, "BEGIN IMMEDIATE", &store->begin_write, error) ||
		!store_prepare(store, "COMMIT", &store->commit, error) ||
		!execute(store, "BEGIN IMMEDIATE", "opening the store", error))
		return false;
	store->transaction = TRANSACTION_WRITE;
	if (!check_format(store, error) || !store_commit(store, error) || !prepare_all(store, error) ||
		!read_integer(store, "SELECT generation FROM state", &generation, error) ||
		!read_integer(store, "SELECT position FROM state", &position, error) ||
		!read_integer(store, "SELECT coalesce(max(id), 0) FROM value", &largest, error) ||
		!store_load_symbols(store, error))
		return false;
	store->generation = (uint64_t) generation;
	store->position = (uint64_t) position;
	store->next_serial = (largest >> VALUE_TYPE_BITS) + 1;
	return true;
}

store *
store_open(const char *path, struct store *copy_of, engine_error *error)
{
	store *store = memory_alloc(sizeof(*store));

	memset(store, 0, sizeof(*store));
	store_cache_open(store);
	if (open_database(store, path, copy_of, error))
		return store;
	store_close(store);
	return NULL;
}

void
store_close(store *store)
{
	sqlite3_stmt *statement;

	if (store == NULL)
		return;
	store_rollback(store);
	store_forget(store);
	store_free_symbols(store);
	store_cache_close(store);
	while (store->database != NULL &&
		   (statement = sqlite3_next_stmt(store->database, NULL)) != NULL)
		sqlite3_finalize(statement);
	sqlite3_close(store->database);
	free(store->values);
	free(store->types);
	free(store);
}
