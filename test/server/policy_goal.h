/*
 * policy_goal.h
 *		The tables and agendas of an evaluation; between policy_goal.c, which
 *		keeps them, and policy_eval.c, which applies the rules.
 *
 * Everything but the agendas and the table of goals is in the evaluator's pool
 * and lasts for one evaluation.
 */
#ifndef VERDICT_SERVER_POLICY_GOAL_H
#define VERDICT_SERVER_POLICY_GOAL_H

#include "policy.h"

typedef struct goal goal;
typedef struct frame frame;
typedef struct consumer consumer;

struct goal
{
	policy_predicate *predicate;
	uint64_t hash;
	bool ground;	   /* no open argument */
	bool done;		   /* ground, and answered */
	value_id *args;	   /* as met when it was opened; any of a type = any */
	value_id *answers; /* count times arity */
	size_t count;
	size_t room;	   /* of answers, in answers */
	uint32_t *table;   /* answers by hash, index + 1, 0 = free slot */
	size_t table_size; /* a power of two */
	consumer *consumers;
};

struct frame
{
	goal *goal; /* that the rule's head answers */
	const policy_rule *rule;
	uint64_t conditions; /* still to be met, one bit each */
	value_id values[];	 /* of the rule's variables */
};

struct consumer
{
	frame *frame;
	const policy_atom *atom; /* whose answers it takes */
	goal *source;
	size_t taken;
	bool scheduled;
	consumer *next; /* of the same source */
};

/* Rows of stored facts, to be tried one after the other. */
typedef struct matches
{
	frame *frame;
	const policy_atom *atom;
	store_rows rows;
	size_t taken;
} matches;

typedef enum task_kind
{
	OPEN_GOAL,
	ADVANCE_FRAME,
	TRY_MATCHES,
	FEED_CONSUMER
} task_kind;

typedef struct task
{
	task_kind kind;
	void *subject;
} task;

typedef struct agenda
{
	task *tasks;
	size_t count;
	size_t room;
} agenda;

struct evaluator
{
	store *store;
	pool pool;		 /* goals, frames, ...: for one evaluation */
	agenda *agendas; /* one a stratum */
	int agenda_count;
	int lowest;		   /* no task below */
	goal **table;	   /* goals by hash */
	size_t table_size; /* a power of two */
	size_t goal_count;
	/* Of the evaluation that runs. */
	const goal *top;
	evaluator_answer answer;
	void *context;
	bool stopped;
	engine_error *error;
};

/* The newest task of the lowest stratum; false when nothing is left to do. */
extern bool goal_next_task(evaluator *evaluator, task *task);
/* Puts a task on the agenda of a predicate's stratum. */
extern void goal_schedule(evaluator *evaluator, const policy_predicate *predicate, task_kind kind,
						  void *subject);
/* The goal of these arguments; a new one is scheduled to be opened. */
extern goal *
goal_get(evaluator *evaluator, policy_predicate *predicate, const value_id *args, bool ground);
/* Adds an answer, unless it is known, and wakes who waits for it. */
extern void goal_add_answer(evaluator *evaluator, goal *goal, const value_id *answer);
/* Empties tables and agendas for the next evaluation. */
extern void goal_clear(evaluator *evaluator);
/* Makes agendas for at least so many strata. */
extern void goal_reserve(evaluator *evaluator, int strata);

#endif /* VERDICT_SERVER_POLICY_GOAL_H */
