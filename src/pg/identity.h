/*
 * identity.h
 *		The type verdict_identity: a varlena that holds "Type:id" in the
 *		database's encoding.
 */
#ifndef VERDICT_PG_IDENTITY_H
#define VERDICT_PG_IDENTITY_H

#include "verdict.h"

/*
 * The core's identity of a datum, in UTF-8, in the current memory context.
 */
extern verdict_identity verdict_identity_from_datum(Datum datum);
extern Datum verdict_identity_to_datum(const verdict_identity *identity);

/*
 * Raises what the core refused of a text that a user wrote for a value of "type"
 * ("verdict_identity"): 22P02, or what exhausted memory or size is.
 */
extern void
verdict_raise_bad_input(const verdict_status *status, const char *type) pg_attribute_noreturn();

/*
 * Raises 22023 unless the text is an identifier; "what" names it ("identity
 * type", "predicate").
 */
extern void verdict_require_identifier(const char *text, size_t size, const char *what);

/* I/O functions; a type whose output is this one is verdict_identity. */
extern Datum verdict_sql_identity_in(PG_FUNCTION_ARGS);
extern Datum verdict_sql_identity_out(PG_FUNCTION_ARGS);

#endif /* VERDICT_PG_IDENTITY_H */
