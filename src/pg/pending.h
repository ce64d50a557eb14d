/*
 * pending.h
 *		The changes of one transaction at one server that are not sent yet.
 *
 * A queue of batches, in the order in which the changes were made.  It knows which
 * subtransaction made which change and is cut back when one rolls back.  What a
 * batch holds is the request in the binary wire format: elements of BatchFacts's
 * one repeated field follow each other in a request as they do here, so that a
 * change is encoded once and never taken apart again.
 */
#ifndef VERDICT_PG_PENDING_H
#define VERDICT_PG_PENDING_H

#include "verdict.h"

#include "lib/stringinfo.h"
#include "storage/buffile.h"

/* A batch is closed when it has this many bytes, or the server's batch_size. */
#define VERDICT_BATCH_BYTES (1024 * 1024)

/* What is decided once a batch is to be sent, and stays with its content. */
typedef struct verdict_batch_number
{
	bool given;
	uint64 ordinal; /* for its idempotency key */
	uint64 claim;	/* among those of the application's key */
} verdict_batch_number;

typedef struct verdict_pending_batch
{
	Oid role; /* whose user mapping it is sent with */
	verdict_method method;
	const char *application_key; /* verdict.idempotency_key; NULL for none */
	uint32 changes;
	bool closed; /* takes no further change */
	size_t start;
	size_t size;
	verdict_batch_number number;
} verdict_pending_batch;

typedef struct verdict_pending_mark verdict_pending_mark;

/* All zero is an empty queue.  Everything lives until the transaction ends. */
typedef struct verdict_pending
{
	MemoryContext context;
	verdict_pending_batch *batches;
	int first;	  /* of those that are still here */
	int count;	  /* end of the array */
	int capacity; /* room in it */
	uint64 added; /* changes ever queued, less those cut back */
	size_t size;  /* of the stream */
	StringInfoData memory;
	BufFile *file; /* where the stream goes on when memory is full, whole */
	bool at_end;   /* the file stands where the stream ends */
	verdict_pending_mark *marks;
} verdict_pending;

extern bool verdict_pending_is_empty(const verdict_pending *pending);

/* How many changes are in the queue. */
extern uint64 verdict_pending_changes(const verdict_pending *pending);

/*
 * Appends one change ("changes" 1) or a whole request of another method to the
 * queue, as made in the current subtransaction.  It joins the last batch when that
 * has the same role, method and application key, and is open and below
 * "batch_size" changes.  The key is copied.  Raises 53200 and what temporary files
 * raise; the queue is then as before.
 */
extern void
verdict_pending_append(verdict_pending *pending, Oid role, verdict_method method,
					   const char *application_key, const void *bytes, size_t size, int batch_size);

/* The batch to be sent next, or NULL; valid until the queue changes. */
extern verdict_pending_batch *verdict_pending_head(verdict_pending *pending);

/*
 * True when the last batch is full and the current subtransaction made everything
 * that is queued: a rollback that takes one of these changes takes all.
 */
extern bool verdict_pending_is_full(const verdict_pending *pending, int batch_size);

/*
 * The payload of a batch.  It belongs to the queue, or to the current memory
 * context when it had to be read back; valid until the queue changes.
 */
extern const void *
verdict_pending_payload(verdict_pending *pending, const verdict_pending_batch *batch);

/*
 * Removes the head.  Tells "made" for each nest level how many of the batch's
 * changes a subtransaction of that level made; NULL when nobody wants to know.
 * Never raises.
 */
extern void
verdict_pending_remove(verdict_pending *pending, void (*made)(int nesting, uint64 changes));

/* A subtransaction of that nest level ends.  Neither raises. */
extern void verdict_pending_commit_level(verdict_pending *pending, int nesting);
extern void verdict_pending_abort_level(verdict_pending *pending, int nesting);

/* Before commit, when the queue is empty: closes its file, which may raise. */
extern void verdict_pending_close(verdict_pending *pending);

#endif /* VERDICT_PG_PENDING_H */
