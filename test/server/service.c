/*
 * service.c
 *		Header rules, credentials and dispatch.
 *
 * The rules of the headers are those of the wire contract ("Transport" and
 * "Settled details"): a missing one is tolerated, a malformed one is
 * invalid_argument.  Keys are compared in constant time, and only their
 * fingerprints go to the engine.
 */
#include "service.h"

#include "idempotency.h"
#include "revision.h"
#include "session.h"
#include "timer.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A decoded request may need this much; the body itself is bounded before. */
#define REQUEST_MEMORY ((size_t) 512 * 1024 * 1024)
#define ANSWER_BYTES ((size_t) 1024 * 1024 * 1024 - 1)
/* Memory above this is not kept for the next request. */
#define KEEP_BYTES (64 * 1024)

typedef struct api_key
{
	char *text;
	size_t size;
	uint8_t fingerprint[ENGINE_CALLER_SIZE];
} api_key;

struct service
{
	engine *engine; /* or a cluster */
	cluster *cluster;
	api_key *keys;
	size_t key_count;
	uint64_t executions[SERVICE_METHOD_COUNT];
};

const service_method service_methods[SERVICE_METHOD_COUNT] = {
	{"Authorize", 0, false, 0, &verdict__v1__authorize_request__descriptor},
	{"Query", 1, false, 0, &verdict__v1__query_request__descriptor},
	{"ListFacts", 2, false, 0, &verdict__v1__list_facts_request__descriptor},
	{"GetPolicy", 3, false, 0, &verdict__v1__get_policy_request__descriptor},
	{"InsertFact", 4, true, ENGINE_INSERT_FACT, &verdict__v1__insert_fact_request__descriptor},
	{"DeleteFact", 5, true, ENGINE_DELETE_FACT, &verdict__v1__delete_fact_request__descriptor},
	{"BatchFacts", 6, true, ENGINE_BATCH_FACTS, &verdict__v1__batch_facts_request__descriptor},
	{"SetPolicy", 7, true, ENGINE_SET_POLICY, &verdict__v1__set_policy_request__descriptor},
};

const service_method *
service_method_by_name(const char *name, size_t size)
{
	for (int i = 0; i < SERVICE_METHOD_COUNT; i++)
		if (strlen(service_methods[i].name) == size &&
			memcmp(service_methods[i].name, name, size) == 0)
			return &service_methods[i];
	return NULL;
}

static verdict_host the_host;

static void
init_host(void)
{
	verdict_host_init_posix(&the_host);
}

const verdict_host *
service_host(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, init_host);
	return &the_host;
}

service *
service_create(const service_options *options)
{
	service *service = calloc(1, sizeof(*service));

	if (service == NULL)
		return NULL;
	service->engine = options->engine;
	service->cluster = options->cluster;
	service->keys = calloc(options->api_key_count + 1, sizeof(*service->keys));
	if (service->keys == NULL)
	{
		free(service);
		return NULL;
	}
	for (size_t i = 0; i < options->api_key_count; i++)
	{
		api_key *key = &service->keys[i];

		key->text = strdup(options->api_keys[i]);
		if (key->text == NULL)
		{
			service_destroy(service);
			return NULL;
		}
		service->key_count++;
		key->size = strlen(key->text);
		SHA256((const unsigned char *) key->text, key->size, key->fingerprint);
	}
	return service;
}

void
service_destroy(service *service)
{
	if (service == NULL)
		return;
	for (size_t i = 0; i < service->key_count; i++)
	{
		OPENSSL_cleanse(service->keys[i].text, service->keys[i].size);
		free(service->keys[i].text);
	}
	free(service->keys);
	free(service);
}

uint64_t
service_executions(service *service, const service_method *method)
{
	return __atomic_load_n(&service->executions[method->index], __ATOMIC_RELAXED);
}

void
service_call_init(service_call *call)
{
	memset(call, 0, sizeof(*call));
	verdict_buffer_init(&call->answer, service_host(), ANSWER_BYTES);
	verdict_arena_init(&call->arena, service_host(), REQUEST_MEMORY);
	call->http_status = 200;
}

void
service_call_reset(service_call *call)
{
	call->method = NULL;
	call->format = WIRE_NONE;
	memset(&call->headers, 0, sizeof(call->headers));
	call->code = VERDICT_OK;
	call->http_status = 200;
	call->executed = false;
	call->replayed = false;
	call->deadline_us = 0;
	call->held = false;
	call->request = NULL;
	memset(&call->cluster, 0, sizeof(call->cluster));
	if (call->answer.capacity > KEEP_BYTES)
		verdict_buffer_free(&call->answer);
	else
		verdict_buffer_reset(&call->answer);
	if (call->arena.used > KEEP_BYTES)
		verdict_arena_free(&call->arena);
	else
		verdict_arena_reset(&call->arena);
}

void
service_call_free(service_call *call)
{
	verdict_buffer_free(&call->answer);
	verdict_arena_free(&call->arena);
}

bool
service_fail(service_call *call, verdict_code code, const char *format, ...)
{
	char message[1024];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(message, sizeof(message), format, arguments);
	va_end(arguments);
	call->code = code;
	call->http_status = wire_http_status(code);
	verdict_buffer_reset(&call->answer);
	/* Without memory for the text the status alone must do. */
	if (!wire_encode_error(&call->answer, code, message))
		verdict_buffer_reset(&call->answer);
	return false;
}

static bool
is_visible(const char *text, size_t longest)
{
	size_t size = strlen(text);

	for (size_t i = 0; i < size; i++)
		if (text[i] < 0x21 || text[i] > 0x7e)
			return false;
	return size >= 1 && size <= longest;
}

/* The token of "Bearer <token>", or NULL. */
static const char *
bearer_token(const char *authorization)
{
	if (authorization == NULL || strncasecmp(authorization, "Bearer ", 7) != 0)
		return NULL;
	authorization += 7;
	return authorization + strspn(authorization, " ");
}

bool
service_admit(service *service, service_call *call)
{
	const char *token = bearer_token(call->headers.authorization);
	size_t size = token != NULL ? strlen(token) : 0;
	const api_key *found = NULL;

	memset(call->mutation.caller, 0, sizeof(call->mutation.caller));
	if (service->key_count == 0)
		return true;
	/* Every key is looked at, so that the time tells nothing of which one. */
	for (size_t i = 0; i < service->key_count; i++)
		if (size == service->keys[i].size && CRYPTO_memcmp(token, service->keys[i].text, size) == 0)
			found = &service->keys[i];
	if (found == NULL)
		return service_fail(call, VERDICT_UNAUTHENTICATED,
							token == NULL ? "an API key is needed"
										  : "the API key is not known here");
	memcpy(call->mutation.caller, found->fingerprint, sizeof(found->fingerprint));
	return true;
}

/* 1 to 10 digits, positive: the protocol's grammar.  0 when it is not. */
static int64_t
parse_timeout(const char *text)
{
	int64_t timeout = 0;
	size_t size = strlen(text);

	if (size < 1 || size > 10)
		return 0;
	for (size_t i = 0; i < size; i++)
	{
		if (text[i] < '0' || text[i] > '9')
			return 0;
		timeout = timeout * 10 + (text[i] - '0');
	}
	return timeout;
}

static bool
check_headers(const service *service, service_call *call)
{
	const service_headers *headers = &call->headers;
	verdict_consistency consistency = VERDICT_CONSISTENCY_SESSION;

	if (headers->repeated != NULL)
		return service_fail(call, VERDICT_INVALID_ARGUMENT, "header %s came more than once",
							headers->repeated);
	if (headers->protocol_version != NULL && strcmp(headers->protocol_version, "1") != 0)
		return service_fail(call, VERDICT_INVALID_ARGUMENT,
							"header Connect-Protocol-Version must be 1");
	if (headers->timeout_ms != NULL)
	{
		int64_t timeout = parse_timeout(headers->timeout_ms);

		if (timeout == 0)
			return service_fail(
				call, VERDICT_INVALID_ARGUMENT,
				"header Connect-Timeout-Ms must be a positive integer of at most 10 digits");
		call->deadline_us = call->started_us + timeout * 1000;
	}
	if (headers->session_id != NULL && !is_visible(headers->session_id, VERDICT_SESSION_ID_MAX))
		return service_fail(call, VERDICT_INVALID_ARGUMENT,
							"header Verdict-Session-Id must be 1 to 128 visible ASCII characters");
	if (headers->consistency != NULL &&
		!verdict_consistency_parse(headers->consistency, &consistency))
		return service_fail(
			call, VERDICT_INVALID_ARGUMENT,
			"header Verdict-Consistency must be session, eventual or authoritative");
	if (headers->idempotency_key != NULL && !verdict_key_valid(headers->idempotency_key))
		return service_fail(call, VERDICT_INVALID_ARGUMENT,
							"header Idempotency-Key must be 1 to 255 visible ASCII characters");
	if (headers->revision != NULL)
	{
		if (!verdict_revision_parse(headers->revision, strlen(headers->revision), &call->revision))
			return service_fail(call, VERDICT_INVALID_ARGUMENT,
								"header Verdict-Revision is malformed");
		if (service->cluster == NULL)
			return service_fail(
				call, VERDICT_FAILED_PRECONDITION,
				"this instance stands alone and has no revisions; the one given is of another");
	}
	call->cluster.address = call->address;
	call->cluster.session_id = headers->session_id;
	call->cluster.consistency = consistency;
	call->cluster.revision = headers->revision != NULL ? &call->revision : NULL;
	call->cluster.mutation = call->method->mutation;
	return true;
}

static bool
check_deadline(service_call *call)
{
	if (call->deadline_us != 0 && monotonic_us() > call->deadline_us)
		return service_fail(call, VERDICT_DEADLINE_EXCEEDED,
							"the time given in Connect-Timeout-Ms is over");
	return true;
}

bool
service_prepare(service *service, service_call *call, const void *body, size_t body_size)
{
	verdict_status status;

	if (!check_headers(service, call))
		return false;
	verdict_status_init(&status);
	call->request =
		wire_decode(&call->arena, call->format, call->method->request, body, body_size, &status);
	if (call->request == NULL)
		return service_fail(call, status.code, "%s", status.message);
	call->mutation.method = call->method->engine_method;
	call->mutation.request = call->request;
	call->mutation.key = call->headers.idempotency_key;
	return true;
}

bool
service_hold(service *service, service_call *call)
{
	engine_error error;
	bool done;

	if (!call->method->mutation)
		return true;
	done = service->cluster != NULL
			   ? cluster_hold(service->cluster, &call->cluster, &call->mutation, &error)
			   : engine_hold(service->engine, &call->mutation, &error);
	if (!done)
		return service_fail(call, (verdict_code) error.code, "%s", error.message);
	call->held = true;
	return true;
}

void
service_drop(service *service, service_call *call)
{
	if (call->held && service->cluster != NULL)
		cluster_release(service->cluster, &call->cluster, &call->mutation);
	else if (call->held)
		engine_release(service->engine, &call->mutation);
	call->held = false;
}

void
service_forgive(service_call *call, int64_t waited_us)
{
	if (call->deadline_us != 0)
		call->deadline_us += waited_us;
}

static ProtobufCMessage *
read_from(engine *engine, const service_call *call, engine_error *error)
{
	switch (call->method->index)
	{
		case 0:
		{
			Verdict__V1__AuthorizeResponse *authorize = NULL;

			if (engine_authorize(engine, (const Verdict__V1__AuthorizeRequest *) call->request,
								 &authorize, error))
				return &authorize->base;
			return NULL;
		}
		case 1:
		{
			Verdict__V1__QueryResponse *query = NULL;

			if (engine_query(engine, (const Verdict__V1__QueryRequest *) call->request, &query,
							 error))
				return &query->base;
			return NULL;
		}
		case 2:
		{
			Verdict__V1__ListFactsResponse *list = NULL;

			if (engine_list_facts(engine, (const Verdict__V1__ListFactsRequest *) call->request,
								  &list, error))
				return &list->base;
			return NULL;
		}
		default:
		{
			Verdict__V1__GetPolicyResponse *policy = NULL;

			if (engine_get_policy(engine, (const Verdict__V1__GetPolicyRequest *) call->request,
								  &policy, error))
				return &policy->base;
			return NULL;
		}
	}
}

/* Takes what the engine said as the answer of the call; response is NULL for an error. */
static void
take_response(service *service, service_call *call, ProtobufCMessage *response,
			  const engine_error *error)
{
	if (response == NULL)
	{
		service_fail(call, (verdict_code) error->code, "%s", error->message);
		return;
	}
	call->executed = !call->replayed;
	if (call->executed)
		__atomic_add_fetch(&service->executions[call->method->index], 1, __ATOMIC_RELAXED);
	if (!wire_encode(&call->answer, call->format, response))
		service_fail(call, VERDICT_RESOURCE_EXHAUSTED, "the answer is too large; ask with a limit");
	if (response->descriptor == &verdict__v1__query_response__descriptor)
		engine_query_drop_rows((Verdict__V1__QueryResponse *) response);
	protobuf_c_message_free_unpacked(response, NULL);
}

static void
run_alone(service *service, service_call *call)
{
	ProtobufCMessage *response = NULL;
	engine_answer answer;
	engine_error error;

	if (!call->method->mutation)
		response = read_from(service->engine, call, &error);
	else if (engine_mutate(service->engine, &call->mutation, &answer, &error))
	{
		call->replayed = answer.replayed;
		response = answer.response;
	}
	take_response(service, call, response, &error);
}

static service_outcome
run_in_cluster(service *service, service_call *call)
{
	cluster_outcome outcome;
	cluster_failure failure;
	ProtobufCMessage *response = NULL;
	engine *engine;
	engine_answer answer;
	engine_error error;

	call->cluster.deadline_us = call->deadline_us;
	outcome = cluster_enter(service->cluster, &call->cluster, &engine, &failure);
	if (outcome == CLUSTER_SERVE && call->method->mutation)
	{
		bool done = engine_mutate(engine, &call->mutation, &answer, &error);

		if (done)
		{
			call->replayed = answer.replayed;
			response = answer.response;
		}
		outcome = cluster_leave_mutation(service->cluster, &call->cluster, &call->mutation,
										 done ? &answer : NULL);
		take_response(service, call, response, &error);
	}
	else if (outcome == CLUSTER_SERVE)
	{
		bool done;

		response = read_from(engine, call, &error);
		done = response != NULL;
		/* Before others may use the engine: rows and names in the response are its own. */
		take_response(service, call, response, &error);
		cluster_leave(service->cluster, &call->cluster, done);
		outcome = CLUSTER_ANSWERED;
	}
	switch (outcome)
	{
		case CLUSTER_WAIT:
			return SERVICE_WAITS;
		case CLUSTER_DROP:
			return SERVICE_DROPPED;
		case CLUSTER_FAIL:
			service_fail(call, failure.code, "%s", failure.message);
			break;
		case CLUSTER_ANSWERED:
		case CLUSTER_SERVE:
			break;
	}
	return SERVICE_ANSWERED;
}

service_outcome
service_run(service *service, service_call *call)
{
	service_outcome outcome = SERVICE_ANSWERED;

	service_drop(service, call);
	/* A mutation that ran has its effect whatever the clock says. */
	if (!call->cluster.committed && !check_deadline(call))
		return outcome;
	if (service->cluster != NULL)
		outcome = run_in_cluster(service, call);
	else
		run_alone(service, call);
	if (outcome == SERVICE_ANSWERED && !call->method->mutation && call->code == VERDICT_OK)
		check_deadline(call);
	return outcome;
}

void
service_await(service *service, service_call *call, void (*resume)(void *), void *argument)
{
	cluster_await(service->cluster, &call->cluster, resume, argument);
}

const char *
service_revision(const service_call *call)
{
	return call->code == VERDICT_OK && call->cluster.served_at[0] != '\0' ? call->cluster.served_at
																		  : NULL;
}

int
service_node(const service_call *call)
{
	return call->cluster.served_at[0] != '\0' ? call->cluster.node : -1;
}

void
service_hurry(service *service)
{
	if (service->cluster != NULL)
		cluster_hurry(service->cluster);
}
