/*
 * buffer.h
 *		A growable run of bytes that is created with its maximum.
 *
 * The maximum is decided before the first byte comes in, so that no peer can
 * make a buffer grow without a bound.  A failure is sticky: after it, appends
 * do nothing and the buffer says what went wrong.
 */
#ifndef VERDICT_BUFFER_H
#define VERDICT_BUFFER_H

#include "host.h"

typedef enum verdict_buffer_state
{
	VERDICT_BUFFER_OK,
	VERDICT_BUFFER_TOO_LARGE, /* an append would have passed the maximum */
	VERDICT_BUFFER_NO_MEMORY
} verdict_buffer_state;

typedef struct verdict_buffer
{
	const verdict_host *host;
	char *bytes; /* NUL-terminated beyond size; NULL while empty */
	size_t size;
	size_t capacity;
	size_t maximum; /* largest size, terminator not counted */
	verdict_buffer_state state;
} verdict_buffer;

/* Prepares an empty buffer; allocates nothing. */
extern void verdict_buffer_init(verdict_buffer *buffer, const verdict_host *host, size_t maximum);
/* Appends; false (and nothing appended) when the state is not OK any more. */
extern bool verdict_buffer_append(verdict_buffer *buffer, const void *bytes, size_t size);
/* Appends "size" bytes that the caller writes, and returns where; NULL as append() fails. */
extern char *verdict_buffer_extend(verdict_buffer *buffer, size_t size);
extern bool verdict_buffer_append_string(verdict_buffer *buffer, const char *string);
extern bool verdict_buffer_printf(verdict_buffer *buffer, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Forgets the content and the failure, keeps the memory for the next use. */
extern void verdict_buffer_reset(verdict_buffer *buffer);
/* Frees the memory; the buffer is as after init. */
extern void verdict_buffer_free(verdict_buffer *buffer);

#endif /* VERDICT_BUFFER_H */
