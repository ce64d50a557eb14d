/*
 * read_ids.c
 *		verdict_resource_ids(): what an actor may use, as an array for "= ANY".
 *
 * An id stands in the array when it is the text of a value of the caller's type,
 * to the letter: Document:007 and Document:seven are the identity of no row with
 * an integer key, and are left out rather than taken for another row's.  So is an id
 * that the database's encoding lacks characters for.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "decision.h"
#include "error.h"
#include "identity.h"
#include "read.h"
#include "transaction.h"

PG_FUNCTION_INFO_V1(verdict_sql_resource_ids);

/* The ids so far; their memory is the current context's. */
typedef struct id_array
{
	Oid type;
	Datum *ids;
	size_t count;
	size_t room;
} id_array;

static void
require_id_type(Oid type)
{
	switch (type)
	{
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case UUIDOID:
		case TEXTOID:
			return;
		default:
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("ids of type %s are not supported here",
							OidIsValid(type) ? format_type_be(type) : "unknown"),
					 errhint("Ask for ids of type smallint, integer, bigint, uuid or text, such as "
							 "NULL::bigint.")));
	}
}

/* False when no value of the type has that text. */
static bool
id_to_datum(const char *text, Oid type, Datum *datum)
{
	verdict_id id;

	if (type == TEXTOID)
	{
		char *value = verdict_from_utf8_exact(text);

		if (value == NULL)
			return false;
		*datum = CStringGetTextDatum(value);
		pfree(value);
		return true;
	}
	verdict_id_of_text(text, strlen(text), &id);
	if (type == UUIDOID)
	{
		pg_uuid_t *uuid;

		if (id.kind != VERDICT_ID_UUID)
			return false;
		uuid = palloc(sizeof(*uuid));
		*uuid = id.as.uuid;
		*datum = UUIDPGetDatum(uuid);
		return true;
	}
	if (id.kind != VERDICT_ID_INTEGER)
		return false;
	if (type == INT8OID)
	{
		*datum = Int64GetDatum(id.as.integer);
		return true;
	}
	if (type == INT4OID)
	{
		*datum = Int32GetDatum((int32) id.as.integer);
		return id.as.integer >= PG_INT32_MIN && id.as.integer <= PG_INT32_MAX;
	}
	*datum = Int16GetDatum((int16) id.as.integer);
	return id.as.integer >= PG_INT16_MIN && id.as.integer <= PG_INT16_MAX;
}

static void
add_id(id_array *array, const char *text)
{
	Datum datum;

	if (!id_to_datum(text, array->type, &datum))
		return;
	if (array->count == array->room)
	{
		array->room *= 2;
		array->ids = repalloc_huge(array->ids, array->room * sizeof(Datum));
	}
	array->ids[array->count++] = datum;
}

Datum
verdict_sql_resource_ids(PG_FUNCTION_ARGS)
{
	verdict_term arguments[3] = {{.kind = VERDICT_TERM_VALUE},
								 {.kind = VERDICT_TERM_VALUE},
								 {.kind = VERDICT_TERM_VARIABLE}};
	verdict_fact pattern = {"allow", lengthof(arguments), arguments};
	verdict_variable *variable = &arguments[2].as.variable;
	verdict_question question;
	id_array array = {.room = 64};
	verdict_read read;
	verdict_status status;
	verdict_rows *rows;
	const verdict_value *value;
	size_t listed = 0;
	int16 length;
	bool by_value;
	char alignment;
	int more;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	verdict_require_argument(fcinfo, 1, "action");
	verdict_require_argument(fcinfo, 2, "resource_type");
	array.type = get_fn_expr_argtype(fcinfo->flinfo, 3);
	require_id_type(array.type);
	arguments[0].as.value.kind = VERDICT_VALUE_IDENTITY;
	arguments[0].as.value.as.identity = verdict_identity_from_datum(PG_GETARG_DATUM(0));
	arguments[1].as.value.kind = VERDICT_VALUE_STRING;
	arguments[1].as.value.as.string = verdict_action_argument(fcinfo, 1);
	variable->name = "resource";
	variable->type = verdict_text_argument(fcinfo, 2);
	verdict_require_identifier(variable->type, strlen(variable->type), "resource type");
	question = verdict_question_arguments(fcinfo);

	verdict_read_start(fcinfo, 4, &read);
	array.ids = palloc(array.room * sizeof(Datum));
	rows = verdict_read_query(&read, &pattern, &status);
	while ((more = verdict_rows_next(rows, &value, &status)) > 0)
	{
		if ((++listed & 1023) == 0)
			CHECK_FOR_INTERRUPTS();
		verdict_check_binding(variable, value);
		if (value->kind == VERDICT_VALUE_ANY)
			ereport(ERROR, (errcode(ERRCODE_CARDINALITY_VIOLATION),
							errmsg("the policy allows all resources, which no list can hold"),
							errhint("Check the rows at hand with verdict_authorize().")));
		add_id(&array, value->as.identity.id);
	}
	verdict_release_rows(rows);
	if (more < 0)
		verdict_report_failure(&status, "read the answer of the query");
	verdict_decisions_listed(&question, listed);

	if (array.count > INT_MAX)
		ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
						errmsg("the list has more ids than an array can hold")));
	get_typlenbyvalalign(array.type, &length, &by_value, &alignment);
	PG_RETURN_ARRAYTYPE_P(
		construct_array(array.ids, (int) array.count, array.type, length, by_value, alignment));
}
