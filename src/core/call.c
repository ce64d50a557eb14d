/*
 * call.c
 *		See call.h.
 *
 * While verdict_client_run() is on the stack it owns the client's calls and
 * their exchanges; it gives every exchange back before it returns.  A failure
 * never becomes an answer: only finish_answer() can make a call succeed, and
 * only after the transport vouched for the whole answer, Connect for its kind
 * and the codec for its content.
 */
#include "call.h"

#include "connect.h"

#include <string.h>

/* ---- headers ---- */

static bool
buffer_ok(const verdict_buffer *buffer, verdict_status *status)
{
	if (buffer->state == VERDICT_BUFFER_OK)
		return true;
	if (buffer->state == VERDICT_BUFFER_NO_MEMORY)
		return verdict_status_no_memory(status);
	return verdict_status_fail(status, VERDICT_INVALID_ARGUMENT, VERDICT_CAUSE_ARGUMENT,
							   "the request headers are too large");
}

/* The headers that are the same for every send of one call. */
static bool
add_lasting_headers(const verdict_work *work, verdict_call *call, verdict_status *status)
{
	verdict_buffer *lines = &call->lines;

	verdict_buffer_reset(lines);
	verdict_connect_add_header(lines, "X-Request-Id", call->status.request_id);
	verdict_connect_add_header(lines, "Verdict-Session-Id", work->session->id);
	if (call->key != NULL)
		verdict_connect_add_header(lines, "Idempotency-Key", call->key);
	else
	{
		verdict_consistency consistency = call->consistency;
		char revision[VERDICT_REVISION_MAX_TEXT + 1];

		if (!verdict_session_read_headers(work->session, &consistency, revision, status))
			return false;
		verdict_connect_add_header(lines, "Verdict-Consistency",
								   verdict_consistency_name(consistency));
		if (revision[0] != '\0')
			verdict_connect_add_header(lines, "Verdict-Revision", revision);
	}
	call->lines_lasting = lines->size;
	return buffer_ok(lines, status);
}

/* ---- one call ---- */

/* What a supervisor is told of a call that is over. */
static void
tell_end(const verdict_client *client, const verdict_call *call, int64_t now_us)
{
	const verdict_supervisor *supervisor = client->options.supervisor;
	const verdict_retry_state *retry = &call->retry;
	verdict_call_report report;

	if (supervisor == NULL || supervisor->ended == NULL)
		return;
	report.method = call->method;
	report.status = &call->status;
	report.duration_us = now_us - retry->call_started_us;
	report.retries = retry->attempt - 1 + retry->resends_503 + (retry->replaced ? 1 : 0);
	report.waits_503 = retry->resends_503;
	report.budget_refused = retry->refused;
	report.bytes_sent = call->bytes_sent;
	report.bytes_received = call->bytes_received;
	supervisor->ended(supervisor->context, &report);
}

/* "give_up_us" is when all calls of the work have to be over. */
static bool
begin(verdict_client *client, const verdict_work *work, verdict_call *call, size_t index,
	  int64_t give_up_us, int64_t now_us)
{
	verdict_status *status = &call->status;

	verdict_status_init(status);
	verdict_retry_begin(&call->retry, false, now_us);
	call->method = work->method;
	call->index = index;
	call->bytes_sent = 0;
	call->bytes_received = 0;
	call->key = NULL;
	call->consistency = VERDICT_CONSISTENCY_DEFAULT;
	call->fresh_connection = false;
	call->maybe_applied = false;
	verdict_buffer_reset(&call->request);
	if (!work->prepare(client, work, call, status))
		return false;
	if (give_up_us != INT64_MAX && (give_up_us - now_us) / 1000 < call->timeout_ms)
		call->timeout_ms = (int) ((give_up_us - now_us) / 1000);
	if (!verdict_uuid(&client->random_source, status->request_id))
		return verdict_status_fail(status, VERDICT_INTERNAL, VERDICT_CAUSE_INTERNAL,
								   "no random bytes");
	if (!add_lasting_headers(work, call, status))
		return false;

	call->policy.owner = client->options.retry_owner;
	call->policy.retry_http_503 = client->options.retry_http_503;
	call->policy.attempt_timeout_ms = client->options.mutation_attempt_timeout_ms;
	call->policy.overall_timeout_ms = call->timeout_ms;
	verdict_retry_begin(&call->retry, call->key != NULL, now_us);
	call->phase = VERDICT_CALL_DUE;
	return true;
}

static void
end(verdict_call *call)
{
	if (call->exchange != NULL)
	{
		if (verdict_exchange_sent(call->exchange))
			call->bytes_sent += (int64_t) call->body_size;
		call->bytes_received += verdict_exchange_received(call->exchange);
		verdict_exchange_release(call->exchange);
	}
	call->exchange = NULL;
	call->phase = VERDICT_CALL_IDLE;
}

/* What a send finds out starts from nothing; what the call is stays. */
static void
clear_status(verdict_status *status)
{
	status->code = VERDICT_OK;
	status->cause = VERDICT_CAUSE_NONE;
	status->outcome = VERDICT_OUTCOME_NOT_SENT;
	status->inferred = false;
	status->http_status = 0;
	status->retry_after_ms = -1;
	status->message[0] = '\0';
}

static bool
send_call(verdict_client *client, verdict_call *call, int64_t now_us)
{
	verdict_request request;
	verdict_status *status = &call->status;
	int64_t left_ms;

	clear_status(status);
	status->attempts = call->retry.attempt;
	left_ms = (call->deadline_us - now_us) / 1000;
	if (left_ms < 1)
		left_ms = 1;

	call->lines.size = call->lines_lasting;
	verdict_connect_add_timeout(&call->lines, left_ms);
	if (!buffer_ok(&call->lines, status))
		return false;
	call->exchange = verdict_exchange_acquire(client->pool, status);
	if (call->exchange == NULL)
		return false;

	request.url = client->url[call->method];
	request.headers.bytes = call->lines.bytes;
	request.headers.size = call->lines.size;
	request.body = call->body;
	request.body_size = call->body_size;
	request.timeout_ms = (int) left_ms;
	request.fresh_connection = call->fresh_connection;
	if (!verdict_exchange_start(call->exchange, &request, status))
		return false;
	call->phase = VERDICT_CALL_SENT;
	return true;
}

/* Makes of an exchange that is done a result; true when it is a success. */
static bool
finish_answer(verdict_client *client, const verdict_work *work, verdict_call *call, int64_t now_us)
{
	verdict_exchange *exchange = call->exchange;
	verdict_status *status = &call->status;
	const verdict_headers *headers = verdict_exchange_headers(exchange);
	const verdict_buffer *body = verdict_exchange_body(exchange);
	const char *revision;
	int revisions;
	bool succeeded;

	if (!verdict_exchange_result(exchange, now_us >= call->deadline_us, status))
		return false;
	succeeded = verdict_connect_check_answer(
		headers, body->bytes, body->size, client->options.wire_format, call->key != NULL,
		headers->status == 200 ? 0 : client->host->wall_clock_s(client->host->context),
		&client->scratch, NULL, status);
	if (client->scratch.used > 0)
		verdict_arena_reset(&client->scratch);
	if (!succeeded)
		return false;

	/* A body that cannot be read may still tell of a change that was made. */
	status->outcome = VERDICT_OUTCOME_MAYBE_APPLIED;
	if (!work->decode(client, work, call, exchange, status))
		return false;
	revisions = verdict_headers_find(headers, "Verdict-Revision", &revision);
	verdict_session_observe_answer(work->session, revision, revisions);
	status->outcome = VERDICT_OUTCOME_APPLIED;
	return true;
}

/* verdict_retry_next(), with the budget that counts for this client. */
static verdict_retry_action
next_action(verdict_client *client, verdict_call *call, bool kept_died, int64_t now_us,
			uint32_t jitter, int *delay_ms)
{
	const verdict_supervisor *supervisor = client->options.supervisor;
	bool shared = supervisor != NULL && supervisor->lock_budget != NULL;
	verdict_retry_budget *budget =
		shared ? supervisor->lock_budget(supervisor->context) : &client->budget;
	verdict_retry_action action;

	action = verdict_retry_next(&call->policy, &call->retry, budget, &call->status, kept_died,
								now_us, jitter, delay_ms);
	if (shared)
		supervisor->unlock_budget(supervisor->context);
	return action;
}

/*
 * What follows a send whose result is in the status: the end (true), or another
 * send.
 */
static bool
decide(verdict_client *client, verdict_call *call, int64_t now_us)
{
	verdict_status *status = &call->status;
	bool kept_died = false;
	uint32_t jitter = 0;
	int delay_ms;

	if (call->exchange != NULL)
	{
		kept_died = verdict_exchange_kept_died(call->exchange);
		if (verdict_exchange_sent(call->exchange))
			status->sends++;
	}
	end(call);
	if (status->code != VERDICT_OK)
	{
		client->random_source.random_bytes(client->random_source.context, &jitter, sizeof(jitter));
		call->maybe_applied =
			call->maybe_applied || status->outcome == VERDICT_OUTCOME_MAYBE_APPLIED;
		/* What ended one kept connection has most likely ended all. */
		call->fresh_connection = kept_died;
	}
	switch (next_action(client, call, kept_died, now_us, jitter, &delay_ms))
	{
		case VERDICT_RETRY_STOP:
			if (status->code != VERDICT_OK && call->maybe_applied)
				status->outcome = VERDICT_OUTCOME_MAYBE_APPLIED;
			return true;
		case VERDICT_RETRY_RESEND:
			call->phase = VERDICT_CALL_WAITING;
			call->wake_us = now_us + (int64_t) delay_ms * 1000;
			return false;
		case VERDICT_RETRY_REPLACE:
			call->fresh_connection = true;
			call->phase = VERDICT_CALL_DUE;
			return false;
		case VERDICT_RETRY_ATTEMPT:
			call->phase = VERDICT_CALL_DUE;
			return false;
	}
	return true;
}

static void
fail_by_deadline(verdict_call *call, int64_t now_us)
{
	verdict_status *status = &call->status;
	bool sent = call->exchange != NULL && verdict_exchange_sent(call->exchange);

	verdict_status_fail(status, VERDICT_DEADLINE_EXCEEDED, VERDICT_CAUSE_DEADLINE,
						"no answer after %lld ms, while %s",
						(long long) (now_us - call->retry.call_started_us) / 1000,
						call->exchange != NULL ? verdict_exchange_phase(call->exchange)
											   : "waiting for a connection");
	status->outcome = sent ? VERDICT_OUTCOME_MAYBE_APPLIED : VERDICT_OUTCOME_NOT_SENT;
	if (call->exchange == NULL)
		return;
	/* A status line that came counts, though the body did not: a 503 is one. */
	if (verdict_exchange_headers(call->exchange)->complete)
		status->http_status = verdict_exchange_headers(call->exchange)->status;
	verdict_exchange_abort(call->exchange);
}

/*
 * Moves one call on as far as it goes without waiting.  True when it is over,
 * with its result in its status.
 */
static bool
advance(verdict_client *client, const verdict_work *work, verdict_call *call, int64_t now_us)
{
	for (;;)
	{
		switch (call->phase)
		{
			case VERDICT_CALL_IDLE:
				return true;
			case VERDICT_CALL_WAITING:
				if (now_us < call->wake_us)
					return false;
				call->phase = VERDICT_CALL_DUE;
				break;
			case VERDICT_CALL_DUE:
				call->deadline_us = verdict_retry_deadline(&call->policy, &call->retry);
				if (now_us >= call->deadline_us)
				{
					clear_status(&call->status);
					fail_by_deadline(call, now_us);
				}
				else if (!verdict_pool_ready(client->pool))
					return false;
				else if (send_call(client, call, now_us))
					break;
				if (decide(client, call, now_us))
					return true;
				break;
			case VERDICT_CALL_SENT:
				if (verdict_exchange_done(call->exchange))
					finish_answer(client, work, call, now_us);
				else if (now_us >= call->deadline_us)
					fail_by_deadline(call, now_us);
				else
					return false;
				if (decide(client, call, now_us))
					return true;
				break;
		}
	}
}

/* ---- the loop ---- */

/* How far the work has come. */
typedef struct run_progress
{
	size_t started;
	size_t finished;
	int64_t until_us;	/* when a call has to be looked at next */
	int64_t give_up_us; /* when all has to be over; INT64_MAX = never */
} run_progress;

/* When the call has to be looked at again though nothing came in for it. */
static int64_t
next_look(const verdict_call *call)
{
	switch (call->phase)
	{
		case VERDICT_CALL_DUE: /* until the pool is ready */
		case VERDICT_CALL_SENT:
			return call->deadline_us;
		case VERDICT_CALL_WAITING:
			return call->wake_us;
		case VERDICT_CALL_IDLE:
			break;
	}
	return INT64_MAX;
}

static void
fail_by_interrupt(verdict_call *call, const char *message)
{
	verdict_status *status = &call->status;

	clear_status(status);
	if (call->exchange != NULL && verdict_exchange_sent(call->exchange))
	{
		status->sends++;
		call->maybe_applied = true;
	}
	verdict_status_fail(status, VERDICT_CANCELED, VERDICT_CAUSE_INTERRUPTED, "%s", message);
	status->outcome =
		call->maybe_applied ? VERDICT_OUTCOME_MAYBE_APPLIED : VERDICT_OUTCOME_NOT_SENT;
}

/*
 * Moves on the call of one slot, and puts the next call into the slot each time
 * one is over.  False when a call failed.
 */
static bool
run_slot(verdict_client *client, const verdict_work *work, verdict_call *call,
		 run_progress *progress, int64_t now_us)
{
	for (;;)
	{
		if (call->phase == VERDICT_CALL_IDLE)
		{
			if (progress->started == work->count)
				return true;
			if (!begin(client, work, call, progress->started, progress->give_up_us, now_us))
			{
				tell_end(client, call, now_us);
				return false;
			}
			progress->started++;
		}
		if (!advance(client, work, call, now_us))
		{
			if (next_look(call) < progress->until_us)
				progress->until_us = next_look(call);
			return true;
		}
		tell_end(client, call, now_us);
		if (call->status.code != VERDICT_OK)
			return false;
		progress->finished++;
	}
}

/* The first call that is not over, or NULL. */
static verdict_call *
first_under_way(verdict_client *client)
{
	int i;

	for (i = 0; i < VERDICT_MAX_IN_FLIGHT; i++)
		if (client->calls[i].phase != VERDICT_CALL_IDLE)
			return &client->calls[i];
	return NULL;
}

/* Ends what is still under way. */
static void
abandon(verdict_client *client, const char *why)
{
	const verdict_host *host = client->host;
	verdict_call *call;

	while ((call = first_under_way(client)) != NULL)
	{
		fail_by_interrupt(call, why);
		end(call);
		tell_end(client, call, host->monotonic_us(host->context));
	}
}

/* Asks the supervisor.  False with a status. */
static bool
admit(const verdict_client *client, size_t count, int64_t *give_up_us, verdict_status *status)
{
	const verdict_supervisor *supervisor = client->options.supervisor;
	const verdict_host *host = client->host;
	int within_ms = 0;

	*give_up_us = INT64_MAX;
	if (supervisor == NULL || supervisor->admit == NULL || count == 0)
		return true;
	if (!supervisor->admit(supervisor->context, count, &within_ms))
		return verdict_status_fail(status, VERDICT_RESOURCE_EXHAUSTED, VERDICT_CAUSE_LIMIT,
								   "no more calls are admitted");
	if (within_ms > 0)
		*give_up_us = host->monotonic_us(host->context) + (int64_t) within_ms * 1000;
	return true;
}

bool
verdict_client_run(verdict_client *client, const verdict_work *work, verdict_status *status)
{
	const verdict_host *host = client->host;
	run_progress progress = {0, 0, 0, 0};
	int slots = work->count < VERDICT_MAX_IN_FLIGHT ? (int) work->count : VERDICT_MAX_IN_FLIGHT;
	verdict_call *failed = NULL;
	bool interrupted = false;
	int i;

	verdict_status_init(status);
	if (!admit(client, work->count, &progress.give_up_us, status))
		return false;
	while (progress.finished < work->count && failed == NULL)
	{
		int64_t now_us = host->monotonic_us(host->context);

		progress.until_us = INT64_MAX;
		for (i = 0; i < slots && failed == NULL; i++)
			if (!run_slot(client, work, &client->calls[i], &progress, now_us))
				failed = &client->calls[i];

		if (failed == NULL && progress.finished < work->count &&
			verdict_runtime_wait(client->runtime, progress.until_us) == VERDICT_WAIT_INTERRUPTED)
		{
			failed = first_under_way(client);
			interrupted = true;
		}
	}
	abandon(client, interrupted ? "the call was interrupted" : "another call failed");

	/* Of calls that all succeeded, the first tells as much as any other. */
	if (work->count > 0)
		*status = failed != NULL ? failed->status : client->calls[0].status;
	return failed == NULL;
}
