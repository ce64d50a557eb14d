/*
 * value_text.c
 *		The text form of identities and facts, both ways.
 *
 * The grammar, for one who wants to write another reader:
 *
 *	fact		predicate "(" [argument *("," argument)] ")"
 *	argument	type ":" id | string | integer | "true" | "false"
 *				| "?" name [":" type] | "_"
 *	id			string | 1*(any character but white space , ( ) " \ and controls)
 *	string		'"' *(character | escape) '"'
 *	escape		\" \\ \n \t \r or \u and four hexadecimal digits
 *
 * White space (ASCII) is free between tokens; type ":" id and "?" name ":" type
 * are one token each.  A bare id takes everything up to the next delimiter, so it
 * may hold colons: "Doc:a:b" is type "Doc", id "a:b".  The printed form is
 * narrower than what is read: an id is bare only when all of it is letters,
 * digits, "_.@/+-:" or beyond ASCII.
 */
#include "value.h"

#include <inttypes.h>
#include <string.h>

typedef struct reader
{
	verdict_arena *arena;
	const char *text;
	size_t size;
	size_t position;
	verdict_status *status;
} reader;

/* ---------- reading ---------- */

/* Fails at a byte offset, which people are told as a count of characters. */
static bool
refuse(reader *reader, size_t offset, const char *what)
{
	size_t character = 1;
	size_t i;

	for (i = 0; i < offset; i++)
	{
		if (((unsigned char) reader->text[i] & 0xC0) != 0x80)
			character++;
	}
	return verdict_status_fail(reader->status, VERDICT_INVALID_ARGUMENT, VERDICT_CAUSE_ARGUMENT,
							   "%s at character %zu", what, character);
}

static bool
no_arena(reader *reader)
{
	if (reader->arena->exhausted && !reader->arena->no_memory)
		return verdict_status_fail(
			reader->status, VERDICT_RESOURCE_EXHAUSTED, VERDICT_CAUSE_ARGUMENT,
			"the text needs more than %zu bytes of memory", reader->arena->maximum);
	return verdict_status_no_memory(reader->status);
}

static bool
begin(reader *reader, verdict_arena *arena, const char *text, size_t size, verdict_status *status)
{
	size_t position = 0;

	reader->arena = arena;
	reader->text = text;
	reader->size = size;
	reader->position = 0;
	reader->status = status;
	if (verdict_is_text(text, size))
		return true;
	while (position < size && text[position] != '\0' &&
		   verdict_utf8_length(text + position, size - position) > 0)
		position += verdict_utf8_length(text + position, size - position);
	return refuse(reader, position, "invalid UTF-8 or NUL");
}

static bool
is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool
is_word(char c)
{
	return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* The next byte, or NUL at the end: the text itself holds no NUL. */
static char
peek(const reader *reader)
{
	return reader->position < reader->size ? reader->text[reader->position] : '\0';
}

static void
skip_space(reader *reader)
{
	while (is_space(peek(reader)))
		reader->position++;
}

/* Reads a run of letters, digits and underscores that must be an identifier. */
static bool
read_identifier(reader *reader, const char *what, const char **identifier)
{
	size_t start = reader->position;

	while (is_word(peek(reader)))
		reader->position++;
	if (!verdict_is_identifier(reader->text + start, reader->position - start))
		return refuse(reader, start, what);
	*identifier =
		verdict_arena_strndup(reader->arena, reader->text + start, reader->position - start);
	return *identifier != NULL || no_arena(reader);
}

/* Reads what follows "\u" into "out"; returns the bytes written, 0 when wrong. */
static size_t
read_unicode_escape(reader *reader, char *out)
{
	uint32_t code = 0;
	int i;

	for (i = 0; i < 4; i++)
	{
		char c = peek(reader);

		if (c >= '0' && c <= '9')
			code = code << 4 | (uint32_t) (c - '0');
		else if (c >= 'a' && c <= 'f')
			code = code << 4 | (uint32_t) (c - 'a' + 10);
		else if (c >= 'A' && c <= 'F')
			code = code << 4 | (uint32_t) (c - 'A' + 10);
		else
			return 0;
		reader->position++;
	}
	if (code == 0 || (code >= 0xD800 && code <= 0xDFFF))
		return 0;
	return verdict_utf8_write(code, out);
}

/* Reads a quoted string; the opening quote is the next byte. */
static bool
read_string(reader *reader, const char **string)
{
	size_t start = reader->position;
	size_t end = start + 1;
	size_t filled = 0;
	char *out;

	/* An escape is never shorter than what it stands for. */
	while (end < reader->size && reader->text[end] != '"')
		end += reader->text[end] == '\\' ? 2 : 1;
	if (end >= reader->size)
		return refuse(reader, start, "string without an end");
	out = verdict_arena_alloc(reader->arena, end - start);
	if (out == NULL)
		return no_arena(reader);

	reader->position++;
	while (reader->position < end)
	{
		size_t escape = reader->position;
		size_t length = 1;
		char c = reader->text[reader->position++];

		if (c != '\\')
		{
			out[filled++] = c;
			continue;
		}
		c = reader->text[reader->position++];
		switch (c)
		{
			case '"':
			case '\\':
				out[filled] = c;
				break;
			case 'n':
				out[filled] = '\n';
				break;
			case 't':
				out[filled] = '\t';
				break;
			case 'r':
				out[filled] = '\r';
				break;
			case 'u':
				length = read_unicode_escape(reader, out + filled);
				break;
			default:
				length = 0;
				break;
		}
		if (length == 0)
			return refuse(reader, escape, "invalid escape");
		filled += length;
	}
	reader->position = end + 1;
	out[filled] = '\0';
	*string = out;
	return true;
}

/* Reads the id of an identity inside a fact. */
static bool
read_id(reader *reader, const char **id)
{
	size_t start = reader->position;

	if (peek(reader) == '"')
	{
		if (!read_string(reader, id))
			return false;
		if ((*id)[0] == '\0')
			return refuse(reader, start, "empty id");
		return true;
	}
	while (reader->position < reader->size)
	{
		char c = peek(reader);

		if (is_space(c) || c == ',' || c == '(' || c == ')')
			break;
		if (c == '"' || c == '\\' || (unsigned char) c < 0x20 || c == 0x7F)
			return refuse(reader, reader->position, "character that an id can hold only in quotes");
		reader->position++;
	}
	if (reader->position == start)
		return refuse(reader, start, "empty id");
	*id = verdict_arena_strndup(reader->arena, reader->text + start, reader->position - start);
	return *id != NULL || no_arena(reader);
}

static bool
read_integer(reader *reader, int64_t *integer)
{
	size_t start = reader->position;

	reader->position++;
	while (is_word(peek(reader)) || peek(reader) == '.')
		reader->position++;
	if (!verdict_int64_parse(reader->text + start, reader->position - start, integer))
		return refuse(reader, start, "malformed integer, or one out of range,");
	return true;
}

/* Reads a word and, after a colon, an id; or one of the words with a meaning. */
static bool
read_word(reader *reader, verdict_term *term)
{
	size_t start = reader->position;
	const char *word;

	if (!read_identifier(reader, "expected an argument", &word))
		return false;
	term->kind = VERDICT_TERM_VALUE;
	if (peek(reader) == ':')
	{
		reader->position++;
		term->as.value.kind = VERDICT_VALUE_IDENTITY;
		term->as.value.as.identity.type = word;
		return read_id(reader, &term->as.value.as.identity.id);
	}
	if (strcmp(word, "_") == 0)
	{
		term->kind = VERDICT_TERM_WILDCARD;
		return true;
	}
	if (strcmp(word, "true") == 0 || strcmp(word, "false") == 0)
	{
		term->as.value.kind = VERDICT_VALUE_BOOLEAN;
		term->as.value.as.boolean = word[0] == 't';
		return true;
	}
	return refuse(reader, start,
				  "expected an argument (Type:id, \"string\", integer, true, false, ?name or _)");
}

static bool
read_term(reader *reader, verdict_term *term)
{
	char c = peek(reader);

	memset(term, 0, sizeof(*term));
	if (c == '"')
	{
		term->kind = VERDICT_TERM_VALUE;
		term->as.value.kind = VERDICT_VALUE_STRING;
		return read_string(reader, &term->as.value.as.string);
	}
	if (c == '-' || (c >= '0' && c <= '9'))
	{
		term->kind = VERDICT_TERM_VALUE;
		term->as.value.kind = VERDICT_VALUE_INTEGER;
		return read_integer(reader, &term->as.value.as.integer);
	}
	if (c == '?')
	{
		term->kind = VERDICT_TERM_VARIABLE;
		term->as.variable.type = "";
		reader->position++;
		if (!read_identifier(reader, "expected the name of a variable", &term->as.variable.name))
			return false;
		if (peek(reader) != ':')
			return true;
		reader->position++;
		return read_identifier(reader, "expected the type of a variable", &term->as.variable.type);
	}
	return read_word(reader, term);
}

bool
verdict_identity_parse(verdict_arena *arena, const char *text, size_t size,
					   verdict_identity *identity, verdict_status *status)
{
	reader reader;
	const char *colon;
	size_t type_size;

	if (!begin(&reader, arena, text, size, status))
		return false;
	colon = size == 0 ? NULL : memchr(text, ':', size);
	if (colon == NULL)
		return refuse(&reader, size, "expected a colon (Type:id)");
	type_size = (size_t) (colon - text);
	if (!verdict_is_identifier(text, type_size))
		return refuse(&reader, 0,
					  "the type of an identity must be an identifier;"
					  " it starts");
	if (type_size + 1 == size)
		return refuse(&reader, size, "empty id");
	identity->type = verdict_arena_strndup(arena, text, type_size);
	identity->id = verdict_arena_strndup(arena, colon + 1, size - type_size - 1);
	if (identity->type == NULL || identity->id == NULL)
		return no_arena(&reader);
	return true;
}

bool
verdict_fact_parse(verdict_arena *arena, const char *text, size_t size, verdict_fact *fact,
				   verdict_status *status)
{
	/* 64 terms of 32 bytes: read here, kept in the arena at their true number */
	verdict_term terms[VERDICT_MAX_ARGUMENTS];
	reader reader;
	size_t count = 0;

	if (!begin(&reader, arena, text, size, status))
		return false;
	skip_space(&reader);
	if (!read_identifier(&reader, "expected a predicate", &fact->predicate))
		return false;
	skip_space(&reader);
	if (peek(&reader) != '(')
		return refuse(&reader, reader.position, "expected \"(\"");
	reader.position++;
	skip_space(&reader);
	if (peek(&reader) != ')')
	{
		for (;;)
		{
			if (count == VERDICT_MAX_ARGUMENTS)
				return refuse(&reader, reader.position, "too many arguments");
			if (!read_term(&reader, &terms[count]))
				return false;
			count++;
			skip_space(&reader);
			if (peek(&reader) != ',')
				break;
			reader.position++;
			skip_space(&reader);
		}
		if (peek(&reader) != ')')
			return refuse(&reader, reader.position, "expected \",\" or \")\"");
	}
	reader.position++;
	skip_space(&reader);
	if (reader.position != size)
		return refuse(&reader, reader.position, "expected the end of the fact");

	fact->count = count;
	fact->args = NULL;
	if (count > 0)
	{
		fact->args = verdict_arena_alloc(arena, count * sizeof(*terms));
		if (fact->args == NULL)
			return no_arena(&reader);
		memcpy(fact->args, terms, count * sizeof(*terms));
	}
	return true;
}

/* ---------- writing ---------- */

static void
print_string(verdict_buffer *buffer, const char *string)
{
	const char *run = string;
	const char *next;

	verdict_buffer_append(buffer, "\"", 1);
	for (next = string; *next != '\0'; next++)
	{
		unsigned char c = (unsigned char) *next;

		if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7F)
			continue;
		verdict_buffer_append(buffer, run, (size_t) (next - run));
		run = next + 1;
		if (c == '\n')
			verdict_buffer_append(buffer, "\\n", 2);
		else if (c == '\t')
			verdict_buffer_append(buffer, "\\t", 2);
		else if (c == '\r')
			verdict_buffer_append(buffer, "\\r", 2);
		else if (c == '"' || c == '\\')
			verdict_buffer_printf(buffer, "\\%c", c);
		else
			verdict_buffer_printf(buffer, "\\u%04X", c);
	}
	verdict_buffer_append(buffer, run, (size_t) (next - run));
	verdict_buffer_append(buffer, "\"", 1);
}

static bool
is_bare_id(const char *id)
{
	if (*id == '\0')
		return false;
	for (; *id != '\0'; id++)
	{
		if (!is_word(*id) && (unsigned char) *id < 0x80 && strchr(".@/+-:", *id) == NULL)
			return false;
	}
	return true;
}

bool
verdict_identity_print(verdict_buffer *buffer, const verdict_identity *identity)
{
	verdict_buffer_append_string(buffer, identity->type);
	verdict_buffer_append(buffer, ":", 1);
	return verdict_buffer_append_string(buffer, identity->id);
}

bool
verdict_value_print(verdict_buffer *buffer, const verdict_value *value)
{
	switch (value->kind)
	{
		case VERDICT_VALUE_ANY:
			return verdict_buffer_append(buffer, "_", 1);
		case VERDICT_VALUE_IDENTITY:
			if (is_bare_id(value->as.identity.id))
				return verdict_identity_print(buffer, &value->as.identity);
			verdict_buffer_append_string(buffer, value->as.identity.type);
			verdict_buffer_append(buffer, ":", 1);
			print_string(buffer, value->as.identity.id);
			break;
		case VERDICT_VALUE_STRING:
			print_string(buffer, value->as.string);
			break;
		case VERDICT_VALUE_INTEGER:
			return verdict_buffer_printf(buffer, "%" PRId64, value->as.integer);
		case VERDICT_VALUE_BOOLEAN:
			return verdict_buffer_append_string(buffer, value->as.boolean ? "true" : "false");
	}
	return buffer->state == VERDICT_BUFFER_OK;
}

bool
verdict_fact_print(verdict_buffer *buffer, const verdict_fact *fact)
{
	size_t i;

	verdict_buffer_append_string(buffer, fact->predicate);
	verdict_buffer_append(buffer, "(", 1);
	for (i = 0; i < fact->count; i++)
	{
		const verdict_term *term = &fact->args[i];

		if (i > 0)
			verdict_buffer_append(buffer, ", ", 2);
		switch (term->kind)
		{
			case VERDICT_TERM_WILDCARD:
				verdict_buffer_append(buffer, "_", 1);
				break;
			case VERDICT_TERM_VALUE:
				verdict_value_print(buffer, &term->as.value);
				break;
			case VERDICT_TERM_VARIABLE:
				verdict_buffer_append(buffer, "?", 1);
				verdict_buffer_append_string(buffer, term->as.variable.name);
				if (term->as.variable.type[0] != '\0')
				{
					verdict_buffer_append(buffer, ":", 1);
					verdict_buffer_append_string(buffer, term->as.variable.type);
				}
				break;
		}
	}
	return verdict_buffer_append(buffer, ")", 1);
}
