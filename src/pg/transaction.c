/*
 * transaction.c
 *		What a transaction has to do with each server, and what has to be undone
 *		when it ends.
 *
 * Invariants
 *	- An entry begins with the first call to its server and ends with the top-level
 *	  transaction.  A savepoint's rollback takes nothing of a session back: what was
 *	  seen was seen, and an ordinal that was used stays used.
 *	- No revision crosses from the session of one server to that of another: it
 *	  would mean nothing there, and make the other's answers seem inconsistent.
 *	- "levels" has an entry for each subtransaction in which a change was about to
 *	  be queued or sent, innermost first; it is made before, so that nothing has to
 *	  be allocated afterwards.  Every mark of a queue (pending.c) has its entry.
 *	- The callbacks do nothing unless "used" says that this transaction has met
 *	  this file.  What may fail is done before the commit; after it, and when a
 *	  transaction aborts, nothing raises an error.
 */
#include "transaction.h"

#include "access/xact.h"
#include "change.h"
#include "decision.h"
#include "error.h"
#include "server.h"
#include "shared.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "wait.h"

/* All kinds of entry live in TopTransactionContext. */
typedef struct sent_level
{
	struct sent_level *next;
	int nesting;		  /* level of the subtransaction */
	uint64 changes;		  /* sent in it, its committed children included */
	uint64 maybe_changes; /* of which it is not known */
	uint32 rows;		  /* written to the outbox */
} sent_level;

typedef struct held_rows
{
	struct held_rows *next;
	int nesting;
	verdict_rows *rows;
} held_rows;

/* The batches under one key of the application. */
typedef struct application_key
{
	struct application_key *next;
	uint64 batches;
	char key[FLEXIBLE_ARRAY_MEMBER];
} application_key;

static bool used = false;
static bool committed = false; /* between XACT_EVENT_COMMIT and resources_callback() */
static verdict_transaction_server *servers = NULL;
static application_key *keys = NULL;
static uint64 ordinal = 0;
static uint64 changes = 0;
static uint64 maybe_changes = 0;
static sent_level *levels = NULL;
static held_rows *held = NULL;

verdict_transaction_server *
verdict_transaction_find(const char *name)
{
	for (verdict_transaction_server *entry = servers; entry != NULL; entry = entry->next)
	{
		if (strcmp(entry->name, name) == 0)
			return entry;
	}
	return NULL;
}

verdict_transaction_server *
verdict_transaction_current(void)
{
	const char *name = verdict_server_name();
	verdict_transaction_server *entry = verdict_transaction_find(name);
	size_t size;

	if (entry != NULL)
		return entry;

	size = strlen(name) + 1;
	entry = MemoryContextAllocZero(TopTransactionContext,
								   offsetof(verdict_transaction_server, name) + size);
	memcpy(entry->name, name, size);
	used = true;
	entry->next = servers;
	servers = entry;
	return entry;
}

verdict_transaction_server *
verdict_transaction_servers(void)
{
	return servers;
}

verdict_session *
verdict_transaction_session_with(verdict_transaction_server *server)
{
	verdict_session fresh;
	verdict_status status;

	if (server->has_session)
		return &server->session;

	verdict_status_init(&status);
	if (!verdict_session_init(&fresh, verdict_backend_host(), NULL,
							  (verdict_consistency) verdict_setting_consistency, &status))
		verdict_report_failure(&status, "start a session");
	if (verdict_setting_revision != NULL && verdict_setting_revision[0] != '\0' &&
		!verdict_session_observe(&fresh, verdict_setting_revision, &status))
		verdict_report_failure(&status, "start a session from verdict.revision");
	server->session = fresh;
	server->has_session = true;
	return &server->session;
}

verdict_session *
verdict_transaction_session(void)
{
	return verdict_transaction_session_with(verdict_transaction_current());
}

void
verdict_transaction_new_session(const char *id, verdict_consistency consistency)
{
	verdict_transaction_server *server = verdict_transaction_current();
	verdict_session fresh;
	verdict_status status;

	/* On failure the session stays as it was. */
	verdict_status_init(&status);
	if (!verdict_session_init(&fresh, verdict_backend_host(), id, consistency, &status))
		verdict_report_failure(&status, "start a session");
	verdict_decisions_forget();
	/* Whoever remembers what the old one had seen has to notice. */
	fresh.changes = server->session.changes + 1;
	server->session = fresh;
	server->has_session = true;
	server->scope = VERDICT_SCOPE_NONE;
}

static uint64
next_claim(const char *key)
{
	application_key *entry;
	size_t size;

	for (entry = keys; entry != NULL; entry = entry->next)
	{
		if (strcmp(entry->key, key) == 0)
			return entry->batches++;
	}
	size = strlen(key) + 1;
	entry = MemoryContextAlloc(TopTransactionContext, offsetof(application_key, key) + size);
	memcpy(entry->key, key, size);
	entry->batches = 1;
	entry->next = keys;
	keys = entry;
	return 0;
}

void
verdict_transaction_number(verdict_batch_number *number, const char *application_key)
{
	if (number->given)
		return;
	used = true;
	number->claim = application_key == NULL ? 0 : next_claim(application_key);
	number->ordinal = ordinal++;
	number->given = true;
}

void
verdict_transaction_enter_level(void)
{
	int nesting = GetCurrentTransactionNestLevel();

	used = true;
	verdict_decisions_forget();
	if (levels == NULL || levels->nesting < nesting)
	{
		sent_level *level = MemoryContextAllocZero(TopTransactionContext, sizeof(sent_level));

		level->next = levels;
		level->nesting = nesting;
		levels = level;
	}
}

void
verdict_transaction_sent(int nesting, uint64 count)
{
	sent_level *level = levels;

	while (level->nesting > nesting)
		level = level->next;
	level->changes += count;
	changes += count;
}

void
verdict_transaction_maybe_sent(uint64 count)
{
	levels->maybe_changes += count;
	maybe_changes += count;
}

void
verdict_transaction_row_written(void)
{
	levels->rows++;
}

uint32
verdict_transaction_rows(void)
{
	uint32 rows = 0;

	for (sent_level *level = levels; level != NULL; level = level->next)
		rows += level->rows;
	return rows;
}

uint64
verdict_transaction_changes(void)
{
	return changes;
}

void
verdict_hold_rows(verdict_rows *rows)
{
	held_rows *entry =
		MemoryContextAllocExtended(TopTransactionContext, sizeof(held_rows), MCXT_ALLOC_NO_OOM);

	if (entry == NULL)
	{
		verdict_rows_free(rows);
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
	}
	used = true;
	entry->next = held;
	entry->nesting = GetCurrentTransactionNestLevel();
	entry->rows = rows;
	held = entry;
}

void
verdict_release_rows(verdict_rows *rows)
{
	held_rows **link;

	for (link = &held; *link != NULL; link = &(*link)->next)
	{
		if ((*link)->rows == rows)
		{
			held_rows *entry = *link;

			*link = entry->next;
			pfree(entry);
			verdict_rows_free(rows);
			return;
		}
	}
}

static void
warn_changes_stay(uint64 sent, uint64 maybe_sent, const char *what)
{
	static const char *const detail =
		"A change takes effect when it is sent: at once with verdict.mutation_mode immediate, and "
		"with deferred before a read that has to see it, or just before commit.";

	if (sent > 0)
		ereport(WARNING,
				(errmsg_plural("%llu change sent to Verdict stays although the %s was rolled back",
							   "%llu changes sent to Verdict stay although the %s was rolled back",
							   (unsigned long) sent, (unsigned long long) sent, what),
				 errdetail("%s", detail)));
	if (maybe_sent > 0)
		ereport(WARNING,
				(errmsg_plural("%llu change sent to Verdict may stay although the %s was rolled "
							   "back: its outcome is not known",
							   "%llu changes sent to Verdict may stay although the %s was rolled "
							   "back: their outcome is not known",
							   (unsigned long) maybe_sent, (unsigned long long) maybe_sent, what),
				 errdetail("%s", detail)));
}

/*
 * Tells the client, with the answer to COMMIT, which revision covers everything
 * that this transaction has seen and changed at the server of verdict.server.
 */
static void
report_committed_revision(void)
{
	char text[VERDICT_REVISION_MAX_TEXT + 1] = "";
	verdict_transaction_server *server = verdict_transaction_find(verdict_setting_server);
	bool covers;

	/* The batches may be for other servers only: COMMIT waits for those as well. */
	covers = verdict_transaction_rows() == 0 ||
			 (verdict_setting_commit_wait > 0 &&
			  verdict_shared_await(verdict_setting_commit_wait, text) == VERDICT_AWAIT_ANSWERED);
	if (server != NULL && server->has_session && covers)
	{
		verdict_status status;

		/* The memory of the session is this transaction's, and it is over. */
		verdict_status_init(&status);
		covers = (text[0] == '\0' || verdict_session_observe(&server->session, text, &status)) &&
				 !server->session.inconsistent;
		verdict_revision_print(&server->session.observed, text);
	}
	verdict_report_revision(server != NULL && covers ? text : "");
}

static void
end_transaction(bool committed)
{
	uint64 left = 0;
	uint64 maybe_left = 0;
	sent_level *level;

	for (level = levels; level != NULL; level = level->next)
	{
		left += level->changes;
		maybe_left += level->maybe_changes;
	}
	while (held != NULL)
	{
		verdict_rows *rows = held->rows;

		held = held->next;
		verdict_rows_free(rows);
	}

	/* The entries' memory goes with TopTransactionContext. */
	levels = NULL;
	ordinal = 0;
	changes = 0;
	maybe_changes = 0;
	servers = NULL;
	keys = NULL;
	used = false;

	if (!committed)
		warn_changes_stay(left, maybe_left, "transaction");
}

static void
before_prepare(void)
{
	if (changes > 0 || maybe_changes > 0)
		ereport(
			ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot PREPARE a transaction that has sent changes to Verdict"),
			 errhint("The changes have taken effect already. Make them after COMMIT PREPARED, or "
					 "with verdict.mutation_mode = outbox.")));
	verdict_change_before_commit(true);
}

/*
 * The rest of a commit.  By now others have been told what the transaction has done to
 * catalogs, so whoever delivers meets the server as it left it; and nobody waits for
 * its locks while it waits for its answers.  Comes once for each resource owner.
 */
static void
resources_callback(ResourceReleasePhase phase, bool commit, bool top_level, void *argument)
{
	(void) commit;
	(void) top_level;
	(void) argument;
	if (!committed || phase != RESOURCE_RELEASE_AFTER_LOCKS)
		return;
	committed = false;
	if (used)
	{
		verdict_shared_end(true);
		report_committed_revision();
		end_transaction(true);
	}
	verdict_server_at_end();
}

static void
transaction_callback(XactEvent event, void *argument)
{
	(void) argument;
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			if (used)
				verdict_change_before_commit(false);
			break;
		case XACT_EVENT_PRE_PREPARE:
			if (used)
				before_prepare();
			break;
		case XACT_EVENT_COMMIT:
			committed = true;
			break;
		case XACT_EVENT_PREPARE:
			if (used)
			{
				verdict_shared_end(true);
				end_transaction(true);
			}
			verdict_server_at_end();
			break;
		case XACT_EVENT_ABORT:
			if (used)
			{
				verdict_shared_end(false);
				end_transaction(false);
			}
			verdict_server_at_end();
			break;
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_PARALLEL_ABORT:
			if (used)
				end_transaction(event == XACT_EVENT_PARALLEL_COMMIT);
			verdict_server_at_end();
			break;
		case XACT_EVENT_PARALLEL_PRE_COMMIT:
			break;
	}
}

/* What the subtransaction had becomes its parent's. */
static void
commit_subtransaction(int nesting)
{
	held_rows *entry;

	for (entry = held; entry != NULL && entry->nesting >= nesting; entry = entry->next)
		entry->nesting = nesting - 1;
	for (verdict_transaction_server *server = servers; server != NULL; server = server->next)
		verdict_pending_commit_level(&server->pending, nesting);

	if (levels == NULL || levels->nesting < nesting)
		return;
	if (levels->next != NULL && levels->next->nesting == nesting - 1)
	{
		levels->next->changes += levels->changes;
		levels->next->maybe_changes += levels->maybe_changes;
		levels->next->rows += levels->rows;
		levels = levels->next;
	}
	else
		levels->nesting = nesting - 1;
}

static void
abort_subtransaction(int nesting)
{
	uint64 left = 0;
	uint64 maybe_left = 0;

	while (held != NULL && held->nesting >= nesting)
	{
		verdict_rows *rows = held->rows;

		held = held->next;
		verdict_rows_free(rows);
	}
	for (verdict_transaction_server *server = servers; server != NULL; server = server->next)
		verdict_pending_abort_level(&server->pending, nesting);
	while (levels != NULL && levels->nesting >= nesting)
	{
		left += levels->changes;
		maybe_left += levels->maybe_changes;
		levels = levels->next;
	}
	warn_changes_stay(left, maybe_left, "subtransaction");
}

static void
subtransaction_callback(SubXactEvent event, SubTransactionId current, SubTransactionId parent,
						void *argument)
{
	(void) current;
	(void) parent;
	(void) argument;
	if (!used)
		return;
	if (event == SUBXACT_EVENT_COMMIT_SUB)
		commit_subtransaction(GetCurrentTransactionNestLevel());
	else if (event == SUBXACT_EVENT_ABORT_SUB)
		abort_subtransaction(GetCurrentTransactionNestLevel());
}

void
verdict_transaction_init(void)
{
	RegisterXactCallback(transaction_callback, NULL);
	RegisterResourceReleaseCallback(resources_callback, NULL);
	RegisterSubXactCallback(subtransaction_callback, NULL);
}
