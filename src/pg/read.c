/*
 * read.c
 *		The policy, and what all functions that read share.
 *
 * An answer is what the core returned with success, or an error is raised.  The
 * one exception is verdict.on_failure = deny, which turns the failure of a check
 * into false (decision_ask.c); nothing turns it into true.
 *
 * No function is strict: NULL where it means nothing is an error and not a NULL
 * that a policy could take for something else.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "change.h"
#include "error.h"
#include "identity.h"
#include "memory.h"
#include "read.h"
#include "scope.h"
#include "server.h"
#include "transaction.h"

PG_FUNCTION_INFO_V1(verdict_sql_get_policy);

void
verdict_require_argument(FunctionCallInfo fcinfo, int number, const char *name)
{
	if (PG_ARGISNULL(number))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
						errmsg("argument \"%s\" must not be null", name)));
}

char *
verdict_text_argument(FunctionCallInfo fcinfo, int number)
{
	struct varlena *text = PG_GETARG_VARLENA_PP(number);

	return verdict_to_utf8(VARDATA_ANY(text), VARSIZE_ANY_EXHDR(text));
}

char *
verdict_action_argument(FunctionCallInfo fcinfo, int number)
{
	char *action = verdict_text_argument(fcinfo, number);

	if (action[0] == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("action must not be empty")));
	return action;
}

verdict_consistency
verdict_consistency_of(struct varlena *name)
{
	verdict_consistency consistency;
	char word[16]; /* longer than any of the three */
	size_t size = VARSIZE_ANY_EXHDR(name);

	/* Without an allocation, as it is read once a row. */
	memcpy(word, VARDATA_ANY(name), Min(size, sizeof(word) - 1));
	word[Min(size, sizeof(word) - 1)] = '\0';
	if (strlen(word) != size || !verdict_consistency_parse(word, &consistency))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unrecognized consistency: \"%s\"", text_to_cstring((text *) name)),
				 errhint("Valid values are \"session\", \"eventual\" and \"authoritative\".")));
	return consistency;
}

verdict_consistency
verdict_consistency_argument(FunctionCallInfo fcinfo, int number)
{
	return PG_ARGISNULL(number) ? VERDICT_CONSISTENCY_DEFAULT
								: verdict_consistency_of(PG_GETARG_VARLENA_PP(number));
}

void
verdict_read_start(FunctionCallInfo fcinfo, int consistency_argument, verdict_read *read)
{
	verdict_read_begin(verdict_consistency_argument(fcinfo, consistency_argument), read);
}

void
verdict_read_begin(verdict_consistency consistency, verdict_read *read)
{
	verdict_transaction_server *server;
	const verdict_server *used;

	read->options.consistency = consistency;
	read->options.deadline_ms = 0;
	server = verdict_transaction_current();
	read->session = verdict_transaction_session_with(server);
	if (consistency == VERDICT_CONSISTENCY_DEFAULT)
		consistency = read->session->consistency;
	/* An eventual read asks for nothing, not even for what this transaction did. */
	if (consistency != VERDICT_CONSISTENCY_EVENTUAL)
		verdict_change_flush(server);
	used = verdict_server_use(server->name, GetUserId());
	read->client = used->client;
	read->scope = NULL;
	if (consistency != VERDICT_CONSISTENCY_EVENTUAL)
		verdict_scope_begin(server, used, read);
}

verdict_rows *
verdict_read_query(verdict_read *read, const verdict_fact *pattern, verdict_status *status)
{
	verdict_rows *rows;
	bool answered;

	answered = verdict_client_query(read->client, read->session, pattern, 0, &read->options, &rows,
									status);
	verdict_scope_end(read, status);
	if (!answered)
		verdict_report_failure(status, "query");
	verdict_hold_rows(rows);
	if (verdict_rows_truncated(rows))
	{
		verdict_release_rows(rows);
		ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
						errmsg("the answer has more rows than the instance gives at once"),
						errhint("Ask with a narrower pattern.")));
	}
	return rows;
}

void
verdict_check_binding(const verdict_variable *variable, const verdict_value *value)
{
	if (variable->type[0] == '\0' || value->kind == VERDICT_VALUE_ANY)
		return;
	if (value->kind != VERDICT_VALUE_IDENTITY ||
		strcmp(value->as.identity.type, variable->type) != 0)
		ereport(ERROR, (errcode(ERRCODE_PROTOCOL_VIOLATION),
						errmsg("the instance answered for variable \"%s\" with a value that is no "
							   "identity of type \"%s\"",
							   variable->name, variable->type)));
}

Tuplestorestate *
verdict_begin_set(FunctionCallInfo fcinfo, TupleDesc descriptor)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	MemoryContext caller;

	if (result == NULL || !IsA(result, ReturnSetInfo) ||
		(result->allowedModes & SFRM_Materialize) == 0)
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("set-valued function called in context that cannot accept a set")));

	caller = MemoryContextSwitchTo(result->econtext->ecxt_per_query_memory);
	result->returnMode = SFRM_Materialize;
	result->setResult = tuplestore_begin_heap((result->allowedModes & SFRM_Materialize_Random) != 0,
											  false, work_mem);
	result->setDesc = CreateTupleDescCopy(descriptor);
	MemoryContextSwitchTo(caller);
	return result->setResult;
}

Datum
verdict_sql_get_policy(PG_FUNCTION_ARGS)
{
	verdict_read read;
	verdict_arena arena;
	verdict_status status;
	const char *policy;
	bool answered;

	verdict_read_start(fcinfo, 0, &read);
	verdict_arena_init(&arena, verdict_context_host(), VERDICT_CONTEXT_MAXIMUM);
	answered = verdict_client_get_policy(read.client, read.session, &read.options, &arena, &policy,
										 &status);
	verdict_scope_end(&read, &status);
	if (!answered)
		verdict_report_failure(&status, "get the policy");
	PG_RETURN_TEXT_P(cstring_to_text(verdict_from_utf8(policy)));
}
