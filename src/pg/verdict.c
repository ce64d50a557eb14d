/*
 * verdict.c
 *		Module load and settings.
 *
 * Nothing here touches libcurl or starts anything: the library may be loaded by
 * the postmaster, and every backend makes its own runtime at its first call.
 * A check hook may run without a transaction and without a database.
 */
#include "verdict.h"

#include "decision.h"
#include "read_ahead.h"
#include "reconcile_progress.h"
#include "running.h"
#include "shared.h"
#include "statistics.h"
#include "transaction.h"
#include "utils/guc.h"
#include "worker.h"

#ifdef PG_MODULE_MAGIC_EXT
PG_MODULE_MAGIC_EXT(.name = "verdict", .version = VERDICT_VERSION);
#else
PG_MODULE_MAGIC;
#endif

extern PGDLLEXPORT void _PG_init(void);

/* Which instance: the name of a foreign server; the user mapping has the key. */
char *verdict_setting_server = NULL;

/* What a session of a transaction starts with. */
int verdict_setting_consistency = VERDICT_CONSISTENCY_SESSION;

/* When changes are sent. */
int verdict_setting_mutation_mode = VERDICT_MODE_DEFERRED;

/*
 * Whom verdict_actor() names.  An application sets it for each request; it
 * proves nothing by itself, whoever may write SQL may set it.
 */
char *verdict_setting_actor = NULL;
uint64 verdict_setting_actor_changes = 0;

/* A revision of another session, to start this transaction's session from. */
char *verdict_setting_revision = NULL;

/* Where sessions start from: nowhere, or what this database has committed. */
int verdict_setting_session_scope = VERDICT_SCOPE_TRANSACTION;

/* A check without an answer: an error, or a warning and "no". */
int verdict_setting_on_failure = VERDICT_ON_FAILURE_ERROR;

/*
 * The application's own name for what a transaction does: done once under it,
 * changes are not made again.  Only its hash is stored (ledger.c).
 */
char *verdict_setting_idempotency_key = NULL;

/* How long COMMIT waits for the worker. */
int verdict_setting_commit_wait = 0;

/* A statement that would make more calls fails instead. */
int verdict_setting_statement_call_limit = 0;

/* What an administrator wants to read of in the server's log. */
int verdict_setting_log_min_call_duration = -1;

#define COMMITTED_REVISION "verdict.committed_revision"
static char *committed_revision = NULL;

/* Whether a list may be asked for in place of many single checks. */
bool verdict_setting_prefetch = true;

static const struct config_enum_entry consistencies[] = {
	{"session", VERDICT_CONSISTENCY_SESSION, false},
	{"eventual", VERDICT_CONSISTENCY_EVENTUAL, false},
	{"authoritative", VERDICT_CONSISTENCY_AUTHORITATIVE, false},
	{NULL, 0, false},
};

static const struct config_enum_entry mutation_modes[] = {
	{"deferred", VERDICT_MODE_DEFERRED, false},
	{"outbox", VERDICT_MODE_OUTBOX, false},
	{"immediate", VERDICT_MODE_IMMEDIATE, false},
	{NULL, 0, false},
};

static const struct config_enum_entry session_scopes[] = {
	{"transaction", VERDICT_SCOPE_TRANSACTION, false},
	{"database", VERDICT_SCOPE_DATABASE, false},
	{NULL, 0, false},
};

static const struct config_enum_entry on_failures[] = {
	{"error", VERDICT_ON_FAILURE_ERROR, false},
	{"deny", VERDICT_ON_FAILURE_DENY, false},
	{NULL, 0, false},
};

/*
 * Without a database the value's encoding is not known, so only what is ASCII in
 * every encoding is looked at; verdict_actor() checks the rest.
 */
static bool
check_actor(char **value, void **extra, GucSource source)
{
	const char *colon;

	(void) extra;
	(void) source;
	if (*value == NULL || (*value)[0] == '\0')
		return true;
	colon = strchr(*value, ':');
	if (colon == NULL || colon[1] == '\0' ||
		!verdict_is_identifier(*value, (size_t) (colon - *value)))
	{
		GUC_check_errdetail("An identity is written Type:id, such as User:alice.");
		return false;
	}
	return true;
}

static void
assign_actor(const char *value, void *extra)
{
	(void) value;
	(void) extra;
	verdict_setting_actor_changes++;
}

static bool
check_revision(char **value, void **extra, GucSource source)
{
	verdict_revision revision;

	(void) extra;
	(void) source;
	if (*value == NULL || (*value)[0] == '\0')
		return true;
	if (!verdict_revision_parse(*value, strlen(*value), &revision))
	{
		GUC_check_errdetail("A revision is what verdict_revision() has returned.");
		return false;
	}
	return true;
}

/*
 * A key names one operation: as the default of a role, a database, a function or
 * the whole cluster it would make every transaction but the first do nothing.
 */
static bool
check_idempotency_key(char **value, void **extra, GucSource source)
{
	(void) extra;
	if (*value == NULL || (*value)[0] == '\0')
		return true;
	if (source < PGC_S_CLIENT || source == PGC_S_TEST)
	{
		GUC_check_errdetail("An idempotency key names one operation and cannot be a default.");
		GUC_check_errhint("Set it in the transaction that it names, with SET LOCAL.");
		return false;
	}
	if (!verdict_key_valid(*value))
	{
		GUC_check_errdetail("An idempotency key is 1 to %d visible ASCII characters.",
							VERDICT_KEY_MAX);
		return false;
	}
	return true;
}

void
verdict_report_revision(const char *revision)
{
	if (committed_revision != NULL && strcmp(committed_revision, revision) == 0)
		return;
	/* Below ERROR, also for exhausted memory: the transaction is committed. */
	(void) set_config_option(COMMITTED_REVISION, revision, PGC_INTERNAL, PGC_S_OVERRIDE,
							 GUC_ACTION_SET, true, WARNING, false);
}

void
_PG_init(void)
{
	DefineCustomStringVariable(
		"verdict.server", "The foreign server that stands for the Verdict instance.",
		"A server of foreign-data wrapper verdict; the current user needs USAGE on it and a user "
		"mapping.",
		&verdict_setting_server, "", PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable("verdict.consistency",
							 "How fresh the answers of a transaction's session are.", NULL,
							 &verdict_setting_consistency, VERDICT_CONSISTENCY_SESSION,
							 consistencies, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable(
		"verdict.mutation_mode", "When changes are sent to the Verdict instance.",
		"deferred: just before commit, or before a read that has to see them; outbox: after "
		"commit, "
		"by a worker; immediate: in the call itself, and a rollback does not take them back.",
		&verdict_setting_mutation_mode, VERDICT_MODE_DEFERRED, mutation_modes, PGC_USERSET, 0, NULL,
		NULL, NULL);
	DefineCustomIntVariable(
		"verdict.commit_wait", "How long COMMIT waits for the answers to its outbox batches.",
		"0: not at all. COMMIT succeeds whatever the answers are.", &verdict_setting_commit_wait, 0,
		0, 60000, PGC_USERSET, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomStringVariable(
		COMMITTED_REVISION, "The revision that covers the last transaction that used Verdict.",
		"Set by COMMIT and reported to the client; empty when it is not known.",
		&committed_revision, "", PGC_INTERNAL,
		GUC_REPORT | GUC_NOT_IN_SAMPLE | GUC_DISALLOW_IN_FILE, NULL, NULL, NULL);
	DefineCustomStringVariable("verdict.actor", "The identity that verdict_actor() returns.",
							   "Such as User:alice; empty for none.", &verdict_setting_actor, "",
							   PGC_USERSET, 0, check_actor, assign_actor, NULL);
	DefineCustomStringVariable(
		"verdict.revision", "The revision that a transaction's session starts from.",
		"What verdict_revision() has returned in another session; empty for none.",
		&verdict_setting_revision, "", PGC_USERSET, 0, check_revision, NULL, NULL);
	DefineCustomEnumVariable(
		"verdict.session_scope", "What a transaction's session knows at its start.",
		"transaction: nothing but verdict.revision; database: all that this database has "
		"committed, "
		"its first read waits until that is answered.",
		&verdict_setting_session_scope, VERDICT_SCOPE_TRANSACTION, session_scopes, PGC_USERSET, 0,
		NULL, NULL, NULL);
	DefineCustomEnumVariable(
		"verdict.on_failure", "What a check does when the instance gives no answer.",
		"error: it fails; deny: it warns and answers false.", &verdict_setting_on_failure,
		VERDICT_ON_FAILURE_ERROR, on_failures, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable(
		"verdict.statement_call_limit", "The most calls of Verdict that one statement may make.",
		"0: as many as it wants. Beyond it the statement fails.",
		&verdict_setting_statement_call_limit, 0, 0, INT_MAX, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable(
		"verdict.log_min_call_duration", "The calls of Verdict that the server's log tells of.",
		"Those that took at least as long; 0: all, -1: none. No facts are logged.",
		&verdict_setting_log_min_call_duration, -1, -1, INT_MAX, PGC_SUSET, GUC_UNIT_MS, NULL, NULL,
		NULL);
	DefineCustomStringVariable(
		"verdict.idempotency_key", "The application's key for the changes of this transaction.",
		"Changes made once under a key are not made again; empty for none.",
		&verdict_setting_idempotency_key, "", PGC_USERSET, GUC_NOT_IN_SAMPLE | GUC_DISALLOW_IN_FILE,
		check_idempotency_key, NULL, NULL);
	DefineCustomBoolVariable("verdict.prefetch",
							 "Asks for the list of what is allowed in place of many single checks.",
							 "Off: each resource is checked by a call of its own.",
							 &verdict_setting_prefetch, true, PGC_USERSET, 0, NULL, NULL, NULL);
	MarkGUCPrefixReserved("verdict");

	verdict_transaction_init();
	verdict_shared_init();
	verdict_launcher_register();
	verdict_hook_init();
	verdict_reconcile_progress_init();
	verdict_statistics_init();
	verdict_running_init();
	verdict_decision_init();
	verdict_read_ahead_init();
}
