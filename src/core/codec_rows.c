/*
 * codec_rows.c
 *		A large repeated answer, element by element.
 *
 * The reader owns the body and two arenas.  "outer" holds what is said once (the
 * variables, the token), "element" what the latest element holds; the latter is
 * emptied by each step.  Opening has followed the outer structure to its end, so
 * a step only finds the next element's bytes and decodes them alone; everything
 * but the elements was decoded together at opening, as a message of the same
 * kind without elements.
 */
#include "codec_internal.h"

#include "json.h"
#include "message_internal.h"

#include <stdio.h>
#include <string.h>

#define WIRE_LENGTH 2

struct verdict_rows
{
	const verdict_host *host;
	verdict_wire_format format;
	verdict_rows_kind kind;
	char *body;		 /* owned */
	size_t position; /* where the next element is looked for */
	size_t end;		 /* where elements end */
	size_t index;	 /* of the next element */
	size_t width;
	bool truncated;
	bool failed;	   /* an element was refused: none comes after it */
	const void *token; /* in "outer" */
	size_t token_size;
	verdict_value *values; /* "width" of them, in "outer" */
	verdict_fact fact;	   /* its parts in "element" */
	verdict_arena outer;
	verdict_arena element;
};

/* What the two kinds of answers differ in. */
static const struct
{
	const char *name; /* of the repeated field */
	uint32_t number;
	const ProtobufCMessageDescriptor *answer;
	const ProtobufCMessageDescriptor *element;
} shapes[] = {
	[VERDICT_ROWS_QUERY] = {"rows", 2, &verdict__v1__query_response__descriptor,
							&verdict__v1__row__descriptor},
	[VERDICT_ROWS_FACTS] = {"facts", 1, &verdict__v1__list_facts_response__descriptor,
							&verdict__v1__fact__descriptor},
};

/*
 * Follows the top level of a binary answer.  What is neither an element nor
 * unknown goes into "rest".  No field but the variables can come more than once
 * in there (message.h), and of those no more than were asked for.
 */
static bool
walk_binary(verdict_rows *rows, size_t size, size_t expected, verdict_buffer *rest,
			verdict_status *status)
{
	const uint8_t *bytes = (const uint8_t *) rows->body;
	size_t variables = 0;
	size_t position = 0;

	while (position < size)
	{
		size_t start = position;
		verdict_wire_field field;
		const ProtobufCFieldDescriptor *known;

		if (!verdict_wire_read_field(bytes, size, &position, &field))
			return verdict_answer_refuse(status, "the field at byte %zu is cut off or malformed",
										 start);
		if (field.number == shapes[rows->kind].number)
		{
			if (field.wire_type != WIRE_LENGTH)
				return verdict_answer_refuse(status, "%s: wire type %u does not fit the field",
											 shapes[rows->kind].name, field.wire_type);
			continue;
		}
		known = protobuf_c_message_descriptor_get_field(shapes[rows->kind].answer, field.number);
		if (known == NULL)
			continue;
		if (known->label == PROTOBUF_C_LABEL_REPEATED && ++variables > expected)
			return verdict_answer_refuse(status, "it has more variables than the pattern");
		verdict_buffer_append(rest, bytes + start, position - start);
	}
	rows->position = 0;
	rows->end = size;
	return true;
}

static bool
malformed_json(verdict_status *status, const verdict_json *json)
{
	return verdict_answer_refuse(status, "not JSON, or nested too deeply, at byte %zu",
								 json->position);
}

/* Passes over the array of elements, whose opening bracket comes next. */
static bool
walk_json_elements(verdict_rows *rows, verdict_json *json)
{
	verdict_json_take(json, '[');
	rows->position = json->position;
	if (!verdict_json_take(json, ']'))
	{
		do
		{
			/* the answer and the array are two levels */
			if (!verdict_json_skip(json, VERDICT_JSON_MAX_DEPTH - 2))
				return false;
		} while (verdict_json_take(json, ','));
		if (!verdict_json_take(json, ']'))
			return false;
	}
	rows->end = json->position - 1;
	return true;
}

/*
 * Follows a JSON answer to find the array of the elements; the text without them
 * goes into "rest", where message_from_json() will see what is not followed here
 * (a name that is written with escapes, or twice).
 */
static bool
walk_json(verdict_rows *rows, size_t size, verdict_buffer *rest, verdict_status *status)
{
	const char *name = shapes[rows->kind].name;
	size_t name_size = strlen(name);
	verdict_json json = {rows->body, size, 0};

	rows->position = rows->end = 0;
	if (size == 0)
		return true;
	if (!verdict_json_take(&json, '{'))
		return malformed_json(status, &json);
	if (!verdict_json_take(&json, '}'))
	{
		do
		{
			size_t start;
			size_t length;
			bool elements;

			if (verdict_json_peek(&json) != '"')
				return malformed_json(status, &json);
			start = json.position;
			if (!verdict_json_string(&json, NULL, &length))
				return malformed_json(status, &json);
			elements = json.position - start == name_size + 2 &&
					   memcmp(json.text + start + 1, name, name_size) == 0;
			if (!verdict_json_take(&json, ':'))
				return malformed_json(status, &json);
			if (elements && verdict_json_peek(&json) == '[')
			{
				if (rows->position > 0)
					return verdict_answer_refuse(status, "\"%s\" comes twice", name);
				if (!walk_json_elements(rows, &json))
					return malformed_json(status, &json);
			}
			else if (!verdict_json_skip(&json, VERDICT_JSON_MAX_DEPTH - 1))
				return malformed_json(status, &json);
		} while (verdict_json_take(&json, ','));
		if (!verdict_json_take(&json, '}'))
			return malformed_json(status, &json);
	}
	verdict_json_peek(&json);
	if (json.position != size)
		return malformed_json(status, &json);
	verdict_buffer_append(rest, json.text, rows->position);
	verdict_buffer_append(rest, json.text + rows->end, size - rows->end);
	return true;
}

/* Takes what is said once out of the decoded rest. */
static bool
take_rest(verdict_rows *rows, const ProtobufCMessage *message, const char *const *names,
		  size_t expected, verdict_status *status)
{
	if (rows->kind == VERDICT_ROWS_FACTS)
	{
		const Verdict__V1__ListFactsResponse *answer = (const void *) message;

		/* only by a spelling that walk_json() does not know */
		if (answer->n_facts != 0)
			return verdict_answer_refuse(status, "\"facts\" is not written plainly");
		rows->token = answer->next.data;
		rows->token_size = answer->next.len;
	}
	else
	{
		const Verdict__V1__QueryResponse *answer = (const void *) message;
		size_t i;

		if (answer->n_rows != 0)
			return verdict_answer_refuse(status, "\"rows\" is not written plainly");
		if (answer->n_variables != expected)
			return verdict_answer_refuse(status, "it has %zu variables, the pattern has %zu",
										 answer->n_variables, expected);
		for (i = 0; i < expected; i++)
		{
			if (strcmp(answer->variables[i], names[i]) != 0)
				return verdict_answer_refuse(status, "variable %zu is not \"%s\"", i + 1, names[i]);
		}
		rows->truncated = answer->truncated != 0;
		rows->width = expected;
		if (expected > 0)
		{
			rows->values = verdict_arena_alloc(&rows->outer, expected * sizeof(*rows->values));
			if (rows->values == NULL)
				return verdict_arena_failure(&rows->outer, status);
		}
	}
	return true;
}

verdict_rows *
verdict_rows_open(const verdict_host *host, verdict_wire_format format, verdict_rows_kind kind,
				  void *body, size_t size, const char *const *names, size_t expected,
				  verdict_status *status)
{
	verdict_rows *rows = verdict_alloc_zero(host, sizeof(*rows));
	verdict_buffer rest;
	bool done;

	if (rows == NULL)
	{
		verdict_free(host, body);
		verdict_status_no_memory(status);
		return NULL;
	}
	rows->host = host;
	rows->format = format;
	rows->kind = kind;
	rows->body = body;
	verdict_arena_init(&rows->outer, host, 0);
	verdict_arena_init(&rows->element, host, 0);

	verdict_buffer_init(&rest, host, size);
	if (format == VERDICT_WIRE_JSON)
		done = walk_json(rows, size, &rest, status);
	else
		done = walk_binary(rows, size, expected, &rest, status);
	if (done && rest.state != VERDICT_BUFFER_OK)
		done = verdict_status_no_memory(status);
	if (done)
	{
		const ProtobufCMessage *message;

		rows->outer.maximum = verdict_answer_memory(rest.size);
		message = verdict_answer_decode(&rows->outer, format, shapes[kind].answer, rest.bytes,
										rest.size, "", status);
		done = message != NULL && take_rest(rows, message, names, expected, status);
	}
	verdict_buffer_free(&rest);
	if (!done)
	{
		verdict_rows_free(rows);
		return NULL;
	}
	return rows;
}

size_t
verdict_rows_width(const verdict_rows *rows)
{
	return rows->width;
}

bool
verdict_rows_truncated(const verdict_rows *rows)
{
	return rows->truncated;
}

const void *
verdict_rows_next_token(const verdict_rows *rows, size_t *size)
{
	*size = rows->token_size;
	return rows->token;
}

/*
 * Finds the bytes of the next element: 1, or 0 after the last.  Opening has
 * followed the same bytes to their end, so -1 is not expected; but it must never
 * look like the end.
 */
static int
find_element(verdict_rows *rows, const char **bytes, size_t *size)
{
	if (rows->format == VERDICT_WIRE_JSON)
	{
		verdict_json json = {rows->body, rows->end, rows->position};
		size_t start;

		verdict_json_peek(&json);
		if (json.position == json.size)
			return 0;
		start = json.position;
		if (!verdict_json_skip(&json, VERDICT_JSON_MAX_DEPTH))
			return -1;
		*bytes = rows->body + start;
		*size = json.position - start;
		verdict_json_take(&json, ',');
		rows->position = json.position;
		return 1;
	}
	while (rows->position < rows->end)
	{
		verdict_wire_field field;

		if (!verdict_wire_read_field((const uint8_t *) rows->body, rows->end, &rows->position,
									 &field))
			return -1;
		if (field.number == shapes[rows->kind].number)
		{
			*bytes = rows->body + field.start;
			*size = field.length;
			return 1;
		}
	}
	return 0;
}

/*
 * Takes the length of a field with that tag, written in the shortest form, and
 * moves to its content.  False when something else stands there.
 */
static bool
take_plain_field(const uint8_t *bytes, size_t size, size_t *position, uint8_t tag, size_t *length)
{
	size_t at = *position;

	if (size - at < 2 || bytes[at] != tag)
		return false;
	*length = bytes[at + 1];
	at += 2;
	if (*length > 0x7f)
	{
		if (at == size || bytes[at] == 0 || bytes[at] > 0x7f)
			return false;
		*length = (*length & 0x7f) | (size_t) bytes[at++] << 7;
	}
	*position = at;
	return *length <= size - at;
}

#define TAG_OF_FIELD_1 (1 << 3 | WIRE_LENGTH)
#define TAG_OF_FIELD_2 (2 << 3 | WIRE_LENGTH)

/*
 * Reads a row as nearly all are: identities, and nothing that protobuf would also
 * allow.  There may be very many of them, and this takes a tenth of the time.
 * 1, 0 when it is not such a row and the general way has to tell what it is, -1 with
 * a status when there is no memory.
 */
static int
take_plain_row(verdict_rows *rows, const char *element, size_t size, verdict_status *status)
{
	const uint8_t *bytes = (const uint8_t *) element;
	size_t position = 0;
	char *copy;
	size_t i;

	if (rows->format != VERDICT_WIRE_BINARY || rows->width == 0)
		return 0;
	verdict_arena_reset(&rows->element);
	rows->element.maximum = verdict_answer_memory(size);
	copy = verdict_arena_alloc(&rows->element, size);
	if (copy == NULL)
	{
		verdict_arena_failure(&rows->element, status);
		return -1;
	}
	for (i = 0; i < rows->width; i++)
	{
		verdict_value *value = &rows->values[i];
		size_t length;
		size_t end;

		/* Row.values, Value.identity, Identity.type and .id. */
		if (!take_plain_field(bytes, size, &position, TAG_OF_FIELD_1, &length))
			return 0;
		end = position + length;
		if (!take_plain_field(bytes, end, &position, TAG_OF_FIELD_1, &length) ||
			position + length != end ||
			!take_plain_field(bytes, end, &position, TAG_OF_FIELD_1, &length) ||
			!verdict_is_identifier(element + position, length))
			return 0;
		/* The lengths in front of the two strings make room for their ends. */
		memcpy(copy, element + position, length);
		copy[length] = '\0';
		value->kind = VERDICT_VALUE_IDENTITY;
		value->as.identity.type = copy;
		copy += length + 1;
		position += length;
		if (!take_plain_field(bytes, end, &position, TAG_OF_FIELD_2, &length) ||
			position + length != end || length == 0 || !verdict_is_text(element + position, length))
			return 0;
		memcpy(copy, element + position, length);
		copy[length] = '\0';
		value->as.identity.id = copy;
		copy += length + 1;
		position = end;
	}
	return position == size;
}

/* Finds the next element: 1, 0 after the last, -1 with a status. */
static int
step(verdict_rows *rows, verdict_rows_kind kind, const char **bytes, size_t *size,
	 verdict_status *status)
{
	int found;

	if (rows->kind != kind || rows->failed)
	{
		verdict_status_fail(status, VERDICT_INTERNAL, VERDICT_CAUSE_INTERNAL,
							rows->failed ? "the answer was refused already"
										 : "the answer does not consist of such rows");
		return -1;
	}
	found = find_element(rows, bytes, size);
	if (found != 0)
		rows->index++;
	if (found < 0)
		verdict_answer_refuse(status, "%s[%zu]: malformed", shapes[kind].name, rows->index - 1);
	return found;
}

/* Decodes an element into an emptied arena; NULL with a status. */
static const ProtobufCMessage *
decode_element(verdict_rows *rows, const char *bytes, size_t size, char *where, size_t where_size,
			   verdict_status *status)
{
	snprintf(where, where_size, "%s[%zu]", shapes[rows->kind].name, rows->index - 1);
	verdict_arena_reset(&rows->element);
	rows->element.maximum = verdict_answer_memory(size);
	return verdict_answer_decode(&rows->element, rows->format, shapes[rows->kind].element, bytes,
								 size, where, status);
}

static bool
take_row(verdict_rows *rows, const Verdict__V1__Row *row, const char *where, verdict_status *status)
{
	char field[64];
	size_t i;

	if (row->n_values != rows->width)
		return verdict_answer_refuse(status, "%s: has %zu values for %zu variables", where,
									 row->n_values, rows->width);
	snprintf(field, sizeof(field), "%s.values", where);
	for (i = 0; i < row->n_values; i++)
	{
		if (!verdict_answer_value(row->values[i], &rows->values[i], field, i, status))
			return false;
	}
	return true;
}

int
verdict_rows_next(verdict_rows *rows, const verdict_value **values, verdict_status *status)
{
	const ProtobufCMessage *message;
	const char *bytes;
	size_t size;
	char where[48];
	int result;

	*values = NULL;
	result = step(rows, VERDICT_ROWS_QUERY, &bytes, &size, status);
	if (result == 1)
	{
		result = take_plain_row(rows, bytes, size, status);
		if (result == 0)
		{
			message = decode_element(rows, bytes, size, where, sizeof(where), status);
			result =
				message != NULL && take_row(rows, (const void *) message, where, status) ? 1 : -1;
		}
	}
	rows->failed = result < 0;
	if (result == 1)
		*values = rows->values;
	return result;
}

static bool
take_fact(verdict_rows *rows, const Verdict__V1__Fact *message, const char *where,
		  verdict_status *status)
{
	verdict_fact *fact = &rows->fact;
	char field[64];
	size_t i;

	if (!verdict_is_identifier(message->predicate, strlen(message->predicate)))
		return verdict_answer_refuse(status, "%s: malformed predicate", where);
	fact->predicate = message->predicate;
	fact->count = message->n_args;
	fact->args = NULL;
	if (fact->count == 0)
		return true;
	fact->args = verdict_arena_alloc(&rows->element, fact->count * sizeof(*fact->args));
	if (fact->args == NULL)
		return verdict_arena_failure(&rows->element, status);
	snprintf(field, sizeof(field), "%s.args", where);
	for (i = 0; i < fact->count; i++)
	{
		verdict_term *term = &fact->args[i];

		term->kind = VERDICT_TERM_VALUE;
		if (!verdict_answer_value(message->args[i], &term->as.value, field, i, status))
			return false;
		if (term->as.value.kind == VERDICT_VALUE_ANY)
			return verdict_answer_refuse(status, "%s[%zu]: a value is missing", field, i);
	}
	return true;
}

int
verdict_rows_next_fact(verdict_rows *rows, const verdict_fact **fact, verdict_status *status)
{
	const ProtobufCMessage *message;
	const char *bytes;
	size_t size;
	char where[48];
	int result;

	*fact = NULL;
	result = step(rows, VERDICT_ROWS_FACTS, &bytes, &size, status);
	if (result == 1)
	{
		message = decode_element(rows, bytes, size, where, sizeof(where), status);
		if (message == NULL || !take_fact(rows, (const void *) message, where, status))
			result = -1;
	}
	rows->failed = result < 0;
	if (result == 1)
		*fact = &rows->fact;
	return result;
}

void
verdict_rows_free(verdict_rows *rows)
{
	if (rows == NULL)
		return;
	verdict_arena_free(&rows->element);
	verdict_arena_free(&rows->outer);
	verdict_free(rows->host, rows->body);
	verdict_free(rows->host, rows);
}
