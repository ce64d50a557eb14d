/*
 * change.c
 *		The one way that changes of facts and policy go.
 *
 * Everything that can raise comes before the send; after it there is only the
 * answer to be reported.  So a change that was sent is always counted, and what
 * the count knows is what the warning at a rollback says.
 */
#include "change.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "error.h"
#include "fact.h"
#include "memory.h"
#include "miscadmin.h"
#include "read.h"
#include "server.h"
#include "transaction.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

PG_FUNCTION_INFO_V1(verdict_sql_insert_fact);
PG_FUNCTION_INFO_V1(verdict_sql_insert_fact_of);
PG_FUNCTION_INFO_V1(verdict_sql_delete_fact);
PG_FUNCTION_INFO_V1(verdict_sql_delete_fact_of);
PG_FUNCTION_INFO_V1(verdict_sql_batch_facts);
PG_FUNCTION_INFO_V1(verdict_sql_set_policy);

/* What a change needs before its payload is known. */
typedef struct change_call
{
	verdict_client *client;
	verdict_session *session;
	verdict_key_parts parts;
	verdict_buffer payload;
	verdict_status status;
} change_call;

/* Never the same in two processes, whatever else they have in common. */
static uint64
process_number(void)
{
	static bool known = false;
	static uint64 number;

	if (!known && !pg_strong_random(&number, sizeof(number)))
		ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not make a random number")));
	known = true;
	return number;
}

static void
begin_change(change_call *call)
{
	/* In this order, so that a standby is told of its recovery. */
	PreventCommandDuringRecovery("a change of Verdict");
	PreventCommandIfReadOnly("a change of Verdict");
	PreventCommandIfParallelMode("a change of Verdict");

	call->client = verdict_server_use(verdict_server_name(), GetUserId())->client;
	call->session = verdict_transaction_session();
	call->parts.system_identifier = GetSystemIdentifier();
	call->parts.timeline = verdict_current_timeline();
	call->parts.database = MyDatabaseId;
	call->parts.process = process_number();
	call->parts.transaction = U64FromFullTransactionId(GetTopFullTransactionId());
	call->parts.ordinal = verdict_transaction_next_ordinal();
	verdict_buffer_init(&call->payload, verdict_context_host(), VERDICT_CONTEXT_MAXIMUM);
	verdict_status_init(&call->status);
}

/* "encoded" is what the encoder returned; "count" is how many changes it is. */
static uint32
send_change(change_call *call, verdict_method method, bool encoded, size_t count,
			const char *action)
{
	char key[VERDICT_KEY_MAX + 1];
	uint32 changed = 0;

	call->parts.method = verdict_method_name(method);
	call->parts.payload = call->payload.bytes;
	call->parts.payload_size = call->payload.size;
	if (!encoded || !verdict_key_derive(&call->parts, key, &call->status) ||
		!verdict_client_mutate(call->client, call->session, method, call->payload.bytes,
							   call->payload.size, key, 0, &changed, &call->status))
		verdict_report_change_failure(&call->status, action);
	verdict_transaction_changes_sent(count);
	verdict_buffer_free(&call->payload);
	return changed;
}

/* Says it in SQL's terms, before anything depends on the server. */
static void
require_ground(const verdict_fact *fact)
{
	if (!verdict_fact_is_ground(fact))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("a pattern cannot be inserted or deleted"),
						errdetail("An argument of \"%s\" is a variable, a wildcard or NULL.",
								  fact->predicate)));
}

uint32
verdict_change_facts(const verdict_change *changes, size_t count)
{
	change_call call;
	bool encoded;
	verdict_method method;
	const char *action;

	if (count == 0)
		return 0;
	for (size_t i = 0; i < count; i++)
		require_ground(&changes[i].fact);

	begin_change(&call);
	if (count == 1)
	{
		method = changes->insert ? VERDICT_METHOD_INSERT_FACT : VERDICT_METHOD_DELETE_FACT;
		action = changes->insert ? "insert the fact" : "delete the fact";
		encoded =
			verdict_encode_fact(&call.payload, VERDICT_WIRE_BINARY, &changes->fact, &call.status);
	}
	else
	{
		method = VERDICT_METHOD_BATCH_FACTS;
		action = "change the facts";
		encoded =
			verdict_encode_batch(&call.payload, VERDICT_WIRE_BINARY, changes, count, &call.status);
	}
	return send_change(&call, method, encoded, count, action);
}

void
verdict_change_policy(const char *policy)
{
	change_call call;
	bool encoded;

	begin_change(&call);
	encoded = verdict_encode_set_policy(&call.payload, VERDICT_WIRE_BINARY, policy, &call.status);
	send_change(&call, VERDICT_METHOD_SET_POLICY, encoded, 1, "set the policy");
}

static Datum
change_one(const verdict_fact *fact, bool insert)
{
	verdict_change change = {.insert = insert, .fact = *fact};

	return BoolGetDatum(verdict_change_facts(&change, 1) > 0);
}

static Datum
change_argument(FunctionCallInfo fcinfo, bool insert)
{
	verdict_require_argument(fcinfo, 0, "fact");
	return change_one(verdict_fact_from_datum(PG_GETARG_DATUM(0)), insert);
}

static Datum
change_arguments(FunctionCallInfo fcinfo, bool insert)
{
	verdict_require_argument(fcinfo, 0, "predicate");
	return change_one(verdict_fact_from_arguments(fcinfo, text_to_cstring(PG_GETARG_TEXT_PP(0)), 1),
					  insert);
}

Datum
verdict_sql_insert_fact(PG_FUNCTION_ARGS)
{
	return change_argument(fcinfo, true);
}

Datum
verdict_sql_insert_fact_of(PG_FUNCTION_ARGS)
{
	return change_arguments(fcinfo, true);
}

Datum
verdict_sql_delete_fact(PG_FUNCTION_ARGS)
{
	return change_argument(fcinfo, false);
}

Datum
verdict_sql_delete_fact_of(PG_FUNCTION_ARGS)
{
	return change_arguments(fcinfo, false);
}

/* Writes the facts of an array to "changes". */
static void
take_facts(const Datum *facts, const bool *nulls, int count, bool insert, const char *name,
		   verdict_change *changes)
{
	for (int i = 0; i < count; i++)
	{
		if (nulls[i])
			ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
							errmsg("element %d of argument \"%s\" must not be null", i + 1, name)));
		changes[i].insert = insert;
		changes[i].fact = *verdict_fact_from_datum(facts[i]);
	}
}

Datum
verdict_sql_batch_facts(PG_FUNCTION_ARGS)
{
	static const char *const names[] = {"inserts", "deletes"};
	Datum *facts[2];
	bool *nulls[2];
	int counts[2];
	size_t count;
	verdict_change *changes;

	for (int i = 0; i < 2; i++)
	{
		ArrayType *array;

		verdict_require_argument(fcinfo, i, names[i]);
		array = PG_GETARG_ARRAYTYPE_P(i);
		deconstruct_array(array, ARR_ELEMTYPE(array), -1, false, TYPALIGN_INT, &facts[i], &nulls[i],
						  &counts[i]);
	}

	count = (size_t) counts[0] + (size_t) counts[1];
	changes = palloc_extended(Max(count, 1) * sizeof(verdict_change), MCXT_ALLOC_HUGE);
	take_facts(facts[0], nulls[0], counts[0], true, names[0], changes);
	take_facts(facts[1], nulls[1], counts[1], false, names[1], changes + counts[0]);
	PG_RETURN_INT64((int64) verdict_change_facts(changes, count));
}

Datum
verdict_sql_set_policy(PG_FUNCTION_ARGS)
{
	verdict_require_argument(fcinfo, 0, "policy");
	verdict_change_policy(verdict_text_argument(fcinfo, 0));
	PG_RETURN_VOID();
}
