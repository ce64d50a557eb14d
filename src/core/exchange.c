/*
 * exchange.c
 *		See transport.h: one request, its answer, and what a failure means.
 *
 * An exchange owns its easy handle and buffers and is used again and again; the
 * pool frees it.  The callbacks below run inside libcurl: they write into the
 * exchange and return, and whatever makes them refuse an answer is noted there,
 * since libcurl only says that a callback failed.
 */
#include "transport_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Memory that an idle exchange may keep for its next answer. */
#define BODY_BYTES_KEPT (64 * 1024)

/* libcurl's wait for one address must not end before the caller's own. */
#define CONNECT_MARGIN_MS 1000

/* Kept connections older than this are not trusted to be alive. */
#define KEPT_CONNECTION_SECONDS 60

/* ---- callbacks ---- */

static void
refuse(verdict_exchange *exchange, verdict_code code, verdict_cause cause, const char *reason)
{
	if (exchange->refused_code != VERDICT_OK)
		return;
	exchange->refused_code = code;
	exchange->refused_cause = cause;
	exchange->refused_reason = reason;
}

static void
refuse_answer(verdict_exchange *exchange, const char *reason)
{
	refuse(exchange, VERDICT_INTERNAL, VERDICT_CAUSE_ANSWER, reason);
}

static void
refuse_size(verdict_exchange *exchange)
{
	refuse(exchange, VERDICT_RESOURCE_EXHAUSTED, VERDICT_CAUSE_TOO_LARGE, NULL);
}

/*
 * The connection is there and the request goes out next.  A second time in one
 * exchange means that libcurl would send it again by itself.
 */
static int
before_send(void *context, char *peer_address, char *own_address, int peer_port, int own_port)
{
	verdict_exchange *exchange = context;

	(void) peer_address;
	(void) own_address;
	(void) peer_port;
	if (exchange->sent)
	{
		exchange->resend_refused = true;
		return CURL_PREREQFUNC_ABORT;
	}
	if (exchange->fresh)
		verdict_runtime_note_ports(exchange->pool->runtime);
	else if (!exchange->pool->speaks_http2 &&
			 !verdict_runtime_idle_is_clean(exchange->pool->runtime, own_port))
	{
		exchange->unclean = true;
		return CURL_PREREQFUNC_ABORT;
	}
	exchange->sent = true;
	return CURL_PREREQFUNC_OK;
}

static curl_socket_t
open_socket(void *context, curlsocktype purpose, struct curl_sockaddr *address)
{
	verdict_exchange *exchange = context;
	verdict_runtime *runtime = exchange->pool->runtime;
	const verdict_host *host = runtime->host;
	int fd;

	(void) purpose;
	/* Spares the connection on which before_send() would refuse. */
	if (exchange->sent)
	{
		exchange->resend_refused = true;
		return CURL_SOCKET_BAD;
	}
	if (host->reserve_descriptor != NULL && !host->reserve_descriptor(host->context))
	{
		exchange->no_descriptor = true;
		return CURL_SOCKET_BAD;
	}
	fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
	if (fd >= 0 && !verdict_runtime_register(runtime, fd))
	{
		exchange->no_memory = true;
		close(fd);
		fd = -1;
	}
	else if (fd < 0)
		exchange->no_descriptor = errno == EMFILE || errno == ENFILE;
	if (fd >= 0)
	{
		exchange->fresh = true;
		return fd;
	}
	if (host->release_descriptor != NULL)
		host->release_descriptor(host->context);
	return CURL_SOCKET_BAD;
}

/* The headers are all there: decide whether and how to take the body. */
static bool
begin_body(verdict_exchange *exchange)
{
	const char *reason = NULL;
	bool gzip;

	exchange->length = -1;
	if (!verdict_headers_encoding(&exchange->headers, &gzip, &reason))
	{
		if (exchange->headers.status == 200)
		{
			refuse_answer(exchange, reason);
			return false;
		}
		exchange->discard = true;
		gzip = false;
	}
	exchange->gzip = gzip;
	exchange->body.maximum = VERDICT_ERROR_BYTES_MAX;
	if (exchange->headers.status == 200)
	{
		if (!verdict_headers_framing(&exchange->headers, &exchange->length, &reason))
		{
			refuse_answer(exchange, reason);
			return false;
		}
		exchange->body.maximum = exchange->pool->max_response_bytes;
		if (exchange->length > (int64_t) exchange->body.maximum)
		{
			refuse_size(exchange);
			return false;
		}
	}
	if (!gzip)
		return true;
	if (exchange->inflate == NULL)
		exchange->inflate = verdict_inflate_create(exchange->pool->runtime->host);
	if (exchange->inflate == NULL)
	{
		exchange->no_memory = true;
		return false;
	}
	verdict_inflate_begin(exchange->inflate);
	return true;
}

static size_t
take_header(char *line, size_t one, size_t size, void *context)
{
	verdict_exchange *exchange = context;

	(void) one;
	switch (verdict_headers_add_line(&exchange->headers, line, size))
	{
		case VERDICT_HEADERS_MORE:
			return size;
		case VERDICT_HEADERS_COMPLETE:
			if (begin_body(exchange))
				return size;
			break;
		case VERDICT_HEADERS_MALFORMED:
			refuse_answer(exchange, "its headers are malformed");
			break;
		case VERDICT_HEADERS_TOO_LARGE:
			refuse_answer(exchange, "its headers are too large");
			break;
		case VERDICT_HEADERS_NO_MEMORY:
			exchange->no_memory = true;
			break;
	}
	return CURL_WRITEFUNC_ERROR;
}

/* True when the bytes were taken; else it is noted why not. */
static bool
add_to_body(verdict_exchange *exchange, const char *bytes, size_t size)
{
	verdict_inflate_result inflated = VERDICT_INFLATE_OK;

	if (exchange->gzip)
		inflated = verdict_inflate_add(exchange->inflate, bytes, size, &exchange->body);
	else
		verdict_buffer_append(&exchange->body, bytes, size);

	if (inflated == VERDICT_INFLATE_OK && exchange->body.state == VERDICT_BUFFER_OK)
		return true;
	if (inflated == VERDICT_INFLATE_NO_MEMORY || exchange->body.state == VERDICT_BUFFER_NO_MEMORY)
		exchange->no_memory = true;
	else if (exchange->headers.status != 200)
		exchange->discard = true;
	else if (exchange->body.state == VERDICT_BUFFER_TOO_LARGE)
		refuse_size(exchange);
	else
		refuse_answer(exchange, "its body is not the gzip that its headers promise");
	return false;
}

static size_t
take_body(char *bytes, size_t one, size_t size, void *context)
{
	verdict_exchange *exchange = context;

	(void) one;
	exchange->received += (int64_t) size;
	if (!exchange->discard && !add_to_body(exchange, bytes, size) && !exchange->discard)
		return CURL_WRITEFUNC_ERROR;
	/* A body of no use is read to its end only when that end is near. */
	if (exchange->discard && exchange->received > VERDICT_ERROR_BYTES_MAX)
		return CURL_WRITEFUNC_ERROR;
	return size;
}

/* ---- making and freeing ---- */

/* What is the same for every request of an exchange. */
static bool
set_up(verdict_exchange *exchange)
{
	verdict_pool *pool = exchange->pool;
	CURL *easy = exchange->easy;
	bool http2 = pool->http_version == VERDICT_HTTP_2;
	CURLcode result = CURLE_OK;

#define SET(option, value)                                                                         \
	(result = result == CURLE_OK ? curl_easy_setopt(easy, CURLOPT_##option, value) : result)
	SET(PRIVATE, exchange);
	SET(ERRORBUFFER, exchange->error);
	SET(SHARE, pool->share);
	SET(NOSIGNAL, 1L);
	SET(QUICK_EXIT, 1L);
	SET(PROTOCOLS_STR, "http,https");
	SET(PROXY, "");
	SET(NOPROXY, "*");
	SET(NETRC, (long) CURL_NETRC_IGNORED);
	SET(HTTPAUTH, (long) CURLAUTH_NONE);
	SET(FOLLOWLOCATION, 0L);
	SET(POST, 1L);
	SET(HTTP_VERSION, http2 ? (long) CURL_HTTP_VERSION_2TLS : (long) CURL_HTTP_VERSION_1_1);
	/* Calls that go out together share the connection that the first opens. */
	SET(PIPEWAIT, http2 ? 1L : 0L);
	SET(TCP_NODELAY, 1L);
	SET(MAXAGE_CONN, (long) KEPT_CONNECTION_SECONDS);
	SET(SSL_VERIFYPEER, 1L);
	SET(SSL_VERIFYHOST, 2L);
	SET(SSLVERSION, (long) CURL_SSLVERSION_TLSv1_2);
	if (pool->ssl_ca_file != NULL)
		SET(CAINFO, pool->ssl_ca_file);
	SET(PREREQFUNCTION, before_send);
	SET(PREREQDATA, exchange);
	SET(OPENSOCKETFUNCTION, open_socket);
	SET(OPENSOCKETDATA, exchange);
	SET(CLOSESOCKETFUNCTION, verdict_runtime_close_socket);
	SET(CLOSESOCKETDATA, pool->runtime);
	SET(HEADERFUNCTION, take_header);
	SET(HEADERDATA, exchange);
	SET(WRITEFUNCTION, take_body);
	SET(WRITEDATA, exchange);
#undef SET
	return result == CURLE_OK;
}

static verdict_exchange *
exchange_create(verdict_pool *pool)
{
	const verdict_host *host = pool->runtime->host;
	verdict_exchange *exchange = verdict_alloc_zero(host, sizeof(*exchange));

	if (exchange == NULL)
		return NULL;
	exchange->pool = pool;
	verdict_headers_init(&exchange->headers, host);
	verdict_buffer_init(&exchange->body, host, pool->max_response_bytes);
	exchange->easy = curl_easy_init();
	exchange->address = curl_url();
	if (exchange->easy == NULL || exchange->address == NULL || !set_up(exchange))
	{
		verdict_exchange_free(exchange);
		return NULL;
	}
	return exchange;
}

void
verdict_exchange_free(verdict_exchange *exchange)
{
	const verdict_host *host = exchange->pool->runtime->host;

	verdict_exchange_abort(exchange);
	if (exchange->easy != NULL)
		curl_easy_cleanup(exchange->easy);
	curl_url_cleanup(exchange->address);
	verdict_headers_free(&exchange->headers);
	verdict_buffer_free(&exchange->body);
	verdict_inflate_free(exchange->inflate);
	verdict_free(host, exchange->url);
	verdict_free(host, exchange);
}

verdict_exchange *
verdict_exchange_acquire(verdict_pool *pool, verdict_status *status)
{
	verdict_exchange *exchange;
	int i;

	for (i = 0; i < pool->exchange_count; i++)
	{
		exchange = pool->exchanges[i];
		if (!exchange->acquired)
		{
			exchange->acquired = true;
			return exchange;
		}
	}
	if (pool->exchange_count == VERDICT_MAX_IN_FLIGHT)
	{
		verdict_status_fail(status, VERDICT_INTERNAL, VERDICT_CAUSE_INTERNAL,
							"too many requests under way at once");
		return NULL;
	}
	exchange = exchange_create(pool);
	if (exchange == NULL)
	{
		verdict_status_no_memory(status);
		return NULL;
	}
	exchange->acquired = true;
	pool->exchanges[pool->exchange_count++] = exchange;
	return exchange;
}

void
verdict_exchange_release(verdict_exchange *exchange)
{
	verdict_exchange_abort(exchange);
	if (exchange->body.capacity > BODY_BYTES_KEPT)
		verdict_buffer_free(&exchange->body);
	exchange->acquired = false;
}

/* ---- one exchange ---- */

static bool
set_forbid_reuse(verdict_exchange *exchange, bool forbid)
{
	if (exchange->forbid_reuse == forbid)
		return true;
	exchange->forbid_reuse = forbid;
	return curl_easy_setopt(exchange->easy, CURLOPT_FORBID_REUSE, forbid ? 1L : 0L) == CURLE_OK;
}

/* Strings that follow each other, as the list that libcurl walks. */
static int
add_lines(verdict_exchange *exchange, int count, verdict_header_lines lines)
{
	size_t position = 0;

	while (position < lines.size)
	{
		if (count == VERDICT_MAX_REQUEST_HEADERS)
			return -1;
		exchange->lines[count++].data = (char *) lines.bytes + position;
		position += strlen(lines.bytes + position) + 1;
	}
	return count;
}

static bool
link_headers(verdict_exchange *exchange, const verdict_request *request)
{
	static char accept_gzip[] = "Accept-Encoding: gzip";
	static char no_expect[] = "Expect:";
	int count = add_lines(exchange, 0, exchange->pool->headers);
	int i;

	if (count >= 0)
		count = add_lines(exchange, count, request->headers);
	if (count < 0)
		return false;
	exchange->lines[count++].data = accept_gzip;
	/* Takes out the header that libcurl adds to large bodies. */
	exchange->lines[count++].data = no_expect;
	for (i = 0; i < count; i++)
		exchange->lines[i].next = i + 1 < count ? &exchange->lines[i + 1] : NULL;
	return true;
}

/*
 * libcurl is given the address in parts: a text it would parse and write anew
 * for every request.
 */
static bool
set_url(verdict_exchange *exchange, const char *url)
{
	const verdict_host *host = exchange->pool->runtime->host;

	if (exchange->url != NULL && strcmp(exchange->url, url) == 0)
		return true;
	verdict_free(host, exchange->url);
	exchange->url = NULL;
	if (curl_url_set(exchange->address, CURLUPART_URL, url, CURLU_PATH_AS_IS) != CURLUE_OK ||
		curl_easy_setopt(exchange->easy, CURLOPT_CURLU, exchange->address) != CURLE_OK)
		return false;
	exchange->url = verdict_strdup(host, url);
	return exchange->url != NULL;
}

static void
forget(verdict_exchange *exchange)
{
	exchange->done = false;
	exchange->error[0] = '\0';
	exchange->result = CURLE_OK;
	exchange->multi_failed = false;
	exchange->sent = false;
	exchange->fresh = false;
	exchange->unclean = false;
	exchange->resend_refused = false;
	exchange->no_descriptor = false;
	exchange->no_memory = false;
	verdict_headers_reset(&exchange->headers);
	exchange->length = -1;
	exchange->received = 0;
	exchange->gzip = false;
	exchange->discard = false;
	verdict_buffer_reset(&exchange->body);
	exchange->refused_code = VERDICT_OK;
	exchange->refused_reason = NULL;
}

bool
verdict_exchange_start(verdict_exchange *exchange, const verdict_request *request,
					   verdict_status *status)
{
	verdict_pool *pool = exchange->pool;
	CURL *easy = exchange->easy;
	bool last = pool->http2_requests >= HTTP2_REQUESTS_PER_CONNECTION;

	forget(exchange);
	exchange->restarted = false;
	if (!link_headers(exchange, request))
		return verdict_status_fail(status, VERDICT_INTERNAL, VERDICT_CAUSE_INTERNAL,
								   "too many request headers");
	if (!set_url(exchange, request->url) || !set_forbid_reuse(exchange, last) ||
		curl_easy_setopt(easy, CURLOPT_HTTPHEADER, exchange->lines) != CURLE_OK ||
		curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request->body_size > 0 ? request->body : "") !=
			CURLE_OK ||
		curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t) request->body_size) !=
			CURLE_OK ||
		curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
						 (long) request->timeout_ms + CONNECT_MARGIN_MS) != CURLE_OK ||
		curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, request->fresh_connection ? 1L : 0L) !=
			CURLE_OK ||
		!verdict_runtime_add(pool->runtime, exchange))
		return verdict_status_no_memory(status);
	pool->retiring = last;
	return true;
}

void
verdict_exchange_abort(verdict_exchange *exchange)
{
	if (!exchange->active)
		return;
	/* An HTTP/2 connection would outlive its stream otherwise. */
	set_forbid_reuse(exchange, true);
	verdict_runtime_remove(exchange->pool->runtime, exchange);
	verdict_exchange_finish(exchange, CURLE_ABORTED_BY_CALLBACK);
}

/*
 * Nothing was sent on the kept connection, so that it can be done on another
 * without anyone's leave.
 */
bool
verdict_exchange_restart(verdict_exchange *exchange)
{
	if (!exchange->unclean || exchange->restarted)
		return false;
	forget(exchange);
	exchange->restarted = true;
	return curl_easy_setopt(exchange->easy, CURLOPT_FRESH_CONNECT, 1L) == CURLE_OK &&
		   verdict_runtime_add(exchange->pool->runtime, exchange);
}

void
verdict_exchange_finish(verdict_exchange *exchange, CURLcode result)
{
	verdict_pool *pool = exchange->pool;

	if (exchange->fresh)
		verdict_runtime_sweep(pool->runtime);
	exchange->done = true;
	exchange->result = result;
	if (exchange->headers.status != 0)
		pool->speaks_http2 = exchange->headers.http2;
	if (exchange->headers.http2)
		pool->http2_requests++;
	if (pool->retiring)
	{
		pool->retiring = false;
		pool->http2_requests = 0;
	}
	/* Enough of an answer that is an error whatever its body says. */
	if (result == CURLE_WRITE_ERROR && exchange->discard && exchange->headers.complete)
		exchange->result = CURLE_OK;
	if (exchange->discard)
		verdict_buffer_reset(&exchange->body);
	if (exchange->result != CURLE_OK || exchange->headers.status != 200)
		return;

	/* The answer came to an end; is it the end that was promised? */
	if (exchange->length >= 0 && exchange->received != exchange->length)
		exchange->result = CURLE_PARTIAL_FILE;
	else if (exchange->gzip && exchange->received > 0 && !verdict_inflate_ended(exchange->inflate))
		refuse_answer(exchange, "its compressed body stops before its end");
}

bool
verdict_exchange_done(const verdict_exchange *exchange)
{
	return exchange->done;
}

bool
verdict_exchange_sent(const verdict_exchange *exchange)
{
	return exchange->sent;
}

bool
verdict_exchange_kept_died(const verdict_exchange *exchange)
{
	return exchange->resend_refused;
}

int64_t
verdict_exchange_received(const verdict_exchange *exchange)
{
	return exchange->received;
}

const char *
verdict_exchange_phase(const verdict_exchange *exchange)
{
	curl_off_t resolved = 0;

	if (exchange->headers.complete)
		return "reading the answer";
	if (exchange->sent)
		return "waiting for the answer";
	curl_easy_getinfo(exchange->easy, CURLINFO_NAMELOOKUP_TIME_T, &resolved);
	return resolved == 0 ? "resolving the host name" : "connecting";
}

const verdict_headers *
verdict_exchange_headers(const verdict_exchange *exchange)
{
	return &exchange->headers;
}

const verdict_buffer *
verdict_exchange_body(const verdict_exchange *exchange)
{
	return &exchange->body;
}

void *
verdict_exchange_take_body(verdict_exchange *exchange, size_t *size)
{
	verdict_buffer *body = &exchange->body;
	void *bytes = body->bytes;

	*size = body->size;
	verdict_buffer_init(body, body->host, body->maximum);
	return bytes;
}

/* ---- what a failure means ---- */

/* The error code of a reset stream, which libcurl tells in words only; or -1. */
static long
reset_code(const verdict_exchange *exchange)
{
	const char *text = strstr(exchange->error, "(err ");
	char *end;
	long code;

	if (exchange->result != CURLE_HTTP2_STREAM || text == NULL)
		return -1;
	text += strlen("(err ");
	code = strtol(text, &end, 10);
	return end > text && *end == ')' ? code : -1;
}

/* The codes of RFC 9113, section 7, as Connect reads them. */
static verdict_code
code_of_reset(long reset, bool past_deadline)
{
	switch (reset)
	{
		case 0x1: /* PROTOCOL_ERROR */
		case 0x2: /* INTERNAL_ERROR */
		case 0x3: /* FLOW_CONTROL_ERROR */
		case 0x4: /* SETTINGS_TIMEOUT */
		case 0x6: /* FRAME_SIZE_ERROR */
		case 0x9: /* COMPRESSION_ERROR */
		case 0xa: /* CONNECT_ERROR */
			return VERDICT_INTERNAL;
		case 0x8: /* CANCEL */
			return past_deadline ? VERDICT_DEADLINE_EXCEEDED : VERDICT_CANCELED;
		case 0xb: /* ENHANCE_YOUR_CALM */
			return VERDICT_RESOURCE_EXHAUSTED;
		case 0xc: /* INADEQUATE_SECURITY */
			return VERDICT_PERMISSION_DENIED;
		default: /* REFUSED_STREAM and what is not a verdict */
			return VERDICT_UNAVAILABLE;
	}
}

static bool
fail_by_curl_code(const verdict_exchange *exchange, bool past_deadline, verdict_status *status)
{
	const char *text =
		exchange->error[0] != '\0' ? exchange->error : curl_easy_strerror(exchange->result);

	switch (exchange->result)
	{
		case CURLE_COULDNT_RESOLVE_HOST:
		case CURLE_COULDNT_RESOLVE_PROXY:
			return verdict_status_fail(status, VERDICT_UNAVAILABLE, VERDICT_CAUSE_RESOLVE,
									   "could not find the instance: %s", text);
		case CURLE_COULDNT_CONNECT:
		case CURLE_OPERATION_TIMEDOUT:
		case CURLE_INTERFACE_FAILED:
			return verdict_status_fail(status, VERDICT_UNAVAILABLE, VERDICT_CAUSE_CONNECT,
									   "could not connect to the instance: %s", text);
		case CURLE_SSL_CONNECT_ERROR:
		case CURLE_PEER_FAILED_VERIFICATION:
		case CURLE_SSL_CACERT_BADFILE:
		case CURLE_SSL_CERTPROBLEM:
		case CURLE_SSL_CIPHER:
		case CURLE_SSL_ISSUER_ERROR:
		case CURLE_SSL_INVALIDCERTSTATUS:
		case CURLE_USE_SSL_FAILED:
		case CURLE_SSL_ENGINE_INITFAILED:
			return verdict_status_fail(status, VERDICT_UNAVAILABLE, VERDICT_CAUSE_TLS,
									   "no trusted connection to the instance: %s", text);
		case CURLE_GOT_NOTHING:
		case CURLE_SEND_ERROR:
		case CURLE_RECV_ERROR:
		case CURLE_PARTIAL_FILE:
		case CURLE_HTTP2:
			return verdict_status_fail(status, VERDICT_UNAVAILABLE, VERDICT_CAUSE_LOST,
									   "the connection ended before the answer did: %s", text);
		case CURLE_HTTP2_STREAM:
		{
			verdict_code code = code_of_reset(reset_code(exchange), past_deadline);

			return verdict_status_fail(status, code,
									   code == VERDICT_UNAVAILABLE ? VERDICT_CAUSE_LOST
																   : VERDICT_CAUSE_ANSWER,
									   "the instance ended the request: %s", text);
		}
		case CURLE_WEIRD_SERVER_REPLY:
		case CURLE_UNSUPPORTED_PROTOCOL:
		case CURLE_BAD_CONTENT_ENCODING:
		case CURLE_HTTP_RETURNED_ERROR:
#if LIBCURL_VERSION_NUM >= 0x080600
		case CURLE_TOO_LARGE: /* headers over libcurl's own limit */
#endif
			return verdict_status_fail(status, VERDICT_INTERNAL, VERDICT_CAUSE_ANSWER,
									   "the answer is not understood: %s", text);
		case CURLE_OUT_OF_MEMORY:
			/* libcurl says no more when one line of the headers is too long for it. */
			if (exchange->sent && !exchange->headers.complete)
				return verdict_status_fail(
					status, VERDICT_INTERNAL, VERDICT_CAUSE_ANSWER,
					"the answer cannot be trusted: its headers are too large (or memory ran out)");
			return verdict_status_no_memory(status);
		default:
			return verdict_status_fail(status, VERDICT_INTERNAL, VERDICT_CAUSE_INTERNAL,
									   "libcurl failed: %s", text);
	}
}

bool
verdict_exchange_result(const verdict_exchange *exchange, bool past_deadline,
						verdict_status *status)
{
	status->http_status = exchange->headers.complete ? exchange->headers.status : 0;
	status->outcome = exchange->sent ? VERDICT_OUTCOME_MAYBE_APPLIED : VERDICT_OUTCOME_NOT_SENT;

	if (exchange->resend_refused)
		return verdict_status_fail(status, VERDICT_UNAVAILABLE, VERDICT_CAUSE_LOST,
								   "a kept connection ended before the answer began");
	if (exchange->multi_failed)
		return verdict_status_fail(status, VERDICT_INTERNAL, VERDICT_CAUSE_INTERNAL,
								   "libcurl's event loop failed");
	if (exchange->no_memory)
		return verdict_status_no_memory(status);
	if (exchange->refused_cause == VERDICT_CAUSE_TOO_LARGE && exchange->refused_code != VERDICT_OK)
		return verdict_status_fail(status, VERDICT_RESOURCE_EXHAUSTED, VERDICT_CAUSE_TOO_LARGE,
								   "the answer is larger than %zu bytes",
								   exchange->pool->max_response_bytes);
	if (exchange->refused_code != VERDICT_OK)
		return verdict_status_fail(status, exchange->refused_code, exchange->refused_cause,
								   "the answer cannot be trusted: %s", exchange->refused_reason);
	if (exchange->result == CURLE_COULDNT_CONNECT && exchange->no_descriptor)
		return verdict_status_fail(status, VERDICT_RESOURCE_EXHAUSTED, VERDICT_CAUSE_MEMORY,
								   "no file descriptor is left for a connection");
	if (exchange->result != CURLE_OK)
		return fail_by_curl_code(exchange, past_deadline, status);
	/* libcurl is content with headers that stop in their middle. */
	if (!exchange->headers.complete)
		return verdict_status_fail(status, VERDICT_UNAVAILABLE, VERDICT_CAUSE_LOST,
								   "the connection ended before the answer did");
	return true;
}
