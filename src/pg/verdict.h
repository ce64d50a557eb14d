/*
 * verdict.h
 *		What every file of the PostgreSQL side shares: settings and the rules
 *		for calling the core.
 *
 * Rules
 *	- ereport(ERROR) and CHECK_FOR_INTERRUPTS() run only while no core or libcurl
 *	  frame is on the stack.  The core is called, it returns a status, and then
 *	  verdict_report_failure() raises.
 *	- What the core allocates comes from the host table of wait.h (malloc): it
 *	  outlives a longjmp only if an owner that the transaction's end frees knows
 *	  of it.  Anything held across code that can raise is registered with
 *	  verdict_hold_*() of transaction.h.
 *	- C symbols of SQL functions are prefixed verdict_sql_.
 */
#ifndef VERDICT_PG_VERDICT_H
#define VERDICT_PG_VERDICT_H

#include "postgres.h"

#include "fmgr.h"

#include "../core/client.h"
#include "compat.h"

#define VERDICT_VERSION "1.0"

typedef enum verdict_mutation_mode
{
	VERDICT_MODE_DEFERRED,
	VERDICT_MODE_OUTBOX,
	VERDICT_MODE_IMMEDIATE
} verdict_mutation_mode;

typedef enum verdict_session_scope
{
	VERDICT_SCOPE_TRANSACTION,
	VERDICT_SCOPE_DATABASE
} verdict_session_scope;

typedef enum verdict_on_failure
{
	VERDICT_ON_FAILURE_ERROR,
	VERDICT_ON_FAILURE_DENY
} verdict_on_failure_action;

/* Settings, defined in verdict.c; each is explained there. */
extern char *verdict_setting_server;	  /* verdict.server */
extern int verdict_setting_consistency;	  /* verdict_consistency, never DEFAULT */
extern int verdict_setting_mutation_mode; /* verdict_mutation_mode */
extern char *verdict_setting_actor;		  /* verdict.actor */
extern char *verdict_setting_revision;	  /* verdict.revision */
extern int verdict_setting_commit_wait;	  /* verdict.commit_wait, milliseconds */
extern int verdict_setting_session_scope; /* verdict_session_scope */
extern int verdict_setting_on_failure;	  /* verdict_on_failure_action */
extern bool verdict_setting_prefetch;	  /* verdict.prefetch */

/* Grows when verdict.actor may have changed. */
extern uint64 verdict_setting_actor_changes;

extern int verdict_setting_statement_call_limit; /* 0 for none */

/* Milliseconds; -1 for never. */
extern int verdict_setting_log_min_call_duration;

/* verdict.idempotency_key; "" for none. */
extern char *verdict_setting_idempotency_key;

/*
 * Sets verdict.committed_revision, which goes to the client with the answer to the
 * command that is ending.  Never raises.
 */
extern void verdict_report_revision(const char *revision);

#endif /* VERDICT_PG_VERDICT_H */
