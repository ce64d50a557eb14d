/*
 * status.c
 *		See status.h.  Whatever goes into a status's message passes through
 *		clean_text(), the one place that makes foreign text fit to be shown.
 */
#include "status.h"

#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* One entry a code, in the order of the numbers; names are Connect's. */
static const char *const code_names[] = {
	"ok",		 "canceled",	   "unknown",			"invalid_argument",	  "deadline_exceeded",
	"not_found", "already_exists", "permission_denied", "resource_exhausted", "failed_precondition",
	"aborted",	 "out_of_range",   "unimplemented",		"internal",			  "unavailable",
	"data_loss", "unauthenticated"};

#define CODE_COUNT ((int) (sizeof(code_names) / sizeof(code_names[0])))

void
verdict_status_init(verdict_status *status)
{
	memset(status, 0, sizeof(*status));
	status->code = VERDICT_OK;
	status->cause = VERDICT_CAUSE_NONE;
	status->outcome = VERDICT_OUTCOME_NOT_SENT;
	status->retry_after_ms = -1;
}

/*
 * Copies text into "clean" (VERDICT_MESSAGE_SIZE bytes): white space becomes a
 * space, other control characters (also U+0080 to U+009F, which terminals obey)
 * and bytes that are not UTF-8 become '?'.  What does not fit is cut between
 * characters and marked by "...", as is text that was "cut" before.
 */
static void
clean_text(char *clean, const char *text, size_t size, bool cut)
{
	static const char mark[] = "...";
	const size_t room = VERDICT_MESSAGE_SIZE - 1;
	size_t filled = 0;
	size_t before_mark = 0; /* last boundary that leaves room for it */
	size_t position = 0;

	while (position < size)
	{
		const char *character = text + position;
		unsigned char first = (unsigned char) character[0];
		size_t length = verdict_utf8_length(character, size - position);
		size_t skip = length == 0 ? 1 : length;

		if (first == ' ' || (first >= '\t' && first <= '\r'))
		{
			character = " ";
			length = 1;
		}
		else if (length == 0 || first < 0x20 || first == 0x7F ||
				 (first == 0xC2 && (unsigned char) character[1] < 0xA0))
		{
			character = "?";
			length = 1;
		}
		if (length > room - filled)
		{
			cut = true;
			break;
		}
		memcpy(clean + filled, character, length);
		filled += length;
		if (filled <= room - strlen(mark))
			before_mark = filled;
		position += skip;
	}
	if (cut)
	{
		memcpy(clean + before_mark, mark, strlen(mark));
		filled = before_mark + strlen(mark);
	}
	clean[filled] = '\0';
}

bool
verdict_status_fail(verdict_status *status, verdict_code code, verdict_cause cause,
					const char *format, ...)
{
	/* clean_text() makes at most two bytes into one: this fills its room. */
	char raw[2 * VERDICT_MESSAGE_SIZE];
	char clean[VERDICT_MESSAGE_SIZE];
	va_list args;
	int length;
	size_t size;
	bool cut = false;

	va_start(args, format);
	length = vsnprintf(raw, sizeof(raw), format, args);
	va_end(args);
	if (length < 0)
	{
		raw[0] = '\0';
		length = 0;
		cut = true;
	}
	size = (size_t) length;
	if (size >= sizeof(raw))
	{
		/* A character split here lies beyond what clean_text() keeps. */
		size = sizeof(raw) - 1;
		cut = true;
	}
	/* An argument may be the status's own message: clean aside, then copy. */
	clean_text(clean, raw, size, cut);
	memcpy(status->message, clean, strlen(clean) + 1);
	status->code = code;
	status->cause = cause;
	return false;
}

bool
verdict_status_no_memory(verdict_status *status)
{
	return verdict_status_fail(status, VERDICT_RESOURCE_EXHAUSTED, VERDICT_CAUSE_MEMORY,
							   "out of memory");
}

const char *
verdict_code_name(verdict_code code)
{
	if ((int) code < 0 || (int) code >= CODE_COUNT)
		return "unknown";
	return code_names[code];
}

verdict_code
verdict_code_from_name(const char *name)
{
	int code;

	for (code = VERDICT_CANCELED; code < CODE_COUNT; code++)
	{
		if (strcmp(name, code_names[code]) == 0)
			return (verdict_code) code;
	}
	return VERDICT_OK;
}

const char *
verdict_outcome_name(verdict_outcome outcome)
{
	switch (outcome)
	{
		case VERDICT_OUTCOME_NOT_SENT:
			return "not_sent";
		case VERDICT_OUTCOME_REJECTED:
			return "rejected";
		case VERDICT_OUTCOME_MAYBE_APPLIED:
			return "maybe_applied";
		case VERDICT_OUTCOME_APPLIED:
			return "applied";
	}
	return "maybe_applied";
}
