/*
 * trigger.c
 *		verdict_emit_fact(): a fact for each row of a table.
 *
 * A template is taken apart before a column is looked at, and a column's value is
 * only ever put into the one part that it stands in.  So no value, whatever it
 * holds, can change the type of an identity, the number of arguments or the kind
 * of a value.
 *
 *	Type:text{column}text	an identity: the type stands in the template, the id
 *							is put together
 *	{column}				the value of the column: identity, string, integer,
 *							boolean
 *	text{column}text		a string
 *
 * A column inside other text must be of a type whose text depends on no setting
 * of the session; else a DELETE could look for another fact than the INSERT made.
 */
#include "verdict.h"

#include "catalog/pg_type.h"
#include "change.h"
#include "commands/trigger.h"
#include "error.h"
#include "fact.h"
#include "identity.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

PG_FUNCTION_INFO_V1(verdict_sql_emit_fact);

/* A stretch of literal text, or a column. */
typedef struct template_piece
{
	AttrNumber column; /* 0: text */
	const char *text;
	int size;
} template_piece;

typedef struct fact_template
{
	const char *type; /* of an identity; NULL: a value */
	int count;
	template_piece *pieces;
} fact_template;

static void bad_template(const char *text, const char *detail) pg_attribute_noreturn();

static void
bad_template(const char *text, const char *detail)
{
	ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					errmsg("invalid template \"%s\" of verdict_emit_fact()", text),
					errdetail("%s", detail)));
}

static AttrNumber
find_column(Relation relation, const char *name, int size, const char *text)
{
	TupleDesc descriptor = RelationGetDescr(relation);

	for (int i = 0; i < descriptor->natts; i++)
	{
		Form_pg_attribute column = TupleDescAttr(descriptor, i);

		if (column->attisdropped || strlen(NameStr(column->attname)) != (size_t) size ||
			memcmp(NameStr(column->attname), name, size) != 0)
			continue;
#ifdef ATTRIBUTE_GENERATED_VIRTUAL
		if (column->attgenerated == ATTRIBUTE_GENERATED_VIRTUAL)
			ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
							errmsg("column \"%s\" in template \"%s\" is a virtual generated column",
								   NameStr(column->attname), text),
							errdetail("A trigger does not see its value.")));
#endif
		return column->attnum;
	}
	ereport(ERROR, (errcode(ERRCODE_UNDEFINED_COLUMN),
					errmsg("column \"%.*s\" in template \"%s\" does not exist in table \"%s\"",
						   size, name, text, RelationGetRelationName(relation))));
}

/* Splits a text into pieces. */
static void
split_template(Relation relation, const char *text, fact_template *result)
{
	const char *next = text;

	/* Each piece takes at least one character. */
	result->pieces = palloc((strlen(text) + 1) * sizeof(template_piece));
	result->count = 0;
	while (*next != '\0')
	{
		template_piece *piece = &result->pieces[result->count++];

		piece->column = 0;
		piece->text = next;
		piece->size = (int) strcspn(next, "{}");
		if (*next == '{')
		{
			piece->size = (int) strcspn(next + 1, "{}");
			if (next[1 + piece->size] != '}')
				bad_template(text, "A column is written {name}: a closing brace is missing.");
			piece->column = find_column(relation, next + 1, piece->size, text);
			next += piece->size + 2;
		}
		else if (piece->size == 0)
			bad_template(text, "A closing brace stands without an opening one.");
		else
			next += piece->size;
	}
}

/* What the template makes, decided by its text alone. */
static void
parse_template(Relation relation, const char *text, fact_template *result)
{
	const char *colon = NULL;
	template_piece *first;

	split_template(relation, text, result);
	result->type = NULL;
	if (result->count == 0)
		bad_template(text, "A template is not empty.");

	first = &result->pieces[0];
	if (first->column == 0)
		colon = memchr(first->text, ':', first->size);
	else if (result->count > 1 && result->pieces[1].text[0] == ':')
		bad_template(text, "The type of an identity has to be written out, as in User:{column}.");
	if (colon == NULL)
		return;

	if (!verdict_is_identifier(first->text, colon - first->text))
		bad_template(text, "What stands before the colon is no type: an ASCII letter or "
						   "underscore, then letters, digits and underscores.");
	result->type = pnstrdup(first->text, colon - first->text);
	first->size -= (int) (colon + 1 - first->text);
	first->text = colon + 1;
}

/* Appends the text of a column's value. */
static void
append_value(StringInfo out, Oid column_type, const char *column, Datum value)
{
	Oid type = getBaseType(column_type);
	Oid output;
	bool is_varlena;
	char category;
	bool preferred;
	char *text;
	int size;

	switch (type)
	{
		case BOOLOID:
			appendStringInfoString(out, DatumGetBool(value) ? "true" : "false");
			return;
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case NUMERICOID:
		case OIDOID:
		case UUIDOID:
		case INETOID:
		case CIDROID:
			break;
		default:
			get_type_category_preferred(type, &category, &preferred);
			if (category == TYPCATEGORY_STRING || category == TYPCATEGORY_ENUM)
				break;
			ereport(ERROR,
					(errcode(ERRCODE_DATATYPE_MISMATCH),
					 errmsg("column \"%s\" of type %s cannot be a part of a fact", column,
							format_type_be(column_type)),
					 errdetail("The text of such a value depends on settings of the session."),
					 errhint("Use a column of type text, for instance a stored generated one.")));
	}
	getTypeOutputInfo(type, &output, &is_varlena);
	text = OidOutputFunctionCall(output, value);
	size = (int) strlen(text);
	/* As a cast to text does, so that verdict_identity(type, column) says the same. */
	if (type == BPCHAROID)
		size = bpchartruelen(text, size);
	appendBinaryStringInfo(out, text, size);
}

/* False when a column is NULL. */
static bool
fill_template(const fact_template *source, HeapTuple row, TupleDesc descriptor, verdict_term *term)
{
	StringInfoData text;
	char *utf8;

	initStringInfo(&text);
	for (int i = 0; i < source->count; i++)
	{
		const template_piece *piece = &source->pieces[i];
		Form_pg_attribute column;
		Datum value;
		bool is_null;

		if (piece->column == 0)
		{
			appendBinaryStringInfo(&text, piece->text, piece->size);
			continue;
		}
		column = TupleDescAttr(descriptor, piece->column - 1);
		value = heap_getattr(row, piece->column, descriptor, &is_null);
		if (is_null)
			return false;
		if (source->count == 1)
		{
			verdict_term_from_datum(term, column->atttypid, value);
			return true;
		}
		append_value(&text, column->atttypid, NameStr(column->attname), value);
	}

	utf8 = verdict_to_utf8(text.data, text.len);
	term->kind = VERDICT_TERM_VALUE;
	if (source->type != NULL)
	{
		if (utf8[0] == '\0')
			ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
							errmsg("the id of an identity of type \"%s\" is empty in this row",
								   source->type)));
		term->as.value.kind = VERDICT_VALUE_IDENTITY;
		term->as.value.as.identity.type = source->type;
		term->as.value.as.identity.id = utf8;
	}
	else
	{
		term->as.value.kind = VERDICT_VALUE_STRING;
		term->as.value.as.string = utf8;
	}
	return true;
}

/* The fact of a row; false when it has none. */
static bool
make_fact(const Trigger *trigger, const fact_template *templates, HeapTuple row,
		  TupleDesc descriptor, verdict_fact *fact)
{
	fact->predicate = trigger->tgargs[0];
	fact->count = (size_t) trigger->tgnargs - 1;
	fact->args = palloc0(fact->count * sizeof(verdict_term));
	for (size_t i = 0; i < fact->count; i++)
	{
		if (!fill_template(&templates[i], row, descriptor, &fact->args[i]))
			return false;
	}
	return true;
}

static bool
same_fact(const verdict_fact *left, const verdict_fact *right)
{
	for (size_t i = 0; i < left->count; i++)
	{
		if (!verdict_value_equal(&left->args[i].as.value, &right->args[i].as.value))
			return false;
	}
	return true;
}

static void
check_trigger(const TriggerData *data)
{
	const Trigger *trigger = data->tg_trigger;

	if (!TRIGGER_FIRED_AFTER(data->tg_event) || !TRIGGER_FIRED_FOR_ROW(data->tg_event))
		ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
						errmsg("trigger \"%s\" must be fired AFTER, FOR EACH ROW", trigger->tgname),
						errdetail("verdict_emit_fact() sends what has happened to a row.")));
	if (trigger->tgnargs < 2 || trigger->tgnargs > VERDICT_MAX_ARGUMENTS + 1)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("verdict_emit_fact() takes a predicate and 1 to %d templates",
							   VERDICT_MAX_ARGUMENTS),
						errhint("For example EXECUTE FUNCTION verdict_emit_fact('is_owner', "
								"'User:{owner_id}', 'Document:{id}').")));
	verdict_require_identifier(trigger->tgargs[0], strlen(trigger->tgargs[0]), "predicate");
}

Datum
verdict_sql_emit_fact(PG_FUNCTION_ARGS)
{
	TriggerData *data = (TriggerData *) fcinfo->context;
	TupleDesc descriptor;
	fact_template *templates;
	verdict_fact before;
	verdict_fact after;
	bool had = false;
	bool has = false;
	verdict_change changes[2];
	size_t count = 0;
	uint32 changed;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
						errmsg("verdict_emit_fact() must be called as a trigger")));
	check_trigger(data);

	descriptor = RelationGetDescr(data->tg_relation);
	templates = palloc((data->tg_trigger->tgnargs - 1) * sizeof(fact_template));
	for (int i = 1; i < data->tg_trigger->tgnargs; i++)
		parse_template(data->tg_relation, data->tg_trigger->tgargs[i], &templates[i - 1]);

	if (TRIGGER_FIRED_BY_INSERT(data->tg_event))
		has = make_fact(data->tg_trigger, templates, data->tg_trigtuple, descriptor, &after);
	else
		had = make_fact(data->tg_trigger, templates, data->tg_trigtuple, descriptor, &before);
	if (TRIGGER_FIRED_BY_UPDATE(data->tg_event))
	{
		has = make_fact(data->tg_trigger, templates, data->tg_newtuple, descriptor, &after);
		if (had && has && same_fact(&before, &after))
			had = has = false;
	}

	if (had)
		changes[count++] = (verdict_change){.insert = false, .fact = before};
	if (has)
		changes[count++] = (verdict_change){.insert = true, .fact = after};
	verdict_change_facts(GetUserId(), changes, count, &changed);
	return PointerGetDatum(NULL);
}
