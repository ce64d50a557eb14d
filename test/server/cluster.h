/*
 * cluster.h
 *		Several engines as one instance: a writer, and replicas that apply its
 *		mutations later.
 *
 * Each node is an engine with a store and a position of its own.  One lock guards
 * all of them, so any thread may ask; a thread of the cluster applies the changes
 * that are due at the replicas and wakes the requests that wait.
 *
 * The rules are those of the wire contract, "What an instance does".  Choices of
 * this instance where the contract leaves one:
 *
 *	- Mutations are applied everywhere in the order of the writer.  A mutation takes
 *	  one position, which becomes that of each shard it touches; a policy belongs
 *	  to shard 0.
 *	- An answer to a mutation carries the shards that it touched, an answer to a
 *	  read every shard of the node that served it.
 *	- Without --sync a replica has what it has applied.  With --sync a replica that
 *	  is not frozen receives a change at once and applies it after its lag; a
 *	  failover counts what was received.
 *	- The front sends a session to one of the replicas in its set; to the writer
 *	  when there is none.  Requests without a session id go round.
 *	- Replicas that were behind when the program ended are copied from the writer
 *	  when it starts again.
 */
#ifndef VERDICT_SERVER_CLUSTER_H
#define VERDICT_SERVER_CLUSTER_H

#include "engine.h"
#include "revision.h"
#include "session.h"
#include "status.h"

#include <jansson.h>

typedef struct cluster cluster;

#define CLUSTER_MAX_REPLICAS 16
#define CLUSTER_MAX_LAG_MS 600000

typedef struct cluster_options
{
	engine_options engine; /* replica n keeps its store at path.n */
	int replicas;		   /* from 1 */
	int64_t lag_ms;		   /* of each node at the start, while it is a replica */
	int shards;			   /* 1 to 64 */
	int sync;			   /* replicas that have a mutation before it is answered */
} cluster_options;

/* Life. */

/*
 * Opens the stores; the one that is furthest becomes the writer's, node 0.  NULL
 * with the error filled.
 */
extern cluster *cluster_open(const cluster_options *options, engine_error *error);
/* The writer's engine, to be used between cluster_open() and cluster_start() only. */
extern engine *cluster_engine(cluster *cluster);
/* Makes the replicas equal to the writer and starts to replicate. */
extern bool cluster_start(cluster *cluster, engine_error *error);
/* Ends every wait, from now on; nothing waits any more. */
extern void cluster_hurry(cluster *cluster);
/* After every request has ended.  NULL is allowed. */
extern void cluster_close(cluster *cluster);
/* Nodes are numbered from 0, the first writer, to this less 1. */
extern int cluster_count(const cluster *cluster);
/* Tells the address of a node, for the figures. */
extern void cluster_set_url(cluster *cluster, int node, const char *url);

/* Requests. */

#define CLUSTER_FRONT (-1)

/* What the cluster knows of a request; all zero but for the first part at first. */
typedef struct cluster_request
{
	int address;					  /* the node whose address it came to, or CLUSTER_FRONT */
	const char *session_id;			  /* NULL = none */
	verdict_consistency consistency;  /* DEFAULT = session */
	const verdict_revision *revision; /* that it sent; NULL = none */
	bool mutation;
	int64_t deadline_us; /* 0 = none */

	/* Own to the cluster. */
	int64_t began_us;
	uint64_t round; /* its turn, when it has no session id */
	bool waited;
	int node; /* that serves it */
	bool committed;
	uint64_t generation; /* in which it was committed */
	uint64_t position;
	uint64_t held_generation; /* 0 = no key of it is held */

	/* Of a successful answer: the Verdict-Revision header. */
	char served_at[VERDICT_REVISION_MAX_TEXT + 1];
} cluster_request;

typedef enum cluster_outcome
{
	CLUSTER_SERVE,	  /* use the engine now */
	CLUSTER_ANSWERED, /* the answer that is there may go out */
	CLUSTER_WAIT,	  /* call cluster_await(), then enter again */
	CLUSTER_FAIL,
	CLUSTER_DROP /* close the connection without an answer */
} cluster_outcome;

typedef struct cluster_failure
{
	verdict_code code;
	char message[256];
} cluster_failure;

/*
 * Decides what becomes of a request.  After CLUSTER_SERVE, and only then, the
 * engine is the caller's until cluster_leave(), which must follow.
 */
extern cluster_outcome cluster_enter(cluster *cluster, cluster_request *request, engine **engine,
									 cluster_failure *failure);
/* The engine is not needed any more; "done" tells that a read succeeded. */
extern void cluster_leave(cluster *cluster, cluster_request *request, bool done);
/*
 * Likewise after a mutation; answer is NULL when it failed.  CLUSTER_ANSWERED, or
 * CLUSTER_WAIT when too few replicas have it yet.
 */
extern cluster_outcome
cluster_leave_mutation(cluster *cluster, cluster_request *request, const engine_mutation *mutation,
					   const engine_answer *answer);
/*
 * After CLUSTER_WAIT: has "resume" called once, by any thread, when it is worth to
 * enter again.  The request must stay until then.
 */
extern void
cluster_await(cluster *cluster, cluster_request *request, void (*resume)(void *), void *argument);
/* engine_hold() and engine_release() at the writer. */
extern bool cluster_hold(cluster *cluster, cluster_request *request,
						 const engine_mutation *mutation, engine_error *error);
extern void
cluster_release(cluster *cluster, cluster_request *request, const engine_mutation *mutation);

/* Orders and figures, of the admin address; see admin.h.  From any thread. */

/* A new object; NULL when there is no memory. */
extern json_t *cluster_json(cluster *cluster);
/* {"lag_ms": n, "frozen": b, "front": b, "cut": null, "refuse" or "hang"}, each optional. */
extern bool
cluster_order_node(cluster *cluster, int node, json_t *order, char *message, size_t message_size);
/* {"to": n}, or {} for the replica that has most. */
extern bool
cluster_order_failover(cluster *cluster, json_t *order, char *message, size_t message_size);

#endif /* VERDICT_SERVER_CLUSTER_H */
