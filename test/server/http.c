/*
 * http.c
 *		From an HTTP request to an answer.
 *
 * One libmicrohttpd thread owns every request of an address, and the service and
 * the engine, when there is no cluster, which has a lock.  Other threads touch a request only through MHD_resume_connection(), and only
 * while it is suspended; a suspended connection is never closed by
 * libmicrohttpd, so the pointer stays good.  A request goes through the steps of
 * request.h once each, in order; a fault makes it rest between two of them.
 *
 * The body of an answer lives in its request, which libmicrohttpd gives back
 * (request_completed) when it is done with the answer.
 */
#include "http.h"

#include "gzip.h"
#include "misbehave.h"
#include "request.h"

#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

/* Answers larger than this are compressed for who accepts it. */
#define GZIP_THRESHOLD 1024
#define STACK_BYTES (16 * 1024 * 1024)
#define CONNECTIONS 4096
#define PROGRESS_US 500000 /* without a byte an upload is given up at the end */

struct http_server
{
	http_options options;
	struct MHD_Daemon *daemon;
	request_pool pool;
	uint64_t connections; /* accepted so far */
	/* Read by other threads: */
	uint64_t requests[SERVICE_METHOD_COUNT + 1];
	int running;		 /* requests that arrived and are not over */
	int receiving;		 /* requests whose body is still coming in */
	int64_t received_us; /* when the last piece of such a body came */
	bool closing;		 /* answers say Connection: close */
	bool stopping;		 /* nothing waits any more */
};

/* Answers. */

static void
log_end(http_request *request, int status, const char *code)
{
	request_end end;

	if (request->log_number == 0)
		return;
	end.executed = request->call.executed;
	end.replayed = request->call.replayed;
	end.node = service_node(&request->call);
	end.status = status;
	end.code = code;
	end.duration_us = monotonic_us() - request->arrived_us;
	request_log_end(request->server->options.log, request->log_number, &end);
	request->log_number = 0;
}

static enum MHD_Result
drop(http_request *request)
{
	log_end(request, 0, NULL);
	service_drop(request->server->options.service, &request->call);
	return MHD_NO;
}

/* True when a fault has a header of this name. */
static bool
brings(const fault *fault, const char *name)
{
	for (size_t i = 0; fault != NULL && i < fault->header_count; i++)
		if (strcasecmp(fault->headers[i].name, name) == 0)
			return true;
	return false;
}

/*
 * Queues a response and destroys it.  The fault's own headers come on top;
 * "code" is for the log.
 */
static enum MHD_Result
queue(http_request *request, int status, struct MHD_Response *response, const char *content_type,
	  const char *code)
{
	const fault *fault = request->fault;
	const char *revision = service_revision(&request->call);
	enum MHD_Result result;

	if (response == NULL)
		return drop(request);
	if (content_type != NULL)
		MHD_add_response_header(response, "Content-Type", content_type);
	if (status == 401)
		MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
	if (request->allow != NULL)
		MHD_add_response_header(response, "Allow", request->allow);
	if (__atomic_load_n(&request->server->closing, __ATOMIC_RELAXED))
		MHD_add_response_header(response, "Connection", "close");
	if (status == 200 && revision != NULL && !brings(fault, "Verdict-Revision"))
		MHD_add_response_header(response, "Verdict-Revision", revision);
	for (size_t i = 0; fault != NULL && i < fault->header_count; i++)
		MHD_add_response_header(response, fault->headers[i].name, fault->headers[i].value);
	log_end(request, status, code);
	result = MHD_queue_response(request->connection, (unsigned) status, response);
	MHD_destroy_response(response);
	return result;
}

static struct MHD_Response *
plain_response(const void *bytes, size_t size)
{
	return MHD_create_response_from_buffer(size, (void *) bytes, MHD_RESPMEM_PERSISTENT);
}

/* The answer the service gave, as it is. */
static enum MHD_Result
answer_honestly(http_request *request)
{
	service_call *call = &request->call;
	const fault *fault = request->fault;
	const verdict_buffer *body = &call->answer;
	struct MHD_Response *response;
	const char *content_type;

	content_type =
		call->code != VERDICT_OK ? wire_content_type(WIRE_JSON) : wire_content_type(call->format);
	if (fault != NULL && fault->kind == FAULT_CONTENT_TYPE)
		content_type = fault->content_type;
	if (request->accepts_gzip && body->size > GZIP_THRESHOLD &&
		gzip_compress(&request->compressed, body->bytes, body->size))
		body = &request->compressed;
	response = plain_response(body->bytes, body->size);
	if (response != NULL && body == &request->compressed)
		MHD_add_response_header(response, "Content-Encoding", "gzip");
	return queue(request, call->http_status, response, content_type,
				 call->code != VERDICT_OK ? verdict_code_name(call->code) : NULL);
}

/* STEP_ANSWER: what goes out, the fault considered. */
static enum MHD_Result
answer(http_request *request)
{
	service_call *call = &request->call;
	const fault *fault = request->fault;
	const char *type = wire_content_type(call->format);
	http_server *server = request->server;

	if (fault == NULL)
		return answer_honestly(request);
	switch (fault->kind)
	{
		case FAULT_STATUS:
			return queue(request, fault->status, plain_response(fault->body, fault->body_size),
						 fault->content_type, NULL);
		case FAULT_ERROR:
			service_fail(call, fault->code, "%s",
						 fault->message != NULL ? fault->message : "ordered by a test");
			if (fault->status != 0)
				call->http_status = fault->status;
			return answer_honestly(request);
		case FAULT_CLOSE:
			if (fault->reset)
				misbehave_reset(request->connection);
			return drop(request);
		case FAULT_CUT:
		case FAULT_CUT_CHUNKED:
		case FAULT_CUT_UNDELIMITED:
		case FAULT_DRIP:
			return queue(request, call->http_status,
						 misbehave_response(fault, call->format, call->answer.bytes,
											call->answer.size, request->connection,
											server->options.timers, &server->stopping),
						 call->code != VERDICT_OK ? wire_content_type(WIRE_JSON) : type,
						 call->code != VERDICT_OK ? verdict_code_name(call->code) : NULL);
		case FAULT_OVERSIZE:
		case FAULT_GZIP_BOMB:
			return queue(request, 200,
						 misbehave_response(fault, call->format, NULL, 0, request->connection,
											server->options.timers, &server->stopping),
						 type, NULL);
		case FAULT_BODY:
			return queue(request, 200, plain_response(fault->body, fault->body_size),
						 fault->content_type != NULL ? fault->content_type : type, NULL);
		case FAULT_HEADER_FLOOD:
			log_end(request, 200, NULL);
			request->step = STEP_DROP;
			MHD_suspend_connection(request->connection);
			if (!misbehave_flood(fault, call->format, request->connection, server->options.timers,
								 &server->stopping))
				MHD_resume_connection(request->connection);
			return MHD_YES;
		case FAULT_REDIRECT:
			return queue(request, fault->status != 0 ? fault->status : 302, plain_response(NULL, 0),
						 NULL, NULL);
		case FAULT_STALL:
		case FAULT_CONTENT_TYPE:
		case FAULT_REVISION:
			break;
	}
	return answer_honestly(request);
}

/* Steps. */

/*
 * Decompresses the body when it has to be.  Gives the bytes to decode; false
 * with the error as the answer.
 */
static bool
plain_body(http_request *request, const void **bytes, size_t *size)
{
	const char *encoding = request->content_encoding;

	*bytes = request->body.bytes;
	*size = request->body.size;
	if (encoding == NULL || *encoding == '\0' || strcasecmp(encoding, "identity") == 0)
		return true;
	if (strcasecmp(encoding, "gzip") != 0)
		return service_fail(&request->call, VERDICT_UNIMPLEMENTED,
							"content encoding \"%.64s\" is not supported; gzip and identity are",
							encoding);
	if (request->body.size == 0) /* an empty body is never compressed */
		return true;
	if (!gzip_decompress(&request->plain, request->body.bytes, request->body.size))
	{
		if (request->plain.state == VERDICT_BUFFER_TOO_LARGE)
			return service_fail(&request->call, VERDICT_RESOURCE_EXHAUSTED,
								"the decompressed request is larger than %zu bytes",
								request->plain.maximum);
		return service_fail(&request->call, VERDICT_INVALID_ARGUMENT,
							"the request body is not valid gzip");
	}
	*bytes = request->plain.bytes;
	*size = request->plain.size;
	return true;
}

static bool
fail_with_status(http_request *request, int status, verdict_code code, const char *message)
{
	service_fail(&request->call, code, "%s", message);
	request->call.http_status = status;
	return false;
}

/* Everything that can be wrong with a request before it is run. */
static bool
prepare(http_request *request)
{
	service_call *call = &request->call;
	service *service = request->server->options.service;
	const void *bytes;
	size_t size;

	if (call->method == NULL)
		return fail_with_status(request, 404, VERDICT_UNIMPLEMENTED,
								"there is no such method; a path is <prefix>" SERVICE_PATH
								"<Method>");
	if (strcmp(request->http_method, MHD_HTTP_METHOD_POST) != 0)
	{
		request->allow = MHD_HTTP_METHOD_POST;
		return fail_with_status(request, 405, VERDICT_UNIMPLEMENTED,
								"the methods are called by POST");
	}
	if (request->header_count > MAX_HEADERS)
		return service_fail(call, VERDICT_INVALID_ARGUMENT, "more than %d headers", MAX_HEADERS);
	if (!service_admit(service, call))
		return false;
	if (call->format == WIRE_NONE)
		return fail_with_status(request, 415, VERDICT_UNIMPLEMENTED,
								"the content type must be application/proto or application/json");
	if (request->too_large)
		return service_fail(call, VERDICT_RESOURCE_EXHAUSTED,
							"the request is larger than %zu bytes", request->body.maximum);
	return plain_body(request, &bytes, &size) && service_prepare(service, call, bytes, size);
}

static void
log_arrival(http_request *request)
{
	request_arrival arrival;

	if (request->server->options.log == NULL)
		return;
	arrival.connection = *(const uint64_t *) MHD_get_connection_info(
							  request->connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)
							  ->socket_context;
	arrival.http_method = request->http_method;
	arrival.path = request->path;
	arrival.method = request->call.method != NULL ? request->call.method->name : NULL;
	arrival.format = wire_format_name(request->call.format);
	arrival.headers = request->headers;
	arrival.header_count =
		request->header_count < MAX_HEADERS ? request->header_count : MAX_HEADERS;
	arrival.body = request->body.bytes;
	arrival.body_size = request->body.size;
	arrival.clustered = request->server->options.clustered;
	arrival.address = request->server->options.address;
	arrival.fault = request->fault != NULL ? fault_kind_name(request->fault->kind) : NULL;
	request->log_number = request_log_arrival(request->server->options.log, &arrival);
}

static void
resume(void *argument)
{
	MHD_resume_connection(argument);
}

/* Lets the request rest; it goes on with "next". */
static enum MHD_Result
rest(http_request *request, request_step next)
{
	request->step = next;
	request->rest_us = monotonic_us();
	MHD_suspend_connection(request->connection);
	if (!timers_add(request->server->options.timers, request->fault->ms, resume,
					request->connection))
		MHD_resume_connection(request->connection);
	return MHD_YES;
}

static enum MHD_Result
run(http_request *request)
{
	const fault *fault = request->fault;
	service_call *call = &request->call;
	bool stalled = fault != NULL && fault->kind == FAULT_STALL;

	if (stalled && !fault->after && !request->forgiven)
		service_forgive(call, monotonic_us() - request->rest_us);
	request->forgiven = true;
	if (request->prepared)
	{
		switch (service_run(request->server->options.service, call))
		{
			case SERVICE_WAITS:
				request->step = STEP_RUN;
				/* Before anybody may resume it. */
				MHD_suspend_connection(request->connection);
				service_await(request->server->options.service, call, resume, request->connection);
				return MHD_YES;
			case SERVICE_DROPPED:
				misbehave_reset(request->connection);
				return drop(request);
			case SERVICE_ANSWERED:
				break;
		}
	}
	if (stalled && fault->after)
		return rest(request, STEP_ANSWER);
	return answer(request);
}

/* The request is complete. */
static enum MHD_Result
arrived(http_request *request)
{
	http_server *server = request->server;
	const fault *fault;

	request->arrived_us = monotonic_us();
	request->step = STEP_RUN;
	__atomic_add_fetch(&server->running, 1, __ATOMIC_RELAXED);
	__atomic_sub_fetch(&server->receiving, 1, __ATOMIC_RELAXED);
	if (request->call.method != NULL)
		request->fault = faults_take(server->options.faults, request->call.method->name);
	log_arrival(request);
	fault = request->fault;
	if (fault != NULL && !fault->run)
		return answer(request);
	request->prepared = prepare(request);
	if (fault != NULL && fault->kind == FAULT_STALL && !fault->after)
	{
		if (request->prepared)
			request->prepared = service_hold(server->options.service, &request->call);
		if (request->prepared)
			return rest(request, STEP_RUN);
	}
	return run(request);
}

static enum MHD_Result
receive(http_request *request, const char *bytes, size_t *size)
{
	if (*size == 0)
		return arrived(request);
	__atomic_store_n(&request->server->received_us, monotonic_us(), __ATOMIC_RELAXED);
	/* What passes the cap is read and forgotten, so that the answer arrives. */
	if (!request->too_large && !verdict_buffer_append(&request->body, bytes, *size))
	{
		if (request->body.state == VERDICT_BUFFER_NO_MEMORY)
			return MHD_NO;
		request->too_large = true;
	}
	*size = 0;
	return MHD_YES;
}

/*
 * A body whose sender waits for leave to send it is refused at once when it is
 * too large.
 */
static enum MHD_Result
begin(http_request *request)
{
	const char *length = NULL;
	bool asks = false;

	for (size_t i = 0; i < request->header_count && i < MAX_HEADERS; i++)
	{
		if (strcasecmp(request->headers[2 * i], "Content-Length") == 0)
			length = request->headers[2 * i + 1];
		else if (strcasecmp(request->headers[2 * i], "Expect") == 0)
			asks = true;
	}
	if (asks && length != NULL &&
		strtoull(length, NULL, 10) > request->server->options.max_request_bytes)
	{
		request->too_large = true;
		return arrived(request);
	}
	return MHD_YES;
}

static enum MHD_Result
handle(void *argument, struct MHD_Connection *connection, const char *url, const char *http_method,
	   const char *version, const char *bytes, size_t *size, void **context)
{
	http_server *server = argument;
	http_request *request = *context;

	(void) version;
	if (request == NULL)
	{
		request = request_take(&server->pool);
		if (request == NULL)
			return MHD_NO;
		*context = request;
		request->server = server;
		request->call.address = server->options.address;
		request->connection = connection;
		__atomic_add_fetch(&server->receiving, 1, __ATOMIC_RELAXED);
		request_read_head(request, server->options.path_prefix, url, http_method);
		__atomic_add_fetch(
			&server->requests[request->call.method != NULL ? request->call.method->index
														   : SERVICE_METHOD_COUNT],
			1, __ATOMIC_RELAXED);
		return begin(request);
	}
	if (__atomic_load_n(&server->stopping, __ATOMIC_RELAXED))
		return drop(request);
	switch (request->step)
	{
		case STEP_RECEIVE:
			return receive(request, bytes, size);
		case STEP_RUN:
			return run(request);
		case STEP_ANSWER:
			return answer(request);
		case STEP_DROP:
			break;
	}
	return drop(request);
}

static void
request_completed(void *argument, struct MHD_Connection *connection, void **context,
				  enum MHD_RequestTerminationCode how)
{
	http_server *server = argument;
	http_request *request = *context;

	(void) connection;
	(void) how;
	if (request == NULL)
		return;
	/* Its peer left before it was answered; what it did, it has done. */
	log_end(request, 0, NULL);
	service_drop(server->options.service, &request->call);
	__atomic_sub_fetch(request->step == STEP_RECEIVE ? &server->receiving : &server->running, 1,
					   __ATOMIC_RELAXED);
	request_give(&server->pool, request);
	*context = NULL;
}

/* Each connection has its number, for the log. */
static void
connection_changed(void *argument, struct MHD_Connection *connection, void **context,
				   enum MHD_ConnectionNotificationCode what)
{
	http_server *server = argument;

	(void) connection;
	if (what == MHD_CONNECTION_NOTIFY_STARTED)
	{
		uint64_t *number = malloc(sizeof(*number));

		if (number == NULL)
			abort();
		*number = ++server->connections;
		*context = number;
	}
	else
		free(*context);
}

/* Paths are compared as they stand: nothing of ours needs an escape. */
static size_t
keep_escapes(void *argument, struct MHD_Connection *connection, char *text)
{
	(void) argument;
	(void) connection;
	return strlen(text);
}

http_server *
http_start(const http_options *options)
{
	http_server *server = calloc(1, sizeof(*server));
	unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME;
	struct MHD_OptionItem tls[] = {
		{MHD_OPTION_HTTPS_MEM_CERT, 0, (void *) options->tls_certificate},
		{MHD_OPTION_HTTPS_MEM_KEY, 0, (void *) options->tls_key},
		{MHD_OPTION_END, 0, NULL}};

	if (server == NULL)
		return NULL;
	server->options = *options;
	server->pool.max_request_bytes = options->max_request_bytes;
	if (options->tls_certificate != NULL)
		flags |= MHD_USE_TLS;
	else
		tls[0].option = MHD_OPTION_END;
	server->daemon = MHD_start_daemon(
		flags, 0, NULL, NULL, handle, server, MHD_OPTION_LISTEN_SOCKET, options->listen_socket,
		MHD_OPTION_NOTIFY_COMPLETED, request_completed, server, MHD_OPTION_NOTIFY_CONNECTION,
		connection_changed, server, MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, server,
		MHD_OPTION_CONNECTION_TIMEOUT, options->idle_seconds, MHD_OPTION_CONNECTION_LIMIT,
		(unsigned) CONNECTIONS, MHD_OPTION_THREAD_STACK_SIZE, (size_t) STACK_BYTES,
		MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_ARRAY, tls, MHD_OPTION_END);
	if (server->daemon == NULL)
	{
		free(server);
		return NULL;
	}
	return server;
}

uint64_t
http_requests(http_server *server, const service_method *method)
{
	return __atomic_load_n(&server->requests[method != NULL ? method->index : SERVICE_METHOD_COUNT],
						   __ATOMIC_RELAXED);
}

/*
 * True when no request is running any more.  One that is still coming in counts
 * while it makes progress: libmicrohttpd notices late that a peer is gone.
 */
static bool
is_quiet(http_server *server)
{
	if (__atomic_load_n(&server->running, __ATOMIC_RELAXED) > 0)
		return false;
	return __atomic_load_n(&server->receiving, __ATOMIC_RELAXED) == 0 ||
		   monotonic_us() - __atomic_load_n(&server->received_us, __ATOMIC_RELAXED) > PROGRESS_US;
}

static void
wait_until_quiet(http_server *server, int64_t end_us)
{
	static const struct timespec pause = {0, 2000000};

	while (!is_quiet(server) && monotonic_us() < end_us)
		nanosleep(&pause, NULL);
}

void
http_quiesce(http_server *const *servers, int count, int patience_ms)
{
	int64_t end_us = monotonic_us() + (int64_t) patience_ms * 1000;

	for (int i = 0; i < count; i++)
	{
		int listen_socket;

		__atomic_store_n(&servers[i]->closing, true, __ATOMIC_RELAXED);
		listen_socket = MHD_quiesce_daemon(servers[i]->daemon);
		if (listen_socket >= 0)
			close(listen_socket);
	}
	for (int i = 0; i < count; i++)
		wait_until_quiet(servers[i], end_us);
	/*
	 * What still waits is woken and dropped; libmicrohttpd must not be stopped
	 * over a suspended connection.  A slow reader of a large answer is not waited
	 * for a second time.
	 */
	for (int i = 0; i < count; i++)
		__atomic_store_n(&servers[i]->stopping, true, __ATOMIC_RELAXED);
	if (count > 0)
	{
		timers_hurry(servers[0]->options.timers);
		service_hurry(servers[0]->options.service);
	}
	end_us = monotonic_us() + 500000;
	for (int i = 0; i < count; i++)
		wait_until_quiet(servers[i], end_us);
}

void
http_stop(http_server *server)
{
	MHD_stop_daemon(server->daemon);
	request_pool_free(&server->pool);
	free(server);
}
