/*
 * client.c
 *		See client.h: what a client is, and its eight calls.
 *
 * Each call describes its work (how to encode, how to decode) and leaves the
 * rest to call.c.  The API key stands in client->headers and nowhere else; it
 * is wiped before that memory is freed.
 */
#include "client.h"

#include "call.h"
#include "connect.h"
#include "message.h"
#include "verdict.pb-c.h"

#include <curl/curl.h>
#include <string.h>

#define USER_AGENT "verdict-postgresql/1.0"

/* Bounds what an error body, or the translation of a payload, may take. */
#define ERROR_ARENA_BYTES (1024 * 1024)

typedef struct method_facts
{
	const char *name;
	bool mutation;
	const ProtobufCMessageDescriptor *request; /* of a mutation */
} method_facts;

static const method_facts methods[] = {
	[VERDICT_METHOD_AUTHORIZE] = {"Authorize", false, NULL},
	[VERDICT_METHOD_QUERY] = {"Query", false, NULL},
	[VERDICT_METHOD_LIST_FACTS] = {"ListFacts", false, NULL},
	[VERDICT_METHOD_GET_POLICY] = {"GetPolicy", false, NULL},
	[VERDICT_METHOD_INSERT_FACT] = {"InsertFact", true,
									&verdict__v1__insert_fact_request__descriptor},
	[VERDICT_METHOD_DELETE_FACT] = {"DeleteFact", true,
									&verdict__v1__delete_fact_request__descriptor},
	[VERDICT_METHOD_BATCH_FACTS] = {"BatchFacts", true,
									&verdict__v1__batch_facts_request__descriptor},
	[VERDICT_METHOD_SET_POLICY] = {"SetPolicy", true,
								   &verdict__v1__set_policy_request__descriptor}};

#define METHOD_COUNT ((int) (sizeof(methods) / sizeof(methods[0])))

const char *
verdict_method_name(verdict_method method)
{
	return methods[method].name;
}

/* ---- options ---- */

void
verdict_client_options_init(verdict_client_options *options)
{
	memset(options, 0, sizeof(*options));
	options->wire_format = VERDICT_WIRE_BINARY;
	options->http_version = VERDICT_HTTP_1_1;
	options->retry_owner = VERDICT_RETRY_CLIENT;
	options->retry_http_503 = true;
	options->mutation_attempt_timeout_ms = VERDICT_MUTATION_ATTEMPT_TIMEOUT_MS;
	options->mutation_overall_timeout_ms = VERDICT_MUTATION_OVERALL_TIMEOUT_MS;
	options->read_timeout_ms = VERDICT_READ_TIMEOUT_MS;
	options->max_response_bytes = VERDICT_RESPONSE_BYTES_DEFAULT;
}

static bool
bad_url(verdict_status *status, const char *reason)
{
	return verdict_status_fail(status, VERDICT_INVALID_ARGUMENT, VERDICT_CAUSE_ARGUMENT,
							   "invalid instance URL: %s", reason);
}

/*
 * Whether the URL has this part; "absent" is what libcurl says when not.  Any
 * other failure of it is left in *failure.
 */
static bool
has_part(CURLU *url, CURLUPart part, CURLUcode absent, CURLUcode *failure)
{
	char *text = NULL;
	CURLUcode result = curl_url_get(url, part, &text, 0);

	curl_free(text);
	if (result != CURLUE_OK && result != absent)
		*failure = result;
	return result == CURLUE_OK;
}

/* NULL when all is well; *failure tells of a failure of libcurl's. */
static const char *
fault_of_url(CURLU *parsed, const char *url, CURLUcode *failure)
{
	bool http;
	char *scheme = NULL;

	*failure = curl_url_set(parsed, CURLUPART_URL, url, CURLU_NON_SUPPORT_SCHEME);
	if (*failure == CURLUE_OK)
		*failure = curl_url_get(parsed, CURLUPART_SCHEME, &scheme, 0);
	http = *failure == CURLUE_OK && (strcmp(scheme, "http") == 0 || strcmp(scheme, "https") == 0);
	curl_free(scheme);
	if (strstr(url, "://") == NULL || *failure == CURLUE_BAD_SCHEME ||
		(*failure == CURLUE_OK && !http))
		return "it must start with http:// or https://";
	if (*failure != CURLUE_OK)
		return curl_url_strerror(*failure);
	/* libcurl would take the next part of the path for the host. */
	if (!has_part(parsed, CURLUPART_HOST, CURLUE_NO_HOST, failure) || strstr(url, ":///") != NULL)
		return "it has no host";
	if (has_part(parsed, CURLUPART_USER, CURLUE_NO_USER, failure) ||
		has_part(parsed, CURLUPART_PASSWORD, CURLUE_NO_PASSWORD, failure))
		return "it must not hold a user name or password";
	return *failure == CURLUE_OK ? NULL : curl_url_strerror(*failure);
}

bool
verdict_instance_url_check(const char *url, verdict_status *status)
{
	CURLUcode failure;
	const char *fault;
	const char *c;
	CURLU *parsed;

	for (c = url; *c != '\0'; c++)
		if ((unsigned char) *c <= ' ' || *c == 0x7F)
			return bad_url(status, "it must not hold white space or control characters");
	if (strpbrk(url, "?#") != NULL)
		return bad_url(status, "it must not hold a query or a fragment");
	parsed = curl_url();
	if (parsed == NULL)
		return verdict_status_no_memory(status);
	fault = fault_of_url(parsed, url, &failure);
	curl_url_cleanup(parsed);
	if (failure == CURLUE_OUT_OF_MEMORY)
		return verdict_status_no_memory(status);
	return fault == NULL || bad_url(status, fault);
}

bool
verdict_api_key_check(const char *api_key, verdict_status *status)
{
	const char *c;

	for (c = api_key; *c > ' ' && *c < 0x7F; c++)
		;
	if (*c == '\0' && c > api_key)
		return true;
	return verdict_status_fail(status, VERDICT_INVALID_ARGUMENT, VERDICT_CAUSE_ARGUMENT,
							   "invalid API key: it must be one or more visible ASCII characters");
}

static bool
check_range(const char *name, int64_t value, int64_t minimum, int64_t maximum,
			verdict_status *status)
{
	if (value >= minimum && value <= maximum)
		return true;
	return verdict_status_fail(status, VERDICT_INVALID_ARGUMENT, VERDICT_CAUSE_ARGUMENT,
							   "%s must be from %lld to %lld", name, (long long) minimum,
							   (long long) maximum);
}

static bool
check_options(const verdict_client_options *options, verdict_status *status)
{
	if (options->instance_url == NULL)
		return bad_url(status, "it is missing");
	return verdict_instance_url_check(options->instance_url, status) &&
		   (options->api_key == NULL || verdict_api_key_check(options->api_key, status)) &&
		   check_range("the time-out of a mutation's attempt", options->mutation_attempt_timeout_ms,
					   VERDICT_TIMEOUT_MIN_MS, VERDICT_TIMEOUT_MAX_MS, status) &&
		   check_range("the time-out of a mutation", options->mutation_overall_timeout_ms,
					   VERDICT_TIMEOUT_MIN_MS, VERDICT_TIMEOUT_MAX_MS, status) &&
		   check_range("the time-out of a read", options->read_timeout_ms, VERDICT_TIMEOUT_MIN_MS,
					   VERDICT_TIMEOUT_MAX_MS, status) &&
		   check_range("the largest answer in bytes", (int64_t) options->max_response_bytes,
					   VERDICT_RESPONSE_BYTES_MIN, VERDICT_RESPONSE_BYTES_MAX, status);
}

/* ---- making and freeing ---- */

/* Draws from the client's block of random bytes, which is filled when empty. */
static bool
take_random(void *context, void *bytes, size_t size)
{
	verdict_client *client = context;
	const verdict_host *host = client->host;

	if (size > sizeof(client->random))
		return host->random_bytes(host->context, bytes, size);
	if (size > client->random_left)
	{
		if (!host->random_bytes(host->context, client->random, sizeof(client->random)))
			return false;
		client->random_left = sizeof(client->random);
	}
	client->random_left -= size;
	memcpy(bytes, client->random + client->random_left, size);
	return true;
}

static bool
build_urls(verdict_client *client, const char *instance_url)
{
	verdict_buffer urls;
	size_t starts[METHOD_COUNT];
	int i;

	verdict_buffer_init(&urls, client->host, SIZE_MAX);
	for (i = 0; i < METHOD_COUNT; i++)
	{
		starts[i] = urls.size;
		if (!verdict_connect_url(&urls, instance_url, VERDICT_SERVICE, methods[i].name) ||
			!verdict_buffer_append(&urls, "", 1))
		{
			verdict_buffer_free(&urls);
			return false;
		}
	}
	client->urls = urls.bytes;
	for (i = 0; i < METHOD_COUNT; i++)
		client->url[i] = client->urls + starts[i];
	return true;
}

/* The key comes last, in one piece: a buffer that grows would leave copies behind. */
static bool
build_headers(verdict_client *client, const verdict_client_options *options)
{
	verdict_buffer lines;

	verdict_buffer_init(&lines, client->host, SIZE_MAX);
	if (!verdict_connect_add_header(&lines, "User-Agent", USER_AGENT) ||
		!verdict_connect_add_headers(&lines, options->wire_format) ||
		(options->api_key != NULL &&
		 (!verdict_buffer_append_string(&lines, "Authorization: Bearer ") ||
		  !verdict_buffer_append(&lines, options->api_key, strlen(options->api_key) + 1))))
	{
		verdict_buffer_free(&lines);
		return false;
	}
	client->headers = lines.bytes;
	client->headers_size = lines.size;
	return true;
}

verdict_client *
verdict_client_create(verdict_runtime *runtime, const verdict_client_options *options,
					  verdict_status *status)
{
	const verdict_host *host = verdict_runtime_host(runtime);
	verdict_pool_options pool_options;
	verdict_client *client;
	int i;

	verdict_status_init(status);
	if (!check_options(options, status))
		return NULL;
	client = verdict_alloc_zero(host, sizeof(*client));
	if (client == NULL)
	{
		verdict_status_no_memory(status);
		return NULL;
	}
	client->runtime = runtime;
	client->host = host;
	client->options = *options;
	client->options.instance_url = NULL;
	client->options.api_key = NULL;
	client->options.ssl_ca_file = NULL;
	client->random_source.context = client;
	client->random_source.random_bytes = take_random;
	verdict_retry_budget_init(&client->budget);
	verdict_arena_init(&client->scratch, host, ERROR_ARENA_BYTES);
	for (i = 0; i < VERDICT_MAX_IN_FLIGHT; i++)
	{
		verdict_buffer_init(&client->calls[i].request, host, SIZE_MAX);
		verdict_buffer_init(&client->calls[i].lines, host, SIZE_MAX);
	}
	if (!build_urls(client, options->instance_url) || !build_headers(client, options))
	{
		verdict_client_destroy(client);
		verdict_status_no_memory(status);
		return NULL;
	}
	pool_options.ssl_ca_file = options->ssl_ca_file;
	pool_options.http_version = options->http_version;
	pool_options.max_response_bytes = options->max_response_bytes;
	pool_options.headers.bytes = client->headers;
	pool_options.headers.size = client->headers_size;
	client->pool = verdict_pool_create(runtime, &pool_options, status);
	if (client->pool == NULL)
	{
		verdict_client_destroy(client);
		return NULL;
	}
	return client;
}

void
verdict_client_destroy(verdict_client *client)
{
	const verdict_host *host;
	int i;

	if (client == NULL)
		return;
	host = client->host;
	verdict_pool_destroy(client->pool);
	for (i = 0; i < VERDICT_MAX_IN_FLIGHT; i++)
	{
		verdict_buffer_free(&client->calls[i].request);
		verdict_buffer_free(&client->calls[i].lines);
	}
	verdict_arena_free(&client->scratch);
	if (client->headers != NULL)
		explicit_bzero(client->headers, client->headers_size);
	verdict_free(host, client->headers);
	verdict_free(host, client->urls);
	explicit_bzero(client->random, sizeof(client->random));
	verdict_free(host, client);
}

int
verdict_client_read_timeout_ms(const verdict_client *client)
{
	return client->options.read_timeout_ms;
}

/* ---- reads ---- */

/* What a read has besides its request. */
typedef struct read_context
{
	const verdict_read_options *options; /* NULL = none given */
	const void *request;				 /* what the encoder needs */
	void *answer;						 /* where the decoder puts it */
	int64_t give_up_us;					 /* of all calls together; INT64_MAX = never */
} read_context;

static int64_t
give_up_at(const verdict_client *client, const verdict_read_options *options)
{
	const verdict_host *host = client->host;

	if (options == NULL || options->deadline_ms <= 0)
		return INT64_MAX;
	return host->monotonic_us(host->context) + (int64_t) options->deadline_ms * 1000;
}

/* After the request was encoded into call->request. */
static bool
prepare_read(verdict_client *client, const read_context *context, verdict_call *call,
			 verdict_status *status)
{
	const verdict_host *host = client->host;

	call->body = call->request.bytes;
	call->body_size = call->request.size;
	if (context->options != NULL)
		call->consistency = context->options->consistency;
	call->timeout_ms = client->options.read_timeout_ms;
	if (context->give_up_us != INT64_MAX)
	{
		int64_t left = (context->give_up_us - host->monotonic_us(host->context)) / 1000;

		if (left <= 0)
			return verdict_status_fail(status, VERDICT_DEADLINE_EXCEEDED, VERDICT_CAUSE_DEADLINE,
									   "the time-out passed before the call was sent");
		if (left < call->timeout_ms)
			call->timeout_ms = (int) left;
	}
	return true;
}

static bool
prepare_authorize(verdict_client *client, const verdict_work *work, verdict_call *call,
				  verdict_status *status)
{
	const read_context *context = work->context;
	const verdict_check *check = (const verdict_check *) context->request + call->index;

	return verdict_encode_authorize(&call->request, client->options.wire_format, &check->actor,
									check->action, &check->resource, status) &&
		   prepare_read(client, context, call, status);
}

static bool
decode_authorize(verdict_client *client, const verdict_work *work, const verdict_call *call,
				 verdict_exchange *exchange, verdict_status *status)
{
	const read_context *context = work->context;
	const verdict_buffer *body = verdict_exchange_body(exchange);
	bool allowed = false;

	if (!verdict_decode_authorize(client->host, client->options.wire_format, body->bytes,
								  body->size, &allowed, status))
		return false;
	((bool *) context->answer)[call->index] = allowed;
	return true;
}

bool
verdict_client_authorize_many(verdict_client *client, verdict_session *session,
							  const verdict_check *checks, size_t count,
							  const verdict_read_options *options, bool *allowed,
							  verdict_status *status)
{
	read_context context = {options, checks, allowed, give_up_at(client, options)};
	verdict_work work = {
		count, VERDICT_METHOD_AUTHORIZE, session, prepare_authorize, decode_authorize, &context};

	memset(allowed, 0, count * sizeof(*allowed));
	if (verdict_client_run(client, &work, status))
		return true;
	memset(allowed, 0, count * sizeof(*allowed));
	return false;
}

bool
verdict_client_authorize(verdict_client *client, verdict_session *session,
						 const verdict_check *check, const verdict_read_options *options,
						 bool *allowed, verdict_status *status)
{
	return verdict_client_authorize_many(client, session, check, 1, options, allowed, status);
}

typedef struct query_request
{
	const verdict_fact *pattern; /* list_facts: NULL = every fact */
	uint32_t limit;
	const void *after; /* list_facts */
	size_t after_size;
} query_request;

static bool
prepare_query(verdict_client *client, const verdict_work *work, verdict_call *call,
			  verdict_status *status)
{
	const read_context *context = work->context;
	const query_request *request = context->request;

	return verdict_encode_query(&call->request, client->options.wire_format, request->pattern,
								request->limit, status) &&
		   prepare_read(client, context, call, status);
}

/* The variables of a pattern, each once, in the order of first use. */
static size_t
variable_names(const verdict_fact *pattern, const char **names)
{
	size_t count = 0;
	size_t i;
	size_t j;

	for (i = 0; i < pattern->count; i++)
	{
		const verdict_term *term = &pattern->args[i];

		if (term->kind != VERDICT_TERM_VARIABLE)
			continue;
		for (j = 0; j < count; j++)
			if (strcmp(names[j], term->as.variable.name) == 0)
				break;
		if (j == count)
			names[count++] = term->as.variable.name;
	}
	return count;
}

static bool
decode_query(verdict_client *client, const verdict_work *work, const verdict_call *call,
			 verdict_exchange *exchange, verdict_status *status)
{
	const read_context *context = work->context;
	const query_request *request = context->request;
	const char *names[VERDICT_MAX_ARGUMENTS]; /* the encoder checked the count */
	size_t count = variable_names(request->pattern, names);
	size_t size;
	void *body = verdict_exchange_take_body(exchange, &size);
	verdict_rows *rows;

	(void) call;
	rows = verdict_rows_open(client->host, client->options.wire_format, VERDICT_ROWS_QUERY, body,
							 size, names, count, status);
	*(verdict_rows **) context->answer = rows;
	return rows != NULL;
}

bool
verdict_client_query(verdict_client *client, verdict_session *session, const verdict_fact *pattern,
					 uint32_t limit, const verdict_read_options *options, verdict_rows **rows,
					 verdict_status *status)
{
	query_request request = {pattern, limit, NULL, 0};
	read_context context = {options, &request, rows, give_up_at(client, options)};
	verdict_work work = {1, VERDICT_METHOD_QUERY, session, prepare_query, decode_query, &context};

	*rows = NULL;
	return verdict_client_run(client, &work, status);
}

static bool
prepare_list_facts(verdict_client *client, const verdict_work *work, verdict_call *call,
				   verdict_status *status)
{
	const read_context *context = work->context;
	const query_request *request = context->request;

	return verdict_encode_list_facts(&call->request, client->options.wire_format, request->pattern,
									 request->limit, request->after, request->after_size, status) &&
		   prepare_read(client, context, call, status);
}

static bool
decode_list_facts(verdict_client *client, const verdict_work *work, const verdict_call *call,
				  verdict_exchange *exchange, verdict_status *status)
{
	const read_context *context = work->context;
	size_t size;
	void *body = verdict_exchange_take_body(exchange, &size);
	verdict_rows *rows;

	(void) call;
	rows = verdict_rows_open(client->host, client->options.wire_format, VERDICT_ROWS_FACTS, body,
							 size, NULL, 0, status);
	*(verdict_rows **) context->answer = rows;
	return rows != NULL;
}

bool
verdict_client_list_facts(verdict_client *client, verdict_session *session,
						  const verdict_fact *pattern, uint32_t limit, const void *after,
						  size_t after_size, const verdict_read_options *options,
						  verdict_rows **rows, verdict_status *status)
{
	query_request request = {pattern, limit, after, after_size};
	read_context context = {options, &request, rows, give_up_at(client, options)};
	verdict_work work = {
		1, VERDICT_METHOD_LIST_FACTS, session, prepare_list_facts, decode_list_facts, &context};

	*rows = NULL;
	return verdict_client_run(client, &work, status);
}

typedef struct policy_answer
{
	verdict_arena *arena;
	const char **policy;
} policy_answer;

static bool
prepare_get_policy(verdict_client *client, const verdict_work *work, verdict_call *call,
				   verdict_status *status)
{
	return verdict_encode_get_policy(&call->request, client->options.wire_format, status) &&
		   prepare_read(client, work->context, call, status);
}

static bool
decode_get_policy(verdict_client *client, const verdict_work *work, const verdict_call *call,
				  verdict_exchange *exchange, verdict_status *status)
{
	const read_context *context = work->context;
	const policy_answer *answer = context->answer;
	const verdict_buffer *body = verdict_exchange_body(exchange);

	(void) call;
	return verdict_decode_get_policy(answer->arena, client->options.wire_format, body->bytes,
									 body->size, answer->policy, status);
}

bool
verdict_client_get_policy(verdict_client *client, verdict_session *session,
						  const verdict_read_options *options, verdict_arena *arena,
						  const char **policy, verdict_status *status)
{
	policy_answer answer = {arena, policy};
	read_context context = {options, NULL, &answer, give_up_at(client, options)};
	verdict_work work = {
		1, VERDICT_METHOD_GET_POLICY, session, prepare_get_policy, decode_get_policy, &context};

	*policy = NULL;
	return verdict_client_run(client, &work, status);
}

/* ---- mutations ---- */

typedef struct mutation_context
{
	const void *payload;
	size_t payload_size;
	const char *key;
	int timeout_ms;
	uint32_t *changed;
} mutation_context;

/* The binary payload as JSON, into call->request. */
static bool
translate_payload(verdict_client *client, const mutation_context *mutation, verdict_call *call,
				  verdict_status *status)
{
	verdict_arena arena;
	const ProtobufCMessage *message;
	bool succeeded;

	/* The payload is the caller's own: no bound but memory. */
	verdict_arena_init(&arena, client->host, SIZE_MAX);
	message = verdict_message_from_binary(&arena, methods[call->method].request, mutation->payload,
										  mutation->payload_size, status);
	succeeded = message != NULL;
	if (succeeded && !verdict_message_to_json(&call->request, message))
		succeeded = verdict_status_no_memory(status);
	verdict_arena_free(&arena);
	return succeeded;
}

static bool
prepare_mutation(verdict_client *client, const verdict_work *work, verdict_call *call,
				 verdict_status *status)
{
	const mutation_context *mutation = work->context;

	call->key = mutation->key;
	call->timeout_ms = mutation->timeout_ms;
	call->body = mutation->payload;
	call->body_size = mutation->payload_size;
	if (client->options.wire_format == VERDICT_WIRE_BINARY)
		return true;
	if (!translate_payload(client, mutation, call, status))
		return false;
	call->body = call->request.bytes;
	call->body_size = call->request.size;
	return true;
}

static bool
decode_mutation(verdict_client *client, const verdict_work *work, const verdict_call *call,
				verdict_exchange *exchange, verdict_status *status)
{
	const mutation_context *mutation = work->context;
	const verdict_buffer *body = verdict_exchange_body(exchange);
	verdict_wire_format format = client->options.wire_format;
	bool one = false;

	switch (call->method)
	{
		case VERDICT_METHOD_BATCH_FACTS:
			return verdict_decode_batch(client->host, format, body->bytes, body->size,
										mutation->changed, status);
		case VERDICT_METHOD_SET_POLICY:
			return verdict_decode_set_policy(client->host, format, body->bytes, body->size, status);
		default:
			if (!verdict_decode_changed(client->host, format, body->bytes, body->size, &one,
										status))
				return false;
			*mutation->changed = one ? 1 : 0;
			return true;
	}
}

bool
verdict_client_mutate(verdict_client *client, verdict_session *session, verdict_method method,
					  const void *payload, size_t payload_size, const char *key, int deadline_ms,
					  uint32_t *changed, verdict_status *status)
{
	char own_key[VERDICT_REQUEST_ID_SIZE];
	mutation_context mutation;
	verdict_work work = {1, method, session, prepare_mutation, decode_mutation, &mutation};

	*changed = 0;
	verdict_status_init(status);
	if ((int) method < 0 || (int) method >= METHOD_COUNT || !methods[method].mutation)
		return verdict_status_fail(status, VERDICT_INVALID_ARGUMENT, VERDICT_CAUSE_ARGUMENT,
								   "the method is not a mutation");
	if (key != NULL && !verdict_key_valid(key))
		return verdict_status_fail(
			status, VERDICT_INVALID_ARGUMENT, VERDICT_CAUSE_ARGUMENT,
			"invalid idempotency key: it must be 1 to %d visible ASCII characters",
			VERDICT_KEY_MAX);
	if (key == NULL)
	{
		if (!verdict_uuid(&client->random_source, own_key))
			return verdict_status_fail(status, VERDICT_INTERNAL, VERDICT_CAUSE_INTERNAL,
									   "no random bytes");
		key = own_key;
	}
	mutation.payload = payload;
	mutation.payload_size = payload_size;
	mutation.key = key;
	mutation.timeout_ms = client->options.mutation_overall_timeout_ms;
	if (deadline_ms > 0 && deadline_ms < mutation.timeout_ms)
		mutation.timeout_ms = deadline_ms;
	mutation.changed = changed;
	if (verdict_client_run(client, &work, status))
		return true;
	*changed = 0;
	return false;
}
