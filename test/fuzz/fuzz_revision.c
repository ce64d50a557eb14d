/*
 * fuzz_revision.c
 *		Revision tokens out of hostile bytes.
 *
 * The input is up to three texts, one a line.  What parses must match the
 * grammar, print to a text that parses to the same, and obey the laws of
 * merging with the others.
 */
#include "check.h"
#include "revision.h"

#include <regex.h>
#include <string.h>

#define NUMBER "(0|[1-9][0-9]*)"

extern int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool
same(const verdict_revision *a, const verdict_revision *b)
{
	int i;

	if (a->shards != b->shards || a->generation != b->generation ||
		strcmp(a->instance, b->instance) != 0)
		return false;
	for (i = 0; i < a->shards; i++)
		if (a->positions[i].shard != b->positions[i].shard ||
			a->positions[i].position != b->positions[i].position)
			return false;
	return true;
}

/* The wire contract's grammar, said a second time. */
static bool
of_the_grammar(const char *text)
{
	static regex_t grammar;
	static bool compiled = false;

	if (!compiled)
	{
		check(regcomp(&grammar,
					  "^v1\\.[A-Za-z0-9_-]{1,64}\\." NUMBER "\\." NUMBER "(:" NUMBER ")?(," NUMBER
					  ":" NUMBER ")*$",
					  REG_EXTENDED | REG_NOSUB) == 0);
		compiled = true;
	}
	return regexec(&grammar, text, 0, NULL, 0) == 0;
}

static bool
parse(const uint8_t *data, size_t size, verdict_revision *revision)
{
	char *text = malloc(size + 1);
	char printed[VERDICT_REVISION_MAX_TEXT + 1];
	verdict_revision again;
	size_t length;
	int i;

	check(text != NULL);
	if (size > 0)
		memcpy(text, data, size);
	if (!verdict_revision_parse(text, size, revision))
	{
		free(text);
		return false;
	}
	text[size] = '\0';
	check(size <= VERDICT_REVISION_MAX_TEXT && strlen(text) == size);
	check(of_the_grammar(text));
	free(text);

	check(revision->shards >= 1 && revision->shards <= VERDICT_REVISION_MAX_SHARDS);
	for (i = 1; i < revision->shards; i++)
		check(revision->positions[i - 1].shard < revision->positions[i].shard);

	length = verdict_revision_print(revision, printed);
	check(length > 0 && length <= size && strlen(printed) == length);
	check(verdict_revision_parse(printed, length, &again));
	check(same(revision, &again));
	return true;
}

/* "a" raised by "b"; a failure must leave it alone. */
static verdict_merge_result
merge(const verdict_revision *a, const verdict_revision *b, verdict_revision *result)
{
	verdict_merge_result outcome;

	*result = *a;
	outcome = verdict_revision_merge(result, b);
	if (outcome == VERDICT_MERGE_OK)
	{
		check(verdict_revision_covers(result, a));
		check(verdict_revision_covers(result, b));
	}
	else
		check(same(result, a));
	return outcome;
}

static void
check_laws(const verdict_revision *a, const verdict_revision *b, const verdict_revision *c)
{
	verdict_revision ab;
	verdict_revision ba;
	verdict_revision bc;
	verdict_revision left;
	verdict_revision right;
	verdict_merge_result ab_outcome = merge(a, b, &ab);
	verdict_merge_result bc_outcome;

	check(merge(a, a, &left) == VERDICT_MERGE_OK && same(&left, a));
	check(merge(b, a, &ba) == ab_outcome);
	if (ab_outcome != VERDICT_MERGE_OK)
		return;
	check(same(&ab, &ba));
	check(merge(&ab, b, &left) == VERDICT_MERGE_OK && same(&left, &ab));

	bc_outcome = merge(b, c, &bc);
	if (merge(&ab, c, &left) == VERDICT_MERGE_OK)
	{
		/* If all three fit together, any two do. */
		check(bc_outcome == VERDICT_MERGE_OK);
		check(merge(a, &bc, &right) == VERDICT_MERGE_OK);
		check(same(&left, &right));
	}
	else if (bc_outcome == VERDICT_MERGE_OK)
		check(merge(a, &bc, &right) != VERDICT_MERGE_OK);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	verdict_revision revisions[3];
	int count = 0;

	while (count < 3)
	{
		const uint8_t *newline = size > 0 ? memchr(data, '\n', size) : NULL;
		size_t length = newline != NULL ? (size_t) (newline - data) : size;

		if (parse(data, length, &revisions[count]))
			count++;
		if (newline == NULL)
			break;
		data += length + 1;
		size -= length + 1;
	}
	if (count > 0)
		check_laws(&revisions[0], &revisions[count > 1 ? 1 : 0], &revisions[count - 1]);
	return 0;
}
