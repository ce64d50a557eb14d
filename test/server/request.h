/*
 * request.h
 *		One HTTP request: the block that holds it, and what its head says.
 *
 * A block belongs to libmicrohttpd's connection from request_take() to
 * request_give(), and is only touched by the thread that serves.  Strings of the
 * head are libmicrohttpd's memory, good for as long.
 */
#ifndef VERDICT_SERVER_REQUEST_H
#define VERDICT_SERVER_REQUEST_H

#include "faults.h"
#include "service.h"

#include <microhttpd.h>

#define MAX_HEADERS 64 /* looked at and logged; more are refused */

typedef enum request_step
{
	STEP_RECEIVE, /* the body is coming in */
	STEP_RUN,
	STEP_ANSWER,
	STEP_DROP /* close without an answer */
} request_step;

typedef struct http_request
{
	struct http_server *server;
	struct MHD_Connection *connection;
	request_step step;
	bool too_large;
	bool prepared; /* the service may run it */
	bool forgiven; /* the ordered wait does not count against it */
	bool accepts_gzip;
	int64_t arrived_us; /* when the body was complete */
	int64_t rest_us;	/* when the ordered wait began */
	uint64_t log_number;
	fault *fault;
	const char *http_method;
	const char *path; /* of the request, with its prefix */
	const char *content_type;
	const char *content_encoding;
	const char *allow;					  /* Allow header of a 405 */
	const char *headers[2 * MAX_HEADERS]; /* libmicrohttpd's memory */
	size_t header_count;
	verdict_buffer body;	   /* as it came */
	verdict_buffer plain;	   /* decompressed, when it was compressed */
	verdict_buffer compressed; /* the answer */
	service_call call;
	struct http_request *next; /* in the list of kept ones */
} http_request;

/* Blocks that wait for the next request, so that a warm one allocates nothing. */
typedef struct request_pool
{
	http_request *kept;
	int count;
	size_t max_request_bytes; /* of the bodies, set before the first take */
} request_pool;

/* A block without content, in STEP_RECEIVE.  NULL when there is no memory. */
extern http_request *request_take(request_pool *pool);
/* Gives it back, with its fault; the caller has let go of everything else. */
extern void request_give(request_pool *pool, http_request *request);
/* Frees the blocks that wait. */
extern void request_pool_free(request_pool *pool);

/*
 * Takes in the first line and the headers; judges nothing.  call.method is NULL
 * when the path is not one of a method below the prefix.
 */
extern void request_read_head(http_request *request, const char *path_prefix, const char *path,
							  const char *http_method);

#endif /* VERDICT_SERVER_REQUEST_H */
