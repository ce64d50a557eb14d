/*
 * peer.h
 *		A peer on a raw socket that does exactly what a test tells it, and
 *		remembers every request byte for byte.
 *
 * It runs on threads of its own, one a connection.  A request takes the next
 * script of the queue; when the queue is empty, the standing script.  All of
 * peer_*() may be called from the test's thread at any time; what a test reads
 * of the log stays until peer_stop().
 */
#ifndef VERDICT_TEST_PEER_H
#define VERDICT_TEST_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum peer_action
{
	PEER_END,	 /* of the script: the connection waits for a request */
	PEER_SEND,	 /* bytes */
	PEER_DRIP,	 /* bytes one at a time, "ms" apart */
	PEER_REPEAT, /* bytes again and again, until the client goes */
	PEER_PAUSE,	 /* "ms" */
	PEER_STALL,	 /* until the client goes */
	PEER_CLOSE,	 /* in an orderly way */
	PEER_RESET	 /* by RST */
} peer_action;

typedef struct peer_step
{
	peer_action action;
	const void *bytes;
	size_t size;
	int ms;
} peer_step;

typedef struct peer_request
{
	int connection; /* counted from 0 in the order of accepting */
	char *bytes;	/* the whole request, and a terminator */
	size_t size;
	const char *body;
	size_t body_size;
	int64_t at_us; /* when it was there, by the monotonic clock */
} peer_request;

typedef struct peer peer;

/* Listens on a free port of 127.0.0.1; aborts the test when that fails. */
extern peer *peer_start(void);
/* Ends all connections and threads and frees everything. */
extern void peer_stop(peer *p);
extern int peer_port(const peer *p);
/* "http://127.0.0.1:<port>" */
extern const char *peer_url(const peer *p);

/* Scripts are copied; the bytes they point at are not. */
extern void peer_queue(peer *p, const peer_step *steps);
extern void peer_standing(peer *p, const peer_step *steps);
/* What a connection does as soon as it is accepted, before it reads: the next
 * of this queue, if there is one. */
extern void peer_queue_accept(peer *p, const peer_step *steps);
/* Chooses the script of a request, when set; NULL = as the queue says. */
extern void
peer_set_chooser(peer *p, const peer_step *(*choose)(void *context, const peer_request *request),
				 void *context);
/* Forgets what is queued, not what is logged. */
extern void peer_clear(peer *p);

/*
 * An HTTP/1.1 answer with a Content-Length.  "headers" are whole lines or "".
 * It lives as long as the peer.
 */
extern peer_step
peer_answer(peer *p, int status, const char *headers, const void *body, size_t size);
/* A step that sends a string. */
extern peer_step peer_text(const char *text);
/* Keeps memory of malloc() until the peer stops. */
extern void *peer_keep(peer *p, void *memory);

/* From now on requests are answered but not logged. */
extern void peer_keep_no_log(peer *p);
extern int peer_request_count(peer *p);
extern const peer_request *peer_request_at(peer *p, int index);
extern int peer_connection_count(peer *p);
/* Connections that are open now. */
extern int peer_open_connections(peer *p);
/* Waits up to two seconds for that many; true when it came to be. */
extern bool peer_wait_open_connections(peer *p, int count);
extern bool peer_wait_requests(peer *p, int count);
/* The most requests that were being answered at one time. */
extern int peer_most_at_once(peer *p);

/* The value of a request's header, in memory that the peer keeps; NULL = none. */
extern const char *peer_request_header(peer *p, const peer_request *request, const char *name);
extern int peer_request_header_count(const peer_request *request, const char *name);

#endif /* VERDICT_TEST_PEER_H */
