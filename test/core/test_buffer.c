/*
 * test_buffer.c
 *		Memory of the core: buffers, arenas, the helpers over a host, and the
 *		POSIX host itself.
 */
#include "arena.h"
#include "buffer.h"
#include "support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void
buffer_grows_and_terminates(void **state)
{
	support_host support;
	verdict_buffer buffer;
	int i;

	(void) state;
	support_host_init(&support);
	verdict_buffer_init(&buffer, &support.host, 100000);
	assert_null(buffer.bytes);
	assert_int_equal(support.allocations, 0);
	for (i = 0; i < 10000; i++)
	{
		assert_true(verdict_buffer_append(&buffer, "abcdefghij", 10));
		assert_int_equal(buffer.bytes[buffer.size], '\0');
	}
	assert_int_equal(buffer.size, 100000);
	for (i = 0; i < 100000; i++)
		assert_int_equal(buffer.bytes[i], 'a' + i % 10);
	/* doubling, not one allocation an append */
	assert_in_range(support.allocations, 1, 12);
	assert_in_range(support.live_bytes, 100001, 100001);
	verdict_buffer_free(&buffer);
	assert_null(buffer.bytes);
	assert_int_equal(support.live, 0);
}

static void
buffer_extends(void **state)
{
	support_host support;
	verdict_buffer buffer;
	char *end;

	(void) state;
	support_host_init(&support);
	verdict_buffer_init(&buffer, &support.host, 300);
	assert_true(verdict_buffer_append_string(&buffer, "abc"));
	end = verdict_buffer_extend(&buffer, 200);
	assert_ptr_equal(end, buffer.bytes + 3);
	memset(end, 'x', 200);
	assert_int_equal(buffer.size, 203);
	assert_int_equal(buffer.bytes[203], '\0');
	assert_memory_equal(buffer.bytes, "abcx", 4);
	assert_null(verdict_buffer_extend(&buffer, 98));
	assert_int_equal(buffer.state, VERDICT_BUFFER_TOO_LARGE);
	assert_int_equal(buffer.size, 203);
	/* sticky */
	assert_null(verdict_buffer_extend(&buffer, 1));
	verdict_buffer_free(&buffer);
	assert_int_equal(support.live, 0);
}

static void
buffer_keeps_its_maximum(void **state)
{
	support_host support;
	verdict_buffer buffer;

	(void) state;
	support_host_init(&support);
	verdict_buffer_init(&buffer, &support.host, 5);
	assert_true(verdict_buffer_append_string(&buffer, "12345"));
	assert_true(verdict_buffer_append(&buffer, "", 0));
	assert_false(verdict_buffer_append(&buffer, "6", 1));
	assert_int_equal(buffer.state, VERDICT_BUFFER_TOO_LARGE);
	assert_string_equal(buffer.bytes, "12345");

	/* sticky, until the reset, which keeps the memory */
	assert_false(verdict_buffer_append(&buffer, "", 0));
	assert_false(verdict_buffer_printf(&buffer, "%s", ""));
	verdict_buffer_reset(&buffer);
	assert_int_equal(buffer.size, 0);
	assert_string_equal(buffer.bytes, "");
	assert_true(verdict_buffer_printf(&buffer, "%d-%s", 42, "ab"));
	assert_string_equal(buffer.bytes, "42-ab");
	assert_int_equal(support.allocations, 1);
	assert_false(verdict_buffer_printf(&buffer, "%d", 1));
	assert_int_equal(buffer.state, VERDICT_BUFFER_TOO_LARGE);
	assert_string_equal(buffer.bytes, "42-ab");
	verdict_buffer_free(&buffer);

	/* sizes near the end of the number range do not wrap around */
	verdict_buffer_init(&buffer, &support.host, SIZE_MAX);
	assert_true(verdict_buffer_append(&buffer, "x", 1));
	assert_false(verdict_buffer_append(&buffer, "x", SIZE_MAX - 1));
	assert_int_equal(buffer.state, VERDICT_BUFFER_TOO_LARGE);
	verdict_buffer_free(&buffer);

	/* a maximum of nothing */
	verdict_buffer_init(&buffer, &support.host, 0);
	assert_true(verdict_buffer_append(&buffer, "", 0));
	assert_false(verdict_buffer_append(&buffer, "x", 1));
	verdict_buffer_free(&buffer);
	assert_int_equal(support.live, 0);
}

static void
buffer_survives_no_memory(void **state)
{
	support_host support;
	verdict_buffer buffer;
	char block[300];

	(void) state;
	memset(block, 'x', sizeof(block));
	support_host_init(&support);
	verdict_buffer_init(&buffer, &support.host, 100000);
	assert_true(verdict_buffer_append(&buffer, block, 200));
	support_fail_at(&support, 1);
	assert_false(verdict_buffer_append(&buffer, block, 300));
	assert_int_equal(support.failures, 1);
	assert_int_equal(buffer.state, VERDICT_BUFFER_NO_MEMORY);
	assert_int_equal(buffer.size, 200);
	assert_memory_equal(buffer.bytes, block, 200);
	assert_false(verdict_buffer_append(&buffer, "x", 1));
	verdict_buffer_reset(&buffer);
	assert_true(verdict_buffer_append(&buffer, block, 300));
	verdict_buffer_free(&buffer);
	assert_int_equal(support.live, 0);
}

static void
arena_aligns_and_keeps_contents(void **state)
{
	support_host support;
	verdict_arena arena;
	unsigned char *pieces[500];
	size_t i;
	size_t j;

	(void) state;
	support_host_init(&support);
	verdict_arena_init(&arena, &support.host, SIZE_MAX);
	assert_int_equal(support.allocations, 0);
	for (i = 0; i < 500; i++)
	{
		pieces[i] = arena.allocator.alloc(arena.allocator.allocator_data, i);
		assert_non_null(pieces[i]);
		assert_int_equal((uintptr_t) pieces[i] % 16, 0);
		memset(pieces[i], (int) (i & 0xFF), i);
	}
	for (i = 0; i < 500; i++)
	{
		for (j = 0; j < i; j++)
			assert_int_equal(pieces[i][j], i & 0xFF);
		arena.allocator.free(arena.allocator.allocator_data, pieces[i]);
	}
	assert_in_range(support.live, 1, 20);

	verdict_arena_reset(&arena);
	assert_int_equal(support.live, 1);
	assert_int_equal(arena.used, 0);
	support.allocations = 0;
	assert_string_equal(verdict_arena_strndup(&arena, "abcdef", 3), "abc");
	assert_string_equal(verdict_arena_strndup(&arena, NULL, 0), "");
	assert_int_equal(support.allocations, 0);
	verdict_arena_free(&arena);
	assert_int_equal(support.live, 0);
	verdict_arena_free(&arena);
}

static void
arena_keeps_its_cap(void **state)
{
	support_host support;
	verdict_arena arena;

	(void) state;
	support_host_init(&support);
	verdict_arena_init(&arena, &support.host, 64);
	assert_non_null(verdict_arena_alloc(&arena, 33)); /* counts as 48 */
	assert_non_null(verdict_arena_alloc(&arena, 16));
	assert_false(arena.exhausted);
	assert_null(verdict_arena_alloc(&arena, 1));
	assert_true(arena.exhausted);
	assert_false(arena.no_memory);
	verdict_arena_reset(&arena);
	assert_false(arena.exhausted);
	assert_null(verdict_arena_alloc(&arena, 65));
	assert_null(verdict_arena_alloc(&arena, SIZE_MAX));
	verdict_arena_free(&arena);

	/* a cap that is no multiple of the alignment is not passed by rounding */
	verdict_arena_init(&arena, &support.host, 20);
	assert_null(verdict_arena_alloc(&arena, 17));
	assert_non_null(verdict_arena_alloc(&arena, 16));
	verdict_arena_free(&arena);

	verdict_arena_init(&arena, &support.host, SIZE_MAX);
	assert_null(verdict_arena_alloc(&arena, SIZE_MAX));
	assert_null(verdict_arena_alloc(&arena, SIZE_MAX - 20));
	assert_null(verdict_arena_strndup(&arena, "", SIZE_MAX));
	assert_true(arena.exhausted);
	verdict_arena_free(&arena);
	assert_int_equal(support.live, 0);
}

static void
arena_lets_a_large_block_go(void **state)
{
	support_host support;
	verdict_arena arena;

	(void) state;
	support_host_init(&support);
	verdict_arena_init(&arena, &support.host, SIZE_MAX);
	assert_non_null(verdict_arena_alloc(&arena, 1000000));
	verdict_arena_reset(&arena);
	assert_int_equal(support.live_bytes, 0);
	/* and what follows a large one is not large for that */
	assert_non_null(verdict_arena_alloc(&arena, 1000000));
	assert_non_null(verdict_arena_alloc(&arena, 1));
	assert_in_range(support.live_bytes, 1000000, 1000000 + 70000);

	support_fail_at(&support, 1);
	assert_null(verdict_arena_alloc(&arena, 100000));
	assert_true(arena.no_memory);
	assert_false(arena.exhausted);
	verdict_arena_free(&arena);
	assert_int_equal(support.live, 0);
}

static void
helpers_check_products(void **state)
{
	support_host support;
	char *memory;

	(void) state;
	support_host_init(&support);
	assert_null(verdict_alloc_array(&support.host, SIZE_MAX / 2, 3));
	assert_int_equal(support.allocations, 0);
	memory = verdict_alloc_array(&support.host, 0, 8);
	assert_non_null(memory);
	verdict_free(&support.host, memory);
	memory = verdict_alloc_zero(&support.host, 100);
	assert_int_equal(memory[0] | memory[99], 0);
	verdict_free(&support.host, memory);
	memory = verdict_strdup(&support.host, "text");
	assert_string_equal(memory, "text");
	verdict_free(&support.host, memory);
	verdict_free(&support.host, NULL);
	support_fail_at(&support, 1);
	support.fail_from = true;
	assert_null(verdict_alloc(&support.host, 1));
	assert_null(verdict_alloc_zero(&support.host, 1));
	assert_null(verdict_strdup(&support.host, "text"));
	assert_int_equal(support.live, 0);
}

static void
posix_host_works(void **state)
{
	verdict_host host;
	verdict_socket sockets[100];
	unsigned char random[64];
	static const unsigned char zero[64];
	int pipe_ends[2];
	int64_t start;
	int i;

	(void) state;
	verdict_host_init_posix(&host);
	memset(random, 0, sizeof(random));
	assert_true(host.random_bytes(host.context, random, sizeof(random)));
	assert_memory_not_equal(random, zero, sizeof(random));
	assert_true(host.wall_clock_s(host.context) > 1700000000);

	/* a plain sleep takes its time */
	start = host.monotonic_us(host.context);
	assert_int_equal(host.wait(host.context, NULL, 0, 20000), VERDICT_WAIT_TIMEOUT);
	assert_true(host.monotonic_us(host.context) - start >= 20000);

	/* a pipe: writable at once, readable when something is in it */
	assert_int_equal(pipe(pipe_ends), 0);
	memset(sockets, 0, sizeof(sockets));
	for (i = 0; i < 100; i++)
	{
		sockets[i].fd = pipe_ends[0];
		sockets[i].want_read = true;
		sockets[i].readable = true;
	}
	assert_int_equal(host.wait(host.context, sockets, 100, 1000), VERDICT_WAIT_TIMEOUT);
	assert_false(sockets[0].readable || sockets[99].readable);
	sockets[99].fd = pipe_ends[1];
	sockets[99].want_read = false;
	sockets[99].want_write = true;
	assert_int_equal(host.wait(host.context, sockets, 100, -1), VERDICT_WAIT_READY);
	assert_true(sockets[99].writable);
	assert_false(sockets[99].readable || sockets[0].readable);
	assert_int_equal(write(pipe_ends[1], "x", 1), 1);
	assert_int_equal(host.wait(host.context, sockets, 1, -1), VERDICT_WAIT_READY);
	assert_true(sockets[0].readable);

	/* the other end gone counts as ready */
	close(pipe_ends[0]);
	assert_int_equal(host.wait(host.context, sockets + 99, 1, -1), VERDICT_WAIT_READY);
	assert_true(sockets[99].readable && sockets[99].writable);
	close(pipe_ends[1]);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(buffer_grows_and_terminates),
		cmocka_unit_test(buffer_extends),
		cmocka_unit_test(buffer_keeps_its_maximum),
		cmocka_unit_test(buffer_survives_no_memory),
		cmocka_unit_test(arena_aligns_and_keeps_contents),
		cmocka_unit_test(arena_keeps_its_cap),
		cmocka_unit_test(arena_lets_a_large_block_go),
		cmocka_unit_test(helpers_check_products),
		cmocka_unit_test(posix_host_works),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
