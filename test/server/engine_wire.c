/*
 * engine_wire.c
 *		Between the messages of the wire and the numbers of the store.
 *
 * Everything that a request can get wrong in a value, fact or pattern is found
 * here, before anything is looked up or changed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine_internal.h"
#include "text.h"

static bool
check_text(const char *text, const char *place, engine_error *error)
{
	if (text_is_utf8(text, strlen(text)))
		return true;
	return engine_fail(error, ENGINE_INVALID_ARGUMENT, "%s: the text is not valid UTF-8", place);
}

bool
wire_check_identifier(const char *text, const char *place, engine_error *error)
{
	if (text_is_identifier(text, strlen(text)))
		return true;
	if (text[0] == '\0')
		return engine_fail(error, ENGINE_INVALID_ARGUMENT, "%s: is empty", place);
	return engine_fail(
		error, ENGINE_INVALID_ARGUMENT,
		"%s: \"%.40s\" is not an identifier (letters, digits and underscores, at most %d)", place,
		text, TEXT_MAX_IDENTIFIER);
}

bool
wire_check_allow(const char *predicate, size_t count, const char *place, engine_error *error)
{
	if (strcmp(predicate, "allow") != 0 || count == 3)
		return true;
	return engine_fail(error, ENGINE_INVALID_ARGUMENT,
					   "%s.args: allow takes 3 arguments (actor, action, resource), not %zu", place,
					   count);
}

bool
wire_identity(engine *engine, const Verdict__V1__Identity *identity, const char *place, bool add,
			  value_id *id, engine_error *error)
{
	store_value value = {0};
	char part[PLACE_SIZE];

	if (identity == NULL)
		return engine_fail(error, ENGINE_INVALID_ARGUMENT, "%s: is missing", place);
	snprintf(part, sizeof(part), "%s.type", place);
	if (!wire_check_identifier(identity->type, part, error))
		return false;
	snprintf(part, sizeof(part), "%s.id", place);
	if (identity->id[0] == '\0')
		return engine_fail(error, ENGINE_INVALID_ARGUMENT, "%s: is empty", part);
	if (!check_text(identity->id, part, error))
		return false;
	value.kind = STORE_IDENTITY;
	value.type = identity->type;
	value.text = identity->id;
	return store_find_value(engine->store, &value, add, id, error);
}

bool
wire_text(engine *engine, const char *text, const char *place, bool add, value_id *id,
		  engine_error *error)
{
	store_value value = {0};

	value.kind = STORE_STRING;
	value.text = text;
	return check_text(text, place, error) &&
		   store_find_value(engine->store, &value, add, id, error);
}

static bool
wire_value(engine *engine, const Verdict__V1__Value *wire, const char *place, bool add,
		   value_id *id, engine_error *error)
{
	store_value value = {0};
	char part[PLACE_SIZE];

	switch (wire == NULL ? VERDICT__V1__VALUE__KIND__NOT_SET : wire->kind_case)
	{
		case VERDICT__V1__VALUE__KIND_IDENTITY:
			snprintf(part, sizeof(part), "%s.identity", place);
			return wire_identity(engine, wire->identity, part, add, id, error);
		case VERDICT__V1__VALUE__KIND_STRING:
			snprintf(part, sizeof(part), "%s.string", place);
			return wire_text(engine, wire->string, part, add, id, error);
		case VERDICT__V1__VALUE__KIND_INTEGER:
			value.kind = STORE_INTEGER;
			value.integer = wire->integer;
			return store_find_value(engine->store, &value, add, id, error);
		case VERDICT__V1__VALUE__KIND_BOOLEAN:
			value.kind = STORE_BOOLEAN;
			value.integer = wire->boolean ? 1 : 0;
			return store_find_value(engine->store, &value, add, id, error);
		default:
			return engine_fail(error, ENGINE_INVALID_ARGUMENT, "%s: the value is not set", place);
	}
}

bool
wire_read_fact(engine *engine, const Verdict__V1__Fact *fact, const char *place, bool add,
			   wire_fact *result, engine_error *error)
{
	char part[PLACE_SIZE];

	if (fact == NULL)
		return engine_fail(error, ENGINE_INVALID_ARGUMENT, "%s: is missing", place);
	snprintf(part, sizeof(part), "%s.predicate", place);
	if (!wire_check_identifier(fact->predicate, part, error))
		return false;
	if (strcmp(fact->predicate, "allow") == 0)
		return engine_fail(error, ENGINE_INVALID_ARGUMENT,
						   "%s: \"allow\" follows from the policy and is never stored as a fact",
						   part);
	if (fact->n_args > STORE_MAX_ARGUMENTS)
		return engine_fail(error, ENGINE_INVALID_ARGUMENT,
						   "%s.args: %zu arguments, at most %d are possible", place, fact->n_args,
						   STORE_MAX_ARGUMENTS);
	for (size_t i = 0; i < fact->n_args; i++)
	{
		snprintf(part, sizeof(part), "%s.args[%zu]", place, i);
		if (!wire_value(engine, fact->args[i], part, add, &result->args[i], error))
			return false;
	}
	result->relation = store_relation(engine->store, fact->predicate, (int) fact->n_args, add);
	return true;
}

static bool
read_variable(engine *engine, const Verdict__V1__Variable *variable, const char *place,
			  int argument, wire_pattern *result, engine_error *error)
{
	char part[PLACE_SIZE + 16];
	value_id type = VALUE_ANY;
	value_id met;
	int i = 0;

	if (variable == NULL)
		return engine_fail(error, ENGINE_INVALID_ARGUMENT, "%s: is missing", place);
	snprintf(part, sizeof(part), "%s.variable.name", place);
	if (!wire_check_identifier(variable->name, part, error))
		return false;
	snprintf(part, sizeof(part), "%s.variable.type", place);
	if (variable->type[0] != '\0' &&
		(!wire_check_identifier(variable->type, part, error) ||
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
	char part[PLACE_SIZE];

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

		snprintf(part, sizeof(part), "pattern.args[%d]", i);
		result->goal[i] = VALUE_ANY;
		result->variable[i] = -1;
		switch (term->kind_case)
		{
			case VERDICT__V1__TERM__KIND_VALUE:
				if (!wire_value(engine, term->value, part, false, &result->goal[i], error))
					return false;
				break;
			case VERDICT__V1__TERM__KIND_VARIABLE:
				if (!read_variable(engine, term->variable, part, i, result, error))
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

Verdict__V1__Value *
wire_value_new(engine *engine, value_id id, engine_error *error)
{
	Verdict__V1__Value *wire = memory_alloc(sizeof(*wire));
	store_value value;

	verdict__v1__value__init(wire);
	if (value_is_any(id))
		return wire;
	if (!store_get_value(engine->store, id, &engine->pool, &value, error))
	{
		free(wire);
		return NULL;
	}
	switch (value.kind)
	{
		case STORE_IDENTITY:
			wire->kind_case = VERDICT__V1__VALUE__KIND_IDENTITY;
			wire->identity = memory_alloc(sizeof(*wire->identity));
			verdict__v1__identity__init(wire->identity);
			wire->identity->type = memory_copy(value.type);
			wire->identity->id = memory_copy(value.text);
			break;
		case STORE_STRING:
			wire->kind_case = VERDICT__V1__VALUE__KIND_STRING;
			wire->string = memory_copy(value.text);
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
