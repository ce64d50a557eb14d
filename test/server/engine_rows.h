/*
 * engine_rows.h
 *		The rows of one Query answer: a set, rows with an any value first, cut at
 *		a limit.
 */
#ifndef VERDICT_SERVER_ENGINE_ROWS_H
#define VERDICT_SERVER_ENGINE_ROWS_H

#include "pool.h"
#include "store.h"

typedef struct row_list
{
	value_id *values; /* count times width */
	size_t count;
	size_t room;
	uint32_t *table;   /* rows by hash, index + 1, 0 = free slot */
	size_t table_size; /* a power of two */
} row_list;

typedef struct row_set
{
	pool *pool;	  /* owns everything here */
	size_t width; /* values a row */
	size_t limit;
	/* Each holds up to limit + 1, enough to know of a cut. */
	row_list any; /* rows with an any value */
	row_list specific;
} row_set;

/* Adds a row unless it is there. */
extern void row_set_add(row_set *set, const value_id *row);
/* True when more rows than the limit are known. */
extern bool row_set_truncated(const row_set *set);
/* How many rows the answer has, and the row at an index. */
extern size_t row_set_count(const row_set *set);
extern const value_id *row_set_row(const row_set *set, size_t index);

#endif /* VERDICT_SERVER_ENGINE_ROWS_H */
