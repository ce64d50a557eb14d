/*
 * test_headers.c
 *		Response headers line by line, and whether the end of a body can be told.
 */
#include "headers.h"
#include "rig.h"

static support_host support;
static verdict_headers headers;

static int
begin(void **state)
{
	(void) state;
	support_host_init(&support);
	verdict_headers_init(&headers, &support.host);
	return 0;
}

static int
end(void **state)
{
	(void) state;
	verdict_headers_free(&headers);
	return support.live == 0 ? 0 : -1;
}

static verdict_headers_result
add(const char *line)
{
	return verdict_headers_add_line(&headers, line, strlen(line));
}

/* The result of a status line and these header lines, up to the first that is refused. */
static verdict_headers_result
add_all(const char *const *lines)
{
	verdict_headers_result result = VERDICT_HEADERS_MORE;

	verdict_headers_reset(&headers);
	for (; *lines != NULL && result == VERDICT_HEADERS_MORE; lines++)
		result = add(*lines);
	return result;
}

static void
reads_a_response(void **state)
{
	const char *lines[] = {"HTTP/1.1 200 OK\r\n",
						   "Content-Type: application/proto\r\n",
						   "x-empty:\r\n",
						   "X-Padded: \t a b \t\r\n",
						   "x-padded: second\n",
						   "\r\n",
						   NULL};
	const char *value;
	const char *name;
	size_t position = 0;
	int count = 0;

	(void) state;
	assert_int_equal(add_all(lines), VERDICT_HEADERS_COMPLETE);
	assert_int_equal(headers.status, 200);
	assert_false(headers.http2);
	assert_int_equal(verdict_headers_find(&headers, "content-type", &value), 1);
	assert_string_equal(value, "application/proto");
	assert_int_equal(verdict_headers_find(&headers, "X-EMPTY", &value), 1);
	assert_string_equal(value, "");
	assert_int_equal(verdict_headers_find(&headers, "X-Padded", &value), 2);
	assert_string_equal(value, "a b");
	assert_int_equal(verdict_headers_find(&headers, "X-Pad", &value), 0);
	assert_null(value);
	while (verdict_headers_next(&headers, &position, &name, &value))
		count++;
	assert_int_equal(count, 4);

	/* Trailers of the body's last chunk are no headers of the answer. */
	assert_int_equal(add("Verdict-Revision: v1.a.1.9\r\n"), VERDICT_HEADERS_MORE);
	assert_int_equal(add("HTTP/1.1 500 no\r\n"), VERDICT_HEADERS_MORE);
	assert_int_equal(verdict_headers_find(&headers, "Verdict-Revision", &value), 0);
	assert_int_equal(headers.status, 200);
}

static void
passes_over_interim_responses(void **state)
{
	const char *lines[] = {"HTTP/1.1 100 Continue\r\n",
						   "X-Old: 1\r\n",
						   "\r\n",
						   "HTTP/1.1 103 Hints\r\n",
						   "X-Old: 2\r\n",
						   "\r\n",
						   "HTTP/2 404\r\n",
						   "X-New: 3\r\n",
						   "\r\n",
						   NULL};
	const char *value;

	(void) state;
	assert_int_equal(add_all(lines), VERDICT_HEADERS_COMPLETE);
	assert_int_equal(headers.status, 404);
	assert_true(headers.http2);
	assert_int_equal(verdict_headers_find(&headers, "X-Old", &value), 0);
	assert_int_equal(verdict_headers_find(&headers, "X-New", &value), 1);
}

static void
refuses_what_is_malformed(void **state)
{
	static const char *const status_lines[] = {
		"\r\n",
		"200 OK\r\n",
		"HTTP/1.1\r\n",
		"HTTP/1.1 20 OK\r\n",
		"HTTP/1.1 2000\r\n",
		"HTTP/1.1 099 no\r\n",
		"HTTP/1.1 2x0\r\n",
		"HTTP/1.1 200OK\r\n",
		"HTTP/1.1 101 Switching Protocols\r\n",
		"http/1.1 200\r\n",
		"HTTP/1.1  200\r\n",
		"HTTP/1.1 -20\r\n",
		"",
	};
	static const char *const header_lines[] = {
		"no colon\r\n", ": no name\r\n",   " folded: 1\r\n", "\tfolded\r\n", "a b: 1\r\n",
		"a : 1\r\n",	"a: be\x01ll\r\n", "a: \x7f\r\n",	 "a\x80: 1\r\n", "a: x\ry\r\n",
	};
	const char *lines[] = {"HTTP/1.1 200 OK\r\n", NULL, NULL};
	size_t i;

	(void) state;
	for (i = 0; i < RIG_LENGTH(status_lines); i++)
	{
		lines[0] = status_lines[i];
		assert_int_equal(add_all(lines), VERDICT_HEADERS_MALFORMED);
	}
	lines[0] = "HTTP/1.1 200 OK\r\n";
	for (i = 0; i < RIG_LENGTH(header_lines); i++)
	{
		lines[1] = header_lines[i];
		assert_int_equal(add_all(lines), VERDICT_HEADERS_MALFORMED);
	}
	/* A NUL inside a line. */
	verdict_headers_reset(&headers);
	add("HTTP/1.1 200 OK\r\n");
	assert_int_equal(verdict_headers_add_line(&headers, "a: x\0y\r\n", 8),
					 VERDICT_HEADERS_MALFORMED);
}

static void
bounds_all_lines_together(void **state)
{
	char line[1026];
	int i;

	(void) state;
	memset(line, 'v', sizeof(line));
	memcpy(line, "a:", 2);
	memcpy(line + 1022, "\r\n", 3);
	assert_int_equal(add("HTTP/1.1 200 OK\r\n"), VERDICT_HEADERS_MORE);
	for (i = 0; i < 63; i++)
		assert_int_equal(add(line), VERDICT_HEADERS_MORE);
	assert_int_equal(add(line), VERDICT_HEADERS_TOO_LARGE);

	/* Interim responses and trailers count too. */
	verdict_headers_reset(&headers);
	for (i = 0; i < 64 * 1024 / 28; i++)
		assert_int_equal(add(i % 2 == 0 ? "HTTP/1.1 100 Continue 4567\r\n" : "\r\n"),
						 VERDICT_HEADERS_MORE);
	while (i++ < 10000 && add("HTTP/1.1 100 Continue 4567\r\n") == VERDICT_HEADERS_MORE &&
		   add("\r\n") == VERDICT_HEADERS_MORE)
		;
	assert_true(i < 10000);

	/* The smallest lines, which take more room than they have bytes. */
	verdict_headers_reset(&headers);
	add("HTTP/1.1 200 OK\r\n");
	for (i = 0; add("a:\n") == VERDICT_HEADERS_MORE; i++)
		;
	assert_int_equal(i, (64 * 1024 - 17) / 3);
}

static void
tells_where_a_body_ends(void **state)
{
	static const struct
	{
		const char *status;
		const char *first;
		const char *second;
		bool known;
		int64_t length;
	} cases[] = {
		{"HTTP/1.1 200 OK\r\n", "Content-Length: 0\r\n", NULL, true, 0},
		{"HTTP/1.1 200 OK\r\n", "Content-Length: 12345678901\r\n", NULL, true, 12345678901},
		{"HTTP/1.1 200 OK\r\n", "Transfer-Encoding: Chunked\r\n", NULL, true, -1},
		{"HTTP/2 200\r\n", "content-length: 7\r\n", NULL, true, 7},
		{"HTTP/1.1 200 OK\r\n", NULL, NULL, false, -1},
		{"HTTP/2 200\r\n", NULL, NULL, false, -1},
		{"HTTP/2 200\r\n", "transfer-encoding: chunked\r\n", NULL, false, -1},
		{"HTTP/1.1 200 OK\r\n", "Content-Length: 2\r\n", "Content-Length: 2\r\n", false, -1},
		{"HTTP/1.1 200 OK\r\n", "Content-Length: 2\r\n", "Transfer-Encoding: chunked\r\n", false,
		 -1},
		{"HTTP/1.1 200 OK\r\n", "Transfer-Encoding: gzip, chunked\r\n", NULL, false, -1},
		{"HTTP/1.1 200 OK\r\n", "Transfer-Encoding: identity\r\n", NULL, false, -1},
		{"HTTP/1.1 200 OK\r\n", "Content-Length: 2, 2\r\n", NULL, false, -1},
		{"HTTP/1.1 200 OK\r\n", "Content-Length: -1\r\n", NULL, false, -1},
		{"HTTP/1.1 200 OK\r\n", "Content-Length: +1\r\n", NULL, false, -1},
		{"HTTP/1.1 200 OK\r\n", "Content-Length: 0x10\r\n", NULL, false, -1},
		{"HTTP/1.1 200 OK\r\n", "Content-Length:\r\n", NULL, false, -1},
		{"HTTP/1.1 200 OK\r\n", "Content-Length: 99999999999999999999\r\n", NULL, false, -1},
	};
	size_t i;

	(void) state;
	for (i = 0; i < RIG_LENGTH(cases); i++)
	{
		int64_t length = 99;
		const char *reason = NULL;

		verdict_headers_reset(&headers);
		add(cases[i].status);
		if (cases[i].first != NULL)
			add(cases[i].first);
		if (cases[i].second != NULL)
			add(cases[i].second);
		assert_int_equal(add("\r\n"), VERDICT_HEADERS_COMPLETE);
		assert_int_equal(verdict_headers_framing(&headers, &length, &reason), cases[i].known);
		assert_int_equal(length, cases[i].length);
		assert_int_equal(reason == NULL, cases[i].known);
	}
}

static void
takes_only_what_was_asked_for(void **state)
{
	static const struct
	{
		const char *first;
		const char *second;
		bool taken;
		bool gzip;
	} cases[] = {
		{NULL, NULL, true, false},
		{"Content-Encoding: identity\r\n", NULL, true, false},
		{"Content-Encoding: GZip\r\n", NULL, true, true},
		{"Content-Encoding: br\r\n", NULL, false, false},
		{"Content-Encoding: deflate\r\n", NULL, false, false},
		{"Content-Encoding: gzip, gzip\r\n", NULL, false, false},
		{"Content-Encoding: gzip\r\n", "Content-Encoding: gzip\r\n", false, false},
		{"Content-Encoding: foo\r\n", NULL, false, false},
		{"Content-Encoding:\r\n", NULL, false, false},
	};
	size_t i;

	(void) state;
	for (i = 0; i < RIG_LENGTH(cases); i++)
	{
		bool gzip = true;
		const char *reason = NULL;

		verdict_headers_reset(&headers);
		add("HTTP/1.1 200 OK\r\n");
		if (cases[i].first != NULL)
			add(cases[i].first);
		if (cases[i].second != NULL)
			add(cases[i].second);
		assert_int_equal(verdict_headers_encoding(&headers, &gzip, &reason), cases[i].taken);
		assert_int_equal(gzip, cases[i].gzip);
	}
}

static void
survives_missing_memory(void **state)
{
	(void) state;
	support_fail_at(&support, 1);
	assert_int_equal(add("HTTP/1.1 200 OK\r\n"), VERDICT_HEADERS_MORE);
	assert_int_equal(add("a: 1\r\n"), VERDICT_HEADERS_NO_MEMORY);
	assert_int_equal(support.failures, 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(reads_a_response, begin, end),
		cmocka_unit_test_setup_teardown(passes_over_interim_responses, begin, end),
		cmocka_unit_test_setup_teardown(refuses_what_is_malformed, begin, end),
		cmocka_unit_test_setup_teardown(bounds_all_lines_together, begin, end),
		cmocka_unit_test_setup_teardown(tells_where_a_body_ends, begin, end),
		cmocka_unit_test_setup_teardown(takes_only_what_was_asked_for, begin, end),
		cmocka_unit_test_setup_teardown(survives_missing_memory, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
