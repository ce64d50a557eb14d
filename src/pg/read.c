/*
 * read.c
 *		Checks and the policy, and what all functions that read share.
 *
 * An answer is what the core returned with success, or an error is raised.  The
 * one exception is verdict.on_failure = deny, which turns the failure of a check
 * into false; nothing turns it into true.
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

PG_FUNCTION_INFO_V1(verdict_sql_authorize);
PG_FUNCTION_INFO_V1(verdict_sql_authorize_many);
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
verdict_consistency_argument(FunctionCallInfo fcinfo, int number)
{
	verdict_consistency consistency = VERDICT_CONSISTENCY_DEFAULT;

	if (!PG_ARGISNULL(number))
	{
		char *name = text_to_cstring(PG_GETARG_TEXT_PP(number));

		if (!verdict_consistency_parse(name, &consistency))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("unrecognized consistency: \"%s\"", name),
					 errhint("Valid values are \"session\", \"eventual\" and \"authoritative\".")));
	}
	return consistency;
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

/*
 * What to do about a check that got no answer: returns when the answer is to be
 * "no" by verdict.on_failure = deny, else raises.  That setting is for instances
 * and networks that fail.  An interrupt has to end the statement, and a wrong
 * argument or exhausted memory is nothing that a "no" would answer.
 */
static void
handle_failed_check(const verdict_status *status)
{
	static const char *const action = "check authorization";

	if (verdict_setting_on_failure != VERDICT_ON_FAILURE_DENY ||
		status->cause == VERDICT_CAUSE_INTERRUPTED || status->cause == VERDICT_CAUSE_ARGUMENT ||
		status->cause == VERDICT_CAUSE_MEMORY || status->cause == VERDICT_CAUSE_LIMIT)
		verdict_report_failure(status, action);
	verdict_warn_failure(status, action);
}

Datum
verdict_sql_authorize(PG_FUNCTION_ARGS)
{
	verdict_read read;
	verdict_check check;
	verdict_status status;
	bool allowed = false;
	bool answered;

	verdict_require_argument(fcinfo, 0, "actor");
	verdict_require_argument(fcinfo, 1, "action");
	verdict_require_argument(fcinfo, 2, "resource");
	check.actor = verdict_identity_from_datum(PG_GETARG_DATUM(0));
	check.action = verdict_action_argument(fcinfo, 1);
	check.resource = verdict_identity_from_datum(PG_GETARG_DATUM(2));
	verdict_read_start(fcinfo, 3, &read);

	answered = verdict_client_authorize(read.client, read.session, &check, &read.options, &allowed,
										&status);
	verdict_scope_end(&read, &status);
	if (!answered)
	{
		handle_failed_check(&status);
		allowed = false;
	}
	PG_RETURN_BOOL(allowed);
}

Datum
verdict_sql_authorize_many(PG_FUNCTION_ARGS)
{
	ArrayType *resources;
	Datum *elements;
	bool *nulls;
	int count;
	verdict_identity actor;
	char *action;
	verdict_check *checks;
	bool *allowed;
	Datum *answers;
	bool answered = true;
	verdict_read read;
	verdict_status status;

	verdict_require_argument(fcinfo, 0, "actor");
	verdict_require_argument(fcinfo, 1, "action");
	verdict_require_argument(fcinfo, 2, "resources");
	actor = verdict_identity_from_datum(PG_GETARG_DATUM(0));
	action = verdict_action_argument(fcinfo, 1);
	resources = PG_GETARG_ARRAYTYPE_P(2);
	if (ARR_NDIM(resources) > 1)
		ereport(ERROR, (errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
						errmsg("resources must be an array of one dimension")));
	deconstruct_array(resources, ARR_ELEMTYPE(resources), -1, false, TYPALIGN_INT, &elements,
					  &nulls, &count);
	checks = palloc_extended(Max(count, 1) * sizeof(verdict_check), MCXT_ALLOC_HUGE);
	for (int i = 0; i < count; i++)
	{
		if (nulls[i])
			ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
							errmsg("resource number %d must not be null", i + 1)));
		checks[i].actor = actor;
		checks[i].action = action;
		checks[i].resource = verdict_identity_from_datum(elements[i]);
	}
	allowed = palloc0(Max(count, 1) * sizeof(bool));
	verdict_read_start(fcinfo, 3, &read);

	if (count > 0)
	{
		answered = verdict_client_authorize_many(read.client, read.session, checks, count,
												 &read.options, allowed, &status);
		verdict_scope_end(&read, &status);
	}
	if (!answered)
	{
		handle_failed_check(&status);
		memset(allowed, 0, count * sizeof(bool));
	}

	answers = palloc_extended(Max(count, 1) * sizeof(Datum), MCXT_ALLOC_HUGE);
	for (int i = 0; i < count; i++)
		answers[i] = BoolGetDatum(allowed[i]);
	PG_RETURN_ARRAYTYPE_P(construct_array(answers, count, BOOLOID, 1, true, TYPALIGN_CHAR));
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
