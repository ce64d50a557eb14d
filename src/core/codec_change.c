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

#define LONGEST_VARINT 10

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

static size_t
write_varint(uint8_t *bytes, uint64_t number)
{
	size_t size = 0;

	for (; number >= 0x80; number >>= 7)
		bytes[size++] = (uint8_t) (number | 0x80);
	bytes[size++] = (uint8_t) number;
	return size;
}

/* The tag of a field, and the number behind it: a value or a length. */
static void
put_header(verdict_buffer *out, uint32_t field, unsigned wire, uint64_t number)
{
	uint8_t bytes[2 * LONGEST_VARINT];
	size_t size = write_varint(bytes, (uint64_t) field << 3 | wire);

	size += write_varint(bytes + size, number);
	verdict_buffer_append(out, bytes, size);
}

static void
put_string(verdict_buffer *out, uint32_t field, const char *string)
{
	size_t size = strlen(string);

	put_header(out, field, WIRE_LENGTH, size);
	verdict_buffer_append(out, string, size);
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
identity_size(const verdict_identity *identity)
{
	return field_size(IDENTITY_TYPE, strlen(identity->type)) +
		   field_size(IDENTITY_ID, strlen(identity->id));
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
			return field_size(VERDICT__V1__VALUE__KIND_IDENTITY,
							  identity_size(&value->as.identity));
		case VERDICT_VALUE_STRING:
			return field_size(VERDICT__V1__VALUE__KIND_STRING, strlen(value->as.string));
		case VERDICT_VALUE_INTEGER:
			return number_size(VERDICT__V1__VALUE__KIND_INTEGER, (uint64_t) value->as.integer);
		case VERDICT_VALUE_BOOLEAN:
			return number_size(VERDICT__V1__VALUE__KIND_BOOLEAN, value->as.boolean);
	}
	return 0;
}

static void
put_value(verdict_buffer *out, const verdict_value *value)
{
	switch (value->kind)
	{
		case VERDICT_VALUE_ANY:
			break; /* refused before */
		case VERDICT_VALUE_IDENTITY:
			put_header(out, VERDICT__V1__VALUE__KIND_IDENTITY, WIRE_LENGTH,
					   identity_size(&value->as.identity));
			put_string(out, IDENTITY_TYPE, value->as.identity.type);
			put_string(out, IDENTITY_ID, value->as.identity.id);
			break;
		case VERDICT_VALUE_STRING:
			put_string(out, VERDICT__V1__VALUE__KIND_STRING, value->as.string);
			break;
		case VERDICT_VALUE_INTEGER:
			put_header(out, VERDICT__V1__VALUE__KIND_INTEGER, WIRE_VARINT,
					   (uint64_t) value->as.integer);
			break;
		case VERDICT_VALUE_BOOLEAN:
			put_header(out, VERDICT__V1__VALUE__KIND_BOOLEAN, WIRE_VARINT, value->as.boolean);
			break;
	}
}

/* Size of the message Fact. */
static size_t
fact_size(const verdict_fact *fact)
{
	size_t size = field_size(FACT_PREDICATE, strlen(fact->predicate));
	size_t i;

	for (i = 0; i < fact->count; i++)
		size += field_size(FACT_ARGS, value_size(&fact->args[i].as.value));
	return size;
}

static void
put_fact(verdict_buffer *out, const verdict_fact *fact)
{
	size_t i;

	put_string(out, FACT_PREDICATE, fact->predicate);
	for (i = 0; i < fact->count; i++)
	{
		const verdict_value *value = &fact->args[i].as.value;

		put_header(out, FACT_ARGS, WIRE_LENGTH, value_size(value));
		put_value(out, value);
	}
}

/* Everything of an element but its fact. */
static void
put_change_header(verdict_buffer *out, bool insert, size_t size)
{
	uint32_t field =
		insert ? VERDICT__V1__FACT_CHANGE__CHANGE_INSERT : VERDICT__V1__FACT_CHANGE__CHANGE_DELETE;

	put_header(out, BATCH_CHANGES, WIRE_LENGTH, field_size(field, size));
	put_header(out, field, WIRE_LENGTH, size);
}

bool
verdict_encode_bare_fact(verdict_buffer *out, const verdict_fact *fact, verdict_status *status)
{
	if (!verdict_request_check_fact(fact, "fact", status))
		return false;
	put_fact(out, fact);
	return verdict_request_written(out, status);
}

bool
verdict_encode_change(verdict_buffer *out, bool insert, const void *fact, size_t size,
					  verdict_status *status)
{
	put_change_header(out, insert, size);
	verdict_buffer_append(out, fact, size);
	return verdict_request_written(out, status);
}

bool
verdict_request_put_changes(verdict_buffer *out, const verdict_change *changes, size_t count,
							verdict_status *status)
{
	size_t i;

	for (i = 0; i < count; i++)
	{
		put_change_header(out, changes[i].insert, fact_size(&changes[i].fact));
		put_fact(out, &changes[i].fact);
	}
	return verdict_request_written(out, status);
}
