/*
 * change_log.h
 *		The mutations that some node has yet to apply, in the order of the writer.
 *
 * A change is numbered by the position that it took: the positions in the log
 * have no gap.  The log owns its changes; a pointer to one is good until the log
 * is trimmed or cut.
 */
#ifndef VERDICT_SERVER_CHANGE_LOG_H
#define VERDICT_SERVER_CHANGE_LOG_H

#include "engine.h"

#include <stddef.h>

typedef struct change
{
	uint64_t position;
	uint64_t shards;	  /* bit n: it touches shard n */
	int64_t committed_us; /* of the monotonic clock */
	engine_method method;
	uint8_t caller[ENGINE_CALLER_SIZE];
	const char *key; /* NULL when it had none */
	size_t request_size;
	size_t size; /* of this block */
	/* the request in binary, then the key with its NUL */
	uint8_t bytes[];
} change;

typedef struct change_log
{
	change **ring; /* of position p at p % room */
	size_t room;   /* a power of two, or 0 */
	size_t count;
	uint64_t first; /* position of the oldest */
	size_t bytes;
} change_log;

/* A log of all zero bytes is an empty log. */

/* Appends a copy of a mutation that was applied; it must follow the last one. */
extern void change_log_append(change_log *log, const engine_mutation *mutation, uint64_t position,
							  uint64_t shards);
/* The change of a position; NULL when the log does not hold it. */
extern const change *change_log_at(const change_log *log, uint64_t position);
/* Forgets the changes up to and with a position; all of them: UINT64_MAX. */
extern void change_log_trim(change_log *log, uint64_t position);
/* Forgets the changes behind a position: they have not happened. */
extern void change_log_cut(change_log *log, uint64_t position);

/*
 * Applies a change to the engine of another node.  False with the error filled
 * when it does not do there what it did at the writer.
 */
extern bool change_apply(const change *change, engine *engine, engine_error *error);

#endif /* VERDICT_SERVER_CHANGE_LOG_H */
