/*
 * test_supervisor.c
 *		What a client asks of who stands above it, and what it tells: admission,
 *		the shared retry budget, and the report of each call.
 */
#include "rig.h"

static rig r;

/* What the supervisor was asked and told. */
static struct
{
	bool refuses;
	int within_ms;
	size_t asked;
	size_t last_count;

	verdict_retry_budget budget;
	int locks;
	bool locked;

	int reports;
	int by_code[17];
	int sends;
	int retries;
	int waits_503;
	int budget_refusals;
	int64_t bytes_sent;
	int64_t bytes_received;
	verdict_call_report last;
	verdict_status last_status;
} seen;

static bool
admit(void *context, size_t count, int *within_ms)
{
	assert_ptr_equal(context, &seen);
	assert_false(seen.locked);
	assert_int_equal(*within_ms, 0);
	seen.asked++;
	seen.last_count = count;
	*within_ms = seen.within_ms;
	return !seen.refuses;
}

static verdict_retry_budget *
lock_budget(void *context)
{
	(void) context;
	assert_false(seen.locked);
	seen.locked = true;
	seen.locks++;
	return &seen.budget;
}

static void
unlock_budget(void *context)
{
	(void) context;
	assert_true(seen.locked);
	seen.locked = false;
}

static void
ended(void *context, const verdict_call_report *report)
{
	(void) context;
	assert_false(seen.locked);
	seen.reports++;
	seen.by_code[report->status->code]++;
	seen.sends += report->status->sends;
	seen.retries += report->retries;
	seen.waits_503 += report->waits_503;
	seen.budget_refusals += report->budget_refused ? 1 : 0;
	seen.bytes_sent += report->bytes_sent;
	seen.bytes_received += report->bytes_received;
	seen.last = *report;
	seen.last_status = *report->status;
}

static const verdict_supervisor supervisor = {&seen, admit, lock_budget, unlock_budget, ended};

static int
begin(void **state)
{
	(void) state;
	rig_begin(&r);
	memset(&seen, 0, sizeof(seen));
	verdict_retry_budget_init(&seen.budget);
	r.options.supervisor = &supervisor;
	rig_client(&r);
	return 0;
}

static int
end(void **state)
{
	(void) state;
	assert_int_equal(seen.locked, false);
	rig_end(&r);
	return 0;
}

static void
tells_of_a_success(void **state)
{
	char payload[256];
	size_t size = rig_insert_payload(&r, payload, sizeof(payload));

	(void) state;
	rig_standing(&r, rig_yes(&r, ""));
	assert_true(rig_authorize(&r));
	assert_int_equal(seen.asked, 1);
	assert_int_equal(seen.last_count, 1);
	assert_int_equal(seen.reports, 1);
	assert_int_equal(seen.last.method, VERDICT_METHOD_AUTHORIZE);
	assert_int_equal(seen.last_status.code, VERDICT_OK);
	assert_string_equal(seen.last_status.request_id, r.status.request_id);
	assert_int_equal(seen.last_status.attempts, 1);
	assert_int_equal(seen.sends, 1);
	assert_int_equal(seen.retries, 0);
	assert_true(seen.last.bytes_sent > 0);
	assert_int_equal(seen.last.bytes_received, 2);
	assert_in_range(seen.last.duration_us, 1, 5000000);
	assert_int_equal(seen.budget.millitokens, 3100);

	assert_true(rig_insert(&r, NULL));
	assert_int_equal(seen.reports, 2);
	assert_int_equal(seen.last.method, VERDICT_METHOD_INSERT_FACT);
	assert_int_equal(seen.last.bytes_sent, size);
}

static void
tells_of_retries(void **state)
{
	char payload[256];
	size_t size = rig_insert_payload(&r, payload, sizeof(payload));

	(void) state;
	/* A second attempt, and then two waits within it: four sends. */
	rig_queue(&r, rig_error(&r, 500, NULL, ""));
	rig_queue(&r, rig_error(&r, 503, NULL, "Retry-After: 1\r\n"));
	rig_queue(&r, rig_error(&r, 503, NULL, "Retry-After: 1\r\n"));
	rig_standing(&r, rig_yes(&r, ""));
	assert_true(rig_insert(&r, NULL));
	assert_int_equal(seen.reports, 1);
	assert_int_equal(seen.last_status.sends, 4);
	assert_int_equal(seen.last_status.attempts, 2);
	assert_int_equal(seen.last.retries, 3);
	assert_int_equal(seen.last.waits_503, 2);
	assert_false(seen.last.budget_refused);
	assert_int_equal(seen.last.bytes_sent, 4 * size);
	/* Waits count as time. */
	assert_true(seen.last.duration_us >= 1500000);
	assert_int_equal(seen.budget.millitokens, 0);
	assert_int_equal(seen.budget.granted, 3);
	assert_int_equal(seen.budget.refused, 0);

	/* Nothing is left: the next failure is final, and it is told why. */
	rig_queue(&r, rig_error(&r, 500, NULL, ""));
	assert_false(rig_insert(&r, NULL));
	assert_int_equal(seen.last_status.sends, 1);
	assert_int_equal(seen.last.retries, 0);
	assert_true(seen.last.budget_refused);
	assert_int_equal(seen.budget.refused, 1);
	assert_int_equal(seen.by_code[VERDICT_UNKNOWN], 1);

	/* A failure that nobody would repeat is no refusal. */
	rig_queue(&r, rig_error(&r, 403, "permission_denied", ""));
	assert_false(rig_insert(&r, NULL));
	assert_false(seen.last.budget_refused);
	assert_int_equal(seen.budget.refused, 1);
}

/* Two clients of one budget: what one spends the other lacks. */
static void
shares_the_budget(void **state)
{
	verdict_client *other;
	verdict_client *first = r.client;
	int sent;
	int i;

	(void) state;
	other = verdict_client_create(r.runtime, &r.options, &r.status);
	assert_non_null(other);
	rig_standing(&r, rig_error(&r, 500, NULL, ""));
	for (i = 0; i < 100; i++)
	{
		r.client = i % 2 == 0 ? first : other;
		assert_false(rig_insert(&r, NULL));
	}
	r.client = first;
	verdict_client_destroy(other);
	sent = peer_request_count(r.peer);
	assert_int_equal(sent, 103);
	assert_int_equal(seen.sends, 103);
	assert_int_equal(seen.retries, 3);
	assert_int_equal(seen.budget.granted, 3);
	assert_int_equal(seen.budget.refused, 97);
	assert_int_equal(seen.budget_refusals, 97);
	/* Each send was decided about once, under the lock. */
	assert_int_equal(seen.locks, 103);
}

static void
sends_nothing_without_leave(void **state)
{
	verdict_check checks[3];
	bool allowed[3] = {true, true, true};
	int i;

	(void) state;
	seen.refuses = true;
	rig_standing(&r, rig_yes(&r, ""));
	assert_false(rig_authorize(&r));
	assert_false(r.allowed);
	assert_int_equal(r.status.code, VERDICT_RESOURCE_EXHAUSTED);
	assert_int_equal(r.status.cause, VERDICT_CAUSE_LIMIT);
	assert_int_equal(r.status.outcome, VERDICT_OUTCOME_NOT_SENT);
	assert_false(rig_insert(&r, NULL));
	assert_int_equal(r.status.cause, VERDICT_CAUSE_LIMIT);

	/* Many are asked for at once. */
	for (i = 0; i < 3; i++)
		checks[i] = (verdict_check){{"User", "alice"}, "read", {"Document", "1"}};
	assert_false(
		verdict_client_authorize_many(r.client, &r.session, checks, 3, NULL, allowed, &r.status));
	assert_int_equal(seen.last_count, 3);
	for (i = 0; i < 3; i++)
		assert_false(allowed[i]);
	assert_int_equal(peer_request_count(r.peer), 0);
	assert_int_equal(seen.reports, 0);
	assert_int_equal(seen.locks, 0);

	seen.refuses = false;
	assert_true(rig_authorize(&r));
}

static void
keeps_to_the_time_it_is_given(void **state)
{
	(void) state;
	rig_standing(&r, rig_act(PEER_STALL, 0));
	r.real_wait_ms = 50;
	seen.within_ms = 700;
	assert_false(rig_authorize(&r));
	assert_int_equal(r.status.code, VERDICT_DEADLINE_EXCEEDED);
	/* Deadlines are whole milliseconds of a clock that was read before. */
	assert_in_range(seen.last.duration_us, 690000, 5000000);
	/* A change has one attempt then: its time is over with the first. */
	assert_false(rig_insert(&r, NULL));
	assert_int_equal(r.status.attempts, 1);
	/* Deadlines are whole milliseconds of a clock that was read before. */
	assert_in_range(seen.last.duration_us, 690000, 5000000);

	/* A wait that would not end in time is not begun. */
	peer_clear(r.peer);
	rig_standing(&r, rig_error(&r, 503, NULL, "Retry-After: 4\r\n"));
	r.slept_us = 0;
	seen.within_ms = 3500;
	assert_false(rig_authorize(&r));
	assert_int_equal(r.status.http_status, 503);
	assert_int_equal(r.slept_us, 0);

	/* It never makes a time-out longer. */
	peer_clear(r.peer);
	rig_standing(&r, rig_act(PEER_STALL, 0));
	seen.within_ms = 1000000;
	assert_false(rig_authorize(&r));
	assert_in_range(seen.last.duration_us, VERDICT_READ_TIMEOUT_MS * INT64_C(1000),
					VERDICT_READ_TIMEOUT_MS * INT64_C(1000) + 5000000);
}

/* Of calls made together each is told of, also those that another ended. */
static void
tells_of_each_of_many(void **state)
{
	verdict_check checks[20];
	bool allowed[20];
	int i;

	(void) state;
	for (i = 0; i < 20; i++)
		checks[i] = (verdict_check){{"User", "alice"}, "read", {"Document", "1"}};
	rig_standing(&r, rig_yes(&r, ""));
	assert_true(
		verdict_client_authorize_many(r.client, &r.session, checks, 20, NULL, allowed, &r.status));
	assert_int_equal(seen.asked, 1);
	assert_int_equal(seen.last_count, 20);
	assert_int_equal(seen.reports, 20);
	assert_int_equal(seen.by_code[VERDICT_OK], 20);
	assert_int_equal(seen.sends, 20);

	memset(seen.by_code, 0, sizeof(seen.by_code));
	seen.sends = seen.reports = 0;
	peer_clear(r.peer);
	rig_queue(&r, rig_error(&r, 403, "permission_denied", ""));
	rig_standing(&r, rig_act(PEER_STALL, 0));
	assert_false(
		verdict_client_authorize_many(r.client, &r.session, checks, 20, NULL, allowed, &r.status));
	assert_int_equal(r.status.code, VERDICT_PERMISSION_DENIED);
	assert_int_equal(seen.by_code[VERDICT_PERMISSION_DENIED], 1);
	assert_int_equal(seen.by_code[VERDICT_CANCELED], VERDICT_MAX_IN_FLIGHT - 1);
	assert_int_equal(seen.reports, VERDICT_MAX_IN_FLIGHT);
	assert_in_range(seen.sends, 1, VERDICT_MAX_IN_FLIGHT);

	/* An interruption ends all. */
	memset(seen.by_code, 0, sizeof(seen.by_code));
	r.interrupt_after_ms = 20;
	assert_false(
		verdict_client_authorize_many(r.client, &r.session, checks, 20, NULL, allowed, &r.status));
	assert_int_equal(r.status.cause, VERDICT_CAUSE_INTERRUPTED);
	assert_int_equal(seen.by_code[VERDICT_CANCELED], VERDICT_MAX_IN_FLIGHT);
}

/* A call that fails before anything is sent is one too. */
static void
tells_of_what_was_not_sent(void **state)
{
	verdict_check check = {{"User", "alice"}, "", {"Document", "1"}};
	bool allowed = true;

	(void) state;
	assert_false(verdict_client_authorize(r.client, &r.session, &check, NULL, &allowed, &r.status));
	assert_int_equal(seen.by_code[VERDICT_INVALID_ARGUMENT], 1);
	assert_int_equal(seen.last.method, VERDICT_METHOD_AUTHORIZE);
	assert_int_equal(seen.last_status.attempts, 0);
	assert_int_equal(seen.last.duration_us, 0);
	assert_int_equal(seen.last.bytes_sent, 0);
	assert_int_equal(seen.locks, 0);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(tells_of_a_success),
		TEST(tells_of_retries),
		TEST(shares_the_budget),
		TEST(sends_nothing_without_leave),
		TEST(keeps_to_the_time_it_is_given),
		TEST(tells_of_each_of_many),
		TEST(tells_of_what_was_not_sent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
