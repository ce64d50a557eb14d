/*
 * fact.h
 *		The type verdict_fact: a varlena that holds the canonical text of a fact
 *		or pattern in the database's encoding.
 */
#ifndef VERDICT_PG_FACT_H
#define VERDICT_PG_FACT_H

#include "verdict.h"

/* The core's fact of a datum, in UTF-8; everything in the current context. */
extern const verdict_fact *verdict_fact_from_datum(Datum datum);
extern Datum verdict_fact_to_datum(const verdict_fact *fact);

/*
 * The fact of a predicate and VARIADIC "any" arguments, from argument number
 * "first" of the call on (an explicit VARIADIC array is taken apart): identity,
 * text types, integers, boolean, verdict_variable's result, NULL = wildcard.
 * Raises 22023/42804 for values that no fact can hold.
 */
extern const verdict_fact *
verdict_fact_from_arguments(FunctionCallInfo fcinfo, const char *predicate, int first);

/*
 * What one SQL value that is not NULL becomes as an argument of a fact, by the
 * same rules; raises 42804 for a type that no fact can hold.
 */
extern void verdict_term_from_datum(verdict_term *term, Oid type, Datum datum);

/* One value of an answer as text in the database's encoding; ANY is NULL. */
extern char *verdict_value_to_cstring(const verdict_value *value);

#endif /* VERDICT_PG_FACT_H */
