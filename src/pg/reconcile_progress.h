/*
 * reconcile_progress.h
 *		How far each call of verdict_reconcile_facts() is, for everyone to see.
 *
 * It is kept in shared memory, so there is none to see when the library is not
 * preloaded; the functions then do nothing.
 */
#ifndef VERDICT_PG_RECONCILE_PROGRESS_H
#define VERDICT_PG_RECONCILE_PROGRESS_H

#include "verdict.h"

typedef enum verdict_reconcile_phase
{
	VERDICT_RECONCILE_LISTING,
	VERDICT_RECONCILE_QUERYING,
	VERDICT_RECONCILE_COMPARING,
	VERDICT_RECONCILE_REPAIRING
} verdict_reconcile_phase;

typedef struct verdict_reconcile_progress
{
	verdict_reconcile_phase phase;
	uint64 facts;		/* listed */
	uint64 rows;		/* of the query */
	uint64 differences; /* found */
	uint64 repaired;	/* of them */
	uint64 batches;		/* to be sent; known when everything is compared */
	uint64 batches_sent;
} verdict_reconcile_progress;

/* From _PG_init. */
extern void verdict_reconcile_progress_init(void);

/*
 * Takes a place for a call of this process about a server; a negative number when
 * there is none, which the others take as well.  Whoever takes one gives it back,
 * however the call ends.  None of them raises.
 */
extern int verdict_reconcile_progress_start(Oid server, const char *predicate);
extern void
verdict_reconcile_progress_report(int place, const verdict_reconcile_progress *progress);
extern void verdict_reconcile_progress_end(int place);

#endif /* VERDICT_PG_RECONCILE_PROGRESS_H */
