/*
 * json.h
 *		JSON text, token by token: RFC 8259 to the letter, UTF-8, without U+0000.
 *
 * A cursor over text that someone else owns; nothing here allocates.  After a
 * false the position says about where the text is wrong, and reading on makes no
 * sense.
 */
#ifndef VERDICT_JSON_H
#define VERDICT_JSON_H

#include <stdbool.h>
#include <stddef.h>

/* Objects and arrays in each other, counted from the outermost as 1. */
#define VERDICT_JSON_MAX_DEPTH 32

typedef struct verdict_json
{
	const char *text;
	size_t size;
	size_t position;
} verdict_json;

/* Passes over white space; the byte there, or NUL at the end of the text. */
extern char verdict_json_peek(verdict_json *json);

/* Passes over white space and, when it comes next, over "c". */
extern bool verdict_json_take(verdict_json *json, char c);

/*
 * Passes over a string, whose opening quote comes next, and tells the size of
 * what it stands for.  Writes that to "out" when it is not NULL (no terminator).
 */
extern bool verdict_json_string(verdict_json *json, char *out, size_t *size);

/* Passes over a number. */
extern bool verdict_json_number(verdict_json *json);

/*
 * Passes over any value, checking all of it.  "depth" levels of objects and
 * arrays may still be opened.
 */
extern bool verdict_json_skip(verdict_json *json, int depth);

#endif /* VERDICT_JSON_H */
