/*
 * trigger.c
 *		verdict_emit_fact(): keeps a fact for each row of a table.
 *
 * What the trigger's arguments mean is decided once a statement and kept in
 * fn_extra, which lives as long as the statement has the table open: nobody can
 * change the table's columns while its trigger events wait.  Below a partitioned
 * table each partition's trigger has its own.
 */
#include "verdict.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/pg_trigger.h"
#include "memory.h"
#include "statement.h"
#include "storage/bufmgr.h"
#include "trigger_table.h"
#include "utils/fmgroids.h"
#include "utils/snapmgr.h"

PG_FUNCTION_INFO_V1(verdict_sql_emit_fact);

/* What is kept for a trigger on a table. */
typedef struct emit_cache
{
	Oid trigger;
	Oid table;
	Oid role;
	verdict_fact_template *source;
	verdict_buffer before; /* the facts of the row at hand */
	verdict_buffer after;
	verdict_emission emission;
} emit_cache;

static void
refuse_truncate(const TriggerData *data)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("cannot truncate table \"%s\"", RelationGetRelationName(data->tg_relation)),
			 errdetail("TRUNCATE does not look at the rows, so their facts would stay."),
			 errhint("Use DELETE.")));
}

static void
check_trigger(const TriggerData *data)
{
	TriggerEvent event = data->tg_event;
	const char *missing = NULL;

	if (!TRIGGER_FIRED_AFTER(event))
		ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
						errmsg("trigger \"%s\" must be fired AFTER", data->tg_trigger->tgname),
						errdetail("verdict_emit_fact() sends what has happened to a row.")));
	if (TRIGGER_FIRED_FOR_ROW(event))
		return;
	if (!TRIGGER_FIRED_BY_INSERT(event) && data->tg_oldtable == NULL)
		missing = "OLD";
	if (!TRIGGER_FIRED_BY_DELETE(event) && data->tg_newtable == NULL)
		missing = "NEW";
	if (missing != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("trigger \"%s\" has no %s TABLE", data->tg_trigger->tgname, missing),
				 errdetail("FOR EACH STATEMENT, verdict_emit_fact() takes the rows from the "
						   "transition tables."),
				 errhint("Add REFERENCING %s TABLE AS a_name, or make it FOR EACH ROW.", missing)));
}

/*
 * The table that a trigger was made on: a partition's trigger is a copy of one on
 * the partitioned table.
 */
static Oid
defining_table(Relation relation, Oid trigger)
{
	Oid table = RelationGetRelid(relation);
	Relation catalog;

	if (!relation->rd_rel->relispartition)
		return table;

	catalog = table_open(TriggerRelationId, AccessShareLock);
	while (OidIsValid(trigger))
	{
		ScanKeyData key;
		SysScanDesc scan;
		HeapTuple tuple;

		ScanKeyInit(&key, Anum_pg_trigger_oid, BTEqualStrategyNumber, F_OIDEQ,
					ObjectIdGetDatum(trigger));
		scan = systable_beginscan(catalog, TriggerOidIndexId, true, NULL, 1, &key);
		tuple = systable_getnext(scan);
		if (!HeapTupleIsValid(tuple))
			elog(ERROR, "cache lookup failed for trigger %u", trigger);
		table = ((Form_pg_trigger) GETSTRUCT(tuple))->tgrelid;
		trigger = ((Form_pg_trigger) GETSTRUCT(tuple))->tgparentid;
		systable_endscan(scan);
	}
	table_close(catalog, AccessShareLock);
	return table;
}

/*
 * It acts as the owner of the table that the trigger was made on: that role has
 * decided which rows are facts, and one UPDATE that moves a row between partitions
 * of different owners is one role's change.
 */
static emit_cache *
get_cache(FmgrInfo *function, const TriggerData *data)
{
	emit_cache *cache = function->fn_extra;
	MemoryContext caller;

	if (cache != NULL && cache->trigger == data->tg_trigger->tgoid &&
		cache->table == RelationGetRelid(data->tg_relation))
		return cache;

	check_trigger(data);
	caller = MemoryContextSwitchTo(function->fn_mcxt);
	cache = palloc(sizeof(emit_cache));
	cache->trigger = data->tg_trigger->tgoid;
	cache->table = RelationGetRelid(data->tg_relation);
	cache->role = verdict_relation_owner(defining_table(data->tg_relation, cache->trigger));
	cache->source = verdict_template_parse(data->tg_trigger, data->tg_relation);
	verdict_buffer_init(&cache->before, verdict_context_host(), VERDICT_CONTEXT_MAXIMUM);
	verdict_buffer_init(&cache->after, verdict_context_host(), VERDICT_CONTEXT_MAXIMUM);
	verdict_emission_init(&cache->emission, cache->role, caller);
	MemoryContextSwitchTo(caller);
	function->fn_extra = cache;
	return cache;
}

static bool
encode_row(emit_cache *cache, TupleTableSlot *row, verdict_buffer *encoded)
{
	const verdict_fact *fact = verdict_template_fill(cache->source, row);

	if (fact != NULL)
		verdict_emission_encode(&cache->emission, fact, encoded);
	return fact != NULL;
}

static bool
same_fact(const verdict_buffer *left, const verdict_buffer *right)
{
	return left->size == right->size && memcmp(left->bytes, right->bytes, left->size) == 0;
}

/*
 * Whether the row has been changed or deleted again in this transaction: by a trigger
 * that fired before this one, whose change has been emitted already, or, for a deferred
 * trigger, by a later statement.  Only tables of the heap tell; a row that another
 * trigger has copied does not, and may be.
 */
static bool
is_outdated(Relation table, TupleTableSlot *row)
{
	BufferHeapTupleTableSlot *stored = (BufferHeapTupleTableSlot *) row;

	if (!TTS_IS_BUFFERTUPLE(row))
		return false;
	if (!BufferIsValid(stored->buffer))
		return true;
	/* Nobody else can end the row yet, so that its page need not be locked to see that nobody has. */
	return (stored->base.tuple->t_data->t_infomask & HEAP_XMAX_INVALID) == 0 &&
		   !table_tuple_satisfies_snapshot(table, row, SnapshotSelf);
}

/* Encodes the fact of what has become of a row; false when there is none. */
static bool
encode_latest(emit_cache *cache, Relation table, const TupleTableSlot *row, verdict_buffer *encoded)
{
	TableScanDesc scan = table_beginscan_tid(table, SnapshotSelf);
	TupleTableSlot *latest = table_slot_create(table, NULL);
	ItemPointerData place = row->tts_tid;
	bool has;

	table_tuple_get_latest_tid(scan, &place);
	table_endscan(scan);
	has = table_tuple_fetch_row_version(table, &place, SnapshotSelf, latest) &&
		  encode_row(cache, latest, encoded);
	ExecDropSingleTupleTableSlot(latest);
	return has;
}

/*
 * The fact before goes and the fact after comes, in this order, so that the last event
 * of a row leaves the row's fact.  An outdated row's own fact would be left behind, as
 * its end has been emitted before its beginning; where it is also the fact before, that
 * end was this one's, too.
 *
 * The server calls in a memory context that it resets before each row.
 */
static void
emit_row(const TriggerData *data, emit_cache *cache)
{
	bool updated = TRIGGER_FIRED_BY_UPDATE(data->tg_event);
	TupleTableSlot *row = updated ? data->tg_newslot : data->tg_trigslot;
	bool had = false;
	bool has = false;

	if (!TRIGGER_FIRED_BY_INSERT(data->tg_event))
		had = encode_row(cache, data->tg_trigslot, &cache->before);
	if (!TRIGGER_FIRED_BY_DELETE(data->tg_event))
	{
		has = encode_row(cache, row, &cache->after);
		if (!(had && has && same_fact(&cache->before, &cache->after)) &&
			is_outdated(data->tg_relation, row))
			has = encode_latest(cache, data->tg_relation, row, &cache->after);
	}
	if (had && has && same_fact(&cache->before, &cache->after))
		return;

	cache->emission.scratch = CurrentMemoryContext;
	if (had)
		verdict_emission_add(&cache->emission, false, &cache->before);
	if (has)
		verdict_emission_add(&cache->emission, true, &cache->after);
	verdict_emission_finish(&cache->emission);
}

Datum
verdict_sql_emit_fact(PG_FUNCTION_ARGS)
{
	const TriggerData *data = (const TriggerData *) fcinfo->context;
	emit_cache *cache;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
						errmsg("verdict_emit_fact() must be called as a trigger")));
	if (TRIGGER_FIRED_BY_TRUNCATE(data->tg_event))
		refuse_truncate(data);

	cache = get_cache(fcinfo->flinfo, data);
	if (TRIGGER_FIRED_FOR_ROW(data->tg_event))
		emit_row(data, cache);
	else
		verdict_emit_table(data, cache->source, cache->role);
	return PointerGetDatum(NULL);
}
