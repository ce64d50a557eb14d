/*
 * misbehave.c
 *		Bodies made piece by piece.
 *
 * A body is three pieces, the middle one repeated, so that a huge one needs no
 * memory.  It belongs to its response, which frees it.  A slow body suspends the
 * connection between two bytes; the timer resumes it.
 */
#include "misbehave.h"

#include "gzip.h"
#include "service.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define BLOCK_SIZE (64 * 1024)
#define GZIP_BLOCK_SIZE (1024 * 1024)
#define PIECES 3

typedef struct body
{
	verdict_buffer pieces[PIECES];
	uint64_t repeat[PIECES];
	/* Where the reader stands. */
	int piece;
	uint64_t round;
	size_t offset;
	/* How it ends. */
	uint64_t left; /* bytes to give out */
	bool breaks;   /* then the connection breaks; else it ends */
	/* A slow one. */
	int64_t interval_ms; /* 0 = at once */
	size_t step;		 /* bytes after each interval */
	bool rested;
	struct MHD_Connection *connection;
	timers *timers;
	const bool *stopping;
} body;

static void
body_free(void *argument)
{
	body *body = argument;

	for (int i = 0; i < PIECES; i++)
		verdict_buffer_free(&body->pieces[i]);
	free(body);
}

static body *
body_create(void)
{
	body *body = calloc(1, sizeof(*body));

	if (body == NULL)
		return NULL;
	for (int i = 0; i < PIECES; i++)
	{
		verdict_buffer_init(&body->pieces[i], service_host(), 8 * GZIP_BLOCK_SIZE);
		body->repeat[i] = 1;
	}
	return body;
}

static uint64_t
body_size(const body *body)
{
	uint64_t size = 0;

	for (int i = 0; i < PIECES; i++)
		size += body->repeat[i] * body->pieces[i].size;
	return size;
}

/* Copies the next bytes, at most "room". */
static size_t
body_take(body *body, char *target, size_t room)
{
	size_t taken = 0;

	while (taken < room && body->piece < PIECES)
	{
		const verdict_buffer *piece = &body->pieces[body->piece];
		size_t size = piece->size - body->offset;

		if (size == 0 || body->round == body->repeat[body->piece])
		{
			body->offset = 0;
			if (piece->size == 0 || ++body->round >= body->repeat[body->piece])
			{
				body->piece++;
				body->round = 0;
			}
			continue;
		}
		if (size > room - taken)
			size = room - taken;
		memcpy(target + taken, piece->bytes + body->offset, size);
		body->offset += size;
		taken += size;
	}
	return taken;
}

static void
resume(void *argument)
{
	MHD_resume_connection(argument);
}

static ssize_t
body_read(void *argument, uint64_t position, char *target, size_t room)
{
	body *body = argument;

	(void) position;
	if (body->left == 0)
		return body->breaks ? MHD_CONTENT_READER_END_WITH_ERROR : MHD_CONTENT_READER_END_OF_STREAM;
	if (body->interval_ms > 0)
	{
		if (__atomic_load_n(body->stopping, __ATOMIC_RELAXED))
			return MHD_CONTENT_READER_END_WITH_ERROR;
		if (!body->rested)
		{
			body->rested = true;
			MHD_suspend_connection(body->connection);
			if (!timers_add(body->timers, body->interval_ms, resume, body->connection))
				MHD_resume_connection(body->connection);
			return 0;
		}
		body->rested = false;
		if (room > body->step)
			room = body->step;
	}
	if (room > body->left)
		room = (size_t) body->left;
	room = body_take(body, target, room);
	body->left -= room;
	return room > 0 ? (ssize_t) room : MHD_CONTENT_READER_END_WITH_ERROR;
}

/*
 * A field that the schema does not have, with its bytes: "size" bytes in all, at
 * least 16.  A decoder passes it over.
 */
static void
append_unknown_field(verdict_buffer *out, size_t size)
{
	/* field 2047, length-delimited; then the length in 4 bytes */
	unsigned char head[6] = {0xfa, 0x7f};
	size_t length = size - sizeof(head);
	static const char nothing[1024];

	for (int i = 0; i < 4; i++)
		head[2 + i] = (unsigned char) (((length >> (7 * i)) & 0x7f) | (i < 3 ? 0x80 : 0));
	verdict_buffer_append(out, head, sizeof(head));
	while (length > 0)
	{
		size_t step = length < sizeof(nothing) ? length : sizeof(nothing);

		verdict_buffer_append(out, nothing, step);
		length -= step;
	}
}

/* An empty message of at least "bytes" bytes, in blocks. */
static void
fill_huge(body *body, wire_format format, int64_t bytes, size_t block_size)
{
	if (format == WIRE_JSON)
	{
		verdict_buffer_append(&body->pieces[0], "{", 1);
		for (size_t i = 0; i < block_size; i++)
			verdict_buffer_append(&body->pieces[1], " ", 1);
		verdict_buffer_append(&body->pieces[2], "}", 1);
	}
	else
	{
		append_unknown_field(&body->pieces[0], 16);
		append_unknown_field(&body->pieces[1], block_size);
		append_unknown_field(&body->pieces[2], 16);
	}
	body->repeat[1] = ((uint64_t) bytes + block_size - 1) / block_size;
}

static bool
compress_body(body *body)
{
	verdict_buffer plain[PIECES];
	bool done;

	memcpy(plain, body->pieces, sizeof(plain));
	for (int i = 0; i < PIECES; i++)
		verdict_buffer_init(&body->pieces[i], service_host(), 8 * GZIP_BLOCK_SIZE);
	done = gzip_pieces(&plain[0], &plain[1], body->repeat[1], &plain[2], &body->pieces[0],
					   &body->pieces[1], &body->pieces[2]);
	for (int i = 0; i < PIECES; i++)
		verdict_buffer_free(&plain[i]);
	return done;
}

struct MHD_Response *
misbehave_response(const fault *fault, wire_format format, const void *honest, size_t honest_size,
				   struct MHD_Connection *connection, timers *timers, const bool *stopping)
{
	struct MHD_Response *response;
	body *body = body_create();
	uint64_t declared;
	bool good = true;

	if (body == NULL)
		return NULL;
	body->connection = connection;
	body->timers = timers;
	body->stopping = stopping;
	if (fault->kind == FAULT_OVERSIZE)
		fill_huge(body, format, fault->bytes, BLOCK_SIZE);
	else if (fault->kind == FAULT_GZIP_BOMB)
	{
		fill_huge(body, format, fault->bytes, GZIP_BLOCK_SIZE);
		good = compress_body(body);
	}
	else
	{
		body->pieces[0].maximum = honest_size;
		good = verdict_buffer_append(&body->pieces[0], honest, honest_size);
	}
	for (int i = 0; i < PIECES; i++)
		good = good && body->pieces[i].state == VERDICT_BUFFER_OK;

	declared = body->left = body_size(body);
	switch (fault->kind)
	{
		case FAULT_CUT:
		case FAULT_CUT_CHUNKED:
		case FAULT_CUT_UNDELIMITED:
			if (fault->bytes < 0)
				body->left /= 2;
			else if ((uint64_t) fault->bytes < body->left)
				body->left = (uint64_t) fault->bytes;
			body->breaks = fault->kind != FAULT_CUT_UNDELIMITED;
			if (fault->kind != FAULT_CUT)
				declared = MHD_SIZE_UNKNOWN;
			else if (declared == body->left)
				declared += 16; /* all of it, and more is promised */
			break;
		case FAULT_DRIP:
			body->interval_ms = fault->bytes_per_second < 1000 ? 1000 / fault->bytes_per_second : 1;
			body->step = (size_t) ((fault->bytes_per_second * body->interval_ms + 999) / 1000);
			break;
		default:
			break;
	}
	response =
		good ? MHD_create_response_from_callback(declared, BLOCK_SIZE, body_read, body, body_free)
			 : NULL;
	if (response == NULL)
	{
		body_free(body);
		return NULL;
	}
	if (fault->kind == FAULT_CUT_UNDELIMITED)
		MHD_set_response_options(response, MHD_RF_HTTP_1_0_COMPATIBLE_STRICT, MHD_RO_END);
	if (fault->kind == FAULT_GZIP_BOMB)
		MHD_add_response_header(response, "Content-Encoding", "gzip");
	return response;
}

/* What a flood keeps between two looks at its socket. */
typedef struct flood
{
	struct MHD_Connection *connection;
	int fd;
	verdict_buffer head;
	verdict_buffer line; /* one header of 1,024 bytes */
	size_t offset;		 /* in the head, the line or the end */
	int64_t lines;		 /* still to write; -1 = the end is being written */
	timers *timers;
	const bool *stopping;
} flood;

static const char flood_end[] = "\r\n";

/* Returns true when the flood is over, for good or bad. */
static bool
flood_write(flood *flood)
{
	while (!__atomic_load_n(flood->stopping, __ATOMIC_RELAXED))
	{
		const char *bytes;
		size_t size;
		ssize_t sent;

		if (flood->head.size > 0)
			bytes = flood->head.bytes, size = flood->head.size;
		else if (flood->lines > 0)
			bytes = flood->line.bytes, size = flood->line.size;
		else if (flood->lines == 0)
			bytes = flood_end, size = strlen(flood_end);
		else
			return true;
		sent = send(flood->fd, bytes + flood->offset, size - flood->offset,
					MSG_DONTWAIT | MSG_NOSIGNAL);
		if (sent < 0)
			return errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR;
		flood->offset += (size_t) sent;
		if (flood->offset < size)
			continue;
		flood->offset = 0;
		if (flood->head.size > 0)
			verdict_buffer_reset(&flood->head);
		else
			flood->lines--;
	}
	return true;
}

static void
flood_turn(void *argument)
{
	flood *flood = argument;

	if (!flood_write(flood) && timers_add(flood->timers, 2, flood_turn, flood))
		return;
	verdict_buffer_free(&flood->head);
	verdict_buffer_free(&flood->line);
	MHD_resume_connection(flood->connection);
	free(flood);
}

bool
misbehave_flood(const fault *fault, wire_format format, struct MHD_Connection *connection,
				timers *timers, const bool *stopping)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	flood *flood = calloc(1, sizeof(*flood));

	if (flood == NULL)
		return false;
	flood->connection = connection;
	flood->fd = info->connect_fd;
	flood->timers = timers;
	flood->stopping = stopping;
	flood->lines = (fault->bytes + 1023) / 1024;
	verdict_buffer_init(&flood->head, service_host(), 1024);
	verdict_buffer_init(&flood->line, service_host(), 1024);
	verdict_buffer_printf(&flood->head,
						  "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: 0\r\n",
						  wire_content_type(format));
	verdict_buffer_append_string(&flood->line, "X-Flood: ");
	while (flood->line.size < 1022)
		verdict_buffer_append(&flood->line, "x", 1);
	verdict_buffer_append_string(&flood->line, "\r\n");
	if (flood->head.state != VERDICT_BUFFER_OK || flood->line.state != VERDICT_BUFFER_OK ||
		!timers_add(timers, 0, flood_turn, flood))
	{
		verdict_buffer_free(&flood->head);
		verdict_buffer_free(&flood->line);
		free(flood);
		return false;
	}
	return true;
}

/* Linux answers a dissolved association with RST, whatever is done afterwards. */
void
misbehave_reset(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct sockaddr nowhere = {.sa_family = AF_UNSPEC};

	connect(info->connect_fd, &nowhere, sizeof(nowhere));
}
