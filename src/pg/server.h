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

/*
 * The client for verdict.server and the current user: looks the server up,
 * checks USAGE, takes the user's (or PUBLIC's) mapping, and gives the backend's
 * client for that mapping, made when there is none or when server or mapping
 * have changed.  It stays valid until the transaction ends, also when the
 * catalogs change meanwhile.  Raises: no server set or found, not a server of
 * this wrapper, no USAGE, no mapping, unusable options.
 */
extern verdict_client *verdict_server_client(void);

/* The process's runtime, made at the first call after fork. */
extern verdict_runtime *verdict_server_runtime(void);

/* Assign hook of verdict.server. */
extern void verdict_server_setting_changed(const char *value, void *extra);

/*
 * End of a top-level transaction: closes what an invalidation marked, and what
 * was not used for the longest time when there is too much.
 */
extern void verdict_server_at_end(void);

#endif /* VERDICT_PG_SERVER_H */
