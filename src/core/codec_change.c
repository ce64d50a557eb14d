/*
 * codec_change.c
 *		Changes of facts to protobuf's binary form, one at a time and fast.
 *
 * A trigger makes one for each row, so nothing here allocates but the buffer, and
 * the structs of protobuf-c are not built.  The numbers of the fields still come
 * from verdict.proto, by what protobuf-c generated of it; that the bytes are the
 * ones protobuf-c would write is the unit test's to say.
 */
#include "codec_internal.h"

#include <string.h>

/* Wire types: https://protobuf.dev/programming-guides/encoding/#structure */
#define WIRE_VARINT 0
#define WIRE_LENGTH 2

/* The fields of a message in the order of verdict.proto, which numbers them in that order. */
#define FIELD(message, index) (verdict__v1__##message##__descriptor.fields[index].id)
#define BATCH_CHANGES FIELD(batch_facts_request, 0)
#define FACT_PREDICATE FIELD(fact, 0)
#define FACT_ARGS FIELD(fact, 1)
#define IDENTITY_TYPE FIELD(identity, 0)
#define IDENTITY_ID FIELD(identity, 1)

static size_t
varint_size(uint64_t number)
{
	size_t size = 1;

	for (; number >= 0x80; number >>= 7)
		size++;
	return size;
}

/* Everything below that writes returns where the next byte goes. */
static uint8_t *
put_varint(uint8_t *to, uint64_t number)
{
	for (; number >= 0x80; number >>= 7)
		*to++ = (uint8_t) (number | 0x80);
	*to++ = (uint8_t) number;
	return to;
}

/* The tag of a field, and the number behind it: a value or a length. */
static uint8_t *
put_header(uint8_t *to, uint32_t field, unsigned wire, uint64_t number)
{
	return put_varint(put_varint(to, (uint64_t) field << 3 | wire), number);
}

static uint8_t *
put_bytes(uint8_t *to, uint32_t field, const void *bytes, size_t size)
{
	to = put_header(to, field, WIRE_LENGTH, size);
	memcpy(to, bytes, size);
	return to + size;
}

/* What a number takes with its tag. */
static size_t
number_size(uint32_t field, uint64_t number)
{
	return varint_size((uint64_t) field << 3) + varint_size(number);
}

/* What "size" bytes take with their tag and length. */
static size_t
field_size(uint32_t field, size_t size)
{
	return number_size(field, size) + size;
}

static size_t
identity_size(size_t type_size, size_t id_size)
{
	return field_size(IDENTITY_TYPE, type_size) + field_size(IDENTITY_ID, id_size);
}

/* Size of the message Value. */
static size_t
value_size(const verdict_value *value)
{
	switch (value->kind)
	{
		case VERDICT_VALUE_ANY:
			break; /* refused before */
		case VERDICT_VALUE_IDENTITY:
			return field_size(
				VERDICT__V1__VALUE__KIND_IDENTITY,
				identity_size(strlen(value->as.identity.type), strlen(value->as.identity.id)));
		case VERDICT_VALUE_STRING:
			return field_size(VERDICT__V1__VALUE__KIND_STRING, strlen(value->as.string));
		case VERDICT_VALUE_INTEGER:
			return number_size(VERDICT__V1__VALUE__KIND_INTEGER, (uint64_t) value->as.integer);
		case VERDICT_VALUE_BOOLEAN:
			return number_size(VERDICT__V1__VALUE__KIND_BOOLEAN, value->as.boolean);
	}
	return 0;
}

static uint8_t *
put_value(uint8_t *to, const verdict_value *value)
{
	size_t type_size;
	size_t id_size;

	switch (value->kind)
	{
		case VERDICT_VALUE_ANY:
			break; /* refused before */
		case VERDICT_VALUE_IDENTITY:
			type_size = strlen(value->as.identity.type);
			id_size = strlen(value->as.identity.id);
			to = put_header(to, VERDICT__V1__VALUE__KIND_IDENTITY, WIRE_LENGTH,
							identity_size(type_size, id_size));
			to = put_bytes(to, IDENTITY_TYPE, value->as.identity.type, type_size);
			return put_bytes(to, IDENTITY_ID, value->as.identity.id, id_size);
		case VERDICT_VALUE_STRING:
			return put_bytes(to, VERDICT__V1__VALUE__KIND_STRING, value->as.string,
							 strlen(value->as.string));
		case VERDICT_VALUE_INTEGER:
			return put_header(to, VERDICT__V1__VALUE__KIND_INTEGER, WIRE_VARINT,
							  (uint64_t) value->as.integer);
		case VERDICT_VALUE_BOOLEAN:
			return put_header(to, VERDICT__V1__VALUE__KIND_BOOLEAN, WIRE_VARINT, value->as.boolean);
	}
	return to;
}

/* Size of the message Fact; "sizes" gets those of its values, for put_fact(). */
static size_t
fact_size(const verdict_fact *fact, size_t *sizes)
{
	size_t size = field_size(FACT_PREDICATE, strlen(fact->predicate));
	size_t i;

	for (i = 0; i < fact->count; i++)
	{
		sizes[i] = value_size(&fact->args[i].as.value);
		size += field_size(FACT_ARGS, sizes[i]);
	}
	return size;
}

static uint8_t *
put_fact(uint8_t *to, const verdict_fact *fact, const size_t *sizes)
{
	size_t i;

	to = put_bytes(to, FACT_PREDICATE, fact->predicate, strlen(fact->predicate));
	for (i = 0; i < fact->count; i++)
		to = put_value(put_header(to, FACT_ARGS, WIRE_LENGTH, sizes[i]), &fact->args[i].as.value);
	return to;
}

static uint32_t
change_field(bool insert)
{
	return insert ? VERDICT__V1__FACT_CHANGE__CHANGE_INSERT
				  : VERDICT__V1__FACT_CHANGE__CHANGE_DELETE;
}

/* Size of an element whose fact has that size, and all of it but the fact. */
static size_t
change_size(bool insert, size_t size)
{
	return field_size(BATCH_CHANGES, field_size(change_field(insert), size));
}

static uint8_t *
put_change_header(uint8_t *to, bool insert, size_t size)
{
	uint32_t field = change_field(insert);

	to = put_header(to, BATCH_CHANGES, WIRE_LENGTH, field_size(field, size));
	return put_header(to, field, WIRE_LENGTH, size);
}

bool
verdict_encode_bare_fact(verdict_buffer *out, const verdict_fact *fact, verdict_status *status)
{
	size_t sizes[VERDICT_MAX_ARGUMENTS];
	uint8_t *to;

	if (!verdict_request_check_fact(fact, "fact", status))
		return false;
	to = (uint8_t *) verdict_buffer_extend(out, fact_size(fact, sizes));
	if (to != NULL)
		put_fact(to, fact, sizes);
	return verdict_request_written(out, status);
}

bool
verdict_encode_change(verdict_buffer *out, bool insert, const void *fact, size_t size,
					  verdict_status *status)
{
	uint8_t *to = (uint8_t *) verdict_buffer_extend(out, change_size(insert, size));

	if (to != NULL)
		memcpy(put_change_header(to, insert, size), fact, size);
	return verdict_request_written(out, status);
}

bool
verdict_request_put_changes(verdict_buffer *out, const verdict_change *changes, size_t count,
							verdict_status *status)
{
	size_t i;

	for (i = 0; i < count; i++)
	{
		bool insert = changes[i].insert;
		size_t sizes[VERDICT_MAX_ARGUMENTS];
		size_t size = fact_size(&changes[i].fact, sizes);
		uint8_t *to = (uint8_t *) verdict_buffer_extend(out, change_size(insert, size));

		if (to == NULL)
			break;
		put_fact(put_change_header(to, insert, size), &changes[i].fact, sizes);
	}
	return verdict_request_written(out, status);
}
