/*
 * transport.h
 *		HTTP exchanges over libcurl: one request out, one whole answer back, or a
 *		status that says what is known.
 *
 * A runtime owns libcurl's multi handle and drives it by the host's wait(); a
 * pool is one identity at one origin and owns its connections and TLS sessions;
 * an exchange is one request under way.  Nothing here knows Connect.
 *
 * The rules that bind:
 * - A request is sent at most once.  libcurl sends a POST again by itself when a
 *	 kept connection dies before a byte of the answer came, although the peer may
 *	 have acted on it; the guards in exchange.c stop that, and who uses an
 *	 exchange decides whether to send again.
 * - An answer is given out only when it is whole: a status 200 whose end cannot
 *	 be told from a cut is refused.
 * - An aborted exchange takes its connection with it.
 * - libcurl's callbacks only note what happened; nothing in them waits, frees
 *	 what libcurl uses, or calls the host for anything but memory, descriptors
 *	 and the clock.
 */
#ifndef VERDICT_TRANSPORT_H
#define VERDICT_TRANSPORT_H

#include "client.h"
#include "headers.h"

typedef struct verdict_pool verdict_pool;
typedef struct verdict_exchange verdict_exchange;

/*
 * Header lines: "Name: value" strings, each with its terminator, one after the
 * other in one run of "size" bytes.  A value must not hold CR or LF and must not
 * be empty.
 */
typedef struct verdict_header_lines
{
	const char *bytes;
	size_t size;
} verdict_header_lines;

#define VERDICT_MAX_REQUEST_HEADERS 64

typedef struct verdict_pool_options
{
	const char *ssl_ca_file; /* NULL = libcurl's own trust store */
	verdict_http_version http_version;
	size_t max_response_bytes;	  /* of a 200, after decompression */
	verdict_header_lines headers; /* on every request; may hold a credential,
									 * must outlive the pool */
} verdict_pool_options;

/* Copies the options.  NULL with a status on failure. */
extern verdict_pool *
verdict_pool_create(verdict_runtime *runtime, const verdict_pool_options *options,
					verdict_status *status);
/* After all its exchanges are released.  Closes its connections. */
extern void verdict_pool_destroy(verdict_pool *pool);
/*
 * False while no exchange may be started: an HTTP/2 connection that has carried
 * its share of requests is left before the next.
 */
extern bool verdict_pool_ready(const verdict_pool *pool);

/*
 * An idle exchange from the pool's reserve, or a new one; at most
 * VERDICT_MAX_IN_FLIGHT at a time.  NULL with a status on failure.  Goes back by
 * verdict_exchange_release(), which aborts it when it is under way.
 */
extern verdict_exchange *verdict_exchange_acquire(verdict_pool *pool, verdict_status *status);
extern void verdict_exchange_release(verdict_exchange *exchange);

/* All that the pointers mean must stay as it is until the exchange is over. */
typedef struct verdict_request
{
	const char *url;
	verdict_header_lines headers; /* besides the pool's */
	const void *body;			  /* may be NULL when body_size is 0 */
	size_t body_size;
	int timeout_ms;		   /* what the caller will wait; it keeps the time
								 * itself, this only spreads it over addresses */
	bool fresh_connection; /* take no kept connection */
} verdict_request;

/* Starts; verdict_runtime_wait() drives it.  False with a status on failure. */
extern bool verdict_exchange_start(verdict_exchange *exchange, const verdict_request *request,
								   verdict_status *status);
/* Ends it at once, whatever its phase, and closes its connection. */
extern void verdict_exchange_abort(verdict_exchange *exchange);

/* The answer, or what is known, is there. */
extern bool verdict_exchange_done(const verdict_exchange *exchange);
/* The request left, or began to. */
extern bool verdict_exchange_sent(const verdict_exchange *exchange);
/* It went over a kept connection that ended before a byte of the answer came. */
extern bool verdict_exchange_kept_died(const verdict_exchange *exchange);
/* Bytes of the answer's body that came so far, as sent: compressed ones as such. */
extern int64_t verdict_exchange_received(const verdict_exchange *exchange);
/* What it was doing when it was last heard of: "waiting for the answer", ... */
extern const char *verdict_exchange_phase(const verdict_exchange *exchange);

/*
 * The result of an exchange that is done.  True when a whole answer came, with
 * status->http_status set; else false with code, cause and, of the outcome,
 * NOT_SENT or MAYBE_APPLIED.  "past_deadline" tells how to read a stream that
 * the peer canceled.
 */
extern bool verdict_exchange_result(const verdict_exchange *exchange, bool past_deadline,
									verdict_status *status);
/* The headers of the answer, until the exchange is started again or released. */
extern const verdict_headers *verdict_exchange_headers(const verdict_exchange *exchange);
/*
 * The body, of which a caller may take the memory over by
 * verdict_exchange_take_body().  A body that is not a 200's is kept only as far
 * as VERDICT_ERROR_BYTES_MAX; beyond it, or in an encoding that was not asked
 * for, it counts as none.
 */
#define VERDICT_ERROR_BYTES_MAX (64 * 1024)
extern const verdict_buffer *verdict_exchange_body(const verdict_exchange *exchange);
/* The body's memory (of the host; NULL when it is empty) is the caller's now. */
extern void *verdict_exchange_take_body(verdict_exchange *exchange, size_t *size);
extern const verdict_host *verdict_runtime_host(const verdict_runtime *runtime);

/*
 * Waits, once, until something happens or "until_us" of the host's clock is
 * there, and lets libcurl act on it.  INTERRUPTED only when the host says so;
 * then, and when the time is over, the exchanges are as they were.
 */
extern verdict_wait_result verdict_runtime_wait(verdict_runtime *runtime, int64_t until_us);

#endif /* VERDICT_TRANSPORT_H */
