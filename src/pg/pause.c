/*
 * pause.c
 *		Servers whose batches wait, because a send to them has failed.
 *
 * Invariants
 *	- It is this process's own: whoever else delivers later begins without pauses.
 *	- In the round in which a server has failed it stays paused, however long the
 *	  round takes, since the rows behind the one that failed must not overtake it.
 *	- A server is in the list until it succeeds, or until a look that has asked for
 *	  its rows has found none.
 */
#include "pause.h"

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "wait.h"

/* The pause after a failure, doubled with each further one of that server. */
#define PAUSE_MIN_MS 100
#define PAUSE_MAX_MS 10000

/* A server that failed; gone at its next success. */
typedef struct failing_server
{
	NameData name; /* hash key */
	int failures;
	int64 due;	  /* of verdict_now_ms() */
	uint64 round; /* in which it failed last */
	bool asked;	  /* the latest look has asked for its rows */
} failing_server;

static HTAB *failing = NULL;
static uint64 round_number = 0;

static void
start(void)
{
	HASHCTL control = {
		.keysize = sizeof(NameData),
		.entrysize = sizeof(failing_server),
	};

	failing = hash_create("verdict servers that fail", 8, &control, HASH_ELEM | HASH_BLOBS);
}

/* Milliseconds until the first server that has failed is due, -1 when none has. */
int
verdict_pauses_next_ms(void)
{
	int64 now = verdict_now_ms();
	long next_ms = -1;
	failing_server *server;
	HASH_SEQ_STATUS scan;

	hash_seq_init(&scan, failing);
	while ((server = hash_seq_search(&scan)) != NULL)
	{
		long left_ms = server->due > now ? (long) (server->due - now) : 0;

		next_ms = next_ms < 0 ? left_ms : Min(next_ms, left_ms);
	}
	return (int) next_ms;
}

/* The servers that are not due yet, as text[]. */
Datum
verdict_pauses_blocked(void)
{
	ArrayBuildState *names = initArrayResult(TEXTOID, CurrentMemoryContext, false);
	int64 now = verdict_now_ms();
	failing_server *server;
	HASH_SEQ_STATUS scan;

	hash_seq_init(&scan, failing);
	while ((server = hash_seq_search(&scan)) != NULL)
	{
		server->asked = server->due <= now;
		if (!server->asked)
			names = accumArrayResult(names, CStringGetTextDatum(NameStr(server->name)), false,
									 TEXTOID, CurrentMemoryContext);
	}
	return makeArrayResult(names, CurrentMemoryContext);
}

static failing_server *
find_failing(const char *name, HASHACTION action, bool *found)
{
	NameData key;

	memset(&key, 0, sizeof(key));
	namestrcpy(&key, name);
	return hash_search(failing, &key, action, found);
}

/* True when the server has not failed before. */
bool
verdict_pause_begin(const char *name)
{
	bool found;
	failing_server *server = find_failing(name, HASH_ENTER, &found);
	uint16 dice = 0;
	int pause_ms;

	if (!found)
		server->failures = 0;
	pause_ms = Min(PAUSE_MAX_MS, PAUSE_MIN_MS << Min(server->failures, 7));
	server->failures++;
	server->round = round_number;
	/* Half of it by chance, so that the workers of many databases part. */
	(void) pg_strong_random(&dice, sizeof(dice));
	pause_ms = pause_ms / 2 + (int) ((int64) dice * (pause_ms / 2) / PG_UINT16_MAX);
	server->due = verdict_now_ms() + pause_ms;
	return !found;
}

void
verdict_pause_end(const char *name)
{
	bool found;

	(void) find_failing(name, HASH_REMOVE, &found);
	if (found)
		ereport(LOG,
				(errmsg("batches of verdict_outbox for server \"%s\" are delivered again", name)));
}

/* What was read behind a row that failed must not overtake it. */
bool
verdict_pause_is_new(const char *name)
{
	bool found;
	failing_server *server = find_failing(name, HASH_FIND, &found);

	return found && server->round == round_number;
}

/* The latest look has found nothing: what it asked for waits no more. */
void
verdict_pauses_forget_absent(void)
{
	failing_server *server;
	HASH_SEQ_STATUS scan;

	hash_seq_init(&scan, failing);
	while ((server = hash_seq_search(&scan)) != NULL)
	{
		if (server->asked)
			hash_search(failing, &server->name, HASH_REMOVE, NULL);
	}
}

void
verdict_pauses_reset(void)
{
	failing_server *server;
	HASH_SEQ_STATUS scan;

	if (failing == NULL)
		return;
	hash_seq_init(&scan, failing);
	while ((server = hash_seq_search(&scan)) != NULL)
		server->due = 0;
}

void
verdict_pauses_begin_round(void)
{
	if (failing == NULL)
		start();
	round_number++;
}
