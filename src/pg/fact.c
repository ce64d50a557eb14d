/*
 * fact.c
 *		The type verdict_fact: input, output and the way to the core and back.
 *
 * A stored fact is what verdict_fact_print() wrote, in the database's encoding,
 * so that equal facts are equal bytes whatever their author's spacing was.
 */
#include "postgres.h"

#include "fmgr.h"
#include "libpq/pqformat.h"
#include "utils/builtins.h"

#include "error.h"
#include "fact.h"
#include "identity.h"
#include "memory.h"

PG_FUNCTION_INFO_V1(verdict_sql_fact_in);
PG_FUNCTION_INFO_V1(verdict_sql_fact_out);
PG_FUNCTION_INFO_V1(verdict_sql_fact_recv);
PG_FUNCTION_INFO_V1(verdict_sql_fact_send);

/* Parses a text of the database's encoding; the arena's memory stays. */
static const verdict_fact *
parse_fact(const char *text, int size)
{
	verdict_fact *fact = palloc(sizeof(verdict_fact));
	char *utf8 = verdict_to_utf8(text, size);
	verdict_arena arena;
	verdict_status status;

	verdict_status_init(&status);
	verdict_arena_init(&arena, verdict_context_host(), VERDICT_CONTEXT_MAXIMUM);
	if (!verdict_fact_parse(&arena, utf8, strlen(utf8), fact, &status))
		verdict_raise_bad_input(&status, "verdict_fact");
	pfree(utf8);
	return fact;
}

const verdict_fact *
verdict_fact_from_datum(Datum datum)
{
	struct varlena *stored = PG_DETOAST_DATUM_PACKED(datum);

	return parse_fact(VARDATA_ANY(stored), VARSIZE_ANY_EXHDR(stored));
}

Datum
verdict_fact_to_datum(const verdict_fact *fact)
{
	verdict_buffer buffer;
	text *result;

	verdict_buffer_init(&buffer, verdict_context_host(), VERDICT_CONTEXT_MAXIMUM - VARHDRSZ - 1);
	if (!verdict_fact_print(&buffer, fact))
	{
		if (buffer.state == VERDICT_BUFFER_TOO_LARGE)
			ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
							errmsg("fact is too large for a value of type verdict_fact")));
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
	}
	result = cstring_to_text(verdict_from_utf8(buffer.bytes));
	verdict_buffer_free(&buffer);
	return PointerGetDatum(result);
}

char *
verdict_value_to_cstring(const verdict_value *value)
{
	switch (value->kind)
	{
		case VERDICT_VALUE_ANY:
			return NULL;
		case VERDICT_VALUE_IDENTITY:
			return psprintf("%s:%s", value->as.identity.type,
							verdict_from_utf8(value->as.identity.id));
		case VERDICT_VALUE_STRING:
			return verdict_from_utf8(value->as.string);
		case VERDICT_VALUE_INTEGER:
			return psprintf(INT64_FORMAT, value->as.integer);
		case VERDICT_VALUE_BOOLEAN:
			return pstrdup(value->as.boolean ? "true" : "false");
	}
	elog(ERROR, "unrecognized kind of value: %d", (int) value->kind);
	return NULL; /* keep compiler quiet */
}

Datum
verdict_sql_fact_in(PG_FUNCTION_ARGS)
{
	char *text = PG_GETARG_CSTRING(0);

	return verdict_fact_to_datum(parse_fact(text, strlen(text)));
}

Datum
verdict_sql_fact_out(PG_FUNCTION_ARGS)
{
	PG_RETURN_CSTRING(TextDatumGetCString(PG_GETARG_DATUM(0)));
}

Datum
verdict_sql_fact_recv(PG_FUNCTION_ARGS)
{
	StringInfo message = (StringInfo) PG_GETARG_POINTER(0);
	int size;
	char *text = pq_getmsgtext(message, message->len - message->cursor, &size);

	return verdict_fact_to_datum(parse_fact(text, size));
}

Datum
verdict_sql_fact_send(PG_FUNCTION_ARGS)
{
	struct varlena *stored = PG_GETARG_VARLENA_PP(0);
	StringInfoData message;

	pq_begintypsend(&message);
	pq_sendtext(&message, VARDATA_ANY(stored), VARSIZE_ANY_EXHDR(stored));
	PG_RETURN_BYTEA_P(pq_endtypsend(&message));
}
