/*
 * idempotency.c
 *		Keys that name one batch of changes, and fingerprints of payloads.
 *
 * What is hashed is unambiguous: integers stand in 8 bytes, strings after their
 * length in 8 bytes, both big-endian, and each kind of hash starts with a label
 * of its own.  A key is kept by instances and outboxes for a day and longer, so
 * the encoding must not change under the same prefix "pg1-".
 */
#include "idempotency.h"

#include <openssl/evp.h>
#include <string.h>

#define KEY_PREFIX "pg1-"
#define KEY_LABEL "verdict idempotency key 1"
#define FINGERPRINT_LABEL "verdict payload fingerprint 1"
#define APPLICATION_LABEL "verdict application key 1"

/* A hash under way; a step after a failed one does nothing. */
typedef struct hasher
{
	EVP_MD_CTX *context;
	bool ok;
} hasher;

static void
hash_integer(hasher *h, uint64_t value)
{
	unsigned char bytes[8];
	int i;

	for (i = 7; i >= 0; i--)
	{
		bytes[i] = (unsigned char) (value & 0xff);
		value >>= 8;
	}
	h->ok = h->ok && EVP_DigestUpdate(h->context, bytes, sizeof(bytes)) == 1;
}

static void
hash_bytes(hasher *h, const void *bytes, size_t size)
{
	hash_integer(h, size);
	if (size > 0)
		h->ok = h->ok && EVP_DigestUpdate(h->context, bytes, size) == 1;
}

static void
hash_begin(hasher *h, const char *label)
{
	h->context = EVP_MD_CTX_new();
	h->ok = h->context != NULL && EVP_DigestInit_ex(h->context, EVP_sha256(), NULL) == 1;
	hash_bytes(h, label, strlen(label));
}

/* Frees the hash and writes its 32 bytes. */
static bool
hash_end(hasher *h, unsigned char *hash, verdict_status *status)
{
	unsigned int size = 0;

	h->ok = h->ok && EVP_DigestFinal_ex(h->context, hash, &size) == 1 &&
			size == VERDICT_FINGERPRINT_SIZE;
	EVP_MD_CTX_free(h->context);
	if (!h->ok)
		return verdict_status_fail(status, VERDICT_INTERNAL, VERDICT_CAUSE_INTERNAL,
								   "libcrypto could not compute a SHA-256 hash");
	return true;
}

bool
verdict_key_derive(const verdict_key_parts *parts, char *key, verdict_status *status)
{
	static const char digits[] = "0123456789abcdef";
	hasher h;
	unsigned char hash[EVP_MAX_MD_SIZE];
	char *next = key;
	int i;

	*key = '\0';
	hash_begin(&h, KEY_LABEL);
	hash_integer(&h, parts->system_identifier);
	hash_integer(&h, parts->timeline);
	hash_integer(&h, parts->database);
	hash_integer(&h, parts->process);
	hash_integer(&h, parts->transaction);
	hash_integer(&h, parts->ordinal);
	hash_bytes(&h, parts->method, strlen(parts->method));
	hash_bytes(&h, parts->payload, parts->payload_size);
	if (!hash_end(&h, hash, status))
		return false;

	memcpy(next, KEY_PREFIX, strlen(KEY_PREFIX));
	next += strlen(KEY_PREFIX);
	for (i = 0; i < VERDICT_FINGERPRINT_SIZE; i++)
	{
		*next++ = digits[hash[i] >> 4];
		*next++ = digits[hash[i] & 0x0f];
	}
	*next = '\0';
	return true;
}

bool
verdict_key_valid(const char *key)
{
	size_t length;

	if (key == NULL)
		return false;
	for (length = 0; key[length] != '\0'; length++)
	{
		/* Visible: no blank, which a header could lose at its ends. */
		if (length == VERDICT_KEY_MAX || key[length] <= 0x20 || key[length] >= 0x7f)
			return false;
	}
	return length > 0;
}

bool
verdict_fingerprint(const char *method, const void *payload, size_t payload_size,
					unsigned char *fingerprint, verdict_status *status)
{
	hasher h;
	unsigned char hash[EVP_MAX_MD_SIZE];

	hash_begin(&h, FINGERPRINT_LABEL);
	hash_bytes(&h, method, strlen(method));
	hash_bytes(&h, payload, payload_size);
	if (!hash_end(&h, hash, status))
		return false;
	memcpy(fingerprint, hash, VERDICT_FINGERPRINT_SIZE);
	return true;
}

bool
verdict_application_key_hash(const char *key, uint64_t number, unsigned char *hash,
							 verdict_status *status)
{
	hasher h;
	unsigned char digest[EVP_MAX_MD_SIZE];

	hash_begin(&h, APPLICATION_LABEL);
	hash_bytes(&h, key, strlen(key));
	hash_integer(&h, number);
	if (!hash_end(&h, digest, status))
		return false;
	memcpy(hash, digest, VERDICT_FINGERPRINT_SIZE);
	return true;
}
