/*
 * listen.h
 *		From "HOST:PORT" to a listening socket.
 */
#ifndef VERDICT_SERVER_LISTEN_H
#define VERDICT_SERVER_LISTEN_H

#include <stddef.h>

/*
 * A listening socket at "HOST:PORT" or "[IPV6-ADDRESS]:PORT"; port 0 takes a
 * free one.  "url" receives "SCHEME://HOST:PORT" with the port that was taken.
 * -1 with a message for people on failure.
 */
extern int listen_at(const char *address, const char *scheme, char *url, size_t url_size,
					 char *message, size_t message_size);

/*
 * The address that follows by so many ports, in "next"; the same one when its
 * port is 0.  What is wrong with an address is for listen_at() to find.
 */
extern void listen_next(const char *address, int ports, char *next, size_t next_size);

#endif /* VERDICT_SERVER_LISTEN_H */
