/*
 * identity.c
 *		The type verdict_identity.
 *
 * Every stored value has passed verdict_identity_parse() or an equal check: a
 * type that is an identifier (hence ASCII), a colon, an id that is not empty and
 * has a form in UTF-8.  Equal identities are equal bytes, so comparison and hash
 * are those of bytea (see the install script).
 */
#include "postgres.h"

#include "fmgr.h"
#include "libpq/pqformat.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

#include "error.h"
#include "identity.h"
#include "memory.h"

PG_FUNCTION_INFO_V1(verdict_sql_identity_in);
PG_FUNCTION_INFO_V1(verdict_sql_identity_out);
PG_FUNCTION_INFO_V1(verdict_sql_identity_recv);
PG_FUNCTION_INFO_V1(verdict_sql_identity_send);
PG_FUNCTION_INFO_V1(verdict_sql_identity_make);
PG_FUNCTION_INFO_V1(verdict_sql_identity_type);
PG_FUNCTION_INFO_V1(verdict_sql_identity_id);

void
verdict_raise_bad_input(const verdict_status *status, const char *type)
{
	int sqlstate = ERRCODE_INVALID_TEXT_REPRESENTATION;

	if (status->cause == VERDICT_CAUSE_MEMORY)
		sqlstate = ERRCODE_OUT_OF_MEMORY;
	else if (status->code == VERDICT_RESOURCE_EXHAUSTED)
		sqlstate = ERRCODE_PROGRAM_LIMIT_EXCEEDED;
	verdict_report_bad_text(status, sqlstate, type);
}

void
verdict_require_identifier(const char *text, size_t size, const char *what)
{
	int shown = pg_mbcliplen(text, (int) size, 64);

	if (verdict_is_identifier(text, size))
		return;
	ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					errmsg("%s \"%.*s%s\" is not an identifier", what, shown, text,
						   (size_t) shown < size ? "..." : ""),
					errdetail("An identifier is an ASCII letter or underscore, followed by "
							  "letters, digits and underscores, 128 characters at most.")));
}

/*
 * Checks a text of the database's encoding and makes the varlena of it.  The
 * text of an identity is its own canonical form.
 */
static Datum
identity_from_text(const char *text, int size)
{
	char *utf8 = verdict_to_utf8(text, size);
	verdict_arena arena;
	verdict_identity identity;
	verdict_status status;

	verdict_status_init(&status);
	verdict_arena_init(&arena, verdict_context_host(), VERDICT_CONTEXT_MAXIMUM);
	if (!verdict_identity_parse(&arena, utf8, strlen(utf8), &identity, &status))
		verdict_raise_bad_input(&status, "verdict_identity");
	verdict_arena_free(&arena);
	pfree(utf8);
	return PointerGetDatum(cstring_to_text_with_len(text, size));
}

verdict_identity
verdict_identity_from_datum(Datum datum)
{
	struct varlena *stored = PG_DETOAST_DATUM_PACKED(datum);
	verdict_identity identity;
	char *text = verdict_to_utf8(VARDATA_ANY(stored), VARSIZE_ANY_EXHDR(stored));
	char *colon = strchr(text, ':');

	if (colon == NULL)
		ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED), errmsg("stored identity has no colon")));
	*colon = '\0';
	identity.type = text;
	identity.id = colon + 1;
	return identity;
}

Datum
verdict_identity_to_datum(const verdict_identity *identity)
{
	char *id = verdict_from_utf8(identity->id);
	size_t type_size = strlen(identity->type);
	size_t id_size = strlen(id);
	text *result = palloc(VARHDRSZ + type_size + 1 + id_size);

	SET_VARSIZE(result, VARHDRSZ + type_size + 1 + id_size);
	memcpy(VARDATA(result), identity->type, type_size);
	VARDATA(result)[type_size] = ':';
	memcpy(VARDATA(result) + type_size + 1, id, id_size);
	return PointerGetDatum(result);
}

Datum
verdict_sql_identity_in(PG_FUNCTION_ARGS)
{
	char *text = PG_GETARG_CSTRING(0);

	return identity_from_text(text, strlen(text));
}

Datum
verdict_sql_identity_out(PG_FUNCTION_ARGS)
{
	PG_RETURN_CSTRING(TextDatumGetCString(PG_GETARG_DATUM(0)));
}

Datum
verdict_sql_identity_recv(PG_FUNCTION_ARGS)
{
	StringInfo message = (StringInfo) PG_GETARG_POINTER(0);
	int size;
	char *text = pq_getmsgtext(message, message->len - message->cursor, &size);

	return identity_from_text(text, size);
}

Datum
verdict_sql_identity_send(PG_FUNCTION_ARGS)
{
	struct varlena *stored = PG_GETARG_VARLENA_PP(0);
	StringInfoData message;

	pq_begintypsend(&message);
	pq_sendtext(&message, VARDATA_ANY(stored), VARSIZE_ANY_EXHDR(stored));
	PG_RETURN_BYTEA_P(pq_endtypsend(&message));
}

/*
 * verdict_identity(type text, id text) and (type text, id anyelement).  A value
 * that is not text goes through its output function, looked up once a call site.
 */
Datum
verdict_sql_identity_make(PG_FUNCTION_ARGS)
{
	struct varlena *type = PG_GETARG_VARLENA_PP(0);
	size_t type_size = VARSIZE_ANY_EXHDR(type);
	FmgrInfo *output = fcinfo->flinfo->fn_extra;
	const char *id;
	size_t id_size;
	text *result;

	if (output == NULL)
	{
		Oid id_type = get_fn_expr_argtype(fcinfo->flinfo, 1);
		Oid function;
		bool is_varlena;

		if (!OidIsValid(id_type))
			ereport(ERROR, (errcode(ERRCODE_INDETERMINATE_DATATYPE),
							errmsg("could not determine the type of the id")));
		getTypeOutputInfo(id_type, &function, &is_varlena);
		output = MemoryContextAlloc(fcinfo->flinfo->fn_mcxt, sizeof(FmgrInfo));
		fmgr_info_cxt(function, output, fcinfo->flinfo->fn_mcxt);
		fcinfo->flinfo->fn_extra = output;
	}
	if (output->fn_oid == F_TEXTOUT)
	{
		struct varlena *text_id = PG_GETARG_VARLENA_PP(1);

		id = VARDATA_ANY(text_id);
		id_size = VARSIZE_ANY_EXHDR(text_id);
	}
	else
	{
		id = OutputFunctionCall(output, PG_GETARG_DATUM(1));
		id_size = strlen(id);
	}

	verdict_require_identifier(VARDATA_ANY(type), type_size, "identity type");
	if (id_size == 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("the id of an identity must not be empty")));
	/* Only there can a stored text lack a form in UTF-8. */
	if (GetDatabaseEncoding() != PG_UTF8)
		pfree(verdict_to_utf8(id, id_size));

	result = palloc(VARHDRSZ + type_size + 1 + id_size);
	SET_VARSIZE(result, VARHDRSZ + type_size + 1 + id_size);
	memcpy(VARDATA(result), VARDATA_ANY(type), type_size);
	VARDATA(result)[type_size] = ':';
	memcpy(VARDATA(result) + type_size + 1, id, id_size);
	PG_RETURN_TEXT_P(result);
}

/* The length of the type in front of the colon of a stored identity. */
static int
stored_type_size(struct varlena *stored)
{
	const char *colon = memchr(VARDATA_ANY(stored), ':', VARSIZE_ANY_EXHDR(stored));

	if (colon == NULL)
		ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED), errmsg("stored identity has no colon")));
	return colon - VARDATA_ANY(stored);
}

Datum
verdict_sql_identity_type(PG_FUNCTION_ARGS)
{
	struct varlena *stored = PG_GETARG_VARLENA_PP(0);

	PG_RETURN_TEXT_P(cstring_to_text_with_len(VARDATA_ANY(stored), stored_type_size(stored)));
}

Datum
verdict_sql_identity_id(PG_FUNCTION_ARGS)
{
	struct varlena *stored = PG_GETARG_VARLENA_PP(0);
	int skipped = stored_type_size(stored) + 1;

	PG_RETURN_TEXT_P(cstring_to_text_with_len(VARDATA_ANY(stored) + skipped,
											  VARSIZE_ANY_EXHDR(stored) - skipped));
}
