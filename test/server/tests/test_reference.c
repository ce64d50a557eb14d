/*
 * test_reference.c
 *		Policies and facts made at random, answered by the engine and by the naive
 *		evaluation of reference.h.  A case is known by its number, its seed.
 */
#include "engine_helpers.h"

#include "reference.h"

/* VERDICT_TEST_CASES asks for another number of them. */
#define CASES 2000

static uint64_t random_state;

static unsigned
pick(unsigned below)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (unsigned) ((random_state * UINT64_C(0x2545f4914f6cdd1d)) >> 33) % below;
}

static bool
chance(unsigned percent)
{
	return pick(100) < percent;
}

/* Making policies. */

static const char *const variable_names[] = {"x", "y", "z", "w"};

static void
write_term(FILE *out, const char *const *types, bool may_type, bool wildcards)
{
	unsigned variable = pick(4);

	if (chance(65))
	{
		fprintf(out, "%s", variable_names[variable]);
		if (may_type && types[variable] != NULL)
			fprintf(out, ": %s", types[variable]);
	}
	else if (wildcards && chance(40))
		fprintf(out, "_%s", !chance(30) ? "" : chance(50) ? ": User" : ": Team");
	else
		fprintf(out, "%s", domain[pick(KNOWN)].policy_text);
}

static void
write_atom(FILE *out, int predicate, const char *const *types, bool negated)
{
	fprintf(out, "%s(", predicates[predicate].name);
	for (int i = 0; i < predicates[predicate].arity; i++)
	{
		fprintf(out, i > 0 ? ", " : "");
		write_term(out, types, !negated, true);
	}
	fprintf(out, ")");
}

static void
write_rule(FILE *out)
{
	static const char *const operators[] = {"<", "<=", ">", ">=", "=", "!="};
	const char *types[4] = {NULL};
	int conditions = (int) pick(5);

	for (int i = 0; i < 4; i++)
	{
		if (chance(15))
			types[i] = chance(50) ? "User" : "Team";
	}
	write_atom(out, 4 + (int) pick(PREDICATES - 4), types, false);
	for (int i = 0; i < conditions; i++)
	{
		fprintf(out, i == 0 ? " if " : " and ");
		if (chance(15))
		{
			write_term(out, types, false, false);
			fprintf(out, " %s ", operators[pick(6)]);
			write_term(out, types, false, false);
			continue;
		}
		if (chance(25))
		{
			fprintf(out, "not ");
			write_atom(out, (int) pick(PREDICATES), types, true);
			continue;
		}
		write_atom(out, (int) pick(PREDICATES), types, false);
	}
	fprintf(out, ";\n");
}

/* Rules are added one by one; one that makes the policy refused is left out. */
static policy *
make_policy(char **text, int *refused)
{
	policy *policy;
	engine_error error = {0};
	int wanted = 2 + (int) pick(7);

	*text = strdup("");
	policy = policy_parse("", 0, &error);
	for (int tries = 0; policy->rule_count < wanted && tries < 60; tries++)
	{
		char *longer;
		size_t size;
		FILE *out = open_memstream(&longer, &size);
		struct policy *parsed;

		fputs(*text, out);
		write_rule(out);
		fclose(out);
		parsed = policy_parse(longer, size, &error);
		if (parsed == NULL)
		{
			(*refused)++;
			free(longer);
			continue;
		}
		policy_free(policy);
		policy = parsed;
		free(*text);
		*text = longer;
	}
	return policy;
}

/* Facts. */

static void
add_change(Verdict__V1__BatchFactsRequest *request, bool insert, int predicate, int index)
{
	Verdict__V1__FactChange *change = malloc(sizeof(*change));
	char text[128];
	size_t used;
	int args[3];

	split_index(index, predicates[predicate].arity, args);
	used = (size_t) sprintf(text, "%s(", predicates[predicate].name);
	for (int i = 0; i < predicates[predicate].arity; i++)
		used += (size_t) sprintf(text + used, "%s%s", i > 0 ? "," : "", domain[args[i]].text);
	strcpy(text + used, ")");
	verdict__v1__fact_change__init(change);
	change->change_case =
		insert ? VERDICT__V1__FACT_CHANGE__CHANGE_INSERT : VERDICT__V1__FACT_CHANGE__CHANGE_DELETE;
	change->insert = parse_fact(text);
	request->changes[request->n_changes++] = change;
}

/* Replaces the stored facts by others. */
static void
make_facts(engine *engine)
{
	Verdict__V1__BatchFactsRequest request = VERDICT__V1__BATCH_FACTS_REQUEST__INIT;
	engine_answer answer;
	engine_error error = {0};

	request.changes = malloc(10000 * sizeof(*request.changes));
	for (int i = 0; i < PREDICATES; i++)
	{
		int count = predicates[i].rules ? (int) pick(3) : (int) pick(7);

		for (int index = 0; index < table_size(i); index++)
		{
			if (stored[i][index])
				add_change(&request, false, i, index);
			stored[i][index] = false;
		}
		while (count-- > 0 && strcmp(predicates[i].name, "allow") != 0)
		{
			int args[3];
			int index;

			for (int j = 0; j < predicates[i].arity; j++)
				args[j] = (int) pick(KNOWN);
			index = join_index(predicates[i].arity, args);
			if (!stored[i][index])
				add_change(&request, true, i, index);
			stored[i][index] = true;
		}
	}
	if (!run_mutation(engine, ENGINE_BATCH_FACTS, &request, NULL, &answer, &error))
		fail_msg("%s", error.message);
	/* Every one had an effect. */
	assert_int_equal(((Verdict__V1__BatchFactsResponse *) answer.response)->changed,
					 request.n_changes);
	free_message(answer.response);
	for (size_t i = 0; i < request.n_changes; i++)
		free_message(request.changes[i]);
	free(request.changes);
}

/* Questions. */

typedef struct question
{
	int predicate;
	int constant[3];	  /* -1 = open */
	int variable[3];	  /* -1 = wildcard where it is open */
	const char *types[3]; /* by variable */
	int variables;
	char text[256];
} question;

static question
make_question(void)
{
	question question = {0};
	int number = (int) pick(PREDICATES);
	int arity = predicates[number].arity;
	int names[3] = {-1, -1, -1};
	size_t used;

	question.predicate = number;
	for (int i = 0; i < 3; i++)
		question.types[i] = !chance(25)	 ? NULL
							: chance(60) ? "User"
							: chance(60) ? "Team"
										 : "Other";
	used = (size_t) sprintf(question.text, "%s(", predicates[number].name);
	for (int i = 0; i < arity; i++)
	{
		int name = (int) pick(3);

		question.constant[i] = question.variable[i] = -1;
		used += (size_t) sprintf(question.text + used, i > 0 ? ", " : "");
		if (chance(35))
		{
			question.constant[i] = (int) pick(DOMAIN);
			used += (size_t) sprintf(question.text + used, "%s", domain[question.constant[i]].text);
		}
		else if (chance(25))
			used += (size_t) sprintf(question.text + used, "_");
		else
		{
			if (names[name] < 0)
				names[name] = question.variables++;
			question.variable[i] = names[name];
			used += (size_t) sprintf(
				question.text + used, "?v%d%s%s", names[name],
				question.types[names[name]] != NULL ? ":" : "",
				question.types[names[name]] != NULL ? question.types[names[name]] : "");
		}
	}
	strcpy(question.text + used, ")");
	return question;
}

/* The rows as a table over the domain, like those of the predicates. */
static void
expected_rows(const question *question, bool *rows)
{
	int arity = predicates[question->predicate].arity;

	memset(rows, 0, LARGEST * sizeof(bool));
	for (int index = 0; index < table_size(question->predicate); index++)
	{
		int args[3];
		int row[3] = {-1, -1, -1};
		bool agrees = truth[question->predicate][index];

		split_index(index, arity, args);
		for (int i = 0; agrees && i < arity; i++)
		{
			int variable = question->variable[i];

			if (question->constant[i] >= 0)
				agrees = question->constant[i] == args[i];
			else if (variable >= 0)
			{
				agrees = (row[variable] < 0 || row[variable] == args[i]) &&
						 has_type(args[i], question->types[variable]);
				row[variable] = args[i];
			}
		}
		if (agrees)
			rows[join_index(question->variables, row)] = true;
	}
}

static bool
is_value(const Verdict__V1__Value *value, int number)
{
	const store_value *expected = &domain[number].value;

	switch (value->kind_case)
	{
		case VERDICT__V1__VALUE__KIND_IDENTITY:
			return expected->kind == STORE_IDENTITY &&
				   strcmp(value->identity->type, expected->type) == 0 &&
				   strcmp(value->identity->id, expected->text) == 0;
		case VERDICT__V1__VALUE__KIND_STRING:
			return expected->kind == STORE_STRING && strcmp(value->string, expected->text) == 0;
		case VERDICT__V1__VALUE__KIND_INTEGER:
			return expected->kind == STORE_INTEGER && value->integer == expected->integer;
		case VERDICT__V1__VALUE__KIND_BOOLEAN:
			return expected->kind == STORE_BOOLEAN && value->boolean == (expected->integer != 0);
		default:
			return true;
	}
}

static void
answered_rows(const question *question, const Verdict__V1__QueryResponse *response, bool *rows)
{
	int size = 1;

	for (int i = 0; i < question->variables; i++)
		size *= DOMAIN;
	memset(rows, 0, LARGEST * sizeof(bool));
	for (size_t i = 0; i < response->n_rows; i++)
	{
		bool covers = false;

		for (int index = 0; index < size; index++)
		{
			int row[3];
			bool agrees = true;

			split_index(index, question->variables, row);
			for (int j = 0; j < question->variables; j++)
				agrees = agrees && is_value(response->rows[i]->values[j], row[j]) &&
						 has_type(row[j], question->types[j]);
			covers = covers || agrees;
			rows[index] = rows[index] || agrees;
		}
		/* A value out of nowhere. */
		assert_true(covers);
	}
}

/* No row twice, and any rows before the others. */
static void
check_form(const Verdict__V1__QueryResponse *response)
{
	bool specific = false;

	for (size_t i = 0; i < response->n_rows; i++)
	{
		size_t size = verdict__v1__row__get_packed_size(response->rows[i]);
		uint8_t bytes[512];
		uint8_t other[512];
		bool any = false;

		assert_true(size <= sizeof(bytes));
		verdict__v1__row__pack(response->rows[i], bytes);
		for (size_t j = 0; j < i; j++)
		{
			if (verdict__v1__row__get_packed_size(response->rows[j]) != size)
				continue;
			verdict__v1__row__pack(response->rows[j], other);
			assert_memory_not_equal(bytes, other, size);
		}
		for (size_t j = 0; j < response->rows[i]->n_values; j++)
			any =
				any || response->rows[i]->values[j]->kind_case == VERDICT__V1__VALUE__KIND__NOT_SET;
		assert_false(any && specific);
		specific = !any;
	}
}

typedef struct counts
{
	int rules;
	int refused; /* rules */
	int derived; /* facts that follow and are not stored */
	int negations;
	int questions;
	int any_rows;
	int inexpressible;
} counts;

static void
ask(engine *engine, const question *question, counts *counts, const char *about)
{
	static bool expected[LARGEST];
	static bool answered[LARGEST];
	Verdict__V1__QueryResponse *response;
	engine_error error = {0};

	expected_rows(question, expected);
	counts->questions++;
	if (!try_query(engine, question->text, 0, &response, &error))
	{
		/* Refused only where an any of a type cannot be said. */
		if (error.code != ENGINE_INVALID_ARGUMENT ||
			strstr(error.message, "the policy allows any") == NULL)
			fail_msg("%s: %s\n%s", question->text, error.message, about);
		counts->inexpressible++;
		return;
	}
	check_form(response);
	for (size_t i = 0; i < response->n_rows; i++)
	{
		for (size_t j = 0; j < response->rows[i]->n_values; j++)
			counts->any_rows +=
				response->rows[i]->values[j]->kind_case == VERDICT__V1__VALUE__KIND__NOT_SET;
	}
	answered_rows(question, response, answered);
	if (memcmp(expected, answered, sizeof(expected)) != 0)
	{
		char *rows = rows_text(response, true);

		for (int i = 0; i < LARGEST; i++)
		{
			if (expected[i] != answered[i])
			{
				int row[3];

				split_index(i, question->variables, row);
				print_error("%s row:", expected[i] ? "missing" : "wrong");
				for (int j = 0; j < question->variables; j++)
					print_error(" %s", domain[row[j]].text);
				print_error("\n");
			}
		}
		fail_msg("%s gave %s\n%s", question->text, rows, about);
	}
	free_message(response);
}

/* A question without open arguments for many of the facts there could be. */
static void
ask_ground(engine *engine, int predicate, counts *counts, const char *about)
{
	static const unsigned percent[] = {100, 100, 30, 5};

	for (int index = 0; index < table_size(predicate); index++)
	{
		Verdict__V1__QueryResponse *response;
		engine_error error = {0};
		char text[128];
		int args[3];
		size_t used;

		if (!chance(percent[predicates[predicate].arity]))
			continue;
		split_index(index, predicates[predicate].arity, args);
		used = (size_t) sprintf(text, "%s(", predicates[predicate].name);
		for (int i = 0; i < predicates[predicate].arity; i++)
			used += (size_t) sprintf(text + used, "%s%s", i > 0 ? ", " : "", domain[args[i]].text);
		strcpy(text + used, ")");
		if (!try_query(engine, text, 0, &response, &error))
			fail_msg("%s: %s\n%s", text, error.message, about);
		if (response->n_rows != truth[predicate][index])
			fail_msg("%s gave %zu rows\n%s", text, response->n_rows, about);
		free_message(response);
		counts->questions++;
	}
}

static char *
describe(int number, const char *policy)
{
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	fprintf(out, "case %d\n%s", number, policy);
	for (int i = 0; i < PREDICATES; i++)
	{
		for (int index = 0; index < table_size(i); index++)
		{
			int args[3];

			if (!stored[i][index])
				continue;
			split_index(index, predicates[i].arity, args);
			fprintf(out, "fact %s(", predicates[i].name);
			for (int j = 0; j < predicates[i].arity; j++)
				fprintf(out, "%s%s", j > 0 ? ", " : "", domain[args[j]].text);
			fprintf(out, ")\n");
		}
	}
	fclose(out);
	return text;
}

static void
same_as_the_reference(void **state)
{
	engine_options options = {0};
	engine_error error = {0};
	engine *engine;
	counts counts = {0};
	const char *wanted = getenv("VERDICT_TEST_CASES");
	int cases = wanted != NULL ? atoi(wanted) : CASES;

	(void) state;
	options.path = ":memory:";
	engine = engine_open(&options, &error);
	assert_non_null(engine);
	for (int i = 0; i < cases; i++)
	{
		char *text;
		char *about;
		policy *policy;

		random_state = (uint64_t) (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
		policy = make_policy(&text, &counts.refused);
		set_policy(engine, text);
		make_facts(engine);
		reference_evaluate(policy);
		about = describe(i, text);
		for (int j = 0; j < policy->rule_count; j++)
		{
			counts.rules++;
			for (int k = 0; k < policy->rules[j]->condition_count; k++)
				counts.negations += policy->rules[j]->conditions[k].kind == POLICY_HOLDS_NOT;
		}
		for (int j = 0; j < PREDICATES; j++)
		{
			for (int index = 0; index < table_size(j); index++)
				counts.derived += truth[j][index] && !stored[j][index];
			if (predicates[j].rules)
				ask_ground(engine, j, &counts, about);
		}
		for (int j = 0; j < 30; j++)
		{
			question question = make_question();

			ask(engine, &question, &counts, about);
		}
		policy_free(policy);
		free(text);
		free(about);
	}
	engine_close(engine);
	print_message("%d cases, %d rules (%d refused), %d negations, %d derived facts, "
				  "%d questions, %d any values, %d inexpressible\n",
				  cases, counts.rules, counts.refused, counts.negations, counts.derived,
				  counts.questions, counts.any_rows, counts.inexpressible);
	/* What is compared is there to be compared. */
	assert_true(counts.negations > cases / 2);
	assert_true(counts.any_rows > cases / 2);
	assert_true(counts.derived > cases * 10);
	assert_true(counts.inexpressible * 20 < counts.questions);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(same_as_the_reference)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
