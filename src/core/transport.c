/*
 * transport.c
 *		See transport.h: the runtime that drives libcurl, and the pools.
 *
 * Ownership: the runtime owns the multi handle and nothing in it; a pool owns
 * its share and its exchanges.  libcurl's cached connections live in the share,
 * so that they end with the pool.  The two loop callbacks (socket, timer) only
 * write down what libcurl wants; who waits is verdict_runtime_wait().
 */
#include "transport_internal.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define NEVER INT64_MAX

/* ---- what libcurl tells ---- */

static int
find_watched(const verdict_runtime *runtime, int fd)
{
	int i;

	for (i = 0; i < runtime->watched_count; i++)
		if (runtime->watched[i].fd == fd)
			return i;
	return -1;
}

static int
socket_wanted(CURL *easy, curl_socket_t fd, int what, void *context, void *unused)
{
	verdict_runtime *runtime = context;
	int i = find_watched(runtime, fd);
	verdict_socket *socket;

	(void) easy;
	(void) unused;
	if (what == CURL_POLL_REMOVE)
	{
		if (i >= 0)
			runtime->watched[i] = runtime->watched[--runtime->watched_count];
		return 0;
	}
	if (i < 0)
	{
		if (runtime->watched_count == MAX_WATCHED)
			return -1;
		socket = &runtime->watched[runtime->watched_count++];
		memset(socket, 0, sizeof(*socket));
		socket->fd = fd;
		/* A socket not opened here wakes the resolver's waiter; new each time. */
		if ((size_t) fd < runtime->opened_size && runtime->opened[fd].serial != 0)
			socket->serial = runtime->opened[fd].serial;
		else
			socket->serial = ++runtime->last_serial;
	}
	else
		socket = &runtime->watched[i];
	socket->want_read = (what & CURL_POLL_IN) != 0;
	socket->want_write = (what & CURL_POLL_OUT) != 0;
	return 0;
}

static int
timer_wanted(CURLM *multi, long timeout_ms, void *context)
{
	verdict_runtime *runtime = context;
	const verdict_host *host = runtime->host;

	(void) multi;
	if (timeout_ms < 0)
		runtime->timer_due_us = NEVER;
	else if (timeout_ms == 0)
		runtime->timer_due_us = INT64_MIN;
	else
		runtime->timer_due_us = host->monotonic_us(host->context) + (int64_t) timeout_ms * 1000;
	return 0;
}

/* 0 when there is no such descriptor. */
static uint64_t
inode_of(int fd)
{
	struct stat facts;

	return fstat(fd, &facts) == 0 ? (uint64_t) facts.st_ino : 0;
}

/* The descriptor counts no more. */
static void
give_up_socket(verdict_runtime *runtime, int fd)
{
	const verdict_host *host = runtime->host;

	runtime->opened[fd].serial = 0;
	if (host->release_descriptor != NULL)
		host->release_descriptor(host->context);
}

bool
verdict_runtime_register(verdict_runtime *runtime, int fd)
{
	if ((size_t) fd >= runtime->opened_size)
	{
		const verdict_host *host = runtime->host;
		size_t size = (size_t) fd + 64;
		own_socket *opened = host->allocate(host->context, runtime->opened, size * sizeof(*opened));

		if (opened == NULL)
			return false;
		memset(opened + runtime->opened_size, 0, (size - runtime->opened_size) * sizeof(*opened));
		runtime->opened = opened;
		runtime->opened_size = size;
	}
	/* What had this descriptor before was closed without telling. */
	if (runtime->opened[fd].serial != 0)
		give_up_socket(runtime, fd);
	runtime->opened[fd].serial = ++runtime->last_serial;
	runtime->opened[fd].inode = inode_of(fd);
	runtime->opened[fd].port = 0;
	return true;
}

int
verdict_runtime_close_socket(void *context, curl_socket_t fd)
{
	close(fd);
	give_up_socket(context, fd);
	return 0;
}

void
verdict_runtime_sweep(verdict_runtime *runtime)
{
	size_t fd;

	for (fd = 0; fd < runtime->opened_size; fd++)
		if (runtime->opened[fd].serial != 0 && inode_of((int) fd) != runtime->opened[fd].inode)
			give_up_socket(runtime, (int) fd);
}

void
verdict_runtime_note_ports(verdict_runtime *runtime)
{
	size_t fd;

	for (fd = 0; fd < runtime->opened_size; fd++)
	{
		union
		{
			struct sockaddr any;
			struct sockaddr_in in;
			struct sockaddr_in6 in6;
		} own;
		socklen_t size = sizeof(own);

		if (runtime->opened[fd].serial == 0 || runtime->opened[fd].port != 0 ||
			getsockname((int) fd, &own.any, &size) != 0)
			continue;
		if (own.any.sa_family == AF_INET)
			runtime->opened[fd].port = ntohs(own.in.sin_port);
		else if (own.any.sa_family == AF_INET6)
			runtime->opened[fd].port = ntohs(own.in6.sin6_port);
	}
}

bool
verdict_runtime_idle_is_clean(const verdict_runtime *runtime, int port)
{
	size_t fd;

	/* Connections to different addresses may share a port: look at all. */
	for (fd = 0; fd < runtime->opened_size; fd++)
	{
		char byte;

		if (runtime->opened[fd].port == port && runtime->opened[fd].serial != 0 &&
			(recv((int) fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 ||
			 (errno != EAGAIN && errno != EWOULDBLOCK)))
			return false;
	}
	return true;
}

/* ---- runtime ---- */

verdict_runtime *
verdict_runtime_create(const verdict_host *host, verdict_status *status)
{
	const curl_version_info_data *version;
	verdict_runtime *runtime;

	verdict_status_init(status);
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
	{
		verdict_status_fail(status, VERDICT_INTERNAL, VERDICT_CAUSE_INTERNAL,
							"libcurl could not be initialized");
		return NULL;
	}
	version = curl_version_info(CURLVERSION_NOW);
	if ((version->features & CURL_VERSION_ASYNCHDNS) == 0)
	{
		verdict_status_fail(status, VERDICT_INTERNAL, VERDICT_CAUSE_INTERNAL,
							"libcurl %s cannot resolve names in the background (AsynchDNS), "
							"so that a call could not be canceled",
							version->version);
		curl_global_cleanup();
		return NULL;
	}
	if (version->version_num < 0x075700)
	{
		verdict_status_fail(status, VERDICT_INTERNAL, VERDICT_CAUSE_INTERNAL,
							"libcurl %s is too old: 7.87.0 or later is needed", version->version);
		curl_global_cleanup();
		return NULL;
	}

	runtime = verdict_alloc_zero(host, sizeof(*runtime));
	if (runtime == NULL)
	{
		curl_global_cleanup();
		verdict_status_no_memory(status);
		return NULL;
	}
	runtime->host = host;
	runtime->timer_due_us = NEVER;
	sigfillset(&runtime->all_signals);
	runtime->multi = curl_multi_init();
	if (runtime->multi == NULL ||
		curl_multi_setopt(runtime->multi, CURLMOPT_SOCKETFUNCTION, socket_wanted) != CURLM_OK ||
		curl_multi_setopt(runtime->multi, CURLMOPT_SOCKETDATA, runtime) != CURLM_OK ||
		curl_multi_setopt(runtime->multi, CURLMOPT_TIMERFUNCTION, timer_wanted) != CURLM_OK ||
		curl_multi_setopt(runtime->multi, CURLMOPT_TIMERDATA, runtime) != CURLM_OK ||
		/* of each pool, since each has its own cache */
		curl_multi_setopt(runtime->multi, CURLMOPT_MAXCONNECTS, (long) VERDICT_MAX_IN_FLIGHT) !=
			CURLM_OK)
	{
		verdict_runtime_destroy(runtime);
		verdict_status_no_memory(status);
		return NULL;
	}
	return runtime;
}

void
verdict_runtime_destroy(verdict_runtime *runtime)
{
	if (runtime == NULL)
		return;
	if (runtime->multi != NULL)
		curl_multi_cleanup(runtime->multi);
	verdict_free(runtime->host, runtime->opened);
	verdict_free(runtime->host, runtime);
	curl_global_cleanup();
}

const char *
verdict_runtime_libcurl_version(void)
{
	return curl_version();
}

const verdict_host *
verdict_runtime_host(const verdict_runtime *runtime)
{
	return runtime->host;
}

bool
verdict_runtime_add(verdict_runtime *runtime, verdict_exchange *exchange)
{
	if (curl_multi_add_handle(runtime->multi, exchange->easy) != CURLM_OK)
		return false;
	exchange->active = true;
	exchange->previous = NULL;
	exchange->next = runtime->active;
	if (exchange->next != NULL)
		exchange->next->previous = exchange;
	runtime->active = exchange;
	runtime->active_count++;
	exchange->pool->active_count++;
	return true;
}

void
verdict_runtime_remove(verdict_runtime *runtime, verdict_exchange *exchange)
{
	curl_multi_remove_handle(runtime->multi, exchange->easy);
	exchange->active = false;
	if (exchange->previous != NULL)
		exchange->previous->next = exchange->next;
	else
		runtime->active = exchange->next;
	if (exchange->next != NULL)
		exchange->next->previous = exchange->previous;
	runtime->active_count--;
	exchange->pool->active_count--;
}

/* ---- the loop ---- */

/*
 * Lets libcurl act on one event.  It may start a thread to resolve a name; that
 * thread must never be the one that takes a signal meant for the host.
 */
static CURLMcode
act(verdict_runtime *runtime, curl_socket_t fd, int events)
{
	sigset_t before;
	int running;
	CURLMcode result;

	pthread_sigmask(SIG_BLOCK, &runtime->all_signals, &before);
	result = curl_multi_socket_action(runtime->multi, fd, events, &running);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return result;
}

/* Takes what libcurl has finished out of the multi handle. */
static void
harvest(verdict_runtime *runtime)
{
	CURLMsg *message;
	int left;

	while ((message = curl_multi_info_read(runtime->multi, &left)) != NULL)
	{
		CURLcode result = message->data.result;
		char *private = NULL;
		verdict_exchange *exchange;

		if (message->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &private);
		exchange = (verdict_exchange *) private;
		verdict_runtime_remove(runtime, exchange);
		if (!verdict_exchange_restart(exchange))
			verdict_exchange_finish(exchange, result);
	}
}

/* The loop itself failed: nothing under way can be relied on. */
static void
fail_all(verdict_runtime *runtime)
{
	while (runtime->active != NULL)
	{
		verdict_exchange *exchange = runtime->active;

		exchange->multi_failed = true;
		verdict_runtime_remove(runtime, exchange);
		verdict_exchange_finish(exchange, CURLE_FAILED_INIT);
	}
}

/* Hands on to libcurl which sockets are ready. */
static CURLMcode
act_on_sockets(verdict_runtime *runtime)
{
	verdict_socket ready[MAX_WATCHED];
	int count = 0;
	int i;
	CURLMcode result = CURLM_OK;

	/* Acting on one changes the list. */
	for (i = 0; i < runtime->watched_count; i++)
		if (runtime->watched[i].readable || runtime->watched[i].writable)
			ready[count++] = runtime->watched[i];
	for (i = 0; i < count && result == CURLM_OK; i++)
	{
		int events = 0;
		int now = find_watched(runtime, ready[i].fd);

		if (now < 0 || runtime->watched[now].serial != ready[i].serial)
			continue;
		if (ready[i].readable && ready[i].want_read)
			events |= CURL_CSELECT_IN;
		if (ready[i].writable && ready[i].want_write)
			events |= CURL_CSELECT_OUT;
		result = act(runtime, ready[i].fd, events);
	}
	return result;
}

verdict_wait_result
verdict_runtime_wait(verdict_runtime *runtime, int64_t until_us)
{
	const verdict_host *host = runtime->host;
	verdict_wait_result waited = VERDICT_WAIT_TIMEOUT;
	CURLMcode result = CURLM_OK;

	/* What was only just started runs at once, without a look at the clock. */
	if (runtime->timer_due_us == INT64_MIN)
		waited = VERDICT_WAIT_READY;
	else
	{
		int64_t due = runtime->timer_due_us < until_us ? runtime->timer_due_us : until_us;
		int64_t timeout = due - host->monotonic_us(host->context);

		waited = host->wait(host->context, runtime->watched, runtime->watched_count,
							timeout > 0 ? timeout : 0);
		if (waited == VERDICT_WAIT_INTERRUPTED)
			return waited;
		if (waited == VERDICT_WAIT_READY)
			result = act_on_sockets(runtime);
	}
	if (result == CURLM_OK && runtime->timer_due_us != NEVER &&
		(runtime->timer_due_us == INT64_MIN ||
		 (waited == VERDICT_WAIT_TIMEOUT &&
		  host->monotonic_us(host->context) >= runtime->timer_due_us)))
	{
		runtime->timer_due_us = NEVER;
		result = act(runtime, CURL_SOCKET_TIMEOUT, 0);
		waited = VERDICT_WAIT_READY;
	}
	harvest(runtime);
	if (result != CURLM_OK)
		fail_all(runtime);
	return waited;
}

/* ---- pools ---- */

verdict_pool *
verdict_pool_create(verdict_runtime *runtime, const verdict_pool_options *options,
					verdict_status *status)
{
	const verdict_host *host = runtime->host;
	verdict_pool *pool = verdict_alloc_zero(host, sizeof(*pool));

	if (pool == NULL)
	{
		verdict_status_no_memory(status);
		return NULL;
	}
	pool->runtime = runtime;
	pool->http_version = options->http_version;
	pool->max_response_bytes = options->max_response_bytes;
	pool->headers = options->headers;
	pool->share = curl_share_init();
	if (options->ssl_ca_file != NULL)
		pool->ssl_ca_file = verdict_strdup(host, options->ssl_ca_file);
	if (pool->share == NULL || (options->ssl_ca_file != NULL && pool->ssl_ca_file == NULL) ||
		curl_share_setopt(pool->share, CURLSHOPT_SHARE, CURL_LOCK_DATA_CONNECT) != CURLSHE_OK ||
		curl_share_setopt(pool->share, CURLSHOPT_SHARE, CURL_LOCK_DATA_SSL_SESSION) != CURLSHE_OK)
	{
		verdict_pool_destroy(pool);
		verdict_status_no_memory(status);
		return NULL;
	}
	return pool;
}

void
verdict_pool_destroy(verdict_pool *pool)
{
	const verdict_host *host;
	int i;

	if (pool == NULL)
		return;
	host = pool->runtime->host;
	for (i = 0; i < pool->exchange_count; i++)
		verdict_exchange_free(pool->exchanges[i]);
	if (pool->share != NULL)
		curl_share_cleanup(pool->share);
	verdict_free(host, pool->ssl_ca_file);
	verdict_free(host, pool);
}

bool
verdict_pool_ready(const verdict_pool *pool)
{
	if (pool->retiring)
		return false;
	return pool->active_count == 0 || pool->http2_requests < HTTP2_REQUESTS_PER_CONNECTION;
}
