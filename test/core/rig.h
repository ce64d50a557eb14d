/*
 * rig.h
 *		A client beside a scripted peer, on a host whose memory is counted, whose
 *		waits can be interrupted and whose long waits cost no time.
 *
 * The clock of the rig's host is the real one plus what was skipped: a wait
 * without sockets (a backoff) moves the clock on and returns; a wait for sockets
 * waits up to real_wait_ms for real and then skips what is left.
 */
#ifndef VERDICT_TEST_RIG_H
#define VERDICT_TEST_RIG_H

#include "client.h"
#include "peer.h"
#include "support.h"
#include "transport.h"

typedef struct rig
{
	support_host support; /* first: the host's context points here */
	peer *peer;
	verdict_runtime *runtime;
	verdict_client_options options;
	verdict_client *client;
	verdict_session session;
	verdict_status status;
	bool allowed;
	uint32_t changed;

	int64_t skipped_us;
	int real_wait_ms;		/* default 2,000: longer than any answer takes */
	int64_t slept_us;		/* in waits without sockets, by the host's clock */
	int interrupt_after_ms; /* real time into a wait for sockets; -1 = never */
	int waits;				/* calls of wait() with sockets */
	int interrupts;
	uint64_t serial; /* of the socket waited for last */
	int fd;
} rig;

/* Host, peer and runtime; options.instance_url is the peer's. */
extern void rig_begin(rig *r);
/* A client by r->options (in place of the one before) and a new session. */
extern void rig_client(rig *r);
extern void rig_session(rig *r, verdict_consistency consistency);
/* Frees all and asserts that nothing is left: memory, descriptors. */
extern void rig_end(rig *r);

/* Calls; they leave their result in r->status, r->allowed, r->changed. */
extern bool rig_authorize(rig *r);
/* InsertFact of a small fact; "key" as in verdict_client_mutate(). */
extern bool rig_insert(rig *r, const char *key);
/* The payload that rig_insert() sends, in the binary format. */
extern size_t rig_insert_payload(rig *r, char *bytes, size_t room);

/* Scripts of one step and PEER_END. */
extern void rig_queue(rig *r, peer_step step);
extern void rig_queue_two(rig *r, peer_step first, peer_step second);
extern void rig_standing(rig *r, peer_step step);
extern peer_step rig_act(peer_action action, int ms);
/* An answer {allowed: true} (or {changed: true}: the same bytes). */
extern peer_step rig_yes(rig *r, const char *headers);
/* A Connect error; "code" NULL = a bare status with an HTML body. */
extern peer_step rig_error(rig *r, int http_status, const char *code, const char *headers);

/* Asserts that all requests of the peer's log carry one key and one body. */
extern void rig_assert_same_mutation(rig *r, int sends);
/* Descriptors that this process has open. */
extern int rig_open_descriptors(void);

#define RIG_LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* cmocka wants these before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#endif /* VERDICT_TEST_RIG_H */
