/*
 * transport_internal.h
 *		What transport.c (runtime, pool, loop) and exchange.c (one request) share.
 */
#ifndef VERDICT_TRANSPORT_INTERNAL_H
#define VERDICT_TRANSPORT_INTERNAL_H

#include "inflate.h"
#include "transport.h"

#include <curl/curl.h>
#include <signal.h>

#if LIBCURL_VERSION_NUM < 0x075700
#error                                                                                             \
	"libcurl 7.87.0 or later is needed: CURLOPT_QUICK_EXIT lets a call end while a name is being resolved"
#endif

/* libcurl names at most five sockets for one transfer. */
#define MAX_WATCHED (VERDICT_MAX_IN_FLIGHT * 5)

/*
 * libcurl 7.88 ends most HTTP/2 streams by RST_STREAM, and peers that count
 * resets end a connection after about a thousand of them: leave it before.
 */
#define HTTP2_REQUESTS_PER_CONNECTION 500

typedef struct own_socket
{
	uint64_t serial; /* 0 = no socket of ours has this descriptor */
	uint64_t inode;	 /* what it is to the kernel */
	int port;		 /* its own end's; 0 = not asked for yet */
} own_socket;

struct verdict_runtime
{
	const verdict_host *host;
	CURLM *multi;

	/* What libcurl wants to be waited for; kept as it is between calls. */
	verdict_socket watched[MAX_WATCHED];
	int watched_count;
	int64_t timer_due_us; /* when libcurl wants to run; INT64_MAX = never */

	/* The sockets opened here, by descriptor. */
	own_socket *opened;
	size_t opened_size;
	uint64_t last_serial;

	verdict_exchange *active; /* under way in the multi handle */
	int active_count;
	sigset_t all_signals;
};

struct verdict_pool
{
	verdict_runtime *runtime;
	CURLSH *share; /* holds the connections and TLS sessions */
	char *ssl_ca_file;
	verdict_http_version http_version;
	size_t max_response_bytes;
	verdict_header_lines headers;

	verdict_exchange *exchanges[VERDICT_MAX_IN_FLIGHT]; /* made so far */
	int exchange_count;
	int active_count;
	bool speaks_http2;	/* the latest answer did */
	int http2_requests; /* over the present HTTP/2 connection */
	bool retiring;		/* the exchange under way is its last */
};

struct verdict_exchange
{
	verdict_pool *pool;
	bool acquired;
	bool active; /* in the multi handle */
	bool done;
	verdict_exchange *next; /* in runtime->active */
	verdict_exchange *previous;

	CURL *easy;
	CURLU *address;	   /* what the easy handle was told */
	char *url;		   /* as a text */
	bool forbid_reuse; /* likewise */
	struct curl_slist lines[VERDICT_MAX_REQUEST_HEADERS + 2];
	char error[CURL_ERROR_SIZE];

	/* What happened. */
	CURLcode result;
	bool multi_failed; /* libcurl's loop failed as a whole */
	bool sent;
	bool fresh;			 /* it opened a connection */
	bool unclean;		 /* the kept connection had something to say already */
	bool restarted;		 /* for that reason, on a fresh connection */
	bool resend_refused; /* libcurl wanted to send once more */
	bool no_descriptor;
	bool no_memory;
	verdict_headers headers;
	int64_t length;	  /* of the body as sent; -1 = in chunks */
	int64_t received; /* of it, so far */
	bool gzip;
	bool discard;			  /* a body that is of no use */
	verdict_inflate *inflate; /* made when first needed */
	verdict_buffer body;

	/* Why a callback ended the exchange. */
	verdict_code refused_code; /* VERDICT_OK = it did not */
	verdict_cause refused_cause;
	const char *refused_reason;
};

/* transport.c */
/* Hands an exchange to libcurl; false on failure. */
extern bool verdict_runtime_add(verdict_runtime *runtime, verdict_exchange *exchange);
/* Takes it back, whatever its phase. */
extern void verdict_runtime_remove(verdict_runtime *runtime, verdict_exchange *exchange);
/* For CURLOPT_OPENSOCKETFUNCTION: gives the socket its serial number. */
extern bool verdict_runtime_register(verdict_runtime *runtime, int fd);
/*
 * Whether nothing waits to be read on the connection whose own end has this
 * port.  On an idle HTTP/1 connection there must be nothing: it could only be
 * its end, or an answer that nobody asked for.
 */
extern bool verdict_runtime_idle_is_clean(const verdict_runtime *runtime, int port);
/* Learns the ports of new connections. */
extern void verdict_runtime_note_ports(verdict_runtime *runtime);
/*
 * Gives up the sockets that are there no more: libcurl 7 closes those that never
 * came to be connected without telling.
 */
extern void verdict_runtime_sweep(verdict_runtime *runtime);
/* For CURLOPT_CLOSESOCKETFUNCTION; "context" is the runtime. */
extern int verdict_runtime_close_socket(void *context, curl_socket_t fd);

/* exchange.c */
/* libcurl is through with it; it is out of the multi handle already. */
extern void verdict_exchange_finish(verdict_exchange *exchange, CURLcode result);
/*
 * Starts it anew on a fresh connection when libcurl was through with it because
 * the kept one was not clean.
 */
extern bool verdict_exchange_restart(verdict_exchange *exchange);
extern void verdict_exchange_free(verdict_exchange *exchange);

#endif /* VERDICT_TRANSPORT_INTERNAL_H */
