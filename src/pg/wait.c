/*
 * wait.c
 *		The host table of a backend.
 *
 * Invariants
 *	- No function of the table leaves by longjmp: what can raise runs in PG_TRY,
 *	  and what it raised is kept in "interruption" until the core has unwound and
 *	  verdict_wait_raise_interrupt() raises it again.  FATAL ends the process and
 *	  never comes back, so it may go off in here.
 *	- The event set lives as long as the process.  It may know sockets that are
 *	  closed: the kernel has forgotten those, and their serial number, unique in
 *	  the process, is never asked for again.
 */
#include "wait.h"

#include <limits.h>
#include <stdlib.h>
#include <time.h>

#include "miscadmin.h"
#include "storage/fd.h"

/* Sockets in one event set: of the calls in flight, and some that were closed. */
#define SLOTS (8 * VERDICT_MAX_IN_FLIGHT)
#define FIXED_EVENTS 2 /* latch and postmaster */

typedef struct wait_slot
{
	int fd;
	uint64_t serial;
	uint32 events;			/* what the set listens for */
	int position;			/* in the event set */
	verdict_socket *wanted; /* of the wait that runs now, or NULL */
} wait_slot;

static WaitEventSet *wait_set = NULL;
static wait_slot wait_slots[SLOTS];
static int wait_slot_count = 0;

/* An error that an interrupt raised during a wait, to be raised again. */
static ErrorData *interruption = NULL;

static void *
host_allocate(void *context, void *pointer, size_t size)
{
	(void) context;
	return realloc(pointer, size);
}

static void
host_release(void *context, void *pointer)
{
	(void) context;
	free(pointer);
}

static int64_t
host_monotonic_us(void *context)
{
	struct timespec now;

	(void) context;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t) now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64
verdict_now_ms(void)
{
	return (int64) (host_monotonic_us(NULL) / 1000);
}

static int64_t
host_wall_clock_s(void *context)
{
	(void) context;
	return (int64_t) time(NULL);
}

static bool
host_random_bytes(void *context, void *bytes, size_t size)
{
	(void) context;
	return pg_strong_random(bytes, size);
}

static bool
host_reserve_descriptor(void *context)
{
	(void) context;
	return AcquireExternalFD();
}

static void
host_release_descriptor(void *context)
{
	(void) context;
	ReleaseExternalFD();
}

/* Keeps the error that is being handled, and ends the handling. */
static void
keep_error(MemoryContext context)
{
	MemoryContextSwitchTo(TopMemoryContext);
	if (interruption != NULL)
		FreeErrorData(interruption);
	interruption = CopyErrorData();
	FlushErrorState();
	MemoryContextSwitchTo(context);
}

void
verdict_wait_log(int elevel, const char *message)
{
	MemoryContext caller = CurrentMemoryContext;
	uint32 holdoff = InterruptHoldoffCount;

	if (!message_level_is_interesting(elevel))
		return;
	PG_TRY();
	{
		/* ereport() looks for interrupts; one that it raised would be lost below. */
		HOLD_INTERRUPTS();
		ereport(elevel,
				(errmsg_internal("verdict: %s", message), errhidestmt(true), errhidecontext(true)));
	}
	PG_CATCH();
	{
		/* A line of log is not worth a call. */
		MemoryContextSwitchTo(caller);
		FlushErrorState();
	}
	PG_END_TRY();
	InterruptHoldoffCount = holdoff;
}

static void
host_log(void *context, verdict_log_level level, const char *message)
{
	(void) context;
	verdict_wait_log(level == VERDICT_LOG_WARNING ? LOG : DEBUG1, message);
}

/*
 * True when the call has to end.  A cancel or a termination is left pending for
 * verdict_wait_raise_interrupt(); all else (barriers, log requests, a conflict
 * with recovery) is handled here, because the wait may be long.
 */
static bool
interrupted(void)
{
	MemoryContext caller = CurrentMemoryContext;

	if (interruption != NULL)
		return true;
	if (!INTERRUPTS_PENDING_CONDITION())
		return false;
	if (QueryCancelPending || ProcDiePending)
		return true;

	PG_TRY();
	{
		CHECK_FOR_INTERRUPTS();
	}
	PG_CATCH();
	{
		keep_error(caller);
	}
	PG_END_TRY();
	return interruption != NULL;
}

static uint32
wanted_events(const verdict_socket *wanted)
{
	return (wanted->want_read ? WL_SOCKET_READABLE : 0) |
		   (wanted->want_write ? WL_SOCKET_WRITEABLE : 0);
}

static wait_slot *
find_slot(const verdict_socket *wanted)
{
	int i;

	for (i = 0; i < wait_slot_count; i++)
	{
		if (wait_slots[i].serial == wanted->serial && wait_slots[i].fd == wanted->fd)
			return &wait_slots[i];
	}
	return NULL;
}

static void
discard_set(void)
{
	WaitEventSet *old = wait_set;

	wait_set = NULL;
	wait_slot_count = 0;
	if (old != NULL)
		FreeWaitEventSet(old);
}

/* May raise. */
static void
create_set(void)
{
	wait_set = verdict_wait_set_create(FIXED_EVENTS + SLOTS);
	AddWaitEventToSet(wait_set, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
	/* A single-user backend has no postmaster to outlive. */
	if (IsUnderPostmaster)
		AddWaitEventToSet(wait_set, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);
}

/*
 * Makes the set listen for these sockets.  Others that it knows stay in it: one
 * that wakes the wait up is a reason to start afresh.  May raise; the set is
 * then dropped by the caller.
 */
static void
prepare_set(verdict_socket *sockets, int count)
{
	int i;
	int missing = 0;

	for (i = 0; i < wait_slot_count; i++)
		wait_slots[i].wanted = NULL;
	for (i = 0; i < count; i++)
	{
		if (wanted_events(&sockets[i]) != 0 && find_slot(&sockets[i]) == NULL)
			missing++;
	}
	if (wait_slot_count + missing > SLOTS)
		discard_set();
	if (wait_set == NULL)
		create_set();

	for (i = 0; i < count; i++)
	{
		uint32 events = wanted_events(&sockets[i]);
		wait_slot *slot;

		if (events == 0)
			continue;
		slot = find_slot(&sockets[i]);
		if (slot == NULL)
		{
			slot = &wait_slots[wait_slot_count];
			slot->position = AddWaitEventToSet(wait_set, events, sockets[i].fd, NULL, NULL);
			slot->fd = sockets[i].fd;
			slot->serial = sockets[i].serial;
			wait_slot_count++;
		}
		else if (slot->events != events)
			ModifyWaitEvent(wait_set, slot->position, events, NULL);
		slot->events = events;
		slot->wanted = &sockets[i];
	}
}

static wait_slot *
slot_at(int position)
{
	int i;

	for (i = 0; i < wait_slot_count; i++)
	{
		if (wait_slots[i].position == position)
			return &wait_slots[i];
	}
	return NULL;
}

static uint32
wait_event(void)
{
	static uint32 event = 0;

	if (event == 0)
		event = verdict_wait_event_new("VerdictCall");
	return event;
}

/*
 * One look at the set; may raise.  Sets readable and writable and returns how
 * many sockets are ready.  "*stranger" tells that a socket woke us up that
 * nobody waits for.
 */
static int
look(long timeout_ms, bool *stranger)
{
	WaitEvent occurred[FIXED_EVENTS + SLOTS];
	int count;
	int ready = 0;
	int i;

	*stranger = false;
	count = WaitEventSetWait(wait_set, timeout_ms, occurred, lengthof(occurred), wait_event());
	for (i = 0; i < count; i++)
	{
		wait_slot *slot;

		if (occurred[i].events & WL_LATCH_SET)
		{
			ResetLatch(MyLatch);
			continue;
		}
		slot = slot_at(occurred[i].pos);
		if (slot == NULL)
			continue;
		if (slot->wanted == NULL)
		{
			*stranger = true;
			continue;
		}
		slot->wanted->readable = (occurred[i].events & WL_SOCKET_READABLE) != 0;
		slot->wanted->writable = (occurred[i].events & WL_SOCKET_WRITEABLE) != 0;
		ready++;
	}
	return ready;
}

static verdict_wait_result
host_wait(void *context, verdict_socket *sockets, int count, int64_t timeout_us)
{
	MemoryContext caller = CurrentMemoryContext;
	volatile int64_t until_us = 0;
	volatile int ready = 0;
	int i;

	for (i = 0; i < count; i++)
		sockets[i].readable = sockets[i].writable = false;
	if (count > SLOTS)
	{
		host_log(context, VERDICT_LOG_WARNING, "too many sockets in one wait");
		return VERDICT_WAIT_INTERRUPTED;
	}
	if (timeout_us > 0)
		until_us = host_monotonic_us(context) + timeout_us;

	for (;;)
	{
		long timeout_ms = -1;

		/* What came before the latch was listened to is pending already. */
		if (interrupted())
			return VERDICT_WAIT_INTERRUPTED;

		if (timeout_us == 0)
			timeout_ms = 0;
		else if (timeout_us > 0)
		{
			int64_t left_us = until_us - host_monotonic_us(context);

			if (left_us <= 0)
				return VERDICT_WAIT_TIMEOUT;
			/* Rounded up, so that a timer is due when the wait is over. */
			timeout_ms = (long) Min((left_us + 999) / 1000, INT_MAX);
		}

		PG_TRY();
		{
			bool stranger;

			prepare_set(sockets, count);
			ready = look(timeout_ms, &stranger);
			if (stranger)
				discard_set();
		}
		PG_CATCH();
		{
			keep_error(caller);
			discard_set();
		}
		PG_END_TRY();

		if (interruption != NULL)
			return VERDICT_WAIT_INTERRUPTED;
		if (ready > 0)
			return VERDICT_WAIT_READY;
		if (timeout_us == 0)
			return interrupted() ? VERDICT_WAIT_INTERRUPTED : VERDICT_WAIT_TIMEOUT;
	}
}

const verdict_host *
verdict_backend_host(void)
{
	static const verdict_host host = {
		.context = NULL,
		.allocate = host_allocate,
		.release = host_release,
		.monotonic_us = host_monotonic_us,
		.wall_clock_s = host_wall_clock_s,
		.random_bytes = host_random_bytes,
		.wait = host_wait,
		.reserve_descriptor = host_reserve_descriptor,
		.release_descriptor = host_release_descriptor,
		.log = host_log,
	};

	return &host;
}

void
verdict_wait_raise_interrupt(void)
{
	if (interruption != NULL)
	{
		ErrorData *error = interruption;

		interruption = NULL;
		PG_TRY();
		{
			ReThrowError(error);
		}
		PG_CATCH();
		{
			FreeErrorData(error);
			PG_RE_THROW();
		}
		PG_END_TRY();
	}
	CHECK_FOR_INTERRUPTS();
	ereport(ERROR, (errcode(ERRCODE_QUERY_CANCELED),
					errmsg("canceling statement because the call of Verdict was interrupted")));
}
