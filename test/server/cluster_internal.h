/*
 * cluster_internal.h
 *		Between the files of the cluster only.  Everything but the lock itself is
 *		read and changed with the lock held.
 */
#ifndef VERDICT_SERVER_CLUSTER_INTERNAL_H
#define VERDICT_SERVER_CLUSTER_INTERNAL_H

#include <pthread.h>

#include "change_log.h"
#include "cluster.h"
#include "route.h"

/* How a node is cut off from everybody. */
typedef enum cluster_cut
{
	CUT_NONE,
	CUT_REFUSE, /* it answers nothing and says so at once */
	CUT_HANG	/* it answers nothing */
} cluster_cut;

typedef struct cluster_node
{
	engine *engine;
	char *path;
	char *url;
	uint64_t position; /* of the last mutation applied */
	uint64_t received; /* of the last one it has */
	uint64_t shards[VERDICT_REVISION_MAX_SHARDS];
	int64_t lag_us;
	bool frozen;
	bool in_front;
	cluster_cut cut;
	uint64_t reads;		/* served by it */
	uint64_t mutations; /* applied by it as the writer */
	uint64_t waits;		/* reads that waited for it */
	uint64_t fallbacks; /* reads asked of it that the writer served for it */
} cluster_node;

/* A request that waits. */
typedef struct cluster_waiter
{
	struct cluster_waiter *next;
	cluster_request *request;
	void (*resume)(void *);
	void *argument;
} cluster_waiter;

struct cluster
{
	cluster_options options;
	pthread_mutex_t mutex;
	pthread_cond_t changed; /* something that the thread should look at */
	pthread_t thread;
	bool running; /* the thread is */
	bool stop;
	bool hurry;
	int asking; /* threads at the lock; without it */

	cluster_node nodes[CLUSTER_MAX_REPLICAS + 1];
	int count;
	int writer;
	char instance[VERDICT_REVISION_MAX_INSTANCE + 1];
	uint64_t generation;
	uint64_t acknowledged; /* the last position that was answered, this generation */
	uint64_t lost;		   /* mutations that failovers have lost */
	uint64_t rounds;
	change_log log;
	cluster_waiter *waiters;
};

extern void cluster_lock(cluster *cluster);
extern void cluster_unlock(cluster *cluster);
/* Has the thread look at everything anew. */
extern void cluster_wake(cluster *cluster);

/* The position that enough replicas have for an answer. */
extern uint64_t cluster_secured(const cluster *cluster);
/* With --sync: replicas that are connected have what the writer has. */
extern void cluster_receive(cluster *cluster);
/* Puts a mutation that the writer has applied into the log. */
extern void cluster_record(cluster *cluster, const engine_mutation *mutation, uint64_t position);
/* The shards that a mutation touches, a bit each. */
extern uint64_t cluster_touched(const cluster *cluster, const engine_mutation *mutation);

/* What cluster_enter() would say now; *until_us of a wait, *node of a serve. */
extern cluster_outcome
cluster_decide(const cluster *cluster, const cluster_request *request, int64_t now_us,
			   int64_t *until_us, int *node, cluster_failure *failure);

/*
 * Makes a replica (-1 = the one that has most) the writer of a new generation.
 * False with a message, and nothing changed, when it must not or cannot be.
 */
extern bool cluster_failover(cluster *cluster, int to, char *message, size_t message_size);

#endif /* VERDICT_SERVER_CLUSTER_INTERNAL_H */
