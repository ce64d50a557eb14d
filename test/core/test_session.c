/*
 * test_session.c
 *		The scope of observed revisions: what raises it, what breaks it, what
 *		it lets a read send.
 */
#include "session.h"
#include "support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static support_host support;

static int
setup(void **state)
{
	(void) state;
	support_host_init(&support);
	return 0;
}

static verdict_session
fresh_session(verdict_consistency consistency)
{
	verdict_session session;
	verdict_status status;

	verdict_status_init(&status);
	assert_true(verdict_session_init(&session, &support.host, "s", consistency, &status));
	assert_int_equal(status.code, VERDICT_OK);
	return session;
}

static void
assert_served(const verdict_session *session, const char *expected)
{
	char text[VERDICT_REVISION_MAX_TEXT + 1];

	verdict_revision_print(&session->served, text);
	assert_string_equal(text, expected);
}

static void
assert_observed(const verdict_session *session, const char *expected)
{
	char text[VERDICT_REVISION_MAX_TEXT + 1];

	verdict_revision_print(&session->observed, text);
	assert_string_equal(text, expected);
}

/* What a read in this mode would send; fails the test when it is refused. */
static void
assert_sends(const verdict_session *session, verdict_consistency asked, verdict_consistency sent,
			 const char *revision)
{
	char text[VERDICT_REVISION_MAX_TEXT + 1];
	verdict_consistency consistency = asked;
	verdict_status status;

	verdict_status_init(&status);
	memset(text, 'x', sizeof(text));
	assert_true(verdict_session_read_headers(session, &consistency, text, &status));
	assert_int_equal(status.code, VERDICT_OK);
	assert_int_equal(consistency, sent);
	assert_string_equal(text, revision);
}

static void
assert_refuses(const verdict_session *session, verdict_consistency asked)
{
	char text[VERDICT_REVISION_MAX_TEXT + 1];
	verdict_consistency consistency = asked;
	verdict_status status;

	verdict_status_init(&status);
	memset(text, 'x', sizeof(text));
	assert_false(verdict_session_read_headers(session, &consistency, text, &status));
	assert_int_equal(status.code, VERDICT_FAILED_PRECONDITION);
	assert_int_equal(status.cause, VERDICT_CAUSE_SESSION);
	assert_non_null(strstr(status.message, "new session"));
	assert_string_equal(text, "");
}

static void
assert_inconsistent(const verdict_session *session)
{
	assert_true(session->inconsistent);
	assert_observed(session, "");
	assert_served(session, "");
	assert_refuses(session, VERDICT_CONSISTENCY_SESSION);
	assert_refuses(session, VERDICT_CONSISTENCY_AUTHORITATIVE);
	assert_sends(session, VERDICT_CONSISTENCY_EVENTUAL, VERDICT_CONSISTENCY_EVENTUAL, "");
}

static void
test_init(void **state)
{
	verdict_session session = fresh_session(VERDICT_CONSISTENCY_SESSION);

	(void) state;
	assert_string_equal(session.id, "s");
	assert_int_equal(session.consistency, VERDICT_CONSISTENCY_SESSION);
	assert_false(session.inconsistent);
	assert_int_equal(session.observed.shards, 0);
	assert_int_equal(session.changes, 0);

	session = fresh_session(VERDICT_CONSISTENCY_DEFAULT);
	assert_int_equal(session.consistency, VERDICT_CONSISTENCY_SESSION);
	session = fresh_session(VERDICT_CONSISTENCY_EVENTUAL);
	assert_int_equal(session.consistency, VERDICT_CONSISTENCY_EVENTUAL);
	session = fresh_session(VERDICT_CONSISTENCY_AUTHORITATIVE);
	assert_int_equal(session.consistency, VERDICT_CONSISTENCY_AUTHORITATIVE);
}

static void
test_session_ids(void **state)
{
	char longest[VERDICT_SESSION_ID_MAX + 2];
	const char *const good[] = {"a", "!", "~", "order-42/eu:7", longest};
	const char *const bad[] = {"",	  " ",		   "a b",  " a",   "a ",	   "a\t",
							   "a\n", "a\r\nX: y", "\x7f", "\x1f", "\xc3\xa9", "\xff"};
	verdict_session session;
	verdict_status status;
	size_t i;

	(void) state;
	memset(longest, 'x', sizeof(longest));
	longest[VERDICT_SESSION_ID_MAX] = '\0';
	for (i = 0; i < LENGTH(good); i++)
	{
		verdict_status_init(&status);
		assert_true(verdict_session_init(&session, &support.host, good[i],
										 VERDICT_CONSISTENCY_SESSION, &status));
		assert_string_equal(session.id, good[i]);
	}

	/* What is refused leaves the session as it was. */
	for (i = 0; i < LENGTH(bad); i++)
	{
		verdict_status_init(&status);
		assert_false(verdict_session_init(&session, &support.host, bad[i],
										  VERDICT_CONSISTENCY_SESSION, &status));
		assert_int_equal(status.code, VERDICT_INVALID_ARGUMENT);
		assert_int_equal(status.cause, VERDICT_CAUSE_ARGUMENT);
		assert_string_equal(session.id, longest);
	}
	longest[VERDICT_SESSION_ID_MAX] = 'x';
	longest[VERDICT_SESSION_ID_MAX + 1] = '\0';
	verdict_status_init(&status);
	assert_false(verdict_session_init(&session, &support.host, longest, VERDICT_CONSISTENCY_SESSION,
									  &status));
	assert_int_equal(status.code, VERDICT_INVALID_ARGUMENT);

	verdict_status_init(&status);
	assert_false(
		verdict_session_init(&session, &support.host, "s", (verdict_consistency) 99, &status));
	assert_int_equal(status.code, VERDICT_INVALID_ARGUMENT);
}

static void
assert_uuid(const char *text)
{
	size_t i;

	assert_int_equal(strlen(text), 36);
	for (i = 0; i < 36; i++)
	{
		if (i == 8 || i == 13 || i == 18 || i == 23)
			assert_int_equal(text[i], '-');
		else
			assert_non_null(strchr("0123456789abcdef", text[i]));
	}
	assert_int_equal(text[14], '4');
	assert_non_null(strchr("89ab", text[19]));
}

/* Random bytes that are 00, 11, 22, ... ff. */
static bool
telling_bytes(void *context, void *bytes, size_t size)
{
	size_t i;

	(void) context;
	for (i = 0; i < size; i++)
		((unsigned char *) bytes)[i] = (unsigned char) (i * 0x11);
	return true;
}

static void
test_uuid_layout(void **state)
{
	verdict_host host = support.host;
	char text[37];

	(void) state;
	host.random_bytes = telling_bytes;
	assert_true(verdict_uuid(&host, text));
	assert_string_equal(text, "00112233-4455-4677-8899-aabbccddeeff");
}

static void
test_uuid(void **state)
{
	char first[37];
	char second[37];
	verdict_session session;
	verdict_status status;

	(void) state;
	assert_true(verdict_uuid(&support.host, first));
	assert_true(verdict_uuid(&support.host, second));
	assert_uuid(first);
	assert_uuid(second);
	assert_string_not_equal(first, second);

	verdict_status_init(&status);
	assert_true(
		verdict_session_init(&session, &support.host, NULL, VERDICT_CONSISTENCY_SESSION, &status));
	assert_uuid(session.id);
	assert_string_not_equal(session.id, second);

	support.random_fails = true;
	assert_false(verdict_uuid(&support.host, first));
	assert_string_equal(first, "");
	assert_false(
		verdict_session_init(&session, &support.host, NULL, VERDICT_CONSISTENCY_SESSION, &status));
	assert_int_equal(status.code, VERDICT_INTERNAL);
	/* An id that is given needs no random bytes. */
	verdict_status_init(&status);
	assert_true(
		verdict_session_init(&session, &support.host, "s", VERDICT_CONSISTENCY_SESSION, &status));
}

static void
test_answers_raise(void **state)
{
	/* Answers as they come in, late ones after early ones. */
	static const struct
	{
		const char *header;
		const char *served;
		const char *observed;
		uint64_t changes;
	} answers[] = {
		{"v1.a.3.10", "v1.a.3.10", "v1.a.3.10", 1},
		{"v1.a.3.12", "v1.a.3.12", "v1.a.3.12", 2},
		{"v1.a.3.11", "v1.a.3.11", "v1.a.3.12", 2},
		{"v1.a.3.0:12", "v1.a.3.12", "v1.a.3.12", 2},
		{"v1.a.3.1:5", "v1.a.3.1:5", "v1.a.3.12,1:5", 3},
		{"v1.a.3.20,1:4", "v1.a.3.20,1:4", "v1.a.3.20,1:5", 4},
		{"v1.a.3.2:0", "v1.a.3.2:0", "v1.a.3.20,1:5,2:0", 5},
		{"v1.a.3.2:0", "v1.a.3.2:0", "v1.a.3.20,1:5,2:0", 5},
		{"v1.a.3.12,1:5", "v1.a.3.12,1:5", "v1.a.3.20,1:5,2:0", 5},
	};
	verdict_session session = fresh_session(VERDICT_CONSISTENCY_SESSION);
	size_t i;

	(void) state;
	for (i = 0; i < LENGTH(answers); i++)
	{
		verdict_session_observe_answer(&session, answers[i].header, 1);
		assert_observed(&session, answers[i].observed);
		assert_served(&session, answers[i].served);
		assert_int_equal(session.changes, answers[i].changes);
		assert_false(session.inconsistent);

		/* An answer without the header, as of a standalone instance. */
		verdict_session_observe_answer(&session, NULL, 0);
		assert_observed(&session, answers[i].observed);
		assert_served(&session, "");
		assert_int_equal(session.changes, answers[i].changes);
	}
}

static void
test_order_does_not_matter(void **state)
{
	static const char *const answers[] = {"v1.a.1.5", "v1.a.1.4,1:9", "v1.a.1.7,1:2", "v1.a.1.2:1"};
	size_t order[4];

	(void) state;
	for (order[0] = 0; order[0] < 4; order[0]++)
		for (order[1] = 0; order[1] < 4; order[1]++)
			for (order[2] = 0; order[2] < 4; order[2]++)
			{
				verdict_session session = fresh_session(VERDICT_CONSISTENCY_SESSION);
				size_t i;

				order[3] = 6 - order[0] - order[1] - order[2];
				if (order[0] == order[1] || order[0] == order[2] || order[1] == order[2] ||
					order[3] > 3)
					continue;
				for (i = 0; i < 4; i++)
					verdict_session_observe_answer(&session, answers[order[i]], 1);
				assert_observed(&session, "v1.a.1.7,1:9,2:1");
			}
}

static void
test_what_breaks_the_scope(void **state)
{
	static const struct
	{
		const char *header;
		int headers;
	} answers[] = {
		{"garbage", 1},	   {"", 1},
		{NULL, 1}, /* one came, and its value is not known */
		{"v1.a.3.010", 1}, {"v1.a.3.10, v1.a.3.11", 1},
		{"v1.a.3.11", 2}, /* well-formed, but which is it? */
		{NULL, 2},		   {"v1.a.3.11", -1},
		{"v1.b.3.11", 1}, /* another instance */
		{"v1.a.4.11", 1}, /* after a failover */
		{"v1.a.2.11", 1}, /* before one */
	};
	size_t i;

	(void) state;
	for (i = 0; i < LENGTH(answers); i++)
	{
		verdict_session session = fresh_session(VERDICT_CONSISTENCY_SESSION);
		verdict_status status;
		uint64_t changes;

		verdict_session_observe_answer(&session, "v1.a.3.10", 1);
		changes = session.changes;
		verdict_session_observe_answer(&session, answers[i].header, answers[i].headers);
		assert_inconsistent(&session);
		assert_true(session.changes > changes);
		changes = session.changes;

		/* For good: not an answer of the old history, nor of the new one, nor
		 * one without a revision, nor the application repairs it. */
		verdict_session_observe_answer(&session, "v1.a.3.10", 1);
		assert_inconsistent(&session);
		verdict_session_observe_answer(&session, "v1.b.3.11", 1);
		assert_inconsistent(&session);
		verdict_session_observe_answer(&session, "garbage", 1);
		assert_inconsistent(&session);
		verdict_session_observe_answer(&session, NULL, 0);
		assert_inconsistent(&session);
		verdict_status_init(&status);
		assert_false(verdict_session_observe(&session, "v1.a.3.10", &status));
		assert_int_equal(status.code, VERDICT_FAILED_PRECONDITION);
		assert_int_equal(status.cause, VERDICT_CAUSE_SESSION);
		assert_inconsistent(&session);
		assert_int_equal(session.changes, changes);

		/* Only a fresh scope helps. */
		session = fresh_session(VERDICT_CONSISTENCY_SESSION);
		verdict_session_observe_answer(&session, "v1.b.3.11", 1);
		assert_sends(&session, VERDICT_CONSISTENCY_DEFAULT, VERDICT_CONSISTENCY_SESSION,
					 "v1.b.3.11");
	}
}

static void
test_first_answer_breaks_the_scope(void **state)
{
	verdict_session session = fresh_session(VERDICT_CONSISTENCY_SESSION);

	(void) state;
	verdict_session_observe_answer(&session, "garbage", 1);
	assert_inconsistent(&session);
	assert_int_equal(session.changes, 1);
}

static void
test_too_many_shards_break_the_scope(void **state)
{
	verdict_session session = fresh_session(VERDICT_CONSISTENCY_SESSION);
	char header[64];
	int i;

	(void) state;
	for (i = 0; i < VERDICT_REVISION_MAX_SHARDS; i++)
	{
		snprintf(header, sizeof(header), "v1.a.1.%d:1", i);
		verdict_session_observe_answer(&session, header, 1);
		assert_false(session.inconsistent);
	}
	assert_int_equal(session.observed.shards, VERDICT_REVISION_MAX_SHARDS);
	snprintf(header, sizeof(header), "v1.a.1.%d:1", i);
	verdict_session_observe_answer(&session, header, 1);
	assert_inconsistent(&session);
}

static void
test_application_hands_a_revision(void **state)
{
	verdict_session session = fresh_session(VERDICT_CONSISTENCY_SESSION);
	static const struct
	{
		const char *text;
		verdict_code code;
		const char *observed;
	} steps[] = {
		{"v1.a.1.5", VERDICT_OK, "v1.a.1.5"},
		{"v1.a.1.4,1:1", VERDICT_OK, "v1.a.1.5,1:1"},
		{"v1.a.1.0:5", VERDICT_OK, "v1.a.1.5,1:1"},
		{"garbage", VERDICT_INVALID_ARGUMENT, "v1.a.1.5,1:1"},
		{"", VERDICT_INVALID_ARGUMENT, "v1.a.1.5,1:1"},
		{NULL, VERDICT_INVALID_ARGUMENT, "v1.a.1.5,1:1"},
		{"v1.b.1.9", VERDICT_FAILED_PRECONDITION, "v1.a.1.5,1:1"},
		{"v1.a.2.9", VERDICT_FAILED_PRECONDITION, "v1.a.1.5,1:1"},
		{"v1.a.1.9", VERDICT_OK, "v1.a.1.9,1:1"},
	};
	size_t i;

	(void) state;
	for (i = 0; i < LENGTH(steps); i++)
	{
		uint64_t changes = session.changes;
		verdict_status status;
		bool result;

		verdict_status_init(&status);
		result = verdict_session_observe(&session, steps[i].text, &status);
		assert_int_equal(status.code, steps[i].code);
		assert_int_equal(result, steps[i].code == VERDICT_OK);
		assert_observed(&session, steps[i].observed);
		assert_false(session.inconsistent);
		if (!result)
		{
			assert_int_equal(status.cause, VERDICT_CAUSE_ARGUMENT);
			assert_int_equal(session.changes, changes);
		}
	}
}

static void
test_application_hands_too_much(void **state)
{
	verdict_session session = fresh_session(VERDICT_CONSISTENCY_SESSION);
	verdict_status status;
	char text[64];
	int i;

	(void) state;
	for (i = 0; i < VERDICT_REVISION_MAX_SHARDS; i++)
	{
		snprintf(text, sizeof(text), "v1.a.1.%d:1", i);
		verdict_status_init(&status);
		assert_true(verdict_session_observe(&session, text, &status));
	}
	assert_false(verdict_session_observe(&session, "v1.a.1.64:1", &status));
	assert_int_equal(status.code, VERDICT_FAILED_PRECONDITION);
	assert_int_equal(session.observed.shards, VERDICT_REVISION_MAX_SHARDS);
	assert_false(session.inconsistent);
}

static void
test_read_headers(void **state)
{
	static const verdict_consistency modes[] = {VERDICT_CONSISTENCY_SESSION,
												VERDICT_CONSISTENCY_EVENTUAL,
												VERDICT_CONSISTENCY_AUTHORITATIVE};
	char text[VERDICT_REVISION_MAX_TEXT + 1];
	size_t i;

	(void) state;
	for (i = 0; i < LENGTH(modes); i++)
	{
		verdict_session session = fresh_session(modes[i]);
		verdict_consistency consistency = (verdict_consistency) 99;
		verdict_status status;

		assert_sends(&session, VERDICT_CONSISTENCY_DEFAULT, modes[i], "");
		assert_sends(&session, VERDICT_CONSISTENCY_SESSION, VERDICT_CONSISTENCY_SESSION, "");
		assert_sends(&session, VERDICT_CONSISTENCY_AUTHORITATIVE, VERDICT_CONSISTENCY_AUTHORITATIVE,
					 "");
		assert_sends(&session, VERDICT_CONSISTENCY_EVENTUAL, VERDICT_CONSISTENCY_EVENTUAL, "");

		/* Answers of reads in every mode raise it. */
		verdict_session_observe_answer(&session, "v1.a.1.0:5,1:6", 1);
		assert_sends(&session, VERDICT_CONSISTENCY_DEFAULT, modes[i],
					 modes[i] == VERDICT_CONSISTENCY_EVENTUAL ? "" : "v1.a.1.5,1:6");
		assert_sends(&session, VERDICT_CONSISTENCY_SESSION, VERDICT_CONSISTENCY_SESSION,
					 "v1.a.1.5,1:6");
		assert_sends(&session, VERDICT_CONSISTENCY_AUTHORITATIVE, VERDICT_CONSISTENCY_AUTHORITATIVE,
					 "v1.a.1.5,1:6");
		assert_sends(&session, VERDICT_CONSISTENCY_EVENTUAL, VERDICT_CONSISTENCY_EVENTUAL, "");

		verdict_status_init(&status);
		assert_false(verdict_session_read_headers(&session, &consistency, text, &status));
		assert_int_equal(status.code, VERDICT_INVALID_ARGUMENT);
		assert_string_equal(text, "");

		/* The default of an inconsistent scope follows its mode too. */
		verdict_session_observe_answer(&session, "garbage", 1);
		if (modes[i] == VERDICT_CONSISTENCY_EVENTUAL)
			assert_sends(&session, VERDICT_CONSISTENCY_DEFAULT, VERDICT_CONSISTENCY_EVENTUAL, "");
		else
			assert_refuses(&session, VERDICT_CONSISTENCY_DEFAULT);
	}
}

static void
test_consistency_names(void **state)
{
	static const struct
	{
		const char *name;
		verdict_consistency consistency;
	} names[] = {
		{"session", VERDICT_CONSISTENCY_SESSION},
		{"eventual", VERDICT_CONSISTENCY_EVENTUAL},
		{"authoritative", VERDICT_CONSISTENCY_AUTHORITATIVE},
	};
	static const char *const wrong[] = {"",			"default", "Session", "session ",
										" session", "sess",	   "strong",  NULL};
	verdict_consistency consistency;
	size_t i;

	(void) state;
	for (i = 0; i < LENGTH(names); i++)
	{
		assert_string_equal(verdict_consistency_name(names[i].consistency), names[i].name);
		consistency = VERDICT_CONSISTENCY_DEFAULT;
		assert_true(verdict_consistency_parse(names[i].name, &consistency));
		assert_int_equal(consistency, names[i].consistency);
	}
	for (i = 0; i < LENGTH(wrong); i++)
		assert_false(verdict_consistency_parse(wrong[i], &consistency));
	assert_string_equal(verdict_consistency_name(VERDICT_CONSISTENCY_DEFAULT), "default");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_init, setup),
		cmocka_unit_test_setup(test_session_ids, setup),
		cmocka_unit_test_setup(test_uuid_layout, setup),
		cmocka_unit_test_setup(test_uuid, setup),
		cmocka_unit_test_setup(test_answers_raise, setup),
		cmocka_unit_test_setup(test_order_does_not_matter, setup),
		cmocka_unit_test_setup(test_what_breaks_the_scope, setup),
		cmocka_unit_test_setup(test_first_answer_breaks_the_scope, setup),
		cmocka_unit_test_setup(test_too_many_shards_break_the_scope, setup),
		cmocka_unit_test_setup(test_application_hands_a_revision, setup),
		cmocka_unit_test_setup(test_application_hands_too_much, setup),
		cmocka_unit_test_setup(test_read_headers, setup),
		cmocka_unit_test_setup(test_consistency_names, setup),
	};

	return cmocka_run_group_tests_name("session", tests, NULL, NULL);
}
