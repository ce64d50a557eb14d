/*
 * policy_goal.c
 *		Goals, their answers, and what is to be done next.  See policy_eval.c for
 *		the whole.
 */
#include "policy_goal.h"

#include <stdlib.h>
#include <string.h>

static uint64_t
mix(uint64_t hash, uint64_t value)
{
	hash ^= value;
	hash *= UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 29;
}

static uint64_t
hash_values(uint64_t hash, const value_id *values, int count)
{
	for (int i = 0; i < count; i++)
		hash = mix(hash, (uint64_t) values[i]);
	hash *= UINT64_C(0xd6e8feb86659fd93);
	return hash ^ hash >> 32;
}

static bool
same_values(const value_id *a, const value_id *b, int count)
{
	for (int i = 0; i < count; i++)
	{
		if (a[i] != b[i])
			return false;
	}
	return true;
}

void
goal_schedule(evaluator *evaluator, const policy_predicate *predicate, task_kind kind,
			  void *subject)
{
	agenda *agenda = &evaluator->agendas[predicate->stratum];

	if (agenda->count == agenda->room)
	{
		agenda->room = agenda->room * 2 + 64;
		agenda->tasks = memory_resize(agenda->tasks, agenda->room * sizeof(task));
	}
	agenda->tasks[agenda->count].kind = kind;
	agenda->tasks[agenda->count].subject = subject;
	agenda->count++;
	if (predicate->stratum < evaluator->lowest)
		evaluator->lowest = predicate->stratum;
}

bool
goal_next_task(evaluator *evaluator, task *task)
{
	agenda *agenda;

	while (evaluator->lowest < evaluator->agenda_count &&
		   evaluator->agendas[evaluator->lowest].count == 0)
		evaluator->lowest++;
	if (evaluator->lowest == evaluator->agenda_count)
		return false;
	agenda = &evaluator->agendas[evaluator->lowest];
	*task = agenda->tasks[--agenda->count];
	return true;
}

void
goal_reserve(evaluator *evaluator, int strata)
{
	size_t more;

	if (evaluator->agenda_count >= strata)
		return;
	more = (size_t) (strata - evaluator->agenda_count);
	evaluator->agendas = memory_resize(evaluator->agendas, (size_t) strata * sizeof(agenda));
	memset(evaluator->agendas + evaluator->agenda_count, 0, more * sizeof(agenda));
	evaluator->agenda_count = strata;
}

static void
grow_goal_table(evaluator *evaluator)
{
	size_t size = evaluator->table_size > 0 ? evaluator->table_size * 2 : 256;
	goal **table = memory_alloc(size * sizeof(*table));

	memset(table, 0, size * sizeof(*table));
	for (size_t i = 0; i < evaluator->table_size; i++)
	{
		if (evaluator->table[i] != NULL)
		{
			size_t slot = evaluator->table[i]->hash & (size - 1);

			while (table[slot] != NULL)
				slot = (slot + 1) & (size - 1);
			table[slot] = evaluator->table[i];
		}
	}
	free(evaluator->table);
	evaluator->table = table;
	evaluator->table_size = size;
}

goal *
goal_get(evaluator *evaluator, policy_predicate *predicate, const value_id *args, bool ground)
{
	uint64_t hash = hash_values((uint64_t) predicate->number, args, predicate->arity);
	size_t bytes = (size_t) predicate->arity * sizeof(value_id);
	goal *found;
	size_t slot;

	if (evaluator->goal_count * 2 >= evaluator->table_size)
		grow_goal_table(evaluator);
	slot = hash & (evaluator->table_size - 1);
	while ((found = evaluator->table[slot]) != NULL)
	{
		if (found->hash == hash && found->predicate == predicate &&
			same_values(found->args, args, predicate->arity))
			return found;
		slot = (slot + 1) & (evaluator->table_size - 1);
	}
	found = pool_zero(&evaluator->pool, sizeof(goal));
	found->predicate = predicate;
	found->hash = hash;
	found->ground = ground;
	found->args = pool_alloc(&evaluator->pool, bytes);
	memcpy(found->args, args, bytes);
	evaluator->table[slot] = found;
	evaluator->goal_count++;
	goal_schedule(evaluator, predicate, OPEN_GOAL, found);
	return found;
}

static void
grow_answer_table(evaluator *evaluator, goal *goal)
{
	size_t size = goal->table_size > 0 ? goal->table_size * 2 : 16;
	int arity = goal->predicate->arity;

	if (goal->table != NULL)
		pool_free(&evaluator->pool, goal->table, goal->table_size * sizeof(*goal->table));
	goal->table = pool_zero(&evaluator->pool, size * sizeof(*goal->table));
	goal->table_size = size;
	for (size_t i = 0; i < goal->count; i++)
	{
		size_t slot = hash_values(0, goal->answers + i * (size_t) arity, arity) & (size - 1);

		while (goal->table[slot] != 0)
			slot = (slot + 1) & (size - 1);
		goal->table[slot] = (uint32_t) (i + 1);
	}
}

void
goal_add_answer(evaluator *evaluator, goal *goal, const value_id *answer)
{
	int arity = goal->predicate->arity;
	size_t bytes = (size_t) arity * sizeof(value_id);

	if (goal->done)
		return;
	if (goal->ground)
		goal->done = true;
	else
	{
		size_t slot;

		/* Memory ends long before the indexes in the table do. */
		if (goal->count * 2 >= goal->table_size)
			grow_answer_table(evaluator, goal);
		slot = hash_values(0, answer, arity) & (goal->table_size - 1);
		while (goal->table[slot] != 0)
		{
			if (same_values(goal->answers + (goal->table[slot] - 1) * (size_t) arity, answer,
							arity))
				return;
			slot = (slot + 1) & (goal->table_size - 1);
		}
		goal->table[slot] = (uint32_t) (goal->count + 1);
	}
	if (goal->count == goal->room)
	{
		size_t room = goal->room > 0 ? goal->room * 2 : goal->ground ? 1 : 4;
		value_id *answers = pool_alloc(&evaluator->pool, room * bytes);

		if (goal->count > 0)
		{
			memcpy(answers, goal->answers, goal->count * bytes);
			pool_free(&evaluator->pool, goal->answers, goal->room * bytes);
		}
		goal->answers = answers;
		goal->room = room;
	}
	if (bytes > 0)
		memcpy(goal->answers + goal->count * (size_t) arity, answer, bytes);
	goal->count++;
	for (consumer *waiting = goal->consumers; waiting != NULL; waiting = waiting->next)
	{
		if (!waiting->scheduled)
		{
			waiting->scheduled = true;
			goal_schedule(evaluator, waiting->frame->goal->predicate, FEED_CONSUMER, waiting);
		}
	}
	if (goal == evaluator->top && (!evaluator->answer(evaluator->context, answer) || goal->done))
		evaluator->stopped = true;
}

void
goal_clear(evaluator *evaluator)
{
	for (int i = 0; i < evaluator->agenda_count; i++)
		evaluator->agendas[i].count = 0;
	if (evaluator->table_size > 4096)
	{
		/* After a large evaluation: clearing it for a small one costs too much. */
		free(evaluator->table);
		evaluator->table = NULL;
		evaluator->table_size = 0;
	}
	else if (evaluator->goal_count > 0)
		memset(evaluator->table, 0, evaluator->table_size * sizeof(goal *));
	evaluator->goal_count = 0;
	evaluator->top = NULL;
	pool_reset(&evaluator->pool);
}
