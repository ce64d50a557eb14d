/*
 * engine.h
 *		What the HTTP side of verdict-dev knows of the engine: the store of facts,
 *		policy and idempotency records, and the evaluation of the policy.
 *
 * The engine is used from one thread and never calls back.  Requests and
 * responses are the structs that protobuf-c generates from verdict.proto; a
 * request stays the caller's and is only read during the call.  A response is
 * new, made with malloc in protobuf-c's own way: free it with
 * protobuf_c_message_free_unpacked((ProtobufCMessage *) response, NULL).
 *
 * A function that returns false has filled the error, changed nothing and made
 * no response.  The codes are Connect's, with Connect's numbers.
 *
 * Checked here: UTF-8 of every text, required fields, identifiers, the number
 * of arguments, unset values.  Not visible here, so to be refused by the codecs:
 * a NUL byte inside a string, which protobuf-c hands on as the end of it.
 */
#ifndef VERDICT_SERVER_ENGINE_H
#define VERDICT_SERVER_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "verdict.pb-c.h"

typedef struct engine engine;

typedef enum engine_code
{
	ENGINE_OK = 0,
	ENGINE_INVALID_ARGUMENT = 3,
	ENGINE_RESOURCE_EXHAUSTED = 8, /* memory, or the largest evaluation allowed */
	ENGINE_FAILED_PRECONDITION = 9,
	ENGINE_ABORTED = 10,
	ENGINE_INTERNAL = 13 /* SQLite failed: disk full, damaged file, ... */
} engine_code;

typedef struct engine_error
{
	engine_code code;
	char message[512]; /* UTF-8, no control characters */
} engine_error;

typedef struct engine_options
{
	const char *path; /* of the SQLite file; made when it is absent */
	/* The caps of the wire contract; 0 = its default. */
	uint32_t max_query_rows;	/* 100,000 */
	uint32_t max_list_facts;	/* 10,000 */
	uint32_t max_batch_changes; /* 10,000 */
	/* Not NULL: what the file held gives way to what that engine holds. */
	engine *copy_of;
} engine_options;

/*
 * Opens (or makes) the store and loads its policy.  NULL with the error filled
 * when the file cannot be opened, belongs to another process, or is not a store
 * of this program.
 */
extern engine *engine_open(const engine_options *options, engine_error *error);
/* NULL is allowed. */
extern void engine_close(engine *engine);

/*
 * The place in history that answers are served at: the generation (from 1) and
 * the number of mutations applied.  A standalone instance sends neither.
 */
extern void engine_position(const engine *engine, uint64_t *generation, uint64_t *position);

/* For an engine of several: see the store's functions of the same names. */
extern bool
engine_instance(engine *engine, const char *fresh, char *name, size_t size, engine_error *error);
extern bool engine_set_generation(engine *engine, uint64_t generation, engine_error *error);
extern bool engine_set_durable(engine *engine, bool durable, engine_error *error);

/* Reads.  They see every mutation acknowledged before. */

extern bool engine_authorize(engine *engine, const Verdict__V1__AuthorizeRequest *request,
							 Verdict__V1__AuthorizeResponse **response, engine_error *error);
/*
 * Rows are a set; rows that hold an any value (a Value whose kind is not set)
 * come first.  limit 0, or one above the cap, means the cap.
 */
extern bool engine_query(engine *engine, const Verdict__V1__QueryRequest *request,
						 Verdict__V1__QueryResponse **response, engine_error *error);
/*
 * There may be very many rows, so they are not allocated one by one: they lie with
 * the engine until its next Query.  To be called before the response is freed.
 */
extern void engine_query_drop_rows(Verdict__V1__QueryResponse *response);
/*
 * Stored facts only, in a fixed order.  A pattern that is missing lists
 * everything.  after is empty or the next of an earlier answer to the same
 * pattern, else invalid_argument.
 */
extern bool engine_list_facts(engine *engine, const Verdict__V1__ListFactsRequest *request,
							  Verdict__V1__ListFactsResponse **response, engine_error *error);
extern bool engine_get_policy(engine *engine, const Verdict__V1__GetPolicyRequest *request,
							  Verdict__V1__GetPolicyResponse **response, engine_error *error);

/* Mutations. */

typedef enum engine_method
{
	ENGINE_INSERT_FACT,
	ENGINE_DELETE_FACT,
	ENGINE_BATCH_FACTS,
	ENGINE_SET_POLICY
} engine_method;

/* The descriptor of the request struct of a method. */
extern const ProtobufCMessageDescriptor *engine_request_descriptor(engine_method method);

#define ENGINE_CALLER_SIZE 32

typedef struct engine_mutation
{
	engine_method method;
	/* The request struct of that method. */
	const ProtobufCMessage *request;
	/* Fingerprint of the API key (SHA-256); all zero when there is no key. */
	uint8_t caller[ENGINE_CALLER_SIZE];
	/* The Idempotency-Key header, already checked for form; NULL when absent. */
	const char *key;
} engine_mutation;

typedef struct engine_answer
{
	ProtobufCMessage *response; /* the response struct of the method */
	uint64_t position;			/* that this mutation took when it was applied */
	bool replayed;				/* applied earlier under the same key */
} engine_answer;

/*
 * Applies a mutation; when it returns true the effect and the record of its key
 * are durable, in one transaction.  Key identity and outcomes as in the wire
 * contract, "What an instance does": the same payload is answered again, another
 * one is failed_precondition, one that is held (see below) is aborted.  Payloads
 * are compared as messages, not as bytes of one wire format.
 */
extern bool engine_mutate(engine *engine, const engine_mutation *mutation, engine_answer *answer,
						  engine_error *error);

/*
 * engine_mutate() runs to its end, so "still running" exists only for a mutation
 * which the HTTP side holds back before running it (a fault ordered by a test).
 * engine_hold() marks its key as running from now on; it fails exactly as
 * engine_mutate() would when the key is held already or known with another
 * payload, and does nothing when there is no key, or the key is known with the
 * same payload.  engine_release() takes the mark away; call it just before the
 * engine_mutate() of that mutation, or when the mutation is dropped.  Only a
 * mutation whose engine_hold() returned true may be released.
 */
extern bool engine_hold(engine *engine, const engine_mutation *mutation, engine_error *error);
extern void engine_release(engine *engine, const engine_mutation *mutation);
/* Takes every mark away: whoever holds one must not release it any more. */
extern void engine_release_all(engine *engine);

#endif /* VERDICT_SERVER_ENGINE_H */
