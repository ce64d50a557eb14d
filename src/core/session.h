/*
 * session.h
 *		A scope of observed revisions: what one workflow has seen.
 *
 * The rules are those of the client's page on sessions: a successful answer
 * raises the observed revision; a failed one never touches it; a malformed
 * revision or one of another history empties it and marks the scope
 * inconsistent, for good.
 */
#ifndef VERDICT_SESSION_H
#define VERDICT_SESSION_H

#include "host.h"
#include "revision.h"
#include "status.h"

typedef enum verdict_consistency
{
	VERDICT_CONSISTENCY_DEFAULT, /* in a call: what the session says */
	VERDICT_CONSISTENCY_SESSION,
	VERDICT_CONSISTENCY_EVENTUAL,
	VERDICT_CONSISTENCY_AUTHORITATIVE
} verdict_consistency;

#define VERDICT_SESSION_ID_MAX 128

typedef struct verdict_session
{
	char id[VERDICT_SESSION_ID_MAX + 1];
	verdict_consistency consistency; /* never DEFAULT */
	bool inconsistent;
	verdict_revision observed; /* shards == 0: nothing observed */
	verdict_revision served;   /* of the latest successful answer; shards == 0: it had none */
	uint64_t changes;		   /* grows whenever observed or inconsistent changes */
} verdict_session;

/*
 * Starts a scope without an observed revision.  A NULL id makes a fresh UUID;
 * consistency DEFAULT is session.  VERDICT_INVALID_ARGUMENT when the id is not 1
 * to 128 visible ASCII characters; VERDICT_INTERNAL when the host has no random
 * bytes; *session is then unchanged.
 */
extern bool verdict_session_init(verdict_session *session, const verdict_host *host, const char *id,
								 verdict_consistency consistency, verdict_status *status);

/*
 * Takes in what successful answers carried.  "header" is the value of the
 * response's Verdict-Revision header, "headers" how many such headers came (0:
 * nothing happens, NULL is allowed; more than 1: malformed).
 */
extern void
verdict_session_observe_answer(verdict_session *session, const char *header, int headers);

/*
 * Takes in a revision that the application hands over.  Other than an answer, a
 * wrong one is refused with VERDICT_INVALID_ARGUMENT (malformed) or
 * VERDICT_FAILED_PRECONDITION (another history, too large, or the scope is
 * inconsistent) and changes nothing.
 */
extern bool
verdict_session_observe(verdict_session *session, const char *text, verdict_status *status);

/*
 * What a read has to send.  Resolves DEFAULT, refuses session and authoritative
 * reads of an inconsistent scope with VERDICT_FAILED_PRECONDITION, and leaves
 * in "revision" (VERDICT_REVISION_MAX_TEXT + 1 bytes) the text of the
 * Verdict-Revision request header, "" for none.
 */
extern bool
verdict_session_read_headers(const verdict_session *session, verdict_consistency *consistency,
							 char *revision, verdict_status *status);

/* "session", "eventual" or "authoritative", as in the request header; "default"
 * for DEFAULT, which is never sent. */
extern const char *verdict_consistency_name(verdict_consistency consistency);
/* False when the text is none of these. */
extern bool verdict_consistency_parse(const char *text, verdict_consistency *consistency);

/* Writes a random (version 4) UUID and its terminator: 37 bytes; false, and "",
 * when the host has no random bytes. */
extern bool verdict_uuid(const verdict_host *host, char *text);

#endif /* VERDICT_SESSION_H */
