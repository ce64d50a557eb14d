/*
 * compat.h
 *		What differs between PostgreSQL 14 and 18, as one spelling each.
 *
 * The only file of the PostgreSQL side that asks for the server's version.
 */
#ifndef VERDICT_PG_COMPAT_H
#define VERDICT_PG_COMPAT_H

#include "postgres.h"

#include "access/xlog.h"
#include "catalog/pg_database.h"
#include "catalog/pg_foreign_server.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/extensible.h"
#include "nodes/pathnodes.h"
#include "optimizer/planner.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "utils/acl.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/tuplesort.h"
#include "utils/wait_event.h"
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#include "storage/waiteventset.h"
#endif

#if PG_VERSION_NUM < 140000 || PG_VERSION_NUM >= 190000
#error "verdict is written for PostgreSQL 14 to 18"
#endif

/* 18 spells it as a prefix. */
#ifndef pg_attribute_noreturn
#define pg_attribute_noreturn() __attribute__((noreturn))
#endif

#if PG_VERSION_NUM < 150000
#define MarkGUCPrefixReserved(prefix) EmitWarningsOnPlaceholders(prefix)
#endif

/*
 * From _PG_init: has shared memory asked for by "own", which calls "*previous" when
 * that is set.  14 takes the request at once, later ones by a hook.
 */
#if PG_VERSION_NUM < 150000
typedef void (*shmem_request_hook_type)(void);
#endif

static inline void
verdict_request_shared_memory(shmem_request_hook_type own, shmem_request_hook_type *previous)
{
#if PG_VERSION_NUM >= 150000
	*previous = shmem_request_hook;
	shmem_request_hook = own;
#else
	*previous = NULL;
	own();
#endif
}

/* Sends what is counted in pg_stat_*_tables, as far as the version lets it. */
static inline void
verdict_report_statistics(void)
{
#if PG_VERSION_NUM >= 150000
	pgstat_report_stat(true);
#else
	pgstat_report_stat(false);
#endif
}

/* Not in recovery the timeline never changes; 14 sets it with the answer. */
static inline TimeLineID
verdict_current_timeline(void)
{
#if PG_VERSION_NUM >= 150000
	return GetWALInsertionTimeLine();
#else
	(void) RecoveryInProgress();
	return ThisTimeLineID;
#endif
}

static inline AclResult
verdict_server_aclcheck(Oid server, Oid role)
{
#if PG_VERSION_NUM >= 160000
	return object_aclcheck(ForeignServerRelationId, server, role, ACL_USAGE);
#else
	return pg_foreign_server_aclcheck(server, role, ACL_USAGE);
#endif
}

static inline bool
verdict_owns_database(Oid database, Oid role)
{
#if PG_VERSION_NUM >= 160000
	return object_ownercheck(DatabaseRelationId, database, role);
#else
	return pg_database_ownercheck(database, role);
#endif
}

/* The index of a table's primary key, or InvalidOid. */
static inline Oid
verdict_primary_key(Relation table)
{
#if PG_VERSION_NUM >= 180000
	return RelationGetPrimaryKeyIndex(table, false);
#else
	return RelationGetPrimaryKeyIndex(table);
#endif
}

/* A set that lives as long as the process. */
static inline WaitEventSet *
verdict_wait_set_create(int size)
{
#if PG_VERSION_NUM >= 170000
	return CreateWaitEventSet(NULL, size);
#else
	return CreateWaitEventSet(TopMemoryContext, size);
#endif
}

/* The parameters of ExecutorRun(), and how they are handed on. */
#if PG_VERSION_NUM >= 180000
#define VERDICT_RUN_PARAMETERS QueryDesc *queryDesc, ScanDirection direction, uint64 count
#define VERDICT_RUN_ARGUMENTS queryDesc, direction, count
#else
#define VERDICT_RUN_PARAMETERS                                                                     \
	QueryDesc *queryDesc, ScanDirection direction, uint64 count, bool execute_once
#define VERDICT_RUN_ARGUMENTS queryDesc, direction, count, execute_once
#endif

/* Plans a query within another; the caller makes the plan of its cheapest path. */
static inline PlannerInfo *
verdict_plan_subquery(PlannerInfo *root, Query *query)
{
#if PG_VERSION_NUM >= 170000
	return subquery_planner(root->glob, query, root, false, 0, NULL);
#else
	return subquery_planner(root->glob, query, root, false, 0);
#endif
}

/* What pg_stat_activity shows; before 17 an extension has no names of its own. */
static inline uint32
verdict_wait_event_new(const char *name)
{
#if PG_VERSION_NUM >= 170000
	return WaitEventExtensionNew(name);
#else
	(void) name;
	return PG_WAIT_EXTENSION;
#endif
}

/* A sort of datums without a collation; "again": it can be read more than once. */
static inline Tuplesortstate *
verdict_sort_datums(Oid type, Oid less, int memory, bool again)
{
#if PG_VERSION_NUM >= 150000
	return tuplesort_begin_datum(type, less, InvalidOid, false, memory, NULL,
								 again ? TUPLESORT_RANDOMACCESS : TUPLESORT_NONE);
#else
	return tuplesort_begin_datum(type, less, InvalidOid, false, memory, NULL, again);
#endif
}

/* The next of them, a copy in the current context; false after the last. */
static inline bool
verdict_sort_next(Tuplesortstate *sort, Datum *datum)
{
	bool is_null;

#if PG_VERSION_NUM >= 160000
	return tuplesort_getdatum(sort, true, true, datum, &is_null, NULL);
#else
	return tuplesort_getdatum(sort, true, datum, &is_null, NULL);
#endif
}

/* 14 takes it for granted. */
#ifndef CUSTOMPATH_SUPPORT_PROJECTION
#define CUSTOMPATH_SUPPORT_PROJECTION 0
#endif

/* That a kind of scan was switched off is in the cost before 18. */
static inline void
verdict_copy_disabled(Path *path, const Path *from)
{
#if PG_VERSION_NUM >= 180000
	path->disabled_nodes = from->disabled_nodes;
#else
	(void) path;
	(void) from;
#endif
}

#endif /* VERDICT_PG_COMPAT_H */
