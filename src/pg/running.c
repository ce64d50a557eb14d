/*
 * running.c
 *		Which statement is running.
 *
 * Neither the time nor a counter of PostgreSQL tells one statement from the
 * next: several in one message of the client have one time, and a function has
 * statements within a statement.  So runs of the executor are followed by its
 * hooks, and a run that shares the snapshot of the run around it is a part of the
 * same statement.
 *
 * Invariants
 *	- The entries of the stack lie on the C stack, in the hooks below, which take
 *	  their entry off however they are left.
 *	- A snapshot is compared by its address only with that of a run on the stack,
 *	  which keeps its snapshot until it ends; no address comes back meanwhile.
 *	- When the library is loaded in the middle of a statement its runs are not
 *	  known here, and nothing is remembered for them.
 */
#include "running.h"

#include "executor/executor.h"
#include "nodes/execnodes.h"
#include "nodes/nodeFuncs.h"

verdict_run *verdict_running = NULL;

static uint64 serial = 0;
static ExecutorRun_hook_type previous_run = NULL;
static ExecutorFinish_hook_type previous_finish = NULL;

static void
begin_run(verdict_run *run, const QueryDesc *query)
{
	verdict_run *outer = verdict_running;

	run->outer = outer;
	run->query = query;
	run->has_outlook = false;
	memset(&run->outlook, 0, sizeof(run->outlook));
	run->serial = ++serial;
	run->statement = run->serial;
	run->snapshot = ActiveSnapshotSet() ? GetActiveSnapshot() : NULL;
	run->lifetime = query->estate->es_query_cxt;
	if (outer != NULL && outer->snapshot == run->snapshot)
	{
		run->lifetime = outer->lifetime;
		run->statement = outer->statement;
	}
	verdict_running = run;
}

static void
follow_run(VERDICT_RUN_PARAMETERS)
{
	verdict_run run;

	begin_run(&run, queryDesc);
	run.outlook.may_stop = count != 0;
	PG_TRY();
	{
		if (previous_run != NULL)
			previous_run(VERDICT_RUN_ARGUMENTS);
		else
			standard_ExecutorRun(VERDICT_RUN_ARGUMENTS);
	}
	PG_FINALLY();
	{
		verdict_running = run.outer;
	}
	PG_END_TRY();
}

/* Triggers fire there. */
static void
follow_finish(QueryDesc *query)
{
	verdict_run run;

	begin_run(&run, query);
	PG_TRY();
	{
		if (previous_finish != NULL)
			previous_finish(query);
		else
			standard_ExecutorFinish(query);
	}
	PG_FINALLY();
	{
		verdict_running = run.outer;
	}
	PG_END_TRY();
}

MemoryContext
verdict_statement_lifetime(void)
{
	const verdict_run *run = verdict_current_run();

	return run != NULL ? run->lifetime : NULL;
}

static bool
look_at_plan(PlanState *state, void *context)
{
	verdict_outlook *outlook = context;

	if (IsA(state, LimitState))
	{
		const LimitState *limit = (const LimitState *) state;

		outlook->may_stop = true;
		if (!limit->noCount && limit->lstate != LIMIT_INITIAL)
			outlook->enough = Max(outlook->enough, (double) limit->count + (double) limit->offset);
	}
	outlook->rows = Max(outlook->rows, state->plan->plan_rows);
	return planstate_tree_walker(state, look_at_plan, context);
}

verdict_outlook
verdict_statement_outlook(void)
{
	verdict_outlook whole = {0};
	verdict_run *run = verdict_running;

	if (verdict_current_run() == NULL)
		return whole;
	for (; run != NULL && run->snapshot == GetActiveSnapshot(); run = run->outer)
	{
		if (!run->has_outlook)
		{
			look_at_plan(run->query->planstate, &run->outlook);
			run->has_outlook = true;
		}
		whole.rows = Max(whole.rows, run->outlook.rows);
		whole.enough = Max(whole.enough, run->outlook.enough);
		whole.may_stop = whole.may_stop || run->outlook.may_stop;
	}
	return whole;
}

void
verdict_running_init(void)
{
	previous_run = ExecutorRun_hook;
	ExecutorRun_hook = follow_run;
	previous_finish = ExecutorFinish_hook;
	ExecutorFinish_hook = follow_finish;
}
