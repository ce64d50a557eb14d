/*
 * test_client.c
 *		The eight calls in both wire formats: what goes out byte for byte, what
 *		comes of what comes back; sessions; secrets; no memory.
 */
#include "rig.h"

#include <stdio.h>
#include <stdlib.h>

static rig r;

static int
begin(void **state)
{
	(void) state;
	rig_begin(&r);
	rig_client(&r);
	return 0;
}

static int
end(void **state)
{
	(void) state;
	rig_end(&r);
	return 0;
}

static void
use_format(verdict_wire_format format)
{
	r.options.wire_format = format;
	rig_client(&r);
}

/* Queues a success with this body. */
static void
queue_success(const char *headers, const void *body, size_t size)
{
	char lines[512];

	snprintf(lines, sizeof(lines), "Content-Type: %s\r\n%s",
			 verdict_wire_content_type(r.options.wire_format), headers);
	rig_queue(&r, peer_answer(r.peer, 200, lines, body, size));
}

static void
queue_json(const char *json)
{
	queue_success("", json, strlen(json));
}

static const peer_request *
last_request(void)
{
	return peer_request_at(r.peer, peer_request_count(r.peer) - 1);
}

static const char *
header(const char *name)
{
	assert_true(peer_request_header_count(last_request(), name) <= 1);
	return peer_request_header(r.peer, last_request(), name);
}

static void
expect_request(const char *method, const void *body, size_t size)
{
	const peer_request *request = last_request();
	char line[128];

	snprintf(line, sizeof(line), "POST /verdict.v1.VerdictService/%s HTTP/1.1\r\n", method);
	assert_memory_equal(request->bytes, line, strlen(line));
	if (request->body_size != size || memcmp(request->body, body, size) != 0)
		fail_msg("body of %s: %.*s", method, (int) request->body_size, request->body);
}

static bool
is_uuid(const char *text)
{
	return text != NULL && strlen(text) == 36 && strspn(text, "0123456789abcdef-") == 36 &&
		   text[14] == '4';
}

/* ---- what every call carries ---- */

static void
sends_the_headers_of_the_contract(void **state)
{
	char first_id[37];

	(void) state;
	rig_standing(&r, rig_yes(&r, ""));
	assert_true(rig_authorize(&r));
	assert_string_equal(header("Content-Type"), "application/proto");
	assert_string_equal(header("Connect-Protocol-Version"), "1");
	assert_string_equal(header("Authorization"), "Bearer key-of-the-tests");
	assert_string_equal(header("User-Agent"), "verdict-postgresql/1.0");
	assert_string_equal(header("Accept-Encoding"), "gzip");
	assert_string_equal(header("Verdict-Consistency"), "session");
	assert_string_equal(header("Verdict-Session-Id"), r.session.id);
	assert_true(is_uuid(r.session.id));
	assert_string_equal(header("X-Request-Id"), r.status.request_id);
	assert_true(is_uuid(r.status.request_id));
	assert_in_range(atoi(header("Connect-Timeout-Ms")), 9000, 10000);
	assert_null(header("Idempotency-Key"));
	assert_null(header("Verdict-Revision"));
	assert_null(header("Expect"));
	assert_null(header("Cookie"));
	strcpy(first_id, r.status.request_id);

	assert_true(rig_insert(&r, NULL));
	assert_string_not_equal(r.status.request_id, first_id);
	assert_true(is_uuid(header("Idempotency-Key")));
	assert_null(header("Verdict-Consistency"));
	assert_null(header("Verdict-Revision"));
	assert_string_equal(header("Verdict-Session-Id"), r.session.id);
	assert_in_range(atoi(header("Connect-Timeout-Ms")), 11000, 12000);

	r.options.api_key = NULL;
	use_format(VERDICT_WIRE_JSON);
	rig_standing(&r, rig_yes(&r, ""));
	assert_true(rig_authorize(&r));
	assert_null(header("Authorization"));
	assert_string_equal(header("Content-Type"), "application/json");
}

static void
uses_the_path_prefix(void **state)
{
	char url[128];

	(void) state;
	snprintf(url, sizeof(url), "%s/some/prefix//", peer_url(r.peer));
	r.options.instance_url = url;
	rig_client(&r);
	rig_standing(&r, rig_yes(&r, ""));
	assert_true(rig_authorize(&r));
	assert_memory_equal(last_request()->bytes,
						"POST /some/prefix/verdict.v1.VerdictService/Authorize HTTP/1.1\r\n", 64);
	assert_true(rig_insert(&r, NULL));
	assert_memory_equal(last_request()->bytes,
						"POST /some/prefix/verdict.v1.VerdictService/InsertFact HTTP/1.1\r\n", 65);
}

static void
sends_no_expect_before_a_large_body(void **state)
{
	size_t size = 3 * 1024 * 1024;
	char *id = malloc(size + 1);
	verdict_check check = {{"User", "alice"}, "read", {"Document", id}};

	(void) state;
	memset(id, 'd', size);
	id[size] = '\0';
	rig_standing(&r, rig_yes(&r, ""));
	if (!verdict_client_authorize(r.client, &r.session, &check, NULL, &r.allowed, &r.status))
		fail_msg("%s", r.status.message);
	assert_true(r.allowed);
	assert_null(header("Expect"));
	assert_true(last_request()->body_size > size);
	free(id);
}

/* ---- the eight calls ---- */

static void
authorizes(void **state)
{
	static const struct
	{
		const char *body;
		size_t size;
		bool allowed;
	} binary[] = {{"\x08\x01", 2, true}, {"\x08\x00", 2, false}, {"", 0, false}};
	static const struct
	{
		const char *body;
		bool allowed;
	} json[] = {
		{"{\"allowed\":true}", true}, {"{\"allowed\":false}", false}, {"{}", false}, {"", false}};
	size_t i;

	(void) state;
	for (i = 0; i < RIG_LENGTH(binary); i++)
	{
		queue_success("", binary[i].body, binary[i].size);
		assert_true(rig_authorize(&r));
		assert_int_equal(r.allowed, binary[i].allowed);
		assert_int_equal(r.status.attempts, 1);
		assert_int_equal(r.status.sends, 1);
		assert_int_equal(r.status.http_status, 200);
		expect_request("Authorize",
					   "\x0a\x0d\x0a\x04User\x12\x05"
					   "alice\x12\x04read\x1a\x14\x0a\x08"
					   "Document\x12\x08handbook",
					   43);
	}
	use_format(VERDICT_WIRE_JSON);
	for (i = 0; i < RIG_LENGTH(json); i++)
	{
		const char *request = "{\"actor\":{\"type\":\"User\",\"id\":\"alice\"},\"action\":\"read\","
							  "\"resource\":{\"type\":\"Document\",\"id\":\"handbook\"}}";

		queue_json(json[i].body);
		assert_true(rig_authorize(&r));
		assert_int_equal(r.allowed, json[i].allowed);
		expect_request("Authorize", request, strlen(request));
	}
}

/* A body that does not decode is never an answer. */
static void
refuses_answers_that_do_not_decode(void **state)
{
	static const char *const json[] = {
		"{", "null", "[]", "{\"allowed\":1}", "{\"allowed\":\"true\"}", "{\"allowed\":true} x"};
	size_t i;

	(void) state;
	queue_success("Verdict-Revision: v1.a.1.5\r\n", "\x08", 1);
	assert_false(rig_authorize(&r));
	assert_int_equal(r.status.code, VERDICT_INTERNAL);
	assert_int_equal(r.status.cause, VERDICT_CAUSE_ANSWER);
	assert_int_equal(r.status.outcome, VERDICT_OUTCOME_MAYBE_APPLIED);
	assert_int_equal(r.status.http_status, 200);
	assert_true(is_uuid(r.status.request_id));
	assert_int_equal(r.status.sends, 1);
	/* Nor does its revision count. */
	assert_int_equal(r.session.observed.shards, 0);

	use_format(VERDICT_WIRE_JSON);
	for (i = 0; i < RIG_LENGTH(json); i++)
	{
		queue_json(json[i]);
		assert_false(rig_authorize(&r));
		assert_int_equal(r.status.cause, VERDICT_CAUSE_ANSWER);
	}
}

static void
queries(void **state)
{
	verdict_term args[] = {
		{VERDICT_TERM_VALUE, {.value = {VERDICT_VALUE_IDENTITY, {.identity = {"User", "al"}}}}},
		{VERDICT_TERM_VARIABLE, {.variable = {"doc", "Document"}}},
		{VERDICT_TERM_VARIABLE, {.variable = {"n", ""}}},
		{VERDICT_TERM_VARIABLE, {.variable = {"doc", "Document"}}},
		{.kind = VERDICT_TERM_WILDCARD},
	};
	verdict_fact pattern = {"p", 5, args};
	int format;

	(void) state;
	for (format = 0; format < 2; format++)
	{
		const char *request =
			"{\"pattern\":{\"predicate\":\"p\",\"args\":[{\"value\":{\"identity\":{"
			"\"type\":\"User\",\"id\":\"al\"}}},{\"variable\":{\"name\":\"doc\","
			"\"type\":\"Document\"}},{\"variable\":{\"name\":\"n\"}},{\"variable\":{"
			"\"name\":\"doc\",\"type\":\"Document\"}},{}]},\"limit\":7}";
		const char *json = "{\"variables\":[\"doc\",\"n\"],\"rows\":[{\"values\":[{\"string\":"
						   "\"hello w\"},{\"integer\":\"5\"}]}],\"truncated\":true}";
		verdict_rows *rows = NULL;
		const verdict_value *values;

		use_format(format == 0 ? VERDICT_WIRE_BINARY : VERDICT_WIRE_JSON);
		if (format == 0)
			queue_success("Verdict-Revision: v1.a.1.5\r\n",
						  "\x0a\x03"
						  "doc\x0a\x01n\x12\x0f\x0a\x09\x12\x07hello w\x0a\x02\x18\x05\x18\x01",
						  27);
		else
			queue_success("Verdict-Revision: v1.a.1.5\r\n", json, strlen(json));
		if (!verdict_client_query(r.client, &r.session, &pattern, 7, NULL, &rows, &r.status))
			fail_msg("%s", r.status.message);
		assert_int_equal(verdict_rows_width(rows), 2);
		assert_true(verdict_rows_truncated(rows));
		assert_int_equal(verdict_rows_next(rows, &values, &r.status), 1);
		assert_string_equal(values[0].as.string, "hello w");
		assert_int_equal(values[1].as.integer, 5);
		assert_int_equal(verdict_rows_next(rows, &values, &r.status), 0);
		verdict_rows_free(rows);
		assert_int_equal(r.session.observed.shards, 1);
		if (format == 1)
			expect_request("Query", request, strlen(request));

		/* Other variables than were asked for. */
		if (format == 0)
			queue_success("",
						  "\x0a\x01n\x0a\x03"
						  "doc",
						  8);
		else
			queue_json("{\"variables\":[\"n\",\"doc\"]}");
		assert_false(
			verdict_client_query(r.client, &r.session, &pattern, 7, NULL, &rows, &r.status));
		assert_int_equal(r.status.cause, VERDICT_CAUSE_ANSWER);
		assert_null(rows);
	}
}

static void
lists_facts(void **state)
{
	int format;

	(void) state;
	for (format = 0; format < 2; format++)
	{
		verdict_rows *rows = NULL;
		const verdict_fact *fact;
		const void *token;
		size_t size;

		use_format(format == 0 ? VERDICT_WIRE_BINARY : VERDICT_WIRE_JSON);
		if (format == 0)
			queue_success("", "\x0a\x07\x0a\x01p\x12\x02\x20\x01\x12\x02\xff\x00", 13);
		else
			queue_json("{\"facts\":[{\"predicate\":\"p\",\"args\":[{\"boolean\":true}]}],\"next\":"
					   "\"/wA=\"}");
		if (!verdict_client_list_facts(r.client, &r.session, NULL, 3, "\x01\x00\x02", 3, NULL,
									   &rows, &r.status))
			fail_msg("%s", r.status.message);
		if (format == 0)
			expect_request("ListFacts", "\x0a\x00\x10\x03\x1a\x03\x01\x00\x02", 9);
		else
			expect_request("ListFacts", "{\"pattern\":{},\"limit\":3,\"after\":\"AQAC\"}", 39);
		assert_int_equal(verdict_rows_next_fact(rows, &fact, &r.status), 1);
		assert_string_equal(fact->predicate, "p");
		assert_true(fact->args[0].as.value.as.boolean);
		assert_int_equal(verdict_rows_next_fact(rows, &fact, &r.status), 0);
		token = verdict_rows_next_token(rows, &size);
		assert_int_equal(size, 2);
		assert_memory_equal(token, "\xff\x00", 2);
		verdict_rows_free(rows);
	}
}

static void
gets_the_policy(void **state)
{
	int format;

	(void) state;
	for (format = 0; format < 2; format++)
	{
		verdict_arena arena;
		const char *policy = NULL;

		verdict_arena_init(&arena, &r.support.host, 1000);
		use_format(format == 0 ? VERDICT_WIRE_BINARY : VERDICT_WIRE_JSON);
		if (format == 0)
			queue_success("",
						  "\x0a\x03"
						  "a;\n",
						  5);
		else
			queue_json("{\"policy\":\"a;\\n\"}");
		assert_true(
			verdict_client_get_policy(r.client, &r.session, NULL, &arena, &policy, &r.status));
		assert_string_equal(policy, "a;\n");
		expect_request("GetPolicy", format == 0 ? "" : "{}", format == 0 ? 0 : 2);
		rig_queue(&r, rig_error(&r, 401, "unauthenticated", ""));
		assert_false(
			verdict_client_get_policy(r.client, &r.session, NULL, &arena, &policy, &r.status));
		assert_null(policy);
		verdict_arena_free(&arena);
	}
}

static bool
mutate(verdict_method method, const void *payload, size_t size)
{
	r.changed = 99;
	return verdict_client_mutate(r.client, &r.session, method, payload, size, "key-1", 0,
								 &r.changed, &r.status);
}

static void
mutates(void **state)
{
	/* {fact: {predicate: "p", args: [{integer: -1}]}} */
	static const char fact[] =
		"\x0a\x10\x0a\x01p\x12\x0b\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
	/* {changes: [{delete: {predicate: "p"}}]} */
	static const char batch[] = "\x0a\x05\x12\x03\x0a\x01p";
	/* {policy: "x"} */
	static const char policy[] = "\x0a\x01x";
	const char *fact_json = "{\"fact\":{\"predicate\":\"p\",\"args\":[{\"integer\":\"-1\"}]}}";
	const char *batch_json = "{\"changes\":[{\"delete\":{\"predicate\":\"p\"}}]}";
	const char *policy_json = "{\"policy\":\"x\"}";
	int format;

	(void) state;
	for (format = 0; format < 2; format++)
	{
		bool json = format == 1;

		use_format(json ? VERDICT_WIRE_JSON : VERDICT_WIRE_BINARY);
		queue_success("", json ? "{\"changed\":true}" : "\x08\x01", json ? 16 : 2);
		assert_true(mutate(VERDICT_METHOD_INSERT_FACT, fact, sizeof(fact) - 1));
		assert_int_equal(r.changed, 1);
		assert_string_equal(header("Idempotency-Key"), "key-1");
		expect_request("InsertFact", json ? fact_json : fact,
					   json ? strlen(fact_json) : sizeof(fact) - 1);

		queue_success("", json ? "{}" : "", json ? 2 : 0);
		assert_true(mutate(VERDICT_METHOD_DELETE_FACT, fact, sizeof(fact) - 1));
		assert_int_equal(r.changed, 0);
		expect_request("DeleteFact", json ? fact_json : fact,
					   json ? strlen(fact_json) : sizeof(fact) - 1);

		queue_success("Verdict-Revision: v1.a.1.6\r\n", json ? "{\"changed\":300}" : "\x08\xac\x02",
					  json ? 15 : 3);
		assert_true(mutate(VERDICT_METHOD_BATCH_FACTS, batch, sizeof(batch) - 1));
		assert_int_equal(r.changed, 300);
		expect_request("BatchFacts", json ? batch_json : batch,
					   json ? strlen(batch_json) : sizeof(batch) - 1);
		assert_int_equal(r.session.observed.positions[0].position, 6);

		queue_success("", json ? "{}" : "", json ? 2 : 0);
		assert_true(mutate(VERDICT_METHOD_SET_POLICY, policy, sizeof(policy) - 1));
		assert_int_equal(r.changed, 0);
		expect_request("SetPolicy", json ? policy_json : policy,
					   json ? strlen(policy_json) : sizeof(policy) - 1);
	}
}

static void
refuses_bad_mutations_before_sending(void **state)
{
	char long_key[257];

	(void) state;
	memset(long_key, 'k', 256);
	long_key[256] = '\0';
	assert_false(rig_insert(&r, ""));
	assert_int_equal(r.status.code, VERDICT_INVALID_ARGUMENT);
	assert_false(rig_insert(&r, "a b"));
	assert_false(rig_insert(&r, "a\r\nX: y"));
	assert_false(rig_insert(&r, long_key));
	assert_int_equal(r.status.cause, VERDICT_CAUSE_ARGUMENT);
	assert_false(mutate(VERDICT_METHOD_AUTHORIZE, "", 0));
	assert_int_equal(r.status.code, VERDICT_INVALID_ARGUMENT);
	assert_false(mutate((verdict_method) 99, "", 0));
	use_format(VERDICT_WIRE_JSON);
	/* A payload that is no message cannot be translated. */
	assert_false(mutate(VERDICT_METHOD_INSERT_FACT, "\x0a\x7f", 2));
	assert_int_equal(r.status.code, VERDICT_INVALID_ARGUMENT);
	assert_int_equal(r.status.outcome, VERDICT_OUTCOME_NOT_SENT);
	assert_int_equal(peer_request_count(r.peer), 0);

	long_key[255] = '\0';
	rig_queue(&r, rig_yes(&r, ""));
	assert_true(rig_insert(&r, long_key));
}

static void
refuses_bad_reads_before_sending(void **state)
{
	verdict_check no_action = {{"User", "alice"}, "", {"Document", "d"}};
	verdict_check no_id = {{"User", ""}, "read", {"Document", "d"}};

	(void) state;
	assert_false(
		verdict_client_authorize(r.client, &r.session, &no_action, NULL, &r.allowed, &r.status));
	assert_int_equal(r.status.code, VERDICT_INVALID_ARGUMENT);
	assert_int_equal(r.status.outcome, VERDICT_OUTCOME_NOT_SENT);
	assert_int_equal(r.status.sends, 0);
	assert_false(
		verdict_client_authorize(r.client, &r.session, &no_id, NULL, &r.allowed, &r.status));
	assert_int_equal(peer_request_count(r.peer), 0);
}

static void
names_methods(void **state)
{
	(void) state;
	assert_string_equal(verdict_method_name(VERDICT_METHOD_AUTHORIZE), "Authorize");
	assert_string_equal(verdict_method_name(VERDICT_METHOD_QUERY), "Query");
	assert_string_equal(verdict_method_name(VERDICT_METHOD_LIST_FACTS), "ListFacts");
	assert_string_equal(verdict_method_name(VERDICT_METHOD_GET_POLICY), "GetPolicy");
	assert_string_equal(verdict_method_name(VERDICT_METHOD_INSERT_FACT), "InsertFact");
	assert_string_equal(verdict_method_name(VERDICT_METHOD_DELETE_FACT), "DeleteFact");
	assert_string_equal(verdict_method_name(VERDICT_METHOD_BATCH_FACTS), "BatchFacts");
	assert_string_equal(verdict_method_name(VERDICT_METHOD_SET_POLICY), "SetPolicy");
}

/* ---- sessions ---- */

static bool
authorize_in(verdict_consistency consistency)
{
	verdict_check check = {{"User", "alice"}, "read", {"Document", "handbook"}};
	verdict_read_options options = {consistency, 0};

	return verdict_client_authorize(r.client, &r.session, &check, &options, &r.allowed, &r.status);
}

static void
carries_the_observed_revision(void **state)
{
	(void) state;
	rig_queue(&r, rig_yes(&r, "Verdict-Revision: v1.inst.3.10\r\n"));
	rig_standing(&r, rig_yes(&r, ""));
	assert_true(rig_insert(&r, NULL));
	/* Reads in session and authoritative mode send it; eventual ones do not. */
	assert_true(authorize_in(VERDICT_CONSISTENCY_DEFAULT));
	assert_string_equal(header("Verdict-Consistency"), "session");
	assert_string_equal(header("Verdict-Revision"), "v1.inst.3.10");
	assert_true(authorize_in(VERDICT_CONSISTENCY_AUTHORITATIVE));
	assert_string_equal(header("Verdict-Consistency"), "authoritative");
	assert_string_equal(header("Verdict-Revision"), "v1.inst.3.10");
	assert_true(authorize_in(VERDICT_CONSISTENCY_EVENTUAL));
	assert_string_equal(header("Verdict-Consistency"), "eventual");
	assert_null(header("Verdict-Revision"));

	/* An eventual read raises it all the same; an older answer does not lower it. */
	rig_queue(&r, rig_yes(&r, "Verdict-Revision: v1.inst.3.12\r\n"));
	assert_true(authorize_in(VERDICT_CONSISTENCY_EVENTUAL));
	rig_queue(&r, rig_yes(&r, "Verdict-Revision: v1.inst.3.11\r\n"));
	assert_true(authorize_in(VERDICT_CONSISTENCY_SESSION));
	assert_true(authorize_in(VERDICT_CONSISTENCY_SESSION));
	assert_string_equal(header("Verdict-Revision"), "v1.inst.3.12");

	/* A failed call never touches it, whatever it carries. */
	rig_queue(&r, rig_error(&r, 400, "invalid_argument", "Verdict-Revision: v1.inst.3.99\r\n"));
	assert_false(authorize_in(VERDICT_CONSISTENCY_SESSION));
	rig_queue(&r, rig_error(&r, 400, "invalid_argument", "Verdict-Revision: garbage\r\n"));
	assert_false(authorize_in(VERDICT_CONSISTENCY_SESSION));
	assert_true(authorize_in(VERDICT_CONSISTENCY_SESSION));
	assert_string_equal(header("Verdict-Revision"), "v1.inst.3.12");
}

static void
marks_the_scope_inconsistent(void **state)
{
	static const char *const headers[] = {
		"Verdict-Revision: garbage\r\n",
		"Verdict-Revision: v1.inst.4.1\r\n",
		"Verdict-Revision: v1.other.3.1\r\n",
		"Verdict-Revision:\r\n",
		"Verdict-Revision: v1.inst.3.11\r\nVerdict-Revision: v1.inst.3.11\r\n",
	};
	size_t i;

	(void) state;
	for (i = 0; i < RIG_LENGTH(headers); i++)
	{
		int before;

		rig_session(&r, VERDICT_CONSISTENCY_SESSION);
		rig_queue(&r, rig_yes(&r, "Verdict-Revision: v1.inst.3.10\r\n"));
		assert_true(rig_authorize(&r));
		rig_queue(&r, rig_yes(&r, headers[i]));
		/* The answer itself is good. */
		assert_true(rig_authorize(&r));
		assert_true(r.allowed);
		assert_true(r.session.inconsistent);
		before = peer_request_count(r.peer);
		assert_false(rig_authorize(&r));
		assert_int_equal(r.status.code, VERDICT_FAILED_PRECONDITION);
		assert_int_equal(r.status.cause, VERDICT_CAUSE_SESSION);
		assert_false(authorize_in(VERDICT_CONSISTENCY_AUTHORITATIVE));
		assert_int_equal(peer_request_count(r.peer), before);
		/* Eventual reads and mutations go on, and repair nothing. */
		rig_queue(&r, rig_yes(&r, "Verdict-Revision: v1.inst.3.10\r\n"));
		assert_true(authorize_in(VERDICT_CONSISTENCY_EVENTUAL));
		rig_queue(&r, rig_yes(&r, ""));
		assert_true(rig_insert(&r, NULL));
		assert_false(rig_authorize(&r));
	}
}

/* ---- secrets ---- */

static size_t
count_in(const char *bytes, size_t size, const char *text)
{
	size_t count = 0;
	size_t i;

	for (i = 0; i + strlen(text) <= size; i++)
		if (memcmp(bytes + i, text, strlen(text)) == 0)
			count++;
	return count;
}

static char *released_copy;
static size_t released_size;
static void *(*real_allocate)(void *context, void *pointer, size_t size);
static void (*real_release)(void *context, void *pointer);

/* The C library may hand out memory in which libcurl left the key. */
static void *
clean_allocate(void *context, void *pointer, size_t size)
{
	size_t old_size = 0;
	char *memory;

	if (pointer != NULL)
		memcpy(&old_size, (char *) pointer - 16, sizeof(old_size));
	memory = real_allocate(context, pointer, size);
	if (memory != NULL && size > old_size)
		memset(memory + old_size, 0, size - old_size);
	return memory;
}

/* Looks at each block before it is freed. */
static void
spy_release(void *context, void *pointer)
{
	/* The size stands in front of each block of the test's host. */
	if (pointer != NULL)
	{
		size_t size;

		memcpy(&size, (char *) pointer - 16, sizeof(size));
		released_copy = realloc(released_copy, released_size + size);
		memcpy(released_copy + released_size, pointer, size);
		released_size += size;
	}
	real_release(context, pointer);
}

static void
never_tells_the_key(void **state)
{
	(void) state;
	verdict_client_destroy(r.client);
	r.client = NULL;
	real_allocate = r.support.host.allocate;
	real_release = r.support.host.release;
	r.support.host.allocate = clean_allocate;
	r.support.host.release = spy_release;
	rig_client(&r);
	rig_standing(&r, rig_yes(&r, ""));
	assert_true(rig_authorize(&r));
	rig_queue(&r, rig_error(&r, 500, NULL, ""));
	assert_false(rig_authorize(&r));
	assert_int_equal(count_in((char *) &r.status, sizeof(r.status), r.options.api_key), 0);
	verdict_client_destroy(r.client);
	r.client = NULL;
	/* No memory was given back with the key in it. */
	assert_true(released_size > 0);
	assert_int_equal(count_in(released_copy, released_size, r.options.api_key), 0);
	assert_int_equal(r.support.logs, 0);
	r.support.host.allocate = real_allocate;
	r.support.host.release = real_release;
	free(released_copy);
}

/* ---- no memory ---- */

static bool
call_by_number(int number)
{
	verdict_term args[] = {{VERDICT_TERM_VARIABLE, {.variable = {"doc", ""}}}};
	verdict_fact pattern = {"p", 1, args};
	verdict_rows *rows = NULL;
	verdict_arena arena;
	verdict_check checks[10];
	const char *policy;
	bool allowed[10];
	bool succeeded;
	int i;

	switch (number)
	{
		case 0:
			return rig_authorize(&r);
		case 1:
			return rig_insert(&r, NULL);
		case 2:
			succeeded =
				verdict_client_query(r.client, &r.session, &pattern, 0, NULL, &rows, &r.status);
			verdict_rows_free(rows);
			return succeeded;
		case 3:
			succeeded = verdict_client_list_facts(r.client, &r.session, NULL, 0, NULL, 0, NULL,
												  &rows, &r.status);
			verdict_rows_free(rows);
			return succeeded;
		case 4:
			verdict_arena_init(&arena, &r.support.host, 100000);
			succeeded =
				verdict_client_get_policy(r.client, &r.session, NULL, &arena, &policy, &r.status);
			verdict_arena_free(&arena);
			return succeeded;
		default:
			for (i = 0; i < 10; i++)
				checks[i] = (verdict_check){{"User", "alice"}, "read", {"Document", "d"}};
			memset(allowed, 1, sizeof(allowed));
			succeeded = verdict_client_authorize_many(r.client, &r.session, checks, 10, NULL,
													  allowed, &r.status);
			if (!succeeded)
				assert_false(allowed[0] || allowed[9]);
			return succeeded;
	}
}

static void
survives_missing_memory(void **state)
{
	static const char *const json[] = {"{\"allowed\":true}",
									   "{\"changed\":true}",
									   "{\"variables\":[\"doc\"],\"rows\":[{\"values\":[{}]}]}",
									   "{\"facts\":[{\"predicate\":\"p\"}]}",
									   "{\"policy\":\"p\"}",
									   "{\"allowed\":true}"};
	static const struct
	{
		const char *bytes;
		size_t size;
	} binary[] = {{"\x08\x01", 2},
				  {"\x08\x01", 2},
				  {"\x0a\x03"
				   "doc\x12\x02\x0a\x00",
				   9},
				  {"\x0a\x03\x0a\x01p", 5},
				  {"\x0a\x01p", 3},
				  {"\x08\x01", 2}};
	int format;
	int number;

	(void) state;
	r.options.retry_owner = VERDICT_RETRY_NONE;
	r.options.retry_http_503 = false;
	for (format = 0; format < 2; format++)
		for (number = 0; number < 6; number++)
		{
			size_t n;
			char lines[100];

			r.options.wire_format = format == 0 ? VERDICT_WIRE_BINARY : VERDICT_WIRE_JSON;
			snprintf(lines, sizeof(lines), "Content-Type: %s\r\n",
					 verdict_wire_content_type(r.options.wire_format));
			rig_standing(&r, peer_answer(r.peer, 200, lines,
										 format == 0 ? binary[number].bytes : json[number],
										 format == 0 ? binary[number].size : strlen(json[number])));
			for (n = 1; n == 1 || r.support.failures > 0; n++)
			{
				verdict_status status;
				bool succeeded;

				/* The client is made anew, so that its memory is missing too. */
				verdict_client_destroy(r.client);
				support_fail_at(&r.support, n);
				r.client = verdict_client_create(r.runtime, &r.options, &status);
				if (r.client == NULL)
				{
					assert_int_equal(status.cause, VERDICT_CAUSE_MEMORY);
					continue;
				}
				succeeded = call_by_number(number);
				if (r.support.failures == 0)
				{
					if (!succeeded)
						fail_msg("call %d: %s", number, r.status.message);
					continue;
				}
				if (succeeded)
					continue; /* what was missing was not needed, such as an arena's reserve */
				if (r.status.cause != VERDICT_CAUSE_MEMORY)
					fail_msg("call %d, allocation %zu: %s", number, n, r.status.message);
				assert_int_equal(r.status.code, VERDICT_RESOURCE_EXHAUSTED);
				/* With memory again, the same client works. */
				support_fail_at(&r.support, 0);
				if (!call_by_number(number))
					fail_msg("call %d after %zu: %s", number, n, r.status.message);
				r.support.failures = 1;
			}
			assert_true(n > 8);
		}
	support_fail_at(&r.support, 0);
}

static void
needs_random_bytes(void **state)
{
	(void) state;
	rig_client(&r);
	r.support.random_fails = true;
	assert_false(rig_authorize(&r));
	assert_int_equal(r.status.code, VERDICT_INTERNAL);
	assert_false(rig_insert(&r, NULL));
	assert_false(rig_insert(&r, "key"));
	assert_int_equal(peer_request_count(r.peer), 0);
	r.support.random_fails = false;
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(sends_the_headers_of_the_contract),
		TEST(uses_the_path_prefix),
		TEST(sends_no_expect_before_a_large_body),
		TEST(authorizes),
		TEST(refuses_answers_that_do_not_decode),
		TEST(queries),
		TEST(lists_facts),
		TEST(gets_the_policy),
		TEST(mutates),
		TEST(refuses_bad_mutations_before_sending),
		TEST(refuses_bad_reads_before_sending),
		TEST(names_methods),
		TEST(carries_the_observed_revision),
		TEST(marks_the_scope_inconsistent),
		TEST(never_tells_the_key),
		TEST(survives_missing_memory),
		TEST(needs_random_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
