/*
 * retry.h
 *		Whether and when a call is sent again: pure functions of what happened
 *		and the clock.
 *
 * Sources: the client's page on sessions, retries and timeouts (attempts,
 * HTTP 503 backoff, the 5,000 ms wait budget), the record on retry ownership
 * (one owner; method, evidence and status read together), the wire contract's
 * "Settled details" (what a 503 has handled, inferred codes, 4 sends).
 */
#ifndef VERDICT_RETRY_H
#define VERDICT_RETRY_H

#include "host.h"
#include "status.h"

typedef enum verdict_retry_owner
{
	VERDICT_RETRY_CLIENT,
	VERDICT_RETRY_APPLICATION,
	VERDICT_RETRY_MESH,
	VERDICT_RETRY_NONE
} verdict_retry_owner;

#define VERDICT_MAX_ATTEMPTS 2			/* RPC attempts of a mutation */
#define VERDICT_MAX_503_RESENDS 2		/* per call */
#define VERDICT_503_WAIT_BUDGET_MS 5000 /* per call */
#define VERDICT_503_BASE_MS 200			/* first backoff before jitter */

/*
 * Retries as a fraction of traffic, so that they fade while everything fails.
 * Milli-tokens: a call that succeeds without a retry adds 100, a retry takes
 * 1,000, a retry after a time-out 2,000; starts at and never passes the
 * reserve of 3,000 plus what successes have added (cap 100,000).
 * May lie in shared memory: plain values, the caller holds the lock.
 */
typedef struct verdict_retry_budget
{
	int64_t millitokens;
	uint64_t granted; /* retries that were paid for */
	uint64_t refused; /* retries that there were no tokens for */
} verdict_retry_budget;

typedef struct verdict_retry_policy
{
	verdict_retry_owner owner;
	bool retry_http_503;
	int attempt_timeout_ms; /* mutations; a read has one attempt */
	int overall_timeout_ms; /* of the call, reads and mutations */
} verdict_retry_policy;

typedef enum verdict_retry_action
{
	VERDICT_RETRY_STOP,	   /* the status is the result */
	VERDICT_RETRY_RESEND,  /* same attempt, after delay_ms (503 backoff) */
	VERDICT_RETRY_REPLACE, /* same attempt, at once, fresh connection: a
								 * kept one died before any answer; reads only,
								 * once a call */
	VERDICT_RETRY_ATTEMPT  /* next attempt, at once */
} verdict_retry_action;

/* The state of one call; starts by verdict_retry_begin(). */
typedef struct verdict_retry_state
{
	bool mutation;
	int attempt; /* 1 or 2 */
	int resends_503;
	int waited_ms; /* of the 503 budget */
	bool replaced;
	bool retried;				/* anything was sent a second time */
	bool refused;				/* it would have been, but for the budget */
	int64_t attempt_started_us; /* shifted by waits: waiting is not attempting */
	int64_t call_started_us;
} verdict_retry_state;

/* The reserve, and nothing counted. */
extern void verdict_retry_budget_init(verdict_retry_budget *budget);

extern void verdict_retry_begin(verdict_retry_state *state, bool mutation, int64_t now_us);

/*
 * When the send that starts now has to end: the smaller of the attempt's and
 * the call's deadline, in microseconds of the monotonic clock.
 */
extern int64_t
verdict_retry_deadline(const verdict_retry_policy *policy, const verdict_retry_state *state);

/*
 * Decides what follows a send that ended in "status" (which may be success:
 * STOP, and the budget is credited).  After an HTTP 503 that retry_http_503
 * covers, and after any re-send for one, a mutation has no second attempt.  "kept_connection_died" tells that the
 * send used a kept connection that ended before one byte of the answer came.
 * "jitter" is a random number in [0, 2^32).  On RESEND "*delay_ms" says how
 * long to wait first.  Takes the retry out of the budget and updates the state.
 */
extern verdict_retry_action
verdict_retry_next(const verdict_retry_policy *policy, verdict_retry_state *state,
				   verdict_retry_budget *budget, const verdict_status *status,
				   bool kept_connection_died, int64_t now_us, uint32_t jitter, int *delay_ms);

/*
 * Parses a Retry-After value: delta-seconds or an HTTP date (RFC 9110,
 * 10.2.3, 5.6.7), without blanks around it, against the wall clock.
 * Milliseconds, 0 for a date that is over, INT64_MAX for what cannot be counted,
 * -1 for anything else (NULL, negative, garbage): treated as absent.
 */
extern int64_t verdict_retry_after_ms(const char *value, int64_t wall_clock_s);

#endif /* VERDICT_RETRY_H */
