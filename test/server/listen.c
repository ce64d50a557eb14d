/*
 * listen.c
 *		Keeps nothing; the caller closes the socket.
 */
#include "listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 1024

static int
open_socket(const struct addrinfo *info)
{
	int fd = socket(info->ai_family, info->ai_socktype | SOCK_CLOEXEC, info->ai_protocol);
	int on = 1;
	int error;

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, info->ai_addr, info->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
		return fd;
	error = errno;
	close(fd);
	errno = error;
	return -1;
}

static unsigned
port_of(int fd)
{
	struct sockaddr_storage address;
	socklen_t size = sizeof(address);

	if (getsockname(fd, (struct sockaddr *) &address, &size) != 0)
		return 0;
	if (address.ss_family == AF_INET6)
		return ntohs(((struct sockaddr_in6 *) &address)->sin6_port);
	return ntohs(((struct sockaddr_in *) &address)->sin_port);
}

int
listen_at(const char *address, const char *scheme, char *url, size_t url_size, char *message,
		  size_t message_size)
{
	struct addrinfo hints = {0};
	struct addrinfo *list;
	char host[256];
	const char *port = strrchr(address, ':');
	const char *start = address;
	size_t size;
	int fd = -1;
	int result;

	if (port == NULL || port == address || port[1] == '\0' ||
		strspn(port + 1, "0123456789") != strlen(port + 1) ||
		strtoul(port + 1, NULL, 10) > UINT16_MAX)
	{
		snprintf(message, message_size, "\"%s\" is not HOST:PORT with a port up to 65535", address);
		return -1;
	}
	size = (size_t) (port - address);
	if (*start == '[' && port[-1] == ']')
	{
		start++;
		size -= 2;
	}
	if (size >= sizeof(host))
	{
		snprintf(message, message_size, "the host of \"%.64s...\" is too long", address);
		return -1;
	}
	memcpy(host, start, size);
	host[size] = '\0';

	hints.ai_socktype = SOCK_STREAM;
	hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
	result = getaddrinfo(host, port + 1, &hints, &list);
	if (result != 0)
	{
		snprintf(message, message_size, "cannot listen at %s: %s", address, gai_strerror(result));
		return -1;
	}
	for (struct addrinfo *info = list; info != NULL && fd < 0; info = info->ai_next)
		fd = open_socket(info);
	if (fd < 0)
		snprintf(message, message_size, "cannot listen at %s: %s", address, strerror(errno));
	else
		snprintf(url, url_size, "%s://%.*s:%u", scheme, (int) (port - address), address,
				 port_of(fd));
	freeaddrinfo(list);
	return fd;
}

void
listen_next(const char *address, int ports, char *next, size_t next_size)
{
	const char *port = strrchr(address, ':');
	unsigned long number = port != NULL ? strtoul(port + 1, NULL, 10) : 0;

	if (number == 0)
		snprintf(next, next_size, "%s", address);
	else
		snprintf(next, next_size, "%.*s:%lu", (int) (port - address), address,
				 number + (unsigned long) ports);
}
