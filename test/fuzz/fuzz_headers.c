/*
 * fuzz_headers.c
 *		Any bytes as the head of an answer: what is taken is within the bounds and
 *		can be walked; Retry-After, content types and trailers in it are read.
 */
#include "check.h"
#include "connect.h"
#include "retry.h"
#include "text.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Up to the empty line; gives back how much was used. */
static size_t
add_lines(verdict_headers *headers, const char *bytes, size_t size)
{
	size_t used = 0;

	while (used < size)
	{
		const char *end = memchr(bytes + used, '\n', size - used);
		size_t length = end != NULL ? (size_t) (end - bytes) + 1 - used : size - used;
		verdict_headers_result result = verdict_headers_add_line(headers, bytes + used, length);

		used += length;
		if (result != VERDICT_HEADERS_MORE)
			break;
	}
	return used;
}

static void
walk(const verdict_headers *headers)
{
	size_t position = 0;
	const char *name;
	const char *value;
	const char *first;

	while (verdict_headers_next(headers, &position, &name, &value))
	{
		const char *trailer = verdict_connect_trailer_name(name);

		check(name[0] != '\0' && verdict_headers_find(headers, name, &first) >= 1);
		check(first != NULL && (trailer == NULL || trailer[0] != '\0'));
		check(verdict_retry_after_ms(value, 1767225600) >= -1);
	}
	check(position == headers->block.size);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *bytes = (const char *) data;
	verdict_host host;
	verdict_headers headers;
	verdict_arena arena;
	verdict_status status;
	const char *reason = NULL;
	int64_t length;
	bool gzip;
	bool taken;
	size_t used;

	verdict_host_init_posix(&host);
	verdict_headers_init(&headers, &host);
	verdict_arena_init(&arena, &host, 65536);
	used = add_lines(&headers, bytes, size);
	walk(&headers);
	check(verdict_headers_framing(&headers, &length, &reason) || reason != NULL);
	check(length >= -1);
	reason = NULL;
	check(verdict_headers_encoding(&headers, &gzip, &reason) || reason != NULL);
	if (headers.complete)
	{
		verdict_status_init(&status);
		taken =
			verdict_connect_check_answer(&headers, bytes + used, size - used, VERDICT_WIRE_BINARY,
										 false, 1767225600, &arena, NULL, &status);
		check(taken == (status.code == VERDICT_OK) && (!taken || headers.status == 200));
		check(verdict_is_text(status.message, strnlen(status.message, VERDICT_MESSAGE_SIZE)));
	}
	verdict_arena_free(&arena);
	verdict_headers_free(&headers);
	return 0;
}
