/*
 * value.h
 *		Identities, values, facts and patterns in memory, and their text form.
 *
 * No wire format here.  All strings are UTF-8 without NUL, terminated by NUL,
 * and belong to whoever made the struct (most often an arena).
 *
 * Text form, as users write it in SQL:
 *
 *	identity	User:alice					split at the first colon
 *	fact		is_owner(User:alice, Document:handbook)
 *	argument	Type:id | Type:"any id" | "a string" | -42 | true | false
 *				| ?name | ?name:Type | _
 *
 * A fact that holds a variable or a wildcard is a pattern.
 */
#ifndef VERDICT_VALUE_H
#define VERDICT_VALUE_H

#include "arena.h"
#include "buffer.h"
#include "status.h"
#include "text.h"

typedef struct verdict_identity
{
	const char *type; /* identifier, not empty */
	const char *id;	  /* not empty */
} verdict_identity;

typedef enum verdict_value_kind
{
	VERDICT_VALUE_ANY, /* in an answer: every value is allowed here */
	VERDICT_VALUE_IDENTITY,
	VERDICT_VALUE_STRING,
	VERDICT_VALUE_INTEGER,
	VERDICT_VALUE_BOOLEAN
} verdict_value_kind;

typedef struct verdict_value
{
	verdict_value_kind kind;
	union
	{
		verdict_identity identity;
		const char *string;
		int64_t integer;
		bool boolean;
	} as;
} verdict_value;

typedef struct verdict_variable
{
	const char *name; /* identifier */
	const char *type; /* "" = values of every kind */
} verdict_variable;

typedef enum verdict_term_kind
{
	VERDICT_TERM_WILDCARD,
	VERDICT_TERM_VALUE,
	VERDICT_TERM_VARIABLE
} verdict_term_kind;

typedef struct verdict_term
{
	verdict_term_kind kind;
	union
	{
		verdict_value value; /* kind is never VERDICT_VALUE_ANY */
		verdict_variable variable;
	} as;
} verdict_term;

typedef struct verdict_fact
{
	const char *predicate; /* identifier */
	size_t count;
	verdict_term *args;
} verdict_fact;

typedef struct verdict_change
{
	bool insert;	   /* false = delete */
	verdict_fact fact; /* ground */
} verdict_change;

/* The largest number of arguments of a fact that this client sends. */
#define VERDICT_MAX_ARGUMENTS 64

/* True when every argument is a value. */
extern bool verdict_fact_is_ground(const verdict_fact *fact);
extern bool verdict_value_equal(const verdict_value *left, const verdict_value *right);

/*
 * Parses the text of an identity ("User:alice": type, colon, the rest is the id
 * as it stands) into the arena.  False with VERDICT_INVALID_ARGUMENT and a
 * message for people when it is malformed; the message says where ("at
 * character 5") and never repeats more than a few words of the text.
 */
extern bool verdict_identity_parse(verdict_arena *arena, const char *text, size_t size,
								   verdict_identity *identity, verdict_status *status);
/* The same for a fact or pattern.  White space between tokens is free. */
extern bool verdict_fact_parse(verdict_arena *arena, const char *text, size_t size,
							   verdict_fact *fact, verdict_status *status);

/* Appends the one canonical text; what it writes parses to an equal value. */
extern bool verdict_identity_print(verdict_buffer *buffer, const verdict_identity *identity);
extern bool verdict_value_print(verdict_buffer *buffer, const verdict_value *value);
extern bool verdict_fact_print(verdict_buffer *buffer, const verdict_fact *fact);

#endif /* VERDICT_VALUE_H */
