/*
 * model.c
 *		The nodes of the simulated instance and the network before them.
 */
#include "model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* xorshift64* */
int
model_draw(world *w, int bound)
{
	w->random_state ^= w->random_state >> 12;
	w->random_state ^= w->random_state << 25;
	w->random_state ^= w->random_state >> 27;
	return (int) ((w->random_state * UINT64_C(2685821657736338717) >> 33) % (uint64_t) bound);
}

bool
model_percent(world *w, int chance)
{
	return model_draw(w, 100) < chance;
}

void
model_post(world *w, message m, int64_t delay_ms)
{
	assert_true(w->message_count < MAX_MESSAGES);
	m.at_ms = w->now_ms + delay_ms;
	w->messages[w->message_count++] = m;
}

message
model_next_message(world *w)
{
	int first = 0;
	int i;
	message m;

	for (i = 1; i < w->message_count; i++)
		if (w->messages[i].at_ms < w->messages[first].at_ms)
			first = i;
	m = w->messages[first];
	w->messages[first] = w->messages[--w->message_count];
	return m;
}

int64_t
model_network_delay(world *w)
{
	return model_percent(w, 5) ? 200 + model_draw(w, 700) : 1 + model_draw(w, 30);
}

/* Shards 0, 5 and 10 in the token; written and read without the code under test. */
static void
print_positions(const int *positions, int history, int only_shard, char *text)
{
	size_t length = (size_t) snprintf(text, HEADER_SIZE, "v1.sim.%d.", history);
	const char *comma = "";
	int shard;

	for (shard = 0; shard < SHARDS; shard++)
	{
		if (only_shard >= 0 ? shard != only_shard : shard > 0 && positions[shard] == 0)
			continue;
		if (shard == 0)
			length +=
				(size_t) snprintf(text + length, HEADER_SIZE - length, "%d", positions[shard]);
		else
			length += (size_t) snprintf(text + length, HEADER_SIZE - length, "%s%d:%d", comma,
										shard * 5, positions[shard]);
		comma = ",";
	}
	assert_true(length < HEADER_SIZE);
}

static int
read_positions(const char *text, int *positions)
{
	int history;
	int used;

	memset(positions, 0, SHARDS * sizeof(*positions));
	assert_int_equal(sscanf(text, "v1.sim.%d.%n", &history, &used), 1);
	text += used;
	while (*text != '\0')
	{
		int shard = 0;
		int position;

		if (sscanf(text, "%d:%d%n", &shard, &position, &used) != 2)
		{
			assert_int_equal(sscanf(text, "%d%n", &position, &used), 1);
			shard = 0;
		}
		assert_true(shard % 5 == 0 && shard / 5 < SHARDS);
		positions[shard / 5] = position;
		text += used;
		if (*text == ',')
			text++;
	}
	return history;
}

/* What has come through by now; the lag changes now and then. */
static void
catch_up(world *w, replica *r)
{
	if (model_percent(w, 3))
		r->lag_ms = model_percent(w, 40) ? 0 : model_draw(w, 2000);
	if (r->history != w->history)
		return;
	while (r->prefix < w->logs[r->history].length &&
		   w->logs[r->history].commits[r->prefix].at_ms + r->lag_ms <= w->now_ms)
		r->prefix++;
}

static void
answer_read(world *w, const message *request, bool ok, int history, int prefix)
{
	message answer = *request;

	answer.kind = ANSWER;
	answer.ok = ok;
	answer.precondition = !ok;
	answer.history = history;
	answer.prefix = prefix;
	answer.header[0] = '\0';
	if (ok)
		print_positions(w->logs[history].positions[prefix], history, -1, answer.header);
	if (ok && model_draw(w, 1000) == 0)
		strcpy(answer.header, MALFORMED);
	model_post(w, answer, model_network_delay(w));
}

void
model_serve_read(world *w, message request)
{
	int history = w->history;
	int prefix = w->logs[history].length;
	int wanted[SHARDS];
	int wanted_history = 0;
	bool there = true;

	if (request.node != WRITER)
	{
		replica *r = &w->replicas[request.node];

		catch_up(w, r);
		history = r->history;
		prefix = r->prefix;
	}
	if (request.header[0] != '\0')
	{
		int shard;

		wanted_history = read_positions(request.header, wanted);
		there = wanted_history == history;
		for (shard = 0; shard < SHARDS; shard++)
			there = there && w->logs[history].positions[prefix][shard] >= wanted[shard];
	}

	if (there)
		answer_read(w, &request, true, history, prefix);
	else if (request.node == WRITER || wanted_history < history)
		answer_read(w, &request, false, history, prefix);
	else
	{
		/* Behind, or not told of the failover yet: a while, then the writer. */
		if (request.waited)
			request.node = WRITER;
		else
			w->tally->waits++;
		request.waited = true;
		model_post(w, request, REPLICA_WAIT_MS);
	}
}

void
model_serve_write(world *w, const message *request)
{
	history_log *log = &w->logs[w->history];
	int shard = request->call % SHARDS;
	message answer = *request;
	int i;

	for (i = 0; i < log->length; i++)
		if (strcmp(log->commits[i].key, request->key) == 0)
			break;
	answer.replay = i < log->length;
	if (!answer.replay)
	{
		commit *c = &log->commits[log->length];

		assert_true(log->length < MAX_LOG);
		c->application = request->application;
		c->call = request->call;
		c->at_ms = w->now_ms;
		memcpy(c->key, request->key, sizeof(c->key));
		memcpy(log->positions[log->length + 1], log->positions[log->length],
			   sizeof(log->positions[0]));
		log->positions[++log->length][shard]++;
	}
	answer.kind = ANSWER;
	answer.ok = true;
	answer.history = w->history;
	answer.prefix = i + 1;
	print_positions(log->positions[i + 1], w->history, shard, answer.header);
	model_post(w, answer, model_network_delay(w));
}

void
model_serve_failure(world *w, const message *request)
{
	static const char *const headers[] = {"v1.sim.1.999999", "v1.other.1.5", MALFORMED, ""};
	message answer = *request;

	answer.kind = ANSWER;
	answer.ok = false;
	answer.precondition = false;
	strcpy(answer.header, headers[model_draw(w, 4)]);
	model_post(w, answer, model_network_delay(w));
}

void
model_fail_over(world *w)
{
	const history_log *old = &w->logs[w->history];
	history_log *log = &w->logs[w->history + 1];
	int lost = model_draw(w, 6);
	int i;

	*log = *old;
	log->length = old->length > lost ? old->length - lost : 0;
	w->history++;
	for (i = 0; i < REPLICAS; i++)
	{
		message m = {.kind = LEARN, .node = i};

		model_post(w, m, model_draw(w, 2000));
	}
}

void
model_learn(world *w, replica *r)
{
	r->history = w->history;
	if (r->prefix > w->logs[w->history].length)
		r->prefix = w->logs[w->history].length;
}
