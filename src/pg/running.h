/*
 * running.h
 *		Which statement is running, and memory that lives as long as it.
 *
 * A statement, here, is what runs on one snapshot: one execution of a plan,
 * with the functions called from it that run on the same snapshot (STABLE ones).
 * A VOLATILE function takes a new snapshot for each statement of its own, and so
 * each of those counts for itself.  A cursor is one statement from its opening to
 * its end.
 */
#ifndef VERDICT_PG_RUNNING_H
#define VERDICT_PG_RUNNING_H

#include "verdict.h"

#include "executor/execdesc.h"
#include "utils/snapmgr.h"

/* What the plan of a statement lets expect. */
typedef struct verdict_outlook
{
	double rows;   /* the most that any part of the plan is expected to give */
	bool may_stop; /* somebody may want no more of it: LIMIT, a cursor */
	double enough; /* rows after which LIMIT stops; 0 = not known */
} verdict_outlook;

/* A run of the executor that is on the stack; innermost in verdict_running. */
typedef struct verdict_run
{
	struct verdict_run *outer;
	const QueryDesc *query;
	bool has_outlook; /* made when it is first asked for */
	verdict_outlook outlook;
	uint64 serial;			/* unique in this backend */
	uint64 statement;		/* serial of the outermost run on the same snapshot */
	Snapshot snapshot;		/* what was active when it began */
	MemoryContext lifetime; /* of the outermost run on the same snapshot */
} verdict_run;

extern verdict_run *verdict_running;

/* The innermost run when what asks runs on its snapshot, else NULL. */
static inline const verdict_run *
verdict_current_run(void)
{
	const verdict_run *run = verdict_running;

	return run != NULL && ActiveSnapshotSet() && run->snapshot == GetActiveSnapshot() ? run : NULL;
}

/*
 * A memory context that ends with the statement that is running, or NULL when
 * what asks belongs to none: an expression that PL/pgSQL evaluates by itself, a
 * utility command.
 */
extern MemoryContext verdict_statement_lifetime(void);

/*
 * What the statement that is running lets expect, by the plans of all runs that are
 * part of it; all zero when there is none.
 */
extern verdict_outlook verdict_statement_outlook(void);

/* Installs the hooks; from _PG_init, once. */
extern void verdict_running_init(void);

#endif /* VERDICT_PG_RUNNING_H */
