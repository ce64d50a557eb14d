/*
 * conformance_client.c
 *		Lets the official Connect conformance runner drive the core's transport
 *		and Connect rules.
 *
 * Reads requests from standard input and writes results to standard output, one
 * after the other: four bytes of length, most significant first, and a message
 * (ClientCompatRequest, ClientCompatResponse).  Test code: memory comes from
 * malloc(), and what cannot go on ends the program.
 */
#include "conformance_json.h"
#include "connect.h"
#include "transport.h"

#include "connectrpc/conformance/v1/client_compat.pb-c.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#include <zlib.h>

typedef Connectrpc__Conformance__V1__ClientCompatRequest compat_request;
typedef Connectrpc__Conformance__V1__ClientCompatResponse compat_response;
typedef Connectrpc__Conformance__V1__ClientResponseResult compat_result;
typedef Connectrpc__Conformance__V1__Header compat_header;
typedef Connectrpc__Conformance__V1__Error compat_error;

#define INIT(pointer, type) connectrpc__conformance__v1__##type##__init(pointer)

#define MAX_ANSWER (16 * 1024 * 1024)
#define NO_TIMEOUT_MS 60000

static verdict_host host;
static verdict_runtime *runtime;

static void
die(const char *message)
{
	fprintf(stderr, "conformance client: %s\n", message);
	exit(1);
}

static void *
need(void *memory)
{
	if (memory == NULL)
		die("out of memory");
	return memory;
}

/* ---- pools, one for each way to reach a server ---- */

static verdict_pool *pool;
static verdict_http_version pool_version;
static char *pool_cert;

/* The pool that fits the request; the one before is left when it does not. */
static verdict_pool *
pool_for(const compat_request *request)
{
	static char cert_file[] = "/tmp/verdict-conformance-XXXXXX";
	static bool cert_file_made;
	verdict_http_version version =
		request->http_version == CONNECTRPC__CONFORMANCE__V1__HTTPVERSION__HTTP_VERSION_2
			? VERDICT_HTTP_2
			: VERDICT_HTTP_1_1;
	char *cert =
		need(strndup((char *) request->server_tls_cert.data, request->server_tls_cert.len));
	verdict_pool_options options;
	verdict_status status;

	if (pool != NULL && version == pool_version && strcmp(cert, pool_cert) == 0)
	{
		free(cert);
		return pool;
	}
	verdict_pool_destroy(pool);
	free(pool_cert);
	pool_version = version;
	pool_cert = cert;
	memset(&options, 0, sizeof(options));
	options.http_version = version;
	options.max_response_bytes = MAX_ANSWER;
	if (cert[0] != '\0')
	{
		FILE *file;

		if (!cert_file_made && close(mkstemp(cert_file)) != 0)
			die("no file for the certificate");
		cert_file_made = true;
		file = fopen(cert_file, "w");
		if (file == NULL || fputs(cert, file) < 0 || fclose(file) != 0)
			die("the certificate could not be written");
		options.ssl_ca_file = cert_file;
	}
	pool = verdict_pool_create(runtime, &options, &status);
	if (pool == NULL)
		die(status.message);
	return pool;
}

/* ---- requests ---- */

static verdict_wire_format
format_of(const compat_request *request)
{
	return request->codec == CONNECTRPC__CONFORMANCE__V1__CODEC__CODEC_JSON ? VERDICT_WIRE_JSON
																			: VERDICT_WIRE_BINARY;
}

static void
compress_body(verdict_buffer *body)
{
	size_t room = body->size + 1024;
	unsigned char *out = need(malloc(room));
	z_stream stream;

	memset(&stream, 0, sizeof(stream));
	if (deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		die("zlib failed");
	stream.next_in = (Bytef *) body->bytes;
	stream.avail_in = (uInt) body->size;
	stream.next_out = out;
	stream.avail_out = (uInt) room;
	if (deflate(&stream, Z_FINISH) != Z_STREAM_END)
		die("zlib failed");
	verdict_buffer_reset(body);
	verdict_buffer_append(body, out, stream.total_out);
	deflateEnd(&stream);
	free(out);
}

static void
build_body(const compat_request *request, verdict_buffer *body)
{
	const Google__Protobuf__Any *any;

	if (request->n_request_messages != 1)
		die("a unary call has one message");
	any = request->request_messages[0];
	if (format_of(request) == VERDICT_WIRE_BINARY)
		verdict_buffer_append(body, any->value.data, any->value.len);
	else
	{
		const ProtobufCMessageDescriptor *type = conformance_type(any->type_url);
		ProtobufCMessage *message;
		json_t *json;
		char *text;

		if (type == NULL)
			die("unknown type of request");
		message = need(protobuf_c_message_unpack(type, NULL, any->value.len, any->value.data));
		json = conformance_to_json(message);
		text = need(json_dumps(json, JSON_COMPACT));
		verdict_buffer_append_string(body, text);
		free(text);
		json_decref(json);
		protobuf_c_message_free_unpacked(message, NULL);
	}
}

static void
build_lines(const compat_request *request, verdict_buffer *lines, bool compressed)
{
	size_t i;
	size_t j;

	verdict_connect_add_headers(lines, format_of(request));
	if (request->has_timeout_ms_case ==
		CONNECTRPC__CONFORMANCE__V1__CLIENT_COMPAT_REQUEST__HAS_TIMEOUT_MS_TIMEOUT_MS)
		verdict_connect_add_timeout(lines, request->timeout_ms);
	if (compressed)
		verdict_connect_add_header(lines, "Content-Encoding", "gzip");
	for (i = 0; i < request->n_request_headers; i++)
		for (j = 0; j < request->request_headers[i]->n_value; j++)
			verdict_connect_add_header(lines, request->request_headers[i]->name,
									   request->request_headers[i]->value[j]);
}

/* ---- results ---- */

static void
add_header(compat_header ***list, size_t *count, const char *name, const char *value)
{
	compat_header *header;
	size_t i;

	for (i = 0; i < *count; i++)
		if (strcasecmp((*list)[i]->name, name) == 0)
			break;
	if (i == *count)
	{
		*list = need(realloc(*list, (i + 1) * sizeof(**list)));
		header = need(malloc(sizeof(*header)));
		INIT(header, header);
		header->name = need(strdup(name));
		(*list)[(*count)++] = header;
	}
	header = (*list)[i];
	header->value = need(realloc(header->value, (header->n_value + 1) * sizeof(char *)));
	header->value[header->n_value++] = need(strdup(value));
}

static void
take_headers(const verdict_headers *headers, compat_result *result)
{
	size_t position = 0;
	const char *name;
	const char *value;

	while (verdict_headers_next(headers, &position, &name, &value))
	{
		const char *trailer = verdict_connect_trailer_name(name);

		if (trailer != NULL)
			add_header(&result->response_trailers, &result->n_response_trailers, trailer, value);
		else
			add_header(&result->response_headers, &result->n_response_headers, name, value);
	}
}

static void
take_error(const verdict_status *status, const verdict_connect_error *error, compat_result *result)
{
	compat_error *told = need(malloc(sizeof(*told)));
	size_t i;

	INIT(told, error);
	told->code = (Connectrpc__Conformance__V1__Code) status->code;
	told->has_message_case = CONNECTRPC__CONFORMANCE__V1__ERROR__HAS_MESSAGE_MESSAGE;
	told->message = need(strdup(error->message != NULL ? error->message : status->message));
	told->details = need(calloc(error->detail_count + 1, sizeof(*told->details)));
	for (i = 0; i < error->detail_count; i++)
	{
		Google__Protobuf__Any *any = need(malloc(sizeof(*any)));
		size_t room = strlen(error->details[i].type) + 32;

		google__protobuf__any__init(any);
		any->type_url = need(malloc(room));
		snprintf(any->type_url, room, "type.googleapis.com/%s", error->details[i].type);
		any->value.len = error->details[i].size;
		any->value.data = need(malloc(any->value.len + 1));
		memcpy(any->value.data, error->details[i].value, any->value.len);
		told->details[told->n_details++] = any;
	}
	result->error = told;
}

/* The payload of the answer; false when the body does not decode. */
static bool
take_payload(const verdict_buffer *body, verdict_wire_format format, compat_result *result)
{
	const ProtobufCMessageDescriptor *type =
		&connectrpc__conformance__v1__unary_response__descriptor;
	Connectrpc__Conformance__V1__UnaryResponse *response;

	if (format == VERDICT_WIRE_BINARY || body->size == 0)
		response = (Connectrpc__Conformance__V1__UnaryResponse *) protobuf_c_message_unpack(
			type, NULL, body->size, (uint8_t *) body->bytes);
	else
	{
		json_t *json = json_loadb(body->bytes, body->size, 0, NULL);

		response = (Connectrpc__Conformance__V1__UnaryResponse *) conformance_from_json(type, json);
		json_decref(json);
	}
	if (response == NULL)
		return false;
	result->payloads = need(malloc(sizeof(*result->payloads)));
	result->n_payloads = 1;
	result->payloads[0] = response->payload;
	if (response->payload == NULL)
	{
		result->payloads[0] = need(malloc(sizeof(*response->payload)));
		INIT(result->payloads[0], conformance_payload);
	}
	response->payload = NULL;
	protobuf_c_message_free_unpacked(&response->base, NULL);
	return true;
}

/* ---- one call ---- */

/*
 * Waits for the end of the exchange, the time-out or the moment to cancel; says
 * in the status which of the last two it was, if one.
 */
static bool
wait_for_end(const compat_request *request, verdict_exchange *exchange, int64_t start_us,
			 int timeout_ms, verdict_status *status)
{
	int64_t deadline_us = start_us + (int64_t) timeout_ms * 1000;
	int64_t cancel_us = INT64_MAX;

	if (request->cancel != NULL)
		cancel_us = start_us + (int64_t) request->cancel->after_close_send_ms * 1000;
	while (!verdict_exchange_done(exchange))
	{
		int64_t now_us = host.monotonic_us(host.context);

		if (now_us >= cancel_us)
			return verdict_status_fail(status, VERDICT_CANCELED, VERDICT_CAUSE_INTERRUPTED,
									   "canceled");
		if (now_us >= deadline_us)
			return verdict_status_fail(status, VERDICT_DEADLINE_EXCEEDED, VERDICT_CAUSE_DEADLINE,
									   "the time is over");
		verdict_runtime_wait(runtime, deadline_us < cancel_us ? deadline_us : cancel_us);
	}
	return verdict_exchange_result(exchange, false, status);
}

static void
call(const compat_request *request, compat_result *result)
{
	verdict_wire_format format = format_of(request);
	bool tls = request->server_tls_cert.len > 0;
	bool compressed =
		request->compression == CONNECTRPC__CONFORMANCE__V1__COMPRESSION__COMPRESSION_GZIP;
	int timeout_ms = request->has_timeout_ms_case != 0 ? (int) request->timeout_ms : NO_TIMEOUT_MS;
	char base[300];
	verdict_buffer url;
	verdict_buffer lines;
	verdict_buffer body;
	verdict_arena arena;
	verdict_request sent;
	verdict_status status;
	verdict_connect_error error;
	verdict_exchange *exchange;
	const verdict_buffer *answer;

	verdict_status_init(&status);
	memset(&error, 0, sizeof(error));
	verdict_arena_init(&arena, &host, MAX_ANSWER);
	verdict_buffer_init(&url, &host, MAX_ANSWER);
	verdict_buffer_init(&lines, &host, MAX_ANSWER);
	verdict_buffer_init(&body, &host, MAX_ANSWER);
	snprintf(base, sizeof(base), "%s://%s:%u", tls ? "https" : "http", request->host,
			 request->port);
	verdict_connect_url(&url, base, request->service, request->method);
	build_body(request, &body);
	if (compressed)
		compress_body(&body);
	build_lines(request, &lines, compressed);

	exchange = verdict_exchange_acquire(pool_for(request), &status);
	if (exchange == NULL)
		die(status.message);
	sent.url = url.bytes;
	sent.headers.bytes = lines.bytes;
	sent.headers.size = lines.size;
	sent.body = body.bytes;
	sent.body_size = body.size;
	sent.timeout_ms = timeout_ms;
	sent.fresh_connection = false;
	usleep(request->request_delay_ms * 1000);
	if (!verdict_exchange_start(exchange, &sent, &status))
		die(status.message);
	if (wait_for_end(request, exchange, host.monotonic_us(host.context), timeout_ms, &status))
	{
		answer = verdict_exchange_body(exchange);
		if (verdict_connect_check_answer(verdict_exchange_headers(exchange), answer->bytes,
										 answer->size, format, false, 0, &arena, &error, &status) &&
			!take_payload(answer, format, result))
			verdict_status_fail(&status, VERDICT_INTERNAL, VERDICT_CAUSE_ANSWER,
								"the body does not decode");
	}
	if (status.code != VERDICT_OK)
		take_error(&status, &error, result);
	take_headers(verdict_exchange_headers(exchange), result);
	verdict_exchange_release(exchange);
	verdict_arena_free(&arena);
	verdict_buffer_free(&url);
	verdict_buffer_free(&lines);
	verdict_buffer_free(&body);
}

/* ---- the runner ---- */

/* False at the end of the input. */
static bool
read_all(void *bytes, size_t size)
{
	size_t got = fread(bytes, 1, size, stdin);

	if (got == 0 && feof(stdin))
		return false;
	if (got != size)
		die("the input ends in the middle of a message");
	return true;
}

static compat_request *
read_request(void)
{
	unsigned char length[4];
	size_t size;
	uint8_t *bytes;
	compat_request *request;

	if (!read_all(length, sizeof(length)))
		return NULL;
	size =
		(size_t) length[0] << 24 | (size_t) length[1] << 16 | (size_t) length[2] << 8 | length[3];
	bytes = need(malloc(size + 1));
	if (size > 0 && !read_all(bytes, size))
		die("the input ends in the middle of a message");
	request = need(connectrpc__conformance__v1__client_compat_request__unpack(NULL, size, bytes));
	free(bytes);
	return request;
}

static void
write_response(const compat_response *response)
{
	size_t size = connectrpc__conformance__v1__client_compat_response__get_packed_size(response);
	uint8_t *bytes = need(malloc(size + 4));

	bytes[0] = (uint8_t) (size >> 24);
	bytes[1] = (uint8_t) (size >> 16);
	bytes[2] = (uint8_t) (size >> 8);
	bytes[3] = (uint8_t) size;
	connectrpc__conformance__v1__client_compat_response__pack(response, bytes + 4);
	if (fwrite(bytes, 1, size + 4, stdout) != size + 4 || fflush(stdout) != 0)
		die("the result could not be written");
	free(bytes);
}

int
main(void)
{
	verdict_status status;
	compat_request *request;

	verdict_host_init_posix(&host);
	runtime = verdict_runtime_create(&host, &status);
	if (runtime == NULL)
		die(status.message);
	while ((request = read_request()) != NULL)
	{
		compat_response *response = need(malloc(sizeof(*response)));

		INIT(response, client_compat_response);
		response->test_name = need(strdup(request->test_name));
		response->result_case =
			CONNECTRPC__CONFORMANCE__V1__CLIENT_COMPAT_RESPONSE__RESULT_RESPONSE;
		response->response = need(malloc(sizeof(*response->response)));
		INIT(response->response, client_response_result);
		call(request, response->response);
		write_response(response);
		connectrpc__conformance__v1__client_compat_response__free_unpacked(response, NULL);
		connectrpc__conformance__v1__client_compat_request__free_unpacked(request, NULL);
	}
	verdict_pool_destroy(pool);
	free(pool_cert);
	verdict_runtime_destroy(runtime);
	return 0;
}
