/*
 * test_status.c
 *		Codes and their names, and what becomes of foreign text in a message.
 */
#include "status.h"
#include "text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void
starts_as_success(void **state)
{
	verdict_status status;

	(void) state;
	memset(&status, 0xFF, sizeof(status));
	verdict_status_init(&status);
	assert_int_equal(status.code, VERDICT_OK);
	assert_int_equal(status.cause, VERDICT_CAUSE_NONE);
	assert_int_equal(status.outcome, VERDICT_OUTCOME_NOT_SENT);
	assert_false(status.inferred);
	assert_int_equal(status.http_status, 0);
	assert_int_equal(status.attempts, 0);
	assert_int_equal(status.sends, 0);
	assert_int_equal(status.retry_after_ms, -1);
	assert_string_equal(status.request_id, "");
	assert_string_equal(status.message, "");
}

static void
failing_leaves_the_rest(void **state)
{
	verdict_status status;

	(void) state;
	verdict_status_init(&status);
	status.http_status = 503;
	status.sends = 2;
	assert_false(verdict_status_fail(&status, VERDICT_UNAVAILABLE, VERDICT_CAUSE_HTTP,
									 "HTTP status %d", 503));
	assert_int_equal(status.code, VERDICT_UNAVAILABLE);
	assert_int_equal(status.cause, VERDICT_CAUSE_HTTP);
	assert_string_equal(status.message, "HTTP status 503");
	assert_int_equal(status.http_status, 503);
	assert_int_equal(status.sends, 2);

	/* a status may be told of itself */
	verdict_status_fail(&status, VERDICT_INTERNAL, VERDICT_CAUSE_ANSWER, "in the answer: %s",
						status.message);
	assert_string_equal(status.message, "in the answer: HTTP status 503");

	assert_false(verdict_status_no_memory(&status));
	assert_int_equal(status.code, VERDICT_RESOURCE_EXHAUSTED);
	assert_int_equal(status.cause, VERDICT_CAUSE_MEMORY);
	assert_string_equal(status.message, "out of memory");
}

static void
assert_cleaned(const char *raw, const char *clean)
{
	verdict_status status;

	verdict_status_init(&status);
	verdict_status_fail(&status, VERDICT_UNKNOWN, VERDICT_CAUSE_REMOTE, "%s", raw);
	assert_string_equal(status.message, clean);
}

static void
cleans_foreign_text(void **state)
{
	(void) state;
	assert_cleaned("", "");
	assert_cleaned("a\nb\r\n\tc", "a b   c");
	assert_cleaned("\x1b[31mred\x7f\x01", "?[31mred??");
	assert_cleaned("gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80",
				   "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80");
	assert_cleaned("\xff"
				   "a\xc3",
				   "?a?");
	assert_cleaned("\xc0\xaf", "??");					 /* overlong */
	assert_cleaned("\xed\xa0\x80", "???");				 /* surrogate */
	assert_cleaned("\xf4\x90\x80\x80", "????");			 /* beyond U+10FFFF */
	assert_cleaned("a\xc2\x85z\xc2\xa0", "a?z\xc2\xa0"); /* U+0085, U+00A0 */
}

static void
cuts_between_characters(void **state)
{
	verdict_status status;
	char *text = malloc(10001);
	size_t shift;

	(void) state;
	/* exactly what fits is not cut */
	memset(text, 'x', 10000);
	text[VERDICT_MESSAGE_SIZE - 1] = '\0';
	assert_cleaned(text, text);

	/* one more is */
	text[VERDICT_MESSAGE_SIZE - 1] = 'x';
	text[VERDICT_MESSAGE_SIZE] = '\0';
	verdict_status_init(&status);
	verdict_status_fail(&status, VERDICT_UNKNOWN, VERDICT_CAUSE_REMOTE, "%s", text);
	assert_int_equal(strlen(status.message), VERDICT_MESSAGE_SIZE - 1);
	assert_string_equal(status.message + VERDICT_MESSAGE_SIZE - 6, "xx...");

	/* wherever a four-byte character falls on the cut, it is whole or gone */
	for (shift = 0; shift < 4; shift++)
	{
		size_t length;
		size_t i;

		memset(text, 'x', shift);
		for (i = shift; i + 4 <= 10000; i += 4)
			memcpy(text + i, "\xf0\x9f\x98\x80", 4);
		text[i] = '\0';
		verdict_status_init(&status);
		verdict_status_fail(&status, VERDICT_UNKNOWN, VERDICT_CAUSE_REMOTE, "%s", text);
		length = strlen(status.message);
		assert_in_range(length, VERDICT_MESSAGE_SIZE - 4, VERDICT_MESSAGE_SIZE - 1);
		assert_true(verdict_is_text(status.message, length));
		assert_null(strchr(status.message, '?'));
		assert_string_equal(status.message + length - 3, "...");
	}

	/* characters that shrink: the longest raw text that still shows */
	for (shift = 0; shift < 5000; shift++)
		memcpy(text + 2 * shift, "\xc2\x85", 2);
	text[10000] = '\0';
	verdict_status_fail(&status, VERDICT_UNKNOWN, VERDICT_CAUSE_REMOTE, "%s", text);
	assert_int_equal(strlen(status.message), VERDICT_MESSAGE_SIZE - 1);
	assert_int_equal(strspn(status.message, "?"), VERDICT_MESSAGE_SIZE - 4);
	free(text);
}

static void
names_go_both_ways(void **state)
{
	static const struct
	{
		verdict_code code;
		const char *name;
	} names[] = {
		{VERDICT_CANCELED, "canceled"},
		{VERDICT_UNKNOWN, "unknown"},
		{VERDICT_INVALID_ARGUMENT, "invalid_argument"},
		{VERDICT_DEADLINE_EXCEEDED, "deadline_exceeded"},
		{VERDICT_NOT_FOUND, "not_found"},
		{VERDICT_ALREADY_EXISTS, "already_exists"},
		{VERDICT_PERMISSION_DENIED, "permission_denied"},
		{VERDICT_RESOURCE_EXHAUSTED, "resource_exhausted"},
		{VERDICT_FAILED_PRECONDITION, "failed_precondition"},
		{VERDICT_ABORTED, "aborted"},
		{VERDICT_OUT_OF_RANGE, "out_of_range"},
		{VERDICT_UNIMPLEMENTED, "unimplemented"},
		{VERDICT_INTERNAL, "internal"},
		{VERDICT_UNAVAILABLE, "unavailable"},
		{VERDICT_DATA_LOSS, "data_loss"},
		{VERDICT_UNAUTHENTICATED, "unauthenticated"},
	};
	size_t i;

	(void) state;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
	{
		assert_string_equal(verdict_code_name(names[i].code), names[i].name);
		assert_int_equal(verdict_code_from_name(names[i].name), names[i].code);
	}
	assert_string_equal(verdict_code_name(VERDICT_OK), "ok");
	assert_string_equal(verdict_code_name((verdict_code) 17), "unknown");
	assert_string_equal(verdict_code_name((verdict_code) -1), "unknown");
	/* "ok" is no code of an error, and nothing else may pass for one */
	assert_int_equal(verdict_code_from_name("ok"), VERDICT_OK);
	assert_int_equal(verdict_code_from_name(""), VERDICT_OK);
	assert_int_equal(verdict_code_from_name("Canceled"), VERDICT_OK);
	assert_int_equal(verdict_code_from_name("canceled "), VERDICT_OK);

	assert_string_equal(verdict_outcome_name(VERDICT_OUTCOME_NOT_SENT), "not_sent");
	assert_string_equal(verdict_outcome_name(VERDICT_OUTCOME_REJECTED), "rejected");
	assert_string_equal(verdict_outcome_name(VERDICT_OUTCOME_MAYBE_APPLIED), "maybe_applied");
	assert_string_equal(verdict_outcome_name(VERDICT_OUTCOME_APPLIED), "applied");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(starts_as_success),   cmocka_unit_test(failing_leaves_the_rest),
		cmocka_unit_test(cleans_foreign_text), cmocka_unit_test(cuts_between_characters),
		cmocka_unit_test(names_go_both_ways),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
