/*
 * engine_wire.c
 *		Between the messages of the wire and the numbers of the store.
 *
 * Everything that a request can get wrong in a value, fact or pattern is found
 * here, before anything is looked up or changed.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine_internal.h"
#include "text.h"

/* Puts the path into the text, as far as there is room; returns what is used. */
static size_t
print_place(const wire_place *place, char *text, size_t size)
{
	size_t used = place->of != NULL ? print_place(place->of, text, size) : 0;
	int more;

	if (used >= size)
		return used;
	more = place->index < 0
			   ? snprintf(text + used, size - used, "%s%s", used > 0 ? "." : "", place->name)
			   : snprintf(text + used, size - used, "%s%s[%" PRId64 "]", used > 0 ? "." : "",
						  place->name, place->index);
	return used + (size_t) more;
}

bool
wire_fail(engine_error *error, const wire_place *place, const char *format, ...)
{
	char path[128];
	char message[sizeof(error->message)];
	va_list arguments;

	print_place(place, path, sizeof(path));
	va_start(arguments, format);
	vsnprintf(message, sizeof(message), format, arguments);
	va_end(arguments);
	return engine_fail(error, ENGINE_INVALID_ARGUMENT, "%s: %s", path, message);
}

static bool
check_text(const char *text, const wire_place *place, engine_error *error)
{
	if (text_is_utf8(text, strlen(text)))
		return true;
	return wire_fail(error, place, "the text is not valid UTF-8");
}

bool
wire_check_identifier(const char *text, const wire_place *place, engine_error *error)
{
	if (text_is_identifier(text, strlen(text)))
		return true;
	if (text[0] == '\0')
		return wire_fail(error, place, "is empty");
	return wire_fail(error, place,
					 "\"%.40s\" is not an identifier (letters, digits and underscores, at most %d)",
					 text, TEXT_MAX_IDENTIFIER);
}

bool
wire_check_allow(const char *predicate, size_t count, const wire_place *place, engine_error *error)
{
	if (strcmp(predicate, "allow") != 0 || count == 3)
		return true;
	return wire_fail(error, WIRE_PLACE(place, "args"),
					 "allow takes 3 arguments (actor, action, resource), not %zu", count);
}

bool
wire_identity(engine *engine, const Verdict__V1__Identity *identity, const wire_place *place,
			  bool add, value_id *id, engine_error *error)
{
	store_value value = {0};

	if (identity == NULL)
		return wire_fail(error, place, "is missing");
	if (!wire_check_identifier(identity->type, WIRE_PLACE(place, "type"), error))
		return false;
	if (identity->id[0] == '\0')
		return wire_fail(error, WIRE_PLACE(place, "id"), "is empty");
	if (!check_text(identity->id, WIRE_PLACE(place, "id"), error))
		return false;
	value.kind = STORE_IDENTITY;
	value.type = identity->type;
	value.text = identity->id;
	return store_find_value(engine->store, &value, add, id, error);
}

bool
wire_text(engine *engine, const char *text, const wire_place *place, bool add, value_id *id,
		  engine_error *error)
{
	store_value value = {0};

	value.kind = STORE_STRING;
	value.text = text;
	return check_text(text, place, error) &&
		   store_find_value(engine->store, &value, add, id, error);
}

static bool
wire_value(engine *engine, const Verdict__V1__Value *wire, const wire_place *place, bool add,
		   value_id *id, engine_error *error)
{
	store_value value = {0};

	switch (wire == NULL ? VERDICT__V1__VALUE__KIND__NOT_SET : wire->kind_case)
	{
		case VERDICT__V1__VALUE__KIND_IDENTITY:
			return wire_identity(engine, wire->identity, WIRE_PLACE(place, "identity"), add, id,
								 error);
		case VERDICT__V1__VALUE__KIND_STRING:
			return wire_text(engine, wire->string, WIRE_PLACE(place, "string"), add, id, error);
		case VERDICT__V1__VALUE__KIND_INTEGER:
			value.kind = STORE_INTEGER;
			value.integer = wire->integer;
			return store_find_value(engine->store, &value, add, id, error);
		case VERDICT__V1__VALUE__KIND_BOOLEAN:
			value.kind = STORE_BOOLEAN;
			value.integer = wire->boolean ? 1 : 0;
			return store_find_value(engine->store, &value, add, id, error);
		default:
			return wire_fail(error, place, "the value is not set");
	}
}

bool
wire_read_fact(engine *engine, const Verdict__V1__Fact *fact, const wire_place *place, bool add,
			   wire_fact *result, engine_error *error)
{
	if (fact == NULL)
		return wire_fail(error, place, "is missing");
	if (!wire_check_identifier(fact->predicate, WIRE_PLACE(place, "predicate"), error))
		return false;
	if (strcmp(fact->predicate, "allow") == 0)
		return wire_fail(error, WIRE_PLACE(place, "predicate"),
						 "\"allow\" follows from the policy and is never stored as a fact");
	if (fact->n_args > STORE_MAX_ARGUMENTS)
		return wire_fail(error, WIRE_PLACE(place, "args"), "%zu arguments, at most %d are possible",
						 fact->n_args, STORE_MAX_ARGUMENTS);
	for (size_t i = 0; i < fact->n_args; i++)
	{
		wire_place argument = {place, "args", (int64_t) i};

		if (!wire_value(engine, fact->args[i], &argument, add, &result->args[i], error))
			return false;
	}
	result->relation = store_relation(engine->store, fact->predicate, (int) fact->n_args, add);
	return true;
}

static bool
read_variable(engine *engine, const Verdict__V1__Variable *variable, const wire_place *place,
			  int argument, wire_pattern *result, engine_error *error)
{
	const wire_place *part = WIRE_PLACE(place, "variable");
	value_id type = VALUE_ANY;
	value_id met;
	int i = 0;

	if (variable == NULL)
		return wire_fail(error, place, "is missing");
	if (!wire_check_identifier(variable->name, WIRE_PLACE(part, "name"), error))
		return false;
	if (variable->type[0] != '\0' &&
		(!wire_check_identifier(variable->type, WIRE_PLACE(part, "type"), error) ||
		 !store_find_type(engine->store, variable->type, false, &type, error)))
		return false;
	while (i < result->variable_count && strcmp(result->names[i], variable->name) != 0)
		i++;
	if (i == result->variable_count)
	{
		result->names[i] = variable->name;
		result->types[i] = VALUE_ANY;
		result->first[i] = argument;
		result->variable_count++;
	}
	result->variable[argument] = i;
	met = value_meet(result->types[i], type);
	if (met == VALUE_NONE)
		result->impossible = true;
	else
		result->types[i] = met;
	return true;
}

bool
wire_read_pattern(engine *engine, const Verdict__V1__Pattern *pattern, wire_pattern *result,
				  engine_error *error)
{
	memset(result, 0, sizeof(*result));
	if (pattern->n_args > STORE_MAX_ARGUMENTS)
		return engine_fail(error, ENGINE_INVALID_ARGUMENT,
						   "pattern.args: %zu arguments, at most %d are possible", pattern->n_args,
						   STORE_MAX_ARGUMENTS);
	result->predicate = pattern->predicate;
	result->count = (int) pattern->n_args;
	for (int i = 0; i < result->count; i++)
	{
		const Verdict__V1__Term *term = pattern->args[i];
		wire_place part = {NULL, "pattern.args", i};

		result->goal[i] = VALUE_ANY;
		result->variable[i] = -1;
		switch (term->kind_case)
		{
			case VERDICT__V1__TERM__KIND_VALUE:
				if (!wire_value(engine, term->value, &part, false, &result->goal[i], error))
					return false;
				break;
			case VERDICT__V1__TERM__KIND_VARIABLE:
				if (!read_variable(engine, term->variable, &part, i, result, error))
					return false;
				break;
			default:
				break;
		}
	}
	return true;
}

bool
wire_match(const wire_pattern *pattern, const value_id *fact, value_id *values)
{
	for (int i = 0; i < pattern->variable_count; i++)
		values[i] = pattern->types[i];
	for (int i = 0; i < pattern->count; i++)
	{
		int variable = pattern->variable[i];

		if (variable < 0)
			continue;
		values[variable] = value_meet(values[variable], fact[i]);
		if (values[variable] == VALUE_NONE)
			return false;
	}
	return true;
}

/* From a pool there is nothing to free by itself, and a text may be there already. */
static void *
take(pool *memory, size_t size)
{
	return memory != NULL ? pool_alloc(memory, size) : memory_alloc(size);
}

static char *
take_text(pool *memory, const char *text)
{
	return memory != NULL ? (char *) text : memory_copy(text);
}

Verdict__V1__Value *
wire_value_new(engine *engine, value_id id, pool *memory, engine_error *error)
{
	Verdict__V1__Value *wire = take(memory, sizeof(*wire));
	store_value value;

	verdict__v1__value__init(wire);
	if (value_is_any(id))
		return wire;
	if (!store_get_value(engine->store, id, memory != NULL ? memory : &engine->pool, &value, error))
	{
		if (memory == NULL)
			free(wire);
		return NULL;
	}
	switch (value.kind)
	{
		case STORE_IDENTITY:
			wire->kind_case = VERDICT__V1__VALUE__KIND_IDENTITY;
			wire->identity = take(memory, sizeof(*wire->identity));
			verdict__v1__identity__init(wire->identity);
			wire->identity->type = take_text(memory, value.type);
			wire->identity->id = take_text(memory, value.text);
			break;
		case STORE_STRING:
			wire->kind_case = VERDICT__V1__VALUE__KIND_STRING;
			wire->string = take_text(memory, value.text);
			break;
		case STORE_INTEGER:
			wire->kind_case = VERDICT__V1__VALUE__KIND_INTEGER;
			wire->integer = value.integer;
			break;
		case STORE_BOOLEAN:
			wire->kind_case = VERDICT__V1__VALUE__KIND_BOOLEAN;
			wire->boolean = value.integer != 0;
			break;
	}
	return wire;
}
