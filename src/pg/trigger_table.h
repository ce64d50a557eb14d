/*
 * trigger_table.h
 *		From rows to changes: what the row trigger and the statement trigger share,
 *		and the statement trigger's way through its transition tables.
 */
#ifndef VERDICT_PG_TRIGGER_TABLE_H
#define VERDICT_PG_TRIGGER_TABLE_H

#include "verdict.h"

#include "commands/trigger.h"
#include "trigger_template.h"

/* So many changes are handed over together: the batch_size of a server by default. */
#define VERDICT_EMIT_CHANGES 1000

/* Changes on their way, encoded one after the other. */
typedef struct verdict_emission
{
	Oid role;			   /* whose user mapping they are sent with */
	MemoryContext context; /* of what it holds */
	MemoryContext scratch; /* of what handing them over takes */
	verdict_status status; /* of the encoder; clean unless it failed */
	int count;
	uint32 sizes[VERDICT_EMIT_CHANGES];
	verdict_buffer elements;
} verdict_emission;

/* Prepares an empty one; what it holds, and facts, are allocated in the current context. */
extern void verdict_emission_init(verdict_emission *emission, Oid role, MemoryContext scratch);

/* Makes a buffer of verdict_context_host() hold a fact, encoded, and nothing else. */
extern void verdict_emission_encode(verdict_emission *emission, const verdict_fact *fact,
									verdict_buffer *encoded);

/* Adds a change of an encoded fact; hands over what is there when it is much. */
extern void
verdict_emission_add(verdict_emission *emission, bool insert, const verdict_buffer *encoded);

/* Hands over what is there. */
extern void verdict_emission_finish(verdict_emission *emission);

/*
 * The changes that the transition tables of a statement make.  Deletes come before
 * all inserts, and a fact that rows had before and have after an UPDATE is in
 * neither, so that the end is right whatever the order of the rows.  Memory is
 * bounded by work_mem.
 */
extern void verdict_emit_table(const TriggerData *data, verdict_fact_template *source, Oid role);

#endif /* VERDICT_PG_TRIGGER_TABLE_H */
