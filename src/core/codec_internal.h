/*
 * codec_internal.h
 *		What the encoders, and the decoders of whole answers and of rows, share; for codec*.c only.
 */
#ifndef VERDICT_CODEC_INTERNAL_H
#define VERDICT_CODEC_INTERNAL_H

#include "codec.h"

#include "verdict.pb-c.h"

/* Fails with VERDICT_INVALID_ARGUMENT and cause ARGUMENT: "where: what". */
extern bool verdict_request_refuse(verdict_status *status, const char *where, const char *what);

/*
 * Checks all that the contract asks of a fact in a request, the UTF-8 of its
 * strings included; refuses it with the name of the argument.
 */
extern bool
verdict_request_check_fact(const verdict_fact *fact, const char *where, verdict_status *status);

/* Whether all that was appended is there; else a status of the buffer's failure. */
extern bool verdict_request_written(const verdict_buffer *out, verdict_status *status);

/* Appends changes that were checked as elements of a BatchFacts request in binary. */
extern bool verdict_request_put_changes(verdict_buffer *out, const verdict_change *changes,
										size_t count, verdict_status *status);

/*
 * How much memory the decoded form of "size" bytes may take.  Honest answers
 * need up to 24 times their size where they are small parts (an empty value is
 * 2 bytes) and once where they are long text, so the floor covers the former;
 * protobuf-c's 48 times for bytes that are made to hurt is never reached.
 */
extern size_t verdict_answer_memory(size_t size);

/* Fails with VERDICT_INTERNAL and cause ANSWER. */
extern bool verdict_answer_refuse(verdict_status *status, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * Decodes an answer, or one element of it, into the arena; no bytes are the
 * empty message.  NULL with a status as codec.h tells.  "where" names the
 * element in that status, "" for a whole answer.
 */
extern ProtobufCMessage *
verdict_answer_decode(verdict_arena *arena, verdict_wire_format format,
					  const ProtobufCMessageDescriptor *descriptor, const void *bytes, size_t size,
					  const char *where, verdict_status *status);

/*
 * Takes a value of an answer as the core knows it; strings stay where they are.
 * A value without a kind is VERDICT_VALUE_ANY: whether that may be is the
 * caller's to know.
 */
extern bool verdict_answer_value(const Verdict__V1__Value *value, verdict_value *result,
								 const char *where, size_t index, verdict_status *status);

#endif /* VERDICT_CODEC_INTERNAL_H */
