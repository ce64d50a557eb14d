/*
 * trigger_template.c
 *		The fact that a trigger's arguments make of a row.
 *
 * A template is taken apart before a column is looked at, and a column's value is
 * only ever put into the one part that it stands in.  So no value, whatever it
 * holds, can change the type of an identity, the number of arguments or the kind
 * of a value.
 *
 * Everything about a column that does not depend on the row is decided when the
 * trigger first runs, and refused then: not at the first row that happens to have
 * a value there.
 *
 * A column inside other text must be of a type whose text depends on no setting
 * of the session; else a DELETE could look for another fact than the INSERT made.
 */
#include "trigger_template.h"

#include "../core/template.h"
#include "catalog/pg_type.h"
#include "error.h"
#include "fact.h"
#include "identity.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

/* How the text of a column is made. */
typedef enum text_kind
{
	TEXT_BOOLEAN,
	TEXT_INT2,
	TEXT_INT4,
	TEXT_INT8,
	TEXT_STORED, /* a varlena that is its own text */
	TEXT_OUTPUT, /* the type's output function */
	TEXT_PADDED	 /* the same without trailing blanks */
} text_kind;

/* A stretch of literal text, or a column. */
typedef struct template_piece
{
	AttrNumber column; /* 0: text */
	const char *text;  /* the column's name */
	int size;
	text_kind kind;
	FmgrInfo output;
} template_piece;

typedef struct argument_template
{
	int number;					 /* among the trigger's arguments, from 1 */
	const char *source;			 /* as it was written */
	const char *type;			 /* of an identity; NULL: a value */
	bool alone;					 /* a column and nothing else: its value */
	verdict_argument_type value; /* of that column */
	int count;
	template_piece *pieces;
	StringInfoData text; /* of the row at hand */
} argument_template;

struct verdict_fact_template
{
	const char *trigger; /* name */
	const char *table;
	AttrNumber last_column; /* the highest that is needed */
	verdict_fact fact;		/* of the row at hand */
	argument_template arguments[FLEXIBLE_ARRAY_MEMBER];
};

static void bad_template(const verdict_fact_template *whole, const argument_template *argument,
						 const char *detail) pg_attribute_noreturn();

static void
bad_template(const verdict_fact_template *whole, const argument_template *argument,
			 const char *detail)
{
	ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					errmsg("invalid template \"%s\" in argument %d of trigger \"%s\"",
						   argument->source, argument->number, whole->trigger),
					errdetail("%s", detail)));
}

/* Completes an error about a column. */
static int
detail_of_place(const verdict_fact_template *whole, const argument_template *argument,
				const char *more)
{
	return errdetail("It stands in argument %d of trigger \"%s\" on table \"%s\", \"%s\".%s",
					 argument->number, whole->trigger, whole->table, argument->source, more);
}

static Form_pg_attribute
find_column(const verdict_fact_template *whole, const argument_template *argument,
			TupleDesc descriptor, const char *name, int size)
{
	for (int i = 0; i < descriptor->natts; i++)
	{
		Form_pg_attribute column = TupleDescAttr(descriptor, i);

		if (column->attisdropped || strlen(NameStr(column->attname)) != (size_t) size ||
			memcmp(NameStr(column->attname), name, size) != 0)
			continue;
#ifdef ATTRIBUTE_GENERATED_VIRTUAL
		if (column->attgenerated == ATTRIBUTE_GENERATED_VIRTUAL)
			ereport(
				ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("column \"%s\" is a virtual generated column", NameStr(column->attname)),
				 detail_of_place(whole, argument, " A trigger does not see its value.")));
#endif
		return column;
	}
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_COLUMN),
			 errmsg("column \"%.*s\" of table \"%s\" does not exist", size, name, whole->table),
			 detail_of_place(whole, argument, ""),
			 errhint("If the column was renamed, create the trigger again with its new name.")));
}

/* Takes the template apart, over the columns that there are. */
static void
split_template(const verdict_fact_template *whole, argument_template *argument,
			   TupleDesc descriptor)
{
	verdict_template_piece *parts =
		palloc((strlen(argument->source) + 1) * sizeof(verdict_template_piece));
	verdict_template split;
	const char *problem = verdict_template_split(argument->source, &split, parts);

	if (problem != NULL)
		bad_template(whole, argument, problem);
	if (split.type != NULL)
		argument->type = pnstrdup(split.type, split.type_size);
	argument->count = (int) split.count;
	argument->pieces = palloc0(split.count * sizeof(template_piece));
	for (int i = 0; i < argument->count; i++)
	{
		template_piece *piece = &argument->pieces[i];

		piece->text = parts[i].text;
		piece->size = (int) parts[i].size;
		if (parts[i].is_column)
			piece->column =
				find_column(whole, argument, descriptor, piece->text, piece->size)->attnum;
	}
	pfree(parts);
}

static void
prepare_value(const verdict_fact_template *whole, argument_template *argument,
			  Form_pg_attribute column)
{
	argument->alone = true;
	if (!verdict_argument_type_init(&argument->value, column->atttypid, CurrentMemoryContext))
		ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
						errmsg("column \"%s\" of type %s cannot be an argument of a fact",
							   NameStr(column->attname), format_type_be(column->atttypid)),
						detail_of_place(whole, argument, ""),
						errhint("Make an identity of it, as in Type:{%s}, or use a column of type "
								"text or bigint.",
								NameStr(column->attname))));
}

static void
prepare_text(const verdict_fact_template *whole, const argument_template *argument,
			 template_piece *piece, Form_pg_attribute column)
{
	Oid type = getBaseType(column->atttypid);
	Oid output;
	bool is_varlena;
	char category;
	bool preferred;

	piece->kind = TEXT_OUTPUT;
	switch (type)
	{
		case BOOLOID:
			piece->kind = TEXT_BOOLEAN;
			return;
		case INT2OID:
			piece->kind = TEXT_INT2;
			return;
		case INT4OID:
			piece->kind = TEXT_INT4;
			return;
		case INT8OID:
			piece->kind = TEXT_INT8;
			return;
		case TEXTOID:
		case VARCHAROID:
			piece->kind = TEXT_STORED;
			return;
		case BPCHAROID:
			piece->kind = TEXT_PADDED;
			break;
		case NUMERICOID:
		case OIDOID:
		case UUIDOID:
		case INETOID:
		case CIDROID:
			break;
		default:
			get_type_category_preferred(type, &category, &preferred);
			if (category != TYPCATEGORY_STRING && category != TYPCATEGORY_ENUM)
				ereport(
					ERROR,
					(errcode(ERRCODE_DATATYPE_MISMATCH),
					 errmsg("column \"%s\" of type %s cannot be a part of a fact",
							NameStr(column->attname), format_type_be(column->atttypid)),
					 detail_of_place(
						 whole, argument,
						 " The text of such a value depends on settings of the session."),
					 errhint("Use a column of type text, for instance a stored generated one.")));
	}
	getTypeOutputInfo(type, &output, &is_varlena);
	fmgr_info(output, &piece->output);
}

static void
parse_argument(verdict_fact_template *whole, argument_template *argument, TupleDesc descriptor)
{
	split_template(whole, argument, descriptor);
	for (int i = 0; i < argument->count; i++)
	{
		template_piece *piece = &argument->pieces[i];
		Form_pg_attribute column;

		if (piece->column == 0)
			continue;
		column = TupleDescAttr(descriptor, piece->column - 1);
		whole->last_column = Max(whole->last_column, piece->column);
		if (argument->count == 1)
			prepare_value(whole, argument, column);
		else
			prepare_text(whole, argument, piece, column);
	}
	if (!argument->alone)
		initStringInfo(&argument->text);
}

verdict_fact_template *
verdict_template_parse(const Trigger *trigger, Relation relation)
{
	int count = trigger->tgnargs - 1;
	verdict_fact_template *whole;

	if (count < 1 || count > VERDICT_MAX_ARGUMENTS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("verdict_emit_fact() takes a predicate and 1 to %d templates",
						VERDICT_MAX_ARGUMENTS),
				 errdetail("Trigger \"%s\" gives %d arguments.", trigger->tgname, trigger->tgnargs),
				 errhint("For example EXECUTE FUNCTION verdict_emit_fact('is_owner', "
						 "'User:{owner_id}', 'Document:{id}').")));
	verdict_require_identifier(trigger->tgargs[0], strlen(trigger->tgargs[0]), "predicate");

	whole = palloc0(offsetof(verdict_fact_template, arguments) +
					(size_t) count * sizeof(argument_template));
	whole->trigger = pstrdup(trigger->tgname);
	whole->table = pstrdup(RelationGetRelationName(relation));
	whole->fact.predicate = pstrdup(trigger->tgargs[0]);
	whole->fact.count = (size_t) count;
	whole->fact.args = palloc0((size_t) count * sizeof(verdict_term));
	for (int i = 0; i < count; i++)
	{
		argument_template *argument = &whole->arguments[i];

		argument->number = i + 2;
		argument->source = pstrdup(trigger->tgargs[i + 1]);
		parse_argument(whole, argument, RelationGetDescr(relation));
	}
	return whole;
}

/* Appends the text of a column's value. */
static void
append_value(StringInfo out, template_piece *piece, Datum value)
{
	char digits[24]; /* of any bigint */
	char *text;
	int size;

	switch (piece->kind)
	{
		case TEXT_BOOLEAN:
			appendStringInfoString(out, DatumGetBool(value) ? "true" : "false");
			return;
		case TEXT_INT2:
			appendBinaryStringInfo(out, digits, pg_itoa(DatumGetInt16(value), digits));
			return;
		case TEXT_INT4:
			appendBinaryStringInfo(out, digits, pg_ltoa(DatumGetInt32(value), digits));
			return;
		case TEXT_INT8:
			appendBinaryStringInfo(out, digits, pg_lltoa(DatumGetInt64(value), digits));
			return;
		case TEXT_STORED:
		{
			struct varlena *stored = PG_DETOAST_DATUM_PACKED(value);

			appendBinaryStringInfo(out, VARDATA_ANY(stored), VARSIZE_ANY_EXHDR(stored));
			return;
		}
		case TEXT_OUTPUT:
		case TEXT_PADDED:
			text = OutputFunctionCall(&piece->output, value);
			size = (int) strlen(text);
			/* As a cast to text does, so that verdict_identity(type, column) says the same. */
			if (piece->kind == TEXT_PADDED)
				size = bpchartruelen(text, size);
			appendBinaryStringInfo(out, text, size);
			return;
	}
}

/* The argument of a row: false when a column is NULL. */
static bool
fill_argument(const verdict_fact_template *whole, argument_template *argument, TupleTableSlot *row,
			  verdict_term *term)
{
	StringInfo text = &argument->text;
	const char *utf8;

	if (argument->alone)
	{
		int column = argument->pieces[0].column - 1;

		if (row->tts_isnull[column])
			return false;
		verdict_term_from_datum(term, &argument->value, row->tts_values[column]);
		return true;
	}

	resetStringInfo(text);
	for (int i = 0; i < argument->count; i++)
	{
		template_piece *piece = &argument->pieces[i];

		if (piece->column == 0)
			appendBinaryStringInfo(text, piece->text, piece->size);
		else if (row->tts_isnull[piece->column - 1])
			return false;
		else
			append_value(text, piece, row->tts_values[piece->column - 1]);
	}
	utf8 = GetDatabaseEncoding() == PG_UTF8 ? text->data : verdict_to_utf8(text->data, text->len);

	term->kind = VERDICT_TERM_VALUE;
	if (argument->type == NULL)
	{
		term->as.value.kind = VERDICT_VALUE_STRING;
		term->as.value.as.string = utf8;
		return true;
	}
	if (text->len == 0)
		ereport(
			ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("the id of an identity of type \"%s\" is empty in this row", argument->type),
			 errdetail("Argument %d of trigger \"%s\" on table \"%s\" is \"%s\".", argument->number,
					   whole->trigger, whole->table, argument->source)));
	term->as.value.kind = VERDICT_VALUE_IDENTITY;
	term->as.value.as.identity.type = argument->type;
	term->as.value.as.identity.id = utf8;
	return true;
}

const verdict_fact *
verdict_template_fill(verdict_fact_template *source, TupleTableSlot *row)
{
	slot_getsomeattrs(row, source->last_column);
	for (size_t i = 0; i < source->fact.count; i++)
	{
		if (!fill_argument(source, &source->arguments[i], row, &source->fact.args[i]))
			return NULL;
	}
	return &source->fact;
}
