/*
 * test_connections.c
 *		The life of connections: kept and reused, dying at the wrong moment, cut
 *		off by the clock or by the host in every phase, belonging to one identity.
 *
 * getaddrinfo() is replaced in this program: names that end in ".hang" are never
 * resolved, so that a call can be interrupted while libcurl's thread is busy.
 */
#include "rig.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static rig r;

static int
begin(void **state)
{
	(void) state;
	rig_begin(&r);
	rig_client(&r);
	return 0;
}

static int
end(void **state)
{
	(void) state;
	rig_end(&r);
	return 0;
}

/* ---- the resolver ---- */

static pthread_mutex_t resolver_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t resolver_wake = PTHREAD_COND_INITIALIZER;
static bool resolver_released;
static int resolver_hanging;
static bool resolver_takes_signals;

/* Found by libcurl before the C library's. */
__attribute__((visibility("default"))) int
getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
			struct addrinfo **found)
{
	static int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
	size_t length = node != NULL ? strlen(node) : 0;

	if (length > 5 && strcmp(node + length - 5, ".hang") == 0)
	{
		sigset_t blocked;

		pthread_sigmask(SIG_BLOCK, NULL, &blocked);
		pthread_mutex_lock(&resolver_lock);
		if (sigismember(&blocked, SIGINT) != 1 || sigismember(&blocked, SIGALRM) != 1 ||
			sigismember(&blocked, SIGUSR1) != 1 || sigismember(&blocked, SIGTERM) != 1)
			resolver_takes_signals = true;
		resolver_hanging++;
		while (!resolver_released)
			pthread_cond_wait(&resolver_wake, &resolver_lock);
		resolver_hanging--;
		pthread_cond_broadcast(&resolver_wake);
		pthread_mutex_unlock(&resolver_lock);
		return EAI_AGAIN;
	}
	if (length > 8 && strcmp(node + length - 8, ".invalid") == 0)
		return EAI_NONAME;
	if (real == NULL)
		real = (int (*)(const char *, const char *, const struct addrinfo *,
						struct addrinfo **)) dlsym(RTLD_NEXT, "getaddrinfo");
	return real(node, service, hints, found);
}

/* Lets all that hang return, and waits until they have. */
static void
release_resolver(void)
{
	pthread_mutex_lock(&resolver_lock);
	resolver_released = true;
	pthread_cond_broadcast(&resolver_wake);
	while (resolver_hanging > 0)
		pthread_cond_wait(&resolver_wake, &resolver_lock);
	resolver_released = false;
	pthread_mutex_unlock(&resolver_lock);
	/* libcurl's thread frees what was left to it after that. */
	usleep(50000);
}

/* ---- phases in which a call can be stuck ---- */

static int full_listener = -1;
static int full_clients[64];
static char full_url[64];

/* An address that answers no SYN: its queue of connections is full. */
static const char *
start_blackhole(void)
{
	struct sockaddr_in address;
	socklen_t size = sizeof(address);
	int i;

	memset(&address, 0, sizeof(address));
	address.sin_family = AF_INET;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	full_listener = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(full_listener, (struct sockaddr *) &address, size), 0);
	assert_int_equal(listen(full_listener, 0), 0);
	assert_int_equal(getsockname(full_listener, (struct sockaddr *) &address, &size), 0);
	for (i = 0; i < 8; i++)
	{
		full_clients[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		assert_true(connect(full_clients[i], (struct sockaddr *) &address, size) == 0 ||
					errno == EINPROGRESS);
	}
	usleep(10000);
	snprintf(full_url, sizeof(full_url), "http://127.0.0.1:%d", ntohs(address.sin_port));
	return full_url;
}

static void
stop_blackhole(void)
{
	int i;

	for (i = 0; i < 8; i++)
		close(full_clients[i]);
	close(full_listener);
}

typedef enum phase
{
	RESOLVING,
	CONNECTING,
	SECURING,
	WAITING,
	IN_HEADERS,
	IN_BODY,
	IN_BACKOFF,
	PHASES
} phase;

/* Makes the next call get stuck there. */
static void
get_stuck(phase where)
{
	static const char body[] = "\x08\x01\x7a\xff\x01xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";
	static char tls_url[64];
	peer_step drip = {PEER_DRIP, body, sizeof(body) - 1, 1000};

	switch (where)
	{
		case RESOLVING:
			r.options.instance_url = "http://name.hang:80";
			break;
		case CONNECTING:
			r.options.instance_url = start_blackhole();
			break;
		case SECURING:
			snprintf(tls_url, sizeof(tls_url), "https://127.0.0.1:%d", peer_port(r.peer));
			r.options.instance_url = tls_url;
			{
				peer_step steps[] = {rig_act(PEER_STALL, 0), rig_act(PEER_END, 0)};

				peer_queue_accept(r.peer, steps);
			}
			break;
		case WAITING:
			rig_queue(&r, rig_act(PEER_STALL, 0));
			break;
		case IN_HEADERS:
			rig_queue_two(&r, peer_text("HTTP/1.1 200 OK\r\nContent-Type: appl"),
						  rig_act(PEER_STALL, 0));
			break;
		case IN_BODY:
			rig_queue_two(&r,
						  peer_text("HTTP/1.1 200 OK\r\nContent-Type: application/proto\r\n"
									"Content-Length: 261\r\n\r\n\x08\x01"),
						  drip);
			break;
		case IN_BACKOFF:
			rig_queue(&r, rig_error(&r, 503, NULL, ""));
			break;
		case PHASES:
			abort();
	}
	rig_client(&r);
}

static void
get_unstuck(phase where)
{
	if (where == RESOLVING)
		release_resolver();
	if (where == CONNECTING)
		stop_blackhole();
	/* The answer before a backoff was whole: its connection is kept. */
	assert_true(peer_wait_open_connections(r.peer, where == IN_BACKOFF ? 1 : 0));
	r.options.instance_url = peer_url(r.peer);
}

/* Far below the ten seconds of a read; loading the trust store can take one. */
#define AT_ONCE 5.0

static double
seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double) now.tv_sec + (double) now.tv_nsec / 1e9;
}

/* The same client, or after a phase of its own address another one, works. */
static void
expect_next_call_works(phase where)
{
	if (where <= SECURING)
		rig_client(&r);
	rig_queue(&r, rig_yes(&r, ""));
	if (!rig_authorize(&r))
		fail_msg("phase %d: %s", where, r.status.message);
	assert_true(r.allowed);
}

static void
ends_at_once_when_interrupted(void **state)
{
	phase where;
	int mutation;

	(void) state;
	for (where = 0; where < PHASES; where++)
		for (mutation = 0; mutation < 2; mutation++)
		{
			bool sent = where >= WAITING;
			double start;

			get_stuck(where);
			r.interrupt_after_ms = where == IN_BACKOFF ? 1000 : 30;
			start = seconds();
			assert_false(mutation == 1 ? rig_insert(&r, NULL) : rig_authorize(&r));
			assert_true(seconds() - start < AT_ONCE);
			r.interrupt_after_ms = -1;
			assert_int_equal(r.status.code, VERDICT_CANCELED);
			assert_int_equal(r.status.cause, VERDICT_CAUSE_INTERRUPTED);
			assert_int_equal(r.status.outcome,
							 sent ? VERDICT_OUTCOME_MAYBE_APPLIED : VERDICT_OUTCOME_NOT_SENT);
			assert_int_equal(r.status.sends, sent ? 1 : 0);
			assert_int_equal(r.status.attempts, 1);
			assert_int_equal(strlen(r.status.request_id), 36);
			/* Nothing goes on behind the caller's back. */
			get_unstuck(where);
			expect_next_call_works(where);
		}
	assert_false(resolver_takes_signals);
}

static void
ends_by_its_own_deadline(void **state)
{
	static const char *const phrases[] = {
		"resolving the host name", "connecting",		 "connecting", "waiting for the answer",
		"waiting for the answer",  "reading the answer",
	};
	phase where;

	(void) state;
	for (where = 0; where < IN_BACKOFF; where++)
	{
		double start;

		/* The peer knows of no deadline; the client does. */
		r.options.read_timeout_ms = 100;
		get_stuck(where);
		r.options.read_timeout_ms = VERDICT_READ_TIMEOUT_MS;
		start = seconds();
		assert_false(rig_authorize(&r));
		assert_true(seconds() - start < AT_ONCE);
		assert_int_equal(r.status.code, VERDICT_DEADLINE_EXCEEDED);
		assert_int_equal(r.status.cause, VERDICT_CAUSE_DEADLINE);
		assert_int_equal(r.status.outcome, where >= WAITING ? VERDICT_OUTCOME_MAYBE_APPLIED
															: VERDICT_OUTCOME_NOT_SENT);
		if (strstr(r.status.message, phrases[where]) == NULL)
			fail_msg("phase %d: %s", where, r.status.message);
		get_unstuck(where);
		rig_client(&r);
		expect_next_call_works(where);
	}
}

static void
keeps_to_a_short_deadline_in_real_time(void **state)
{
	verdict_check check = {{"User", "a"}, "read", {"Document", "b"}};
	verdict_read_options options = {VERDICT_CONSISTENCY_DEFAULT, 150};
	const peer_request *request;
	double start;
	double took;

	(void) state;
	get_stuck(IN_BODY);
	start = seconds();
	assert_false(
		verdict_client_authorize(r.client, &r.session, &check, &options, &r.allowed, &r.status));
	took = seconds() - start;
	assert_int_equal(r.status.code, VERDICT_DEADLINE_EXCEEDED);
	assert_true(took >= 0.149 && took < AT_ONCE);
	request = peer_request_at(r.peer, 0);
	assert_in_range(atoi(peer_request_header(r.peer, request, "Connect-Timeout-Ms")), 100, 150);
	get_unstuck(IN_BODY);
}

/* ---- kept connections ---- */

static void
reuses_a_connection(void **state)
{
	int i;

	(void) state;
	rig_standing(&r, rig_yes(&r, ""));
	for (i = 0; i < 50; i++)
	{
		assert_true(i % 2 == 0 ? rig_authorize(&r) : rig_insert(&r, NULL));
		assert_int_equal(r.status.sends, 1);
	}
	assert_int_equal(peer_connection_count(r.peer), 1);
	/* One wait a warm call, all of them for the same socket. */
	assert_true(r.waits <= 52);
	verdict_client_destroy(r.client);
	r.client = NULL;
	assert_true(peer_wait_open_connections(r.peer, 0));
}

static void
numbers_sockets(void **state)
{
	uint64_t serial;
	int fd;

	(void) state;
	rig_standing(&r, rig_yes(&r, ""));
	assert_true(rig_authorize(&r));
	serial = r.serial;
	fd = r.fd;
	assert_true(serial > 0);
	assert_true(rig_authorize(&r));
	assert_int_equal(r.serial, serial);
	/* Another socket, of the same descriptor as like as not. */
	rig_client(&r);
	assert_true(rig_authorize(&r));
	assert_int_equal(r.fd, fd);
	assert_true(r.serial > serial);
}

static void
notices_that_an_idle_connection_was_closed(void **state)
{
	(void) state;
	rig_queue_two(&r, rig_yes(&r, ""), rig_act(PEER_CLOSE, 0));
	rig_queue_two(&r, rig_yes(&r, ""), rig_act(PEER_CLOSE, 0));
	rig_queue(&r, rig_yes(&r, ""));
	assert_true(rig_authorize(&r));
	assert_true(peer_wait_open_connections(r.peer, 0));
	/* Silently: nothing was sent twice, so that it holds for a mutation too. */
	assert_true(rig_insert(&r, NULL));
	assert_int_equal(r.status.sends, 1);
	assert_true(peer_wait_open_connections(r.peer, 0));
	assert_true(rig_authorize(&r));
	assert_int_equal(r.status.sends, 1);
	assert_int_equal(peer_request_count(r.peer), 3);
}

/* A connection that is kept, and dies as "how" says when it is used again. */
static void
warm_then_die(peer_action how)
{
	rig_queue(&r, rig_yes(&r, ""));
	rig_queue(&r, rig_act(how, 0));
	assert_true(rig_authorize(&r));
}

static void
replaces_a_dead_connection_for_a_read_once(void **state)
{
	static const peer_action ways[] = {PEER_CLOSE, PEER_RESET};
	size_t i;

	(void) state;
	for (i = 0; i < RIG_LENGTH(ways); i++)
	{
		int before = peer_request_count(r.peer);

		rig_client(&r);
		warm_then_die(ways[i]);
		rig_queue(&r, rig_yes(&r, ""));
		assert_true(rig_authorize(&r));
		assert_int_equal(r.status.sends, 2);
		assert_int_equal(r.status.attempts, 1);
		assert_int_equal(peer_request_count(r.peer), before + 3);

		/* Not a second time. */
		rig_client(&r);
		warm_then_die(ways[i]);
		rig_queue(&r, rig_act(ways[i], 0));
		assert_false(rig_authorize(&r));
		assert_int_equal(r.status.code, VERDICT_UNAVAILABLE);
		assert_int_equal(r.status.cause, VERDICT_CAUSE_LOST);
		assert_int_equal(r.status.sends, 2);
		assert_int_equal(peer_request_count(r.peer), before + 6);
	}
}

/* F1: executed, and the answer lost on a kept connection. */
static void
sends_a_mutation_again_only_as_a_second_attempt(void **state)
{
	static const peer_action ways[] = {PEER_CLOSE, PEER_RESET};
	size_t i;

	(void) state;
	for (i = 0; i < RIG_LENGTH(ways); i++)
	{
		const peer_request *first;
		const peer_request *second;
		int before = peer_request_count(r.peer);

		rig_client(&r);
		warm_then_die(ways[i]);
		rig_queue(&r, rig_yes(&r, ""));
		assert_true(rig_insert(&r, NULL));
		assert_int_equal(r.changed, 1);
		assert_int_equal(r.status.attempts, 2);
		assert_int_equal(r.status.sends, 2);
		assert_int_equal(peer_request_count(r.peer), before + 3);
		first = peer_request_at(r.peer, before + 1);
		second = peer_request_at(r.peer, before + 2);
		assert_string_equal(peer_request_header(r.peer, first, "Idempotency-Key"),
							peer_request_header(r.peer, second, "Idempotency-Key"));
		assert_int_equal(first->body_size, second->body_size);
		assert_memory_equal(first->body, second->body, first->body_size);
		assert_int_not_equal(first->connection, second->connection);
	}
}

static void
sends_once_when_it_may_not_retry(void **state)
{
	static const peer_action ways[] = {PEER_CLOSE, PEER_RESET};
	size_t i;
	int mutation;

	(void) state;
	r.options.retry_owner = VERDICT_RETRY_NONE;
	r.options.retry_http_503 = false;
	for (i = 0; i < RIG_LENGTH(ways); i++)
		for (mutation = 0; mutation < 2; mutation++)
		{
			int before = peer_request_count(r.peer);

			rig_client(&r);
			warm_then_die(ways[i]);
			assert_false(mutation == 1 ? rig_insert(&r, NULL) : rig_authorize(&r));
			assert_int_equal(r.status.code, VERDICT_UNAVAILABLE);
			assert_int_equal(r.status.cause, VERDICT_CAUSE_LOST);
			assert_int_equal(r.status.outcome, VERDICT_OUTCOME_MAYBE_APPLIED);
			assert_int_equal(r.status.sends, 1);
			usleep(20000);
			assert_int_equal(peer_request_count(r.peer), before + 2);
			rig_queue(&r, rig_yes(&r, ""));
			assert_true(rig_authorize(&r));
		}
}

/* Two connections are kept and both die: libcurl finds the second and must not use it. */
static void
sends_once_with_several_kept_connections(void **state)
{
	verdict_check checks[4] = {{{"User", "a"}, "read", {"Document", "1"}},
							   {{"User", "a"}, "read", {"Document", "2"}},
							   {{"User", "a"}, "read", {"Document", "3"}},
							   {{"User", "a"}, "read", {"Document", "4"}}};
	peer_step slow[] = {rig_act(PEER_PAUSE, 50), rig_yes(&r, ""), rig_act(PEER_END, 0)};
	bool allowed[4];

	(void) state;
	r.options.retry_owner = VERDICT_RETRY_NONE;
	r.options.retry_http_503 = false;
	rig_client(&r);
	peer_standing(r.peer, slow);
	assert_true(
		verdict_client_authorize_many(r.client, &r.session, checks, 4, NULL, allowed, &r.status));
	assert_int_equal(peer_connection_count(r.peer), 4);
	rig_standing(&r, rig_act(PEER_CLOSE, 0));
	assert_false(rig_insert(&r, "k"));
	assert_int_equal(r.status.cause, VERDICT_CAUSE_LOST);
	usleep(20000);
	assert_int_equal(peer_request_count(r.peer), 5);
	assert_int_equal(peer_connection_count(r.peer), 4);
}

/* ---- identities ---- */

static void
keeps_identities_apart(void **state)
{
	verdict_client *other;
	verdict_client *first = r.client;
	verdict_status status;
	int i;

	(void) state;
	rig_standing(&r, rig_yes(&r, ""));
	r.options.api_key = "another-key";
	other = verdict_client_create(r.runtime, &r.options, &status);
	assert_non_null(other);
	for (i = 0; i < 6; i++)
	{
		r.client = i % 2 == 0 ? first : other;
		assert_true(rig_authorize(&r));
	}
	assert_int_equal(peer_connection_count(r.peer), 2);
	for (i = 0; i < 6; i++)
	{
		const peer_request *request = peer_request_at(r.peer, i);

		assert_int_equal(request->connection, i % 2);
		assert_string_equal(peer_request_header(r.peer, request, "Authorization"),
							i % 2 == 0 ? "Bearer key-of-the-tests" : "Bearer another-key");
	}
	/* One goes with its connection, the other keeps its own. */
	verdict_client_destroy(other);
	assert_true(peer_wait_open_connections(r.peer, 1));
	r.client = first;
	assert_true(rig_authorize(&r));
	assert_int_equal(peer_connection_count(r.peer), 2);
}

/* ---- no connection ---- */

static void
tells_why_there_is_no_connection(void **state)
{
	char url[64];
	char tls_url[64];
	const struct
	{
		const char *url;
		verdict_cause cause;
	} cases[] = {
		{"http://no-such-host.invalid", VERDICT_CAUSE_RESOLVE},
		{url, VERDICT_CAUSE_CONNECT},
		{tls_url, VERDICT_CAUSE_TLS},
	};
	struct sockaddr_in address;
	socklen_t size = sizeof(address);
	int unused = socket(AF_INET, SOCK_STREAM, 0);
	size_t i;
	int mutation;

	(void) state;
	/* Bound and not listening: refuses. */
	memset(&address, 0, sizeof(address));
	address.sin_family = AF_INET;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(unused, (struct sockaddr *) &address, size), 0);
	assert_int_equal(getsockname(unused, (struct sockaddr *) &address, &size), 0);
	snprintf(url, sizeof(url), "http://127.0.0.1:%d", ntohs(address.sin_port));
	snprintf(tls_url, sizeof(tls_url), "https://127.0.0.1:%d", peer_port(r.peer));

	for (i = 0; i < RIG_LENGTH(cases); i++)
		for (mutation = 0; mutation < 2; mutation++)
		{
			int attempt;

			r.options.instance_url = cases[i].url;
			rig_client(&r);
			if (cases[i].cause == VERDICT_CAUSE_TLS)
				for (attempt = 0; attempt < 2; attempt++)
				{
					/* not TLS; then an end in the middle of the hello */
					peer_step steps[] = {mutation == 0 ? peer_text("HTTP/1.1 400 X\r\n\r\n")
													   : peer_text("\x16\x03\x03"),
										 rig_act(PEER_PAUSE, 20), rig_act(PEER_CLOSE, 0),
										 rig_act(PEER_END, 0)};

					if (attempt == 0)
						peer_queue_accept(r.peer, steps);
				}
			assert_false(mutation == 1 ? rig_insert(&r, NULL) : rig_authorize(&r));
			if (r.status.cause != cases[i].cause)
				fail_msg("case %zu: %s", i, r.status.message);
			assert_int_equal(r.status.code, VERDICT_UNAVAILABLE);
			assert_int_equal(r.status.outcome, VERDICT_OUTCOME_NOT_SENT);
			assert_int_equal(r.status.sends, 0);
			/* A mutation tries again, but not where trust is missing. */
			assert_int_equal(r.status.attempts,
							 mutation == 1 && cases[i].cause != VERDICT_CAUSE_TLS ? 2 : 1);
			assert_null(strstr(r.status.message, r.options.api_key));
		}
	close(unused);
}

static void
needs_a_readable_trust_store(void **state)
{
	(void) state;
	r.options.instance_url = "https://127.0.0.1:1";
	r.options.ssl_ca_file = "/nonexistent/ca.pem";
	rig_client(&r);
	assert_false(rig_authorize(&r));
	/* A port that refuses may be found first. */
	assert_true(r.status.cause == VERDICT_CAUSE_TLS || r.status.cause == VERDICT_CAUSE_CONNECT);

	{
		char url[64];

		snprintf(url, sizeof(url), "https://127.0.0.1:%d", peer_port(r.peer));
		r.options.instance_url = url;
		rig_client(&r);
		assert_false(rig_authorize(&r));
		assert_int_equal(r.status.cause, VERDICT_CAUSE_TLS);
		assert_non_null(strstr(r.status.message, "/nonexistent/ca.pem"));
	}
}

static void
keeps_to_the_descriptors_it_may_have(void **state)
{
	(void) state;
	r.support.descriptor_limit = 0;
	assert_false(rig_authorize(&r));
	assert_int_equal(r.status.code, VERDICT_RESOURCE_EXHAUSTED);
	assert_int_equal(r.status.cause, VERDICT_CAUSE_MEMORY);
	assert_int_equal(r.status.outcome, VERDICT_OUTCOME_NOT_SENT);
	assert_int_equal(peer_connection_count(r.peer), 0);
	r.support.descriptor_limit = 1;
	rig_standing(&r, rig_yes(&r, ""));
	assert_true(rig_authorize(&r));
	assert_int_equal(r.support.descriptors, 1);
	verdict_client_destroy(r.client);
	r.client = NULL;
	assert_int_equal(r.support.descriptors, 0);
}

/* ---- in the long run ---- */

static void
stays_flat_over_many_calls(void **state)
{
	size_t live = 0;
	size_t live_bytes = 0;
	int descriptors = 0;
	int i;

	(void) state;
	peer_keep_no_log(r.peer);
	rig_standing(&r, rig_yes(&r, ""));
	for (i = 0; i < 10000; i++)
	{
		if (i == 100)
		{
			live = r.support.live;
			live_bytes = r.support.live_bytes;
			descriptors = rig_open_descriptors();
		}
		assert_true(rig_authorize(&r));
	}
	assert_int_equal(r.support.live, live);
	assert_int_equal(r.support.live_bytes, live_bytes);
	assert_int_equal(rig_open_descriptors(), descriptors);

	/* Calls that fail, each with a connection of its own. */
	r.options.retry_owner = VERDICT_RETRY_NONE;
	r.options.retry_http_503 = false;
	rig_client(&r);
	for (i = 0; i < 1000; i++)
	{
		static const peer_action ways[] = {PEER_CLOSE, PEER_RESET, PEER_STALL};

		if (i == 100)
		{
			live = r.support.live;
			live_bytes = r.support.live_bytes;
		}
		/* Not queued: a request that is cut off may come in late, or never. */
		rig_standing(&r, rig_act(ways[i % 3], 0));
		r.interrupt_after_ms = i % 3 == 2 ? 2 : -1;
		assert_false(rig_authorize(&r));
	}
	r.interrupt_after_ms = -1;
	assert_int_equal(r.support.live, live);
	assert_int_equal(r.support.live_bytes, live_bytes);
	assert_true(r.support.descriptors <= 1);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(ends_at_once_when_interrupted),
		TEST(ends_by_its_own_deadline),
		TEST(keeps_to_a_short_deadline_in_real_time),
		TEST(reuses_a_connection),
		TEST(numbers_sockets),
		TEST(notices_that_an_idle_connection_was_closed),
		TEST(replaces_a_dead_connection_for_a_read_once),
		TEST(sends_a_mutation_again_only_as_a_second_attempt),
		TEST(sends_once_when_it_may_not_retry),
		TEST(sends_once_with_several_kept_connections),
		TEST(keeps_identities_apart),
		TEST(tells_why_there_is_no_connection),
		TEST(needs_a_readable_trust_store),
		TEST(keeps_to_the_descriptors_it_may_have),
		TEST(stays_flat_over_many_calls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
