/*
 * message_json.c
 *		The JSON wire format: protobuf's JSON mapping over protobuf-c's
 *		descriptors.  Rules: https://protobuf.dev/programming-guides/json/
 *
 * Reading goes straight from the text into the structs: nothing is allocated but
 * them and their strings, all of it in the caller's arena.
 */
#include "message_internal.h"

#include "json.h"
#include "text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Longer than any name in a schema of ours. */
#define LONGEST_NAME 64

static const char base64_digits[] =
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

#define MEMBER(message, offset, type) (*(type *) ((char *) (message) + (offset)))
#define CONST_MEMBER(message, offset, type) (*(const type *) ((const char *) (message) + (offset)))

/* ---------- writing ---------- */

static void
append_json_string(verdict_buffer *out, const char *string)
{
	const char *run = string;
	const char *next;

	verdict_buffer_append(out, "\"", 1);
	for (next = string; *next != '\0'; next++)
	{
		unsigned char c = (unsigned char) *next;

		if (c >= 0x20 && c != '"' && c != '\\')
			continue;
		verdict_buffer_append(out, run, (size_t) (next - run));
		if (c < 0x20)
			verdict_buffer_printf(out, "\\u%04x", c);
		else
			verdict_buffer_printf(out, "\\%c", c);
		run = next + 1;
	}
	verdict_buffer_append(out, run, (size_t) (next - run));
	verdict_buffer_append(out, "\"", 1);
}

static void
append_base64(verdict_buffer *out, const uint8_t *bytes, size_t size)
{
	size_t i;

	verdict_buffer_append(out, "\"", 1);
	for (i = 0; i < size; i += 3)
	{
		size_t left = size - i;
		uint32_t group = (uint32_t) bytes[i] << 16;
		char digits[4];

		if (left > 1)
			group |= (uint32_t) bytes[i + 1] << 8;
		if (left > 2)
			group |= bytes[i + 2];
		digits[0] = base64_digits[group >> 18];
		digits[1] = base64_digits[(group >> 12) & 63];
		digits[2] = left > 1 ? base64_digits[(group >> 6) & 63] : '=';
		digits[3] = left > 2 ? base64_digits[group & 63] : '=';
		verdict_buffer_append(out, digits, 4);
	}
	verdict_buffer_append(out, "\"", 1);
}

/* "next_page" becomes "nextPage". */
static void
append_json_name(verdict_buffer *out, const char *name)
{
	bool raise = false;

	verdict_buffer_append(out, "\"", 1);
	for (; *name != '\0'; name++)
	{
		char c = *name;

		if (c == '_')
		{
			raise = true;
			continue;
		}
		if (raise && c >= 'a' && c <= 'z')
			c = (char) (c - 'a' + 'A');
		raise = false;
		verdict_buffer_append(out, &c, 1);
	}
	verdict_buffer_append(out, "\":", 2);
}

static bool append_message(verdict_buffer *out, const ProtobufCMessage *message);

/* Appends the value of a field, or one element of it, that lies at "value". */
static bool
append_value(verdict_buffer *out, const ProtobufCFieldDescriptor *field, const void *value)
{
	switch (field->type)
	{
		case PROTOBUF_C_TYPE_BOOL:
			verdict_buffer_append_string(out,
										 *(const protobuf_c_boolean *) value ? "true" : "false");
			return true;
		case PROTOBUF_C_TYPE_UINT32:
			verdict_buffer_printf(out, "%" PRIu32, *(const uint32_t *) value);
			return true;
		case PROTOBUF_C_TYPE_INT64:
			verdict_buffer_printf(out, "\"%" PRId64 "\"", *(const int64_t *) value);
			return true;
		case PROTOBUF_C_TYPE_STRING:
			append_json_string(out, *(const char *const *) value);
			return true;
		case PROTOBUF_C_TYPE_BYTES:
		{
			const ProtobufCBinaryData *data = value;

			append_base64(out, data->data, data->len);
			return true;
		}
		case PROTOBUF_C_TYPE_MESSAGE:
			return append_message(out, *(const ProtobufCMessage *const *) value);
		default:
			return false;
	}
}

static size_t
element_size(const ProtobufCFieldDescriptor *field)
{
	switch (field->type)
	{
		case PROTOBUF_C_TYPE_BOOL:
			return sizeof(protobuf_c_boolean);
		case PROTOBUF_C_TYPE_UINT32:
			return sizeof(uint32_t);
		case PROTOBUF_C_TYPE_INT64:
			return sizeof(int64_t);
		case PROTOBUF_C_TYPE_BYTES:
			return sizeof(ProtobufCBinaryData);
		default:
			return sizeof(void *);
	}
}

/* True when a field that is not repeated has to be written. */
static bool
field_is_set(const ProtobufCFieldDescriptor *field, const ProtobufCMessage *message)
{
	bool oneof = (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;

	if (oneof && CONST_MEMBER(message, field->quantifier_offset, uint32_t) != field->id)
		return false;
	switch (field->type)
	{
		case PROTOBUF_C_TYPE_BOOL:
			return oneof || CONST_MEMBER(message, field->offset, protobuf_c_boolean);
		case PROTOBUF_C_TYPE_UINT32:
			return oneof || CONST_MEMBER(message, field->offset, uint32_t) != 0;
		case PROTOBUF_C_TYPE_INT64:
			return oneof || CONST_MEMBER(message, field->offset, int64_t) != 0;
		case PROTOBUF_C_TYPE_STRING:
		{
			const char *string = CONST_MEMBER(message, field->offset, char *const);

			return string != NULL && (oneof || string[0] != '\0');
		}
		case PROTOBUF_C_TYPE_BYTES:
			return oneof || CONST_MEMBER(message, field->offset, ProtobufCBinaryData).len > 0;
		default:
			return CONST_MEMBER(message, field->offset, void *const) != NULL;
	}
}

static bool
append_message(verdict_buffer *out, const ProtobufCMessage *message)
{
	const ProtobufCMessageDescriptor *descriptor = message->descriptor;
	const char *separator = "{";
	unsigned i;

	for (i = 0; i < descriptor->n_fields; i++)
	{
		const ProtobufCFieldDescriptor *field = &descriptor->fields[i];

		if (field->label == PROTOBUF_C_LABEL_REPEATED)
		{
			size_t count = CONST_MEMBER(message, field->quantifier_offset, size_t);
			const char *elements = CONST_MEMBER(message, field->offset, char *const);
			size_t n;

			if (count == 0)
				continue;
			verdict_buffer_append_string(out, separator);
			append_json_name(out, field->name);
			for (n = 0; n < count; n++)
			{
				verdict_buffer_append(out, n == 0 ? "[" : ",", 1);
				if (!append_value(out, field, elements + n * element_size(field)))
					return false;
			}
			verdict_buffer_append(out, "]", 1);
		}
		else
		{
			if (!field_is_set(field, message))
				continue;
			verdict_buffer_append_string(out, separator);
			append_json_name(out, field->name);
			if (!append_value(out, field, (const char *) message + field->offset))
				return false;
		}
		separator = ",";
	}
	if (separator[0] == '{')
		verdict_buffer_append(out, "{", 1);
	return verdict_buffer_append(out, "}", 1);
}

bool
verdict_message_to_json(verdict_buffer *buffer, const ProtobufCMessage *message)
{
	return append_message(buffer, message) && buffer->state == VERDICT_BUFFER_OK;
}

/* ---------- reading ---------- */

typedef struct reader
{
	verdict_arena *arena;
	verdict_json json;
	bool skip_unknown;
	verdict_status *status;
} reader;

static bool
no_arena(reader *reader)
{
	return verdict_arena_failure(reader->arena, reader->status);
}

static bool
malformed(reader *reader)
{
	return verdict_message_refuse(
		reader->status, NULL, "not JSON, or nested too deeply, at byte %zu", reader->json.position);
}

/* Reads a string into the arena, with a terminator. */
static bool
read_string(reader *reader, const verdict_place *place, char **string, size_t *size)
{
	size_t start;

	if (verdict_json_peek(&reader->json) != '"')
		return verdict_message_refuse(reader->status, place, "expected a string");
	start = reader->json.position;
	if (!verdict_json_string(&reader->json, NULL, size))
		return malformed(reader);
	*string = verdict_arena_alloc(reader->arena, *size + 1);
	if (*string == NULL)
		return no_arena(reader);
	reader->json.position = start;
	verdict_json_string(&reader->json, *string, size);
	(*string)[*size] = '\0';
	return true;
}

static bool
read_base64(reader *reader, const verdict_place *place, ProtobufCBinaryData *data)
{
	char *text;
	size_t size;
	int64_t decoded;

	if (!read_string(reader, place, &text, &size))
		return false;
	decoded = verdict_base64_decode(text, size, (uint8_t *) text);
	if (decoded < 0)
		return verdict_message_refuse(reader->status, place, "not base64");
	data->len = (size_t) decoded;
	data->data = (uint8_t *) text;
	return true;
}

/* Integers come as number or as string. */
static bool
read_integer(reader *reader, const verdict_place *place, int64_t *value)
{
	char c = verdict_json_peek(&reader->json);
	size_t start = reader->json.position;
	char *digits;
	size_t size;
	bool parsed;

	if (c == '"')
	{
		if (!read_string(reader, place, &digits, &size))
			return false;
		parsed = verdict_int64_parse(digits, size, value);
	}
	else if (c == '-' || (c >= '0' && c <= '9'))
	{
		if (!verdict_json_number(&reader->json))
			return malformed(reader);
		parsed =
			verdict_int64_parse(reader->json.text + start, reader->json.position - start, value);
	}
	else
		return verdict_message_refuse(reader->status, place, "expected an integer");
	if (!parsed)
		return verdict_message_refuse(reader->status, place, "not an integer, or out of range");
	return true;
}

static bool
read_boolean(reader *reader, const verdict_place *place, protobuf_c_boolean *value)
{
	char c = verdict_json_peek(&reader->json);

	if (c != 't' && c != 'f')
		return verdict_message_refuse(reader->status, place, "expected true or false");
	if (!verdict_json_skip(&reader->json, 0))
		return malformed(reader);
	*value = c == 't';
	return true;
}

static ProtobufCMessage *read_message(reader *reader, const ProtobufCMessageDescriptor *descriptor,
									  int depth, const verdict_place *place);

/*
 * Reads the value of the field at "place", or one element of it, into "value".
 * "depth" levels of objects and arrays may still be opened.
 */
static bool
read_value(reader *reader, const verdict_place *place, int depth, void *value)
{
	const ProtobufCFieldDescriptor *field = place->field;
	int64_t integer;
	size_t size;

	switch (field->type)
	{
		case PROTOBUF_C_TYPE_BOOL:
			return read_boolean(reader, place, value);
		case PROTOBUF_C_TYPE_UINT32:
			if (!read_integer(reader, place, &integer))
				return false;
			if (integer < 0 || integer > UINT32_MAX)
				return verdict_message_refuse(reader->status, place, "number out of range");
			*(uint32_t *) value = (uint32_t) integer;
			return true;
		case PROTOBUF_C_TYPE_INT64:
			return read_integer(reader, place, value);
		case PROTOBUF_C_TYPE_STRING:
			return read_string(reader, place, value, &size);
		case PROTOBUF_C_TYPE_BYTES:
			return read_base64(reader, place, value);
		case PROTOBUF_C_TYPE_MESSAGE:
			*(ProtobufCMessage **) value = read_message(reader, field->descriptor, depth, place);
			return *(ProtobufCMessage **) value != NULL;
		default:
			return verdict_message_refuse(reader->status, place,
										  "fields of this type are not supported");
	}
}

/* Counts the elements of the array that comes next, without reading them. */
static bool
count_elements(reader *reader, int depth, size_t *count)
{
	verdict_json ahead = reader->json;

	*count = 0;
	verdict_json_take(&ahead, '[');
	if (verdict_json_take(&ahead, ']'))
		return true;
	do
	{
		if (!verdict_json_skip(&ahead, depth))
			break;
		(*count)++;
	} while (verdict_json_take(&ahead, ','));
	if (verdict_json_take(&ahead, ']'))
		return true;
	reader->json.position = ahead.position;
	return malformed(reader);
}

static bool
read_repeated(reader *reader, verdict_place *place, int depth, ProtobufCMessage *message)
{
	const ProtobufCFieldDescriptor *field = place->field;
	size_t size = element_size(field);
	char *elements = NULL;
	size_t count;
	size_t i;

	if (verdict_json_peek(&reader->json) != '[')
		return verdict_message_refuse(reader->status, place->outer, "\"%s\" must be an array",
									  field->name);
	if (depth < 1 || !count_elements(reader, depth - 1, &count))
		return malformed(reader);
	if (count > 0)
	{
		if (count > SIZE_MAX / size)
			return verdict_status_no_memory(reader->status);
		elements = verdict_arena_alloc(reader->arena, count * size);
		if (elements == NULL)
			return no_arena(reader);
	}
	for (i = 0; i < count; i++)
	{
		/* the opening bracket, then the commas */
		verdict_json_take(&reader->json, i == 0 ? '[' : ',');
		place->index = i;
		if (!read_value(reader, place, depth - 1, elements + i * size))
			return false;
	}
	if (count == 0)
		verdict_json_take(&reader->json, '[');
	verdict_json_take(&reader->json, ']');
	MEMBER(message, field->quantifier_offset, size_t) = count;
	MEMBER(message, field->offset, char *) = elements;
	return true;
}

/* The field of a JSON name: as in the schema, or in camelCase; or NULL. */
static const ProtobufCFieldDescriptor *
find_field(const ProtobufCMessageDescriptor *descriptor, const char *name)
{
	unsigned i;

	for (i = 0; i < descriptor->n_fields; i++)
	{
		const char *original = descriptor->fields[i].name;
		const char *given = name;
		bool raise = false;

		if (strcmp(original, name) == 0)
			return &descriptor->fields[i];
		for (; *original != '\0'; original++)
		{
			char c = *original;

			if (c == '_')
			{
				raise = true;
				continue;
			}
			if (raise && c >= 'a' && c <= 'z')
				c = (char) (c - 'a' + 'A');
			raise = false;
			if (*given != c)
				break;
			given++;
		}
		if (*original == '\0' && *given == '\0')
			return &descriptor->fields[i];
	}
	return NULL;
}

/* Reads one name and value of an object into the message. */
static bool
read_member(reader *reader, ProtobufCMessage *message, bool choice, int depth, uint64_t *seen,
			const verdict_place *place)
{
	const ProtobufCMessageDescriptor *descriptor = message->descriptor;
	verdict_place inner = {place, NULL, 0};
	char name[LONGEST_NAME + 1] = "";
	size_t start;
	size_t size;

	if (verdict_json_peek(&reader->json) != '"')
		return malformed(reader);
	start = reader->json.position;
	if (!verdict_json_string(&reader->json, NULL, &size))
		return malformed(reader);
	if (size <= LONGEST_NAME)
	{
		reader->json.position = start;
		verdict_json_string(&reader->json, name, &size);
		inner.field = find_field(descriptor, name);
	}
	if (!verdict_json_take(&reader->json, ':'))
		return malformed(reader);

	if (inner.field == NULL)
	{
		if (!reader->skip_unknown || choice)
			return verdict_message_refuse(reader->status, place, "unknown name \"%s\"",
										  size <= LONGEST_NAME ? name : "...");
		return verdict_json_skip(&reader->json, depth) || malformed(reader);
	}
	if (!verdict_message_note_field(descriptor, inner.field, seen, place, reader->status))
		return false;
	if (inner.field->label == PROTOBUF_C_LABEL_REPEATED)
	{
		/* the elements of an array stand together: in JSON it comes once */
		uint64_t bit = UINT64_C(1) << (inner.field - descriptor->fields);

		if ((*seen & bit) != 0)
			return verdict_message_refuse(reader->status, place, "field \"%s\" comes twice",
										  inner.field->name);
		*seen |= bit;
	}
	if (verdict_json_peek(&reader->json) == 'n')
	{
		/* "unset" may mean "anything" there, so it is never guessed */
		if (choice)
			return verdict_message_refuse(reader->status, &inner,
										  "null where one of a set is expected");
		return verdict_json_skip(&reader->json, 0) || malformed(reader);
	}
	if (inner.field->label == PROTOBUF_C_LABEL_REPEATED)
		return read_repeated(reader, &inner, depth, message);
	if (!read_value(reader, &inner, depth, (char *) message + inner.field->offset))
		return false;
	if ((inner.field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0)
		MEMBER(message, inner.field->quantifier_offset, uint32_t) = inner.field->id;
	return true;
}

static ProtobufCMessage *
read_message(reader *reader, const ProtobufCMessageDescriptor *descriptor, int depth,
			 const verdict_place *place)
{
	bool choice = verdict_message_is_choice(descriptor);
	ProtobufCMessage *message;
	uint64_t seen = 0;

	if (verdict_json_peek(&reader->json) != '{')
	{
		verdict_message_refuse(reader->status, place, "expected an object");
		return NULL;
	}
	if (depth < 1)
	{
		malformed(reader);
		return NULL;
	}
	message = verdict_arena_alloc(reader->arena, descriptor->sizeof_message);
	if (message == NULL)
	{
		no_arena(reader);
		return NULL;
	}
	protobuf_c_message_init(descriptor, message);

	verdict_json_take(&reader->json, '{');
	if (verdict_json_take(&reader->json, '}'))
		return message;
	do
	{
		if (!read_member(reader, message, choice, depth - 1, &seen, place))
			return NULL;
	} while (verdict_json_take(&reader->json, ','));
	if (!verdict_json_take(&reader->json, '}'))
	{
		malformed(reader);
		return NULL;
	}
	return message;
}

ProtobufCMessage *
verdict_message_from_json(verdict_arena *arena, const ProtobufCMessageDescriptor *descriptor,
						  const char *text, size_t size, bool skip_unknown, verdict_status *status)
{
	reader reader = {arena, {text, size, 0}, skip_unknown, status};
	ProtobufCMessage *message;

	message = read_message(&reader, descriptor, VERDICT_JSON_MAX_DEPTH, NULL);
	if (message == NULL)
		return NULL;
	verdict_json_peek(&reader.json);
	if (reader.json.position != size)
	{
		malformed(&reader);
		return NULL;
	}
	return message;
}
