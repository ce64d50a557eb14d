/*
 * change_sql.c
 *		The SQL functions that change facts and the policy.
 *
 * Each returns NULL when the change is not sent yet: nobody knows what it will
 * have changed.
 */
#include "change.h"

#include "error.h"
#include "fact.h"
#include "miscadmin.h"
#include "read.h"
#include "utils/array.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(verdict_sql_insert_fact);
PG_FUNCTION_INFO_V1(verdict_sql_insert_fact_of);
PG_FUNCTION_INFO_V1(verdict_sql_delete_fact);
PG_FUNCTION_INFO_V1(verdict_sql_delete_fact_of);
PG_FUNCTION_INFO_V1(verdict_sql_batch_facts);
PG_FUNCTION_INFO_V1(verdict_sql_set_policy);

static Datum
change_one(FunctionCallInfo fcinfo, const verdict_fact *fact, bool insert)
{
	verdict_change change = {.insert = insert, .fact = *fact};
	uint32 changed;

	if (!verdict_change_facts(GetUserId(), &change, 1, &changed))
		PG_RETURN_NULL();
	PG_RETURN_BOOL(changed > 0);
}

static Datum
change_argument(FunctionCallInfo fcinfo, bool insert)
{
	verdict_require_argument(fcinfo, 0, "fact");
	return change_one(fcinfo, verdict_fact_from_datum(PG_GETARG_DATUM(0)), insert);
}

static Datum
change_arguments(FunctionCallInfo fcinfo, bool insert)
{
	verdict_require_argument(fcinfo, 0, "predicate");
	return change_one(fcinfo,
					  verdict_fact_from_arguments(fcinfo, text_to_cstring(PG_GETARG_TEXT_PP(0)), 1),
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
	uint32 changed;

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
	if (!verdict_change_facts(GetUserId(), changes, count, &changed))
		PG_RETURN_NULL();
	PG_RETURN_INT64((int64) changed);
}

Datum
verdict_sql_set_policy(PG_FUNCTION_ARGS)
{
	verdict_require_argument(fcinfo, 0, "policy");
	verdict_change_policy(verdict_text_argument(fcinfo, 0));
	PG_RETURN_VOID();
}
