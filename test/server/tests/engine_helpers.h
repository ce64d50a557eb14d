/*
 * engine_helpers.h
 *		For the tests of the engine: requests from text, answers to text.
 *
 * Facts and patterns are written as in SQL: p(User:alice, "a string", -42, true,
 * ?x, ?x:User, _).  The text comes from the tests themselves and is trusted to be
 * well-formed; ids are letters, digits, "_", "-" and ".".
 */
#ifndef VERDICT_TEST_ENGINE_HELPERS_H
#define VERDICT_TEST_ENGINE_HELPERS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine.h"

/* A fresh directory for the store of one test program. */
static char test_directory[] = "/tmp/verdict-engine-XXXXXX";

static inline const char *
test_path(void)
{
	static char path[128];

	if (path[0] == '\0')
	{
		assert_non_null(mkdtemp(test_directory));
		snprintf(path, sizeof(path), "%s/store", test_directory);
	}
	return path;
}

static inline void
test_remove_store(void)
{
	static const char *const suffixes[] = {"", "-wal", "-shm", "-journal"};
	char name[160];

	for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++)
	{
		snprintf(name, sizeof(name), "%s%s", test_path(), suffixes[i]);
		unlink(name);
	}
}

static inline engine *
test_open(void)
{
	engine_options options = {0};
	engine_error error = {0};
	engine *engine;

	options.path = test_path();
	engine = engine_open(&options, &error);
	if (engine == NULL)
		fail_msg("open: %s", error.message);
	return engine;
}

/* Parsing. */

static inline void
skip_blanks(const char **at)
{
	while (**at == ' ')
		(*at)++;
}

static inline char *
take_word(const char **at)
{
	const char *start = *at;

	while (isalnum((unsigned char) **at) || (**at != '\0' && strchr("_-.", **at)))
		(*at)++;
	return strndup(start, (size_t) (*at - start));
}

static inline Verdict__V1__Identity *
make_identity(char *type, char *id)
{
	Verdict__V1__Identity *identity = malloc(sizeof(*identity));

	verdict__v1__identity__init(identity);
	identity->type = type;
	identity->id = id;
	return identity;
}

/* "User:alice" */
static inline Verdict__V1__Identity *
parse_identity(const char *text)
{
	char *type = take_word(&text);

	assert_int_equal(*text, ':');
	text++;
	return make_identity(type, take_word(&text));
}

static inline Verdict__V1__Term *
parse_term(const char **at)
{
	Verdict__V1__Term *term = malloc(sizeof(*term));
	Verdict__V1__Value *value;
	char *word;

	verdict__v1__term__init(term);
	skip_blanks(at);
	if (**at == '?')
	{
		(*at)++;
		term->kind_case = VERDICT__V1__TERM__KIND_VARIABLE;
		term->variable = malloc(sizeof(*term->variable));
		verdict__v1__variable__init(term->variable);
		term->variable->name = take_word(at);
		if (**at == ':')
		{
			(*at)++;
			term->variable->type = take_word(at);
		}
		return term;
	}
	if (**at == '_' && (*at)[1] != ':')
	{
		(*at)++;
		return term;
	}
	value = malloc(sizeof(*value));
	verdict__v1__value__init(value);
	term->kind_case = VERDICT__V1__TERM__KIND_VALUE;
	term->value = value;
	if (**at == '"')
	{
		const char *end = strchr(*at + 1, '"');

		value->kind_case = VERDICT__V1__VALUE__KIND_STRING;
		value->string = strndup(*at + 1, (size_t) (end - *at - 1));
		*at = end + 1;
		return term;
	}
	word = take_word(at);
	if (**at == ':')
	{
		(*at)++;
		value->kind_case = VERDICT__V1__VALUE__KIND_IDENTITY;
		value->identity = make_identity(word, take_word(at));
		return term;
	}
	if (strcmp(word, "true") == 0 || strcmp(word, "false") == 0)
	{
		value->kind_case = VERDICT__V1__VALUE__KIND_BOOLEAN;
		value->boolean = word[0] == 't';
	}
	else
	{
		value->kind_case = VERDICT__V1__VALUE__KIND_INTEGER;
		value->integer = strtoll(word, NULL, 10);
	}
	free(word);
	return term;
}

static inline Verdict__V1__Pattern *
parse_pattern(const char *text)
{
	Verdict__V1__Pattern *pattern = malloc(sizeof(*pattern));

	verdict__v1__pattern__init(pattern);
	pattern->predicate = take_word(&text);
	pattern->args = malloc(80 * sizeof(*pattern->args));
	assert_int_equal(*text, '(');
	for (text++; *text != ')'; skip_blanks(&text))
	{
		pattern->args[pattern->n_args++] = parse_term(&text);
		skip_blanks(&text);
		if (*text == ',')
			text++;
	}
	return pattern;
}

static inline Verdict__V1__Fact *
parse_fact(const char *text)
{
	Verdict__V1__Pattern *pattern = parse_pattern(text);
	Verdict__V1__Fact *fact = malloc(sizeof(*fact));

	verdict__v1__fact__init(fact);
	fact->predicate = pattern->predicate;
	fact->n_args = pattern->n_args;
	fact->args = malloc(80 * sizeof(*fact->args));
	for (size_t i = 0; i < pattern->n_args; i++)
	{
		assert_int_equal(pattern->args[i]->kind_case, VERDICT__V1__TERM__KIND_VALUE);
		fact->args[i] = pattern->args[i]->value;
		free(pattern->args[i]);
	}
	free(pattern->args);
	free(pattern);
	return fact;
}

static inline void
free_message(void *message)
{
	if (message != NULL &&
		((ProtobufCMessage *) message)->descriptor == &verdict__v1__query_response__descriptor)
		engine_query_drop_rows(message);
	protobuf_c_message_free_unpacked(message, NULL);
}

/* Mutations. */

static inline bool
run_mutation(engine *engine, engine_method method, void *request, const char *key,
			 engine_answer *answer, engine_error *error)
{
	engine_mutation mutation = {0};

	mutation.method = method;
	mutation.request = request;
	mutation.key = key;
	return engine_mutate(engine, &mutation, answer, error);
}

/* Inserts or deletes; returns whether that changed anything. */
static inline bool
change_fact_text(engine *engine, engine_method method, const char *text)
{
	/* Insert and delete requests have one shape. */
	Verdict__V1__InsertFactRequest insert = VERDICT__V1__INSERT_FACT_REQUEST__INIT;
	Verdict__V1__DeleteFactRequest delete = VERDICT__V1__DELETE_FACT_REQUEST__INIT;
	engine_answer answer;
	engine_error error = {0};
	bool changed;

	insert.fact = delete.fact = parse_fact(text);
	if (!run_mutation(engine, method,
					  method == ENGINE_INSERT_FACT ? (void *) &insert : (void *) &delete, NULL,
					  &answer, &error))
		fail_msg("%s: %s", text, error.message);
	changed = method == ENGINE_INSERT_FACT
				  ? ((Verdict__V1__InsertFactResponse *) answer.response)->changed
				  : ((Verdict__V1__DeleteFactResponse *) answer.response)->changed;
	free_message(answer.response);
	free_message(insert.fact);
	return changed;
}

static inline bool
insert(engine *engine, const char *text)
{
	return change_fact_text(engine, ENGINE_INSERT_FACT, text);
}

static inline bool delete (engine *engine, const char *text)
{
	return change_fact_text(engine, ENGINE_DELETE_FACT, text);
}

static inline bool
try_policy(engine *engine, const char *text, engine_error *error)
{
	Verdict__V1__SetPolicyRequest request = VERDICT__V1__SET_POLICY_REQUEST__INIT;
	engine_answer answer;

	request.policy = (char *) text;
	if (!run_mutation(engine, ENGINE_SET_POLICY, &request, NULL, &answer, error))
		return false;
	free_message(answer.response);
	return true;
}

static inline void
set_policy(engine *engine, const char *text)
{
	engine_error error = {0};

	if (!try_policy(engine, text, &error))
		fail_msg("policy: %s\n%s", error.message, text);
}

/* Reads. */

static inline bool
allowed(engine *engine, const char *actor, const char *action, const char *resource)
{
	Verdict__V1__AuthorizeRequest request = VERDICT__V1__AUTHORIZE_REQUEST__INIT;
	Verdict__V1__AuthorizeResponse *response;
	engine_error error = {0};
	bool result;

	request.actor = parse_identity(actor);
	request.action = (char *) action;
	request.resource = parse_identity(resource);
	if (!engine_authorize(engine, &request, &response, &error))
		fail_msg("authorize: %s", error.message);
	result = response->allowed;
	free_message(response);
	free_message(request.actor);
	free_message(request.resource);
	return result;
}

static inline void
print_value(FILE *out, const Verdict__V1__Value *value)
{
	switch (value->kind_case)
	{
		case VERDICT__V1__VALUE__KIND_IDENTITY:
			fprintf(out, "%s:%s", value->identity->type, value->identity->id);
			break;
		case VERDICT__V1__VALUE__KIND_STRING:
			fprintf(out, "\"%s\"", value->string);
			break;
		case VERDICT__V1__VALUE__KIND_INTEGER:
			fprintf(out, "%lld", (long long) value->integer);
			break;
		case VERDICT__V1__VALUE__KIND_BOOLEAN:
			fprintf(out, value->boolean ? "true" : "false");
			break;
		default:
			fprintf(out, "*");
	}
}

static inline int
compare_lines(const void *a, const void *b)
{
	return strcmp(*(char *const *) a, *(char *const *) b);
}

/* Lines sorted and joined by "; "; takes the lines. */
static inline char *
join_sorted(char **lines, size_t count, bool sorted)
{
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (sorted && count > 0)
		qsort(lines, count, sizeof(char *), compare_lines);
	for (size_t i = 0; i < count; i++)
	{
		fprintf(out, "%s%s", i > 0 ? "; " : "", lines[i]);
		free(lines[i]);
	}
	free(lines);
	fclose(out);
	return text;
}

static inline bool
try_query(engine *engine, const char *pattern, uint32_t limit,
		  Verdict__V1__QueryResponse **response, engine_error *error)
{
	Verdict__V1__QueryRequest request = VERDICT__V1__QUERY_REQUEST__INIT;
	bool done;

	request.pattern = parse_pattern(pattern);
	request.limit = limit;
	done = engine_query(engine, &request, response, error);
	free_message(request.pattern);
	return done;
}

static inline char *
rows_text(const Verdict__V1__QueryResponse *response, bool sorted)
{
	char **lines = malloc((response->n_rows + 1) * sizeof(char *));

	for (size_t i = 0; i < response->n_rows; i++)
	{
		size_t size;
		FILE *out = open_memstream(&lines[i], &size);

		for (size_t j = 0; j < response->rows[i]->n_values; j++)
		{
			fprintf(out, j > 0 ? ", " : "");
			print_value(out, response->rows[i]->values[j]);
		}
		if (response->rows[i]->n_values == 0)
			fprintf(out, "yes");
		fclose(out);
	}
	return join_sorted(lines, response->n_rows, sorted);
}

/*
 * The rows of a query, sorted, joined by "; ": "User:alice, *; User:bob, 3".
 * "yes" is a row without values.
 */
static inline char *
query_text(engine *engine, const char *pattern)
{
	Verdict__V1__QueryResponse *response;
	engine_error error = {0};
	char *text;

	if (!try_query(engine, pattern, 0, &response, &error))
		fail_msg("%s: %s", pattern, error.message);
	assert_false(response->truncated);
	text = rows_text(response, true);
	free_message(response);
	return text;
}

static inline void
assert_query(engine *engine, const char *pattern, const char *expected)
{
	char *text = query_text(engine, pattern);

	assert_string_equal(text, expected);
	free(text);
}

static inline void
assert_query_refused(engine *engine, const char *pattern, const char *message)
{
	Verdict__V1__QueryResponse *response;
	engine_error error = {0};

	assert_false(try_query(engine, pattern, 0, &response, &error));
	assert_int_equal(error.code, ENGINE_INVALID_ARGUMENT);
	assert_string_equal(error.message, message);
}

/* The facts of a page, in their order, joined by "; ". */
static inline char *
facts_text(const Verdict__V1__ListFactsResponse *response)
{
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	for (size_t i = 0; i < response->n_facts; i++)
	{
		fprintf(out, "%s%s(", i > 0 ? "; " : "", response->facts[i]->predicate);
		for (size_t j = 0; j < response->facts[i]->n_args; j++)
		{
			fprintf(out, j > 0 ? ", " : "");
			print_value(out, response->facts[i]->args[j]);
		}
		fprintf(out, ")");
	}
	fclose(out);
	return text;
}

#endif /* VERDICT_TEST_ENGINE_HELPERS_H */
