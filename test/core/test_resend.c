/*
 * test_resend.c
 *		When calls are sent again, seen from the peer: how often, with which key,
 *		after which waits.  The rules themselves are tested in test_retry.c; here
 *		it is that the client follows them to the byte.
 */
#include "rig.h"

#include <stdio.h>
#include <stdlib.h>

static rig r;

static int
begin(void **state)
{
	(void) state;
	rig_begin(&r);
	rig_client(&r);
	return 0;
}

static int
end(void **state)
{
	(void) state;
	rig_end(&r);
	return 0;
}

static bool
call(bool mutation)
{
	r.slept_us = 0;
	return mutation ? rig_insert(&r, NULL) : rig_authorize(&r);
}

/* How many requests came since, once the peer has seen all. */
static int
requests_since(int before)
{
	return peer_request_count(r.peer) - before;
}

/* What a slow machine may take before a wait begins, which is then shorter. */
#define SLACK_MS 500

/* ---- HTTP 503 ---- */

static void
backs_off_from_503(void **state)
{
	static const struct
	{
		int failures;
		const char *headers;
		bool succeeds;
		int sends;
		int least_ms;
		int most_ms;
	} cases[] = {
		{1, "", true, 2, 100, 200},
		{2, "", true, 3, 300, 600},
		{3, "", false, 3, 300, 600},
		{1, "Retry-After: 0\r\n", true, 2, 0, 0},
		{1, "Retry-After: 1\r\n", true, 2, 1000, 1000},
		{2, "Retry-After: 2\r\n", true, 3, 4000, 4000},
		{2, "Retry-After: 3\r\n", false, 2, 3000, 3000},
		{1, "Retry-After: 5\r\n", true, 2, 5000, 5000},
		{1, "Retry-After: 6\r\n", false, 1, 0, 0},
		{1, "Retry-After: 99999999999999999999\r\n", false, 1, 0, 0},
		{1, "Retry-After: -1\r\n", true, 2, 100, 200},
		{1, "Retry-After: soon\r\n", true, 2, 100, 200},
		{1, "Retry-After: Thu, 01 Jan 2026 00:00:02 GMT\r\n", true, 2, 2000, 2000},
		{1, "Retry-After: Wed, 31 Dec 2025 00:00:00 GMT\r\n", true, 2, 0, 0},
	};
	size_t i;
	int mutation;
	int shape;

	(void) state;
	for (i = 0; i < RIG_LENGTH(cases); i++)
		for (mutation = 0; mutation < 2; mutation++)
			for (shape = 0; shape < 2; shape++)
			{
				int before = peer_request_count(r.peer);
				int n;

				rig_client(&r);
				peer_clear(r.peer);
				for (n = 0; n < cases[i].failures; n++)
					rig_queue(&r, rig_error(&r, 503, shape == 0 ? NULL : "unavailable",
											cases[i].headers));
				rig_standing(&r, rig_yes(&r, ""));
				assert_int_equal(call(mutation == 1), cases[i].succeeds);
				assert_int_equal(requests_since(before), cases[i].sends);
				assert_int_equal(r.status.sends, cases[i].sends);
				/* The 503 path handled it: no second attempt. */
				assert_int_equal(r.status.attempts, 1);
				assert_in_range((r.slept_us + 999) / 1000,
								cases[i].least_ms > SLACK_MS ? cases[i].least_ms - SLACK_MS : 0,
								cases[i].most_ms);
				if (cases[i].succeeds)
					continue;
				assert_int_equal(r.status.code, VERDICT_UNAVAILABLE);
				assert_int_equal(r.status.http_status, 503);
				assert_int_equal(r.status.inferred, shape == 0);
			}
}

/*
 * How long a change waits in all when the first two answers are 503, with the
 * host's random bytes as they are after "seed".  A slow machine makes waits
 * shorter, never longer: the longest of a few is it.
 */
static int64_t
longest_wait_us(uint64_t seed)
{
	int64_t longest = 0;
	int i;

	for (i = 0; i < 3; i++)
	{
		r.support.random_state = seed;
		rig_client(&r);
		peer_clear(r.peer);
		rig_queue(&r, rig_error(&r, 503, NULL, ""));
		rig_queue(&r, rig_error(&r, 503, NULL, ""));
		rig_standing(&r, rig_yes(&r, ""));
		assert_true(call(true));
		if (r.slept_us > longest)
			longest = r.slept_us;
	}
	return longest;
}

/* Jitter is drawn from the host's random bytes and nothing else. */
static void
waits_by_the_random_bytes_of_the_host(void **state)
{
	int64_t least = INT64_MAX;
	int64_t most = 0;
	uint64_t seed;

	(void) state;
	for (seed = 1; seed <= 10; seed++)
	{
		int64_t wait = longest_wait_us(seed);

		least = wait < least ? wait : least;
		most = wait > most ? wait : most;
	}
	assert_true(least >= 250000 && most <= 600000);
	assert_true(most - least > 80000);
	assert_true(llabs(longest_wait_us(7) - longest_wait_us(7)) < 40000);
}

/* A 503 is one as soon as its headers are there, whatever becomes of its body. */
static void
knows_503_by_its_headers(void **state)
{
	static const char head[] = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 100\r\n\r\n{";
	static const peer_action endings[] = {PEER_STALL, PEER_CLOSE, PEER_RESET};
	size_t i;

	(void) state;
	r.real_wait_ms = 100;
	for (i = 0; i < RIG_LENGTH(endings); i++)
	{
		int before = peer_request_count(r.peer);

		rig_client(&r);
		peer_clear(r.peer);
		rig_queue_two(&r, peer_text(head), rig_act(endings[i], 0));
		rig_queue_two(&r, peer_text(head), rig_act(endings[i], 0));
		rig_queue_two(&r, peer_text(head), rig_act(endings[i], 0));
		rig_standing(&r, rig_yes(&r, ""));
		assert_false(call(true));
		assert_int_equal(r.status.http_status, 503);
		assert_int_equal(r.status.attempts, 1);
		assert_in_range(requests_since(before), 1, 3);
	}
}

static void
keeps_bytes_and_key_over_503(void **state)
{
	(void) state;
	rig_queue(&r, rig_error(&r, 503, NULL, ""));
	rig_queue(&r, rig_error(&r, 503, NULL, ""));
	rig_queue(&r, rig_yes(&r, ""));
	assert_true(rig_insert(&r, NULL));
	rig_assert_same_mutation(&r, 3);
	/* The attempt's time is what is left of it, waits not counted. */
	assert_in_range(
		atoi(peer_request_header(r.peer, peer_request_at(r.peer, 2), "Connect-Timeout-Ms")), 11000,
		12000);
}

static void
leaves_503_alone_when_told(void **state)
{
	(void) state;
	r.options.retry_http_503 = false;
	rig_client(&r);
	/* A read has no other way; a mutation has its second attempt, at once. */
	rig_queue(&r, rig_error(&r, 503, NULL, "Retry-After: 1\r\n"));
	assert_false(call(false));
	assert_int_equal(r.status.retry_after_ms, 1000);
	assert_int_equal(peer_request_count(r.peer), 1);
	rig_queue(&r, rig_error(&r, 503, NULL, "Retry-After: 1\r\n"));
	rig_queue(&r, rig_yes(&r, ""));
	assert_true(call(true));
	assert_int_equal(r.status.attempts, 2);
	assert_int_equal(r.slept_us, 0);
	assert_int_equal(peer_request_count(r.peer), 3);
}

#define TOGETHER 8

/* So many checks together, all of which meet a 503 first. */
static bool
check_together(size_t count)
{
	verdict_check checks[TOGETHER];
	bool allowed[TOGETHER];
	size_t i;

	for (i = 0; i < count; i++)
	{
		checks[i] = (verdict_check){{"User", "a"}, "read", {"Document", "d"}};
		rig_queue(&r, rig_error(&r, 503, NULL, "Retry-After: 2\r\n"));
	}
	rig_standing(&r, rig_yes(&r, ""));
	return verdict_client_authorize_many(r.client, &r.session, checks, count, NULL, allowed,
										 &r.status);
}

static void
waits_in_parallel(void **state)
{
	int64_t start_us = r.support.host.monotonic_us(&r);

	(void) state;
	assert_true(check_together(3));
	assert_int_equal(peer_request_count(r.peer), 6);
	/* Two seconds for all three, not for each. */
	assert_in_range(r.support.host.monotonic_us(&r) - start_us, 2000000, 3900000);
}

static void
keeps_to_the_budget_when_together(void **state)
{
	(void) state;
	/* It is of three retries: the fourth 503 is a failure, and that of all. */
	assert_false(check_together(TOGETHER));
	assert_int_equal(r.status.http_status, 503);
	assert_in_range(peer_request_count(r.peer), 4, TOGETHER);
}

/* ---- second attempts ---- */

static void
repeats_mutations_by_the_table_of_codes(void **state)
{
	static const struct
	{
		int http_status;
		const char *code;
		bool again;
		verdict_outcome outcome;
	} cases[] = {
		{499, "canceled", false, VERDICT_OUTCOME_MAYBE_APPLIED},
		{500, "unknown", true, VERDICT_OUTCOME_MAYBE_APPLIED},
		{400, "invalid_argument", false, VERDICT_OUTCOME_REJECTED},
		{504, "deadline_exceeded", true, VERDICT_OUTCOME_MAYBE_APPLIED},
		{404, "not_found", false, VERDICT_OUTCOME_REJECTED},
		{409, "already_exists", false, VERDICT_OUTCOME_REJECTED},
		{403, "permission_denied", false, VERDICT_OUTCOME_REJECTED},
		{429, "resource_exhausted", true, VERDICT_OUTCOME_REJECTED},
		{400, "failed_precondition", false, VERDICT_OUTCOME_REJECTED},
		{409, "aborted", false, VERDICT_OUTCOME_MAYBE_APPLIED},
		{400, "out_of_range", false, VERDICT_OUTCOME_REJECTED},
		{501, "unimplemented", false, VERDICT_OUTCOME_REJECTED},
		{500, "internal", false, VERDICT_OUTCOME_MAYBE_APPLIED},
		{502, "unavailable", true, VERDICT_OUTCOME_MAYBE_APPLIED},
		{500, "data_loss", false, VERDICT_OUTCOME_MAYBE_APPLIED},
		{401, "unauthenticated", false, VERDICT_OUTCOME_REJECTED},
		/* inferred */
		{502, NULL, true, VERDICT_OUTCOME_MAYBE_APPLIED},
		{504, NULL, true, VERDICT_OUTCOME_MAYBE_APPLIED},
		{429, NULL, true, VERDICT_OUTCOME_MAYBE_APPLIED},
		{500, NULL, true, VERDICT_OUTCOME_MAYBE_APPLIED},
		{599, NULL, true, VERDICT_OUTCOME_MAYBE_APPLIED},
		{409, NULL, false, VERDICT_OUTCOME_MAYBE_APPLIED},
		{413, NULL, false, VERDICT_OUTCOME_MAYBE_APPLIED},
		{415, NULL, false, VERDICT_OUTCOME_MAYBE_APPLIED},
		{422, NULL, false, VERDICT_OUTCOME_MAYBE_APPLIED},
		{302, NULL, false, VERDICT_OUTCOME_MAYBE_APPLIED},
		{404, NULL, false, VERDICT_OUTCOME_MAYBE_APPLIED},
		{800, NULL, false, VERDICT_OUTCOME_MAYBE_APPLIED},
	};
	size_t i;

	(void) state;
	for (i = 0; i < RIG_LENGTH(cases); i++)
	{
		int before = peer_request_count(r.peer);

		/* Always the same failure: twice at most for a mutation, once for a read. */
		rig_client(&r);
		rig_standing(&r, rig_error(&r, cases[i].http_status, cases[i].code, ""));
		assert_false(call(true));
		assert_int_equal(requests_since(before), cases[i].again ? 2 : 1);
		assert_int_equal(r.status.attempts, cases[i].again ? 2 : 1);
		assert_int_equal(r.status.outcome, cases[i].outcome);
		assert_int_equal(r.status.http_status, cases[i].http_status);
		before = peer_request_count(r.peer);
		assert_false(call(false));
		assert_int_equal(requests_since(before), 1);

		/* Once: the second attempt brings the answer. */
		peer_clear(r.peer);
		rig_client(&r);
		rig_queue(&r, rig_error(&r, cases[i].http_status, cases[i].code, ""));
		rig_standing(&r, rig_yes(&r, ""));
		assert_int_equal(call(true), cases[i].again);
		assert_int_equal(r.slept_us, 0);
	}
}

static void
never_takes_back_that_a_change_may_be_there(void **state)
{
	(void) state;
	/* Sent and lost; then refused: the first may have been applied. */
	rig_queue(&r, rig_act(PEER_CLOSE, 0));
	rig_queue(&r, rig_error(&r, 401, "unauthenticated", ""));
	assert_false(call(true));
	assert_int_equal(r.status.code, VERDICT_UNAUTHENTICATED);
	assert_int_equal(r.status.outcome, VERDICT_OUTCOME_MAYBE_APPLIED);
	assert_int_equal(r.status.sends, 2);
	rig_assert_same_mutation(&r, 2);
}

static void
never_takes_it_back_when_the_instance_is_gone(void **state)
{
	char url[64];

	(void) state;
	/* The second attempt finds nobody. */
	snprintf(url, sizeof(url), "%s", peer_url(r.peer));
	rig_queue(&r, rig_yes(&r, ""));
	rig_queue(&r, rig_act(PEER_CLOSE, 0));
	assert_true(call(true));
	peer_queue_accept(r.peer, (peer_step[]){rig_act(PEER_RESET, 0), rig_act(PEER_END, 0)});
	assert_false(call(true));
	assert_int_equal(r.status.attempts, 2);
	assert_int_equal(r.status.outcome, VERDICT_OUTCOME_MAYBE_APPLIED);
}

/* ---- time ---- */

static void
repeats_a_mutation_that_timed_out(void **state)
{
	int before;

	(void) state;
	r.real_wait_ms = 50;
	rig_standing(&r, rig_act(PEER_STALL, 0));
	before = peer_request_count(r.peer);
	assert_false(call(true));
	assert_int_equal(r.status.code, VERDICT_DEADLINE_EXCEEDED);
	assert_int_equal(r.status.cause, VERDICT_CAUSE_DEADLINE);
	assert_int_equal(r.status.attempts, 2);
	assert_int_equal(requests_since(before), 2);
	rig_assert_same_mutation(&r, 2);
	/* 12 s an attempt. */
	assert_in_range(r.skipped_us, 23000000, 24000000);
	assert_true(peer_wait_open_connections(r.peer, 0));

	/* The overall time-out cuts the second attempt. */
	r.options.mutation_overall_timeout_ms = 15000;
	rig_client(&r);
	r.skipped_us = 0;
	before = peer_request_count(r.peer);
	assert_false(call(true));
	assert_int_equal(requests_since(before), 2);
	assert_in_range(r.skipped_us, 14000000, 15000000);
	assert_in_range(atoi(peer_request_header(r.peer, peer_request_at(r.peer, before + 1),
											 "Connect-Timeout-Ms")),
					2000, 3000);

	/* No second attempt when nothing is left for it. */
	r.options.mutation_overall_timeout_ms = 12000;
	rig_client(&r);
	before = peer_request_count(r.peer);
	assert_false(call(true));
	assert_int_equal(requests_since(before), 1);

	/* The caller's deadline cuts both. */
	before = peer_request_count(r.peer);
	r.skipped_us = 0;
	assert_false(verdict_client_mutate(r.client, &r.session, VERDICT_METHOD_INSERT_FACT, "", 0,
									   NULL, 300, &r.changed, &r.status));
	assert_int_equal(requests_since(before), 1);
	assert_in_range(r.skipped_us, 0, 300000);
}

static void
gives_a_read_one_attempt(void **state)
{
	(void) state;
	r.real_wait_ms = 50;
	rig_standing(&r, rig_act(PEER_STALL, 0));
	assert_false(call(false));
	assert_int_equal(r.status.code, VERDICT_DEADLINE_EXCEEDED);
	assert_int_equal(peer_request_count(r.peer), 1);
	assert_in_range(r.skipped_us, 9000000, 10000000);
}

static void
waits_no_longer_than_the_deadline(void **state)
{
	(void) state;
	/* The backoff would pass the read's deadline: the 503 is the result. */
	r.options.read_timeout_ms = 1500;
	rig_client(&r);
	rig_standing(&r, rig_error(&r, 503, NULL, "Retry-After: 2\r\n"));
	assert_false(call(false));
	assert_int_equal(r.status.code, VERDICT_UNAVAILABLE);
	assert_int_equal(r.status.http_status, 503);
	assert_int_equal(peer_request_count(r.peer), 1);
	assert_int_equal(r.slept_us, 0);
}

/* ---- owners and the budget ---- */

static void
sends_once_for_other_owners(void **state)
{
	static const verdict_retry_owner owners[] = {VERDICT_RETRY_APPLICATION, VERDICT_RETRY_MESH,
												 VERDICT_RETRY_NONE};
	static const int statuses[] = {503, 500, 502, 429};
	size_t i;
	size_t j;
	int mutation;

	(void) state;
	for (i = 0; i < RIG_LENGTH(owners); i++)
		for (j = 0; j < RIG_LENGTH(statuses); j++)
			for (mutation = 0; mutation < 2; mutation++)
			{
				int before = peer_request_count(r.peer);

				r.options.retry_owner = owners[i];
				rig_client(&r);
				rig_standing(&r, rig_error(&r, statuses[j], NULL, ""));
				assert_false(call(mutation == 1));
				assert_int_equal(requests_since(before), 1);
				assert_int_equal(r.status.attempts, 1);
				assert_int_equal(r.slept_us, 0);
			}
}

static void
stops_retrying_while_everything_fails(void **state)
{
	int before;
	int i;

	(void) state;
	rig_standing(&r, rig_error(&r, 500, NULL, ""));
	for (i = 0; i < 100; i++)
		assert_false(call(true));
	/* The reserve: three retries, then none. */
	assert_int_equal(peer_request_count(r.peer), 103);

	/* Ten successes earn one. */
	rig_standing(&r, rig_yes(&r, ""));
	for (i = 0; i < 10; i++)
		assert_true(call(i % 2 == 0));
	rig_standing(&r, rig_error(&r, 500, NULL, ""));
	before = peer_request_count(r.peer);
	assert_false(call(true));
	assert_false(call(true));
	assert_int_equal(requests_since(before), 3);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(backs_off_from_503),
		TEST(waits_by_the_random_bytes_of_the_host),
		TEST(knows_503_by_its_headers),
		TEST(keeps_bytes_and_key_over_503),
		TEST(leaves_503_alone_when_told),
		TEST(waits_in_parallel),
		TEST(keeps_to_the_budget_when_together),
		TEST(repeats_mutations_by_the_table_of_codes),
		TEST(never_takes_back_that_a_change_may_be_there),
		TEST(never_takes_it_back_when_the_instance_is_gone),
		TEST(repeats_a_mutation_that_timed_out),
		TEST(gives_a_read_one_attempt),
		TEST(waits_no_longer_than_the_deadline),
		TEST(sends_once_for_other_owners),
		TEST(stops_retrying_while_everything_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
