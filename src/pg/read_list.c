/*
 * read_list.c
 *		The functions that list: resources, actors, actions and facts.
 *
 * A list is complete or it is an error: a cut answer, a row that stands for
 * every value, a circle of pages.
 */
#include "postgres.h"

#include "access/tupdesc.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/tuplestore.h"

#include "decision.h"
#include "error.h"
#include "fact.h"
#include "identity.h"
#include "read.h"
#include "scope.h"
#include "transaction.h"

PG_FUNCTION_INFO_V1(verdict_sql_list_resources);
PG_FUNCTION_INFO_V1(verdict_sql_list_actors);
PG_FUNCTION_INFO_V1(verdict_sql_list_actions);
PG_FUNCTION_INFO_V1(verdict_sql_list_facts);

/* The result of a function that returns a set of one scalar type. */
static Tuplestorestate *
begin_scalar_set(FunctionCallInfo fcinfo, Oid type, TupleDesc *descriptor)
{
	*descriptor = CreateTemplateTupleDesc(1);
	TupleDescInitEntry(*descriptor, 1, NULL, type, -1, 0);
	return verdict_begin_set(fcinfo, *descriptor);
}

static void
identity_term(verdict_term *term, FunctionCallInfo fcinfo, int number)
{
	term->kind = VERDICT_TERM_VALUE;
	term->as.value.kind = VERDICT_VALUE_IDENTITY;
	term->as.value.as.identity = verdict_identity_from_datum(PG_GETARG_DATUM(number));
}

static void
action_term(verdict_term *term, FunctionCallInfo fcinfo, int number)
{
	term->kind = VERDICT_TERM_VALUE;
	term->as.value.kind = VERDICT_VALUE_STRING;
	term->as.value.as.string = verdict_action_argument(fcinfo, number);
}

static void
typed_term(verdict_term *term, const char *name, FunctionCallInfo fcinfo, int number,
		   const char *what)
{
	char *type = verdict_text_argument(fcinfo, number);

	verdict_require_identifier(type, strlen(type), what);
	term->kind = VERDICT_TERM_VARIABLE;
	term->as.variable.name = name;
	term->as.variable.type = type;
}

/*
 * Answers allow(arguments), one of which is a variable; "what" names in the
 * plural what it stands for.  Identities are given by their ids, as the caller
 * named their type.  Returns how many there are.
 */
static size_t
list_bindings(FunctionCallInfo fcinfo, verdict_term *arguments, const verdict_variable *variable,
			  const char *what, int consistency_argument)
{
	verdict_fact pattern = {"allow", 3, arguments};
	verdict_read read;
	verdict_status status;
	verdict_rows *rows;
	const verdict_value *value;
	Tuplestorestate *store;
	TupleDesc descriptor;
	MemoryContext row_context;
	MemoryContext caller;
	size_t count = 0;
	int more;

	verdict_read_start(fcinfo, consistency_argument, &read);
	store = begin_scalar_set(fcinfo, TEXTOID, &descriptor);
	row_context =
		AllocSetContextCreate(CurrentMemoryContext, "verdict list row", ALLOCSET_DEFAULT_SIZES);
	rows = verdict_read_query(&read, &pattern, &status);

	caller = MemoryContextSwitchTo(row_context);
	while ((more = verdict_rows_next(rows, &value, &status)) > 0)
	{
		Datum datum;
		bool is_null = false;
		const char *text;

		CHECK_FOR_INTERRUPTS();
		verdict_check_binding(variable, value);
		if (value->kind == VERDICT_VALUE_ANY)
			ereport(ERROR, (errcode(ERRCODE_CARDINALITY_VIOLATION),
							errmsg("the policy allows all %s, which no list can hold", what),
							errhint("Check the values at hand with verdict_authorize(), or use "
									"verdict_query(), which gives NULL for \"every value\".")));
		if (value->kind == VERDICT_VALUE_IDENTITY && variable->type[0] != '\0')
			text = value->as.identity.id;
		else if (value->kind == VERDICT_VALUE_STRING)
			text = value->as.string;
		else
			ereport(
				ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("the policy allows a value that is not a string where an action stands"),
				 errhint("Use verdict_query() to see it.")));
		datum = CStringGetTextDatum(verdict_from_utf8(text));
		tuplestore_putvalues(store, descriptor, &datum, &is_null);
		MemoryContextReset(row_context);
		count++;
	}
	MemoryContextSwitchTo(caller);
	verdict_release_rows(rows);
	if (more < 0)
		verdict_report_failure(&status, "read the answer of the query");
	MemoryContextDelete(row_context);
	return count;
}

Datum
verdict_sql_list_resources(PG_FUNCTION_ARGS)
{
	verdict_term arguments[3];
	verdict_question question;
	size_t count;

	verdict_require_argument(fcinfo, 0, "actor");
	verdict_require_argument(fcinfo, 1, "action");
	verdict_require_argument(fcinfo, 2, "resource_type");
	question = verdict_question_arguments(fcinfo);
	identity_term(&arguments[0], fcinfo, 0);
	action_term(&arguments[1], fcinfo, 1);
	typed_term(&arguments[2], "resource", fcinfo, 2, "resource type");
	count = list_bindings(fcinfo, arguments, &arguments[2].as.variable, "resources", 3);
	verdict_decisions_listed(&question, count);
	PG_RETURN_NULL();
}

Datum
verdict_sql_list_actors(PG_FUNCTION_ARGS)
{
	verdict_term arguments[3];

	verdict_require_argument(fcinfo, 0, "action");
	verdict_require_argument(fcinfo, 1, "resource");
	verdict_require_argument(fcinfo, 2, "actor_type");
	typed_term(&arguments[0], "actor", fcinfo, 2, "actor type");
	action_term(&arguments[1], fcinfo, 0);
	identity_term(&arguments[2], fcinfo, 1);
	list_bindings(fcinfo, arguments, &arguments[0].as.variable, "actors", 3);
	PG_RETURN_NULL();
}

Datum
verdict_sql_list_actions(PG_FUNCTION_ARGS)
{
	verdict_term arguments[3];

	verdict_require_argument(fcinfo, 0, "actor");
	verdict_require_argument(fcinfo, 1, "resource");
	identity_term(&arguments[0], fcinfo, 0);
	arguments[1].kind = VERDICT_TERM_VARIABLE;
	arguments[1].as.variable.name = "action";
	arguments[1].as.variable.type = "";
	identity_term(&arguments[2], fcinfo, 1);
	list_bindings(fcinfo, arguments, &arguments[1].as.variable, "actions", 2);
	PG_RETURN_NULL();
}

/*
 * The token of the next page, and a token seen some pages before.  An instance
 * whose tokens go round in a circle would be asked for ever; keeping the token
 * of every page number that is a power of two finds a circle of any length
 * (Brent's method).
 */
typedef struct page_walk
{
	uint64 page;
	void *token; /* palloc'd; NULL before the first page */
	size_t size;
	void *kept; /* palloc'd */
	size_t kept_size;
} page_walk;

/* Takes over the token of the page just read; false when it was the last. */
static bool
next_page(page_walk *walk, const verdict_rows *rows)
{
	size_t size;
	const void *token = verdict_rows_next_token(rows, &size);

	if (size == 0)
		return false;
	if (walk->kept != NULL && walk->kept_size == size && memcmp(walk->kept, token, size) == 0)
		ereport(ERROR, (errcode(ERRCODE_PROTOCOL_VIOLATION),
						errmsg("the instance gave the same page of facts again"),
						errdetail("Its page tokens go round in a circle.")));

	if (walk->token != NULL)
		pfree(walk->token);
	walk->token = memcpy(palloc(size), token, size);
	walk->size = size;
	walk->page++;
	if ((walk->page & (walk->page - 1)) == 0)
	{
		if (walk->kept != NULL)
			pfree(walk->kept);
		walk->kept = memcpy(palloc(size), token, size);
		walk->kept_size = size;
	}
	return true;
}

void
verdict_each_fact(verdict_read *read, const verdict_fact *pattern,
				  void (*take)(void *argument, const verdict_fact *fact), void *argument)
{
	page_walk walk = {0};
	MemoryContext fact_context =
		AllocSetContextCreate(CurrentMemoryContext, "verdict listed fact", ALLOCSET_DEFAULT_SIZES);
	bool is_last;

	do
	{
		verdict_rows *rows;
		const verdict_fact *fact;
		verdict_status status;
		MemoryContext caller;
		bool answered;
		int more;

		CHECK_FOR_INTERRUPTS();
		answered = verdict_client_list_facts(read->client, read->session, pattern, 0, walk.token,
											 walk.size, &read->options, &rows, &status);
		verdict_scope_end(read, &status);
		if (!answered)
			verdict_report_failure(&status, "list facts");
		verdict_hold_rows(rows);

		caller = MemoryContextSwitchTo(fact_context);
		while ((more = verdict_rows_next_fact(rows, &fact, &status)) > 0)
		{
			CHECK_FOR_INTERRUPTS();
			take(argument, fact);
			MemoryContextReset(fact_context);
		}
		MemoryContextSwitchTo(caller);
		if (more < 0)
		{
			verdict_release_rows(rows);
			verdict_report_failure(&status, "read the list of facts");
		}
		is_last = !next_page(&walk, rows);
		verdict_release_rows(rows);
	} while (!is_last);

	MemoryContextDelete(fact_context);
}

/* Where listed facts go. */
typedef struct fact_set
{
	Tuplestorestate *store;
	TupleDesc descriptor;
} fact_set;

static void
put_fact(void *argument, const verdict_fact *fact)
{
	fact_set *set = argument;
	Datum datum = verdict_fact_to_datum(fact);
	bool is_null = false;

	tuplestore_putvalues(set->store, set->descriptor, &datum, &is_null);
}

Datum
verdict_sql_list_facts(PG_FUNCTION_ARGS)
{
	const verdict_fact *pattern = NULL;
	verdict_read read;
	fact_set set;

	if (!PG_ARGISNULL(0))
		pattern = verdict_fact_from_datum(PG_GETARG_DATUM(0));
	verdict_read_start(fcinfo, 1, &read);
	set.store = begin_scalar_set(fcinfo, get_func_rettype(fcinfo->flinfo->fn_oid), &set.descriptor);
	verdict_each_fact(&read, pattern, put_fact, &set);
	PG_RETURN_NULL();
}
