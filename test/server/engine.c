/*
 * engine.c
 *		Opening the engine, and its reads.
 *
 * What a call allocates lies in the engine's pool, which every call leaves empty;
 * only the response is the caller's.
 */
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine_internal.h"
#include "engine_rows.h"
#include "text.h"

#define DEFAULT_QUERY_ROWS 100000
#define DEFAULT_LIST_FACTS 10000
#define DEFAULT_BATCH_CHANGES 10000

static bool
load_policy(engine *engine, engine_error *error)
{
	const char *text;

	if (!store_get_policy(engine->store, &engine->pool, &text, error))
		return false;
	engine->policy = policy_parse(text, strlen(text), error);
	pool_reset(&engine->pool);
	/* Its constants are there already; only numbering them asks for a write. */
	if (engine->policy == NULL || !store_begin(engine->store, error))
		return false;
	if (!policy_link(engine->policy, engine->store, error))
	{
		store_rollback(engine->store);
		return false;
	}
	return store_commit(engine->store, error);
}

engine *
engine_open(const engine_options *options, engine_error *error)
{
	engine *engine = memory_alloc(sizeof(*engine));

	memset(engine, 0, sizeof(*engine));
	engine->max_query_rows =
		options->max_query_rows > 0 ? options->max_query_rows : DEFAULT_QUERY_ROWS;
	engine->max_list_facts =
		options->max_list_facts > 0 ? options->max_list_facts : DEFAULT_LIST_FACTS;
	engine->max_batch_changes =
		options->max_batch_changes > 0 ? options->max_batch_changes : DEFAULT_BATCH_CHANGES;
	engine->store =
		store_open(options->path, options->copy_of != NULL ? options->copy_of->store : NULL, error);
	if (engine->store == NULL || !load_policy(engine, error))
	{
		engine_close(engine);
		return NULL;
	}
	engine->evaluator = evaluator_new(engine->store);
	return engine;
}

void
engine_close(engine *engine)
{
	if (engine == NULL)
		return;
	engine_release_all(engine);
	evaluator_free(engine->evaluator);
	policy_free(engine->policy);
	store_close(engine->store);
	pool_destroy(&engine->pool);
	pool_destroy(&engine->rows);
	free(engine);
}

void
engine_position(const engine *engine, uint64_t *generation, uint64_t *position)
{
	store_position(engine->store, generation, position);
}

bool
engine_instance(engine *engine, const char *fresh, char *name, size_t size, engine_error *error)
{
	return store_instance(engine->store, fresh, name, size, error);
}

bool
engine_set_generation(engine *engine, uint64_t generation, engine_error *error)
{
	return store_set_generation(engine->store, generation, error);
}

bool
engine_set_durable(engine *engine, bool durable, engine_error *error)
{
	return store_set_durable(engine->store, durable, error);
}

/* Ends a read: frees what the call allocated. */
static bool
finish(engine *engine, bool done)
{
	store_forget(engine->store);
	pool_reset(&engine->pool);
	return done;
}

/* Authorize. */

static bool
note_answer(void *context, const value_id *values)
{
	(void) values;
	*(bool *) context = true;
	return false;
}

bool
engine_authorize(engine *engine, const Verdict__V1__AuthorizeRequest *request,
				 Verdict__V1__AuthorizeResponse **response, engine_error *error)
{
	value_id goal[3];
	bool allowed = false;
	bool done;

	done =
		wire_identity(engine, request->actor, WIRE_PLACE(NULL, "actor"), false, &goal[0], error) &&
		wire_text(engine, request->action, WIRE_PLACE(NULL, "action"), false, &goal[1], error) &&
		wire_identity(engine, request->resource, WIRE_PLACE(NULL, "resource"), false, &goal[2],
					  error) &&
		evaluator_run(engine->evaluator, engine->policy, "allow", 3, goal, note_answer, &allowed,
					  error);
	if (done)
	{
		*response = memory_alloc(sizeof(**response));
		verdict__v1__authorize_response__init(*response);
		(*response)->allowed = allowed;
	}
	return finish(engine, done);
}

/* Query. */

typedef struct query
{
	engine *engine;
	wire_pattern pattern;
	row_set rows;
	bool may_be_any;   /* so that a row with an any value may yet come */
	int inexpressible; /* variable that stands for any of a type, or -1 */
	value_id inexpressible_type;
} query;

static bool
add_row(void *context, const value_id *fact)
{
	query *query = context;
	value_id row[STORE_MAX_ARGUMENTS];

	if (!wire_match(&query->pattern, fact, row))
		return true;
	for (int i = 0; i < query->pattern.variable_count; i++)
	{
		/* An unset value would say more than the policy allows. */
		if (value_is_any(row[i]) && row[i] != query->pattern.types[i])
		{
			query->inexpressible = i;
			query->inexpressible_type = row[i];
			return false;
		}
	}
	row_set_add(&query->rows, row);
	if (query->pattern.variable_count == 0)
		return false;
	return query->rows.any.count <= query->rows.limit &&
		   (query->may_be_any || query->rows.specific.count <= query->rows.limit);
}

static Verdict__V1__QueryResponse *
query_response(query *query, engine_error *error)
{
	Verdict__V1__QueryResponse *response = memory_alloc(sizeof(*response));
	pool *memory = &query->engine->rows;
	size_t width = (size_t) query->pattern.variable_count;
	size_t count = row_set_count(&query->rows);

	pool_reset(memory);
	verdict__v1__query_response__init(response);
	response->truncated = row_set_truncated(&query->rows);
	if (width > 0)
		response->variables = memory_alloc(width * sizeof(char *));
	for (size_t i = 0; i < width; i++)
		response->variables[response->n_variables++] = memory_copy(query->pattern.names[i]);
	if (count > 0)
		response->rows = pool_alloc(memory, count * sizeof(*response->rows));
	for (size_t i = 0; i < count; i++)
	{
		const value_id *values = row_set_row(&query->rows, i);
		Verdict__V1__Row *row = pool_alloc(memory, sizeof(*row));

		verdict__v1__row__init(row);
		response->rows[response->n_rows++] = row;
		if (width > 0)
			row->values = pool_alloc(memory, width * sizeof(*row->values));
		for (size_t j = 0; j < width; j++)
		{
			row->values[j] = wire_value_new(query->engine, values[j], memory, error);
			if (row->values[j] == NULL)
			{
				engine_query_drop_rows(response);
				verdict__v1__query_response__free_unpacked(response, NULL);
				return NULL;
			}
			row->n_values++;
		}
	}
	return response;
}

void
engine_query_drop_rows(Verdict__V1__QueryResponse *response)
{
	response->n_rows = 0;
	response->rows = NULL;
}

static bool
run_query(query *query, engine_error *error)
{
	engine *engine = query->engine;
	wire_pattern *pattern = &query->pattern;
	const policy_predicate *predicate =
		policy_find(engine->policy, pattern->predicate, pattern->count);

	query->may_be_any = predicate != NULL && predicate->any != 0;
	query->inexpressible = -1;
	if (pattern->impossible)
		return true;
	if (!evaluator_run(engine->evaluator, engine->policy, pattern->predicate, pattern->count,
					   pattern->goal, add_row, query, error))
		return false;
	if (query->inexpressible >= 0)
		return engine_fail(error, ENGINE_INVALID_ARGUMENT,
						   "pattern.args[%d]: the policy allows any %s here, which a row can only "
						   "say of a variable with that type: ask for ?%s:%s",
						   pattern->first[query->inexpressible],
						   store_type_name(engine->store, query->inexpressible_type),
						   pattern->names[query->inexpressible],
						   store_type_name(engine->store, query->inexpressible_type));
	return true;
}

bool
engine_query(engine *engine, const Verdict__V1__QueryRequest *request,
			 Verdict__V1__QueryResponse **response, engine_error *error)
{
	query query = {0};
	bool done;

	if (request->pattern == NULL)
		return engine_fail(error, ENGINE_INVALID_ARGUMENT, "pattern: is missing");
	query.engine = engine;
	done = wire_check_identifier(request->pattern->predicate, WIRE_PLACE(NULL, "pattern.predicate"),
								 error) &&
		   wire_check_allow(request->pattern->predicate, request->pattern->n_args,
							WIRE_PLACE(NULL, "pattern"), error) &&
		   wire_read_pattern(engine, request->pattern, &query.pattern, error);
	query.rows.pool = &engine->pool;
	query.rows.width = (size_t) query.pattern.variable_count;
	query.rows.limit = request->limit == 0 || request->limit > engine->max_query_rows
						   ? engine->max_query_rows
						   : request->limit;
	done = done && run_query(&query, error);
	if (done)
	{
		*response = query_response(&query, error);
		done = *response != NULL;
	}
	return finish(engine, done);
}

/* ListFacts. */

/*
 * A next is a version byte, the hash of the pattern it belongs to, the relation
 * of the last fact of the page and that fact's values, all numbers big-endian.
 */
#define NEXT_VERSION 1
#define NEXT_HEADER (1 + SHA256_DIGEST_LENGTH)

typedef struct listing
{
	engine *engine;
	wire_pattern pattern;
	bool everything; /* no arguments: every fact of the predicate */
	uint8_t hash[SHA256_DIGEST_LENGTH];
	size_t limit;
	Verdict__V1__ListFactsResponse *response;
	/* The last fact of the page. */
	const relation *last;
	value_id last_args[STORE_MAX_ARGUMENTS];
	bool more;
} listing;

static void
put_number(uint8_t *bytes, int64_t number)
{
	for (int i = 0; i < 8; i++)
		bytes[i] = (uint8_t) ((uint64_t) number >> (56 - 8 * i));
}

static int64_t
get_number(const uint8_t *bytes)
{
	uint64_t number = 0;

	for (int i = 0; i < 8; i++)
		number = number << 8 | bytes[i];
	return (int64_t) number;
}

static void
hash_pattern(listing *listing, const Verdict__V1__Pattern *pattern)
{
	static const Verdict__V1__Pattern none = VERDICT__V1__PATTERN__INIT;
	size_t size;
	uint8_t *packed;

	if (pattern == NULL)
		pattern = &none;
	size = verdict__v1__pattern__get_packed_size(pattern);
	packed = pool_alloc(&listing->engine->pool, size);
	verdict__v1__pattern__pack(pattern, packed);
	SHA256(packed, size, listing->hash);
}

static void
write_next(listing *listing)
{
	ProtobufCBinaryData *next = &listing->response->next;
	int arity = relation_arity(listing->last);
	uint8_t *at;

	next->len = NEXT_HEADER + 8 + 8 * (size_t) arity;
	next->data = memory_alloc(next->len);
	next->data[0] = NEXT_VERSION;
	memcpy(next->data + 1, listing->hash, sizeof(listing->hash));
	at = next->data + NEXT_HEADER;
	put_number(at, relation_number(listing->last));
	for (int i = 0; i < arity; i++)
		put_number(at + 8 + 8 * i, listing->last_args[i]);
}

/* The place a next stands for: its relation and the values of the last fact. */
static bool
read_next(const listing *listing, const ProtobufCBinaryData *next, relation **relation,
		  value_id *args, engine_error *error)
{
	const uint8_t *at = next->data + NEXT_HEADER;
	int64_t number;

	if (next->len < NEXT_HEADER + 8 || (next->len - NEXT_HEADER) % 8 != 0 ||
		next->data[0] != NEXT_VERSION)
		return engine_fail(error, ENGINE_INVALID_ARGUMENT,
						   "after: is not the next of an earlier answer");
	if (memcmp(next->data + 1, listing->hash, sizeof(listing->hash)) != 0)
		return engine_fail(error, ENGINE_INVALID_ARGUMENT, "after: belongs to another pattern");
	number = get_number(at);
	*relation = number < 1 ? NULL : store_next_relation(listing->engine->store, number - 1, NULL);
	if (*relation == NULL || relation_number(*relation) != number ||
		next->len != NEXT_HEADER + 8 + 8 * (size_t) relation_arity(*relation))
		return engine_fail(error, ENGINE_INVALID_ARGUMENT,
						   "after: is not the next of an earlier answer");
	for (int i = 0; i < relation_arity(*relation); i++)
		args[i] = get_number(at + 8 + 8 * i);
	return true;
}

static bool
add_fact(listing *listing, const relation *relation, const value_id *args, engine_error *error)
{
	Verdict__V1__ListFactsResponse *response = listing->response;
	Verdict__V1__Fact *fact = memory_alloc(sizeof(*fact));
	size_t arity = (size_t) relation_arity(relation);

	verdict__v1__fact__init(fact);
	fact->predicate = memory_copy(relation_predicate(relation));
	response->facts[response->n_facts++] = fact;
	if (arity > 0)
	{
		fact->args = memory_alloc(arity * sizeof(*fact->args));
		memcpy(listing->last_args, args, arity * sizeof(*args));
	}
	for (size_t i = 0; i < arity; i++)
	{
		fact->args[i] = wire_value_new(listing->engine, args[i], NULL, error);
		if (fact->args[i] == NULL)
			return false;
		fact->n_args++;
	}
	listing->last = relation;
	return true;
}

/* The facts of one relation after a place in it, as far as the page has room. */
static bool
list_relation(listing *listing, relation *relation, const value_id *after, engine_error *error)
{
	static const value_id open[STORE_MAX_ARGUMENTS]; /* all VALUE_ANY */
	value_id args[STORE_MAX_ARGUMENTS];
	value_id values[STORE_MAX_ARGUMENTS];
	store_scan scan;
	bool found;
	bool done;

	if (!store_scan_open(listing->engine->store, relation,
						 listing->everything ? open : listing->pattern.goal, after, &scan, error))
		return false;
	for (;;)
	{
		done = store_scan_next(listing->engine->store, &scan, args, &found, error);
		if (!done || !found)
			break;
		if (!listing->everything && !wire_match(&listing->pattern, args, values))
			continue;
		if (listing->response->n_facts == listing->limit)
		{
			listing->more = true;
			break;
		}
		done = add_fact(listing, relation, args, error);
		if (!done)
			break;
	}
	store_scan_close(&scan);
	return done;
}

static bool
run_listing(listing *listing, const char *predicate, const ProtobufCBinaryData *next,
			engine_error *error)
{
	value_id after[STORE_MAX_ARGUMENTS];
	relation *relation = NULL;

	if (next->len > 0)
	{
		if (!read_next(listing, next, &relation, after, error) ||
			!list_relation(listing, relation, after, error))
			return false;
	}
	if (!listing->everything)
	{
		/* Arguments are given: one relation. */
		if (next->len > 0 || listing->pattern.impossible)
			return true;
		relation = store_relation(listing->engine->store, predicate, listing->pattern.count, false);
		return relation == NULL || list_relation(listing, relation, NULL, error);
	}
	while (!listing->more)
	{
		relation = store_next_relation(listing->engine->store,
									   relation == NULL ? 0 : relation_number(relation),
									   predicate[0] == '\0' ? NULL : predicate);
		if (relation == NULL)
			break;
		if (!list_relation(listing, relation, NULL, error))
			return false;
	}
	return true;
}

bool
engine_list_facts(engine *engine, const Verdict__V1__ListFactsRequest *request,
				  Verdict__V1__ListFactsResponse **response, engine_error *error)
{
	listing listing = {0};
	const Verdict__V1__Pattern *pattern = request->pattern;
	const char *predicate = pattern == NULL ? "" : pattern->predicate;
	bool done = true;

	listing.engine = engine;
	listing.everything = pattern == NULL || pattern->n_args == 0;
	listing.limit = request->limit == 0 || request->limit > engine->max_list_facts
						? engine->max_list_facts
						: request->limit;
	if (predicate[0] != '\0' || !listing.everything)
		done = wire_check_identifier(predicate, WIRE_PLACE(NULL, "pattern.predicate"), error);
	if (done && !listing.everything)
		done = wire_check_allow(predicate, pattern->n_args, WIRE_PLACE(NULL, "pattern"), error) &&
			   wire_read_pattern(engine, pattern, &listing.pattern, error);
	if (done)
	{
		hash_pattern(&listing, pattern);
		listing.response = memory_alloc(sizeof(*listing.response));
		verdict__v1__list_facts_response__init(listing.response);
		listing.response->facts = memory_alloc(listing.limit * sizeof(Verdict__V1__Fact *));
		done = run_listing(&listing, predicate, &request->after, error);
		if (done && listing.more)
			write_next(&listing);
		if (done)
			*response = listing.response;
		else
			verdict__v1__list_facts_response__free_unpacked(listing.response, NULL);
	}
	return finish(engine, done);
}

/* GetPolicy. */

bool
engine_get_policy(engine *engine, const Verdict__V1__GetPolicyRequest *request,
				  Verdict__V1__GetPolicyResponse **response, engine_error *error)
{
	const char *text;
	bool done;

	(void) request;
	done = store_get_policy(engine->store, &engine->pool, &text, error);
	if (done)
	{
		*response = memory_alloc(sizeof(**response));
		verdict__v1__get_policy_response__init(*response);
		(*response)->policy = memory_copy(text);
	}
	return finish(engine, done);
}
