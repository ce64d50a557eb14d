/*
 * conformance_json.c
 *		See conformance_json.h.  Goes by protobuf-c's descriptors.
 */
#include "conformance_json.h"

#include "connectrpc/conformance/v1/service.pb-c.h"
#include "google/protobuf/any.pb-c.h"

#include <ctype.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *
need(void *memory)
{
	if (memory == NULL)
		abort();
	return memory;
}

const ProtobufCMessageDescriptor *
conformance_type(const char *type_url)
{
	static const ProtobufCMessageDescriptor *const known[] = {
		&connectrpc__conformance__v1__unary_request__descriptor,
		&connectrpc__conformance__v1__unary_response__descriptor,
		&connectrpc__conformance__v1__idempotent_unary_request__descriptor,
		&connectrpc__conformance__v1__idempotent_unary_response__descriptor,
		&connectrpc__conformance__v1__unimplemented_request__descriptor,
		&connectrpc__conformance__v1__unimplemented_response__descriptor,
		&connectrpc__conformance__v1__conformance_payload__request_info__descriptor,
		&connectrpc__conformance__v1__header__descriptor,
	};
	const char *slash = strrchr(type_url, '/');
	const char *name = slash != NULL ? slash + 1 : type_url;
	size_t i;

	for (i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strcmp(known[i]->name, name) == 0)
			return known[i];
	return NULL;
}

/* "request_info" to "requestInfo"; the result is overwritten by the next call. */
static const char *
json_name(const char *name)
{
	static char camel[128];
	size_t filled = 0;

	for (; *name != '\0' && filled < sizeof(camel) - 1; name++)
		if (*name == '_' && name[1] != '\0')
			camel[filled++] = (char) toupper((unsigned char) *++name);
		else
			camel[filled++] = *name;
	camel[filled] = '\0';
	return camel;
}

static size_t
size_of(ProtobufCType type)
{
	switch (type)
	{
		case PROTOBUF_C_TYPE_INT64:
		case PROTOBUF_C_TYPE_UINT64:
			return sizeof(int64_t);
		case PROTOBUF_C_TYPE_BOOL:
			return sizeof(protobuf_c_boolean);
		case PROTOBUF_C_TYPE_STRING:
		case PROTOBUF_C_TYPE_MESSAGE:
			return sizeof(void *);
		case PROTOBUF_C_TYPE_BYTES:
			return sizeof(ProtobufCBinaryData);
		default:
			return sizeof(int32_t);
	}
}

/* ---- to JSON ---- */

static json_t *
bytes_to_json(const ProtobufCBinaryData *bytes)
{
	char *text = need(malloc(bytes->len * 2 + 8));
	json_t *json;

	EVP_EncodeBlock((unsigned char *) text, bytes->data, (int) bytes->len);
	json = json_string(text);
	free(text);
	return json;
}

static json_t *
any_to_json(const Google__Protobuf__Any *any)
{
	const ProtobufCMessageDescriptor *type = conformance_type(any->type_url);
	ProtobufCMessage *message;
	json_t *json;

	if (type == NULL)
	{
		fprintf(stderr, "conformance client: unknown type %s\n", any->type_url);
		abort();
	}
	message = need(protobuf_c_message_unpack(type, NULL, any->value.len, any->value.data));
	json = conformance_to_json(message);
	json_object_set_new(json, "@type", json_string(any->type_url));
	protobuf_c_message_free_unpacked(message, NULL);
	return json;
}

/* One value, which lies at "place". */
static json_t *
value_to_json(const ProtobufCFieldDescriptor *field, const void *place)
{
	char text[32];
	const ProtobufCEnumValue *named;

	switch (field->type)
	{
		case PROTOBUF_C_TYPE_STRING:
			return json_string(*(char *const *) place);
		case PROTOBUF_C_TYPE_BYTES:
			return bytes_to_json(place);
		case PROTOBUF_C_TYPE_BOOL:
			return json_boolean(*(const protobuf_c_boolean *) place);
		case PROTOBUF_C_TYPE_UINT32:
			return json_integer(*(const uint32_t *) place);
		case PROTOBUF_C_TYPE_INT32:
			return json_integer(*(const int32_t *) place);
		case PROTOBUF_C_TYPE_INT64:
			snprintf(text, sizeof(text), "%lld", (long long) *(const int64_t *) place);
			return json_string(text);
		case PROTOBUF_C_TYPE_ENUM:
			named = protobuf_c_enum_descriptor_get_value(field->descriptor, *(const int *) place);
			return named != NULL ? json_string(named->name) : json_integer(*(const int *) place);
		case PROTOBUF_C_TYPE_MESSAGE:
			if (field->descriptor == &google__protobuf__any__descriptor)
				return any_to_json(*(Google__Protobuf__Any *const *) place);
			return conformance_to_json(*(ProtobufCMessage *const *) place);
		default:
			abort();
	}
}

static bool
is_set(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
	const char *place = (const char *) message + field->offset;

	if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0)
		return *(const uint32_t *) ((const char *) message + field->quantifier_offset) == field->id;
	switch (field->type)
	{
		case PROTOBUF_C_TYPE_MESSAGE:
			return *(void *const *) place != NULL;
		case PROTOBUF_C_TYPE_STRING:
			return **(char *const *) place != '\0';
		case PROTOBUF_C_TYPE_BYTES:
			return ((const ProtobufCBinaryData *) place)->len > 0;
		default:
			return true; /* a default that is written means the same */
	}
}

json_t *
conformance_to_json(const ProtobufCMessage *message)
{
	json_t *json = need(json_object());
	unsigned i;
	size_t j;

	for (i = 0; i < message->descriptor->n_fields; i++)
	{
		const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
		const char *place = (const char *) message + field->offset;

		if (field->label == PROTOBUF_C_LABEL_REPEATED)
		{
			size_t count = *(const size_t *) ((const char *) message + field->quantifier_offset);
			json_t *array = need(json_array());

			for (j = 0; j < count; j++)
				json_array_append_new(
					array, value_to_json(field, *(char *const *) place + j * size_of(field->type)));
			json_object_set_new(json, json_name(field->name), array);
		}
		else if (is_set(message, field))
			json_object_set_new(json, json_name(field->name), value_to_json(field, place));
	}
	return json;
}

/* ---- from JSON ---- */

static bool
bytes_from_json(const json_t *json, ProtobufCBinaryData *bytes)
{
	size_t length = json_string_length(json);
	const char *text = json_string_value(json);
	char *padded;
	int size;

	if (text == NULL)
		return false;
	padded = need(calloc(1, length + 4));
	memcpy(padded, text, length);
	while (length > 0 && padded[length - 1] == '=')
		length--;
	memcpy(padded + length, "===", (4 - length % 4) % 4);
	bytes->data = need(malloc(length + 4));
	size = EVP_DecodeBlock(bytes->data, (unsigned char *) padded, (int) (length + 3) / 4 * 4);
	free(padded);
	if (size < 0)
		return false;
	bytes->len = length * 3 / 4;
	return true;
}

static bool
integer_from_json(const json_t *json, int64_t *value)
{
	if (json_is_string(json))
		*value = strtoll(json_string_value(json), NULL, 10);
	else if (json_is_integer(json))
		*value = json_integer_value(json);
	else
		return false;
	return true;
}

static ProtobufCMessage *
any_from_json(const json_t *json)
{
	const char *type_url = json_string_value(json_object_get(json, "@type"));
	const ProtobufCMessageDescriptor *type;
	ProtobufCMessage *message;
	Google__Protobuf__Any *any;

	if (type_url == NULL || (type = conformance_type(type_url)) == NULL ||
		(message = conformance_from_json(type, json)) == NULL)
		return NULL;
	any = need(malloc(sizeof(*any)));
	google__protobuf__any__init(any);
	any->type_url = need(strdup(type_url));
	any->value.len = protobuf_c_message_get_packed_size(message);
	any->value.data = need(malloc(any->value.len + 1));
	protobuf_c_message_pack(message, any->value.data);
	protobuf_c_message_free_unpacked(message, NULL);
	return &any->base;
}

static bool
value_from_json(const ProtobufCFieldDescriptor *field, const json_t *json, void *place)
{
	const ProtobufCEnumValue *named;
	int64_t integer;

	switch (field->type)
	{
		case PROTOBUF_C_TYPE_STRING:
			if (!json_is_string(json))
				return false;
			*(char **) place = need(strdup(json_string_value(json)));
			return true;
		case PROTOBUF_C_TYPE_BYTES:
			return bytes_from_json(json, place);
		case PROTOBUF_C_TYPE_BOOL:
			*(protobuf_c_boolean *) place = json_is_true(json);
			return json_is_boolean(json);
		case PROTOBUF_C_TYPE_UINT32:
		case PROTOBUF_C_TYPE_INT32:
			if (!integer_from_json(json, &integer))
				return false;
			*(int32_t *) place = (int32_t) integer;
			return true;
		case PROTOBUF_C_TYPE_INT64:
			return integer_from_json(json, place);
		case PROTOBUF_C_TYPE_ENUM:
			if (!json_is_string(json))
				return false;
			named = protobuf_c_enum_descriptor_get_value_by_name(field->descriptor,
																 json_string_value(json));
			if (named != NULL)
				*(int *) place = named->value;
			return named != NULL;
		case PROTOBUF_C_TYPE_MESSAGE:
			*(ProtobufCMessage **) place = field->descriptor == &google__protobuf__any__descriptor
											   ? any_from_json(json)
											   : conformance_from_json(field->descriptor, json);
			return *(ProtobufCMessage **) place != NULL;
		default:
			abort();
	}
}

static bool
field_from_json(const ProtobufCFieldDescriptor *field, const json_t *json,
				ProtobufCMessage *message)
{
	char *place = (char *) message + field->offset;
	size_t *count = (size_t *) ((char *) message + field->quantifier_offset);
	size_t i;

	if (field->label == PROTOBUF_C_LABEL_REPEATED)
	{
		char *array;

		if (!json_is_array(json))
			return false;
		array = need(calloc(json_array_size(json) + 1, size_of(field->type)));
		*(void **) place = array;
		for (i = 0; i < json_array_size(json); i++)
		{
			if (!value_from_json(field, json_array_get(json, i), array + i * size_of(field->type)))
				return false;
			*count = i + 1;
		}
		return true;
	}
	if (!value_from_json(field, json, place))
		return false;
	if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0)
		*(uint32_t *) ((char *) message + field->quantifier_offset) = field->id;
	return true;
}

ProtobufCMessage *
conformance_from_json(const ProtobufCMessageDescriptor *type, const json_t *json)
{
	ProtobufCMessage *message;
	unsigned i;

	if (!json_is_object(json))
		return NULL;
	message = need(calloc(1, type->sizeof_message));
	protobuf_c_message_init(type, message);
	for (i = 0; i < type->n_fields; i++)
	{
		const json_t *value = json_object_get(json, json_name(type->fields[i].name));

		if (value != NULL && !json_is_null(value) &&
			!field_from_json(&type->fields[i], value, message))
		{
			protobuf_c_message_free_unpacked(message, NULL);
			return NULL;
		}
	}
	return message;
}
