/*
 * message.h
 *		Protobuf messages to bytes and back, for whatever protobuf-c describes.
 *
 * Works on protobuf-c's descriptors, so both directions of both wire formats
 * meet in one form, the generated structs.  Covers what verdict.proto uses:
 * string, bytes, bool, uint32, int64 (as string), message, repeated, oneof.
 * Rules: https://protobuf.dev/programming-guides/json/
 */
#ifndef VERDICT_MESSAGE_H
#define VERDICT_MESSAGE_H

#include "arena.h"
#include "buffer.h"
#include "status.h"

/*
 * Appends the JSON text of a message: camelCase names, fields of default value
 * left out, set oneof members always written, int64 as string, bytes as base64.
 * Strings must be UTF-8.  False when the buffer fails (it says why), or with the
 * buffer still OK when a field has a type not listed above.
 */
extern bool verdict_message_to_json(verdict_buffer *buffer, const ProtobufCMessage *message);

/*
 * Reads JSON text into a message that lives in the arena (never free it by
 * protobuf-c).  Accepts camelCase and original names, null as default, integers
 * as number or string, base64 with either alphabet, with or without padding.
 * Unknown names are passed over when "skip_unknown", else refused; but inside a
 * message whose fields are all members of one oneof they are always refused, as
 * is null: there an unknown name is a value that this program cannot understand,
 * and it must not be taken for an unset one.  Two members of a oneof, a known
 * name twice, U+0000, invalid UTF-8, numbers out of range or with a point or an
 * exponent, and nesting beyond 32 levels (of brackets) are refused.  The text
 * must be one object; that no text at all means the empty message is the
 * caller's to know.
 *
 * On failure NULL and a status: VERDICT_INVALID_ARGUMENT with a message that
 * names the place ("changes[1].insert.args[0]") or the byte;
 * VERDICT_RESOURCE_EXHAUSTED with cause TOO_LARGE when the arena's cap is met; or
 * out of memory.
 */
extern ProtobufCMessage *
verdict_message_from_json(verdict_arena *arena, const ProtobufCMessageDescriptor *descriptor,
						  const char *text, size_t size, bool skip_unknown, verdict_status *status);

/*
 * protobuf-c's unpack with what it leaves out: every string is valid UTF-8
 * without NUL, nesting is at most 32 levels, wire types fit the descriptor,
 * numbers fit their fields (a boolean is 0 or 1), the unknown-field rule above
 * holds, and what is not repeated comes once: protobuf would let the last or a
 * mixture win, which no encoder needs and which could hide what was meant.
 * Fails as verdict_message_from_json() does.  The message lives in the arena.
 */
extern ProtobufCMessage *
verdict_message_from_binary(verdict_arena *arena, const ProtobufCMessageDescriptor *descriptor,
							const uint8_t *bytes, size_t size, verdict_status *status);

#endif /* VERDICT_MESSAGE_H */
