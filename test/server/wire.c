/*
 * wire.c
 *		The two wire formats over protobuf-c's descriptors.
 *
 * Nothing is kept between calls.  Source of the statuses: the Connect protocol,
 * "Error codes".
 */
#include "wire.h"

#include "message.h"

#include <jansson.h>
#include <string.h>
#include <strings.h>

static const int http_statuses[] = {
	[VERDICT_OK] = 200,
	[VERDICT_CANCELED] = 499,
	[VERDICT_UNKNOWN] = 500,
	[VERDICT_INVALID_ARGUMENT] = 400,
	[VERDICT_DEADLINE_EXCEEDED] = 504,
	[VERDICT_NOT_FOUND] = 404,
	[VERDICT_ALREADY_EXISTS] = 409,
	[VERDICT_PERMISSION_DENIED] = 403,
	[VERDICT_RESOURCE_EXHAUSTED] = 429,
	[VERDICT_FAILED_PRECONDITION] = 400,
	[VERDICT_ABORTED] = 409,
	[VERDICT_OUT_OF_RANGE] = 400,
	[VERDICT_UNIMPLEMENTED] = 501,
	[VERDICT_INTERNAL] = 500,
	[VERDICT_UNAVAILABLE] = 503,
	[VERDICT_DATA_LOSS] = 500,
	[VERDICT_UNAUTHENTICATED] = 401,
};

int
wire_http_status(verdict_code code)
{
	return http_statuses[code];
}

const char *
wire_content_type(wire_format format)
{
	return format == WIRE_JSON ? "application/json" : "application/proto";
}

const char *
wire_format_name(wire_format format)
{
	return format == WIRE_BINARY ? "binary" : format == WIRE_JSON ? "json" : NULL;
}

wire_format
wire_format_of(const char *content_type)
{
	size_t size;

	if (content_type == NULL)
		return WIRE_NONE;
	size = strcspn(content_type, "; \t");
	if (size == strlen("application/proto") &&
		strncasecmp(content_type, "application/proto", size) == 0)
		return WIRE_BINARY;
	if (size == strlen("application/json") &&
		strncasecmp(content_type, "application/json", size) == 0)
		return WIRE_JSON;
	return WIRE_NONE;
}

/*
 * A name that the schema does not have is refused in JSON: whoever misspells
 * "resource" by hand is told, instead of asking about nothing.
 */
ProtobufCMessage *
wire_decode(verdict_arena *arena, wire_format format, const ProtobufCMessageDescriptor *descriptor,
			const void *body, size_t size, verdict_status *status)
{
	if (format == WIRE_JSON && size > 0)
		return verdict_message_from_json(arena, descriptor, body, size, false, status);
	return verdict_message_from_binary(arena, descriptor, body, size, status);
}

static void
append_packed(ProtobufCBuffer *target, size_t size, const uint8_t *bytes)
{
	verdict_buffer_append(*(verdict_buffer **) (target + 1), bytes, size);
}

bool
wire_encode(verdict_buffer *out, wire_format format, const ProtobufCMessage *message)
{
	struct
	{
		ProtobufCBuffer base;
		verdict_buffer *out;
	} target = {{append_packed}, out};

	if (format == WIRE_JSON)
		return verdict_message_to_json(out, message);
	protobuf_c_message_pack_to_buffer(message, &target.base);
	return out->state == VERDICT_BUFFER_OK;
}

bool
wire_encode_error(verdict_buffer *out, verdict_code code, const char *message)
{
	json_t *error = json_pack("{s:s, s:s}", "code", verdict_code_name(code), "message", message);
	char *text;
	bool done;

	if (error == NULL)
		return false;
	text = json_dumps(error, JSON_COMPACT);
	json_decref(error);
	done = text != NULL && verdict_buffer_append_string(out, text);
	free(text);
	return done;
}
