/*
 * decision_map.h
 *		What is known of resources of one type, by their ids.
 *
 * An id is text.  One that is the canonical text of a 64-bit integer or of a uuid
 * is kept as such, so that a column of that type is looked up without a text
 * being made; any text has exactly one kind, so both ways meet the same entry.
 */
#ifndef VERDICT_PG_DECISION_MAP_H
#define VERDICT_PG_DECISION_MAP_H

#include "verdict.h"

#include "utils/uuid.h"

typedef enum verdict_id_kind
{
	VERDICT_ID_INTEGER,
	VERDICT_ID_UUID,
	VERDICT_ID_TEXT
} verdict_id_kind;

typedef struct verdict_id
{
	verdict_id_kind kind;
	union
	{
		int64 integer;
		pg_uuid_t uuid;
		struct
		{
			const char *bytes; /* UTF-8, without a terminator */
			uint32 size;
		} text;
	} as;
} verdict_id;

typedef enum verdict_known
{
	VERDICT_NOT_KNOWN,
	VERDICT_KNOWN_NO,
	VERDICT_KNOWN_YES
} verdict_known;

typedef struct verdict_decision_map verdict_decision_map;

/* The id of a text; it points into the text. */
extern void verdict_id_of_text(const char *text, size_t size, verdict_id *id);
/* The text of an id, with a terminator, in the current memory context. */
extern char *verdict_id_to_text(const verdict_id *id);

/* An empty map in the current memory context; what is put into it gets a context
 * of its own below that. */
extern verdict_decision_map *verdict_map_create(void);
/* Makes it empty and gives its memory back. */
extern void verdict_map_clear(verdict_decision_map *map);
/* How many bytes it takes. */
extern Size verdict_map_size(const verdict_decision_map *map);

/* Never allocates. */
extern verdict_known verdict_map_find(verdict_decision_map *map, const verdict_id *id);
extern verdict_known verdict_map_find_integer(verdict_decision_map *map, int64 id);
/* Keeps a copy of what the id points to; returns whether the id is new. */
extern bool verdict_map_put(verdict_decision_map *map, const verdict_id *id, bool allowed);

#endif /* VERDICT_PG_DECISION_MAP_H */
