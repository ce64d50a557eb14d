/*
 * supervisor.h
 *		Who stands above the clients of this backend: what a statement may call,
 *		how long it may wait, and who is told of a call.
 */
#ifndef VERDICT_PG_SUPERVISOR_H
#define VERDICT_PG_SUPERVISOR_H

#include "statistics.h"
#include "verdict.h"

/* One server; belongs to whoever owns its clients, and outlives them. */
typedef struct verdict_supervision
{
	verdict_supervisor supervisor; /* for the options of a client */
	verdict_statistics_server server;
} verdict_supervision;

/* Fills *supervision for a foreign server of the current database.  Raises only
 * for want of memory. */
extern void verdict_supervise(verdict_supervision *supervision, Oid server, const char *name);

#endif /* VERDICT_PG_SUPERVISOR_H */
