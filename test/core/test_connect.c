/*
 * test_connect.c
 *		The rules of Connect unary, one table after the other: addresses, request
 *		headers, error bodies, what every answer means.
 */
#include "connect.h"
#include "rig.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

static support_host support;
static verdict_arena arena;
static verdict_headers headers;

static int
begin(void **state)
{
	(void) state;
	support_host_init(&support);
	verdict_arena_init(&arena, &support.host, 1024 * 1024);
	verdict_headers_init(&headers, &support.host);
	return 0;
}

static int
end(void **state)
{
	(void) state;
	verdict_headers_free(&headers);
	verdict_arena_free(&arena);
	return support.live == 0 ? 0 : -1;
}

static void
builds_urls(void **state)
{
	static const char *const cases[][2] = {
		{"http://h", "http://h/verdict.v1.VerdictService/Authorize"},
		{"http://h/", "http://h/verdict.v1.VerdictService/Authorize"},
		{"https://h:8443/a/b", "https://h:8443/a/b/verdict.v1.VerdictService/Authorize"},
		{"https://h/a//", "https://h/a/verdict.v1.VerdictService/Authorize"},
	};
	size_t i;

	(void) state;
	for (i = 0; i < RIG_LENGTH(cases); i++)
	{
		verdict_buffer url;

		verdict_buffer_init(&url, &support.host, 1000);
		assert_true(verdict_connect_url(&url, cases[i][0], VERDICT_SERVICE, "Authorize"));
		assert_string_equal(url.bytes, cases[i][1]);
		verdict_buffer_free(&url);
	}
}

static void
writes_request_headers(void **state)
{
	static const struct
	{
		int64_t left;
		const char *header;
	} timeouts[] = {
		{INT64_MIN, "Connect-Timeout-Ms: 1"},
		{0, "Connect-Timeout-Ms: 1"},
		{1, "Connect-Timeout-Ms: 1"},
		{12000, "Connect-Timeout-Ms: 12000"},
		{2147483647, "Connect-Timeout-Ms: 2147483647"},
		{2147483648, "Connect-Timeout-Ms: 2147483647"},
		{INT64_MAX, "Connect-Timeout-Ms: 2147483647"},
	};
	verdict_buffer lines;
	size_t i;

	(void) state;
	verdict_buffer_init(&lines, &support.host, 1000);
	assert_true(verdict_connect_add_headers(&lines, VERDICT_WIRE_BINARY));
	assert_true(verdict_connect_add_headers(&lines, VERDICT_WIRE_JSON));
	assert_memory_equal(lines.bytes,
						"Connect-Protocol-Version: 1\0Content-Type: application/proto\0"
						"Connect-Protocol-Version: 1\0Content-Type: application/json",
						lines.size);
	for (i = 0; i < RIG_LENGTH(timeouts); i++)
	{
		verdict_buffer_reset(&lines);
		assert_true(verdict_connect_add_timeout(&lines, timeouts[i].left));
		assert_string_equal(lines.bytes, timeouts[i].header);
		assert_int_equal(lines.size, strlen(timeouts[i].header) + 1);
	}
	verdict_buffer_free(&lines);
}

static void
maps_http_statuses(void **state)
{
	int http_status;

	(void) state;
	for (http_status = 100; http_status < 1000; http_status++)
	{
		verdict_code expected = VERDICT_UNKNOWN;

		switch (http_status)
		{
			case 400:
				expected = VERDICT_INTERNAL;
				break;
			case 401:
				expected = VERDICT_UNAUTHENTICATED;
				break;
			case 403:
				expected = VERDICT_PERMISSION_DENIED;
				break;
			case 404:
				expected = VERDICT_UNIMPLEMENTED;
				break;
			case 429:
			case 502:
			case 503:
			case 504:
				expected = VERDICT_UNAVAILABLE;
				break;
		}
		assert_int_equal(verdict_connect_code_of_http(http_status), expected);
	}
}

static void
reads_error_bodies(void **state)
{
	static const struct
	{
		const char *body;
		verdict_code code;
		const char *message;
		size_t details;
	} cases[] = {
		{"", VERDICT_OK, NULL, 0},
		{"null", VERDICT_OK, NULL, 0},
		{"[]", VERDICT_OK, NULL, 0},
		{"\"code\"", VERDICT_OK, NULL, 0},
		{"{", VERDICT_OK, NULL, 0},
		{"{}", VERDICT_OK, NULL, 0},
		{"{\"code\":null,\"message\":\"oops\"}", VERDICT_OK, "oops", 0},
		{"{\"message\":\"oops\"}", VERDICT_OK, "oops", 0},
		{"{\"code\":\"foobar\",\"message\":\"oops\"}", VERDICT_OK, "oops", 0},
		{"{\"code\":\"ok\"}", VERDICT_OK, NULL, 0},
		{"{\"code\":5,\"message\":7}", VERDICT_OK, NULL, 0},
		{"{\"code\":\"OUT_OF_RANGE\"}", VERDICT_OK, NULL, 0},
		{"{\"code\":\"out_of_range\"}", VERDICT_OUT_OF_RANGE, NULL, 0},
		{"{\"code\":\"aborted\",\"message\":null,\"details\":null}", VERDICT_ABORTED, NULL, 0},
		{"{\"code\":\"aborted\",\"details\":{\"type\":\"a\",\"value\":\"\"}}", VERDICT_ABORTED,
		 NULL, 0},
		{"{\"code\":\"aborted\",\"x\":{\"y\":[1]},\"details\":[{\"type\":\"a.B\",\"value\":\"CAE\","
		 "\"debug\":{\"z\":1}},{\"value\":\"CAE\"},{\"type\":\"a\",\"value\":\"*\"},5,"
		 "{\"type\":\"c\",\"value\":\"_-8=\",\"n\":1}]}",
		 VERDICT_ABORTED, NULL, 2},
		/* Not JSON that may be trusted: a name twice, a NUL, bytes that are not UTF-8. */
		{"{\"code\":\"aborted\",\"code\":\"not_found\"}", VERDICT_OK, NULL, 0},
		{"{\"code\":\"aborted\",\"message\":\"a\\u0000b\"}", VERDICT_OK, NULL, 0},
		{"{\"code\":\"aborted\",\"message\":\"\xff\"}", VERDICT_OK, NULL, 0},
		{"{\"code\":\"aborted\"} x", VERDICT_OK, NULL, 0},
	};
	verdict_connect_error error;
	size_t i;

	(void) state;
	for (i = 0; i < RIG_LENGTH(cases); i++)
	{
		verdict_arena_reset(&arena);
		assert_true(
			verdict_connect_parse_error(&arena, cases[i].body, strlen(cases[i].body), &error));
		assert_int_equal(error.code, cases[i].code);
		assert_int_equal(error.message != NULL, cases[i].message != NULL);
		if (error.message != NULL)
			assert_string_equal(error.message, cases[i].message);
		assert_int_equal(error.detail_count, cases[i].details);
	}

	/* The details of the longest one. */
	verdict_connect_parse_error(&arena, cases[15].body, strlen(cases[15].body), &error);
	assert_string_equal(error.details[0].type, "a.B");
	assert_int_equal(error.details[0].size, 2);
	assert_memory_equal(error.details[0].value, "\x08\x01", 2);
	assert_string_equal(error.details[1].type, "c");
	assert_int_equal(error.details[1].size, 2);
	assert_memory_equal(error.details[1].value, "\xff\xef", 2);
}

static void
knows_every_code(void **state)
{
	int code;

	(void) state;
	for (code = VERDICT_CANCELED; code <= VERDICT_UNAUTHENTICATED; code++)
	{
		verdict_connect_error error;
		char body[64];

		snprintf(body, sizeof(body), "{\"code\":\"%s\"}", verdict_code_name(code));
		assert_true(verdict_connect_parse_error(&arena, body, strlen(body), &error));
		assert_int_equal(error.code, code);
	}
}

/* What an answer of these parts means; the status is made anew. */
static bool
check(int http_status, const char *header_lines, const char *body, verdict_wire_format format,
	  bool keyed, verdict_status *status)
{
	char line[256];

	verdict_headers_reset(&headers);
	snprintf(line, sizeof(line), "HTTP/1.1 %d X\r\n", http_status);
	assert_int_equal(verdict_headers_add_line(&headers, line, strlen(line)), VERDICT_HEADERS_MORE);
	while (*header_lines != '\0')
	{
		size_t size = strcspn(header_lines, "\n") + 1;

		assert_int_equal(verdict_headers_add_line(&headers, header_lines, size),
						 VERDICT_HEADERS_MORE);
		header_lines += size;
	}
	assert_int_equal(verdict_headers_add_line(&headers, "\r\n", 2), VERDICT_HEADERS_COMPLETE);
	verdict_status_init(status);
	verdict_arena_reset(&arena);
	return verdict_connect_check_answer(&headers, body, strlen(body), format, keyed, 1767225600,
										&arena, NULL, status);
}

static void
checks_the_content_type_of_a_success(void **state)
{
	static const struct
	{
		const char *headers;
		verdict_wire_format format;
		verdict_code code;
	} cases[] = {
		{"Content-Type: application/proto\r\n", VERDICT_WIRE_BINARY, VERDICT_OK},
		{"Content-Type: Application/Proto\r\n", VERDICT_WIRE_BINARY, VERDICT_OK},
		{"Content-Type: application/json\r\n", VERDICT_WIRE_JSON, VERDICT_OK},
		{"Content-Type: application/json; charset=utf-8\r\n", VERDICT_WIRE_JSON, VERDICT_OK},
		{"Content-Type: application/json ;charset=utf-8\r\n", VERDICT_WIRE_JSON, VERDICT_OK},
		{"Content-Type: application/json\r\n", VERDICT_WIRE_BINARY, VERDICT_INTERNAL},
		{"Content-Type: application/proto\r\n", VERDICT_WIRE_JSON, VERDICT_INTERNAL},
		{"Content-Type: application/protox\r\n", VERDICT_WIRE_BINARY, VERDICT_INTERNAL},
		{"Content-Type: application/\r\n", VERDICT_WIRE_BINARY, VERDICT_INTERNAL},
		{"Content-Type: image/jpeg\r\n", VERDICT_WIRE_BINARY, VERDICT_UNKNOWN},
		{"Content-Type: text/html\r\n", VERDICT_WIRE_JSON, VERDICT_UNKNOWN},
		{"Content-Type:\r\n", VERDICT_WIRE_BINARY, VERDICT_UNKNOWN},
		{"", VERDICT_WIRE_BINARY, VERDICT_UNKNOWN},
		{"Content-Type: application/proto\r\nContent-Type: application/proto\r\n",
		 VERDICT_WIRE_BINARY, VERDICT_UNKNOWN},
	};
	size_t i;

	(void) state;
	for (i = 0; i < RIG_LENGTH(cases); i++)
	{
		verdict_status status;
		bool succeeded = check(200, cases[i].headers, "\x08\x01", cases[i].format, false, &status);

		assert_int_equal(succeeded, cases[i].code == VERDICT_OK);
		assert_int_equal(status.code, cases[i].code);
		if (succeeded)
			continue;
		assert_int_equal(status.cause, VERDICT_CAUSE_ANSWER);
		/* It may have run, and "unknown" is not the instance's word. */
		assert_int_equal(status.outcome, VERDICT_OUTCOME_MAYBE_APPLIED);
		assert_int_equal(status.inferred, cases[i].code == VERDICT_UNKNOWN);
		assert_int_equal(status.http_status, 200);
	}
}

static void
tells_what_a_code_says_of_the_effect(void **state)
{
	int code;

	(void) state;
	for (code = VERDICT_CANCELED; code <= VERDICT_UNAUTHENTICATED; code++)
	{
		bool open = code == VERDICT_CANCELED || code == VERDICT_UNKNOWN ||
					code == VERDICT_DEADLINE_EXCEEDED || code == VERDICT_INTERNAL ||
					code == VERDICT_UNAVAILABLE || code == VERDICT_DATA_LOSS;
		char body[64];
		verdict_status status;
		int keyed;

		snprintf(body, sizeof(body), "{\"code\":\"%s\",\"message\":\"m\"}",
				 verdict_code_name(code));
		for (keyed = 0; keyed < 2; keyed++)
		{
			assert_false(check(418, "Content-Type: application/json\r\n", body, VERDICT_WIRE_BINARY,
							   keyed == 1, &status));
			assert_int_equal(status.code, code);
			assert_int_equal(status.cause, VERDICT_CAUSE_REMOTE);
			assert_int_equal(status.http_status, 418);
			assert_string_equal(status.message, "m");
			assert_false(status.inferred);
			assert_int_equal(status.outcome, open || (code == VERDICT_ABORTED && keyed == 1)
												 ? VERDICT_OUTCOME_MAYBE_APPLIED
												 : VERDICT_OUTCOME_REJECTED);
		}
	}
}

static void
infers_codes(void **state)
{
	static const struct
	{
		int http_status;
		const char *headers;
		const char *body;
		verdict_code code;
		const char *message;
	} cases[] = {
		{403, "Content-Type: application/proto\r\n", "{\"code\":\"aborted\"}",
		 VERDICT_PERMISSION_DENIED, "HTTP status 403 without a Connect error"},
		{502, "Content-Type: text/html\r\n", "<h1>{\"code\":\"aborted\"}", VERDICT_UNAVAILABLE,
		 "HTTP status 502 without a Connect error"},
		{401, "Content-Type: application/json\r\n", "null", VERDICT_UNAUTHENTICATED,
		 "HTTP status 401 without a Connect error"},
		{401, "Content-Type: application/json\r\n", "{\"code\":null,\"message\":\"oops\"}",
		 VERDICT_UNAUTHENTICATED, "HTTP status 401: oops"},
		{429, "Content-Type: application/json\r\n", "{\"code\":\"foobar\",\"message\":\"oops\"}",
		 VERDICT_UNAVAILABLE, "HTTP status 429: oops"},
		{409, "", "", VERDICT_UNKNOWN, "HTTP status 409 without a Connect error"},
		{204, "Content-Type: application/proto\r\n", "", VERDICT_UNKNOWN,
		 "HTTP status 204 without a Connect error"},
		{302, "Location: http://elsewhere/\r\n", "", VERDICT_UNKNOWN,
		 "HTTP status 302 without a Connect error"},
		{800, "", "", VERDICT_UNKNOWN, "HTTP status 800 without a Connect error"},
	};
	size_t i;

	(void) state;
	for (i = 0; i < RIG_LENGTH(cases); i++)
	{
		verdict_status status;

		assert_false(check(cases[i].http_status, cases[i].headers, cases[i].body,
						   VERDICT_WIRE_BINARY, false, &status));
		assert_int_equal(status.code, cases[i].code);
		assert_int_equal(status.cause, VERDICT_CAUSE_HTTP);
		assert_true(status.inferred);
		assert_int_equal(status.outcome, VERDICT_OUTCOME_MAYBE_APPLIED);
		assert_string_equal(status.message, cases[i].message);
	}
}

static void
explicit_code_beats_the_status(void **state)
{
	verdict_status status;

	(void) state;
	/* The two pairs that servers of different age answer differently. */
	check(408, "Content-Type: application/json\r\n", "{\"code\":\"deadline_exceeded\"}",
		  VERDICT_WIRE_JSON, false, &status);
	assert_int_equal(status.code, VERDICT_DEADLINE_EXCEEDED);
	check(404, "Content-Type: application/json\r\n", "{\"code\":\"not_found\"}", VERDICT_WIRE_JSON,
		  false, &status);
	assert_int_equal(status.code, VERDICT_NOT_FOUND);
	assert_string_equal(status.message, "the instance gave no reason");
	check(429, "Content-Type: application/json; charset=utf-8\r\n",
		  "{\"code\":\"resource_exhausted\"}", VERDICT_WIRE_JSON, false, &status);
	assert_int_equal(status.code, VERDICT_RESOURCE_EXHAUSTED);
}

static void
hands_on_retry_after(void **state)
{
	verdict_status status;

	(void) state;
	check(503, "Retry-After: 2\r\n", "", VERDICT_WIRE_BINARY, false, &status);
	assert_int_equal(status.retry_after_ms, 2000);
	check(503, "Retry-After: Thu, 01 Jan 2026 00:00:03 GMT\r\n", "", VERDICT_WIRE_BINARY, false,
		  &status);
	assert_int_equal(status.retry_after_ms, 3000);
	check(503, "Retry-After: -2\r\n", "", VERDICT_WIRE_BINARY, false, &status);
	assert_int_equal(status.retry_after_ms, -1);
	/* Twice is no word to go by. */
	check(503, "Retry-After: 1\r\nRetry-After: 2\r\n", "", VERDICT_WIRE_BINARY, false, &status);
	assert_int_equal(status.retry_after_ms, -1);
	check(503, "", "", VERDICT_WIRE_BINARY, false, &status);
	assert_int_equal(status.retry_after_ms, -1);
}

static void
names_trailers(void **state)
{
	(void) state;
	assert_string_equal(verdict_connect_trailer_name("Trailer-X-Custom"), "X-Custom");
	assert_string_equal(verdict_connect_trailer_name("trailer-x"), "x");
	assert_null(verdict_connect_trailer_name("Trailer-"));
	assert_null(verdict_connect_trailer_name("Trailer"));
	assert_null(verdict_connect_trailer_name("X-Trailer-A"));
}

static void
bounds_what_a_body_takes(void **state)
{
	size_t size = 60 * 1024;
	char *body = malloc(size + 1);
	verdict_connect_error error;
	size_t length;

	(void) state;
	/* Nothing but details: what can be kept within the arena's cap is kept. */
	length = (size_t) sprintf(body, "{\"code\":\"aborted\",\"details\":[");
	while (length < size - 40)
		length += (size_t) sprintf(body + length, "{\"type\":\"a\",\"value\":\"CAE\"},");
	memcpy(body + length - 1, "]}", 3);
	verdict_arena_free(&arena);
	verdict_arena_init(&arena, &support.host, 4096);
	assert_false(verdict_connect_parse_error(&arena, body, strlen(body), &error));
	assert_int_equal(error.code, VERDICT_ABORTED);
	assert_true(support.peak_bytes < 64 * 1024);
	free(body);
}

/* jansson knows no host: it is lent this one for a while. */
static void *
json_allocate(size_t size)
{
	return verdict_alloc(&support.host, size);
}

static void
json_release(void *pointer)
{
	verdict_free(&support.host, pointer);
}

static void
survives_missing_memory(void **state)
{
	static const char body[] =
		"{\"code\":\"aborted\",\"message\":\"m\",\"details\":[{\"type\":\"a\",\"value\":\"CAE\"}]}";
	size_t n;

	(void) state;
	/* jansson's memory too: a body that cannot be read infers the code. */
	for (n = 1; n == 1 || support.failures > 0; n++)
	{
		verdict_status status;

		verdict_arena_free(&arena);
		json_set_alloc_funcs(json_allocate, json_release);
		support_fail_at(&support, 0);
		verdict_headers_reset(&headers);
		verdict_headers_add_line(&headers, "HTTP/1.1 409 X\r\n", 16);
		verdict_headers_add_line(&headers, "Content-Type: application/json\r\n", 32);
		verdict_headers_add_line(&headers, "\r\n", 2);
		support_fail_at(&support, n);
		verdict_status_init(&status);
		assert_false(verdict_connect_check_answer(&headers, body, strlen(body), VERDICT_WIRE_BINARY,
												  true, 0, &arena, NULL, &status));
		json_set_alloc_funcs(malloc, free);
		assert_true(status.code == VERDICT_ABORTED || status.code == VERDICT_RESOURCE_EXHAUSTED ||
					status.code == VERDICT_UNKNOWN);
		assert_int_equal(status.outcome, VERDICT_OUTCOME_MAYBE_APPLIED);
		if (support.failures == 0)
			assert_int_equal(status.code, VERDICT_ABORTED);
	}
	assert_true(n > 3);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(builds_urls),
		TEST(writes_request_headers),
		TEST(maps_http_statuses),
		TEST(reads_error_bodies),
		TEST(knows_every_code),
		TEST(checks_the_content_type_of_a_success),
		TEST(tells_what_a_code_says_of_the_effect),
		TEST(infers_codes),
		TEST(explicit_code_beats_the_status),
		TEST(hands_on_retry_after),
		TEST(names_trailers),
		TEST(bounds_what_a_body_takes),
		TEST(survives_missing_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
