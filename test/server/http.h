/*
 * http.h
 *		The instance's address: HTTP/1.1 by libmicrohttpd, in one thread.
 *
 * Everything the server is given must outlive it.
 */
#ifndef VERDICT_SERVER_HTTP_H
#define VERDICT_SERVER_HTTP_H

#include "faults.h"
#include "log.h"
#include "service.h"
#include "timer.h"

typedef struct http_server http_server;

typedef struct http_options
{
	int listen_socket;			 /* of listen_at(); taken over on success */
	const char *path_prefix;	 /* "" or "/some/prefix", no slash at its end */
	const char *tls_certificate; /* PEM text; NULL = plain HTTP */
	const char *tls_key;		 /* PEM text */
	size_t max_request_bytes;	 /* before and after decompression */
	unsigned idle_seconds;		 /* a kept connection is closed after this */
	bool clustered;				 /* the service has a cluster */
	int address;				 /* then: see cluster_request */
	service *service;
	faults *faults;
	request_log *log; /* NULL = requests are not logged */
	timers *timers;
} http_options;

/* Starts to serve.  NULL when it cannot. */
extern http_server *http_start(const http_options *options);
/*
 * Has all these servers, which share service and timers, accept no more
 * connections, and lets running requests end for up to "patience_ms"; what still
 * waits then is dropped.  The timers must still run.
 */
extern void http_quiesce(http_server *const *servers, int count, int patience_ms);
/* After http_quiesce(): closes every connection, ends the thread, frees. */
extern void http_stop(http_server *server);
/* Requests of a method that arrived since the start; NULL = of no method. */
extern uint64_t http_requests(http_server *server, const service_method *method);

#endif /* VERDICT_SERVER_HTTP_H */
