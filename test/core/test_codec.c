/*
 * test_codec.c
 *		Requests and whole answers, in both wire formats.
 *
 * The JSON text of a request is compared as it stands; its binary form has to
 * read back as the same text (that bytes and text agree is test_message's).
 */
#include "codec.h"
#include "message.h"
#include "support.h"
#include "verdict.pb-c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static support_host support;
static verdict_arena arena;
static verdict_buffer out;
static verdict_status status;

static int
setup(void **state)
{
	(void) state;
	support_host_init(&support);
	verdict_arena_init(&arena, &support.host, SIZE_MAX);
	verdict_buffer_init(&out, &support.host, 1024 * 1024);
	verdict_status_init(&status);
	return 0;
}

static int
teardown(void **state)
{
	(void) state;
	verdict_buffer_free(&out);
	verdict_arena_free(&arena);
	return support.live == 0 ? 0 : -1;
}

static verdict_fact
fact(const char *text)
{
	verdict_fact result;

	if (!verdict_fact_parse(&arena, text, strlen(text), &result, &status))
		fail_msg("%s: %s", text, status.message);
	return result;
}

/* One request, whichever encoder makes it. */
typedef struct request
{
	const ProtobufCMessageDescriptor *descriptor;
	const char *json; /* what is expected */
	const char *fact;
	uint32_t limit;
	const char *after;
} request;

static bool
encode(const request *request, verdict_wire_format format)
{
	verdict_identity actor = {"User", "al\"ice"};
	verdict_identity resource = {"Document", "a:b"};
	verdict_fact parsed = {NULL, 0, NULL};
	verdict_change changes[2];

	if (request->fact != NULL)
		parsed = fact(request->fact);
	if (request->descriptor == &verdict__v1__authorize_request__descriptor)
		return verdict_encode_authorize(&out, format, &actor, "read", &resource, &status);
	if (request->descriptor == &verdict__v1__query_request__descriptor)
		return verdict_encode_query(&out, format, &parsed, request->limit, &status);
	if (request->descriptor == &verdict__v1__list_facts_request__descriptor)
		return verdict_encode_list_facts(
			&out, format, request->fact == NULL ? NULL : &parsed, request->limit, request->after,
			request->after == NULL ? 0 : strlen(request->after), &status);
	if (request->descriptor == &verdict__v1__get_policy_request__descriptor)
		return verdict_encode_get_policy(&out, format, &status);
	if (request->descriptor == &verdict__v1__insert_fact_request__descriptor ||
		request->descriptor == &verdict__v1__delete_fact_request__descriptor)
		return verdict_encode_fact(&out, format, &parsed, &status);
	if (request->descriptor == &verdict__v1__batch_facts_request__descriptor)
	{
		changes[0].insert = true;
		changes[0].fact = parsed;
		changes[1].insert = false;
		changes[1].fact = fact("q()");
		return verdict_encode_batch(&out, format, changes, request->fact == NULL ? 0 : 2, &status);
	}
	return verdict_encode_set_policy(&out, format, "allow(a, \"x\", b) if p(a);\n", &status);
}

static const request requests[] = {
	{&verdict__v1__authorize_request__descriptor,
	 "{\"actor\":{\"type\":\"User\",\"id\":\"al\\\"ice\"},\"action\":\"read\","
	 "\"resource\":{\"type\":\"Document\",\"id\":\"a:b\"}}",
	 NULL, 0, NULL},
	{&verdict__v1__query_request__descriptor,
	 "{\"pattern\":{\"predicate\":\"allow\",\"args\":["
	 "{\"value\":{\"identity\":{\"type\":\"User\",\"id\":\"a\"}}},"
	 "{\"value\":{\"string\":\"\"}},{\"value\":{\"integer\":\"-7\"}},"
	 "{\"value\":{\"boolean\":false}},{\"variable\":{\"name\":\"d\",\"type\":\"Doc\"}},"
	 "{\"variable\":{\"name\":\"e\"}},{}]},\"limit\":10}",
	 "allow(User:a, \"\", -7, false, ?d:Doc, ?e, _)", 10, NULL},
	{&verdict__v1__query_request__descriptor, "{\"pattern\":{\"predicate\":\"p\"}}", "p()", 0,
	 NULL},
	{&verdict__v1__list_facts_request__descriptor, "{\"pattern\":{}}", NULL, 0, NULL},
	{&verdict__v1__list_facts_request__descriptor,
	 "{\"pattern\":{\"predicate\":\"p\",\"args\":[{},{\"variable\":{\"name\":\"x\"}}]},"
	 "\"limit\":4294967295,\"after\":\"dG9rZW4=\"}",
	 "p(_, ?x)", UINT32_MAX, "token"},
	{&verdict__v1__get_policy_request__descriptor, "{}", NULL, 0, NULL},
	{&verdict__v1__insert_fact_request__descriptor,
	 "{\"fact\":{\"predicate\":\"p\",\"args\":[{\"string\":\"\\u000a\"},{\"integer\":"
	 "\"9223372036854775807\"}]}}",
	 "p(\"\\n\", 9223372036854775807)", 0, NULL},
	/* the two shapes are one */
	{&verdict__v1__delete_fact_request__descriptor,
	 "{\"fact\":{\"predicate\":\"p\",\"args\":[{\"integer\":\"0\"}]}}", "p(0)", 0, NULL},
	{&verdict__v1__batch_facts_request__descriptor,
	 "{\"changes\":[{\"insert\":{\"predicate\":\"p\",\"args\":[{\"boolean\":true}]}},"
	 "{\"delete\":{\"predicate\":\"q\"}}]}",
	 "p(true)", 0, NULL},
	{&verdict__v1__batch_facts_request__descriptor, "{}", NULL, 0, NULL},
	{&verdict__v1__set_policy_request__descriptor,
	 "{\"policy\":\"allow(a, \\\"x\\\", b) if p(a);\\u000a\"}", NULL, 0, NULL},
};

static void
assert_reads_as(const request *request)
{
	ProtobufCMessage *message;
	verdict_buffer json;

	message = verdict_message_from_binary(&arena, request->descriptor, (uint8_t *) out.bytes,
										  out.size, &status);
	if (message == NULL)
		fail_msg("%s", status.message);
	verdict_buffer_init(&json, &support.host, 1024 * 1024);
	assert_true(verdict_message_to_json(&json, message));
	assert_string_equal(json.bytes, request->json);
	verdict_buffer_free(&json);
}

static void
requests_have_one_form(void **state)
{
	size_t i;

	(void) state;
	for (i = 0; i < LENGTH(requests); i++)
	{
		verdict_buffer_reset(&out);
		assert_true(encode(&requests[i], VERDICT_WIRE_JSON));
		assert_string_equal(out.bytes, requests[i].json);
		verdict_buffer_reset(&out);
		assert_true(encode(&requests[i], VERDICT_WIRE_BINARY));
		assert_reads_as(&requests[i]);

		/* encoders append */
		verdict_buffer_reset(&out);
		verdict_buffer_append_string(&out, "before");
		assert_true(encode(&requests[i], VERDICT_WIRE_JSON));
		assert_string_equal(out.bytes + 6, requests[i].json);
	}
	assert_string_equal(verdict_wire_content_type(VERDICT_WIRE_BINARY), "application/proto");
	assert_string_equal(verdict_wire_content_type(VERDICT_WIRE_JSON), "application/json");
}

static void
assert_argument_refused(bool encoded, const char *what)
{
	assert_false(encoded);
	assert_string_equal(status.message, what);
	assert_int_equal(status.code, VERDICT_INVALID_ARGUMENT);
	assert_int_equal(status.cause, VERDICT_CAUSE_ARGUMENT);
	assert_int_equal(out.size, 0);
	verdict_status_init(&status);
}

static void
requests_are_checked(void **state)
{
	verdict_identity good = {"User", "alice"};
	verdict_identity no_type = {"", "alice"};
	verdict_identity bad_type = {"U:ser", "alice"};
	verdict_identity no_id = {"User", ""};
	verdict_identity bad_id = {"User", "\xff"};
	verdict_term terms[VERDICT_MAX_ARGUMENTS + 1];
	verdict_fact made = {"p", 1, terms};
	verdict_change changes[2];

	(void) state;
	assert_argument_refused(
		verdict_encode_authorize(&out, VERDICT_WIRE_JSON, &no_type, "read", &good, &status),
		"actor: the type of an identity must be an identifier");
	assert_argument_refused(
		verdict_encode_authorize(&out, VERDICT_WIRE_JSON, &good, "read", &bad_type, &status),
		"resource: the type of an identity must be an identifier");
	assert_argument_refused(
		verdict_encode_authorize(&out, VERDICT_WIRE_BINARY, &good, "read", &no_id, &status),
		"resource: the id of an identity must not be empty");
	assert_argument_refused(
		verdict_encode_authorize(&out, VERDICT_WIRE_BINARY, &bad_id, "read", &good, &status),
		"actor: the id of an identity is not valid UTF-8");
	assert_argument_refused(
		verdict_encode_authorize(&out, VERDICT_WIRE_BINARY, &good, "", &good, &status),
		"action: must not be empty");
	assert_argument_refused(
		verdict_encode_authorize(&out, VERDICT_WIRE_BINARY, &good, "\xc3", &good, &status),
		"action: is not valid UTF-8");
	assert_argument_refused(
		verdict_encode_set_policy(&out, VERDICT_WIRE_BINARY, "\xed\xa0\x80", &status),
		"policy: is not valid UTF-8");

	memset(terms, 0, sizeof(terms));
	terms[0].kind = VERDICT_TERM_VALUE;
	terms[0].as.value.kind = VERDICT_VALUE_ANY;
	assert_argument_refused(verdict_encode_fact(&out, VERDICT_WIRE_BINARY, &made, &status),
							"fact.args[0]: a value is missing");
	assert_argument_refused(verdict_encode_query(&out, VERDICT_WIRE_BINARY, &made, 0, &status),
							"pattern.args[0]: a value is missing");
	terms[0].as.value.kind = VERDICT_VALUE_STRING;
	terms[0].as.value.as.string = "\xff";
	assert_argument_refused(verdict_encode_fact(&out, VERDICT_WIRE_JSON, &made, &status),
							"fact.args[0]: the string is not valid UTF-8");
	terms[0].as.value.kind = VERDICT_VALUE_IDENTITY;
	terms[0].as.value.as.identity = no_id;
	assert_argument_refused(
		verdict_encode_list_facts(&out, VERDICT_WIRE_JSON, &made, 0, NULL, 0, &status),
		"pattern.args[0]: the id of an identity must not be empty");
	terms[0].kind = VERDICT_TERM_VARIABLE;
	terms[0].as.variable.name = "";
	terms[0].as.variable.type = "";
	assert_argument_refused(verdict_encode_query(&out, VERDICT_WIRE_JSON, &made, 0, &status),
							"pattern.args[0]: name and type of a variable must be identifiers");
	terms[0].as.variable.name = "x";
	terms[0].as.variable.type = "a b";
	assert_argument_refused(verdict_encode_query(&out, VERDICT_WIRE_JSON, &made, 0, &status),
							"pattern.args[0]: name and type of a variable must be identifiers");

	/* facts are ground */
	terms[0].as.variable.type = "";
	assert_argument_refused(verdict_encode_fact(&out, VERDICT_WIRE_JSON, &made, &status),
							"fact.args[0]: a fact must not hold a variable or a wildcard");
	terms[0].kind = VERDICT_TERM_WILDCARD;
	changes[0].insert = true;
	changes[0].fact = fact("p(1)");
	changes[1].insert = false;
	changes[1].fact = made;
	assert_argument_refused(
		verdict_encode_batch(&out, VERDICT_WIRE_BINARY, changes, 2, &status),
		"changes[1].delete.args[0]: a fact must not hold a variable or a wildcard");

	made.predicate = "";
	assert_argument_refused(verdict_encode_query(&out, VERDICT_WIRE_BINARY, &made, 0, &status),
							"pattern: the predicate must be an identifier");
	changes[0].fact.predicate = "a-b";
	assert_argument_refused(verdict_encode_batch(&out, VERDICT_WIRE_BINARY, changes, 2, &status),
							"changes[0].insert: the predicate must be an identifier");
	made.predicate = "p";
	made.count = VERDICT_MAX_ARGUMENTS + 1;
	assert_argument_refused(verdict_encode_query(&out, VERDICT_WIRE_BINARY, &made, 0, &status),
							"pattern: too many arguments");
	made.count = VERDICT_MAX_ARGUMENTS;
	assert_true(verdict_encode_query(&out, VERDICT_WIRE_BINARY, &made, 0, &status));
}

static void
requests_end_where_the_buffer_does(void **state)
{
	size_t i;

	(void) state;
	for (i = 0; i < LENGTH(requests); i++)
	{
		int format;

		for (format = VERDICT_WIRE_BINARY; format <= VERDICT_WIRE_JSON; format++)
		{
			size_t size;

			verdict_buffer_reset(&out);
			assert_true(encode(&requests[i], (verdict_wire_format) format));
			size = out.size;
			if (size == 0)
				continue;
			verdict_buffer_free(&out);
			out.maximum = size - 1;
			assert_false(encode(&requests[i], (verdict_wire_format) format));
			assert_int_equal(status.cause, VERDICT_CAUSE_TOO_LARGE);
			assert_int_equal(status.code, VERDICT_RESOURCE_EXHAUSTED);
			verdict_buffer_free(&out);
			out.maximum = size;
			assert_true(encode(&requests[i], (verdict_wire_format) format));
			verdict_buffer_free(&out);
			out.maximum = 1024 * 1024;
		}
	}
}

static void
requests_survive_no_memory(void **state)
{
	size_t i;

	(void) state;
	for (i = 0; i < 2 * LENGTH(requests); i++)
	{
		const request *request = &requests[i / 2];
		size_t n;

		for (n = 1; n == 1 || support.failures > 0; n++)
		{
			bool encoded;

			/* the facts' arena keeps its block: only the encoder can fail */
			verdict_buffer_free(&out);
			verdict_arena_reset(&arena);
			assert_non_null(verdict_arena_alloc(&arena, 1));
			verdict_arena_reset(&arena);
			verdict_status_init(&status);
			support_fail_at(&support, n);
			encoded = encode(request, (verdict_wire_format) (i % 2));
			support.fail_at = 0;
			assert_int_equal(encoded, support.failures == 0);
			if (!encoded)
				assert_int_equal(status.cause, VERDICT_CAUSE_MEMORY);
			else if (i % 2 == VERDICT_WIRE_JSON)
				assert_string_equal(out.bytes, request->json);
		}
	}
}

/* ---------- answers ---------- */

typedef struct answer
{
	verdict_wire_format format;
	const char *body; /* JSON, or hexadecimal */
	long expected;	  /* REFUSED, or what was answered */
} answer;

#define REFUSED (-1)

/* Memory of exactly the size, so that a byte too far is seen; free() it. */
static char *
body_of(const answer *answer, size_t *size)
{
	char *body = malloc(strlen(answer->body) + 1);
	char *exact;

	if (answer->format == VERDICT_WIRE_JSON)
	{
		*size = strlen(answer->body);
		memcpy(body, answer->body, *size);
	}
	else
	{
		*size = strlen(answer->body) / 2;
		for (size_t i = 0; i < *size; i++)
		{
			unsigned byte;

			assert_int_equal(sscanf(answer->body + 2 * i, "%2x", &byte), 1);
			body[i] = (char) byte;
		}
	}
	exact = malloc(*size > 0 ? *size : 1);
	memcpy(exact, body, *size);
	free(body);
	return exact;
}

static void
answers_are_all_or_nothing(void **state)
{
	static const answer answers[] = {
		{VERDICT_WIRE_BINARY, "", 0},
		{VERDICT_WIRE_BINARY, "0800", 0},
		{VERDICT_WIRE_BINARY, "0801", 1},
		{VERDICT_WIRE_BINARY, "a006010801", 1},
		{VERDICT_WIRE_BINARY, "0802", REFUSED},
		{VERDICT_WIRE_BINARY, "08", REFUSED},
		{VERDICT_WIRE_BINARY, "0801ff", REFUSED},
		{VERDICT_WIRE_BINARY, "080110", REFUSED},
		{VERDICT_WIRE_BINARY, "08000801", REFUSED},
		{VERDICT_WIRE_BINARY, "08010800", REFUSED},
		{VERDICT_WIRE_BINARY, "0a0101", REFUSED},
		{VERDICT_WIRE_BINARY, "0d01000000", REFUSED},
		{VERDICT_WIRE_BINARY, "0b0c", REFUSED},
		{VERDICT_WIRE_BINARY, "7b7d", REFUSED},
		{VERDICT_WIRE_JSON, "", 0},
		{VERDICT_WIRE_JSON, "{}", 0},
		{VERDICT_WIRE_JSON, "{\"X\":false}", 0},
		{VERDICT_WIRE_JSON, "{\"X\":true}", 1},
		{VERDICT_WIRE_JSON, "{\"X\":null}", 0},
		{VERDICT_WIRE_JSON, "{\"reason\":{\"why\":[1.5]},\"X\":true}", 1},
		{VERDICT_WIRE_JSON, "{\"X\":1}", REFUSED},
		{VERDICT_WIRE_JSON, "{\"X\":\"true\"}", REFUSED},
		{VERDICT_WIRE_JSON, "{\"X\":true,\"X\":true}", REFUSED},
		{VERDICT_WIRE_JSON, "{\"X\":true", REFUSED},
		{VERDICT_WIRE_JSON, "{\"X\":tru}", REFUSED},
		{VERDICT_WIRE_JSON, "{\"X\":truer}", REFUSED},
		{VERDICT_WIRE_JSON, "{\"X\":true}}", REFUSED},
		{VERDICT_WIRE_JSON, "[true]", REFUSED},
		{VERDICT_WIRE_JSON, "true", REFUSED},
		{VERDICT_WIRE_JSON, " ", REFUSED},
	};
	size_t i;

	(void) state;
	for (i = 0; i < LENGTH(answers); i++)
	{
		int decoder;

		for (decoder = 0; decoder < 2; decoder++)
		{
			answer answer = answers[i];
			char text[100];
			char *body;
			size_t size;
			size_t n;

			/* X stands for the field's name */
			if (answer.format == VERDICT_WIRE_JSON)
			{
				char *to = text;

				for (const char *from = answer.body; *from != '\0'; from++)
				{
					if (*from == 'X')
						to = stpcpy(to, decoder == 0 ? "allowed" : "changed");
					else
						*to++ = *from;
				}
				*to = '\0';
				answer.body = text;
			}
			body = body_of(&answer, &size);
			for (n = 0; n == 0 || support.failures > 0; n++)
			{
				bool result = true;
				bool decoded;

				verdict_status_init(&status);
				support_fail_at(&support, n);
				decoded = (decoder == 0 ? verdict_decode_authorize : verdict_decode_changed)(
					&support.host, answer.format, body, size, &result, &status);
				support.fail_at = 0;
				if (support.failures > 0 || answer.expected == REFUSED)
				{
					assert_false(decoded);
					assert_false(result);
					assert_int_equal(status.cause, support.failures > 0 ? VERDICT_CAUSE_MEMORY
																		: VERDICT_CAUSE_ANSWER);
				}
				else
				{
					assert_true(decoded);
					assert_int_equal(result, answer.expected);
				}
				if (answer.expected == REFUSED && support.failures == 0)
				{
					assert_int_equal(status.code, VERDICT_INTERNAL);
					assert_memory_equal(status.message, "the answer does not decode: ", 28);
				}
				assert_int_equal(support.live, 0);
			}
			free(body);
		}
	}
}

static void
other_answers_decode(void **state)
{
	static const answer counts[] = {
		{VERDICT_WIRE_BINARY, "", 0},
		{VERDICT_WIRE_BINARY, "08ffffffff0f", UINT32_MAX},
		{VERDICT_WIRE_BINARY, "088080808010", REFUSED},
		{VERDICT_WIRE_BINARY, "08ffffffffffffffffff01", REFUSED},
		{VERDICT_WIRE_JSON, "{\"changed\":7}", 7},
		{VERDICT_WIRE_JSON, "{\"changed\":\"4294967295\"}", UINT32_MAX},
		{VERDICT_WIRE_JSON, "{\"changed\":4294967296}", REFUSED},
		{VERDICT_WIRE_JSON, "{\"changed\":-1}", REFUSED},
		{VERDICT_WIRE_JSON, "{\"changed\":true}", REFUSED},
	};
	static const char policy_bytes[] = "\x0a\x05"
									   "p(\xc3\xbc)";
	const char *policy = "";
	uint32_t changed;
	size_t i;

	(void) state;
	for (i = 0; i < LENGTH(counts); i++)
	{
		size_t size;
		char *body = body_of(&counts[i], &size);

		changed = 99;
		verdict_status_init(&status);
		assert_int_equal(
			verdict_decode_batch(&support.host, counts[i].format, body, size, &changed, &status),
			counts[i].expected != REFUSED);
		assert_int_equal(changed,
						 counts[i].expected == REFUSED ? 0 : (uint32_t) counts[i].expected);
		free(body);
	}

	assert_true(
		verdict_decode_get_policy(&arena, VERDICT_WIRE_BINARY, policy_bytes, 7, &policy, &status));
	assert_string_equal(policy, "p(\xc3\xbc)");
	assert_true(verdict_decode_get_policy(&arena, VERDICT_WIRE_JSON, "{\"policy\":\"p(\\u00fc)\"}",
										  22, &policy, &status));
	assert_string_equal(policy, "p(\xc3\xbc)");
	assert_true(verdict_decode_get_policy(&arena, VERDICT_WIRE_JSON, NULL, 0, &policy, &status));
	assert_string_equal(policy, "");
	assert_true(verdict_decode_get_policy(&arena, VERDICT_WIRE_BINARY, NULL, 0, &policy, &status));
	assert_string_equal(policy, "");
	assert_false(verdict_decode_get_policy(&arena, VERDICT_WIRE_BINARY, "\x0a\x01\xff", 3, &policy,
										   &status));
	assert_null(policy);
	assert_false(
		verdict_decode_get_policy(&arena, VERDICT_WIRE_BINARY, "\x0a\x01\0", 3, &policy, &status));
	assert_false(verdict_decode_get_policy(&arena, VERDICT_WIRE_JSON, "{\"policy\":\"\\u0000\"}",
										   19, &policy, &status));
	assert_int_equal(status.code, VERDICT_INTERNAL);
	arena.maximum = arena.used + 16;
	assert_false(
		verdict_decode_get_policy(&arena, VERDICT_WIRE_BINARY, policy_bytes, 7, &policy, &status));
	assert_int_equal(status.code, VERDICT_RESOURCE_EXHAUSTED);
	assert_int_equal(status.cause, VERDICT_CAUSE_TOO_LARGE);

	verdict_status_init(&status);
	assert_true(verdict_decode_set_policy(&support.host, VERDICT_WIRE_BINARY, NULL, 0, &status));
	assert_true(verdict_decode_set_policy(&support.host, VERDICT_WIRE_JSON, "{}", 2, &status));
	assert_true(
		verdict_decode_set_policy(&support.host, VERDICT_WIRE_JSON, "{\"a\":1}", 7, &status));
	assert_false(verdict_decode_set_policy(&support.host, VERDICT_WIRE_JSON, "{", 1, &status));
	assert_false(verdict_decode_set_policy(&support.host, VERDICT_WIRE_BINARY, "{}", 2, &status));
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(requests_have_one_form),
		TEST(requests_are_checked),
		TEST(requests_end_where_the_buffer_does),
		TEST(requests_survive_no_memory),
		TEST(answers_are_all_or_nothing),
		TEST(other_answers_decode),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
