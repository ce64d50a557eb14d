/*
 * log.c
 *		A ring of entries; each entry is one block of memory.
 *
 * Entries are numbered without gaps, so an entry is found by its number.  The
 * mutex guards everything.
 */
#include "log.h"

#include <openssl/sha.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define LOG_ENTRIES 100000
#define LOG_BYTES (64 * 1024 * 1024)
#define LOG_BODY_BYTES 4096 /* of a body kept as it is */

typedef struct log_entry
{
	uint64_t number;
	uint64_t connection;
	struct timespec arrived;
	size_t size; /* of this block */
	size_t header_count;
	size_t body_size; /* whole */
	size_t body_kept;
	unsigned char body_hash[SHA256_DIGEST_LENGTH];
	const char *method; /* static strings */
	const char *format;
	const char *fault;
	const char *code;
	bool clustered;
	int address;
	int node;
	bool ended;
	bool executed;
	bool replayed;
	int status;
	int64_t duration_us;
	/* http method, path, names and values, each with its NUL; then the body */
	char bytes[];
} log_entry;

struct request_log
{
	pthread_mutex_t mutex;
	log_entry *ring[LOG_ENTRIES]; /* of number n at n % LOG_ENTRIES */
	uint64_t oldest;			  /* number of the oldest entry */
	uint64_t next;				  /* number of the next entry */
	size_t bytes;
};

request_log *
request_log_create(void)
{
	request_log *log = calloc(1, sizeof(*log));

	if (log == NULL)
		return NULL;
	pthread_mutex_init(&log->mutex, NULL);
	log->oldest = log->next = 1;
	return log;
}

static void
drop_oldest(request_log *log)
{
	log_entry **place = &log->ring[log->oldest % LOG_ENTRIES];

	log->bytes -= (*place)->size;
	free(*place);
	*place = NULL;
	log->oldest++;
}

void
request_log_clear(request_log *log)
{
	pthread_mutex_lock(&log->mutex);
	while (log->oldest < log->next)
		drop_oldest(log);
	pthread_mutex_unlock(&log->mutex);
}

void
request_log_destroy(request_log *log)
{
	if (log == NULL)
		return;
	request_log_clear(log);
	pthread_mutex_destroy(&log->mutex);
	free(log);
}

/* A value that must not be kept is told by its presence. */
static const char *
value_to_keep(const char *name, const char *value)
{
	if (strcasecmp(name, "Authorization") == 0 || strcasecmp(name, "Proxy-Authorization") == 0 ||
		strcasecmp(name, "Cookie") == 0)
		return "present";
	return value != NULL ? value : "";
}

static char *
put_string(char *place, const char *string)
{
	size_t size = strlen(string) + 1;

	memcpy(place, string, size);
	return place + size;
}

uint64_t
request_log_arrival(request_log *log, const request_arrival *arrival)
{
	size_t kept = arrival->body_size < LOG_BODY_BYTES ? arrival->body_size : LOG_BODY_BYTES;
	size_t size = sizeof(log_entry) + kept;
	log_entry *entry;
	char *place;
	uint64_t number;

	size += strlen(arrival->http_method) + strlen(arrival->path) + 2;
	for (size_t i = 0; i < arrival->header_count; i++)
		size += strlen(arrival->headers[2 * i]) + 2 +
				strlen(value_to_keep(arrival->headers[2 * i], arrival->headers[2 * i + 1]));
	entry = calloc(1, size);
	if (entry == NULL)
		return 0;
	clock_gettime(CLOCK_REALTIME, &entry->arrived);
	entry->size = size;
	entry->connection = arrival->connection;
	entry->method = arrival->method;
	entry->format = arrival->format;
	entry->fault = arrival->fault;
	entry->clustered = arrival->clustered;
	entry->address = arrival->address;
	entry->node = -1;
	entry->header_count = arrival->header_count;
	entry->body_size = arrival->body_size;
	entry->body_kept = kept;
	SHA256(arrival->body, arrival->body_size, entry->body_hash);
	place = put_string(entry->bytes, arrival->http_method);
	place = put_string(place, arrival->path);
	for (size_t i = 0; i < arrival->header_count; i++)
	{
		char *name = place;

		place = put_string(place, arrival->headers[2 * i]);
		for (; *name != '\0'; name++)
			if (*name >= 'A' && *name <= 'Z')
				*name = (char) (*name - 'A' + 'a');
		place =
			put_string(place, value_to_keep(arrival->headers[2 * i], arrival->headers[2 * i + 1]));
	}
	if (kept > 0)
		memcpy(place, arrival->body, kept);

	pthread_mutex_lock(&log->mutex);
	while (log->oldest < log->next &&
		   (log->next - log->oldest == LOG_ENTRIES || log->bytes + size > LOG_BYTES))
		drop_oldest(log);
	number = log->next++;
	entry->number = number;
	log->ring[number % LOG_ENTRIES] = entry;
	log->bytes += size;
	pthread_mutex_unlock(&log->mutex);
	return number;
}

void
request_log_end(request_log *log, uint64_t number, const request_end *end)
{
	pthread_mutex_lock(&log->mutex);
	if (number >= log->oldest && number < log->next)
	{
		log_entry *entry = log->ring[number % LOG_ENTRIES];

		entry->ended = true;
		entry->executed = end->executed;
		entry->replayed = end->replayed;
		entry->status = end->status;
		entry->code = end->code;
		entry->duration_us = end->duration_us;
		entry->node = end->node;
	}
	pthread_mutex_unlock(&log->mutex);
}

static json_t *
json_hex(const void *bytes, size_t size)
{
	static const char digits[] = "0123456789abcdef";
	char *text = malloc(2 * size + 1);
	json_t *json;

	if (text == NULL)
		return NULL;
	for (size_t i = 0; i < size; i++)
	{
		unsigned char byte = ((const unsigned char *) bytes)[i];

		text[2 * i] = digits[byte >> 4];
		text[2 * i + 1] = digits[byte & 15];
	}
	json = json_stringn_nocheck(text, 2 * size);
	free(text);
	return json;
}

/* A header or path may hold any byte: what is not UTF-8 is shown as hex. */
static json_t *
json_text(const char *text)
{
	json_t *json = json_string(text);
	json_t *hex;

	if (json != NULL)
		return json;
	hex = json_hex(text, strlen(text));
	json = json_pack("{s:o}", "hex", hex);
	return json;
}

/* An absent text is null. */
static json_t *
json_text_or_null(const char *text)
{
	return text != NULL ? json_text(text) : json_null();
}

/*
 * Headers become an object; a name that came more than once holds an array, so
 * that a test can tell.
 */
static void
add_header(json_t *headers, const char *name, json_t *value)
{
	json_t *before = json_object_get(headers, name);
	json_t *array;

	if (before == NULL)
		json_object_set_new_nocheck(headers, name, value);
	else if (json_is_array(before))
		json_array_append_new(before, value);
	else
	{
		array = json_array();
		json_array_append(array, before);
		json_array_append_new(array, value);
		json_object_set_new_nocheck(headers, name, array);
	}
}

static json_t *
entry_json(const log_entry *entry)
{
	json_t *json = json_object();
	json_t *headers = json_object();
	const char *http_method = entry->bytes;
	const char *path = http_method + strlen(http_method) + 1;
	const char *place = path + strlen(path) + 1;

	for (size_t i = 0; i < entry->header_count; i++)
	{
		const char *name = place;
		const char *value = name + strlen(name) + 1;

		place = value + strlen(value) + 1;
		add_header(headers, name, json_text(value));
	}
	json_object_set_new(json, "number", json_integer((json_int_t) entry->number));
	json_object_set_new(json, "connection", json_integer((json_int_t) entry->connection));
	json_object_set_new(
		json, "arrived",
		json_real((double) entry->arrived.tv_sec + (double) entry->arrived.tv_nsec / 1e9));
	json_object_set_new(json, "http_method", json_text(http_method));
	json_object_set_new(json, "path", json_text(path));
	json_object_set_new(json, "method", json_text_or_null(entry->method));
	json_object_set_new(json, "format", json_text_or_null(entry->format));
	json_object_set_new(json, "headers", headers);
	json_object_set_new(json, "body_size", json_integer((json_int_t) entry->body_size));
	json_object_set_new(json, "body_sha256", json_hex(entry->body_hash, sizeof(entry->body_hash)));
	/* cut bodies are recognised by their size and hash */
	json_object_set_new(json, "body_hex", json_hex(place, entry->body_kept));
	json_object_set_new(json, "fault", json_text_or_null(entry->fault));
	json_object_set_new(json, "ended", json_boolean(entry->ended));
	json_object_set_new(json, "executed", json_boolean(entry->executed));
	json_object_set_new(json, "replayed", json_boolean(entry->replayed));
	json_object_set_new(json, "status",
						entry->status != 0 ? json_integer(entry->status) : json_null());
	json_object_set_new(json, "code", json_text_or_null(entry->code));
	json_object_set_new(json, "duration_us", json_integer(entry->duration_us));
	if (entry->clustered)
	{
		json_object_set_new(json, "address",
							entry->address < 0 ? json_string("front")
											   : json_integer(entry->address));
		json_object_set_new(json, "served_by",
							entry->node < 0 ? json_null() : json_integer(entry->node));
	}
	return json;
}

json_t *
request_log_json(request_log *log)
{
	json_t *array = json_array();

	if (array == NULL)
		return NULL;
	pthread_mutex_lock(&log->mutex);
	for (uint64_t number = log->oldest; number < log->next; number++)
		json_array_append_new(array, entry_json(log->ring[number % LOG_ENTRIES]));
	pthread_mutex_unlock(&log->mutex);
	return array;
}
