/*
 * test_transport.c
 *		What the transport makes of every kind of answer: whole, cut, malformed,
 *		too large.  The one thing that must never come of any of them is a yes
 *		that was not said.
 */
#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

static rig r;

static int
begin(void **state)
{
	(void) state;
	rig_begin(&r);
	rig_client(&r);
	return 0;
}

static int
end(void **state)
{
	(void) state;
	rig_end(&r);
	return 0;
}

#define OK_LINE "HTTP/1.1 200 OK\r\n"
#define PROTO "Content-Type: application/proto\r\n"

/* gzip of "bytes", in memory that the peer keeps. */
static unsigned char *
gzip(const void *bytes, size_t size, size_t *compressed)
{
	z_stream stream;
	size_t room = size + 1024;
	unsigned char *out = peer_keep(r.peer, malloc(room));

	memset(&stream, 0, sizeof(stream));
	assert_int_equal(deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 9, Z_DEFAULT_STRATEGY),
					 Z_OK);
	stream.next_in = (Bytef *) bytes;
	stream.avail_in = (uInt) size;
	stream.next_out = out;
	stream.avail_out = (uInt) room;
	assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
	*compressed = stream.total_out;
	deflateEnd(&stream);
	return out;
}

/* ---- whole ---- */

static void
takes_whole_answers(void **state)
{
	static const char *const answers[] = {
		OK_LINE PROTO "Content-Length: 2\r\n\r\n\x08\x01",
		OK_LINE PROTO "content-length:2\r\n\r\n\x08\x01",
		OK_LINE PROTO "Transfer-Encoding: chunked\r\n\r\n2\r\n\x08\x01\r\n0\r\n\r\n",
		OK_LINE PROTO "Transfer-Encoding: chunked\r\n\r\n1;x=y\r\n\x08\r\n1\r\n\x01\r\n0\r\n"
					  "Verdict-Revision: v1.a.1.9\r\n\r\n",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" OK_LINE PROTO
		"Content-Length: 2\r\n\r\n\x08\x01",
		"HTTP/1.0 200 OK\r\n" PROTO "Content-Length: 2\r\n\r\n\x08\x01",
		"HTTP/1.1 200\r\n" PROTO "Content-Length: 2\r\n\r\n\x08\x01",
		OK_LINE PROTO "Content-Encoding: identity\r\nContent-Length: 2\r\n\r\n\x08\x01",
	};
	size_t i;

	(void) state;
	for (i = 0; i < RIG_LENGTH(answers); i++)
	{
		rig_queue(&r, peer_text(answers[i]));
		if (!rig_authorize(&r))
			fail_msg("answer %zu: %s", i, r.status.message);
		assert_true(r.allowed);
		assert_int_equal(r.status.http_status, 200);
		assert_int_equal(r.status.outcome, VERDICT_OUTCOME_APPLIED);
	}
	/* No HTTP trailers are used: the revision in one was not taken in. */
	assert_int_equal(r.session.observed.shards, 0);
	/* The answer of HTTP/1.0 ends its connection, the others keep theirs. */
	assert_int_equal(peer_connection_count(r.peer), 2);
}

static void
takes_an_empty_answer_as_the_empty_message(void **state)
{
	(void) state;
	rig_queue(&r, peer_text(OK_LINE PROTO "Content-Length: 0\r\n\r\n"));
	assert_true(rig_authorize(&r));
	assert_false(r.allowed);
	/* Nothing is never decompressed. */
	rig_queue(&r, peer_text(OK_LINE PROTO "Content-Encoding: gzip\r\nContent-Length: 0\r\n\r\n"));
	assert_true(rig_authorize(&r));
	assert_false(r.allowed);
}

static void
takes_compressed_answers(void **state)
{
	size_t size;
	unsigned char *body = gzip("\x08\x01", 2, &size);
	char chunks[256];
	int length;
	size_t i;

	(void) state;
	rig_queue(&r, peer_answer(r.peer, 200, PROTO "Content-Encoding: gzip\r\n", body, size));
	assert_true(rig_authorize(&r));
	assert_true(r.allowed);

	/* One byte a chunk. */
	length = snprintf(chunks, sizeof(chunks),
					  OK_LINE PROTO "Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n");
	for (i = 0; i < size; i++)
	{
		memcpy(chunks + length, "1\r\n", 3);
		chunks[length + 3] = (char) body[i];
		memcpy(chunks + length + 4, "\r\n", 2);
		length += 6;
	}
	memcpy(chunks + length, "0\r\n\r\n", 5);
	rig_queue(&r, (peer_step){PEER_DRIP, chunks, (size_t) length + 5, 0});
	assert_true(rig_authorize(&r));
	assert_true(r.allowed);
	assert_int_equal(peer_connection_count(r.peer), 1);
}

/* ---- not whole ---- */

typedef struct bad_answer
{
	const char *bytes;
	peer_action then;
	verdict_code code;
	verdict_cause cause;
} bad_answer;

/* Sends each answer on a fresh connection and checks what became of it. */
static void
expect_failures(const bad_answer *answers, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
	{
		int sent = peer_request_count(r.peer);

		rig_client(&r);
		rig_queue_two(&r, peer_text(answers[i].bytes), rig_act(answers[i].then, 0));
		assert_false(rig_authorize(&r));
		if (r.status.code != answers[i].code || r.status.cause != answers[i].cause)
			fail_msg("answer %zu: code %d cause %d (%s) instead of %d %d", i, r.status.code,
					 r.status.cause, r.status.message, answers[i].code, answers[i].cause);
		assert_int_equal(r.status.outcome, VERDICT_OUTCOME_MAYBE_APPLIED);
		assert_int_equal(r.status.sends, 1);
		assert_int_equal(peer_request_count(r.peer), sent + 1);
		assert_true(peer_wait_open_connections(r.peer, 0));
		/* The next call works. */
		rig_queue(&r, rig_yes(&r, ""));
		assert_true(rig_authorize(&r));
	}
}

static void
refuses_cut_answers(void **state)
{
	static const bad_answer answers[] = {
		/* without a byte, on a fresh connection */
		{"", PEER_CLOSE, VERDICT_UNAVAILABLE, VERDICT_CAUSE_LOST},
		{"", PEER_RESET, VERDICT_UNAVAILABLE, VERDICT_CAUSE_LOST},
		/* in the headers */
		{"HTTP/1.1 2", PEER_CLOSE, VERDICT_UNAVAILABLE, VERDICT_CAUSE_LOST},
		{OK_LINE PROTO, PEER_CLOSE, VERDICT_UNAVAILABLE, VERDICT_CAUSE_LOST},
		{OK_LINE PROTO "Content-Length: 2\r\n", PEER_CLOSE, VERDICT_UNAVAILABLE,
		 VERDICT_CAUSE_LOST},
		{OK_LINE PROTO "Content-Le", PEER_RESET, VERDICT_UNAVAILABLE, VERDICT_CAUSE_LOST},
		{"HTTP/1.1 100 Continue\r\n\r\n", PEER_CLOSE, VERDICT_UNAVAILABLE, VERDICT_CAUSE_LOST},
		/* in a body whose length is known; {allowed: true} is already there */
		{OK_LINE PROTO "Content-Length: 4\r\n\r\n\x08\x01", PEER_CLOSE, VERDICT_UNAVAILABLE,
		 VERDICT_CAUSE_LOST},
		{OK_LINE PROTO "Content-Length: 4\r\n\r\n\x08\x01", PEER_RESET, VERDICT_UNAVAILABLE,
		 VERDICT_CAUSE_LOST},
		/* in a chunk, between chunks, before the last chunk */
		{OK_LINE PROTO "Transfer-Encoding: chunked\r\n\r\n4\r\n\x08\x01", PEER_CLOSE,
		 VERDICT_UNAVAILABLE, VERDICT_CAUSE_LOST},
		{OK_LINE PROTO "Transfer-Encoding: chunked\r\n\r\n2\r\n\x08\x01\r\n", PEER_CLOSE,
		 VERDICT_UNAVAILABLE, VERDICT_CAUSE_LOST},
		{OK_LINE PROTO "Transfer-Encoding: chunked\r\n\r\n2\r\n\x08\x01\r\n0\r\n", PEER_CLOSE,
		 VERDICT_UNAVAILABLE, VERDICT_CAUSE_LOST},
		/* in a body that only the end of the connection ends */
		{OK_LINE PROTO "\r\n\x08\x01", PEER_CLOSE, VERDICT_INTERNAL, VERDICT_CAUSE_ANSWER},
		{OK_LINE PROTO "Connection: close\r\n\r\n\x08\x01", PEER_CLOSE, VERDICT_INTERNAL,
		 VERDICT_CAUSE_ANSWER},
		{"HTTP/1.0 200 OK\r\n" PROTO "\r\n\x08\x01", PEER_CLOSE, VERDICT_INTERNAL,
		 VERDICT_CAUSE_ANSWER},
		/* in the body of an error */
		{"HTTP/1.1 403 X\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{\"code\":",
		 PEER_CLOSE, VERDICT_UNAVAILABLE, VERDICT_CAUSE_LOST},
	};

	(void) state;
	expect_failures(answers, RIG_LENGTH(answers));
}

/* At every byte: what is there by then may look like a whole answer. */
static void
refuses_every_cut(void **state)
{
	size_t size;
	unsigned char *body = gzip("\x08\x01", 2, &size);
	const char *const plain[] = {
		OK_LINE PROTO "Content-Length: 2\r\n\r\n\x08\x01",
		OK_LINE PROTO "Transfer-Encoding: chunked\r\n\r\n2\r\n\x08\x01\r\n0\r\n\r\n",
		"HTTP/1.1 100 Continue\r\n\r\n" OK_LINE PROTO "Content-Length: 2\r\n\r\n\x08\x01",
	};
	peer_step whole[4];
	size_t i;
	size_t n;
	int how;

	(void) state;
	for (i = 0; i < 3; i++)
		whole[i] = peer_text(plain[i]);
	whole[3] = peer_answer(r.peer, 200, PROTO "Content-Encoding: gzip\r\n", body, size);
	for (i = 0; i < 4; i++)
		for (n = 0; n < whole[i].size; n++)
			for (how = 0; how < 2; how++)
			{
				peer_step cut = whole[i];

				cut.size = n;
				/* After the last chunk's empty line but for its line feed nothing is missing. */
				if (i == 1 && n == whole[i].size - 1)
					continue;
				rig_queue_two(&r, cut, rig_act(how == 0 ? PEER_CLOSE : PEER_RESET, 0));
				if (rig_authorize(&r))
					fail_msg("answer %zu was taken after %zu bytes", i, n);
				assert_int_equal(r.status.outcome, VERDICT_OUTCOME_MAYBE_APPLIED);
			}
	for (i = 0; i < 4; i++)
	{
		rig_queue(&r, whole[i]);
		assert_true(rig_authorize(&r));
		assert_true(r.allowed);
	}
}

static void
refuses_malformed_answers(void **state)
{
	static const bad_answer answers[] = {
		/* no HTTP/1 */
		{"\x08\x01", PEER_CLOSE, VERDICT_INTERNAL, VERDICT_CAUSE_ANSWER},
		{"hello\r\n\r\n", PEER_CLOSE, VERDICT_INTERNAL, VERDICT_CAUSE_ANSWER},
		{"SSH-2.0-OpenSSH_9.2\r\n", PEER_STALL, VERDICT_INTERNAL, VERDICT_CAUSE_ANSWER},
		{"HTTP/1.1 2000 OK\r\n" PROTO "Content-Length: 2\r\n\r\n\x08\x01", PEER_STALL,
		 VERDICT_INTERNAL, VERDICT_CAUSE_ANSWER},
		/* headers */
		{OK_LINE PROTO "Content-Length: 2\r\n folded\r\n\r\n\x08\x01", PEER_STALL, VERDICT_INTERNAL,
		 VERDICT_CAUSE_ANSWER},
		{OK_LINE PROTO "a b: c\r\nContent-Length: 2\r\n\r\n\x08\x01", PEER_STALL, VERDICT_INTERNAL,
		 VERDICT_CAUSE_ANSWER},
		/* an end that two readers could see at two places */
		{OK_LINE PROTO "Content-Length: 2\r\nContent-Length: 4\r\n\r\n\x08\x01", PEER_STALL,
		 VERDICT_INTERNAL, VERDICT_CAUSE_ANSWER},
		{OK_LINE PROTO "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n\x08\x01\r\n"
					   "0\r\n\r\n",
		 PEER_STALL, VERDICT_INTERNAL, VERDICT_CAUSE_ANSWER},
		{OK_LINE PROTO "Transfer-Encoding: identity\r\n\r\n\x08\x01", PEER_CLOSE, VERDICT_INTERNAL,
		 VERDICT_CAUSE_ANSWER},
		{OK_LINE PROTO "Content-Length: -2\r\n\r\n\x08\x01", PEER_CLOSE, VERDICT_INTERNAL,
		 VERDICT_CAUSE_ANSWER},
		{OK_LINE PROTO "Content-Length: 2x\r\n\r\n\x08\x01", PEER_CLOSE, VERDICT_INTERNAL,
		 VERDICT_CAUSE_ANSWER},
		/* chunks */
		{OK_LINE PROTO "Transfer-Encoding: chunked\r\n\r\nzz\r\n\x08\x01\r\n0\r\n\r\n", PEER_STALL,
		 VERDICT_UNAVAILABLE, VERDICT_CAUSE_LOST},
		/* encodings that were not asked for, and gzip that is none */
		{OK_LINE PROTO "Content-Encoding: br\r\nContent-Length: 2\r\n\r\n\x08\x01", PEER_STALL,
		 VERDICT_INTERNAL, VERDICT_CAUSE_ANSWER},
		{OK_LINE PROTO "Content-Encoding: foo\r\nContent-Length: 2\r\n\r\n\x08\x01", PEER_STALL,
		 VERDICT_INTERNAL, VERDICT_CAUSE_ANSWER},
		{OK_LINE PROTO "Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n\x08\x01", PEER_STALL,
		 VERDICT_INTERNAL, VERDICT_CAUSE_ANSWER},
		/* 200 with the wrong content */
		{OK_LINE "Content-Type: text/html\r\nContent-Length: 2\r\n\r\n\x08\x01", PEER_CLOSE,
		 VERDICT_UNKNOWN, VERDICT_CAUSE_ANSWER},
		{OK_LINE "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n\x08\x01", PEER_CLOSE,
		 VERDICT_INTERNAL, VERDICT_CAUSE_ANSWER},
		{OK_LINE PROTO "Content-Length: 2\r\n\r\n\x0a\x05", PEER_CLOSE, VERDICT_INTERNAL,
		 VERDICT_CAUSE_ANSWER},
		/* a change of protocol that was not asked for */
		{"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
		 PEER_STALL, VERDICT_INTERNAL, VERDICT_CAUSE_ANSWER},
	};

	(void) state;
	expect_failures(answers, RIG_LENGTH(answers));
}

/* What follows an answer unasked must not answer the next request. */
static void
takes_no_answer_that_was_not_asked_for(void **state)
{
#define SMUGGLED OK_LINE PROTO "Content-Length: 2\r\n\r\n\x08\x01"
	static const char *const answers[] = {
		OK_LINE PROTO "Content-Length: 0\r\n\r\n" SMUGGLED,
		OK_LINE PROTO "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" SMUGGLED,
		"HTTP/1.1 403 X\r\nContent-Length: 0\r\n\r\n" SMUGGLED,
	};
	size_t i;
	int pause;

	(void) state;
	for (i = 0; i < RIG_LENGTH(answers); i++)
		for (pause = 0; pause <= 20; pause += 20)
		{
			/* together with the answer, or a little later */
			char *whole = peer_keep(r.peer, strdup(answers[i]));
			size_t size = strlen(whole) - strlen(SMUGGLED);
			peer_step steps[] = {{PEER_SEND, whole, pause == 0 ? strlen(whole) : size, 0},
								 rig_act(PEER_PAUSE, pause),
								 {PEER_SEND, whole + size, pause == 0 ? 0 : strlen(SMUGGLED), 0},
								 rig_act(PEER_END, 0)};

			peer_queue(r.peer, steps);
			rig_queue(&r, peer_text(OK_LINE PROTO "Content-Length: 0\r\n\r\n"));
			rig_authorize(&r);
			assert_false(r.allowed);
			usleep(30000);
			assert_true(rig_authorize(&r));
			if (r.allowed)
				fail_msg("answer %zu, pause %d", i, pause);
		}
}

static void
refuses_damaged_gzip(void **state)
{
	size_t size;
	unsigned char *body = gzip("\x08\x01", 2, &size);
	size_t i;

	(void) state;
	/* Cut anywhere, although HTTP says it is whole. */
	for (i = 1; i < size; i++)
	{
		rig_queue(&r, peer_answer(r.peer, 200, PROTO "Content-Encoding: gzip\r\n", body, i));
		assert_false(rig_authorize(&r));
		assert_int_equal(r.status.code, VERDICT_INTERNAL);
		assert_int_equal(r.status.cause, VERDICT_CAUSE_ANSWER);
	}
	/* A wrong check sum, and bytes after the end. */
	body[size - 8] ^= 1;
	rig_queue(&r, peer_answer(r.peer, 200, PROTO "Content-Encoding: gzip\r\n", body, size));
	assert_false(rig_authorize(&r));
	assert_int_equal(r.status.cause, VERDICT_CAUSE_ANSWER);
	body[size - 8] ^= 1;
	body[size] = 'x';
	rig_queue(&r, peer_answer(r.peer, 200, PROTO "Content-Encoding: gzip\r\n", body, size + 1));
	assert_false(rig_authorize(&r));
	assert_int_equal(r.status.cause, VERDICT_CAUSE_ANSWER);
	/* It was the damage: */
	rig_queue(&r, peer_answer(r.peer, 200, PROTO "Content-Encoding: gzip\r\n", body, size));
	assert_true(rig_authorize(&r));
}

/* ---- too large ---- */

static void
refuses_header_floods(void **state)
{
	static char long_line[120 * 1024];
	static const char more_headers[] = "X-Flood: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n";
	static const char more_interim[] = "HTTP/1.1 100 Continue\r\n\r\n";
	peer_step endless = {PEER_REPEAT, more_headers, sizeof(more_headers) - 1, 0};

	(void) state;
	rig_queue_two(&r, peer_text(OK_LINE), endless);
	assert_false(rig_authorize(&r));
	assert_int_equal(r.status.code, VERDICT_INTERNAL);
	assert_int_equal(r.status.cause, VERDICT_CAUSE_ANSWER);
	assert_non_null(strstr(r.status.message, "headers are too large"));

	endless.bytes = more_interim;
	endless.size = sizeof(more_interim) - 1;
	rig_queue(&r, endless);
	assert_false(rig_authorize(&r));
	assert_int_equal(r.status.cause, VERDICT_CAUSE_ANSWER);

	/* Trailers. */
	endless.bytes = more_headers;
	endless.size = sizeof(more_headers) - 1;
	rig_queue_two(
		&r, peer_text(OK_LINE PROTO "Transfer-Encoding: chunked\r\n\r\n2\r\n\x08\x01\r\n0\r\n"),
		endless);
	assert_false(rig_authorize(&r));
	assert_int_equal(r.status.code, VERDICT_INTERNAL);

	/* One line that never ends. */
	memset(long_line, 'x', sizeof(long_line));
	endless.bytes = long_line;
	endless.size = sizeof(long_line);
	rig_queue_two(&r, peer_text(OK_LINE "X-Long: "), endless);
	assert_false(rig_authorize(&r));
	assert_int_equal(r.status.code, VERDICT_INTERNAL);
	assert_int_equal(r.status.cause, VERDICT_CAUSE_ANSWER);

	assert_true(r.support.peak_bytes < 512 * 1024);
}

static void
expect_too_large(void)
{
	assert_false(rig_authorize(&r));
	if (r.status.cause != VERDICT_CAUSE_TOO_LARGE)
		fail_msg("%s", r.status.message);
	assert_int_equal(r.status.code, VERDICT_RESOURCE_EXHAUSTED);
	assert_int_equal(r.status.outcome, VERDICT_OUTCOME_MAYBE_APPLIED);
	assert_true(r.support.peak_bytes < 512 * 1024);
	assert_true(peer_wait_open_connections(r.peer, 0));
}

static void
refuses_large_answers(void **state)
{
	static char chunk[6 + 4096 + 2];
	peer_step endless = {PEER_REPEAT, chunk, sizeof(chunk), 0};
	char *zeros = calloc(1, 8 * 1024 * 1024);
	unsigned char *bomb;
	size_t size;

	(void) state;
	r.options.max_response_bytes = 100 * 1000;
	rig_client(&r);

	/* Declared: refused before a byte of it is taken. */
	rig_queue_two(&r, peer_text(OK_LINE PROTO "Content-Length: 2147483648\r\n\r\n"),
				  rig_act(PEER_STALL, 0));
	expect_too_large();
	rig_queue_two(&r, peer_text(OK_LINE PROTO "Content-Length: 100001\r\n\r\n"),
				  rig_act(PEER_STALL, 0));
	expect_too_large();

	/* Not declared. */
	memcpy(chunk, "1000\r\n", 6);
	memcpy(chunk + 6 + 4096, "\r\n", 2);
	rig_queue_two(&r, peer_text(OK_LINE PROTO "Transfer-Encoding: chunked\r\n\r\n"), endless);
	expect_too_large();

	/* Small before, large after decompression. */
	bomb = gzip(zeros, 8 * 1024 * 1024, &size);
	assert_true(size < 100 * 1000);
	rig_queue(&r, peer_answer(r.peer, 200, PROTO "Content-Encoding: gzip\r\n", bomb, size));
	expect_too_large();
	free(zeros);
}

static void
takes_answers_up_to_the_cap(void **state)
{
	/* {allowed: true} and an unknown field that fills up the rest. */
	char *body = peer_keep(r.peer, calloc(1, 100001));
	size_t size = 100000;

	(void) state;
	r.options.max_response_bytes = size;
	rig_client(&r);
	memcpy(body, "\x08\x01\x7a\x9a\x8d\x06", 6);
	rig_queue(&r, peer_answer(r.peer, 200, PROTO, body, size));
	if (!rig_authorize(&r))
		fail_msg("%s", r.status.message);
	assert_true(r.allowed);
	rig_queue(&r, peer_answer(r.peer, 200, PROTO, body, size + 1));
	expect_too_large();
}

static void
cuts_short_what_is_an_error_anyway(void **state)
{
	static const char page[] = "<p>All our instances are busy.</p>";
	peer_step endless = {PEER_REPEAT, page, sizeof(page) - 1, 0};
	size_t size;
	unsigned char *body;

	(void) state;
	r.options.retry_http_503 = false;
	rig_client(&r);
	/* A page without an end. */
	rig_queue_two(&r, peer_text("HTTP/1.1 503 X\r\nRetry-After: 7\r\n\r\n"), endless);
	assert_false(rig_authorize(&r));
	assert_int_equal(r.status.code, VERDICT_UNAVAILABLE);
	assert_int_equal(r.status.cause, VERDICT_CAUSE_HTTP);
	assert_int_equal(r.status.http_status, 503);
	assert_int_equal(r.status.retry_after_ms, 7000);
	assert_true(r.support.peak_bytes < 512 * 1024);

	/* A page that is large, in an encoding that nobody asked for. */
	rig_queue(&r,
			  peer_text("HTTP/1.1 403 X\r\nContent-Encoding: br\r\nContent-Length: 3\r\n\r\nabc"));
	assert_false(rig_authorize(&r));
	assert_int_equal(r.status.code, VERDICT_PERMISSION_DENIED);
	assert_int_equal(r.status.cause, VERDICT_CAUSE_HTTP);

	/* Compressed error bodies are read ... */
	body = gzip("{\"code\":\"out_of_range\",\"message\":\"m\"}", 37, &size);
	rig_queue(&r, peer_answer(r.peer, 422,
							  "Content-Type: application/json\r\nContent-Encoding: gzip\r\n", body,
							  size));
	assert_false(rig_authorize(&r));
	assert_int_equal(r.status.code, VERDICT_OUT_OF_RANGE);
	assert_int_equal(r.status.cause, VERDICT_CAUSE_REMOTE);
	/* ... and damaged ones leave the HTTP status to speak. */
	body[size / 2] ^= 0x55;
	rig_queue(&r, peer_answer(r.peer, 401,
							  "Content-Type: application/json\r\nContent-Encoding: gzip\r\n", body,
							  size));
	assert_false(rig_authorize(&r));
	assert_int_equal(r.status.code, VERDICT_UNAUTHENTICATED);
	assert_int_equal(r.status.cause, VERDICT_CAUSE_HTTP);
	/* Closed by the end of the connection: an error needs no length. */
	rig_queue_two(&r,
				  peer_text("HTTP/1.1 400 X\r\nContent-Type: application/json\r\n\r\n"
							"{\"code\":\"invalid_argument\",\"message\":\"line 3 column 7\"}"),
				  rig_act(PEER_CLOSE, 0));
	assert_false(rig_authorize(&r));
	assert_int_equal(r.status.code, VERDICT_INVALID_ARGUMENT);
	assert_string_equal(r.status.message, "line 3 column 7");
}

static void
follows_no_redirect(void **state)
{
	static const int statuses[] = {301, 302, 303, 307, 308};
	char headers[256];
	size_t i;

	(void) state;
	snprintf(headers, sizeof(headers), "Location: %s/elsewhere\r\n", peer_url(r.peer));
	for (i = 0; i < RIG_LENGTH(statuses); i++)
	{
		rig_queue(&r, peer_answer(r.peer, statuses[i], headers, "", 0));
		assert_false(rig_authorize(&r));
		assert_int_equal(r.status.code, VERDICT_UNKNOWN);
		assert_true(r.status.inferred);
		assert_int_equal(r.status.http_status, statuses[i]);
	}
	assert_int_equal(peer_request_count(r.peer), RIG_LENGTH(statuses));
}

static void
answers_no_challenge_and_keeps_no_cookie(void **state)
{
	(void) state;
	rig_queue(&r,
			  peer_answer(r.peer, 401,
						  "WWW-Authenticate: Basic realm=\"x\"\r\nWWW-Authenticate: Negotiate\r\n"
						  "Set-Cookie: a=b\r\n",
						  "", 0));
	assert_false(rig_authorize(&r));
	assert_int_equal(r.status.code, VERDICT_UNAUTHENTICATED);
	rig_queue(&r, rig_yes(&r, "Set-Cookie: c=d\r\nAlt-Svc: h2=\":1\"\r\n"));
	assert_true(rig_authorize(&r));
	rig_queue(&r, rig_yes(&r, ""));
	assert_true(rig_authorize(&r));
	assert_int_equal(peer_request_count(r.peer), 3);
	assert_null(peer_request_header(r.peer, peer_request_at(r.peer, 2), "Cookie"));
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(takes_whole_answers),
		TEST(takes_an_empty_answer_as_the_empty_message),
		TEST(takes_compressed_answers),
		TEST(refuses_cut_answers),
		TEST(refuses_every_cut),
		TEST(refuses_malformed_answers),
		TEST(takes_no_answer_that_was_not_asked_for),
		TEST(refuses_damaged_gzip),
		TEST(refuses_header_floods),
		TEST(refuses_large_answers),
		TEST(takes_answers_up_to_the_cap),
		TEST(cuts_short_what_is_an_error_anyway),
		TEST(follows_no_redirect),
		TEST(answers_no_challenge_and_keeps_no_cookie),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
