/*
 * main.c
 *		Starts the parts of verdict-dev in order and stops them in reverse.
 *
 * The main thread only waits for a signal.  Every signal that ends the program
 * is blocked in all threads, so that none of them is interrupted by it.
 */
#include "admin.h"
#include "engine.h"
#include "http.h"
#include "listen.h"
#include "options.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define PATIENCE_MS 5000 /* for running requests at the end */

/* What runs; each may be missing while the program starts. */
typedef struct program
{
	options options;
	engine *engine;	  /* of an instance that stands alone */
	cluster *cluster; /* of one with several nodes */
	service *service;
	faults *faults;
	request_log *log;
	timers *timers;
	http_server *http[CLUSTER_MAX_REPLICAS + 2]; /* the front, then the nodes */
	int http_count;
	admin_server *admin;
} program;

static void
complain(const char *what, const char *message)
{
	fprintf(stderr, "verdict-dev: %s%s%s\n", what, *what != '\0' ? ": " : "", message);
}

static cluster *
open_cluster(const program *program, const engine_options *engine, engine_error *error)
{
	cluster_options options = {0};

	options.engine = *engine;
	options.replicas = program->options.replicas;
	options.lag_ms = program->options.lag_ms;
	options.shards = program->options.shards;
	options.sync = program->options.sync;
	return cluster_open(&options, error);
}

static bool
open_engine(program *program)
{
	engine_options options = {0};
	engine_error error;

	options.path = program->options.data != NULL ? program->options.data : ":memory:";
	options.max_query_rows = program->options.max_rows;
	options.max_list_facts = program->options.max_page;
	options.max_batch_changes = program->options.max_batch;
	if (program->options.replicas > 0)
		program->cluster = open_cluster(program, &options, &error);
	else
		program->engine = engine_open(&options, &error);
	if (program->engine == NULL && program->cluster == NULL)
		complain(options.path, error.message);
	return program->engine != NULL || program->cluster != NULL;
}

/* The engine that a policy is set in at the start. */
static engine *
first_engine(program *program)
{
	return program->cluster != NULL ? cluster_engine(program->cluster) : program->engine;
}

static bool
start_cluster(program *program)
{
	engine_error error;

	if (program->cluster == NULL || cluster_start(program->cluster, &error))
		return true;
	complain("replicas", error.message);
	return false;
}

/* A restart with the same policy file changes nothing and takes no position. */
static bool
policy_is(program *program, const char *text)
{
	Verdict__V1__GetPolicyRequest request = VERDICT__V1__GET_POLICY_REQUEST__INIT;
	Verdict__V1__GetPolicyResponse *response;
	engine_error error;
	bool same;

	if (!engine_get_policy(first_engine(program), &request, &response, &error))
		return false;
	same = strcmp(response->policy, text) == 0;
	protobuf_c_message_free_unpacked(&response->base, NULL);
	return same;
}

static bool
load_policy(program *program)
{
	Verdict__V1__SetPolicyRequest request = VERDICT__V1__SET_POLICY_REQUEST__INIT;
	engine_mutation mutation = {0};
	engine_answer answer;
	engine_error error;
	const char *path = program->options.policy;
	size_t size;
	bool done = true;

	if (path == NULL)
		return true;
	request.policy = read_file(path, &size);
	if (request.policy == NULL)
	{
		complain(path, strerror(errno));
		return false;
	}
	mutation.method = ENGINE_SET_POLICY;
	mutation.request = &request.base;
	if (strlen(request.policy) != size)
	{
		complain(path, "holds a NUL byte");
		done = false;
	}
	else if (!policy_is(program, request.policy))
	{
		done = engine_mutate(first_engine(program), &mutation, &answer, &error);
		if (done)
			protobuf_c_message_free_unpacked(answer.response, NULL);
		else
			complain(path, error.message);
	}
	free(request.policy);
	return done;
}

static bool
start_service(program *program)
{
	service_options options;

	options.engine = program->engine;
	options.cluster = program->cluster;
	options.api_keys = (const char *const *) program->options.api_keys;
	options.api_key_count = program->options.api_key_count;
	program->service = service_create(&options);
	program->faults = faults_create();
	program->timers = timers_start();
	if (program->options.admin != NULL)
		program->log = request_log_create();
	if (program->service != NULL && program->faults != NULL && program->timers != NULL &&
		(program->log != NULL || program->options.admin == NULL))
		return true;
	complain("", "out of memory");
	return false;
}

/* Serves at one address; "node" is CLUSTER_FRONT for the one that clients know. */
static bool
start_http(program *program, int node, char *url, size_t url_size)
{
	http_options options = {0};
	char address[512];
	char message[512];
	http_server *server;

	options.path_prefix = program->options.path_prefix;
	options.tls_certificate = program->options.tls_certificate;
	options.tls_key = program->options.tls_key;
	options.max_request_bytes = program->options.max_request_bytes;
	options.idle_seconds = program->options.idle_seconds;
	options.clustered = program->cluster != NULL;
	options.address = node;
	options.service = program->service;
	options.faults = program->faults;
	options.log = program->log;
	options.timers = program->timers;
	listen_next(program->options.listen, node - CLUSTER_FRONT, address, sizeof(address));
	options.listen_socket = listen_at(address, options.tls_certificate != NULL ? "https" : "http",
									  url, url_size, message, sizeof(message));
	if (options.listen_socket < 0)
	{
		complain("", message);
		return false;
	}
	server = http_start(&options);
	if (server == NULL)
	{
		close(options.listen_socket);
		complain("", options.tls_certificate != NULL
						 ? "cannot start to serve; are certificate and key PEM, and a pair?"
						 : "cannot start to serve");
		return false;
	}
	program->http[program->http_count++] = server;
	return true;
}

/* The addresses of the nodes, each told on a line of its own. */
static bool
start_nodes(program *program)
{
	int count = program->cluster != NULL ? cluster_count(program->cluster) : 0;

	for (int i = 0; i < count; i++)
	{
		char url[512];
		char whole[1024];

		if (!start_http(program, i, url, sizeof(url)))
			return false;
		snprintf(whole, sizeof(whole), "%s%s", url, program->options.path_prefix);
		cluster_set_url(program->cluster, i, whole);
		if (i == 0)
			printf("writer on %s\n", whole);
		else
			printf("replica %d on %s\n", i, whole);
	}
	return true;
}

static bool
start_admin(program *program, char *url, size_t url_size)
{
	admin_options options;
	char message[512];

	if (program->options.admin == NULL)
		return true;
	options.tls = program->options.tls_certificate != NULL;
	options.instances = program->http;
	options.instance_count = program->http_count;
	options.cluster = program->cluster;
	options.service = program->service;
	options.faults = program->faults;
	options.log = program->log;
	options.listen_socket =
		listen_at(program->options.admin, "http", url, url_size, message, sizeof(message));
	if (options.listen_socket < 0)
	{
		complain("", message);
		return false;
	}
	program->admin = admin_start(&options);
	if (program->admin == NULL)
	{
		close(options.listen_socket);
		complain("", "cannot start the admin address");
	}
	return program->admin != NULL;
}

static void
stop(program *program)
{
	/* The admin address goes last: a test may look at the log of the end. */
	http_quiesce(program->http, program->http_count, PATIENCE_MS);
	admin_stop(program->admin);
	for (int i = 0; i < program->http_count; i++)
		http_stop(program->http[i]);
	timers_stop(program->timers);
	faults_destroy(program->faults);
	request_log_destroy(program->log);
	service_destroy(program->service);
	cluster_close(program->cluster);
	engine_close(program->engine);
	options_free(&program->options);
}

int
main(int argc, char **argv)
{
	program program = {0};
	pid_t parent = getppid();
	sigset_t signals;
	char url[512];
	char admin_url[512];
	bool started;
	int received;

	options_read(&program.options, argc, argv);
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	signal(SIGPIPE, SIG_IGN);
	if (program.options.exit_with_parent)
	{
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		if (getppid() != parent)
			raise(SIGTERM); /* it ended before the line above */
	}

	started = open_engine(&program) && load_policy(&program) && start_cluster(&program) &&
			  start_service(&program) && start_http(&program, CLUSTER_FRONT, url, sizeof(url)) &&
			  start_nodes(&program) && start_admin(&program, admin_url, sizeof(admin_url));
	if (started)
	{
		if (program.admin != NULL)
			printf("admin on %s\n", admin_url);
		printf("listening on %s%s\n", url, program.options.path_prefix);
		fflush(stdout);
		sigwait(&signals, &received);
	}
	stop(&program);
	return started ? 0 : 1;
}
