/*
 * gzip.h
 *		Bodies in gzip, both ways, and the gzip of a body too long to hold.
 */
#ifndef VERDICT_SERVER_GZIP_H
#define VERDICT_SERVER_GZIP_H

#include "buffer.h"

/* Appends the compressed bytes.  False when there is no memory. */
extern bool gzip_compress(verdict_buffer *out, const void *bytes, size_t size);

/*
 * Appends the decompressed bytes of one or more gzip members.  False when they
 * are damaged or cut, or when the result would pass the maximum of the buffer
 * (the state of the buffer then is VERDICT_BUFFER_TOO_LARGE).
 */
extern bool gzip_decompress(verdict_buffer *out, const void *bytes, size_t size);

/*
 * A body of head, count times block, tail, compressed in three pieces: the
 * whole is *first, count times *middle, *last.  False when there is no memory.
 */
extern bool gzip_pieces(const verdict_buffer *head, const verdict_buffer *block, uint64_t count,
						const verdict_buffer *tail, verdict_buffer *first, verdict_buffer *middle,
						verdict_buffer *last);

#endif /* VERDICT_SERVER_GZIP_H */
