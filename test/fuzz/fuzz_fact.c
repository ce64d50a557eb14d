/*
 * fuzz_fact.c
 *		The text of facts and patterns out of hostile bytes.
 *
 * What parses must print to a text that parses to the same, be sent alike in
 * both wire formats, and be refused by none of the encoders that its kind allows.
 */
#include "check.h"
#include "codec.h"
#include "message.h"
#include "value.h"

#include "verdict.pb-c.h"

#include <string.h>

extern int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static verdict_host host;

static bool
same_term(const verdict_term *a, const verdict_term *b)
{
	if (a->kind != b->kind)
		return false;
	switch (a->kind)
	{
		case VERDICT_TERM_WILDCARD:
			return true;
		case VERDICT_TERM_VALUE:
			return verdict_value_equal(&a->as.value, &b->as.value);
		case VERDICT_TERM_VARIABLE:
			return strcmp(a->as.variable.name, b->as.variable.name) == 0 &&
				   strcmp(a->as.variable.type, b->as.variable.type) == 0;
	}
	return false;
}

/* Changes have an encoder of their own: one payload, whole or put together. */
static void
check_changes(verdict_arena *arena, const verdict_fact *fact)
{
	verdict_change changes[] = {{true, *fact}, {false, *fact}};
	verdict_status status;
	verdict_buffer whole;
	verdict_buffer parts;
	verdict_buffer bare;
	ProtobufCMessage *message;
	uint8_t *packed;

	verdict_status_init(&status);
	verdict_buffer_init(&whole, &host, SIZE_MAX);
	verdict_buffer_init(&parts, &host, SIZE_MAX);
	verdict_buffer_init(&bare, &host, SIZE_MAX);
	check(verdict_encode_batch(&whole, VERDICT_WIRE_BINARY, changes, 2, &status));
	check(verdict_encode_bare_fact(&bare, fact, &status));
	check(verdict_encode_change(&parts, true, bare.bytes, bare.size, &status));
	check(verdict_encode_change(&parts, false, bare.bytes, bare.size, &status));
	check(parts.size == whole.size && memcmp(parts.bytes, whole.bytes, whole.size) == 0);

	/* and the bytes are protobuf-c's */
	message = verdict_message_from_binary(arena, &verdict__v1__batch_facts_request__descriptor,
										  (uint8_t *) whole.bytes, whole.size, &status);
	check(message != NULL && protobuf_c_message_get_packed_size(message) == whole.size);
	packed = verdict_arena_alloc(arena, whole.size);
	check(packed != NULL && protobuf_c_message_pack(message, packed) == whole.size);
	check(memcmp(packed, whole.bytes, whole.size) == 0);

	verdict_buffer_reset(&parts);
	check(verdict_message_to_json(&parts, message));
	verdict_buffer_reset(&whole);
	check(verdict_encode_batch(&whole, VERDICT_WIRE_JSON, changes, 2, &status));
	check(strcmp(parts.bytes, whole.bytes) == 0);
	verdict_buffer_free(&whole);
	verdict_buffer_free(&parts);
	verdict_buffer_free(&bare);
}

static void
check_fact(verdict_arena *arena, const verdict_fact *fact)
{
	verdict_status status;
	verdict_buffer text;
	verdict_buffer again;
	verdict_buffer bytes;
	verdict_fact copy;
	ProtobufCMessage *message;
	size_t i;

	verdict_status_init(&status);
	verdict_buffer_init(&text, &host, SIZE_MAX);
	verdict_buffer_init(&again, &host, SIZE_MAX);
	verdict_buffer_init(&bytes, &host, SIZE_MAX);

	check(fact->count <= VERDICT_MAX_ARGUMENTS);
	check(verdict_fact_print(&text, fact));
	check(verdict_is_text(text.bytes, text.size));
	check(verdict_fact_parse(arena, text.bytes, text.size, &copy, &status));
	check(strcmp(copy.predicate, fact->predicate) == 0);
	check(copy.count == fact->count);
	for (i = 0; i < fact->count; i++)
		check(same_term(&copy.args[i], &fact->args[i]));
	check(verdict_fact_print(&again, &copy));
	check(strcmp(again.bytes, text.bytes) == 0);

	/* one payload, whatever the format */
	check(verdict_encode_query(&bytes, VERDICT_WIRE_BINARY, fact, 7, &status));
	message = verdict_message_from_binary(arena, &verdict__v1__query_request__descriptor,
										  (uint8_t *) bytes.bytes, bytes.size, &status);
	check(message != NULL);
	verdict_buffer_reset(&text);
	check(verdict_message_to_json(&text, message));
	verdict_buffer_reset(&again);
	check(verdict_encode_query(&again, VERDICT_WIRE_JSON, fact, 7, &status));
	check(strcmp(text.bytes, again.bytes) == 0);
	check(verdict_message_from_json(arena, &verdict__v1__query_request__descriptor, again.bytes,
									again.size, false, &status) != NULL);
	verdict_buffer_reset(&bytes);
	check(verdict_encode_fact(&bytes, VERDICT_WIRE_BINARY, fact, &status) ==
		  verdict_fact_is_ground(fact));
	if (verdict_fact_is_ground(fact))
		check_changes(arena, fact);

	verdict_buffer_free(&text);
	verdict_buffer_free(&again);
	verdict_buffer_free(&bytes);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *) data;
	verdict_arena arena;
	verdict_status status;
	verdict_fact fact;

	verdict_host_init_posix(&host);
	verdict_arena_init(&arena, &host, SIZE_MAX);
	verdict_status_init(&status);
	if (verdict_fact_parse(&arena, text, size, &fact, &status))
		check_fact(&arena, &fact);
	else
	{
		check(status.code == VERDICT_INVALID_ARGUMENT);
		check(status.message[0] != '\0');
		check(verdict_is_text(status.message, strlen(status.message)));
	}
	verdict_arena_free(&arena);
	return 0;
}
