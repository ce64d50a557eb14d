/*
 * headers.c
 *		See headers.h.  The block always holds whole pairs, each string with its
 *		terminator, so that walking it needs no length beyond the block's.
 */
#include "headers.h"

#include "text.h"

#include <string.h>
#include <strings.h>

void
verdict_headers_init(verdict_headers *headers, const verdict_host *host)
{
	memset(headers, 0, sizeof(*headers));
	/* A pair can need one byte more than its line: "a:\n" becomes "a\0\0". */
	verdict_buffer_init(&headers->block, host, 2 * VERDICT_HEADER_BYTES_MAX);
}

void
verdict_headers_reset(verdict_headers *headers)
{
	headers->status = 0;
	headers->http2 = false;
	headers->complete = false;
	headers->seen = 0;
	verdict_buffer_reset(&headers->block);
}

void
verdict_headers_free(verdict_headers *headers)
{
	verdict_buffer_free(&headers->block);
	verdict_headers_reset(headers);
}

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* The characters of a token (RFC 9110, 5.6.2). */
static bool
is_token_character(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
		   (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static bool
is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* "HTTP/1.1 200 OK" or "HTTP/2 200": the status, or 0. */
static int
parse_status_line(const char *line, size_t size)
{
	size_t position = strlen("HTTP/");
	const char *digits;
	int status;

	if (size < position || memcmp(line, "HTTP/", position) != 0)
		return 0;
	while (position < size && (is_digit(line[position]) || line[position] == '.'))
		position++;
	if (position == size || line[position] != ' ')
		return 0;
	digits = line + position + 1;
	if (size - position - 1 < 3 || !is_digit(digits[0]) || !is_digit(digits[1]) ||
		!is_digit(digits[2]) || (size - position - 1 > 3 && digits[3] != ' ') || digits[0] == '0')
		return 0;
	status = (digits[0] - '0') * 100 + (digits[1] - '0') * 10 + (digits[2] - '0');
	/* Nothing here asks for another protocol. */
	return status == 101 ? 0 : status;
}

static verdict_headers_result
add_pair(verdict_headers *headers, const char *line, size_t size)
{
	size_t name_size = 0;
	const char *value;
	size_t value_size;
	size_t i;

	while (name_size < size && is_token_character(line[name_size]))
		name_size++;
	if (name_size == 0 || name_size == size || line[name_size] != ':')
		return VERDICT_HEADERS_MALFORMED;

	value = line + name_size + 1;
	value_size = size - name_size - 1;
	while (value_size > 0 && is_blank(value[0]))
	{
		value++;
		value_size--;
	}
	while (value_size > 0 && is_blank(value[value_size - 1]))
		value_size--;
	for (i = 0; i < value_size; i++)
		if (((unsigned char) value[i] < 0x20 && value[i] != '\t') || value[i] == 0x7F)
			return VERDICT_HEADERS_MALFORMED;

	if (!verdict_buffer_append(&headers->block, line, name_size) ||
		!verdict_buffer_append(&headers->block, "", 1) ||
		!verdict_buffer_append(&headers->block, value, value_size) ||
		!verdict_buffer_append(&headers->block, "", 1))
		return headers->block.state == VERDICT_BUFFER_TOO_LARGE ? VERDICT_HEADERS_TOO_LARGE
																: VERDICT_HEADERS_NO_MEMORY;
	return VERDICT_HEADERS_MORE;
}

verdict_headers_result
verdict_headers_add_line(verdict_headers *headers, const char *line, size_t size)
{
	if (size > VERDICT_HEADER_BYTES_MAX - headers->seen)
		return VERDICT_HEADERS_TOO_LARGE;
	headers->seen += size;
	if (headers->complete)
		return VERDICT_HEADERS_MORE;

	if (size > 0 && line[size - 1] == '\n')
		size--;
	if (size > 0 && line[size - 1] == '\r')
		size--;

	if (headers->status == 0)
	{
		headers->status = parse_status_line(line, size);
		headers->http2 = size > 5 && line[5] != '1';
		return headers->status == 0 ? VERDICT_HEADERS_MALFORMED : VERDICT_HEADERS_MORE;
	}
	if (size > 0)
		return add_pair(headers, line, size);
	if (headers->status >= 200)
	{
		headers->complete = true;
		return VERDICT_HEADERS_COMPLETE;
	}
	headers->status = 0;
	verdict_buffer_reset(&headers->block);
	return VERDICT_HEADERS_MORE;
}

bool
verdict_headers_next(const verdict_headers *headers, size_t *position, const char **name,
					 const char **value)
{
	const verdict_buffer *block = &headers->block;

	if (*position >= block->size)
		return false;
	*name = block->bytes + *position;
	*value = *name + strlen(*name) + 1;
	*position = (size_t) (*value - block->bytes) + strlen(*value) + 1;
	return true;
}

int
verdict_headers_find(const verdict_headers *headers, const char *name, const char **value)
{
	size_t position = 0;
	const char *one_name;
	const char *one_value;
	int count = 0;

	*value = NULL;
	while (verdict_headers_next(headers, &position, &one_name, &one_value))
	{
		if (strcasecmp(one_name, name) != 0)
			continue;
		if (count++ == 0)
			*value = one_value;
	}
	return count;
}

bool
verdict_headers_framing(const verdict_headers *headers, int64_t *length, const char **reason)
{
	const char *length_text;
	const char *transfer;
	int lengths = verdict_headers_find(headers, "Content-Length", &length_text);
	int transfers = verdict_headers_find(headers, "Transfer-Encoding", &transfer);

	*length = -1;
	if (lengths + transfers == 0)
	{
		*reason = "its headers do not say where it ends";
		return false;
	}
	if (lengths + transfers > 1)
	{
		*reason = "its headers say more than once where it ends";
		return false;
	}
	if (transfers == 1)
	{
		if (!headers->http2 && strcasecmp(transfer, "chunked") == 0)
			return true;
		*reason = "its Transfer-Encoding is not chunked";
		return false;
	}
	if (!is_digit(length_text[0]) || !verdict_int64_parse(length_text, strlen(length_text), length))
	{
		*length = -1;
		*reason = "its Content-Length is not a number";
		return false;
	}
	return true;
}

bool
verdict_headers_encoding(const verdict_headers *headers, bool *gzip, const char **reason)
{
	const char *encoding;
	int count = verdict_headers_find(headers, "Content-Encoding", &encoding);

	*gzip = false;
	if (count == 0 || (count == 1 && strcasecmp(encoding, "identity") == 0))
		return true;
	if (count == 1 && strcasecmp(encoding, "gzip") == 0)
	{
		*gzip = true;
		return true;
	}
	*reason = "its Content-Encoding was not asked for";
	return false;
}
