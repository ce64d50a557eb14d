/*
 * fuzz_template.c
 *		Templates of triggers out of hostile bytes.
 *
 * What is taken apart makes the same text when it is put together again, and no
 * piece holds a brace.  What is not has a brace without its partner, a type that is
 * none, or nothing at all.
 */
#include "check.h"
#include "template.h"
#include "text.h"

#include <stdint.h>
#include <string.h>

extern int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_pieces(const char *text, const verdict_template *whole, const verdict_template_piece *pieces)
{
	const char *next = text;

	check(whole->count > 0 && whole->count <= strlen(text));
	if (whole->type != NULL)
	{
		check(whole->type == next && verdict_is_identifier(next, whole->type_size));
		check(next[whole->type_size] == ':' && !pieces[0].is_column);
		next += whole->type_size + 1;
	}
	else
		check(pieces[0].is_column || memchr(pieces[0].text, ':', pieces[0].size) == NULL);
	for (size_t i = 0; i < whole->count; i++)
	{
		const verdict_template_piece *piece = &pieces[i];

		check(piece->is_column || piece->size > 0 || (i == 0 && whole->type != NULL));
		check(i == 0 || piece->is_column || pieces[i - 1].is_column);
		if (piece->is_column)
			check(*next++ == '{');
		check(piece->text == next && memchr(next, '{', piece->size) == NULL &&
			  memchr(next, '}', piece->size) == NULL);
		next += piece->size;
		if (piece->is_column)
			check(*next++ == '}');
	}
	check(*next == '\0');
}

/* Whether each brace has its partner, and none stands within another. */
static bool
braces_match(const char *text)
{
	bool open = false;

	for (; *text != '\0'; text++)
	{
		if ((*text == '{' && open) || (*text == '}' && !open))
			return false;
		if (*text == '{' || *text == '}')
			open = !open;
	}
	return !open;
}

/* Whether a colon is where only the end of a type could be. */
static bool
colon_comes_early(const char *text)
{
	const char *colon;

	if (*text == '{')
		return text[strcspn(text, "}") + 1] == ':';
	colon = strpbrk(text, ":{");
	return colon != NULL && *colon == ':' && !verdict_is_identifier(text, (size_t) (colon - text));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	verdict_template_piece *pieces;
	verdict_template whole;
	const char *problem;

	check(text != NULL);
	if (size > 0)
		memcpy(text, data, size);
	text[size] = '\0';
	/* No more room than is asked for. */
	pieces = malloc(strlen(text) * sizeof(*pieces));
	check(pieces != NULL || text[0] == '\0');
	problem = verdict_template_split(text, &whole, pieces);
	check((problem == NULL) == (text[0] != '\0' && braces_match(text) && !colon_comes_early(text)));
	if (problem == NULL)
		check_pieces(text, &whole, pieces);
	else
		check(problem[0] != '\0');
	free(pieces);
	free(text);
	return 0;
}
