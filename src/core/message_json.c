/*
 * message_json.c
 *		The JSON wire format: protobuf's JSON mapping over protobuf-c's
 *		descriptors.  Rules: https://protobuf.dev/programming-guides/json/
 *
 * jansson parses; it takes its memory from malloc(), because its allocation
 * functions are one set for the whole process, which is not ours to change.  So
 * no jansson value outlives the function that parsed it, nothing can leave
 * between (the core never longjmps), and what a text can make jansson allocate
 * is estimated and held against the arena's cap before jansson sees it.
 *
 * jansson 2.14 drops a character of a long token, and says nothing, when malloc()
 * fails while the token grows (lex_save() in its load.c).  A wrong id would be a
 * wrong decision, so what it read is counted and compared with the text.
 */
#include "message_internal.h"

#include "text.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* About what jansson allocates for a container, a string and an element. */
#define COST_CONTAINER 256
#define COST_STRING 112
#define COST_ELEMENT 64

static const char base64_digits[] =
"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

#define MEMBER(message, offset, type) \
	(*(type *) ((char *) (message) + (offset)))
#define CONST_MEMBER(message, offset, type) \
	(*(const type *) ((const char *) (message) + (offset)))

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
	size_t		i;

	verdict_buffer_append(out, "\"", 1);
	for (i = 0; i < size; i += 3)
	{
		size_t		left = size - i;
		uint32_t	group = (uint32_t) bytes[i] << 16;
		char		digits[4];

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
	bool		raise = false;

	verdict_buffer_append(out, "\"", 1);
	for (; *name != '\0'; name++)
	{
		char		c = *name;

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
append_value(verdict_buffer *out, const ProtobufCFieldDescriptor *field,
			 const void *value)
{
	switch (field->type)
	{
		case PROTOBUF_C_TYPE_BOOL:
			verdict_buffer_append_string(out,
										 *(const protobuf_c_boolean *) value ?
										 "true" : "false");
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
field_is_set(const ProtobufCFieldDescriptor *field,
			 const ProtobufCMessage *message)
{
	bool		oneof = (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;

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
			return oneof || CONST_MEMBER(message, field->offset,
										 ProtobufCBinaryData).len > 0;
		default:
			return CONST_MEMBER(message, field->offset, void *const) != NULL;
	}
}

static bool
append_message(verdict_buffer *out, const ProtobufCMessage *message)
{
	const ProtobufCMessageDescriptor *descriptor = message->descriptor;
	const char *separator = "{";
	unsigned	i;

	for (i = 0; i < descriptor->n_fields; i++)
	{
		const ProtobufCFieldDescriptor *field = &descriptor->fields[i];

		if (field->label == PROTOBUF_C_LABEL_REPEATED)
		{
			size_t		count = CONST_MEMBER(message, field->quantifier_offset, size_t);
			const char *elements = CONST_MEMBER(message, field->offset, char *const);
			size_t		n;

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
			if (!append_value(out, field,
							  (const char *) message + field->offset))
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
	return append_message(buffer, message) &&
		buffer->state == VERDICT_BUFFER_OK;
}

/* ---------- finding the end of a value ---------- */

void
verdict_json_skip_space(const char *text, size_t size, size_t *position)
{
	while (*position < size &&
		   (text[*position] == ' ' || text[*position] == '\t' ||
			text[*position] == '\n' || text[*position] == '\r'))
		(*position)++;
}

/* How many bytes of UTF-8 "\\u" and these digits stand for. */
static size_t
escaped_size(const char *digits)
{
	char		text[5] = "";
	unsigned long code;

	memcpy(text, digits, 4);
	code = strtoul(text, NULL, 16);
	if (code < 0x80)
		return 1;
	if (code < 0x800)
		return 2;
	/* a pair of surrogates stands for four bytes, counted at the first */
	if (code >= 0xD800 && code <= 0xDBFF)
		return 4;
	if (code >= 0xDC00 && code <= 0xDFFF)
		return 0;
	return 3;
}

/* From the opening quote to the byte after the closing one. */
static bool
skip_string(const char *text, size_t size, size_t *position,
			verdict_json_tally *tally)
{
	size_t		start = (*position)++;

	while (*position < size)
	{
		char		c = text[(*position)++];

		if (c == '"')
		{
			tally->cost += COST_STRING + (*position - start);
			return true;
		}
		if (c != '\\')
		{
			tally->string_bytes++;
			continue;
		}
		if (size - *position >= 5 && text[*position] == 'u')
		{
			tally->string_bytes += escaped_size(text + *position + 1);
			*position += 5;
		}
		else
		{
			tally->string_bytes++;
			(*position)++;
		}
	}
	return false;
}

/* From the first byte of a number or a word to the byte after it. */
static void
skip_word(const char *text, size_t size, size_t *position,
		  verdict_json_tally *tally)
{
	const char *start = text + *position;
	size_t		length = 0;
	bool		real = false;

	do
	{
		real = real || start[length] == '.' || start[length] == 'e' ||
			start[length] == 'E';
		length++;
	} while (length < size - *position &&
			 strchr("{}[]\",: \t\n\r", start[length]) == NULL);
	*position += length;
	if (start[0] != '-' && (start[0] < '0' || start[0] > '9'))
		return;
	if (real)
		tally->reals++;
	else
		/* "-0" is read as 0 */
		tally->integer_digits += length == 2 && memcmp(start, "-0", 2) == 0 ? 1 : length;
}

bool
verdict_json_skip_value(const char *text, size_t size, size_t *position,
						int depth, verdict_json_tally *tally)
{
	char		closing[VERDICT_MESSAGE_MAX_DEPTH];
	int			open = 0;

	if (depth > VERDICT_MESSAGE_MAX_DEPTH)
		depth = VERDICT_MESSAGE_MAX_DEPTH;
	if (*position >= size)
		return false;
	do
	{
		char		c = text[*position];

		switch (c)
		{
			case '{':
			case '[':
				if (open >= depth)
					return false;
				closing[open++] = c == '{' ? '}' : ']';
				tally->cost += COST_CONTAINER;
				(*position)++;
				break;
			case '}':
			case ']':
				if (open == 0 || closing[open - 1] != c)
					return false;
				open--;
				(*position)++;
				break;
			case '"':
				if (!skip_string(text, size, position, tally))
					return false;
				break;
			case ',':
			case ':':
			case ' ':
			case '\t':
			case '\n':
			case '\r':
				if (open == 0)
					return false;
				if (c == ',')
					tally->cost += COST_ELEMENT;
				(*position)++;
				break;
			default:
				skip_word(text, size, position, tally);
				break;
		}
	} while (open > 0 && *position < size);
	return open == 0;
}

/* The same tally of what jansson made of a text. */
static void
tally_tree(json_t *json, verdict_json_tally *tally)
{
	const char *name;
	json_t	   *member;
	size_t		i;

	switch (json_typeof(json))
	{
		case JSON_OBJECT:
			json_object_foreach(json, name, member)
			{
				tally->string_bytes += strlen(name);
				tally_tree(member, tally);
			}
			break;
		case JSON_ARRAY:
			json_array_foreach(json, i, member)
				tally_tree(member, tally);
			break;
		case JSON_STRING:
			tally->string_bytes += json_string_length(json);
			break;
		case JSON_INTEGER:
			tally->integer_digits +=
				(size_t) snprintf(NULL, 0, "%" JSON_INTEGER_FORMAT,
								  json_integer_value(json));
			break;
		case JSON_REAL:
			tally->reals++;
			break;
		default:
			break;
	}
}

/* ---------- reading ---------- */

typedef struct reader
{
	verdict_arena *arena;
	bool		skip_unknown;
	verdict_status *status;
} reader;

static bool
no_arena(reader *reader)
{
	return verdict_arena_failure(reader->arena, reader->status);
}

/* The digit's number, or -1. */
static int
base64_value(char c)
{
	const char *found;

	if (c == '-')
		c = '+';
	else if (c == '_')
		c = '/';
	found = c == '\0' ? NULL : strchr(base64_digits, c);
	return found == NULL ? -1 : (int) (found - base64_digits);
}

static bool
read_base64(reader *reader, const verdict_place *place, const char *text,
			size_t size, ProtobufCBinaryData *data)
{
	uint8_t    *bytes;
	size_t		filled = 0;
	uint32_t	bits = 0;
	int			bit_count = 0;
	size_t		i;

	/* Padding is free to be absent, but it must not be anything else. */
	if (size % 4 == 0 && size > 0 && text[size - 1] == '=')
		size -= text[size - 2] == '=' ? 2 : 1;
	if (size % 4 == 1)
		return verdict_message_refuse(reader->status, place, "not base64");
	data->len = 0;
	data->data = NULL;
	if (size == 0)
		return true;
	bytes = verdict_arena_alloc(reader->arena, size / 4 * 3 + 2);
	if (bytes == NULL)
		return no_arena(reader);
	for (i = 0; i < size; i++)
	{
		int			digit = base64_value(text[i]);

		if (digit < 0)
			return verdict_message_refuse(reader->status, place, "not base64");
		bits = (bits << 6 | (uint32_t) digit) & 0xFFFF;
		bit_count += 6;
		if (bit_count >= 8)
		{
			bit_count -= 8;
			bytes[filled++] = (uint8_t) (bits >> bit_count);
		}
	}
	data->len = filled;
	data->data = bytes;
	return true;
}

/*
 * Integers come as number or as string.  A number written with a point or an
 * exponent is refused: it is no integer to jansson, and its digits are not in
 * the tally.
 */
static bool
read_integer(reader *reader, const verdict_place *place, const json_t *json,
			 int64_t *value)
{
	if (json_is_integer(json))
	{
		*value = json_integer_value(json);
		return true;
	}
	if (json_is_string(json))
	{
		if (!verdict_int64_parse(json_string_value(json),
								 json_string_length(json), value))
			return verdict_message_refuse(reader->status, place,
										  "not an integer, or out of range");
		return true;
	}
	return verdict_message_refuse(reader->status, place, "expected an integer");
}

static ProtobufCMessage *read_message(reader *reader,
									  const ProtobufCMessageDescriptor *descriptor,
									  json_t *json, const verdict_place *place);

/* Reads the value of the field at "place", or one element of it, into "value". */
static bool
read_value(reader *reader, const verdict_place *place, json_t *json, void *value)
{
	const ProtobufCFieldDescriptor *field = place->field;
	int64_t		integer;

	switch (field->type)
	{
		case PROTOBUF_C_TYPE_BOOL:
			if (!json_is_boolean(json))
				return verdict_message_refuse(reader->status, place,
											  "expected true or false");
			*(protobuf_c_boolean *) value = json_is_true(json);
			return true;
		case PROTOBUF_C_TYPE_UINT32:
			if (!read_integer(reader, place, json, &integer))
				return false;
			if (integer < 0 || integer > UINT32_MAX)
				return verdict_message_refuse(reader->status, place,
											  "number out of range");
			*(uint32_t *) value = (uint32_t) integer;
			return true;
		case PROTOBUF_C_TYPE_INT64:
			if (!read_integer(reader, place, json, &integer))
				return false;
			*(int64_t *) value = integer;
			return true;
		case PROTOBUF_C_TYPE_STRING:
			if (!json_is_string(json))
				return verdict_message_refuse(reader->status, place,
											  "expected a string");
			*(char **) value = verdict_arena_strndup(reader->arena,
													 json_string_value(json),
													 json_string_length(json));
			return *(char **) value != NULL || no_arena(reader);
		case PROTOBUF_C_TYPE_BYTES:
			if (!json_is_string(json))
				return verdict_message_refuse(reader->status, place,
											  "expected a string of base64");
			return read_base64(reader, place, json_string_value(json),
							   json_string_length(json), value);
		case PROTOBUF_C_TYPE_MESSAGE:
			*(ProtobufCMessage **) value = read_message(reader, field->descriptor,
														json, place);
			return *(ProtobufCMessage **) value != NULL;
		default:
			return verdict_message_refuse(reader->status, place,
										  "fields of this type are not supported");
	}
}

static bool
read_repeated(reader *reader, verdict_place *place, json_t *json,
			  ProtobufCMessage *message)
{
	const ProtobufCFieldDescriptor *field = place->field;
	size_t		size = element_size(field);
	size_t		count = json_array_size(json);	/* 0 when it is no array */
	char	   *elements;
	size_t		i;

	if (!json_is_array(json))
		return verdict_message_refuse(reader->status, place->outer,
									  "\"%s\" must be an array", field->name);
	if (count == 0)
		return true;
	/* no overflow: "count" elements of a JSON text are in memory already */
	elements = verdict_arena_alloc(reader->arena, count * size);
	if (elements == NULL)
		return no_arena(reader);
	for (i = 0; i < count; i++)
	{
		place->index = i;
		if (!read_value(reader, place, json_array_get(json, i),
						elements + i * size))
			return false;
	}
	MEMBER(message, field->quantifier_offset, size_t) = count;
	MEMBER(message, field->offset, char *) = elements;
	return true;
}

/* The field of a JSON name: as in the schema, or in camelCase; or NULL. */
static const ProtobufCFieldDescriptor *
find_field(const ProtobufCMessageDescriptor *descriptor, const char *name)
{
	unsigned	i;

	for (i = 0; i < descriptor->n_fields; i++)
	{
		const char *original = descriptor->fields[i].name;
		const char *given = name;
		bool		raise = false;

		if (strcmp(original, name) == 0)
			return &descriptor->fields[i];
		for (; *original != '\0'; original++)
		{
			char		c = *original;

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

static ProtobufCMessage *
read_message(reader *reader, const ProtobufCMessageDescriptor *descriptor,
			 json_t *json, const verdict_place *place)
{
	bool		choice = verdict_message_is_choice(descriptor);
	ProtobufCMessage *message;
	uint64_t	seen = 0;
	const char *name;
	json_t	   *member;

	if (!json_is_object(json))
	{
		verdict_message_refuse(reader->status, place, "expected an object");
		return NULL;
	}
	message = verdict_arena_alloc(reader->arena, descriptor->sizeof_message);
	if (message == NULL)
	{
		no_arena(reader);
		return NULL;
	}
	protobuf_c_message_init(descriptor, message);

	json_object_foreach(json, name, member)
	{
		const ProtobufCFieldDescriptor *field = find_field(descriptor, name);
		verdict_place inner = {place, field, 0};

		if (field == NULL)
		{
			if (reader->skip_unknown && !choice)
				continue;
			verdict_message_refuse(reader->status, place, "unknown name \"%.40s\"",
								   name);
			return NULL;
		}
		if (field->label == PROTOBUF_C_LABEL_REPEATED)
		{
			/* the two spellings of one name */
			if (MEMBER(message, field->quantifier_offset, size_t) != 0)
			{
				verdict_message_refuse(reader->status, place,
									   "field \"%s\" comes twice", field->name);
				return NULL;
			}
			if (!json_is_null(member) &&
				!read_repeated(reader, &inner, member, message))
				return NULL;
			continue;
		}
		if (!verdict_message_note_field(descriptor, field, &seen, place,
										reader->status))
			return NULL;
		if (json_is_null(member))
		{
			/* "unset" may mean "anything" there, so it is never guessed */
			if (choice)
			{
				verdict_message_refuse(reader->status, &inner,
									   "null where one of a set is expected");
				return NULL;
			}
			continue;
		}
		if (!read_value(reader, &inner, member,
						(char *) message + field->offset))
			return NULL;
		if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0)
			MEMBER(message, field->quantifier_offset, uint32_t) = field->id;
	}
	return message;
}

ProtobufCMessage *
verdict_message_from_json(verdict_arena *arena,
						  const ProtobufCMessageDescriptor *descriptor,
						  const char *text, size_t size, bool skip_unknown,
						  verdict_status *status)
{
	reader		reader = {arena, skip_unknown, status};
	size_t		position = 0;
	verdict_json_tally text_tally = {0, 0, 0, 0};
	verdict_json_tally tree_tally = {0, 0, 0, 0};
	json_error_t error;
	json_t	   *json;
	ProtobufCMessage *message;

	/*
	 * Ahead of jansson: its own limit of nesting is 2,048 levels, and of memory
	 * there is none.
	 */
	verdict_json_skip_space(text, size, &position);
	if (!verdict_json_skip_value(text, size, &position,
								 VERDICT_MESSAGE_MAX_DEPTH, &text_tally))
	{
		verdict_message_refuse(status, NULL,
							   "not JSON: cut off, brackets that do not pair, or nested too deeply");
		return NULL;
	}
	if (text_tally.cost > arena->maximum - arena->used)
	{
		arena->exhausted = true;
		verdict_arena_failure(arena, status);
		return NULL;
	}

	json = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
	if (json == NULL)
	{
		/* jansson says nothing at all when malloc() failed */
		if (error.text[0] == '\0' ||
			json_error_code(&error) == json_error_out_of_memory)
			verdict_status_no_memory(status);
		else
			verdict_message_refuse(status, NULL, "not JSON: %.80s (line %d, column %d)",
								   error.text, error.line, error.column);
		return NULL;
	}
	tally_tree(json, &tree_tally);
	if (tree_tally.string_bytes != text_tally.string_bytes ||
		tree_tally.integer_digits != text_tally.integer_digits ||
		tree_tally.reals != text_tally.reals)
	{
		/* see the top of this file */
		json_decref(json);
		verdict_status_no_memory(status);
		return NULL;
	}
	message = read_message(&reader, descriptor, json, NULL);
	json_decref(json);
	return message;
}
