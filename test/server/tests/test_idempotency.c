/*
 * test_idempotency.c
 *		Mutations under a key: applied once, answered again, refused, forgotten.
 */
#include "engine_fixture.h"

#include <sqlite3.h>

static engine_mutation
keyed(const char *fact, const char *key, uint8_t caller)
{
	static Verdict__V1__InsertFactRequest request;
	engine_mutation mutation = {0};

	if (request.fact != NULL)
		free_message(request.fact);
	verdict__v1__insert_fact_request__init(&request);
	request.fact = fact == NULL ? NULL : parse_fact(fact);
	mutation.method = ENGINE_INSERT_FACT;
	mutation.request = &request.base;
	mutation.key = key;
	mutation.caller[0] = caller;
	return mutation;
}

/* Runs it; the code, and what the answer says. */
static engine_code
mutate(engine_mutation mutation, bool *changed, bool *replayed, uint64_t *position)
{
	engine_answer answer;
	engine_error error = {0};

	if (!engine_mutate(engine_under_test, &mutation, &answer, &error))
	{
		assert_true(error.code != ENGINE_OK);
		return error.code;
	}
	*changed = ((Verdict__V1__InsertFactResponse *) answer.response)->changed;
	*replayed = answer.replayed;
	*position = answer.position;
	free_message(answer.response);
	return ENGINE_OK;
}

static void
assert_mutates(engine_mutation mutation, bool changed, bool replayed, uint64_t position)
{
	bool was_changed;
	bool was_replayed;
	uint64_t was_position;

	assert_int_equal(mutate(mutation, &was_changed, &was_replayed, &was_position), ENGINE_OK);
	assert_int_equal(was_changed, changed);
	assert_int_equal(was_replayed, replayed);
	assert_int_equal(was_position, position);
}

static void
assert_mutation_fails(engine_mutation mutation, engine_code code)
{
	bool changed;
	bool replayed;
	uint64_t before = position();
	uint64_t at;

	assert_int_equal(mutate(mutation, &changed, &replayed, &at), code);
	assert_int_equal(position(), before);
}

static void
replays(void **state)
{
	(void) state;
	assert_mutates(keyed("p(1)", "key", 1), true, false, 1);
	assert_mutates(keyed("p(1)", "key", 1), true, true, 1);
	assert_mutation_fails(keyed("p(2)", "key", 1), ENGINE_FAILED_PRECONDITION);
	assert_mutation_fails(keyed(NULL, "key", 1), ENGINE_FAILED_PRECONDITION);
	/* Another caller's key, or another key, is a new one. */
	assert_mutates(keyed("p(1)", "key", 2), false, false, 2);
	assert_mutates(keyed("p(1)", "other", 1), false, false, 3);
	/* The first answer comes again, whatever has become of the fact. */
	assert_true(delete (engine_under_test, "p(1)"));
	assert_mutates(keyed("p(1)", "key", 1), true, true, 1);
	assert_query(engine_under_test, "p(?x)", "");
	restart();
	assert_mutates(keyed("p(1)", "key", 1), true, true, 1);
	assert_mutates(keyed("p(1)", "other", 1), false, true, 3);
	assert_mutation_fails(keyed("p(2)", "key", 1), ENGINE_FAILED_PRECONDITION);
	assert_int_equal(position(), 4);
	keyed(NULL, NULL, 0);
}

static void
key_of_another_method(void **state)
{
	Verdict__V1__DeleteFactRequest request = VERDICT__V1__DELETE_FACT_REQUEST__INIT;
	engine_answer answer;
	engine_error error = {0};
	engine_mutation mutation;

	(void) state;
	assert_mutates(keyed("p(1)", "key", 0), true, false, 1);
	/* The same bytes on the wire as the insert, under the same key. */
	request.fact = parse_fact("p(1)");
	mutation = keyed(NULL, "key", 0);
	mutation.method = ENGINE_DELETE_FACT;
	mutation.request = &request.base;
	assert_true(engine_mutate(engine_under_test, &mutation, &answer, &error));
	assert_false(answer.replayed);
	assert_true(((Verdict__V1__DeleteFactResponse *) answer.response)->changed);
	free_message(answer.response);
	free_message(request.fact);
}

static void
failed_mutation_leaves_its_key(void **state)
{
	(void) state;
	assert_mutation_fails(keyed("allow(1, 2, 3)", "key", 0), ENGINE_INVALID_ARGUMENT);
	assert_mutates(keyed("p(1)", "key", 0), true, false, 1);
	keyed(NULL, NULL, 0);
}

static void
held_keys(void **state)
{
	engine_error error = {0};
	engine_mutation mutation = keyed("p(1)", "key", 1);

	(void) state;
	assert_true(engine_hold(engine_under_test, &mutation, &error));
	assert_mutation_fails(mutation, ENGINE_ABORTED);
	assert_false(engine_hold(engine_under_test, &mutation, &error));
	assert_int_equal(error.code, ENGINE_ABORTED);
	assert_mutation_fails(keyed("p(2)", "key", 1), ENGINE_FAILED_PRECONDITION);
	/* Nobody else is kept waiting. */
	assert_mutates(keyed("p(3)", "key", 2), true, false, 1);
	assert_mutates(keyed("p(4)", NULL, 1), true, false, 2);
	mutation = keyed("p(1)", "key", 1);
	engine_release(engine_under_test, &mutation);
	assert_mutates(mutation, true, false, 3);
	/* Known by now: a hold changes nothing, and its release neither. */
	assert_true(engine_hold(engine_under_test, &mutation, &error));
	assert_mutates(mutation, true, true, 3);
	engine_release(engine_under_test, &mutation);
	assert_mutates(mutation, true, true, 3);
	mutation = keyed("p(5)", "key", 1);
	assert_false(engine_hold(engine_under_test, &mutation, &error));
	assert_int_equal(error.code, ENGINE_FAILED_PRECONDITION);
	/* Without a key there is nothing to hold. */
	mutation = keyed("p(6)", NULL, 1);
	assert_true(engine_hold(engine_under_test, &mutation, &error));
	assert_mutates(mutation, true, false, 4);
	engine_release(engine_under_test, &mutation);
	/* What is held when the engine closes is freed with it. */
	mutation = keyed("p(7)", "left", 1);
	assert_true(engine_hold(engine_under_test, &mutation, &error));
	keyed(NULL, NULL, 0);
}

static void
age_records(const char *seconds)
{
	sqlite3 *database;
	char sql[128];

	engine_close(engine_under_test);
	assert_int_equal(sqlite3_open(test_path(), &database), SQLITE_OK);
	snprintf(sql, sizeof(sql), "UPDATE idempotency SET created = created - %s", seconds);
	assert_int_equal(sqlite3_exec(database, sql, NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_close(database), SQLITE_OK);
	engine_under_test = test_open();
}

static void
records_are_kept_a_day(void **state)
{
	(void) state;
	assert_mutates(keyed("p(1)", "key", 0), true, false, 1);
	age_records("86400 - 60");
	/* Any keyed mutation may forget what is old; a day is not. */
	assert_mutates(keyed("p(2)", "second", 0), true, false, 2);
	assert_mutates(keyed("p(1)", "key", 0), true, true, 1);
	age_records("7 * 86400");
	assert_mutates(keyed("p(3)", "third", 0), true, false, 3);
	assert_mutates(keyed("p(1)", "key", 0), false, false, 4);
	keyed(NULL, NULL, 0);
}

#define ENGINE_TEST(test) cmocka_unit_test_setup_teardown(test, open_fresh, close_it)

int
main(void)
{
	const struct CMUnitTest tests[] = {ENGINE_TEST(replays), ENGINE_TEST(key_of_another_method),
									   ENGINE_TEST(failed_mutation_leaves_its_key),
									   ENGINE_TEST(held_keys), ENGINE_TEST(records_are_kept_a_day)};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	test_remove_store();
	rmdir(test_directory);
	return failed;
}
