/*
 * codec.c
 *		Requests and whole answers: between the core's values and the generated
 *		structs, the same way for both wire formats.
 *
 * The structs of a request point at the caller's strings and live in an arena
 * (or on the stack) until they are written out; nothing is kept.  A decoder sets
 * its result only after all of the answer has been checked.
 */
#include "codec_internal.h"

#include "message.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define ANSWER_MEMORY_FLOOR (1024 * 1024)
#define ANSWER_MEMORY_FACTOR 8

const char *
verdict_wire_content_type(verdict_wire_format format)
{
	return format == VERDICT_WIRE_JSON ? "application/json" : "application/proto";
}

/* ---------- requests ---------- */

bool
verdict_request_refuse(verdict_status *status, const char *where, const char *what)
{
	return verdict_status_fail(status, VERDICT_INVALID_ARGUMENT, VERDICT_CAUSE_ARGUMENT, "%s: %s",
							   where, what);
}

/* NULL when an identity is fit for a request. */
static const char *
identity_problem(const verdict_identity *identity)
{
	if (!verdict_is_identifier(identity->type, strlen(identity->type)))
		return "the type of an identity must be an identifier";
	if (identity->id[0] == '\0')
		return "the id of an identity must not be empty";
	if (!verdict_is_text(identity->id, strlen(identity->id)))
		return "the id of an identity is not valid UTF-8";
	return NULL;
}

/* The same of a value. */
static const char *
value_problem(const verdict_value *value)
{
	switch (value->kind)
	{
		case VERDICT_VALUE_ANY:
			return "a value is missing";
		case VERDICT_VALUE_IDENTITY:
			return identity_problem(&value->as.identity);
		case VERDICT_VALUE_STRING:
			if (!verdict_is_text(value->as.string, strlen(value->as.string)))
				return "the string is not valid UTF-8";
			break;
		case VERDICT_VALUE_INTEGER:
		case VERDICT_VALUE_BOOLEAN:
			break;
	}
	return NULL;
}

static bool
check_identity(const verdict_identity *identity, const char *where, verdict_status *status)
{
	const char *problem = identity_problem(identity);

	return problem == NULL || verdict_request_refuse(status, where, problem);
}

static void
put_identity(Verdict__V1__Identity *message, const verdict_identity *identity)
{
	verdict__v1__identity__init(message);
	/* the structs are only read; protobuf-c has no const */
	message->type = (char *) identity->type;
	message->id = (char *) identity->id;
}

typedef struct buffer_sink
{
	ProtobufCBuffer base; /* first, so that the one is the other */
	verdict_buffer *out;
} buffer_sink;

static void
append_binary(ProtobufCBuffer *sink, size_t size, const uint8_t *bytes)
{
	verdict_buffer_append(((buffer_sink *) sink)->out, bytes, size);
}

bool
verdict_request_written(const verdict_buffer *out, verdict_status *status)
{
	switch (out->state)
	{
		case VERDICT_BUFFER_OK:
			return true;
		case VERDICT_BUFFER_TOO_LARGE:
			return verdict_status_fail(status, VERDICT_RESOURCE_EXHAUSTED, VERDICT_CAUSE_TOO_LARGE,
									   "the request is larger than %zu bytes", out->maximum);
		case VERDICT_BUFFER_NO_MEMORY:
			break;
	}
	return verdict_status_no_memory(status);
}

/* Appends a request message in the format asked for. */
static bool
write_request(verdict_buffer *out, verdict_wire_format format, const ProtobufCMessage *message,
			  verdict_status *status)
{
	if (format == VERDICT_WIRE_JSON)
		verdict_message_to_json(out, message);
	else
	{
		buffer_sink sink = {{append_binary}, out};

		protobuf_c_message_pack_to_buffer(message, &sink.base);
	}
	return verdict_request_written(out, status);
}

/* A value that was checked, in the arena; NULL with a status when there is no memory. */
static Verdict__V1__Value *
make_value(verdict_arena *arena, const verdict_value *value, verdict_status *status)
{
	Verdict__V1__Value *message = verdict_arena_alloc(arena, sizeof(*message));

	if (message == NULL)
	{
		verdict_status_no_memory(status);
		return NULL;
	}
	verdict__v1__value__init(message);
	switch (value->kind)
	{
		case VERDICT_VALUE_ANY:
			break;
		case VERDICT_VALUE_IDENTITY:
			message->identity = verdict_arena_alloc(arena, sizeof(*message->identity));
			if (message->identity == NULL)
			{
				verdict_status_no_memory(status);
				return NULL;
			}
			put_identity(message->identity, &value->as.identity);
			message->kind_case = VERDICT__V1__VALUE__KIND_IDENTITY;
			break;
		case VERDICT_VALUE_STRING:
			message->string = (char *) value->as.string;
			message->kind_case = VERDICT__V1__VALUE__KIND_STRING;
			break;
		case VERDICT_VALUE_INTEGER:
			message->integer = value->as.integer;
			message->kind_case = VERDICT__V1__VALUE__KIND_INTEGER;
			break;
		case VERDICT_VALUE_BOOLEAN:
			message->boolean = value->as.boolean;
			message->kind_case = VERDICT__V1__VALUE__KIND_BOOLEAN;
			break;
	}
	return message;
}

static Verdict__V1__Term *
make_term(verdict_arena *arena, const verdict_term *term, const char *where, verdict_status *status)
{
	Verdict__V1__Term *message = verdict_arena_alloc(arena, sizeof(*message));

	if (message == NULL)
	{
		verdict_status_no_memory(status);
		return NULL;
	}
	verdict__v1__term__init(message);
	switch (term->kind)
	{
		case VERDICT_TERM_WILDCARD:
			break;
		case VERDICT_TERM_VALUE:
		{
			const char *problem = value_problem(&term->as.value);

			if (problem != NULL)
			{
				verdict_request_refuse(status, where, problem);
				return NULL;
			}
			message->value = make_value(arena, &term->as.value, status);
			if (message->value == NULL)
				return NULL;
			message->kind_case = VERDICT__V1__TERM__KIND_VALUE;
			break;
		}
		case VERDICT_TERM_VARIABLE:
		{
			const verdict_variable *variable = &term->as.variable;

			if (!verdict_is_identifier(variable->name, strlen(variable->name)) ||
				(variable->type[0] != '\0' &&
				 !verdict_is_identifier(variable->type, strlen(variable->type))))
			{
				verdict_request_refuse(status, where,
									   "name and type of a variable must be identifiers");
				return NULL;
			}
			message->variable = verdict_arena_alloc(arena, sizeof(*message->variable));
			if (message->variable == NULL)
			{
				verdict_status_no_memory(status);
				return NULL;
			}
			verdict__v1__variable__init(message->variable);
			message->variable->name = (char *) variable->name;
			message->variable->type = (char *) variable->type;
			message->kind_case = VERDICT__V1__TERM__KIND_VARIABLE;
			break;
		}
	}
	return message;
}

/* NULL when predicate and number of arguments are fit for a request. */
static const char *
predicate_problem(const verdict_fact *fact)
{
	if (!verdict_is_identifier(fact->predicate, strlen(fact->predicate)))
		return "the predicate must be an identifier";
	if (fact->count > VERDICT_MAX_ARGUMENTS)
		return "too many arguments";
	return NULL;
}

#define WHERE_SIZE 64

static bool
put_pattern(verdict_arena *arena, Verdict__V1__Pattern *message, const verdict_fact *pattern,
			verdict_status *status)
{
	const char *problem = predicate_problem(pattern);
	size_t i;

	verdict__v1__pattern__init(message);
	if (problem != NULL)
		return verdict_request_refuse(status, "pattern", problem);
	message->predicate = (char *) pattern->predicate;
	if (pattern->count == 0)
		return true;
	message->args = verdict_arena_alloc(arena, pattern->count * sizeof(*message->args));
	if (message->args == NULL)
		return verdict_status_no_memory(status);
	for (i = 0; i < pattern->count; i++)
	{
		char where[WHERE_SIZE];

		snprintf(where, sizeof(where), "pattern.args[%zu]", i);
		message->args[i] = make_term(arena, &pattern->args[i], where, status);
		if (message->args[i] == NULL)
			return false;
	}
	message->n_args = pattern->count;
	return true;
}

/* NULL when a fact is fit for a request; else *index is the argument's, or fact->count. */
static const char *
fact_problem(const verdict_fact *fact, size_t *index)
{
	const char *problem = predicate_problem(fact);

	*index = fact->count;
	if (problem != NULL)
		return problem;
	for (*index = 0; *index < fact->count; (*index)++)
	{
		const verdict_term *term = &fact->args[*index];

		problem = term->kind == VERDICT_TERM_VALUE
					  ? value_problem(&term->as.value)
					  : "a fact must not hold a variable or a wildcard";
		if (problem != NULL)
			return problem;
	}
	return NULL;
}

static bool
refuse_fact(verdict_status *status, const char *where, const verdict_fact *fact, size_t index,
			const char *problem)
{
	char argument[WHERE_SIZE + 32];

	if (index == fact->count)
		return verdict_request_refuse(status, where, problem);
	snprintf(argument, sizeof(argument), "%s.args[%zu]", where, index);
	return verdict_request_refuse(status, argument, problem);
}

bool
verdict_request_check_fact(const verdict_fact *fact, const char *where, verdict_status *status)
{
	size_t index;
	const char *problem = fact_problem(fact, &index);

	return problem == NULL || refuse_fact(status, where, fact, index, problem);
}

/* A fact that was checked. */
static bool
put_fact(verdict_arena *arena, Verdict__V1__Fact *message, const verdict_fact *fact,
		 verdict_status *status)
{
	size_t i;

	verdict__v1__fact__init(message);
	message->predicate = (char *) fact->predicate;
	if (fact->count == 0)
		return true;
	message->args = verdict_arena_alloc(arena, fact->count * sizeof(*message->args));
	if (message->args == NULL)
		return verdict_status_no_memory(status);
	for (i = 0; i < fact->count; i++)
	{
		message->args[i] = make_value(arena, &fact->args[i].as.value, status);
		if (message->args[i] == NULL)
			return false;
	}
	message->n_args = fact->count;
	return true;
}

bool
verdict_encode_authorize(verdict_buffer *out, verdict_wire_format format,
						 const verdict_identity *actor, const char *action,
						 const verdict_identity *resource, verdict_status *status)
{
	Verdict__V1__AuthorizeRequest request = VERDICT__V1__AUTHORIZE_REQUEST__INIT;
	Verdict__V1__Identity actor_message;
	Verdict__V1__Identity resource_message;

	if (!check_identity(actor, "actor", status) || !check_identity(resource, "resource", status))
		return false;
	if (action[0] == '\0')
		return verdict_request_refuse(status, "action", "must not be empty");
	if (!verdict_is_text(action, strlen(action)))
		return verdict_request_refuse(status, "action", "is not valid UTF-8");
	put_identity(&actor_message, actor);
	put_identity(&resource_message, resource);
	request.actor = &actor_message;
	request.action = (char *) action;
	request.resource = &resource_message;
	return write_request(out, format, &request.base, status);
}

/*
 * The arena of a request has no cap of its own: what goes into it is in
 * proportion to what the caller holds already.
 */
bool
verdict_encode_query(verdict_buffer *out, verdict_wire_format format, const verdict_fact *pattern,
					 uint32_t limit, verdict_status *status)
{
	Verdict__V1__QueryRequest request = VERDICT__V1__QUERY_REQUEST__INIT;
	Verdict__V1__Pattern pattern_message;
	verdict_arena arena;
	bool done;

	verdict_arena_init(&arena, out->host, SIZE_MAX);
	request.pattern = &pattern_message;
	request.limit = limit;
	done = put_pattern(&arena, &pattern_message, pattern, status) &&
		   write_request(out, format, &request.base, status);
	verdict_arena_free(&arena);
	return done;
}

bool
verdict_encode_list_facts(verdict_buffer *out, verdict_wire_format format,
						  const verdict_fact *pattern, uint32_t limit, const void *after,
						  size_t after_size, verdict_status *status)
{
	Verdict__V1__ListFactsRequest request = VERDICT__V1__LIST_FACTS_REQUEST__INIT;
	Verdict__V1__Pattern pattern_message = VERDICT__V1__PATTERN__INIT;
	verdict_arena arena;
	bool done;

	verdict_arena_init(&arena, out->host, SIZE_MAX);
	/* the contract: an empty predicate lists everything */
	request.pattern = &pattern_message;
	request.limit = limit;
	if (after_size > 0)
	{
		request.after.data = (uint8_t *) after;
		request.after.len = after_size;
	}
	done = (pattern == NULL || put_pattern(&arena, &pattern_message, pattern, status)) &&
		   write_request(out, format, &request.base, status);
	verdict_arena_free(&arena);
	return done;
}

bool
verdict_encode_get_policy(verdict_buffer *out, verdict_wire_format format, verdict_status *status)
{
	Verdict__V1__GetPolicyRequest request = VERDICT__V1__GET_POLICY_REQUEST__INIT;

	return write_request(out, format, &request.base, status);
}

bool
verdict_encode_fact(verdict_buffer *out, verdict_wire_format format, const verdict_fact *fact,
					verdict_status *status)
{
	Verdict__V1__InsertFactRequest request = VERDICT__V1__INSERT_FACT_REQUEST__INIT;
	Verdict__V1__Fact fact_message;
	verdict_arena arena;
	bool done;

	verdict_arena_init(&arena, out->host, SIZE_MAX);
	request.fact = &fact_message;
	done = verdict_request_check_fact(fact, "fact", status) &&
		   put_fact(&arena, &fact_message, fact, status) &&
		   write_request(out, format, &request.base, status);
	verdict_arena_free(&arena);
	return done;
}

/* Makes the name of the place only when it has to be said: triggers come here for each row. */
static bool
check_change(const verdict_change *change, size_t number, verdict_status *status)
{
	size_t index;
	const char *problem = fact_problem(&change->fact, &index);
	char where[WHERE_SIZE];

	if (problem == NULL)
		return true;
	snprintf(where, sizeof(where), "changes[%zu].%s", number, change->insert ? "insert" : "delete");
	return refuse_fact(status, where, &change->fact, index, problem);
}

static bool
put_changes(verdict_arena *arena, Verdict__V1__BatchFactsRequest *request,
			const verdict_change *changes, size_t count, verdict_status *status)
{
	Verdict__V1__FactChange *messages;
	size_t i;

	if (count == 0)
		return true;
	if (count > SIZE_MAX / sizeof(*messages))
		return verdict_status_no_memory(status);
	messages = verdict_arena_alloc(arena, count * sizeof(*messages));
	request->changes = verdict_arena_alloc(arena, count * sizeof(*request->changes));
	if (messages == NULL || request->changes == NULL)
		return verdict_status_no_memory(status);
	for (i = 0; i < count; i++)
	{
		const verdict_change *change = &changes[i];
		Verdict__V1__Fact *fact = verdict_arena_alloc(arena, sizeof(*fact));

		if (fact == NULL)
			return verdict_status_no_memory(status);
		if (!put_fact(arena, fact, &change->fact, status))
			return false;
		verdict__v1__fact_change__init(&messages[i]);
		if (change->insert)
		{
			messages[i].change_case = VERDICT__V1__FACT_CHANGE__CHANGE_INSERT;
			messages[i].insert = fact;
		}
		else
		{
			messages[i].change_case = VERDICT__V1__FACT_CHANGE__CHANGE_DELETE;
			messages[i].delete_ = fact;
		}
		request->changes[i] = &messages[i];
	}
	request->n_changes = count;
	return true;
}

bool
verdict_encode_batch(verdict_buffer *out, verdict_wire_format format, const verdict_change *changes,
					 size_t count, verdict_status *status)
{
	Verdict__V1__BatchFactsRequest request = VERDICT__V1__BATCH_FACTS_REQUEST__INIT;
	verdict_arena arena;
	size_t i;
	bool done;

	for (i = 0; i < count; i++)
	{
		if (!check_change(&changes[i], i, status))
			return false;
	}
	if (format == VERDICT_WIRE_BINARY)
		return verdict_request_put_changes(out, changes, count, status);

	verdict_arena_init(&arena, out->host, SIZE_MAX);
	done = put_changes(&arena, &request, changes, count, status) &&
		   write_request(out, format, &request.base, status);
	verdict_arena_free(&arena);
	return done;
}

bool
verdict_encode_set_policy(verdict_buffer *out, verdict_wire_format format, const char *policy,
						  verdict_status *status)
{
	Verdict__V1__SetPolicyRequest request = VERDICT__V1__SET_POLICY_REQUEST__INIT;

	if (!verdict_is_text(policy, strlen(policy)))
		return verdict_request_refuse(status, "policy", "is not valid UTF-8");
	request.policy = (char *) policy;
	return write_request(out, format, &request.base, status);
}

/* ---------- answers ---------- */

size_t
verdict_answer_memory(size_t size)
{
	if (size > (SIZE_MAX - ANSWER_MEMORY_FLOOR) / ANSWER_MEMORY_FACTOR)
		return SIZE_MAX;
	return ANSWER_MEMORY_FLOOR + ANSWER_MEMORY_FACTOR * size;
}

bool
verdict_answer_refuse(verdict_status *status, const char *format, ...)
{
	char text[VERDICT_MESSAGE_SIZE];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return verdict_status_fail(status, VERDICT_INTERNAL, VERDICT_CAUSE_ANSWER,
							   "the answer does not decode: %s", text);
}

ProtobufCMessage *
verdict_answer_decode(verdict_arena *arena, verdict_wire_format format,
					  const ProtobufCMessageDescriptor *descriptor, const void *bytes, size_t size,
					  const char *where, verdict_status *status)
{
	ProtobufCMessage *message;

	if (format == VERDICT_WIRE_JSON && size > 0)
		message = verdict_message_from_json(arena, descriptor, bytes, size, true, status);
	else
		message = verdict_message_from_binary(arena, descriptor, bytes, size, status);
	/* The instance is to blame for it, not the caller. */
	if (message == NULL && status->code == VERDICT_INVALID_ARGUMENT)
		verdict_answer_refuse(status, "%s%s%s", where, where[0] == '\0' ? "" : ": ",
							  status->message);
	return message;
}

bool
verdict_answer_value(const Verdict__V1__Value *value, verdict_value *result, const char *where,
					 size_t index, verdict_status *status)
{
	memset(result, 0, sizeof(*result));
	switch (value->kind_case)
	{
		case VERDICT__V1__VALUE__KIND__NOT_SET:
			/* The readers of both formats refuse an unknown kind before this. */
			result->kind = VERDICT_VALUE_ANY;
			return true;
		case VERDICT__V1__VALUE__KIND_IDENTITY:
			if (!verdict_is_identifier(value->identity->type, strlen(value->identity->type)) ||
				value->identity->id[0] == '\0')
				return verdict_answer_refuse(status, "%s[%zu]: malformed identity", where, index);
			result->kind = VERDICT_VALUE_IDENTITY;
			result->as.identity.type = value->identity->type;
			result->as.identity.id = value->identity->id;
			return true;
		case VERDICT__V1__VALUE__KIND_STRING:
			result->kind = VERDICT_VALUE_STRING;
			result->as.string = value->string;
			return true;
		case VERDICT__V1__VALUE__KIND_INTEGER:
			result->kind = VERDICT_VALUE_INTEGER;
			result->as.integer = value->integer;
			return true;
		case VERDICT__V1__VALUE__KIND_BOOLEAN:
			result->kind = VERDICT_VALUE_BOOLEAN;
			result->as.boolean = value->boolean != 0;
			return true;
		default:
			return verdict_answer_refuse(status, "%s[%zu]: unknown kind of value", where, index);
	}
}

bool
verdict_decode_authorize(const verdict_host *host, verdict_wire_format format, const void *body,
						 size_t size, bool *allowed, verdict_status *status)
{
	const Verdict__V1__AuthorizeResponse *response;
	verdict_arena arena;

	*allowed = false;
	verdict_arena_init(&arena, host, verdict_answer_memory(size));
	response = (void *) verdict_answer_decode(
		&arena, format, &verdict__v1__authorize_response__descriptor, body, size, "", status);
	if (response != NULL)
		*allowed = response->allowed != 0;
	verdict_arena_free(&arena);
	return response != NULL;
}

bool
verdict_decode_changed(const verdict_host *host, verdict_wire_format format, const void *body,
					   size_t size, bool *changed, verdict_status *status)
{
	const Verdict__V1__InsertFactResponse *response;
	verdict_arena arena;

	*changed = false;
	verdict_arena_init(&arena, host, verdict_answer_memory(size));
	response = (void *) verdict_answer_decode(
		&arena, format, &verdict__v1__insert_fact_response__descriptor, body, size, "", status);
	if (response != NULL)
		*changed = response->changed != 0;
	verdict_arena_free(&arena);
	return response != NULL;
}

bool
verdict_decode_batch(const verdict_host *host, verdict_wire_format format, const void *body,
					 size_t size, uint32_t *changed, verdict_status *status)
{
	const Verdict__V1__BatchFactsResponse *response;
	verdict_arena arena;

	*changed = 0;
	verdict_arena_init(&arena, host, verdict_answer_memory(size));
	response = (void *) verdict_answer_decode(
		&arena, format, &verdict__v1__batch_facts_response__descriptor, body, size, "", status);
	if (response != NULL)
		*changed = response->changed;
	verdict_arena_free(&arena);
	return response != NULL;
}

bool
verdict_decode_get_policy(verdict_arena *arena, verdict_wire_format format, const void *body,
						  size_t size, const char **policy, verdict_status *status)
{
	const Verdict__V1__GetPolicyResponse *response;

	*policy = NULL;
	response = (void *) verdict_answer_decode(
		arena, format, &verdict__v1__get_policy_response__descriptor, body, size, "", status);
	if (response == NULL)
		return false;
	*policy = response->policy;
	return true;
}

bool
verdict_decode_set_policy(const verdict_host *host, verdict_wire_format format, const void *body,
						  size_t size, verdict_status *status)
{
	const ProtobufCMessage *response;
	verdict_arena arena;

	verdict_arena_init(&arena, host, verdict_answer_memory(size));
	response = verdict_answer_decode(&arena, format, &verdict__v1__set_policy_response__descriptor,
									 body, size, "", status);
	verdict_arena_free(&arena);
	return response != NULL;
}
