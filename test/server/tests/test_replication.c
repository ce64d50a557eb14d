/*
 * test_replication.c
 *		Where sessions go, and the log of changes.
 */
#include "engine_fixture.h"

#include "change_log.h"
#include "route.h"

/* Routing. */

#define SESSIONS 3000

static const char *
session(int number)
{
	static char text[48];

	snprintf(text, sizeof(text), "4c6a2d0e-%04d-4b1e-9d55-0123456789ab", number);
	return text;
}

static void
sessions_spread(void **state)
{
	int counts[4] = {0};

	(void) state;
	for (int i = 0; i < SESSIONS; i++)
		counts[route_pick(session(i), 0xe)]++;
	assert_int_equal(counts[0], 0);
	/* A third each, give or take a tenth of it. */
	for (int node = 1; node < 4; node++)
		assert_in_range(counts[node], SESSIONS / 3 - SESSIONS / 30, SESSIONS / 3 + SESSIONS / 30);
}

static void
sessions_stay(void **state)
{
	int moved = 0;

	(void) state;
	for (int i = 0; i < SESSIONS; i++)
	{
		int four = route_pick(session(i), 0x1e);
		int three = route_pick(session(i), 0x16); /* without node 3 */

		assert_int_equal(route_pick(session(i), 0x1e), four);
		assert_int_not_equal(three, 3);
		/* Only the sessions of the node that left have moved. */
		if (four != 3)
			assert_int_equal(three, four);
		else
			moved++;
	}
	assert_in_range(moved, SESSIONS / 4 - SESSIONS / 30, SESSIONS / 4 + SESSIONS / 30);
	/* The scores are of this program for good: a restart moves nobody. */
	assert_int_equal(route_pick("a", 0xe), 3);
	assert_int_equal(route_pick("b", 0xe), 3);
	assert_int_equal(route_pick("", 0x8), 3);
}

static void
predicates_spread(void **state)
{
	int counts[8] = {0};

	(void) state;
	assert_int_equal(route_shard("anything", 1), 0);
	for (int i = 0; i < SESSIONS; i++)
	{
		int shard = route_shard(session(i), 8);

		assert_int_equal(route_shard(session(i), 8), shard);
		counts[shard]++;
	}
	for (int shard = 0; shard < 8; shard++)
		assert_in_range(counts[shard], SESSIONS / 8 - SESSIONS / 32, SESSIONS / 8 + SESSIONS / 32);
}

/* The log. */

static void
append(change_log *log, uint64_t position, const char *fact, const char *key)
{
	Verdict__V1__InsertFactRequest request = VERDICT__V1__INSERT_FACT_REQUEST__INIT;
	engine_mutation mutation = {0};

	request.fact = parse_fact(fact);
	mutation.method = ENGINE_INSERT_FACT;
	mutation.request = &request.base;
	mutation.key = key;
	mutation.caller[0] = 7;
	change_log_append(log, &mutation, position, 1);
	free_message(request.fact);
}

static void
log_keeps_what_is_not_trimmed(void **state)
{
	change_log log = {0};

	(void) state;
	assert_null(change_log_at(&log, 0));
	for (uint64_t position = 5; position <= 500; position++)
		append(&log, position, "p(1)", NULL);
	assert_null(change_log_at(&log, 4));
	assert_null(change_log_at(&log, 501));
	assert_null(change_log_at(&log, 0));
	for (uint64_t position = 5; position <= 500; position++)
		assert_int_equal(change_log_at(&log, position)->position, position);
	change_log_trim(&log, 4);
	assert_int_equal(log.count, 496);
	change_log_trim(&log, 300);
	assert_null(change_log_at(&log, 300));
	assert_int_equal(change_log_at(&log, 301)->position, 301);
	/* What comes then takes the places of what is gone. */
	for (uint64_t position = 501; position <= 1000; position++)
		append(&log, position, "p(1)", NULL);
	for (uint64_t position = 301; position <= 1000; position++)
		assert_int_equal(change_log_at(&log, position)->position, position);
	change_log_cut(&log, 400);
	assert_int_equal(change_log_at(&log, 400)->position, 400);
	assert_null(change_log_at(&log, 401));
	append(&log, 401, "other(1)", NULL);
	assert_int_equal(change_log_at(&log, 401)->position, 401);
	change_log_cut(&log, 1);
	assert_int_equal(log.count, 0);
	assert_int_equal(log.bytes, 0);
	append(&log, 9, "p(1)", NULL);
	assert_int_equal(change_log_at(&log, 9)->position, 9);
	change_log_trim(&log, UINT64_MAX);
	assert_int_equal(log.count, 0);
	assert_null(log.ring);
}

/* A change does to another engine what it did to the first, key and all. */
static void
change_is_applied(void **state)
{
	change_log log = {0};
	engine_error error = {0};
	Verdict__V1__InsertFactRequest request = VERDICT__V1__INSERT_FACT_REQUEST__INIT;
	engine_mutation mutation = {0};
	engine_answer answer;

	(void) state;
	append(&log, 1, "p(User:a, \"text\", -5)", "key");
	append(&log, 2, "p(User:b)", NULL);
	assert_true(change_apply(change_log_at(&log, 1), engine_under_test, &error));
	assert_query(engine_under_test, "p(?x, \"text\", ?n)", "User:a, -5");
	assert_int_equal(position(), 1);
	mutation.method = ENGINE_INSERT_FACT;
	mutation.request = &request.base;
	mutation.key = "key";
	mutation.caller[0] = 7;
	request.fact = parse_fact("p(User:a, \"text\", -5)");
	assert_true(engine_mutate(engine_under_test, &mutation, &answer, &error));
	assert_true(answer.replayed);
	assert_int_equal(answer.position, 1);
	free_message(answer.response);
	free_message(request.fact);
	/* Out of order: it says so. */
	assert_false(change_apply(change_log_at(&log, 1), engine_under_test, &error));
	assert_true(insert(engine_under_test, "q(1)"));
	assert_false(change_apply(change_log_at(&log, 2), engine_under_test, &error));
	assert_string_equal(error.message, "the change of position 2 was applied at 3");
	change_log_trim(&log, UINT64_MAX);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sessions_spread), cmocka_unit_test(sessions_stay),
		cmocka_unit_test(predicates_spread), cmocka_unit_test(log_keeps_what_is_not_trimmed),
		cmocka_unit_test_setup_teardown(change_is_applied, open_fresh, close_it)};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	test_remove_store();
	rmdir(test_directory);
	return failed;
}
