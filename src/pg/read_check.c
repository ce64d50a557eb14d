/*
 * read_check.c
 *		The functions that check: one resource, one by its id, many.
 *
 * A check whose answer is remembered takes the short way: the site of the call
 * (in fn_extra) knows the set of decisions that answered it last, and nothing is
 * allocated.  Everything else takes the long way, which checks the arguments, in
 * the order and with the errors that verdict_identity() and verdict_authorize()
 * have, and then decides.
 *
 * A NULL actor is nobody: the answer is NULL, which a policy takes for no, also
 * after NOT.  Any other NULL is an error.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "decision.h"
#include "error.h"
#include "identity.h"
#include "read.h"

PG_FUNCTION_INFO_V1(verdict_sql_authorize);
PG_FUNCTION_INFO_V1(verdict_sql_authorize_id);
PG_FUNCTION_INFO_V1(verdict_sql_authorize_many);

/* What a call of a check keeps from row to row. */
typedef struct check_site
{
	verdict_decision_site decisions;
	Oid id_type; /* of verdict_authorize_id() */
} check_site;

static check_site *
get_site(FunctionCallInfo fcinfo)
{
	check_site *site = fcinfo->flinfo->fn_extra;

	if (site == NULL)
	{
		site = MemoryContextAllocZero(fcinfo->flinfo->fn_mcxt, sizeof(*site));
		fcinfo->flinfo->fn_extra = site;
	}
	return site;
}

static verdict_piece
piece_argument(FunctionCallInfo fcinfo, int number)
{
	struct varlena *stored = PG_GETARG_VARLENA_PP(number);
	verdict_piece piece = {VARDATA_ANY(stored), VARSIZE_ANY_EXHDR(stored)};

	return piece;
}

/* Takes a stored identity apart. */
static void
split_identity(struct varlena *stored, verdict_piece *type, verdict_piece *id)
{
	const char *text = VARDATA_ANY(stored);
	size_t size = VARSIZE_ANY_EXHDR(stored);
	const char *colon = memchr(text, ':', size);

	if (colon == NULL)
		ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED), errmsg("stored identity has no colon")));
	type->bytes = text;
	type->size = (size_t) (colon - text);
	id->bytes = colon + 1;
	id->size = size - type->size - 1;
}

/* Whether the text is the same in UTF-8, so that it need not be converted. */
static bool
is_utf8_already(verdict_piece text)
{
	if (GetDatabaseEncoding() == PG_UTF8)
		return true;
	for (size_t i = 0; i < text.size; i++)
	{
		if (IS_HIGHBIT_SET(text.bytes[i]))
			return false;
	}
	return true;
}

/* The id of a text of the database's encoding; allocates when it has to convert. */
static void
id_of_piece(verdict_piece text, verdict_id *id)
{
	if (!is_utf8_already(text))
	{
		text.bytes = verdict_to_utf8(text.bytes, (int) text.size);
		text.size = strlen(text.bytes);
	}
	verdict_id_of_text(text.bytes, text.size, id);
}

static void
require_action(verdict_piece action)
{
	if (action.size == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("action must not be empty")));
}

/* The long way of one check. */
static bool
decide_one(FunctionCallInfo fcinfo, const verdict_question *question, const verdict_id *id,
		   int consistency_argument, check_site *site)
{
	verdict_read read;
	bool allowed;

	require_action(question->action);
	verdict_read_start(fcinfo, consistency_argument, &read);
	return verdict_decide(&read, question, id, 1, &allowed, &site->decisions) && allowed;
}

Datum
verdict_sql_authorize(PG_FUNCTION_ARGS)
{
	check_site *site = get_site(fcinfo);
	verdict_question question;
	verdict_piece id_text;
	verdict_id id;
	verdict_known known;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	verdict_require_argument(fcinfo, 1, "action");
	verdict_require_argument(fcinfo, 2, "resource");
	question.actor = piece_argument(fcinfo, 0);
	question.action = piece_argument(fcinfo, 1);
	split_identity(PG_GETARG_VARLENA_PP(2), &question.type, &id_text);
	id_of_piece(id_text, &id);
	known = verdict_site_known(&site->decisions, &question, verdict_consistency_argument(fcinfo, 3),
							   &id);
	if (known != VERDICT_NOT_KNOWN)
		PG_RETURN_BOOL(known == VERDICT_KNOWN_YES);
	PG_RETURN_BOOL(decide_one(fcinfo, &question, &id, 3, site));
}

bool
verdict_id_of_value(Oid type, Datum value, verdict_id *id)
{
	switch (type)
	{
		case INT2OID:
			id->kind = VERDICT_ID_INTEGER;
			id->as.integer = DatumGetInt16(value);
			return true;
		case INT4OID:
			id->kind = VERDICT_ID_INTEGER;
			id->as.integer = DatumGetInt32(value);
			return true;
		case INT8OID:
			id->kind = VERDICT_ID_INTEGER;
			id->as.integer = DatumGetInt64(value);
			return true;
		case UUIDOID:
			id->kind = VERDICT_ID_UUID;
			id->as.uuid = *DatumGetUUIDP(value);
			return true;
		case TEXTOID:
		{
			struct varlena *stored = PG_DETOAST_DATUM_PACKED(value);
			verdict_piece text = {VARDATA_ANY(stored), VARSIZE_ANY_EXHDR(stored)};

			if (text.size == 0)
				return false;
			id_of_piece(text, id);
			return true;
		}
		default:
			return false;
	}
}

/* The id argument; its text must not be empty. */
static void
id_argument(FunctionCallInfo fcinfo, int number, check_site *site, verdict_id *id)
{
	if (!OidIsValid(site->id_type))
		site->id_type = get_fn_expr_argtype(fcinfo->flinfo, number);
	if (verdict_id_of_value(site->id_type, PG_GETARG_DATUM(number), id))
		return;
	if (site->id_type == TEXTOID)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("the id of an identity must not be empty")));
	ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					errmsg("an id of type %s is not supported here",
						   OidIsValid(site->id_type) ? format_type_be(site->id_type) : "unknown"),
					errhint("Use verdict_authorize() with verdict_identity().")));
}

Datum
verdict_sql_authorize_id(PG_FUNCTION_ARGS)
{
	check_site *site = get_site(fcinfo);
	verdict_question question;
	verdict_id id;
	verdict_known known;

	/* As verdict_identity() is called first where this one stands for both. */
	if (!PG_ARGISNULL(2) && !PG_ARGISNULL(3))
	{
		question.type = piece_argument(fcinfo, 2);
		id_argument(fcinfo, 3, site, &id);
	}
	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	verdict_require_argument(fcinfo, 1, "action");
	if (PG_ARGISNULL(2) || PG_ARGISNULL(3))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
						errmsg("argument \"%s\" must not be null", "resource")));
	question.actor = piece_argument(fcinfo, 0);
	question.action = piece_argument(fcinfo, 1);
	known = verdict_site_known(&site->decisions, &question, verdict_consistency_argument(fcinfo, 4),
							   &id);
	if (known != VERDICT_NOT_KNOWN)
		PG_RETURN_BOOL(known == VERDICT_KNOWN_YES);
	verdict_require_identifier(question.type.bytes, question.type.size, "identity type");
	PG_RETURN_BOOL(decide_one(fcinfo, &question, &id, 4, site));
}

/* Resources of one type among many. */
typedef struct type_group
{
	verdict_piece type;
	size_t count;
	verdict_id *ids;
	size_t *places; /* of each among the resources */
} type_group;

static void
add_to_group(type_group *group, const verdict_id *id, size_t place)
{
	/* Room for a power of two. */
	if ((group->count & (group->count - 1)) == 0)
	{
		Size room = group->count == 0 ? 1 : 2 * group->count;

		if (group->count == 0)
		{
			group->ids = palloc(sizeof(*group->ids));
			group->places = palloc(sizeof(*group->places));
		}
		else
		{
			group->ids = repalloc_huge(group->ids, room * sizeof(*group->ids));
			group->places = repalloc_huge(group->places, room * sizeof(*group->places));
		}
	}
	group->ids[group->count] = *id;
	group->places[group->count++] = place;
}

static type_group *
find_group(List **groups, verdict_piece type)
{
	ListCell *cell;
	type_group *group;

	foreach (cell, *groups)
	{
		group = lfirst(cell);
		if (group->type.size == type.size && memcmp(group->type.bytes, type.bytes, type.size) == 0)
			return group;
	}
	group = palloc0(sizeof(*group));
	group->type = type;
	*groups = lappend(*groups, group);
	return group;
}

Datum
verdict_sql_authorize_many(PG_FUNCTION_ARGS)
{
	verdict_question question;
	ArrayType *resources;
	Datum *elements;
	bool *nulls;
	int count;
	List *groups = NIL;
	ListCell *cell;
	verdict_read read;
	Datum *answers;
	bool answered = true;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	verdict_require_argument(fcinfo, 1, "action");
	verdict_require_argument(fcinfo, 2, "resources");
	question.actor = piece_argument(fcinfo, 0);
	question.action = piece_argument(fcinfo, 1);
	require_action(question.action);
	resources = PG_GETARG_ARRAYTYPE_P(2);
	if (ARR_NDIM(resources) > 1)
		ereport(ERROR, (errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
						errmsg("resources must be an array of one dimension")));
	deconstruct_array(resources, ARR_ELEMTYPE(resources), -1, false, TYPALIGN_INT, &elements,
					  &nulls, &count);
	for (int i = 0; i < count; i++)
	{
		verdict_piece type;
		verdict_piece id_text;
		verdict_id id;

		if (nulls[i])
			ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
							errmsg("resource number %d must not be null", i + 1)));
		split_identity((struct varlena *) PG_DETOAST_DATUM_PACKED(elements[i]), &type, &id_text);
		id_of_piece(id_text, &id);
		add_to_group(find_group(&groups, type), &id, i);
	}
	verdict_read_start(fcinfo, 3, &read);

	answers = palloc_extended(Max(count, 1) * sizeof(Datum), MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	foreach (cell, groups)
	{
		type_group *group = lfirst(cell);
		bool *allowed = palloc_extended(group->count * sizeof(bool), MCXT_ALLOC_HUGE);

		question.type = group->type;
		answered = verdict_decide(&read, &question, group->ids, group->count, allowed, NULL);
		if (!answered)
			break;
		for (size_t i = 0; i < group->count; i++)
			answers[group->places[i]] = BoolGetDatum(allowed[i]);
	}
	/* One that failed makes all of them "no". */
	if (!answered)
		memset(answers, 0, count * sizeof(Datum));
	PG_RETURN_ARRAYTYPE_P(construct_array(answers, count, BOOLOID, 1, true, TYPALIGN_CHAR));
}
