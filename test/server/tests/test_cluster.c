/*
 * test_cluster.c
 *		A writer and its replicas, without HTTP: what is served where, what waits,
 *		what is lost.
 *
 * Replicas are held back by a long lag and let go by setting it to 0, so nothing
 * here depends on how fast the machine is.
 */
#include "engine_helpers.h"

#include "cluster.h"
#include "timer.h"

#include <pthread.h>
#include <semaphore.h>

#define AGES 600000 /* a lag that does not end within a test */

static cluster *the_cluster;
static cluster_options the_options;

static void
start(int replicas, int lag_ms, int shards, int sync)
{
	engine_error error = {0};

	memset(&the_options, 0, sizeof(the_options));
	the_options.engine.path = ":memory:";
	the_options.replicas = replicas;
	the_options.lag_ms = lag_ms;
	the_options.shards = shards;
	the_options.sync = sync;
	the_cluster = cluster_open(&the_options, &error);
	if (the_cluster == NULL || !cluster_start(the_cluster, &error))
		fail_msg("cluster: %s", error.message);
}

static int
stop(void **state)
{
	(void) state;
	cluster_close(the_cluster);
	the_cluster = NULL;
	return 0;
}

/* Orders. */

static void
order(int node, const char *text)
{
	json_t *json = json_loads(text, 0, NULL);
	char message[256];

	assert_non_null(json);
	if (!cluster_order_node(the_cluster, node, json, message, sizeof(message)))
		fail_msg("%s: %s", text, message);
	json_decref(json);
}

static void
assert_order_refused(int node, const char *text, const char *expected)
{
	json_t *json = json_loads(text, 0, NULL);
	char message[256];

	assert_non_null(json);
	assert_false(cluster_order_node(the_cluster, node, json, message, sizeof(message)));
	assert_non_null(strstr(message, expected));
	json_decref(json);
}

/* NULL when it was done, else the reason. */
static const char *
fail_over(const char *text)
{
	static char message[256];
	json_t *json = json_loads(text, 0, NULL);
	bool done;

	assert_non_null(json);
	done = cluster_order_failover(the_cluster, json, message, sizeof(message));
	json_decref(json);
	return done ? NULL : message;
}

/* A figure of a node; of the whole for node -1. */
static int64_t
figure(int node, const char *name)
{
	json_t *json = cluster_json(the_cluster);
	json_t *place = node < 0 ? json : json_array_get(json_object_get(json, "nodes"), (size_t) node);
	int64_t value;

	assert_non_null(json_object_get(place, name));
	value = json_integer_value(json_object_get(place, name));
	json_decref(json);
	return value;
}

static void
let_go(int node)
{
	order(node, "{\"lag_ms\": 0, \"frozen\": false}");
	while (figure(node, "behind") > 0)
		usleep(1000);
}

/* Requests. */

static void
post(void *argument)
{
	sem_post(argument);
}

/* Waits as the HTTP side does; false when it was not resumed within the time. */
static bool
await(cluster_request *request, int64_t ms)
{
	static sem_t resumed;
	struct timespec end;

	sem_init(&resumed, 0, 0);
	cluster_await(the_cluster, request, post, &resumed);
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += ms / 1000;
	end.tv_nsec += ms % 1000 * 1000000;
	if (end.tv_nsec >= 1000000000)
	{
		end.tv_sec++;
		end.tv_nsec -= 1000000000;
	}
	return sem_timedwait(&resumed, &end) == 0;
}

typedef struct result
{
	verdict_code code;
	char message[256];
	bool dropped;
	int node;
	int waits;
	char revision[VERDICT_REVISION_MAX_TEXT + 1];
	char rows[512]; /* of p(?x) */
} result;

static result
read_at(int address, const char *session, verdict_consistency consistency, const char *revision)
{
	verdict_revision parsed;
	cluster_request request = {0};
	cluster_failure failure;
	cluster_outcome outcome;
	result result = {0};
	engine *engine;
	char *text;

	request.address = address;
	request.session_id = session;
	request.consistency = consistency;
	if (revision != NULL)
	{
		assert_true(verdict_revision_parse(revision, strlen(revision), &parsed));
		request.revision = &parsed;
	}
	while ((outcome = cluster_enter(the_cluster, &request, &engine, &failure)) == CLUSTER_WAIT)
	{
		result.waits++;
		assert_true(await(&request, 10000));
	}
	result.dropped = outcome == CLUSTER_DROP;
	if (outcome == CLUSTER_FAIL)
	{
		result.code = failure.code;
		snprintf(result.message, sizeof(result.message), "%s", failure.message);
	}
	if (outcome != CLUSTER_SERVE)
		return result;
	text = query_text(engine, "p(?x)");
	cluster_leave(the_cluster, &request, true);
	snprintf(result.rows, sizeof(result.rows), "%s", text);
	free(text);
	result.node = request.node;
	snprintf(result.revision, sizeof(result.revision), "%s", request.served_at);
	return result;
}

/* Runs a mutation as far as it goes without waiting. */
static cluster_outcome
begin_change(cluster_request *request, engine_method method, ProtobufCMessage *message,
			 const char *key, cluster_failure *failure)
{
	cluster_outcome outcome;
	engine_mutation mutation = {0};
	engine_answer answer;
	engine_error error = {0};
	engine *engine;

	request->mutation = true;
	outcome = cluster_enter(the_cluster, request, &engine, failure);
	if (outcome != CLUSTER_SERVE)
		return outcome;
	mutation.method = method;
	mutation.request = message;
	mutation.key = key;
	if (!engine_mutate(engine, &mutation, &answer, &error))
	{
		cluster_leave_mutation(the_cluster, request, &mutation, NULL);
		fail_msg("mutate: %s", error.message);
	}
	free_message(answer.response);
	return cluster_leave_mutation(the_cluster, request, &mutation, &answer);
}

static cluster_outcome
begin_insert(cluster_request *request, const char *fact, const char *key, cluster_failure *failure)
{
	Verdict__V1__InsertFactRequest message = VERDICT__V1__INSERT_FACT_REQUEST__INIT;
	cluster_outcome outcome;

	message.fact = parse_fact(fact);
	outcome = begin_change(request, ENGINE_INSERT_FACT, &message.base, key, failure);
	free_message(message.fact);
	return outcome;
}

/* Inserts at an address; the revision of the answer, good until the next call. */
static const char *
insert_at(int address, const char *fact, const char *key)
{
	static cluster_request request;
	cluster_failure failure;

	memset(&request, 0, sizeof(request));
	request.address = address;
	assert_int_equal(begin_insert(&request, fact, key, &failure), CLUSTER_ANSWERED);
	return request.served_at;
}

/* The revision without "v1.<instance>.". */
static const char *
short_form(const char *revision)
{
	const char *rest = strchr(revision + 3, '.');

	assert_memory_equal(revision, "v1.", 3);
	assert_non_null(rest);
	return rest + 1;
}

#define EVENTUAL VERDICT_CONSISTENCY_EVENTUAL
#define SESSION VERDICT_CONSISTENCY_SESSION
#define AUTHORITATIVE VERDICT_CONSISTENCY_AUTHORITATIVE

/* Tests. */

static void
reads_by_consistency(void **state)
{
	char revision[128];
	result result;

	(void) state;
	start(2, AGES, 1, 0);
	snprintf(revision, sizeof(revision), "%.127s", insert_at(CLUSTER_FRONT, "p(1)", NULL));
	assert_string_equal(short_form(revision), "1.1");

	/* A replica has not got it; a read that does not ask for it is old. */
	result = read_at(1, "s", EVENTUAL, NULL);
	assert_string_equal(result.rows, "");
	assert_string_equal(short_form(result.revision), "1.0");
	result = read_at(2, "s", SESSION, NULL);
	assert_string_equal(result.rows, "");
	assert_int_equal(result.node, 2);
	/* One that asks for it waits, and the writer serves it. */
	result = read_at(1, "s", SESSION, revision);
	assert_string_equal(result.rows, "1");
	assert_int_equal(result.node, 0);
	assert_int_equal(result.waits, 1);
	assert_string_equal(result.revision, revision);
	/* Authoritative ones are the writer's at once. */
	result = read_at(2, "s", AUTHORITATIVE, NULL);
	assert_string_equal(result.rows, "1");
	assert_int_equal(result.waits, 0);
	assert_int_equal(figure(1, "waits"), 1);
	assert_int_equal(figure(1, "fallbacks"), 1);
	assert_int_equal(figure(2, "fallbacks"), 0);
	assert_int_equal(figure(0, "reads"), 2);
	assert_int_equal(figure(1, "reads"), 1);

	let_go(1);
	result = read_at(1, "s", SESSION, revision);
	assert_string_equal(result.rows, "1");
	assert_int_equal(result.node, 1);
	assert_int_equal(result.waits, 0);
	/* Lag is a node's own. */
	assert_string_equal(read_at(2, "s", SESSION, NULL).rows, "");
	assert_int_equal(figure(2, "behind"), 1);
}

/* The wait ends when the replica gets there, not when the budget does. */
static void *
let_go_soon(void *argument)
{
	usleep(10000);
	order(*(int *) argument, "{\"lag_ms\": 0}");
	return NULL;
}

static void
wait_ends_with_the_change(void **state)
{
	pthread_t thread;
	char revision[128];
	int node = 1;
	result result;

	(void) state;
	start(1, AGES, 1, 0);
	snprintf(revision, sizeof(revision), "%.127s", insert_at(CLUSTER_FRONT, "p(1)", NULL));
	pthread_create(&thread, NULL, let_go_soon, &node);
	result = read_at(1, "s", SESSION, revision);
	pthread_join(thread, NULL);
	assert_string_equal(result.rows, "1");
	assert_int_equal(result.waits, 1);
	/* On a machine that stood still for 40 ms the writer has served it. */
	assert_int_equal(result.node == 0, figure(1, "fallbacks") == 1);
}

static void
unreachable_revisions(void **state)
{
	char revision[256];
	char other[256];
	result result;
	char *at;

	(void) state;
	start(1, 0, 2, 0);
	snprintf(revision, sizeof(revision), "%.127s", insert_at(CLUSTER_FRONT, "p(1)", NULL));
	let_go(1);
	at = strrchr(revision, '.');
	/* Not reached, at any node and in any mode that looks. */
	snprintf(other, sizeof(other), "%.*s.0:2,1:2", (int) (at - revision), revision);
	for (int address = CLUSTER_FRONT; address < 2; address++)
	{
		result = read_at(address, "s", SESSION, other);
		assert_int_equal(result.code, VERDICT_FAILED_PRECONDITION);
		assert_string_equal(result.message, "the writer has not reached the revision");
		assert_int_equal(result.waits, 0);
		assert_int_equal(read_at(address, "s", AUTHORITATIVE, other).code,
						 VERDICT_FAILED_PRECONDITION);
		assert_int_equal(read_at(address, "s", EVENTUAL, other).code, VERDICT_OK);
	}
	/* A shard that is not here: only 0 is reached. */
	snprintf(other, sizeof(other), "%.*s.7:0", (int) (at - revision), revision);
	assert_int_equal(read_at(1, "s", SESSION, other).code, VERDICT_OK);
	snprintf(other, sizeof(other), "%.*s.7:1", (int) (at - revision), revision);
	assert_int_equal(read_at(1, "s", SESSION, other).code, VERDICT_FAILED_PRECONDITION);
	/* Another history. */
	assert_int_equal(read_at(1, "s", SESSION, "v1.other.1.0").code, VERDICT_FAILED_PRECONDITION);
	assert_int_equal(read_at(1, "s", EVENTUAL, "v1.other.1.0").code, VERDICT_OK);
	snprintf(other, sizeof(other), "%.*s2.0", (int) (strrchr(revision, '.') - 1 - revision),
			 revision);
	result = read_at(1, "s", SESSION, other);
	assert_int_equal(result.code, VERDICT_FAILED_PRECONDITION);
	assert_non_null(strstr(result.message, "another history"));
}

static void
positions_by_shard(void **state)
{
	Verdict__V1__SetPolicyRequest policy = VERDICT__V1__SET_POLICY_REQUEST__INIT;
	cluster_request request = {0};
	cluster_failure failure;
	char p[128];
	char q[128];
	result result;

	(void) state;
	start(1, AGES, 8, 0);
	snprintf(p, sizeof(p), "%s", short_form(insert_at(CLUSTER_FRONT, "p(1)", NULL)));
	snprintf(q, sizeof(q), "%s", short_form(insert_at(CLUSTER_FRONT, "viewer(1)", NULL)));
	/* Each names its own shard, with the position of the commit. */
	assert_string_equal(p, "1.1:1");
	assert_string_equal(q, "1.4:2");
	request.address = CLUSTER_FRONT;
	policy.policy = (char *) "";
	assert_int_equal(begin_change(&request, ENGINE_SET_POLICY, &policy.base, NULL, &failure),
					 CLUSTER_ANSWERED);
	assert_string_equal(short_form(request.served_at), "1.3");
	result = read_at(0, "s", SESSION, NULL);
	assert_string_equal(short_form(result.revision), "1.3,1:1,2:0,3:0,4:2,5:0,6:0,7:0");
	result = read_at(1, "s", SESSION, NULL);
	assert_string_equal(short_form(result.revision), "1.0,1:0,2:0,3:0,4:0,5:0,6:0,7:0");
}

static void
keys_are_known_everywhere(void **state)
{
	char revision[128];

	(void) state;
	start(2, 0, 1, 0);
	/* Whichever node takes it. */
	snprintf(revision, sizeof(revision), "%.127s", insert_at(2, "p(1)", "key"));
	insert_at(1, "p(2)", NULL);
	assert_string_equal(insert_at(CLUSTER_FRONT, "p(1)", "key"), revision);
	assert_int_equal(figure(0, "mutations"), 2);
	let_go(1);
	let_go(2);
	/* After a failover that lost nothing: the same position in the new generation. */
	assert_null(fail_over("{\"to\": 2}"));
	assert_string_equal(short_form(insert_at(1, "p(1)", "key")), "2.1");
	assert_string_equal(short_form(insert_at(1, "p(3)", "other")), "2.3");
	assert_int_equal(figure(2, "mutations"), 1);
}

static void
failover_loses_what_was_not_received(void **state)
{
	char seen[128];
	char lost[128];
	result result;

	(void) state;
	start(3, AGES, 1, 0);
	snprintf(seen, sizeof(seen), "%.127s", insert_at(CLUSTER_FRONT, "p(1)", NULL));
	let_go(1);
	let_go(2);
	order(1, "{\"lag_ms\": 600000}");
	snprintf(lost, sizeof(lost), "%.127s", insert_at(CLUSTER_FRONT, "p(2)", "key"));
	let_go(2);
	/* Node 0 and 2 have both, node 1 the first, node 3 nothing. */
	assert_null(fail_over("{\"to\": 1}"));
	assert_int_equal(figure(-1, "generation"), 2);
	assert_int_equal(figure(-1, "writer"), 1);
	assert_int_equal(figure(-1, "lost"), 1);
	for (int address = CLUSTER_FRONT; address < 4; address++)
	{
		assert_int_equal(read_at(address, "s", SESSION, seen).code, VERDICT_FAILED_PRECONDITION);
		assert_int_equal(read_at(address, "s", AUTHORITATIVE, lost).code,
						 VERDICT_FAILED_PRECONDITION);
	}
	/* What is lost is lost everywhere, its key too. */
	assert_string_equal(read_at(0, "s", EVENTUAL, NULL).rows, "1");
	assert_string_equal(read_at(2, "s", EVENTUAL, NULL).rows, "1");
	assert_string_equal(read_at(3, "s", EVENTUAL, NULL).rows, "");
	assert_string_equal(read_at(3, "s", AUTHORITATIVE, NULL).rows, "1");
	assert_string_equal(short_form(insert_at(CLUSTER_FRONT, "p(3)", "key2")), "2.2");
	assert_string_equal(short_form(insert_at(CLUSTER_FRONT, "p(2)", "key")), "2.3");
	/* And the rest goes on, each from where it was. */
	let_go(0);
	let_go(2);
	let_go(3);
	for (int node = 0; node < 4; node++)
	{
		result = read_at(node, "s", SESSION, NULL);
		assert_string_equal(result.rows, "1; 2; 3");
		assert_string_equal(short_form(result.revision), "2.3");
		assert_int_equal(result.node, node);
	}
	/* By itself it takes the one that has most, and lowest number. */
	order(0, "{\"lag_ms\": 600000}");
	insert_at(CLUSTER_FRONT, "p(4)", NULL);
	let_go(2);
	let_go(3);
	assert_null(fail_over("{}"));
	assert_int_equal(figure(-1, "writer"), 2);
	assert_int_equal(figure(-1, "lost"), 1);
	assert_string_equal(fail_over("{\"to\": 2}"), "node 2 is the writer");
	assert_string_equal(fail_over("{\"to\": 4}"), "there is no node 4");
	assert_non_null(fail_over("{\"too\": 1}"));
}

static void
sync_loses_nothing(void **state)
{
	cluster_request request = {0};
	cluster_failure failure;
	const char *message;

	(void) state;
	start(2, AGES, 1, 1);
	/* Both have it at once, and apply it in ages. */
	insert_at(CLUSTER_FRONT, "p(1)", NULL);
	assert_int_equal(figure(1, "received"), 1);
	assert_int_equal(figure(1, "applied"), 0);
	assert_string_equal(read_at(1, "s", SESSION, NULL).rows, "");
	/* One that takes nothing does not hold up the answer ... */
	order(1, "{\"frozen\": true}");
	insert_at(CLUSTER_FRONT, "p(2)", NULL);
	/* ... two do. */
	order(2, "{\"frozen\": true}");
	request.address = CLUSTER_FRONT;
	assert_int_equal(begin_insert(&request, "p(3)", "key", &failure), CLUSTER_WAIT);
	/* A second one with the key waits for the same. */
	{
		cluster_request second = {0};

		second.address = CLUSTER_FRONT;
		assert_int_equal(begin_insert(&second, "p(3)", "key", &failure), CLUSTER_WAIT);
	}
	message = fail_over("{\"to\": 1}");
	assert_string_equal(message, "node 1 has the changes up to 1, but 2 was acknowledged");
	assert_int_equal(figure(-1, "generation"), 1);
	/* Node 2 has all that was acknowledged; the third was not. */
	assert_null(fail_over("{}"));
	assert_int_equal(figure(-1, "writer"), 2);
	assert_int_equal(figure(-1, "lost"), 1);
	assert_true(await(&request, 10000));
	assert_int_equal(begin_insert(&request, "p(3)", "key", &failure), CLUSTER_FAIL);
	assert_int_equal(failure.code, VERDICT_UNAVAILABLE);
	assert_string_equal(read_at(CLUSTER_FRONT, "s", AUTHORITATIVE, NULL).rows, "1; 2");
	order(0, "{\"frozen\": false}");
	assert_string_equal(short_form(insert_at(CLUSTER_FRONT, "p(3)", "key")), "2.3");
}

static void
sync_wait_ends(void **state)
{
	cluster_request request = {0};
	cluster_failure failure;

	(void) state;
	start(1, AGES, 1, 1);
	order(1, "{\"frozen\": true}");
	request.address = 1;
	assert_int_equal(begin_insert(&request, "p(1)", NULL, &failure), CLUSTER_WAIT);
	order(1, "{\"frozen\": false}");
	assert_true(await(&request, 10000));
	assert_int_equal(begin_insert(&request, "p(1)", NULL, &failure), CLUSTER_ANSWERED);
	assert_string_equal(short_form(request.served_at), "1.1");
	assert_int_equal(figure(0, "mutations"), 1);
	/* The caller's deadline ends it, too. */
	order(1, "{\"frozen\": true}");
	memset(&request, 0, sizeof(request));
	request.deadline_us = monotonic_us() + 20000;
	assert_int_equal(begin_insert(&request, "p(2)", NULL, &failure), CLUSTER_WAIT);
	assert_true(await(&request, 10000));
	assert_int_equal(begin_insert(&request, "p(2)", NULL, &failure), CLUSTER_FAIL);
	assert_int_equal(failure.code, VERDICT_DEADLINE_EXCEEDED);
}

static void
writer_cut_off(void **state)
{
	cluster_request request = {0};
	cluster_failure failure;
	char revision[128];
	result result;

	(void) state;
	start(2, 0, 1, 0);
	snprintf(revision, sizeof(revision), "%.127s", insert_at(CLUSTER_FRONT, "p(1)", NULL));
	let_go(1);
	order(2, "{\"frozen\": true}");
	snprintf(revision, sizeof(revision), "%.127s", insert_at(CLUSTER_FRONT, "p(2)", NULL));
	let_go(1);
	order(0, "{\"cut\": \"refuse\"}");
	/* Who has it serves it, who has not cannot. */
	assert_string_equal(read_at(1, "s", SESSION, revision).rows, "1; 2");
	result = read_at(2, "s", SESSION, revision);
	assert_int_equal(result.code, VERDICT_UNAVAILABLE);
	assert_int_equal(result.waits, 1);
	assert_string_equal(read_at(2, "s", SESSION, NULL).rows, "1");
	assert_int_equal(read_at(1, "s", AUTHORITATIVE, NULL).code, VERDICT_UNAVAILABLE);
	assert_true(read_at(0, "s", EVENTUAL, NULL).dropped);
	request.address = 1;
	assert_int_equal(begin_insert(&request, "p(3)", NULL, &failure), CLUSTER_FAIL);
	assert_int_equal(failure.code, VERDICT_UNAVAILABLE);
	/* It hangs instead, until it is back. */
	order(0, "{\"cut\": \"hang\"}");
	memset(&request, 0, sizeof(request));
	request.address = CLUSTER_FRONT;
	assert_int_equal(begin_insert(&request, "p(3)", NULL, &failure), CLUSTER_WAIT);
	order(0, "{\"cut\": null}");
	assert_true(await(&request, 10000));
	assert_int_equal(begin_insert(&request, "p(3)", NULL, &failure), CLUSTER_ANSWERED);
	let_go(2);
	assert_string_equal(read_at(2, "s", SESSION, NULL).rows, "1; 2; 3");
	/* Nobody can make a node the writer that cannot be reached. */
	order(1, "{\"cut\": \"hang\"}");
	assert_string_equal(fail_over("{\"to\": 1}"), "node 1 is cut off");
	order(0, "{\"cut\": \"hang\"}");
	assert_null(fail_over("{}"));
	assert_int_equal(figure(-1, "writer"), 2);
	/* The old writer is still cut off; the rest works. */
	assert_string_equal(short_form(insert_at(CLUSTER_FRONT, "p(4)", NULL)), "2.4");
	assert_int_equal(figure(0, "behind"), 1);
	order(0, "{\"cut\": null}");
	let_go(0);
	assert_string_equal(read_at(0, "s", SESSION, NULL).rows, "1; 2; 3; 4");
}

static void
the_front(void **state)
{
	int node;
	int other;

	(void) state;
	start(3, 0, 1, 0);
	node = read_at(CLUSTER_FRONT, "a session", SESSION, NULL).node;
	assert_in_range(node, 1, 3);
	for (int i = 0; i < 5; i++)
		assert_int_equal(read_at(CLUSTER_FRONT, "a session", SESSION, NULL).node, node);
	order(node, "{\"front\": false}");
	other = read_at(CLUSTER_FRONT, "a session", SESSION, NULL).node;
	assert_int_not_equal(other, node);
	assert_in_range(other, 1, 3);
	/* Its own address still serves. */
	assert_int_equal(read_at(node, "a session", SESSION, NULL).node, node);
	order(node, "{\"front\": true}");
	assert_int_equal(read_at(CLUSTER_FRONT, "a session", SESSION, NULL).node, node);
	/* Without an id they go round; without replicas the writer serves. */
	for (int i = 0; i < 60; i++)
		read_at(CLUSTER_FRONT, NULL, SESSION, NULL);
	for (int i = 1; i < 4; i++)
	{
		assert_true(figure(i, "reads") > 5);
		order(i, "{\"front\": false}");
	}
	assert_int_equal(read_at(CLUSTER_FRONT, "a session", SESSION, NULL).node, 0);
	/* A replica that is cut off and still in the set: the front cannot serve. */
	order(2, "{\"front\": true, \"cut\": \"refuse\"}");
	assert_int_equal(read_at(CLUSTER_FRONT, "a session", EVENTUAL, NULL).code, VERDICT_UNAVAILABLE);
}

static void
wrong_orders(void **state)
{
	(void) state;
	start(1, 70, 1, 0);
	assert_order_refused(1, "{\"lag_ms\": -1}", "lag_ms");
	assert_order_refused(1, "{\"lag_ms\": 600001}", "lag_ms");
	assert_order_refused(1, "{\"lag_ms\": \"5\"}", "integer");
	assert_order_refused(1, "{\"cut\": \"off\"}", "cut must be");
	assert_order_refused(1, "{\"cut\": 1}", "cut must be");
	assert_order_refused(1, "{\"frozen\": true, \"lag\": 5}", "lag");
	assert_order_refused(1, "[]", "object");
	assert_int_equal(figure(1, "lag_ms"), 70);
	order(1, "{}");
	assert_int_equal(figure(1, "lag_ms"), 70);
}

/* A node whose changes have left the log is made anew from the writer's store. */
static void
too_far_behind(void **state)
{
	Verdict__V1__SetPolicyRequest request = VERDICT__V1__SET_POLICY_REQUEST__INIT;
	size_t size = 1000000;
	int sync = *state != NULL;

	start(2, AGES, 1, sync);
	insert_at(CLUSTER_FRONT, "p(1)", NULL);
	request.policy = malloc(size + 1);
	memset(request.policy, ' ', size);
	request.policy[size] = '\0';
	order(1, "{\"frozen\": true}");
	for (int i = 0; i < 80; i++)
	{
		cluster_request one = {0};
		cluster_failure failure;

		one.address = CLUSTER_FRONT;
		assert_int_equal(begin_change(&one, ENGINE_SET_POLICY, &request.base, NULL, &failure),
						 CLUSTER_ANSWERED);
	}
	free(request.policy);
	assert_true(figure(-1, "pending") < 80);
	/* Nobody lacks what the log does not hold; what was acknowledged was never missing. */
	for (int i = 0; i < 2000 && figure(2, "applied") == 0; i++)
		usleep(10000);
	assert_true(figure(2, "applied") > 0);
	if (sync)
		assert_int_equal(figure(2, "received"), 81);
	assert_int_equal(figure(1, "applied"), sync);
	let_go(1);
	assert_string_equal(read_at(1, "s", SESSION, NULL).rows, "1");
	assert_string_equal(short_form(read_at(1, "s", SESSION, NULL).revision), "1.81");
	insert_at(CLUSTER_FRONT, "p(2)", NULL);
	let_go(1);
	assert_string_equal(read_at(1, "s", SESSION, NULL).rows, "1; 2");
}

static void
hurry_ends_every_wait(void **state)
{
	cluster_request request = {0};
	cluster_failure failure;

	(void) state;
	start(1, AGES, 1, 1);
	order(1, "{\"frozen\": true}");
	request.address = CLUSTER_FRONT;
	assert_int_equal(begin_insert(&request, "p(1)", NULL, &failure), CLUSTER_WAIT);
	cluster_hurry(the_cluster);
	assert_true(await(&request, 10000));
}

/* A key that is held at a writer means nothing to the next one. */
static void
holds_end_with_the_writer(void **state)
{
	Verdict__V1__InsertFactRequest message = VERDICT__V1__INSERT_FACT_REQUEST__INIT;
	cluster_request request = {0};
	engine_mutation mutation = {0};
	engine_error error = {0};

	(void) state;
	start(1, 0, 1, 0);
	message.fact = parse_fact("p(1)");
	mutation.method = ENGINE_INSERT_FACT;
	mutation.request = &message.base;
	mutation.key = "key";
	assert_true(cluster_hold(the_cluster, &request, &mutation, &error));
	assert_false(cluster_hold(the_cluster, &request, &mutation, &error));
	assert_int_equal(error.code, ENGINE_ABORTED);
	assert_null(fail_over("{}"));
	insert_at(CLUSTER_FRONT, "p(1)", "key");
	cluster_release(the_cluster, &request, &mutation);
	/* Back at the first one nothing is held any more. */
	let_go(0);
	assert_null(fail_over("{}"));
	assert_string_equal(short_form(insert_at(CLUSTER_FRONT, "p(1)", "key")), "3.1");
	assert_true(cluster_hold(the_cluster, &request, &mutation, &error));
	cluster_release(the_cluster, &request, &mutation);
	assert_string_equal(short_form(insert_at(CLUSTER_FRONT, "p(1)", "key")), "3.1");
	free_message(message.fact);
}

/* With files: what was there is there again, also after a failover. */
static void
restart(int replicas)
{
	engine_error error = {0};

	cluster_close(the_cluster);
	memset(&the_options, 0, sizeof(the_options));
	the_options.engine.path = test_path();
	the_options.replicas = replicas;
	the_options.lag_ms = AGES;
	the_options.shards = 2;
	the_cluster = cluster_open(&the_options, &error);
	if (the_cluster == NULL || !cluster_start(the_cluster, &error))
		fail_msg("cluster: %s", error.message);
}

static void
remove_files(void)
{
	char name[160];

	test_remove_store();
	for (int i = 1; i < 4; i++)
	{
		snprintf(name, sizeof(name), "%s.%d", test_path(), i);
		unlink(name);
	}
}

static void
files(void **state)
{
	char revision[128];
	const char *instance;
	engine *alone;

	(void) state;
	remove_files();
	restart(2);
	snprintf(revision, sizeof(revision), "%.127s", insert_at(CLUSTER_FRONT, "p(1)", "key"));
	/* Nobody is behind after a restart, and the history is the same. */
	restart(2);
	assert_string_equal(read_at(1, "s", SESSION, revision).rows, "1");
	assert_int_equal(figure(2, "behind"), 0);
	assert_string_equal(insert_at(1, "p(1)", "key"), revision);
	/* After a failover the new writer's history counts, though the old one's file is first. */
	insert_at(CLUSTER_FRONT, "p(2)", NULL);
	assert_null(fail_over("{\"to\": 2}"));
	insert_at(CLUSTER_FRONT, "p(3)", NULL);
	restart(2);
	assert_int_equal(figure(-1, "generation"), 2);
	assert_int_equal(figure(-1, "writer"), 0);
	for (int node = 0; node < 3; node++)
		assert_string_equal(read_at(node, "s", SESSION, NULL).rows, "1; 3");
	assert_int_equal(read_at(1, "s", SESSION, revision).code, VERDICT_FAILED_PRECONDITION);
	/* A new replica is made, a file by itself is a store as any other. */
	restart(3);
	assert_string_equal(read_at(3, "s", SESSION, NULL).rows, "1; 3");
	instance = strchr(revision, '.');
	assert_memory_equal(strchr(read_at(3, "s", SESSION, NULL).revision, '.'), instance, 18);
	cluster_close(the_cluster);
	the_cluster = NULL;
	alone = test_open();
	assert_query(alone, "p(?x)", "1; 3");
	engine_close(alone);
	remove_files();
}

#define CLUSTER_TEST(test) cmocka_unit_test_teardown(test, stop)

int
main(void)
{
	static int with_sync = 1;
	const struct CMUnitTest tests[] = {
		CLUSTER_TEST(reads_by_consistency),
		CLUSTER_TEST(wait_ends_with_the_change),
		CLUSTER_TEST(unreachable_revisions),
		CLUSTER_TEST(positions_by_shard),
		CLUSTER_TEST(keys_are_known_everywhere),
		CLUSTER_TEST(failover_loses_what_was_not_received),
		CLUSTER_TEST(sync_loses_nothing),
		CLUSTER_TEST(sync_wait_ends),
		CLUSTER_TEST(writer_cut_off),
		CLUSTER_TEST(the_front),
		CLUSTER_TEST(wrong_orders),
		CLUSTER_TEST(too_far_behind),
		{"too_far_behind (sync)", too_far_behind, NULL, stop, &with_sync},
		CLUSTER_TEST(hurry_ends_every_wait),
		CLUSTER_TEST(holds_end_with_the_writer),
		CLUSTER_TEST(files)};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	rmdir(test_directory);
	return failed;
}
