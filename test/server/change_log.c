/*
 * change_log.c
 *		A ring of blocks, grown when it is full, gone when it is empty.
 *
 * What is kept is the request, not its effect: an engine is deterministic, so
 * the same requests in the same order leave the same facts, positions and
 * records of keys.
 */
#include "change_log.h"

#include "pool.h"
#include "text.h"
#include "timer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static change **
place_of(const change_log *log, uint64_t position)
{
	return &log->ring[position & (log->room - 1)];
}

static void
grow(change_log *log)
{
	change_log larger = *log;

	larger.room = log->room > 0 ? log->room * 2 : 64;
	larger.ring = memory_alloc(larger.room * sizeof(change *));
	for (size_t i = 0; i < log->count; i++)
		*place_of(&larger, log->first + i) = *place_of(log, log->first + i);
	free(log->ring);
	*log = larger;
}

void
change_log_append(change_log *log, const engine_mutation *mutation, uint64_t position,
				  uint64_t shards)
{
	size_t request_size = protobuf_c_message_get_packed_size(mutation->request);
	size_t key_size = mutation->key != NULL ? strlen(mutation->key) + 1 : 0;
	size_t size = sizeof(change) + request_size + key_size;
	change *change = memory_alloc(size);

	change->position = position;
	change->shards = shards;
	change->committed_us = monotonic_us();
	change->method = mutation->method;
	memcpy(change->caller, mutation->caller, ENGINE_CALLER_SIZE);
	change->request_size = request_size;
	change->size = size;
	protobuf_c_message_pack(mutation->request, change->bytes);
	change->key = NULL;
	if (key_size > 0)
		change->key = memcpy(change->bytes + request_size, mutation->key, key_size);
	if (log->count == log->room)
		grow(log);
	if (log->count == 0)
		log->first = position;
	*place_of(log, position) = change;
	log->count++;
	log->bytes += size;
}

const change *
change_log_at(const change_log *log, uint64_t position)
{
	if (log->count == 0 || position < log->first || position - log->first >= log->count)
		return NULL;
	return *place_of(log, position);
}

static void
forget(change_log *log, uint64_t position)
{
	change *change = *place_of(log, position);

	log->bytes -= change->size;
	free(change);
	if (--log->count > 0)
		return;
	free(log->ring);
	memset(log, 0, sizeof(*log));
}

void
change_log_trim(change_log *log, uint64_t position)
{
	while (log->count > 0 && log->first <= position)
	{
		forget(log, log->first);
		if (log->count > 0)
			log->first++;
	}
}

void
change_log_cut(change_log *log, uint64_t position)
{
	while (log->count > 0 && log->first + (log->count - 1) > position)
		forget(log, log->first + (log->count - 1));
}

bool
change_apply(const change *change, engine *engine, engine_error *error)
{
	engine_mutation mutation = {0};
	engine_answer answer;
	ProtobufCMessage *request = protobuf_c_message_unpack(
		engine_request_descriptor(change->method), NULL, change->request_size, change->bytes);
	bool done;

	if (request == NULL)
		return engine_fail(error, ENGINE_INTERNAL, "a change in the log is damaged");
	mutation.method = change->method;
	mutation.request = request;
	mutation.key = change->key;
	memcpy(mutation.caller, change->caller, ENGINE_CALLER_SIZE);
	done = engine_mutate(engine, &mutation, &answer, error);
	protobuf_c_message_free_unpacked(request, NULL);
	if (!done)
		return false;
	protobuf_c_message_free_unpacked(answer.response, NULL);
	if (answer.replayed || answer.position != change->position)
		return engine_fail(error, ENGINE_INTERNAL,
						   "the change of position %" PRIu64 " was applied at %" PRIu64,
						   change->position, answer.position);
	return true;
}
