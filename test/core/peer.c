/*
 * peer.c
 *		See peer.h.  One mutex guards everything that is shared; a connection's
 *		thread holds it only between its system calls.
 */
#include "peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAX_STEPS 16
#define MAX_SCRIPTS 1024

typedef struct script
{
	peer_step steps[MAX_STEPS + 1];
} script;

typedef struct script_queue
{
	script scripts[MAX_SCRIPTS];
	int first;
	int count;
} script_queue;

typedef struct connection
{
	peer *owner;
	pthread_t thread;
	int fd;
	int number;
	struct connection *next;
} connection;

struct peer
{
	int listener;
	int port;
	char url[64];
	int stop_pipe[2]; /* readable once the peer is to stop */
	pthread_t acceptor;
	pthread_mutex_t lock;
	bool logging;

	connection *connections;
	int connection_count;
	int open_connections;

	script_queue answers;
	script_queue accepts;
	script standing;
	const peer_step *(*choose)(void *context, const peer_request *request);
	void *choose_context;

	peer_request **requests;
	int request_count;
	int request_room;
	int at_once;
	int most_at_once;

	void **kept;
	int kept_count;
	int kept_room;
};

static void
die(const char *what)
{
	perror(what);
	abort();
}

static void *
grow(void *array, int count, int *room, size_t size)
{
	if (count < *room)
		return array;
	*room = *room == 0 ? 64 : *room * 2;
	array = realloc(array, (size_t) *room * size);
	if (array == NULL)
		die("realloc");
	return array;
}

static int64_t
now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t) now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void
copy_script(script *to, const peer_step *steps)
{
	int i;

	memset(to, 0, sizeof(*to));
	for (i = 0; steps[i].action != PEER_END; i++)
	{
		if (i == MAX_STEPS)
			abort();
		to->steps[i] = steps[i];
	}
}

static void
push(script_queue *queue, const peer_step *steps)
{
	if (queue->count == MAX_SCRIPTS)
		abort();
	copy_script(&queue->scripts[(queue->first + queue->count++) % MAX_SCRIPTS], steps);
}

static bool
pop(script_queue *queue, script *taken)
{
	if (queue->count == 0)
		return false;
	*taken = queue->scripts[queue->first];
	queue->first = (queue->first + 1) % MAX_SCRIPTS;
	queue->count--;
	return true;
}

/* ---- connections ---- */

/*
 * Waits for the events or the end of the time; false when the peer is to stop.
 * "*got" tells what came (0 at the end of the time).
 */
static bool
wait_for(const connection *c, short events, int ms, short *got)
{
	struct pollfd fds[2] = {{c->fd, events, 0}, {c->owner->stop_pipe[0], POLLIN, 0}};

	if (poll(fds, 2, ms) < 0 && errno != EINTR)
		die("poll");
	*got = fds[0].revents;
	return fds[1].revents == 0;
}

static bool
send_all(const connection *c, const char *bytes, size_t size)
{
	while (size > 0)
	{
		ssize_t sent = send(c->fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
		short got;

		if (sent > 0)
		{
			bytes += sent;
			size -= (size_t) sent;
		}
		else if (errno != EAGAIN || !wait_for(c, POLLOUT, -1, &got))
			return false;
	}
	return true;
}

/* Until the client closes; what it sends meanwhile is thrown away. */
static void
stall(const connection *c)
{
	char waste[4096];
	short got;

	while (wait_for(c, POLLIN, -1, &got))
		if (got != 0 && recv(c->fd, waste, sizeof(waste), 0) <= 0)
			return;
}

static void
reset(const connection *c)
{
	struct linger now = {1, 0};

	setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

/* False when the connection is over. */
static bool
run_script(const connection *c, const script *steps)
{
	const peer_step *step;
	size_t i;
	short got;

	for (step = steps->steps; step->action != PEER_END; step++)
	{
		switch (step->action)
		{
			case PEER_SEND:
				if (!send_all(c, step->bytes, step->size))
					return false;
				break;
			case PEER_DRIP:
				for (i = 0; i < step->size; i++)
					if (!send_all(c, (const char *) step->bytes + i, 1) ||
						!wait_for(c, 0, step->ms, &got) || got != 0)
						return false;
				break;
			case PEER_REPEAT:
				while (send_all(c, step->bytes, step->size))
					;
				return false;
			case PEER_PAUSE:
				if (!wait_for(c, 0, step->ms, &got))
					return false;
				break;
			case PEER_STALL:
				stall(c);
				return false;
			case PEER_RESET:
				reset(c);
				return false;
			case PEER_CLOSE:
			case PEER_END:
				return false;
		}
	}
	return true;
}

/* The body's length once the headers are whole in "bytes"; -1 while not. */
static long
body_length(const char *bytes, const char **body)
{
	const char *end = strstr(bytes, "\r\n\r\n");
	const char *length;

	if (end == NULL)
		return -1;
	*body = end + 4;
	length = strcasestr(bytes, "\r\nContent-Length:");
	return length != NULL && length < end ? strtol(length + 17, NULL, 10) : 0;
}

/* Reads one request; NULL when the connection is over before it is whole. */
static peer_request *
read_request(const connection *c)
{
	size_t room = 4096;
	peer_request *request = calloc(1, sizeof(*request));
	short got;

	request->connection = c->number;
	request->bytes = malloc(room + 1);
	request->bytes[0] = '\0';
	while (wait_for(c, POLLIN, -1, &got))
	{
		ssize_t size;
		long length;

		if (request->size == room)
			request->bytes = realloc(request->bytes, (room *= 2) + 1);
		size = recv(c->fd, request->bytes + request->size, room - request->size, MSG_DONTWAIT);
		if (size < 0 && errno == EAGAIN)
			continue;
		if (size <= 0)
			break;
		request->size += (size_t) size;
		request->bytes[request->size] = '\0';
		length = body_length(request->bytes, &request->body);
		if (length >= 0 &&
			request->size == (size_t) (request->body - request->bytes) + (size_t) length)
		{
			request->body_size = (size_t) length;
			request->at_us = now_us();
			return request;
		}
	}
	free(request->bytes);
	free(request);
	return NULL;
}

static void
take_script(peer *p, peer_request *request, script *steps)
{
	const peer_step *chosen = NULL;

	if (p->logging)
	{
		p->requests = grow(p->requests, p->request_count, &p->request_room, sizeof(*p->requests));
		p->requests[p->request_count++] = request;
	}
	if (p->choose != NULL)
		chosen = p->choose(p->choose_context, request);
	if (chosen != NULL)
		copy_script(steps, chosen);
	else if (!pop(&p->answers, steps))
		*steps = p->standing;
	if (++p->at_once > p->most_at_once)
		p->most_at_once = p->at_once;
}

static void *
serve(void *context)
{
	connection *c = context;
	peer *p = c->owner;
	script steps;
	bool open = true;
	bool scripted;
	bool logged;
	peer_request *request;

	pthread_mutex_lock(&p->lock);
	scripted = pop(&p->accepts, &steps);
	pthread_mutex_unlock(&p->lock);
	if (scripted)
		open = run_script(c, &steps);

	while (open && (request = read_request(c)) != NULL)
	{
		pthread_mutex_lock(&p->lock);
		logged = p->logging;
		take_script(p, request, &steps);
		pthread_mutex_unlock(&p->lock);
		open = run_script(c, &steps);
		pthread_mutex_lock(&p->lock);
		if (!logged)
		{
			free(request->bytes);
			free(request);
		}
		p->at_once--;
		pthread_mutex_unlock(&p->lock);
	}
	close(c->fd);
	pthread_mutex_lock(&p->lock);
	p->open_connections--;
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

static void *
accept_all(void *context)
{
	peer *p = context;
	struct pollfd fds[2] = {{p->listener, POLLIN, 0}, {p->stop_pipe[0], POLLIN, 0}};

	for (;;)
	{
		connection *c;
		int fd;
		int yes = 1;

		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			die("poll");
		if (fds[1].revents != 0)
			return NULL;
		fd = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0)
			continue;
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
		c = calloc(1, sizeof(*c));
		c->owner = p;
		c->fd = fd;
		pthread_mutex_lock(&p->lock);
		c->number = p->connection_count++;
		p->open_connections++;
		c->next = p->connections;
		p->connections = c;
		if (pthread_create(&c->thread, NULL, serve, c) != 0)
			die("pthread_create");
		pthread_mutex_unlock(&p->lock);
	}
}

/* ---- what tests call ---- */

peer *
peer_start(void)
{
	peer *p = calloc(1, sizeof(*p));
	struct sockaddr_in address;
	socklen_t size = sizeof(address);

	memset(&address, 0, sizeof(address));
	address.sin_family = AF_INET;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	pthread_mutex_init(&p->lock, NULL);
	p->logging = true;
	p->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (p->listener < 0 || bind(p->listener, (struct sockaddr *) &address, size) < 0 ||
		listen(p->listener, 64) < 0 ||
		getsockname(p->listener, (struct sockaddr *) &address, &size) < 0 || pipe(p->stop_pipe) < 0)
		die("peer");
	p->port = ntohs(address.sin_port);
	snprintf(p->url, sizeof(p->url), "http://127.0.0.1:%d", p->port);
	if (pthread_create(&p->acceptor, NULL, accept_all, p) != 0)
		die("pthread_create");
	return p;
}

void
peer_stop(peer *p)
{
	int i;

	if (write(p->stop_pipe[1], "", 1) != 1)
		die("write");
	pthread_join(p->acceptor, NULL);
	while (p->connections != NULL)
	{
		connection *c = p->connections;

		pthread_join(c->thread, NULL);
		p->connections = c->next;
		free(c);
	}
	for (i = 0; i < p->request_count; i++)
	{
		free(p->requests[i]->bytes);
		free(p->requests[i]);
	}
	for (i = 0; i < p->kept_count; i++)
		free(p->kept[i]);
	free(p->requests);
	free(p->kept);
	close(p->listener);
	close(p->stop_pipe[0]);
	close(p->stop_pipe[1]);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

int
peer_port(const peer *p)
{
	return p->port;
}

const char *
peer_url(const peer *p)
{
	return p->url;
}

void
peer_queue(peer *p, const peer_step *steps)
{
	pthread_mutex_lock(&p->lock);
	push(&p->answers, steps);
	pthread_mutex_unlock(&p->lock);
}

void
peer_queue_accept(peer *p, const peer_step *steps)
{
	pthread_mutex_lock(&p->lock);
	push(&p->accepts, steps);
	pthread_mutex_unlock(&p->lock);
}

void
peer_standing(peer *p, const peer_step *steps)
{
	pthread_mutex_lock(&p->lock);
	copy_script(&p->standing, steps);
	pthread_mutex_unlock(&p->lock);
}

void
peer_set_chooser(peer *p, const peer_step *(*choose)(void *context, const peer_request *request),
				 void *context)
{
	pthread_mutex_lock(&p->lock);
	p->choose = choose;
	p->choose_context = context;
	pthread_mutex_unlock(&p->lock);
}

void
peer_clear(peer *p)
{
	pthread_mutex_lock(&p->lock);
	p->answers.count = 0;
	p->accepts.count = 0;
	p->choose = NULL;
	memset(&p->standing, 0, sizeof(p->standing));
	pthread_mutex_unlock(&p->lock);
}

void *
peer_keep(peer *p, void *memory)
{
	pthread_mutex_lock(&p->lock);
	p->kept = grow(p->kept, p->kept_count, &p->kept_room, sizeof(*p->kept));
	p->kept[p->kept_count++] = memory;
	pthread_mutex_unlock(&p->lock);
	return memory;
}

peer_step
peer_answer(peer *p, int status, const char *headers, const void *body, size_t size)
{
	peer_step step = {PEER_SEND, NULL, 0, 0};
	size_t room = strlen(headers) + size + 128;
	char *bytes = peer_keep(p, malloc(room));
	int length = snprintf(bytes, room, "HTTP/1.1 %d X\r\n%sContent-Length: %zu\r\n\r\n", status,
						  headers, size);

	if (size > 0)
		memcpy(bytes + length, body, size);
	step.bytes = bytes;
	step.size = (size_t) length + size;
	return step;
}

peer_step
peer_text(const char *text)
{
	peer_step step = {PEER_SEND, text, strlen(text), 0};

	return step;
}

/* ---- the log ---- */

void
peer_keep_no_log(peer *p)
{
	pthread_mutex_lock(&p->lock);
	p->logging = false;
	pthread_mutex_unlock(&p->lock);
}

int
peer_request_count(peer *p)
{
	int count;

	pthread_mutex_lock(&p->lock);
	count = p->request_count;
	pthread_mutex_unlock(&p->lock);
	return count;
}

const peer_request *
peer_request_at(peer *p, int index)
{
	const peer_request *request = NULL;

	pthread_mutex_lock(&p->lock);
	if (index >= 0 && index < p->request_count)
		request = p->requests[index];
	pthread_mutex_unlock(&p->lock);
	if (request == NULL)
		abort();
	return request;
}

int
peer_connection_count(peer *p)
{
	int count;

	pthread_mutex_lock(&p->lock);
	count = p->connection_count;
	pthread_mutex_unlock(&p->lock);
	return count;
}

int
peer_open_connections(peer *p)
{
	int count;

	pthread_mutex_lock(&p->lock);
	count = p->open_connections;
	pthread_mutex_unlock(&p->lock);
	return count;
}

static bool
wait_until(peer *p, int (*what)(peer *), int count)
{
	int64_t end = now_us() + 2000000;

	while (what(p) != count)
	{
		if (now_us() > end)
			return false;
		usleep(1000);
	}
	return true;
}

bool
peer_wait_open_connections(peer *p, int count)
{
	return wait_until(p, peer_open_connections, count);
}

bool
peer_wait_requests(peer *p, int count)
{
	return wait_until(p, peer_request_count, count);
}

int
peer_most_at_once(peer *p)
{
	int most;

	pthread_mutex_lock(&p->lock);
	most = p->most_at_once;
	pthread_mutex_unlock(&p->lock);
	return most;
}

/* The start of the "nth" header of this name, after its colon; or NULL. */
static const char *
find_header(const peer_request *request, const char *name, int nth)
{
	const char *line = strstr(request->bytes, "\r\n");
	size_t length = strlen(name);

	while (line != NULL && line + 2 < request->body - 2)
	{
		line += 2;
		if (strncasecmp(line, name, length) == 0 && line[length] == ':' && nth-- == 0)
			return line + length + 1;
		line = strstr(line, "\r\n");
	}
	return NULL;
}

const char *
peer_request_header(peer *p, const peer_request *request, const char *name)
{
	const char *value = find_header(request, name, 0);

	if (value == NULL)
		return NULL;
	value += strspn(value, " ");
	return peer_keep(p, strndup(value, strcspn(value, "\r")));
}

int
peer_request_header_count(const peer_request *request, const char *name)
{
	int count = 0;

	while (find_header(request, name, count) != NULL)
		count++;
	return count;
}
