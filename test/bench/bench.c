/*
 * bench.c
 *		What a warm check costs, in SQL and in the core, beside libcurl and a raw
 *		socket that send the same bytes to the same server in the same run.
 *
 *	bench URL API_KEY ROUNDS CALLS [CONNINFO]
 *
 * CONNINFO names a database whose verdict.server is that instance; without it
 * the SQL way is left out.  The ways take turns, so that whatever slows the
 * machine slows all of them; the figures are the medians of the rounds, in
 * microseconds a call, and their CPU is that of the calling process alone: this
 * one, or the backend.  The bytes are taken from the client itself: its first
 * request goes to a socket of this program, which copies it.
 */
#include "client.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <libpq-fe.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAX_ROUNDS 1000
#define WAYS 4

static void
die(const char *message)
{
	fprintf(stderr, "bench: %s\n", message);
	exit(1);
}

/* ---- the request, as the client writes it ---- */

static char request[8192]; /* with the Host of the server */
static size_t request_size;
static const char *request_body;
static size_t request_body_size;

static void *
copy_request(void *context)
{
	static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Type: application/proto\r\n"
								 "Content-Length: 0\r\nConnection: close\r\n\r\n";
	int connection = accept(*(int *) context, NULL, NULL);
	ssize_t size;

	if (connection < 0)
		die("accept failed");
	/* One small request comes in one piece on the loopback interface. */
	size = recv(connection, request, sizeof(request) - 1, 0);
	if (size <= 0 || send(connection, answer, strlen(answer), MSG_NOSIGNAL) < 0)
		die("the client's request could not be copied");
	request[size] = '\0';
	request_size = (size_t) size;
	close(connection);
	return NULL;
}

static int
listen_locally(int *port)
{
	struct sockaddr_in address;
	socklen_t size = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	memset(&address, 0, sizeof(address));
	address.sin_family = AF_INET;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (listener < 0 || bind(listener, (struct sockaddr *) &address, size) < 0 ||
		listen(listener, 1) < 0 || getsockname(listener, (struct sockaddr *) &address, &size) < 0)
		die("no socket to listen on");
	*port = ntohs(address.sin_port);
	return listener;
}

/* Replaces the value of the Host header. */
static void
set_host(const char *host)
{
	static char changed[sizeof(request)];
	char *start = strstr(request, "Host: ");
	char *end;
	int size;

	if (start == NULL)
		die("the request has no Host header");
	start += strlen("Host: ");
	end = strstr(start, "\r\n");
	size = snprintf(changed, sizeof(changed), "%.*s%s", (int) (start - request), request, host);
	request_size = request_size - (size_t) (end - request);
	memcpy(changed + size, end, request_size);
	request_size += (size_t) size;
	memcpy(request, changed, request_size);
	request[request_size] = '\0';
	request_body = strstr(request, "\r\n\r\n") + 4;
	request_body_size = request_size - (size_t) (request_body - request);
}

/* ---- the ways ---- */

static int
raw_connect(const char *host, const char *port)
{
	struct addrinfo hints;
	struct addrinfo *found;
	int yes = 1;
	int fd;

	memset(&hints, 0, sizeof(hints));
	hints.ai_socktype = SOCK_STREAM;
	if (getaddrinfo(host, port, &hints, &found) != 0)
		die("the server's name has no address");
	fd = socket(found->ai_family, found->ai_socktype, 0);
	if (fd < 0 || connect(fd, found->ai_addr, found->ai_addrlen) < 0)
		die("no connection to the server");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	freeaddrinfo(found);
	return fd;
}

static void
raw_call(int fd)
{
	char answer[8192];
	size_t size = 0;
	const char *end = NULL;
	const char *length;

	if (send(fd, request, request_size, MSG_NOSIGNAL) != (ssize_t) request_size)
		die("send failed");
	do
	{
		ssize_t more = recv(fd, answer + size, sizeof(answer) - 1 - size, 0);

		if (more <= 0)
			die("the server closed the raw connection");
		size += (size_t) more;
		answer[size] = '\0';
		if (end == NULL)
			end = strstr(answer, "\r\n\r\n");
		length = strcasestr(answer, "\r\nContent-Length:");
	} while (end == NULL || length == NULL ||
			 size < (size_t) (end + 4 - answer) + strtoul(length + 17, NULL, 10));
	if (strncmp(answer, "HTTP/1.1 200", 12) != 0)
		die("the server refused the raw request");
}

static size_t
count_bytes(char *bytes, size_t one, size_t size, void *context)
{
	(void) bytes;
	(void) one;
	*(size_t *) context += size;
	return size;
}

static CURL *
bare_handle(const char *url, size_t *received, struct curl_slist **headers)
{
	CURL *easy = curl_easy_init();
	char *line = strstr(request, "\r\n") + 2;

	/* All that libcurl does not write by itself. */
	for (; strncmp(line, "\r\n", 2) != 0; line = strstr(line, "\r\n") + 2)
	{
		char *end = strstr(line, "\r\n");

		if (strncmp(line, "Host:", 5) == 0 || strncmp(line, "Accept:", 7) == 0 ||
			strncmp(line, "Content-Length:", 15) == 0)
			continue;
		*end = '\0';
		*headers = curl_slist_append(*headers, line);
		*end = '\r';
	}
	curl_easy_setopt(easy, CURLOPT_URL, url);
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, *headers);
	curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request_body);
	curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, (long) request_body_size);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, count_bytes);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, received);
	return easy;
}

static void
bare_call(CURL *easy)
{
	long http_status = 0;

	if (curl_easy_perform(easy) != CURLE_OK ||
		curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &http_status) != CURLE_OK ||
		http_status != 200)
		die("libcurl's call failed");
}

/* One statement, so that what is measured is the calls and not the protocol. */
static void
sql_calls(PGconn *database, int calls)
{
	char statement[256];
	PGresult *result;

	snprintf(statement, sizeof(statement),
			 "SELECT count(verdict_authorize('User:alice', 'read', 'Document:handbook')) "
			 "FROM generate_series(1, %d)",
			 calls);
	result = PQexec(database, statement);
	if (PQresultStatus(result) != PGRES_TUPLES_OK || atoi(PQgetvalue(result, 0, 0)) != calls)
		die(PQerrorMessage(database));
	PQclear(result);
}

typedef struct way
{
	const char *name;
	double wall[MAX_ROUNDS]; /* us a call, by round */
	double cpu[MAX_ROUNDS];
} way;

static double
clock_us(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double) now.tv_sec * 1e6 + (double) now.tv_nsec / 1e3;
}

static int
compare(const void *left, const void *right)
{
	double a = *(const double *) left;
	double b = *(const double *) right;

	return (a > b) - (a < b);
}

static double
median(double *values, int count)
{
	qsort(values, (size_t) count, sizeof(*values), compare);
	return values[count / 2];
}

int
main(int argc, char **argv)
{
	static way ways[WAYS] = {
		{.name = "raw socket"}, {.name = "bare libcurl"}, {.name = "core"}, {.name = "SQL"}};
	verdict_check check = {{"User", "alice"}, "read", {"Document", "handbook"}};
	int rounds = argc > 3 ? atoi(argv[3]) : 0;
	int calls = argc > 4 ? atoi(argv[4]) : 0;
	int way_count = argc > 5 ? WAYS : WAYS - 1;
	verdict_client_options options;
	verdict_host host;
	verdict_runtime *runtime;
	verdict_client *client;
	verdict_session session;
	verdict_status status;
	pthread_t copier;
	char local_url[64];
	char server[256];
	char url[512];
	char *port;
	int listener;
	int local_port;
	int raw;
	CURL *easy;
	size_t received = 0;
	struct curl_slist *headers = NULL;
	bool allowed;
	int round;
	int i;
	int w;
	PGconn *database = NULL;
	clockid_t backend_clock = CLOCK_PROCESS_CPUTIME_ID;

	if (argc < 5 || sscanf(argv[1], "http://%255[^/]", server) != 1 || rounds < 1 ||
		rounds > MAX_ROUNDS || calls < 1)
		die("usage: bench http://HOST:PORT API_KEY ROUNDS CALLS [CONNINFO]");
	verdict_host_init_posix(&host);
	runtime = verdict_runtime_create(&host, &status);
	if (runtime == NULL ||
		!verdict_session_init(&session, &host, NULL, VERDICT_CONSISTENCY_SESSION, &status))
		die(status.message);
	verdict_client_options_init(&options);
	options.api_key = argv[2][0] != '\0' ? argv[2] : NULL;

	/* The bytes. */
	listener = listen_locally(&local_port);
	snprintf(local_url, sizeof(local_url), "http://127.0.0.1:%d", local_port);
	options.instance_url = local_url;
	client = verdict_client_create(runtime, &options, &status);
	if (client == NULL || pthread_create(&copier, NULL, copy_request, &listener) != 0)
		die(status.message);
	if (!verdict_client_authorize(client, &session, &check, NULL, &allowed, &status))
		die(status.message);
	pthread_join(copier, NULL);
	verdict_client_destroy(client);
	set_host(server);

	/* The ways. */
	options.instance_url = argv[1];
	client = verdict_client_create(runtime, &options, &status);
	if (client == NULL)
		die(status.message);
	snprintf(url, sizeof(url), "http://%s/verdict.v1.VerdictService/Authorize", server);
	easy = bare_handle(url, &received, &headers);
	port = strrchr(server, ':');
	if (port == NULL)
		die("the URL must have a port");
	*port = '\0';
	raw = raw_connect(server, port + 1);
	if (way_count == WAYS)
	{
		database = PQconnectdb(argv[5]);
		if (PQstatus(database) != CONNECTION_OK)
			die(PQerrorMessage(database));
		if (clock_getcpuclockid(PQbackendPID(database), &backend_clock) != 0)
			die("the backend's CPU clock cannot be read");
	}

	/* The first round warms up and is written over. */
	for (round = -1; round < rounds; round++)
		for (w = 0; w < way_count; w++)
		{
			clockid_t clock = w == 3 ? backend_clock : CLOCK_PROCESS_CPUTIME_ID;
			double wall = clock_us(CLOCK_MONOTONIC);
			double cpu = clock_us(clock);

			if (w == 3)
				sql_calls(database, calls);
			else
				for (i = 0; i < calls; i++)
					if (w == 0)
						raw_call(raw);
					else if (w == 1)
						bare_call(easy);
					else if (!verdict_client_authorize(client, &session, &check, NULL, &allowed,
													   &status))
						die(status.message);
			ways[w].wall[round < 0 ? 0 : round] = (clock_us(CLOCK_MONOTONIC) - wall) / calls;
			ways[w].cpu[round < 0 ? 0 : round] = (clock_us(clock) - cpu) / calls;
		}

	printf("%d rounds of %d calls, %zu bytes a request; us a call (ratio to bare libcurl)\n",
		   rounds, calls, request_size);
	printf("%-14s %18s %18s\n", "", "wall", "CPU");
	for (w = 0; w < way_count; w++)
	{
		ways[w].wall[0] = median(ways[w].wall, rounds);
		ways[w].cpu[0] = median(ways[w].cpu, rounds);
	}
	for (w = 0; w < way_count; w++)
		printf("%-14s %10.1f (%.2f) %11.1f (%.2f)\n", ways[w].name, ways[w].wall[0],
			   ways[w].wall[0] / ways[1].wall[0], ways[w].cpu[0], ways[w].cpu[0] / ways[1].cpu[0]);

	PQfinish(database);
	close(raw);
	close(listener);
	curl_easy_cleanup(easy);
	curl_slist_free_all(headers);
	verdict_client_destroy(client);
	verdict_runtime_destroy(runtime);
	return 0;
}
