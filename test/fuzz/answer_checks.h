/*
 * answer_checks.h
 *		What must hold of an answer's decoding, whatever the bytes and the format.
 *
 * The first byte of an input picks the decoder and whether there is memory for
 * whole messages, the rest is the body.
 */
#ifndef VERDICT_FUZZ_ANSWER_CHECKS_H
#define VERDICT_FUZZ_ANSWER_CHECKS_H

#include "check.h"
#include "codec.h"
#include "message.h"

#include "verdict.pb-c.h"

#include <string.h>

#define ANSWER_MEMORY (64 * 1024 * 1024)
#define LITTLE_MEMORY 1024

static verdict_host host;

/* A refusal has a code, a message fit to be shown, and gives nothing out. */
static void
check_refusal(const verdict_status *status)
{
	check(status->code == VERDICT_INTERNAL || status->code == VERDICT_RESOURCE_EXHAUSTED);
	check(status->cause == VERDICT_CAUSE_ANSWER || status->cause == VERDICT_CAUSE_TOO_LARGE);
	check(status->message[0] != '\0');
	check(verdict_is_text(status->message, strlen(status->message)));
}

static ProtobufCMessage *
read_whole(verdict_arena *arena, verdict_wire_format format,
		   const ProtobufCMessageDescriptor *descriptor, const uint8_t *body, size_t size,
		   verdict_status *status)
{
	if (format == VERDICT_WIRE_JSON && size > 0)
		return verdict_message_from_json(arena, descriptor, (const char *) body, size, true,
										 status);
	return verdict_message_from_binary(arena, descriptor, body, size, status);
}

/* What was read means the same after a turn through both formats. */
static void
check_round_trip(verdict_arena *arena, const ProtobufCMessage *message)
{
	const ProtobufCMessageDescriptor *descriptor = message->descriptor;
	verdict_status status;
	verdict_buffer json;
	verdict_buffer again;
	ProtobufCMessage *copy;
	size_t size;
	uint8_t *packed;

	verdict_status_init(&status);
	verdict_buffer_init(&json, &host, SIZE_MAX);
	verdict_buffer_init(&again, &host, SIZE_MAX);
	check(verdict_message_to_json(&json, message));
	copy = verdict_message_from_json(arena, descriptor, json.bytes, json.size, false, &status);
	if (copy == NULL)
	{
		/* the arena may be full by now */
		check(status.cause == VERDICT_CAUSE_TOO_LARGE);
		verdict_buffer_free(&json);
		return;
	}
	size = protobuf_c_message_get_packed_size(copy);
	packed = malloc(size + 1);
	check(packed != NULL && protobuf_c_message_pack(copy, packed) == size);
	copy = verdict_message_from_binary(arena, descriptor, packed, size, &status);
	free(packed);
	if (copy == NULL)
		check(status.cause == VERDICT_CAUSE_TOO_LARGE);
	else
	{
		check(verdict_message_to_json(&again, copy));
		check(strcmp(json.bytes, again.bytes) == 0);
	}
	verdict_buffer_free(&json);
	verdict_buffer_free(&again);
}

static void
check_value(const verdict_value *value)
{
	switch (value->kind)
	{
		case VERDICT_VALUE_IDENTITY:
			check(verdict_is_identifier(value->as.identity.type, strlen(value->as.identity.type)));
			check(value->as.identity.id[0] != '\0');
			check(verdict_is_text(value->as.identity.id, strlen(value->as.identity.id)));
			break;
		case VERDICT_VALUE_STRING:
			check(verdict_is_text(value->as.string, strlen(value->as.string)));
			break;
		default:
			break;
	}
}

/* Reads row by row; what that accepts as a whole, the whole message must hold. */
static void
check_rows(verdict_wire_format format, verdict_rows_kind kind, const uint8_t *body, size_t size,
		   size_t expected)
{
	static const char *const names[] = {"a", "b"};
	const verdict_value *values;
	const verdict_fact *fact;
	verdict_status status;
	verdict_arena arena;
	verdict_rows *rows;
	ProtobufCMessage *message;
	void *copy = NULL;
	size_t token_size;
	size_t count = 0;
	int more;

	if (size > 0)
	{
		copy = malloc(size);
		check(copy != NULL);
		memcpy(copy, body, size);
	}
	verdict_status_init(&status);
	rows = verdict_rows_open(&host, format, kind, copy, size, names, expected, &status);
	if (rows == NULL)
	{
		check_refusal(&status);
		return;
	}
	for (;;)
	{
		size_t i;

		if (kind == VERDICT_ROWS_QUERY)
		{
			more = verdict_rows_next(rows, &values, &status);
			for (i = 0; more == 1 && i < expected; i++)
				check_value(&values[i]);
		}
		else
		{
			more = verdict_rows_next_fact(rows, &fact, &status);
			for (i = 0; more == 1 && i < fact->count; i++)
			{
				check(fact->args[i].kind == VERDICT_TERM_VALUE &&
					  fact->args[i].as.value.kind != VERDICT_VALUE_ANY);
				check_value(&fact->args[i].as.value);
			}
		}
		if (more != 1)
			break;
		count++;
	}
	verdict_rows_next_token(rows, &token_size);
	if (more < 0)
		check_refusal(&status);
	else
	{
		verdict_arena_init(&arena, &host, ANSWER_MEMORY);
		message =
			read_whole(&arena, format,
					   kind == VERDICT_ROWS_QUERY ? &verdict__v1__query_response__descriptor
												  : &verdict__v1__list_facts_response__descriptor,
					   body, size, &status);
		if (message == NULL)
			check(status.cause == VERDICT_CAUSE_TOO_LARGE);
		else if (kind == VERDICT_ROWS_QUERY)
		{
			check(((Verdict__V1__QueryResponse *) message)->n_rows == count);
			check(((Verdict__V1__QueryResponse *) message)->n_variables == expected);
			check((((Verdict__V1__QueryResponse *) message)->truncated != 0) ==
				  verdict_rows_truncated(rows));
		}
		else
		{
			check(((Verdict__V1__ListFactsResponse *) message)->n_facts == count);
			check(((Verdict__V1__ListFactsResponse *) message)->next.len == token_size);
		}
		verdict_arena_free(&arena);
	}
	verdict_rows_free(rows);
}

static void
check_answer(verdict_wire_format format, const uint8_t *data, size_t size)
{
	static const ProtobufCMessageDescriptor *const descriptors[] = {
		&verdict__v1__authorize_response__descriptor,
		&verdict__v1__insert_fact_response__descriptor,
		&verdict__v1__batch_facts_response__descriptor,
		&verdict__v1__get_policy_response__descriptor,
		&verdict__v1__set_policy_response__descriptor,
		&verdict__v1__query_response__descriptor,
		&verdict__v1__list_facts_response__descriptor,
		&verdict__v1__batch_facts_request__descriptor,
		&verdict__v1__list_facts_request__descriptor,
	};
	verdict_status status;
	verdict_arena arena;
	ProtobufCMessage *message;
	const uint8_t *body = data + 1;
	unsigned kind;
	bool flag = true;
	uint32_t number = 99;
	const char *policy = "x";
	bool acceptable;
	bool decoded;

	verdict_host_init_posix(&host);
	if (size == 0)
		return;
	size--;
	kind = data[0] % 11;
	verdict_status_init(&status);
	verdict_arena_init(&arena, &host, data[0] / 11 % 2 == 0 ? ANSWER_MEMORY : LITTLE_MEMORY);

	if (kind < 9)
	{
		message = read_whole(&arena, format, descriptors[kind], body, size, &status);
		if (message != NULL)
			check_round_trip(&arena, message);
		else
		{
			check(status.code != VERDICT_OK && status.message[0] != '\0');
			check(verdict_is_text(status.message, strlen(status.message)));
		}
		check(arena.used <= arena.maximum);
		/* the decoders of small answers have memory of their own */
		acceptable = message != NULL || status.cause == VERDICT_CAUSE_TOO_LARGE;
		verdict_arena_reset(&arena);
		verdict_status_init(&status);
		switch (kind)
		{
			case 0:
				decoded = verdict_decode_authorize(&host, format, body, size, &flag, &status);
				check(decoded == acceptable && (decoded || !flag));
				break;
			case 1:
				decoded = verdict_decode_changed(&host, format, body, size, &flag, &status);
				check(decoded == acceptable && (decoded || !flag));
				break;
			case 2:
				decoded = verdict_decode_batch(&host, format, body, size, &number, &status);
				check(decoded == acceptable && (decoded || number == 0));
				break;
			case 3:
				decoded = verdict_decode_get_policy(&arena, format, body, size, &policy, &status);
				check(decoded == (message != NULL) && decoded == (policy != NULL));
				break;
			case 4:
				decoded = verdict_decode_set_policy(&host, format, body, size, &status);
				check(decoded == acceptable);
				break;
			case 5:
				check_rows(format, VERDICT_ROWS_QUERY, body, size, 0);
				decoded = true;
				break;
			default:
				decoded = true;
				break;
		}
		if (!decoded)
			check_refusal(&status);
	}
	else
		check_rows(format, VERDICT_ROWS_QUERY, body, size, kind - 8);
	if (kind == 6)
		check_rows(format, VERDICT_ROWS_FACTS, body, size, 0);
	verdict_arena_free(&arena);
}

#endif /* VERDICT_FUZZ_ANSWER_CHECKS_H */
