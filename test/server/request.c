/*
 * request.c
 *		Blocks are taken and given back; headers are sorted in one pass.
 */
#include "request.h"

#include "timer.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define KEEP_REQUESTS 64	   /* blocks kept for reuse */
#define KEEP_BYTES (64 * 1024) /* larger bodies are not kept with them */
#define ANSWER_MAX ((size_t) 2 * 1024 * 1024 * 1024)

http_request *
request_take(request_pool *pool)
{
	http_request *request = pool->kept;

	if (request != NULL)
	{
		pool->kept = request->next;
		pool->count--;
	}
	else
	{
		request = calloc(1, sizeof(*request));
		if (request == NULL)
			return NULL;
		verdict_buffer_init(&request->body, service_host(), pool->max_request_bytes);
		verdict_buffer_init(&request->plain, service_host(), pool->max_request_bytes);
		verdict_buffer_init(&request->compressed, service_host(), ANSWER_MAX);
		service_call_init(&request->call);
	}
	request->step = STEP_RECEIVE;
	request->too_large = false;
	request->prepared = false;
	request->forgiven = false;
	request->accepts_gzip = false;
	request->log_number = 0;
	request->fault = NULL;
	request->content_type = NULL;
	request->content_encoding = NULL;
	request->allow = NULL;
	request->header_count = 0;
	return request;
}

static void
request_free(http_request *request)
{
	verdict_buffer_free(&request->body);
	verdict_buffer_free(&request->plain);
	verdict_buffer_free(&request->compressed);
	service_call_free(&request->call);
	free(request);
}

static void
recycle_buffer(verdict_buffer *buffer)
{
	if (buffer->capacity > KEEP_BYTES)
		verdict_buffer_free(buffer);
	else
		verdict_buffer_reset(buffer);
}

void
request_give(request_pool *pool, http_request *request)
{
	fault_release(request->fault);
	if (pool->count == KEEP_REQUESTS)
	{
		request_free(request);
		return;
	}
	recycle_buffer(&request->body);
	recycle_buffer(&request->plain);
	recycle_buffer(&request->compressed);
	service_call_reset(&request->call);
	request->next = pool->kept;
	pool->kept = request;
	pool->count++;
}

void
request_pool_free(request_pool *pool)
{
	while (pool->kept != NULL)
	{
		http_request *request = pool->kept;

		pool->kept = request->next;
		request_free(request);
	}
	pool->count = 0;
}

typedef struct known_header
{
	const char *name;
	size_t size;
	size_t offset; /* of the pointer in service_headers */
} known_header;

#define KNOWN(name, member)                                                                        \
	{                                                                                              \
		name, sizeof(name) - 1, offsetof(service_headers, member)                                  \
	}

/* A second one of these is refused: nobody can say which of the two is meant. */
static const known_header known_headers[] = {
	KNOWN("Authorization", authorization),	   KNOWN("Connect-Protocol-Version", protocol_version),
	KNOWN("Connect-Timeout-Ms", timeout_ms),   KNOWN("Verdict-Session-Id", session_id),
	KNOWN("Verdict-Revision", revision),	   KNOWN("Verdict-Consistency", consistency),
	KNOWN("Idempotency-Key", idempotency_key),
};

/* True when a list of codings, most of the time without weights, names gzip. */
static bool
accepts_gzip(const char *list)
{
	while (*list != '\0')
	{
		size_t size;
		size_t item = strcspn(list, ",");

		list += strspn(list, " \t");
		size = strcspn(list, " \t,;");
		if (size == 4 && strncasecmp(list, "gzip", 4) == 0)
		{
			const char *weight = memchr(list, '=', item > 4 ? item : 4);

			return weight == NULL || strtod(weight + 1, NULL) > 0;
		}
		list += strcspn(list, ",");
		if (*list == ',')
			list++;
	}
	return false;
}

static enum MHD_Result
take_header(void *argument, enum MHD_ValueKind kind, const char *name, const char *value)
{
	http_request *request = argument;
	size_t size = strlen(name);

	(void) kind;
	if (value == NULL)
		value = "";
	if (request->header_count < MAX_HEADERS)
	{
		request->headers[2 * request->header_count] = name;
		request->headers[2 * request->header_count + 1] = value;
	}
	request->header_count++;
	if (size == 12 && strcasecmp(name, "Content-Type") == 0)
		request->content_type = value;
	else if (size == 16 && strcasecmp(name, "Content-Encoding") == 0)
		request->content_encoding = value;
	else if (size == 15 && strcasecmp(name, "Accept-Encoding") == 0)
		request->accepts_gzip |= accepts_gzip(value);
	else
		for (size_t i = 0; i < sizeof(known_headers) / sizeof(known_headers[0]); i++)
		{
			const known_header *known = &known_headers[i];
			const char **place =
				(const char **) (void *) ((char *) &request->call.headers + known->offset);

			if (size != known->size || strcasecmp(name, known->name) != 0)
				continue;
			if (*place != NULL)
				request->call.headers.repeated = known->name;
			*place = value;
			break;
		}
	return MHD_YES;
}

void
request_read_head(http_request *request, const char *path_prefix, const char *path,
				  const char *http_method)
{
	size_t prefix_size = strlen(path_prefix);

	request->path = path;
	request->http_method = http_method;
	request->call.started_us = monotonic_us();
	MHD_get_connection_values(request->connection, MHD_HEADER_KIND, take_header, request);
	request->call.format = wire_format_of(request->content_type);
	if (strncmp(path, path_prefix, prefix_size) != 0)
		return;
	path += prefix_size;
	if (strncmp(path, SERVICE_PATH, strlen(SERVICE_PATH)) != 0)
		return;
	path += strlen(SERVICE_PATH);
	request->call.method = service_method_by_name(path, strlen(path));
}
