/*
 * engine_fixture.h
 *		One engine on a store of its own for each test of a program, and its restart.
 */
#ifndef VERDICT_TEST_ENGINE_FIXTURE_H
#define VERDICT_TEST_ENGINE_FIXTURE_H

#include "engine_helpers.h"

static engine *engine_under_test;

static inline int
open_fresh(void **state)
{
	(void) state;
	test_remove_store();
	engine_under_test = test_open();
	return 0;
}

static inline int
close_it(void **state)
{
	(void) state;
	engine_close(engine_under_test);
	engine_under_test = NULL;
	return 0;
}

static inline void
restart(void)
{
	engine_close(engine_under_test);
	engine_under_test = test_open();
}

static inline uint64_t
position(void)
{
	uint64_t generation;
	uint64_t position;

	engine_position(engine_under_test, &generation, &position);
	assert_int_equal(generation, 1);
	return position;
}

#endif /* VERDICT_TEST_ENGINE_FIXTURE_H */
