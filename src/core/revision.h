/*
 * revision.h
 *		Revision tokens: parse, compare histories, merge.
 *
 * Grammar and rules: the wire contract, "Revisions".  A revision is a plain
 * value; nothing here allocates.
 */
#ifndef VERDICT_REVISION_H
#define VERDICT_REVISION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VERDICT_REVISION_MAX_TEXT 2048 /* bytes of the text, terminator not counted */
#define VERDICT_REVISION_MAX_SHARDS 64
#define VERDICT_REVISION_MAX_INSTANCE 64

typedef struct verdict_position
{
	uint32_t shard;
	uint64_t position;
} verdict_position;

typedef struct verdict_revision
{
	char instance[VERDICT_REVISION_MAX_INSTANCE + 1];
	uint64_t generation;
	int shards;												 /* 0 = no revision */
	verdict_position positions[VERDICT_REVISION_MAX_SHARDS]; /* ascending */
} verdict_revision;

typedef enum verdict_merge_result
{
	VERDICT_MERGE_OK,
	VERDICT_MERGE_OTHER_HISTORY, /* instance or generation differ */
	VERDICT_MERGE_TOO_LARGE		 /* over 64 shards or 2,048 bytes */
} verdict_merge_result;

/* False, and *revision undefined, when the text is malformed in any way. */
extern bool verdict_revision_parse(const char *text, size_t size, verdict_revision *revision);
/* Writes the canonical text (only shard 0 in the bare form); text must hold
 * VERDICT_REVISION_MAX_TEXT + 1 bytes.  Returns its length; "" and 0 for a
 * revision without shards, or one built by hand whose text would be too long. */
extern size_t verdict_revision_print(const verdict_revision *revision, char *text);
/* Raises "into" to the larger position shard by shard.  An "into" without
 * shards takes "from" as it is; a "from" without shards changes nothing.  "into"
 * is unchanged unless the result is OK. */
extern verdict_merge_result
verdict_revision_merge(verdict_revision *into, const verdict_revision *from);
/* True when both are of one history and "reached" has every position of
 * "wanted"; a shard that "reached" lacks stands at 0.  False when either has no
 * shards: no revision says nothing about what was reached. */
extern bool
verdict_revision_covers(const verdict_revision *reached, const verdict_revision *wanted);

#endif /* VERDICT_REVISION_H */
