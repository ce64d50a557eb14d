/*
 * test_conformance.c
 *		The unary cases of the Connect conformance suite, as far as they concern a
 *		client, played back by the scripted peer.
 *
 * One row of the table a case of the suite (57 in all), by its name there; each
 * is run in both codecs and with plain and compressed answers.  What the suite's
 * own service would answer is written out as bytes.  The suite itself is run by
 * test/conformance/run where it can be had.
 */
#include "connect.h"
#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

static rig r;
static verdict_pool *pool;
static verdict_exchange *exchange;

/* A detail as the suite's server sends it: a type and four bytes. */
#define DETAIL "{\"type\":\"connectrpc.conformance.v1.Header\",\"value\":\"CgJpZA\""

#define META_HEADERS "X-Custom-Header: foo\r\nX-Custom-Header: bar\r\nX-Custom-Header: baz\r\n"
#define META_TRAILERS "Trailer-X-Custom-Trailer: bing\r\nTrailer-X-Custom-Trailer: quux\r\n"

typedef enum shape
{
	ANSWER,		  /* the row's answer */
	CANCELED,	  /* canceled while the peer takes its time */
	TIMED_OUT,	  /* the peer ignores the time-out it was told */
	DEADLINE_TOLD /* the time-out arrives at the peer */
} shape;

typedef struct conformance_case
{
	const char *name;
	shape shape;
	int http_status;
	const char *content_type; /* NULL = none; "" = that of the codec; "!" = the other codec's */
	const char *headers;
	const char *body; /* NULL = none; "" = a message of the codec */
	verdict_code code;
	const char *message; /* NULL = none */
	size_t details;
	int header_values; /* of X-Custom-Header */
	int trailer_values;
} conformance_case;

#define SUCCESS(name, headers, values, trailers)                                                   \
	{                                                                                              \
		name, ANSWER, 200, "", headers, "", VERDICT_OK, NULL, 0, values, trailers                  \
	}
#define BARE(name, status, code)                                                                   \
	{                                                                                              \
		"HTTP to Connect Code Mapping/" name, ANSWER, status, NULL, "", NULL, code, NULL, 0, 0, 0  \
	}
#define JSON "application/json"
#define BROKEN(name, status, body, code, message, details)                                         \
	{                                                                                              \
		"Connect Error and End-Stream/error/" name, ANSWER, status, JSON, "", body, code, message, \
			details, 0, 0                                                                          \
	}
#define CODE(number, name, status)                                                                 \
	{                                                                                              \
		"Errors/unary/" name, ANSWER, status, JSON,                                                \
			"X-Custom-Header: foo\r\nTrailer-X-Custom-Trailer: bing\r\n",                          \
			"{\"code\":\"" name "\",\"message\":\"" name " failed\",\"details\":[" DETAIL "}]}",   \
			number, name " failed", 1, 1, 1                                                        \
	}

static const conformance_case cases[] = {
	SUCCESS("Basic/unary/success", "X-Custom-Header: foo\r\nTrailer-X-Custom-Trailer: bing\r\n", 1,
			1),
	{"Basic/unimplemented", ANSWER, 501, JSON, "",
	 "{\"code\":\"unimplemented\",\"message\":\"no such method\"}", VERDICT_UNIMPLEMENTED,
	 "no such method", 0, 0, 0},
	{"Client Cancellation/unary/cancel-after-close-send", CANCELED, 200, "", "", "",
	 VERDICT_CANCELED, NULL, 0, 0, 0},
	{"Timeouts/unary", TIMED_OUT, 200, "", "", "", VERDICT_DEADLINE_EXCEEDED, NULL, 0, 0, 0},
	{"Deadline Propagation/unary/success", DEADLINE_TOLD, 200, "", "", "", VERDICT_OK, NULL, 0, 0,
	 0},

	BARE("bad-request", 400, VERDICT_INTERNAL),
	BARE("unauthorized", 401, VERDICT_UNAUTHENTICATED),
	BARE("forbidden", 403, VERDICT_PERMISSION_DENIED),
	BARE("not-found", 404, VERDICT_UNIMPLEMENTED),
	BARE("conflict", 409, VERDICT_UNKNOWN),
	BARE("precondition-failed", 412, VERDICT_UNKNOWN),
	BARE("payload-too-large", 413, VERDICT_UNKNOWN),
	BARE("unsupported-media-type", 415, VERDICT_UNKNOWN),
	BARE("request-header-fields-too-large", 431, VERDICT_UNKNOWN),
	BARE("http-version-not-supported", 505, VERDICT_UNKNOWN),
	BARE("too-many-requests", 429, VERDICT_UNAVAILABLE),
	BARE("bad-gateway", 502, VERDICT_UNAVAILABLE),
	BARE("service-unavailable", 503, VERDICT_UNAVAILABLE),
	BARE("gateway-timeout", 504, VERDICT_UNAVAILABLE),

	{"Unexpected Responses/unmapped-http-status-code", ANSWER, 418, NULL, "", NULL, VERDICT_UNKNOWN,
	 NULL, 0, 0, 0},
	{"Unexpected Responses/nonexistent-http-status-code", ANSWER, 800, NULL, "", NULL,
	 VERDICT_UNKNOWN, NULL, 0, 0, 0},

	{"Connect Empty Responses/unary/empty-response", ANSWER, 200, "",
	 "X-Custom-Header: foo\r\nTrailer-X-Custom-Trailer: bing\r\n", NULL, VERDICT_OK, NULL, 0, 1, 1},

	{"Connect Unexpected Responses/unexpected-error-body", ANSWER, 403, "application/proto", "",
	 "\x0a\x03{\"}", VERDICT_PERMISSION_DENIED, NULL, 0, 0, 0},
	{"Connect Unexpected Responses/unexpected-content-type", ANSWER, 200, "image/jpeg", "", "",
	 VERDICT_UNKNOWN, NULL, 0, 0, 0},
	{"Connect Unexpected Responses/unexpected-codec", ANSWER, 200, "!", "", "", VERDICT_INTERNAL,
	 NULL, 0, 0, 0},
	{"Connect Unexpected Responses/unexpected-compression", ANSWER, 200, "",
	 "Content-Encoding: foo\r\n", "", VERDICT_INTERNAL, NULL, 0, 0, 0},

	BROKEN("null", 401, "null", VERDICT_UNAUTHENTICATED, NULL, 0),
	BROKEN("null-code", 401, "{\"code\":null,\"message\":\"oops\"}", VERDICT_UNAUTHENTICATED,
		   "oops", 0),
	BROKEN("missing-code", 401, "{\"message\":\"oops\"}", VERDICT_UNAUTHENTICATED, "oops", 0),
	BROKEN("unrecognized-code", 429, "{\"code\":\"foobar\",\"message\":\"oops\"}",
		   VERDICT_UNAVAILABLE, "oops", 0),
	BROKEN("missing-message", 422, "{\"code\":\"out_of_range\"}", VERDICT_OUT_OF_RANGE, NULL, 0),
	BROKEN("allow-unrecognized-fields", 422,
		   "{\"code\":\"out_of_range\",\"message\":\"oops\",\"unknown\":[{}],\"details\":[" DETAIL
		   "}]}",
		   VERDICT_OUT_OF_RANGE, "oops", 1),
	BROKEN("invalid-details-debug", 422,
		   "{\"code\":\"out_of_range\",\"message\":\"oops\",\"details\":[" DETAIL
		   ",\"debug\":\"not an object\"}]}",
		   VERDICT_OUT_OF_RANGE, "oops", 1),
	BROKEN("missing-details-debug", 422,
		   "{\"code\":\"out_of_range\",\"message\":\"oops\",\"details\":[" DETAIL "}]}",
		   VERDICT_OUT_OF_RANGE, "oops", 1),
	BROKEN("allow-unrecognized-fields-in-details", 422,
		   "{\"code\":\"out_of_range\",\"message\":\"oops\",\"details\":[" DETAIL
		   ",\"debug\":{\"id\":1},\"unknown\":true}]}",
		   VERDICT_OUT_OF_RANGE, "oops", 1),
	{"Connect Compressed Error and End-Stream/error/compressed", ANSWER, 422, JSON, "",
	 "{\"code\":\"out_of_range\",\"message\":\"oops\",\"details\":[" DETAIL "}]}",
	 VERDICT_OUT_OF_RANGE, "oops", 1, 0, 0},

	SUCCESS("Duplicate Metadata/unary/success", META_HEADERS META_TRAILERS, 3, 2),
	{"Duplicate Metadata/unary/error", ANSWER, 409, JSON, META_HEADERS META_TRAILERS,
	 "{\"code\":\"aborted\",\"message\":\"oops\"}", VERDICT_ABORTED, "oops", 0, 3, 2},

	CODE(VERDICT_CANCELED, "canceled", 499),
	CODE(VERDICT_UNKNOWN, "unknown", 500),
	CODE(VERDICT_INVALID_ARGUMENT, "invalid_argument", 400),
	CODE(VERDICT_DEADLINE_EXCEEDED, "deadline_exceeded", 504),
	CODE(VERDICT_NOT_FOUND, "not_found", 404),
	CODE(VERDICT_ALREADY_EXISTS, "already_exists", 409),
	CODE(VERDICT_PERMISSION_DENIED, "permission_denied", 403),
	CODE(VERDICT_RESOURCE_EXHAUSTED, "resource_exhausted", 429),
	CODE(VERDICT_FAILED_PRECONDITION, "failed_precondition", 400),
	CODE(VERDICT_ABORTED, "aborted", 409),
	CODE(VERDICT_OUT_OF_RANGE, "out_of_range", 400),
	CODE(VERDICT_UNIMPLEMENTED, "unimplemented", 501),
	CODE(VERDICT_INTERNAL, "internal", 500),
	CODE(VERDICT_UNAVAILABLE, "unavailable", 503),
	CODE(VERDICT_DATA_LOSS, "data_loss", 500),
	CODE(VERDICT_UNAUTHENTICATED, "unauthenticated", 401),
	{"Errors/unary/error-with-metadata", ANSWER, 400, JSON, META_HEADERS META_TRAILERS,
	 "{\"code\":\"invalid_argument\",\"message\":\"oops\",\"details\":[" DETAIL "}]}",
	 VERDICT_INVALID_ARGUMENT, "oops", 1, 3, 2},
	{"Errors/unary/unicode-error-message", ANSWER, 500, JSON, "",
	 "{\"code\":\"internal\",\"message\":\"a\\nb\\r\\nc \xe2\x98\xba \xf0\x9f\x98\xbf "
	 "\\uD83D\\uDE3F\"}",
	 VERDICT_INTERNAL, "a\nb\r\nc \xe2\x98\xba \xf0\x9f\x98\xbf \xf0\x9f\x98\xbf", 0, 0, 0},
};

/* The 57th, "Connect with GET/unary/success", is in posts_what_may_be_fetched(). */
_Static_assert(RIG_LENGTH(cases) == 56, "a case of the table is missing");

static void
make_pool(void)
{
	verdict_pool_options options;

	memset(&options, 0, sizeof(options));
	options.max_response_bytes = 1024 * 1024;
	pool = verdict_pool_create(r.runtime, &options, &r.status);
	assert_non_null(pool);
	exchange = verdict_exchange_acquire(pool, &r.status);
	assert_non_null(exchange);
}

static int
begin(void **state)
{
	(void) state;
	rig_begin(&r);
	make_pool();
	return 0;
}

static int
end(void **state)
{
	(void) state;
	verdict_exchange_release(exchange);
	verdict_pool_destroy(pool);
	rig_end(&r);
	return 0;
}

static const char *
codec_message(verdict_wire_format format)
{
	return format == VERDICT_WIRE_BINARY ? "\x0a\x0dtest response" : "{\"data\":\"test response\"}";
}

/* The answer of a row, compressed when there is something to compress. */
static peer_step
answer_of(const conformance_case *c, verdict_wire_format format, bool compress)
{
	verdict_wire_format other =
		format == VERDICT_WIRE_BINARY ? VERDICT_WIRE_JSON : VERDICT_WIRE_BINARY;
	const char *type = c->content_type;
	const char *body = c->body;
	char headers[1024];
	unsigned char compressed[1024];
	size_t size;
	z_stream stream;

	if (type != NULL && type[0] == '\0')
		type = verdict_wire_content_type(format);
	else if (type != NULL && type[0] == '!')
		type = verdict_wire_content_type(other);
	if (body != NULL && body[0] == '\0')
		body = codec_message(format);
	size = body != NULL ? strlen(body) : 0;
	compress = compress && size > 0 && strstr(c->headers, "Content-Encoding") == NULL;
	snprintf(headers, sizeof(headers), "%s%s%s%s%s", type != NULL ? "Content-Type: " : "",
			 type != NULL ? type : "", type != NULL ? "\r\n" : "", c->headers,
			 compress ? "Content-Encoding: gzip\r\n" : "");
	if (!compress)
		return peer_answer(r.peer, c->http_status, headers, body, size);

	memset(&stream, 0, sizeof(stream));
	deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 9, Z_DEFAULT_STRATEGY);
	stream.next_in = (Bytef *) body;
	stream.avail_in = (uInt) size;
	stream.next_out = compressed;
	stream.avail_out = sizeof(compressed);
	assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
	size = stream.total_out;
	deflateEnd(&stream);
	return peer_answer(r.peer, c->http_status, headers, compressed, size);
}

static int
count_headers(const char *name)
{
	const char *value;

	return verdict_headers_find(verdict_exchange_headers(exchange), name, &value);
}

/* Sends one request and waits for its end; false when the time is over first. */
static bool
perform(verdict_wire_format format, int timeout_ms, int cancel_after_ms)
{
	static const char data[] = "test data";
	int64_t deadline = r.support.host.monotonic_us(&r) + (int64_t) timeout_ms * 1000;
	verdict_buffer lines;
	verdict_buffer url;
	verdict_request request;
	bool done;

	verdict_buffer_init(&lines, &r.support.host, 4096);
	verdict_buffer_init(&url, &r.support.host, 4096);
	assert_true(verdict_connect_add_headers(&lines, format));
	assert_true(verdict_connect_add_timeout(&lines, timeout_ms));
	assert_true(verdict_connect_add_header(&lines, "X-Twice", "one"));
	assert_true(verdict_connect_add_header(&lines, "X-Twice", "two"));
	assert_true(verdict_connect_url(&url, peer_url(r.peer),
									"connectrpc.conformance.v1.ConformanceService", "Unary"));
	request.url = url.bytes;
	request.headers.bytes = lines.bytes;
	request.headers.size = lines.size;
	request.body = data;
	request.body_size = sizeof(data) - 1;
	request.timeout_ms = timeout_ms;
	request.fresh_connection = false;
	assert_true(verdict_exchange_start(exchange, &request, &r.status));
	r.interrupt_after_ms = cancel_after_ms;
	while (!verdict_exchange_done(exchange) && r.support.host.monotonic_us(&r) < deadline &&
		   verdict_runtime_wait(r.runtime, deadline) != VERDICT_WAIT_INTERRUPTED)
		;
	r.interrupt_after_ms = -1;
	done = verdict_exchange_done(exchange);
	verdict_buffer_free(&lines);
	verdict_buffer_free(&url);
	return done;
}

static void
run_answer(const conformance_case *c, verdict_wire_format format)
{
	verdict_connect_error error;
	verdict_arena arena;
	const verdict_buffer *body = verdict_exchange_body(exchange);
	bool succeeded;
	size_t i;

	verdict_arena_init(&arena, &r.support.host, 64 * 1024);
	memset(&error, 0, sizeof(error));
	verdict_status_init(&r.status);
	succeeded =
		verdict_exchange_result(exchange, false, &r.status) &&
		verdict_connect_check_answer(verdict_exchange_headers(exchange), body->bytes, body->size,
									 format, false, 0, &arena, &error, &r.status);
	if (r.status.code != c->code)
		fail_msg("%s: %s (%s)", c->name, verdict_code_name(r.status.code), r.status.message);
	assert_int_equal(succeeded, c->code == VERDICT_OK);
	assert_int_equal(count_headers("X-Custom-Header"), c->header_values);
	assert_int_equal(count_headers("Trailer-X-Custom-Trailer"), c->trailer_values);
	if (succeeded)
	{
		const char *expected = c->body == NULL ? "" : codec_message(format);

		assert_int_equal(body->size, strlen(expected));
		assert_memory_equal(body->bytes != NULL ? body->bytes : "", expected, strlen(expected));
	}
	else
	{
		assert_int_equal(error.message != NULL, c->message != NULL);
		if (error.message != NULL)
			assert_string_equal(error.message, c->message);
		assert_int_equal(error.detail_count, c->details);
		for (i = 0; i < error.detail_count; i++)
		{
			assert_string_equal(error.details[i].type, "connectrpc.conformance.v1.Header");
			assert_int_equal(error.details[i].size, 4);
			assert_memory_equal(error.details[i].value, "\x0a\x02id", 4);
		}
	}
	verdict_arena_free(&arena);
}

static void
run_case(const conformance_case *c, verdict_wire_format format, bool compress)
{
	int before = peer_request_count(r.peer);
	const peer_request *request;
	peer_step slow[] = {rig_act(PEER_PAUSE, 1500), answer_of(c, format, compress),
						rig_act(PEER_END, 0)};

	peer_clear(r.peer);
	switch (c->shape)
	{
		case ANSWER:
			rig_queue(&r, slow[1]);
			assert_true(perform(format, 10000, -1));
			run_answer(c, format);
			break;
		case DEADLINE_TOLD:
			rig_queue(&r, slow[1]);
			assert_true(perform(format, 2000, -1));
			run_answer(c, format);
			request = peer_request_at(r.peer, before);
			assert_in_range(atoi(peer_request_header(r.peer, request, "Connect-Timeout-Ms")), 1500,
							2000);
			break;
		case TIMED_OUT:
			peer_queue(r.peer, slow);
			assert_false(perform(format, 200, -1));
			assert_true(verdict_exchange_sent(exchange));
			verdict_exchange_abort(exchange);
			break;
		case CANCELED:
			peer_queue(r.peer, slow);
			assert_false(perform(format, 10000, 5));
			verdict_exchange_abort(exchange);
			break;
	}
	assert_true(peer_wait_requests(r.peer, before + 1));
	request = peer_request_at(r.peer, before);
	assert_memory_equal(request->bytes,
						"POST /connectrpc.conformance.v1.ConformanceService/Unary HTTP/1.1\r\n",
						67);
	assert_int_equal(peer_request_header_count(request, "X-Twice"), 2);
	assert_string_equal(peer_request_header(r.peer, request, "Content-Type"),
						verdict_wire_content_type(format));
	assert_int_equal(peer_request_header_count(request, "Content-Type"), 1);
	assert_int_equal(peer_request_header_count(request, "Connect-Protocol-Version"), 1);
	assert_null(peer_request_header(r.peer, request, "Trailer"));
}

static void
passes_the_table(void **state)
{
	size_t i;
	int compress;

	(void) state;
	for (i = 0; i < RIG_LENGTH(cases); i++)
		for (compress = 0; compress < 2; compress++)
		{
			run_case(&cases[i], VERDICT_WIRE_BINARY, compress == 1);
			run_case(&cases[i], VERDICT_WIRE_JSON, compress == 1);
		}
}

/*
 * "Connect with GET/unary/success".  A method without side effects may be
 * fetched by GET; this client never does so: a cache on the way could answer,
 * and who asks for what would stand in its log.
 */
static void
posts_what_may_be_fetched(void **state)
{
	const peer_request *request;

	(void) state;
	rig_client(&r);
	rig_queue(&r, rig_yes(&r, "Cache-Control: max-age=3600\r\n"));
	rig_queue(&r, peer_answer(r.peer, 200, "Content-Type: application/proto\r\n", "", 0));
	assert_true(rig_authorize(&r));
	assert_true(r.allowed);
	/* Nothing is kept of an answer, whatever it says. */
	assert_true(rig_authorize(&r));
	assert_false(r.allowed);
	assert_int_equal(peer_request_count(r.peer), 2);
	request = peer_request_at(r.peer, 1);
	assert_memory_equal(request->bytes, "POST /verdict.v1.VerdictService/Authorize HTTP/1.1\r\n",
						52);
	assert_null(strstr(request->bytes, "message="));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(passes_the_table, begin, end),
		cmocka_unit_test_setup_teardown(posts_what_may_be_fetched, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
