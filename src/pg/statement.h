/*
 * statement.h
 *		SQL statements on the extension's own tables.
 *
 * They run as the table's owner, in texts whose names and operators all carry
 * their schema: whoever causes one needs no right on the table, and nothing on his
 * search_path gets to run as its owner.
 */
#ifndef VERDICT_PG_STATEMENT_H
#define VERDICT_PG_STATEMENT_H

#include "verdict.h"

#include "executor/spi.h"

#define VERDICT_STATEMENT_PARAMETERS 12

/*
 * One statement, a static variable of whoever runs it.  The first three are given,
 * the rest is where its plan is kept and starts out as zero.
 */
typedef struct verdict_statement
{
	const char *text; /* %1$s stands for the extension's schema, quoted */
	int parameters;
	Oid types[VERDICT_STATEMENT_PARAMETERS];

	SPIPlanPtr plan;
	Oid relation; /* what it was made for */
	NameData schema;
} verdict_statement;

/* What statements run in. */
typedef struct verdict_statement_call
{
	Oid relation;
	const char *schema;
	Oid user;
	int security;
	bool snapshot;
} verdict_statement_call;

/*
 * A relation of the extension by name, such as "verdict_outbox"; InvalidOid when
 * it does not exist (any more), or when what stands there is not the extension's.
 */
extern Oid verdict_extension_relation(const char *name);

/* The owner of a relation; InvalidOid when there is none (any more). */
extern Oid verdict_relation_owner(Oid relation);

/*
 * Connects to SPI as the owner of a table of the extension, with a snapshot when
 * there was none.  Raises 55000 when the table is not there.  An error between this
 * and verdict_statement_end() needs no care: the (sub)transaction that it ends
 * gives everything back.
 */
extern void verdict_statement_begin(verdict_statement_call *call, const char *table);
extern void verdict_statement_end(const verdict_statement_call *call);

/*
 * Runs a statement with the snapshot that a statement of the caller would get now,
 * and returns SPI_processed; results are in SPI_tuptable.  "nulls" as SPI has it.
 * Raises unless SPI's result is the one expected.
 */
extern uint64
verdict_statement_run(const verdict_statement_call *call, verdict_statement *statement,
					  Datum *values, const char *nulls, int expected);

/* A bytea in the current memory context. */
extern Datum verdict_bytes_datum(const void *bytes, size_t size);

#endif /* VERDICT_PG_STATEMENT_H */
