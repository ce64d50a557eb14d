/*
 * test_retry_budget.c
 *		The retry budget, and every bound of the rules over every course that a
 *		call can take.
 */
#include "retry_call.h"

static void
test_budget_amounts(void **state)
{
	verdict_retry_budget budget;
	call c = begin(true);

	(void) state;
	verdict_retry_budget_init(&budget);
	assert_int_equal(budget.millitokens, 3000);
	assert_int_equal(budget.granted, 0);
	assert_int_equal(budget.refused, 0);

	c.budget = budget;
	assert_int_equal(next(&c, success()), VERDICT_RETRY_STOP);
	assert_int_equal(c.budget.millitokens, 3100);

	/* A success that took a retry earns nothing. */
	c = begin(true);
	c.budget = budget;
	assert_int_equal(next(&c, lost()), VERDICT_RETRY_ATTEMPT);
	assert_int_equal(c.budget.millitokens, 2000);
	assert_int_equal(next(&c, success()), VERDICT_RETRY_STOP);
	assert_int_equal(c.budget.millitokens, 2000);

	/* A time-out costs two, whoever's it was. */
	c = begin(true);
	c.budget = budget;
	assert_int_equal(next(&c, attempt_timed_out()), VERDICT_RETRY_ATTEMPT);
	assert_int_equal(c.budget.millitokens, 1000);
	c = begin(true);
	c.budget = budget;
	assert_int_equal(next(&c, failure(VERDICT_DEADLINE_EXCEEDED, VERDICT_CAUSE_REMOTE, false, 504)),
					 VERDICT_RETRY_ATTEMPT);
	assert_int_equal(c.budget.millitokens, 1000);

	/* It does not grow without a bound. */
	c = begin(true);
	c.budget.millitokens = 99950;
	next(&c, success());
	assert_int_equal(c.budget.millitokens, 100000);
	next(&c, success());
	assert_int_equal(c.budget.millitokens, 100000);
}

/* All three ways of sending again ask it, and take nothing when refused. */
static void
test_budget_too_small(void **state)
{
	call c;

	(void) state;
	c = begin(true);
	c.budget.millitokens = 999;
	assert_int_equal(next(&c, lost()), VERDICT_RETRY_STOP);
	assert_int_equal(c.state.attempt, 1);
	assert_int_equal(c.budget.millitokens, 999);
	assert_int_equal(c.budget.refused, 1);
	assert_true(c.state.refused);
	assert_false(c.state.retried);

	c = begin(true);
	c.budget.millitokens = 1999;
	assert_int_equal(next(&c, attempt_timed_out()), VERDICT_RETRY_STOP);
	assert_int_equal(c.budget.millitokens, 1999);

	c = begin(true);
	c.budget.millitokens = 999;
	assert_int_equal(next(&c, http_503(0)), VERDICT_RETRY_STOP);
	assert_int_equal(c.state.resends_503, 0);
	assert_int_equal(c.state.waited_ms, 0);
	assert_int_equal(c.budget.millitokens, 999);

	c = begin(false);
	c.budget.millitokens = 999;
	assert_int_equal(next_with(&c, lost(), true, 0), VERDICT_RETRY_STOP);
	assert_false(c.state.replaced);
	assert_int_equal(c.budget.millitokens, 999);

	/* Just enough is enough, and leaves nothing. */
	c = begin(true);
	c.budget.millitokens = 1000;
	assert_int_equal(next(&c, lost()), VERDICT_RETRY_ATTEMPT);
	assert_int_equal(c.budget.millitokens, 0);
	assert_int_equal(c.budget.granted, 1);
	assert_int_equal(c.budget.refused, 0);
	assert_false(c.state.refused);
}

/* Only what would have been sent again but for the budget counts as refused. */
static void
test_budget_refuses_retries_only(void **state)
{
	const verdict_status final[] = {
		failure(VERDICT_PERMISSION_DENIED, VERDICT_CAUSE_REMOTE, false, 403), http_503(6000),
		failure(VERDICT_UNAVAILABLE, VERDICT_CAUSE_TLS, false, 0)};
	size_t i;
	call c;

	(void) state;
	for (i = 0; i < LENGTH(final); i++)
	{
		c = begin(true);
		c.budget.millitokens = 0;
		assert_int_equal(next(&c, final[i]), VERDICT_RETRY_STOP);
		assert_false(c.state.refused);
		assert_int_equal(c.budget.refused, 0);
	}
	/* A read has no second attempt, whatever the budget. */
	c = begin(false);
	c.budget.millitokens = 0;
	assert_int_equal(next(&c, lost()), VERDICT_RETRY_STOP);
	assert_int_equal(c.budget.refused, 0);
	/* Nor has any call under another owner. */
	c = begin(true);
	c.policy.owner = VERDICT_RETRY_MESH;
	c.budget.millitokens = 0;
	assert_int_equal(next(&c, lost()), VERDICT_RETRY_STOP);
	assert_int_equal(c.budget.refused, 0);
}

/* Calls of all kinds while every send fails: the load must not grow. */
static void
test_budget_while_all_fails(void **state)
{
	const verdict_status failures[] = {lost(), http_503(0), attempt_timed_out(), http_503(-1)};
	verdict_retry_budget budget;
	int64_t sends = 0;
	int calls = 100000;
	int i;

	(void) state;
	verdict_retry_budget_init(&budget);
	for (i = 0; i < calls; i++)
	{
		call c = begin(i % 3 != 0);
		int in_call = 0;

		c.budget = budget;
		do
		{
			in_call++;
			assert_true(c.budget.millitokens >= 0);
		} while (next_with(&c, failures[i % LENGTH(failures)], i % 2 == 0, (uint32_t) i) !=
				 VERDICT_RETRY_STOP);
		budget = c.budget;
		sends += in_call;
	}
	/* Each of them wanted a second send, but for reads that a fresh connection lost. */
	assert_int_equal(budget.granted, sends - calls);
	assert_true(budget.refused > (uint64_t) calls / 2);
	/* Far within the 10 %: only the reserve was there. */
	assert_true(sends <= calls + calls / 10 + 3);
	assert_true(sends <= calls + 3);
	assert_true(sends > calls);
}

/* One send in a hundred fails: nearly every retry is allowed. */
static void
check_budget_at_one_percent(verdict_status status)
{
	verdict_retry_budget budget;
	int wanted = 0;
	int allowed = 0;
	int i;

	verdict_retry_budget_init(&budget);
	for (i = 0; i < 100000; i++)
	{
		call c = begin(true);

		c.budget = budget;
		if (i % 100 == 7)
		{
			wanted++;
			if (next(&c, status) != VERDICT_RETRY_STOP)
			{
				allowed++;
				next(&c, success());
			}
		}
		else
			next(&c, success());
		budget = c.budget;
	}
	assert_int_equal(wanted, 1000);
	assert_true(allowed >= 990);
}

static void
test_budget_at_one_percent(void **state)
{
	(void) state;
	check_budget_at_one_percent(lost());
	check_budget_at_one_percent(http_503(-1));
	check_budget_at_one_percent(attempt_timed_out());
}

/* Half of all fails: what is sent again stays a tenth of what succeeds. */
static void
test_budget_ratio(void **state)
{
	verdict_retry_budget budget;
	int extra = 0;
	int i;

	(void) state;
	verdict_retry_budget_init(&budget);
	for (i = 0; i < 100000; i++)
	{
		call c = begin(true);

		c.budget = budget;
		if (i % 2 == 0)
		{
			if (next(&c, lost()) == VERDICT_RETRY_ATTEMPT)
				extra++;
		}
		else
			next(&c, success());
		budget = c.budget;
	}
	assert_in_range(extra, 5000, 5003);
	assert_int_equal(budget.granted, extra);
	assert_int_equal(budget.refused, 50000 - extra);
}

/* ---- every course a call can take ---- */

#define OUTCOMES 9
#define DEPTH 6

/*
 * Runs one call through a course of outcomes and holds every bound there is.
 * "took" is the time each send takes.
 */
static void
run_course(const int *course, bool mutation, bool retry_http_503, int64_t took)
{
	const verdict_status outcomes[OUTCOMES] = {
		success(),
		http_503(-1),
		http_503(0),
		http_503(2500),
		lost(),
		lost(),
		attempt_timed_out(),
		failure(VERDICT_UNKNOWN, VERDICT_CAUSE_HTTP, true, 500),
		failure(VERDICT_ABORTED, VERDICT_CAUSE_REMOTE, false, 409)};
	call c = begin(mutation);
	int64_t end;
	int sends = 0;
	int waited = 0;
	bool saw_503 = false;
	verdict_retry_action action;

	c.policy.retry_http_503 = retry_http_503;
	end = START_US + c.policy.overall_timeout_ms * MS;
	do
	{
		int outcome;
		int attempt = c.state.attempt;

		/* What is sent has time, and its deadline is within the call's. */
		assert_true(c.now_us < verdict_retry_deadline(&c.policy, &c.state));
		assert_true(verdict_retry_deadline(&c.policy, &c.state) <= end);
		assert_true(sends < DEPTH);
		outcome = course[sends++];
		c.now_us += took;
		if (c.now_us > verdict_retry_deadline(&c.policy, &c.state))
			c.now_us = verdict_retry_deadline(&c.policy, &c.state);
		/* The sixth outcome: the connection was a kept one. */
		action = next_with(&c, outcomes[outcome], outcome == 5, 0x80000000u);
		waited += c.delay_ms;
		if (retry_http_503 && outcomes[outcome].http_status == 503)
			saw_503 = true;
		if (action == VERDICT_RETRY_ATTEMPT)
			assert_true(mutation && attempt == 1 && !saw_503);
		if (action == VERDICT_RETRY_REPLACE)
			assert_true(!mutation && outcome == 5);
		if (action == VERDICT_RETRY_RESEND)
			assert_true(retry_http_503 && outcomes[outcome].http_status == 503);
		if (outcome == 0 || outcome == 8)
			assert_int_equal(action, VERDICT_RETRY_STOP);
	} while (action != VERDICT_RETRY_STOP);

	assert_true(sends <= 4);
	assert_true(c.state.attempt <= (mutation ? 2 : 1));
	assert_true(c.state.resends_503 <= (retry_http_503 ? 2 : 0));
	assert_true(waited <= VERDICT_503_WAIT_BUDGET_MS);
	assert_int_equal(waited, c.state.waited_ms);
	assert_int_equal(c.state.retried, sends > 1);
	assert_true(c.now_us <= end);
}

static void
test_every_course(void **state)
{
	static const int64_t times[] = {0, 1000 * MS, 12000 * MS};
	int course[DEPTH];
	int number;
	size_t time;
	int variant;

	(void) state;
	/* No call has more than four sends, so four outcomes tell courses apart. */
	for (number = 0; number < OUTCOMES * OUTCOMES * OUTCOMES * OUTCOMES; number++)
	{
		int rest = number;
		int i;

		for (i = 0; i < 4; i++)
		{
			course[i] = rest % OUTCOMES;
			rest /= OUTCOMES;
		}
		for (; i < DEPTH; i++)
			course[i] = course[i - 1];
		for (time = 0; time < LENGTH(times); time++)
			for (variant = 0; variant < 4; variant++)
				run_course(course, variant % 2 == 1, variant >= 2, times[time]);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_budget_amounts),
		cmocka_unit_test(test_budget_too_small),
		cmocka_unit_test(test_budget_refuses_retries_only),
		cmocka_unit_test(test_budget_while_all_fails),
		cmocka_unit_test(test_budget_at_one_percent),
		cmocka_unit_test(test_budget_ratio),
		cmocka_unit_test(test_every_course),
	};

	return cmocka_run_group_tests_name("retry_budget", tests, NULL, NULL);
}
