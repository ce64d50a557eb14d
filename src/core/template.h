/*
 * template.h
 *		A text with the names of columns in it, such as User:{owner_id}.
 *
 * Pure functions; nothing here allocates.
 */
#ifndef VERDICT_TEMPLATE_H
#define VERDICT_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>

/* A stretch of literal text, or the name of a column; it points into the template. */
typedef struct verdict_template_piece
{
	const char *text;
	size_t size;
	bool is_column;
} verdict_template_piece;

typedef struct verdict_template
{
	const char *type; /* of the identity that it makes, followed by its colon; NULL: of none */
	size_t type_size;
	size_t count; /* of pieces, at least 1 */
} verdict_template;

/*
 * Takes a template apart.  "pieces", which has room for a piece a byte of the text,
 * gets what comes after the type.  Where the type stands alone that is one piece
 * without text.  Returns NULL, or a sentence that says what is wrong with the text.
 *
 * The text may be of any encoding whose characters beyond ASCII have no ASCII bytes.
 */
extern const char *
verdict_template_split(const char *text, verdict_template *whole, verdict_template_piece *pieces);

#endif /* VERDICT_TEMPLATE_H */
