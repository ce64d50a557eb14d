/*
 * worker.c
 *		The process that delivers the outbox of one database.
 *
 * Invariants
 *	- It takes the post of the database's deliverer before it connects, so that a
 *	  command that needs the database for itself can keep it out.
 *	- It wakes by its latch, by the end of a server's pause, and, while prepared
 *	  transactions exist, by the clock: those may be ended by somebody who does not
 *	  tell (a subscription).  With nothing to do it runs no statement.
 *	- Its transactions never wait for a standby, and no setting of database or role
 *	  makes them fail, or makes it sort what an index has in order.
 *	- An error costs one round.  The memory of a round goes with it.
 *	- It ends when the extension is not there, and when it is told to; both within
 *	  a call.  It ends too when another database has no worker for want of a slot: at
 *	  once when it has nothing to do, else when its turn is over.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#include "server.h"
#include "shared.h"
#include "wait.h"
#include "worker.h"

extern PGDLLEXPORT void verdict_worker_main(Datum argument) pg_attribute_noreturn();

#define PREPARED_POLL_MS 500
/* So long one works at least, if it has work, before it makes room for another. */
#define TURN_MS 1000
/* The pause after a round that raised, doubled with each further one. */
#define ERROR_PAUSE_MIN_MS 1000
#define ERROR_PAUSE_MAX_MS 60000

static void
fix_settings(void)
{
	static const char *const settings[][2] = {
		{"search_path", "pg_catalog, pg_temp"},
		{"synchronous_commit", "off"},
		{"default_transaction_isolation", "read committed"},
		{"default_transaction_read_only", "off"},
		{"default_transaction_deferrable", "off"},
		{"statement_timeout", "0"},
		{"lock_timeout", "0"},
		{"idle_in_transaction_session_timeout", "0"},
		{"session_replication_role", "origin"},
		/* What is read from the outbox comes in order from its index, by this process. */
		{"enable_sort", "off"},
		{"max_parallel_workers_per_gather", "0"},
	};

	for (size_t i = 0; i < lengthof(settings); i++)
		SetConfigOption(settings[i][0], settings[i][1], PGC_SUSET, PGC_S_OVERRIDE);
}

/* One round; false when it raised, which is then reported. */
static bool
try_round(MemoryContext context, verdict_round *round)
{
	volatile bool done = false;

	PG_TRY();
	{
		verdict_deliver_round(true, round);
		done = true;
	}
	PG_CATCH();
	{
		HOLD_INTERRUPTS();
		MemoryContextSwitchTo(context);
		EmitErrorReport();
		verdict_server_hold(false);
		AbortCurrentTransaction();
		FlushErrorState();
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	return done;
}

/* How long to sleep after a round; 0: not at all, -1: until the latch is set. */
static long
pause_after(const verdict_round *round)
{
	long pause_ms = round->next_ms;

	if (round->more || verdict_shared_kicked(round->kicks))
		return 0;
	if (round->prepared && (pause_ms < 0 || pause_ms > PREPARED_POLL_MS))
		pause_ms = PREPARED_POLL_MS;
	return pause_ms;
}

void
verdict_worker_main(Datum argument)
{
	Oid database = DatumGetObjectId(argument);
	MemoryContext context;
	uint32 event;
	long error_pause_ms = ERROR_PAUSE_MIN_MS;
	int64 began = verdict_now_ms();

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	if (!verdict_shared_active() || !verdict_shared_deliverer_begin(database, false))
		proc_exit(0);
	BackgroundWorkerInitializeConnectionByOid(database, InvalidOid, 0);
	fix_settings();

	event = verdict_wait_event_new("VerdictWorker");
	context = AllocSetContextCreate(TopMemoryContext, "verdict worker", ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(context);
	for (;;)
	{
		verdict_round round;
		long pause_ms;

		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}

		pgstat_report_activity(STATE_RUNNING, "looking for batches to send");
		if (try_round(context, &round))
		{
			if (!round.installed && verdict_shared_dismiss(round.kicks))
				proc_exit(0);
			if ((!round.more || verdict_now_ms() - began > TURN_MS) &&
				verdict_shared_yield(round.kicks,
									 round.more || round.prepared || round.next_ms >= 0))
				proc_exit(0);
			pause_ms = pause_after(&round);
			error_pause_ms = ERROR_PAUSE_MIN_MS;
		}
		else
		{
			if (verdict_shared_yield(0, true))
				proc_exit(0);
			pause_ms = error_pause_ms;
			error_pause_ms = Min(error_pause_ms * 2, ERROR_PAUSE_MAX_MS);
		}
		MemoryContextReset(context);
		if (pause_ms == 0)
			continue;

		verdict_report_statistics();
		pgstat_report_activity(STATE_IDLE, NULL);
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_EXIT_ON_PM_DEATH | (pause_ms > 0 ? WL_TIMEOUT : 0),
						 pause_ms, event);
	}
}
