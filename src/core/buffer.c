/*
 * buffer.c
 *		See buffer.h.  "bytes" holds capacity + 1 bytes, so that there is always
 *		room for the terminator.
 */
#include "buffer.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SMALLEST_CAPACITY 255

void
verdict_buffer_init(verdict_buffer *buffer, const verdict_host *host, size_t maximum)
{
	memset(buffer, 0, sizeof(*buffer));
	buffer->host = host;
	/* one less, so that capacity + 1 never overflows */
	buffer->maximum = maximum < SIZE_MAX ? maximum : SIZE_MAX - 1;
}

/* Makes room for "more" bytes, or notes why there is none. */
static bool
reserve(verdict_buffer *buffer, size_t more)
{
	size_t needed;
	size_t capacity;
	char *bytes;

	if (buffer->state != VERDICT_BUFFER_OK)
		return false;
	if (more > buffer->maximum - buffer->size)
	{
		buffer->state = VERDICT_BUFFER_TOO_LARGE;
		return false;
	}
	needed = buffer->size + more;
	if (buffer->bytes != NULL && needed <= buffer->capacity)
		return true;

	/* Doubling keeps a long run of small appends linear. */
	capacity = buffer->capacity > buffer->maximum / 2 ? buffer->maximum : buffer->capacity * 2;
	if (capacity < SMALLEST_CAPACITY)
		capacity = SMALLEST_CAPACITY;
	if (capacity > buffer->maximum)
		capacity = buffer->maximum;
	if (capacity < needed)
		capacity = needed;
	bytes = buffer->host->allocate(buffer->host->context, buffer->bytes, capacity + 1);
	if (bytes == NULL)
	{
		buffer->state = VERDICT_BUFFER_NO_MEMORY;
		return false;
	}
	buffer->bytes = bytes;
	buffer->capacity = capacity;
	buffer->bytes[buffer->size] = '\0';
	return true;
}

bool
verdict_buffer_append(verdict_buffer *buffer, const void *bytes, size_t size)
{
	if (size == 0)
		return buffer->state == VERDICT_BUFFER_OK;
	if (!reserve(buffer, size))
		return false;
	memcpy(buffer->bytes + buffer->size, bytes, size);
	buffer->size += size;
	buffer->bytes[buffer->size] = '\0';
	return true;
}

char *
verdict_buffer_extend(verdict_buffer *buffer, size_t size)
{
	char *start;

	if (!reserve(buffer, size))
		return NULL;
	start = buffer->bytes + buffer->size;
	buffer->size += size;
	buffer->bytes[buffer->size] = '\0';
	return start;
}

bool
verdict_buffer_append_string(verdict_buffer *buffer, const char *string)
{
	return verdict_buffer_append(buffer, string, strlen(string));
}

bool
verdict_buffer_printf(verdict_buffer *buffer, const char *format, ...)
{
	va_list args;
	int length;

	va_start(args, format);
	length = vsnprintf(NULL, 0, format, args);
	va_end(args);
	if (length < 0)
	{
		/* only when the text would be longer than an int can say */
		if (buffer->state == VERDICT_BUFFER_OK)
			buffer->state = VERDICT_BUFFER_TOO_LARGE;
		return false;
	}
	if (!reserve(buffer, (size_t) length))
		return false;
	va_start(args, format);
	vsnprintf(buffer->bytes + buffer->size, (size_t) length + 1, format, args);
	va_end(args);
	buffer->size += (size_t) length;
	return true;
}

void
verdict_buffer_reset(verdict_buffer *buffer)
{
	buffer->size = 0;
	buffer->state = VERDICT_BUFFER_OK;
	if (buffer->bytes != NULL)
		buffer->bytes[0] = '\0';
}

void
verdict_buffer_free(verdict_buffer *buffer)
{
	verdict_free(buffer->host, buffer->bytes);
	verdict_buffer_init(buffer, buffer->host, buffer->maximum);
}
