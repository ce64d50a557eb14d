/*
 * test_policy.c
 *		The policy language: what is understood, and how what is not is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy.h"

static policy *
parse(const char *text)
{
	engine_error error = {0};
	policy *policy = policy_parse(text, strlen(text), &error);

	if (policy == NULL)
		fail_msg("%s\n%s", error.message, text);
	return policy;
}

static void
assert_refused(const char *text, const char *message)
{
	engine_error error = {0};
	policy *policy = policy_parse(text, strlen(text), &error);

	if (policy != NULL)
		fail_msg("accepted: %s", text);
	assert_int_equal(error.code, ENGINE_INVALID_ARGUMENT);
	assert_string_equal(error.message, message);
}

static void
assert_accepted(const char *text)
{
	policy_free(parse(text));
}

static void
empty_texts(void **state)
{
	static const char *const texts[] = {"", " \t\r\n", "# only a comment",
										"// only a comment\n# and another\n"};

	(void) state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
	{
		policy *policy = parse(texts[i]);

		assert_int_equal(policy->rule_count, 0);
		policy_free(policy);
	}
}

static void
rules_are_read(void **state)
{
	policy *policy =
		parse("# sharing\n"
			  "allow(user: User, \"read\", doc) if viewer(user, doc) // and a comment\n"
			  "  and not banned(user, _) and size(doc, n) and n <= -5 and n != 7;\n"
			  "viewer(User:\"al \\\"x\\\" \\\\ \\n\\r\\t\xc3\xa9\", _: Document);");
	policy_rule *rule;
	policy_term *args;

	(void) state;
	assert_int_equal(policy->rule_count, 2);
	rule = policy->rules[0];
	assert_string_equal(rule->head.predicate->name, "allow");
	assert_int_equal(rule->head.predicate->arity, 3);
	assert_int_equal(rule->variable_count, 3);
	assert_string_equal(rule->variables[0].name, "user");
	assert_string_equal(rule->variables[0].type, "User");
	assert_null(rule->variables[1].type);
	assert_int_equal(rule->head.args[1].kind, POLICY_CONSTANT);
	assert_int_equal(rule->head.args[1].constant.kind, STORE_STRING);
	assert_string_equal(rule->head.args[1].constant.text, "read");
	assert_int_equal(rule->condition_count, 5);
	assert_int_equal(rule->conditions[0].kind, POLICY_HOLDS);
	assert_int_equal(rule->conditions[1].kind, POLICY_HOLDS_NOT);
	assert_int_equal(rule->conditions[1].place.line, 3);
	assert_int_equal(rule->conditions[1].place.column, 7);
	assert_int_equal(rule->conditions[3].kind, POLICY_COMPARES);
	assert_int_equal(rule->conditions[3].comparison, POLICY_LESS_EQUAL);
	assert_int_equal(rule->conditions[3].right.constant.integer, -5);
	assert_int_equal(rule->conditions[4].comparison, POLICY_NOT_EQUAL);

	args = policy->rules[1]->head.args;
	assert_int_equal(args[0].constant.kind, STORE_IDENTITY);
	assert_string_equal(args[0].constant.type, "User");
	assert_string_equal(args[0].constant.text, "al \"x\" \\ \n\r\t\xc3\xa9");
	assert_int_equal(args[1].kind, POLICY_WILDCARD);
	assert_string_equal(args[1].type, "Document");
	/* viewer is negated nowhere; allow negates banned, which has no rules. */
	assert_int_equal(policy_find(policy, "viewer", 2)->stratum, 0);
	assert_int_equal(policy_find(policy, "allow", 3)->stratum, 1);
	assert_null(policy_find(policy, "allow", 2));
	policy_free(policy);
}

static void
integers_at_the_ends(void **state)
{
	policy *policy = parse("p(9223372036854775807, -9223372036854775808, 0);");

	(void) state;
	assert_true(policy->rules[0]->head.args[0].constant.integer == INT64_MAX);
	assert_true(policy->rules[0]->head.args[1].constant.integer == INT64_MIN);
	policy_free(policy);
	assert_refused("p(9223372036854775808);", "line 1 column 3: the number does not fit 64 bits");
	assert_refused("p(-9223372036854775809);", "line 1 column 3: the number does not fit 64 bits");
	assert_refused("p(12a);", "line 1 column 5: a number holds digits only");
	assert_refused("p(- 1);", "line 1 column 3: \"-\" means nothing here");
}

static void
wrong_tokens(void **state)
{
	(void) state;
	assert_refused("p(1);\n\n  q(@);", "line 3 column 5: \"@\" means nothing here");
	assert_refused("p(1) /* no */;", "line 1 column 6: \"/\" means nothing here");
	assert_refused("p(\"ab\n\");", "line 1 column 3: the string does not end on its line");
	assert_refused("p(\"ab", "line 1 column 3: the string does not end on its line");
	assert_refused("p(\"ab\\", "line 1 column 6: after a backslash comes one of \" \\ n r t");
	assert_refused("p(\"\\x\");", "line 1 column 4: after a backslash comes one of \" \\ n r t");
	assert_refused("p(\"\xff\");", "line 1 column 4: the text is not valid UTF-8");
	assert_refused("# \xc3\xa9 \xc3\n", "line 1 column 5: the text is not valid UTF-8");
	assert_refused("\xc3\xa9(1);", "line 1 column 1: \"\xc3\xa9\" means nothing here");
	/* Columns count characters. */
	assert_refused("p(\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\") @",
				   "line 1 column 10: \"@\" means nothing here");
}

static void
text_with_a_nul(void **state)
{
	static const char *const texts[] = {"p(1);\0q(1);", "# a\0b\n", "p(\"a\0b\");"};
	static const size_t sizes[] = {11, 6, 9};

	(void) state;
	for (size_t i = 0; i < 3; i++)
	{
		engine_error error = {0};

		assert_null(policy_parse(texts[i], sizes[i], &error));
		assert_non_null(strstr(error.message, "the text is not valid UTF-8"));
	}
}

static void
wrong_grammar(void **state)
{
	static const struct
	{
		const char *text;
		const char *message;
	} cases[] = {
		{"allow", "line 1 column 6: expected \"(\", found the end of the policy"},
		{"(", "line 1 column 1: expected a predicate, found ("},
		{"if(1);", "line 1 column 1: expected a predicate, found if"},
		{"p(1)", "line 1 column 5: expected \"if\" or \";\", found the end of the policy"},
		{"p(1) q(1);", "line 1 column 6: expected \"if\" or \";\", found q"},
		{"p(1) if q(1) q(2);", "line 1 column 14: expected \"and\" or \";\", found q"},
		{"p(1) if ;", "line 1 column 9: expected an argument, found ;"},
		{"p(1) if q(1) and;", "line 1 column 17: expected an argument, found ;"},
		{"p(1,);", "line 1 column 5: expected an argument, found )"},
		{"p(1 2);", "line 1 column 5: expected \",\" or \")\", found 2"},
		{"p(User:);", "line 1 column 8: expected a type, or an id in quotes, found )"},
		{"p(_:\"x\");", "line 1 column 5: expected a type, found \"x\""},
		{"p(User:\"\");", "line 1 column 8: the id of an identity is not empty"},
		{"p(1) if not not q(1);",
		 "line 1 column 13: expected a predicate after \"not\", found not"},
		{"p(1) if not 1 < 2;", "line 1 column 13: expected a predicate after \"not\", found 1"},
		{"p(x) if q(x) and x;", "line 1 column 19: expected \"(\" or a comparison, found ;"},
		{"p(x) if q(x) and x < \"a\";", "line 1 column 22: only integers have an order"},
		{"p(x) if q(x) and x < _;", "line 1 column 22: \"_\" cannot be compared"},
		{"p(x: A) if q(x: B);", "line 1 column 17: \"x\" has the type A already (line 1 column 6)"},
		{"p(x) if q(x) and not r(x: A);", "line 1 column 27: the type of \"x\" belongs where the "
										  "variable is bound, not into \"not\""},
		{"allow(a, b);",
		 "line 1 column 1: allow takes 3 arguments (actor, action, resource), not 2"},
		{"p(1) if\nallow(_);",
		 "line 2 column 1: allow takes 3 arguments (actor, action, resource), not 1"},
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_refused(cases[i].text, cases[i].message);
}

static void
unsafe_variables(void **state)
{
	static const struct
	{
		const char *text;
		const char *message;
	} cases[] = {
		{"viewer(usr, doc) if owner(user, doc);",
		 "line 1 column 8: \"usr\" is unsafe: no condition binds it; write _ for any value"},
		{"public(doc);",
		 "line 1 column 8: \"doc\" is unsafe: no condition binds it; write _ for any value"},
		{"p(x) if q(x) and not r(y);",
		 "line 1 column 24: \"y\" in \"not\" is unsafe: no condition without \"not\" binds it"},
		{"p(x) if q(x) and y < 3;", "line 1 column 18: \"y\" in a comparison is unsafe: no "
									"condition without \"not\" binds it"},
		{"p(1) if x = y;",
		 "line 1 column 9: \"x\" in a comparison is unsafe: no condition without \"not\" binds it"},
		/* Nothing but a negation binds a head variable. */
		{"p(x) if not q(x);",
		 "line 1 column 15: \"x\" in \"not\" is unsafe: no condition without \"not\" binds it"},
		{"allow(x, \"same\", x);", "line 1 column 18: \"x\" twice in a head is unsafe: no "
								   "condition without \"not\" binds it"},
		/* Any value comes through a rule, and through rules of rules. */
		{"open(_);\nopen2(x) if open(x);\np(x) if open2(x) and not q(x);",
		 "line 3 column 28: \"x\" in \"not\" is unsafe: the predicate that binds it may allow any "
		 "value there"},
		{"open(_);\np(x) if open(x) and x != 3;",
		 "line 2 column 21: \"x\" in a comparison is unsafe: the predicate that binds it may allow "
		 "any value there"},
		{"open(_);\np(x, x) if open(x);", "line 2 column 6: \"x\" twice in a head is unsafe: the "
										  "predicate that binds it may allow any value there"},
		/* In a cycle, found from the other end. */
		{"p(x) if q(x);\nq(x) if p(x);\nr(x) if p(x) and x > 1;\nq(_);",
		 "line 3 column 18: \"x\" in a comparison is unsafe: the predicate that binds it may allow "
		 "any value there"},
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_refused(cases[i].text, cases[i].message);
}

static void
safe_variables(void **state)
{
	(void) state;
	assert_accepted("allow(user: User, action, _) if is_admin(user);");
	assert_accepted("allow(_, _, _);");
	assert_accepted("viewer(_, doc) if public(doc);");
	assert_accepted("p(x) if x = 3;");
	assert_accepted("p(x) if q(y) and z = y and x = z and not r(x);");
	assert_accepted("open(_); p(x) if open(x) and q(x) and not r(x);");
	assert_accepted("p(x) if q(x) and not r(x, _: User);");
	assert_accepted("p(x, x) if q(x);");
	/* allow may be any in its third argument only. */
	assert_accepted("allow(u, a, _) if admin(u, a);\n"
					"allow(u, a, d) if parent(d, f) and allow(u, a, f) and not banned(u, d);");
}

static void
strata(void **state)
{
	policy *policy;

	(void) state;
	assert_refused(
		"p(x) if q(x) and not p(x);",
		"line 1 column 18: \"p\" depends on its own negation: the rules are not stratified");
	assert_refused(
		"p(x) if q(x);\nq(x) if r(x);\nr(x) if s(x) and\n not p(x);",
		"line 4 column 2: \"r\" depends on its own negation: the rules are not stratified");
	policy = parse("d(x) if e(x) and not c(x); c(x) if b(x); b(x) if e(x) and not a(x);"
				   "a(x) if e(x) and a(x); e(x) if e(x);");
	assert_int_equal(policy_find(policy, "a", 1)->stratum, 0);
	assert_int_equal(policy_find(policy, "e", 1)->stratum, 0);
	assert_int_equal(policy_find(policy, "b", 1)->stratum, 1);
	assert_int_equal(policy_find(policy, "c", 1)->stratum, 1);
	assert_int_equal(policy_find(policy, "d", 1)->stratum, 2);
	assert_int_equal(policy->strata, 3);
	policy_free(policy);
	/* The same name with another number of arguments is another predicate. */
	assert_accepted("p(x) if q(x) and not p(x, x);");
}

static void
limits(void **state)
{
	char *text = malloc(POLICY_MAX_BYTES + 2);
	size_t used = 0;
	policy *policy;
	engine_error error = {0};

	(void) state;
	used = (size_t) sprintf(text, "p(");
	for (int i = 0; i < 64; i++)
		used += (size_t) sprintf(text + used, "%s%d", i > 0 ? "," : "", i);
	strcpy(text + used, ");");
	assert_accepted(text);
	strcpy(text + used, ",x);");
	assert_refused(text, "line 1 column 185: a predicate has at most 64 arguments");

	used = (size_t) sprintf(text, "p(x) if q(x)");
	for (int i = 1; i < 64; i++)
		used += (size_t) sprintf(text + used, " and q(x)");
	strcpy(text + used, ";");
	policy = parse(text);
	assert_int_equal(policy->rules[0]->condition_count, 64);
	policy_free(policy);
	strcpy(text + used, " and q(x);");
	assert_refused(text, "line 1 column 585: a rule has at most 64 conditions");

	memset(text, 'a', 129);
	strcpy(text + 129, "(1);");
	assert_refused(text, "line 1 column 1: a name has at most 128 characters");
	assert_accepted(text + 1);

	memset(text, ' ', POLICY_MAX_BYTES + 1);
	policy = policy_parse(text, POLICY_MAX_BYTES, &error);
	assert_non_null(policy);
	policy_free(policy);
	assert_null(policy_parse(text, POLICY_MAX_BYTES + 1, &error));
	assert_string_equal(error.message, "the policy has 1048577 bytes, more than 1048576");
	free(text);
}

/* A chain as long as a policy allows: neither recursion nor quadratic time. */
static void
long_chains(void **state)
{
	static const char *const formats[] = {"p%d(x) if p%d(x);\n",
										  "p%d(x) if e(x) and not p%d(x);\n"};
	char *text = malloc(POLICY_MAX_BYTES + 1);

	(void) state;
	for (int reversed = 0; reversed < 2; reversed++)
	{
		for (int negated = 0; negated < 2; negated++)
		{
			size_t used = 0;
			policy *policy;
			int last = 20000;

			for (int i = 0; i < last; i++)
			{
				int from = reversed ? last - 1 - i : i;

				used += (size_t) sprintf(text + used, formats[negated], from, from + 1);
			}
			if (!negated)
				sprintf(text + used, "p%d(_);", last);
			policy = parse(text);
			assert_int_equal(policy->strata, negated ? last + 1 : 1);
			assert_int_equal(policy_find(policy, "p0", 1)->any, negated ? 0 : 1);
			policy_free(policy);
		}
	}
	free(text);
}

/* Every prefix of a policy is either understood or refused; none is read past. */
static void
every_prefix(void **state)
{
	static const char text[] =
		"allow(user: User, \"re\\\"ad\", _) if p(user, -12) and not q(_: T, true)\n"
		"# \xc3\xa9\n and user != User:\"x\" and user = y and y = 7; r(false);";

	(void) state;
	for (size_t size = 0; size <= strlen(text); size++)
	{
		/* Of its own, so that reading past the end is seen. */
		char *copy = malloc(size > 0 ? size : 1);
		engine_error error = {0};
		policy *policy;

		memcpy(copy, text, size);
		policy = policy_parse(copy, size, &error);
		if (policy == NULL)
			assert_int_equal(strncmp(error.message, "line ", 5), 0);
		policy_free(policy);
		free(copy);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(empty_texts),
									   cmocka_unit_test(rules_are_read),
									   cmocka_unit_test(integers_at_the_ends),
									   cmocka_unit_test(wrong_tokens),
									   cmocka_unit_test(text_with_a_nul),
									   cmocka_unit_test(wrong_grammar),
									   cmocka_unit_test(unsafe_variables),
									   cmocka_unit_test(safe_variables),
									   cmocka_unit_test(strata),
									   cmocka_unit_test(limits),
									   cmocka_unit_test(long_chains),
									   cmocka_unit_test(every_prefix)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
