/*
 * log.h
 *		What the admin address tells of the requests that came.
 *
 * An entry is made when a request has arrived whole and completed when it is
 * answered or dropped, so a request that a fault holds back is seen at once.
 * The log is a ring bounded in entries and in bytes: the oldest leave first.  An
 * Authorization header is kept as present or absent only, never its value.
 *
 * Every function may be called from any thread.
 */
#ifndef VERDICT_SERVER_LOG_H
#define VERDICT_SERVER_LOG_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct request_log request_log;

/* What is known when a request has arrived.  All is copied. */
typedef struct request_arrival
{
	uint64_t connection; /* number of the connection, from 1 */
	const char *http_method;
	const char *path;
	const char *method;			/* "Authorize", ...; NULL when it is none of ours */
	const char *format;			/* "binary", "json"; NULL when it is neither */
	const char *const *headers; /* name, value, name, value, ... */
	size_t header_count;		/* pairs */
	const void *body;			/* as it came, before decompression */
	size_t body_size;
	const char *fault; /* kind of the fault that applies, or NULL */
	bool clustered;	   /* the instance has several nodes */
	int address;	   /* then: of which node it came to, -1 = of the front */
} request_arrival;

/* How it ended. */
typedef struct request_end
{
	bool executed;		 /* the engine ran it for this request */
	bool replayed;		 /* answered from the record of its key */
	int status;			 /* HTTP; 0 = dropped without a status line */
	const char *code;	 /* Connect's; NULL for success and for no code */
	int64_t duration_us; /* since its arrival */
	int node;			 /* that served it; -1 = none, or there is one only */
} request_end;

/* NULL when there is no memory. */
extern request_log *request_log_create(void);
extern void request_log_destroy(request_log *log);
/* Returns the number of the entry, from 1; 0 when there was no memory. */
extern uint64_t request_log_arrival(request_log *log, const request_arrival *arrival);
/* Does nothing when the entry has left the ring. */
extern void request_log_end(request_log *log, uint64_t number, const request_end *end);
/* Numbers go on from where they were. */
extern void request_log_clear(request_log *log);
/* A new array, the oldest first; NULL when there is no memory. */
extern json_t *request_log_json(request_log *log);

#endif /* VERDICT_SERVER_LOG_H */
