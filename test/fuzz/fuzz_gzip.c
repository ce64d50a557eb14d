/*
 * fuzz_gzip.c
 *		Any bytes as a body that is said to be compressed.
 *
 * The first two bytes of an input say where the body is cut in two, as the
 * network may do.  The rest is taken once for such a body, which must come out
 * the same whole and cut, and once for what an instance compresses.
 */
#include "check.h"
#include "inflate.h"

#include <string.h>
#include <zlib.h>

#define ROOM 20000

extern int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static verdict_host host;
static verdict_inflate *inflater; /* one for body after body, as the transport has it */

static verdict_inflate_result
read_body(const uint8_t *bytes, size_t size, size_t cut, verdict_buffer *out)
{
	verdict_inflate_result result;

	verdict_buffer_reset(out);
	verdict_inflate_begin(inflater);
	result = verdict_inflate_add(inflater, bytes, cut, out);
	if (result == VERDICT_INFLATE_OK)
		result = verdict_inflate_add(inflater, bytes + cut, size - cut, out);
	check(out->size <= ROOM && result != VERDICT_INFLATE_NO_MEMORY);
	return result;
}

static void
check_hostile(const uint8_t *body, size_t size, size_t cut, verdict_buffer *whole,
			  verdict_buffer *parts)
{
	verdict_inflate_result result = read_body(body, size, size, whole);
	bool ended = verdict_inflate_ended(inflater);

	/* Which of two faults is met first may depend on the cut. */
	check((read_body(body, size, cut, parts) == VERDICT_INFLATE_OK) ==
		  (result == VERDICT_INFLATE_OK));
	if (result != VERDICT_INFLATE_OK)
		return;
	/* of what zlib reads only gzip was asked for */
	check(size < 2 || (body[0] == 0x1F && body[1] == 0x8B));
	check(verdict_inflate_ended(inflater) == ended);
	check(whole->size == parts->size &&
		  (whole->size == 0 || memcmp(whole->bytes, parts->bytes, whole->size) == 0));
}

static void
check_honest(const uint8_t *text, size_t size, size_t cut, verdict_buffer *out)
{
	static z_stream stream;
	static bool ready = false;
	uint8_t packed[2 * ROOM];
	size_t packed_size;

	if (!ready)
		check(deflateInit2(&stream, 1, Z_DEFLATED, 16 + 9, 1, Z_DEFAULT_STRATEGY) == Z_OK);
	ready = true;
	deflateReset(&stream);
	stream.next_in = (Bytef *) text;
	stream.avail_in = (uInt) size;
	stream.next_out = packed;
	stream.avail_out = sizeof(packed) - 1;
	check(deflate(&stream, Z_FINISH) == Z_STREAM_END);
	packed_size = sizeof(packed) - 1 - stream.avail_out;
	cut %= packed_size + 1;

	check(read_body(packed, packed_size, cut, out) == VERDICT_INFLATE_OK);
	check(verdict_inflate_ended(inflater));
	check(out->size == size && (size == 0 || memcmp(out->bytes, text, size) == 0));
	if (cut < packed_size)
	{
		/* what was cut off is missed */
		check(read_body(packed, cut, cut / 2, out) == VERDICT_INFLATE_OK);
		check(!verdict_inflate_ended(inflater));
		/* the check sum is looked at */
		packed[packed_size - 8] ^= 1;
		check(read_body(packed, packed_size, cut, out) == VERDICT_INFLATE_MALFORMED);
		packed[packed_size - 8] ^= 1;
	}
	packed[packed_size] = 0;
	check(read_body(packed, packed_size + 1, cut, out) == VERDICT_INFLATE_MALFORMED);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static verdict_buffer whole;
	static verdict_buffer parts;
	size_t cut;

	if (inflater == NULL)
	{
		verdict_host_init_posix(&host);
		inflater = verdict_inflate_create(&host);
		check(inflater != NULL);
		verdict_buffer_init(&whole, &host, ROOM);
		verdict_buffer_init(&parts, &host, ROOM);
	}
	if (size < 2 || size - 2 > ROOM)
		return 0;
	cut = (size_t) data[0] * 256 + data[1];
	data += 2;
	size -= 2;
	check_hostile(data, size, cut % (size + 1), &whole, &parts);
	check_honest(data, size, cut, &whole);
	return 0;
}
