/*
 * call.h
 *		Carries out calls: sends, waits, sends again where retry.h says so, and
 *		makes of what comes back one result.
 *
 * Internal to the client.  Many calls and one call go through the same loop; up
 * to VERDICT_MAX_IN_FLIGHT are under way together, each with its own backoff.
 */
#ifndef VERDICT_CALL_H
#define VERDICT_CALL_H

#include "transport.h"

typedef enum verdict_call_phase
{
	VERDICT_CALL_IDLE,
	VERDICT_CALL_DUE,	 /* to be sent as soon as the pool allows */
	VERDICT_CALL_SENT,	 /* an exchange is under way */
	VERDICT_CALL_WAITING /* until wake_us, then due */
} verdict_call_phase;

typedef struct verdict_call
{
	/* What is asked; the body and below by the function that prepares the call. */
	verdict_method method;
	size_t index;			/* of this call among those that run together */
	verdict_buffer request; /* room for the body */
	const void *body;		/* the same bytes for every send */
	size_t body_size;
	verdict_consistency consistency; /* reads; DEFAULT = the session's */
	const char *key;				 /* mutations; NULL for reads */
	int timeout_ms;					 /* of the whole call */

	/* What happens to it. */
	verdict_call_phase phase;
	verdict_retry_policy policy;
	verdict_retry_state retry;
	verdict_exchange *exchange;
	verdict_buffer lines; /* request headers */
	size_t lines_lasting; /* bytes of them that are the same for every send */
	int64_t deadline_us;  /* of the send under way */
	int64_t wake_us;
	bool fresh_connection; /* for the next send */
	bool maybe_applied;	   /* a send before left that open */
	int64_t bytes_sent;	   /* of bodies, so far */
	int64_t bytes_received;
	verdict_status status;
} verdict_call;

/* The work of one function of client.h. */
typedef struct verdict_work verdict_work;
struct verdict_work
{
	size_t count; /* calls to make */
	verdict_method method;
	verdict_session *session;
	/* Fills in what is asked by call->index; false with a status. */
	bool (*prepare)(verdict_client *client, const verdict_work *work, verdict_call *call,
					verdict_status *status);
	/*
	 * Decodes the answer and keeps what it says; false with a status.  May take
	 * the body over from the exchange.
	 */
	bool (*decode)(verdict_client *client, const verdict_work *work, const verdict_call *call,
				   verdict_exchange *exchange, verdict_status *status);
	void *context;
};

#define VERDICT_RANDOM_BLOCK 512

struct verdict_client
{
	verdict_runtime *runtime;
	const verdict_host *host;
	verdict_pool *pool;
	verdict_client_options options; /* its strings are not kept */
	char *urls;						/* of all methods, one allocation */
	const char *url[VERDICT_METHODS];
	char *headers; /* constant lines; hold the API key */
	size_t headers_size;
	verdict_retry_budget budget; /* without a supervisor's */
	verdict_arena scratch;		 /* error bodies, translated payloads */
	verdict_call calls[VERDICT_MAX_IN_FLIGHT];

	/* Random bytes, fetched in blocks; the table below draws from them. */
	unsigned char random[VERDICT_RANDOM_BLOCK];
	size_t random_left;
	verdict_host random_source;
};

/*
 * Makes all calls of the work.  False, with the status of the first that
 * failed, after the others were ended; true when all succeeded, with the status
 * of one of them.  The session takes in what successful answers carried,
 * whatever becomes of the other calls.
 */
extern bool
verdict_client_run(verdict_client *client, const verdict_work *work, verdict_status *status);

#endif /* VERDICT_CALL_H */
