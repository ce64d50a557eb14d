/*
 * decision_internal.h
 *		What decision.c (what is known, and how long) and decision_ask.c (how it
 *		gets known) share.
 */
#ifndef VERDICT_PG_DECISION_INTERNAL_H
#define VERDICT_PG_DECISION_INTERNAL_H

#include "decision.h"
#include "decision_list.h"

/* What is known of the answers to one question at one instance. */
struct verdict_decision_set
{
	/* Gives its lists back with the scope's memory. */
	MemoryContextCallback end;

	/* The question; its texts belong to the scope. */
	verdict_client *client;
	verdict_session *session;
	verdict_consistency consistency; /* never DEFAULT */
	verdict_question question;
	uint32 hash;

	/* The same as the core takes it, in UTF-8. */
	verdict_identity actor;
	const char *action;
	const char *type;

	/* Answers. */
	verdict_list *list;		   /* all that is allowed, or NULL */
	verdict_list *making;	   /* one that is being filled, or NULL */
	verdict_decision_map *map; /* without a list: of single resources */
	bool all;				   /* without a list: every resource of the type is allowed */
	bool unsettled;			   /* an answer is being taken in */
	uint64 forgettings;		   /* as they were when this was learned */
	uint64 observed;		   /* session->changes, likewise */
	uint64 outside;			   /* changes of it that no decision brought, likewise */
	uint64 failed_in;		   /* statement in which a check got no answer; 0 = none */
	uint64 list_statement;	   /* the last statement that had a list of it ... */
	uint32 lists;			   /* ... and how many */

	/* How the rest is to be asked for. */
	bool unlistable; /* by single checks only */
	double asked;	 /* single checks made */
	double allowed;	 /* of them, those answered with yes */
	double rows;	 /* of the next list, as far as is known */
	bool whole;		 /* "rows" is the length of the last one, else a try */
};

/* How much the decisions of one set, and all of a scope, may take, in bytes. */
#define VERDICT_DECISION_MEMORY ((Size) 64 * 1024 * 1024)

static inline bool
verdict_piece_equal(verdict_piece left, verdict_piece right)
{
	return left.size == right.size && memcmp(left.bytes, right.bytes, left.size) == 0;
}

static inline bool
verdict_question_equal(const verdict_question *left, const verdict_question *right)
{
	return verdict_piece_equal(left->actor, right->actor) &&
		   verdict_piece_equal(left->action, right->action) &&
		   verdict_piece_equal(left->type, right->type);
}

/* A copy with a terminator. */
extern verdict_piece verdict_piece_copy(MemoryContext context, verdict_piece piece);

/* Makes it know nothing. */
extern void verdict_set_forget(verdict_decision_set *set);
/*
 * To be called after each answer for the set: what was known before the session
 * observed something newer is forgotten.
 */
extern void verdict_set_observe(verdict_decision_set *set);
/* Whether there is room for a list beside all that is remembered with the set. */
extern bool verdict_set_has_room(verdict_decision_set *set);
extern verdict_known verdict_set_find(verdict_decision_set *set, const verdict_id *id);
/* The statement that is running; 0 for none. */
extern uint64 verdict_current_statement(void);

/* Sets the last group of a new set, by the list of last time. */
extern void verdict_plan_list(verdict_decision_set *set);
/*
 * Answers from what the set knows, and asks for the rest.  False after a warning when verdict.on_failure = deny made "no" of a
 * failure.
 */
extern bool verdict_ask(verdict_decision_set *set, verdict_read *read, const verdict_id *ids,
						size_t count, bool *answers);

/* What verdict_decide_ahead() does, once the set is found. */
extern size_t verdict_ask_ahead(verdict_decision_set *set, verdict_read *read,
								const verdict_id *ids, size_t count, bool *failed);

#endif /* VERDICT_PG_DECISION_INTERNAL_H */
