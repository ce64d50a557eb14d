/*
 * transaction.c
 *		The session of a transaction, and what has to be undone when it ends.
 *
 * Invariants
 *	- The session begins with the first call and ends with the top-level
 *	  transaction.  A savepoint's rollback takes nothing of it back: what was
 *	  seen was seen, and an ordinal that was used stays used.
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

/* Both kinds of entry live in TopTransactionContext. */
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
static bool has_session = false;
static verdict_session session;
static uint64 ordinal = 0;
static uint64 changes = 0;
static sent_level *levels = NULL;
static held_rows *held = NULL;

verdict_session *
verdict_transaction_session(void)
{
	verdict_session fresh;
	verdict_status status;

	if (has_session)
		return &session;

	used = true;
	verdict_status_init(&status);
	if (!verdict_session_init(&fresh, verdict_backend_host(), NULL,
							  (verdict_consistency) verdict_setting_consistency, &status))
		verdict_report_failure(&status, "start a session");
	if (verdict_setting_revision != NULL && verdict_setting_revision[0] != '\0' &&
		!verdict_session_observe(&fresh, verdict_setting_revision, &status))
		verdict_report_failure(&status, "start a session from verdict.revision");
	session = fresh;
	has_session = true;
	return &session;
}

void
verdict_transaction_new_session(const char *id, verdict_consistency consistency)
{
	verdict_status status;

	/* On failure the session stays as it was. */
	verdict_status_init(&status);
	if (!verdict_session_init(&session, verdict_backend_host(), id, consistency, &status))
		verdict_report_failure(&status, "start a session");
	used = true;
	has_session = true;
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
	has_session = false;
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
