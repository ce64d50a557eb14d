/*
 * text.c
 *		See text.h.  Nothing here keeps memory.
 */
#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool
is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool
text_is_identifier(const char *bytes, size_t size)
{
	if (size == 0 || size > TEXT_MAX_IDENTIFIER || !is_letter(bytes[0]))
		return false;
	for (size_t i = 1; i < size; i++)
	{
		if (!is_letter(bytes[i]) && !(bytes[i] >= '0' && bytes[i] <= '9'))
			return false;
	}
	return true;
}

size_t
text_character(const char *bytes, size_t size)
{
	const unsigned char *b = (const unsigned char *) bytes;
	size_t length;
	unsigned code;

	if (size == 0 || b[0] == 0)
		return 0;
	if (b[0] < 0x80)
		return 1;
	if (b[0] >= 0xc2 && b[0] <= 0xdf)
		length = 2;
	else if (b[0] >= 0xe0 && b[0] <= 0xef)
		length = 3;
	else if (b[0] >= 0xf0 && b[0] <= 0xf4)
		length = 4;
	else
		return 0;
	if (length > size)
		return 0;
	code = b[0] & (0x7f >> length);
	for (size_t i = 1; i < length; i++)
	{
		if ((b[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (b[i] & 0x3f);
	}
	if ((length == 3 && (code < 0x800 || (code >= 0xd800 && code <= 0xdfff))) ||
		(length == 4 && (code < 0x10000 || code > 0x10ffff)))
		return 0;
	return length;
}

bool
text_is_utf8(const char *bytes, size_t size)
{
	size_t at = 0;

	while (at < size)
	{
		size_t length = text_character(bytes + at, size - at);

		if (length == 0)
			return false;
		at += length;
	}
	return true;
}

bool
engine_fail(engine_error *error, engine_code code, const char *format, ...)
{
	va_list arguments;
	char text[sizeof(error->message)];
	size_t size;
	size_t at = 0;
	size_t used = 0;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	size = strlen(text);
	while (at < size)
	{
		size_t length = text_character(text + at, size - at);

		if (length == 0)
		{
			/* The last bytes may be half a character that was cut here. */
			if (size == sizeof(text) - 1 && size - at < 4)
				break;
			error->message[used++] = '?';
			at++;
		}
		else if (length == 1 && ((unsigned char) text[at] < 0x20 || text[at] == 0x7f))
		{
			error->message[used++] = '?';
			at++;
		}
		else
		{
			memcpy(error->message + used, text + at, length);
			used += length;
			at += length;
		}
	}
	error->message[used] = '\0';
	error->code = code;
	return false;
}
