/*
 * policy_check.c
 *		What a policy must fulfil before it may be evaluated, and the order in
 *		which its predicates are.
 *
 * After policy_check() the evaluation may rely on three things.  Every variable
 * in "not" or a comparison has a single value once the positive conditions of
 * its rule hold.  A variable that stands twice in a head has one, too, so that
 * an answer is one value or any value argument by argument, never "any, but the
 * same".  A negated predicate lies in a lower stratum than the rule's head.
 *
 * Nothing recurses: a policy may chain as many predicates as it has room for.
 */
#include "policy.h"

#include <stdlib.h>
#include <string.h>

/* Strata: the strongly connected components of "depends on" (Tarjan). */

typedef struct visit
{
	policy_predicate *predicate;
	const policy_rule *rule; /* the next condition to follow */
	int condition;
	int low;
} visit;

typedef struct search
{
	visit *visits;
	int depth;
	policy_predicate **open; /* visited, without a component yet */
	int open_count;
	int *order; /* of visiting, from 1; by predicate */
	int visited;
	int components;
} search;

/* The next predicate that the visited one depends on, NULL after the last. */
static policy_predicate *
next_dependency(visit *visit, bool *negated)
{
	while (visit->rule != NULL)
	{
		while (visit->condition < visit->rule->condition_count)
		{
			const policy_condition *condition = &visit->rule->conditions[visit->condition++];

			if (condition->kind == POLICY_COMPARES)
				continue;
			*negated = condition->kind == POLICY_HOLDS_NOT;
			return condition->atom.predicate;
		}
		visit->rule = visit->rule->next;
		visit->condition = 0;
	}
	return NULL;
}

static void
enter(search *search, policy_predicate *predicate)
{
	visit *visit = &search->visits[search->depth++];

	visit->predicate = predicate;
	visit->rule = predicate->rules;
	visit->condition = 0;
	visit->low = search->order[predicate->number] = ++search->visited;
	predicate->component = -1;
	search->open[search->open_count++] = predicate;
}

/*
 * Closes a component: all predicates it depends on have their stratum already.
 * Its own members cannot raise it, except by a negation among themselves, which
 * is refused afterwards.
 */
static void
close_component(search *search, policy *policy, const policy_predicate *root)
{
	int first = search->open_count;
	int stratum = 0;
	visit edges = {0};
	policy_predicate *other;
	bool negated = false;

	do
		search->open[--first]->component = search->components;
	while (search->open[first] != root);
	for (int i = first; i < search->open_count; i++)
	{
		edges.rule = search->open[i]->rules;
		edges.condition = 0;
		while ((other = next_dependency(&edges, &negated)) != NULL)
		{
			if (other->component != search->components && other->stratum + negated > stratum)
				stratum = other->stratum + negated;
		}
	}
	for (int i = first; i < search->open_count; i++)
		search->open[i]->stratum = stratum;
	search->open_count = first;
	search->components++;
	if (stratum >= policy->strata)
		policy->strata = stratum + 1;
}

static void
find_strata(policy *policy)
{
	size_t count = (size_t) policy->predicate_count;
	search search = {0};

	search.visits = memory_alloc(count * sizeof(*search.visits));
	search.open = memory_alloc(count * sizeof(*search.open));
	search.order = memory_alloc(count * sizeof(*search.order));
	memset(search.order, 0, count * sizeof(*search.order));
	for (size_t i = 0; i < count; i++)
	{
		if (search.order[i] != 0)
			continue;
		enter(&search, policy->predicates[i]);
		while (search.depth > 0)
		{
			visit *top = &search.visits[search.depth - 1];
			bool negated;
			policy_predicate *next = next_dependency(top, &negated);

			if (next != NULL)
			{
				if (search.order[next->number] == 0)
					enter(&search, next);
				else if (next->component == -1 && search.order[next->number] < top->low)
					top->low = search.order[next->number];
				continue;
			}
			if (top->low == search.order[top->predicate->number])
				close_component(&search, policy, top->predicate);
			search.depth--;
			if (search.depth > 0 && top->low < top[-1].low)
				top[-1].low = top->low;
		}
	}
	free(search.visits);
	free(search.open);
	free(search.order);
}

static bool
check_strata(const policy *policy, engine_error *error)
{
	for (int i = 0; i < policy->rule_count; i++)
	{
		const policy_rule *rule = policy->rules[i];

		for (int j = 0; j < rule->condition_count; j++)
		{
			const policy_condition *condition = &rule->conditions[j];

			if (condition->kind == POLICY_HOLDS_NOT &&
				condition->atom.predicate->component == rule->head.predicate->component)
				return policy_fail(
					error, condition->place,
					"\"%s\" depends on its own negation: the rules are not stratified",
					rule->head.predicate->name);
		}
	}
	return true;
}

/* Safety: which variables have a single value. */

/* How much is known of a variable, each including those before. */
typedef enum boundness
{
	UNBOUND,	  /* in no condition that could bind it */
	BOUND_TO_ANY, /* bound, but perhaps to any value */
	BOUND		  /* to a single value */
} boundness;

/* What the any arguments found so far leave the variables of a rule. */
static void
find_boundness(const policy_rule *rule, boundness *bound)
{
	bool again = true;

	memset(bound, 0, (size_t) rule->variable_count * sizeof(*bound));
	for (int i = 0; i < rule->condition_count; i++)
	{
		const policy_atom *atom = &rule->conditions[i].atom;

		if (rule->conditions[i].kind != POLICY_HOLDS)
			continue;
		for (int j = 0; j < atom->predicate->arity; j++)
		{
			if (atom->args[j].kind != POLICY_VARIABLE)
				continue;
			if ((atom->predicate->any >> j & 1) == 0)
				bound[atom->args[j].variable] = BOUND;
			else if (bound[atom->args[j].variable] == UNBOUND)
				bound[atom->args[j].variable] = BOUND_TO_ANY;
		}
	}
	/* Equality binds one side to the other. */
	while (again)
	{
		again = false;
		for (int i = 0; i < rule->condition_count; i++)
		{
			const policy_condition *condition = &rule->conditions[i];
			const policy_term *sides[2] = {&condition->left, &condition->right};

			if (condition->kind != POLICY_COMPARES || condition->comparison != POLICY_EQUAL)
				continue;
			for (int j = 0; j < 2; j++)
			{
				if (sides[j]->kind == POLICY_VARIABLE && bound[sides[j]->variable] != BOUND &&
					(sides[1 - j]->kind == POLICY_CONSTANT ||
					 bound[sides[1 - j]->variable] == BOUND))
				{
					bound[sides[j]->variable] = BOUND;
					again = true;
				}
			}
		}
	}
}

/* The head arguments of a rule that may stand for any value. */
static argument_set
head_any(const policy_rule *rule, const boundness *bound)
{
	argument_set any = 0;

	for (int i = 0; i < rule->head.predicate->arity; i++)
	{
		const policy_term *term = &rule->head.args[i];

		if (term->kind == POLICY_WILDCARD ||
			(term->kind == POLICY_VARIABLE && bound[term->variable] != BOUND))
			any |= (argument_set) 1 << i;
	}
	return any;
}

/*
 * The smallest solution: rules are looked at again only when a predicate in one
 * of their conditions gained an any argument.
 */
static void
find_any(policy *policy, boundness *bound)
{
	size_t edges = 0;
	int *first; /* by predicate, into users */
	int *users; /* rules by the predicates of their conditions */
	int *queue;
	bool *queued;
	int count = policy->rule_count;
	int head = 0;
	int waiting = count;

	first = memory_alloc(((size_t) policy->predicate_count + 1) * sizeof(int));
	memset(first, 0, ((size_t) policy->predicate_count + 1) * sizeof(int));
	for (int i = 0; i < count; i++)
	{
		for (int j = 0; j < policy->rules[i]->condition_count; j++)
		{
			if (policy->rules[i]->conditions[j].kind == POLICY_HOLDS)
			{
				first[policy->rules[i]->conditions[j].atom.predicate->number]++;
				edges++;
			}
		}
	}
	for (int i = 1; i <= policy->predicate_count; i++)
		first[i] += first[i - 1];
	users = memory_alloc(edges * sizeof(int));
	for (int i = 0; i < count; i++)
	{
		for (int j = 0; j < policy->rules[i]->condition_count; j++)
		{
			if (policy->rules[i]->conditions[j].kind == POLICY_HOLDS)
				users[--first[policy->rules[i]->conditions[j].atom.predicate->number]] = i;
		}
	}

	queue = memory_alloc((size_t) count * sizeof(int));
	queued = memory_alloc((size_t) count * sizeof(bool));
	for (int i = 0; i < count; i++)
	{
		queue[i] = i;
		queued[i] = true;
	}
	while (waiting > 0)
	{
		int index = queue[head];
		const policy_rule *rule = policy->rules[index];
		policy_predicate *predicate = rule->head.predicate;
		argument_set any;

		head = (head + 1) % count;
		waiting--;
		queued[index] = false;
		find_boundness(rule, bound);
		any = predicate->any | head_any(rule, bound);
		if (any == predicate->any)
			continue;
		predicate->any = any;
		for (int i = first[predicate->number]; i < first[predicate->number + 1]; i++)
		{
			if (!queued[users[i]])
			{
				queued[users[i]] = true;
				queue[(head + waiting) % count] = users[i];
				waiting++;
			}
		}
	}
	free(first);
	free(users);
	free(queue);
	free(queued);
}

static bool
require_bound(const policy_rule *rule, const boundness *bound, const policy_term *term,
			  const char *where, engine_error *error)
{
	if (term->kind != POLICY_VARIABLE || bound[term->variable] == BOUND)
		return true;
	if (bound[term->variable] == UNBOUND)
		return policy_fail(error, term->place,
						   "\"%s\" %s is unsafe: no condition without \"not\" binds it",
						   rule->variables[term->variable].name, where);
	return policy_fail(error, term->place,
					   "\"%s\" %s is unsafe: the predicate that binds it may allow any value there",
					   rule->variables[term->variable].name, where);
}

static bool
check_head(const policy_rule *rule, const boundness *bound, engine_error *error)
{
	const policy_atom *head = &rule->head;
	bool open = strcmp(head->predicate->name, "allow") == 0;

	for (int i = 0; i < head->predicate->arity; i++)
	{
		const policy_term *term = &head->args[i];

		if (term->kind != POLICY_VARIABLE || bound[term->variable] == BOUND)
			continue;
		if (bound[term->variable] == UNBOUND && !open)
			return policy_fail(error, term->place,
							   "\"%s\" is unsafe: no condition binds it; write _ for any value",
							   rule->variables[term->variable].name);
		for (int j = 0; j < i; j++)
		{
			if (head->args[j].kind == POLICY_VARIABLE && head->args[j].variable == term->variable)
				return require_bound(rule, bound, term, "twice in a head", error);
		}
	}
	return true;
}

static bool
check_rule(const policy_rule *rule, const boundness *bound, engine_error *error)
{
	for (int i = 0; i < rule->condition_count; i++)
	{
		const policy_condition *condition = &rule->conditions[i];

		if (condition->kind == POLICY_HOLDS_NOT)
		{
			for (int j = 0; j < condition->atom.predicate->arity; j++)
			{
				if (!require_bound(rule, bound, &condition->atom.args[j], "in \"not\"", error))
					return false;
			}
		}
		else if (condition->kind == POLICY_COMPARES &&
				 (!require_bound(rule, bound, &condition->left, "in a comparison", error) ||
				  !require_bound(rule, bound, &condition->right, "in a comparison", error)))
			return false;
	}
	return check_head(rule, bound, error);
}

/*
 * Puts the rules that ask stored facts only before the others of a predicate, so
 * that the cheap proofs are tried first.  The answers do not depend on it.
 */
static void
order_rules(policy_predicate *predicate)
{
	policy_rule *lists[2] = {NULL, NULL};
	policy_rule **ends[2] = {&lists[0], &lists[1]};

	for (policy_rule *rule = predicate->rules; rule != NULL; rule = rule->next)
	{
		int derived = 0;

		for (int i = 0; i < rule->condition_count; i++)
		{
			if (rule->conditions[i].kind != POLICY_COMPARES &&
				rule->conditions[i].atom.predicate->rules != NULL)
				derived = 1;
		}
		*ends[derived] = rule;
		ends[derived] = &rule->next;
	}
	*ends[1] = NULL;
	*ends[0] = lists[1];
	predicate->rules = lists[0];
}

bool
policy_check(policy *policy, engine_error *error)
{
	int variables = 0;
	boundness *bound;
	bool safe = true;

	find_strata(policy);
	if (!check_strata(policy, error))
		return false;
	for (int i = 0; i < policy->rule_count; i++)
	{
		if (policy->rules[i]->variable_count > variables)
			variables = policy->rules[i]->variable_count;
	}
	bound = memory_alloc((size_t) variables * sizeof(*bound));
	find_any(policy, bound);
	for (int i = 0; i < policy->rule_count && safe; i++)
	{
		find_boundness(policy->rules[i], bound);
		safe = check_rule(policy->rules[i], bound, error);
	}
	free(bound);
	for (int i = 0; i < policy->predicate_count; i++)
		order_rules(policy->predicates[i]);
	return safe;
}
