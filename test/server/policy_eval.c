/*
 * policy_eval.c
 *		Evaluation of a goal by the rules, with tabling.
 *
 * Every goal met on the way (a predicate with some arguments given) is opened
 * once and has one table of answers; whoever asks it again reads the table.  So
 * cyclic data ends, and the work is bounded by goals times answers.
 *
 * What is to be done lies on agendas, never on the C stack: a goal to open, a
 * frame (a rule with its variables) to advance, rows of stored facts to try, a
 * consumer (a frame that waits for the answers of a goal) with answers to take.
 * There is one agenda a stratum and the lowest that is not empty goes first.
 * While a frame of a stratum advances, the goals of all lower strata are hence
 * complete, which is what "not" asks for: a frame that opens a negated goal goes
 * back to its agenda and finds the goal complete when it comes up again.
 *
 * Within a stratum the newest work goes first, and a goal without open arguments
 * is done at its first answer, so that a check stops at the first proof.
 *
 * A variable without a value holds the any of its type, the same that an answer
 * holds where every value is allowed: to the evaluation they are one.
 *
 * A failure of the store ends the evaluation; it is never taken for an absent
 * fact.
 */
#include "policy_goal.h"

#include <stdlib.h>
#include <string.h>

#include "text.h"

/* Memory one evaluation may hold. */
#define EVALUATION_LIMIT ((size_t) 512 * 1024 * 1024)

/* Frames. */

static size_t
frame_size(const policy_rule *rule)
{
	return sizeof(frame) + (size_t) rule->variable_count * sizeof(value_id);
}

static frame *
copy_frame(evaluator *evaluator, const frame *original)
{
	size_t size = frame_size(original->rule);

	return memcpy(pool_alloc(&evaluator->pool, size), original, size);
}

static void
free_frame(evaluator *evaluator, frame *frame)
{
	pool_free(&evaluator->pool, frame, frame_size(frame->rule));
}

static value_id
term_value(const frame *frame, const policy_term *term)
{
	return term->kind == POLICY_VARIABLE ? frame->values[term->variable] : term->id;
}

/* Lets a term agree with a value; false when they have nothing in common. */
static bool
meet_term(frame *frame, const policy_term *term, value_id value)
{
	value_id met = value_meet(term_value(frame, term), value);

	if (met == VALUE_NONE)
		return false;
	if (term->kind == POLICY_VARIABLE)
		frame->values[term->variable] = met;
	return true;
}

static bool
meet_answer(frame *frame, const policy_atom *atom, const value_id *answer)
{
	for (int i = 0; i < atom->predicate->arity; i++)
	{
		if (!meet_term(frame, &atom->args[i], answer[i]))
			return false;
	}
	return true;
}

/* The same for a row, which holds values for the open arguments only. */
static bool
meet_row(frame *frame, const policy_atom *atom, const argument_set open, const value_id *row)
{
	for (int i = 0; i < atom->predicate->arity; i++)
	{
		if ((open >> i & 1) != 0 && !meet_term(frame, &atom->args[i], *row++))
			return false;
	}
	return true;
}

/*
 * The arguments of an atom as the frame has them, any of a type counting as
 * any; returns which are open.
 */
static argument_set
atom_values(const frame *frame, const policy_atom *atom, value_id *values)
{
	argument_set open = 0;

	for (int i = 0; i < atom->predicate->arity; i++)
	{
		values[i] = term_value(frame, &atom->args[i]);
		if (value_is_any(values[i]))
		{
			values[i] = VALUE_ANY;
			open |= (argument_set) 1 << i;
		}
	}
	return open;
}

/* A frame with no condition left answers its goal. */
static void
conclude(evaluator *evaluator, const frame *frame)
{
	const policy_atom *head = &frame->rule->head;
	value_id answer[POLICY_MAX_ARGUMENTS];

	/* The head met the goal's arguments when the frame was made. */
	for (int i = 0; i < head->predicate->arity; i++)
		answer[i] = value_meet(term_value(frame, &head->args[i]), frame->goal->args[i]);
	goal_add_answer(evaluator, frame->goal, answer);
}

static bool
open_goal(evaluator *evaluator, goal *goal)
{
	policy_predicate *predicate = goal->predicate;
	agenda *agenda;
	size_t from;

	if (goal->ground)
	{
		bool found;

		if (!store_has_fact(evaluator->store, predicate->relation, goal->args, &found,
							evaluator->error))
			return false;
		if (found)
		{
			goal_add_answer(evaluator, goal, goal->args);
			return true;
		}
	}
	else
	{
		store_rows rows;
		value_id answer[POLICY_MAX_ARGUMENTS];

		if (!store_match(evaluator->store, predicate->relation, goal->args, &evaluator->pool, &rows,
						 evaluator->error))
			return false;
		for (size_t i = 0; i < rows.count && !evaluator->stopped; i++)
		{
			const value_id *row = rows.values + i * rows.width;

			for (int j = 0; j < predicate->arity; j++)
				answer[j] = goal->args[j] == VALUE_ANY ? *row++ : goal->args[j];
			goal_add_answer(evaluator, goal, answer);
		}
		if (rows.capacity > 0)
			pool_free(&evaluator->pool, rows.values, rows.capacity);
	}

	from = evaluator->agendas[predicate->stratum].count;
	for (const policy_rule *rule = predicate->rules; rule != NULL; rule = rule->next)
	{
		frame *frame = pool_alloc(&evaluator->pool, frame_size(rule));

		frame->goal = goal;
		frame->rule = rule;
		frame->conditions =
			rule->condition_count == 64 ? UINT64_MAX : (UINT64_C(1) << rule->condition_count) - 1;
		for (int i = 0; i < rule->variable_count; i++)
			frame->values[i] = rule->variables[i].id;
		if (meet_answer(frame, &rule->head, goal->args))
			goal_schedule(evaluator, predicate, ADVANCE_FRAME, frame);
		else
			free_frame(evaluator, frame);
	}
	/* The newest goes first: turn them round, so that this is the first rule. */
	agenda = &evaluator->agendas[predicate->stratum];
	for (size_t to = agenda->count; from + 1 < to; from++, to--)
	{
		task other = agenda->tasks[from];

		agenda->tasks[from] = agenda->tasks[to - 1];
		agenda->tasks[to - 1] = other;
	}
	return true;
}

/* Conditions. */

/* What to try first; within one choice the fewest open arguments. */
typedef enum choice
{
	COMPARE,
	PROBE_FACTS, /* stored facts, nothing open */
	PROBE_GOAL,	 /* the same by rules */
	MATCH_FACTS, /* stored facts, something given */
	MATCH_GOAL,
	SCAN_FACTS, /* nothing given */
	SCAN_GOAL,
	NOT_YET /* its variables have no values yet */
} choice;

static int
rate(const frame *frame, const policy_condition *condition)
{
	const policy_atom *atom = &condition->atom;
	int open = 0;
	int given = 0;
	bool stored;

	if (condition->kind == POLICY_COMPARES)
	{
		open = value_is_any(term_value(frame, &condition->left)) +
			   value_is_any(term_value(frame, &condition->right));
		if (open == 0 || (open == 1 && condition->comparison == POLICY_EQUAL))
			return COMPARE * 128;
		return NOT_YET * 128;
	}
	for (int i = 0; i < atom->predicate->arity; i++)
	{
		if (!value_is_any(term_value(frame, &atom->args[i])))
			given++;
		else if (condition->kind == POLICY_HOLDS)
			open++;
		else if (atom->args[i].kind == POLICY_VARIABLE)
			return NOT_YET * 128;
	}
	stored = atom->predicate->rules == NULL;
	if (open == 0)
		return (stored ? PROBE_FACTS : PROBE_GOAL) * 128;
	if (given > 0)
		return (stored ? MATCH_FACTS : MATCH_GOAL) * 128 + open;
	return (stored ? SCAN_FACTS : SCAN_GOAL) * 128 + open;
}

static int
choose_condition(const frame *frame)
{
	int best = -1;
	int best_rate = NOT_YET * 128;
	uint64_t left = frame->conditions;

	while (left != 0)
	{
		int i = __builtin_ctzll(left);
		int rating = rate(frame, &frame->rule->conditions[i]);

		left &= left - 1;
		if (rating < best_rate)
		{
			best = i;
			best_rate = rating;
			if (rating == COMPARE * 128)
				break;
		}
	}
	return best;
}

static bool
compare(evaluator *evaluator, frame *frame, const policy_condition *condition, bool *holds)
{
	value_id left = term_value(frame, &condition->left);
	value_id right = term_value(frame, &condition->right);
	bool is_integer;
	int64_t a;
	int64_t b;

	*holds = false;
	if (condition->comparison == POLICY_EQUAL)
	{
		*holds = meet_term(frame, &condition->left, right) &&
				 meet_term(frame, &condition->right, term_value(frame, &condition->left));
		return true;
	}
	if (condition->comparison == POLICY_NOT_EQUAL)
	{
		*holds = left != right;
		return true;
	}
	if (!store_get_integer(evaluator->store, left, &is_integer, &a, evaluator->error))
		return false;
	if (!is_integer)
		return true;
	if (!store_get_integer(evaluator->store, right, &is_integer, &b, evaluator->error))
		return false;
	if (!is_integer)
		return true;
	switch (condition->comparison)
	{
		case POLICY_LESS:
			*holds = a < b;
			break;
		case POLICY_LESS_EQUAL:
			*holds = a <= b;
			break;
		case POLICY_GREATER:
			*holds = a > b;
			break;
		default:
			*holds = a >= b;
	}
	return true;
}

/*
 * Whether one of the facts that an atom under "not" may match does; only its
 * wildcards can be open, and they may have a type.
 */
static bool
any_row_meets(frame *frame, const policy_atom *atom, argument_set open, const store_rows *rows)
{
	for (size_t i = 0; i < rows->count; i++)
	{
		if (meet_row(frame, atom, open, rows->values + i * rows->width))
			return true;
	}
	return false;
}

static bool
any_answer_meets(frame *frame, const policy_atom *atom, const goal *goal)
{
	for (size_t i = 0; i < goal->count; i++)
	{
		if (meet_answer(frame, atom, goal->answers + i * (size_t) atom->predicate->arity))
			return true;
	}
	return false;
}

/* True when no more is open than wildcards without a type. */
static bool
only_wildcards(const policy_atom *atom, argument_set open)
{
	while (open != 0)
	{
		const policy_term *term = &atom->args[__builtin_ctzll(open)];

		if (term->kind != POLICY_WILDCARD || term->type != NULL)
			return false;
		open &= open - 1;
	}
	return true;
}

typedef enum progress
{
	FAILED,	   /* the store did */
	HOLDS,	   /* the condition is met */
	HOLDS_NOT, /* the frame ends here */
	WAITS	   /* the frame belongs to a task now */
} progress;

static progress
meet_facts(evaluator *evaluator, frame *frame, const policy_condition *condition)
{
	const policy_atom *atom = &condition->atom;
	relation *relation = atom->predicate->relation;
	value_id values[POLICY_MAX_ARGUMENTS];
	argument_set open = atom_values(frame, atom, values);
	store_rows rows;
	matches *matches;
	progress result;

	/* Nothing to be learnt but whether there is one. */
	if (only_wildcards(atom, open))
	{
		bool found;

		if (!store_has_fact(evaluator->store, relation, values, &found, evaluator->error))
			return FAILED;
		return found == (condition->kind == POLICY_HOLDS) ? HOLDS : HOLDS_NOT;
	}
	if (!store_match(evaluator->store, relation, values, &evaluator->pool, &rows, evaluator->error))
		return FAILED;
	if (condition->kind == POLICY_HOLDS && rows.count > 1)
	{
		matches = pool_zero(&evaluator->pool, sizeof(*matches));
		matches->frame = frame;
		matches->atom = atom;
		matches->rows = rows;
		goal_schedule(evaluator, frame->goal->predicate, TRY_MATCHES, matches);
		return WAITS;
	}
	result = any_row_meets(frame, atom, open, &rows) == (condition->kind == POLICY_HOLDS)
				 ? HOLDS
				 : HOLDS_NOT;
	if (rows.capacity > 0)
		pool_free(&evaluator->pool, rows.values, rows.capacity);
	return result;
}

static progress
meet_goal(evaluator *evaluator, frame *frame, int index)
{
	const policy_condition *condition = &frame->rule->conditions[index];
	const policy_atom *atom = &condition->atom;
	value_id values[POLICY_MAX_ARGUMENTS];
	argument_set open = atom_values(frame, atom, values);
	size_t before = evaluator->goal_count;
	goal *goal = goal_get(evaluator, atom->predicate, values, open == 0);
	consumer *consumer;

	if (condition->kind == POLICY_HOLDS_NOT)
	{
		if (evaluator->goal_count > before)
		{
			/* Its stratum is lower: it is complete before this comes again. */
			frame->conditions |= UINT64_C(1) << index;
			goal_schedule(evaluator, frame->goal->predicate, ADVANCE_FRAME, frame);
			return WAITS;
		}
		return any_answer_meets(frame, atom, goal) ? HOLDS_NOT : HOLDS;
	}
	if (goal->done)
		return HOLDS;
	consumer = pool_zero(&evaluator->pool, sizeof(*consumer));
	consumer->frame = frame;
	consumer->atom = atom;
	consumer->source = goal;
	consumer->next = goal->consumers;
	goal->consumers = consumer;
	if (goal->count > 0)
	{
		consumer->scheduled = true;
		goal_schedule(evaluator, frame->goal->predicate, FEED_CONSUMER, consumer);
	}
	return WAITS;
}

/* Takes a frame as far as it goes without waiting. */
static bool
advance_frame(evaluator *evaluator, frame *frame)
{
	for (;;)
	{
		const policy_condition *condition;
		progress progress;
		bool holds;
		int index;

		if (frame->conditions == 0)
		{
			conclude(evaluator, frame);
			break;
		}
		index = choose_condition(frame);
		if (index < 0)
			return engine_fail(evaluator->error, ENGINE_INTERNAL,
							   "a condition at line %d has a variable without a value",
							   frame->rule->head.place.line);
		condition = &frame->rule->conditions[index];
		frame->conditions &= ~(UINT64_C(1) << index);
		if (condition->kind == POLICY_COMPARES)
			progress = !compare(evaluator, frame, condition, &holds) ? FAILED
					   : holds										 ? HOLDS
																	 : HOLDS_NOT;
		else if (condition->atom.predicate->rules == NULL)
			progress = meet_facts(evaluator, frame, condition);
		else
			progress = meet_goal(evaluator, frame, index);
		if (progress == FAILED)
			return false;
		if (progress == WAITS)
			return true;
		if (progress == HOLDS_NOT)
			break;
	}
	free_frame(evaluator, frame);
	return true;
}

static void
try_matches(evaluator *evaluator, matches *matches)
{
	const policy_atom *atom = matches->atom;
	const value_id *row = matches->rows.values + matches->taken * matches->rows.width;
	bool last = ++matches->taken == matches->rows.count;
	frame *next = last ? matches->frame : copy_frame(evaluator, matches->frame);
	value_id values[POLICY_MAX_ARGUMENTS];
	bool met = meet_row(next, atom, atom_values(next, atom, values), row);

	if (last)
	{
		pool_free(&evaluator->pool, matches->rows.values, matches->rows.capacity);
		pool_free(&evaluator->pool, matches, sizeof(*matches));
	}
	else
		goal_schedule(evaluator, next->goal->predicate, TRY_MATCHES, matches);
	if (met)
		goal_schedule(evaluator, next->goal->predicate, ADVANCE_FRAME, next);
	else
		free_frame(evaluator, next);
}

static void
feed_consumer(evaluator *evaluator, consumer *consumer)
{
	const goal *source = consumer->source;
	const value_id *answer = source->answers + consumer->taken * (size_t) source->predicate->arity;
	frame *next = copy_frame(evaluator, consumer->frame);

	consumer->taken++;
	if (consumer->taken < source->count)
		goal_schedule(evaluator, next->goal->predicate, FEED_CONSUMER, consumer);
	else
		consumer->scheduled = false;
	if (meet_answer(next, consumer->atom, answer))
		goal_schedule(evaluator, next->goal->predicate, ADVANCE_FRAME, next);
	else
		free_frame(evaluator, next);
}

static bool
perform(evaluator *evaluator, const task *task)
{
	switch (task->kind)
	{
		case OPEN_GOAL:
			return open_goal(evaluator, task->subject);
		case ADVANCE_FRAME:
		{
			frame *frame = task->subject;

			if (!frame->goal->done)
				return advance_frame(evaluator, frame);
			free_frame(evaluator, frame);
			return true;
		}
		case TRY_MATCHES:
		{
			matches *matches = task->subject;

			if (!matches->frame->goal->done)
				try_matches(evaluator, matches);
			return true;
		}
		case FEED_CONSUMER:
		{
			consumer *consumer = task->subject;

			if (!consumer->frame->goal->done)
				feed_consumer(evaluator, consumer);
			return true;
		}
	}
	return true;
}

static bool
run(evaluator *evaluator)
{
	while (!evaluator->stopped)
	{
		task task;

		if (!goal_next_task(evaluator, &task))
			break;
		if (!perform(evaluator, &task))
			return false;
		if (pool_bytes(&evaluator->pool) > EVALUATION_LIMIT)
			return engine_fail(evaluator->error, ENGINE_RESOURCE_EXHAUSTED,
							   "the evaluation needs more than %zu MiB",
							   EVALUATION_LIMIT / (1024 * 1024));
	}
	return true;
}

/* A goal on a predicate without rules: its stored facts are the answers. */
static bool
run_facts(evaluator *evaluator, relation *relation, const value_id *goal, evaluator_answer answer,
		  void *context, engine_error *error)
{
	int arity = relation_arity(relation);
	value_id args[POLICY_MAX_ARGUMENTS];
	store_scan scan;
	bool found;
	bool done;
	bool ground = true;

	for (int i = 0; i < arity; i++)
		ground = ground && !value_is_any(goal[i]);
	if (ground)
	{
		if (!store_has_fact(evaluator->store, relation, goal, &found, error))
			return false;
		if (found)
			answer(context, goal);
		return true;
	}
	if (!store_scan_open(evaluator->store, relation, goal, NULL, &scan, error))
		return false;
	do
		done = store_scan_next(evaluator->store, &scan, args, &found, error);
	while (done && found && answer(context, args));
	store_scan_close(&scan);
	return done;
}

bool
evaluator_run(evaluator *evaluator, const policy *policy, const char *predicate, int arity,
			  const value_id *goal, evaluator_answer answer, void *context, engine_error *error)
{
	policy_predicate *head = policy == NULL ? NULL : policy_find(policy, predicate, arity);
	bool ground = true;
	bool done;

	if (head == NULL || head->rules == NULL)
	{
		relation *relation = store_relation(evaluator->store, predicate, arity, false);

		return relation == NULL || run_facts(evaluator, relation, goal, answer, context, error);
	}
	goal_reserve(evaluator, policy->strata);
	evaluator->lowest = head->stratum;
	evaluator->answer = answer;
	evaluator->context = context;
	evaluator->stopped = false;
	evaluator->error = error;
	for (int i = 0; i < arity; i++)
		ground = ground && !value_is_any(goal[i]);
	evaluator->top = goal_get(evaluator, head, goal, ground);
	done = run(evaluator);
	goal_clear(evaluator);
	return done;
}

evaluator *
evaluator_new(store *store)
{
	evaluator *evaluator = memory_alloc(sizeof(*evaluator));

	memset(evaluator, 0, sizeof(*evaluator));
	evaluator->store = store;
	return evaluator;
}

void
evaluator_free(evaluator *evaluator)
{
	if (evaluator == NULL)
		return;
	for (int i = 0; i < evaluator->agenda_count; i++)
		free(evaluator->agendas[i].tasks);
	free(evaluator->agendas);
	free(evaluator->table);
	pool_destroy(&evaluator->pool);
	free(evaluator);
}
