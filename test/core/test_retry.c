/*
 * test_retry.c
 *		Whether and when a call is sent again: every cell of the table of codes,
 *		the HTTP 503 path and its wait budget, the deadlines.
 *
 * The clock is a number here and jitter is given, so every expected value is
 * exact.  test_retry_budget.c holds the budget and whole courses of calls,
 * test_retry_after.c the reading of Retry-After.
 */
#include "retry_call.h"

#include <stdio.h>

static char
letter(verdict_retry_action action)
{
	return "SRPA"[action];
}

/*
 * The 128 cells.  Columns: explicit read at attempt 1 and 2, mutation at 1 and
 * 2; then the same inferred.  S stop, R re-send (503 path), A second attempt.
 * HTTP statuses: the one Connect gives the code, where it can be inferred the
 * one it is inferred from.  Reads have no attempt 2, and some codes are never
 * inferred: those cells say what must not happen all the same.
 */
static const struct
{
	verdict_code code;
	int explicit_http;
	int inferred_http;
	const char *with_503_path;
	const char *without_503_path;
} code_table[] = {
	{VERDICT_CANCELED, 499, 499, "SSSS SSSS", "SSSS SSSS"},
	{VERDICT_UNKNOWN, 500, 500, "SSAS SSAS", "SSAS SSAS"},
	{VERDICT_INVALID_ARGUMENT, 400, 400, "SSSS SSSS", "SSSS SSSS"},
	{VERDICT_DEADLINE_EXCEEDED, 504, 504, "SSAS SSAS", "SSAS SSAS"},
	{VERDICT_NOT_FOUND, 404, 404, "SSSS SSSS", "SSSS SSSS"},
	{VERDICT_ALREADY_EXISTS, 409, 409, "SSSS SSSS", "SSSS SSSS"},
	{VERDICT_PERMISSION_DENIED, 403, 403, "SSSS SSSS", "SSSS SSSS"},
	{VERDICT_RESOURCE_EXHAUSTED, 429, 429, "SSAS SSAS", "SSAS SSAS"},
	{VERDICT_FAILED_PRECONDITION, 400, 400, "SSSS SSSS", "SSSS SSSS"},
	{VERDICT_ABORTED, 409, 409, "SSSS SSSS", "SSSS SSSS"},
	{VERDICT_OUT_OF_RANGE, 400, 400, "SSSS SSSS", "SSSS SSSS"},
	{VERDICT_UNIMPLEMENTED, 501, 404, "SSSS SSSS", "SSSS SSSS"},
	{VERDICT_INTERNAL, 500, 400, "SSSS SSSS", "SSSS SSSS"},
	{VERDICT_UNAVAILABLE, 503, 503, "RRRR RRRR", "SSAS SSAS"},
	{VERDICT_DATA_LOSS, 500, 500, "SSSS SSSS", "SSSS SSSS"},
	{VERDICT_UNAUTHENTICATED, 401, 401, "SSSS SSSS", "SSSS SSSS"},
};

static void
check_code_table(bool retry_http_503)
{
	size_t row;
	int cells = 0;

	for (row = 0; row < LENGTH(code_table); row++)
	{
		const char *expected =
			retry_http_503 ? code_table[row].with_503_path : code_table[row].without_503_path;
		int column;

		for (column = 0; column < 8; column++)
		{
			bool inferred = column >= 4;
			bool mutation = column % 4 >= 2;
			call c = begin(mutation);
			verdict_retry_action action;

			c.policy.retry_http_503 = retry_http_503;
			c.state.attempt = 1 + column % 2;
			action =
				next(&c, failure(code_table[row].code,
								 inferred ? VERDICT_CAUSE_HTTP : VERDICT_CAUSE_REMOTE, inferred,
								 inferred ? code_table[row].inferred_http
										  : code_table[row].explicit_http));
			if (letter(action) != expected[column + (inferred ? 1 : 0)])
				fail_msg("%s, column %d: %c", verdict_code_name(code_table[row].code), column,
						 letter(action));
			assert_int_equal(c.state.attempt, action == VERDICT_RETRY_ATTEMPT ? 2 : 1 + column % 2);
			assert_int_equal(c.state.retried, action != VERDICT_RETRY_STOP);
			assert_int_equal(c.budget.millitokens,
							 PLENTY - (action == VERDICT_RETRY_STOP						   ? 0
									   : code_table[row].code == VERDICT_DEADLINE_EXCEEDED ? 2000
																						   : 1000));
			cells++;
		}
	}
	assert_int_equal(cells, 128);
}

static void
test_code_table(void **state)
{
	(void) state;
	check_code_table(true);
}

static void
test_code_table_without_503_path(void **state)
{
	(void) state;
	check_code_table(false);
}

/* What bare HTTP statuses lead to for a mutation, 503 path on. */
static void
test_inferred_statuses(void **state)
{
	static const struct
	{
		int http;
		verdict_code code;
		char action;
	} cases[] = {
		/* clang-format off */
		{204, VERDICT_UNKNOWN, 'S'},
		{302, VERDICT_UNKNOWN, 'S'},
		{304, VERDICT_UNKNOWN, 'S'},
		{400, VERDICT_INTERNAL, 'S'},
		{401, VERDICT_UNAUTHENTICATED, 'S'},
		{403, VERDICT_PERMISSION_DENIED, 'S'},
		{404, VERDICT_UNIMPLEMENTED, 'S'},
		{408, VERDICT_UNKNOWN, 'S'},
		{409, VERDICT_UNKNOWN, 'S'},
		{412, VERDICT_UNKNOWN, 'S'},
		{413, VERDICT_UNKNOWN, 'S'},
		{415, VERDICT_UNKNOWN, 'S'},
		{418, VERDICT_UNKNOWN, 'S'},
		{422, VERDICT_UNKNOWN, 'S'},
		{429, VERDICT_UNAVAILABLE, 'A'},
		{431, VERDICT_UNKNOWN, 'S'},
		{499, VERDICT_UNKNOWN, 'S'},
		{500, VERDICT_UNKNOWN, 'A'},
		{501, VERDICT_UNKNOWN, 'A'},
		{502, VERDICT_UNAVAILABLE, 'A'},
		{503, VERDICT_UNAVAILABLE, 'R'},
		{504, VERDICT_UNAVAILABLE, 'A'},
		{505, VERDICT_UNKNOWN, 'A'},
		{520, VERDICT_UNKNOWN, 'A'},
		{599, VERDICT_UNKNOWN, 'A'},
		{600, VERDICT_UNKNOWN, 'S'},
		{800, VERDICT_UNKNOWN, 'S'},
		{0, VERDICT_UNKNOWN, 'S'},
		/* clang-format on */
	};
	size_t i;

	(void) state;
	for (i = 0; i < LENGTH(cases); i++)
	{
		call mutation = begin(true);
		call read = begin(false);
		verdict_status status = failure(cases[i].code, VERDICT_CAUSE_HTTP, true, cases[i].http);
		char action = letter(next(&mutation, status));

		if (action != cases[i].action)
			fail_msg("HTTP %d: %c", cases[i].http, action);
		assert_int_equal(letter(next(&read, status)), action == 'R' ? 'R' : 'S');
	}
}

/* The same refusals, said by the instance itself, are its word: retried. */
static void
test_explicit_unknown_by_any_status(void **state)
{
	static const int statuses[] = {400, 409, 422, 500, 200};
	size_t i;

	(void) state;
	for (i = 0; i < LENGTH(statuses); i++)
	{
		call c = begin(true);

		assert_int_equal(
			next(&c, failure(VERDICT_UNKNOWN, VERDICT_CAUSE_REMOTE, false, statuses[i])),
			VERDICT_RETRY_ATTEMPT);
	}
}

static void
test_causes(void **state)
{
	static const struct
	{
		verdict_cause cause;
		bool again;
	} causes[] = {
		/* clang-format off */
		{VERDICT_CAUSE_NONE, false},
		{VERDICT_CAUSE_REMOTE, true},
		{VERDICT_CAUSE_HTTP, true},
		{VERDICT_CAUSE_RESOLVE, true},
		{VERDICT_CAUSE_CONNECT, true},
		{VERDICT_CAUSE_TLS, false},
		{VERDICT_CAUSE_LOST, true},
		{VERDICT_CAUSE_ANSWER, false},
		{VERDICT_CAUSE_TOO_LARGE, false},
		{VERDICT_CAUSE_DEADLINE, true},
		{VERDICT_CAUSE_INTERRUPTED, false},
		{VERDICT_CAUSE_ARGUMENT, false},
		{VERDICT_CAUSE_SESSION, false},
		{VERDICT_CAUSE_TRUNCATED, false},
		{VERDICT_CAUSE_MEMORY, false},
		{VERDICT_CAUSE_INTERNAL, false},
		{(verdict_cause) 99, false},
		/* clang-format on */
	};
	static const verdict_code codes[] = {VERDICT_UNAVAILABLE, VERDICT_DEADLINE_EXCEEDED,
										 VERDICT_RESOURCE_EXHAUSTED, VERDICT_UNKNOWN};
	size_t i;
	size_t j;

	(void) state;
	for (i = 0; i < LENGTH(causes); i++)
	{
		call c;

		for (j = 0; j < LENGTH(codes); j++)
		{
			c = begin(true);
			assert_int_equal(next(&c, failure(codes[j], causes[i].cause, false, 0)),
							 causes[i].again ? VERDICT_RETRY_ATTEMPT : VERDICT_RETRY_STOP);
			c = begin(false);
			assert_int_equal(next(&c, failure(codes[j], causes[i].cause, false, 0)),
							 VERDICT_RETRY_STOP);
		}

		/* Neither another way of sending again gets around it. */
		c = begin(false);
		assert_int_equal(
			next_with(&c, failure(VERDICT_UNAVAILABLE, causes[i].cause, false, 0), true, 0),
			causes[i].again ? VERDICT_RETRY_REPLACE : VERDICT_RETRY_STOP);
		c = begin(true);
		assert_int_equal(next(&c, failure(VERDICT_UNAVAILABLE, causes[i].cause, false, 503)),
						 causes[i].again ? VERDICT_RETRY_RESEND : VERDICT_RETRY_STOP);
	}
}

static void
test_canceled_is_never_sent_again(void **state)
{
	static const verdict_cause causes[] = {VERDICT_CAUSE_INTERRUPTED, VERDICT_CAUSE_REMOTE,
										   VERDICT_CAUSE_LOST};
	static const int statuses[] = {0, 499, 500, 503};
	size_t i;
	size_t j;
	int variant;

	(void) state;
	for (i = 0; i < LENGTH(causes); i++)
		for (j = 0; j < LENGTH(statuses); j++)
			for (variant = 0; variant < 4; variant++)
			{
				call c = begin(variant % 2 == 1);

				assert_int_equal(next_with(&c,
										   failure(VERDICT_CANCELED, causes[i], false, statuses[j]),
										   variant >= 2, 0),
								 VERDICT_RETRY_STOP);
			}
}

static void
test_other_owners_stop(void **state)
{
	static const verdict_retry_owner owners[] = {VERDICT_RETRY_APPLICATION, VERDICT_RETRY_MESH,
												 VERDICT_RETRY_NONE, (verdict_retry_owner) 99};
	const verdict_status failures[] = {
		lost(),
		http_503(-1),
		http_503(0),
		attempt_timed_out(),
		failure(VERDICT_UNKNOWN, VERDICT_CAUSE_REMOTE, false, 500),
		failure(VERDICT_RESOURCE_EXHAUSTED, VERDICT_CAUSE_REMOTE, false, 429)};
	size_t i;
	size_t j;
	int variant;

	(void) state;
	for (i = 0; i < LENGTH(owners); i++)
		for (j = 0; j < LENGTH(failures); j++)
			for (variant = 0; variant < 4; variant++)
			{
				call c = begin(variant % 2 == 1);

				c.policy.owner = owners[i];
				assert_int_equal(next_with(&c, failures[j], variant >= 2, 0), VERDICT_RETRY_STOP);
				assert_int_equal(c.budget.millitokens, PLENTY);
				assert_false(c.state.retried);
			}
}

/* ---- the HTTP 503 path ---- */

static void
test_503_two_resends(void **state)
{
	int mutation;

	(void) state;
	for (mutation = 0; mutation <= 1; mutation++)
	{
		call c = begin(mutation == 1);

		/* The least jitter waits half the backoff, the most all of it. */
		assert_int_equal(next_with(&c, http_503(-1), false, 0), VERDICT_RETRY_RESEND);
		assert_int_equal(c.delay_ms, VERDICT_503_BASE_MS / 2);
		assert_int_equal(next_with(&c, http_503(-1), false, UINT32_MAX), VERDICT_RETRY_RESEND);
		assert_int_equal(c.delay_ms, 2 * VERDICT_503_BASE_MS);
		assert_int_equal(c.state.waited_ms, VERDICT_503_BASE_MS * 5 / 2);
		assert_int_equal(c.state.resends_503, 2);
		assert_int_equal(c.state.attempt, 1);

		/* Spent, and handled: a mutation has no second attempt either. */
		assert_int_equal(next(&c, http_503(-1)), VERDICT_RETRY_STOP);
		assert_int_equal(c.budget.millitokens, PLENTY - 2000);
	}
}

static void
test_503_jitter_range(void **state)
{
	int resend;
	uint32_t i;

	(void) state;
	for (resend = 0; resend < 2; resend++)
	{
		int whole = VERDICT_503_BASE_MS << resend;
		int before = 0;

		for (i = 0; i < 1000; i++)
		{
			call c = begin(true);

			c.state.resends_503 = resend;
			assert_int_equal(next_with(&c, http_503(-1), false, i * (UINT32_MAX / 999)),
							 VERDICT_RETRY_RESEND);
			assert_in_range(c.delay_ms, whole / 2, whole);
			assert_true(c.delay_ms >= before);
			before = c.delay_ms;
		}
	}
}

/*
 * 12 forms of Retry-After at three depths of the wait budget: what is waited,
 * or -1 for an end without waiting.  Forms without a meaning count as absent,
 * and then the computed delay holds (here without jitter: 100 ms).
 */
static void
test_503_retry_after(void **state)
{
	static const int depths[] = {0, 3000, 4950};
	static const struct
	{
		const char *value;
		int waits[3];
	} forms[] = {
		{"0", {0, 0, 0}},
		{"1", {1000, 1000, -1}},
		{"2", {2000, 2000, -1}},
		{"5", {5000, -1, -1}},
		{"6", {-1, -1, -1}},
		{"99999999999999999999", {-1, -1, -1}},
		{"Sun, 06 Nov 1994 08:49:39 GMT", {2000, 2000, -1}},
		{"Sunday, 06-Nov-94 08:49:38 GMT", {1000, 1000, -1}},
		{"Sun Nov  6 08:49:36 1994", {0, 0, 0}}, /* over */
		{"-1", {100, 100, -1}},
		{"soon", {100, 100, -1}},
		{"", {100, 100, -1}},
	};
	size_t i;
	size_t depth;
	int mutation;

	(void) state;
	for (i = 0; i < LENGTH(forms); i++)
		for (depth = 0; depth < LENGTH(depths); depth++)
			for (mutation = 0; mutation <= 1; mutation++)
			{
				call c = begin(mutation == 1);
				int expected = forms[i].waits[depth];
				verdict_retry_action action;

				c.policy.overall_timeout_ms = 30000;
				c.state.waited_ms = depths[depth];
				/* The clock of the examples in RFC 9110: 784111777. */
				action = next(&c, http_503(verdict_retry_after_ms(forms[i].value, 784111777)));
				if (action != (expected < 0 ? VERDICT_RETRY_STOP : VERDICT_RETRY_RESEND) ||
					(expected >= 0 && c.delay_ms != expected))
					fail_msg("\"%s\" at depth %d: %c %d", forms[i].value, depths[depth],
							 letter(action), c.delay_ms);
				assert_int_equal(c.state.waited_ms, depths[depth] + (expected < 0 ? 0 : expected));
				assert_int_equal(c.budget.millitokens, PLENTY - (expected < 0 ? 0 : 1000));
			}
}

static void
test_503_retry_after_has_no_jitter(void **state)
{
	call c = begin(true);

	(void) state;
	assert_int_equal(next_with(&c, http_503(1500), false, UINT32_MAX), VERDICT_RETRY_RESEND);
	assert_int_equal(c.delay_ms, 1500);
	/* 5,000 ms are the budget of the call, and may be used to the last. */
	assert_int_equal(next(&c, http_503(3500)), VERDICT_RETRY_RESEND);
	assert_int_equal(c.state.waited_ms, VERDICT_503_WAIT_BUDGET_MS);

	c = begin(true);
	assert_int_equal(next(&c, http_503(1500)), VERDICT_RETRY_RESEND);
	assert_int_equal(next(&c, http_503(3501)), VERDICT_RETRY_STOP);
	assert_int_equal(c.state.waited_ms, 1500);

	c = begin(true);
	assert_int_equal(next(&c, http_503(INT64_MAX)), VERDICT_RETRY_STOP);
}

static void
test_503_given_up_is_handled(void **state)
{
	call c = begin(true);

	(void) state;
	assert_int_equal(next(&c, http_503(6000)), VERDICT_RETRY_STOP);
	assert_int_equal(c.state.attempt, 1);
	assert_false(c.state.retried);
	/* With the path off the same answer is plain unavailable. */
	c.policy.retry_http_503 = false;
	assert_int_equal(next(&c, http_503(6000)), VERDICT_RETRY_ATTEMPT);
	assert_int_equal(next(&c, http_503(6000)), VERDICT_RETRY_STOP);
}

/* The HTTP layer does not read the error: an explicit code changes nothing. */
static void
test_503_with_a_connect_error(void **state)
{
	call c = begin(true);

	(void) state;
	assert_int_equal(next(&c, failure(VERDICT_INTERNAL, VERDICT_CAUSE_REMOTE, false, 503)),
					 VERDICT_RETRY_RESEND);
	/* And unavailable by another status is none of its business. */
	c = begin(true);
	assert_int_equal(next(&c, failure(VERDICT_UNAVAILABLE, VERDICT_CAUSE_REMOTE, false, 500)),
					 VERDICT_RETRY_ATTEMPT);
}

static void
test_503_used_leaves_no_attempt(void **state)
{
	const verdict_status failures[] = {lost(), attempt_timed_out(),
									   failure(VERDICT_UNAVAILABLE, VERDICT_CAUSE_HTTP, true, 502),
									   failure(VERDICT_UNKNOWN, VERDICT_CAUSE_REMOTE, false, 500)};
	size_t i;

	(void) state;
	for (i = 0; i < LENGTH(failures); i++)
	{
		call c = begin(true);

		assert_int_equal(next(&c, http_503(0)), VERDICT_RETRY_RESEND);
		assert_int_equal(next(&c, failures[i]), VERDICT_RETRY_STOP);
	}
}

/* The other way around both are there: one attempt more, then two re-sends. */
static void
test_four_sends(void **state)
{
	call c = begin(true);

	(void) state;
	assert_int_equal(next(&c, lost()), VERDICT_RETRY_ATTEMPT);
	assert_int_equal(next(&c, http_503(-1)), VERDICT_RETRY_RESEND);
	assert_int_equal(next(&c, http_503(-1)), VERDICT_RETRY_RESEND);
	assert_int_equal(next(&c, http_503(-1)), VERDICT_RETRY_STOP);
	assert_int_equal(c.state.attempt, 2);
}

/* ---- a kept connection that died ---- */

static void
test_replace(void **state)
{
	call c = begin(false);

	(void) state;
	assert_int_equal(next_with(&c, lost(), true, 0), VERDICT_RETRY_REPLACE);
	assert_int_equal(c.state.attempt, 1);
	assert_true(c.state.retried);
	assert_int_equal(c.budget.millitokens, PLENTY - 1000);
	/* Once a call. */
	assert_int_equal(next_with(&c, lost(), true, 0), VERDICT_RETRY_STOP);

	/* Between two re-sends as well. */
	c = begin(false);
	assert_int_equal(next(&c, http_503(0)), VERDICT_RETRY_RESEND);
	assert_int_equal(next_with(&c, lost(), true, 0), VERDICT_RETRY_REPLACE);
	assert_int_equal(next(&c, http_503(0)), VERDICT_RETRY_RESEND);
	assert_int_equal(next_with(&c, lost(), true, 0), VERDICT_RETRY_STOP);

	/* A fresh connection that died is a failure of the read. */
	c = begin(false);
	assert_int_equal(next(&c, lost()), VERDICT_RETRY_STOP);
	/* As is anything but the loss. */
	c = begin(false);
	assert_int_equal(next_with(&c, attempt_timed_out(), true, 0), VERDICT_RETRY_STOP);

	/* A mutation has its second attempt instead, under the same key. */
	c = begin(true);
	assert_int_equal(next_with(&c, lost(), true, 0), VERDICT_RETRY_ATTEMPT);
	assert_int_equal(next_with(&c, lost(), true, 0), VERDICT_RETRY_STOP);
	assert_false(c.state.replaced);
}

/* ---- deadlines ---- */

static void
test_deadlines(void **state)
{
	call c = begin(true);

	(void) state;
	assert_int_equal(verdict_retry_deadline(&c.policy, &c.state), START_US + 12000 * MS);

	/* Waiting is not attempting: the attempt ends later, the call does not. */
	c.now_us += 1000 * MS;
	assert_int_equal(next(&c, http_503(2000)), VERDICT_RETRY_RESEND);
	assert_int_equal(verdict_retry_deadline(&c.policy, &c.state), START_US + 14000 * MS);
	c.now_us = START_US + 5000 * MS;
	assert_int_equal(next(&c, http_503(3000)), VERDICT_RETRY_RESEND);
	assert_int_equal(verdict_retry_deadline(&c.policy, &c.state), START_US + 17000 * MS);

	/* The second attempt starts anew, within the call. */
	c = begin(true);
	c.now_us = START_US + 12000 * MS;
	assert_int_equal(next(&c, attempt_timed_out()), VERDICT_RETRY_ATTEMPT);
	assert_int_equal(verdict_retry_deadline(&c.policy, &c.state), START_US + 24000 * MS);
	c = begin(true);
	c.now_us = START_US + 25000 * MS;
	assert_int_equal(next(&c, lost()), VERDICT_RETRY_ATTEMPT);
	assert_int_equal(verdict_retry_deadline(&c.policy, &c.state), START_US + 30000 * MS);

	/* An attempt longer than the call is cut by it. */
	c = begin(true);
	c.policy.attempt_timeout_ms = 55000;
	c.policy.overall_timeout_ms = 1;
	assert_int_equal(verdict_retry_deadline(&c.policy, &c.state), START_US + 1 * MS);

	/* A read has the call's deadline only, whatever the attempt's says. */
	c = begin(false);
	c.policy.attempt_timeout_ms = 1;
	assert_int_equal(verdict_retry_deadline(&c.policy, &c.state), START_US + 10000 * MS);
	assert_int_equal(next(&c, http_503(2000)), VERDICT_RETRY_RESEND);
	assert_int_equal(verdict_retry_deadline(&c.policy, &c.state), START_US + 10000 * MS);
}

/* The client's arithmetic: 12 + 12 + 5 seconds fit into 30. */
static void
test_longest_call(void **state)
{
	call c = begin(true);

	(void) state;
	c.now_us += 12000 * MS;
	assert_int_equal(next(&c, attempt_timed_out()), VERDICT_RETRY_ATTEMPT);
	assert_int_equal(next(&c, http_503(2500)), VERDICT_RETRY_RESEND);
	assert_int_equal(next(&c, http_503(2500)), VERDICT_RETRY_RESEND);
	assert_int_equal(verdict_retry_deadline(&c.policy, &c.state), START_US + 29000 * MS);
}

static void
test_nothing_after_the_deadline(void **state)
{
	int64_t overall = 30000 * MS;
	call c;

	(void) state;
	/* One microsecond before the end there is time, at the end there is none. */
	c = begin(true);
	c.now_us = START_US + overall - 1;
	assert_int_equal(next(&c, lost()), VERDICT_RETRY_ATTEMPT);
	c = begin(true);
	c.now_us = START_US + overall;
	assert_int_equal(next(&c, lost()), VERDICT_RETRY_STOP);
	c = begin(true);
	c.now_us = START_US + overall;
	assert_int_equal(next(&c, attempt_timed_out()), VERDICT_RETRY_STOP);
	c = begin(false);
	c.now_us = START_US + 10000 * MS;
	assert_int_equal(next_with(&c, lost(), true, 0), VERDICT_RETRY_STOP);
	assert_int_equal(c.budget.millitokens, PLENTY);

	/* A wait that would end at the deadline is not begun. */
	c = begin(false);
	c.now_us = START_US + 9000 * MS - 1;
	assert_int_equal(next(&c, http_503(1000)), VERDICT_RETRY_RESEND);
	c = begin(false);
	c.now_us = START_US + 9000 * MS;
	assert_int_equal(next(&c, http_503(1000)), VERDICT_RETRY_STOP);
	assert_int_equal(c.budget.millitokens, PLENTY);
	c = begin(false);
	c.now_us = START_US + 10000 * MS;
	assert_int_equal(next(&c, http_503(0)), VERDICT_RETRY_STOP);

	/* Nor is a 503 sent again in an attempt whose own time is over. */
	c = begin(true);
	c.now_us = START_US + 12000 * MS - 1;
	assert_int_equal(next(&c, http_503(0)), VERDICT_RETRY_RESEND);
	c = begin(true);
	c.now_us = START_US + 12000 * MS;
	assert_int_equal(next(&c, http_503(0)), VERDICT_RETRY_STOP);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_code_table),
		cmocka_unit_test(test_code_table_without_503_path),
		cmocka_unit_test(test_inferred_statuses),
		cmocka_unit_test(test_explicit_unknown_by_any_status),
		cmocka_unit_test(test_causes),
		cmocka_unit_test(test_canceled_is_never_sent_again),
		cmocka_unit_test(test_other_owners_stop),
		cmocka_unit_test(test_503_two_resends),
		cmocka_unit_test(test_503_jitter_range),
		cmocka_unit_test(test_503_retry_after),
		cmocka_unit_test(test_503_retry_after_has_no_jitter),
		cmocka_unit_test(test_503_given_up_is_handled),
		cmocka_unit_test(test_503_with_a_connect_error),
		cmocka_unit_test(test_503_used_leaves_no_attempt),
		cmocka_unit_test(test_four_sends),
		cmocka_unit_test(test_replace),
		cmocka_unit_test(test_deadlines),
		cmocka_unit_test(test_longest_call),
		cmocka_unit_test(test_nothing_after_the_deadline),
	};

	return cmocka_run_group_tests_name("retry", tests, NULL, NULL);
}
