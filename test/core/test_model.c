/*
 * test_model.c
 *		The four session guarantees, on simulated histories.
 *
 * A history is a writer, three replicas that lag by up to two seconds, one
 * failover that may lose the newest commits, and four applications, each with a
 * session that it drives through session.h only.  Requests and answers are
 * delayed, overtake each other and get lost.  Everything is drawn from a seed.
 *
 * The judge looks at what the nodes did (which prefix of which log a call was
 * served from), never at revisions, and holds every pair of calls of one scope,
 * the earlier answered before the later was made:
 *
 *		read your writes, monotonic reads: a later session or authoritative read
 *			is of the same history and at least as far;
 *		monotonic writes, writes follow reads: a later write of the same history
 *			comes after, and no write takes effect twice in one history;
 *		and a scope is inconsistent exactly when its successful answers were.
 *
 * That the judge sees anything is shown by eight clients with one fault each.
 */
#include "model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Too large for a stack. */
static world the_world;

/* ---- the judge ---- */

static void
judge_pair(world *w, const call *earlier, const call *later)
{
	bool same = earlier->history == later->history;

	if (later->write)
	{
		/* Of two histories the answer's revision tells; see judge_scope(). */
		if (same && earlier->prefix >= later->prefix)
		{
			if (earlier->write)
				w->tally->monotonic_writes++;
			else
				w->tally->writes_follow_reads++;
		}
	}
	else if (later->consistency != VERDICT_CONSISTENCY_EVENTUAL &&
			 (!same || earlier->prefix > later->prefix))
	{
		if (earlier->write)
			w->tally->read_your_writes++;
		else
			w->tally->monotonic_reads++;
	}
}

/* Called when a call has been answered with success. */
static void
judge_call(world *w, const application *a, const call *answered)
{
	int i;

	for (i = a->scope_start; i < a->count; i++)
	{
		const call *other = &a->calls[i];

		if (!other->succeeded)
			continue;
		if (other->step < answered->step)
			judge_pair(w, other, answered);
		else if (other->step > answered->step)
			judge_pair(w, answered, other);
		else if (other->history == answered->history && other->prefix > answered->prefix)
			w->tally->overtaken++;
	}
}

static void
judge_scope(world *w, const application *a)
{
	if (a->session.inconsistent != a->mixed)
		w->tally->scope++;
}

/* At the end: no change took effect twice in one history. */
static void
judge_log(world *w, const history_log *log)
{
	static bool seen[APPLICATIONS][MAX_CALLS];
	int i;

	memset(seen, 0, sizeof(seen));
	for (i = 0; i < log->length; i++)
	{
		bool *before = &seen[log->commits[i].application][log->commits[i].call];

		if (*before)
			w->tally->monotonic_writes++;
		*before = true;
	}
}

/* ---- the client: what a call does with its session ---- */

static void
renew_session(world *w, application *a)
{
	verdict_status status;

	verdict_status_init(&status);
	assert_true(verdict_session_init(&a->session, &w->support.host, NULL,
									 VERDICT_CONSISTENCY_SESSION, &status));
}

/* The application asks for a fresh scope: the guarantees begin anew. */
static void
begin_scope(world *w, application *a)
{
	renew_session(w, a);
	a->scope_start = a->count;
	a->history = 0;
	a->mixed = false;
}

static void
send_attempt(world *w, int application_number, int call_number)
{
	application *a = &w->applications[application_number];
	call *c = &a->calls[call_number];
	message request = {.kind = REQUEST, .application = application_number, .call = call_number};
	message timeout = {.kind = TIMEOUT, .application = application_number, .call = call_number};

	request.attempt = timeout.attempt = c->attempt;
	request.node = WRITER;
	if (c->write)
		memcpy(request.key, c->key, sizeof(request.key));
	else
	{
		static char revision[VERDICT_REVISION_MAX_TEXT + 1];
		verdict_status status;

		verdict_status_init(&status);
		if (!verdict_session_read_headers(&a->session, &c->consistency, revision, &status))
		{
			if (w->fault != RENEWS_THE_SESSION_BY_ITSELF)
			{
				w->tally->refused++;
				timeout.attempt = -1; /* ends the call at once */
				model_post(w, timeout, 0);
				return;
			}
			renew_session(w, a);
			revision[0] = '\0';
		}
		assert_true(strlen(revision) < HEADER_SIZE);
		if (w->fault != SENDS_NO_REVISION)
			strcpy(request.header, revision);
		if (c->consistency != VERDICT_CONSISTENCY_AUTHORITATIVE)
		{
			/* Affinity by session id, until routing changes. */
			if (model_percent(w, 10))
				a->node = model_draw(w, REPLICAS);
			request.node = a->node;
		}
	}
	model_post(w, timeout, ATTEMPT_TIMEOUT_MS);
	if (model_percent(w, 3))
		return; /* the request is lost */
	/* Some requests of a write come when their attempt is long over. */
	model_post(w, request,
			   c->write && model_percent(w, 4) ? 1000 + model_draw(w, 2000)
											   : model_network_delay(w));
}

static void
observe(world *w, application *a, const call *c, const message *answer)
{
	int headers = answer->header[0] == '\0' ? 0 : 1;

	if ((w->fault == IGNORES_ANSWERS_OF_READS && !c->write) ||
		(w->fault == IGNORES_ANSWERS_OF_WRITES && c->write))
		return;
	if (w->fault == LAST_ANSWER_WINS && !a->session.inconsistent)
		renew_session(w, a);
	verdict_session_observe_answer(&a->session, answer->header, headers);
}

static void
end_call(world *w, int application_number, call *c)
{
	application *a = &w->applications[application_number];
	message wake = {.kind = WAKE, .application = application_number};

	c->pending = false;
	if (--a->outstanding == 0 && w->fault != DOES_NOT_WAIT_FOR_ANSWERS)
		model_post(w, wake, model_draw(w, 150));
}

/* A failed attempt: a write is sent once more under its key, else it is over. */
static void
attempt_failed(world *w, int application_number, int call_number)
{
	call *c = &w->applications[application_number].calls[call_number];

	if (!c->write || c->attempt == 2)
	{
		end_call(w, application_number, c);
		return;
	}
	c->attempt = 2;
	if (w->fault == FRESH_KEY_FOR_THE_SECOND_ATTEMPT)
		assert_true(verdict_uuid(&w->support.host, c->key));
	send_attempt(w, application_number, call_number);
}

static void
take_answer(world *w, const message *answer)
{
	application *a = &w->applications[answer->application];
	call *c = &a->calls[answer->call];

	/* The client has closed the connection of an attempt that is over. */
	if (!c->pending || answer->attempt != c->attempt)
		return;

	if (!answer->ok)
	{
		if (w->fault == OBSERVES_FAILED_ANSWERS)
			observe(w, a, c, answer);
		judge_scope(w, a);
		if (answer->precondition)
		{
			w->tally->preconditions++;
			if (w->fault == RENEWS_THE_SESSION_BY_ITSELF)
			{
				renew_session(w, a);
				send_attempt(w, answer->application, answer->call);
				return;
			}
			/* The application takes the way out that the error names. */
			if (a->outstanding == 1)
				begin_scope(w, a);
			end_call(w, answer->application, c);
		}
		else
			attempt_failed(w, answer->application, answer->call);
		return;
	}

	observe(w, a, c, answer);
	c->succeeded = true;
	c->history = answer->history;
	c->prefix = answer->prefix;
	if (c->write)
		w->tally->writes++;
	else if (c->consistency != VERDICT_CONSISTENCY_EVENTUAL)
		w->tally->session_reads++;
	if (answer->replay)
		w->tally->replays++;
	if (!a->mixed && ((a->history != 0 && a->history != answer->history) ||
					  strcmp(answer->header, MALFORMED) == 0))
	{
		a->mixed = true;
		w->tally->inconsistent++;
	}
	a->history = answer->history;

	judge_call(w, a, c);
	/* With the session renewed behind our back there is no scope to judge. */
	if (w->fault == NO_FAULT || w->fault == OBSERVES_FAILED_ANSWERS)
		judge_scope(w, a);
	end_call(w, answer->application, c);
}

/* ---- the applications ---- */

static void
make_call(world *w, int application_number, bool write)
{
	application *a = &w->applications[application_number];
	call *c = &a->calls[a->count];
	int mode = model_draw(w, 10);

	memset(c, 0, sizeof(*c));
	c->step = a->step;
	c->write = write;
	c->attempt = 1;
	c->pending = true;
	if (write)
		assert_true(verdict_uuid(&w->support.host, c->key));
	else if (mode == 0)
		c->consistency = VERDICT_CONSISTENCY_AUTHORITATIVE;
	else if (mode <= 2)
		c->consistency = VERDICT_CONSISTENCY_EVENTUAL;
	else
		c->consistency = VERDICT_CONSISTENCY_DEFAULT;
	a->outstanding++;
	w->issued++;
	w->tally->operations++;
	send_attempt(w, application_number, a->count++);
}

/* One step: a call, or a few together. */
static void
go_on(world *w, int application_number)
{
	application *a = &w->applications[application_number];
	message wake = {.kind = WAKE, .application = application_number};
	int together = model_percent(w, 20) ? 2 + model_draw(w, 2) : 1;
	int i;

	if (w->issued + together > OPERATIONS)
		return;
	/* An inconsistent scope is used a few times more before it is renewed. */
	if (a->session.inconsistent && a->outstanding == 0 && model_percent(w, 50))
		begin_scope(w, a);
	a->step++;
	for (i = 0; i < together; i++)
		make_call(w, application_number, model_percent(w, 30));
	if (w->fault == DOES_NOT_WAIT_FOR_ANSWERS)
		model_post(w, wake, model_draw(w, 150));
}

static void
run_history(uint64_t seed, fault planted, tally *t)
{
	world *w = &the_world;
	message promote = {.kind = PROMOTE};
	int i;

	memset(w, 0, sizeof(*w));
	w->random_state = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15);
	support_host_init(&w->support);
	w->fault = planted;
	w->tally = t;
	w->history = 1;
	for (i = 0; i < REPLICAS; i++)
	{
		w->replicas[i].history = 1;
		w->replicas[i].lag_ms = model_draw(w, 2000);
	}
	for (i = 0; i < APPLICATIONS; i++)
	{
		message wake = {.kind = WAKE, .application = i};

		begin_scope(w, &w->applications[i]);
		w->applications[i].node = model_draw(w, REPLICAS);
		model_post(w, wake, model_draw(w, 100));
	}
	model_post(w, promote, 3000 + model_draw(w, 9000));

	while (w->message_count > 0)
	{
		message m = model_next_message(w);

		w->now_ms = m.at_ms;
		switch (m.kind)
		{
			case WAKE:
				go_on(w, m.application);
				break;
			case REQUEST:
				if (!m.waited && model_percent(w, 3))
					model_serve_failure(w, &m);
				else if (w->applications[m.application].calls[m.call].write)
					model_serve_write(w, &m);
				else
					model_serve_read(w, m);
				break;
			case ANSWER:
				if (!model_percent(w, 3))
					take_answer(w, &m);
				break;
			case TIMEOUT:
			{
				call *c = &w->applications[m.application].calls[m.call];

				if (c->pending && m.attempt == -1)
					end_call(w, m.application, c);
				else if (c->pending && m.attempt == c->attempt)
					attempt_failed(w, m.application, m.call);
				break;
			}
			case PROMOTE:
				model_fail_over(w);
				break;
			case LEARN:
				model_learn(w, &w->replicas[m.node]);
				break;
		}
	}
	judge_log(w, &w->logs[1]);
	judge_log(w, &w->logs[2]);
}

static int64_t
violations(const tally *t)
{
	return t->read_your_writes + t->monotonic_reads + t->monotonic_writes + t->writes_follow_reads +
		   t->scope;
}

static void
test_guarantees_hold(void **state)
{
	tally t;
	uint64_t seed;

	(void) state;
	memset(&t, 0, sizeof(t));
	for (seed = 0; seed < 200; seed++)
	{
		run_history(seed, NO_FAULT, &t);
		if (violations(&t) > 0)
			fail_msg("seed %d: read your writes %d, monotonic reads %d, monotonic writes %d, "
					 "writes follow reads %d, scope %d",
					 (int) seed, (int) t.read_your_writes, (int) t.monotonic_reads,
					 (int) t.monotonic_writes, (int) t.writes_follow_reads, (int) t.scope);
	}
	print_message("%d operations: %d session reads and %d writes answered, %d replays, %d waits, "
				  "%d overtaken, %d scopes inconsistent, %d reads refused here and %d there\n",
				  (int) t.operations, (int) t.session_reads, (int) t.writes, (int) t.replays,
				  (int) t.waits, (int) t.overtaken, (int) t.inconsistent, (int) t.refused,
				  (int) t.preconditions);

	/* Every kind of event was there often enough to go wrong. */
	assert_true(t.operations >= 199 * OPERATIONS);
	assert_true(t.session_reads > 30000);
	assert_true(t.writes > 20000);
	assert_true(t.replays > 200);
	assert_true(t.waits > 2000);
	assert_true(t.overtaken > 1000);
	assert_true(t.inconsistent > 200);
	assert_true(t.refused > 100);
	assert_true(t.preconditions > 200);
}

static void
test_faulty_clients_are_caught(void **state)
{
	static const struct
	{
		fault fault;
		const char *name;
		size_t guarantee; /* the one that must break */
	} clients[] = {
		{SENDS_NO_REVISION, "sends no revision", offsetof(tally, monotonic_reads)},
		{IGNORES_ANSWERS_OF_READS, "ignores answers of reads", offsetof(tally, monotonic_reads)},
		{IGNORES_ANSWERS_OF_WRITES, "ignores answers of writes", offsetof(tally, read_your_writes)},
		{LAST_ANSWER_WINS, "last answer wins", offsetof(tally, monotonic_reads)},
		{OBSERVES_FAILED_ANSWERS, "observes failed answers", offsetof(tally, scope)},
		{RENEWS_THE_SESSION_BY_ITSELF, "renews the session by itself",
		 offsetof(tally, read_your_writes)},
		{FRESH_KEY_FOR_THE_SECOND_ATTEMPT, "fresh key for the second attempt",
		 offsetof(tally, monotonic_writes)},
		{DOES_NOT_WAIT_FOR_ANSWERS, "does not wait for answers",
		 offsetof(tally, writes_follow_reads)},
	};
	size_t i;

	(void) state;
	assert_int_equal(sizeof(clients) / sizeof(clients[0]), FAULTS - 1);
	for (i = 0; i < sizeof(clients) / sizeof(clients[0]); i++)
	{
		int64_t broken = 0;
		uint64_t seed;

		for (seed = 0; seed < 20 && broken == 0; seed++)
		{
			tally t;

			memset(&t, 0, sizeof(t));
			run_history(seed, clients[i].fault, &t);
			memcpy(&broken, (const char *) &t + clients[i].guarantee, sizeof(broken));
		}
		if (broken == 0)
			fail_msg("not caught: %s", clients[i].name);
		print_message("%s: caught in history %d\n", clients[i].name, (int) seed);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_guarantees_hold),
		cmocka_unit_test(test_faulty_clients_are_caught),
	};

	return cmocka_run_group_tests_name("model", tests, NULL, NULL);
}
