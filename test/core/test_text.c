/*
 * test_text.c
 *		The ways through text that read more than a byte at a time say what one
 *		that looks at each character says.
 */
#include "text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bool
is_text_by_character(const char *bytes, size_t size)
{
	size_t length;

	for (; size > 0; bytes += length, size -= length)
	{
		length = verdict_utf8_length(bytes, size);
		if (length == 0 || bytes[0] == '\0')
			return false;
	}
	return true;
}

/* One odd byte at every place of texts of every small size. */
static void
any_byte_anywhere_is_seen(void **state)
{
	char text[40];
	size_t size;
	size_t place;
	int byte;

	(void) state;
	for (size = 1; size < sizeof(text); size++)
	{
		for (place = 0; place < size; place++)
		{
			for (byte = 0; byte < 256; byte++)
			{
				memset(text, 'a', sizeof(text));
				text[place] = (char) byte;
				assert_int_equal(verdict_is_text(text, size), byte != 0 && byte < 0x80);
			}
		}
	}
	assert_true(verdict_is_text("", 0));
}

static void
random_text_is_what_its_characters_are(void **state)
{
	static const char *const parts[] = {"a",
										"\x01",
										"\x7f",
										"12345678",
										"\xc3\xa9",
										"\xe2\x82\xac",
										"\xed\x9f\xbf",
										"\xee\x80\x80",
										"\xf0\x9f\x98\x80",
										"\x80",
										"\xe2\x82",
										"\xed\xa0\x80"};
	int round;
	int good = 0;

	(void) state;
	srand(2);
	for (round = 0; round < 100000; round++)
	{
		/* One in four may draw from the malformed parts. */
		size_t choices = rand() % 4 == 0 ? 12 : 9;
		char text[64];
		size_t size = 0;

		while (size < 40 && rand() % 8 != 0)
		{
			const char *part = parts[(size_t) rand() % choices];

			memcpy(text + size, part, strlen(part));
			size += strlen(part);
		}
		assert_int_equal(verdict_is_text(text, size), is_text_by_character(text, size));
		good += verdict_is_text(text, size);
	}
	assert_in_range(good, 60000, 99000);
}

static void
identifiers_are_letters_then_digits_too(void **state)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz";
	char name[130];
	int byte;

	(void) state;
	memset(name, 'x', sizeof(name));
	for (byte = 0; byte < 256; byte++)
	{
		bool letter = byte != 0 && strchr(letters, byte) != NULL;
		bool digit = byte >= '0' && byte <= '9';

		name[0] = (char) byte;
		assert_int_equal(verdict_is_identifier(name, 5), letter);
		name[0] = 'x';
		name[4] = (char) byte;
		assert_int_equal(verdict_is_identifier(name, 5), letter || digit);
		name[4] = 'x';
	}
	assert_false(verdict_is_identifier(name, 0));
	assert_true(verdict_is_identifier(name, 128));
	assert_false(verdict_is_identifier(name, 129));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_byte_anywhere_is_seen),
		cmocka_unit_test(random_text_is_what_its_characters_are),
		cmocka_unit_test(identifiers_are_letters_then_digits_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
