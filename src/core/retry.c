/*
 * retry.c
 *		Whether and when a call is sent again.
 *
 * Everything here is a function of its arguments: no clock is read, nothing is
 * allocated.  Three things can follow a failed send, and each passes the same
 * two gates: the call's deadline lies ahead, and the budget has the tokens.
 * What is not known to be safe to send again ends the call.
 */
#include "retry.h"

#include <string.h>
#include <time.h>

#define BUDGET_RESERVE 3000
#define BUDGET_MAXIMUM 100000
#define BUDGET_CREDIT 100
#define BUDGET_RETRY_COST 1000
#define BUDGET_TIMEOUT_RETRY_COST 2000

void
verdict_retry_budget_init(verdict_retry_budget *budget)
{
	budget->millitokens = BUDGET_RESERVE;
	budget->granted = 0;
	budget->refused = 0;
}

static void
budget_credit(verdict_retry_budget *budget)
{
	budget->millitokens += BUDGET_CREDIT;
	if (budget->millitokens > BUDGET_MAXIMUM)
		budget->millitokens = BUDGET_MAXIMUM;
}

/* Takes what sending again after "status" costs, or nothing when it is not there. */
static bool
budget_take(verdict_retry_budget *budget, verdict_retry_state *state, const verdict_status *status)
{
	int64_t cost =
		status->code == VERDICT_DEADLINE_EXCEEDED ? BUDGET_TIMEOUT_RETRY_COST : BUDGET_RETRY_COST;

	if (budget->millitokens < cost)
	{
		budget->refused++;
		state->refused = true;
		return false;
	}
	budget->granted++;
	budget->millitokens -= cost;
	return true;
}

void
verdict_retry_begin(verdict_retry_state *state, bool mutation, int64_t now_us)
{
	memset(state, 0, sizeof(*state));
	state->mutation = mutation;
	state->attempt = 1;
	state->attempt_started_us = now_us;
	state->call_started_us = now_us;
}

static int64_t
call_deadline(const verdict_retry_policy *policy, const verdict_retry_state *state)
{
	return state->call_started_us + (int64_t) policy->overall_timeout_ms * 1000;
}

int64_t
verdict_retry_deadline(const verdict_retry_policy *policy, const verdict_retry_state *state)
{
	int64_t call = call_deadline(policy, state);
	int64_t attempt;

	if (!state->mutation)
		return call;
	attempt = state->attempt_started_us + (int64_t) policy->attempt_timeout_ms * 1000;
	return attempt < call ? attempt : call;
}

/*
 * Whether the failure is one of the way to the instance or of the instance's
 * own telling.  Everything else was decided here, and sending the same bytes
 * again would meet the same decision (an answer that breaks the protocol, a
 * certificate that is not trusted) or is not wanted (an interruption).
 */
static bool
cause_allows_retry(verdict_cause cause)
{
	switch (cause)
	{
		case VERDICT_CAUSE_REMOTE:
		case VERDICT_CAUSE_HTTP:
		case VERDICT_CAUSE_RESOLVE:
		case VERDICT_CAUSE_CONNECT:
		case VERDICT_CAUSE_LOST:
		case VERDICT_CAUSE_DEADLINE:
			return true;
		case VERDICT_CAUSE_NONE:
		case VERDICT_CAUSE_TLS:
		case VERDICT_CAUSE_ANSWER:
		case VERDICT_CAUSE_TOO_LARGE:
		case VERDICT_CAUSE_INTERRUPTED:
		case VERDICT_CAUSE_ARGUMENT:
		case VERDICT_CAUSE_SESSION:
		case VERDICT_CAUSE_TRUNCATED:
		case VERDICT_CAUSE_MEMORY:
		case VERDICT_CAUSE_LIMIT:
		case VERDICT_CAUSE_INTERNAL:
			break;
	}
	return false;
}

/* The codes after which a mutation may have its second attempt. */
static bool
code_allows_attempt(const verdict_status *status)
{
	switch (status->code)
	{
		case VERDICT_UNAVAILABLE:
		case VERDICT_DEADLINE_EXCEEDED:
		case VERDICT_RESOURCE_EXHAUSTED:
			return true;
		case VERDICT_UNKNOWN:

			/*
			 * Connect infers this code from every HTTP status it does not list,
			 * 409 and 422 among them: a refusal must not be sent again.
			 */
			return !status->inferred || (status->http_status >= 500 && status->http_status <= 599);
		default:
			return false;
	}
}

/*
 * The wait before the next re-send after an HTTP 503, in milliseconds: what the
 * instance asked for, else a random time between half of a doubling backoff and
 * the whole of it.
 */
static int64_t
resend_delay(const verdict_retry_state *state, const verdict_status *status, uint32_t jitter)
{
	int64_t half = ((int64_t) VERDICT_503_BASE_MS << state->resends_503) / 2;

	if (status->retry_after_ms >= 0)
		return status->retry_after_ms;
	return half + (int64_t) (((uint64_t) jitter * (uint64_t) (half + 1)) >> 32);
}

static verdict_retry_action
next_after_503(const verdict_retry_policy *policy, verdict_retry_state *state,
			   verdict_retry_budget *budget, const verdict_status *status, int64_t now_us,
			   uint32_t jitter, int *delay_ms)
{
	int64_t delay;

	/* A wait does not count against the attempt, but what is over is over. */
	if (state->resends_503 >= VERDICT_MAX_503_RESENDS ||
		now_us >= verdict_retry_deadline(policy, state))
		return VERDICT_RETRY_STOP;

	delay = resend_delay(state, status, jitter);
	if (delay > VERDICT_503_WAIT_BUDGET_MS - state->waited_ms ||
		now_us + delay * 1000 >= call_deadline(policy, state) ||
		!budget_take(budget, state, status))
		return VERDICT_RETRY_STOP;

	state->resends_503++;
	state->waited_ms += (int) delay;
	state->attempt_started_us += delay * 1000;
	state->retried = true;
	*delay_ms = (int) delay;
	return VERDICT_RETRY_RESEND;
}

verdict_retry_action
verdict_retry_next(const verdict_retry_policy *policy, verdict_retry_state *state,
				   verdict_retry_budget *budget, const verdict_status *status,
				   bool kept_connection_died, int64_t now_us, uint32_t jitter, int *delay_ms)
{
	*delay_ms = 0;
	if (status->code == VERDICT_OK)
	{
		if (!state->retried)
			budget_credit(budget);
		return VERDICT_RETRY_STOP;
	}
	if (policy->owner != VERDICT_RETRY_CLIENT || status->code == VERDICT_CANCELED ||
		!cause_allows_retry(status->cause) || now_us >= call_deadline(policy, state))
		return VERDICT_RETRY_STOP;

	/* Whatever it decides, a 503 is handled: it has no second attempt. */
	if (status->http_status == 503 && policy->retry_http_503)
		return next_after_503(policy, state, budget, status, now_us, jitter, delay_ms);

	if (!state->mutation)
	{
		if (!kept_connection_died || state->replaced || status->code != VERDICT_UNAVAILABLE ||
			!budget_take(budget, state, status))
			return VERDICT_RETRY_STOP;
		state->replaced = true;
		state->retried = true;
		return VERDICT_RETRY_REPLACE;
	}

	/*
	 * The second attempt is there only while the 503 path has not been used:
	 * the two ways of sending again must not multiply.
	 */
	if (state->attempt >= VERDICT_MAX_ATTEMPTS || state->resends_503 > 0 ||
		!code_allows_attempt(status) || !budget_take(budget, state, status))
		return VERDICT_RETRY_STOP;
	state->attempt++;
	state->attempt_started_us = now_us;
	state->retried = true;
	return VERDICT_RETRY_ATTEMPT;
}

/* ---- Retry-After ---- */

static const char *const short_days[] = {"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun", NULL};
static const char *const long_days[] = {"Monday", "Tuesday",  "Wednesday", "Thursday",
										"Friday", "Saturday", "Sunday",	   NULL};
static const char *const months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul",
									 "Aug", "Sep", "Oct", "Nov", "Dec", NULL};

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* The index of the name that *text starts with, which is passed over; or -1. */
static int
take_name(const char **text, const char *const *names)
{
	int i;

	for (i = 0; names[i] != NULL; i++)
	{
		size_t length = strlen(names[i]);

		if (strncmp(*text, names[i], length) == 0)
		{
			*text += length;
			return i;
		}
	}
	return -1;
}

/* The number that the next "count" digits make, or -1. */
static int
take_digits(const char **text, int count)
{
	int value = 0;

	for (; count > 0; count--)
	{
		if (!is_digit(**text))
			return -1;
		value = value * 10 + (**text - '0');
		(*text)++;
	}
	return value;
}

/*
 * Matches one form of HTTP date, written as for strptime(), which is not used
 * because it follows the locale and passes over blanks and signs, as
 * curl_getdate() does.  %e is a day of two digits or of a blank and one.  The day
 * of the week must be one; whether it is the date's is not asked.
 */
static bool
match_date(const char *text, const char *form, struct tm *date)
{
	memset(date, 0, sizeof(*date));
	for (; *form != '\0'; form++)
	{
		int value = 0;

		if (*form != '%')
		{
			if (*text++ != *form)
				return false;
			continue;
		}
		switch (*++form)
		{
			case 'a':
				value = take_name(&text, short_days);
				break;
			case 'A':
				value = take_name(&text, long_days);
				break;
			case 'b':
				value = date->tm_mon = take_name(&text, months);
				break;
			case 'd':
				value = date->tm_mday = take_digits(&text, 2);
				break;
			case 'e':
				if (*text == ' ')
				{
					text++;
					value = date->tm_mday = take_digits(&text, 1);
				}
				else
					value = date->tm_mday = take_digits(&text, 2);
				break;
			case 'H':
				value = date->tm_hour = take_digits(&text, 2);
				break;
			case 'M':
				value = date->tm_min = take_digits(&text, 2);
				break;
			case 'S':
				value = date->tm_sec = take_digits(&text, 2);
				break;
			case 'Y':
				value = take_digits(&text, 4);
				date->tm_year = value - 1900;
				break;
			case 'y':
				value = date->tm_year = take_digits(&text, 2);
				break;
		}
		if (value < 0)
			return false;
	}
	return *text == '\0';
}

/*
 * Turns the two digits of a year into tm_year: of the years that end in them,
 * the last that is not more than 50 years ahead (RFC 9110, 5.6.7).
 */
static bool
complete_year(struct tm *date, int64_t wall_clock_s)
{
	time_t wall = (time_t) wall_clock_s;
	struct tm now;
	int latest;

	if (gmtime_r(&wall, &now) == NULL || now.tm_year < 0 || now.tm_year > 8000)
		return false;
	latest = now.tm_year + 1900 + 50;
	date->tm_year = latest - (latest - date->tm_year) % 100 - 1900;
	return true;
}

/* Seconds since 1970 of a date whose fields are in their ranges. */
static bool
date_to_seconds(struct tm *date, int64_t *seconds)
{
	int leap_second = date->tm_sec == 60 ? 1 : 0;
	int day = date->tm_mday;

	if (date->tm_hour > 23 || date->tm_min > 59 || date->tm_sec > 60)
		return false;
	date->tm_sec -= leap_second;
	*seconds = (int64_t) timegm(date) + leap_second;
	/* timegm() turns February 30 into a day of March. */
	return day >= 1 && day == date->tm_mday;
}

/* As milliseconds; a time too long to count stays too long. */
static int64_t
seconds_to_ms(int64_t seconds)
{
	return seconds > INT64_MAX / 1000 ? INT64_MAX : seconds * 1000;
}

int64_t
verdict_retry_after_ms(const char *value, int64_t wall_clock_s)
{
	struct tm date;
	int64_t seconds = 0;
	int64_t left;

	if (value == NULL)
		return -1;
	if (is_digit(*value))
	{
		/* Digits beyond what can be waited for make no difference. */
		for (; is_digit(*value); value++)
			if (seconds < INT64_MAX / 100)
				seconds = seconds * 10 + (*value - '0');
		return *value == '\0' ? seconds_to_ms(seconds) : -1;
	}

	if (!match_date(value, "%a, %d %b %Y %H:%M:%S GMT", &date) &&
		!match_date(value, "%a %b %e %H:%M:%S %Y", &date) &&
		!(match_date(value, "%A, %d-%b-%y %H:%M:%S GMT", &date) &&
		  complete_year(&date, wall_clock_s)))
		return -1;
	if (!date_to_seconds(&date, &seconds))
		return -1;
	if (seconds <= wall_clock_s)
		return 0;
	if (__builtin_sub_overflow(seconds, wall_clock_s, &left))
		return -1;
	return seconds_to_ms(left);
}
