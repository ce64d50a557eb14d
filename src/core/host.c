/*
 * host.c
 *		Allocation helpers, and the host of an ordinary POSIX program.
 */
#include "host.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

void *
verdict_alloc(const verdict_host *host, size_t size)
{
	return host->allocate(host->context, NULL, size > 0 ? size : 1);
}

void *
verdict_alloc_zero(const verdict_host *host, size_t size)
{
	void *memory = verdict_alloc(host, size);

	if (memory != NULL)
		memset(memory, 0, size);
	return memory;
}

void *
verdict_alloc_array(const verdict_host *host, size_t count, size_t element_size)
{
	if (element_size != 0 && count > SIZE_MAX / element_size)
		return NULL;
	return verdict_alloc(host, count * element_size);
}

char *
verdict_strdup(const verdict_host *host, const char *string)
{
	size_t size = strlen(string) + 1;
	char *copy = verdict_alloc(host, size);

	if (copy != NULL)
		memcpy(copy, string, size);
	return copy;
}

void
verdict_free(const verdict_host *host, void *pointer)
{
	host->release(host->context, pointer);
}

static void *
posix_allocate(void *context, void *pointer, size_t size)
{
	(void) context;
	return realloc(pointer, size);
}

static void
posix_release(void *context, void *pointer)
{
	(void) context;
	free(pointer);
}

static int64_t
posix_monotonic_us(void *context)
{
	struct timespec now;

	(void) context;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t) now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static int64_t
posix_wall_clock_s(void *context)
{
	struct timespec now;

	(void) context;
	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t) now.tv_sec;
}

static bool
posix_random_bytes(void *context, void *bytes, size_t size)
{
	char *next = bytes;

	(void) context;
	while (size > 0)
	{
		ssize_t got = getrandom(next, size, 0);

		if (got < 0)
		{
			if (errno == EINTR)
				continue;
			return false;
		}
		next += got;
		size -= (size_t) got;
	}
	return true;
}

/* What is left of a wait, in poll's milliseconds, rounded up. */
static int
poll_timeout(int64_t left_us)
{
	if (left_us <= 0)
		return 0;
	if (left_us > (int64_t) INT_MAX * 1000 - 999)
		return INT_MAX;
	return (int) ((left_us + 999) / 1000);
}

#define POLL_ON_STACK 64

static verdict_wait_result
posix_wait(void *context, verdict_socket *sockets, int count, int64_t timeout_us)
{
	struct pollfd on_stack[POLL_ON_STACK];
	struct pollfd *polled = on_stack;
	int64_t start = posix_monotonic_us(context);
	int ready;
	int i;

	if (count > POLL_ON_STACK)
	{
		polled = malloc((size_t) count * sizeof(*polled));
		if (polled == NULL)
		{
			/* Watch what fits; the rest gets its turn by the time-out. */
			polled = on_stack;
			for (i = POLL_ON_STACK; i < count; i++)
				sockets[i].readable = sockets[i].writable = false;
			count = POLL_ON_STACK;
			if (timeout_us < 0 || timeout_us > 1000)
				timeout_us = 1000;
		}
	}
	for (i = 0; i < count; i++)
	{
		polled[i].fd = sockets[i].fd;
		polled[i].events =
			(short) ((sockets[i].want_read ? POLLIN : 0) | (sockets[i].want_write ? POLLOUT : 0));
		polled[i].revents = 0;
	}
	for (;;)
	{
		int timeout_ms = -1;

		if (timeout_us >= 0)
			timeout_ms = poll_timeout(timeout_us - (posix_monotonic_us(context) - start));
		ready = poll(polled, (nfds_t) count, timeout_ms);
		if (ready >= 0 || errno != EINTR)
			break;
	}
	for (i = 0; i < count; i++)
	{
		short events = ready > 0 ? polled[i].revents : 0;
		bool broken = (events & (POLLERR | POLLHUP | POLLNVAL)) != 0;

		sockets[i].readable = broken || (events & POLLIN) != 0;
		sockets[i].writable = broken || (events & POLLOUT) != 0;
	}
	if (polled != on_stack)
		free(polled);
	return ready > 0 ? VERDICT_WAIT_READY : VERDICT_WAIT_TIMEOUT;
}

static void
posix_log(void *context, verdict_log_level level, const char *message)
{
	(void) context;
	if (level >= VERDICT_LOG_WARNING)
		fprintf(stderr, "warning: %s\n", message);
}

void
verdict_host_init_posix(verdict_host *host)
{
	memset(host, 0, sizeof(*host));
	host->allocate = posix_allocate;
	host->release = posix_release;
	host->monotonic_us = posix_monotonic_us;
	host->wall_clock_s = posix_wall_clock_s;
	host->random_bytes = posix_random_bytes;
	host->wait = posix_wait;
	host->log = posix_log;
}
