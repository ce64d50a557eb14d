/*
 * ledger.h
 *		verdict_ledger: what has been done under the keys of applications.
 *
 * The identity of an entry is server, caller (role), method and hashed key.
 */
#ifndef VERDICT_PG_LEDGER_H
#define VERDICT_PG_LEDGER_H

#include "verdict.h"

#define VERDICT_LEDGER_KEY_SIZE 32 /* SHA-256 */

typedef struct verdict_ledger_entry
{
	const char *server; /* name of the foreign server */
	Oid role;
	verdict_method method;
	unsigned char key[VERDICT_LEDGER_KEY_SIZE];
	const unsigned char *fingerprint; /* VERDICT_FINGERPRINT_SIZE bytes, of the payload */
} verdict_ledger_entry;

/*
 * The hashed key of the "number"-th batch (from 0) that a transaction makes under
 * the application's key.
 */
extern void verdict_ledger_key(const char *application_key, uint64 number, unsigned char *key);

/*
 * Claims an entry in the current (sub)transaction: one insert, or a read of what
 * is there; waits for a transaction that has claimed it and has not ended.  True:
 * it is ours, the change is to be made.  False: it was made before; *changed is
 * what it had changed (-1 when not known) and "revision" the revision it was
 * answered with ("" for none; VERDICT_REVISION_MAX_TEXT + 1 bytes).  Raises 55000
 * when the same key was used for other changes, 40001 when the isolation level
 * cannot see the other transaction's entry.
 */
extern bool verdict_ledger_claim(const verdict_ledger_entry *entry, int64 *changed, char *revision);

/* Completes an entry claimed in this transaction with its answer. */
extern void
verdict_ledger_record(const verdict_ledger_entry *entry, int64 changed, const char *revision);

#endif /* VERDICT_PG_LEDGER_H */
