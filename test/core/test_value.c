/*
 * test_value.c
 *		The text form of identities and facts, and the text helpers under it.
 */
#include "support.h"
#include "value.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static support_host support;
static verdict_arena arena;
static verdict_status status;

static int
setup(void **state)
{
	(void) state;
	support_host_init(&support);
	verdict_arena_init(&arena, &support.host, SIZE_MAX);
	verdict_status_init(&status);
	return 0;
}

static int
teardown(void **state)
{
	(void) state;
	verdict_arena_free(&arena);
	return support.live == 0 ? 0 : -1;
}

/* Parses from memory of exactly this size, so that a byte too far is seen. */
static bool
parse(const char *text, size_t size, verdict_fact *fact)
{
	char *copy = malloc(size > 0 ? size : 1);
	bool result;

	memcpy(copy, text, size);
	result = verdict_fact_parse(&arena, copy, size, fact, &status);
	free(copy);
	return result;
}

static void
assert_prints(const char *text, const char *printed)
{
	verdict_buffer buffer;
	verdict_fact fact;

	if (!parse(text, strlen(text), &fact))
		fail_msg("\"%s\": %s", text, status.message);
	verdict_buffer_init(&buffer, &support.host, SIZE_MAX);
	assert_true(verdict_fact_print(&buffer, &fact));
	assert_string_equal(buffer.bytes, printed);

	/* the printed form stands for the same fact, and is its own printed form */
	assert_true(parse(printed, strlen(printed), &fact));
	verdict_buffer_reset(&buffer);
	assert_true(verdict_fact_print(&buffer, &fact));
	assert_string_equal(buffer.bytes, printed);
	verdict_buffer_free(&buffer);
}

static void
facts_have_one_text(void **state)
{
	static const struct
	{
		const char *text;
		const char *printed;
	} cases[] = {
		{"p()", "p()"},
		{" \t\n_P9 ( \r\f\v) ", "_P9()"},
		{"is_owner(User:alice,Document:handbook)", "is_owner(User:alice, Document:handbook)"},
		{"p( User:alice , \"a string\" ,-42,true,false,?doc,?doc:Document,_ )",
		 "p(User:alice, \"a string\", -42, true, false, ?doc, ?doc:Document, _)"},
		{"p(User:\"alice\")", "p(User:alice)"},
		{"p(User:\"a b\")", "p(User:\"a b\")"},
		{"p(Doc:a:b)", "p(Doc:a:b)"},
		{"p(Doc::)", "p(Doc::)"},
		{"p(Doc:\"a:b\")", "p(Doc:a:b)"},
		{"p(U:a.b@c/d+e-f_9)", "p(U:a.b@c/d+e-f_9)"},
		/* read bare, printed in quotes */
		{"p(U:a#b?)", "p(U:\"a#b?\")"},
		{"p(U:'x')", "p(U:\"'x'\")"},
		{"p(U:-1)", "p(U:-1)"},
		{"p(U:gr\xc3\xbc\xc3\x9f)", "p(U:gr\xc3\xbc\xc3\x9f)"},
		{"p(U:\"a,b\")", "p(U:\"a,b\")"},
		{"p(U:\"(\")", "p(U:\"(\")"},
		/* words with a meaning keep it only where no colon follows */
		{"p(true:x, false:y, _:z)", "p(true:x, false:y, _:z)"},
		{"p(\"\")", "p(\"\")"},
		{"p(\"a\\\"b\\\\c\\n\\t\\r\\u0001\\u007f\")", "p(\"a\\\"b\\\\c\\n\\t\\r\\u0001\\u007F\")"},
		{"p(\"raw\nline\")", "p(\"raw\\nline\")"},
		{"p(\"\\u00e9\\u20AC\")", "p(\"\xc3\xa9\xe2\x82\xac\")"},
		{"p(0,-0,7)", "p(0, 0, 7)"},
		{"p(9223372036854775807,-9223372036854775808)",
		 "p(9223372036854775807, -9223372036854775808)"},
		{"p(?_,?a1:_)", "p(?_, ?a1:_)"},
	};
	size_t i;

	(void) state;
	for (i = 0; i < LENGTH(cases); i++)
		assert_prints(cases[i].text, cases[i].printed);
}

static void
parts_are_what_was_written(void **state)
{
	const char *text = "p(Doc:a:b, \"x\\u0001\", -7, false, ?v:T, ?w, _)";
	verdict_fact fact;

	(void) state;
	assert_true(parse(text, strlen(text), &fact));
	assert_string_equal(fact.predicate, "p");
	assert_int_equal(fact.count, 7);
	assert_int_equal(fact.args[0].kind, VERDICT_TERM_VALUE);
	assert_int_equal(fact.args[0].as.value.kind, VERDICT_VALUE_IDENTITY);
	assert_string_equal(fact.args[0].as.value.as.identity.type, "Doc");
	assert_string_equal(fact.args[0].as.value.as.identity.id, "a:b");
	assert_int_equal(fact.args[1].as.value.kind, VERDICT_VALUE_STRING);
	assert_string_equal(fact.args[1].as.value.as.string, "x\001");
	assert_int_equal(fact.args[2].as.value.kind, VERDICT_VALUE_INTEGER);
	assert_int_equal(fact.args[2].as.value.as.integer, -7);
	assert_int_equal(fact.args[3].as.value.kind, VERDICT_VALUE_BOOLEAN);
	assert_false(fact.args[3].as.value.as.boolean);
	assert_int_equal(fact.args[4].kind, VERDICT_TERM_VARIABLE);
	assert_string_equal(fact.args[4].as.variable.name, "v");
	assert_string_equal(fact.args[4].as.variable.type, "T");
	assert_int_equal(fact.args[5].kind, VERDICT_TERM_VARIABLE);
	assert_string_equal(fact.args[5].as.variable.type, "");
	assert_int_equal(fact.args[6].kind, VERDICT_TERM_WILDCARD);
	assert_false(verdict_fact_is_ground(&fact));
	assert_true(parse("p()", 3, &fact));
	assert_true(verdict_fact_is_ground(&fact));
	assert_true(parse("p(1)", 4, &fact));
	assert_true(verdict_fact_is_ground(&fact));
	assert_true(parse("p(1,_)", 6, &fact));
	assert_false(verdict_fact_is_ground(&fact));
}

static void
bad_facts_say_where(void **state)
{
	static const struct
	{
		const char *text;
		const char *where;
	} cases[] = {
		{"", "expected a predicate at character 1"},
		{"   ", "expected a predicate at character 4"},
		{"9p()", "expected a predicate at character 1"},
		{"\xc3\xbc()", "expected a predicate at character 1"},
		{"p", "expected \"(\" at character 2"},
		{"p q()", "expected \"(\" at character 3"},
		{"p(", "expected an argument at character 3"},
		{"p(1", "expected \",\" or \")\" at character 4"},
		{"p(1,", "expected an argument at character 5"},
		{"p(1,)", "expected an argument at character 5"},
		{"p(,1)", "expected an argument at character 3"},
		{"p(1 2)", "expected \",\" or \")\" at character 5"},
		{"p())", "expected the end of the fact at character 4"},
		{"p() q", "expected the end of the fact at character 5"},
		{"p(alice)", "expected an argument (Type:id, \"string\", integer, true, false, ?name or _) "
					 "at character 3"},
		{"p(TRUE)", "expected an argument (Type:id, \"string\", integer, true, false, ?name or _) "
					"at character 3"},
		{"p(User:)", "empty id at character 8"},
		{"p(User: alice)", "empty id at character 8"},
		{"p(User:\"\")", "empty id at character 8"},
		{"p(User :alice)", "expected an argument (Type:id, \"string\", integer, true, false, ?name "
						   "or _) at character 3"},
		{"p(\xc3\xbc:a)", "expected an argument at character 3"},
		{"p(User:al\"ice)", "character that an id can hold only in quotes at character 10"},
		{"p(User:a\\b)", "character that an id can hold only in quotes at character 9"},
		{"p(User:a\x01)", "character that an id can hold only in quotes at character 9"},
		{"p(User:\"a\"b)", "expected \",\" or \")\" at character 11"},
		{"p(\"abc)", "string without an end at character 3"},
		{"p(\"abc\\\")", "string without an end at character 3"},
		{"p(\"\\", "string without an end at character 3"},
		{"p(\"\xc3\xbc\\q\")", "invalid escape at character 5"},
		{"p(\"\\u12\")", "invalid escape at character 4"},
		{"p(\"\\u0000\")", "invalid escape at character 4"},
		{"p(\"\\ud800\")", "invalid escape at character 4"},
		{"p(01)", "malformed integer, or one out of range, at character 3"},
		{"p(-)", "malformed integer, or one out of range, at character 3"},
		{"p(+1)", "expected an argument at character 3"},
		{"p(1.5)", "malformed integer, or one out of range, at character 3"},
		{"p(1e5)", "malformed integer, or one out of range, at character 3"},
		{"p(0x10)", "malformed integer, or one out of range, at character 3"},
		{"p(9223372036854775808)", "malformed integer, or one out of range, at character 3"},
		{"p(-9223372036854775809)", "malformed integer, or one out of range, at character 3"},
		{"p(99999999999999999999999999)", "malformed integer, or one out of range, at character 3"},
		{"p(?)", "expected the name of a variable at character 4"},
		{"p(?1)", "expected the name of a variable at character 4"},
		{"p(?a:)", "expected the type of a variable at character 6"},
		{"p(?a:1)", "expected the type of a variable at character 6"},
		{"p(? a)", "expected the name of a variable at character 4"},
		{"p(\xff)", "invalid UTF-8 or NUL at character 3"},
		{"p(\"\xed\xa0\x80\")", "invalid UTF-8 or NUL at character 4"},
	};
	verdict_fact fact;
	size_t i;

	(void) state;
	for (i = 0; i < LENGTH(cases); i++)
	{
		verdict_status_init(&status);
		if (parse(cases[i].text, strlen(cases[i].text), &fact))
			fail_msg("\"%s\" parses", cases[i].text);
		assert_int_equal(status.code, VERDICT_INVALID_ARGUMENT);
		assert_int_equal(status.cause, VERDICT_CAUSE_ARGUMENT);
		assert_string_equal(status.message, cases[i].where);
	}
	assert_false(parse("p(\0)", 4, &fact));
	assert_string_equal(status.message, "invalid UTF-8 or NUL at character 3");
}

static void
sizes_have_limits(void **state)
{
	verdict_buffer text;
	verdict_fact fact;
	int i;

	(void) state;
	verdict_buffer_init(&text, &support.host, SIZE_MAX);
	verdict_buffer_append_string(&text, "p(1");
	for (i = 1; i < VERDICT_MAX_ARGUMENTS; i++)
		verdict_buffer_append_string(&text, ",1");
	verdict_buffer_append_string(&text, ")");
	assert_true(parse(text.bytes, text.size, &fact));
	assert_int_equal(fact.count, VERDICT_MAX_ARGUMENTS);
	text.size--;
	verdict_buffer_append_string(&text, ",1)");
	assert_false(parse(text.bytes, text.size, &fact));
	assert_string_equal(status.message, "too many arguments at character 131");

	/* an identifier of 128 characters is the longest */
	verdict_buffer_reset(&text);
	for (i = 0; i < 128; i++)
		verdict_buffer_append_string(&text, "a");
	verdict_buffer_append_string(&text, "()");
	assert_true(parse(text.bytes, text.size, &fact));
	verdict_buffer_reset(&text);
	for (i = 0; i < 129; i++)
		verdict_buffer_append_string(&text, "a");
	verdict_buffer_append_string(&text, "()");
	assert_false(parse(text.bytes, text.size, &fact));

	/* strings have no limit but the arena's */
	verdict_buffer_reset(&text);
	verdict_buffer_append_string(&text, "p(\"");
	for (i = 0; i < 1000000; i++)
		verdict_buffer_append_string(&text, "x");
	verdict_buffer_append_string(&text, "\")");
	assert_true(parse(text.bytes, text.size, &fact));
	assert_int_equal(strlen(fact.args[0].as.value.as.string), 1000000);
	arena.maximum = arena.used + 1000;
	assert_false(parse(text.bytes, text.size, &fact));
	assert_int_equal(status.code, VERDICT_RESOURCE_EXHAUSTED);
	verdict_buffer_free(&text);
}

static void
identities_split_at_the_first_colon(void **state)
{
	static const struct
	{
		const char *text;
		const char *type; /* NULL: refused */
		const char *id;	  /* or the message */
	} cases[] = {
		{"User:alice", "User", "alice"},
		{"Doc:a:b", "Doc", "a:b"},
		{"_:x", "_", "x"},
		{"User: spaced (out), \"quoted\" ", "User", " spaced (out), \"quoted\" "},
		{"User:gr\xc3\xbc\xc3\x9f", "User", "gr\xc3\xbc\xc3\x9f"},
		{"User::", "User", ":"},
		{"", NULL, "expected a colon (Type:id) at character 1"},
		{"User", NULL, "expected a colon (Type:id) at character 5"},
		{"User:", NULL, "empty id at character 6"},
		{":alice", NULL, "the type of an identity must be an identifier; it starts at character 1"},
		{" User:alice", NULL,
		 "the type of an identity must be an identifier; it starts at character 1"},
		{"Us er:alice", NULL,
		 "the type of an identity must be an identifier; it starts at character 1"},
		{"User:\xff", NULL, "invalid UTF-8 or NUL at character 6"},
		{"\xc3\xbc\xc3\xbc:\xff", NULL, "invalid UTF-8 or NUL at character 4"},
	};
	verdict_identity identity;
	size_t i;

	(void) state;
	for (i = 0; i < LENGTH(cases); i++)
	{
		bool parsed;

		verdict_status_init(&status);
		parsed = verdict_identity_parse(&arena, cases[i].text, strlen(cases[i].text), &identity,
										&status);
		if (cases[i].type == NULL)
		{
			assert_false(parsed);
			assert_int_equal(status.code, VERDICT_INVALID_ARGUMENT);
			assert_string_equal(status.message, cases[i].id);
		}
		else
		{
			verdict_buffer buffer;

			assert_true(parsed);
			assert_string_equal(identity.type, cases[i].type);
			assert_string_equal(identity.id, cases[i].id);
			verdict_buffer_init(&buffer, &support.host, SIZE_MAX);
			assert_true(verdict_identity_print(&buffer, &identity));
			assert_string_equal(buffer.bytes, cases[i].text);
			verdict_buffer_free(&buffer);
		}
	}
	assert_false(verdict_identity_parse(&arena, "User:a\0b", 8, &identity, &status));
	assert_false(verdict_identity_parse(&arena, NULL, 0, &identity, &status));
}

static void
values_compare_by_kind_and_content(void **state)
{
	/* no two of these are equal */
	const char *text = "p(A:x, A:y, B:x, \"x\", \"y\", \"\", 1, 0, true, false, \"true\")";
	verdict_fact left;
	verdict_fact right;
	verdict_value any = {VERDICT_VALUE_ANY, {{NULL, NULL}}};
	size_t i;
	size_t j;

	(void) state;
	assert_true(parse(text, strlen(text), &left));
	assert_true(parse(text, strlen(text), &right));
	for (i = 0; i < left.count; i++)
	{
		for (j = 0; j < right.count; j++)
			assert_int_equal(verdict_value_equal(&left.args[i].as.value, &right.args[j].as.value),
							 i == j);
		assert_false(verdict_value_equal(&left.args[i].as.value, &any));
	}
	assert_true(verdict_value_equal(&any, &any));
}

static void
utf8_is_checked_byte_by_byte(void **state)
{
	unsigned first;
	unsigned code;
	int accepted = 0;

	(void) state;
	/* every code point in its one form */
	for (code = 1; code <= 0x110000; code++)
	{
		char bytes[4];
		size_t size;

		if (code < 0x80)
		{
			bytes[0] = (char) code;
			size = 1;
		}
		else if (code < 0x800)
		{
			bytes[0] = (char) (0xC0 | code >> 6);
			bytes[1] = (char) (0x80 | (code & 63));
			size = 2;
		}
		else if (code < 0x10000)
		{
			bytes[0] = (char) (0xE0 | code >> 12);
			bytes[1] = (char) (0x80 | (code >> 6 & 63));
			bytes[2] = (char) (0x80 | (code & 63));
			size = 3;
		}
		else
		{
			bytes[0] = (char) (0xF0 | code >> 18);
			bytes[1] = (char) (0x80 | (code >> 12 & 63));
			bytes[2] = (char) (0x80 | (code >> 6 & 63));
			bytes[3] = (char) (0x80 | (code & 63));
			size = 4;
		}
		if (verdict_is_text(bytes, size) !=
			(code <= 0x10FFFF && !(code >= 0xD800 && code <= 0xDFFF)))
			fail_msg("U+%04X", code);
		if (size > 1 && verdict_is_text(bytes, size - 1))
			fail_msg("U+%04X cut", code);
	}
	/* and of all two-byte forms only these */
	for (first = 0x80; first < 0x100; first++)
	{
		unsigned second;

		for (second = 0; second < 0x100; second++)
		{
			char bytes[2] = {(char) first, (char) second};

			accepted += verdict_is_text(bytes, 2);
		}
	}
	assert_int_equal(accepted, 30 * 64);
	/* overlong forms of three and four bytes */
	assert_false(verdict_is_text("\xe0\x9f\xbf", 3));
	assert_false(verdict_is_text("\xf0\x8f\xbf\xbf", 4));
	assert_true(verdict_is_text(NULL, 0));
	assert_false(verdict_is_text("a\0b", 3));
}

static void
memory_may_fail_anywhere(void **state)
{
	static const char text[] =
		"p(User:alice, Doc:\"a b\", \"a string\", -42, ?doc, ?doc:Document, _)";
	size_t n;

	(void) state;
	for (n = 1; n == 1 || support.failures > 0; n++)
	{
		verdict_fact fact;
		verdict_buffer buffer;
		bool parsed;
		bool printed;

		verdict_arena_free(&arena);
		verdict_status_init(&status);
		support_fail_at(&support, n);
		parsed = verdict_fact_parse(&arena, text, strlen(text), &fact, &status);
		assert_int_equal(parsed, support.failures == 0);
		if (!parsed)
		{
			assert_int_equal(status.cause, VERDICT_CAUSE_MEMORY);
			continue;
		}
		verdict_buffer_init(&buffer, &support.host, SIZE_MAX);
		printed = verdict_fact_print(&buffer, &fact);
		assert_int_equal(printed, support.failures == 0);
		if (support.failures == 0)
			assert_string_equal(buffer.bytes, text);
		verdict_buffer_free(&buffer);
	}
	assert_in_range(n, 3, 20);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(facts_have_one_text),
		TEST(parts_are_what_was_written),
		TEST(bad_facts_say_where),
		TEST(sizes_have_limits),
		TEST(identities_split_at_the_first_colon),
		TEST(values_compare_by_kind_and_content),
		TEST(utf8_is_checked_byte_by_byte),
		TEST(memory_may_fail_anywhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
