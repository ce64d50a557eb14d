/*
 * test_store.c
 *		Facts, pages of facts, batches, the policy's text, restarts.
 */
#include "engine_fixture.h"

#include <sqlite3.h>

/* Pages. */

/* One page of "predicate(...)", or of everything when the pattern is NULL. */
static Verdict__V1__ListFactsResponse *
list_page(const char *pattern, uint32_t limit, ProtobufCBinaryData after, engine_error *error)
{
	Verdict__V1__ListFactsRequest request = VERDICT__V1__LIST_FACTS_REQUEST__INIT;
	Verdict__V1__ListFactsResponse *response = NULL;

	if (pattern != NULL)
		request.pattern = parse_pattern(pattern);
	request.limit = limit;
	request.after = after;
	if (!engine_list_facts(engine_under_test, &request, &response, error))
		response = NULL;
	if (pattern != NULL)
		free_message(request.pattern);
	return response;
}

/* All pages of the size put together with " | " between them. */
static void
assert_pages(const char *pattern, uint32_t limit, const char *expected)
{
	ProtobufCBinaryData after = {0};
	char whole[2048] = "";
	bool more = true;

	while (more)
	{
		engine_error error = {0};
		Verdict__V1__ListFactsResponse *page = list_page(pattern, limit, after, &error);
		char *text;

		if (page == NULL)
			fail_msg("%s", error.message);
		text = facts_text(page);
		strcat(whole, text);
		free(text);
		free(after.data);
		memset(&after, 0, sizeof(after));
		more = page->next.len > 0;
		if (more)
		{
			strcat(whole, " | ");
			after.len = page->next.len;
			after.data = malloc(after.len);
			memcpy(after.data, page->next.data, after.len);
		}
		free_message(page);
	}
	free(after.data);
	assert_string_equal(whole, expected);
}

static void
insert_and_delete(void **state)
{
	engine *engine = engine_under_test;

	(void) state;
	assert_int_equal(position(), 0);
	assert_true(insert(engine, "p(User:alice, \"text\", -42, true)"));
	assert_false(insert(engine, "p(User:alice, \"text\", -42, true)"));
	assert_true(insert(engine, "p(User:alice, \"text\", -42, false)"));
	assert_true(insert(engine, "p()"));
	assert_false(insert(engine, "p()"));
	/* Every kind is its own: 1 is not true, nor "1", nor User:1. */
	assert_true(insert(engine, "one(1)"));
	assert_true(insert(engine, "one(\"1\")"));
	assert_true(insert(engine, "one(true)"));
	assert_true(insert(engine, "one(User:1)"));
	assert_true(insert(engine, "one(Team:1)"));
	assert_query(engine, "one(?x)", "\"1\"; 1; Team:1; User:1; true");
	assert_query(engine, "one(?x:User)", "User:1");
	assert_query(engine, "p()", "yes");
	assert_query(engine, "p(?a, ?b, ?c, ?d)",
				 "User:alice, \"text\", -42, false; User:alice, \"text\", -42, true");
	/* A delete that changes nothing takes a position as well. */
	assert_int_equal(position(), 10);
	assert_false(delete (engine, "p(User:bob, \"text\", -42, true)"));
	assert_false(delete (engine, "never(User:bob)"));
	assert_int_equal(position(), 12);
	assert_true(delete (engine, "p(User:alice, \"text\", -42, true)"));
	assert_false(delete (engine, "p(User:alice, \"text\", -42, true)"));
	assert_true(delete (engine, "p()"));
	assert_query(engine, "p()", "");
	assert_query(engine, "p(?a, _, _, _)", "User:alice");
	assert_int_equal(position(), 15);
}

static void
integers(void **state)
{
	engine *engine = engine_under_test;

	(void) state;
	insert(engine, "n(0)");
	insert(engine, "n(-1)");
	insert(engine, "n(2199023255550)");
	insert(engine, "n(2199023255551)");
	insert(engine, "n(2199023255552)");
	insert(engine, "n(-2199023255551)");
	insert(engine, "n(-2199023255552)");
	insert(engine, "n(-2199023255553)");
	insert(engine, "n(9223372036854775807)");
	insert(engine, "n(-9223372036854775808)");
	assert_query(engine, "n(?x)",
				 "-1; -2199023255551; -2199023255552; -2199023255553; "
				 "-9223372036854775808; 0; 2199023255550; 2199023255551; "
				 "2199023255552; 9223372036854775807");
	assert_query(engine, "n(9223372036854775807)", "yes");
	assert_query(engine, "n(9223372036854775806)", "");
	set_policy(engine, "small(x) if n(x) and x < -2199023255551;"
					   "large(x) if n(x) and x >= 2199023255551;");
	assert_query(engine, "small(?x)", "-2199023255552; -2199023255553; -9223372036854775808");
	assert_query(engine, "large(?x)", "2199023255551; 2199023255552; 9223372036854775807");
	assert_query(engine, "large(9223372036854775806)", "");
}

static void
many_arguments(void **state)
{
	char fact[1024];
	size_t used;
	engine *engine = engine_under_test;

	(void) state;
	for (int last = 0; last < 3; last++)
	{
		used = (size_t) sprintf(fact, "wide(");
		for (int i = 0; i < 63; i++)
			used += (size_t) sprintf(fact + used, "%d, ", i);
		sprintf(fact + used, "%d)", last);
		assert_true(insert(engine, fact));
		assert_false(insert(engine, fact));
	}
	used = (size_t) sprintf(fact, "wide(");
	for (int i = 0; i < 63; i++)
		used += (size_t) sprintf(fact + used, "_, ");
	sprintf(fact + used, "?x)");
	assert_query(engine, fact, "0; 1; 2");
	sprintf(fact + used, "2)");
	assert_query(engine, fact, "yes");
	sprintf(fact + used, "3)");
	assert_query(engine, fact, "");
}

/* Both the many and the few given arguments find the same facts. */
static void
every_set_of_given_arguments(void **state)
{
	engine *engine = engine_under_test;
	char text[128];

	(void) state;
	for (int i = 0; i < 81; i++)
	{
		sprintf(text, "q(%d, %d, %d, %d)", i / 27, i / 9 % 3, i / 3 % 3, i % 3);
		insert(engine, text);
	}
	for (int given = 0; given < 16; given++)
	{
		Verdict__V1__QueryResponse *response;
		engine_error error = {0};
		size_t expected = 1;

		for (int i = 0; i < 4; i++)
			expected *= given >> i & 1 ? 1 : 3;
		sprintf(text, "q(%s, %s, %s, %s)", given & 1 ? "1" : "?a", given & 2 ? "2" : "?b",
				given & 4 ? "0" : "?c", given & 8 ? "1" : "?d");
		assert_true(try_query(engine, text, 0, &response, &error));
		assert_int_equal(response->n_rows, expected);
		free_message(response);
	}
}

/* More sets than a relation keeps statements for. */
static void
very_many_sets_of_given_arguments(void **state)
{
	(void) state;
	assert_true(insert(engine_under_test, "w(0, 0, 0, 0, 0, 0, 0, 0)"));
	assert_true(insert(engine_under_test, "w(0, 0, 0, 0, 0, 0, 0, 1)"));
	for (int round = 0; round < 2; round++)
	{
		for (int given = 0; given < 256; given++)
		{
			char text[64];
			size_t used = (size_t) sprintf(text, "w(");

			for (int i = 0; i < 8; i++)
				used += (size_t) sprintf(text + used, "%s, ", given >> i & 1 ? "0" : "_");
			strcpy(text + used - 2, ")");
			assert_query(engine_under_test, text, "yes");
		}
	}
	assert_query(engine_under_test, "w(_, _, _, _, 0, _, _, ?x)", "0; 1");
}

static void
pages(void **state)
{
	engine *engine = engine_under_test;

	(void) state;
	assert_pages(NULL, 0, "");
	insert(engine, "p(User:a, 1)");
	insert(engine, "q(1)");
	insert(engine, "p(User:b, 1)");
	insert(engine, "p(User:c, 2)");
	insert(engine, "p(Team:c, 2)");
	insert(engine, "p(5)");
	insert(engine, "z()");
	insert(engine, "q(2)");
	assert_pages(NULL, 0,
				 "p(User:a, 1); p(User:b, 1); p(User:c, 2); p(Team:c, 2); "
				 "q(1); q(2); p(5); z()");
	assert_pages(NULL, 1,
				 "p(User:a, 1) | p(User:b, 1) | p(User:c, 2) | p(Team:c, 2) | "
				 "q(1) | q(2) | p(5) | z()");
	assert_pages(NULL, 3,
				 "p(User:a, 1); p(User:b, 1); p(User:c, 2) | p(Team:c, 2); "
				 "q(1); q(2) | p(5); z()");
	/* Exactly as many as asked for is the end. */
	assert_pages(NULL, 8,
				 "p(User:a, 1); p(User:b, 1); p(User:c, 2); p(Team:c, 2); "
				 "q(1); q(2); p(5); z()");
	/* A predicate without arguments is all of them, whatever their number. */
	assert_pages("p()", 2, "p(User:a, 1); p(User:b, 1) | p(User:c, 2); p(Team:c, 2) | p(5)");
	assert_pages("z()", 1, "z()");
	assert_pages("p(_)", 1, "p(5)");
	assert_pages("p(?x:User, _)", 1, "p(User:a, 1) | p(User:b, 1) | p(User:c, 2)");
	assert_pages("p(?x, 1)", 1, "p(User:a, 1) | p(User:b, 1)");
	assert_pages("p(User:a, ?x)", 1, "p(User:a, 1)");
	assert_pages("p(?x, ?x)", 1, "");
	assert_pages("p(?x:User, ?x:Team)", 1, "");
	assert_pages("unknown()", 1, "");
	assert_pages("allow()", 1, "");
	insert(engine, "twice(1, 1)");
	insert(engine, "twice(1, 2)");
	insert(engine, "twice(2, 2)");
	assert_pages("twice(?x, ?x)", 1, "twice(1, 1) | twice(2, 2)");
}

static void
pages_bound_to_their_pattern(void **state)
{
	engine *engine = engine_under_test;
	engine_error error = {0};
	ProtobufCBinaryData none = {0};
	Verdict__V1__ListFactsResponse *page;
	Verdict__V1__ListFactsResponse *other;
	char *text;

	(void) state;
	insert(engine, "p(1)");
	insert(engine, "p(2)");
	insert(engine, "p(3)");
	page = list_page("p(?x)", 1, none, &error);
	assert_non_null(page);
	assert_true(page->next.len > 0);

	assert_null(list_page("p(?y)", 1, page->next, &error));
	assert_int_equal(error.code, ENGINE_INVALID_ARGUMENT);
	assert_string_equal(error.message, "after: belongs to another pattern");
	/* The place stays, also when its fact goes. */
	assert_true(delete (engine, "p(1)"));
	other = list_page("p(?x)", 5, page->next, &error);
	text = facts_text(other);
	assert_string_equal(text, "p(2); p(3)");
	free(text);
	free_message(other);
	/* Cut and changed bytes. */
	for (size_t len = 1; len < page->next.len; len++)
	{
		ProtobufCBinaryData cut = {len, page->next.data};

		assert_null(list_page("p(?x)", 1, cut, &error));
		assert_int_equal(error.code, ENGINE_INVALID_ARGUMENT);
	}
	for (size_t i = 0; i + 8 < page->next.len; i++)
	{
		page->next.data[i] ^= 0x80;
		assert_null(list_page("p(?x)", 1, page->next, &error));
		assert_int_equal(error.code, ENGINE_INVALID_ARGUMENT);
		page->next.data[i] ^= 0x80;
	}
	free_message(page);
}

static void
mixed_pattern_of_a_page(void **state)
{
	Verdict__V1__ListFactsRequest request = VERDICT__V1__LIST_FACTS_REQUEST__INIT;
	Verdict__V1__ListFactsResponse *response;
	engine_error error = {0};

	(void) state;
	request.pattern = parse_pattern("x(?x)");
	request.pattern->predicate[0] = '\0';
	assert_false(engine_list_facts(engine_under_test, &request, &response, &error));
	assert_string_equal(error.message, "pattern.predicate: is empty");
	free_message(request.pattern);
	request.pattern = parse_pattern("allow(?x)");
	assert_false(engine_list_facts(engine_under_test, &request, &response, &error));
	assert_string_equal(error.message,
						"pattern.args: allow takes 3 arguments (actor, action, resource), not 1");
	free_message(request.pattern);
}

/* Batches. */

static void
add_change(Verdict__V1__BatchFactsRequest *request, bool insert, const char *fact)
{
	Verdict__V1__FactChange *change = malloc(sizeof(*change));

	verdict__v1__fact_change__init(change);
	change->change_case =
		insert ? VERDICT__V1__FACT_CHANGE__CHANGE_INSERT : VERDICT__V1__FACT_CHANGE__CHANGE_DELETE;
	change->insert = parse_fact(fact);
	request->changes =
		realloc(request->changes, (request->n_changes + 1) * sizeof(*request->changes));
	request->changes[request->n_changes++] = change;
}

static Verdict__V1__BatchFactsRequest *
make_batch(void)
{
	Verdict__V1__BatchFactsRequest *request = malloc(sizeof(*request));

	verdict__v1__batch_facts_request__init(request);
	return request;
}

static void
batches(void **state)
{
	engine *engine = engine_under_test;
	Verdict__V1__BatchFactsRequest *request = make_batch();
	engine_answer answer;
	engine_error error = {0};

	(void) state;
	assert_true(run_mutation(engine, ENGINE_BATCH_FACTS, request, NULL, &answer, &error));
	assert_int_equal(((Verdict__V1__BatchFactsResponse *) answer.response)->changed, 0);
	assert_int_equal(answer.position, 1);
	free_message(answer.response);

	/* In order; what has no effect does not count. */
	add_change(request, true, "p(1)");
	add_change(request, true, "p(1)");
	add_change(request, false, "p(1)");
	add_change(request, false, "p(1)");
	add_change(request, true, "p(2)");
	add_change(request, true, "q(New:type)");
	assert_true(run_mutation(engine, ENGINE_BATCH_FACTS, request, NULL, &answer, &error));
	assert_int_equal(((Verdict__V1__BatchFactsResponse *) answer.response)->changed, 4);
	assert_int_equal(answer.position, 2);
	free_message(answer.response);
	free_message(request);
	assert_pages(NULL, 0, "p(2); q(New:type)");
}

static void
assert_batch_refused(Verdict__V1__BatchFactsRequest *request, const char *message)
{
	engine_answer answer;
	engine_error error = {0};
	uint64_t before = position();

	assert_false(
		run_mutation(engine_under_test, ENGINE_BATCH_FACTS, request, "key", &answer, &error));
	assert_int_equal(error.code, ENGINE_INVALID_ARGUMENT);
	assert_string_equal(error.message, message);
	assert_int_equal(position(), before);
}

static void
batch_whole_or_not_at_all(void **state)
{
	engine *engine = engine_under_test;
	Verdict__V1__BatchFactsRequest *request = make_batch();
	engine_answer answer;
	engine_error error = {0};

	(void) state;
	insert(engine, "old(1)");
	add_change(request, true, "fresh(Fresh:one, 1)");
	add_change(request, false, "old(1)");
	add_change(request, true, "p(1, 2)");
	request->changes[2]->insert->args[1]->kind_case = VERDICT__V1__VALUE__KIND__NOT_SET;
	assert_batch_refused(request, "changes[2].insert.args[1]: the value is not set");
	request->changes[2]->change_case = VERDICT__V1__FACT_CHANGE__CHANGE_DELETE;
	assert_batch_refused(request, "changes[2].delete.args[1]: the value is not set");
	request->changes[2]->change_case = VERDICT__V1__FACT_CHANGE__CHANGE__NOT_SET;
	assert_batch_refused(request, "changes[2]: neither insert nor delete is set");
	assert_pages(NULL, 0, "old(1)");
	/*
	 * The names that the failed batches brought are not numbered: what comes
	 * next, and what is read after a restart, is right.
	 */
	insert(engine, "other(Other:two)");
	request->changes[2]->change_case = VERDICT__V1__FACT_CHANGE__CHANGE_INSERT;
	request->changes[2]->insert->args[1]->kind_case = VERDICT__V1__VALUE__KIND_INTEGER;
	/* The key of the refused batches is free. */
	assert_true(run_mutation(engine, ENGINE_BATCH_FACTS, request, "key", &answer, &error));
	assert_false(answer.replayed);
	free_message(answer.response);
	free_message(request);
	assert_pages(NULL, 0, "other(Other:two); fresh(Fresh:one, 1); p(1, 2)");
	restart();
	assert_pages(NULL, 0, "other(Other:two); fresh(Fresh:one, 1); p(1, 2)");
	assert_query(engine_under_test, "fresh(?x:Fresh, 1)", "Fresh:one");
}

/* The number of a value that a failed batch added is not used again from memory. */
static void
value_of_a_failed_batch(void **state)
{
	Verdict__V1__BatchFactsRequest *request = make_batch();

	(void) state;
	insert(engine_under_test, "p(User:known)");
	add_change(request, true, "p(User:gone)");
	add_change(request, true, "p(1)");
	request->changes[1]->insert->args[0]->kind_case = VERDICT__V1__VALUE__KIND__NOT_SET;
	assert_batch_refused(request, "changes[1].insert.args[0]: the value is not set");
	free_message(request);
	insert(engine_under_test, "p(User:gone)");
	assert_pages("p(_)", 0, "p(User:known); p(User:gone)");
	restart();
	assert_pages("p(_)", 0, "p(User:known); p(User:gone)");
}

static void
batch_too_large(void **state)
{
	Verdict__V1__BatchFactsRequest *request = make_batch();
	engine_options options = {0};
	engine_error error = {0};

	(void) state;
	engine_close(engine_under_test);
	options.path = test_path();
	options.max_batch_changes = 2;
	engine_under_test = engine_open(&options, &error);
	add_change(request, true, "p(1)");
	add_change(request, true, "p(2)");
	add_change(request, true, "p(3)");
	assert_batch_refused(request, "changes: 3 changes, this instance takes 2 at a time");
	free_message(request);
}

static void
malformed_facts(void **state)
{
	struct
	{
		const char *fact;
		const char *message;
	} cases[] = {
		{"allow(User:a, \"read\", Document:d)",
		 "fact.predicate: \"allow\" follows from the policy and is never stored as a fact"},
		{"a-b(1)", "fact.predicate: \"a-b\" is not an identifier (letters, digits and underscores, "
				   "at most 128)"},
		{"p(User-x:a)", "fact.args[0].identity.type: \"User-x\" is not an identifier (letters, "
						"digits and underscores, at most 128)"},
		{"p(1, User:)", "fact.args[1].identity.id: is empty"},
		{"p(:a)", "fact.args[0].identity.type: is empty"},
	};
	Verdict__V1__InsertFactRequest request = VERDICT__V1__INSERT_FACT_REQUEST__INIT;
	Verdict__V1__DeleteFactRequest delete = VERDICT__V1__DELETE_FACT_REQUEST__INIT;
	engine_answer answer;
	engine_error error = {0};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		request.fact = delete.fact = parse_fact(cases[i].fact);
		assert_false(
			run_mutation(engine_under_test, ENGINE_INSERT_FACT, &request, NULL, &answer, &error));
		assert_int_equal(error.code, ENGINE_INVALID_ARGUMENT);
		assert_string_equal(error.message, cases[i].message);
		assert_false(
			run_mutation(engine_under_test, ENGINE_DELETE_FACT, &delete, NULL, &answer, &error));
		assert_string_equal(error.message, cases[i].message);
		free_message(request.fact);
	}
	request.fact = NULL;
	assert_false(
		run_mutation(engine_under_test, ENGINE_INSERT_FACT, &request, NULL, &answer, &error));
	assert_string_equal(error.message, "fact: is missing");
	request.fact = parse_fact("p(\"xx\")");
	request.fact->args[0]->string[0] = (char) 0xff;
	assert_false(
		run_mutation(engine_under_test, ENGINE_INSERT_FACT, &request, NULL, &answer, &error));
	assert_string_equal(error.message, "fact.args[0].string: the text is not valid UTF-8");
	request.fact->n_args = 65;
	assert_false(
		run_mutation(engine_under_test, ENGINE_INSERT_FACT, &request, NULL, &answer, &error));
	assert_string_equal(error.message, "fact.args: 65 arguments, at most 64 are possible");
	request.fact->n_args = 1;
	free_message(request.fact);
	assert_int_equal(position(), 0);
}

static void
long_text(void **state)
{
	size_t size = 1024 * 1024;
	Verdict__V1__InsertFactRequest request = VERDICT__V1__INSERT_FACT_REQUEST__INIT;
	Verdict__V1__QueryResponse *response;
	engine_answer answer;
	engine_error error = {0};

	(void) state;
	request.fact = parse_fact("p(\"x\")");
	free(request.fact->args[0]->string);
	request.fact->args[0]->string = malloc(size + 1);
	memset(request.fact->args[0]->string, 'x', size);
	request.fact->args[0]->string[size] = '\0';
	assert_true(
		run_mutation(engine_under_test, ENGINE_INSERT_FACT, &request, NULL, &answer, &error));
	free_message(answer.response);
	assert_true(try_query(engine_under_test, "p(?x)", 0, &response, &error));
	assert_int_equal(response->n_rows, 1);
	assert_string_equal(response->rows[0]->values[0]->string, request.fact->args[0]->string);
	free_message(response);
	free_message(request.fact);
}

/* Policy. */

static char *
get_policy(void)
{
	Verdict__V1__GetPolicyRequest request = VERDICT__V1__GET_POLICY_REQUEST__INIT;
	Verdict__V1__GetPolicyResponse *response;
	engine_error error = {0};
	char *text;

	assert_true(engine_get_policy(engine_under_test, &request, &response, &error));
	text = strdup(response->policy);
	free_message(response);
	return text;
}

static void
assert_policy(const char *expected)
{
	char *text = get_policy();

	assert_string_equal(text, expected);
	free(text);
}

static void
policy_is_kept(void **state)
{
	static const char text[] = "# with a comment\nallow(u, \"read\", _) if admin(u);\n";
	engine_error error = {0};

	(void) state;
	assert_policy("");
	assert_false(allowed(engine_under_test, "User:a", "read", "Document:d"));
	set_policy(engine_under_test, text);
	assert_policy(text);
	insert(engine_under_test, "admin(User:a)");
	assert_true(allowed(engine_under_test, "User:a", "read", "Document:d"));
	/* A refused one changes nothing. */
	assert_false(try_policy(engine_under_test, "allow(u, \"read\", d) if\n  oops;", &error));
	assert_int_equal(error.code, ENGINE_INVALID_ARGUMENT);
	assert_string_equal(error.message, "line 2 column 7: expected \"(\" or a comparison, found ;");
	assert_policy(text);
	assert_true(allowed(engine_under_test, "User:a", "read", "Document:d"));
	assert_int_equal(position(), 2);
	restart();
	assert_policy(text);
	assert_true(allowed(engine_under_test, "User:a", "read", "Document:d"));
	assert_false(allowed(engine_under_test, "User:b", "read", "Document:d"));
	assert_int_equal(position(), 2);
	set_policy(engine_under_test, "");
	assert_policy("");
	assert_false(allowed(engine_under_test, "User:a", "read", "Document:d"));
}

/* Opening. */

static void
foreign_files(void **state)
{
	engine_options options = {0};
	engine_error error = {0};
	sqlite3 *database;
	FILE *file;

	(void) state;
	options.path = test_path();
	/* In use: by this process, but a second opener is refused all the same. */
	assert_null(engine_open(&options, &error));
	assert_int_equal(error.code, ENGINE_INTERNAL);
	assert_non_null(strstr(error.message, "in use by another process"));

	engine_close(engine_under_test);
	engine_under_test = NULL;
	test_remove_store();
	file = fopen(test_path(), "w");
	for (int i = 0; i < 1000; i++)
		fputs("not a database\n", file);
	fclose(file);
	assert_null(engine_open(&options, &error));
	assert_non_null(strstr(error.message, "not a database"));

	test_remove_store();
	assert_int_equal(sqlite3_open(test_path(), &database), SQLITE_OK);
	assert_int_equal(sqlite3_exec(database, "CREATE TABLE t (a)", NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(database);
	assert_null(engine_open(&options, &error));
	assert_non_null(strstr(error.message, "not a store of verdict-dev"));

	options.path = "/nonexistent/store";
	assert_null(engine_open(&options, &error));
	assert_int_equal(error.code, ENGINE_INTERNAL);
}

#define ENGINE_TEST(test) cmocka_unit_test_setup_teardown(test, open_fresh, close_it)

int
main(void)
{
	const struct CMUnitTest tests[] = {ENGINE_TEST(insert_and_delete),
									   ENGINE_TEST(integers),
									   ENGINE_TEST(many_arguments),
									   ENGINE_TEST(every_set_of_given_arguments),
									   ENGINE_TEST(very_many_sets_of_given_arguments),
									   ENGINE_TEST(pages),
									   ENGINE_TEST(pages_bound_to_their_pattern),
									   ENGINE_TEST(mixed_pattern_of_a_page),
									   ENGINE_TEST(batches),
									   ENGINE_TEST(batch_whole_or_not_at_all),
									   ENGINE_TEST(value_of_a_failed_batch),
									   ENGINE_TEST(batch_too_large),
									   ENGINE_TEST(malformed_facts),
									   ENGINE_TEST(long_text),
									   ENGINE_TEST(policy_is_kept),
									   ENGINE_TEST(foreign_files)};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	test_remove_store();
	rmdir(test_directory);
	return failed;
}
