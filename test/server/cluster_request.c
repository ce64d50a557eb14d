/*
 * cluster_request.c
 *		What becomes of a request: which node serves it, whether it waits, why it
 *		fails.
 *
 * One function decides, without changing anything, so that the thread which looks
 * after those who wait asks the same question as the request itself.
 */
#include "cluster_internal.h"

#include "pool.h"
#include "text.h"
#include "timer.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of the wire contract: what a replica waits for a revision before the writer serves. */
#define WAIT_BUDGET_US 50000
/* Nothing that hangs is held longer, also for a caller without a deadline. */
#define HANG_US 60000000

static cluster_outcome fail(cluster_failure *failure, verdict_code code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static cluster_outcome
fail(cluster_failure *failure, verdict_code code, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(failure->message, sizeof(failure->message), format, arguments);
	va_end(arguments);
	failure->code = code;
	return CLUSTER_FAIL;
}

/* True when a node has applied all that a revision names. */
static bool
covers(const cluster *cluster, const cluster_node *node, const verdict_revision *revision)
{
	for (int i = 0; i < revision->shards; i++)
	{
		const verdict_position *wanted = &revision->positions[i];
		uint64_t reached =
			wanted->shard < (uint32_t) cluster->options.shards ? node->shards[wanted->shard] : 0;

		if (wanted->position > reached)
			return false;
	}
	return true;
}

/* The nodes that the front chooses from. */
static uint32_t
front_set(const cluster *cluster)
{
	uint32_t set = 0;

	for (int i = 0; i < cluster->count; i++)
		if (i != cluster->writer && cluster->nodes[i].in_front)
			set |= UINT32_C(1) << i;
	return set != 0 ? set : UINT32_C(1) << cluster->writer;
}

/* The node that has the request first; what only the writer can do, the front sends there. */
static int
route(const cluster *cluster, const cluster_request *request)
{
	char turn[24];

	if (request->address != CLUSTER_FRONT)
		return request->address;
	if (request->mutation || request->consistency == VERDICT_CONSISTENCY_AUTHORITATIVE)
		return cluster->writer;
	if (request->session_id != NULL)
		return route_pick(request->session_id, front_set(cluster));
	snprintf(turn, sizeof(turn), "%" PRIu64, request->round);
	return route_pick(turn, front_set(cluster));
}

/* A wait until something changes, as long as a caller or this program has patience. */
static cluster_outcome
hang(const cluster_request *request, int64_t now_us, int64_t *until_us, const char *what,
	 cluster_failure *failure)
{
	int64_t end_us = request->began_us + HANG_US;

	if (request->deadline_us != 0 && request->deadline_us < end_us)
		end_us = request->deadline_us;
	if (now_us >= end_us)
		return fail(failure, VERDICT_DEADLINE_EXCEEDED, "%s", what);
	*until_us = end_us;
	return CLUSTER_WAIT;
}

/* CLUSTER_SERVE when a node can be reached. */
static cluster_outcome
reach(const cluster *cluster, const cluster_request *request, int node, int64_t now_us,
	  int64_t *until_us, cluster_failure *failure)
{
	switch (cluster->nodes[node].cut)
	{
		case CUT_REFUSE:
			return fail(failure, VERDICT_UNAVAILABLE, "%s cannot be reached",
						node == cluster->writer ? "the writer" : "the replica");
		case CUT_HANG:
			return hang(request, now_us, until_us,
						node == cluster->writer ? "the writer does not answer"
												: "the replica does not answer",
						failure);
		case CUT_NONE:
			break;
	}
	return CLUSTER_SERVE;
}

/* A mutation that was applied and is not yet answered. */
static cluster_outcome
decide_committed(const cluster *cluster, const cluster_request *request, int64_t now_us,
				 int64_t *until_us, cluster_failure *failure)
{
	if (request->generation != cluster->generation)
		return fail(failure, VERDICT_UNAVAILABLE,
					"another node became the writer before enough replicas had the change");
	if (cluster_secured(cluster) >= request->position)
		return CLUSTER_ANSWERED;
	return hang(request, now_us, until_us, "too few replicas have the change", failure);
}

static cluster_outcome
decide_read(const cluster *cluster, const cluster_request *request, int asked, int64_t now_us,
			int64_t *until_us, int *node, cluster_failure *failure)
{
	const cluster_node *writer = &cluster->nodes[cluster->writer];
	const verdict_revision *revision = request->revision;
	cluster_outcome outcome;

	*node = asked;
	if (request->consistency == VERDICT_CONSISTENCY_EVENTUAL)
		return CLUSTER_SERVE;
	if (request->consistency == VERDICT_CONSISTENCY_AUTHORITATIVE)
	{
		*node = cluster->writer;
		outcome = reach(cluster, request, *node, now_us, until_us, failure);
		if (outcome != CLUSTER_SERVE)
			return outcome;
	}
	if (revision == NULL || covers(cluster, &cluster->nodes[*node], revision))
		return CLUSTER_SERVE;
	if (*node == cluster->writer || (writer->cut == CUT_NONE && !covers(cluster, writer, revision)))
		return fail(failure, VERDICT_FAILED_PRECONDITION,
					"the writer has not reached the revision");
	if (now_us < request->began_us + WAIT_BUDGET_US)
	{
		*until_us = request->began_us + WAIT_BUDGET_US;
		return CLUSTER_WAIT;
	}
	*node = cluster->writer;
	return reach(cluster, request, *node, now_us, until_us, failure);
}

cluster_outcome
cluster_decide(const cluster *cluster, const cluster_request *request, int64_t now_us,
			   int64_t *until_us, int *node, cluster_failure *failure)
{
	const verdict_revision *revision = request->revision;
	int asked = route(cluster, request);
	cluster_outcome outcome;

	if (request->committed)
		return decide_committed(cluster, request, now_us, until_us, failure);
	outcome = reach(cluster, request, asked, now_us, until_us, failure);
	/* At its own address a node that is cut off does not even say so. */
	if (outcome != CLUSTER_SERVE)
		return outcome == CLUSTER_FAIL && request->address != CLUSTER_FRONT ? CLUSTER_DROP
																			: outcome;
	if (revision != NULL && request->consistency != VERDICT_CONSISTENCY_EVENTUAL &&
		(strcmp(revision->instance, cluster->instance) != 0 ||
		 revision->generation != cluster->generation))
		return fail(failure, VERDICT_FAILED_PRECONDITION,
					"the revision is of another history; this is generation %" PRIu64
					" of instance %s",
					cluster->generation, cluster->instance);
	if (!request->mutation)
		return decide_read(cluster, request, asked, now_us, until_us, node, failure);
	*node = cluster->writer;
	return reach(cluster, request, *node, now_us, until_us, failure);
}

cluster_outcome
cluster_enter(cluster *cluster, cluster_request *request, engine **engine, cluster_failure *failure)
{
	int64_t now_us = monotonic_us();
	int64_t until_us;
	cluster_outcome outcome;
	int asked;

	cluster_lock(cluster);
	if (request->began_us == 0)
	{
		request->began_us = now_us;
		request->round = cluster->rounds++;
	}
	outcome = cluster_decide(cluster, request, now_us, &until_us, &request->node, failure);
	if (outcome == CLUSTER_SERVE)
	{
		asked = route(cluster, request);
		if (!request->mutation && request->node != asked &&
			request->consistency != VERDICT_CONSISTENCY_AUTHORITATIVE)
			cluster->nodes[asked].fallbacks++;
		*engine = cluster->nodes[request->node].engine;
		return outcome;
	}
	if (outcome == CLUSTER_WAIT && !request->mutation && !request->waited)
	{
		request->waited = true;
		cluster->nodes[route(cluster, request)].waits++;
	}
	if (outcome == CLUSTER_ANSWERED && request->position > cluster->acknowledged)
		cluster->acknowledged = request->position;
	cluster_unlock(cluster);
	return outcome;
}

/* The header of an answer at these positions, of the shards in the set. */
static void
print_revision(const cluster *cluster, const uint64_t *positions, uint64_t shards, char *text)
{
	verdict_revision revision;

	memset(&revision, 0, sizeof(revision));
	memcpy(revision.instance, cluster->instance, sizeof(revision.instance));
	revision.generation = cluster->generation;
	for (int i = 0; i < cluster->options.shards; i++)
	{
		if ((shards >> i & 1) == 0)
			continue;
		revision.positions[revision.shards].shard = (uint32_t) i;
		revision.positions[revision.shards++].position = positions[i];
	}
	verdict_revision_print(&revision, text);
}

void
cluster_leave(cluster *cluster, cluster_request *request, bool done)
{
	cluster_node *node = &cluster->nodes[request->node];

	if (done)
	{
		node->reads++;
		print_revision(cluster, node->shards, UINT64_MAX, request->served_at);
	}
	cluster_unlock(cluster);
}

cluster_outcome
cluster_leave_mutation(cluster *cluster, cluster_request *request, const engine_mutation *mutation,
					   const engine_answer *answer)
{
	uint64_t positions[VERDICT_REVISION_MAX_SHARDS];
	cluster_outcome outcome = CLUSTER_ANSWERED;

	if (answer != NULL)
	{
		if (!answer->replayed)
		{
			cluster->nodes[request->node].mutations++;
			cluster_record(cluster, mutation, answer->position);
		}
		request->committed = true;
		request->generation = cluster->generation;
		request->position = answer->position;
		for (int i = 0; i < cluster->options.shards; i++)
			positions[i] = answer->position;
		print_revision(cluster, positions, cluster_touched(cluster, mutation), request->served_at);
		if (cluster_secured(cluster) < request->position)
			outcome = CLUSTER_WAIT;
		else if (request->position > cluster->acknowledged)
			cluster->acknowledged = request->position;
	}
	cluster_unlock(cluster);
	return outcome;
}

void
cluster_await(cluster *cluster, cluster_request *request, void (*resume)(void *), void *argument)
{
	cluster_waiter *waiter = memory_alloc(sizeof(*waiter));

	waiter->request = request;
	waiter->resume = resume;
	waiter->argument = argument;
	cluster_lock(cluster);
	waiter->next = cluster->waiters;
	cluster->waiters = waiter;
	/* The thread looks whether it need wait at all. */
	cluster_wake(cluster);
	cluster_unlock(cluster);
}

bool
cluster_hold(cluster *cluster, cluster_request *request, const engine_mutation *mutation,
			 engine_error *error)
{
	bool done;

	cluster_lock(cluster);
	done = engine_hold(cluster_engine(cluster), mutation, error);
	if (done)
		request->held_generation = cluster->generation;
	cluster_unlock(cluster);
	return done;
}

void
cluster_release(cluster *cluster, cluster_request *request, const engine_mutation *mutation)
{
	cluster_lock(cluster);
	/* A later writer knows nothing of it. */
	if (request->held_generation == cluster->generation)
		engine_release(cluster_engine(cluster), mutation);
	request->held_generation = 0;
	cluster_unlock(cluster);
}
