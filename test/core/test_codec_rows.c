/*
 * test_codec_rows.c
 *		Large repeated answers, element by element, in both wire formats.
 */
#include "codec.h"
#include "support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static support_host support;
static verdict_status status;

static int
setup(void **state)
{
	(void) state;
	support_host_init(&support);
	verdict_status_init(&status);
	return 0;
}

static int
teardown(void **state)
{
	(void) state;
	return support.live == 0 ? 0 : -1;
}

/* The body in memory of the host: JSON text, or hexadecimal with spaces. */
static void *
body_of(verdict_wire_format format, const char *text, size_t *size)
{
	char *body;
	char *exact;

	*size = 0;
	if (text[0] == '\0')
		return NULL;
	body = malloc(strlen(text));
	if (format == VERDICT_WIRE_JSON)
	{
		*size = strlen(text);
		memcpy(body, text, *size);
	}
	else
	{
		for (; *text != '\0'; text++)
		{
			unsigned byte;

			if (*text == ' ')
				continue;
			assert_int_equal(sscanf(text++, "%2x", &byte), 1);
			body[(*size)++] = (char) byte;
		}
	}
	exact = verdict_alloc(&support.host, *size);
	if (exact != NULL)
		memcpy(exact, body, *size);
	free(body);
	return exact;
}

/*
 * Reads a whole answer into one text: rows or facts, one a line, and what is
 * said once; NULL with a status when it is refused anywhere.
 */
static char *
read_all(verdict_wire_format format, verdict_rows_kind kind, void *body, size_t size,
		 const char *const *names, size_t expected)
{
	static char result[100000];
	verdict_host plain;
	verdict_buffer text;
	verdict_rows *rows;
	const verdict_value *values;
	const verdict_fact *fact;
	size_t token_size;
	int more;

	rows = verdict_rows_open(&support.host, format, kind, body, size, names, expected, &status);
	if (rows == NULL)
		return NULL;
	/* what the test writes must not count as the reader's */
	verdict_host_init_posix(&plain);
	verdict_buffer_init(&text, &plain, sizeof(result) - 1);
	assert_int_equal(verdict_rows_width(rows), kind == VERDICT_ROWS_QUERY ? expected : 0);
	if (verdict_rows_truncated(rows))
		verdict_buffer_append_string(&text, "truncated\n");
	if (verdict_rows_next_token(rows, &token_size) != NULL && token_size > 0)
	{
		verdict_buffer_append_string(&text, "next ");
		verdict_buffer_append(&text, verdict_rows_next_token(rows, &token_size), token_size);
		verdict_buffer_append_string(&text, "\n");
	}
	for (;;)
	{
		if (kind == VERDICT_ROWS_QUERY)
		{
			more = verdict_rows_next(rows, &values, &status);
			for (size_t i = 0; more == 1 && i < expected; i++)
			{
				verdict_buffer_append_string(&text, i > 0 ? ", " : "");
				verdict_value_print(&text, &values[i]);
			}
		}
		else
		{
			more = verdict_rows_next_fact(rows, &fact, &status);
			if (more == 1)
				verdict_fact_print(&text, fact);
		}
		if (more != 1)
			break;
		verdict_buffer_append_string(&text, "\n");
	}
	if (more < 0)
	{
		verdict_status again;

		/* a refusal is final */
		verdict_status_init(&again);
		if (kind == VERDICT_ROWS_QUERY)
			assert_int_equal(verdict_rows_next(rows, &values, &again), -1);
		else
			assert_int_equal(verdict_rows_next_fact(rows, &fact, &again), -1);
		assert_int_not_equal(again.code, VERDICT_OK);
	}
	else if (kind == VERDICT_ROWS_QUERY)
		assert_int_equal(verdict_rows_next(rows, &values, &status), 0);
	verdict_rows_free(rows);
	strcpy(result, text.bytes == NULL ? "" : text.bytes);
	verdict_buffer_free(&text);
	return more < 0 ? NULL : result;
}

static char *
read_text(verdict_wire_format format, verdict_rows_kind kind, const char *text,
		  const char *const *names, size_t expected)
{
	size_t size;
	void *body = body_of(format, text, &size);
	char *result;

	verdict_status_init(&status);
	result = read_all(format, kind, body, size, names, expected);
	assert_int_equal(support.live, 0);
	return result;
}

#define BINARY VERDICT_WIRE_BINARY
#define JSON VERDICT_WIRE_JSON

static const char *const names[] = {"a", "b"};

/* Rows of ?a and ?b. */
static const struct
{
	verdict_wire_format format;
	const char *body;
	const char *rows;
} queries[] = {
	{BINARY, "0a0161 0a0162", ""},
	{JSON, "{\"variables\":[\"a\",\"b\"]}", ""},
	{JSON, "{\"variables\":[\"a\",\"b\"],\"rows\":null}", ""},
	{JSON, " { \"rows\" : [ ] , \"variables\" : [ \"a\" , \"b\" ] } ", ""},
	/* User:x, any / "s", -1 */
	{BINARY,
	 "0a0161 0a0162 120d 0a09 0a07 0a0155 12027a7a 0a00 1212 0a03 120173 0a0b "
	 "18ffffffffffffffffff01",
	 "U:zz, _\n\"s\", -1\n"},
	{JSON,
	 "{\"variables\":[\"a\",\"b\"],\"rows\":[{\"values\":[{\"identity\":{\"type\":\"U\",\"id\":"
	 "\"zz\"}},{}]},"
	 "{\"values\":[{\"string\":\"s\"},{\"integer\":\"-1\"}]}]}",
	 "U:zz, _\n\"s\", -1\n"},
	/* truncated, unknown fields around, elements before what is said once */
	{BINARY, "7801 1208 0a022000 0a022001 0a0161 7a00 1801 0a0162 1204 0a000a00",
	 "truncated\nfalse, true\n_, _\n"},
	{JSON,
	 "{\"new\":[{\"rows\":[1]},\"]\"],\"truncated\":true,\"rows\" :\n[ "
	 "{\"values\":[{\"boolean\":false},{\"boolean\":true}],\"x\":\"]}\"} ,"
	 "\t{\"values\":[{},{}]}\n],\"variables\":[\"\\u0061\",\"b\"],\"last\":null}",
	 "truncated\nfalse, true\n_, _\n"},
};

static void
rows_come_one_by_one(void **state)
{
	size_t i;

	(void) state;
	for (i = 0; i < LENGTH(queries); i++)
	{
		char *rows = read_text(queries[i].format, VERDICT_ROWS_QUERY, queries[i].body, names, 2);

		if (rows == NULL)
			fail_msg("%s: %s", queries[i].body, status.message);
		assert_string_equal(rows, queries[i].rows);
	}
	/* no variables: empty rows */
	assert_string_equal(read_text(BINARY, VERDICT_ROWS_QUERY, "", NULL, 0), "");
	assert_string_equal(read_text(JSON, VERDICT_ROWS_QUERY, "", NULL, 0), "");
	assert_string_equal(read_text(JSON, VERDICT_ROWS_QUERY, "{}", NULL, 0), "");
	assert_string_equal(read_text(BINARY, VERDICT_ROWS_QUERY, "1200", NULL, 0), "\n");
	assert_string_equal(read_text(BINARY, VERDICT_ROWS_QUERY, "1200 1200", NULL, 0), "\n\n");
	assert_string_equal(read_text(JSON, VERDICT_ROWS_QUERY, "{\"rows\":[{}]}", NULL, 0), "\n");
	assert_string_equal(
		read_text(JSON, VERDICT_ROWS_QUERY, "{\"rows\":[{\"values\":[]}]}", NULL, 0), "\n");
}

static void
facts_come_one_by_one(void **state)
{
	(void) state;
	assert_string_equal(read_text(BINARY, VERDICT_ROWS_FACTS, "", NULL, 0), "");
	assert_string_equal(read_text(JSON, VERDICT_ROWS_FACTS, "{}", NULL, 0), "");
	assert_string_equal(read_text(BINARY, VERDICT_ROWS_FACTS,
								  "0a07 0a0170 12021807 1203746f6b 0a03 0a0171", NULL, 0),
						"next tok\np(7)\nq()\n");
	assert_string_equal(read_text(JSON, VERDICT_ROWS_FACTS,
								  "{\"next\":\"dG9r\",\"facts\":[{\"predicate\":\"p\",\"args\":[{"
								  "\"integer\":7}]},{\"predicate\":\"q\"}]}",
								  NULL, 0),
						"next tok\np(7)\nq()\n");
}

static void
bad_answers_are_refused(void **state)
{
	static const struct
	{
		verdict_wire_format format;
		const char *body;
		const char *what;
	} cases[] = {
		/* other variables than were asked for */
		{BINARY, "", "it has 0 variables, the pattern has 2"},
		{JSON, "", "it has 0 variables, the pattern has 2"},
		{JSON, "{}", "it has 0 variables, the pattern has 2"},
		{BINARY, "0a0161", "it has 1 variables, the pattern has 2"},
		{BINARY, "0a0161 0a0162 0a0163", "it has more variables than the pattern"},
		{JSON, "{\"variables\":[\"a\",\"b\",\"c\"]}", "it has 3 variables, the pattern has 2"},
		{BINARY, "0a0162 0a0161", "variable 1 is not \"a\""},
		{JSON, "{\"variables\":[\"a\",\"B\"]}", "variable 2 is not \"b\""},
		/* damage at the end is seen before the first row is given out */
		{BINARY, "0a0161 0a0162 1204 0a000a00 12", "the field at byte 12 is cut off or malformed"},
		{BINARY, "0a0161 0a0162 1204 0a000a00 1204 0a00",
		 "the field at byte 12 is cut off or malformed"},
		{BINARY, "0a0161 0a0162 1204 0a000a00 1404",
		 "the field at byte 12 is cut off or malformed"},
		{BINARY, "0a0161 0a0162 1201", "the field at byte 6 is cut off or malformed"},
		/* what is passed over keeps the rules of what is read */
		{BINARY, "0a0161 0a0162 f5f8f5fe8f00 00000b71",
		 "the field at byte 6 is cut off or malformed"},
		{BINARY, "0a0161 0a0162 a206 818080808000 61",
		 "the field at byte 6 is cut off or malformed"},
		{BINARY, "0a0161 0a0162 12 848080808000 0a000a00",
		 "the field at byte 6 is cut off or malformed"},
		{BINARY, "0a0161 0a0162 1001", "rows: wire type 0 does not fit the field"},
		{BINARY, "0a0161 0a0162 1801 1801", "field \"truncated\" comes twice"},
		{BINARY, "0a0161 0a0162 1802", "truncated: a boolean that is neither 0 nor 1"},
		{BINARY, "0a01ff 0a0162", "variables[0]: string is not UTF-8 without NUL"},
		{JSON, "{\"variables\":[\"a\",\"b\"],\"rows\":[{\"values\":[{},{}]}",
		 "not JSON, or nested too deeply, at byte 49"},
		{JSON, "{\"variables\":[\"a\",\"b\"],\"rows\":[{\"values\":[{},{}]}}",
		 "not JSON, or nested too deeply, at byte 49"},
		{JSON, "{\"variables\":[\"a\",\"b\"],\"rows\":[{\"values\":[{},{}]}]",
		 "not JSON, or nested too deeply, at byte 50"},
		{JSON, "{\"variables\":[\"a\",\"b\"],\"rows\":[{\"values\":[{},{}]}]}x",
		 "not JSON, or nested too deeply, at byte 51"},
		{JSON, "{\"variables\":[\"a\",\"b\"],\"rows\":[{\"values\":[{},{}]},]}",
		 "not JSON, or nested too deeply, at byte 50"},
		{JSON, "{\"variables\":[\"a\",\"b\"],\"rows\":[{\"values\":[{} {}]}]}",
		 "not JSON, or nested too deeply, at byte 45"},
		{JSON, "{\"variables\":[\"a\",\"b\"],\"rows\":[],\"rows\":[]}", "\"rows\" comes twice"},
		{JSON, "{\"variables\":[\"a\",\"b\"],\"rows\":[],\"r\\u006fws\":[]}",
		 "field \"rows\" comes twice"},
		{JSON, "{\"variables\":[\"a\",\"b\"],\"rows\":null,\"rows\":[{}]}",
		 "field \"rows\" comes twice"},
		{JSON, "{\"variables\":[\"a\",\"b\"],\"r\\u006fws\":[{}]}",
		 "\"rows\" is not written plainly"},
		{JSON, "{\"variables\":[\"a\",\"b\"],\"rows\":{}}", "\"rows\" must be an array"},
		{JSON, "[]", "not JSON, or nested too deeply, at byte 0"},
		{JSON, " ", "not JSON, or nested too deeply, at byte 1"},
		/* rows */
		{BINARY, "0a0161 0a0162 1204 0a000a00 1202 0a00", "rows[1]: has 1 values for 2 variables"},
		{BINARY, "0a0161 0a0162 1206 0a000a000a00", "rows[0]: has 3 values for 2 variables"},
		{JSON, "{\"variables\":[\"a\",\"b\"],\"rows\":[{}]}",
		 "rows[0]: has 0 values for 2 variables"},
		{JSON, "{\"variables\":[\"a\",\"b\"],\"rows\":[null]}", "rows[0]: expected an object"},
		{JSON, "{\"variables\":[\"a\",\"b\"],\"rows\":[{\"values\":[{},null]}]}",
		 "rows[0]: values[1]: expected an object"},
		{JSON,
		 "{\"variables\":[\"a\",\"b\"],\"rows\":[{\"values\":[{},{}]},{\"values\":[{},{\"string\":"
		 "\"a\\u0000\"}]}]}",
		 "not JSON, or nested too deeply, at byte 82"},
		/* a value that is not understood is not "any" */
		{BINARY, "0a0161 0a0162 1207 0a00 0a03 2a0161",
		 "rows[0]: values[1]: unknown field 5 where one of a set is expected"},
		{BINARY, "0a0161 0a0162 1208 0a00 0a04 1200 1200",
		 "rows[0]: values[1]: field \"string\" comes twice"},
		{BINARY, "0a0161 0a0162 1207 0a00 0a03 a00601",
		 "rows[0]: values[1]: unknown field 100 where one of a set is expected"},
		{JSON, "{\"variables\":[\"a\",\"b\"],\"rows\":[{\"values\":[{},{\"decimal\":\"1\"}]}]}",
		 "rows[0]: values[1]: unknown name \"decimal\""},
		{JSON, "{\"variables\":[\"a\",\"b\"],\"rows\":[{\"values\":[{},{\"identity\":null}]}]}",
		 "rows[0]: values[1].identity: null where one of a set is expected"},
		/* identities */
		{BINARY, "0a0161 0a0162 1206 0a00 0a02 0a00", "rows[0].values[1]: malformed identity"},
		{JSON,
		 "{\"variables\":[\"a\",\"b\"],\"rows\":[{\"values\":[{\"identity\":{\"type\":\"U\"}},{}]}]"
		 "}",
		 "rows[0].values[0]: malformed identity"},
		{JSON,
		 "{\"variables\":[\"a\",\"b\"],\"rows\":[{\"values\":[{\"identity\":{\"type\":\"U:\","
		 "\"id\":\"x\"}},{}]}]}",
		 "rows[0].values[0]: malformed identity"},
	};
	static const struct
	{
		verdict_wire_format format;
		const char *body;
		const char *what;
	} facts[] = {
		{BINARY, "0a00", "facts[0]: malformed predicate"},
		{BINARY, "0a05 0a0170 1200", "facts[0].args[0]: a value is missing"},
		{JSON, "{\"facts\":[{\"predicate\":\"p\",\"args\":[{\"integer\":1},{}]}]}",
		 "facts[0].args[1]: a value is missing"},
		{JSON, "{\"facts\":[{\"predicate\":\"p q\"}]}", "facts[0]: malformed predicate"},
		{JSON, "{\"facts\":[],\"next\":\"?\"}", "next: not base64"},
		{BINARY, "1200 1200", "field \"next\" comes twice"},
		{BINARY, "f5f8f5fe8f00 00000b71", "the field at byte 0 is cut off or malformed"},
		{BINARY, "0a08 0a0170 0a0171 1200", "facts[0]: field \"predicate\" comes twice"},
	};
	static const char prefix[] = "the answer does not decode: ";
	size_t i;

	(void) state;
	for (i = 0; i < LENGTH(cases) + LENGTH(facts); i++)
	{
		bool query = i < LENGTH(cases);
		const char *body = query ? cases[i].body : facts[i - LENGTH(cases)].body;
		const char *what = query ? cases[i].what : facts[i - LENGTH(cases)].what;
		verdict_wire_format format = query ? cases[i].format : facts[i - LENGTH(cases)].format;

		if (read_text(format, query ? VERDICT_ROWS_QUERY : VERDICT_ROWS_FACTS, body,
					  query ? names : NULL, query ? 2 : 0) != NULL)
			fail_msg("accepted: %s", body);
		assert_int_equal(status.code, VERDICT_INTERNAL);
		assert_int_equal(status.cause, VERDICT_CAUSE_ANSWER);
		assert_memory_equal(status.message, prefix, strlen(prefix));
		assert_string_equal(status.message + strlen(prefix), what);
	}
}

static void
every_cut_is_refused(void **state)
{
	size_t i;

	(void) state;
	/* a binary answer can end early only between fields; the variables tell */
	for (i = 4; i < LENGTH(queries); i++)
	{
		size_t size;
		void *body = body_of(queries[i].format, queries[i].body, &size);
		size_t cut;

		for (cut = 1; cut < size; cut++)
		{
			void *part = verdict_alloc(&support.host, cut);
			char *rows;

			memcpy(part, body, cut);
			rows = read_all(queries[i].format, VERDICT_ROWS_QUERY, part, cut, names, 2);
			if (rows == NULL)
				continue;
			/* trailing white space may go; else only whole rows may be missing */
			if (queries[i].format == VERDICT_WIRE_JSON)
				assert_string_equal(rows, queries[i].rows);
			else
				assert_memory_equal(rows, queries[i].rows, strlen(rows));
		}
		verdict_free(&support.host, body);
	}
}

static void
memory_is_bounded_by_the_element(void **state)
{
	int format;

	(void) state;
	for (format = VERDICT_WIRE_BINARY; format <= VERDICT_WIRE_JSON; format++)
	{
		verdict_buffer body;
		verdict_rows *rows;
		const verdict_value *values;
		size_t count = 0;
		size_t size;
		int i;

		verdict_buffer_init(&body, &support.host, 100 * 1024 * 1024);
		verdict_buffer_append_string(&body, format == VERDICT_WIRE_JSON
												? "{\"variables\":[\"a\",\"b\"],\"rows\":["
												: "\n\1a\n\1b");
		for (i = 0; i < 200000; i++)
		{
			if (format == VERDICT_WIRE_JSON)
				verdict_buffer_append_string(&body, i == 0 ? "{\"values\":[{},{\"integer\":1}]}"
														   : ",{\"values\":[{},{\"integer\":1}]}");
			else
				verdict_buffer_append(&body, "\x12\x06\x0a\x00\x0a\x02\x18\x01", 8);
		}
		if (format == VERDICT_WIRE_JSON)
			verdict_buffer_append_string(&body, "]}");
		size = body.size;
		support.peak_bytes = support.live_bytes;
		count = support.peak_bytes;
		rows = verdict_rows_open(&support.host, (verdict_wire_format) format, VERDICT_ROWS_QUERY,
								 body.bytes, size, names, 2, &status);
		assert_non_null(rows);
		for (i = 0; verdict_rows_next(rows, &values, &status) == 1; i++)
		{
			assert_int_equal(values[0].kind, VERDICT_VALUE_ANY);
			assert_int_equal(values[1].as.integer, 1);
		}
		assert_int_equal(i, 200000);
		/* a few blocks of 1 kB beside the body */
		assert_in_range(support.peak_bytes - count, 1, 8192);
		verdict_rows_free(rows);
	}
}

static void
one_element_cannot_take_it_all(void **state)
{
	/* one row of a million empty values: 2 MB that would become 50 */
	size_t count = 1000000;
	char *body = verdict_alloc(&support.host, 6 + 5 + 2 * count);
	verdict_rows *rows;
	const verdict_value *values;
	size_t i;

	(void) state;
	memcpy(body, "\n\1a\n\1b\x12\x80\x89\x7a", 10); /* 2,000,000 */
	for (i = 0; i < count; i++)
		memcpy(body + 10 + 2 * i, "\n", 2);
	rows = verdict_rows_open(&support.host, VERDICT_WIRE_BINARY, VERDICT_ROWS_QUERY, body,
							 10 + 2 * count, names, 2, &status);
	assert_non_null(rows);
	assert_int_equal(verdict_rows_next(rows, &values, &status), -1);
	assert_null(values);
	assert_int_equal(status.code, VERDICT_RESOURCE_EXHAUSTED);
	assert_int_equal(status.cause, VERDICT_CAUSE_TOO_LARGE);
	assert_in_range(support.peak_bytes, 1, 22 * 1024 * 1024);
	verdict_rows_free(rows);
}

static void
long_texts_pass(void **state)
{
	static const char *const name[] = {"a"};
	int format;

	(void) state;
	for (format = VERDICT_WIRE_BINARY; format <= VERDICT_WIRE_JSON; format++)
	{
		static char text[4000001];
		verdict_buffer body;
		verdict_rows *rows;
		const verdict_value *values;

		memset(text, 'x', 4000000);
		verdict_buffer_init(&body, &support.host, 8 * 1024 * 1024);
		if (format == VERDICT_WIRE_JSON)
			verdict_buffer_printf(
				&body, "{\"variables\":[\"a\"],\"rows\":[{\"values\":[{\"string\":\"%s\"}]}]}",
				text);
		else
		{
			/* lengths 4,000,010, 4,000,005 and 4,000,000 */
			verdict_buffer_append(&body, "\n\1a", 3);
			verdict_buffer_append(&body, "\x12\x8a\x92\xf4\x01", 5);
			verdict_buffer_append(&body, "\x0a\x85\x92\xf4\x01", 5);
			verdict_buffer_append(&body, "\x12\x80\x92\xf4\x01", 5);
			verdict_buffer_append_string(&body, text);
		}
		rows = verdict_rows_open(&support.host, (verdict_wire_format) format, VERDICT_ROWS_QUERY,
								 body.bytes, body.size, name, 1, &status);
		assert_non_null(rows);
		assert_int_equal(verdict_rows_next(rows, &values, &status), 1);
		assert_string_equal(values[0].as.string, text);
		assert_int_equal(verdict_rows_next(rows, &values, &status), 0);
		verdict_rows_free(rows);
	}
}

/* A whole answer of one row for ?a and ?b. */
static char *
read_row(const uint8_t *row, size_t size, bool with_unknown_field)
{
	size_t length = size + (with_unknown_field ? 2 : 0);
	uint8_t *body = verdict_alloc(&support.host, 8 + length);

	memcpy(body, "\n\1a\n\1b\x12", 7);
	body[7] = (uint8_t) length;
	memcpy(body + 8, row, size);
	if (with_unknown_field)
		memcpy(body + 8 + size, "\x7a\0", 2);
	return read_all(BINARY, VERDICT_ROWS_QUERY, body, 8 + length, names, 2);
}

/*
 * Rows of identities have a way of their own; an unknown field, which means
 * nothing, keeps a row from it.  Both ways must come to the same, whatever byte is
 * changed, missing, or too many.
 */
static void
plain_rows_are_read_alike(void **state)
{
	static const char plain[] = "\x0a\x0b\x0a\x09\x0a\x04User\x12\x01"
								"7\x0a\x0b\x0a\x09\x0a\x03"
								"Doc\x12\x02\xc3\xb6";
	uint8_t row[sizeof(plain)];
	size_t size = sizeof(plain) - 1;
	size_t accepted = 0;
	size_t i;
	int byte;

	(void) state;
	memcpy(row, plain, size);
	assert_non_null(read_row(row, size, false));
	assert_string_equal(read_row(row, size, false), "User:7, Doc:\xc3\xb6\n");

	for (i = 0; i < size; i++)
	{
		uint8_t original = row[i];

		for (byte = 0; byte < 256; byte++)
		{
			char expected[200] = "refused";
			char *result;

			row[i] = (uint8_t) byte;
			result = read_row(row, size, true);
			if (result != NULL)
				snprintf(expected, sizeof(expected), "%s", result);
			result = read_row(row, size, false);
			assert_string_equal(result != NULL ? result : "refused", expected);
			accepted += result != NULL;
		}
		row[i] = original;
		assert_null(read_row(row, i, false));
	}
	/* Not all of it is damage: texts may be other texts. */
	assert_in_range(accepted, size + 100, size * 128);
}

static void
kinds_do_not_mix(void **state)
{
	verdict_rows *rows;
	const verdict_value *values;
	const verdict_fact *fact;

	(void) state;
	rows = verdict_rows_open(&support.host, BINARY, VERDICT_ROWS_QUERY, NULL, 0, NULL, 0, &status);
	assert_int_equal(verdict_rows_next_fact(rows, &fact, &status), -1);
	assert_int_equal(status.code, VERDICT_INTERNAL);
	verdict_rows_free(rows);
	rows = verdict_rows_open(&support.host, BINARY, VERDICT_ROWS_FACTS, NULL, 0, NULL, 0, &status);
	assert_int_equal(verdict_rows_next(rows, &values, &status), -1);
	verdict_rows_free(rows);
	verdict_rows_free(NULL);
}

static void
memory_may_fail_anywhere(void **state)
{
	size_t i;

	(void) state;
	for (i = 0; i < LENGTH(queries) + 2; i++)
	{
		bool query = i < LENGTH(queries);
		verdict_wire_format format = query					? queries[i].format
									 : i == LENGTH(queries) ? BINARY
															: JSON;
		const char *text = query ? queries[i].body
						   : format == BINARY
							   ? "0a07 0a0170 12021807 1203746f6b 0a03 0a0171"
							   : "{\"next\":\"dG9r\",\"facts\":[{\"predicate\":\"p\",\"args\":[{"
								 "\"integer\":7}]},{\"predicate\":\"q\"}]}";
		const char *expected = query ? queries[i].rows : "next tok\np(7)\nq()\n";
		size_t n;

		for (n = 1; n == 1 || support.failures > 0; n++)
		{
			size_t size;
			void *body;
			char *rows;

			support_fail_at(&support, 0);
			body = body_of(format, text, &size);
			verdict_status_init(&status);
			support_fail_at(&support, n);
			rows = read_all(format, query ? VERDICT_ROWS_QUERY : VERDICT_ROWS_FACTS, body, size,
							query ? names : NULL, query ? 2 : 0);
			assert_int_equal(support.live, 0);
			assert_int_equal(rows != NULL, support.failures == 0);
			if (rows == NULL)
				assert_int_equal(status.cause, VERDICT_CAUSE_MEMORY);
			else
				assert_string_equal(rows, expected);
		}
		assert_in_range(n, 3, 20);
	}
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(rows_come_one_by_one),
		TEST(facts_come_one_by_one),
		TEST(bad_answers_are_refused),
		TEST(every_cut_is_refused),
		TEST(memory_is_bounded_by_the_element),
		TEST(one_element_cannot_take_it_all),
		TEST(long_texts_pass),
		TEST(plain_rows_are_read_alike),
		TEST(kinds_do_not_mix),
		TEST(memory_may_fail_anywhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
