/*
 * policy_link.c
 *		From the constants, types and predicates of a parsed policy to their
 *		numbers in the store, which is all that the evaluation compares.
 */
#include "policy.h"

static bool
link_type(store *store, const char *type, value_id *id, engine_error *error)
{
	*id = VALUE_ANY;
	return type == NULL || store_find_type(store, type, true, id, error);
}

static bool
link_term(store *store, policy_term *term, engine_error *error)
{
	switch (term->kind)
	{
		case POLICY_WILDCARD:
			return link_type(store, term->type, &term->id, error);
		case POLICY_CONSTANT:
			return store_find_value(store, &term->constant, true, &term->id, error);
		case POLICY_VARIABLE:
			break;
	}
	return true;
}

static bool
link_atom(store *store, policy_atom *atom, engine_error *error)
{
	for (int i = 0; i < atom->predicate->arity; i++)
	{
		if (!link_term(store, &atom->args[i], error))
			return false;
	}
	return true;
}

static bool
link_rule(store *store, policy_rule *rule, engine_error *error)
{
	if (!link_atom(store, &rule->head, error))
		return false;
	for (int i = 0; i < rule->condition_count; i++)
	{
		policy_condition *condition = &rule->conditions[i];

		if (condition->kind == POLICY_COMPARES ? !link_term(store, &condition->left, error) ||
													 !link_term(store, &condition->right, error)
											   : !link_atom(store, &condition->atom, error))
			return false;
	}
	for (int i = 0; i < rule->variable_count; i++)
	{
		if (!link_type(store, rule->variables[i].type, &rule->variables[i].id, error))
			return false;
	}
	return true;
}

bool
policy_link(policy *policy, store *store, engine_error *error)
{
	for (int i = 0; i < policy->predicate_count; i++)
	{
		policy_predicate *predicate = policy->predicates[i];

		predicate->relation = store_relation(store, predicate->name, predicate->arity, true);
	}
	for (int i = 0; i < policy->rule_count; i++)
	{
		if (!link_rule(store, policy->rules[i], error))
			return false;
	}
	return true;
}
