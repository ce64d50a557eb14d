/*
 * test_memory.c
 *		libcurl itself runs out of memory, at each of its allocations in turn: the
 *		call fails, nothing leaks, no descriptor stays, and the next call works.
 *
 * The memory functions of libcurl belong to the process, so this program stands
 * alone and the core never sets them.
 */
#include "rig.h"

#include <curl/curl.h>
#include <stdlib.h>

static rig r;
static size_t allocations;
static size_t fail_at; /* 0 = none */
static size_t failures;
static size_t live;

/*
 * libcurl 7.88 divides by zero when it cannot note that a transfer waits for a
 * socket (singlesocket() in its multi.c empties the table and goes on to use
 * it).  The table and its entry have these sizes; they are not made to fail.
 */
static bool
breaks_libcurl(size_t size)
{
	return size == 416 || size == 56;
}

static bool
may_allocate(size_t size)
{
	if (++allocations != fail_at)
		return true;
	if (breaks_libcurl(size))
	{
		fail_at++;
		return true;
	}
	failures++;
	return false;
}

static void *
count_in(void *memory)
{
	if (memory != NULL)
		__atomic_add_fetch(&live, 1, __ATOMIC_RELAXED);
	return memory;
}

static void *
curl_side_malloc(size_t size)
{
	return may_allocate(size) ? count_in(malloc(size)) : NULL;
}

static void
curl_side_free(void *memory)
{
	if (memory != NULL)
		__atomic_sub_fetch(&live, 1, __ATOMIC_RELAXED);
	free(memory);
}

static void *
curl_side_realloc(void *memory, size_t size)
{
	if (!may_allocate(size))
		return NULL;
	return memory == NULL ? count_in(malloc(size)) : realloc(memory, size);
}

static char *
curl_side_strdup(const char *text)
{
	return may_allocate(strlen(text) + 1) ? count_in(strdup(text)) : NULL;
}

static void *
curl_side_calloc(size_t count, size_t size)
{
	return may_allocate(count * size) ? count_in(calloc(count, size)) : NULL;
}

static void
fail_next(size_t n)
{
	allocations = 0;
	failures = 0;
	fail_at = n;
}

/* A client, a call that connects and a call that does not. */
static void
fail_each_allocation(bool mutation)
{
	size_t n;
	int descriptors;

	rig_standing(&r, rig_yes(&r, ""));
	r.options.retry_owner = VERDICT_RETRY_NONE;
	r.options.retry_http_503 = false;
	rig_client(&r);
	assert_true(rig_authorize(&r));
	verdict_client_destroy(r.client);
	r.client = NULL;
	/* The peer's ends of connections are of this process too. */
	assert_true(peer_wait_open_connections(r.peer, 0));
	descriptors = rig_open_descriptors();

	for (n = 1; n == 1 || failures > 0; n++)
	{
		verdict_status status;
		int calls;

		fail_next(n);
		r.client = verdict_client_create(r.runtime, &r.options, &status);
		if (r.client == NULL)
			assert_int_equal(status.cause, VERDICT_CAUSE_MEMORY);
		for (calls = 0; calls < 2 && r.client != NULL; calls++)
			if (!(mutation ? rig_insert(&r, NULL) : rig_authorize(&r)))
			{
				/* Whatever libcurl made of it: an error, and again a working client. */
				assert_true(failures > 0);
				fail_next(0);
				if (!(mutation ? rig_insert(&r, NULL) : rig_authorize(&r)))
					fail_msg("after allocation %zu: %s", n, r.status.message);
				failures = 1;
			}
		if (r.client != NULL)
			assert_true(mutation ? r.changed == 1 : r.allowed);
		verdict_client_destroy(r.client);
		r.client = NULL;
		assert_int_equal(r.support.descriptors, 0);
		assert_true(peer_wait_open_connections(r.peer, 0));
		assert_int_equal(rig_open_descriptors(), descriptors);
	}
	assert_true(n > 50);
	fail_next(0);
}

static void
survives(void **state)
{
	(void) state;
	rig_begin(&r);
	fail_each_allocation(false);
	fail_each_allocation(true);
	rig_end(&r);
}

static void
makes_no_runtime_without_memory(void **state)
{
	size_t before = live;
	size_t n;

	(void) state;
	for (n = 1; n == 1 || failures > 0; n++)
	{
		support_host support;
		verdict_status status;
		verdict_runtime *runtime;

		support_host_init(&support);
		fail_next(n);
		runtime = verdict_runtime_create(&support.host, &status);
		if (runtime == NULL)
			assert_int_equal(status.cause, VERDICT_CAUSE_MEMORY);
		verdict_runtime_destroy(runtime);
		assert_int_equal(support.live, 0);
		assert_int_equal(live, before);
	}
	fail_next(0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(survives),
		cmocka_unit_test(makes_no_runtime_without_memory),
	};
	int result;

	if (curl_global_init_mem(CURL_GLOBAL_DEFAULT, curl_side_malloc, curl_side_free,
							 curl_side_realloc, curl_side_strdup, curl_side_calloc) != CURLE_OK)
		return 1;
	result = cmocka_run_group_tests(tests, NULL, NULL);
	curl_global_cleanup();
	return result != 0 || live != 0;
}
