/*
 * decision_ask.c
 *		How decisions get known: single checks, or a list of all that is allowed.
 *
 * Which of the two is a question of what a statement will still want.  The plan
 * tells how many rows it is expected to look at, and whether somebody may want no
 * more of them: LIMIT, a cursor.  What a list costs is known by its length of last
 * time.  Where the statement goes on, the list is asked for after a few checks when
 * it costs less than the checks that it is expected to save; and so where it stops with
 * a page that few resources are allowed for.  Where it may stop otherwise, or those
 * would be fewer, single checks are made until they have cost a part of what
 * the list would cost: a statement that stops early has paid for no list, and one
 * that goes on has lost little.  Without knowledge of its length a list is first
 * tried with a limit; what a cut one holds is used.  A list that an earlier statement
 * has left is used after the first check when that was answered at its revision.
 *
 * Invariants
 *	- Only a whole and well-formed answer says "no" of what it does not hold; a
 *	  cut one says "yes" of what it holds.  Nothing of a malformed one is kept.
 *	- A list that cannot be had is no failure: the single checks decide, and fail
 *	  by themselves when the instance is gone.  An answer that breaks the protocol
 *	  is a failure, as that of a check.
 *	- "unsettled" is set while answers are being taken in, so that a set that an
 *	  error leaves half filled is emptied before it is used again.
 */
#include "decision_internal.h"

#include "common/hashfn.h"
#include "error.h"
#include "miscadmin.h"
#include "running.h"
#include "scope.h"
#include "transaction.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

/* Single checks before the first list, whatever is known. */
#define FIRST_CHECKS 4

/* A single check costs about what so many rows of a list do: a round trip. */
#define ROWS_PER_CHECK 32

/* Where nothing tells that a list will pay: the part of its cost to be spent before. */
#define SPENT_BEFORE 8

/*
 * The planner takes a check to be true for one row of three, so that it looks at
 * three times the rows that it expects to find.
 */
#define CHECKS_PER_ROW 3

/*
 * A page is looked for by single checks as long as they are no more than so many
 * times its rows.
 */
#define CHECKS_PER_PAGE 3
#define LONGEST_PAGE 256

/* Without knowledge: the first list, and how much longer the next is. */
#define FIRST_LIMIT 1024
#define LIMIT_GROWTH 8
#define LARGEST_LIMIT 65536

/* How long an instance that would not give a list is not asked for it again. */
#define REFUSED_SECONDS 30

/*
 * The length of lists of last time, a slot a question.  Two questions in one slot
 * only cost time.
 */
#define EXPECTATIONS 1024

typedef struct list_expectation
{
	uint32 hash;
	bool known; /* there was a list */
	bool whole; /* "rows" is its length, else it has more */
	size_t rows;
	TimestampTz refused; /* when the instance would not give it; 0 = never */
} list_expectation;

static list_expectation expectations[EXPECTATIONS];

/* Whether any was refused; most instances give lists. */
static bool any_refused = false;

static uint32
hash_piece(uint32 hash, verdict_piece piece)
{
	return hash_combine(hash, hash_bytes((const unsigned char *) piece.bytes, (int) piece.size));
}

/* The slot of a question; emptied when another question has it. */
static list_expectation *
expectation_of(const verdict_question *question)
{
	const char *server = verdict_setting_server != NULL ? verdict_setting_server : "";
	verdict_piece name = {server, strlen(server)};
	/* Also by role: what one has seen is not for the plans that another is shown. */
	uint32 hash = hash_piece(
		hash_piece(hash_piece(hash_piece(GetUserId(), name), question->actor), question->action),
		question->type);
	list_expectation *expected = &expectations[hash % EXPECTATIONS];

	if (expected->hash != hash)
	{
		memset(expected, 0, sizeof(*expected));
		expected->hash = hash;
	}
	return expected;
}

verdict_question
verdict_question_arguments(FunctionCallInfo fcinfo)
{
	verdict_question question;
	verdict_piece *pieces[] = {&question.actor, &question.action, &question.type};

	for (int i = 0; i < (int) lengthof(pieces); i++)
	{
		struct varlena *text = PG_GETARG_VARLENA_PP(i);

		pieces[i]->bytes = VARDATA_ANY(text);
		pieces[i]->size = VARSIZE_ANY_EXHDR(text);
	}
	return question;
}

double
verdict_decisions_expected(const verdict_question *question)
{
	const list_expectation *expected = expectation_of(question);

	return expected->known ? (double) expected->rows : -1;
}

void
verdict_decisions_listed(const verdict_question *question, size_t rows)
{
	list_expectation *expected = expectation_of(question);

	expected->known = true;
	expected->whole = true;
	expected->rows = rows;
	expected->refused = 0;
}

bool
verdict_lists_refused(const verdict_question *question)
{
	return any_refused && expectation_of(question)->refused != 0;
}

void
verdict_plan_list(verdict_decision_set *set)
{
	const list_expectation *expected = expectation_of(&set->question);

	set->whole = expected->known && expected->whole;
	if (set->whole)
		set->rows = (double) expected->rows;
	else
		set->rows = expected->known ? (double) expected->rows * LIMIT_GROWTH : FIRST_LIMIT;
	set->unlistable = expected->refused != 0 &&
					  !TimestampDifferenceExceeds(expected->refused, GetCurrentTimestamp(),
												  REFUSED_SECONDS * 1000);
}

/*
 * How many checks a page is still expected to take, by how often the answer was yes so
 * far; what is not known yet counts as one yes and one no.
 */
static double
checks_to_fill(const verdict_decision_set *set, double page)
{
	return Max(page - set->allowed, 1) * (set->asked + 2) / (set->allowed + 1);
}

/*
 * Whether the next thing to do is to ask for a list, "unknown" checks being due: one
 * with more to come, or many, which are all.
 */
static bool
wants_list(verdict_decision_set *set, size_t unknown)
{
	double asked = set->asked + (double) unknown - 1;
	verdict_outlook outlook = {0};
	double checks = (double) unknown; /* that a list is expected to save */
	double least = FIRST_CHECKS;

	if (!verdict_setting_prefetch || set->unlistable || asked < FIRST_CHECKS)
		return false;
	if (unknown == 1)
	{
		outlook = verdict_statement_outlook();
		/* As many again as there were already, when there are more than was thought. */
		checks = Max(outlook.rows * CHECKS_PER_ROW, 2 * asked);
	}
	if (!outlook.may_stop)
	{
		double worth = checks * ROWS_PER_CHECK;

		if (!set->whole && worth > set->rows && set->rows == FIRST_LIMIT)
			set->rows = worth;
		if (worth >= set->rows || unknown > 1)
			return worth >= set->rows;
	}
	else if (!set->whole)
		least = Max(least, Min(outlook.enough * CHECKS_PER_PAGE, LONGEST_PAGE));
	else if (outlook.enough > 0 &&
			 checks_to_fill(set, outlook.enough) * ROWS_PER_CHECK >= set->rows)
		return true;
	return asked >= Max(least, set->rows / (ROWS_PER_CHECK * SPENT_BEFORE));
}

/* ---- failures ---- */

/*
 * What to do about a check that got no answer: returns when the answer is to be
 * "no" by verdict.on_failure = deny, else raises.  That setting is for instances
 * and networks that fail.  An interrupt has to end the statement, and a wrong
 * argument or exhausted memory is nothing that a "no" would answer.
 */
static void
handle_failed_check(verdict_decision_set *set, const verdict_status *status)
{
	static const char *const action = "check authorization";

	if (verdict_setting_on_failure != VERDICT_ON_FAILURE_DENY ||
		status->cause == VERDICT_CAUSE_INTERRUPTED || status->cause == VERDICT_CAUSE_ARGUMENT ||
		status->cause == VERDICT_CAUSE_MEMORY || status->cause == VERDICT_CAUSE_LIMIT)
		verdict_report_failure(status, action);
	/* Not to be waited for, and warned of, once a row. */
	set->failed_in = verdict_current_statement();
	verdict_warn_failure(status, action);
}

/* Whether one check alone may do better than several that failed that way. */
static bool
is_of_one_check(const verdict_status *status)
{
	switch (status->cause)
	{
		case VERDICT_CAUSE_ARGUMENT:
		case VERDICT_CAUSE_LIMIT:
		case VERDICT_CAUSE_MEMORY:
			return true;
		case VERDICT_CAUSE_REMOTE:
		case VERDICT_CAUSE_HTTP:
			return status->code != VERDICT_UNAVAILABLE;
		default:
			return false;
	}
}

/* Whether single checks are to decide after a list failed that way. */
static bool
falls_back(const verdict_status *status)
{
	switch (status->cause)
	{
		case VERDICT_CAUSE_INTERRUPTED:
		case VERDICT_CAUSE_ARGUMENT:
		case VERDICT_CAUSE_SESSION:
		case VERDICT_CAUSE_LIMIT:
		case VERDICT_CAUSE_ANSWER:
			return false;
		default:
			return true;
	}
}

/* Whether it would fail that way again. */
static bool
is_refusal(const verdict_status *status)
{
	switch (status->cause)
	{
		case VERDICT_CAUSE_TOO_LARGE:
		case VERDICT_CAUSE_DEADLINE:
			return true;
		case VERDICT_CAUSE_REMOTE:
		case VERDICT_CAUSE_HTTP:
			return status->code != VERDICT_UNAVAILABLE && status->code != VERDICT_ABORTED &&
				   status->code != VERDICT_INTERNAL && status->code != VERDICT_UNKNOWN;
		default:
			return false;
	}
}

/* ---- lists ---- */

static void
give_up_lists(verdict_decision_set *set, bool lasting)
{
	set->unlistable = true;
	verdict_decision_counted.refused++;
	if (lasting)
	{
		/* For plans that do not know whom they are for. */
		verdict_question any = {.type = set->question.type};

		any_refused = true;
		expectation_of(&set->question)->refused = GetCurrentTimestamp();
		expectation_of(&any)->refused = GetCurrentTimestamp();
	}
}

/*
 * Takes in the rows of an answer.  False with a status when it is malformed; the
 * caller releases the rows.
 */
static bool
take_rows(verdict_decision_set *set, verdict_rows *rows, size_t *count, verdict_status *status)
{
	verdict_decision_map *map = set->making != NULL ? verdict_list_map(set->making) : set->map;
	const verdict_value *value;
	int more;

	while ((more = verdict_rows_next(rows, &value, status)) > 0)
	{
		verdict_id id;

		if ((++*count & 1023) == 0)
		{
			CHECK_FOR_INTERRUPTS();
			if (verdict_map_size(map) > VERDICT_DECISION_MEMORY)
				return true;
		}
		if (value->kind == VERDICT_VALUE_ANY && set->making != NULL)
			verdict_list_set_all(set->making);
		else if (value->kind == VERDICT_VALUE_ANY)
			set->all = true;
		else if (value->kind != VERDICT_VALUE_IDENTITY ||
				 strcmp(value->as.identity.type, set->type) != 0)
			return verdict_status_fail(status, VERDICT_INTERNAL, VERDICT_CAUSE_ANSWER,
									   "the answer holds a value that is no identity of type %s",
									   set->type);
		else
		{
			verdict_id_of_text(value->as.identity.id, strlen(value->as.identity.id), &id);
			verdict_map_put(map, &id, true);
		}
	}
	return more == 0;
}

/* Answers everything from a list, whose reference the set takes over. */
static void
use_list(verdict_decision_set *set, verdict_list *list)
{
	set->list = list;
	verdict_map_clear(set->map);
}

/*
 * Asks for a list.  False, with a status, only for a failure that stands for
 * the failure of a check.
 */
static bool
fetch_list(verdict_decision_set *set, verdict_read *read, verdict_status *status)
{
	uint64 statement = verdict_current_statement();
	verdict_term arguments[3] = {{.kind = VERDICT_TERM_VALUE},
								 {.kind = VERDICT_TERM_VALUE},
								 {.kind = VERDICT_TERM_VARIABLE}};
	verdict_fact pattern = {"allow", lengthof(arguments), arguments};
	verdict_rows *rows;
	size_t count = 0;
	uint32 limit = set->whole || set->rows > LARGEST_LIMIT ? 0 : (uint32) set->rows;
	verdict_decision_map *map;
	bool answered;
	bool cut;

	arguments[0].as.value.kind = VERDICT_VALUE_IDENTITY;
	arguments[0].as.value.as.identity = set->actor;
	arguments[1].as.value.kind = VERDICT_VALUE_STRING;
	arguments[1].as.value.as.string = set->action;
	arguments[2].as.variable.name = "resource";
	arguments[2].as.variable.type = set->type;

	verdict_decision_counted.lists++;
	answered = verdict_client_query(read->client, set->session, &pattern, limit, &read->options,
									&rows, status);
	verdict_scope_end(read, status);
	if (!answered)
	{
		if (!falls_back(status))
			return false;
		give_up_lists(set, is_refusal(status));
		return true;
	}
	verdict_hold_rows(rows);
	verdict_set_observe(set);
	if (set->list_statement != statement)
		set->lists = 0;
	set->list_statement = statement;
	set->lists++;

	cut = verdict_rows_truncated(rows);
	set->unsettled = true;
	if (!cut)
		set->making = verdict_list_make();
	map = cut ? set->map : verdict_list_map(set->making);
	if (!take_rows(set, rows, &count, status))
	{
		verdict_release_rows(rows);
		verdict_set_forget(set);
		return false;
	}
	set->unsettled = false;
	verdict_release_rows(rows);
	verdict_decision_counted.rows += count;

	if (verdict_map_size(map) > VERDICT_DECISION_MEMORY)
	{
		/* What single checks say takes as much, but they can be forgotten. */
		verdict_set_forget(set);
		give_up_lists(set, true);
	}
	else if (!cut)
	{
		use_list(set, set->making);
		set->making = NULL;
		verdict_list_keep(set);
		verdict_decisions_listed(&set->question, count);
	}
	else
	{
		list_expectation *expected = expectation_of(&set->question);

		verdict_decision_counted.cut++;
		expected->known = true;
		expected->whole = false;
		expected->rows = count;
		set->whole = false;
		set->rows = (double) count * LIMIT_GROWTH;
		if (limit == 0 || count < limit)
			give_up_lists(set, true); /* by the instance's own cap */
	}
	return true;
}

/* After an answer for the set: uses the list of an earlier statement if that is right again. */
static void
take_kept_list(verdict_decision_set *set)
{
	verdict_list *list = verdict_setting_prefetch ? verdict_list_take(set) : NULL;

	if (list == NULL)
		return;
	use_list(set, list);
	verdict_decision_counted.kept++;
}

/* ---- single checks ---- */

/*
 * Asks for each id that is not known, the same one once, several calls in flight.
 * The answers are put into the set, and into "answers".  False with a status.
 */
static bool
ask_singly(verdict_decision_set *set, verdict_read *read, const verdict_id *ids, size_t count,
		   bool *answers, verdict_status *status)
{
	verdict_check *checks;
	size_t *places; /* of each check among the ids */
	bool *allowed;
	size_t asked = 0;
	verdict_decision_map *met = NULL;
	bool answered;

	checks = palloc_extended(count * sizeof(*checks), MCXT_ALLOC_HUGE);
	places = palloc_extended(count * sizeof(*places), MCXT_ALLOC_HUGE);
	if (count > 1)
		met = verdict_map_create();
	for (size_t i = 0; i < count; i++)
	{
		if (verdict_set_find(set, &ids[i]) != VERDICT_NOT_KNOWN ||
			(met != NULL && !verdict_map_put(met, &ids[i], true)))
			continue;
		checks[asked].actor = set->actor;
		checks[asked].action = set->action;
		checks[asked].resource.type = set->type;
		checks[asked].resource.id = verdict_id_to_text(&ids[i]);
		places[asked++] = i;
	}
	allowed = palloc_extended(Max(asked, 1) * sizeof(bool), MCXT_ALLOC_HUGE);

	set->asked += (double) asked;
	verdict_decision_counted.single += asked;
	answered = verdict_client_authorize_many(read->client, set->session, checks, asked,
											 &read->options, allowed, status);
	verdict_scope_end(read, status);
	if (!answered)
		return false;

	verdict_set_observe(set);
	if (verdict_map_size(set->map) > VERDICT_DECISION_MEMORY)
		verdict_set_forget(set);
	set->unsettled = true;
	for (size_t i = 0; i < asked; i++)
	{
		verdict_map_put(set->map, &ids[places[i]], allowed[i]);
		set->allowed += allowed[i] ? 1 : 0;
	}
	set->unsettled = false;
	take_kept_list(set);
	/* What was known before, and is forgotten by now, was true when it was asked for. */
	for (size_t i = 0; i < count; i++)
	{
		verdict_known known = verdict_set_find(set, &ids[i]);

		if (known != VERDICT_NOT_KNOWN)
			answers[i] = known == VERDICT_KNOWN_YES;
	}
	for (size_t i = 0; i < asked; i++)
		pfree(unconstify(char *, checks[i].resource.id));
	pfree(allowed);
	pfree(places);
	pfree(checks);
	if (met != NULL)
	{
		verdict_map_clear(met);
		pfree(met);
	}
	return true;
}

/* Fills in what the set knows; returns how many it does not know. */
static size_t
fill_in(verdict_decision_set *set, const verdict_id *ids, size_t count, bool *answers)
{
	size_t unknown = 0;

	for (size_t i = 0; i < count; i++)
	{
		verdict_known known = verdict_set_find(set, &ids[i]);

		answers[i] = known == VERDICT_KNOWN_YES;
		if (known == VERDICT_NOT_KNOWN)
			unknown++;
	}
	return unknown;
}

/*
 * Asks for what is not known.  False, with a status, for a failure; "unknown" is how
 * many there are.
 */
static bool
ask(verdict_decision_set *set, verdict_read *read, const verdict_id *ids, size_t count,
	bool *answers, size_t unknown, verdict_status *status)
{
	/* One answer tells whether a kept list is right: not worth making all checks before. */
	if (unknown > 1 && verdict_setting_prefetch && verdict_list_is_kept(set))
	{
		size_t first = 0;

		while (verdict_set_find(set, &ids[first]) != VERDICT_NOT_KNOWN)
			first++;
		if (!ask_singly(set, read, &ids[first], 1, &answers[first], status))
			return false;
		unknown = fill_in(set, ids, count, answers);
	}
	while (unknown > 0 && wants_list(set, unknown))
	{
		if (!verdict_set_has_room(set))
			give_up_lists(set, false);
		else if (!fetch_list(set, read, status))
			return false;
		unknown = fill_in(set, ids, count, answers);
	}
	return unknown == 0 || ask_singly(set, read, ids, count, answers, status);
}

bool
verdict_ask(verdict_decision_set *set, verdict_read *read, const verdict_id *ids, size_t count,
			bool *answers)
{
	size_t unknown = fill_in(set, ids, count, answers);
	bool failed_before = set->failed_in != 0 && set->failed_in == verdict_current_statement() &&
						 verdict_setting_on_failure == VERDICT_ON_FAILURE_DENY;
	verdict_status status;

	if (unknown == 0)
	{
		verdict_decision_counted.remembered++;
		return true;
	}
	if (!failed_before)
	{
		if (ask(set, read, ids, count, answers, unknown, &status))
			return true;
		handle_failed_check(set, &status);
	}
	memset(answers, 0, count * sizeof(*answers));
	return false;
}

size_t
verdict_ask_ahead(verdict_decision_set *set, verdict_read *read, const verdict_id *ids,
				  size_t count, bool *failed)
{
	uint64 before = verdict_decision_counted.single;
	verdict_status status;
	bool *answers;

	if (!set->unlistable || !verdict_setting_prefetch ||
		(set->failed_in != 0 && set->failed_in == verdict_current_statement()))
		return 0;
	answers = palloc(count * sizeof(*answers));
	/* One alone is as well asked for when it is looked at. */
	if (fill_in(set, ids, count, answers) > 1 &&
		!ask_singly(set, read, ids, count, answers, &status))
	{
		*failed = true;
		if (!is_of_one_check(&status))
			handle_failed_check(set, &status);
	}
	pfree(answers);
	return (size_t) (verdict_decision_counted.single - before);
}
