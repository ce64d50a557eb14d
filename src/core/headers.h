/*
 * headers.h
 *		The headers of one HTTP response: collected with a bound, looked up, and
 *		asked whether the end of the body can be told from a cut.
 *
 * Line by line they come in, as libcurl hands them over; what stays is the
 * final response's headers.  Nothing here knows Connect.
 */
#ifndef VERDICT_HEADERS_H
#define VERDICT_HEADERS_H

#include "buffer.h"

/*
 * Bytes of all header lines of one exchange together, interim (1xx) responses
 * and trailers counted too.  libcurl's own bound is 300 KiB.
 */
#define VERDICT_HEADER_BYTES_MAX (64 * 1024)

typedef struct verdict_headers
{
	int status;			  /* of the latest status line; 0 = none yet */
	bool http2;			  /* the latest status line says HTTP/2 (or later) */
	bool complete;		  /* the final response's headers are all there */
	size_t seen;		  /* bytes of all lines so far */
	verdict_buffer block; /* "name\0value\0" pairs of the latest response */
} verdict_headers;

typedef enum verdict_headers_result
{
	VERDICT_HEADERS_MORE,	  /* taken; more is to come */
	VERDICT_HEADERS_COMPLETE, /* taken; it ended the final response's headers */
	VERDICT_HEADERS_MALFORMED,
	VERDICT_HEADERS_TOO_LARGE,
	VERDICT_HEADERS_NO_MEMORY
} verdict_headers_result;

extern void verdict_headers_init(verdict_headers *headers, const verdict_host *host);
/* Forgets the content, keeps the memory. */
extern void verdict_headers_reset(verdict_headers *headers);
extern void verdict_headers_free(verdict_headers *headers);

/*
 * Takes in one line with its line end: a status line, a header, or the empty
 * line.  Lines after the final response's empty line are trailers and are only
 * counted.  Malformed: no status line where one must stand, a status that is
 * not three digits or is 101, a folded line, a name that is not a token (RFC 9110, 5.6.2),
 * a control character in a value.
 */
extern verdict_headers_result
verdict_headers_add_line(verdict_headers *headers, const char *line, size_t size);

/*
 * Walks over the headers: "*position" is 0 at first.  False after the last.
 * The strings live as long as the headers stay as they are.
 */
extern bool verdict_headers_next(const verdict_headers *headers, size_t *position,
								 const char **name, const char **value);
/*
 * How many headers have this name (case does not matter); the value of the
 * first is left in *value, NULL when there is none.
 */
extern int
verdict_headers_find(const verdict_headers *headers, const char *name, const char **value);

/*
 * The length the body will have, in *length: -1 when it comes in chunks.  False
 * with a reason (a constant text) when the headers do not say where the body
 * ends, or say it twice, or in a way that two readers could read differently.
 * Over HTTP/2 only a length will do: a stream that was reset without an error
 * looks as if it were complete.
 */
extern bool
verdict_headers_framing(const verdict_headers *headers, int64_t *length, const char **reason);

/*
 * Whether the body is compressed by gzip.  False with a reason when it is
 * encoded in a way that was not asked for.
 */
extern bool
verdict_headers_encoding(const verdict_headers *headers, bool *gzip, const char **reason);

#endif /* VERDICT_HEADERS_H */
