/*
 * reconcile_query.c
 *		The query that says which facts should be.
 *
 * Rows go straight from the executor into the sort of the caller, one at a time.
 * What would make the set of facts another one than the query's author meant is an
 * error: NULL, a type that no fact can hold, rows that row-level security hides.
 */
#include "reconcile.h"

#include "error.h"
#include "executor/spi.h"
#include "fact.h"
#include "identity.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "tcop/cmdtag.h"
#include "tcop/dest.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/plancache.h"
#include "utils/snapmgr.h"

struct verdict_reconcile_query
{
	DestReceiver receiver; /* first: the executor has a pointer to it */
	verdict_reconcile *call;
	SPIPlanPtr plan;
	MemoryContext row_context; /* reset after each row */
	verdict_fact fact;		   /* of the row at hand */
	verdict_argument_type types[FLEXIBLE_ARRAY_MEMBER];
};

static void
start_rows(DestReceiver *self, int operation, TupleDesc descriptor)
{
	(void) self;
	(void) operation;
	(void) descriptor;
}

static bool
receive_row(TupleTableSlot *slot, DestReceiver *self)
{
	verdict_reconcile_query *query = (verdict_reconcile_query *) self;
	verdict_reconcile *call = query->call;
	MemoryContext caller = MemoryContextSwitchTo(query->row_context);

	slot_getallattrs(slot);
	for (int i = 0; i < call->arguments; i++)
	{
		if (slot->tts_isnull[i])
			ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
							errmsg("column \"%s\" of the query is null",
								   NameStr(TupleDescAttr(slot->tts_tupleDescriptor, i)->attname)),
							errdetail("A fact has a value for each of its arguments."),
							errhint("Leave such rows out with a condition IS NOT NULL.")));
		verdict_term_from_datum(&query->fact.args[i], &query->types[i], slot->tts_values[i]);
	}
	if (!verdict_fact_is_ground(&query->fact))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("a column of the query is a variable of a pattern"),
						errdetail("A fact has a value for each of its arguments.")));
	tuplesort_putdatum(call->asked, verdict_fact_to_datum(&query->fact), false);
	MemoryContextSwitchTo(caller);
	MemoryContextReset(query->row_context);

	call->progress.rows++;
	verdict_reconcile_tell(call);
	return true;
}

static void
end_rows(DestReceiver *self)
{
	(void) self;
}

/* The one statement of the query, or an error. */
static CachedPlanSource *
require_select(SPIPlanPtr plan)
{
	List *sources = SPI_plan_get_plan_sources(plan);
	CachedPlanSource *source;
	Query *query;

	if (list_length(sources) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the query must be one statement, and has %d", list_length(sources))));
	source = linitial(sources);
	if (source->commandTag != CMDTAG_SELECT || source->resultDesc == NULL)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("the query must be a SELECT, and is %s",
							   GetCommandTagName(source->commandTag))));
	/* It would be refused all the same, when the facts have been listed. */
	query = linitial_node(Query, source->query_list);
	if (query->hasModifyingCTE || query->rowMarks != NIL)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("the query must not change or lock rows")));
	return source;
}

static void
require_columns(verdict_reconcile_query *query, TupleDesc columns)
{
	for (int i = 0; i < columns->natts; i++)
	{
		Form_pg_attribute column = TupleDescAttr(columns, i);

		if (!verdict_argument_type_init(&query->types[i], column->atttypid, CurrentMemoryContext))
			ereport(
				ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("column \"%s\" of the query has type %s, which cannot be an argument of a "
						"fact",
						NameStr(column->attname), format_type_be(column->atttypid)),
				 errdetail("Arguments are identities, text, integers and booleans."),
				 errhint("Make an identity of it with verdict_identity(type, id), or cast it to "
						 "text or bigint.")));
	}
}

verdict_reconcile_query *
verdict_reconcile_prepare(verdict_reconcile *call, const char *text)
{
	SPIPlanPtr plan = SPI_prepare_cursor(text, 0, NULL, CURSOR_OPT_PARALLEL_OK);
	verdict_reconcile_query *query;
	TupleDesc columns;

	if (plan == NULL)
		elog(ERROR, "SPI_prepare failed: %s", SPI_result_code_string(SPI_result));
	columns = require_select(plan)->resultDesc;
	if (columns->natts > VERDICT_MAX_ARGUMENTS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a fact cannot have more than %d arguments", VERDICT_MAX_ARGUMENTS)));

	query = palloc0(offsetof(verdict_reconcile_query, types) +
					columns->natts * sizeof(verdict_argument_type));
	query->receiver.receiveSlot = receive_row;
	query->receiver.rStartup = start_rows;
	query->receiver.rShutdown = end_rows;
	query->receiver.rDestroy = end_rows;
	query->receiver.mydest = DestNone;
	query->call = call;
	query->plan = plan;
	query->row_context = AllocSetContextCreate(CurrentMemoryContext, "verdict row of a query",
											   ALLOCSET_DEFAULT_SIZES);
	require_columns(query, columns);
	call->arguments = columns->natts;
	query->fact.predicate = call->predicate;
	query->fact.count = columns->natts;
	query->fact.args = palloc0(Max(columns->natts, 1) * sizeof(verdict_term));
	return query;
}

void
verdict_reconcile_run(verdict_reconcile_query *query)
{
	SPIExecuteOptions options = {0};
	int result;

	/*
	 * A snapshot of now, and not that of the statement: what the instance has been
	 * told meanwhile, the query can then see as well.
	 */
	PushActiveSnapshot(GetTransactionSnapshot());
	options.read_only = true;
	options.must_return_tuples = true;
	options.dest = &query->receiver;
	result = SPI_execute_plan_extended(query->plan, &options);
	if (result < 0)
		elog(ERROR, "SPI_execute_plan_extended failed: %s", SPI_result_code_string(result));
	PopActiveSnapshot();
}
