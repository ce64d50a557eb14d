/*
 * pending.c
 *		The queue of changes that are not sent yet.
 *
 * Invariants
 *	- The payloads of all batches stand one after the other in one stream: in
 *	  memory until it passes work_mem, then in a temporary file.
 *	- A mark says where the queue ended when a subtransaction queued its first
 *	  change.  Marks stand innermost first, with falling nest levels and falling
 *	  positions.
 *	- Batches are removed from the front; positions that lie in what was removed
 *	  stand for "nothing that is still here".
 *	- The file stays until verdict_pending_close(): closing writes, which can fail,
 *	  and the queue also becomes empty where nothing may fail.
 *	- A batch whose content changes loses its number: the ordinal that it had may
 *	  have been sent with the old content.
 */
#include "pending.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

/* Memory for the stream whatever work_mem says: below the largest StringInfo. */
#define MEMORY_MAX ((size_t) 256 * 1024 * 1024)

struct verdict_pending_mark
{
	verdict_pending_mark *next;
	int nesting;
	int count;		/* end of the array of batches */
	uint32 changes; /* in the last of them */
	bool closed;	/* the last of them */
	uint64 added;
	size_t size;
};

bool
verdict_pending_is_empty(const verdict_pending *pending)
{
	return pending->first == pending->count;
}

uint64
verdict_pending_changes(const verdict_pending *pending)
{
	uint64 changes = 0;

	for (int i = pending->first; i < pending->count; i++)
		changes += pending->batches[i].changes;
	return changes;
}

verdict_pending_batch *
verdict_pending_head(verdict_pending *pending)
{
	return verdict_pending_is_empty(pending) ? NULL : &pending->batches[pending->first];
}

static verdict_pending_batch *
last_batch(const verdict_pending *pending)
{
	return verdict_pending_is_empty(pending) ? NULL : &pending->batches[pending->count - 1];
}

/* Everything is allocated here, where the marks live as long as the queue. */
static void
prepare(verdict_pending *pending)
{
	if (pending->context != NULL)
		return;
	pending->context = AllocSetContextCreate(TopTransactionContext, "verdict pending changes",
											 ALLOCSET_DEFAULT_SIZES);
}

static void
set_mark(const verdict_pending *pending, verdict_pending_mark *mark)
{
	const verdict_pending_batch *last = last_batch(pending);

	mark->count = pending->count;
	mark->changes = last == NULL ? 0 : last->changes;
	mark->closed = last != NULL && last->closed;
	mark->added = pending->added;
	mark->size = pending->size;
}

static void
mark_level(verdict_pending *pending)
{
	int nesting = GetCurrentTransactionNestLevel();
	verdict_pending_mark *mark;

	if (pending->marks != NULL && pending->marks->nesting >= nesting)
		return;
	mark = MemoryContextAlloc(pending->context, sizeof(*mark));
	set_mark(pending, mark);
	mark->nesting = nesting;
	mark->next = pending->marks;
	pending->marks = mark;
}

static void
write_file(verdict_pending *pending, const void *bytes, size_t size)
{
	if (!pending->at_end && BufFileSeek(pending->file, 0, (off_t) pending->size, SEEK_SET) != 0)
		ereport(ERROR, (errcode_for_file_access(),
						errmsg("could not seek in the temporary file of pending changes: %m")));
	pending->at_end = false; /* until it is known how far the write came */
	BufFileWrite(pending->file, unconstify(void *, bytes), size);
	pending->at_end = true;
}

/* Moves the stream from memory to a file that lives as long as the transaction. */
static void
spill(verdict_pending *pending)
{
	MemoryContext caller = MemoryContextSwitchTo(pending->context);
	ResourceOwner owner = CurrentResourceOwner;
	size_t size = pending->size;

	CurrentResourceOwner = TopTransactionResourceOwner;
	pending->file = BufFileCreateTemp(false);
	CurrentResourceOwner = owner;
	MemoryContextSwitchTo(caller);

	pending->at_end = true;
	PG_TRY();
	{
		if (size > 0)
			BufFileWrite(pending->file, pending->memory.data, size);
	}
	PG_CATCH();
	{
		BufFileClose(pending->file);
		pending->file = NULL;
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (pending->memory.data != NULL)
		pfree(pending->memory.data);
	pending->memory.data = NULL;
}

static void
append_stream(verdict_pending *pending, const void *bytes, size_t size)
{
	if (pending->file == NULL && size + pending->size > Min((size_t) work_mem * 1024, MEMORY_MAX))
		spill(pending);

	if (pending->file != NULL)
		write_file(pending, bytes, size);
	else
	{
		if (pending->memory.data == NULL)
		{
			MemoryContext caller = MemoryContextSwitchTo(pending->context);

			initStringInfo(&pending->memory);
			MemoryContextSwitchTo(caller);
		}
		pending->memory.len = (int) pending->size;
		appendBinaryStringInfoNT(&pending->memory, bytes, (int) size);
	}
	pending->size += size;
}

static bool
is_full(const verdict_pending_batch *batch, int batch_size)
{
	return batch->changes >= (uint32) batch_size || batch->size >= VERDICT_BATCH_BYTES;
}

static bool
same_key(const char *left, const char *right)
{
	if (left == NULL || right == NULL)
		return left == right;
	return strcmp(left, right) == 0;
}

/* Room for one more batch, before anything of it is written. */
static void
reserve_batch(verdict_pending *pending)
{
	if (pending->count < pending->capacity)
		return;
	if (pending->batches == NULL)
	{
		pending->capacity = 4;
		pending->batches = MemoryContextAlloc(pending->context, sizeof(verdict_pending_batch) * 4);
		return;
	}
	pending->batches = repalloc_huge(pending->batches,
									 sizeof(verdict_pending_batch) * (Size) pending->capacity * 2);
	pending->capacity *= 2;
}

void
verdict_pending_append(verdict_pending *pending, Oid role, verdict_method method,
					   const char *application_key, const void *bytes, size_t size, int batch_size)
{
	verdict_pending_batch *batch;
	bool joins;

	prepare(pending);
	mark_level(pending);
	batch = last_batch(pending);
	joins = batch != NULL && method == VERDICT_METHOD_BATCH_FACTS && !batch->closed &&
			!batch->number.given && batch->method == method && batch->role == role &&
			same_key(batch->application_key, application_key) && !is_full(batch, batch_size) &&
			(batch->size + size <= VERDICT_BATCH_BYTES);
	if (!joins)
	{
		reserve_batch(pending);
		if (application_key != NULL)
			application_key = batch != NULL && same_key(batch->application_key, application_key)
								  ? batch->application_key
								  : MemoryContextStrdup(pending->context, application_key);
	}

	append_stream(pending, bytes, size);
	if (!joins)
	{
		if (batch != NULL)
			batch->closed = true;
		batch = &pending->batches[pending->count++];
		memset(batch, 0, sizeof(*batch));
		batch->role = role;
		batch->method = method;
		batch->application_key = application_key;
		batch->start = pending->size - size;
	}
	batch->size += size;
	batch->changes++;
	pending->added++;
}

bool
verdict_pending_is_full(const verdict_pending *pending, int batch_size)
{
	const verdict_pending_batch *last = last_batch(pending);

	return last != NULL && is_full(last, batch_size) && pending->marks != NULL &&
		   pending->marks->nesting == GetCurrentTransactionNestLevel() &&
		   pending->marks->count <= pending->first;
}

const void *
verdict_pending_payload(verdict_pending *pending, const verdict_pending_batch *batch)
{
	char *payload;

	if (pending->file == NULL)
		return pending->memory.data + batch->start;
	payload = palloc_extended(batch->size, MCXT_ALLOC_HUGE);
	pending->at_end = false;
	if (BufFileSeek(pending->file, 0, (off_t) batch->start, SEEK_SET) != 0 ||
		BufFileRead(pending->file, payload, batch->size) != batch->size)
		ereport(ERROR, (errcode_for_file_access(),
						errmsg("could not read the temporary file of pending changes: %m")));
	return payload;
}

/* Nothing is queued any more: whatever comes starts from the beginning. */
static void
start_over(verdict_pending *pending)
{
	pending->first = 0;
	pending->count = 0;
	pending->size = 0;
	pending->at_end = false;
	for (verdict_pending_mark *mark = pending->marks; mark != NULL; mark = mark->next)
		set_mark(pending, mark);
}

void
verdict_pending_remove(verdict_pending *pending, void (*made)(int nesting, uint64 changes))
{
	const verdict_pending_batch *batch = verdict_pending_head(pending);
	uint64 rest = 0;
	uint64 begin;
	uint64 end;

	for (int i = pending->first + 1; i < pending->count; i++)
		rest += pending->batches[i].changes;
	end = pending->added - rest;
	begin = end - batch->changes;

	/* Innermost first: each level made what lies behind its mark. */
	for (verdict_pending_mark *mark = pending->marks; made != NULL && mark != NULL;
		 mark = mark->next)
	{
		uint64 from = Max(begin, mark->added);

		if (from < end)
		{
			made(mark->nesting, end - from);
			end = from;
		}
	}

	pending->first++;
	if (verdict_pending_is_empty(pending))
		start_over(pending);
}

void
verdict_pending_commit_level(verdict_pending *pending, int nesting)
{
	verdict_pending_mark *mark = pending->marks;

	if (mark == NULL || mark->nesting < nesting)
		return;
	if (mark->next != NULL && mark->next->nesting == nesting - 1)
		pending->marks = mark->next;
	else
		mark->nesting = nesting - 1;
}

/* Takes the queue back to where it was. */
static void
cut_back(verdict_pending *pending, const verdict_pending_mark *mark)
{
	verdict_pending_batch *last;

	if (mark->count <= pending->first)
	{
		pending->added -= verdict_pending_changes(pending);
		pending->count = pending->first;
		return;
	}
	last = &pending->batches[mark->count - 1];
	if (last->changes != mark->changes)
	{
		last->changes = mark->changes;
		last->size = mark->size - last->start;
		last->number.given = false;
	}
	last->closed = mark->closed;
	pending->count = mark->count;
	pending->added = mark->added;
	pending->size = mark->size;
	pending->at_end = false;
}

void
verdict_pending_abort_level(verdict_pending *pending, int nesting)
{
	while (pending->marks != NULL && pending->marks->nesting >= nesting)
	{
		cut_back(pending, pending->marks);
		pending->marks = pending->marks->next;
	}
	if (pending->count > 0 && verdict_pending_is_empty(pending))
		start_over(pending);
}

void
verdict_pending_close(verdict_pending *pending)
{
	BufFile *file = pending->file;

	Assert(verdict_pending_is_empty(pending));
	pending->file = NULL;
	if (file != NULL)
		BufFileClose(file);
}
