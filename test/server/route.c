/*
 * route.c
 *		Nothing is kept: the same arguments always give the same answer, in this
 *		process and the next.
 */
#include "route.h"

#include <stddef.h>

/* Spreads every bit of the number over all of them (a bijection). */
static uint64_t
mix(uint64_t number)
{
	number ^= number >> 30;
	number *= UINT64_C(0xbf58476d1ce4e5b9);
	number ^= number >> 27;
	number *= UINT64_C(0x94d049bb133111eb);
	return number ^ number >> 31;
}

static uint64_t
hash_text(const char *text)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (; *text != '\0'; text++)
		hash = (hash ^ (unsigned char) *text) * UINT64_C(0x100000001b3);
	return mix(hash);
}

int
route_pick(const char *session_id, uint32_t set)
{
	uint64_t session = hash_text(session_id);
	uint64_t best = 0;
	int picked = -1;

	for (int node = 0; node < ROUTE_NODES; node++)
	{
		uint64_t score = mix(session ^ mix((uint64_t) node + 1));

		if ((set >> node & 1) != 0 && (picked < 0 || score > best))
		{
			picked = node;
			best = score;
		}
	}
	return picked;
}

int
route_shard(const char *predicate, int shards)
{
	return (int) (hash_text(predicate) % (uint64_t) shards);
}
