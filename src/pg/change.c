/*
 * change.c
 *		The one way that changes of facts and policy go.
 *
 * A change is a batch that is sent now, or joins the queue of its server, whose
 * batches are sent or written to the outbox later.  Every batch goes the same way:
 * it is numbered, claimed in the ledger when the application has given a key, sent
 * under its idempotency key, counted, and completed in the ledger.
 *
 * Everything that can raise comes before the send; after it, the count comes
 * first.  So a change that was sent is always counted, and what the count knows is
 * what the warning at a rollback says.
 */
#include "change.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "decision.h"
#include "error.h"
#include "ledger.h"
#include "memory.h"
#include "miscadmin.h"
#include "outbox.h"
#include "server.h"
#include "shared.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

/* A batch on its way. */
typedef struct change_batch
{
	verdict_transaction_server *entry;
	Oid role;
	verdict_method method;
	const char *application_key;  /* NULL for none */
	verdict_batch_number *number; /* given when the batch has been tried before */
	const void *payload;
	size_t payload_size;
	uint32 changes;
	const char *action; /* completes "could not ..." */
	unsigned char fingerprint[VERDICT_FINGERPRINT_SIZE];
	char key[VERDICT_KEY_MAX + 1];
	verdict_ledger_entry claim; /* when there is an application key */
} change_batch;

/* Never the same in two processes, whatever else they have in common. */
static uint64
process_number(void)
{
	static bool known = false;
	static uint64 number;

	if (!known && !pg_strong_random(&number, sizeof(number)))
		ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not make a random number")));
	known = true;
	return number;
}

/* Numbers the batch, and derives what names it. */
static void
name_batch(change_batch *batch)
{
	verdict_key_parts parts;
	verdict_status status;

	verdict_transaction_number(batch->number, batch->application_key);
	parts.system_identifier = GetSystemIdentifier();
	parts.timeline = verdict_current_timeline();
	parts.database = MyDatabaseId;
	parts.process = process_number();
	parts.transaction = U64FromFullTransactionId(GetTopFullTransactionId());
	parts.ordinal = batch->number->ordinal;
	parts.method = verdict_method_name(batch->method);
	parts.payload = batch->payload;
	parts.payload_size = batch->payload_size;

	verdict_status_init(&status);
	if (!verdict_key_derive(&parts, batch->key, &status) ||
		!verdict_fingerprint(parts.method, batch->payload, batch->payload_size, batch->fingerprint,
							 &status))
		verdict_report_change_failure(&status, batch->action);
}

/*
 * Claims the batch under the application's key, if it has one.  False when it was
 * made before; *changed is then what it changed, 0 when nobody knows.
 */
static bool
claim_batch(change_batch *batch, uint32 *changed)
{
	char revision[VERDICT_REVISION_MAX_TEXT + 1];
	int64 recorded;
	verdict_status status;

	if (batch->application_key == NULL)
		return true;

	batch->claim.server = batch->entry->name;
	batch->claim.role = batch->role;
	batch->claim.method = batch->method;
	batch->claim.fingerprint = batch->fingerprint;
	verdict_ledger_key(batch->application_key, batch->number->claim, batch->claim.key);
	if (verdict_ledger_claim(&batch->claim, &recorded, revision))
		return true;

	verdict_status_init(&status);
	if (revision[0] != '\0' &&
		!verdict_session_observe(verdict_transaction_session_with(batch->entry), revision, &status))
		verdict_report_failure(&status, "observe the revision of the change that was made before");
	*changed = (uint32) Max(recorded, 0);
	return false;
}

/* Sends the batch; raises unless it was applied.  Returns what it has changed. */
static uint32
send_batch(change_batch *batch)
{
	const verdict_server *server = verdict_server_use(batch->entry->name, batch->role);
	verdict_session *session = verdict_transaction_session_with(batch->entry);
	Oid oid = server->oid;
	uint32 changed;
	verdict_status status;

	batch->entry->direct = true;
	verdict_decisions_forget();
	if (!verdict_client_mutate(server->client, session, batch->method, batch->payload,
							   batch->payload_size, batch->key, 0, &changed, &status))
	{
		if (status.outcome == VERDICT_OUTCOME_MAYBE_APPLIED)
			verdict_transaction_maybe_sent(batch->changes);
		verdict_report_change_failure(&status, batch->action);
	}
	verdict_shared_publish(oid, &session->observed);
	return changed;
}

/* Completes what claim_batch() began. */
static void
record_batch(const change_batch *batch, uint32 changed)
{
	char revision[VERDICT_REVISION_MAX_TEXT + 1];

	if (batch->application_key == NULL)
		return;
	verdict_revision_print(&verdict_transaction_session_with(batch->entry)->observed, revision);
	verdict_ledger_record(&batch->claim, changed, revision);
}

/* The change of one call, in immediate mode. */
static uint32
send_at_once(change_batch *batch)
{
	uint32 changed;

	name_batch(batch);
	if (!claim_batch(batch, &changed))
		return changed;
	changed = send_batch(batch);
	verdict_transaction_sent(GetCurrentTransactionNestLevel(), batch->changes);
	record_batch(batch, changed);
	return changed;
}

/* The head of the queue as a batch on its way. */
static void
take_head(verdict_transaction_server *entry, verdict_pending_batch *head, change_batch *batch)
{
	batch->entry = entry;
	batch->role = head->role;
	batch->method = head->method;
	batch->application_key = head->application_key;
	batch->number = &head->number;
	batch->payload = verdict_pending_payload(&entry->pending, head);
	batch->payload_size = head->size;
	batch->changes = head->changes;
	batch->action =
		head->method == VERDICT_METHOD_SET_POLICY ? "set the policy" : "change the facts";
	name_batch(batch);
}

static void
send_head(verdict_transaction_server *entry, verdict_pending_batch *head)
{
	change_batch batch;
	uint32 changed;

	take_head(entry, head, &batch);
	if (!claim_batch(&batch, &changed))
	{
		verdict_pending_remove(&entry->pending, NULL);
		return;
	}
	changed = send_batch(&batch);
	verdict_pending_remove(&entry->pending, verdict_transaction_sent);
	record_batch(&batch, changed);
}

static void
say_who_delivers(void)
{
	static bool said = false;

	if (said || verdict_shared_active())
		return;
	said = true;
	ereport(NOTICE, (errmsg("no worker delivers the outbox of Verdict"),
					 errdetail("The library verdict is not in shared_preload_libraries."),
					 errhint("Add it there and restart, or deliver with CALL verdict_deliver().")));
}

static void
write_head(verdict_transaction_server *entry, verdict_pending_batch *head)
{
	change_batch batch;
	verdict_outbox_batch row;
	uint32 changed;

	take_head(entry, head, &batch);
	if (claim_batch(&batch, &changed))
	{
		say_who_delivers();
		entry->oid = verdict_server_find(entry->name, batch.role)->oid;
		verdict_shared_announce(entry->oid);
		row.server = entry->name;
		row.role = batch.role;
		row.method = batch.method;
		row.changes = batch.changes;
		row.payload = batch.payload;
		row.payload_size = batch.payload_size;
		row.key = batch.key;
		row.fingerprint = batch.fingerprint;
		row.ledger_key = batch.application_key == NULL ? NULL : batch.claim.key;
		verdict_outbox_write(&row);
		entry->rows++;
		verdict_transaction_row_written();
	}
	verdict_pending_remove(&entry->pending, NULL);
}

/* Sends or writes everything that is pending for a server. */
static void
empty_queue(verdict_transaction_server *entry)
{
	MemoryContext context;
	MemoryContext caller;
	verdict_pending_batch *head = verdict_pending_head(&entry->pending);

	if (head == NULL)
		return;
	verdict_transaction_enter_level();
	context = AllocSetContextCreate(CurrentMemoryContext, "verdict batch", ALLOCSET_DEFAULT_SIZES);
	caller = MemoryContextSwitchTo(context);
	for (; head != NULL; head = verdict_pending_head(&entry->pending))
	{
		if (entry->outbox)
			write_head(entry, head);
		else
			send_head(entry, head);
		MemoryContextReset(context);
	}
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(context);
}

void
verdict_change_flush(verdict_transaction_server *server)
{
	if (!server->outbox)
		empty_queue(server);
}

void
verdict_change_before_commit(bool prepare)
{
	verdict_transaction_server *entry;
	bool pushed = false;

	for (entry = verdict_transaction_servers(); entry != NULL; entry = entry->next)
	{
		if (prepare && !entry->outbox && !verdict_pending_is_empty(&entry->pending))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot PREPARE a transaction with pending changes of Verdict"),
					 errdetail("They would have to be sent before it is known how the transaction "
							   "ends."),
					 errhint("Make the changes with verdict.mutation_mode = outbox.")));
	}

	if (!ActiveSnapshotSet())
	{
		PushActiveSnapshot(GetTransactionSnapshot());
		pushed = true;
	}
	/* What can still be undone goes first. */
	for (entry = verdict_transaction_servers(); entry != NULL; entry = entry->next)
	{
		if (entry->outbox)
			empty_queue(entry);
	}
	for (entry = verdict_transaction_servers(); entry != NULL; entry = entry->next)
	{
		verdict_change_flush(entry);
		verdict_pending_close(&entry->pending);
	}
	if (pushed)
		PopActiveSnapshot();

	entry = verdict_transaction_find(verdict_setting_server);
	if (!prepare && verdict_setting_commit_wait > 0 && verdict_transaction_rows() > 0)
		verdict_shared_expect(U64FromFullTransactionId(GetTopFullTransactionId()),
							  verdict_transaction_rows(), entry == NULL ? InvalidOid : entry->oid);
}

/* Says it in SQL's terms, before anything depends on the server. */
static void
require_ground(const verdict_fact *fact)
{
	if (!verdict_fact_is_ground(fact))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("a pattern cannot be inserted or deleted"),
						errdetail("An argument of \"%s\" is a variable, a wildcard or NULL.",
								  fact->predicate)));
}

static void
require_one_order(const verdict_transaction_server *entry)
{
	if (verdict_pending_is_empty(&entry->pending) && entry->rows == 0 && !entry->direct)
		return;
	ereport(
		ERROR,
		(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
		 errmsg("verdict.mutation_mode cannot change between outbox and another mode within a "
				"transaction that has made changes"),
		 errdetail("Changes of the outbox are sent after commit and all others before it: their "
				   "order would be lost.")));
}

/* What every change begins with: the entry of its server, and the server itself. */
static verdict_transaction_server *
begin_change(Oid role, const verdict_server **server)
{
	bool outbox = verdict_setting_mutation_mode == VERDICT_MODE_OUTBOX;
	verdict_transaction_server *entry;

	/* In this order, so that a standby is told of its recovery. */
	PreventCommandDuringRecovery("a change of Verdict");
	PreventCommandIfReadOnly("a change of Verdict");
	PreventCommandIfParallelMode("a change of Verdict");

	entry = verdict_transaction_current();
	*server = verdict_server_find(entry->name, role);
	if (entry->outbox != outbox)
	{
		require_one_order(entry);
		entry->outbox = outbox;
	}
	verdict_transaction_enter_level();
	return entry;
}

static const char *
application_key(void)
{
	const char *key = verdict_setting_idempotency_key;

	return key == NULL || key[0] == '\0' ? NULL : key;
}

/* Sends a request now, or queues it; true when it was sent. */
static bool
hand_over(verdict_transaction_server *entry, int batch_size, change_batch *batch, uint32 *changed)
{
	verdict_batch_number number = {0};

	batch->entry = entry;
	batch->application_key = application_key();
	if (verdict_setting_mutation_mode != VERDICT_MODE_IMMEDIATE)
	{
		/* A check that is to see this change must not be answered from before it. */
		if (!entry->outbox)
			verdict_decisions_forget();
		verdict_pending_append(&entry->pending, batch->role, batch->method, batch->application_key,
							   batch->payload, batch->payload_size, batch_size);
		if (entry->outbox && verdict_pending_is_full(&entry->pending, batch_size))
			empty_queue(entry);
		return false;
	}
	verdict_change_flush(entry);
	batch->number = &number;
	*changed = send_at_once(batch);
	return true;
}

static void
require_encoded(bool encoded, const verdict_status *status, const char *action)
{
	if (!encoded)
		verdict_report_change_failure(status, action);
}

/* One change as an element of a batch, into the queue. */
static void
queue_fact(verdict_transaction_server *entry, int batch_size, Oid role,
		   const verdict_change *change, verdict_buffer *payload)
{
	change_batch batch;
	uint32 changed;
	verdict_status status;

	verdict_buffer_reset(payload);
	verdict_status_init(&status);
	require_encoded(verdict_encode_batch(payload, VERDICT_WIRE_BINARY, change, 1, &status), &status,
					"change the facts");
	batch.role = role;
	batch.method = VERDICT_METHOD_BATCH_FACTS;
	batch.payload = payload->bytes;
	batch.payload_size = payload->size;
	hand_over(entry, batch_size, &batch, &changed);
}

static uint32
send_facts(verdict_transaction_server *entry, int batch_size, Oid role,
		   const verdict_change *changes, size_t count, verdict_buffer *payload)
{
	change_batch batch;
	uint32 changed = 0;
	verdict_status status;
	bool encoded;

	verdict_status_init(&status);
	if (count == 1)
	{
		batch.method = changes->insert ? VERDICT_METHOD_INSERT_FACT : VERDICT_METHOD_DELETE_FACT;
		batch.action = changes->insert ? "insert the fact" : "delete the fact";
		encoded = verdict_encode_fact(payload, VERDICT_WIRE_BINARY, &changes->fact, &status);
	}
	else
	{
		batch.method = VERDICT_METHOD_BATCH_FACTS;
		batch.action = "change the facts";
		encoded = verdict_encode_batch(payload, VERDICT_WIRE_BINARY, changes, count, &status);
	}
	require_encoded(encoded, &status, batch.action);
	batch.role = role;
	batch.payload = payload->bytes;
	batch.payload_size = payload->size;
	batch.changes = (uint32) count;
	hand_over(entry, batch_size, &batch, &changed);
	return changed;
}

bool
verdict_change_facts(Oid role, const verdict_change *changes, size_t count, uint32 *changed)
{
	bool immediate = verdict_setting_mutation_mode == VERDICT_MODE_IMMEDIATE;
	verdict_transaction_server *entry;
	const verdict_server *server;
	int batch_size;
	verdict_buffer payload;

	*changed = 0;
	if (count == 0)
		return true;
	for (size_t i = 0; i < count; i++)
		require_ground(&changes[i].fact);

	entry = begin_change(role, &server);
	batch_size = server->batch_size;
	verdict_buffer_init(&payload, verdict_context_host(), VERDICT_CONTEXT_MAXIMUM);
	if (immediate)
		*changed = send_facts(entry, batch_size, role, changes, count, &payload);
	else
	{
		for (size_t i = 0; i < count; i++)
			queue_fact(entry, batch_size, role, &changes[i], &payload);
	}
	verdict_buffer_free(&payload);
	return immediate;
}

void
verdict_change_elements(Oid role, const char *elements, const uint32 *sizes, size_t count)
{
	bool immediate = verdict_setting_mutation_mode == VERDICT_MODE_IMMEDIATE;
	const verdict_server *server;
	verdict_transaction_server *entry = begin_change(role, &server);
	int batch_size = server->batch_size;

	for (size_t i = 0; i < count;)
	{
		change_batch batch;
		uint32 changed;

		batch.role = role;
		batch.method = VERDICT_METHOD_BATCH_FACTS;
		batch.action = "change the facts";
		batch.payload = elements;
		batch.payload_size = 0;
		batch.changes = 0;
		do
		{
			batch.payload_size += sizes[i++];
			batch.changes++;
		} while (immediate && i < count && batch.changes < (uint32) batch_size);
		elements += batch.payload_size;
		hand_over(entry, batch_size, &batch, &changed);
	}
}

int
verdict_change_prepare(Oid role)
{
	const verdict_server *server;

	begin_change(role, &server);
	return server->batch_size;
}

bool
verdict_change_policy(const char *policy)
{
	verdict_transaction_server *entry;
	const verdict_server *server;
	verdict_buffer payload;
	change_batch batch;
	uint32 changed;
	verdict_status status;
	bool sent;

	batch.role = GetUserId();
	entry = begin_change(batch.role, &server);
	batch.method = VERDICT_METHOD_SET_POLICY;
	batch.action = "set the policy";
	verdict_buffer_init(&payload, verdict_context_host(), VERDICT_CONTEXT_MAXIMUM);
	verdict_status_init(&status);
	require_encoded(verdict_encode_set_policy(&payload, VERDICT_WIRE_BINARY, policy, &status),
					&status, batch.action);
	batch.payload = payload.bytes;
	batch.payload_size = payload.size;
	batch.changes = 1;
	sent = hand_over(entry, server->batch_size, &batch, &changed);
	verdict_buffer_free(&payload);
	return sent;
}
