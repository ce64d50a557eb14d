/*
 * supervisor.c
 *		What the core asks of a backend about its calls, and tells it of them.
 *
 * The functions of the table run while core frames are on the stack: nothing in
 * them raises.  All calls of Verdict that this backend makes pass through here,
 * whoever makes them, so this is the one place that counts those of a statement.
 */
#include "supervisor.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"
#include "wait.h"

/*
 * A call whose statement is out of time is ended by statement_timeout, with its
 * error; the call's own deadline comes this much later.
 */
#define STATEMENT_MARGIN_MS 10

/* The statement whose calls were counted last, by when it began. */
static TimestampTz counted_statement = 0;
static int64 counted_calls = 0;

/*
 * A statement is what the client sends at once: what a function runs belongs to
 * its caller.  Workers have no statements.
 */
static bool
admit_statement(size_t count)
{
	TimestampTz statement = GetCurrentStatementStartTimestamp();

	if (MyBackendType == B_BG_WORKER)
		return true;
	if (statement != counted_statement)
	{
		counted_statement = statement;
		counted_calls = 0;
	}
	if (verdict_setting_statement_call_limit > 0 &&
		count > (size_t) Max(verdict_setting_statement_call_limit - counted_calls, 0))
		return false;
	counted_calls += (int64) count;
	return true;
}

/* What statement_timeout leaves, or 0 for no bound. */
static int
statement_time_left_ms(void)
{
	int64 left;

	if (!get_timeout_active(STATEMENT_TIMEOUT))
		return 0;
	left = (get_timeout_finish_time(STATEMENT_TIMEOUT) - GetCurrentTimestamp()) / 1000;
	return (int) Min(Max(left, 0) + STATEMENT_MARGIN_MS, PG_INT32_MAX);
}

static bool
admit(void *context, size_t count, int *within_ms)
{
	(void) context;
	if (!admit_statement(count))
		return false;
	*within_ms = statement_time_left_ms();
	return true;
}

static verdict_retry_budget *
lock_budget(void *context)
{
	return verdict_statistics_lock_budget(&((verdict_supervision *) context)->server);
}

static void
unlock_budget(void *context)
{
	verdict_statistics_unlock_budget(&((verdict_supervision *) context)->server);
}

static void
log_call(const verdict_supervision *supervision, const verdict_call_report *report)
{
	const verdict_status *status = report->status;
	char line[512];

	snprintf(line, sizeof(line),
			 "slow call: %.3f ms, method %s, server \"%s\", Connect code %s, attempts %d, "
			 "requests sent %d, request id %s",
			 (double) report->duration_us / 1000.0, verdict_method_name(report->method),
			 supervision->server.name, verdict_code_name(status->code), status->attempts,
			 status->sends, status->request_id[0] != '\0' ? status->request_id : "none");
	verdict_wait_log(LOG_SERVER_ONLY, line);
}

static void
ended(void *context, const verdict_call_report *report)
{
	verdict_supervision *supervision = context;

	verdict_statistics_count(&supervision->server, report);
	if (verdict_setting_log_min_call_duration >= 0 &&
		report->duration_us >= (int64) verdict_setting_log_min_call_duration * 1000)
		log_call(supervision, report);
}

void
verdict_supervise(verdict_supervision *supervision, Oid server, const char *name)
{
	verdict_statistics_open(&supervision->server, server, name);
	supervision->supervisor.context = supervision;
	supervision->supervisor.admit = admit;
	supervision->supervisor.lock_budget = lock_budget;
	supervision->supervisor.unlock_budget = unlock_budget;
	supervision->supervisor.ended = ended;
}
