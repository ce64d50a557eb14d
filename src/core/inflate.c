/*
 * inflate.c
 *		See inflate.h.  zlib's memory comes from the host.
 */
#include "inflate.h"

#include <limits.h>
#include <string.h>
#include <zlib.h>

struct verdict_inflate
{
	const verdict_host *host;
	z_stream stream;
	bool ended;
};

static voidpf
zlib_allocate(voidpf context, uInt count, uInt size)
{
	return verdict_alloc_array(context, count, size);
}

static void
zlib_release(voidpf context, voidpf pointer)
{
	verdict_free(context, pointer);
}

verdict_inflate *
verdict_inflate_create(const verdict_host *host)
{
	verdict_inflate *state = verdict_alloc_zero(host, sizeof(*state));

	if (state == NULL)
		return NULL;
	state->host = host;
	state->stream.zalloc = zlib_allocate;
	state->stream.zfree = zlib_release;
	state->stream.opaque = (voidpf) host;
	/* 16: a gzip header and trailer, with its check sum, and nothing else */
	if (inflateInit2(&state->stream, 16 + MAX_WBITS) != Z_OK)
	{
		verdict_free(host, state);
		return NULL;
	}
	return state;
}

void
verdict_inflate_begin(verdict_inflate *state)
{
	inflateReset(&state->stream);
	state->ended = false;
}

verdict_inflate_result
verdict_inflate_add(verdict_inflate *state, const void *bytes, size_t size, verdict_buffer *out)
{
	z_stream *stream = &state->stream;
	unsigned char piece[16384];

	if (size == 0)
		return VERDICT_INFLATE_OK;
	if (state->ended || size > UINT_MAX)
		return VERDICT_INFLATE_MALFORMED;

	stream->next_in = (Bytef *) bytes;
	stream->avail_in = (uInt) size;
	do
	{
		int result;

		stream->next_out = piece;
		stream->avail_out = sizeof(piece);
		result = inflate(stream, Z_NO_FLUSH);
		if (result == Z_MEM_ERROR)
			return VERDICT_INFLATE_NO_MEMORY;
		/* Z_BUF_ERROR: all input is used and nothing more came of it. */
		if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
			return VERDICT_INFLATE_MALFORMED;
		if (!verdict_buffer_append(out, piece, sizeof(piece) - stream->avail_out))
			return out->state == VERDICT_BUFFER_TOO_LARGE ? VERDICT_INFLATE_TOO_LARGE
														  : VERDICT_INFLATE_NO_MEMORY;
		state->ended = result == Z_STREAM_END;
	} while (!state->ended && stream->avail_out == 0);

	return stream->avail_in == 0 ? VERDICT_INFLATE_OK : VERDICT_INFLATE_MALFORMED;
}

bool
verdict_inflate_ended(const verdict_inflate *state)
{
	return state->ended;
}

void
verdict_inflate_free(verdict_inflate *state)
{
	if (state == NULL)
		return;
	inflateEnd(&state->stream);
	verdict_free(state->host, state);
}
