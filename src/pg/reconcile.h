/*
 * reconcile.h
 *		What the files of verdict_reconcile_facts() share.
 */
#ifndef VERDICT_PG_RECONCILE_H
#define VERDICT_PG_RECONCILE_H

#include "verdict.h"

#include "reconcile_progress.h"
#include "utils/tuplesort.h"

/* One call, from its beginning to its end. */
typedef struct verdict_reconcile
{
	const char *server;	   /* verdict.server as the call found it */
	Oid role;			   /* as whom it lists and repairs */
	const char *predicate; /* of the facts, UTF-8 */
	int arguments;		   /* of each fact: columns of the query */
	Tuplesortstate *held;  /* texts of the facts that the instance holds */
	Tuplesortstate *asked; /* and of those that the query says should be */
	int place;			   /* of its progress */
	verdict_reconcile_progress progress;
} verdict_reconcile;

/* Says how far the call is, unless it has said so lately. */
extern void verdict_reconcile_tell(const verdict_reconcile *call);

/*
 * The query, in three steps: parsed, with its columns checked; run, with a fact of
 * each row added to "asked"; and forgotten.  It runs as the caller, reads only, and
 * fails where row-level security would hide rows from it.  In SPI's memory.
 */
typedef struct verdict_reconcile_query verdict_reconcile_query;

extern verdict_reconcile_query *
verdict_reconcile_prepare(verdict_reconcile *call, const char *text);
extern void verdict_reconcile_run(verdict_reconcile_query *query);

#endif /* VERDICT_PG_RECONCILE_H */
