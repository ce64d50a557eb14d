/*
 * connect.h
 *		The rules of the Connect protocol for unary calls: addresses, request
 *		headers, and what an answer means.
 *
 * Source: https://connectrpc.com/docs/protocol ("Unary-Request",
 * "Unary-Response", "Error Codes") and the wire contract, "Transport".  Nothing
 * here does any I/O.
 */
#ifndef VERDICT_CONNECT_H
#define VERDICT_CONNECT_H

#include "codec.h"
#include "headers.h"

/* The package and service of the wire contract. */
#define VERDICT_SERVICE "verdict.v1.VerdictService"

/* The largest Connect-Timeout-Ms this client sends (the wire contract). */
#define VERDICT_CONNECT_TIMEOUT_MAX_MS 2147483647

/*
 * Appends "<base_url>/<service>/<method>"; slashes at the end of the base are
 * passed over.  False when the buffer fails.
 */
extern bool verdict_connect_url(verdict_buffer *out, const char *base_url, const char *service,
								const char *method);

/*
 * Appends "Name: value" and its terminator to a run of header lines.  False when
 * the buffer fails.  The caller has checked that the value is not empty and
 * holds no control character.
 */
extern bool verdict_connect_add_header(verdict_buffer *lines, const char *name, const char *value);
/* Connect-Protocol-Version and the Content-Type of the wire format. */
extern bool verdict_connect_add_headers(verdict_buffer *lines, verdict_wire_format format);
/* Connect-Timeout-Ms, from 1 to the maximum. */
extern bool verdict_connect_add_timeout(verdict_buffer *lines, int64_t left_ms);

/*
 * One element of an error's "details": a protobuf message of the named type, in
 * the binary format.
 */
typedef struct verdict_connect_detail
{
	const char *type;
	const void *value;
	size_t size;
} verdict_connect_detail;

/* What the body of an error answer holds, as far as it could be read. */
typedef struct verdict_connect_error
{
	verdict_code code;	 /* VERDICT_OK: no code that Connect knows */
	const char *message; /* NULL: none; as it came, not cleaned */
	size_t detail_count;
	const verdict_connect_detail *details; /* unreadable ones left out */
} verdict_connect_error;

/*
 * Reads an error body into the arena.  False when there is no memory; a body
 * that is not an error object leaves everything empty.
 */
extern bool verdict_connect_parse_error(verdict_arena *arena, const char *body, size_t size,
										verdict_connect_error *error);

/* The code that an HTTP status stands for when no Connect code came with it. */
extern verdict_code verdict_connect_code_of_http(int http_status);

/*
 * What an answer means.  True when it is a success whose body is to be decoded
 * in the wire format that was asked for.  Else the status is filled: code,
 * cause, inferred, message, retry_after_ms, and of the outcome REJECTED where
 * the answer says that the call did not run, MAYBE_APPLIED where it leaves that
 * open.  "keyed" tells that the call carried an idempotency key: "aborted" then
 * means that the first attempt is still running.  "error", when not NULL, is
 * left with what the body held (in the arena, empty on success).
 */
extern bool verdict_connect_check_answer(const verdict_headers *headers, const char *body,
										 size_t size, verdict_wire_format format, bool keyed,
										 int64_t wall_clock_s, verdict_arena *arena,
										 verdict_connect_error *error, verdict_status *status);

/*
 * If a response header carries trailing metadata ("Trailer-" before its name),
 * the name without that prefix; else NULL.
 */
extern const char *verdict_connect_trailer_name(const char *header_name);

#endif /* VERDICT_CONNECT_H */
