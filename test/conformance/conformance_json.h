/*
 * conformance_json.h
 *		The JSON form of the conformance suite's own messages.
 *
 * The core's mapping covers what verdict.proto uses; the suite's messages have
 * enums, 32-bit integers and Any besides.  Test code: memory comes from malloc()
 * and a failure ends the program.
 */
#ifndef VERDICT_CONFORMANCE_JSON_H
#define VERDICT_CONFORMANCE_JSON_H

#include <jansson.h>
#include <protobuf-c/protobuf-c.h>

/* The descriptor of a type that may stand in an Any; NULL when unknown. */
extern const ProtobufCMessageDescriptor *conformance_type(const char *type_url);

extern json_t *conformance_to_json(const ProtobufCMessage *message);
/*
 * NULL when the JSON does not fit the type.  Free by
 * protobuf_c_message_free_unpacked().
 */
extern ProtobufCMessage *
conformance_from_json(const ProtobufCMessageDescriptor *type, const json_t *json);

#endif /* VERDICT_CONFORMANCE_JSON_H */
