/*
 * session.c
 *		The SQL functions of sessions, and of what this module is.
 *
 * A session belongs to a transaction and a server (transaction.c); every function
 * here is about the one with verdict.server, and starts it when there is none.
 */
#include "verdict.h"

#include "access/htup_details.h"
#include "error.h"
#include "funcapi.h"
#include "identity.h"
#include "memory.h"
#include "read.h"
#include "transaction.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(verdict_sql_session);
PG_FUNCTION_INFO_V1(verdict_sql_new_session);
PG_FUNCTION_INFO_V1(verdict_sql_revision);
PG_FUNCTION_INFO_V1(verdict_sql_observe);
PG_FUNCTION_INFO_V1(verdict_sql_actor);
PG_FUNCTION_INFO_V1(verdict_sql_version);

/* The observed revision as a text Datum; false when there is none. */
static bool
observed_revision(const verdict_session *session, Datum *revision)
{
	char text[VERDICT_REVISION_MAX_TEXT + 1];

	if (session->observed.shards == 0)
		return false;
	verdict_revision_print(&session->observed, text);
	*revision = CStringGetTextDatum(text);
	return true;
}

Datum
verdict_sql_session(PG_FUNCTION_ARGS)
{
	verdict_transaction_server *server = verdict_transaction_current();
	const verdict_session *session = verdict_transaction_session_with(server);
	TupleDesc descriptor;
	Datum values[6];
	bool nulls[6] = {false};

	if (get_call_result_type(fcinfo, NULL, &descriptor) != TYPEFUNC_COMPOSITE ||
		descriptor->natts != lengthof(values))
		elog(ERROR, "verdict_session() is declared in another way than its code expects");

	values[0] = CStringGetTextDatum(session->id);
	values[1] = CStringGetTextDatum(verdict_consistency_name(session->consistency));
	values[2] = (Datum) 0;
	nulls[2] = !observed_revision(session, &values[2]);
	values[3] = BoolGetDatum(session->inconsistent);
	values[4] = Int64GetDatum((int64) verdict_transaction_changes());
	values[5] = Int64GetDatum((int64) verdict_pending_changes(&server->pending));
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(descriptor), values, nulls)));
}

Datum
verdict_sql_new_session(PG_FUNCTION_ARGS)
{
	char *id = NULL;
	verdict_consistency consistency = VERDICT_CONSISTENCY_DEFAULT;

	if (!PG_ARGISNULL(0))
		id = verdict_text_argument(fcinfo, 0);
	if (!PG_ARGISNULL(1))
		consistency = verdict_consistency_argument(fcinfo, 1);
	verdict_transaction_new_session(id, consistency);
	PG_RETURN_TEXT_P(cstring_to_text(verdict_transaction_session()->id));
}

Datum
verdict_sql_revision(PG_FUNCTION_ARGS)
{
	Datum revision;

	if (!observed_revision(verdict_transaction_session(), &revision))
		PG_RETURN_NULL();
	return revision;
}

Datum
verdict_sql_observe(PG_FUNCTION_ARGS)
{
	verdict_status status;

	verdict_require_argument(fcinfo, 0, "revision");
	verdict_status_init(&status);
	if (!verdict_session_observe(verdict_transaction_session(), verdict_text_argument(fcinfo, 0),
								 &status))
		verdict_report_failure(&status, "observe the revision");
	PG_RETURN_VOID();
}

/* What one call site of verdict_actor() returned first. */
typedef struct actor_site
{
	uint64 setting; /* verdict_setting_actor_changes then */
	Datum actor;
} actor_site;

static Datum
make_actor(const char *setting)
{
	verdict_arena arena;
	verdict_identity identity;
	verdict_status status;
	char *text = verdict_to_utf8(setting, (int) strlen(setting));
	Datum actor;

	verdict_status_init(&status);
	verdict_arena_init(&arena, verdict_context_host(), VERDICT_CONTEXT_MAXIMUM);
	if (!verdict_identity_parse(&arena, text, strlen(text), &identity, &status))
		verdict_report_bad_text(&status, ERRCODE_INVALID_PARAMETER_VALUE, "verdict.actor");
	actor = verdict_identity_to_datum(&identity);
	verdict_arena_free(&arena);
	pfree(text);
	return actor;
}

/*
 * NULL when nobody is set: no check is true for NULL.  A policy calls this for each
 * row, so the first answer of a call site is kept for it; should the setting
 * change under it, later ones are made each time, since the first may be in use.
 */
Datum
verdict_sql_actor(PG_FUNCTION_ARGS)
{
	actor_site *site = fcinfo->flinfo->fn_extra;

	if (verdict_setting_actor == NULL || verdict_setting_actor[0] == '\0')
		PG_RETURN_NULL();
	if (site == NULL)
	{
		MemoryContext caller = MemoryContextSwitchTo(fcinfo->flinfo->fn_mcxt);

		site = palloc(sizeof(*site));
		site->setting = verdict_setting_actor_changes;
		site->actor = make_actor(verdict_setting_actor);
		fcinfo->flinfo->fn_extra = site;
		MemoryContextSwitchTo(caller);
	}
	if (site->setting == verdict_setting_actor_changes)
		return site->actor;
	return make_actor(verdict_setting_actor);
}

Datum
verdict_sql_version(PG_FUNCTION_ARGS)
{
	(void) fcinfo;
	PG_RETURN_TEXT_P(cstring_to_text(
		psprintf("verdict %s, %s", VERDICT_VERSION, verdict_runtime_libcurl_version())));
}
