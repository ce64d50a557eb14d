/*
 * support.c
 *		See support.h.  Every block carries its size in front, so that bytes can
 *		be counted without asking the C library.
 */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Keeps what follows it aligned for any type. */
#define BLOCK_HEADER 16

static void *
support_allocate(void *context, void *pointer, size_t size)
{
	support_host *support = context;
	char *old = pointer == NULL ? NULL : (char *) pointer - BLOCK_HEADER;
	size_t old_size = 0;
	char *block;

	if (size == 0)
	{
		fprintf(stderr, "support host: allocation of 0 bytes\n");
		abort();
	}
	support->allocations++;
	if (support->fail_at != 0 && (support->allocations == support->fail_at ||
								  (support->fail_from && support->allocations > support->fail_at)))
	{
		support->failures++;
		return NULL;
	}
	if (size > SIZE_MAX - BLOCK_HEADER)
		return NULL;
	if (old != NULL)
		memcpy(&old_size, old, sizeof(old_size));

	/* Always a new block: code that kept the old pointer is found at once. */
	block = malloc(size + BLOCK_HEADER);
	if (block == NULL)
		return NULL;
	memcpy(block, &size, sizeof(size));
	if (old != NULL)
	{
		memcpy(block + BLOCK_HEADER, old + BLOCK_HEADER, old_size < size ? old_size : size);
		free(old);
	}
	else
		support->live++;
	support->live_bytes += size;
	support->live_bytes -= old_size;
	if (support->live_bytes > support->peak_bytes)
		support->peak_bytes = support->live_bytes;
	return block + BLOCK_HEADER;
}

static void
support_release(void *context, void *pointer)
{
	support_host *support = context;
	char *block;
	size_t size;

	if (pointer == NULL)
		return;
	block = (char *) pointer - BLOCK_HEADER;
	memcpy(&size, block, sizeof(size));
	support->live--;
	support->live_bytes -= size;
	free(block);
}

static int64_t
support_monotonic_us(void *context)
{
	return ((support_host *) context)->now_us;
}

static int64_t
support_wall_clock_s(void *context)
{
	return ((support_host *) context)->wall_s;
}

static bool
support_random_bytes(void *context, void *bytes, size_t size)
{
	support_host *support = context;
	unsigned char *out = bytes;
	size_t i;

	if (support->random_fails)
		return false;
	for (i = 0; i < size; i++)
	{
		support->random_state = support->random_state * UINT64_C(6364136223846793005) + 1;
		out[i] = (unsigned char) (support->random_state >> 56);
	}
	return true;
}

static verdict_wait_result
support_wait(void *context, verdict_socket *sockets, int count, int64_t timeout_us)
{
	support_host *support = context;
	size_t step = support->waits++;
	verdict_wait_result result;
	int i;

	support->last_timeout_us = timeout_us;
	support->last_socket_count = count;
	if (step < support->script_steps)
	{
		support->now_us += support->script[step].advance_us;
		result = support->script[step].result;
	}
	else
	{
		if (timeout_us < 0)
		{
			fprintf(stderr, "support host: a wait that would never end\n");
			abort();
		}
		support->now_us += timeout_us;
		result = VERDICT_WAIT_TIMEOUT;
	}
	for (i = 0; i < count; i++)
	{
		bool ready = result == VERDICT_WAIT_READY;

		sockets[i].readable = ready && sockets[i].want_read;
		sockets[i].writable = ready && sockets[i].want_write;
	}
	return result;
}

static bool
support_reserve_descriptor(void *context)
{
	support_host *support = context;

	if (support->descriptor_limit >= 0 && support->descriptors >= support->descriptor_limit)
		return false;
	support->descriptors++;
	return true;
}

static void
support_release_descriptor(void *context)
{
	((support_host *) context)->descriptors--;
}

static void
support_log(void *context, verdict_log_level level, const char *message)
{
	support_host *support = context;

	(void) level;
	support->logs++;
	snprintf(support->last_log, sizeof(support->last_log), "%s", message);
}

void
support_host_init(support_host *support)
{
	memset(support, 0, sizeof(*support));
	support->host.context = support;
	support->host.allocate = support_allocate;
	support->host.release = support_release;
	support->host.monotonic_us = support_monotonic_us;
	support->host.wall_clock_s = support_wall_clock_s;
	support->host.random_bytes = support_random_bytes;
	support->host.wait = support_wait;
	support->host.reserve_descriptor = support_reserve_descriptor;
	support->host.release_descriptor = support_release_descriptor;
	support->host.log = support_log;
	support->now_us = 1000000;
	support->wall_s = 1767225600; /* 2026-01-01T00:00:00Z */
	support->random_state = 42;
	support->descriptor_limit = -1;
}

void
support_fail_at(support_host *support, size_t fail_at)
{
	support->allocations = 0;
	support->failures = 0;
	support->fail_at = fail_at;
}
