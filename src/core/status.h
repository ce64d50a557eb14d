/*
 * status.h
 *		What became of a call.
 *
 * A status is a plain value without memory of its own.  It never holds a
 * credential; the message of a remote error is the remote's text, cleaned
 * (valid UTF-8, no control characters) and cut to what fits.
 */
#ifndef VERDICT_STATUS_H
#define VERDICT_STATUS_H

#include <stdbool.h>
#include <stdint.h>

/* Connect's codes, with the numbers they share with gRPC. */
typedef enum verdict_code
{
	VERDICT_OK = 0,
	VERDICT_CANCELED = 1,
	VERDICT_UNKNOWN = 2,
	VERDICT_INVALID_ARGUMENT = 3,
	VERDICT_DEADLINE_EXCEEDED = 4,
	VERDICT_NOT_FOUND = 5,
	VERDICT_ALREADY_EXISTS = 6,
	VERDICT_PERMISSION_DENIED = 7,
	VERDICT_RESOURCE_EXHAUSTED = 8,
	VERDICT_FAILED_PRECONDITION = 9,
	VERDICT_ABORTED = 10,
	VERDICT_OUT_OF_RANGE = 11,
	VERDICT_UNIMPLEMENTED = 12,
	VERDICT_INTERNAL = 13,
	VERDICT_UNAVAILABLE = 14,
	VERDICT_DATA_LOSS = 15,
	VERDICT_UNAUTHENTICATED = 16
} verdict_code;

/*
 * Where the verdict about the call was made.  Lets the reader of an error tell
 * "the instance refused" from "the answer could not be trusted".
 */
typedef enum verdict_cause
{
	VERDICT_CAUSE_NONE,		   /* success */
	VERDICT_CAUSE_REMOTE,	   /* a Connect error of the instance */
	VERDICT_CAUSE_HTTP,		   /* inferred from the HTTP status */
	VERDICT_CAUSE_RESOLVE,	   /* the host name has no address */
	VERDICT_CAUSE_CONNECT,	   /* no connection */
	VERDICT_CAUSE_TLS,		   /* no trusted connection */
	VERDICT_CAUSE_LOST,		   /* the connection ended before the answer did */
	VERDICT_CAUSE_ANSWER,	   /* the answer breaks the protocol */
	VERDICT_CAUSE_TOO_LARGE,   /* the answer passes max_response_bytes */
	VERDICT_CAUSE_DEADLINE,	   /* the client's own deadline */
	VERDICT_CAUSE_INTERRUPTED, /* the host's wait said so */
	VERDICT_CAUSE_ARGUMENT,	   /* refused here, before anything was sent */
	VERDICT_CAUSE_SESSION,	   /* the session's revision scope is inconsistent */
	VERDICT_CAUSE_TRUNCATED,   /* the instance cut the answer at its cap */
	VERDICT_CAUSE_MEMORY,	   /* no memory, or no file descriptor */
	VERDICT_CAUSE_LIMIT,	   /* the supervisor admits no more calls */
	VERDICT_CAUSE_INTERNAL	   /* a library failed in a way not foreseen */
} verdict_cause;

/* What is known of the effect of a call that failed. */
typedef enum verdict_outcome
{
	VERDICT_OUTCOME_NOT_SENT,	   /* no byte of the request left */
	VERDICT_OUTCOME_REJECTED,	   /* the instance answered that it did not run */
	VERDICT_OUTCOME_MAYBE_APPLIED, /* sent, and no trustworthy answer came */
	VERDICT_OUTCOME_APPLIED		   /* the call succeeded */
} verdict_outcome;

#define VERDICT_REQUEST_ID_SIZE 37 /* a UUID and its terminator */
#define VERDICT_MESSAGE_SIZE 1024

typedef struct verdict_status
{
	verdict_code code;
	verdict_cause cause;
	verdict_outcome outcome;
	bool inferred;							  /* the code was inferred from the HTTP status */
	int http_status;						  /* 0 when no status line came */
	int attempts;							  /* RPC attempts made */
	int sends;								  /* requests that left, HTTP 503 re-sends included */
	int64_t retry_after_ms;					  /* the instance's Retry-After; -1 when absent */
	char request_id[VERDICT_REQUEST_ID_SIZE]; /* "" before a call */
	char message[VERDICT_MESSAGE_SIZE];		  /* UTF-8, no control characters */
} verdict_status;

/* Success with nothing known; what every call starts from. */
extern void verdict_status_init(verdict_status *status);
/*
 * Sets code, cause and message (printf style, cleaned and cut at a character
 * boundary) and leaves the rest.  Returns false, so that a function can fail
 * with "return verdict_status_fail(...)".
 */
extern bool verdict_status_fail(verdict_status *status, verdict_code code, verdict_cause cause,
								const char *format, ...) __attribute__((format(printf, 4, 5)));
/* verdict_status_fail() with the one text for exhausted memory. */
extern bool verdict_status_no_memory(verdict_status *status);

/* Connect's name of a code, such as "failed_precondition"; "ok" for success. */
extern const char *verdict_code_name(verdict_code code);
/* The code of such a name, or VERDICT_OK when the name is not one. */
extern verdict_code verdict_code_from_name(const char *name);
/* "not_sent", "rejected", "maybe_applied" or "applied". */
extern const char *verdict_outcome_name(verdict_outcome outcome);

#endif /* VERDICT_STATUS_H */
