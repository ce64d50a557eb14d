/*
 * test_eval.c
 *		Answers of policies that are told as small stories; test_reference.c
 *		compares many that are made at random.
 */
#include "engine_helpers.h"

static engine *engine_under_test;

static int
open_fresh(void **state)
{
	(void) state;
	test_remove_store();
	engine_under_test = test_open();
	return 0;
}

static int
close_it(void **state)
{
	(void) state;
	engine_close(engine_under_test);
	return 0;
}

static void
assert_answers(const char *pattern, const char *expected)
{
	assert_query(engine_under_test, pattern, expected);
}

static void
insert_all(const char *const *facts)
{
	for (; *facts != NULL; facts++)
		assert_true(insert(engine_under_test, *facts));
}

static const char sharing[] =
	"allow(actor, \"read\", doc)  if viewer(actor, doc);\n"
	"allow(actor, action, doc)  if parent(doc, folder) and allow(actor, action, folder);\n"
	"allow(user: User, _, _)    if is_admin(user);\n"
	"viewer(user, doc)          if team_viewer(team, doc) and member(user, team) and not "
	"banned(user, doc);\n";

static void
file_sharing(void **state)
{
	static const char *const facts[] = {"team_viewer(Team:staff, Folder:top)",
										"team_viewer(Team:staff, Document:memo)",
										"member(User:alice, Team:staff)",
										"member(User:bob, Team:staff)",
										"banned(User:bob, Folder:top)",
										"parent(Folder:sub, Folder:top)",
										"parent(Document:plan, Folder:sub)",
										"is_admin(User:root)",
										"is_admin(Robot:cron)",
										NULL};
	engine *engine = engine_under_test;

	(void) state;
	set_policy(engine, sharing);
	insert_all(facts);
	assert_true(allowed(engine, "User:alice", "read", "Document:plan"));
	assert_true(allowed(engine, "User:alice", "read", "Folder:top"));
	assert_false(allowed(engine, "User:alice", "write", "Document:plan"));
	assert_false(allowed(engine, "User:bob", "read", "Document:plan"));
	assert_true(allowed(engine, "User:bob", "read", "Document:memo"));
	assert_false(allowed(engine, "User:carol", "read", "Document:memo"));
	/* Any resource, also one that nobody has heard of. */
	assert_true(allowed(engine, "User:root", "burn", "Moon:full"));
	assert_false(allowed(engine, "Robot:cron", "read", "Document:plan"));

	assert_answers("allow(User:alice, \"read\", ?d:Document)", "Document:memo; Document:plan");
	assert_answers("allow(User:alice, ?a, ?d)", "\"read\", Document:memo; \"read\", Document:plan; "
												"\"read\", Folder:sub; \"read\", Folder:top");
	assert_answers("allow(?u, \"read\", Document:memo)", "User:alice; User:bob; User:root");
	assert_answers("allow(?u:Robot, _, _)", "");
	/* The rule of the folder repeats what the administrator may do anyway. */
	assert_answers("allow(User:root, \"read\", ?d:Document)", "*; Document:plan");
	assert_answers("allow(User:root, ?a, Document:memo)", "*");
	assert_answers("allow(User:root, _, _)", "yes");
	assert_answers("allow(User:carol, _, _)", "");
	/* Revoked. */
	assert_true(delete (engine, "member(User:alice, Team:staff)"));
	assert_false(allowed(engine, "User:alice", "read", "Document:plan"));
}

static void
cycles(void **state)
{
	static const char *const facts[] = {"parent(Folder:a, Folder:b)",
										"parent(Folder:b, Folder:c)",
										"parent(Folder:c, Folder:a)",
										"parent(Folder:x, Folder:x)",
										"team_viewer(Team:t, Folder:b)",
										"member(User:u, Team:t)",
										NULL};
	engine *engine = engine_under_test;

	(void) state;
	set_policy(engine, sharing);
	insert_all(facts);
	assert_true(allowed(engine, "User:u", "read", "Folder:a"));
	assert_true(allowed(engine, "User:u", "read", "Folder:c"));
	assert_false(allowed(engine, "User:u", "read", "Folder:x"));
	assert_false(allowed(engine, "User:v", "read", "Folder:a"));
	assert_answers("allow(?u, ?a, ?d)", "User:u, \"read\", Folder:a; User:u, \"read\", Folder:b; "
										"User:u, \"read\", Folder:c");
}

static void
mutual_and_double_recursion(void **state)
{
	static const char *const facts[] = {"edge(1, 2)", "edge(2, 3)", "edge(3, 4)", "edge(4, 1)",
										"edge(4, 5)", "edge(6, 6)", NULL};

	(void) state;
	insert_all(facts);
	set_policy(engine_under_test, "reach(x, y) if edge(x, y);\n"
								  "reach(x, z) if reach(x, y) and reach(y, z);\n"
								  "even(x, x) if edge(x, _);\n"
								  "even(x, z) if odd(x, y) and edge(y, z);\n"
								  "odd(x, z) if even(x, y) and edge(y, z);\n");
	assert_answers("reach(1, ?y)", "1; 2; 3; 4; 5");
	assert_answers("reach(?x, 5)", "1; 2; 3; 4");
	assert_answers("reach(?x, ?x)", "1; 2; 3; 4; 6");
	assert_answers("reach(5, ?y)", "");
	assert_answers("odd(1, ?y)", "2; 4");
	assert_answers("even(1, ?y)", "1; 3; 5");
	assert_answers("odd(6, 6)", "yes");
}

static void
negation(void **state)
{
	static const char *const facts[] = {
		"node(1)",	  "node(2)",	"node(3)",		   "node(4)",		  "edge(1, 2)",
		"edge(2, 3)", "edge(3, 2)", "mark(2, User:a)", "mark(3, Team:a)", NULL};

	(void) state;
	insert_all(facts);
	set_policy(engine_under_test, "reach(x, y) if edge(x, y);\n"
								  "reach(x, z) if edge(x, y) and reach(y, z);\n"
								  "apart(x, y) if node(x) and node(y) and not reach(x, y);\n"
								  "leaf(x) if node(x) and not edge(x, _);\n"
								  "unmarked(x) if node(x) and not mark(x, _: User);\n"
								  "cyclic(x) if reach(x, x);\n"
								  "tree(x) if node(x) and not cyclic(x) and not onto_cycle(x);\n"
								  "onto_cycle(x) if reach(x, y) and cyclic(y);\n"
								  "lonely(x) if leaf(x) and not reach(_, x);\n"
								  "derived_unmarked(x) if node(x) and not marked(x, _: User);\n"
								  "marked(x, y) if mark(x, y);\n"
								  "some() if node(_); none() if node(x) and not some();\n");
	assert_answers("apart(1, ?y)", "1; 4");
	assert_answers("apart(?x, 2)", "4");
	assert_answers("leaf(?x)", "4");
	assert_answers("unmarked(?x)", "1; 3; 4");
	assert_answers("derived_unmarked(?x)", "1; 3; 4");
	assert_answers("tree(?x)", "4");
	assert_answers("tree(2)", "");
	assert_answers("tree(4)", "yes");
	assert_answers("lonely(?x)", "4");
	assert_answers("some()", "yes");
	assert_answers("none()", "");
}

static void
comparisons(void **state)
{
	static const char *const facts[] = {
		"size(Document:a, 5)",		  "size(Document:b, 10)",		"size(Document:c, 10)",
		"size(Document:d, \"10\")",	  "size(Document:e, true)",		"limit(10)",
		"author(Document:a, User:x)", "author(Document:b, User:y)", NULL};

	(void) state;
	insert_all(facts);
	set_policy(engine_under_test, "lt(d) if size(d, n) and limit(m) and n < m;\n"
								  "le(d) if size(d, n) and limit(m) and n <= m;\n"
								  "gt(d) if size(d, n) and limit(m) and m > n;\n"
								  "ge(d) if size(d, n) and limit(m) and n >= m;\n"
								  "eq(d) if size(d, n) and limit(n);\n"
								  "eq2(d) if size(d, n) and limit(m) and m = n;\n"
								  "ne(d) if size(d, n) and limit(m) and m != n;\n"
								  "text(d) if size(d, n) and n = \"10\";\n"
								  "yes(d) if size(d, n) and n = true;\n"
								  "mine(d) if author(d, u) and u = User:\"x\";\n"
								  "others(d) if author(d, u) and u != User:\"x\";\n"
								  "bound(x, y) if x = 3 and y = x;\n"
								  "typed(x: Document) if size(x, n) and n = 10;\n"
								  "mistyped(x: User) if x = 10;\n"
								  "constant() if 1 < 2 and 2 >= 2 and \"a\" != User:\"a\";\n"
								  "false_constant() if 2 < 1;\n");
	assert_answers("lt(?d)", "Document:a");
	assert_answers("le(?d)", "Document:a; Document:b; Document:c");
	assert_answers("gt(?d)", "Document:a");
	assert_answers("ge(?d)", "Document:b; Document:c");
	assert_answers("eq(?d)", "Document:b; Document:c");
	assert_answers("eq2(?d)", "Document:b; Document:c");
	assert_answers("ne(?d)", "Document:a; Document:d; Document:e");
	assert_answers("text(?d)", "Document:d");
	assert_answers("yes(?d)", "Document:e");
	assert_answers("mine(?d)", "Document:a");
	assert_answers("others(?d)", "Document:b");
	assert_answers("bound(?x, ?y)", "3, 3");
	assert_answers("bound(3, 4)", "");
	assert_answers("typed(?d)", "Document:b; Document:c");
	assert_answers("mistyped(?d)", "");
	assert_answers("mistyped(10)", "");
	assert_answers("constant()", "yes");
	assert_answers("false_constant()", "");
}

static void
facts_and_rules_of_one_predicate(void **state)
{
	static const char *const facts[] = {"viewer(User:a, Document:d)", "owner(User:b, Document:d)",
										NULL};

	(void) state;
	insert_all(facts);
	set_policy(engine_under_test, "viewer(u, d) if owner(u, d);\n"
								  "viewer(User:\"c\", Document:\"d\");\n"
								  "allow(u, \"read\", d) if viewer(u, d);\n");
	assert_answers("viewer(?u, Document:d)", "User:a; User:b; User:c");
	assert_answers("allow(?u, \"read\", ?d)",
				   "User:a, Document:d; User:b, Document:d; User:c, Document:d");
	assert_true(allowed(engine_under_test, "User:a", "read", "Document:d"));
	assert_true(allowed(engine_under_test, "User:c", "read", "Document:d"));
	assert_false(allowed(engine_under_test, "User:d", "read", "Document:d"));
}

static void
any_values(void **state)
{
	static const char *const facts[] = {"admin(User:root)",	  "auditor(User:ann)",
										"public(Document:p)", "owner(User:bob, Document:b)",
										"action(\"read\")",	  "action(\"write\")",
										"blocked(User:eve)",  "user(User:bob)",
										"user(User:eve)",	  NULL};
	engine *engine = engine_under_test;

	(void) state;
	insert_all(facts);
	set_policy(engine, "allow(user: User, _, _) if admin(user);\n"
					   "allow(user, \"audit\", doc: Document) if auditor(user);\n"
					   "allow(_, \"read\", doc) if public(doc);\n"
					   "allow(_: User, \"list\", _: Folder);\n"
					   "allow(user, action, doc) if owner(user, doc);\n"
					   "opener(_, doc) if public(doc);\n"
					   "can(user, act, doc) if action(act) and allow(user, act, doc);\n"
					   "reader(user) if user(user) and opener(user, _) and not blocked(user);\n"
					   "all(x, y) if opener(x, _) and opener(y, _);\n");
	assert_answers("allow(User:root, ?a, ?d:Document)", "\"read\", Document:p; *, *");
	assert_answers("allow(User:bob, ?a, ?d:Document)", "\"read\", Document:p; *, Document:b");
	assert_answers("allow(?u:User, \"list\", ?f:Folder)", "*, *; User:root, *");
	assert_answers("allow(?u:Robot, \"list\", ?f:Folder)", "");
	assert_answers("allow(User:ann, \"audit\", ?d:Document)", "*");
	assert_answers("allow(User:ann, \"audit\", ?d:Folder)", "");
	assert_answers("allow(User:ann, \"audit\", Document:any)", "yes");
	assert_answers("allow(User:ann, \"audit\", Folder:any)", "");
	assert_answers("allow(Robot:r, \"read\", ?d)", "Document:p");
	assert_answers("allow(?x, \"read\", Document:p)", "*; User:root");
	/* A wildcard says nothing about the value, so it may be any of a type. */
	assert_answers("allow(User:ann, \"audit\", _)", "yes");
	assert_answers("allow(?u, \"read\", _)", "*; User:bob; User:root");
	/* An any meets a value in a rule, and an any another any. */
	assert_answers("can(User:root, ?a, Document:x)", "\"read\"; \"write\"");
	assert_answers("reader(?u)", "User:bob");
	assert_answers("opener(?u, ?d)", "*, Document:p");
	assert_answers("all(?x, ?y)", "*, *");
	assert_answers("all(?x, ?x)", "*");
	assert_answers("all(?x:User, ?x)", "*");
	assert_answers("all(User:a, 3)", "yes");
	/* What a row cannot say is an error, not too much. */
	assert_query_refused(engine, "allow(User:ann, \"audit\", ?d)",
						 "pattern.args[2]: the policy allows any Document here, which a row "
						 "can only say of a variable with that type: ask for ?d:Document");
}

static void
typed_variables(void **state)
{
	static const char *const facts[] = {"in(User:a, Team:t)", "in(Robot:r, Team:t)",
										"in(User:b, User:b)", "in(5, Team:t)", NULL};
	engine *engine = engine_under_test;

	(void) state;
	insert_all(facts);
	set_policy(engine, "person(x: User) if in(x, _);\n"
					   "person2(x) if in(x: User, _: Team);\n"
					   "other(x: Nobody) if in(x, _);\n"
					   "robots_only(x) if in(x, t) and robot(x);\n"
					   "robot(_: Robot);\n");
	assert_answers("in(?x:User, ?y)", "User:a, Team:t; User:b, User:b");
	assert_answers("in(?x:User, ?x)", "User:b");
	assert_answers("in(?x:User, ?x:Team)", "");
	assert_answers("in(?x:Unknown, _)", "");
	assert_answers("person(?x)", "User:a; User:b");
	assert_answers("person(Robot:r)", "");
	assert_answers("person2(?x)", "User:a");
	assert_answers("other(?x)", "");
	assert_answers("robots_only(?x)", "Robot:r");
	assert_answers("person(?x:User)", "User:a; User:b");
	assert_answers("person(?x:Robot)", "");
	/* Types and values that the store does not know. */
	assert_answers("robot(Robot:unknown)", "yes");
	assert_answers("robot(Unknown:unknown)", "");
	assert_answers("robot(\"Robot\")", "");
}

static void
limits(void **state)
{
	engine *engine = engine_under_test;
	char text[64];
	Verdict__V1__QueryResponse *response;
	engine_error error = {0};
	static const char *const patterns[] = {"n(?x)", "derived(?x)", "n2(?x, _)"};

	(void) state;
	set_policy(engine, "derived(x) if n(x);\n"
					   "mixed(x) if n(x); mixed(_) if n(3);\n");
	for (int i = 0; i < 5; i++)
	{
		sprintf(text, "n(%d)", i);
		insert(engine, text);
		sprintf(text, "n2(%d, 0)", i);
		insert(engine, text);
		sprintf(text, "n2(%d, 1)", i);
		insert(engine, text);
	}
	for (size_t i = 0; i < 3; i++)
	{
		for (uint32_t limit = 1; limit < 8; limit++)
		{
			assert_true(try_query(engine, patterns[i], limit, &response, &error));
			assert_int_equal(response->n_rows, limit < 5 ? limit : 5);
			assert_int_equal(response->truncated, limit < 5);
			free_message(response);
		}
	}
	/* A row that means any comes first where a limit cuts. */
	assert_true(try_query(engine, "mixed(?x)", 1, &response, &error));
	assert_true(response->truncated);
	assert_int_equal(response->n_rows, 1);
	assert_int_equal(response->rows[0]->values[0]->kind_case, VERDICT__V1__VALUE__KIND__NOT_SET);
	free_message(response);
	assert_true(try_query(engine, "mixed(?x)", 6, &response, &error));
	assert_false(response->truncated);
	assert_int_equal(response->n_rows, 6);
	assert_int_equal(response->rows[0]->values[0]->kind_case, VERDICT__V1__VALUE__KIND__NOT_SET);
	free_message(response);
	assert_true(try_query(engine, "mixed(3)", 1, &response, &error));
	assert_false(response->truncated);
	assert_int_equal(response->n_rows, 1);
	assert_int_equal(response->rows[0]->n_values, 0);
	free_message(response);
}

static void
the_caps_of_the_instance(void **state)
{
	engine_options options = {0};
	engine_error error = {0};
	Verdict__V1__QueryResponse *response;
	Verdict__V1__ListFactsRequest request = VERDICT__V1__LIST_FACTS_REQUEST__INIT;
	Verdict__V1__ListFactsResponse *facts;
	static const uint32_t wanted[] = {0, 2, 100};

	(void) state;
	engine_close(engine_under_test);
	options.path = test_path();
	options.max_query_rows = 2;
	options.max_list_facts = 2;
	engine_under_test = engine_open(&options, &error);
	insert(engine_under_test, "n(1)");
	insert(engine_under_test, "n(2)");
	insert(engine_under_test, "n(3)");
	for (size_t i = 0; i < 3; i++)
	{
		assert_true(try_query(engine_under_test, "n(?x)", wanted[i], &response, &error));
		assert_int_equal(response->n_rows, 2);
		assert_true(response->truncated);
		free_message(response);
		request.limit = wanted[i];
		assert_true(engine_list_facts(engine_under_test, &request, &facts, &error));
		assert_int_equal(facts->n_facts, 2);
		assert_true(facts->next.len > 0);
		free_message(facts);
	}
}

static void
variables_in_order(void **state)
{
	Verdict__V1__QueryResponse *response;
	engine_error error = {0};

	(void) state;
	insert(engine_under_test, "p(1, 2, 1, 3)");
	assert_true(try_query(engine_under_test, "p(?z, ?a, ?z, ?m)", 0, &response, &error));
	assert_int_equal(response->n_variables, 3);
	assert_string_equal(response->variables[0], "z");
	assert_string_equal(response->variables[1], "a");
	assert_string_equal(response->variables[2], "m");
	assert_int_equal(response->n_rows, 1);
	assert_int_equal(response->rows[0]->values[0]->integer, 1);
	assert_int_equal(response->rows[0]->values[1]->integer, 2);
	assert_int_equal(response->rows[0]->values[2]->integer, 3);
	free_message(response);
	/* The names are there when no row is. */
	assert_true(try_query(engine_under_test, "p(?x:A, ?x:B, ?y, _)", 0, &response, &error));
	assert_int_equal(response->n_variables, 2);
	assert_int_equal(response->n_rows, 0);
	free_message(response);
}

static void
malformed_requests(void **state)
{
	engine *engine = engine_under_test;
	Verdict__V1__QueryRequest query = VERDICT__V1__QUERY_REQUEST__INIT;
	Verdict__V1__QueryResponse *rows;
	Verdict__V1__AuthorizeRequest check = VERDICT__V1__AUTHORIZE_REQUEST__INIT;
	Verdict__V1__AuthorizeResponse *answer;
	engine_error error = {0};

	(void) state;
	assert_query_refused(engine, "allow(?x)",
						 "pattern.args: allow takes 3 arguments (actor, action, resource), not 1");
	assert_query_refused(engine, "(?x)", "pattern.predicate: is empty");
	assert_query_refused(engine, "p(?)", "pattern.args[0].variable.name: is empty");
	assert_query_refused(engine, "p(1, ?a-b)",
						 "pattern.args[1].variable.name: \"a-b\" is not an identifier (letters, "
						 "digits and underscores, at most 128)");
	assert_query_refused(engine, "p(?a:b-c)",
						 "pattern.args[0].variable.type: \"b-c\" is not an identifier (letters, "
						 "digits and underscores, at most 128)");
	assert_query_refused(engine, "p(User:)", "pattern.args[0].identity.id: is empty");
	assert_false(engine_query(engine, &query, &rows, &error));
	assert_string_equal(error.message, "pattern: is missing");
	query.pattern = parse_pattern("p(1)");
	query.pattern->args[0]->value->kind_case = VERDICT__V1__VALUE__KIND__NOT_SET;
	assert_false(engine_query(engine, &query, &rows, &error));
	assert_string_equal(error.message, "pattern.args[0]: the value is not set");
	free_message(query.pattern);

	assert_false(engine_authorize(engine, &check, &answer, &error));
	assert_string_equal(error.message, "actor: is missing");
	check.actor = parse_identity("User:a");
	assert_false(engine_authorize(engine, &check, &answer, &error));
	assert_string_equal(error.message, "resource: is missing");
	check.resource = parse_identity("Document:");
	assert_false(engine_authorize(engine, &check, &answer, &error));
	assert_int_equal(error.code, ENGINE_INVALID_ARGUMENT);
	assert_string_equal(error.message, "resource.id: is empty");
	free_message(check.actor);
	free_message(check.resource);
}

static void
insert_numbers(const char *format, int count)
{
	Verdict__V1__BatchFactsRequest request = VERDICT__V1__BATCH_FACTS_REQUEST__INIT;
	engine_answer answer;
	engine_error error = {0};
	char text[128];

	request.changes = malloc(10000 * sizeof(*request.changes));
	for (int i = 0; i < count; i++)
	{
		Verdict__V1__FactChange *change = malloc(sizeof(*change));

		verdict__v1__fact_change__init(change);
		change->change_case = VERDICT__V1__FACT_CHANGE__CHANGE_INSERT;
		snprintf(text, sizeof(text), format, i, i + 1);
		change->insert = parse_fact(text);
		request.changes[request.n_changes++] = change;
		if (request.n_changes == 10000 || i + 1 == count)
		{
			if (!run_mutation(engine_under_test, ENGINE_BATCH_FACTS, &request, NULL, &answer,
							  &error))
				fail_msg("%s", error.message);
			free_message(answer.response);
			while (request.n_changes > 0)
				free_message(request.changes[--request.n_changes]);
		}
	}
	free(request.changes);
}

/* A chain of 100,000 levels: none of it on the C stack. */
static void
deep_recursion(void **state)
{
	engine *engine = engine_under_test;

	(void) state;
	set_policy(engine, "allow(u, \"read\", d) if owner(u, d);\n"
					   "allow(u, act, d) if parent(d, f) and allow(u, act, f);\n"
					   "orphan(d) if parent(d, _) and not rooted(d);\n"
					   "rooted(d) if root(d);\n"
					   "rooted(d) if parent(d, f) and rooted(f);\n");
	insert_numbers("parent(Folder:%d, Folder:%d)", 100000);
	insert(engine, "owner(User:a, Folder:100000)");
	insert(engine, "root(Folder:100000)");
	assert_true(allowed(engine, "User:a", "read", "Folder:0"));
	assert_false(allowed(engine, "User:b", "read", "Folder:0"));
	assert_answers("orphan(Folder:0)", "");
	assert_true(delete (engine, "root(Folder:100000)"));
	assert_answers("orphan(Folder:0)", "yes");
	/* From the other side: what may he read? */
	{
		Verdict__V1__QueryResponse *response;
		engine_error error = {0};

		assert_true(try_query(engine, "allow(User:a, \"read\", ?d)", 0, &response, &error));
		assert_int_equal(response->n_rows, 100000);
		assert_true(response->truncated);
		free_message(response);
	}
	/* Closed to a circle. */
	insert(engine, "parent(Folder:100000, Folder:0)");
	assert_false(allowed(engine, "User:b", "read", "Folder:0"));
	assert_answers("orphan(Folder:5)", "yes");
}

/* An evaluation that would take all memory is an error, and the next one works. */
static void
too_large_an_evaluation(void **state)
{
	Verdict__V1__QueryResponse *response;
	engine_error error = {0};

	(void) state;
	set_policy(engine_under_test, "pair(x, y) if n(x, _) and n(y, _);\n"
								  "quad(x, y) if pair(x, y) and pair(y, x) and x = y;\n");
	insert_numbers("n(%d, %d)", 6000);
	assert_false(try_query(engine_under_test, "quad(?x, ?y)", 0, &response, &error));
	assert_int_equal(error.code, ENGINE_RESOURCE_EXHAUSTED);
	assert_answers("pair(5, 7)", "yes");
}

/* The order in which conditions are written does not matter for the speed. */
static void
order_of_conditions(void **state)
{
	(void) state;
	set_policy(engine_under_test,
			   "far(u, d) if n(x, _) and n(y, _) and own(u, x) and link(x, y) and at(y, d);\n");
	insert_numbers("n(%d, %d)", 5000);
	insert_numbers("own(User:%d, %d)", 5000);
	insert_numbers("link(%d, %d)", 5000);
	insert_numbers("at(%d, Document:%d)", 5000);
	assert_answers("far(User:7, ?d)", "Document:10");
	assert_answers("far(?u, Document:10)", "User:7");
}

#define ENGINE_TEST(test) cmocka_unit_test_setup_teardown(test, open_fresh, close_it)

int
main(void)
{
	const struct CMUnitTest tests[] = {ENGINE_TEST(file_sharing),
									   ENGINE_TEST(cycles),
									   ENGINE_TEST(mutual_and_double_recursion),
									   ENGINE_TEST(negation),
									   ENGINE_TEST(comparisons),
									   ENGINE_TEST(facts_and_rules_of_one_predicate),
									   ENGINE_TEST(any_values),
									   ENGINE_TEST(typed_variables),
									   ENGINE_TEST(limits),
									   ENGINE_TEST(the_caps_of_the_instance),
									   ENGINE_TEST(variables_in_order),
									   ENGINE_TEST(malformed_requests),
									   ENGINE_TEST(deep_recursion),
									   ENGINE_TEST(too_large_an_evaluation),
									   ENGINE_TEST(order_of_conditions)};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	test_remove_store();
	rmdir(test_directory);
	return failed;
}
