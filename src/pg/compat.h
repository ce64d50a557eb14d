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
#include "catalog/pg_foreign_server.h"
#include "fmgr.h"
#include "storage/latch.h"
#include "utils/acl.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/tuplesort.h"
#include "utils/wait_event.h"
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif
#if PG_VERSION_NUM >= 180000
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

/* A sort of datums that can be read more than once; without a collation. */
static inline Tuplesortstate *
verdict_sort_datums(Oid type, Oid less, int memory)
{
#if PG_VERSION_NUM >= 150000
	return tuplesort_begin_datum(type, less, InvalidOid, false, memory, NULL,
								 TUPLESORT_RANDOMACCESS);
#else
	return tuplesort_begin_datum(type, less, InvalidOid, false, memory, NULL, true);
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

#endif /* VERDICT_PG_COMPAT_H */
