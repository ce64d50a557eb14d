/*
 * test_message.c
 *		Both wire formats, against texts and bytes written by hand.
 *
 * Bytes are given as hexadecimal; spaces in them only group.
 */
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
static verdict_status status;

static int
setup(void **state)
{
	(void) state;
	support_host_init(&support);
	verdict_arena_init(&arena, &support.host, 1024 * 1024);
	verdict_status_init(&status);
	return 0;
}

static int
teardown(void **state)
{
	(void) state;
	verdict_arena_free(&arena);
	return support.live == 0 ? 0 : -1;
}

/* Memory of exactly the size, so that a byte too far is seen; free() it. */
static char *
exact_copy(const void *bytes, size_t size)
{
	char *copy = malloc(size > 0 ? size : 1);

	memcpy(copy, bytes, size);
	return copy;
}

static uint8_t *
from_hex(const char *hex, size_t *size)
{
	uint8_t *bytes = malloc(strlen(hex) / 2 + 1);
	char *exact;
	unsigned byte;

	*size = 0;
	while (*hex != '\0')
	{
		if (*hex == ' ')
		{
			hex++;
			continue;
		}
		assert_int_equal(sscanf(hex, "%2x", &byte), 1);
		bytes[(*size)++] = (uint8_t) byte;
		hex += 2;
	}
	exact = exact_copy(bytes, *size);
	free(bytes);
	return (uint8_t *) exact;
}

static ProtobufCMessage *
read_json(const ProtobufCMessageDescriptor *descriptor, const char *text, bool skip_unknown)
{
	char *copy = exact_copy(text, strlen(text));
	ProtobufCMessage *message;

	message =
		verdict_message_from_json(&arena, descriptor, copy, strlen(text), skip_unknown, &status);
	/* the message must not point into the text */
	memset(copy, '#', strlen(text));
	free(copy);
	return message;
}

static ProtobufCMessage *
read_hex(const ProtobufCMessageDescriptor *descriptor, const char *hex)
{
	size_t size;
	uint8_t *bytes = from_hex(hex, &size);
	ProtobufCMessage *message;

	message = verdict_message_from_binary(&arena, descriptor, bytes, size, &status);
	free(bytes);
	return message;
}

static void
assert_json(const ProtobufCMessage *message, const char *json)
{
	verdict_buffer buffer;

	assert_non_null(message);
	verdict_buffer_init(&buffer, &support.host, 1024 * 1024);
	assert_true(verdict_message_to_json(&buffer, message));
	assert_string_equal(buffer.bytes, json);
	verdict_buffer_free(&buffer);
}

static void
assert_refused(const ProtobufCMessage *message, const char *what)
{
	if (message != NULL)
		fail_msg("accepted, expected: %s", what);
	assert_string_equal(status.message, what);
	assert_int_equal(status.code, VERDICT_INVALID_ARGUMENT);
	verdict_status_init(&status);
}

#define BATCH &verdict__v1__batch_facts_request__descriptor
#define VALUE &verdict__v1__value__descriptor
#define LIST &verdict__v1__list_facts_request__descriptor
#define QUERIED &verdict__v1__query_response__descriptor

/* One message, the two forms of it. */
static void
formats_agree(void **state)
{
	static const struct
	{
		const ProtobufCMessageDescriptor *descriptor;
		const char *hex;
		const char *json;
	} cases[] = {
		{LIST, "", "{}"},
		{&verdict__v1__get_policy_request__descriptor, "", "{}"},
		{LIST, "0a03 0a0170 10ffffffff0f 1a0400ff1020",
		 "{\"pattern\":{\"predicate\":\"p\"},\"limit\":4294967295,\"after\":\"AP8QIA==\"}"},
		{LIST, "1a0101", "{\"after\":\"AQ==\"}"},
		{LIST, "1a020102", "{\"after\":\"AQI=\"}"},
		{LIST, "1a03fbefbe", "{\"after\":\"++++\"}"},
		/* a oneof's member is written also when it has the default value */
		{VALUE, "1200", "{\"string\":\"\"}"},
		{VALUE, "1800", "{\"integer\":\"0\"}"},
		{VALUE, "2000", "{\"boolean\":false}"},
		{VALUE, "2001", "{\"boolean\":true}"},
		{VALUE, "0a00", "{\"identity\":{}}"},
		{VALUE, "18ffffffffffffffffff01", "{\"integer\":\"-1\"}"},
		{VALUE, "18ffffffffffffffff7f", "{\"integer\":\"9223372036854775807\"}"},
		{VALUE, "1880808080808080808001", "{\"integer\":\"-9223372036854775808\"}"},
		{VALUE, "1207 22 5c 0a 01 1f 7f 2f", "{\"string\":\"\\\"\\\\\\u000a\\u0001\\u001f\x7f/\"}"},
		{VALUE, "1209 c3bc e282ac f09f9880",
		 "{\"string\":\"\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80\"}"},
		{QUERIED, "0a0161 0a0162 1208 0a020a00 0a021801 1200 1801",
		 "{\"variables\":[\"a\",\"b\"],\"rows\":[{\"values\":[{\"identity\":{}},{\"integer\":\"1\"}"
		 "]},{}],\"truncated\":true}"},
		{BATCH, "0a09 0a07 0a0170 12021201 0a02 1200", NULL},
		{BATCH, "0a09 0a07 0a0170 12022001 0a02 1200",
		 "{\"changes\":[{\"insert\":{\"predicate\":\"p\",\"args\":[{\"boolean\":true}]}},{"
		 "\"delete\":{}}]}"},
	};
	size_t i;

	(void) state;
	for (i = 0; i < LENGTH(cases); i++)
	{
		ProtobufCMessage *message;
		uint8_t *bytes;
		uint8_t *packed;
		size_t size;

		message = read_hex(cases[i].descriptor, cases[i].hex);
		if (cases[i].json == NULL)
		{
			assert_null(message);
			continue;
		}
		assert_json(message, cases[i].json);
		message = read_json(cases[i].descriptor, cases[i].json, false);
		assert_json(message, cases[i].json);

		/* what JSON made packs to the bytes at the start */
		bytes = from_hex(cases[i].hex, &size);
		assert_int_equal(protobuf_c_message_get_packed_size(message), size);
		packed = malloc(size + 1);
		protobuf_c_message_pack(message, packed);
		assert_memory_equal(packed, bytes, size);
		free(packed);
		free(bytes);
	}
}

static void
json_is_read_generously(void **state)
{
	(void) state;
	assert_json(
		read_json(LIST, " {\n\"limit\" : null, \"after\":null,\t\"pattern\":null }\r\n", false),
		"{}");
	assert_json(read_json(LIST, "{\"limit\":\"12\"}", false), "{\"limit\":12}");
	assert_json(read_json(VALUE, "{\"integer\":-5}", false), "{\"integer\":\"-5\"}");
	assert_json(read_json(VALUE, "{\"integer\":9223372036854775807}", false),
				"{\"integer\":\"9223372036854775807\"}");
	assert_json(read_json(VALUE, "{\"string\":\"\\ud83d\\ude00\\u00fc\\/\"}", false),
				"{\"string\":\"\xf0\x9f\x98\x80\xc3\xbc/\"}");
	/* base64: both alphabets, padding or not */
	assert_json(read_json(LIST, "{\"after\":\"-_-_\"}", false), "{\"after\":\"+/+/\"}");
	assert_json(read_json(LIST, "{\"after\":\"AQ\"}", false), "{\"after\":\"AQ==\"}");
	assert_json(read_json(LIST, "{\"after\":\"AQI\"}", false), "{\"after\":\"AQI=\"}");
	assert_json(read_json(LIST, "{\"after\":\"\"}", false), "{}");
	/* unknown names, where they may be passed over */
	assert_json(read_json(LIST, "{\"new\":[{\"x\":1.5}],\"limit\":1}", true), "{\"limit\":1}");
	assert_json(read_json(QUERIED, "{\"rows\":[{\"values\":null,\"new\":{}}]}", true),
				"{\"rows\":[{}]}");
}

static void
json_is_refused_with_a_place(void **state)
{
	static const struct
	{
		const ProtobufCMessageDescriptor *descriptor;
		const char *text;
		const char *what;
	} cases[] = {
		{LIST, "[]", "expected an object"},
		{LIST, "{\"new\":1}", "unknown name \"new\""},
		{LIST, "{\"limit\":1.5}", "limit: not an integer, or out of range"},
		{LIST, "{\"limit\":1.0}", "limit: not an integer, or out of range"},
		{LIST, "{\"limit\":-1}", "limit: number out of range"},
		{LIST, "{\"limit\":4294967296}", "limit: number out of range"},
		{LIST, "{\"limit\":\"1 \"}", "limit: not an integer, or out of range"},
		{LIST, "{\"limit\":\"\"}", "limit: not an integer, or out of range"},
		{LIST, "{\"limit\":true}", "limit: expected an integer"},
		{LIST, "{\"limit\":1e300}", "limit: not an integer, or out of range"},
		{LIST, "{\"after\":1}", "after: expected a string"},
		{LIST, "{\"after\":\"A\"}", "after: not base64"},
		{LIST, "{\"after\":\"A===\"}", "after: not base64"},
		{LIST, "{\"after\":\"====\"}", "after: not base64"},
		{LIST, "{\"after\":\"AQ=\"}", "after: not base64"},
		{LIST, "{\"after\":\"A Q=\"}", "after: not base64"},
		{LIST, "{\"pattern\":[]}", "pattern: expected an object"},
		{LIST, "{\"pattern\":{\"args\":{}}}", "pattern: \"args\" must be an array"},
		{LIST, "{\"pattern\":{\"args\":[null]}}", "pattern.args[0]: expected an object"},
		{LIST, "{\"pattern\":{\"args\":[{},{\"value\":{\"string\":1}}]}}",
		 "pattern.args[1].value.string: expected a string"},
		{LIST, "{\"limit\":1,\"limit\":1}", "field \"limit\" comes twice"},
		{QUERIED, "{\"variables\":[],\"variables\":[\"a\"]}", "field \"variables\" comes twice"},
		{QUERIED, "{\"truncated\":1}", "truncated: expected true or false"},
		{QUERIED, "{\"truncated\":\"true\"}", "truncated: expected true or false"},
		{QUERIED, "{\"variables\":[null]}", "variables[0]: expected a string"},
		/* where a kind is expected, nothing is guessed */
		{BATCH,
		 "{\"changes\":[{\"insert\":{\"predicate\":\"p\"}},{\"insert\":{\"args\":[{\"decimal\":"
		 "\"1\"}]}}]}",
		 "changes[1].insert.args[0]: unknown name \"decimal\""},
		{BATCH, "{\"changes\":[{\"insert\":null}]}",
		 "changes[0].insert: null where one of a set is expected"},
		{BATCH, "{\"changes\":[{\"insert\":{},\"delete\":{}}]}",
		 "changes[0]: \"insert\" and \"delete\" exclude each other"},
		{BATCH, "{\"changes\":[{\"insert\":{},\"delete\":null}]}",
		 "changes[0]: \"insert\" and \"delete\" exclude each other"},
		{VALUE, "{\"integer\":9223372036854775808}", "integer: not an integer, or out of range"},
		{VALUE, "{\"integer\":\"9223372036854775808\"}",
		 "integer: not an integer, or out of range"},
		{VALUE, "{\"integer\":9.3e18}", "integer: not an integer, or out of range"},
		{VALUE, "{\"integer\":1e999}", "integer: not an integer, or out of range"},
	};
	size_t i;

	(void) state;
	for (i = 0; i < LENGTH(cases); i++)
		assert_refused(read_json(cases[i].descriptor, cases[i].text, cases[i].descriptor != LIST),
					   cases[i].what);
}

static void
broken_json_is_refused(void **state)
{
	static const char *const cases[] = {
		"",
		" ",
		"nul",
		"\"\"",
		"1",
		"{",
		"}",
		"{}}",
		"{} {}",
		"{},",
		"{]",
		"{\"limit\"",
		"{\"limit\":",
		"{\"limit\":1",
		"{\"limit\":1,}",
		"{\"limit\" 1}",
		"{limit:1}",
		"{'limit':1}",
		"{\"limit\":01}",
		"{\"limit\":+1}",
		"{\"limit\":1}x",
		"{\"limit\":1 2}",
		"{\"limit\":NaN}",
		"{\"after\":\"\\",
		"{\"after\":\"\\\"}",
		"{\"after\":\"\\x\"}",
		"{\"x\":\"\\ud800\"}",
		"{\"x\":\"\\ud800\\u0041\"}",
		"{\"x\":\"\\udc00\\udc00\"}",
		"{\"x\":\"\\ud800\\ue000\"}",
		"{\"x\":01}",
		"{\"x\":-}",
		"{\"x\":1.}",
		"{\"x\":.5}",
		"{\"x\":1e}",
		"{\"x\":1e+}",
		"{\"x\":--1}",
		"{\"x\":\"\\u0000\"}",
		"{\"x\\u0000\":1}",
		"{\"x\":\"\xff\"}",
		"{\"x\":\"\xc0\x80\"}",
		"{\"x\":\"\xed\xa0\x80\"}",
		"{\"x\":\"a\nb\"}",
		"\xef\xbb\xbf{}",
		"{\"x\":[1,]}",
		"{\"x\":[}",
		"{\"x\":[1}]",
		"/**/{}",
	};
	size_t i;

	(void) state;
	for (i = 0; i < LENGTH(cases); i++)
	{
		if (read_json(LIST, cases[i], true) != NULL)
			fail_msg("accepted: %s", cases[i]);
		assert_int_equal(status.code, VERDICT_INVALID_ARGUMENT);
		assert_true(strncmp(status.message, "not JSON", 8) == 0 ||
					strcmp(status.message, "expected an object") == 0 ||
					strcmp(status.message, "limit: not an integer, or out of range") == 0 ||
					strcmp(status.message, "limit: expected an integer") == 0);
	}
	assert_null(verdict_message_from_json(&arena, LIST, "{}\0", 3, true, &status));
	assert_null(verdict_message_from_json(&arena, LIST, "{\"\0\":1}", 7, true, &status));
	assert_null(verdict_message_from_json(&arena, LIST, NULL, 0, true, &status));
}

/* {"x":[[...]]} with "depth" brackets in all */
static ProtobufCMessage *
read_nested(int depth)
{
	verdict_buffer text;
	ProtobufCMessage *message;
	int i;

	verdict_buffer_init(&text, &support.host, 1024 * 1024);
	verdict_buffer_append_string(&text, "{\"x\":");
	for (i = 1; i < depth; i++)
		verdict_buffer_append_string(&text, "[");
	for (i = 1; i < depth; i++)
		verdict_buffer_append_string(&text, "]");
	verdict_buffer_append_string(&text, "}");
	message = verdict_message_from_json(&arena, LIST, text.bytes, text.size, true, &status);
	verdict_buffer_free(&text);
	return message;
}

static void
json_has_limits(void **state)
{
	verdict_buffer text;
	int i;

	(void) state;
	assert_non_null(read_nested(32));
	assert_refused(read_nested(33), "not JSON, or nested too deeply, at byte 36");
	assert_null(read_nested(100000));

	/* what is passed over costs nothing, what is read is held to the cap */
	verdict_buffer_init(&text, &support.host, 1024 * 1024);
	verdict_buffer_append_string(&text, "{\"rows\":[{}");
	for (i = 0; i < 100000; i++)
		verdict_buffer_append_string(&text, ",{}");
	verdict_buffer_append_string(&text, "]}");
	verdict_arena_reset(&arena);
	assert_non_null(verdict_message_from_json(&arena, LIST, text.bytes, text.size, true, &status));
	assert_in_range(arena.used, 1, 200);
	assert_null(verdict_message_from_json(&arena, QUERIED, text.bytes, text.size, true, &status));
	assert_int_equal(status.code, VERDICT_RESOURCE_EXHAUSTED);
	assert_int_equal(status.cause, VERDICT_CAUSE_TOO_LARGE);
	verdict_buffer_free(&text);
}

static void
binary_is_checked_first(void **state)
{
	static const struct
	{
		const ProtobufCMessageDescriptor *descriptor;
		const char *hex;
		const char *what;
	} cases[] = {
		{QUERIED, "08", "the field at byte 0 is cut off or malformed"},
		{QUERIED, "1801 0a05616263", "the field at byte 2 is cut off or malformed"},
		{QUERIED, "0affffffffffffffffff01", "the field at byte 0 is cut off or malformed"},
		{QUERIED, "0001", "the field at byte 0 is cut off or malformed"}, /* field 0 */
		{QUERIED, "808080808001 01",
		 "the field at byte 0 is cut off or malformed"}, /* tag of 36 bits */
		{QUERIED, "988080808001 01", "the field at byte 0 is cut off or malformed"},
		/* tags and lengths in six bytes, of known fields and of others */
		{QUERIED, "988080808000 01", "the field at byte 0 is cut off or malformed"},
		{QUERIED, "f5f8f5fe8f00 00000b71", "the field at byte 0 is cut off or malformed"},
		{QUERIED, "0a 818080808000 61", "the field at byte 0 is cut off or malformed"},
		{QUERIED, "a206 818080808000 61", "the field at byte 0 is cut off or malformed"},
		{QUERIED, "188080808080808080808001",
		 "the field at byte 0 is cut off or malformed"}, /* 11 bytes */
		{QUERIED, "1880808080808080808002",
		 "the field at byte 0 is cut off or malformed"},				   /* 65 bits */
		{QUERIED, "23 24", "the field at byte 0 is cut off or malformed"}, /* group */
		{QUERIED, "26", "the field at byte 0 is cut off or malformed"},	   /* wire type 6 */
		{QUERIED, "27", "the field at byte 0 is cut off or malformed"},
		{QUERIED, "2101020304050607", "the field at byte 0 is cut off or malformed"},
		{QUERIED, "25010203", "the field at byte 0 is cut off or malformed"},
		{QUERIED, "0801", "variables[0]: wire type 0 does not fit the field"},
		{QUERIED, "1a0101", "truncated: wire type 2 does not fit the field"},
		{QUERIED, "1d01000000", "truncated: wire type 5 does not fit the field"},
		{QUERIED, "1801 1801", "field \"truncated\" comes twice"},
		{QUERIED, "1800 1801", "field \"truncated\" comes twice"},
		{QUERIED, "1802", "truncated: a boolean that is neither 0 nor 1"},
		{QUERIED, "0a0161 0a02c3", "the field at byte 3 is cut off or malformed"},
		{QUERIED, "0a0161 0a01c3", "variables[1]: string is not UTF-8 without NUL"},
		{QUERIED, "0a0100", "variables[0]: string is not UTF-8 without NUL"},
		{QUERIED, "1200 1203 0a01 08",
		 "rows[1].values[0]: the field at byte 0 is cut off or malformed"},
		/* where a kind is expected, nothing is guessed */
		{QUERIED, "1204 0a02 2801",
		 "rows[0].values[0]: unknown field 5 where one of a set is expected"},
		{QUERIED, "1206 0a00 0a02 2a00",
		 "rows[0].values[1]: unknown field 5 where one of a set is expected"},
		{VALUE, "1801 2001", "\"integer\" and \"boolean\" exclude each other"},
		{VALUE, "1801 1802", "field \"integer\" comes twice"},
		{VALUE, "0a00 0a00", "field \"identity\" comes twice"},
		{LIST, "0a00 0a00", "field \"pattern\" comes twice"},
		{LIST, "108080808010", "limit: number out of range"},
	};
	size_t i;

	(void) state;
	for (i = 0; i < LENGTH(cases); i++)
		assert_refused(read_hex(cases[i].descriptor, cases[i].hex), cases[i].what);

	/* unknown fields of each wire type, where they may be passed over */
	assert_json(read_hex(QUERIED, "a00601 1801 a10601 02030405060708 a2060161 a50601020304 1200"),
				"{\"rows\":[{}],\"truncated\":true}");
	/* numbers in more bytes than they need: a tag and a length have up to five */
	assert_json(read_hex(QUERIED, "188100"), "{\"truncated\":true}");
	assert_json(read_hex(QUERIED, "18 81808080808080808000"), "{\"truncated\":true}");
	assert_json(read_hex(QUERIED, "9880808000 01"), "{\"truncated\":true}");
	assert_json(read_hex(QUERIED, "f5f8f5fe0f 00000b71"), "{}");
	assert_json(read_hex(QUERIED, "0a 8180808000 61"), "{\"variables\":[\"a\"]}");
	assert_json(verdict_message_from_binary(&arena, LIST, NULL, 0, &status), "{}");
}

/* A message that holds itself, as none of ours does. */
typedef struct nested
{
	ProtobufCMessage base;
	ProtobufCMessage *inner;
} nested;

static void nested_init(ProtobufCMessage *message);
static const ProtobufCMessageDescriptor nested_descriptor;
static const ProtobufCFieldDescriptor nested_fields[] = {
	{"inner", 1, PROTOBUF_C_LABEL_NONE, PROTOBUF_C_TYPE_MESSAGE, 0, offsetof(nested, inner),
	 &nested_descriptor, NULL, 0, 0, NULL, NULL},
};
static const unsigned nested_by_name[] = {0};
static const ProtobufCIntRange nested_ranges[] = {{1, 0}, {0, 1}};
static const ProtobufCMessageDescriptor nested_descriptor = {PROTOBUF_C__MESSAGE_DESCRIPTOR_MAGIC,
															 "Nested",
															 "Nested",
															 "Nested",
															 "",
															 sizeof(nested),
															 1,
															 nested_fields,
															 nested_by_name,
															 1,
															 nested_ranges,
															 nested_init,
															 NULL,
															 NULL,
															 NULL};

static void
nested_init(ProtobufCMessage *message)
{
	memset(message, 0, sizeof(nested));
	message->descriptor = &nested_descriptor;
}

static ProtobufCMessage *
read_nested_binary(int depth)
{
	/* built from the inside out, at the end of the room */
	size_t room = (size_t) depth * 6 + 1;
	uint8_t *bytes = malloc(room);
	size_t start = room;
	ProtobufCMessage *message;
	int i;

	for (i = 1; i < depth; i++)
	{
		size_t length = room - start;
		uint8_t prefix[6] = {0x0a};
		size_t size = 1;

		do
		{
			prefix[size++] = (uint8_t) ((length & 0x7F) | (length > 0x7F ? 0x80 : 0));
			length >>= 7;
		} while (length > 0);
		start -= size;
		memcpy(bytes + start, prefix, size);
	}
	message = verdict_message_from_binary(&arena, &nested_descriptor, bytes + start, room - start,
										  &status);
	free(bytes);
	return message;
}

static void
binary_nesting_has_a_limit(void **state)
{
	const nested *message;
	int depth;

	(void) state;
	message = (nested *) read_nested_binary(32);
	for (depth = 0; message != NULL; depth++)
		message = (nested *) message->inner;
	assert_int_equal(depth, 32);
	assert_null(read_nested_binary(33));
	assert_non_null(strstr(status.message, "nested too deeply"));
	assert_int_equal(status.code, VERDICT_INVALID_ARGUMENT);
	assert_null(read_nested_binary(100000));
}

static void
binary_memory_has_a_cap(void **state)
{
	uint8_t bytes[2 * 60000];
	size_t i;

	(void) state;
	for (i = 0; i < sizeof(bytes); i += 2)
	{
		bytes[i] = 0x12; /* one more empty row */
		bytes[i + 1] = 0;
	}
	support.peak_bytes = 0;
	assert_null(verdict_message_from_binary(&arena, QUERIED, bytes, sizeof(bytes), &status));
	assert_int_equal(status.code, VERDICT_RESOURCE_EXHAUSTED);
	assert_int_equal(status.cause, VERDICT_CAUSE_TOO_LARGE);
	assert_in_range(support.peak_bytes, 1, 2 * 1024 * 1024);
}

static void
memory_may_fail_anywhere(void **state)
{
	static const char json[] =
		"{\"changes\":[{\"insert\":{\"predicate\":\"p\",\"args\":[{\"boolean\":true},"
		"{\"identity\":{\"type\":\"User\",\"id\":\"a longer id than most\"}},"
		"{\"integer\":\"-9223372036854775808\"}]}},{\"delete\":{}}]}";
	static const char long_json[] =
		"{\"changes\":[{\"insert\":{\"args\":[{\"integer\":-9223372036854775808},"
		"{\"integer\":-0},{\"string\":\"\\u0041\\u00fc\\u20ac\\ud83d\\ude00\\n\\\"more than "
		"sixteen\"}]}}],"
		"\"a name that nobody knows\":[1.2345678901234567890,-1234567890123456]}";
	static const char long_json_again[] =
		"{\"changes\":[{\"insert\":{\"args\":[{\"integer\":\"-9223372036854775808\"},"
		"{\"integer\":\"0\"},{\"string\":\"A\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80\\u000a\\\"more "
		"than sixteen\"}]}}]}";
	verdict_buffer packed;
	ProtobufCMessage *message;
	size_t n;

	(void) state;
	message = read_json(BATCH, json, false);
	assert_non_null(message);
	verdict_buffer_init(&packed, &support.host, 10000);
	assert_true(verdict_buffer_append(&packed, json, strlen(json)));
	packed.size = protobuf_c_message_pack(message, (uint8_t *) packed.bytes);

	for (n = 1; n == 1 || support.failures > 0; n++)
	{
		verdict_arena_free(&arena);
		support_fail_at(&support, n);
		message = verdict_message_from_binary(&arena, BATCH, (uint8_t *) packed.bytes, packed.size,
											  &status);
		support.fail_at = 0;
		assert_int_equal(message != NULL, support.failures == 0);
		if (message == NULL)
			assert_int_equal(status.cause, VERDICT_CAUSE_MEMORY);
		else
			assert_json(message, json);
		verdict_status_init(&status);
	}
	assert_in_range(n, 2, 20);
	verdict_buffer_free(&packed);

	for (n = 1; n == 1 || support.failures > 0; n++)
	{
		verdict_arena_free(&arena);
		support_fail_at(&support, n);
		message = read_json(BATCH, long_json, true);
		support.fail_at = 0;
		assert_int_equal(message != NULL, support.failures == 0);
		if (message == NULL)
			assert_int_equal(status.cause, VERDICT_CAUSE_MEMORY);
		else
			assert_json(message, long_json_again);
		verdict_status_init(&status);
	}
	assert_in_range(n, 2, 20);

	/* writing */
	message = read_json(BATCH, json, false);
	for (n = 1; n == 1 || support.failures > 0; n++)
	{
		verdict_buffer buffer;
		bool written;

		verdict_buffer_init(&buffer, &support.host, 10000);
		support_fail_at(&support, n);
		written = verdict_message_to_json(&buffer, message);
		support.fail_at = 0;
		assert_int_equal(written, support.failures == 0);
		assert_int_equal(buffer.state, written ? VERDICT_BUFFER_OK : VERDICT_BUFFER_NO_MEMORY);
		verdict_buffer_free(&buffer);
	}
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(formats_agree),
		TEST(json_is_read_generously),
		TEST(json_is_refused_with_a_place),
		TEST(broken_json_is_refused),
		TEST(json_has_limits),
		TEST(binary_is_checked_first),
		TEST(binary_nesting_has_a_limit),
		TEST(binary_memory_has_a_cap),
		TEST(memory_may_fail_anywhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
