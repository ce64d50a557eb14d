/*
 * fuzz_identity.c
 *		The text of identities out of hostile bytes.
 *
 * What parses prints to the same bytes, stands for the same in the text of a
 * fact, and is sent alike in both wire formats.
 */
#include "check.h"
#include "codec.h"
#include "message.h"
#include "text.h"

#include "verdict.pb-c.h"

#include <string.h>

extern int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static verdict_host host;

/* As an argument the id may have to be quoted; it stays the same id. */
static void
check_in_fact(verdict_arena *arena, const verdict_identity *identity)
{
	verdict_value value = {.kind = VERDICT_VALUE_IDENTITY, .as.identity = *identity};
	verdict_status status;
	verdict_buffer text;
	verdict_fact fact;

	verdict_status_init(&status);
	verdict_buffer_init(&text, &host, SIZE_MAX);
	verdict_buffer_append_string(&text, "p(");
	check(verdict_value_print(&text, &value));
	verdict_buffer_append_string(&text, ")");
	check(verdict_fact_parse(arena, text.bytes, text.size, &fact, &status));
	check(fact.count == 1 && fact.args[0].kind == VERDICT_TERM_VALUE);
	check(verdict_value_equal(&fact.args[0].as.value, &value));
	verdict_buffer_free(&text);
}

static void
check_request(verdict_arena *arena, const verdict_identity *identity)
{
	verdict_status status;
	verdict_buffer binary;
	verdict_buffer json;
	verdict_buffer again;
	ProtobufCMessage *message;

	verdict_status_init(&status);
	verdict_buffer_init(&binary, &host, SIZE_MAX);
	verdict_buffer_init(&json, &host, SIZE_MAX);
	verdict_buffer_init(&again, &host, SIZE_MAX);
	check(verdict_encode_authorize(&binary, VERDICT_WIRE_BINARY, identity, "a", identity, &status));
	check(verdict_encode_authorize(&json, VERDICT_WIRE_JSON, identity, "a", identity, &status));
	message = verdict_message_from_binary(arena, &verdict__v1__authorize_request__descriptor,
										  (uint8_t *) binary.bytes, binary.size, &status);
	check(message != NULL);
	check(strcmp(((Verdict__V1__AuthorizeRequest *) message)->actor->id, identity->id) == 0);
	check(verdict_message_to_json(&again, message));
	check(strcmp(json.bytes, again.bytes) == 0);
	message = verdict_message_from_json(arena, &verdict__v1__authorize_request__descriptor,
										json.bytes, json.size, false, &status);
	check(message != NULL);
	check(strcmp(((Verdict__V1__AuthorizeRequest *) message)->resource->id, identity->id) == 0);
	verdict_buffer_free(&binary);
	verdict_buffer_free(&json);
	verdict_buffer_free(&again);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *) data;
	verdict_arena arena;
	verdict_status status;
	verdict_identity identity;

	verdict_host_init_posix(&host);
	verdict_arena_init(&arena, &host, SIZE_MAX);
	verdict_status_init(&status);
	if (verdict_identity_parse(&arena, text, size, &identity, &status))
	{
		verdict_buffer printed;

		check(verdict_is_identifier(identity.type, strlen(identity.type)));
		check(identity.id[0] != '\0' && verdict_is_text(identity.id, strlen(identity.id)));
		verdict_buffer_init(&printed, &host, SIZE_MAX);
		check(verdict_identity_print(&printed, &identity));
		check(printed.size == size && memcmp(printed.bytes, text, size) == 0);
		verdict_buffer_free(&printed);
		check_in_fact(&arena, &identity);
		check_request(&arena, &identity);
	}
	else
	{
		check(status.code == VERDICT_INVALID_ARGUMENT);
		check(status.message[0] != '\0');
		check(verdict_is_text(status.message, strlen(status.message)));
	}
	verdict_arena_free(&arena);
	return 0;
}
