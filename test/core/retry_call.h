/*
 * retry_call.h
 *		One call under the retry rules, with a clock that is a number.
 *
 * Static functions, for the programs that test the rules.
 */
#ifndef VERDICT_TEST_RETRY_CALL_H
#define VERDICT_TEST_RETRY_CALL_H

#include "retry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

#define START_US INT64_C(1000000)
#define MS INT64_C(1000) /* microseconds */
#define PLENTY 100000	 /* milli-tokens */

/* The defaults of the client's page. */
static const verdict_retry_policy mutation_policy = {VERDICT_RETRY_CLIENT, true, 12000, 30000};
static const verdict_retry_policy read_policy = {VERDICT_RETRY_CLIENT, true, 12000, 10000};

static inline verdict_status
failure(verdict_code code, verdict_cause cause, bool inferred, int http_status)
{
	verdict_status status;

	verdict_status_init(&status);
	status.code = code;
	status.cause = cause;
	status.inferred = inferred;
	status.http_status = http_status;
	status.retry_after_ms = -1;
	return status;
}

static inline verdict_status
http_503(int64_t retry_after_ms)
{
	verdict_status status = failure(VERDICT_UNAVAILABLE, VERDICT_CAUSE_HTTP, true, 503);

	status.retry_after_ms = retry_after_ms;
	return status;
}

static inline verdict_status
lost(void)
{
	return failure(VERDICT_UNAVAILABLE, VERDICT_CAUSE_LOST, false, 0);
}

static inline verdict_status
attempt_timed_out(void)
{
	return failure(VERDICT_DEADLINE_EXCEEDED, VERDICT_CAUSE_DEADLINE, false, 0);
}

static inline verdict_status
success(void)
{
	verdict_status status;

	verdict_status_init(&status);
	return status;
}

/* One call with plenty of budget, so that only the rule under test decides. */
typedef struct call
{
	verdict_retry_policy policy;
	verdict_retry_state state;
	verdict_retry_budget budget;
	int64_t now_us;
	int delay_ms;
} call;

static inline call
begin(bool mutation)
{
	call c;

	memset(&c, 0, sizeof(c));
	c.policy = mutation ? mutation_policy : read_policy;
	c.budget.millitokens = PLENTY;
	c.now_us = START_US;
	verdict_retry_begin(&c.state, mutation, c.now_us);
	return c;
}

/* What follows; a wait passes on the clock. */
static inline verdict_retry_action
next_with(call *c, verdict_status status, bool kept_connection_died, uint32_t jitter)
{
	verdict_retry_action action;

	c->delay_ms = -1;
	action = verdict_retry_next(&c->policy, &c->state, &c->budget, &status, kept_connection_died,
								c->now_us, jitter, &c->delay_ms);
	if (action == VERDICT_RETRY_RESEND)
		c->now_us += c->delay_ms * MS;
	else
		assert_int_equal(c->delay_ms, 0);
	return action;
}

static inline verdict_retry_action
next(call *c, verdict_status status)
{
	return next_with(c, status, false, 0);
}

#endif /* VERDICT_TEST_RETRY_CALL_H */
