/*
 * rig.c
 *		See rig.h.
 */
#include "rig.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

static verdict_host posix;

static int64_t
rig_monotonic_us(void *context)
{
	rig *r = context;

	return posix.monotonic_us(NULL) + r->skipped_us;
}

static verdict_wait_result
rig_wait(void *context, verdict_socket *sockets, int count, int64_t timeout_us)
{
	rig *r = context;
	int64_t real_us = (int64_t) r->real_wait_ms * 1000;
	verdict_wait_result result;
	bool interrupt = false;

	if (timeout_us < 0)
		abort();
	if (count == 0)
	{
		r->slept_us += timeout_us;
		r->skipped_us += timeout_us;
		if (r->interrupt_after_ms >= 0)
		{
			r->interrupts++;
			return VERDICT_WAIT_INTERRUPTED;
		}
		return VERDICT_WAIT_TIMEOUT;
	}
	r->waits++;
	r->serial = sockets[0].serial;
	r->fd = sockets[0].fd;
	if (r->interrupt_after_ms >= 0 && (int64_t) r->interrupt_after_ms * 1000 <= timeout_us)
	{
		real_us = (int64_t) r->interrupt_after_ms * 1000;
		interrupt = true;
	}
	result = posix.wait(NULL, sockets, count, timeout_us < real_us ? timeout_us : real_us);
	if (result == VERDICT_WAIT_TIMEOUT && interrupt)
	{
		r->interrupts++;
		return VERDICT_WAIT_INTERRUPTED;
	}
	if (result == VERDICT_WAIT_TIMEOUT && timeout_us > real_us)
		r->skipped_us += timeout_us - real_us;
	return result;
}

void
rig_begin(rig *r)
{
	memset(r, 0, sizeof(*r));
	verdict_host_init_posix(&posix);
	support_host_init(&r->support);
	r->support.host.monotonic_us = rig_monotonic_us;
	r->support.host.wait = rig_wait;
	r->real_wait_ms = 2000;
	r->interrupt_after_ms = -1;
	r->peer = peer_start();
	r->runtime = verdict_runtime_create(&r->support.host, &r->status);
	assert_non_null(r->runtime);
	verdict_client_options_init(&r->options);
	r->options.instance_url = peer_url(r->peer);
	r->options.api_key = "key-of-the-tests";
}

void
rig_client(rig *r)
{
	verdict_client_destroy(r->client);
	r->client = verdict_client_create(r->runtime, &r->options, &r->status);
	if (r->client == NULL)
		fail_msg("%s", r->status.message);
	rig_session(r, VERDICT_CONSISTENCY_SESSION);
}

void
rig_session(rig *r, verdict_consistency consistency)
{
	assert_true(verdict_session_init(&r->session, &r->support.host, NULL, consistency, &r->status));
}

void
rig_end(rig *r)
{
	verdict_client_destroy(r->client);
	verdict_runtime_destroy(r->runtime);
	assert_int_equal(r->support.live, 0);
	assert_int_equal(r->support.descriptors, 0);
	assert_true(peer_wait_open_connections(r->peer, 0));
	peer_stop(r->peer);
}

bool
rig_authorize(rig *r)
{
	static const verdict_check check = {{"User", "alice"}, "read", {"Document", "handbook"}};
	bool succeeded;

	r->allowed = true;
	succeeded =
		verdict_client_authorize(r->client, &r->session, &check, NULL, &r->allowed, &r->status);
	assert_int_equal(succeeded, r->status.code == VERDICT_OK);
	/* Whatever happened: no answer, no yes. */
	if (!succeeded)
		assert_false(r->allowed);
	return succeeded;
}

size_t
rig_insert_payload(rig *r, char *bytes, size_t room)
{
	verdict_term args[] = {
		{VERDICT_TERM_VALUE, {.value = {VERDICT_VALUE_IDENTITY, {.identity = {"User", "al"}}}}}};
	verdict_fact fact = {"is_admin", 1, args};
	verdict_buffer buffer;
	verdict_status status;
	size_t size;

	(void) r;
	verdict_buffer_init(&buffer, &posix, room);
	verdict_status_init(&status);
	assert_true(verdict_encode_fact(&buffer, VERDICT_WIRE_BINARY, &fact, &status));
	memcpy(bytes, buffer.bytes, buffer.size);
	size = buffer.size;
	verdict_buffer_free(&buffer);
	return size;
}

bool
rig_insert(rig *r, const char *key)
{
	char payload[256];
	size_t size = rig_insert_payload(r, payload, sizeof(payload));
	bool succeeded;

	r->changed = 7;
	succeeded = verdict_client_mutate(r->client, &r->session, VERDICT_METHOD_INSERT_FACT, payload,
									  size, key, 0, &r->changed, &r->status);
	assert_int_equal(succeeded, r->status.code == VERDICT_OK);
	if (!succeeded)
		assert_int_equal(r->changed, 0);
	return succeeded;
}

/* ---- scripts ---- */

peer_step
rig_act(peer_action action, int ms)
{
	peer_step step = {action, NULL, 0, ms};

	return step;
}

void
rig_queue(rig *r, peer_step step)
{
	peer_step steps[] = {step, rig_act(PEER_END, 0)};

	peer_queue(r->peer, steps);
}

void
rig_queue_two(rig *r, peer_step first, peer_step second)
{
	peer_step steps[] = {first, second, rig_act(PEER_END, 0)};

	peer_queue(r->peer, steps);
}

void
rig_standing(rig *r, peer_step step)
{
	peer_step steps[] = {step, rig_act(PEER_END, 0)};

	peer_standing(r->peer, steps);
}

static peer_step
answer(rig *r, int status, const char *type, const char *headers, const void *body, size_t size)
{
	char lines[2048];

	snprintf(lines, sizeof(lines), "Content-Type: %s\r\n%s", type, headers);
	return peer_answer(r->peer, status, lines, body, size);
}

peer_step
rig_yes(rig *r, const char *headers)
{
	if (r->options.wire_format == VERDICT_WIRE_BINARY)
		return answer(r, 200, "application/proto", headers, "\x08\x01", 2);
	return answer(r, 200, "application/json", headers, "{\"allowed\":true}", 16);
}

peer_step
rig_error(rig *r, int http_status, const char *code, const char *headers)
{
	char body[256];

	if (code == NULL)
		return answer(r, http_status, "text/html", headers, "<h1>no</h1>", 11);
	snprintf(body, sizeof(body), "{\"code\":\"%s\",\"message\":\"told so\"}", code);
	return answer(r, http_status, "application/json", headers, body, strlen(body));
}

/* ---- assertions ---- */

void
rig_assert_same_mutation(rig *r, int sends)
{
	const peer_request *first;
	const char *key;
	int i;

	assert_int_equal(peer_request_count(r->peer), sends);
	first = peer_request_at(r->peer, 0);
	key = peer_request_header(r->peer, first, "Idempotency-Key");
	assert_non_null(key);
	for (i = 0; i < sends; i++)
	{
		const peer_request *request = peer_request_at(r->peer, i);

		assert_int_equal(peer_request_header_count(request, "Idempotency-Key"), 1);
		assert_string_equal(peer_request_header(r->peer, request, "Idempotency-Key"), key);
		assert_string_equal(peer_request_header(r->peer, request, "X-Request-Id"),
							r->status.request_id);
		assert_int_equal(request->body_size, first->body_size);
		assert_memory_equal(request->body, first->body, first->body_size);
	}
}

int
rig_open_descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	int count = 0;

	assert_non_null(folder);
	while (readdir(folder) != NULL)
		count++;
	closedir(folder);
	return count;
}
