/*
 * cluster.c
 *		The nodes: opening, replicating, failing over, closing.
 *
 * The thread applies one change at a time and lets requests in between.  A node
 * whose next change has left the log, or which has what the writer has not, is
 * made anew from the writer's store.
 */
#include "cluster_internal.h"

#include "pool.h"
#include "text.h"
#include "timer.h"

#include <inttypes.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the log may hold for nodes that do not take their changes. */
#define LOG_BYTES ((size_t) 64 * 1024 * 1024)

void
cluster_lock(cluster *cluster)
{
	__atomic_add_fetch(&cluster->asking, 1, __ATOMIC_RELAXED);
	pthread_mutex_lock(&cluster->mutex);
	__atomic_sub_fetch(&cluster->asking, 1, __ATOMIC_RELAXED);
}

void
cluster_unlock(cluster *cluster)
{
	pthread_mutex_unlock(&cluster->mutex);
}

void
cluster_wake(cluster *cluster)
{
	pthread_cond_signal(&cluster->changed);
}

/* A store that can be neither used nor made anew leaves nothing to go on with. */
static void
give_up(int node, const engine_error *error)
{
	fprintf(stderr, "verdict-dev: node %d: %s\n", node, error->message);
	exit(1);
}

/* Opening. */

static engine *
open_node(const cluster *cluster, int node, engine *copy_of, engine_error *error)
{
	engine_options options = cluster->options.engine;

	options.path = cluster->nodes[node].path;
	options.copy_of = copy_of;
	return engine_open(&options, error);
}

static char *
node_path(const char *path, int node)
{
	char text[4096];

	if (node == 0 || strcmp(path, ":memory:") == 0)
		return memory_copy(path);
	snprintf(text, sizeof(text), "%s.%d", path, node);
	return memory_copy(text);
}

/* True when an engine has more history than another. */
static bool
is_further(const engine *a, const engine *b)
{
	uint64_t generation[2];
	uint64_t position[2];

	engine_position(a, &generation[0], &position[0]);
	engine_position(b, &generation[1], &position[1]);
	return generation[0] != generation[1] ? generation[0] > generation[1]
										  : position[0] > position[1];
}

/* Opens the files that are there, and puts the furthest into node 0. */
static bool
open_nodes(cluster *cluster, engine_error *error)
{
	int best = 0;

	for (int i = 0; i < cluster->count; i++)
	{
		cluster_node *node = &cluster->nodes[i];

		node->path = node_path(cluster->options.engine.path, i);
		if (i > 0 && access(node->path, F_OK) != 0)
			continue;
		node->engine = open_node(cluster, i, NULL, error);
		if (node->engine == NULL)
			return false;
		if (is_further(node->engine, cluster->nodes[best].engine))
			best = i;
	}
	if (best == 0)
		return true;
	engine_close(cluster->nodes[0].engine);
	cluster->nodes[0].engine = open_node(cluster, 0, cluster->nodes[best].engine, error);
	return cluster->nodes[0].engine != NULL;
}

cluster *
cluster_open(const cluster_options *options, engine_error *error)
{
	cluster *cluster = memory_alloc(sizeof(*cluster));
	pthread_condattr_t attributes;
	unsigned char random[8] = {0};
	char name[2 * sizeof(random) + 1];

	memset(cluster, 0, sizeof(*cluster));
	cluster->options = *options;
	cluster->count = options->replicas + 1;
	pthread_mutex_init(&cluster->mutex, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&cluster->changed, &attributes);
	pthread_condattr_destroy(&attributes);
	RAND_bytes(random, sizeof(random));
	for (size_t i = 0; i < sizeof(random); i++)
		snprintf(name + 2 * i, 3, "%02x", random[i]);
	if (open_nodes(cluster, error) &&
		engine_instance(cluster->nodes[0].engine, name, cluster->instance,
						sizeof(cluster->instance), error))
		return cluster;
	cluster_close(cluster);
	return NULL;
}

engine *
cluster_engine(cluster *cluster)
{
	return cluster->nodes[cluster->writer].engine;
}

int
cluster_count(const cluster *cluster)
{
	return cluster->count;
}

void
cluster_set_url(cluster *cluster, int node, const char *url)
{
	cluster_lock(cluster);
	free(cluster->nodes[node].url);
	cluster->nodes[node].url = memory_copy(url);
	cluster_unlock(cluster);
}

/* Nodes. */

/* Makes a node equal to the writer. */
static bool
copy_node(cluster *cluster, int number, engine_error *error)
{
	cluster_node *node = &cluster->nodes[number];
	cluster_node *writer = &cluster->nodes[cluster->writer];

	engine_close(node->engine);
	node->engine = open_node(cluster, number, writer->engine, error);
	if (node->engine == NULL || !engine_set_durable(node->engine, false, error))
		return false;
	node->position = node->received = writer->position;
	memcpy(node->shards, writer->shards, sizeof(node->shards));
	return true;
}

/* True when a replica of a program that ran before needs no copy. */
static bool
is_equal(cluster *cluster, cluster_node *node)
{
	engine *writer = cluster->nodes[cluster->writer].engine;
	char name[VERDICT_REVISION_MAX_INSTANCE + 1];
	engine_error error;

	return node->engine != NULL && !is_further(writer, node->engine) &&
		   !is_further(node->engine, writer) &&
		   engine_instance(node->engine, cluster->instance, name, sizeof(name), &error) &&
		   strcmp(name, cluster->instance) == 0 && engine_set_durable(node->engine, false, &error);
}

static void
note_start(cluster *cluster, cluster_node *node)
{
	engine_position(node->engine, &cluster->generation, &node->position);
	node->received = node->position;
	/* Every shard has seen at least what the node has. */
	for (int i = 0; i < cluster->options.shards; i++)
		node->shards[i] = node->position;
	node->lag_us = cluster->options.lag_ms * 1000;
	node->in_front = true;
}

/* With --sync a change is received when it is committed; else when it is applied. */
static bool
is_connected(const cluster *cluster, const cluster_node *node)
{
	return !node->frozen && node->cut == CUT_NONE &&
		   cluster->nodes[cluster->writer].cut == CUT_NONE;
}

void
cluster_receive(cluster *cluster)
{
	uint64_t position = cluster->nodes[cluster->writer].position;

	for (int i = 0; cluster->options.sync > 0 && i < cluster->count; i++)
		if (is_connected(cluster, &cluster->nodes[i]))
			cluster->nodes[i].received = position;
}

static int
compare_down(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *) a;
	uint64_t y = *(const uint64_t *) b;

	return x < y ? 1 : x > y ? -1 : 0;
}

uint64_t
cluster_secured(const cluster *cluster)
{
	uint64_t received[CLUSTER_MAX_REPLICAS];
	size_t count = 0;

	if (cluster->options.sync == 0)
		return UINT64_MAX;
	for (int i = 0; i < cluster->count; i++)
		if (i != cluster->writer)
			received[count++] = cluster->nodes[i].received;
	qsort(received, count, sizeof(*received), compare_down);
	return received[cluster->options.sync - 1];
}

static void
advance(cluster *cluster, cluster_node *node, uint64_t position, uint64_t touched)
{
	node->position = position;
	if (node->received < position)
		node->received = position;
	for (int i = 0; i < cluster->options.shards; i++)
		if ((touched >> i & 1) != 0)
			node->shards[i] = position;
}

/* Applies the next change of a node; false, and it is frozen, when that fails. */
static bool
apply_next(cluster *cluster, int number, const change *change)
{
	cluster_node *node = &cluster->nodes[number];
	engine_error error;

	if (change_apply(change, node->engine, &error))
	{
		advance(cluster, node, change->position, change->shards);
		return true;
	}
	fprintf(stderr, "verdict-dev: node %d is frozen: %s\n", number, error.message);
	node->frozen = true;
	return false;
}

/* Lets the oldest change go; who has received it and not applied it does so before. */
static void
drop_oldest(cluster *cluster)
{
	uint64_t oldest = cluster->log.first;

	for (int i = 0; i < cluster->count; i++)
	{
		cluster_node *node = &cluster->nodes[i];

		if (node->position + 1 == oldest && node->received >= oldest)
			apply_next(cluster, i, change_log_at(&cluster->log, oldest));
		/* What can be applied no more, it does not have. */
		if (node->position < oldest)
			node->received = node->position;
	}
	change_log_trim(&cluster->log, oldest);
}

/* Forgets what every node has applied, and more when it gets too much. */
static void
trim(cluster *cluster)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < cluster->count; i++)
		if (cluster->nodes[i].position < least)
			least = cluster->nodes[i].position;
	change_log_trim(&cluster->log, least);
	while (cluster->log.bytes > LOG_BYTES && cluster->log.count > 1)
		drop_oldest(cluster);
}

uint64_t
cluster_touched(const cluster *cluster, const engine_mutation *mutation)
{
	const Verdict__V1__BatchFactsRequest *batch;
	const Verdict__V1__Fact *fact;
	int shards = cluster->options.shards;
	uint64_t touched = 0;

	switch (mutation->method)
	{
		case ENGINE_INSERT_FACT:
			fact = ((const Verdict__V1__InsertFactRequest *) mutation->request)->fact;
			return UINT64_C(1) << route_shard(fact->predicate, shards);
		case ENGINE_DELETE_FACT:
			fact = ((const Verdict__V1__DeleteFactRequest *) mutation->request)->fact;
			return UINT64_C(1) << route_shard(fact->predicate, shards);
		case ENGINE_BATCH_FACTS:
			batch = (const Verdict__V1__BatchFactsRequest *) mutation->request;
			for (size_t i = 0; i < batch->n_changes; i++)
			{
				const Verdict__V1__FactChange *change = batch->changes[i];

				fact = change->change_case == VERDICT__V1__FACT_CHANGE__CHANGE_INSERT
						   ? change->insert
						   : change->delete_;
				touched |= UINT64_C(1) << route_shard(fact->predicate, shards);
			}
			break;
		case ENGINE_SET_POLICY:
			break;
	}
	return touched != 0 ? touched : 1;
}

void
cluster_record(cluster *cluster, const engine_mutation *mutation, uint64_t position)
{
	uint64_t touched = cluster_touched(cluster, mutation);

	change_log_append(&cluster->log, mutation, position, touched);
	advance(cluster, &cluster->nodes[cluster->writer], position, touched);
	cluster_receive(cluster);
	trim(cluster);
	cluster_wake(cluster);
}

/*
 * Brings a replica one step on when that is due.  Else *due_us is lowered to the
 * time when it will be.
 */
static bool
replicate(cluster *cluster, int number, int64_t now_us, int64_t *due_us)
{
	cluster_node *node = &cluster->nodes[number];
	const change *change = change_log_at(&cluster->log, node->position + 1);
	bool may = cluster->options.sync > 0
				   ? !node->frozen && node->cut == CUT_NONE && node->received > node->position
				   : is_connected(cluster, node);
	int64_t due;

	if (number == cluster->writer)
		return false;
	if (change == NULL)
	{
		engine_error error;

		if (node->position == cluster->nodes[cluster->writer].position ||
			!is_connected(cluster, node))
			return false;
		if (!copy_node(cluster, number, &error))
			give_up(number, &error);
		return true;
	}
	if (!may)
		return false;
	due = change->committed_us + node->lag_us;
	if (due > now_us)
	{
		if (due < *due_us)
			*due_us = due;
		return false;
	}
	return apply_next(cluster, number, change);
}

/* Resumes who need not wait any more; *due_us as above. */
static void
wake_waiters(cluster *cluster, int64_t now_us, int64_t *due_us)
{
	cluster_waiter **link = &cluster->waiters;

	while (*link != NULL)
	{
		cluster_waiter *waiter = *link;
		cluster_failure failure;
		int64_t until_us = now_us;
		int node;

		if (!cluster->hurry && cluster_decide(cluster, waiter->request, now_us, &until_us, &node,
											  &failure) == CLUSTER_WAIT)
		{
			if (until_us < *due_us)
				*due_us = until_us;
			link = &waiter->next;
			continue;
		}
		*link = waiter->next;
		waiter->resume(waiter->argument);
		free(waiter);
	}
}

static void *
cluster_thread(void *argument)
{
	cluster *cluster = argument;

	pthread_mutex_lock(&cluster->mutex);
	while (!cluster->stop)
	{
		int64_t now_us = monotonic_us();
		int64_t due_us = INT64_MAX;
		bool progress = false;

		for (int i = 0; i < cluster->count; i++)
			progress = replicate(cluster, i, now_us, &due_us) || progress;
		if (progress)
			trim(cluster);
		wake_waiters(cluster, now_us, &due_us);
		if (progress)
		{
			/* The lock is not fair: who waits for it must come to have it. */
			if (__atomic_load_n(&cluster->asking, __ATOMIC_RELAXED) > 0)
			{
				pthread_mutex_unlock(&cluster->mutex);
				usleep(20);
				pthread_mutex_lock(&cluster->mutex);
			}
		}
		else if (due_us == INT64_MAX)
			pthread_cond_wait(&cluster->changed, &cluster->mutex);
		else
		{
			struct timespec due = {due_us / 1000000, due_us % 1000000 * 1000};

			pthread_cond_timedwait(&cluster->changed, &cluster->mutex, &due);
		}
	}
	pthread_mutex_unlock(&cluster->mutex);
	return NULL;
}

bool
cluster_start(cluster *cluster, engine_error *error)
{
	note_start(cluster, &cluster->nodes[0]);
	for (int i = 1; i < cluster->count; i++)
	{
		cluster_node *node = &cluster->nodes[i];

		if (!is_equal(cluster, node) && !copy_node(cluster, i, error))
			return false;
		note_start(cluster, node);
	}
	if (pthread_create(&cluster->thread, NULL, cluster_thread, cluster) != 0)
		return engine_fail(error, ENGINE_INTERNAL, "cannot start a thread");
	cluster->running = true;
	return true;
}

/* Failover. */

/* The node to become the writer; -1 with a message when there is none. */
static int
choose(const cluster *cluster, int to, char *message, size_t message_size)
{
	bool any = to < 0;

	for (int i = 0; any && i < cluster->count; i++)
	{
		if (i == cluster->writer || cluster->nodes[i].cut != CUT_NONE)
			continue;
		if (to < 0 || cluster->nodes[i].received > cluster->nodes[to].received)
			to = i;
	}
	if (to < 0 || to >= cluster->count)
		snprintf(message, message_size, "there is no such replica that is not cut off");
	else if (to == cluster->writer)
		snprintf(message, message_size, "node %d is the writer", to);
	else if (cluster->nodes[to].cut != CUT_NONE)
		snprintf(message, message_size, "node %d is cut off", to);
	else if (cluster->options.sync > 0 && cluster->nodes[to].received < cluster->acknowledged)
		snprintf(message, message_size,
				 "node %d has the changes up to %" PRIu64 ", but %" PRIu64 " was acknowledged", to,
				 cluster->nodes[to].received, cluster->acknowledged);
	else
		return to;
	return -1;
}

bool
cluster_failover(cluster *cluster, int to, char *message, size_t message_size)
{
	cluster_node *node;
	const change *change;
	engine_error error;

	to = choose(cluster, to, message, message_size);
	if (to < 0)
		return false;
	node = &cluster->nodes[to];
	while (node->position < node->received &&
		   (change = change_log_at(&cluster->log, node->position + 1)) != NULL)
	{
		if (!apply_next(cluster, to, change))
		{
			snprintf(message, message_size, "node %d cannot apply what it has received", to);
			return false;
		}
	}
	if (!engine_set_durable(node->engine, true, &error) ||
		!engine_set_generation(node->engine, cluster->generation + 1, &error))
	{
		snprintf(message, message_size, "%s", error.message);
		return false;
	}
	/* See cluster_release(). */
	engine_release_all(cluster_engine(cluster));
	cluster->lost += cluster->nodes[cluster->writer].position - node->position;
	cluster->generation++;
	cluster->writer = to;
	cluster->acknowledged = node->position;
	change_log_cut(&cluster->log, node->position);
	for (int i = 0; i < cluster->count; i++)
	{
		cluster_node *other = &cluster->nodes[i];
		bool good = true;

		if (i == to)
			continue;
		if (other->position > node->position)
			good = copy_node(cluster, i, &error);
		else
			good = engine_set_generation(other->engine, cluster->generation, &error);
		if (!good)
			give_up(i, &error);
		if (other->received > node->position)
			other->received = node->position;
	}
	cluster_receive(cluster);
	cluster_wake(cluster);
	return true;
}

/* Closing. */

void
cluster_hurry(cluster *cluster)
{
	cluster_lock(cluster);
	cluster->hurry = true;
	cluster_wake(cluster);
	cluster_unlock(cluster);
}

void
cluster_close(cluster *cluster)
{
	if (cluster == NULL)
		return;
	if (cluster->running)
	{
		cluster_lock(cluster);
		cluster->stop = true;
		cluster_wake(cluster);
		cluster_unlock(cluster);
		pthread_join(cluster->thread, NULL);
	}
	for (int i = 0; i < cluster->count; i++)
	{
		engine_close(cluster->nodes[i].engine);
		free(cluster->nodes[i].path);
		free(cluster->nodes[i].url);
	}
	change_log_trim(&cluster->log, UINT64_MAX);
	pthread_cond_destroy(&cluster->changed);
	pthread_mutex_destroy(&cluster->mutex);
	free(cluster);
}
