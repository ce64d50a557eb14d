/*
 * transaction.c
 *		The session of a transaction, and what has to be undone when it ends.
 *
 * Invariants
 *	- A session begins with the first call to its server and ends with the
 *	  top-level transaction.  A savepoint's rollback takes nothing of it back:
 *	  what was seen was seen, and an ordinal that was used stays used.
 *	- No revision crosses from the session of one server to that of another: it
 *	  would mean nothing there, and make the other's answers seem inconsistent.
 *	- "levels" has an entry for each subtransaction in which a change was about
 *	  to be sent, innermost first; it is made before the send, so that nothing
 *	  has to be allocated afterwards.
 *	- The callbacks do nothing unless "used" says that this transaction has met
 *	  this file, and never raise an error when a transaction aborts.
 */
#include "transaction.h"

#include "access/xact.h"
#include "error.h"
#include "server.h"
#include "utils/memutils.h"
#include "wait.h"

/* All kinds of entry live in TopTransactionContext. */
typedef struct server_session
{
	struct server_session *next;
	verdict_session session;
	char server[FLEXIBLE_ARRAY_MEMBER]; /* its name, as verdict.server has it */
} server_session;

typedef struct sent_level
{
	struct sent_level *next;
	int nesting;	/* level of the subtransaction */
	uint64 changes; /* sent in it, its committed children included */
} sent_level;

typedef struct held_rows
{
	struct held_rows *next;
	int nesting;
	verdict_rows *rows;
} held_rows;

static bool used = false;
static server_session *sessions = NULL;
static uint64 ordinal = 0;
static uint64 changes = 0;
static sent_level *levels = NULL;
static held_rows *held = NULL;

/* The session with the server of that name, or NULL. */
static verdict_session *
find_session(const char *server)
{
	for (server_session *entry = sessions; entry != NULL; entry = entry->next)
	{
		if (strcmp(entry->server, server) == 0)
			return &entry->session;
	}
	return NULL;
}

static verdict_session *
add_session(const char *server, const verdict_session *fresh)
{
	size_t size = strlen(server) + 1;
	server_session *entry =
		MemoryContextAlloc(TopTransactionContext, offsetof(server_session, server) + size);

	used = true;
	entry->next = sessions;
	entry->session = *fresh;
	memcpy(entry->server, server, size);
	sessions = entry;
	return &entry->session;
}

verdict_session *
verdict_transaction_session(void)
{
	const char *server = verdict_server_name();
	verdict_session *session = find_session(server);
	verdict_session fresh;
	verdict_status status;

	if (session != NULL)
		return session;

	verdict_status_init(&status);
	if (!verdict_session_init(&fresh, verdict_backend_host(), NULL,
							  (verdict_consistency) verdict_setting_consistency, &status))
		verdict_report_failure(&status, "start a session");
	if (verdict_setting_revision != NULL && verdict_setting_revision[0] != '\0' &&
		!verdict_session_observe(&fresh, verdict_setting_revision, &status))
		verdict_report_failure(&status, "start a session from verdict.revision");
	return add_session(server, &fresh);
}

void
verdict_transaction_new_session(const char *id, verdict_consistency consistency)
{
	const char *server = verdict_server_name();
	verdict_session *session = find_session(server);
	verdict_session fresh;
	verdict_status status;

	/* On failure the session stays as it was. */
	verdict_status_init(&status);
	if (!verdict_session_init(&fresh, verdict_backend_host(), id, consistency, &status))
		verdict_report_failure(&status, "start a session");
	if (session != NULL)
		*session = fresh;
	else
		add_session(server, &fresh);
}

uint64
verdict_transaction_next_ordinal(void)
{
	int nesting = GetCurrentTransactionNestLevel();

	used = true;
	if (levels == NULL || levels->nesting < nesting)
	{
		sent_level *level = MemoryContextAlloc(TopTransactionContext, sizeof(sent_level));

		level->next = levels;
		level->nesting = nesting;
		level->changes = 0;
		levels = level;
	}
	return ordinal++;
}

void
verdict_transaction_changes_sent(uint64 count)
{
	Assert(levels != NULL);
	levels->changes += count;
	changes += count;
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
warn_changes_stay(uint64 count, const char *what)
{
	if (count == 0)
		return;
	ereport(WARNING,
			(errmsg_plural("%llu change sent to Verdict stays although the %s was rolled back",
						   "%llu changes sent to Verdict stay although the %s was rolled back",
						   (unsigned long) count, (unsigned long long) count, what),
			 errdetail(
				 "With verdict.mutation_mode = immediate a change takes effect when it is made.")));
}

static void
end_transaction(bool committed)
{
	uint64 left = 0;
	sent_level *level;

	for (level = levels; level != NULL; level = level->next)
		left += level->changes;
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
	sessions = NULL;
	used = false;

	if (!committed)
		warn_changes_stay(left, "transaction");
}

static void
transaction_callback(XactEvent event, void *argument)
{
	(void) argument;
	switch (event)
	{
		case XACT_EVENT_PRE_PREPARE:
			if (changes > 0)
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("cannot PREPARE a transaction that has sent changes to Verdict"),
						 errhint("The changes have taken effect already. Make them after COMMIT "
								 "PREPARED.")));
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_PREPARE:
			if (used)
				end_transaction(true);
			verdict_server_at_end();
			break;
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PARALLEL_ABORT:
			if (used)
				end_transaction(false);
			verdict_server_at_end();
			break;
		case XACT_EVENT_PRE_COMMIT:
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

	if (levels == NULL || levels->nesting < nesting)
		return;
	if (levels->next != NULL && levels->next->nesting == nesting - 1)
	{
		levels->next->changes += levels->changes;
		levels = levels->next;
	}
	else
		levels->nesting = nesting - 1;
}

static void
abort_subtransaction(int nesting)
{
	uint64 left = 0;

	while (held != NULL && held->nesting >= nesting)
	{
		verdict_rows *rows = held->rows;

		held = held->next;
		verdict_rows_free(rows);
	}
	while (levels != NULL && levels->nesting >= nesting)
	{
		left += levels->changes;
		levels = levels->next;
	}
	warn_changes_stay(left, "subtransaction");
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
	RegisterSubXactCallback(subtransaction_callback, NULL);
}
