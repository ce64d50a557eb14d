/*
 * json.c
 *		See json.h.
 *
 * Why not the JSON library that reads error bodies (connect.c) here too: what
 * jansson 2.14 reads can be wrong without a word.  When malloc() fails while a
 * token grows beyond 16 bytes, lex_save() in its load.c drops a character of it
 * and parsing goes on, so that one identity becomes another.  Its memory cannot
 * come from a verdict_host either (its allocation functions are one set for the
 * whole process), and its trees take up to 80 times the text.  The fuzzers hold
 * this reader against jansson's.
 */
#include "json.h"

#include "text.h"

#include <stdint.h>
#include <string.h>

char
verdict_json_peek(verdict_json *json)
{
	while (json->position < json->size)
	{
		char c = json->text[json->position];

		if (c != ' ' && c != '\t' && c != '\n' && c != '\r')
			return c;
		json->position++;
	}
	return '\0';
}

bool
verdict_json_take(verdict_json *json, char c)
{
	if (verdict_json_peek(json) != c || json->position == json->size)
		return false;
	json->position++;
	return true;
}

/* The next byte as it stands, or NUL at the end. */
static char
next_byte(const verdict_json *json)
{
	return json->position < json->size ? json->text[json->position] : '\0';
}

/* Reads the four digits after "\u". */
static bool
read_code_unit(verdict_json *json, uint32_t *unit)
{
	int i;

	*unit = 0;
	for (i = 0; i < 4; i++)
	{
		char c = next_byte(json);

		if (c >= '0' && c <= '9')
			*unit = *unit << 4 | (uint32_t) (c - '0');
		else if (c >= 'a' && c <= 'f')
			*unit = *unit << 4 | (uint32_t) (c - 'a' + 10);
		else if (c >= 'A' && c <= 'F')
			*unit = *unit << 4 | (uint32_t) (c - 'A' + 10);
		else
			return false;
		json->position++;
	}
	return true;
}

/* Reads what follows a backslash as UTF-8; returns its bytes, 0 when wrong. */
static size_t
read_escape(verdict_json *json, char *bytes)
{
	static const char written[] = "\"\\/bfnrt";
	static const char meant[] = "\"\\/\b\f\n\r\t";
	char c = next_byte(json);
	const char *found = c == '\0' ? NULL : strchr(written, c);
	uint32_t code;
	uint32_t low;

	json->position++;
	if (found != NULL)
	{
		bytes[0] = meant[found - written];
		return 1;
	}
	if (c != 'u' || !read_code_unit(json, &code) || code == 0)
		return 0;
	if (code >= 0xD800 && code <= 0xDFFF)
	{
		/* half a character: the other half must follow */
		if (code > 0xDBFF || next_byte(json) != '\\')
			return 0;
		json->position++;
		if (next_byte(json) != 'u')
			return 0;
		json->position++;
		if (!read_code_unit(json, &low) || low < 0xDC00 || low > 0xDFFF)
			return 0;
		code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
	}
	return verdict_utf8_write(code, bytes);
}

bool
verdict_json_string(verdict_json *json, char *out, size_t *size)
{
	*size = 0;
	json->position++; /* the opening quote */
	while (json->position < json->size)
	{
		const char *bytes = json->text + json->position;
		unsigned char first = (unsigned char) bytes[0];
		char escaped[4];
		size_t length;

		if (first == '"')
		{
			json->position++;
			return true;
		}
		if (first < 0x20)
			return false;
		if (first == '\\')
		{
			json->position++;
			length = read_escape(json, escaped);
			bytes = escaped;
		}
		else
		{
			length = verdict_utf8_length(bytes, json->size - json->position);
			json->position += length;
		}
		if (length == 0)
			return false;
		if (out != NULL)
			memcpy(out + *size, bytes, length);
		*size += length;
	}
	return false;
}

static bool
skip_digits(verdict_json *json)
{
	size_t start = json->position;

	while (next_byte(json) >= '0' && next_byte(json) <= '9')
		json->position++;
	return json->position > start;
}

bool
verdict_json_number(verdict_json *json)
{
	if (next_byte(json) == '-')
		json->position++;
	if (next_byte(json) == '0')
		json->position++; /* no digit may follow */
	else if (!skip_digits(json))
		return false;
	if (next_byte(json) == '.')
	{
		json->position++;
		if (!skip_digits(json))
			return false;
	}
	if (next_byte(json) == 'e' || next_byte(json) == 'E')
	{
		json->position++;
		if (next_byte(json) == '+' || next_byte(json) == '-')
			json->position++;
		if (!skip_digits(json))
			return false;
	}
	return true;
}

static bool
skip_word(verdict_json *json, const char *word)
{
	size_t size = strlen(word);

	if (json->size - json->position < size || memcmp(json->text + json->position, word, size) != 0)
		return false;
	json->position += size;
	return true;
}

/* Passes over an object or array, whose opening bracket comes next. */
static bool
skip_container(verdict_json *json, int depth)
{
	bool object = next_byte(json) == '{';
	char closing = object ? '}' : ']';

	if (depth < 1)
		return false;
	json->position++;
	if (verdict_json_take(json, closing))
		return true;
	do
	{
		size_t size;

		if (object)
		{
			if (verdict_json_peek(json) != '"' || !verdict_json_string(json, NULL, &size) ||
				!verdict_json_take(json, ':'))
				return false;
		}
		if (!verdict_json_skip(json, depth - 1))
			return false;
	} while (verdict_json_take(json, ','));
	return verdict_json_take(json, closing);
}

bool
verdict_json_skip(verdict_json *json, int depth)
{
	size_t size;

	switch (verdict_json_peek(json))
	{
		case '{':
		case '[':
			return skip_container(json, depth);
		case '"':
			return verdict_json_string(json, NULL, &size);
		case 't':
			return skip_word(json, "true");
		case 'f':
			return skip_word(json, "false");
		case 'n':
			return skip_word(json, "null");
		default:
			return verdict_json_number(json);
	}
}
