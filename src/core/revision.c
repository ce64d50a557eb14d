/*
 * revision.c
 *		Revision tokens: parse, compare histories, merge.
 *
 * A revision that parse or merge made holds its positions in ascending order of
 * shards, each shard once, and its canonical text fits VERDICT_REVISION_MAX_TEXT.
 * Every function here relies on that and keeps it.  Nothing allocates, nothing
 * reads past the given size.
 */
#include "revision.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define REVISION_PREFIX "v1."

/* What is still to be read of a text. */
typedef struct reader
{
	const char *next;
	const char *end;
} reader;

static bool
take_char(reader *r, char wanted)
{
	if (r->next == r->end || *r->next != wanted)
		return false;
	r->next++;
	return true;
}

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Reads a decimal number up to "maximum"; "0" is one, "00" and "05" are none. */
static bool
take_number(reader *r, uint64_t maximum, uint64_t *number)
{
	const char *start = r->next;
	uint64_t value = 0;

	while (r->next < r->end && is_digit(*r->next))
	{
		uint64_t digit = (uint64_t) (*r->next - '0');

		if (value > (maximum - digit) / 10)
			return false;
		value = value * 10 + digit;
		r->next++;
	}
	if (r->next == start || (*start == '0' && r->next - start > 1))
		return false;
	*number = value;
	return true;
}

static bool
take_instance(reader *r, char *instance)
{
	size_t length = 0;

	while (r->next < r->end)
	{
		char c = *r->next;

		/* Not isalnum(): the locale must not widen the grammar. */
		if (!((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || is_digit(c) || c == '_' ||
			  c == '-'))
			break;
		if (length == VERDICT_REVISION_MAX_INSTANCE)
			return false;
		instance[length++] = c;
		r->next++;
	}
	instance[length] = '\0';
	return length > 0;
}

/* Reads "position" or "shard:position"; only the first may be bare. */
static bool
take_position(reader *r, bool may_be_bare, verdict_position *position)
{
	uint64_t number;

	if (!take_number(r, UINT64_MAX, &number))
		return false;
	if (take_char(r, ':'))
	{
		if (number > UINT32_MAX)
			return false;
		position->shard = (uint32_t) number;
		return take_number(r, UINT64_MAX, &position->position);
	}
	position->shard = 0;
	position->position = number;
	return may_be_bare;
}

bool
verdict_revision_parse(const char *text, size_t size, verdict_revision *revision)
{
	reader r;
	const char *prefix = REVISION_PREFIX;

	memset(revision, 0, sizeof(*revision));
	if (text == NULL || size > VERDICT_REVISION_MAX_TEXT)
		return false;
	r.next = text;
	r.end = text + size;

	for (; *prefix != '\0'; prefix++)
	{
		if (!take_char(&r, *prefix))
			return false;
	}
	if (!take_instance(&r, revision->instance) || !take_char(&r, '.') ||
		!take_number(&r, UINT64_MAX, &revision->generation) || !take_char(&r, '.'))
		return false;

	do
	{
		verdict_position *position;

		if (revision->shards == VERDICT_REVISION_MAX_SHARDS)
			return false;
		position = &revision->positions[revision->shards];
		if (!take_position(&r, revision->shards == 0, position))
			return false;
		if (revision->shards > 0 && position[-1].shard >= position->shard)
			return false;
		revision->shards++;
	} while (take_char(&r, ','));

	return r.next == r.end;
}

/*
 * Writes the canonical text, cut at "size" bytes, and returns the length it has
 * uncut; the same code measures (with size 0) and prints.
 */
static size_t
write_text(const verdict_revision *revision, char *text, size_t size)
{
	size_t length;
	int i;

	length = (size_t) snprintf(text, size, REVISION_PREFIX "%s.%" PRIu64 ".", revision->instance,
							   revision->generation);
	for (i = 0; i < revision->shards; i++)
	{
		const verdict_position *position = &revision->positions[i];
		const char *comma = i > 0 ? "," : "";
		char *place = length < size ? text + length : NULL;
		size_t room = length < size ? size - length : 0;

		if (position->shard == 0)
			length += (size_t) snprintf(place, room, "%s%" PRIu64, comma, position->position);
		else
			length += (size_t) snprintf(place, room, "%s%" PRIu32 ":%" PRIu64, comma,
										position->shard, position->position);
	}
	return length;
}

size_t
verdict_revision_print(const verdict_revision *revision, char *text)
{
	size_t length = 0;

	if (revision->shards > 0)
		length = write_text(revision, text, VERDICT_REVISION_MAX_TEXT + 1);
	if (length > VERDICT_REVISION_MAX_TEXT)
		length = 0;
	text[length] = '\0';
	return length;
}

static bool
same_history(const verdict_revision *a, const verdict_revision *b)
{
	return a->generation == b->generation && strcmp(a->instance, b->instance) == 0;
}

verdict_merge_result
verdict_revision_merge(verdict_revision *into, const verdict_revision *from)
{
	verdict_revision merged;
	int i = 0;
	int j = 0;

	if (from->shards == 0)
		return VERDICT_MERGE_OK;
	if (into->shards == 0)
	{
		*into = *from;
		return VERDICT_MERGE_OK;
	}
	if (!same_history(into, from))
		return VERDICT_MERGE_OTHER_HISTORY;

	memset(&merged, 0, sizeof(merged));
	memcpy(merged.instance, into->instance, sizeof(merged.instance));
	merged.generation = into->generation;
	while (i < into->shards || j < from->shards)
	{
		const verdict_position *a = i < into->shards ? &into->positions[i] : NULL;
		const verdict_position *b = j < from->shards ? &from->positions[j] : NULL;
		verdict_position larger;

		if (b == NULL || (a != NULL && a->shard < b->shard))
		{
			larger = *a;
			i++;
		}
		else if (a == NULL || b->shard < a->shard)
		{
			larger = *b;
			j++;
		}
		else
		{
			larger = a->position >= b->position ? *a : *b;
			i++;
			j++;
		}
		if (merged.shards == VERDICT_REVISION_MAX_SHARDS)
			return VERDICT_MERGE_TOO_LARGE;
		merged.positions[merged.shards++] = larger;
	}
	if (write_text(&merged, NULL, 0) > VERDICT_REVISION_MAX_TEXT)
		return VERDICT_MERGE_TOO_LARGE;

	*into = merged;
	return VERDICT_MERGE_OK;
}

bool
verdict_revision_covers(const verdict_revision *reached, const verdict_revision *wanted)
{
	int i;
	int j = 0;

	if (reached->shards == 0 || wanted->shards == 0 || !same_history(reached, wanted))
		return false;

	for (i = 0; i < wanted->shards; i++)
	{
		const verdict_position *want = &wanted->positions[i];
		uint64_t has = 0; /* a shard that is not there is at its start */

		while (j < reached->shards && reached->positions[j].shard < want->shard)
			j++;
		if (j < reached->shards && reached->positions[j].shard == want->shard)
			has = reached->positions[j].position;
		if (has < want->position)
			return false;
	}
	return true;
}
