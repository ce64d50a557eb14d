/*
 * service.h
 *		The eight methods of verdict.v1.VerdictService, on top of the engine.
 *
 * A call is what one request needs from its headers to its answer.  It is used
 * in three steps, so that a fault can come between any two of them:
 *
 *	service_prepare()	checks credential, headers and body, decodes
 *	service_run()		has the engine do it, or says that it must wait for that
 *	call->answer		the body that goes out
 *
 * Whoever makes a call owns it; its memory is reused by service_call_reset().
 * All functions belong to the one thread that uses the engine; with a cluster,
 * which has a lock, any thread may call them, each call being one thread's.
 */
#ifndef VERDICT_SERVER_SERVICE_H
#define VERDICT_SERVER_SERVICE_H

#include "cluster.h"
#include "wire.h"

#include <stddef.h>
#include <stdint.h>

/* All paths of the service begin so, after the instance's own prefix. */
#define SERVICE_PATH "/verdict.v1.VerdictService/"

typedef struct service service;

typedef struct service_options
{
	/* One of the two. */
	engine *engine;
	cluster *cluster;
	/* Keys that are let in; none = everybody is.  Copied. */
	const char *const *api_keys;
	size_t api_key_count;
} service_options;

typedef struct service_method
{
	const char *name; /* "Authorize", ... */
	int index;		  /* 0 to SERVICE_METHOD_COUNT - 1 */
	bool mutation;
	engine_method engine_method; /* of a mutation */
	const ProtobufCMessageDescriptor *request;
} service_method;

#define SERVICE_METHOD_COUNT 8

/* In the order of the schema. */
extern const service_method service_methods[SERVICE_METHOD_COUNT];
/* NULL when there is no such method. */
extern const service_method *service_method_by_name(const char *name, size_t size);

/* Values as they came; NULL = absent. */
typedef struct service_headers
{
	const char *authorization;
	const char *protocol_version;
	const char *timeout_ms;
	const char *session_id;
	const char *revision;
	const char *consistency;
	const char *idempotency_key;
	const char *repeated; /* name of a header of these that came twice */
} service_headers;

typedef struct service_call
{
	/* What came. */
	const service_method *method;
	wire_format format;
	service_headers headers;
	int64_t started_us; /* of the monotonic clock: the deadline's start */
	int address;		/* with a cluster: see cluster_request */

	/* What became of it. */
	verdict_code code; /* VERDICT_OK until something fails */
	int http_status;   /* that goes out */
	bool executed;
	bool replayed;
	verdict_buffer answer; /* the body: of the format, or a JSON error */

	/* Own to service.c. */
	int64_t deadline_us; /* 0 = none */
	bool held;
	verdict_revision revision;
	cluster_request cluster;
	engine_mutation mutation;
	ProtobufCMessage *request;
	verdict_arena arena;
} service_call;

/* NULL when there is no memory. */
extern service *service_create(const service_options *options);
extern void service_destroy(service *service);

/* The call must not move after this.  Allocates nothing. */
extern void service_call_init(service_call *call);
/* As after init, with the memory kept. */
extern void service_call_reset(service_call *call);
extern void service_call_free(service_call *call);

/* Makes an error the answer of the call; always returns false. */
extern bool service_fail(service_call *call, verdict_code code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * Checks the credential alone, so that a stranger learns nothing else.  False
 * with VERDICT_UNAUTHENTICATED as the answer.
 */
extern bool service_admit(service *service, service_call *call);
/* Checks the headers and decodes the body.  False with the error as the answer. */
extern bool
service_prepare(service *service, service_call *call, const void *body, size_t body_size);
/*
 * Marks the key of a prepared mutation as running, before a delay.  False with
 * the error as the answer.  Nothing for a read or without a key.
 */
extern bool service_hold(service *service, service_call *call);
/* A wait that was ordered does not count against the caller's deadline. */
extern void service_forgive(service_call *call, int64_t waited_us);
typedef enum service_outcome
{
	SERVICE_ANSWERED, /* the answer, good or bad, is in the call */
	SERVICE_WAITS,	  /* call service_await(), then run it again */
	SERVICE_DROPPED	  /* close the connection without an answer */
} service_outcome;

/* Runs a prepared call.  Without a cluster it is answered. */
extern service_outcome service_run(service *service, service_call *call);
/* After SERVICE_WAITS: "resume" is called once, by any thread, when it is time. */
extern void
service_await(service *service, service_call *call, void (*resume)(void *), void *argument);
/* The Verdict-Revision header of the answer; NULL when it has none. */
extern const char *service_revision(const service_call *call);
/* The node that served it; -1 when none did, or there is no cluster. */
extern int service_node(const service_call *call);
/* Nothing waits from now on: what does is to be dropped. */
extern void service_hurry(service *service);
/* For a call that is dropped: takes a hold away. */
extern void service_drop(service *service, service_call *call);

/* Executions of a method since the start; from any thread. */
extern uint64_t service_executions(service *service, const service_method *method);

/* The host table of the server's own buffers: malloc() and free(). */
extern const verdict_host *service_host(void);

#endif /* VERDICT_SERVER_SERVICE_H */
