/*
 * reconcile.c
 *		verdict_reconcile_facts(): what the tables say and what the instance holds,
 *		side by side.
 *
 * Both sides become sorted texts of facts, and one pass over both finds what
 * differs; memory stays within work_mem, whatever their number.
 *
 * Invariants
 *	- The instance is listed first and the query runs after that, on a snapshot of
 *	  its own.  A change that reaches the instance and is committed between the two
 *	  is seen by the query at least, so what it makes differ is repaired to what the
 *	  query has seen: a fact deleted meanwhile is not brought back.
 *	- Nothing is sent before everything is compared.  From then on no code of the
 *	  user runs.
 *	- The repair is made of immediate changes of the role that called, at the server
 *	  that was listed, whatever the query has made of the settings.
 */
#include "reconcile.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "change.h"
#include "error.h"
#include "executor/spi.h"
#include "executor/tuptable.h"
#include "fact.h"
#include "funcapi.h"
#include "identity.h"
#include "memory.h"
#include "miscadmin.h"
#include "read.h"
#include "server.h"
#include "storage/ipc.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/tuplestore.h"
#include "utils/typcache.h"

PG_FUNCTION_INFO_V1(verdict_sql_reconcile_facts);

/* The columns of the result. */
enum
{
	COLUMN_FACT,
	COLUMN_DIFFERENCE,
	COLUMN_REPAIRED,
	COLUMNS
};

/* How many rows or facts go by between two words about the progress. */
#define TELL_EVERY 256

/* Where a batch ends: at a number of changes, or at a size of their texts. */
typedef struct batch_meter
{
	int batch_size;
	int changes;
	size_t bytes;
} batch_meter;

/* What is left of one side, in order, each text once. */
typedef struct side
{
	Tuplesortstate *sort;
	struct varlena *text; /* NULL after the last */
} side;

void
verdict_reconcile_tell(const verdict_reconcile *call)
{
	if ((call->progress.facts + call->progress.rows) % TELL_EVERY == 0)
		verdict_reconcile_progress_report(call->place, &call->progress);
}

static void
enter_phase(verdict_reconcile *call, verdict_reconcile_phase phase)
{
	call->progress.phase = phase;
	verdict_reconcile_progress_report(call->place, &call->progress);
}

/* Sets a setting until the nest level that the caller has begun ends. */
static void
set_for_now(const char *name, const char *value)
{
	(void) set_config_option(name, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0,
							 false);
}

static Tuplesortstate *
begin_sort(void)
{
	TypeCacheEntry *type = lookup_type_cache(BYTEAOID, TYPECACHE_LT_OPR);

	/* Half of it each: there are two. */
	return verdict_sort_datums(BYTEAOID, type->lt_opr, Max(work_mem / 2, 64), false);
}

static void
take_held(void *argument, const verdict_fact *fact)
{
	verdict_reconcile *call = argument;

	if (fact->count != (size_t) call->arguments)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("the query has another number of columns than facts of predicate \"%s\" "
						"have arguments",
						call->predicate),
				 errdetail("Columns: %d; arguments of a fact that the instance holds: %d.",
						   call->arguments, (int) fact->count),
				 errhint("The columns of the query are the arguments of the facts, in order.")));
	tuplesort_putdatum(call->held, verdict_fact_to_datum(fact), false);
	call->progress.facts++;
	verdict_reconcile_tell(call);
}

/* Lists what the instance holds: the writer's word, since a replica may be behind. */
static void
list_held(verdict_reconcile *call)
{
	verdict_fact pattern = {call->predicate, 0, NULL};
	verdict_read read;

	verdict_read_begin(VERDICT_CONSISTENCY_AUTHORITATIVE, &read);
	verdict_each_fact(&read, &pattern, take_held, call);
}

/* Fills both sorts. */
static void
gather(verdict_reconcile *call, const char *text)
{
	verdict_reconcile_query *query;
	int nesting = NewGUCNestLevel();

	/* Rows that a policy hides would be taken for facts that should not be. */
	set_for_now("row_security", "off");
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	query = verdict_reconcile_prepare(call, text);
	enter_phase(call, VERDICT_RECONCILE_LISTING);
	list_held(call);
	enter_phase(call, VERDICT_RECONCILE_QUERYING);
	verdict_reconcile_run(query);
	SPI_finish();
	AtEOXact_GUC(true, nesting);
}

static int
compare_texts(const struct varlena *left, const struct varlena *right)
{
	size_t left_size = VARSIZE_ANY_EXHDR(left);
	size_t right_size = VARSIZE_ANY_EXHDR(right);
	int order = memcmp(VARDATA_ANY(left), VARDATA_ANY(right), Min(left_size, right_size));

	if (order != 0)
		return order;
	return left_size < right_size ? -1 : left_size > right_size;
}

/* Goes on to the next text that is another one. */
static void
advance(side *side)
{
	struct varlena *before = side->text;
	bool same;

	do
	{
		Datum datum;

		CHECK_FOR_INTERRUPTS();
		side->text = verdict_sort_next(side->sort, &datum) ? PG_DETOAST_DATUM_PACKED(datum) : NULL;
		same = before != NULL && side->text != NULL && compare_texts(before, side->text) == 0;
		if (same)
			pfree(side->text);
	} while (same);
	if (before != NULL)
		pfree(before);
}

/* Counts a change; true when a batch of those before it has to be sent first. */
static bool
batch_is_full(batch_meter *meter, size_t bytes)
{
	bool full = meter->changes == meter->batch_size ||
				(meter->changes > 0 && meter->bytes + bytes > VERDICT_BATCH_BYTES);

	if (full)
	{
		meter->changes = 0;
		meter->bytes = 0;
	}
	meter->changes++;
	meter->bytes += bytes;
	return full;
}

/*
 * Writes what differs to the result, in order.  The rows say "repaired" when they
 * will be: unless all of them are, the call fails and nobody sees them.
 */
static void
compare(verdict_reconcile *call, Tuplestorestate *result, TupleDesc descriptor, bool repair,
		int batch_size)
{
	Datum missing = CStringGetTextDatum("missing");
	Datum surplus = CStringGetTextDatum("surplus");
	batch_meter meter = {batch_size, 0, 0};
	side held = {call->held, NULL};
	side asked = {call->asked, NULL};

	tuplesort_performsort(call->held);
	tuplesort_performsort(call->asked);
	advance(&held);
	advance(&asked);
	while (held.text != NULL || asked.text != NULL)
	{
		int order = held.text == NULL	 ? 1
					: asked.text == NULL ? -1
										 : compare_texts(held.text, asked.text);

		if (order != 0)
		{
			side *only = order < 0 ? &held : &asked;
			Datum values[COLUMNS];
			bool nulls[COLUMNS] = {false};

			values[COLUMN_FACT] = PointerGetDatum(only->text);
			values[COLUMN_DIFFERENCE] = order < 0 ? surplus : missing;
			values[COLUMN_REPAIRED] = BoolGetDatum(repair);
			tuplestore_putvalues(result, descriptor, values, nulls);
			if (repair && (batch_is_full(&meter, VARSIZE_ANY_EXHDR(only->text)) ||
						   call->progress.batches == 0))
				call->progress.batches++;
			if (++call->progress.differences % TELL_EVERY == 0)
				verdict_reconcile_progress_report(call->place, &call->progress);
		}
		if (order <= 0)
			advance(&held);
		if (order >= 0)
			advance(&asked);
	}
	tuplesort_end(call->held);
	tuplesort_end(call->asked);
}

static void
say_how_far(void *argument)
{
	const verdict_reconcile *call = argument;

	errcontext("repair of predicate \"%s\": %llu of %llu differences were repaired before",
			   call->predicate, (unsigned long long) call->progress.repaired,
			   (unsigned long long) call->progress.differences);
}

/* The batch that a repair is making, encoded. */
typedef struct repair_batch
{
	verdict_buffer elements;
	uint32 *sizes; /* of each element */
	int count;
	MemoryContext context; /* of both */
	MemoryContext scratch; /* reset after each fact and each batch */
} repair_batch;

static void
begin_repair(repair_batch *batch, int batch_size)
{
	batch->context =
		AllocSetContextCreate(CurrentMemoryContext, "verdict repair", ALLOCSET_DEFAULT_SIZES);
	batch->scratch =
		AllocSetContextCreate(batch->context, "verdict repaired fact", ALLOCSET_DEFAULT_SIZES);
	verdict_buffer_init(&batch->elements, verdict_context_host(), VERDICT_CONTEXT_MAXIMUM);
	batch->sizes = MemoryContextAlloc(batch->context, batch_size * sizeof(uint32));
	batch->count = 0;
}

static void
add_change(repair_batch *batch, bool insert, Datum fact)
{
	MemoryContext caller = MemoryContextSwitchTo(batch->scratch);
	size_t before = batch->elements.size;
	verdict_buffer bare;
	verdict_status status;
	bool encoded;

	verdict_status_init(&status);
	verdict_buffer_init(&bare, verdict_context_host(), VERDICT_CONTEXT_MAXIMUM);
	encoded = verdict_encode_bare_fact(&bare, verdict_fact_from_datum(fact), &status);
	MemoryContextSwitchTo(batch->context);
	if (!encoded ||
		!verdict_encode_change(&batch->elements, insert, bare.bytes, bare.size, &status))
		verdict_report_change_failure(&status, "change the facts");
	batch->sizes[batch->count++] = (uint32) (batch->elements.size - before);
	MemoryContextSwitchTo(caller);
	MemoryContextReset(batch->scratch);
}

static void
send_batch(verdict_reconcile *call, repair_batch *batch)
{
	MemoryContext caller = MemoryContextSwitchTo(batch->scratch);

	verdict_change_elements(call->role, batch->elements.bytes, batch->sizes, batch->count);
	MemoryContextSwitchTo(caller);
	MemoryContextReset(batch->scratch);
	call->progress.repaired += batch->count;
	call->progress.batches_sent++;
	verdict_reconcile_progress_report(call->place, &call->progress);
	verdict_buffer_reset(&batch->elements);
	batch->count = 0;
}

/* Sends what the result lists, of which there is something. */
static void
repair_all(verdict_reconcile *call, Tuplestorestate *result, TupleDesc descriptor, int batch_size)
{
	TupleTableSlot *slot = MakeSingleTupleTableSlot(descriptor, &TTSOpsMinimalTuple);
	ErrorContextCallback context = {error_context_stack, say_how_far, call};
	batch_meter meter = {batch_size, 0, 0};
	repair_batch batch;

	error_context_stack = &context;
	begin_repair(&batch, batch_size);
	while (tuplestore_gettupleslot(result, true, false, slot))
	{
		Datum fact;
		text *difference;

		CHECK_FOR_INTERRUPTS();
		slot_getallattrs(slot);
		fact = slot->tts_values[COLUMN_FACT];
		difference = DatumGetTextPP(slot->tts_values[COLUMN_DIFFERENCE]);
		if (batch_is_full(&meter, VARSIZE_ANY_EXHDR(DatumGetPointer(fact))))
			send_batch(call, &batch);
		add_change(&batch, VARDATA_ANY(difference)[0] == 'm', fact);
	}
	send_batch(call, &batch);
	error_context_stack = context.previous;
	tuplestore_rescan(result);
	ExecDropSingleTupleTableSlot(slot);
	MemoryContextDelete(batch.context);
}

static void
require_fit_transaction(void)
{
	/*
	 * The query would see the changes, and facts would be made of them that a
	 * rollback leaves.
	 */
	if (GetCurrentCommandId(false) != FirstCommandId)
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("cannot repair facts in a transaction that has changed something"),
				 errdetail("The repair is sent at once, and would stay if the transaction were "
						   "rolled back."),
				 errhint("Call verdict_reconcile_facts() in a transaction of its own.")));
	if (IsolationUsesXactSnapshot())
		ereport(
			ERROR,
			(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
			 errmsg("cannot repair facts in a transaction above isolation level READ COMMITTED"),
			 errdetail("Its snapshot is older than the list of facts would be: a fact whose row "
					   "was deleted between the two would be brought back."),
			 errhint("Call verdict_reconcile_facts() under READ COMMITTED.")));
	if (verdict_setting_idempotency_key != NULL && verdict_setting_idempotency_key[0] != '\0')
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot repair facts under a key of verdict.idempotency_key"),
				 errdetail("What a repair sends depends on what it finds, so a second one is not "
						   "a repetition of the first."),
				 errhint("A repair can be run again without a key.")));
}

/* Settings that decide where and how a repair goes; until the nest level ends. */
static void
set_for_repair(const verdict_reconcile *call)
{
	set_for_now("verdict.server", call->server);
	set_for_now("verdict.mutation_mode", "immediate");
	set_for_now("verdict.idempotency_key", "");
}

/* What a repair needs, before anything is read; returns the size of a batch. */
static int
prepare_repair(const verdict_reconcile *call)
{
	int nesting = NewGUCNestLevel();
	int batch_size;

	require_fit_transaction();
	set_for_repair(call);
	batch_size = verdict_change_prepare(call->role);
	AtEOXact_GUC(true, nesting);
	return batch_size;
}

static void
reconcile(verdict_reconcile *call, const char *query, bool repair, Tuplestorestate *result,
		  TupleDesc descriptor)
{
	int batch_size = repair ? prepare_repair(call) : 0;

	call->held = begin_sort();
	call->asked = begin_sort();
	gather(call, query);
	/* A function of the query may have changed something. */
	if (repair)
		require_fit_transaction();
	enter_phase(call, VERDICT_RECONCILE_COMPARING);
	compare(call, result, descriptor, repair, batch_size);
	if (repair && call->progress.differences > 0)
	{
		int nesting = NewGUCNestLevel();

		enter_phase(call, VERDICT_RECONCILE_REPAIRING);
		set_for_repair(call);
		repair_all(call, result, descriptor, batch_size);
		AtEOXact_GUC(true, nesting);
	}
}

static void
leave_place(int code, Datum place)
{
	(void) code;
	verdict_reconcile_progress_end(DatumGetInt32(place));
}

Datum
verdict_sql_reconcile_facts(PG_FUNCTION_ARGS)
{
	verdict_reconcile call = {0};
	Tuplestorestate *result;
	TupleDesc descriptor;
	char *query;

	verdict_require_argument(fcinfo, 0, "predicate");
	verdict_require_argument(fcinfo, 1, "query");
	verdict_require_argument(fcinfo, 2, "repair");
	call.predicate = verdict_text_argument(fcinfo, 0);
	verdict_require_identifier(call.predicate, strlen(call.predicate), "predicate");
	query = text_to_cstring(PG_GETARG_TEXT_PP(1));
	call.server = pstrdup(verdict_server_name());
	call.role = GetUserId();
	if (get_call_result_type(fcinfo, NULL, &descriptor) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	result = verdict_begin_set(fcinfo, descriptor);

	call.place = verdict_reconcile_progress_start(verdict_server_find(call.server, call.role)->oid,
												  call.predicate);
	PG_ENSURE_ERROR_CLEANUP(leave_place, Int32GetDatum(call.place));
	{
		reconcile(&call, query, PG_GETARG_BOOL(2), result, descriptor);
	}
	PG_END_ENSURE_ERROR_CLEANUP(leave_place, Int32GetDatum(call.place));
	verdict_reconcile_progress_end(call.place);
	PG_RETURN_NULL();
}
