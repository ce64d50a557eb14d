/*
 * hook.c
 *		Commands that a worker would be in the way of, or has to hear of.
 *
 * Invariants
 *	- A command that needs a database without users gets it without the worker, and
 *	  the worker comes back when its transaction ends, however it ends: before that
 *	  nobody else sees what it did.
 *	- Nothing here decides whether a command may run; but only for somebody whom it
 *	  could be allowed to is a worker ended.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_database.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "tcop/utility.h"
#include "utils/syscache.h"

#include "shared.h"
#include "worker.h"

static ProcessUtility_hook_type previous_utility = NULL;
static bool wake_at_commit = false;
static bool let_back_at_end = false;

/* The template of CREATE DATABASE, by default template1. */
static const char *
template_of(const CreatedbStmt *create)
{
	ListCell *cell;

	foreach (cell, create->options)
	{
		DefElem *option = lfirst_node(DefElem, cell);

		if (strcmp(option->defname, "template") == 0 && option->arg != NULL)
			return defGetString(option);
	}
	return "template1";
}

static bool
moves_tablespace(const AlterDatabaseStmt *alter)
{
	ListCell *cell;

	foreach (cell, alter->options)
	{
		if (strcmp(lfirst_node(DefElem, cell)->defname, "tablespace") == 0)
			return true;
	}
	return false;
}

/* Whether the current user could make a copy of the database. */
static bool
may_copy(Oid database)
{
	HeapTuple tuple = SearchSysCache1(AUTHOID, ObjectIdGetDatum(GetUserId()));
	bool creates = superuser();
	bool copies = verdict_owns_database(database, GetUserId());

	if (HeapTupleIsValid(tuple))
	{
		creates = creates || ((Form_pg_authid) GETSTRUCT(tuple))->rolcreatedb;
		ReleaseSysCache(tuple);
	}
	tuple = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(database));
	if (HeapTupleIsValid(tuple))
	{
		copies = copies || ((Form_pg_database) GETSTRUCT(tuple))->datistemplate;
		ReleaseSysCache(tuple);
	}
	return creates && copies;
}

/* The database that the command needs for itself, or InvalidOid. */
static Oid
database_needed(Node *command)
{
	const char *name = NULL;
	bool as_template = false;
	Oid database;

	if (IsA(command, DropdbStmt))
		name = ((DropdbStmt *) command)->dbname;
	else if (IsA(command, CreatedbStmt))
	{
		name = template_of((CreatedbStmt *) command);
		as_template = true;
	}
	else if (IsA(command, RenameStmt) && ((RenameStmt *) command)->renameType == OBJECT_DATABASE)
		name = ((RenameStmt *) command)->subname;
	else if (IsA(command, AlterDatabaseStmt) && moves_tablespace((AlterDatabaseStmt *) command))
		name = ((AlterDatabaseStmt *) command)->dbname;

	if (name == NULL || !IsTransactionState() || RecoveryInProgress())
		return InvalidOid;
	database = get_database_oid(name, true);
	if (OidIsValid(database) &&
		(as_template ? may_copy(database) : verdict_owns_database(database, GetUserId())))
		return database;
	return InvalidOid;
}

/* Whether the command can have taken the extension away, once it is committed. */
static bool
may_drop_extension(Node *command)
{
	if (IsA(command, DropOwnedStmt))
		return true;
	if (!IsA(command, DropStmt))
		return false;
	switch (((DropStmt *) command)->removeType)
	{
		case OBJECT_EXTENSION:
		case OBJECT_SCHEMA:
		case OBJECT_FDW:
			return true;
		default:
			return false;
	}
}

static bool
ends_prepared(Node *command)
{
	return IsA(command, TransactionStmt) &&
		   (((TransactionStmt *) command)->kind == TRANS_STMT_COMMIT_PREPARED ||
			((TransactionStmt *) command)->kind == TRANS_STMT_ROLLBACK_PREPARED);
}

static void
transaction_ended(XactEvent event, void *argument)
{
	(void) argument;
	if (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT && event != XACT_EVENT_PREPARE)
		return;
	if (wake_at_commit && event == XACT_EVENT_COMMIT)
		verdict_shared_wake();
	if (let_back_at_end)
		verdict_shared_let_back();
	wake_at_commit = false;
	let_back_at_end = false;
}

/* Only backends that run such a command are told of the ends of transactions. */
static void
listen_to_end(void)
{
	static bool registered = false;

	if (!registered)
		RegisterXactCallback(transaction_ended, NULL);
	registered = true;
}

static void
run_utility(PlannedStmt *statement, const char *text, bool read_only_tree,
			ProcessUtilityContext context, ParamListInfo parameters, QueryEnvironment *environment,
			DestReceiver *destination, QueryCompletion *completion)
{
	if (previous_utility != NULL)
		previous_utility(statement, text, read_only_tree, context, parameters, environment,
						 destination, completion);
	else
		standard_ProcessUtility(statement, text, read_only_tree, context, parameters, environment,
								destination, completion);
}

static void
utility(PlannedStmt *statement, const char *text, bool read_only_tree,
		ProcessUtilityContext context, ParamListInfo parameters, QueryEnvironment *environment,
		DestReceiver *destination, QueryCompletion *completion)
{
	Node *command = statement->utilityStmt;
	Oid database = database_needed(command);
	/* The tree may be gone when the command is over. */
	bool prepared = ends_prepared(command);
	bool drops = may_drop_extension(command);

	if (OidIsValid(database))
	{
		listen_to_end();
		let_back_at_end = true;
		verdict_shared_keep_away(database);
	}
	run_utility(statement, text, read_only_tree, context, parameters, environment, destination,
				completion);
	if (prepared)
		verdict_shared_wake();
	if (drops)
	{
		listen_to_end();
		wake_at_commit = true;
	}
}

void
verdict_hook_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;
	previous_utility = ProcessUtility_hook;
	ProcessUtility_hook = utility;
}
