/*
 * policy_parser.c
 *		From the tokens of a policy to its rules.
 *
 * The grammar does not nest, so nothing here recurses.  One token is looked
 * ahead.
 */
#include "policy.h"

#include <stdlib.h>
#include <string.h>

#include "text.h"

typedef struct parser
{
	policy *policy;
	policy_lexer lexer;
	policy_token token; /* the next one */
	engine_error *error;
	/* Of the rule being read. */
	policy_variable *variables;
	int variable_count;
	int variable_room;
	/* Capacities of the policy's arrays. */
	int predicate_room;
	int rule_room;
} parser;

static uint64_t
hash_predicate(const char *name, int arity)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ (uint64_t) arity;

	for (; *name != '\0'; name++)
		hash = (hash ^ (unsigned char) *name) * UINT64_C(0x100000001b3);
	return hash ^ hash >> 32;
}

static bool
advance(parser *parser)
{
	return policy_next_token(&parser->lexer, &parser->token, parser->error);
}

/* Fails at the next token, with what was expected instead of it. */
static bool
expected(parser *parser, const char *what)
{
	const policy_token *token = &parser->token;
	size_t size = 0;

	if (token->kind == POLICY_END)
		return policy_fail(parser->error, token->place, "expected %s, found the end of the policy",
						   what);
	/* No more than a few words of the text, cut at a character. */
	while (size < token->size && size < 40)
		size += text_character(token->start + size, token->size - size);
	return policy_fail(parser->error, token->place, "expected %s, found %.*s%s", what, (int) size,
					   token->start, size < token->size ? "..." : "");
}

static bool
take(parser *parser, policy_token_kind kind, const char *what)
{
	if (parser->token.kind != kind)
		return expected(parser, what);
	return advance(parser);
}

policy_predicate *
policy_find(const policy *policy, const char *name, int arity)
{
	size_t slot;

	if (policy->table_size == 0)
		return NULL;
	slot = hash_predicate(name, arity) & (policy->table_size - 1);
	while (policy->table[slot] != NULL)
	{
		policy_predicate *predicate = policy->table[slot];

		if (predicate->arity == arity && strcmp(predicate->name, name) == 0)
			return predicate;
		slot = (slot + 1) & (policy->table_size - 1);
	}
	return NULL;
}

static policy_predicate *
intern_predicate(parser *parser, const char *name, int arity)
{
	policy *policy = parser->policy;
	policy_predicate *predicate;
	size_t slot;

	/* At most half full, so that a search always ends. */
	if ((size_t) policy->predicate_count * 2 >= policy->table_size)
	{
		size_t size = policy->table_size > 0 ? policy->table_size * 2 : 64;

		free(policy->table);
		policy->table = memory_alloc(size * sizeof(*policy->table));
		memset(policy->table, 0, size * sizeof(*policy->table));
		policy->table_size = size;
		for (int i = 0; i < policy->predicate_count; i++)
		{
			predicate = policy->predicates[i];
			slot = hash_predicate(predicate->name, predicate->arity) & (size - 1);
			while (policy->table[slot] != NULL)
				slot = (slot + 1) & (size - 1);
			policy->table[slot] = predicate;
		}
	}
	predicate = policy_find(policy, name, arity);
	if (predicate != NULL)
		return predicate;
	slot = hash_predicate(name, arity) & (policy->table_size - 1);
	while (policy->table[slot] != NULL)
		slot = (slot + 1) & (policy->table_size - 1);
	if (policy->predicate_count == parser->predicate_room)
	{
		parser->predicate_room = parser->predicate_room * 2 + 16;
		policy->predicates = memory_resize(policy->predicates, (size_t) parser->predicate_room *
																   sizeof(*policy->predicates));
	}
	predicate = pool_zero(&policy->pool, sizeof(*predicate));
	predicate->name = name;
	predicate->arity = arity;
	predicate->number = policy->predicate_count;
	policy->predicates[policy->predicate_count++] = predicate;
	policy->table[slot] = predicate;
	return predicate;
}

static int
intern_variable(parser *parser, const policy_token *name)
{
	policy_variable *variable;

	for (int i = 0; i < parser->variable_count; i++)
	{
		if (strcmp(parser->variables[i].name, name->text) == 0)
			return i;
	}
	if (parser->variable_count == parser->variable_room)
	{
		parser->variable_room = parser->variable_room * 2 + 8;
		parser->variables = memory_resize(parser->variables, (size_t) parser->variable_room *
																 sizeof(*parser->variables));
	}
	variable = &parser->variables[parser->variable_count];
	memset(variable, 0, sizeof(*variable));
	variable->name = name->text;
	variable->place = name->place;
	return parser->variable_count++;
}

/* The type after the colon of a variable, which is the next token. */
static bool
parse_variable_type(parser *parser, int index, bool negated)
{
	policy_variable *variable = &parser->variables[index];

	if (parser->token.kind != POLICY_NAME)
		return expected(parser, "a type, or an id in quotes");
	if (negated)
		return policy_fail(
			parser->error, parser->token.place,
			"the type of \"%s\" belongs where the variable is bound, not into \"not\"",
			variable->name);
	if (variable->type != NULL && strcmp(variable->type, parser->token.text) != 0)
		return policy_fail(parser->error, parser->token.place,
						   "\"%s\" has the type %s already (line %d column %d)", variable->name,
						   variable->type, variable->typed.line, variable->typed.column);
	variable->type = parser->token.text;
	variable->typed = parser->token.place;
	return advance(parser);
}

/*
 * The rest of an argument that begins with a name, which has been taken: an
 * identity or a variable.
 */
static bool
parse_named(parser *parser, const policy_token *name, bool negated, policy_term *term)
{
	term->place = name->place;
	if (parser->token.kind != POLICY_COLON)
	{
		term->kind = POLICY_VARIABLE;
		term->variable = intern_variable(parser, name);
		return true;
	}
	if (!advance(parser))
		return false;
	if (parser->token.kind == POLICY_STRING)
	{
		if (parser->token.text[0] == '\0')
			return policy_fail(parser->error, parser->token.place,
							   "the id of an identity is not empty");
		term->kind = POLICY_CONSTANT;
		term->constant.kind = STORE_IDENTITY;
		term->constant.type = name->text;
		term->constant.text = parser->token.text;
		return advance(parser);
	}
	term->kind = POLICY_VARIABLE;
	term->variable = intern_variable(parser, name);
	return parse_variable_type(parser, term->variable, negated);
}

static bool
parse_argument(parser *parser, bool negated, policy_term *term)
{
	policy_token token = parser->token;

	memset(term, 0, sizeof(*term));
	term->place = token.place;
	term->kind = POLICY_CONSTANT;
	switch (token.kind)
	{
		case POLICY_NAME:
			return advance(parser) && parse_named(parser, &token, negated, term);
		case POLICY_UNDERSCORE:
			term->kind = POLICY_WILDCARD;
			if (!advance(parser))
				return false;
			if (parser->token.kind != POLICY_COLON)
				return true;
			if (!advance(parser))
				return false;
			term->type = parser->token.text;
			return take(parser, POLICY_NAME, "a type");
		case POLICY_STRING:
			term->constant.kind = STORE_STRING;
			term->constant.text = token.text;
			return advance(parser);
		case POLICY_INTEGER:
			term->constant.kind = STORE_INTEGER;
			term->constant.integer = token.integer;
			return advance(parser);
		case POLICY_TRUE:
		case POLICY_FALSE:
			term->constant.kind = STORE_BOOLEAN;
			term->constant.integer = token.kind == POLICY_TRUE;
			return advance(parser);
		default:
			return expected(parser, "an argument");
	}
}

/* The arguments of a predicate; the next token is the opening parenthesis. */
static bool
parse_atom(parser *parser, const policy_token *name, bool negated, policy_atom *atom)
{
	policy_term args[POLICY_MAX_ARGUMENTS];
	int count = 0;

	if (!take(parser, POLICY_OPEN, "\"(\""))
		return false;
	if (parser->token.kind != POLICY_CLOSE)
	{
		for (;;)
		{
			if (count == POLICY_MAX_ARGUMENTS)
				return policy_fail(parser->error, parser->token.place,
								   "a predicate has at most %d arguments", POLICY_MAX_ARGUMENTS);
			if (!parse_argument(parser, negated, &args[count]))
				return false;
			count++;
			if (parser->token.kind == POLICY_CLOSE)
				break;
			if (!take(parser, POLICY_COMMA, "\",\" or \")\""))
				return false;
		}
	}
	if (!advance(parser))
		return false;
	if (strcmp(name->text, "allow") == 0 && count != 3)
		return policy_fail(parser->error, name->place,
						   "allow takes 3 arguments (actor, action, resource), not %d", count);
	atom->place = name->place;
	atom->predicate = intern_predicate(parser, name->text, count);
	atom->args = pool_alloc(&parser->policy->pool, (size_t) count * sizeof(policy_term));
	if (count > 0)
		memcpy(atom->args, args, (size_t) count * sizeof(policy_term));
	return true;
}

static bool
check_operand(parser *parser, policy_token_kind comparison, const policy_term *term)
{
	if (term->kind == POLICY_WILDCARD)
		return policy_fail(parser->error, term->place, "\"_\" cannot be compared");
	if (term->kind == POLICY_CONSTANT && term->constant.kind != STORE_INTEGER &&
		comparison != POLICY_EQUAL && comparison != POLICY_NOT_EQUAL)
		return policy_fail(parser->error, term->place, "only integers have an order");
	return true;
}

static bool
parse_condition(parser *parser, policy_condition *condition)
{
	policy_token first;

	memset(condition, 0, sizeof(*condition));
	condition->place = parser->token.place;
	if (parser->token.kind == POLICY_NOT)
	{
		if (!advance(parser))
			return false;
		first = parser->token;
		condition->kind = POLICY_HOLDS_NOT;
		return take(parser, POLICY_NAME, "a predicate after \"not\"") &&
			   parse_atom(parser, &first, true, &condition->atom);
	}
	first = parser->token;
	if (first.kind == POLICY_NAME)
	{
		if (!advance(parser))
			return false;
		if (parser->token.kind == POLICY_OPEN)
		{
			condition->kind = POLICY_HOLDS;
			return parse_atom(parser, &first, false, &condition->atom);
		}
		if (!parse_named(parser, &first, false, &condition->left))
			return false;
	}
	else if (!parse_argument(parser, false, &condition->left))
		return false;
	condition->kind = POLICY_COMPARES;
	condition->comparison = parser->token.kind;
	if (condition->comparison < POLICY_LESS)
		return expected(parser, "\"(\" or a comparison");
	return advance(parser) && parse_argument(parser, false, &condition->right) &&
		   check_operand(parser, condition->comparison, &condition->left) &&
		   check_operand(parser, condition->comparison, &condition->right);
}

static bool
parse_rule(parser *parser)
{
	policy *policy = parser->policy;
	policy_condition conditions[POLICY_MAX_CONDITIONS];
	policy_token name = parser->token;
	policy_rule *rule = pool_zero(&policy->pool, sizeof(*rule));
	policy_predicate *predicate;

	parser->variable_count = 0;
	if (!take(parser, POLICY_NAME, "a predicate") || !parse_atom(parser, &name, false, &rule->head))
		return false;
	if (parser->token.kind == POLICY_IF)
	{
		do
		{
			if (!advance(parser))
				return false;
			if (rule->condition_count == POLICY_MAX_CONDITIONS)
				return policy_fail(parser->error, parser->token.place,
								   "a rule has at most %d conditions", POLICY_MAX_CONDITIONS);
			if (!parse_condition(parser, &conditions[rule->condition_count]))
				return false;
			rule->condition_count++;
		} while (parser->token.kind == POLICY_AND);
	}
	if (!take(parser, POLICY_SEMICOLON,
			  rule->condition_count == 0 ? "\"if\" or \";\"" : "\"and\" or \";\""))
		return false;

	rule->conditions =
		pool_alloc(&policy->pool, (size_t) rule->condition_count * sizeof(policy_condition));
	if (rule->condition_count > 0)
		memcpy(rule->conditions, conditions,
			   (size_t) rule->condition_count * sizeof(policy_condition));
	rule->variables =
		pool_alloc(&policy->pool, (size_t) parser->variable_count * sizeof(policy_variable));
	if (parser->variable_count > 0)
		memcpy(rule->variables, parser->variables,
			   (size_t) parser->variable_count * sizeof(policy_variable));
	rule->variable_count = parser->variable_count;

	predicate = rule->head.predicate;
	if (predicate->last_rule == NULL)
		predicate->rules = rule;
	else
		predicate->last_rule->next = rule;
	predicate->last_rule = rule;
	if (policy->rule_count == parser->rule_room)
	{
		parser->rule_room = parser->rule_room * 2 + 16;
		policy->rules =
			memory_resize(policy->rules, (size_t) parser->rule_room * sizeof(*policy->rules));
	}
	policy->rules[policy->rule_count++] = rule;
	return true;
}

policy *
policy_parse(const char *text, size_t size, engine_error *error)
{
	policy *policy;
	parser parser = {0};
	bool done;

	if (size > POLICY_MAX_BYTES)
	{
		engine_fail(error, ENGINE_INVALID_ARGUMENT, "the policy has %zu bytes, more than %d", size,
					POLICY_MAX_BYTES);
		return NULL;
	}
	policy = memory_alloc(sizeof(*policy));
	memset(policy, 0, sizeof(*policy));
	parser.policy = policy;
	parser.error = error;
	parser.lexer.at = text;
	parser.lexer.end = text + size;
	parser.lexer.place.line = 1;
	parser.lexer.place.column = 1;
	parser.lexer.pool = &policy->pool;

	done = advance(&parser);
	while (done && parser.token.kind != POLICY_END)
		done = parse_rule(&parser);
	free(parser.variables);
	if (!done || !policy_check(policy, error))
	{
		policy_free(policy);
		return NULL;
	}
	return policy;
}

void
policy_free(policy *policy)
{
	if (policy == NULL)
		return;
	free(policy->predicates);
	free(policy->rules);
	free(policy->table);
	pool_destroy(&policy->pool);
	free(policy);
}
