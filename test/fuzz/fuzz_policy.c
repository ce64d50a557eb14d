/*
 * fuzz_policy.c
 *		The text of a policy out of hostile bytes.
 *
 * What is refused is refused with a place in the text.  What is accepted keeps
 * the promises that the evaluation relies on: a negated predicate lies in a lower
 * stratum, and nothing points outside of its rule.
 *
 * Fuzz targets link the client core only, so the sources of the language are
 * part of this one.
 */
#include "../server/policy_check.c"
#include "../server/policy_lexer.c"
#include "../server/policy_parser.c"
#include "../server/pool.c"
#include "../server/text.c"

#include "check.h"

extern int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_term(const policy_rule *rule, const policy_term *term)
{
	check(term->place.line > 0 && term->place.column > 0);
	if (term->kind == POLICY_VARIABLE)
		check(term->variable >= 0 && term->variable < rule->variable_count);
	if (term->kind == POLICY_CONSTANT && term->constant.kind <= STORE_STRING)
		check(text_is_utf8(term->constant.text, strlen(term->constant.text)));
}

static void
check_atom(const policy *policy, const policy_rule *rule, const policy_atom *atom)
{
	check(policy_find(policy, atom->predicate->name, atom->predicate->arity) == atom->predicate);
	check(atom->predicate->stratum < policy->strata);
	for (int i = 0; i < atom->predicate->arity; i++)
		check_term(rule, &atom->args[i]);
}

static void
check_rule_promises(const policy *policy, const policy_rule *rule)
{
	const policy_predicate *head = rule->head.predicate;

	check_atom(policy, rule, &rule->head);
	for (int i = 0; i < rule->condition_count; i++)
	{
		const policy_condition *condition = &rule->conditions[i];

		if (condition->kind == POLICY_COMPARES)
		{
			check_term(rule, &condition->left);
			check_term(rule, &condition->right);
			continue;
		}
		check_atom(policy, rule, &condition->atom);
		if (condition->kind == POLICY_HOLDS_NOT)
			check(condition->atom.predicate->stratum < head->stratum);
		else
			check(condition->atom.predicate->stratum <= head->stratum);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	engine_error error = {0};
	policy *policy = policy_parse((const char *) data, size, &error);
	int rules = 0;

	if (policy == NULL)
	{
		int line;
		int column;

		check(error.code == ENGINE_INVALID_ARGUMENT);
		check(text_is_utf8(error.message, strlen(error.message)));
		if (size <= POLICY_MAX_BYTES)
			check(sscanf(error.message, "line %d column %d: ", &line, &column) == 2);
		return 0;
	}
	for (int i = 0; i < policy->rule_count; i++)
		check_rule_promises(policy, policy->rules[i]);
	/* Every rule is found from its predicate, once. */
	for (int i = 0; i < policy->predicate_count; i++)
	{
		for (const policy_rule *rule = policy->predicates[i]->rules; rule != NULL;
			 rule = rule->next)
			rules++;
	}
	check(rules == policy->rule_count);
	policy_free(policy);
	return 0;
}
