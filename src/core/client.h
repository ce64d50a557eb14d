/*
 * client.h
 *		The client of a Verdict instance: the only header the outside includes.
 *
 * A process has one runtime (libcurl's multi handle, DNS answers); it must be
 * made after fork.  A client is one identity at one instance: the options below
 * decide it, and its connections and TLS sessions are its own.  Destroying a
 * client closes its connections at once.
 *
 * Every call takes a session, whose rules it follows, and fills a status
 * whether it succeeds or fails.  A call returns false exactly when
 * status->code is not VERDICT_OK.  No call ever turns a failure into an answer.
 *
 * Calls wait by the host's wait function; after VERDICT_WAIT_INTERRUPTED they
 * return VERDICT_CANCELED at once and the next call works.
 */
#ifndef VERDICT_CLIENT_H
#define VERDICT_CLIENT_H

#include "codec.h"
#include "idempotency.h"
#include "retry.h"
#include "session.h"
#include "value.h"

typedef struct verdict_runtime verdict_runtime;
typedef struct verdict_client verdict_client;

typedef enum verdict_http_version
{
	VERDICT_HTTP_1_1,
	VERDICT_HTTP_2 /* by ALPN over TLS; 1.1 when the peer has no 2 */
} verdict_http_version;

typedef enum verdict_method
{
	VERDICT_METHOD_AUTHORIZE,
	VERDICT_METHOD_QUERY,
	VERDICT_METHOD_LIST_FACTS,
	VERDICT_METHOD_GET_POLICY,
	VERDICT_METHOD_INSERT_FACT,
	VERDICT_METHOD_DELETE_FACT,
	VERDICT_METHOD_BATCH_FACTS,
	VERDICT_METHOD_SET_POLICY
} verdict_method;

#define VERDICT_METHODS (VERDICT_METHOD_SET_POLICY + 1)

/* "Authorize", "Query", ... as they stand in the path. */
extern const char *verdict_method_name(verdict_method method);

/* What became of one call; of many checks made together, each is one. */
typedef struct verdict_call_report
{
	verdict_method method;
	const verdict_status *status; /* gone when the supervisor returns */
	int64_t duration_us;		  /* of the whole call, waits included */
	int retries;				  /* of any kind; waits_503 of them after a wait */
	int waits_503;
	bool budget_refused;	/* it ended because the budget was spent */
	int64_t bytes_sent;		/* of bodies, all sends together */
	int64_t bytes_received; /* likewise, as they came: compressed ones as such */
} verdict_call_report;

/*
 * Who stands above a client: lets calls begin, keeps the retry budget where others
 * may share it, and is told how calls ended.  A function that is NULL is not asked;
 * a client without lock_budget has a budget of its own.  None may leave by
 * longjmp, nor call the client.
 */
typedef struct verdict_supervisor
{
	void *context;

	/*
	 * Before calls are made that belong together: may "count" of them be made now?
	 * False, and the function fails with VERDICT_CAUSE_LIMIT, nothing sent.
	 * "*within_ms", which is 0, may be set to the time they have at most.
	 */
	bool (*admit)(void *context, size_t count, int *within_ms);
	/*
	 * The budget, for as long as it takes to decide about one send: no wait, no
	 * other function of the host or the supervisor comes before unlock_budget().
	 */
	verdict_retry_budget *(*lock_budget)(void *context);
	void (*unlock_budget)(void *context);
	/* After each call that was admitted, whatever its end. */
	void (*ended)(void *context, const verdict_call_report *report);
} verdict_supervisor;

#define VERDICT_TIMEOUT_MIN_MS 1
#define VERDICT_TIMEOUT_MAX_MS 55000
#define VERDICT_MUTATION_ATTEMPT_TIMEOUT_MS 12000
#define VERDICT_MUTATION_OVERALL_TIMEOUT_MS 30000
#define VERDICT_READ_TIMEOUT_MS 10000
#define VERDICT_RESPONSE_BYTES_MIN 1024
#define VERDICT_RESPONSE_BYTES_DEFAULT (16 * 1024 * 1024)
#define VERDICT_RESPONSE_BYTES_MAX (1024 * 1024 * 1024 - 1)

typedef struct verdict_client_options
{
	const char *instance_url; /* http:// or https://, path prefix allowed */
	const char *api_key;	  /* NULL = no Authorization header */
	const char *ssl_ca_file;  /* PEM file; NULL = libcurl's own trust store */
	verdict_wire_format wire_format;
	verdict_http_version http_version;
	verdict_retry_owner retry_owner;
	bool retry_http_503;
	int mutation_attempt_timeout_ms;
	int mutation_overall_timeout_ms;
	int read_timeout_ms;
	size_t max_response_bytes; /* after decompression */
	/* Must outlive the client; NULL = nobody. */
	const verdict_supervisor *supervisor;
} verdict_client_options;

/* Everything by its default; instance_url, api_key and supervisor NULL. */
extern void verdict_client_options_init(verdict_client_options *options);

/*
 * Checks an instance URL: scheme http or https, a host, no user or password, no
 * query, no fragment, no control characters.  The validator and
 * verdict_client_create() both come here.
 */
extern bool verdict_instance_url_check(const char *url, verdict_status *status);
/* Visible ASCII, not empty: what can stand in an Authorization header. */
extern bool verdict_api_key_check(const char *api_key, verdict_status *status);

/* "host" must outlive the runtime.  NULL with a status on failure. */
extern verdict_runtime *verdict_runtime_create(const verdict_host *host, verdict_status *status);
/* After all its clients. */
extern void verdict_runtime_destroy(verdict_runtime *runtime);
/* libcurl's version text, for verdict_version(). */
extern const char *verdict_runtime_libcurl_version(void);

/* Copies the options.  NULL with a status on failure. */
extern verdict_client *
verdict_client_create(verdict_runtime *runtime, const verdict_client_options *options,
					  verdict_status *status);
extern void verdict_client_destroy(verdict_client *client);
/* What bounds its reads, milliseconds. */
extern int verdict_client_read_timeout_ms(const verdict_client *client);

/*
 * Reads.  "deadline_ms" bounds this call further (0 = only the client's
 * read_timeout_ms).  "consistency" DEFAULT takes the session's.
 */
typedef struct verdict_read_options
{
	verdict_consistency consistency;
	int deadline_ms;
} verdict_read_options;

typedef struct verdict_check
{
	verdict_identity actor;
	const char *action;
	verdict_identity resource;
} verdict_check;

extern bool
verdict_client_authorize(verdict_client *client, verdict_session *session,
						 const verdict_check *check, const verdict_read_options *options,
						 bool *allowed, verdict_status *status);

/*
 * Many checks, at most VERDICT_MAX_IN_FLIGHT of them under way together.  All
 * or nothing: false with the status of the first that failed ends the rest, and
 * "allowed" then holds false everywhere.
 */
#define VERDICT_MAX_IN_FLIGHT 8
extern bool verdict_client_authorize_many(verdict_client *client, verdict_session *session,
										  const verdict_check *checks, size_t count,
										  const verdict_read_options *options, bool *allowed,
										  verdict_status *status);

/* The caller frees *rows by verdict_rows_free().  A cut answer is not an error
 * here: ask verdict_rows_truncated(). */
extern bool
verdict_client_query(verdict_client *client, verdict_session *session, const verdict_fact *pattern,
					 uint32_t limit, const verdict_read_options *options, verdict_rows **rows,
					 verdict_status *status);
/* One page.  "pattern" NULL lists every fact. */
extern bool
verdict_client_list_facts(verdict_client *client, verdict_session *session,
						  const verdict_fact *pattern, uint32_t limit, const void *after,
						  size_t after_size, const verdict_read_options *options,
						  verdict_rows **rows, verdict_status *status);
/* The policy lives in the caller's arena. */
extern bool verdict_client_get_policy(verdict_client *client, verdict_session *session,
									  const verdict_read_options *options, verdict_arena *arena,
									  const char **policy, verdict_status *status);

/*
 * Mutations.  A mutation is prepared once (encoded; its payload can be hashed
 * into a key, kept, fingerprinted) and then sent under a key; sent again under
 * the same key it is the same bytes.
 *
 * Sends one mutation.  "payload" is the request in the binary wire format, as
 * the encoders of codec.h make it; a client of the JSON format translates it.
 * "key" NULL makes a fresh UUID, used for all attempts of this call.
 * "*changed" is 0 or 1 for one fact, the count for a batch, 0 for a policy.
 * "deadline_ms" bounds the call further (0 = only the client's overall time-out).
 */
extern bool
verdict_client_mutate(verdict_client *client, verdict_session *session, verdict_method method,
					  const void *payload, size_t payload_size, const char *key, int deadline_ms,
					  uint32_t *changed, verdict_status *status);

#endif /* VERDICT_CLIENT_H */
