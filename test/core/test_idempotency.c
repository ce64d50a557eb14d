/*
 * test_idempotency.c
 *		Keys and fingerprints: the same parts give the same key for ever, and
 *		any other part gives another.
 */
#include "idempotency.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static const verdict_key_parts base = {.system_identifier = UINT64_C(7300000000000000001),
									   .timeline = 1,
									   .database = 16384,
									   .process = UINT64_C(0x0123456789abcdef),
									   .transaction = UINT64_C(5000000000),
									   .ordinal = 0,
									   .method = "InsertFact",
									   .payload = "abc",
									   .payload_size = 3};

static void
derive(const verdict_key_parts *parts, char *key)
{
	verdict_status status;

	verdict_status_init(&status);
	memset(key, 'x', VERDICT_KEY_MAX + 1);
	assert_true(verdict_key_derive(parts, key, &status));
	assert_int_equal(status.code, VERDICT_OK);
}

static void
test_key_form(void **state)
{
	char key[VERDICT_KEY_MAX + 1];
	size_t i;

	(void) state;
	derive(&base, key);
	assert_int_equal(strlen(key), 4 + 64);
	assert_memory_equal(key, "pg1-", 4);
	for (i = 4; i < 68; i++)
		assert_non_null(strchr("0123456789abcdef", key[i]));
	assert_true(verdict_key_valid(key));
}

/*
 * A key outlives the program that made it: a changed encoding would send what
 * an outbox holds a second time under another key.  The expected value was
 * computed independently, from the description at the top of idempotency.c.
 */
static void
test_key_is_stable(void **state)
{
	char key[VERDICT_KEY_MAX + 1];

	(void) state;
	derive(&base, key);
	assert_string_equal(key,
						"pg1-2e3831f52f61cd542c78c718a344d4b0ac0a6fc65676fdee5d1dec56488fc43d");
}

static void
test_every_part_counts(void **state)
{
	verdict_key_parts parts[16];
	char keys[LENGTH(parts)][VERDICT_KEY_MAX + 1];
	size_t count = 0;
	size_t i;
	size_t j;

	(void) state;
	for (i = 0; i < LENGTH(parts); i++)
		parts[i] = base;
	count++; /* the base itself */
	parts[count++].system_identifier++;
	parts[count++].timeline++;
	parts[count++].database++;
	parts[count++].process++;
	parts[count++].transaction++;
	parts[count++].ordinal++;
	parts[count++].method = "DeleteFact";
	parts[count++].payload = "abd";
	parts[count++].payload_size = 2;
	parts[count++].payload_size = 0;
	/* The epoch of a transaction id, and every high half. */
	parts[count++].transaction += UINT64_C(1) << 32;
	parts[count++].system_identifier += UINT64_C(1) << 32;
	parts[count++].process += UINT64_C(1) << 32;
	parts[count++].ordinal += UINT64_C(1) << 32;
	/* Neighbours that trade places. */
	parts[count].timeline = base.database;
	parts[count++].database = base.timeline;
	assert_int_equal(count, LENGTH(parts));

	for (i = 0; i < count; i++)
		derive(&parts[i], keys[i]);
	for (i = 0; i < count; i++)
		for (j = i + 1; j < count; j++)
			assert_string_not_equal(keys[i], keys[j]);
}

static void
test_parts_do_not_run_together(void **state)
{
	verdict_key_parts a = base;
	verdict_key_parts b = base;
	char key_a[VERDICT_KEY_MAX + 1];
	char key_b[VERDICT_KEY_MAX + 1];
	unsigned char print_a[VERDICT_FINGERPRINT_SIZE];
	unsigned char print_b[VERDICT_FINGERPRINT_SIZE];
	verdict_status status;

	(void) state;
	a.method = "InsertFact";
	a.payload = "abc";
	a.payload_size = 3;
	b.method = "InsertFacta";
	b.payload = "bc";
	b.payload_size = 2;
	derive(&a, key_a);
	derive(&b, key_b);
	assert_string_not_equal(key_a, key_b);

	verdict_status_init(&status);
	assert_true(verdict_fingerprint(a.method, a.payload, a.payload_size, print_a, &status));
	assert_true(verdict_fingerprint(b.method, b.payload, b.payload_size, print_b, &status));
	assert_memory_not_equal(print_a, print_b, VERDICT_FINGERPRINT_SIZE);
}

static void
test_same_parts_same_key(void **state)
{
	verdict_key_parts parts = base;
	char method[] = "InsertFact";
	char payload[] = {'a', 'b', 'c'};
	char first[VERDICT_KEY_MAX + 1];
	char second[VERDICT_KEY_MAX + 1];

	(void) state;
	parts.method = method;
	parts.payload = payload;
	derive(&base, first);
	derive(&parts, second);
	assert_string_equal(first, second);

	/* An empty payload has no place it need be at. */
	parts.payload_size = 0;
	derive(&parts, first);
	parts.payload = NULL;
	derive(&parts, second);
	assert_string_equal(first, second);
}

static void
test_binary_payload(void **state)
{
	unsigned char *large = malloc(1 << 20);
	unsigned char first[VERDICT_FINGERPRINT_SIZE];
	unsigned char second[VERDICT_FINGERPRINT_SIZE];
	verdict_status status;

	(void) state;
	assert_non_null(large);
	memset(large, 0, 1 << 20);
	verdict_status_init(&status);
	assert_true(verdict_fingerprint("BatchFacts", large, 1 << 20, first, &status));
	large[(1 << 20) - 1] = 1;
	assert_true(verdict_fingerprint("BatchFacts", large, 1 << 20, second, &status));
	assert_memory_not_equal(first, second, sizeof(first));
	assert_true(verdict_fingerprint("BatchFacts", large, (1 << 20) - 1, second, &status));
	assert_memory_not_equal(first, second, sizeof(first));

	/* From one byte up. */
	large[0] = 0;
	assert_true(verdict_fingerprint("SetPolicy", large, 1, first, &status));
	large[0] = 1;
	assert_true(verdict_fingerprint("SetPolicy", large, 1, second, &status));
	assert_memory_not_equal(first, second, sizeof(first));
	free(large);
}

static void
test_fingerprint_is_stable(void **state)
{
	static const unsigned char expected[VERDICT_FINGERPRINT_SIZE] = {
		0x79, 0xb3, 0x01, 0x79, 0xaf, 0xce, 0xf0, 0xff, 0x9f, 0xb0, 0x13,
		0x77, 0x8b, 0x00, 0x94, 0xaa, 0xb1, 0x0a, 0x0d, 0xb2, 0x37, 0x35,
		0xc0, 0x5c, 0x1a, 0xfd, 0xa0, 0x16, 0xd0, 0x2f, 0x9c, 0xf4};
	unsigned char fingerprint[VERDICT_FINGERPRINT_SIZE];
	verdict_status status;

	(void) state;
	verdict_status_init(&status);
	assert_true(verdict_fingerprint("InsertFact", "abc", 3, fingerprint, &status));
	assert_int_equal(status.code, VERDICT_OK);
	assert_memory_equal(fingerprint, expected, sizeof(expected));

	assert_true(verdict_fingerprint("InsertFact", "abd", 3, fingerprint, &status));
	assert_memory_not_equal(fingerprint, expected, sizeof(expected));
	assert_true(verdict_fingerprint("DeleteFact", "abc", 3, fingerprint, &status));
	assert_memory_not_equal(fingerprint, expected, sizeof(expected));
}

/* A ledger outlives the program, too; computed independently. */
static void
test_application_key(void **state)
{
	static const unsigned char expected[VERDICT_FINGERPRINT_SIZE] = {
		0x8b, 0x3c, 0x55, 0x00, 0xf4, 0x59, 0x5a, 0xf1, 0x41, 0x04, 0xbd,
		0x73, 0x6f, 0xc2, 0x4b, 0x93, 0xb1, 0x09, 0xaa, 0xc2, 0x8c, 0xb6,
		0xcd, 0x74, 0x05, 0xa6, 0x22, 0xf1, 0xe2, 0xbf, 0x52, 0xc2};
	unsigned char first[VERDICT_FINGERPRINT_SIZE];
	unsigned char other[VERDICT_FINGERPRINT_SIZE];
	verdict_status status;

	(void) state;
	verdict_status_init(&status);
	assert_true(verdict_application_key_hash("order-42", 0, first, &status));
	assert_int_equal(status.code, VERDICT_OK);
	assert_memory_equal(first, expected, sizeof(expected));
	assert_true(verdict_application_key_hash("order-42", 1, other, &status));
	assert_memory_not_equal(other, first, sizeof(first));
	assert_true(verdict_application_key_hash("order-42", UINT64_C(1) << 32, other, &status));
	assert_memory_not_equal(other, first, sizeof(first));
	assert_true(verdict_application_key_hash("order-43", 0, other, &status));
	assert_memory_not_equal(other, first, sizeof(first));
}

static void
test_key_valid(void **state)
{
	char longest[VERDICT_KEY_MAX + 2];
	const char *const good[] = {"a", "!", "~", "order-42", longest};
	const char *const bad[] = {"",			" ",	"a b",	" a",		"a ",	"a\n",
							   "a\r\nX: y", "\x7f", "\x1f", "\xc3\xa9", "\xff", NULL};
	size_t i;

	(void) state;
	memset(longest, 'x', sizeof(longest));
	longest[VERDICT_KEY_MAX] = '\0';
	for (i = 0; i < LENGTH(good); i++)
		assert_true(verdict_key_valid(good[i]));
	for (i = 0; i < LENGTH(bad); i++)
		assert_false(verdict_key_valid(bad[i]));
	longest[VERDICT_KEY_MAX] = 'x';
	longest[VERDICT_KEY_MAX + 1] = '\0';
	assert_false(verdict_key_valid(longest));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_key_form),
		cmocka_unit_test(test_key_is_stable),
		cmocka_unit_test(test_every_part_counts),
		cmocka_unit_test(test_parts_do_not_run_together),
		cmocka_unit_test(test_same_parts_same_key),
		cmocka_unit_test(test_binary_payload),
		cmocka_unit_test(test_fingerprint_is_stable),
		cmocka_unit_test(test_application_key),
		cmocka_unit_test(test_key_valid),
	};

	return cmocka_run_group_tests_name("idempotency", tests, NULL, NULL);
}
