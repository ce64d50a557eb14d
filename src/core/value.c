/*
 * value.c
 *		What holds of values and facts whatever their text or wire form.
 */
#include "value.h"

#include <string.h>

bool
verdict_fact_is_ground(const verdict_fact *fact)
{
	size_t i;

	for (i = 0; i < fact->count; i++)
	{
		if (fact->args[i].kind != VERDICT_TERM_VALUE)
			return false;
	}
	return true;
}

bool
verdict_value_equal(const verdict_value *left, const verdict_value *right)
{
	if (left->kind != right->kind)
		return false;
	switch (left->kind)
	{
		case VERDICT_VALUE_ANY:
			return true;
		case VERDICT_VALUE_IDENTITY:
			return strcmp(left->as.identity.type, right->as.identity.type) == 0 &&
				   strcmp(left->as.identity.id, right->as.identity.id) == 0;
		case VERDICT_VALUE_STRING:
			return strcmp(left->as.string, right->as.string) == 0;
		case VERDICT_VALUE_INTEGER:
			return left->as.integer == right->as.integer;
		case VERDICT_VALUE_BOOLEAN:
			return left->as.boolean == right->as.boolean;
	}
	return false;
}
