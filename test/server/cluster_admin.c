/*
 * cluster_admin.c
 *		Figures as JSON, and orders from JSON: the admin address's view.
 *
 * An order is checked whole before anything of it is done.
 */
#include "cluster_internal.h"

#include "timer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const cut_names[] = {
	[CUT_NONE] = NULL, [CUT_REFUSE] = "refuse", [CUT_HANG] = "hang"};

/* The positions of a node, as in a revision: "7" or "0:7,1:5". */
static json_t *
positions_json(const cluster *cluster, const cluster_node *node)
{
	char text[VERDICT_REVISION_MAX_TEXT + 1];
	size_t used = 0;

	if (cluster->options.shards == 1)
		return json_sprintf("%" PRIu64, node->shards[0]);
	for (int i = 0; i < cluster->options.shards; i++)
		used += (size_t) snprintf(text + used, sizeof(text) - used, "%s%d:%" PRIu64,
								  i > 0 ? "," : "", i, node->shards[i]);
	return json_string(text);
}

/* How long the oldest change that a node lacks has been there. */
static int64_t
behind_us(const cluster *cluster, const cluster_node *node)
{
	const change *change = change_log_at(&cluster->log, node->position + 1);

	return change == NULL ? 0 : monotonic_us() - change->committed_us;
}

static json_t *
node_json(const cluster *cluster, int number)
{
	const cluster_node *node = &cluster->nodes[number];
	uint64_t last = cluster->nodes[cluster->writer].position;

	return json_pack(
		"{s:i, s:s, s:s?, s:I, s:b, s:b, s:s?, s:o, s:I, s:I, s:I, s:f, s:I, s:I, s:I, s:I}",
		"node", number, "role", number == cluster->writer ? "writer" : "replica", "url", node->url,
		"lag_ms", (json_int_t) (node->lag_us / 1000), "frozen", node->frozen, "front",
		node->in_front, "cut", cut_names[node->cut], "positions", positions_json(cluster, node),
		"applied", (json_int_t) node->position, "received", (json_int_t) node->received, "behind",
		(json_int_t) (last - node->position), "behind_ms", (double) behind_us(cluster, node) / 1000,
		"reads", (json_int_t) node->reads, "mutations", (json_int_t) node->mutations, "waits",
		(json_int_t) node->waits, "fallbacks", (json_int_t) node->fallbacks);
}

json_t *
cluster_json(cluster *cluster)
{
	json_t *nodes = json_array();
	json_t *json;

	cluster_lock(cluster);
	for (int i = 0; i < cluster->count; i++)
		json_array_append_new(nodes, node_json(cluster, i));
	json = json_pack("{s:s, s:I, s:i, s:i, s:i, s:I, s:I, s:o}", "instance", cluster->instance,
					 "generation", (json_int_t) cluster->generation, "writer", cluster->writer,
					 "shards", cluster->options.shards, "sync", cluster->options.sync, "lost",
					 (json_int_t) cluster->lost, "pending", (json_int_t) cluster->log.count,
					 "nodes", nodes);
	cluster_unlock(cluster);
	return json;
}

static bool
read_cut(json_t *given, cluster_cut *cut)
{
	const char *name = json_string_value(given);

	if (given == NULL)
		return true;
	for (int i = CUT_NONE; i <= CUT_HANG; i++)
	{
		bool same = cut_names[i] == NULL ? json_is_null(given)
										 : name != NULL && strcmp(name, cut_names[i]) == 0;

		if (same)
		{
			*cut = (cluster_cut) i;
			return true;
		}
	}
	return false;
}

bool
cluster_order_node(cluster *cluster, int number, json_t *order, char *message, size_t message_size)
{
	cluster_node *node = &cluster->nodes[number];
	json_error_t where;
	json_t *cut_given = NULL;
	cluster_cut cut;
	json_int_t lag_ms;
	int frozen;
	int front;
	bool good = true;

	cluster_lock(cluster);
	lag_ms = (json_int_t) (node->lag_us / 1000);
	frozen = node->frozen;
	front = node->in_front;
	cut = node->cut;
	if (json_unpack_ex(order, &where, JSON_STRICT, "{s?I, s?b, s?b, s?o}", "lag_ms", &lag_ms,
					   "frozen", &frozen, "front", &front, "cut", &cut_given) != 0)
	{
		snprintf(message, message_size, "%s", where.text);
		good = false;
	}
	else if (lag_ms < 0 || lag_ms > CLUSTER_MAX_LAG_MS)
	{
		snprintf(message, message_size, "lag_ms must be from 0 to %d", CLUSTER_MAX_LAG_MS);
		good = false;
	}
	else if (!read_cut(cut_given, &cut))
	{
		snprintf(message, message_size, "cut must be null, \"refuse\" or \"hang\"");
		good = false;
	}
	if (good)
	{
		node->lag_us = lag_ms * 1000;
		node->frozen = frozen != 0;
		node->in_front = front != 0;
		node->cut = cut;
		cluster_receive(cluster);
		cluster_wake(cluster);
	}
	cluster_unlock(cluster);
	return good;
}

bool
cluster_order_failover(cluster *cluster, json_t *order, char *message, size_t message_size)
{
	json_error_t where;
	json_int_t to = -1;
	bool good;

	if (json_unpack_ex(order, &where, JSON_STRICT, "{s?I}", "to", &to) != 0)
	{
		snprintf(message, message_size, "%s", where.text);
		return false;
	}
	if (json_object_get(order, "to") != NULL && (to < 0 || to >= cluster->count))
	{
		snprintf(message, message_size, "there is no node %" JSON_INTEGER_FORMAT, to);
		return false;
	}
	cluster_lock(cluster);
	good = cluster_failover(cluster, (int) to, message, message_size);
	cluster_unlock(cluster);
	return good;
}
