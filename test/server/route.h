/*
 * route.h
 *		Which node of a set serves a session.
 *
 * Rendezvous hashing: every node has a score for a session, the highest of those
 * in the set wins.  So a session stays where it is as long as its node is in the
 * set, and only the sessions of a node move when it leaves or comes back.
 */
#ifndef VERDICT_SERVER_ROUTE_H
#define VERDICT_SERVER_ROUTE_H

#include <stdint.h>

#define ROUTE_NODES 32

/*
 * The node of a session: a bit that is set in "set", of which bit n stands for
 * node n.  The set is not empty.
 */
extern int route_pick(const char *session_id, uint32_t set);

/* The shard, from 0, that holds the facts of a predicate. */
extern int route_shard(const char *predicate, int shards);

#endif /* VERDICT_SERVER_ROUTE_H */
