/*
 * host.h
 *		What the program that embeds the core gives to it.
 *
 * The core calls nothing of the operating system for memory, time, randomness
 * or waiting by itself; it asks this table.  No function of the table may leave
 * by longjmp: libcurl frames can be on the stack.  A wait that the embedding
 * program wants to end returns VERDICT_WAIT_INTERRUPTED; the core then unwinds,
 * frees what it holds and returns a status with code VERDICT_CANCELED.
 *
 * A table and its context must outlive every object made with it.  The core is
 * single-threaded: one table serves one thread.
 */
#ifndef VERDICT_HOST_H
#define VERDICT_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum verdict_wait_result
{
	VERDICT_WAIT_READY,		 /* at least one socket is ready */
	VERDICT_WAIT_TIMEOUT,	 /* the time is over, no socket is ready */
	VERDICT_WAIT_INTERRUPTED /* the host wants the call to end now */
} verdict_wait_result;

/*
 * A socket the core waits for.  The serial number is unique for each socket
 * ever opened in the process, so a host that keeps its kernel event set between
 * calls can tell a new socket from an old one with the same number.
 */
typedef struct verdict_socket
{
	int fd;
	uint64_t serial;
	bool want_read;
	bool want_write;
	bool readable; /* set by wait() */
	bool writable; /* set by wait() */
} verdict_socket;

typedef enum verdict_log_level
{
	VERDICT_LOG_DEBUG,
	VERDICT_LOG_WARNING
} verdict_log_level;

typedef struct verdict_host
{
	void *context;

	/*
	 * Returns memory of "size" bytes, or NULL.  With a pointer that is not
	 * NULL the memory there is resized, as by realloc(); on NULL the old
	 * memory stays as it was.  "size" is never 0.
	 */
	void *(*allocate)(void *context, void *pointer, size_t size);
	/* Frees memory of allocate(); NULL is allowed. */
	void (*release)(void *context, void *pointer);

	/* Microseconds of a clock that never goes back. */
	int64_t (*monotonic_us)(void *context);
	/* Seconds since 1970-01-01 UTC; used for a Retry-After date only. */
	int64_t (*wall_clock_s)(void *context);
	/* Fills memory with strong random bytes; false when there are none. */
	bool (*random_bytes)(void *context, void *bytes, size_t size);

	/*
	 * Waits until a socket is ready, "timeout_us" microseconds have passed
	 * (negative = no limit), or the host wants the call to end.  "count" may be
	 * 0: a plain sleep.  Sets readable and writable of every socket.  A socket
	 * with an error or hang-up counts as readable and writable.
	 */
	verdict_wait_result (*wait)(void *context, verdict_socket *sockets, int count,
								int64_t timeout_us);

	/*
	 * Asked before a socket is opened, told after one is closed; lets a host
	 * keep within its file descriptor limit.  reserve false = do not open.
	 * Both may be NULL.
	 */
	bool (*reserve_descriptor)(void *context);
	void (*release_descriptor)(void *context);

	/* One line, no newline, never a credential or a fact.  May be NULL. */
	void (*log)(void *context, verdict_log_level level, const char *message);
} verdict_host;

/*
 * Fills a table for an ordinary program: malloc(), clock_gettime(),
 * getrandom(), poll().  For the tests, the benchmark and the conformance
 * client; wait() never reports an interruption.
 */
extern void verdict_host_init_posix(verdict_host *host);

/*
 * Allocation helpers over the table.  All return NULL when there is no memory
 * or the product overflows; the caller owns the result and frees it with
 * verdict_free().
 */
extern void *verdict_alloc(const verdict_host *host, size_t size);
extern void *verdict_alloc_zero(const verdict_host *host, size_t size);
extern void *verdict_alloc_array(const verdict_host *host, size_t count, size_t element_size);
extern char *verdict_strdup(const verdict_host *host, const char *string);
extern void verdict_free(const verdict_host *host, void *pointer);

#endif /* VERDICT_HOST_H */
