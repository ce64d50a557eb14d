/*
 * wire.h
 *		Requests from bytes, answers to bytes, and Connect's error answers.
 */
#ifndef VERDICT_SERVER_WIRE_H
#define VERDICT_SERVER_WIRE_H

#include "arena.h"
#include "buffer.h"
#include "status.h"

typedef enum wire_format
{
	WIRE_BINARY,
	WIRE_JSON,
	WIRE_NONE /* a content type that is neither */
} wire_format;

/* The format of a Content-Type value; parameters after ";" are passed over. */
extern wire_format wire_format_of(const char *content_type);
/* "application/proto" or "application/json". */
extern const char *wire_content_type(wire_format format);
/* "binary", "json"; NULL for WIRE_NONE. */
extern const char *wire_format_name(wire_format format);

/*
 * A request message in the arena; a body of zero bytes is the empty message.
 * NULL with the status filled: VERDICT_INVALID_ARGUMENT, or
 * VERDICT_RESOURCE_EXHAUSTED when the arena's cap is met.
 */
extern ProtobufCMessage *
wire_decode(verdict_arena *arena, wire_format format, const ProtobufCMessageDescriptor *descriptor,
			const void *body, size_t size, verdict_status *status);
/* Appends the message.  False when it does not fit or there is no memory. */
extern bool wire_encode(verdict_buffer *out, wire_format format, const ProtobufCMessage *message);
/* Appends {"code": ..., "message": ...}; the message is UTF-8. */
extern bool wire_encode_error(verdict_buffer *out, verdict_code code, const char *message);
/* The HTTP status that goes with a code (Connect's table). */
extern int wire_http_status(verdict_code code);

#endif /* VERDICT_SERVER_WIRE_H */
