/*
 * error.c
 *		From a status to ereport, and text between the database's encoding and
 *		UTF-8.
 *
 * The SQLSTATE of a failure is decided here and nowhere else.  Text that comes
 * from the instance is shown, never interpreted: it is no format, it is not
 * translated, and what the database's encoding lacks becomes a question mark,
 * so that an error can always be reported.
 */
#include "error.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "wait.h"

/*
 * Connect code to SQLSTATE.  Where this client itself decided (a deadline, a
 * cap, a broken answer) the cause says more than the code, see
 * verdict_status_sqlstate().
 */
static const int code_sqlstates[] = {
	[VERDICT_OK] = ERRCODE_INTERNAL_ERROR,
	[VERDICT_CANCELED] = ERRCODE_OPERATOR_INTERVENTION,
	[VERDICT_UNKNOWN] = ERRCODE_FDW_ERROR,
	[VERDICT_INVALID_ARGUMENT] = ERRCODE_INVALID_PARAMETER_VALUE,
	[VERDICT_DEADLINE_EXCEEDED] = ERRCODE_CONNECTION_EXCEPTION,
	[VERDICT_NOT_FOUND] = ERRCODE_UNDEFINED_OBJECT,
	[VERDICT_ALREADY_EXISTS] = ERRCODE_DUPLICATE_OBJECT,
	[VERDICT_PERMISSION_DENIED] = ERRCODE_INSUFFICIENT_PRIVILEGE,
	[VERDICT_RESOURCE_EXHAUSTED] = ERRCODE_INSUFFICIENT_RESOURCES,
	[VERDICT_FAILED_PRECONDITION] = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
	[VERDICT_ABORTED] = ERRCODE_T_R_SERIALIZATION_FAILURE,
	[VERDICT_OUT_OF_RANGE] = ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
	[VERDICT_UNIMPLEMENTED] = ERRCODE_FEATURE_NOT_SUPPORTED,
	[VERDICT_INTERNAL] = ERRCODE_SYSTEM_ERROR,
	[VERDICT_UNAVAILABLE] = ERRCODE_CONNECTION_FAILURE,
	[VERDICT_DATA_LOSS] = ERRCODE_DATA_CORRUPTED,
	[VERDICT_UNAUTHENTICATED] = ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION};

int
verdict_status_sqlstate(const verdict_status *status)
{
	switch (status->cause)
	{
		case VERDICT_CAUSE_INTERRUPTED:
			return ERRCODE_QUERY_CANCELED;
		case VERDICT_CAUSE_TOO_LARGE:
		case VERDICT_CAUSE_TRUNCATED:
		case VERDICT_CAUSE_LIMIT:
			return ERRCODE_PROGRAM_LIMIT_EXCEEDED;
		case VERDICT_CAUSE_ANSWER:
			return ERRCODE_PROTOCOL_VIOLATION;
		case VERDICT_CAUSE_MEMORY:
			return ERRCODE_OUT_OF_MEMORY;
		case VERDICT_CAUSE_ARGUMENT:
			/* A revision of another history is refused for the session's state. */
			if (status->code == VERDICT_FAILED_PRECONDITION)
				break;
			return ERRCODE_INVALID_PARAMETER_VALUE;
		default:
			break;
	}
	if ((size_t) status->code < lengthof(code_sqlstates))
		return code_sqlstates[status->code];
	return ERRCODE_INTERNAL_ERROR;
}

/* The next step of whoever reads the error, or NULL when the message says it. */
static const char *
status_hint(const verdict_status *status, bool change)
{
	switch (status->cause)
	{
		case VERDICT_CAUSE_RESOLVE:
		case VERDICT_CAUSE_CONNECT:
			return "Check option \"instance_url\" of the foreign server, and that the instance "
				   "runs there.";
		case VERDICT_CAUSE_TLS:
			return "Option \"ssl_ca_file\" of the foreign server names the file with the "
				   "certificate authority that has signed the instance's certificate; the host of "
				   "\"instance_url\" must be the one that the certificate names.";
		case VERDICT_CAUSE_LOST:
			if (change && status->outcome == VERDICT_OUTCOME_MAYBE_APPLIED)
				return "The change may have been applied: look before making it again.";
			return NULL;
		case VERDICT_CAUSE_DEADLINE:
			return "The limits are the options \"read_timeout_ms\", "
				   "\"mutation_attempt_timeout_ms\" and \"mutation_overall_timeout_ms\" of the "
				   "foreign server.";
		case VERDICT_CAUSE_TOO_LARGE:
			return "Ask for less, or raise option \"max_response_bytes\" of the foreign server.";
		case VERDICT_CAUSE_TRUNCATED:
			return "Ask a narrower question, so that the answer stays below the instance's cap.";
		case VERDICT_CAUSE_LIMIT:
			return change
					   ? "Make many changes by verdict_batch_facts(), or with "
						 "verdict.mutation_mode deferred or outbox, which send them together; or "
						 "raise verdict.statement_call_limit."
					   : "Ask for all at once, by verdict_list_resources() or verdict_query(), "
						 "which take one call, as verdict.prefetch does for many checks; or raise "
						 "verdict.statement_call_limit.";
		case VERDICT_CAUSE_SESSION:
			return "Start a fresh session with verdict_new_session(), or read with consistency "
				   "\"eventual\".";
		case VERDICT_CAUSE_HTTP:
		case VERDICT_CAUSE_REMOTE:
			break;
		default:
			return NULL;
	}

	switch (status->code)
	{
		case VERDICT_UNAUTHENTICATED:
			return "Check option \"api_key\" of the user mapping.";
		case VERDICT_FAILED_PRECONDITION:
			return "If the instance's history has changed since this transaction's session began "
				   "(a failover, a restored backup), start a fresh session with "
				   "verdict_new_session().";
		case VERDICT_ABORTED:
			return !change ? NULL
						   : "The same change is still running at the instance: try the "
							 "transaction again.";
		case VERDICT_UNIMPLEMENTED:
		case VERDICT_UNKNOWN:
			if (status->inferred)
				return "Check option \"instance_url\" of the foreign server: what answers there "
					   "may not be a Verdict instance.";
			return NULL;
		default:
			return NULL;
	}
}

/* The core has made sure that the text is UTF-8 without control characters. */
char *
verdict_from_utf8_lossy(const char *text)
{
	int encoding = GetDatabaseEncoding();
	int size = (int) strlen(text);
	Oid conversion = InvalidOid;
	char *result;
	char *next;
	int done;

	if (encoding == PG_UTF8 || encoding == PG_SQL_ASCII)
		return pnstrdup(text, size);
	if (IsTransactionState())
		conversion = FindDefaultConversionProc(PG_UTF8, encoding);

	result = palloc((Size) size * MAX_CONVERSION_GROWTH + 1);
	next = result;
	for (done = 0; done < size;)
	{
		int width = Min(pg_utf_mblen((const unsigned char *) text + done), size - done);
		unsigned char converted[MAX_CONVERSION_GROWTH * 4 + 1];

		if (!IS_HIGHBIT_SET(text[done]))
			*next++ = text[done];
		else if (OidIsValid(conversion) &&
				 pg_do_encoding_conversion_buf(conversion, PG_UTF8, encoding,
											   (unsigned char *) unconstify(char *, text) + done,
											   width, converted, sizeof(converted), true) == width)
		{
			int length = (int) strlen((char *) converted);

			memcpy(next, converted, length);
			next += length;
		}
		else
			*next++ = '?';
		done += width;
	}
	*next = '\0';
	return result;
}

static char *
status_detail(const verdict_status *status, bool change)
{
	StringInfoData detail;

	initStringInfo(&detail);
	appendStringInfo(&detail, "Connect code %s", verdict_code_name(status->code));
	if (status->inferred)
		appendStringInfo(&detail, " (inferred from HTTP status %d)", status->http_status);
	else if (status->http_status != 0)
		appendStringInfo(&detail, " (HTTP status %d)", status->http_status);
	if (status->attempts > 0)
	{
		appendStringInfo(&detail, status->attempts == 1 ? ", %d attempt" : ", %d attempts",
						 status->attempts);
		appendStringInfo(&detail, status->sends == 1 ? ", %d request sent" : ", %d requests sent",
						 status->sends);
	}
	if (change)
		appendStringInfo(&detail, ", outcome %s", verdict_outcome_name(status->outcome));
	if (status->retry_after_ms >= 0)
		appendStringInfo(&detail, ", the instance asks to wait %lld ms",
						 (long long) status->retry_after_ms);
	if (status->request_id[0] != '\0')
		appendStringInfo(&detail, ", request id %s", status->request_id);
	appendStringInfoChar(&detail, '.');
	return detail.data;
}

static void
report(int elevel, const verdict_status *status, const char *action, bool change)
{
	const char *hint = status_hint(status, change);
	bool called = status->request_id[0] != '\0';
	const char *detail = NULL;

	/* A deadline may be that of statement_timeout: then this has its own words. */
	if (status->cause == VERDICT_CAUSE_DEADLINE)
		CHECK_FOR_INTERRUPTS();
	if (called)
		detail = status_detail(status, change);
	else if (status->cause == VERDICT_CAUSE_LIMIT)
		detail = psprintf("The statement may make %d (verdict.statement_call_limit).",
						  verdict_setting_statement_call_limit);
	ereport(elevel,
			(errcode(verdict_status_sqlstate(status)),
			 errmsg_internal("could not %s: %s", action, verdict_from_utf8_lossy(status->message)),
			 detail != NULL ? errdetail_internal("%s", detail) : 0,
			 hint != NULL ? errhint("%s", hint) : 0));
}

void
verdict_report_failure(const verdict_status *status, const char *action)
{
	if (status->cause == VERDICT_CAUSE_INTERRUPTED)
		verdict_wait_raise_interrupt();
	report(ERROR, status, action, false);
	pg_unreachable();
}

/* What an interrupt's own error does not say. */
static void
interrupted_change(void *argument)
{
	const verdict_status *status = argument;

	errcontext("change of Verdict, outcome %s, request id %s",
			   verdict_outcome_name(status->outcome), status->request_id);
}

void
verdict_report_change_failure(const verdict_status *status, const char *action)
{
	if (status->cause == VERDICT_CAUSE_INTERRUPTED)
	{
		ErrorContextCallback context;

		context.callback = interrupted_change;
		context.arg = unconstify(verdict_status *, status);
		context.previous = error_context_stack;
		error_context_stack = &context;
		verdict_wait_raise_interrupt();
	}
	report(ERROR, status, action, true);
	pg_unreachable();
}

void
verdict_warn_failure(const verdict_status *status, const char *action)
{
	if (status->cause == VERDICT_CAUSE_INTERRUPTED)
		verdict_wait_raise_interrupt();
	report(WARNING, status, action, false);
}

void
verdict_report_bad_text(const verdict_status *status, int sqlstate, const char *type)
{
	if (status->cause == VERDICT_CAUSE_MEMORY)
		sqlstate = ERRCODE_OUT_OF_MEMORY;
	ereport(ERROR, (errcode(sqlstate), errmsg("invalid %s", type),
					errdetail_internal("%s", verdict_from_utf8_lossy(status->message))));
}

/* The conversion functions return their argument when there is nothing to do. */
static char *
own_copy(const char *text, int size, char *converted)
{
	return converted == text ? pnstrdup(text, size) : converted;
}

char *
verdict_to_utf8(const char *text, int size)
{
	return own_copy(text, size, pg_server_to_any(text, size, PG_UTF8));
}

char *
verdict_from_utf8(const char *text)
{
	int size = (int) strlen(text);

	return own_copy(text, size, pg_any_to_server(text, size, PG_UTF8));
}

char *
verdict_from_utf8_exact(const char *text)
{
	int encoding = GetDatabaseEncoding();
	int size = (int) strlen(text);
	Oid conversion;
	Size room = (Size) size * MAX_CONVERSION_GROWTH + 1;
	char *result;

	if (encoding == PG_UTF8 || encoding == PG_SQL_ASCII)
		return verdict_from_utf8(text);
	conversion = FindDefaultConversionProc(PG_UTF8, encoding);
	if (!OidIsValid(conversion) || room > MaxAllocSize)
		return verdict_from_utf8(text);
	result = palloc(room);
	if (pg_do_encoding_conversion_buf(conversion, PG_UTF8, encoding,
									  (unsigned char *) unconstify(char *, text), size,
									  (unsigned char *) result, (int) room, true) == size)
		return result;
	pfree(result);
	return NULL;
}
