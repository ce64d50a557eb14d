/*
 * support.h
 *		A host for the tests of the core: everything in it can be counted,
 *		scripted or made to fail.
 *
 * A support_host owns nothing but its counters; the memory it hands out is
 * malloc's, so that the sanitizers and valgrind see it.  It must not be moved
 * after support_host_init(), since host.context points at it.
 */
#ifndef VERDICT_TEST_SUPPORT_H
#define VERDICT_TEST_SUPPORT_H

#include "host.h"

/* One answer of the scripted wait(). */
typedef struct support_wait_step
{
	int64_t advance_us; /* how far the fake clock moves first */
	verdict_wait_result result;
} support_wait_step;

typedef struct support_host
{
	verdict_host host; /* what the code under test is given */

	/* memory */
	size_t allocations; /* calls of allocate() so far */
	size_t fail_at;		/* this call (from 1) fails; 0 = none */
	bool fail_from;		/* and so do all calls after it */
	size_t failures;	/* calls that were made to fail */
	size_t live;		/* blocks not released yet */
	size_t live_bytes;
	size_t peak_bytes; /* largest live_bytes since init */

	/* clock */
	int64_t now_us;
	int64_t wall_s;

	/* random bytes: a fixed sequence, the same after each init */
	uint64_t random_state;
	bool random_fails;

	/*
	 * wait(): answers by the script, then (or without one) as a plain sleep
	 * that takes the whole time-out of the fake clock; a sleep without a limit
	 * beyond the script would never end and aborts the test.
	 */
	const support_wait_step *script;
	size_t script_steps;
	size_t waits; /* calls of wait() so far */
	int64_t last_timeout_us;
	int last_socket_count;

	/* descriptors */
	int descriptors;	  /* reserved and not released */
	int descriptor_limit; /* reserve() beyond it is refused; -1 = none */

	/* log */
	size_t logs;
	char last_log[512];
} support_host;

/* No failures, clock at 1,000,000 us and 2026-01-01, no script. */
extern void support_host_init(support_host *support);

/*
 * Starts a round of an out-of-memory test: the counters of calls start again
 * and the call number "fail_at" will fail.  What is live stays counted.
 *
 *	for (n = 1; n == 1 || support.failures > 0; n++)
 *	{
 *		support_fail_at(&support, n);
 *		... one call; if support.failures > 0 it must have failed ...
 *		assert_int_equal(support.live, 0);
 *	}
 */
extern void support_fail_at(support_host *support, size_t fail_at);

#endif /* VERDICT_TEST_SUPPORT_H */
