/*
 * message.c
 *		The binary wire format: a check of the whole message first, then
 *		protobuf-c's unpack into the caller's arena.
 *
 * protobuf-c 1.4.1 recurses without a limit, takes any bytes for a string,
 * merges what comes twice and keeps unknown fields: nothing reaches it here that
 * has not passed scan_message().
 */
#include "message_internal.h"

#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Wire types; 3 and 4 (groups), 6 and 7 are refused. */
#define WIRE_VARINT 0
#define WIRE_64BIT 1
#define WIRE_LENGTH 2
#define WIRE_32BIT 5

#define LARGEST_FIELD_NUMBER ((1U << 29) - 1)

/*
 * Numbers of 64 bits have up to ten bytes.  Tags and lengths have 32 bits, so
 * five: protobuf-c, as most readers, takes no more of them however they are
 * filled, and an answer must not read differently where it never sees them.
 */
#define LONGEST_VARINT 10
#define LONGEST_SHORT_VARINT 5

/* Appends to "where" what fits; the rest is left out. */
static void
print_place(char *where, size_t room, const verdict_place *place)
{
	size_t filled;

	if (place->outer != NULL)
	{
		print_place(where, room, place->outer);
		filled = strlen(where);
		snprintf(where + filled, room - filled, ".");
	}
	filled = strlen(where);
	snprintf(where + filled, room - filled, "%s", place->field->name);
	filled = strlen(where);
	if (place->field->label == PROTOBUF_C_LABEL_REPEATED)
		snprintf(where + filled, room - filled, "[%zu]", place->index);
}

bool
verdict_message_refuse(verdict_status *status, const verdict_place *place, const char *format, ...)
{
	char text[VERDICT_MESSAGE_SIZE];
	char where[VERDICT_MESSAGE_SIZE / 2] = "";
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (place == NULL)
		return verdict_status_fail(status, VERDICT_INVALID_ARGUMENT, VERDICT_CAUSE_ARGUMENT, "%s",
								   text);
	print_place(where, sizeof(where), place);
	return verdict_status_fail(status, VERDICT_INVALID_ARGUMENT, VERDICT_CAUSE_ARGUMENT, "%s: %s",
							   where, text);
}

bool
verdict_arena_failure(const verdict_arena *arena, verdict_status *status)
{
	if (arena->no_memory || !arena->exhausted)
		return verdict_status_no_memory(status);
	return verdict_status_fail(status, VERDICT_RESOURCE_EXHAUSTED, VERDICT_CAUSE_TOO_LARGE,
							   "the message needs more than %zu bytes of memory", arena->maximum);
}

bool
verdict_message_is_choice(const ProtobufCMessageDescriptor *descriptor)
{
	unsigned i;

	if (descriptor->n_fields == 0)
		return false;
	for (i = 0; i < descriptor->n_fields; i++)
	{
		const ProtobufCFieldDescriptor *field = &descriptor->fields[i];

		if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) == 0 ||
			field->quantifier_offset != descriptor->fields[0].quantifier_offset)
			return false;
	}
	return true;
}

bool
verdict_message_note_field(const ProtobufCMessageDescriptor *descriptor,
						   const ProtobufCFieldDescriptor *field, uint64_t *seen,
						   const verdict_place *place, verdict_status *status)
{
	unsigned number = (unsigned) (field - descriptor->fields);
	unsigned i;

	if (descriptor->n_fields > VERDICT_MESSAGE_MAX_FIELDS)
		return verdict_message_refuse(status, place, "too many kinds of fields");
	if (field->label == PROTOBUF_C_LABEL_REPEATED)
		return true;
	if ((*seen >> number) & 1)
		return verdict_message_refuse(status, place, "field \"%s\" comes twice", field->name);
	*seen |= UINT64_C(1) << number;
	if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) == 0)
		return true;
	for (i = 0; i < descriptor->n_fields; i++)
	{
		const ProtobufCFieldDescriptor *other = &descriptor->fields[i];

		if (i != number && ((*seen >> i) & 1) &&
			(other->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0 &&
			other->quantifier_offset == field->quantifier_offset)
			return verdict_message_refuse(status, place, "\"%s\" and \"%s\" exclude each other",
										  other->name, field->name);
	}
	return true;
}

static bool
read_varint(const uint8_t *bytes, size_t size, size_t *position, unsigned longest, uint64_t *value)
{
	uint64_t result = 0;
	unsigned i;

	for (i = 0; i < longest && *position < size; i++)
	{
		uint8_t byte = bytes[(*position)++];

		/* the tenth byte has room for one bit */
		if (i == LONGEST_VARINT - 1 && byte > 1)
			return false;
		result |= (uint64_t) (byte & 0x7F) << (7 * i);
		if ((byte & 0x80) == 0)
		{
			*value = result;
			return true;
		}
	}
	return false;
}

bool
verdict_wire_read_field(const uint8_t *bytes, size_t size, size_t *position,
						verdict_wire_field *field)
{
	uint64_t tag;
	uint64_t length;

	if (!read_varint(bytes, size, position, LONGEST_SHORT_VARINT, &tag) || tag > UINT32_MAX)
		return false;
	field->number = (uint32_t) tag >> 3;
	field->wire_type = (unsigned) tag & 7;
	if (field->number == 0 || field->number > LARGEST_FIELD_NUMBER)
		return false;
	field->varint = 0;
	field->start = *position;
	field->length = 0;
	switch (field->wire_type)
	{
		case WIRE_VARINT:
			return read_varint(bytes, size, position, LONGEST_VARINT, &field->varint);
		case WIRE_64BIT:
			length = 8;
			break;
		case WIRE_LENGTH:
			if (!read_varint(bytes, size, position, LONGEST_SHORT_VARINT, &length))
				return false;
			break;
		case WIRE_32BIT:
			length = 4;
			break;
		default:
			return false;
	}
	if (length > size - *position)
		return false;
	field->start = *position;
	field->length = (size_t) length;
	*position += (size_t) length;
	return true;
}

static bool
scan_message(const ProtobufCMessageDescriptor *descriptor, const uint8_t *bytes, size_t size,
			 int depth, const verdict_place *place, verdict_status *status);

/* Checks what one known field holds. */
static bool
scan_field(const verdict_wire_field *wire, const uint8_t *bytes, int depth,
		   const verdict_place *place, verdict_status *status)
{
	unsigned wire_type = WIRE_LENGTH;
	const uint8_t *content = bytes + wire->start;

	switch (place->field->type)
	{
		case PROTOBUF_C_TYPE_BOOL:
		case PROTOBUF_C_TYPE_UINT32:
		case PROTOBUF_C_TYPE_INT64:
			/* packed numbers: no message of ours repeats a number */
			if (place->field->label == PROTOBUF_C_LABEL_REPEATED)
				return verdict_message_refuse(status, place,
											  "fields of this type are not supported");
			wire_type = WIRE_VARINT;
			break;
		case PROTOBUF_C_TYPE_STRING:
		case PROTOBUF_C_TYPE_BYTES:
		case PROTOBUF_C_TYPE_MESSAGE:
			break;
		default:
			return verdict_message_refuse(status, place, "fields of this type are not supported");
	}
	if (wire->wire_type != wire_type)
		return verdict_message_refuse(status, place, "wire type %u does not fit the field",
									  wire->wire_type);

	switch (place->field->type)
	{
		case PROTOBUF_C_TYPE_BOOL:
			/* No encoder writes another number, and it must not mean "yes". */
			if (wire->varint > 1)
				return verdict_message_refuse(status, place, "a boolean that is neither 0 nor 1");
			return true;
		case PROTOBUF_C_TYPE_UINT32:
			if (wire->varint > UINT32_MAX)
				return verdict_message_refuse(status, place, "number out of range");
			return true;
		case PROTOBUF_C_TYPE_STRING:
			if (!verdict_is_text((const char *) content, wire->length))
				return verdict_message_refuse(status, place, "string is not UTF-8 without NUL");
			return true;
		case PROTOBUF_C_TYPE_MESSAGE:
			return scan_message(place->field->descriptor, content, wire->length, depth + 1, place,
								status);
		default:
			return true;
	}
}

static bool
scan_message(const ProtobufCMessageDescriptor *descriptor, const uint8_t *bytes, size_t size,
			 int depth, const verdict_place *place, verdict_status *status)
{
	verdict_place inner = {place, NULL, 0};
	bool choice = verdict_message_is_choice(descriptor);
	uint64_t seen = 0;
	size_t position = 0;

	if (depth > VERDICT_MESSAGE_MAX_DEPTH)
		return verdict_message_refuse(status, place, "nested too deeply");
	while (position < size)
	{
		size_t start = position;
		verdict_wire_field wire;
		const ProtobufCFieldDescriptor *field;

		if (!verdict_wire_read_field(bytes, size, &position, &wire))
			return verdict_message_refuse(status, place,
										  "the field at byte %zu is cut off or malformed", start);
		field = protobuf_c_message_descriptor_get_field(descriptor, wire.number);
		if (field == NULL)
		{
			if (choice)
				return verdict_message_refuse(status, place,
											  "unknown field %u where one of a set is expected",
											  (unsigned) wire.number);
			continue;
		}
		if (!verdict_message_note_field(descriptor, field, &seen, place, status))
			return false;
		/* Encoders write the elements of a repeated field side by side. */
		inner.index = inner.field == field ? inner.index + 1 : 0;
		inner.field = field;
		if (!scan_field(&wire, bytes, depth, &inner, status))
			return false;
	}
	return true;
}

ProtobufCMessage *
verdict_message_from_binary(verdict_arena *arena, const ProtobufCMessageDescriptor *descriptor,
							const uint8_t *bytes, size_t size, verdict_status *status)
{
	static const uint8_t nothing[1] = {0};
	ProtobufCMessage *message;

	if (bytes == NULL)
		bytes = nothing;
	if (!scan_message(descriptor, bytes, size, 1, NULL, status))
		return NULL;
	message = protobuf_c_message_unpack(descriptor, &arena->allocator, size, bytes);
	if (message == NULL)
	{
		if (arena->no_memory || arena->exhausted)
			verdict_arena_failure(arena, status);
		else
			verdict_message_refuse(status, NULL, "the message does not decode");
	}
	return message;
}
