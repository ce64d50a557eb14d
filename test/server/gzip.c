/*
 * gzip.c
 *		zlib behind three functions.  Nothing is kept between calls.
 */
#include "gzip.h"

#include <limits.h>
#include <string.h>
#include <zlib.h>

#define GZIP_WINDOW (15 + 16) /* zlib's way to say "gzip, not zlib" */
#define RAW_WINDOW (-15)
#define PIECE_SIZE 16384

/* Feeds all input to deflate() and appends what comes out. */
static bool
deflate_all(z_stream *stream, const void *bytes, size_t size, int flush, verdict_buffer *out)
{
	unsigned char piece[PIECE_SIZE];

	if (size > UINT_MAX)
		return false;
	stream->next_in = (Bytef *) bytes;
	stream->avail_in = (uInt) size;
	do
	{
		stream->next_out = piece;
		stream->avail_out = sizeof(piece);
		if (deflate(stream, flush) == Z_STREAM_ERROR)
			return false;
		if (!verdict_buffer_append(out, piece, sizeof(piece) - stream->avail_out))
			return false;
	} while (stream->avail_out == 0);
	return true;
}

bool
gzip_compress(verdict_buffer *out, const void *bytes, size_t size)
{
	z_stream stream = {0};
	bool done;

	if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		return false;
	done = deflate_all(&stream, bytes, size, Z_FINISH, out);
	deflateEnd(&stream);
	return done;
}

bool
gzip_decompress(verdict_buffer *out, const void *bytes, size_t size)
{
	z_stream stream = {0};
	unsigned char piece[PIECE_SIZE];
	int result = Z_OK;
	bool good = true;

	if (size > UINT_MAX || inflateInit2(&stream, GZIP_WINDOW) != Z_OK)
		return false;
	stream.next_in = (Bytef *) bytes;
	stream.avail_in = (uInt) size;
	for (;;)
	{
		stream.next_out = piece;
		stream.avail_out = sizeof(piece);
		result = inflate(&stream, Z_NO_FLUSH);
		if ((result != Z_OK && result != Z_STREAM_END) ||
			!verdict_buffer_append(out, piece, sizeof(piece) - stream.avail_out))
		{
			good = false;
			break;
		}
		if (result == Z_STREAM_END)
		{
			if (stream.avail_in == 0)
				break;
			if (inflateReset(&stream) != Z_OK) /* another member follows */
			{
				good = false;
				break;
			}
		}
	}
	inflateEnd(&stream);
	return good;
}

static void
append_little_endian(verdict_buffer *out, uint32_t number)
{
	unsigned char bytes[4];

	for (int i = 0; i < 4; i++)
		bytes[i] = (unsigned char) (number >> (8 * i));
	verdict_buffer_append(out, bytes, sizeof(bytes));
}

/*
 * A full flush leaves deflate without memory of what went before, so the bytes
 * of one block may stand in the stream as often as wanted.
 */
bool
gzip_pieces(const verdict_buffer *head, const verdict_buffer *block, uint64_t count,
			const verdict_buffer *tail, verdict_buffer *first, verdict_buffer *middle,
			verdict_buffer *last)
{
	static const unsigned char gzip_header[10] = {0x1f, 0x8b, Z_DEFLATED, [9] = 3};
	z_stream stream = {0};
	uLong sum;
	uLong block_sum;
	bool done;

	if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, RAW_WINDOW, 8, Z_DEFAULT_STRATEGY) !=
		Z_OK)
		return false;
	verdict_buffer_append(first, gzip_header, sizeof(gzip_header));
	done = deflate_all(&stream, head->bytes, head->size, Z_FULL_FLUSH, first) &&
		   deflate_all(&stream, block->bytes, block->size, Z_FULL_FLUSH, middle) &&
		   deflate_all(&stream, tail->bytes, tail->size, Z_FINISH, last);
	deflateEnd(&stream);

	sum = crc32(crc32(0, NULL, 0), (const Bytef *) head->bytes, (uInt) head->size);
	block_sum = crc32(crc32(0, NULL, 0), (const Bytef *) block->bytes, (uInt) block->size);
	for (uint64_t i = 0; i < count; i++)
		sum = crc32_combine(sum, block_sum, (z_off_t) block->size);
	if (tail->size > 0)
		sum = crc32(sum, (const Bytef *) tail->bytes, (uInt) tail->size);
	append_little_endian(last, (uint32_t) sum);
	append_little_endian(last, (uint32_t) (head->size + count * block->size + tail->size));
	return done && first->state == VERDICT_BUFFER_OK && middle->state == VERDICT_BUFFER_OK &&
		   last->state == VERDICT_BUFFER_OK;
}
