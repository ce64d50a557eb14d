/*
 * idempotency.h
 *		Keys that name one batch of changes, and fingerprints of payloads.
 */
#ifndef VERDICT_IDEMPOTENCY_H
#define VERDICT_IDEMPOTENCY_H

#include "status.h"

#include <stddef.h>

#define VERDICT_KEY_MAX 255			/* visible ASCII characters of an Idempotency-Key */
#define VERDICT_FINGERPRINT_SIZE 32 /* SHA-256 */

/*
 * What names a batch: all of it goes into the key, each part with its length,
 * so that no two different lists of parts hash alike.
 */
typedef struct verdict_key_parts
{
	uint64_t system_identifier;
	uint32_t timeline;
	uint32_t database;
	uint64_t process;	  /* a random number of the process that makes it: after a
							 * crash a transaction id can come again, and a copy of
							 * the database has all the others in common with it */
	uint64_t transaction; /* 64-bit top-level transaction id */
	uint64_t ordinal;	  /* of the batch in the transaction; never reused */
	const char *method;	  /* "InsertFact", ... */
	const void *payload;  /* the request in the binary wire format */
	size_t payload_size;
} verdict_key_parts;

/*
 * Writes "pg1-" and 64 hexadecimal digits and a terminator to "key"
 * (VERDICT_KEY_MAX + 1 bytes).  Fails only when the hash library does.
 */
extern bool verdict_key_derive(const verdict_key_parts *parts, char *key, verdict_status *status);
/* A key from a random UUID is made by the client when the caller gives none. */

/* True for 1 to 255 visible ASCII characters. */
extern bool verdict_key_valid(const char *key);

/* SHA-256 of method and payload, for telling a retry from another request. */
extern bool verdict_fingerprint(const char *method, const void *payload, size_t payload_size,
								unsigned char *fingerprint, verdict_status *status);

/*
 * SHA-256 of an application's own key and the number of a batch under it, from
 * 0: what a ledger stores, so that the key itself is nowhere to be read.  "hash"
 * gets VERDICT_FINGERPRINT_SIZE bytes.
 */
extern bool verdict_application_key_hash(const char *key, uint64_t number, unsigned char *hash,
										 verdict_status *status);

#endif /* VERDICT_IDEMPOTENCY_H */
