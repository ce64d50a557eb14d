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

#endif /* VERDICT_SERVER_LISTEN_H */
