/*
 * fact_build.c
 *		Facts and patterns made from SQL values, and the type
 *		verdict_pattern_variable.
 *
 * What a value becomes is decided by its type alone and never by its text: a
 * text 'User:alice' is a string, and only a verdict_identity is an identity.  A
 * type without an equal among the core's values is refused; a guess could make a
 * fact that no policy ever matches.
 *
 * The types of a call's arguments are looked up once a call site and kept in
 * fn_extra, which a caller of verdict_fact_from_arguments() must leave alone.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "error.h"
#include "fact.h"
#include "identity.h"

PG_FUNCTION_INFO_V1(verdict_sql_fact_make);
PG_FUNCTION_INFO_V1(verdict_sql_variable_in);
PG_FUNCTION_INFO_V1(verdict_sql_variable_out);
PG_FUNCTION_INFO_V1(verdict_sql_variable_make);

typedef enum argument_kind
{
	ARGUMENT_IDENTITY,
	ARGUMENT_VARIABLE,
	ARGUMENT_TEXT,	  /* a varlena that is its own text */
	ARGUMENT_LITERAL, /* a C string: a literal without a type */
	ARGUMENT_OUTPUT,  /* a string, by the type's output function */
	ARGUMENT_PADDED,  /* the same without trailing blanks */
	ARGUMENT_INT2,
	ARGUMENT_INT4,
	ARGUMENT_INT8,
	ARGUMENT_BOOLEAN
} argument_kind;

typedef struct argument_cache
{
	int count;	   /* of types */
	bool is_array; /* VARIADIC array: one type, its element's */
	Oid element;
	int16 element_length;
	bool element_by_value;
	char element_align;
	verdict_argument_type types[FLEXIBLE_ARRAY_MEMBER];
} argument_cache;

bool
verdict_argument_type_init(verdict_argument_type *type, Oid oid, MemoryContext context)
{
	Oid base;
	Oid output;
	bool is_varlena;
	char category;
	bool preferred;

	if (oid == UNKNOWNOID)
	{
		type->kind = ARGUMENT_LITERAL;
		return true;
	}
	base = getBaseType(oid);
	switch (base)
	{
		case TEXTOID:
		case VARCHAROID:
			type->kind = ARGUMENT_TEXT;
			return true;
		case INT2OID:
			type->kind = ARGUMENT_INT2;
			return true;
		case INT4OID:
			type->kind = ARGUMENT_INT4;
			return true;
		case INT8OID:
			type->kind = ARGUMENT_INT8;
			return true;
		case BOOLOID:
			type->kind = ARGUMENT_BOOLEAN;
			return true;
		default:
			break;
	}

	getTypeOutputInfo(base, &output, &is_varlena);
	fmgr_info_cxt(output, &type->output, context);
	get_type_category_preferred(base, &category, &preferred);
	if (type->output.fn_addr == verdict_sql_identity_out)
		type->kind = ARGUMENT_IDENTITY;
	else if (type->output.fn_addr == verdict_sql_variable_out)
		type->kind = ARGUMENT_VARIABLE;
	else if (base == BPCHAROID)
		type->kind = ARGUMENT_PADDED;
	else if (base == CHAROID || category == TYPCATEGORY_STRING)
		type->kind = ARGUMENT_OUTPUT;
	else
		return false;
	return true;
}

static void
require_argument_type(verdict_argument_type *type, Oid oid, MemoryContext context)
{
	if (!OidIsValid(oid))
		ereport(ERROR, (errcode(ERRCODE_INDETERMINATE_DATATYPE),
						errmsg("could not determine the type of an argument of the fact")));
	if (!verdict_argument_type_init(type, oid, context))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("a value of type %s cannot be an argument of a fact", format_type_be(oid)),
				 errdetail("Arguments are identities, text, integers, booleans and variables."),
				 errhint("Make an identity of it with verdict_identity(type, id), or cast it to "
						 "text or bigint.")));
}

/* The cache of a call site whose variadic arguments start at "first". */
static argument_cache *
argument_types(FunctionCallInfo fcinfo, int first)
{
	FmgrInfo *flinfo = fcinfo->flinfo;
	argument_cache *cache = flinfo->fn_extra;

	if (cache == NULL)
	{
		bool is_array = get_fn_expr_variadic(flinfo);
		int count = is_array ? 1 : PG_NARGS() - first;

		cache = MemoryContextAllocZero(flinfo->fn_mcxt, offsetof(argument_cache, types) +
															count * sizeof(verdict_argument_type));
		cache->count = count;
		cache->is_array = is_array;
		if (is_array)
		{
			Oid array_type = get_fn_expr_argtype(flinfo, first);

			cache->element = get_base_element_type(array_type);
			if (!OidIsValid(cache->element))
				ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
								errmsg("VARIADIC argument must be an array")));
			get_typlenbyvalalign(cache->element, &cache->element_length, &cache->element_by_value,
								 &cache->element_align);
			require_argument_type(&cache->types[0], cache->element, flinfo->fn_mcxt);
		}
		else
			for (int i = 0; i < count; i++)
				require_argument_type(&cache->types[i], get_fn_expr_argtype(flinfo, first + i),
									  flinfo->fn_mcxt);
		flinfo->fn_extra = cache;
	}
	return cache;
}

static void
set_string(verdict_term *term, const char *text, int size)
{
	term->kind = VERDICT_TERM_VALUE;
	term->as.value.kind = VERDICT_VALUE_STRING;
	term->as.value.as.string = verdict_to_utf8(text, size);
}

static void
set_integer(verdict_term *term, int64 integer)
{
	term->kind = VERDICT_TERM_VALUE;
	term->as.value.kind = VERDICT_VALUE_INTEGER;
	term->as.value.as.integer = integer;
}

/* Takes the stored text of a verdict_pattern_variable apart; it is ASCII. */
static void
set_variable(verdict_term *term, Datum datum)
{
	char *name = TextDatumGetCString(datum) + 1; /* past the "?" */
	char *colon = strchr(name, ':');

	term->kind = VERDICT_TERM_VARIABLE;
	term->as.variable.name = name;
	term->as.variable.type = "";
	if (colon != NULL)
	{
		*colon = '\0';
		term->as.variable.type = colon + 1;
	}
}

void
verdict_term_from_datum(verdict_term *term, verdict_argument_type *type, Datum datum)
{
	switch ((argument_kind) type->kind)
	{
		case ARGUMENT_IDENTITY:
			term->kind = VERDICT_TERM_VALUE;
			term->as.value.kind = VERDICT_VALUE_IDENTITY;
			term->as.value.as.identity = verdict_identity_from_datum(datum);
			break;
		case ARGUMENT_VARIABLE:
			set_variable(term, datum);
			break;
		case ARGUMENT_TEXT:
		{
			struct varlena *stored = PG_DETOAST_DATUM_PACKED(datum);

			set_string(term, VARDATA_ANY(stored), VARSIZE_ANY_EXHDR(stored));
			break;
		}
		case ARGUMENT_LITERAL:
			set_string(term, DatumGetCString(datum), strlen(DatumGetCString(datum)));
			break;
		case ARGUMENT_OUTPUT:
		case ARGUMENT_PADDED:
		{
			char *text = OutputFunctionCall(&type->output, datum);
			int size = strlen(text);

			if (type->kind == ARGUMENT_PADDED)
				size = bpchartruelen(text, size);
			set_string(term, text, size);
			break;
		}
		case ARGUMENT_INT2:
			set_integer(term, DatumGetInt16(datum));
			break;
		case ARGUMENT_INT4:
			set_integer(term, DatumGetInt32(datum));
			break;
		case ARGUMENT_INT8:
			set_integer(term, DatumGetInt64(datum));
			break;
		case ARGUMENT_BOOLEAN:
			term->kind = VERDICT_TERM_VALUE;
			term->as.value.kind = VERDICT_VALUE_BOOLEAN;
			term->as.value.as.boolean = DatumGetBool(datum);
			break;
	}
}

const verdict_fact *
verdict_fact_from_arguments(FunctionCallInfo fcinfo, const char *predicate, int first)
{
	argument_cache *cache = argument_types(fcinfo, first);
	verdict_fact *fact = palloc(sizeof(verdict_fact));
	Datum *elements = NULL;
	bool *nulls = NULL;
	int count = cache->count;

	verdict_require_identifier(predicate, strlen(predicate), "predicate");

	if (cache->is_array)
	{
		if (PG_ARGISNULL(first))
			ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
							errmsg("VARIADIC array of a fact's arguments must not be null")));
		deconstruct_array(PG_GETARG_ARRAYTYPE_P(first), cache->element, cache->element_length,
						  cache->element_by_value, cache->element_align, &elements, &nulls, &count);
	}
	if (count > VERDICT_MAX_ARGUMENTS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a fact cannot have more than %d arguments", VERDICT_MAX_ARGUMENTS)));

	fact->predicate = pstrdup(predicate);
	fact->count = count;
	fact->args = palloc0(Max(count, 1) * sizeof(verdict_term));
	for (int i = 0; i < count; i++)
	{
		bool is_null = cache->is_array ? nulls[i] : PG_ARGISNULL(first + i);

		if (is_null)
			fact->args[i].kind = VERDICT_TERM_WILDCARD;
		else if (cache->is_array)
			verdict_term_from_datum(&fact->args[i], &cache->types[0], elements[i]);
		else
			verdict_term_from_datum(&fact->args[i], &cache->types[i], PG_GETARG_DATUM(first + i));
	}
	return fact;
}

Datum
verdict_sql_fact_make(PG_FUNCTION_ARGS)
{
	if (PG_ARGISNULL(0))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
						errmsg("argument \"%s\" must not be null", "predicate")));
	return verdict_fact_to_datum(
		verdict_fact_from_arguments(fcinfo, text_to_cstring(PG_GETARG_TEXT_PP(0)), 1));
}

/* "?name" or "?name:Type". */
Datum
verdict_sql_variable_in(PG_FUNCTION_ARGS)
{
	char *text = PG_GETARG_CSTRING(0);
	char *colon = strchr(text, ':');
	size_t size = strlen(text);

	if (text[0] != '?' ||
		!verdict_is_identifier(text + 1, (colon ? (size_t) (colon - text) : size) - 1) ||
		(colon && !verdict_is_identifier(colon + 1, text + size - colon - 1)))
		ereport(ERROR, (errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
						errmsg("invalid input syntax for type %s: \"%.*s\"",
							   "verdict_pattern_variable", pg_mbcliplen(text, size, 64), text),
						errdetail("A variable is written ?name or ?name:Type, with identifiers for "
								  "name and type.")));
	PG_RETURN_TEXT_P(cstring_to_text_with_len(text, size));
}

Datum
verdict_sql_variable_out(PG_FUNCTION_ARGS)
{
	PG_RETURN_CSTRING(TextDatumGetCString(PG_GETARG_DATUM(0)));
}

Datum
verdict_sql_variable_make(PG_FUNCTION_ARGS)
{
	StringInfoData variable;
	char *part;

	if (PG_ARGISNULL(0))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
						errmsg("argument \"%s\" must not be null", "name")));
	part = text_to_cstring(PG_GETARG_TEXT_PP(0));
	verdict_require_identifier(part, strlen(part), "name of a variable");
	initStringInfo(&variable);
	appendStringInfo(&variable, "?%s", part);
	if (!PG_ARGISNULL(1))
	{
		part = text_to_cstring(PG_GETARG_TEXT_PP(1));
		verdict_require_identifier(part, strlen(part), "type of a variable");
		appendStringInfo(&variable, ":%s", part);
	}
	PG_RETURN_TEXT_P(cstring_to_text_with_len(variable.data, variable.len));
}
