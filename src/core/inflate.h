/*
 * inflate.h
 *		A gzip body to its bytes, piece by piece, into a bounded buffer.
 *
 * libcurl could do this too, but it takes a compressed stream that stops in its
 * middle for a whole one; here the end is checked.  The bound is the buffer's:
 * it counts what comes out, so a small body that grows without end is refused.
 */
#ifndef VERDICT_INFLATE_H
#define VERDICT_INFLATE_H

#include "buffer.h"

typedef enum verdict_inflate_result
{
	VERDICT_INFLATE_OK,
	VERDICT_INFLATE_MALFORMED, /* not gzip, damaged, or followed by more */
	VERDICT_INFLATE_TOO_LARGE, /* the buffer's maximum is met */
	VERDICT_INFLATE_NO_MEMORY
} verdict_inflate_result;

typedef struct verdict_inflate verdict_inflate;

/* NULL when there is no memory.  May be used for one body after another. */
extern verdict_inflate *verdict_inflate_create(const verdict_host *host);
/* Before each body. */
extern void verdict_inflate_begin(verdict_inflate *state);
/* Appends to "out" what "size" more compressed bytes make. */
extern verdict_inflate_result
verdict_inflate_add(verdict_inflate *state, const void *bytes, size_t size, verdict_buffer *out);
/* True when the compressed stream has come to its end. */
extern bool verdict_inflate_ended(const verdict_inflate *state);
/* NULL is allowed. */
extern void verdict_inflate_free(verdict_inflate *state);

#endif /* VERDICT_INFLATE_H */
