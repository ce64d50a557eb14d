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

/* How a SQL type becomes an argument of a fact; decided once. */
typedef struct verdict_argument_type
{
	int kind;		 /* fact_build.c's */
	FmgrInfo output; /* of a type that goes by its text */
} verdict_argument_type;

/*
 * Decides for a type, by the same rules; what it keeps is allocated in "context".
 * False for a type that no fact can hold.
 */
extern bool verdict_argument_type_init(verdict_argument_type *type, Oid oid, MemoryContext context);

/* What a value of the type that is not NULL becomes, in the current context. */
extern void verdict_term_from_datum(verdict_term *term, verdict_argument_type *type, Datum datum);

/* One value of an answer as text in the database's encoding; ANY is NULL. */
extern char *verdict_value_to_cstring(const verdict_value *value);

#endif /* VERDICT_PG_FACT_H */
