/*
 * engine_internal.h
 *		Between the files of the engine only.
 */
#ifndef VERDICT_SERVER_ENGINE_INTERNAL_H
#define VERDICT_SERVER_ENGINE_INTERNAL_H

#include "engine.h"
#include "policy.h"
#include "store.h"

/* A keyed mutation that engine_hold() marked as running. */
typedef struct held_key held_key;

struct engine
{
	store *store;
	policy *policy; /* the one in force; never NULL when open */
	evaluator *evaluator;
	pool pool; /* for one call; emptied by it */
	pool rows; /* of the last answer to Query */
	held_key *held;
	uint32_t max_query_rows;
	uint32_t max_list_facts;
	uint32_t max_batch_changes;
};

/*
 * What is looked at, as the last step of a path such as "changes[1].insert".
 * It becomes text only when there is something to complain about: a batch has
 * thousands of places and most of the time no complaint.
 */
typedef struct wire_place
{
	const struct wire_place *of; /* NULL for the first step */
	const char *name;
	int64_t index; /* -1 = none */
} wire_place;

/* A place that lasts as long as the block it is named in. */
#define WIRE_PLACE(of, name) (&(const wire_place){(of), (name), -1})

/* Fails with invalid_argument: the path, a colon and the message. */
extern bool wire_fail(engine_error *error, const wire_place *place, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* From the wire to numbers of the store.  add as in store_find_value(). */

extern bool wire_identity(engine *engine, const Verdict__V1__Identity *identity,
						  const wire_place *place, bool add, value_id *id, engine_error *error);
extern bool wire_text(engine *engine, const char *text, const wire_place *place, bool add,
					  value_id *id, engine_error *error);

typedef struct wire_fact
{
	relation *relation; /* NULL when not added and the store has none */
	value_id args[STORE_MAX_ARGUMENTS];
} wire_fact;

extern bool wire_read_fact(engine *engine, const Verdict__V1__Fact *fact, const wire_place *place,
						   bool add, wire_fact *result, engine_error *error);

/* A pattern, with its variables in the order of their first use. */
typedef struct wire_pattern
{
	const char *predicate;
	int count;
	value_id goal[STORE_MAX_ARGUMENTS]; /* VALUE_ANY where it is open */
	int variable[STORE_MAX_ARGUMENTS];	/* by argument, -1 = none */
	int variable_count;
	const char *names[STORE_MAX_ARGUMENTS]; /* by variable; the request's */
	value_id types[STORE_MAX_ARGUMENTS];	/* by variable: any, or any of a type */
	int first[STORE_MAX_ARGUMENTS];			/* by variable: its first argument */
	bool impossible;						/* a variable has two types: nothing matches */
} wire_pattern;

/* The arguments only; predicate and their number are the caller's to check. */
extern bool wire_read_pattern(engine *engine, const Verdict__V1__Pattern *pattern,
							  wire_pattern *result, engine_error *error);
/*
 * The values of the variables in a fact that agrees with the goal, one each;
 * false when types or repeated variables do not agree.
 */
extern bool wire_match(const wire_pattern *pattern, const value_id *fact, value_id *values);

/*
 * Back to the wire: a Value, its kind not set for an any value.  It is made with
 * malloc; with "memory" all of it lies there, or with the store, instead.  NULL with
 * the error filled when the store failed.
 */
extern Verdict__V1__Value *
wire_value_new(engine *engine, value_id id, pool *memory, engine_error *error);

/* Checks of names, with the place of what is wrong. */
extern bool wire_check_identifier(const char *text, const wire_place *place, engine_error *error);
/* Fails unless the number of arguments is allow's, or the predicate another. */
extern bool
wire_check_allow(const char *predicate, size_t count, const wire_place *place, engine_error *error);

#endif /* VERDICT_SERVER_ENGINE_INTERNAL_H */
