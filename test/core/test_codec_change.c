/*
 * test_codec_change.c
 *		Changes of facts in binary: what is written without protobuf-c is what
 *		protobuf-c would write.
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
#define ROUNDS 3000
#define MAX_CHANGES 4
#define MAX_ARGUMENTS 5

static support_host support;
static verdict_buffer out;
static verdict_status status;

static int
setup(void **state)
{
	(void) state;
	support_host_init(&support);
	verdict_buffer_init(&out, &support.host, 1024 * 1024);
	verdict_status_init(&status);
	return 0;
}

static int
teardown(void **state)
{
	(void) state;
	verdict_buffer_free(&out);
	return support.live == 0 ? 0 : -1;
}

/* Strings around the sizes where a length takes one more byte. */
static const char *
any_text(bool may_be_empty)
{
	static char texts[64][20000];
	static size_t next;
	static const size_t sizes[] = {0, 1, 5, 100, 119, 126, 127, 128, 129, 300, 16383, 16384};
	size_t size = sizes[(size_t) rand() % (rand() % 20 == 0 ? LENGTH(sizes) : 4)];
	char *text = texts[next++ % 64];

	if (size == 0 && !may_be_empty)
		size = 1;
	memset(text, 'a' + rand() % 26, size);
	text[size] = '\0';
	if (size > 3 && rand() % 2)
		memcpy(text, "\xe2\x82\xac", 3);
	return text;
}

static void
any_value(verdict_value *value)
{
	static const int64_t integers[] = {0,	1,	   -1,		  127,		 128,
									   300, 16384, INT64_MAX, INT64_MIN, 1234567890123};

	switch (rand() % 4)
	{
		case 0:
			value->kind = VERDICT_VALUE_IDENTITY;
			value->as.identity.type = rand() % 2 ? "User" : "T";
			value->as.identity.id = any_text(false);
			break;
		case 1:
			value->kind = VERDICT_VALUE_STRING;
			value->as.string = any_text(true);
			break;
		case 2:
			value->kind = VERDICT_VALUE_INTEGER;
			value->as.integer = integers[(size_t) rand() % LENGTH(integers)];
			break;
		default:
			value->kind = VERDICT_VALUE_BOOLEAN;
			value->as.boolean = rand() % 2;
			break;
	}
}

/* What protobuf-c makes of what it reads from the bytes. */
static void
assert_is_protobufs(size_t count)
{
	Verdict__V1__BatchFactsRequest *message =
		verdict__v1__batch_facts_request__unpack(NULL, out.size, (uint8_t *) out.bytes);
	uint8_t *again;

	assert_non_null(message);
	assert_int_equal(message->n_changes, count);
	assert_int_equal(verdict__v1__batch_facts_request__get_packed_size(message), out.size);
	again = malloc(out.size + 1);
	verdict__v1__batch_facts_request__pack(message, again);
	if (out.size > 0)
		assert_memory_equal(again, out.bytes, out.size);
	free(again);
	verdict__v1__batch_facts_request__free_unpacked(message, NULL);
}

/* The structs of protobuf-c, made by the encoder of JSON, say the same. */
static void
assert_same_as_json(const verdict_change *changes, size_t count)
{
	verdict_buffer json;
	verdict_buffer again;
	verdict_arena arena;
	ProtobufCMessage *message;

	verdict_buffer_init(&json, &support.host, 1024 * 1024);
	verdict_buffer_init(&again, &support.host, 1024 * 1024);
	verdict_arena_init(&arena, &support.host, SIZE_MAX);
	assert_true(verdict_encode_batch(&json, VERDICT_WIRE_JSON, changes, count, &status));
	message = verdict_message_from_binary(&arena, &verdict__v1__batch_facts_request__descriptor,
										  (uint8_t *) out.bytes, out.size, &status);
	assert_non_null(message);
	assert_true(verdict_message_to_json(&again, message));
	assert_string_equal(again.bytes, json.bytes);
	verdict_arena_free(&arena);
	verdict_buffer_free(&json);
	verdict_buffer_free(&again);
}

/* Fact by fact, then the elements one after the other. */
static void
assert_same_in_steps(const verdict_change *changes, size_t count)
{
	verdict_buffer elements;
	verdict_buffer fact;
	size_t i;

	verdict_buffer_init(&elements, &support.host, 1024 * 1024);
	verdict_buffer_init(&fact, &support.host, 1024 * 1024);
	for (i = 0; i < count; i++)
	{
		verdict_buffer_reset(&fact);
		assert_true(verdict_encode_bare_fact(&fact, &changes[i].fact, &status));
		assert_true(
			verdict_encode_change(&elements, changes[i].insert, fact.bytes, fact.size, &status));
	}
	assert_int_equal(elements.size, out.size);
	assert_memory_equal(elements.bytes, out.bytes, out.size);
	verdict_buffer_free(&elements);
	verdict_buffer_free(&fact);
}

static void
changes_are_written_as_protobuf_does(void **state)
{
	static verdict_term terms[MAX_CHANGES][MAX_ARGUMENTS];
	int round;

	(void) state;
	srand(1);
	for (round = 0; round < ROUNDS; round++)
	{
		verdict_change changes[MAX_CHANGES];
		size_t count = 1 + (size_t) rand() % MAX_CHANGES;
		size_t i;
		size_t j;

		for (i = 0; i < count; i++)
		{
			changes[i].insert = rand() % 2;
			changes[i].fact.predicate = rand() % 2 ? "is_owner" : "p";
			changes[i].fact.count = (size_t) rand() % (MAX_ARGUMENTS + 1);
			changes[i].fact.args = terms[i];
			for (j = 0; j < changes[i].fact.count; j++)
			{
				terms[i][j].kind = VERDICT_TERM_VALUE;
				any_value(&terms[i][j].as.value);
			}
		}
		verdict_buffer_reset(&out);
		assert_true(verdict_encode_batch(&out, VERDICT_WIRE_BINARY, changes, count, &status));
		assert_is_protobufs(count);
		assert_same_as_json(changes, count);
		assert_same_in_steps(changes, count);
	}
}

static void
the_steps_check_what_they_get(void **state)
{
	verdict_term term = {VERDICT_TERM_VALUE, {.value = {VERDICT_VALUE_STRING, {.string = "\xff"}}}};
	verdict_fact fact = {"p", 1, &term};

	(void) state;
	assert_false(verdict_encode_bare_fact(&out, &fact, &status));
	assert_string_equal(status.message, "fact.args[0]: the string is not valid UTF-8");
	term.kind = VERDICT_TERM_WILDCARD;
	assert_false(verdict_encode_bare_fact(&out, &fact, &status));
	assert_string_equal(status.message,
						"fact.args[0]: a fact must not hold a variable or a wildcard");
	fact.predicate = "not one";
	assert_false(verdict_encode_bare_fact(&out, &fact, &status));
	assert_string_equal(status.message, "fact: the predicate must be an identifier");
	assert_int_equal(status.code, VERDICT_INVALID_ARGUMENT);
	assert_int_equal(out.size, 0);
}

static void
exhausted_memory_and_size_are_told(void **state)
{
	verdict_term term = {VERDICT_TERM_VALUE, {.value = {VERDICT_VALUE_STRING, {.string = "abc"}}}};
	verdict_change change = {true, {"p", 1, &term}};
	verdict_buffer small;

	(void) state;
	verdict_buffer_init(&small, &support.host, 12);
	assert_false(verdict_encode_batch(&small, VERDICT_WIRE_BINARY, &change, 1, &status));
	assert_int_equal(status.cause, VERDICT_CAUSE_TOO_LARGE);
	verdict_buffer_free(&small);

	verdict_status_init(&status);
	assert_false(verdict_encode_change(&small, true, "0123456789", 10, &status));
	assert_int_equal(status.cause, VERDICT_CAUSE_TOO_LARGE);
	verdict_buffer_free(&small);

	support.fail_at = support.allocations + 1;
	verdict_status_init(&status);
	assert_false(verdict_encode_bare_fact(&out, &change.fact, &status));
	assert_int_equal(status.cause, VERDICT_CAUSE_MEMORY);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(changes_are_written_as_protobuf_does, setup, teardown),
		cmocka_unit_test_setup_teardown(the_steps_check_what_they_get, setup, teardown),
		cmocka_unit_test_setup_teardown(exhausted_memory_and_size_are_told, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
