/*
 * misbehave.h
 *		Answers that break off, crawl or swell, as a fault orders.
 */
#ifndef VERDICT_SERVER_MISBEHAVE_H
#define VERDICT_SERVER_MISBEHAVE_H

#include "faults.h"
#include "timer.h"
#include "wire.h"

#include <microhttpd.h>

/*
 * The response of a fault of kind cut*, drip, oversize or gzip_bomb: its body,
 * length and encoding; the caller adds the other headers and destroys it.
 * "body" is what an honest answer would carry; it is copied.  "*stopping" is
 * read when a slow answer goes on: true ends it.  NULL when there is no memory.
 */
extern struct MHD_Response *
misbehave_response(const fault *fault, wire_format format, const void *body, size_t size,
				   struct MHD_Connection *connection, timers *timers, const bool *stopping);

/*
 * A 200 whose header section has at least fault->bytes bytes, written past
 * libmicrohttpd, which has no room for it.  The connection must be suspended and
 * speak plain HTTP; it is resumed when all is written, the peer is gone, or
 * "*stopping" is true.  False, and nothing begun, when there is no memory.
 */
extern bool
misbehave_flood(const fault *fault, wire_format format, struct MHD_Connection *connection,
				timers *timers, const bool *stopping);

/* Has the next close of this connection seen as a reset by the peer. */
extern void misbehave_reset(struct MHD_Connection *connection);

#endif /* VERDICT_SERVER_MISBEHAVE_H */
