/*
 * text.c
 *		See text.h.
 */
#include "text.h"

#include <string.h>

#define LONGEST_IDENTIFIER 128

size_t
verdict_utf8_length(const char *bytes, size_t size)
{
	const unsigned char *byte = (const unsigned char *) bytes;
	unsigned char lowest = 0x80; /* allowed range of the second byte */
	unsigned char highest = 0xBF;
	size_t length;
	size_t i;

	if (size == 0)
		return 0;
	if (byte[0] < 0x80)
		return 1;
	if (byte[0] >= 0xC2 && byte[0] <= 0xDF)
		length = 2;
	else if (byte[0] >= 0xE0 && byte[0] <= 0xEF)
	{
		length = 3;
		if (byte[0] == 0xE0)
			lowest = 0xA0; /* below is overlong */
		else if (byte[0] == 0xED)
			highest = 0x9F; /* above are surrogates */
	}
	else if (byte[0] >= 0xF0 && byte[0] <= 0xF4)
	{
		length = 4;
		if (byte[0] == 0xF0)
			lowest = 0x90;
		else if (byte[0] == 0xF4)
			highest = 0x8F; /* above is beyond U+10FFFF */
	}
	else
		return 0;

	if (size < length || byte[1] < lowest || byte[1] > highest)
		return 0;
	for (i = 2; i < length; i++)
	{
		if (byte[i] < 0x80 || byte[i] > 0xBF)
			return 0;
	}
	return length;
}

size_t
verdict_utf8_write(uint32_t code, char *bytes)
{
	if (code < 0x80)
	{
		bytes[0] = (char) code;
		return 1;
	}
	if (code < 0x800)
	{
		bytes[0] = (char) (0xC0 | code >> 6);
		bytes[1] = (char) (0x80 | (code & 0x3F));
		return 2;
	}
	if (code < 0x10000)
	{
		bytes[0] = (char) (0xE0 | code >> 12);
		bytes[1] = (char) (0x80 | (code >> 6 & 0x3F));
		bytes[2] = (char) (0x80 | (code & 0x3F));
		return 3;
	}
	bytes[0] = (char) (0xF0 | code >> 18);
	bytes[1] = (char) (0x80 | (code >> 12 & 0x3F));
	bytes[2] = (char) (0x80 | (code >> 6 & 0x3F));
	bytes[3] = (char) (0x80 | (code & 0x3F));
	return 4;
}

/* True when all eight bytes are ASCII and none is NUL: most text, read fast. */
static bool
is_plain_word(const char *bytes)
{
	uint64_t word;

	memcpy(&word, bytes, sizeof(word));
	/* With no high bit set, taking 1 from a byte borrows only when it is NUL. */
	return ((word | (word - 0x0101010101010101u)) & 0x8080808080808080u) == 0;
}

bool
verdict_is_text(const char *bytes, size_t size)
{
	size_t position = 0;

	while (position < size)
	{
		size_t length;

		if (size - position >= sizeof(uint64_t) && is_plain_word(bytes + position))
		{
			position += sizeof(uint64_t);
			continue;
		}
		if (bytes[position] == '\0')
			return false;
		length = (unsigned char) bytes[position] < 0x80
					 ? 1
					 : verdict_utf8_length(bytes + position, size - position);
		if (length == 0)
			return false;
		position += length;
	}
	return true;
}

/* What a byte may be in an identifier. */
#define LETTER 1
#define DIGIT 2

bool
verdict_is_identifier(const char *bytes, size_t size)
{
	/* not isalpha(): that depends on the locale */
	static const uint8_t kinds[256] = {
		['0' ... '9'] = DIGIT, ['A' ... 'Z'] = LETTER, ['_'] = LETTER, ['a' ... 'z'] = LETTER};
	size_t i;

	if (size == 0 || size > LONGEST_IDENTIFIER || kinds[(uint8_t) bytes[0]] != LETTER)
		return false;
	for (i = 1; i < size; i++)
	{
		if (kinds[(uint8_t) bytes[i]] == 0)
			return false;
	}
	return true;
}

bool
verdict_int64_parse(const char *bytes, size_t size, int64_t *value)
{
	bool negative = size > 0 && bytes[0] == '-';
	size_t position = negative ? 1 : 0;
	uint64_t limit = negative ? (uint64_t) INT64_MAX + 1 : (uint64_t) INT64_MAX;
	uint64_t magnitude = 0;

	if (position == size || (bytes[position] == '0' && position + 1 < size))
		return false;
	for (; position < size; position++)
	{
		unsigned digit;

		if (bytes[position] < '0' || bytes[position] > '9')
			return false;
		digit = (unsigned) (bytes[position] - '0');
		if (magnitude > (limit - digit) / 10)
			return false;
		magnitude = magnitude * 10 + digit;
	}
	if (!negative)
		*value = (int64_t) magnitude;
	else if (magnitude == limit)
		*value = INT64_MIN;
	else
		*value = -(int64_t) magnitude;
	return true;
}

/* The digit's number, or -1. */
static int
base64_digit(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == '+' || c == '-')
		return 62;
	if (c == '/' || c == '_')
		return 63;
	return -1;
}

int64_t
verdict_base64_decode(const char *text, size_t size, uint8_t *bytes)
{
	uint32_t bits = 0;
	int bit_count = 0;
	int64_t filled = 0;
	size_t i;

	/* Padding is free to be absent, but it must not be anything else. */
	if (size % 4 == 0 && size > 0 && text[size - 1] == '=')
		size -= text[size - 2] == '=' ? 2 : 1;
	if (size % 4 == 1)
		return -1;
	for (i = 0; i < size; i++)
	{
		int digit = base64_digit(text[i]);

		if (digit < 0)
			return -1;
		bits = (bits << 6 | (uint32_t) digit) & 0xFFFF;
		bit_count += 6;
		if (bit_count >= 8)
		{
			bit_count -= 8;
			bytes[filled++] = (uint8_t) (bits >> bit_count);
		}
	}
	return filled;
}
