/*
 * statistics.h
 *		What became of the calls of each server, and the retry budget of each.
 *
 * In shared memory, for all backends, when the library was preloaded
 * (shared_preload_libraries); else in this backend, for this backend.  Nothing here
 * raises but the SQL functions.
 */
#ifndef VERDICT_PG_STATISTICS_H
#define VERDICT_PG_STATISTICS_H

#include "verdict.h"

/*
 * Times are counted in VERDICT_TIME_BUCKETS: the first is for less than 64
 * microseconds, each other for less than twice what the one before is for, the
 * last for all the rest, which is from 33.6 seconds on.
 */
#define VERDICT_TIME_BUCKETS 21

/* One server, as a backend finds it again; belongs to whoever counts. */
typedef struct verdict_statistics_server
{
	Oid database;
	Oid server;
	char name[NAMEDATALEN];
	int slot;
} verdict_statistics_server;

/* From _PG_init: asks for shared memory while libraries are preloaded. */
extern void verdict_statistics_init(void);

/* Fills *server for a foreign server of the current database. */
extern void verdict_statistics_open(verdict_statistics_server *server, Oid oid, const char *name);

/*
 * The retry budget of a server, locked by a spinlock until
 * verdict_statistics_unlock(): only a few instructions may come between.
 */
extern verdict_retry_budget *verdict_statistics_lock_budget(verdict_statistics_server *server);
extern void verdict_statistics_unlock_budget(verdict_statistics_server *server);

/* Counts a call. */
extern void
verdict_statistics_count(verdict_statistics_server *server, const verdict_call_report *report);

#endif /* VERDICT_PG_STATISTICS_H */
