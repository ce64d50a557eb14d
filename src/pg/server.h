/*
 * server.h
 *		From a server's name to a client: options, validator, user mapping,
 *		connections of this backend.
 */
#ifndef VERDICT_PG_SERVER_H
#define VERDICT_PG_SERVER_H

#include "verdict.h"

/* verdict.server; raises when it is not set. */
extern const char *verdict_server_name(void);

/* What is known of a server as one role meets it. */
typedef struct verdict_server
{
	Oid oid;
	int batch_size;			/* option "batch_size" */
	verdict_client *client; /* see below */
} verdict_server;

/*
 * The server of that name for a role: looks it up, checks the role's USAGE, takes
 * its (or PUBLIC's) user mapping, and gives what this backend has for that
 * mapping, made when there is nothing or when server or mapping have changed.  The
 * client stays valid until the transaction ends, also when the catalogs change
 * meanwhile.  Raises: no such server, not a server of this wrapper, no USAGE, no
 * mapping, unusable options.
 */
extern const verdict_server *verdict_server_use(const char *name, Oid role);

/*
 * The same for a change that is not sent now: everything is checked, but no client
 * is made, and the result's may be NULL.
 */
extern const verdict_server *verdict_server_find(const char *name, Oid role);

/*
 * While held, clients stay valid beyond the end of transactions: for whoever sends
 * without one.
 */
extern void verdict_server_hold(bool hold);

/* The process's runtime, made at the first call after fork. */
extern verdict_runtime *verdict_server_runtime(void);

/*
 * End of a top-level transaction: closes what an invalidation marked, and what
 * was not used for the longest time when there is too much.
 */
extern void verdict_server_at_end(void);

#endif /* VERDICT_PG_SERVER_H */
