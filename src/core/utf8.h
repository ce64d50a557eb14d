/*
 * utf8.h
 *		One character of UTF-8, for whoever reads text byte by byte.
 */
#ifndef VERDICT_UTF8_H
#define VERDICT_UTF8_H

#include <stddef.h>

/*
 * How many bytes the first character of "bytes" has (1 to 4), or 0 when "size"
 * is 0 or it is not well-formed: RFC 3629, table 3-7 of the Unicode Standard (no
 * overlong form, no surrogate, nothing beyond U+10FFFF).  A NUL byte counts as
 * a character of one byte.
 */
extern size_t verdict_utf8_length(const char *bytes, size_t size);

#endif							/* VERDICT_UTF8_H */
