/*
 * admin.c
 *		A few paths over the faults and the log.
 *
 * Runs in its own libmicrohttpd thread; what it looks at has its own locks.
 */
#include "admin.h"

#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BODY_MAX (16 * 1024 * 1024)
#define IDLE_SECONDS 60

struct admin_server
{
	admin_options options;
	struct MHD_Daemon *daemon;
};

/* Answers with a JSON value, which it frees; NULL is an empty answer. */
static enum MHD_Result
reply(struct MHD_Connection *connection, int status, json_t *json)
{
	struct MHD_Response *response;
	enum MHD_Result result;
	char *text = NULL;
	size_t size = 0;

	if (json != NULL)
	{
		text = json_dumps(json, JSON_COMPACT);
		json_decref(json);
		if (text == NULL)
			return MHD_NO;
		size = strlen(text);
	}
	response = MHD_create_response_from_buffer(size, text, MHD_RESPMEM_MUST_FREE);
	if (response == NULL)
	{
		free(text);
		return MHD_NO;
	}
	if (text != NULL)
		MHD_add_response_header(response, "Content-Type", "application/json");
	result = MHD_queue_response(connection, (unsigned) status, response);
	MHD_destroy_response(response);
	return result;
}

static enum MHD_Result
complain(struct MHD_Connection *connection, int status, const char *message)
{
	return reply(connection, status, json_pack("{s:s}", "error", message));
}

/* All orders of a request are taken, or none: a trial list is filled first. */
static enum MHD_Result
order_faults(admin_server *server, struct MHD_Connection *connection, const verdict_buffer *body)
{
	json_error_t where;
	json_t *given = json_loadb(body->bytes != NULL ? body->bytes : "", body->size,
							   JSON_REJECT_DUPLICATES, &where);
	json_t *orders;
	json_t *order;
	faults *trial = faults_create();
	size_t index;
	char message[512] = "out of memory";
	bool good = trial != NULL;

	if (given == NULL)
	{
		faults_destroy(trial);
		snprintf(message, sizeof(message), "line %d column %d: %s", where.line, where.column,
				 where.text);
		return complain(connection, 400, message);
	}
	orders = json_is_array(given) ? json_incref(given) : json_pack("[O]", given);
	json_array_foreach(orders, index, order) good =
		good && faults_add(trial, order, server->options.tls, message, sizeof(message));
	json_array_foreach(orders, index, order) good =
		good &&
		faults_add(server->options.faults, order, server->options.tls, message, sizeof(message));
	faults_destroy(trial);
	json_decref(orders);
	json_decref(given);
	if (!good)
		return complain(connection, 400, message);
	return reply(connection, 200, faults_json(server->options.faults));
}

/* An order to a node ("/nodes/N") or to fail over. */
static enum MHD_Result
order_cluster(admin_server *server, struct MHD_Connection *connection, const char *path,
			  const verdict_buffer *body)
{
	cluster *cluster = server->options.cluster;
	json_error_t where;
	json_t *order = json_loadb(body->bytes != NULL ? body->bytes : "", body->size,
							   JSON_REJECT_DUPLICATES, &where);
	char message[512];
	char *end;
	unsigned long node;
	int status = 400;
	bool good = false;

	if (order == NULL)
		snprintf(message, sizeof(message), "line %d column %d: %s", where.line, where.column,
				 where.text);
	else if (strcmp(path, "/failover") == 0)
	{
		good = cluster_order_failover(cluster, order, message, sizeof(message));
		status = 409;
	}
	else
	{
		node = strtoul(path + strlen("/nodes/"), &end, 10);
		if (*end != '\0' || end == path + strlen("/nodes/") ||
			node >= (unsigned long) cluster_count(cluster))
		{
			status = 404;
			snprintf(message, sizeof(message), "there are the nodes 0 to %d",
					 cluster_count(cluster) - 1);
		}
		else
			good = cluster_order_node(cluster, (int) node, order, message, sizeof(message));
	}
	json_decref(order);
	return good ? reply(connection, 200, cluster_json(cluster))
				: complain(connection, status, message);
}

/* Requests of a method (NULL = of none) at all addresses. */
static json_int_t
requests(const admin_server *server, const service_method *method)
{
	uint64_t sum = 0;

	for (int i = 0; i < server->options.instance_count; i++)
		sum += http_requests(server->options.instances[i], method);
	return (json_int_t) sum;
}

static json_t *
counts(admin_server *server)
{
	json_t *all = json_object();

	for (int i = 0; i < SERVICE_METHOD_COUNT; i++)
	{
		const service_method *method = &service_methods[i];

		json_object_set_new(
			all, method->name,
			json_pack("{s:I, s:I}", "requests", requests(server, method), "executions",
					  (json_int_t) service_executions(server->options.service, method)));
	}
	json_object_set_new(all, "other", json_integer(requests(server, NULL)));
	return all;
}

static enum MHD_Result
dispatch(admin_server *server, struct MHD_Connection *connection, const char *method,
		 const char *path, const verdict_buffer *body)
{
	bool get = strcmp(method, MHD_HTTP_METHOD_GET) == 0;
	bool delete = strcmp(method, MHD_HTTP_METHOD_DELETE) == 0;

	if (strcmp(path, "/faults") == 0)
	{
		if (get)
			return reply(connection, 200, faults_json(server->options.faults));
		if (strcmp(method, MHD_HTTP_METHOD_POST) == 0)
			return order_faults(server, connection, body);
		if (delete)
		{
			faults_clear(server->options.faults);
			return reply(connection, 204, NULL);
		}
	}
	else if (strcmp(path, "/log") == 0)
	{
		if (get)
			return reply(connection, 200, request_log_json(server->options.log));
		if (delete)
		{
			request_log_clear(server->options.log);
			return reply(connection, 204, NULL);
		}
	}
	else if (strcmp(path, "/counts") == 0)
	{
		if (get)
			return reply(connection, 200, counts(server));
	}
	else if (server->options.cluster != NULL && strcmp(path, "/cluster") == 0)
	{
		if (get)
			return reply(connection, 200, cluster_json(server->options.cluster));
	}
	else if (server->options.cluster != NULL &&
			 (strcmp(path, "/failover") == 0 || strncmp(path, "/nodes/", 7) == 0))
	{
		if (strcmp(method, MHD_HTTP_METHOD_POST) == 0)
			return order_cluster(server, connection, path, body);
	}
	else
		return complain(connection, 404,
						server->options.cluster != NULL
							? "there are /faults, /log, /counts, /cluster, /nodes/N and /failover"
							: "there are /faults, /log and /counts");
	return complain(connection, 405, "not by this method");
}

static enum MHD_Result
handle(void *argument, struct MHD_Connection *connection, const char *url, const char *method,
	   const char *version, const char *bytes, size_t *size, void **context)
{
	admin_server *server = argument;
	verdict_buffer *body = *context;

	(void) version;
	if (body == NULL)
	{
		body = malloc(sizeof(*body));
		if (body == NULL)
			return MHD_NO;
		verdict_buffer_init(body, service_host(), BODY_MAX);
		*context = body;
		return MHD_YES;
	}
	if (*size > 0)
	{
		verdict_buffer_append(body, bytes, *size);
		*size = 0;
		return MHD_YES;
	}
	if (body->state != VERDICT_BUFFER_OK)
		return complain(connection, 413, "the order is too large");
	return dispatch(server, connection, method, url, body);
}

static void
request_completed(void *argument, struct MHD_Connection *connection, void **context,
				  enum MHD_RequestTerminationCode how)
{
	(void) argument;
	(void) connection;
	(void) how;
	if (*context != NULL)
		verdict_buffer_free(*context);
	free(*context);
	*context = NULL;
}

admin_server *
admin_start(const admin_options *options)
{
	admin_server *server = calloc(1, sizeof(*server));

	if (server == NULL)
		return NULL;
	server->options = *options;
	server->daemon = MHD_start_daemon(
		MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL, handle, server, MHD_OPTION_LISTEN_SOCKET,
		options->listen_socket, MHD_OPTION_NOTIFY_COMPLETED, request_completed, server,
		MHD_OPTION_CONNECTION_TIMEOUT, (unsigned) IDLE_SECONDS, MHD_OPTION_END);
	if (server->daemon == NULL)
	{
		free(server);
		return NULL;
	}
	return server;
}

void
admin_stop(admin_server *server)
{
	if (server == NULL)
		return;
	MHD_stop_daemon(server->daemon);
	free(server);
}
