/*
 * decision_list.h
 *		Whole lists of what is allowed, kept from one statement for the next.
 *
 * A list says what the instance allowed at one revision, and a revision stands for
 * one state of facts and policy: every mutation takes a position, also one that
 * changes nothing, and a history that forks gets another generation (the wire
 * contract, "Revisions").  So a list of an earlier statement is right again as soon
 * as an answer of the present one was served at the list's own revision; before
 * that it says nothing.  Who has no such answer asks one single check.  A
 * standalone instance names no revision, and nothing of it is kept.
 */
#ifndef VERDICT_PG_DECISION_LIST_H
#define VERDICT_PG_DECISION_LIST_H

#include "decision.h"

typedef struct verdict_list verdict_list;

/*
 * An empty list, with one reference that the caller has to release, also after an
 * error.  It belongs to no memory context of the caller.
 */
extern verdict_list *verdict_list_make(void);
/* Gives up a reference.  Never raises. */
extern void verdict_list_release(verdict_list *list);

/* Where the ids go while the list is made. */
extern verdict_decision_map *verdict_list_map(verdict_list *list);
/* Says that every resource of the type is allowed. */
extern void verdict_list_set_all(verdict_list *list);
/* What a list that came whole says; never NOT_KNOWN, never allocates. */
extern verdict_known verdict_list_find(verdict_list *list, const verdict_id *id);

/*
 * Keeps the set's list, which came whole with the latest answer that its session got,
 * in place of the one kept for the same question; nothing happens when that answer
 * had no revision, or there is no room.
 */
extern void verdict_list_keep(const verdict_decision_set *set);
/* Whether a list is kept for the set's question; it may be outdated. */
extern bool verdict_list_is_kept(const verdict_decision_set *set);
/*
 * The list kept for the set's question, with a reference for the caller, when it is
 * of the revision at which the session's latest answer was served, which must have
 * been given to the statement that is running; else NULL.
 */
extern verdict_list *verdict_list_take(const verdict_decision_set *set);

/* Keeps nothing of a client any more, which is about to go.  Never raises. */
extern void verdict_lists_drop(const verdict_client *client);

/* Bytes that all lists take. */
extern Size verdict_lists_size(void);

#endif /* VERDICT_PG_DECISION_LIST_H */
