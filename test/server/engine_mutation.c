/*
 * engine_mutation.c
 *		Mutations: applied once per idempotency key, each in one transaction with
 *		its position and the record of its key.
 *
 * Order of what is looked at: whether the key is held, whether it is known, and
 * only then the payload; so a retry is answered in the same way however the
 * store looks by now.  A mutation that fails leaves no record: its key is free.
 */
#include <inttypes.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine_internal.h"
#include "text.h"

/* A mutation's key, and the hash of its payload. */
typedef struct claim
{
	bool keyed;
	store_key key;
	uint8_t payload[STORE_HASH_SIZE];
} claim;

struct held_key
{
	claim claim;
	held_key *next;
};

static const struct
{
	const char *name;
	const ProtobufCMessageDescriptor *request;
	const ProtobufCMessageDescriptor *response;
} methods[] = {[ENGINE_INSERT_FACT] = {"verdict.v1.VerdictService/InsertFact",
									   &verdict__v1__insert_fact_request__descriptor,
									   &verdict__v1__insert_fact_response__descriptor},
			   [ENGINE_DELETE_FACT] = {"verdict.v1.VerdictService/DeleteFact",
									   &verdict__v1__delete_fact_request__descriptor,
									   &verdict__v1__delete_fact_response__descriptor},
			   [ENGINE_BATCH_FACTS] = {"verdict.v1.VerdictService/BatchFacts",
									   &verdict__v1__batch_facts_request__descriptor,
									   &verdict__v1__batch_facts_response__descriptor},
			   [ENGINE_SET_POLICY] = {"verdict.v1.VerdictService/SetPolicy",
									  &verdict__v1__set_policy_request__descriptor,
									  &verdict__v1__set_policy_response__descriptor}};

const ProtobufCMessageDescriptor *
engine_request_descriptor(engine_method method)
{
	return methods[method].request;
}

/* Keys. */

static void
make_claim(engine *engine, const engine_mutation *mutation, claim *claim)
{
	size_t size;
	uint8_t *packed;

	memset(claim, 0, sizeof(*claim));
	claim->keyed = mutation->key != NULL;
	if (!claim->keyed)
		return;
	memcpy(claim->key.caller, mutation->caller, STORE_HASH_SIZE);
	claim->key.method = methods[mutation->method].name;
	SHA256((const uint8_t *) mutation->key, strlen(mutation->key), claim->key.hash);
	/* The message packed anew is the same whichever wire format brought it. */
	size = protobuf_c_message_get_packed_size(mutation->request);
	packed = pool_alloc(&engine->pool, size);
	protobuf_c_message_pack(mutation->request, packed);
	SHA256(packed, size, claim->payload);
}

static bool
same_key(const store_key *a, const store_key *b)
{
	return memcmp(a->caller, b->caller, STORE_HASH_SIZE) == 0 &&
		   strcmp(a->method, b->method) == 0 && memcmp(a->hash, b->hash, STORE_HASH_SIZE) == 0;
}

static bool
other_payload(engine_error *error)
{
	return engine_fail(error, ENGINE_FAILED_PRECONDITION,
					   "the idempotency key was used with another payload");
}

static bool
check_held(const engine *engine, const claim *claim, engine_error *error)
{
	for (const held_key *held = engine->held; held != NULL; held = held->next)
	{
		if (!same_key(&held->claim.key, &claim->key))
			continue;
		if (memcmp(held->claim.payload, claim->payload, STORE_HASH_SIZE) != 0)
			return other_payload(error);
		return engine_fail(error, ENGINE_ABORTED,
						   "a mutation with this idempotency key is still running");
	}
	return true;
}

static bool
check_key(engine *engine, const claim *claim, bool *found, store_record *record,
		  engine_error *error)
{
	*found = false;
	if (!claim->keyed)
		return true;
	if (!check_held(engine, claim, error) ||
		!store_find_record(engine->store, &claim->key, &engine->pool, found, record, error))
		return false;
	if (*found && memcmp(record->payload, claim->payload, STORE_HASH_SIZE) != 0)
		return other_payload(error);
	return true;
}

bool
engine_hold(engine *engine, const engine_mutation *mutation, engine_error *error)
{
	claim claim;
	store_record record;
	bool found;
	bool done;

	make_claim(engine, mutation, &claim);
	done = check_key(engine, &claim, &found, &record, error);
	if (done && claim.keyed && !found)
	{
		held_key *held = memory_alloc(sizeof(*held));

		held->claim = claim;
		held->next = engine->held;
		engine->held = held;
	}
	pool_reset(&engine->pool);
	return done;
}

void
engine_release(engine *engine, const engine_mutation *mutation)
{
	claim claim;

	make_claim(engine, mutation, &claim);
	for (held_key **link = &engine->held; *link != NULL; link = &(*link)->next)
	{
		held_key *held = *link;

		if (claim.keyed && same_key(&held->claim.key, &claim.key))
		{
			*link = held->next;
			free(held);
			break;
		}
	}
	pool_reset(&engine->pool);
}

void
engine_release_all(engine *engine)
{
	while (engine->held != NULL)
	{
		held_key *held = engine->held;

		engine->held = held->next;
		free(held);
	}
}

/* The four methods, inside the transaction. */

static bool
change_fact(engine *engine, const Verdict__V1__Fact *fact, bool insert, const wire_place *place,
			bool *changed, engine_error *error)
{
	wire_fact read;
	bool done;

	*changed = false;
	done = wire_read_fact(engine, fact, place, insert, &read, error);
	if (done && read.relation != NULL)
		done = insert ? store_insert_fact(engine->store, read.relation, read.args, changed, error)
					  : store_delete_fact(engine->store, read.relation, read.args, changed, error);
	store_forget(engine->store);
	return done;
}

static bool
apply_batch(engine *engine, const Verdict__V1__BatchFactsRequest *request,
			Verdict__V1__BatchFactsResponse *response, engine_error *error)
{
	if (request->n_changes > engine->max_batch_changes)
		return engine_fail(error, ENGINE_INVALID_ARGUMENT,
						   "changes: %zu changes, this instance takes %" PRIu32 " at a time",
						   request->n_changes, engine->max_batch_changes);
	for (size_t i = 0; i < request->n_changes; i++)
	{
		const Verdict__V1__FactChange *change = request->changes[i];
		wire_place place = {NULL, "changes", (int64_t) i};
		bool changed;

		switch (change->change_case)
		{
			case VERDICT__V1__FACT_CHANGE__CHANGE_INSERT:
				if (!change_fact(engine, change->insert, true, WIRE_PLACE(&place, "insert"),
								 &changed, error))
					return false;
				break;
			case VERDICT__V1__FACT_CHANGE__CHANGE_DELETE:
				if (!change_fact(engine, change->delete_, false, WIRE_PLACE(&place, "delete"),
								 &changed, error))
					return false;
				break;
			default:
				return engine_fail(error, ENGINE_INVALID_ARGUMENT,
								   "changes[%zu]: neither insert nor delete is set", i);
		}
		response->changed += changed;
	}
	return true;
}

static bool
apply_policy(engine *engine, const Verdict__V1__SetPolicyRequest *request, policy **fresh,
			 engine_error *error)
{
	*fresh = policy_parse(request->policy, strlen(request->policy), error);
	return *fresh != NULL && policy_link(*fresh, engine->store, error) &&
		   store_set_policy(engine->store, request->policy, error);
}

/* Runs the mutation; a policy that it sets is put into *fresh. */
static bool
apply(engine *engine, const engine_mutation *mutation, ProtobufCMessage *response, policy **fresh,
	  engine_error *error)
{
	bool changed;
	bool done;

	switch (mutation->method)
	{
		case ENGINE_INSERT_FACT:
			done = change_fact(engine,
							   ((const Verdict__V1__InsertFactRequest *) mutation->request)->fact,
							   true, WIRE_PLACE(NULL, "fact"), &changed, error);
			if (done)
				((Verdict__V1__InsertFactResponse *) response)->changed = changed;
			return done;
		case ENGINE_DELETE_FACT:
			done = change_fact(engine,
							   ((const Verdict__V1__DeleteFactRequest *) mutation->request)->fact,
							   false, WIRE_PLACE(NULL, "fact"), &changed, error);
			if (done)
				((Verdict__V1__DeleteFactResponse *) response)->changed = changed;
			return done;
		case ENGINE_BATCH_FACTS:
			return apply_batch(engine, (const Verdict__V1__BatchFactsRequest *) mutation->request,
							   (Verdict__V1__BatchFactsResponse *) response, error);
		case ENGINE_SET_POLICY:
			return apply_policy(engine, (const Verdict__V1__SetPolicyRequest *) mutation->request,
								fresh, error);
	}
	return engine_fail(error, ENGINE_INTERNAL, "no such mutation");
}

static bool
record_answer(engine *engine, const claim *claim, const ProtobufCMessage *response,
			  uint64_t position, engine_error *error)
{
	store_record record;

	if (!claim->keyed)
		return true;
	memcpy(record.payload, claim->payload, STORE_HASH_SIZE);
	record.answer_size = protobuf_c_message_get_packed_size(response);
	record.answer = pool_alloc(&engine->pool, record.answer_size);
	protobuf_c_message_pack(response, record.answer);
	record.position = position;
	return store_add_record(engine->store, &claim->key, &record, error);
}

static bool
run_mutation(engine *engine, const engine_mutation *mutation, const claim *claim,
			 engine_answer *answer, engine_error *error)
{
	const ProtobufCMessageDescriptor *descriptor = methods[mutation->method].response;
	ProtobufCMessage *response = memory_alloc(descriptor->sizeof_message);
	policy *fresh = NULL;

	protobuf_c_message_init(descriptor, response);
	if (!store_begin(engine->store, error))
	{
		free(response);
		return false;
	}
	if (!apply(engine, mutation, response, &fresh, error) ||
		!store_take_position(engine->store, &answer->position, error) ||
		!record_answer(engine, claim, response, answer->position, error) ||
		!store_commit(engine->store, error))
	{
		store_rollback(engine->store);
		policy_free(fresh);
		free(response);
		return false;
	}
	if (fresh != NULL)
	{
		policy_free(engine->policy);
		engine->policy = fresh;
	}
	answer->response = response;
	return true;
}

bool
engine_mutate(engine *engine, const engine_mutation *mutation, engine_answer *answer,
			  engine_error *error)
{
	claim claim;
	store_record record;
	bool done;

	memset(answer, 0, sizeof(*answer));
	if (mutation->request->descriptor != methods[mutation->method].request)
		return engine_fail(error, ENGINE_INTERNAL, "the request is not one of its method");
	make_claim(engine, mutation, &claim);
	done = check_key(engine, &claim, &answer->replayed, &record, error);
	if (done && answer->replayed)
	{
		answer->position = record.position;
		answer->response = protobuf_c_message_unpack(methods[mutation->method].response, NULL,
													 record.answer_size, record.answer);
		if (answer->response == NULL)
			done = engine_fail(error, ENGINE_INTERNAL,
							   "the answer stored with the idempotency key is damaged");
	}
	else if (done)
		done = run_mutation(engine, mutation, &claim, answer, error);
	pool_reset(&engine->pool);
	return done;
}
