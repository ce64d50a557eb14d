/*
 * read_query.c
 *		verdict_query(): from the values of an answer to the columns that the
 *		caller's column definition list names and types.
 *
 * Columns stand for variables by position.  A value goes into a column whose
 * type can hold its kind, and into no other: a string is never read as a number,
 * nor an identity as anything but an identity or its text.
 */
#include "postgres.h"

#include "access/tupdesc.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/tuplestore.h"

#include "error.h"
#include "fact.h"
#include "identity.h"
#include "read.h"
#include "transaction.h"

PG_FUNCTION_INFO_V1(verdict_sql_query);

/* What kinds of values a column takes. */
typedef enum column_kind
{
	COLUMN_TEXT, /* every kind, as text */
	COLUMN_IDENTITY,
	COLUMN_INTEGER, /* int2, int4, int8, numeric */
	COLUMN_BOOLEAN,
	COLUMN_OTHER /* strings, by the type's input function */
} column_kind;

typedef struct query_column
{
	const char *name;
	Oid type;
	int32 typmod;
	column_kind kind;
	FmgrInfo input;
	Oid input_parameter;
} query_column;

/* For the error context while a value is converted. */
typedef struct conversion
{
	const query_column *columns;
	size_t current;
} conversion;

/* The variables of a pattern in order of first use; returns their number. */
static size_t
collect_variables(const verdict_fact *pattern, const verdict_variable **variables)
{
	size_t count = 0;

	for (size_t i = 0; i < pattern->count; i++)
	{
		const verdict_variable *variable = &pattern->args[i].as.variable;
		size_t j = 0;

		if (pattern->args[i].kind != VERDICT_TERM_VARIABLE)
			continue;
		while (j < count && strcmp(variables[j]->name, variable->name) != 0)
			j++;
		if (j == count)
			variables[count++] = variable;
	}
	return count;
}

static void
prepare_column(query_column *column, Form_pg_attribute attribute)
{
	Oid base = getBaseType(attribute->atttypid);
	Oid input;
	char category;
	bool preferred;

	column->name = NameStr(attribute->attname);
	column->type = attribute->atttypid;
	column->typmod = attribute->atttypmod;
	getTypeInputInfo(attribute->atttypid, &input, &column->input_parameter);
	fmgr_info(input, &column->input);

	get_type_category_preferred(base, &category, &preferred);
	if (base == BOOLOID)
		column->kind = COLUMN_BOOLEAN;
	else if (base == INT2OID || base == INT4OID || base == INT8OID || base == NUMERICOID)
		column->kind = COLUMN_INTEGER;
	else if (category == TYPCATEGORY_STRING)
		column->kind = COLUMN_TEXT;
	else
	{
		Oid output;
		bool is_varlena;
		FmgrInfo function;

		getTypeOutputInfo(base, &output, &is_varlena);
		fmgr_info(output, &function);
		column->kind =
			function.fn_addr == verdict_sql_identity_out ? COLUMN_IDENTITY : COLUMN_OTHER;
	}
}

/* Whether a column takes a kind of value; ANY is NULL and fits everywhere. */
static bool
column_takes(column_kind column, verdict_value_kind value)
{
	switch (value)
	{
		case VERDICT_VALUE_ANY:
			return true;
		case VERDICT_VALUE_IDENTITY:
			return column == COLUMN_IDENTITY || column == COLUMN_TEXT;
		case VERDICT_VALUE_STRING:
			return column == COLUMN_TEXT || column == COLUMN_OTHER;
		case VERDICT_VALUE_INTEGER:
			return column == COLUMN_INTEGER || column == COLUMN_TEXT;
		case VERDICT_VALUE_BOOLEAN:
			return column == COLUMN_BOOLEAN || column == COLUMN_TEXT;
	}
	return false;
}

static Datum
convert_value(query_column *column, const verdict_value *value, bool *is_null)
{
	*is_null = value->kind == VERDICT_VALUE_ANY;
	if (!column_takes(column->kind, value->kind))
	{
		static const char *const kinds[] = {[VERDICT_VALUE_ANY] = "any value",
											[VERDICT_VALUE_IDENTITY] = "an identity",
											[VERDICT_VALUE_STRING] = "a string",
											[VERDICT_VALUE_INTEGER] = "an integer",
											[VERDICT_VALUE_BOOLEAN] = "a boolean"};

		ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
						errmsg("column \"%s\" of type %s cannot hold %s", column->name,
							   format_type_be(column->type), kinds[value->kind]),
						errhint("A column of type text holds values of every kind.")));
	}

	/* The common types without a detour through text. */
	if (value->kind == VERDICT_VALUE_IDENTITY && column->kind == COLUMN_IDENTITY &&
		column->input.fn_addr == verdict_sql_identity_in)
		return verdict_identity_to_datum(&value->as.identity);
	if (value->kind == VERDICT_VALUE_INTEGER && column->type == INT8OID)
		return Int64GetDatum(value->as.integer);
	if (value->kind == VERDICT_VALUE_BOOLEAN && column->type == BOOLOID)
		return BoolGetDatum(value->as.boolean);

	/* NULL goes there too: the input of a domain checks it. */
	return InputFunctionCall(&column->input, verdict_value_to_cstring(value),
							 column->input_parameter, column->typmod);
}

static void
conversion_context(void *argument)
{
	const conversion *converting = argument;

	errcontext("column \"%s\" of verdict_query()", converting->columns[converting->current].name);
}

/* Columns for the variables of the pattern, checked by number. */
static void
check_columns(TupleDesc descriptor, size_t variables, const verdict_variable *const *names)
{
	if (variables == 0)
	{
		if (descriptor->natts != 1 ||
			getBaseType(TupleDescAttr(descriptor, 0)->atttypid) != BOOLOID)
			ereport(ERROR,
					(errcode(ERRCODE_DATATYPE_MISMATCH),
					 errmsg("a pattern without variables needs a single column of type boolean")));
	}
	else if ((size_t) descriptor->natts != variables)
	{
		StringInfoData list;

		initStringInfo(&list);
		for (size_t i = 0; i < variables; i++)
			appendStringInfo(&list, "%s?%s", i == 0 ? "" : ", ", names[i]->name);
		ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
						errmsg("the number of columns (%d) differs from the number of variables in "
							   "the pattern (%d)",
							   descriptor->natts, (int) variables),
						errdetail("The variables are %s.", list.data),
						errhint("Name one column for each variable, in the order of first use.")));
	}
}

Datum
verdict_sql_query(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	const verdict_variable *variables[VERDICT_MAX_ARGUMENTS];
	size_t width;
	const verdict_fact *pattern;
	TupleDesc descriptor;
	query_column *columns;
	Datum *datums;
	bool *nulls;
	conversion converting;
	ErrorContextCallback context;
	verdict_read read;
	verdict_status status;
	verdict_rows *rows;
	const verdict_value *values;
	Tuplestorestate *store;
	MemoryContext row_context;
	MemoryContext caller;
	int more;

	verdict_require_argument(fcinfo, 0, "pattern");
	if (result == NULL || !IsA(result, ReturnSetInfo) || result->expectedDesc == NULL)
		ereport(
			ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("verdict_query() needs a column definition list"),
			 errhint(
				 "Call it in FROM: SELECT * FROM verdict_query(...) AS answer(name type, ...).")));
	pattern = verdict_fact_from_datum(PG_GETARG_DATUM(0));
	width = collect_variables(pattern, variables);
	descriptor = result->expectedDesc;
	check_columns(descriptor, width, variables);
	columns = palloc0(descriptor->natts * sizeof(query_column));
	for (int i = 0; i < descriptor->natts; i++)
		prepare_column(&columns[i], TupleDescAttr(descriptor, i));
	datums = palloc0(descriptor->natts * sizeof(Datum));
	nulls = palloc0(descriptor->natts * sizeof(bool));

	verdict_read_start(fcinfo, 1, &read);
	store = verdict_begin_set(fcinfo, descriptor);
	row_context =
		AllocSetContextCreate(CurrentMemoryContext, "verdict query row", ALLOCSET_DEFAULT_SIZES);
	rows = verdict_read_query(&read, pattern, &status);

	converting.columns = columns;
	context.callback = conversion_context;
	context.arg = &converting;
	caller = MemoryContextSwitchTo(row_context);
	while ((more = verdict_rows_next(rows, &values, &status)) > 0)
	{
		CHECK_FOR_INTERRUPTS();
		if (width == 0)
		{
			/* It holds; a second empty row says nothing more. */
			const verdict_value holds = {VERDICT_VALUE_BOOLEAN, {.boolean = true}};

			datums[0] = convert_value(&columns[0], &holds, &nulls[0]);
			tuplestore_putvalues(store, descriptor, datums, nulls);
			break;
		}
		context.previous = error_context_stack;
		error_context_stack = &context;
		for (size_t i = 0; i < width; i++)
		{
			converting.current = i;
			verdict_check_binding(variables[i], &values[i]);
			datums[i] = convert_value(&columns[i], &values[i], &nulls[i]);
		}
		error_context_stack = context.previous;
		tuplestore_putvalues(store, descriptor, datums, nulls);
		MemoryContextReset(row_context);
	}
	MemoryContextSwitchTo(caller);
	verdict_release_rows(rows);
	if (more < 0)
		verdict_report_failure(&status, "read the answer of the query");
	MemoryContextDelete(row_context);
	PG_RETURN_NULL();
}
