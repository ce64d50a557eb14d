/*
 * test_revision.c
 *		Revision tokens: the grammar, the canonical text, the laws of merging.
 *
 * Random cases come from one fixed seed, so that a failure repeats.
 */
#include "revision.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static uint64_t random_state;

/* xorshift64* */
static uint64_t
next_random(void)
{
	random_state ^= random_state >> 12;
	random_state ^= random_state << 25;
	random_state ^= random_state >> 27;
	return random_state * UINT64_C(2685821657736338717);
}

static int
setup_random(void **state)
{
	(void) state;
	random_state = UINT64_C(0x9e3779b97f4a7c15);
	return 0;
}

/* Parses from memory of exactly this size, so that a byte too far is seen. */
static bool
parse_exactly(const char *text, size_t size, verdict_revision *revision)
{
	char *copy = malloc(size > 0 ? size : 1);
	bool result;

	assert_non_null(copy);
	memcpy(copy, text, size);
	result = verdict_revision_parse(copy, size, revision);
	free(copy);
	return result;
}

static verdict_revision
parsed(const char *text)
{
	verdict_revision revision;

	if (!parse_exactly(text, strlen(text), &revision))
		fail_msg("\"%s\" does not parse", text);
	return revision;
}

static void
assert_same(const verdict_revision *a, const verdict_revision *b)
{
	int i;

	assert_string_equal(a->instance, b->instance);
	assert_true(a->generation == b->generation);
	assert_int_equal(a->shards, b->shards);
	for (i = 0; i < a->shards; i++)
	{
		assert_int_equal(a->positions[i].shard, b->positions[i].shard);
		assert_true(a->positions[i].position == b->positions[i].position);
	}
}

static void
assert_prints(const verdict_revision *revision, const char *expected)
{
	char text[VERDICT_REVISION_MAX_TEXT + 1];
	size_t length = verdict_revision_print(revision, text);

	assert_string_equal(text, expected);
	assert_int_equal(length, strlen(expected));
}

/* "v1.a.1." and shards 1, 2, ... of position 1, "count" of them. */
static void
many_shards(char *text, size_t size, int count)
{
	size_t length = (size_t) snprintf(text, size, "v1.a.1.1:1");
	int i;

	for (i = 2; i <= count; i++)
		length += (size_t) snprintf(text + length, size - length, ",%d:1", i);
	assert_true(length < size);
}

static void
test_well_formed(void **state)
{
	static const struct
	{
		const char *text;
		const char *canonical;
	} cases[] = {
		{"v1.a.1.5", "v1.a.1.5"},
		{"v1.a.1.0:5", "v1.a.1.5"},
		{"v1.a.1.0", "v1.a.1.0"},
		{"v1.a.1.0:0", "v1.a.1.0"},
		{"v1.a.1.5,1:6", "v1.a.1.5,1:6"},
		{"v1.a.1.0:5,1:6,70:0", "v1.a.1.5,1:6,70:0"},
		{"v1.a.1.7:8", "v1.a.1.7:8"},
		{"v1.A-z_09.18446744073709551615.4294967295:18446744073709551615",
		 "v1.A-z_09.18446744073709551615.4294967295:18446744073709551615"},
		{"v1.AZaz09_-.1.1", "v1.AZaz09_-.1.1"},
		{"v1.-.1.1", "v1.-.1.1"},
		{"v1._.0.1", "v1._.0.1"},
		{"v1.v1.1.1", "v1.v1.1.1"},
		{"v1.0123456789012345678901234567890123456789012345678901234567890123.1.1",
		 "v1.0123456789012345678901234567890123456789012345678901234567890123.1.1"},
	};
	size_t i;

	(void) state;
	for (i = 0; i < LENGTH(cases); i++)
	{
		verdict_revision revision = parsed(cases[i].text);
		verdict_revision again = parsed(cases[i].canonical);

		assert_prints(&revision, cases[i].canonical);
		assert_same(&revision, &again);
	}
}

static void
test_fields(void **state)
{
	verdict_revision revision = parsed("v1.eu-1.12.34,5:6");

	(void) state;
	assert_string_equal(revision.instance, "eu-1");
	assert_int_equal(revision.generation, 12);
	assert_int_equal(revision.shards, 2);
	assert_int_equal(revision.positions[0].shard, 0);
	assert_int_equal(revision.positions[0].position, 34);
	assert_int_equal(revision.positions[1].shard, 5);
	assert_int_equal(revision.positions[1].position, 6);
}

static void
test_malformed(void **state)
{
	static const char *const cases[] = {
		"",
		"v",
		"v1",
		"v1.",
		"v2.a.1.5",
		"V1.a.1.5",
		"1.a.1.5",
		"v1.a",
		"v1.a.",
		"v1.a.1",
		"v1.a.1.",
		"v1..1.5", /* no instance */
		"v1.a..5", /* no generation */
		"v1.a b.1.5",
		"v1.a/b.1.5",
		"v1.\xc3\xa9.1.5", /* a letter, but not of ASCII */
		"v1.01234567890123456789012345678901234567890123456789012345678901234.1.1",
		"v1.a.01.5", /* leading zeros */
		"v1.a.00.5",
		"v1.a.1.05",
		"v1.a.1.00",
		"v1.a.1.0:05",
		"v1.a.1.00:5",
		"v1.a.1.5,01:6",
		"v1.a.18446744073709551616.5", /* beyond uint64 and uint32 */
		"v1.a.99999999999999999999.5",
		"v1.a.1.18446744073709551616",
		"v1.a.1.1:18446744073709551616",
		"v1.a.1.4294967296:5",
		"v1.a.1.1:5,4294967296:5",
		"v1.a.1.2:5,1:6", /* order */
		"v1.a.1.1:5,0:6",
		"v1.a.1.1:5,1:6", /* twice */
		"v1.a.1.1:5,1:5",
		"v1.a.1.5,0:6",
		"v1.a.1.0:5,0:6",
		"v1.a.1.1:5,6", /* only the first can be bare */
		"v1.a.1.5,6",
		"v1.a.1.5,",
		"v1.a.1.,1:5",
		"v1.a.1.5,,1:5",
		"v1.a.1.1:",
		"v1.a.1.:5",
		"v1.a.1.1:2:3",
		"v1.a.-1.5",
		"v1.a.+1.5",
		"v1.a.1.-5",
		"v1.a.1.+5",
		"v1.a.1.0x5",
		"v1.a.1.5e1",
		"v1.a.1.1:-5",
		" v1.a.1.5",
		"v1.a.1.5 ",
		"v1.a.1. 5",
		"v1.a.1.5\n",
		"v1.a.1.5, v1.a.1.6", /* two header values joined */
		"v1.a.1.5,v1.a.1.6",
		"v1.a.1.5.",
		"v1.a.1.5.6",
	};
	verdict_revision revision;
	size_t i;

	(void) state;
	for (i = 0; i < LENGTH(cases); i++)
	{
		if (parse_exactly(cases[i], strlen(cases[i]), &revision))
			fail_msg("\"%s\" parses", cases[i]);
	}
	assert_false(verdict_revision_parse(NULL, 0, &revision));
}

static void
test_embedded_nul(void **state)
{
	static const char good[] = "v1.a.1.5,1:6";
	verdict_revision revision;
	size_t i;

	(void) state;
	assert_true(parse_exactly(good, strlen(good), &revision));
	assert_false(parse_exactly(good, sizeof(good), &revision));
	for (i = 0; i < strlen(good); i++)
	{
		char text[sizeof(good)];

		memcpy(text, good, sizeof(good));
		text[i] = '\0';
		assert_false(parse_exactly(text, strlen(good), &revision));
	}
}

static void
test_shard_limit(void **state)
{
	char text[VERDICT_REVISION_MAX_TEXT + 1];
	verdict_revision revision;

	(void) state;
	many_shards(text, sizeof(text), 64);
	assert_true(parse_exactly(text, strlen(text), &revision));
	assert_int_equal(revision.shards, 64);
	assert_prints(&revision, text);
	many_shards(text, sizeof(text), 65);
	assert_false(parse_exactly(text, strlen(text), &revision));
}

/*
 * A revision of 64 shards with long numbers whose canonical text has "size"
 * bytes.  "size" must be near the limit.
 */
static verdict_revision
revision_of_size(size_t size)
{
	verdict_revision revision;
	char text[VERDICT_REVISION_MAX_TEXT + 1];
	uint64_t long_position = UINT64_C(10000000000000000000);
	int i;

	memset(&revision, 0, sizeof(revision));
	memset(revision.instance, 'i', VERDICT_REVISION_MAX_INSTANCE);
	revision.generation = UINT64_MAX;
	revision.shards = 64;
	for (i = 0; i < 64; i++)
	{
		revision.positions[i].shard = 4000000000u + (uint32_t) i;
		revision.positions[i].position = 1;
	}
	/* Grow the positions digit by digit until the text has the size. */
	for (i = 0; i < 64; i++)
	{
		size_t length = verdict_revision_print(&revision, text);
		size_t missing = size - length;

		assert_true(length > 0 && length <= size);
		if (missing >= 19)
			revision.positions[i].position = long_position;
		else
		{
			while (missing-- > 0)
				revision.positions[i].position *= 10;
			break;
		}
	}
	return revision;
}

static void
test_exact_byte_limit(void **state)
{
	char text[VERDICT_REVISION_MAX_TEXT + 2];
	verdict_revision largest = revision_of_size(VERDICT_REVISION_MAX_TEXT);
	verdict_revision again;
	size_t length = verdict_revision_print(&largest, text);

	(void) state;
	assert_int_equal(length, VERDICT_REVISION_MAX_TEXT);
	assert_true(parse_exactly(text, length, &again));
	assert_same(&again, &largest);

	/* One digit more is of the grammar, and one byte too long. */
	text[length] = '0';
	text[length + 1] = '\0';
	assert_false(parse_exactly(text, length + 1, &again));

	/* Built by hand, it has no text rather than a cut one. */
	largest.positions[63].position *= 10;
	assert_int_equal(verdict_revision_print(&largest, text), 0);
	assert_string_equal(text, "");
}

static void
test_print_nothing(void **state)
{
	verdict_revision none;

	(void) state;
	memset(&none, 0, sizeof(none));
	assert_prints(&none, "");
}

static void
test_merge_cases(void **state)
{
	static const struct
	{
		const char *into;
		const char *from;
		verdict_merge_result result;
		const char *merged;
	} cases[] = {
		{"v1.a.1.5", "v1.a.1.7", VERDICT_MERGE_OK, "v1.a.1.7"},
		{"v1.a.1.7", "v1.a.1.5", VERDICT_MERGE_OK, "v1.a.1.7"},
		{"v1.a.1.5", "v1.a.1.0:5", VERDICT_MERGE_OK, "v1.a.1.5"},
		{"v1.a.1.5,2:9", "v1.a.1.4,1:3,2:10", VERDICT_MERGE_OK, "v1.a.1.5,1:3,2:10"},
		{"v1.a.1.2:9", "v1.a.1.1:9", VERDICT_MERGE_OK, "v1.a.1.1:9,2:9"},
		{"v1.a.1.18446744073709551615", "v1.a.1.1", VERDICT_MERGE_OK,
		 "v1.a.1.18446744073709551615"},
		{"v1.a.1.5", "v1.b.1.7", VERDICT_MERGE_OTHER_HISTORY, "v1.a.1.5"},
		{"v1.a.1.5", "v1.a.2.7", VERDICT_MERGE_OTHER_HISTORY, "v1.a.1.5"},
		{"v1.a.2.5", "v1.a.1.7", VERDICT_MERGE_OTHER_HISTORY, "v1.a.2.5"},
		{"v1.a.1.5", "v1.A.1.5", VERDICT_MERGE_OTHER_HISTORY, "v1.a.1.5"},
		{"v1.a.1.5", "v1.ab.1.5", VERDICT_MERGE_OTHER_HISTORY, "v1.a.1.5"},
	};
	verdict_revision none;
	verdict_revision five = parsed("v1.a.1.5");
	size_t i;

	(void) state;
	for (i = 0; i < LENGTH(cases); i++)
	{
		verdict_revision into = parsed(cases[i].into);
		verdict_revision from = parsed(cases[i].from);

		assert_int_equal(verdict_revision_merge(&into, &from), cases[i].result);
		assert_prints(&into, cases[i].merged);
	}

	memset(&none, 0, sizeof(none));
	assert_int_equal(verdict_revision_merge(&none, &five), VERDICT_MERGE_OK);
	assert_prints(&none, "v1.a.1.5");
	memset(&none, 0, sizeof(none));
	assert_int_equal(verdict_revision_merge(&five, &none), VERDICT_MERGE_OK);
	assert_prints(&five, "v1.a.1.5");
	assert_int_equal(verdict_revision_merge(&five, &five), VERDICT_MERGE_OK);
	assert_prints(&five, "v1.a.1.5");
}

static void
test_merge_too_many_shards(void **state)
{
	char text[VERDICT_REVISION_MAX_TEXT + 1];
	verdict_revision full;
	verdict_revision before;
	verdict_revision one = parsed("v1.a.1.64:2");
	verdict_revision other = parsed("v1.a.1.65:1");

	(void) state;
	many_shards(text, sizeof(text), 64);
	full = parsed(text);
	assert_int_equal(verdict_revision_merge(&full, &one), VERDICT_MERGE_OK);
	before = full;
	assert_int_equal(verdict_revision_merge(&full, &other), VERDICT_MERGE_TOO_LARGE);
	assert_same(&full, &before);
	assert_int_equal(verdict_revision_merge(&other, &full), VERDICT_MERGE_TOO_LARGE);
	assert_prints(&other, "v1.a.1.65:1");
}

static void
test_merge_too_many_bytes(void **state)
{
	verdict_revision largest = revision_of_size(VERDICT_REVISION_MAX_TEXT);
	verdict_revision before = largest;
	verdict_revision more = largest;

	(void) state;
	/* One shard grows within its digits, then by one digit. */
	more.shards = 1;
	more.positions[0].position++;
	assert_int_equal(verdict_revision_merge(&largest, &more), VERDICT_MERGE_OK);
	assert_true(largest.positions[0].position == more.positions[0].position);

	before = largest;
	more.positions[0] = largest.positions[63];
	assert_true(more.positions[0].position < UINT64_MAX / 10);
	more.positions[0].position *= 10;
	assert_int_equal(verdict_revision_merge(&largest, &more), VERDICT_MERGE_TOO_LARGE);
	assert_same(&largest, &before);
}

static void
test_covers(void **state)
{
	static const struct
	{
		const char *reached;
		const char *wanted;
		bool covers;
	} cases[] = {
		{"v1.a.1.5", "v1.a.1.5", true},			 {"v1.a.1.5", "v1.a.1.4", true},
		{"v1.a.1.5", "v1.a.1.6", false},		 {"v1.a.1.5", "v1.a.1.0:5", true},
		{"v1.a.1.5", "v1.a.1.5,1:0", true},		 {"v1.a.1.5", "v1.a.1.5,1:1", false},
		{"v1.a.1.5", "v1.a.1.1:0", true},		 {"v1.a.1.5,1:1", "v1.a.1.5", true},
		{"v1.a.1.5,1:1", "v1.a.1.1:2", false},	 {"v1.a.1.1:5,3:5", "v1.a.1.2:0,3:5", true},
		{"v1.a.1.1:5,3:5", "v1.a.1.2:1", false}, {"v1.a.2.5", "v1.a.1.5", false},
		{"v1.b.1.5", "v1.a.1.5", false},
	};
	verdict_revision none;
	verdict_revision five = parsed("v1.a.1.5");
	size_t i;

	(void) state;
	for (i = 0; i < LENGTH(cases); i++)
	{
		verdict_revision reached = parsed(cases[i].reached);
		verdict_revision wanted = parsed(cases[i].wanted);

		if (verdict_revision_covers(&reached, &wanted) != cases[i].covers)
			fail_msg("\"%s\" covers \"%s\"", cases[i].reached, cases[i].wanted);
	}
	memset(&none, 0, sizeof(none));
	assert_false(verdict_revision_covers(&none, &five));
	assert_false(verdict_revision_covers(&five, &none));
	assert_false(verdict_revision_covers(&none, &none));
}

/* Few shards and positions, so that triples meet in every way. */
static verdict_revision
random_revision(void)
{
	verdict_revision revision;
	uint32_t shard = 0;
	int wanted = 1 + (int) (next_random() % 6);

	memset(&revision, 0, sizeof(revision));
	strcpy(revision.instance, "a");
	revision.generation = 1;
	while (revision.shards < wanted)
	{
		verdict_position *position = &revision.positions[revision.shards++];

		shard += (uint32_t) (next_random() % 3);
		position->shard = shard++;
		position->position = next_random() % 4 == 0 ? next_random() : next_random() % 4;
	}
	return revision;
}

static verdict_revision
merged(const verdict_revision *a, const verdict_revision *b)
{
	verdict_revision result = *a;

	assert_int_equal(verdict_revision_merge(&result, b), VERDICT_MERGE_OK);
	return result;
}

static void
test_merge_laws(void **state)
{
	int i;

	(void) state;
	for (i = 0; i < 10000; i++)
	{
		verdict_revision a = random_revision();
		verdict_revision b = random_revision();
		verdict_revision c = random_revision();
		verdict_revision ab = merged(&a, &b);
		verdict_revision ba = merged(&b, &a);
		verdict_revision bc = merged(&b, &c);
		verdict_revision left = merged(&ab, &c);
		verdict_revision right = merged(&a, &bc);
		verdict_revision twice = merged(&ab, &b);
		verdict_revision itself = merged(&a, &a);
		char text[VERDICT_REVISION_MAX_TEXT + 1];
		verdict_revision again;

		assert_same(&ab, &ba);
		assert_same(&left, &right);
		assert_same(&twice, &ab);
		assert_same(&itself, &a);
		assert_true(verdict_revision_covers(&ab, &a));
		assert_true(verdict_revision_covers(&ab, &b));
		assert_true(verdict_revision_covers(&left, &ab));
		/* Nothing but the two went in: the smallest that covers both. */
		if (verdict_revision_covers(&a, &b))
			assert_true(verdict_revision_covers(&a, &ab));
		if (verdict_revision_covers(&c, &a) && verdict_revision_covers(&c, &b))
			assert_true(verdict_revision_covers(&c, &ab));

		verdict_revision_print(&left, text);
		again = parsed(text);
		assert_same(&again, &left);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_well_formed),
		cmocka_unit_test(test_fields),
		cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_embedded_nul),
		cmocka_unit_test(test_shard_limit),
		cmocka_unit_test(test_exact_byte_limit),
		cmocka_unit_test(test_print_nothing),
		cmocka_unit_test(test_merge_cases),
		cmocka_unit_test(test_merge_too_many_shards),
		cmocka_unit_test(test_merge_too_many_bytes),
		cmocka_unit_test(test_covers),
		cmocka_unit_test_setup(test_merge_laws, setup_random),
	};

	return cmocka_run_group_tests_name("revision", tests, NULL, NULL);
}
