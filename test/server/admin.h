/*
 * admin.h
 *		The admin address: faults are ordered and requests looked up here.
 *
 * JSON over plain HTTP, for curl and test scripts.  There is no credential: it
 * is off unless asked for, and belongs on a loopback address.
 *
 *	GET /faults		the orders that are left, as an array
 *	POST /faults	appends one order, or an array of orders
 *	DELETE /faults	takes all orders back
 *	GET /log		the requests that came, as an array
 *	DELETE /log		empties it
 *	GET /counts		{"Authorize": {"requests": n, "executions": n}, ..., "other": n}
 *
 * And of an instance of several nodes:
 *
 *	GET /cluster	its nodes with their figures, as cluster_json() makes it
 *	POST /nodes/N	changes node N: {"lag_ms": n, "frozen": true or false, "front":
 *					true or false, "cut": null, "refuse" or "hang"}, each optional
 *	POST /failover	{"to": N} makes replica N the writer, {} the one that has most
 *
 * An order is {"method": "Authorize" or "*", "times": n (1; -1 = without end),
 * "skip": n (0), "fault": {"kind": ..., ...}}; faults.h names the kinds.
 */
#ifndef VERDICT_SERVER_ADMIN_H
#define VERDICT_SERVER_ADMIN_H

#include "http.h"

typedef struct admin_server admin_server;

typedef struct admin_options
{
	int listen_socket;			   /* taken over on success */
	bool tls;					   /* the instance speaks TLS */
	http_server *const *instances; /* the addresses of the instance */
	int instance_count;
	cluster *cluster; /* NULL = it stands alone */
	service *service;
	faults *faults;
	request_log *log;
} admin_options;

/* Serves in a thread of its own.  NULL when it cannot. */
extern admin_server *admin_start(const admin_options *options);
/* NULL is allowed. */
extern void admin_stop(admin_server *server);

#endif /* VERDICT_SERVER_ADMIN_H */
