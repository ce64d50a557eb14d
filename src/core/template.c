/*
 * template.c
 *		A text with the names of columns in it.
 *
 * It is taken apart here, once and for all: what a column holds is put into the
 * place of its piece later, and is never looked at for a brace or a colon.
 */
#include "template.h"

#include <string.h>

#include "text.h"

/* The piece at "text", whose length in the template is left in *taken; or what is wrong. */
static const char *
next_piece(const char *text, verdict_template_piece *piece, size_t *taken)
{
	piece->is_column = *text == '{';
	piece->text = piece->is_column ? text + 1 : text;
	piece->size = strcspn(piece->text, "{}");
	*taken = piece->size;
	if (piece->is_column)
	{
		if (piece->text[piece->size] != '}')
			return "A column is written {name}: a closing brace is missing.";
		*taken += 2;
	}
	else if (piece->size == 0)
		return "A closing brace stands without an opening one.";
	return NULL;
}

/* Takes the type of an identity off, if there is one. */
static const char *
take_type(verdict_template *whole, verdict_template_piece *pieces)
{
	verdict_template_piece *first = &pieces[0];
	const char *colon;

	if (first->is_column)
	{
		if (whole->count > 1 && !pieces[1].is_column && pieces[1].text[0] == ':')
			return "The type of an identity has to be written out, as in User:{column}.";
		return NULL;
	}
	colon = memchr(first->text, ':', first->size);
	if (colon == NULL)
		return NULL;
	whole->type = first->text;
	whole->type_size = (size_t) (colon - first->text);
	if (!verdict_is_identifier(whole->type, whole->type_size))
		return "What stands before the colon is no type: an ASCII letter or underscore, then "
			   "letters, digits and underscores.";
	first->size -= whole->type_size + 1;
	first->text = colon + 1;
	return NULL;
}

const char *
verdict_template_split(const char *text, verdict_template *whole, verdict_template_piece *pieces)
{
	whole->type = NULL;
	whole->type_size = 0;
	whole->count = 0;
	while (*text != '\0')
	{
		size_t taken;
		const char *problem = next_piece(text, &pieces[whole->count], &taken);

		if (problem != NULL)
			return problem;
		whole->count++;
		text += taken;
	}
	if (whole->count == 0)
		return "A template is not empty.";
	return take_type(whole, pieces);
}
