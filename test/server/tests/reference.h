/*
 * reference.h
 *		A naive bottom-up evaluation of a policy over a small domain, to compare
 *		the engine with.
 *
 * The domain holds every constant that policies and facts use, and for each type
 * and kind one more that they do not: it stands for all the rest, so "any value"
 * is seen as the whole domain.  A predicate is a table of truth values, indexed
 * by its arguments as digits, the first the lowest.
 */
#ifndef VERDICT_TEST_REFERENCE_H
#define VERDICT_TEST_REFERENCE_H

#include "policy.h"

typedef struct domain_value
{
	const char *text;		 /* as engine_helpers.h reads it */
	const char *policy_text; /* NULL: in no policy and no fact */
	const char *type;		 /* "" unless an identity */
	store_value value;
} domain_value;

#define DOMAIN 11
#define KNOWN 6 /* those that policies and facts use come first */
#define LARGEST (DOMAIN * DOMAIN * DOMAIN)

extern const domain_value domain[DOMAIN];

/* The predicates of every case; at most three arguments each. */
#define PREDICATES 9

typedef struct reference_predicate
{
	const char *name;
	int arity;
	bool rules; /* it may have some */
} reference_predicate;

extern const reference_predicate predicates[PREDICATES];

/* The facts that are stored, and those that follow from them. */
extern bool stored[PREDICATES][LARGEST];
extern bool truth[PREDICATES][LARGEST];

extern int table_size(int predicate);
extern void split_index(int index, int arity, int *args);
extern int join_index(int arity, const int *args);
extern bool has_type(int value, const char *type);

/* Fills truth from stored; at most four variables a rule. */
extern void reference_evaluate(const policy *policy);

#endif /* VERDICT_TEST_REFERENCE_H */
