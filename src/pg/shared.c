/*
 * shared.c
 *		What backends and workers tell each other about batches of the outbox.
 *
 * Invariants
 *	- Without shared memory nothing is known: not active, nothing is answered,
 *	  and nobody's outbox is taken for empty.
 */
#include "shared.h"

void
verdict_shared_init(void)
{
}

bool
verdict_shared_active(void)
{
	return false;
}

void
verdict_shared_announce(Oid server)
{
	(void) server;
}

void
verdict_shared_expect(uint64 transaction, uint32 batches, Oid server)
{
	(void) transaction;
	(void) batches;
	(void) server;
}

void
verdict_shared_end(bool kept)
{
	(void) kept;
}

verdict_await_result
verdict_shared_await(int timeout_ms, char *revision)
{
	(void) timeout_ms;
	revision[0] = '\0';
	return VERDICT_AWAIT_TIMEOUT;
}

void
verdict_shared_publish(Oid server, const verdict_revision *revision)
{
	(void) server;
	(void) revision;
}
