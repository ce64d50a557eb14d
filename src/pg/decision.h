/*
 * decision.h
 *		Decisions remembered for a statement, and lists fetched in place of many
 *		single checks.
 *
 * A decision is remembered for the statement (running.h), or for the
 * transaction under REPEATABLE READ and SERIALIZABLE; one that was asked for with
 * consistency authoritative always for the statement only, so that a revocation
 * committed before a statement is seen by it.  Whoever is part of no statement is
 * answered by the instance each time.
 */
#ifndef VERDICT_PG_DECISION_H
#define VERDICT_PG_DECISION_H

#include "decision_map.h"
#include "read.h"

/* A piece of text in the database's encoding. */
typedef struct verdict_piece
{
	const char *bytes;
	size_t size;
} verdict_piece;

/* May this actor do this with resources of this type? */
typedef struct verdict_question
{
	verdict_piece actor; /* "Type:id" */
	verdict_piece action;
	verdict_piece type; /* of the resource */
} verdict_question;

typedef struct verdict_decision_set verdict_decision_set;

/*
 * Where a call of a function keeps the set that answered it last.  To be zeroed
 * once; the set is not to be touched unless verdict_site_known() says so.
 */
typedef struct verdict_decision_site
{
	verdict_decision_set *set;
	uint64 bindings; /* as it was when the set was found */
	uint64 run;		 /* serial number of the run in which it was */
} verdict_decision_site;

/*
 * What a site's set knows of a resource, without a call and without an
 * allocation: UNKNOWN when it may not be used any more, when the question is
 * another, or when the resource has to be asked for.  "consistency" is the
 * argument of the call.  Raises what verdict_server_client() raises.
 */
extern verdict_known
verdict_site_known(verdict_decision_site *site, const verdict_question *question,
				   verdict_consistency consistency, const verdict_id *id);

/*
 * Answers checks of resources of one type, from what is known or by asking the
 * instance, and remembers the answers; "read" comes from verdict_read_start().
 * "answers" gets one for each id.  Raises the failure of a check; with
 * verdict.on_failure = deny it is a warning instead, all answers are false, and
 * false is returned.
 * "site" NULL, or where to find the set next time.
 */
extern bool
verdict_decide(verdict_read *read, const verdict_question *question, const verdict_id *ids,
			   size_t count, bool *answers, verdict_decision_site *site);

/*
 * Makes answers known that verdict_decide() will be asked for soon, several calls in
 * flight, where no list can be had in their place; where one can, or where nothing
 * is remembered, it does nothing.  Returns how many checks were asked.  A failure
 * that any of them would meet is that of a check, as verdict_decide() has it; one
 * that may be of one resource alone is left to whoever decides about it: "*failed"
 * is set, and doing without is better from there on.
 */
extern size_t verdict_decide_ahead(verdict_read *read, const verdict_question *question,
								   const verdict_id *ids, size_t count, bool *failed);

/*
 * The id of a value as verdict_authorize_id() takes it, which points into the value
 * or is allocated in the current memory context.  False for an empty text and for
 * types that it does not take.
 */
extern bool verdict_id_of_value(Oid type, Datum value, verdict_id *id);

/*
 * Nothing that was decided may be used any more: a change of facts or policy was
 * made or sent, or a session was replaced.  Never raises.
 */
extern void verdict_decisions_forget(void);

/* The question of a function's first three arguments, none of which is NULL. */
extern verdict_question verdict_question_arguments(FunctionCallInfo fcinfo);

/*
 * How many resources a list had last time; negative when there was none.  In the
 * current process, for verdict.server as it is set.
 */
extern double verdict_decisions_expected(const verdict_question *question);
/*
 * Whether an instance would not give the list of a question, and has not given it
 * since.  A question whose actor and action are of no size stands for all about that
 * type, of which one was refused.  As for verdict_decisions_expected() otherwise.
 */
extern bool verdict_lists_refused(const verdict_question *question);
/* Remembers it, for a list that came whole. */
extern void verdict_decisions_listed(const verdict_question *question, size_t rows);

/* What became of checks, since the process began. */
typedef struct verdict_decision_counters
{
	uint64 remembered; /* answered without a call */
	uint64 single;	   /* single checks sent */
	uint64 lists;	   /* lists asked for in place of single checks */
	uint64 cut;		   /* of them, those that came cut */
	uint64 refused;	   /* of them, those that the instance would not or could not give */
	uint64 rows;	   /* resources in them */
	uint64 kept;	   /* lists of an earlier statement that were used again */
	uint64 forgotten;  /* sets of decisions forgotten before their statement ended */
} verdict_decision_counters;

extern verdict_decision_counters verdict_decision_counted;

/* Registers the callback; from _PG_init, once. */
extern void verdict_decision_init(void);

#endif /* VERDICT_PG_DECISION_H */
