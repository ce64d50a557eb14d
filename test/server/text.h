/*
 * text.h
 *		Checks of text from outside, and the engine's error messages.
 */
#ifndef VERDICT_SERVER_TEXT_H
#define VERDICT_SERVER_TEXT_H

#include <stddef.h>

#include "engine.h"

#define TEXT_MAX_IDENTIFIER 128

/* ASCII letter or underscore, then letters, digits, underscores; at most 128. */
extern bool text_is_identifier(const char *bytes, size_t size);
/* Valid UTF-8 (no surrogates, no overlong forms) without NUL. */
extern bool text_is_utf8(const char *bytes, size_t size);
/* Bytes of the character at the start, or 0 when it is not valid UTF-8. */
extern size_t text_character(const char *bytes, size_t size);

/*
 * Fills the error; control characters and what is not UTF-8 become "?", and a
 * long message is cut at a character.  Returns false.
 */
extern bool engine_fail(engine_error *error, engine_code code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif /* VERDICT_SERVER_TEXT_H */
