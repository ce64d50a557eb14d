/*
 * error.h
 *		From a status to ereport: the one table of Connect codes and SQLSTATEs.
 */
#ifndef VERDICT_PG_ERROR_H
#define VERDICT_PG_ERROR_H

#include "verdict.h"

/*
 * The SQLSTATE of a status, as ereport() wants it.
 */
extern int verdict_status_sqlstate(const verdict_status *status);

/*
 * Raises the failure of a read: message in the database's encoding, DETAIL with
 * Connect code, HTTP status, attempts and request id, HINT with the next step.
 * "action" completes "could not ..." (such as "check authorization").
 * An interrupted call raises what interrupted it.
 */
extern void
verdict_report_failure(const verdict_status *status, const char *action) pg_attribute_noreturn();

/*
 * The same for a change: says what is known of its effect, in DETAIL, and in
 * CONTEXT of the error of an interrupt.
 */
extern void verdict_report_change_failure(const verdict_status *status, const char *action)
	pg_attribute_noreturn();

/* A read's failure as a WARNING, for verdict.on_failure = deny; returns. */
extern void verdict_warn_failure(const verdict_status *status, const char *action);

/*
 * Raises what the core refused of a user's text (an identity, a fact, a
 * setting): "sqlstate" with the status's message, "type" names the input.
 */
extern void verdict_report_bad_text(const verdict_status *status, int sqlstate, const char *type)
	pg_attribute_noreturn();

/*
 * Text of the database's encoding to UTF-8 and back, in the current memory
 * context, NUL-terminated.  In a SQL_ASCII database bytes that are not UTF-8 are
 * refused (22021); a character that the database's encoding lacks is 22P05.
 */
extern char *verdict_to_utf8(const char *text, int size);
extern char *verdict_from_utf8(const char *text);
/* NULL where the other raises 22P05. */
extern char *verdict_from_utf8_exact(const char *text);
/* The same for text of a status, whatever it holds: what the encoding lacks becomes
 * a question mark. */
extern char *verdict_from_utf8_lossy(const char *text);

#endif /* VERDICT_PG_ERROR_H */
