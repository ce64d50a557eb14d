/*
 * text.h
 *		What bytes from outside mean as text: characters, names, numbers.
 *
 * Pure functions; nothing here allocates or keeps a pointer.
 */
#ifndef VERDICT_TEXT_H
#define VERDICT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * How many bytes the first character of "bytes" has (1 to 4), or 0 when "size"
 * is 0 or it is not well-formed: table 3-7 of the Unicode Standard (no overlong
 * form, no surrogate, nothing beyond U+10FFFF).  A NUL byte counts as a
 * character of one byte.
 */
extern size_t verdict_utf8_length(const char *bytes, size_t size);

/*
 * Writes a code point, which must be one that UTF-8 has a form for, to "bytes"
 * (room for 4); returns how many bytes that took.
 */
extern size_t verdict_utf8_write(uint32_t code, char *bytes);

/* Valid UTF-8 (no surrogates, no overlong forms) without NUL. */
extern bool verdict_is_text(const char *bytes, size_t size);

/* ASCII letter or underscore, then letters, digits and underscores; at most 128. */
extern bool verdict_is_identifier(const char *bytes, size_t size);

/*
 * Reads a decimal integer that fills "bytes" to the end: an optional minus, then
 * 0 or digits that do not start with 0.  False when it is anything else or does
 * not fit.
 */
extern bool verdict_int64_parse(const char *bytes, size_t size, int64_t *value);

/*
 * Decodes base64 (RFC 4648), of either alphabet, with or without its padding, to
 * "bytes", which may be "text" itself and needs room for size * 3 / 4.  Returns how
 * many bytes came out, or -1 when it is not base64.
 */
extern int64_t verdict_base64_decode(const char *text, size_t size, uint8_t *bytes);

#endif /* VERDICT_TEXT_H */
