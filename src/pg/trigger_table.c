/*
 * trigger_table.c
 *		From rows to changes.
 *
 * An INSERT inserts the facts of its new rows, a DELETE deletes those of its old
 * ones.  An UPDATE has both: deleted is what old rows had and no new row has,
 * inserted is what new rows have and no old row had.  That is exact also where
 * rows exchange their facts, or where one row gives up a fact that another keeps.
 *
 * The two tables of an UPDATE hold its rows in one order, so most of what stays
 * the same is found by going through both side by side; what is left is sorted.
 * Nothing depends on the order but the speed: a row without its partner counts as
 * changed.
 */
#include "trigger_table.h"

#include "catalog/pg_type.h"
#include "change.h"
#include "error.h"
#include "executor/executor.h"
#include "lib/bloomfilter.h"
#include "memory.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/tuplesort.h"
#include "utils/tuplestore.h"
#include "utils/typcache.h"

/* Enough to be sent or queued in one go. */
#define EMIT_BYTES (256 * 1024)

void
verdict_emission_init(verdict_emission *emission, Oid role, MemoryContext scratch)
{
	emission->role = role;
	emission->context = CurrentMemoryContext;
	emission->scratch = scratch;
	emission->count = 0;
	verdict_status_init(&emission->status);
	verdict_buffer_init(&emission->elements, verdict_context_host(), VERDICT_CONTEXT_MAXIMUM);
}

void
verdict_emission_encode(verdict_emission *emission, const verdict_fact *fact,
						verdict_buffer *encoded)
{
	MemoryContext caller = MemoryContextSwitchTo(emission->context);

	verdict_buffer_reset(encoded);
	if (!verdict_encode_bare_fact(encoded, fact, &emission->status))
		verdict_report_change_failure(&emission->status, "change the facts");
	MemoryContextSwitchTo(caller);
}

void
verdict_emission_add(verdict_emission *emission, bool insert, const verdict_buffer *encoded)
{
	MemoryContext caller = MemoryContextSwitchTo(emission->context);
	size_t before = emission->elements.size;

	if (!verdict_encode_change(&emission->elements, insert, encoded->bytes, encoded->size,
							   &emission->status))
		verdict_report_change_failure(&emission->status, "change the facts");
	emission->sizes[emission->count++] = (uint32) (emission->elements.size - before);
	MemoryContextSwitchTo(caller);
	if (emission->count == VERDICT_EMIT_CHANGES || emission->elements.size >= EMIT_BYTES)
		verdict_emission_finish(emission);
}

void
verdict_emission_finish(verdict_emission *emission)
{
	MemoryContext caller;

	if (emission->count == 0)
		return;
	caller = MemoryContextSwitchTo(emission->scratch);
	verdict_change_elements(emission->role, emission->elements.bytes, emission->sizes,
							emission->count);
	MemoryContextSwitchTo(caller);
	emission->count = 0;
	verdict_buffer_reset(&emission->elements);
}

/* One transition table, row after row. */
typedef struct table_reader
{
	Tuplestorestate *store;
	int pointer;
	TupleTableSlot *row;
	bool has_fact; /* the row at hand */
	verdict_buffer fact;
} table_reader;

/* What became of a fact in an UPDATE. */
typedef enum fate
{
	FATE_GONE = 1,
	FATE_CAME = 2,
	FATE_KEPT = 4
} fate;

typedef struct table_work
{
	verdict_fact_template *source;
	MemoryContext scratch;
	table_reader before;
	table_reader after;
	verdict_emission emission;
} table_work;

static void
open_reader(table_reader *reader, Tuplestorestate *store, TupleDesc descriptor)
{
	reader->store = store;
	reader->row = MakeSingleTupleTableSlot(descriptor, &TTSOpsMinimalTuple);
	/* Other triggers read the same table, each with its own. */
	reader->pointer = tuplestore_alloc_read_pointer(store, EXEC_FLAG_REWIND);
	verdict_buffer_init(&reader->fact, verdict_context_host(), VERDICT_CONTEXT_MAXIMUM);
}

static void
rewind_reader(table_reader *reader)
{
	tuplestore_select_read_pointer(reader->store, reader->pointer);
	tuplestore_rescan(reader->store);
}

static void
close_reader(table_reader *reader)
{
	ExecDropSingleTupleTableSlot(reader->row);
	verdict_buffer_free(&reader->fact);
}

/* Goes to the next row and makes its fact; false after the last. */
static bool
read_row(table_work *work, table_reader *reader)
{
	MemoryContext caller;
	const verdict_fact *fact;

	CHECK_FOR_INTERRUPTS();
	reader->has_fact = false;
	tuplestore_select_read_pointer(reader->store, reader->pointer);
	if (!tuplestore_gettupleslot(reader->store, true, false, reader->row))
		return false;

	MemoryContextReset(work->scratch);
	caller = MemoryContextSwitchTo(work->scratch);
	fact = verdict_template_fill(work->source, reader->row);
	MemoryContextSwitchTo(caller);
	reader->has_fact = fact != NULL;
	if (reader->has_fact)
		verdict_emission_encode(&work->emission, fact, &reader->fact);
	return true;
}

static void
emit_rows(table_work *work, table_reader *reader, bool insert)
{
	rewind_reader(reader);
	while (read_row(work, reader))
	{
		if (reader->has_fact)
			verdict_emission_add(&work->emission, insert, &reader->fact);
	}
}

/* Goes to the next row of both tables; false after the last of the longer one. */
static bool
read_pair(table_work *work)
{
	bool before = read_row(work, &work->before);
	bool after = read_row(work, &work->after);

	return before || after;
}

static bool
pair_is_kept(const table_work *work)
{
	const table_reader *before = &work->before;
	const table_reader *after = &work->after;

	return before->has_fact == after->has_fact &&
		   (!before->has_fact ||
			(before->fact.size == after->fact.size &&
			 memcmp(before->fact.bytes, after->fact.bytes, before->fact.size) == 0));
}

/*
 * The facts of pairs that are not kept, for a guess at which kept ones matter; NULL
 * when there is no such pair.
 */
static bloom_filter *
find_changes(table_work *work)
{
	bloom_filter *changed = NULL;
	table_reader *readers[] = {&work->before, &work->after};

	rewind_reader(&work->before);
	rewind_reader(&work->after);
	while (read_pair(work))
	{
		if (pair_is_kept(work))
			continue;
		if (changed == NULL)
			changed = bloom_create(2 * tuplestore_tuple_count(work->before.store), work_mem, 0);
		for (int i = 0; i < 2; i++)
		{
			if (readers[i]->has_fact)
				bloom_add_element(changed, (unsigned char *) readers[i]->fact.bytes,
								  readers[i]->fact.size);
		}
	}
	return changed;
}

static void
sort_fact(table_work *work, Tuplesortstate *sort, const verdict_buffer *fact, fate what)
{
	MemoryContext caller = MemoryContextSwitchTo(work->scratch);
	bytea *key = palloc(VARHDRSZ + fact->size + 1);

	SET_VARSIZE(key, VARHDRSZ + fact->size + 1);
	memcpy(VARDATA(key), fact->bytes, fact->size);
	VARDATA(key)[fact->size] = (char) what;
	MemoryContextSwitchTo(caller);
	tuplesort_putdatum(sort, PointerGetDatum(key), false);
}

/*
 * All facts that the UPDATE has changed, and the kept ones that equal one of them,
 * each with what became of it as the last byte.  The facts of one trigger have the
 * same number of arguments, so that none is the beginning of another one and equal
 * ones stand together.
 */
static Tuplesortstate *
sort_facts(table_work *work, bloom_filter *changed)
{
	TypeCacheEntry *type = lookup_type_cache(BYTEAOID, TYPECACHE_LT_OPR);
	Tuplesortstate *sort = verdict_sort_datums(BYTEAOID, type->lt_opr, work_mem, true);

	rewind_reader(&work->before);
	rewind_reader(&work->after);
	while (read_pair(work))
	{
		const verdict_buffer *before = &work->before.fact;
		const verdict_buffer *after = &work->after.fact;

		if (!pair_is_kept(work))
		{
			if (work->before.has_fact)
				sort_fact(work, sort, before, FATE_GONE);
			if (work->after.has_fact)
				sort_fact(work, sort, after, FATE_CAME);
		}
		else if (work->after.has_fact &&
				 !bloom_lacks_element(changed, (unsigned char *) after->bytes, after->size))
			sort_fact(work, sort, after, FATE_KEPT);
	}
	tuplesort_performsort(sort);
	return sort;
}

/* Emits the facts of which nothing else became than "what". */
static void
emit_sorted(table_work *work, Tuplesortstate *sort, fate what)
{
	verdict_buffer fact;
	int fates = 0;
	Datum datum;

	verdict_buffer_init(&fact, verdict_context_host(), VERDICT_CONTEXT_MAXIMUM);
	while (verdict_sort_next(sort, &datum))
	{
		bytea *key = DatumGetByteaPP(datum);
		size_t size = VARSIZE_ANY_EXHDR(key) - 1;

		CHECK_FOR_INTERRUPTS();
		if (fates == 0 || size != fact.size || memcmp(VARDATA_ANY(key), fact.bytes, size) != 0)
		{
			if (fates == (int) what)
				verdict_emission_add(&work->emission, what == FATE_CAME, &fact);
			fates = 0;
			verdict_buffer_reset(&fact);
			if (!verdict_buffer_append(&fact, VARDATA_ANY(key), size))
				ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
		}
		fates |= (unsigned char) VARDATA_ANY(key)[size];
		pfree(DatumGetPointer(datum));
	}
	if (fates == (int) what)
		verdict_emission_add(&work->emission, what == FATE_CAME, &fact);
	verdict_buffer_free(&fact);
}

static void
emit_update(table_work *work)
{
	bloom_filter *changed = find_changes(work);
	Tuplesortstate *sort;

	if (changed == NULL)
		return;
	sort = sort_facts(work, changed);
	bloom_free(changed);
	emit_sorted(work, sort, FATE_GONE);
	tuplesort_rescan(sort);
	emit_sorted(work, sort, FATE_CAME);
	tuplesort_end(sort);
}

void
verdict_emit_table(const TriggerData *data, verdict_fact_template *source, Oid role)
{
	TupleDesc descriptor = RelationGetDescr(data->tg_relation);
	bool deletes = !TRIGGER_FIRED_BY_INSERT(data->tg_event);
	bool inserts = !TRIGGER_FIRED_BY_DELETE(data->tg_event);
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "verdict transition tables",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(context);
	table_work *work = palloc(sizeof(table_work));

	work->source = source;
	work->scratch = AllocSetContextCreate(context, "verdict row", ALLOCSET_DEFAULT_SIZES);
	verdict_emission_init(&work->emission, role, work->scratch);
	if (deletes)
		open_reader(&work->before, data->tg_oldtable, descriptor);
	if (inserts)
		open_reader(&work->after, data->tg_newtable, descriptor);

	if (deletes && inserts)
		emit_update(work);
	else if (inserts)
		emit_rows(work, &work->after, true);
	else
		emit_rows(work, &work->before, false);
	verdict_emission_finish(&work->emission);

	if (deletes)
		close_reader(&work->before);
	if (inserts)
		close_reader(&work->after);
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(context);
}
