/*
 * test_many.c
 *		verdict_client_authorize_many(): how many together, in which order, and
 *		that one failure is the failure of all.
 */
#include "rig.h"

#include <stdio.h>
#include <unistd.h>

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

#define MANY 100
static char many_ids[MANY][16];
static verdict_check many_checks[MANY];
static bool many_allowed[MANY];

static void
make_many(void)
{
	int i;

	for (i = 0; i < MANY; i++)
	{
		snprintf(many_ids[i], sizeof(many_ids[i]), "d%03d", i);
		many_checks[i] = (verdict_check){{"User", "alice"}, "read", {"Document", many_ids[i]}};
		many_allowed[i] = true;
	}
}

typedef struct many_scripts
{
	peer_step yes[3];
	peer_step no[3];
	peer_step fails[3];
	const char *failing_id;
} many_scripts;

/* Allows documents of odd number; each answer carries its own revision. */
static const peer_step *
answer_one_of_many(void *context, const peer_request *request)
{
	many_scripts *scripts = context;
	const char *id = request->body + request->body_size - 4;

	if (scripts->failing_id != NULL && memcmp(id, scripts->failing_id, 4) == 0)
		return scripts->fails;
	return (id[3] - '0') % 2 == 1 ? scripts->yes : scripts->no;
}

static void
prepare_many(many_scripts *scripts, int pause_ms)
{
	memset(scripts, 0, sizeof(*scripts));
	scripts->yes[0] = scripts->no[0] = scripts->fails[0] = rig_act(PEER_PAUSE, pause_ms);
	scripts->yes[1] = rig_yes(&r, "Verdict-Revision: v1.a.1.2,1:9\r\n");
	scripts->no[1] = peer_answer(r.peer, 200,
								 "Content-Type: application/proto\r\n"
								 "Verdict-Revision: v1.a.1.7,1:3\r\n",
								 "", 0);
	scripts->fails[1] = rig_error(&r, 403, "permission_denied", "Verdict-Revision: v1.a.1.99\r\n");
	peer_set_chooser(r.peer, answer_one_of_many, scripts);
	make_many();
}

static bool
authorize_many(int count)
{
	return verdict_client_authorize_many(r.client, &r.session, many_checks, (size_t) count, NULL,
										 many_allowed, &r.status);
}

static void
answers_many_checks_in_their_order(void **state)
{
	static many_scripts scripts; /* the peer may still read it when the test is over */
	char revision[VERDICT_REVISION_MAX_TEXT + 1];
	int connections;
	int i;

	(void) state;
	prepare_many(&scripts, 5);
	if (!authorize_many(MANY))
		fail_msg("%s", r.status.message);
	for (i = 0; i < MANY; i++)
		assert_int_equal(many_allowed[i], i % 2 == 1);
	assert_int_equal(peer_request_count(r.peer), MANY);
	/* Together, but not more than eight. */
	assert_in_range(peer_most_at_once(r.peer), 4, VERDICT_MAX_IN_FLIGHT);
	connections = peer_connection_count(r.peer);
	assert_in_range(connections, 4, VERDICT_MAX_IN_FLIGHT);
	/* Merged, whatever the order in which they came. */
	verdict_revision_print(&r.session.observed, revision);
	assert_string_equal(revision, "v1.a.1.7,1:9");

	/* Few, one, none. */
	assert_true(authorize_many(3));
	assert_true(many_allowed[1]);
	assert_true(authorize_many(1));
	assert_false(many_allowed[0]);
	assert_true(authorize_many(0));
	assert_int_equal(peer_request_count(r.peer), MANY + 4);
	/* The connections are kept. */
	assert_int_equal(peer_connection_count(r.peer), connections);
}

static void
fails_all_when_one_fails(void **state)
{
	static many_scripts scripts; /* the peer may still read it when the test is over */
	int i;

	(void) state;
	prepare_many(&scripts, 5);
	scripts.failing_id = "d050";
	assert_false(authorize_many(MANY));
	assert_int_equal(r.status.code, VERDICT_PERMISSION_DENIED);
	for (i = 0; i < MANY; i++)
		assert_false(many_allowed[i]);
	/* Nothing more is sent; what was on its way arrives. */
	usleep(100000);
	i = peer_request_count(r.peer);
	assert_in_range(i, 51, 80);
	usleep(100000);
	assert_int_equal(peer_request_count(r.peer), i);
	/* What succeeded was seen; what failed was not. */
	assert_int_equal(r.session.observed.positions[0].position, 7);
	/* The next calls work. */
	scripts.failing_id = NULL;
	assert_true(authorize_many(MANY));
	assert_true(many_allowed[51]);
	/* A check that cannot be sent fails all too. */
	many_checks[60].action = "";
	assert_false(authorize_many(MANY));
	assert_int_equal(r.status.code, VERDICT_INVALID_ARGUMENT);
	assert_false(many_allowed[51]);
}

static void
ends_many_when_interrupted(void **state)
{
	static many_scripts scripts; /* the peer may still read it when the test is over */
	int i;

	(void) state;
	/* No answer is there when the interruption comes, however slow the machine is. */
	prepare_many(&scripts, 500);
	r.interrupt_after_ms = 5;
	assert_false(authorize_many(MANY));
	r.interrupt_after_ms = -1;
	assert_int_equal(r.status.code, VERDICT_CANCELED);
	for (i = 0; i < MANY; i++)
		assert_false(many_allowed[i]);
	assert_true(peer_wait_open_connections(r.peer, 0));
	prepare_many(&scripts, 5);
	assert_true(authorize_many(20));
	assert_true(many_allowed[19]);
}

static void
bounds_many_by_the_deadline_given(void **state)
{
	verdict_read_options options = {VERDICT_CONSISTENCY_DEFAULT, 100};
	static many_scripts scripts; /* the peer may still read it when the test is over */

	(void) state;
	/* 100 checks, 8 at a time, 30 ms each: about 390 ms. */
	prepare_many(&scripts, 30);
	assert_false(verdict_client_authorize_many(r.client, &r.session, many_checks, MANY, &options,
											   many_allowed, &r.status));
	assert_int_equal(r.status.code, VERDICT_DEADLINE_EXCEEDED);
	assert_true(peer_request_count(r.peer) < 60);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(answers_many_checks_in_their_order),
		TEST(fails_all_when_one_fails),
		TEST(ends_many_when_interrupted),
		TEST(bounds_many_by_the_deadline_given),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
