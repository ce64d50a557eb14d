/*
 * outbox.h
 *		Rows of verdict_outbox: batches of committed transactions that wait for
 *		their answer.
 */
#ifndef VERDICT_PG_OUTBOX_H
#define VERDICT_PG_OUTBOX_H

#include "verdict.h"

/* What a row is made from. */
typedef struct verdict_outbox_batch
{
	const char *server; /* name of the foreign server */
	Oid role;			/* whose user mapping it is sent with */
	verdict_method method;
	uint32 changes; /* how many changes the payload holds */
	const void *payload;
	size_t payload_size;
	const char *key;				  /* the Idempotency-Key of every attempt */
	const unsigned char *fingerprint; /* VERDICT_FINGERPRINT_SIZE bytes */
	const unsigned char *ledger_key;  /* as verdict_ledger.key has it, or NULL */
} verdict_outbox_batch;

/*
 * Writes a row in the current (sub)transaction, as the table's owner: whoever
 * queues a change needs no right on the table.  Rows of one transaction are sent
 * in the order in which they were written.  Raises what an INSERT raises, and
 * 55000 when the extension's objects are not there.
 */
extern void verdict_outbox_write(const verdict_outbox_batch *batch);

#endif /* VERDICT_PG_OUTBOX_H */
