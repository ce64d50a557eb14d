/*
 * decision.c
 *		What has been decided, and how long it counts.
 *
 * Decisions are kept in sets, one for each question asked of one client with one
 * consistency; sets are kept in a scope, which lives as long as what they may be
 * remembered for.
 *
 * Invariants
 *	- A set counts only as long as nothing has happened that it does not know of:
 *	  no change was made ("forgettings"), and its session has observed nothing
 *	  but what came with the set's own answers ("observed").
 *	- One exception keeps statements over several sets from asking for ever while
 *	  the instance changes: a set for which the same statement has fetched a
 *	  second list stays as it is when an answer for another set brings the newer
 *	  revision.  It is never older than what the session had observed before the
 *	  statement began, and a change or anything observed by other means ends it.
 *	- A site holds a pointer to a set; "bindings" grows whenever a set may have
 *	  gone, so that such a pointer is never followed.
 *	- Sessions and clients live until the transaction ends, and no scope outlives
 *	  that: so they can be compared by their addresses.
 */
#include "decision_internal.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "common/hashfn.h"
#include "error.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "server.h"
#include "running.h"
#include "utils/memutils.h"

PG_FUNCTION_INFO_V1(verdict_sql_stat_decisions);

typedef struct set_entry
{
	const verdict_decision_set *key; /* only its question, client and consistency */
	verdict_decision_set *set;
	char status;
} set_entry;

static inline bool
set_equal(const verdict_decision_set *left, const verdict_decision_set *right)
{
	return left->client == right->client && left->consistency == right->consistency &&
		   verdict_question_equal(&left->question, &right->question);
}

#define SH_PREFIX sets
#define SH_ELEMENT_TYPE set_entry
#define SH_KEY_TYPE const verdict_decision_set *
#define SH_KEY key
#define SH_HASH_KEY(table, key) ((key)->hash)
#define SH_EQUAL(table, left, right) set_equal(left, right)
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

typedef struct decision_scope
{
	struct decision_scope *next;
	MemoryContext lifetime; /* whose reset ends the scope */
	MemoryContext context;	/* of the sets */
	sets_hash *sets;		/* NULL until there is one */
} decision_scope;

/* How far a session had come when decisions last looked at it. */
typedef struct session_watch
{
	struct session_watch *next;
	const verdict_session *session;
	uint64 changes;
	uint64 outside; /* how often something else had changed it meanwhile */
} session_watch;

verdict_decision_counters verdict_decision_counted;

static decision_scope *scopes = NULL;
static session_watch *watches = NULL; /* in TopTransactionContext */
static uint64 forgettings = 1;
static uint64 bindings = 1;
static bool crowded = false; /* a list was not asked for, for want of room */

void
verdict_decisions_forget(void)
{
	forgettings++;
	bindings++;
}

/* ---- scopes ---- */

static void
end_scope(void *argument)
{
	decision_scope *scope = argument;
	decision_scope **link;

	for (link = &scopes; *link != NULL; link = &(*link)->next)
	{
		if (*link == scope)
		{
			*link = scope->next;
			break;
		}
	}
	bindings++;
}

static decision_scope *
find_scope(MemoryContext lifetime)
{
	decision_scope *scope;
	MemoryContextCallback *callback;

	for (scope = scopes; scope != NULL; scope = scope->next)
	{
		if (scope->lifetime == lifetime)
			return scope;
	}
	callback = MemoryContextAlloc(lifetime, sizeof(*callback));
	scope = MemoryContextAllocZero(lifetime, sizeof(*scope));
	scope->lifetime = lifetime;
	scope->context = AllocSetContextCreate(lifetime, "verdict decisions", ALLOCSET_DEFAULT_SIZES);
	callback->func = end_scope;
	callback->arg = scope;
	MemoryContextRegisterResetCallback(lifetime, callback);
	scope->next = scopes;
	scopes = scope;
	return scope;
}

/* Where decisions of that consistency are remembered; NULL for nowhere. */
static MemoryContext
scope_lifetime(verdict_consistency consistency)
{
	if (IsolationUsesXactSnapshot() && consistency != VERDICT_CONSISTENCY_AUTHORITATIVE)
		return TopTransactionContext;
	return verdict_statement_lifetime();
}

uint64
verdict_current_statement(void)
{
	const verdict_run *run = verdict_current_run();

	return run != NULL ? run->statement : 0;
}

/* ---- sets ---- */

verdict_piece
verdict_piece_copy(MemoryContext context, verdict_piece piece)
{
	char *bytes = MemoryContextAlloc(context, piece.size + 1);

	memcpy(bytes, piece.bytes, piece.size);
	bytes[piece.size] = '\0';
	piece.bytes = bytes;
	return piece;
}

static uint32
hash_piece(uint32 hash, verdict_piece piece)
{
	return hash_combine(hash, hash_bytes((const unsigned char *) piece.bytes, (int) piece.size));
}

static char *
piece_to_utf8(verdict_piece piece)
{
	return verdict_to_utf8(piece.bytes, (int) piece.size);
}

static void
release_lists(void *argument)
{
	verdict_decision_set *set = argument;

	if (set->list != NULL)
		verdict_list_release(set->list);
	if (set->making != NULL)
		verdict_list_release(set->making);
	set->list = set->making = NULL;
}

static verdict_decision_set *
make_set(MemoryContext context, const verdict_decision_set *key, const verdict_read *read)
{
	MemoryContext caller = MemoryContextSwitchTo(context);
	verdict_decision_set *set = palloc0(sizeof(*set));
	char *actor;

	*set = *key;
	set->session = read->session;
	set->question.actor = verdict_piece_copy(context, key->question.actor);
	set->question.action = verdict_piece_copy(context, key->question.action);
	set->question.type = verdict_piece_copy(context, key->question.type);
	actor = piece_to_utf8(set->question.actor);
	set->actor.type = actor;
	actor = strchr(actor, ':');
	if (actor == NULL)
		ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED), errmsg("stored identity has no colon")));
	*actor = '\0';
	set->actor.id = actor + 1;
	set->action = piece_to_utf8(set->question.action);
	set->type = piece_to_utf8(set->question.type);
	set->map = verdict_map_create();
	verdict_plan_list(set);
	set->end.func = release_lists;
	set->end.arg = set;
	MemoryContextRegisterResetCallback(context, &set->end);
	MemoryContextSwitchTo(caller);
	return set;
}

static bool
has_room(MemoryContext sets)
{
	return MemoryContextMemAllocated(sets, true) + verdict_lists_size() <= VERDICT_DECISION_MEMORY;
}

bool
verdict_set_has_room(verdict_decision_set *set)
{
	/* What others have learned stays until somebody asks something new. */
	crowded = !has_room(GetMemoryChunkContext(set));
	return !crowded;
}

static verdict_decision_set *
find_set(decision_scope *scope, const verdict_read *read, const verdict_question *question)
{
	verdict_decision_set key = {.client = read->client, .question = *question};
	verdict_decision_set *set;
	set_entry *entry;
	bool found;

	key.consistency = read->options.consistency == VERDICT_CONSISTENCY_DEFAULT
						  ? read->session->consistency
						  : read->options.consistency;
	key.hash =
		hash_piece(hash_piece(hash_piece(0, question->actor), question->action), question->type);
	if (scope->sets != NULL)
	{
		entry = sets_lookup(scope->sets, &key);
		if (entry != NULL)
			return entry->set;
		/* Adding up many sets is not for each of them. */
		if (crowded || scope->sets->members < 64 || scope->sets->members % 256 == 0)
		{
			crowded = false;
			if (!has_room(scope->context))
			{
				bindings++;
				scope->sets = NULL;
				MemoryContextReset(scope->context);
				verdict_decision_counted.forgotten++;
			}
		}
	}
	if (scope->sets == NULL)
		scope->sets = sets_create(scope->context, 4, NULL);
	set = make_set(scope->context, &key, read);
	entry = sets_insert(scope->sets, set, &found);
	entry->set = set;
	return set;
}

void
verdict_set_forget(verdict_decision_set *set)
{
	release_lists(set);
	verdict_map_clear(set->map);
	set->all = false;
	set->unsettled = false;
	verdict_decision_counted.forgotten++;
}

/* What decisions know of the session; "ours" when the latest change came with one. */
static session_watch *
watch_session(const verdict_session *session, bool ours)
{
	session_watch *watch;

	for (watch = watches; watch != NULL; watch = watch->next)
	{
		if (watch->session == session)
			break;
	}
	if (watch == NULL)
	{
		watch = MemoryContextAllocZero(TopTransactionContext, sizeof(*watch));
		watch->session = session;
		watch->changes = session->changes;
		watch->next = watches;
		watches = watch;
	}
	if (watch->changes != session->changes && !ours)
		watch->outside++;
	watch->changes = session->changes;
	return watch;
}

static void
settle(verdict_decision_set *set, bool ours)
{
	const session_watch *watch = watch_session(set->session, ours);
	uint64 statement = verdict_current_statement();
	bool counts;

	counts = !set->unsettled && set->forgettings == forgettings && set->outside == watch->outside;
	if (counts && set->observed != set->session->changes)
		counts = set->lists >= 2 && set->list_statement == statement && statement != 0;
	if (!counts && set->forgettings != 0)
		verdict_set_forget(set);
	set->forgettings = forgettings;
	set->outside = watch->outside;
	set->observed = set->session->changes;
}

void
verdict_set_observe(verdict_decision_set *set)
{
	settle(set, true);
}

verdict_known
verdict_set_find(verdict_decision_set *set, const verdict_id *id)
{
	if (set->list != NULL)
		return verdict_list_find(set->list, id);
	return set->all ? VERDICT_KNOWN_YES : verdict_map_find(set->map, id);
}

verdict_known
verdict_site_known(verdict_decision_site *site, const verdict_question *question,
				   verdict_consistency consistency, const verdict_id *id)
{
	verdict_decision_set *set = site->set;
	const verdict_run *run = verdict_current_run();
	verdict_known known;

	if (site->bindings != bindings || run == NULL || run->serial != site->run || set->unsettled ||
		set->observed != set->session->changes ||
		set->client != verdict_server_use(verdict_server_name(), GetUserId())->client ||
		!verdict_question_equal(&set->question, question))
		return VERDICT_NOT_KNOWN;
	if (consistency == VERDICT_CONSISTENCY_DEFAULT)
		consistency = set->session->consistency;
	if (consistency != set->consistency)
		return VERDICT_NOT_KNOWN;
	known = verdict_set_find(set, id);
	if (known != VERDICT_NOT_KNOWN)
		verdict_decision_counted.remembered++;
	return known;
}

bool
verdict_decide(verdict_read *read, const verdict_question *question, const verdict_id *ids,
			   size_t count, bool *answers, verdict_decision_site *site)
{
	verdict_consistency consistency = read->options.consistency;
	MemoryContext lifetime;
	MemoryContext passing = NULL;
	decision_scope *scope;
	verdict_decision_set *set;
	bool answered;

	if (consistency == VERDICT_CONSISTENCY_DEFAULT)
		consistency = read->session->consistency;
	lifetime = scope_lifetime(consistency);
	if (lifetime == NULL)
	{
		/* Known for this call only. */
		passing = AllocSetContextCreate(CurrentMemoryContext, "verdict call", ALLOCSET_SMALL_SIZES);
		lifetime = passing;
	}
	scope = find_scope(lifetime);
	set = find_set(scope, read, question);
	settle(set, false);
	if (site != NULL && passing == NULL && verdict_current_run() != NULL)
	{
		site->set = set;
		site->bindings = bindings;
		site->run = verdict_running->serial;
	}

	answered = verdict_ask(set, read, ids, count, answers);
	if (passing != NULL)
		MemoryContextDelete(passing);
	return answered;
}

size_t
verdict_decide_ahead(verdict_read *read, const verdict_question *question, const verdict_id *ids,
					 size_t count, bool *failed)
{
	verdict_consistency consistency = read->options.consistency;
	MemoryContext lifetime;
	verdict_decision_set *set;

	*failed = false;
	if (consistency == VERDICT_CONSISTENCY_DEFAULT)
		consistency = read->session->consistency;
	lifetime = scope_lifetime(consistency);
	if (lifetime == NULL)
		return 0;
	set = find_set(find_scope(lifetime), read, question);
	settle(set, false);
	return verdict_ask_ahead(set, read, ids, count, failed);
}

static void
transaction_ended(XactEvent event, void *argument)
{
	(void) argument;
	switch (event)
	{
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PARALLEL_ABORT:
		case XACT_EVENT_PREPARE:
			/* Sessions and clients go; scopes go with their memory. */
			watches = NULL;
			verdict_decisions_forget();
			break;
		case XACT_EVENT_PRE_PREPARE:
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PARALLEL_PRE_COMMIT:
			break;
	}
}

void
verdict_decision_init(void)
{
	RegisterXactCallback(transaction_ended, NULL);
}

Datum
verdict_sql_stat_decisions(PG_FUNCTION_ARGS)
{
	const verdict_decision_counters *counted = &verdict_decision_counted;
	const uint64 counters[] = {counted->remembered, counted->single,   counted->lists,
							   counted->cut,		counted->refused,  counted->rows,
							   counted->kept,		counted->forgotten};
	Datum values[lengthof(counters)];
	bool nulls[lengthof(counters)] = {false};
	TupleDesc descriptor;

	if (get_call_result_type(fcinfo, NULL, &descriptor) != TYPEFUNC_COMPOSITE ||
		descriptor->natts != lengthof(values))
		elog(ERROR, "verdict_stat_decisions() is declared in another way than its code expects");
	for (size_t i = 0; i < lengthof(counters); i++)
		values[i] = Int64GetDatum((int64) counters[i]);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(descriptor), values, nulls)));
}
