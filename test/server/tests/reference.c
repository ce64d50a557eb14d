/*
 * reference.c
 *		See reference.h.  As plain as can be: every fact is tried for every
 *		condition, every value for every variable, until nothing new follows.
 */
#include "reference.h"

#include <stdlib.h>
#include <string.h>

const domain_value domain[DOMAIN] = {
	{"User:a", "User:\"a\"", "User", {STORE_IDENTITY, "User", "a", 0}},
	{"User:b", "User:\"b\"", "User", {STORE_IDENTITY, "User", "b", 0}},
	{"Team:a", "Team:\"a\"", "Team", {STORE_IDENTITY, "Team", "a", 0}},
	{"1", "1", "", {STORE_INTEGER, NULL, NULL, 1}},
	{"2", "2", "", {STORE_INTEGER, NULL, NULL, 2}},
	{"\"x\"", "\"x\"", "", {STORE_STRING, NULL, "x", 0}},
	{"User:f", NULL, "User", {STORE_IDENTITY, "User", "f", 0}},
	{"Team:f", NULL, "Team", {STORE_IDENTITY, "Team", "f", 0}},
	{"Other:f", NULL, "Other", {STORE_IDENTITY, "Other", "f", 0}},
	{"9000000000000000000", NULL, "", {STORE_INTEGER, NULL, NULL, INT64_C(9000000000000000000)}},
	{"true", NULL, "", {STORE_BOOLEAN, NULL, NULL, 1}},
};

const reference_predicate predicates[PREDICATES] = {
	{"e", 1, false}, {"f", 2, false}, {"g", 2, false}, {"h", 3, false},	  {"p", 1, true},
	{"s", 1, true},	 {"q", 2, true},  {"r", 2, true},  {"allow", 3, true}};

bool stored[PREDICATES][LARGEST];
bool truth[PREDICATES][LARGEST];

int
table_size(int predicate)
{
	int size = 1;

	for (int i = 0; i < predicates[predicate].arity; i++)
		size *= DOMAIN;
	return size;
}

void
split_index(int index, int arity, int *args)
{
	for (int i = 0; i < arity; i++)
	{
		args[i] = index % DOMAIN;
		index /= DOMAIN;
	}
}

int
join_index(int arity, const int *args)
{
	int index = 0;

	for (int i = arity - 1; i >= 0; i--)
		index = index * DOMAIN + args[i];
	return index;
}

static int
predicate_number(const policy_predicate *predicate)
{
	int i = 0;

	while (strcmp(predicates[i].name, predicate->name) != 0 ||
		   predicates[i].arity != predicate->arity)
		i++;
	return i;
}

bool
has_type(int value, const char *type)
{
	return type == NULL || strcmp(domain[value].type, type) == 0;
}

static int
constant_number(const policy_term *term)
{
	int i = 0;

	while (
		domain[i].value.kind != term->constant.kind ||
		domain[i].value.integer != term->constant.integer ||
		(term->constant.kind <= STORE_STRING &&
		 strcmp(domain[i].value.text, term->constant.text) != 0) ||
		(term->constant.kind == STORE_IDENTITY && strcmp(domain[i].type, term->constant.type) != 0))
		i++;
	return i;
}

/* Lets a term be a value; false when it cannot be. */
static bool
assign(const policy_rule *rule, const policy_term *term, int value, int *values)
{
	switch (term->kind)
	{
		case POLICY_WILDCARD:
			return has_type(value, term->type);
		case POLICY_CONSTANT:
			return constant_number(term) == value;
		default:
			if (values[term->variable] >= 0)
				return values[term->variable] == value;
			values[term->variable] = value;
			return has_type(value, rule->variables[term->variable].type);
	}
}

static bool
compares(const policy_condition *condition, const int *values)
{
	int left = condition->left.kind == POLICY_CONSTANT ? constant_number(&condition->left)
													   : values[condition->left.variable];
	int right = condition->right.kind == POLICY_CONSTANT ? constant_number(&condition->right)
														 : values[condition->right.variable];
	int64_t a = domain[left].value.integer;
	int64_t b = domain[right].value.integer;

	if (condition->comparison == POLICY_EQUAL)
		return left == right;
	if (condition->comparison == POLICY_NOT_EQUAL)
		return left != right;
	if (domain[left].value.kind != STORE_INTEGER || domain[right].value.kind != STORE_INTEGER)
		return false;
	switch (condition->comparison)
	{
		case POLICY_LESS:
			return a < b;
		case POLICY_LESS_EQUAL:
			return a <= b;
		case POLICY_GREATER:
			return a > b;
		default:
			return a >= b;
	}
}

/* Whether some fact of the atom agrees with the values. */
static bool
holds(const policy_rule *rule, const policy_atom *atom, const int *values)
{
	int number = predicate_number(atom->predicate);

	for (int index = 0; index < table_size(number); index++)
	{
		int args[3];
		int copy[4];
		bool agrees = truth[number][index];

		memcpy(copy, values, sizeof(copy));
		split_index(index, atom->predicate->arity, args);
		for (int i = 0; agrees && i < atom->predicate->arity; i++)
			agrees = assign(rule, &atom->args[i], args[i], copy);
		if (agrees)
			return true;
	}
	return false;
}

/* All variables have values: adds what the head says. */
static bool
finish(const policy_rule *rule, const int *values)
{
	int number = predicate_number(rule->head.predicate);
	bool added = false;

	for (int i = 0; i < rule->condition_count; i++)
	{
		const policy_condition *condition = &rule->conditions[i];

		if ((condition->kind == POLICY_COMPARES && !compares(condition, values)) ||
			(condition->kind == POLICY_HOLDS_NOT && holds(rule, &condition->atom, values)))
			return false;
	}
	for (int index = 0; index < table_size(number); index++)
	{
		int args[3];
		int copy[4];
		bool agrees = !truth[number][index];

		memcpy(copy, values, sizeof(copy));
		split_index(index, rule->head.predicate->arity, args);
		for (int i = 0; agrees && i < rule->head.predicate->arity; i++)
			agrees = assign(rule, &rule->head.args[i], args[i], copy);
		if (agrees)
			truth[number][index] = added = true;
	}
	return added;
}

/* Tries every fact for the positive conditions from the given one on. */
static bool
solve(const policy_rule *rule, int condition, const int *values)
{
	const policy_atom *atom;
	bool added = false;
	int number;

	while (condition < rule->condition_count && rule->conditions[condition].kind != POLICY_HOLDS)
		condition++;
	if (condition == rule->condition_count)
	{
		for (int i = 0; i < rule->variable_count; i++)
		{
			if (values[i] >= 0)
				continue;
			for (int value = 0; value < DOMAIN; value++)
			{
				int copy[4];

				memcpy(copy, values, sizeof(copy));
				copy[i] = value;
				if (has_type(value, rule->variables[i].type))
					added = solve(rule, condition, copy) || added;
			}
			return added;
		}
		return finish(rule, values);
	}
	atom = &rule->conditions[condition].atom;
	number = predicate_number(atom->predicate);
	for (int index = 0; index < table_size(number); index++)
	{
		int args[3];
		int copy[4];
		bool agrees = truth[number][index];

		if (!agrees)
			continue;
		memcpy(copy, values, sizeof(copy));
		split_index(index, atom->predicate->arity, args);
		for (int i = 0; agrees && i < atom->predicate->arity; i++)
			agrees = assign(rule, &atom->args[i], args[i], copy);
		if (agrees)
			added = solve(rule, condition + 1, copy) || added;
	}
	return added;
}

void
reference_evaluate(const policy *policy)
{
	int stratum[PREDICATES] = {0};
	bool again = true;

	/* The accepted policy is stratified, so this ends. */
	while (again)
	{
		again = false;
		for (int i = 0; i < policy->rule_count; i++)
		{
			const policy_rule *rule = policy->rules[i];
			int *own = &stratum[predicate_number(rule->head.predicate)];

			for (int j = 0; j < rule->condition_count; j++)
			{
				const policy_condition *condition = &rule->conditions[j];
				int least;

				if (condition->kind == POLICY_COMPARES)
					continue;
				least = stratum[predicate_number(condition->atom.predicate)] +
						(condition->kind == POLICY_HOLDS_NOT);
				if (least > PREDICATES)
					abort();
				if (*own < least)
				{
					*own = least;
					again = true;
				}
			}
		}
	}
	memcpy(truth, stored, sizeof(truth));
	for (int level = 0; level <= PREDICATES; level++)
	{
		again = true;
		while (again)
		{
			again = false;
			for (int i = 0; i < policy->rule_count; i++)
			{
				const policy_rule *rule = policy->rules[i];
				static const int none[4] = {-1, -1, -1, -1};

				if (stratum[predicate_number(rule->head.predicate)] == level)
					again = solve(rule, 0, none) || again;
			}
		}
	}
}
