/*
 * message_internal.h
 *		What the two directions of the two wire formats share; for message*.c
 *		and codec_rows.c only.
 */
#ifndef VERDICT_MESSAGE_INTERNAL_H
#define VERDICT_MESSAGE_INTERNAL_H

#include "message.h"

/* Messages in messages, counted from the outermost as 1. */
#define VERDICT_MESSAGE_MAX_DEPTH 32

/* Fields that are told apart by one bit each. */
#define VERDICT_MESSAGE_MAX_FIELDS 64

/*
 * Where in a message a reader is: a chain of frames on the stack, written out
 * only when something is wrong there.
 */
typedef struct verdict_place
{
	const struct verdict_place *outer; /* NULL: a field of the whole message */
	const ProtobufCFieldDescriptor *field;
	size_t index; /* of a repeated field's element */
} verdict_place;

/*
 * Fails with VERDICT_INVALID_ARGUMENT and "<place>: <text>".  "place" NULL is
 * the whole message.
 */
extern bool verdict_message_refuse(verdict_status *status, const verdict_place *place,
								   const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Fails with what an arena that returned NULL says about itself. */
extern bool verdict_arena_failure(const verdict_arena *arena, verdict_status *status);

/*
 * True when all fields are members of one oneof, so that an unknown field in
 * such a message is a value that this program cannot understand.
 */
extern bool verdict_message_is_choice(const ProtobufCMessageDescriptor *descriptor);

/*
 * What readers of both formats note about the fields of one message.  Tells
 * whether "field" may still come: a field that is not repeated comes once, and
 * one member of a oneof.
 */
extern bool verdict_message_note_field(const ProtobufCMessageDescriptor *descriptor,
									   const ProtobufCFieldDescriptor *field, uint64_t *seen,
									   const verdict_place *place, verdict_status *status);

/* One field as it stands on the wire. */
typedef struct verdict_wire_field
{
	uint32_t number;
	unsigned wire_type; /* 0 varint, 1 64-bit, 2 length, 5 32-bit */
	uint64_t varint;	/* of wire type 0 */
	size_t start;		/* of the content, for the other types */
	size_t length;
} verdict_wire_field;

/*
 * Reads the field at "*position" and moves past it.  False when it is cut off,
 * a group, or malformed in another way: whatever protobuf-c would not read.
 */
extern bool verdict_wire_read_field(const uint8_t *bytes, size_t size, size_t *position,
									verdict_wire_field *field);

#endif /* VERDICT_MESSAGE_INTERNAL_H */
