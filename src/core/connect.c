/*
 * connect.c
 *		See connect.h.  Every table of the protocol stands here once.
 *
 * jansson's values live only inside verdict_connect_parse_error(); what it
 * gives out is copied into the caller's arena.
 */
#include "connect.h"

#include "retry.h"
#include "text.h"

#include <jansson.h>
#include <string.h>
#include <strings.h>

#define TRAILER_PREFIX "Trailer-"

/* ---- requests ---- */

bool
verdict_connect_url(verdict_buffer *out, const char *base_url, const char *service,
					const char *method)
{
	size_t size = strlen(base_url);

	while (size > 0 && base_url[size - 1] == '/')
		size--;
	return verdict_buffer_append(out, base_url, size) && verdict_buffer_append_string(out, "/") &&
		   verdict_buffer_append_string(out, service) && verdict_buffer_append_string(out, "/") &&
		   verdict_buffer_append_string(out, method);
}

bool
verdict_connect_add_header(verdict_buffer *lines, const char *name, const char *value)
{
	return verdict_buffer_append_string(lines, name) && verdict_buffer_append(lines, ": ", 2) &&
		   verdict_buffer_append(lines, value, strlen(value) + 1);
}

bool
verdict_connect_add_headers(verdict_buffer *lines, verdict_wire_format format)
{
	return verdict_connect_add_header(lines, "Connect-Protocol-Version", "1") &&
		   verdict_connect_add_header(lines, "Content-Type", verdict_wire_content_type(format));
}

bool
verdict_connect_add_timeout(verdict_buffer *lines, int64_t left_ms)
{
	if (left_ms < 1)
		left_ms = 1;
	if (left_ms > VERDICT_CONNECT_TIMEOUT_MAX_MS)
		left_ms = VERDICT_CONNECT_TIMEOUT_MAX_MS;
	return verdict_buffer_printf(lines, "Connect-Timeout-Ms: %d", (int) left_ms) &&
		   verdict_buffer_append(lines, "", 1);
}

/* ---- content types ---- */

/* Compares the media type, without its parameters. */
static bool
media_type_is(const char *content_type, const char *media_type)
{
	size_t size = strcspn(content_type, ";");

	while (size > 0 && (content_type[size - 1] == ' ' || content_type[size - 1] == '\t'))
		size--;
	return size == strlen(media_type) && strncasecmp(content_type, media_type, size) == 0;
}

/* The one Content-Type; NULL when there is none or more than one. */
static const char *
content_type_of(const verdict_headers *headers)
{
	const char *content_type;

	return verdict_headers_find(headers, "Content-Type", &content_type) == 1 ? content_type : NULL;
}

/* ---- error bodies ---- */

/*
 * Reads one detail.  False when there is no memory; "*readable" tells whether
 * it is one.
 */
static bool
parse_detail(verdict_arena *arena, const json_t *json, verdict_connect_detail *detail,
			 bool *readable)
{
	const json_t *type = json_object_get(json, "type");
	const json_t *value = json_object_get(json, "value");
	unsigned char *bytes;
	int64_t size;

	*readable = false;
	if (!json_is_string(type) || !json_is_string(value) || json_string_length(type) == 0)
		return true;
	bytes = verdict_arena_alloc(arena, json_string_length(value) + 1);
	if (bytes == NULL)
		return false;
	size = verdict_base64_decode(json_string_value(value), json_string_length(value), bytes);
	if (size < 0)
		return true;
	detail->type = verdict_arena_strndup(arena, json_string_value(type), json_string_length(type));
	detail->value = bytes;
	detail->size = (size_t) size;
	*readable = detail->type != NULL;
	return *readable;
}

static bool
parse_details(verdict_arena *arena, const json_t *json, verdict_connect_error *error)
{
	size_t count = json_array_size(json); /* 0 when it is not an array */
	verdict_connect_detail *details;
	size_t i;

	if (count == 0)
		return true;
	details = verdict_arena_alloc(arena, count * sizeof(*details));
	if (details == NULL)
		return false;
	for (i = 0; i < count; i++)
	{
		bool readable;

		if (!parse_detail(arena, json_array_get(json, i), &details[error->detail_count], &readable))
			return false;
		if (readable)
			error->detail_count++;
	}
	error->details = details;
	return true;
}

bool
verdict_connect_parse_error(verdict_arena *arena, const char *body, size_t size,
							verdict_connect_error *error)
{
	json_t *json;
	const json_t *code;
	const json_t *message;
	bool succeeded = true;

	memset(error, 0, sizeof(*error));
	if (size == 0)
		return true;
	json = json_loadb(body, size, JSON_REJECT_DUPLICATES, NULL);
	if (json == NULL)
		return true;
	code = json_object_get(json, "code"); /* NULL when it is not an object */
	if (json_is_string(code))
		error->code = verdict_code_from_name(json_string_value(code));
	message = json_object_get(json, "message");
	if (json_is_string(message))
	{
		error->message =
			verdict_arena_strndup(arena, json_string_value(message), json_string_length(message));
		succeeded = error->message != NULL;
	}
	if (succeeded)
		succeeded = parse_details(arena, json_object_get(json, "details"), error);
	json_decref(json);
	return succeeded;
}

/* ---- answers ---- */

verdict_code
verdict_connect_code_of_http(int http_status)
{
	switch (http_status)
	{
		case 400:
			return VERDICT_INTERNAL;
		case 401:
			return VERDICT_UNAUTHENTICATED;
		case 403:
			return VERDICT_PERMISSION_DENIED;
		case 404:
			return VERDICT_UNIMPLEMENTED;
		case 429:
		case 502:
		case 503:
		case 504:
			return VERDICT_UNAVAILABLE;
		default:
			return VERDICT_UNKNOWN;
	}
}

/* Whether a code that the instance gave says that the call did not run. */
static bool
code_rejects(verdict_code code, bool keyed)
{
	switch (code)
	{
		case VERDICT_CANCELED:
		case VERDICT_UNKNOWN:
		case VERDICT_DEADLINE_EXCEEDED:
		case VERDICT_INTERNAL:
		case VERDICT_UNAVAILABLE:
		case VERDICT_DATA_LOSS:
			return false;
		case VERDICT_ABORTED:
			return !keyed;
		default:
			return true;
	}
}

static bool
check_success(const verdict_headers *headers, verdict_wire_format format, verdict_status *status)
{
	const char *content_type = content_type_of(headers);

	if (content_type != NULL && media_type_is(content_type, verdict_wire_content_type(format)))
		return true;

	status->outcome = VERDICT_OUTCOME_MAYBE_APPLIED;
	if (content_type != NULL && strncasecmp(content_type, "application/", 12) == 0)
		return verdict_status_fail(status, VERDICT_INTERNAL, VERDICT_CAUSE_ANSWER,
								   "the answer has the content type %.100s instead of %s",
								   content_type, verdict_wire_content_type(format));
	/* Not the instance's own "unknown": nothing here asks for another attempt. */
	status->inferred = true;
	return verdict_status_fail(status, VERDICT_UNKNOWN, VERDICT_CAUSE_ANSWER,
							   "the answer is not a Connect answer (content type %.100s)",
							   content_type != NULL ? content_type : "missing");
}

static bool
has_text(const char *text)
{
	return text != NULL && text[0] != '\0';
}

bool
verdict_connect_check_answer(const verdict_headers *headers, const char *body, size_t size,
							 verdict_wire_format format, bool keyed, int64_t wall_clock_s,
							 verdict_arena *arena, verdict_connect_error *error,
							 verdict_status *status)
{
	verdict_connect_error parsed;
	const char *content_type;
	const char *retry_after;

	memset(&parsed, 0, sizeof(parsed));
	if (error != NULL)
		*error = parsed;
	status->http_status = headers->status;
	if (headers->status == 200)
		return check_success(headers, format, status);

	if (verdict_headers_find(headers, "Retry-After", &retry_after) == 1)
		status->retry_after_ms = verdict_retry_after_ms(retry_after, wall_clock_s);

	status->outcome = VERDICT_OUTCOME_MAYBE_APPLIED;
	content_type = content_type_of(headers);
	if (content_type != NULL && media_type_is(content_type, "application/json") &&
		!verdict_connect_parse_error(arena, body, size, &parsed) && arena->no_memory)
		return verdict_status_no_memory(status);
	if (error != NULL)
		*error = parsed;

	if (parsed.code != VERDICT_OK)
	{
		if (code_rejects(parsed.code, keyed))
			status->outcome = VERDICT_OUTCOME_REJECTED;
		return verdict_status_fail(status, parsed.code, VERDICT_CAUSE_REMOTE, "%s",
								   has_text(parsed.message) ? parsed.message
															: "the instance gave no reason");
	}
	status->inferred = true;
	if (has_text(parsed.message))
		return verdict_status_fail(status, verdict_connect_code_of_http(headers->status),
								   VERDICT_CAUSE_HTTP, "HTTP status %d: %s", headers->status,
								   parsed.message);
	return verdict_status_fail(status, verdict_connect_code_of_http(headers->status),
							   VERDICT_CAUSE_HTTP, "HTTP status %d without a Connect error",
							   headers->status);
}

const char *
verdict_connect_trailer_name(const char *header_name)
{
	size_t size = strlen(TRAILER_PREFIX);

	return strncasecmp(header_name, TRAILER_PREFIX, size) == 0 && header_name[size] != '\0'
			   ? header_name + size
			   : NULL;
}
