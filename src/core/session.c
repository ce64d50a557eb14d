/*
 * session.c
 *		A scope of observed revisions: what one workflow has seen.
 *
 * The observed revision only ever grows within one history; the only way back
 * is reject_scope(), which empties it and cannot be undone.  A failed call has
 * no function here to reach the scope by.
 */
#include "session.h"

#include <string.h>

/* Printable without the blank: what may stand alone in a header value. */
static bool
is_visible_ascii(char c)
{
	return c > 0x20 && c < 0x7f;
}

static bool
session_id_valid(const char *id)
{
	size_t length;

	for (length = 0; id[length] != '\0'; length++)
	{
		if (length == VERDICT_SESSION_ID_MAX || !is_visible_ascii(id[length]))
			return false;
	}
	return length > 0;
}

bool
verdict_session_init(verdict_session *session, const verdict_host *host, const char *id,
					 verdict_consistency consistency, verdict_status *status)
{
	verdict_session fresh;

	memset(&fresh, 0, sizeof(fresh));
	switch (consistency)
	{
		case VERDICT_CONSISTENCY_DEFAULT:
			fresh.consistency = VERDICT_CONSISTENCY_SESSION;
			break;
		case VERDICT_CONSISTENCY_SESSION:
		case VERDICT_CONSISTENCY_EVENTUAL:
		case VERDICT_CONSISTENCY_AUTHORITATIVE:
			fresh.consistency = consistency;
			break;
		default:
			return verdict_status_fail(status, VERDICT_INVALID_ARGUMENT, VERDICT_CAUSE_ARGUMENT,
									   "unknown consistency %d", (int) consistency);
	}

	if (id == NULL)
	{
		if (!verdict_uuid(host, fresh.id))
			return verdict_status_fail(status, VERDICT_INTERNAL, VERDICT_CAUSE_INTERNAL,
									   "no random bytes for a session id");
	}
	else
	{
		if (!session_id_valid(id))
			return verdict_status_fail(status, VERDICT_INVALID_ARGUMENT, VERDICT_CAUSE_ARGUMENT,
									   "a session id must be 1 to %d visible ASCII characters",
									   VERDICT_SESSION_ID_MAX);
		memcpy(fresh.id, id, strlen(id) + 1);
	}
	*session = fresh;
	return true;
}

/* Nothing that this scope has seen can be relied on any more. */
static void
reject_scope(verdict_session *session)
{
	memset(&session->observed, 0, sizeof(session->observed));
	memset(&session->served, 0, sizeof(session->served));
	session->inconsistent = true;
	session->changes++;
}

/* Merges, and counts the change when there is one. */
static verdict_merge_result
raise_observed(verdict_session *session, const verdict_revision *revision)
{
	verdict_merge_result result;
	int shards = session->observed.shards;
	bool covered = verdict_revision_covers(&session->observed, revision);

	result = verdict_revision_merge(&session->observed, revision);
	/* What is covered can still add a shard, at position 0. */
	if (result == VERDICT_MERGE_OK && (!covered || session->observed.shards != shards))
		session->changes++;
	return result;
}

void
verdict_session_observe_answer(verdict_session *session, const char *header, int headers)
{
	bool well_formed;

	if (session->inconsistent)
		return;
	session->served.shards = 0;
	if (headers == 0)
		return;
	well_formed = headers == 1 && header != NULL &&
				  verdict_revision_parse(header, strlen(header), &session->served);
	if (!well_formed || raise_observed(session, &session->served) != VERDICT_MERGE_OK)
		reject_scope(session);
}

bool
verdict_session_observe(verdict_session *session, const char *text, verdict_status *status)
{
	verdict_revision revision;

	if (text == NULL || !verdict_revision_parse(text, strlen(text), &revision))
		return verdict_status_fail(status, VERDICT_INVALID_ARGUMENT, VERDICT_CAUSE_ARGUMENT,
								   "malformed revision");
	if (session->inconsistent)
		return verdict_status_fail(
			status, VERDICT_FAILED_PRECONDITION, VERDICT_CAUSE_SESSION,
			"the session has seen inconsistent revisions; start a new session");

	switch (raise_observed(session, &revision))
	{
		case VERDICT_MERGE_OK:
			return true;
		case VERDICT_MERGE_OTHER_HISTORY:
			return verdict_status_fail(
				status, VERDICT_FAILED_PRECONDITION, VERDICT_CAUSE_ARGUMENT,
				"the revision is of another history than the one the session has observed");
		case VERDICT_MERGE_TOO_LARGE:
			break;
	}
	return verdict_status_fail(
		status, VERDICT_FAILED_PRECONDITION, VERDICT_CAUSE_ARGUMENT,
		"the revision and the one the session has observed together pass %d shards or %d bytes",
		VERDICT_REVISION_MAX_SHARDS, VERDICT_REVISION_MAX_TEXT);
}

bool
verdict_session_read_headers(const verdict_session *session, verdict_consistency *consistency,
							 char *revision, verdict_status *status)
{
	revision[0] = '\0';
	if (*consistency == VERDICT_CONSISTENCY_DEFAULT)
		*consistency = session->consistency;

	switch (*consistency)
	{
		case VERDICT_CONSISTENCY_EVENTUAL:
			return true;
		case VERDICT_CONSISTENCY_SESSION:
		case VERDICT_CONSISTENCY_AUTHORITATIVE:
			if (session->inconsistent)
				return verdict_status_fail(status, VERDICT_FAILED_PRECONDITION,
										   VERDICT_CAUSE_SESSION,
										   "the session has seen inconsistent revisions; start a "
										   "new session, or read with consistency eventual");
			verdict_revision_print(&session->observed, revision);
			return true;
		case VERDICT_CONSISTENCY_DEFAULT:
			break;
	}
	return verdict_status_fail(status, VERDICT_INVALID_ARGUMENT, VERDICT_CAUSE_ARGUMENT,
							   "unknown consistency %d", (int) *consistency);
}

const char *
verdict_consistency_name(verdict_consistency consistency)
{
	switch (consistency)
	{
		case VERDICT_CONSISTENCY_SESSION:
			return "session";
		case VERDICT_CONSISTENCY_EVENTUAL:
			return "eventual";
		case VERDICT_CONSISTENCY_AUTHORITATIVE:
			return "authoritative";
		case VERDICT_CONSISTENCY_DEFAULT:
			break;
	}
	return "default";
}

bool
verdict_consistency_parse(const char *text, verdict_consistency *consistency)
{
	static const verdict_consistency all[] = {VERDICT_CONSISTENCY_SESSION,
											  VERDICT_CONSISTENCY_EVENTUAL,
											  VERDICT_CONSISTENCY_AUTHORITATIVE};
	size_t i;

	for (i = 0; text != NULL && i < sizeof(all) / sizeof(all[0]); i++)
	{
		if (strcmp(text, verdict_consistency_name(all[i])) == 0)
		{
			*consistency = all[i];
			return true;
		}
	}
	return false;
}

bool
verdict_uuid(const verdict_host *host, char *text)
{
	static const char digits[] = "0123456789abcdef";
	unsigned char bytes[16];
	char *next = text;
	size_t i;

	text[0] = '\0';
	if (!host->random_bytes(host->context, bytes, sizeof(bytes)))
		return false;
	/* Version and variant, RFC 9562 section 5.4. */
	bytes[6] = (unsigned char) ((bytes[6] & 0x0f) | 0x40);
	bytes[8] = (unsigned char) ((bytes[8] & 0x3f) | 0x80);
	for (i = 0; i < sizeof(bytes); i++)
	{
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*next++ = '-';
		*next++ = digits[bytes[i] >> 4];
		*next++ = digits[bytes[i] & 0x0f];
	}
	*next = '\0';
	return true;
}
