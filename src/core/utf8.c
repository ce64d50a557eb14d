/*
 * utf8.c
 *		See utf8.h.  Pure: reads what it is given and nothing else.
 */
#include "utf8.h"

size_t
verdict_utf8_length(const char *bytes, size_t size)
{
	const unsigned char *byte = (const unsigned char *) bytes;
	unsigned char lowest = 0x80;	/* allowed range of the second byte */
	unsigned char highest = 0xBF;
	size_t		length;
	size_t		i;

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
			lowest = 0xA0;		/* below is overlong */
		else if (byte[0] == 0xED)
			highest = 0x9F;		/* above are surrogates */
	}
	else if (byte[0] >= 0xF0 && byte[0] <= 0xF4)
	{
		length = 4;
		if (byte[0] == 0xF0)
			lowest = 0x90;
		else if (byte[0] == 0xF4)
			highest = 0x8F;		/* above is beyond U+10FFFF */
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
