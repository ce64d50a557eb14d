/*
 * fuzz_error_json.c
 *		Any bytes as the body of an error answer: never a success, never more
 *		memory than the arena may have.
 */
#include "check.h"
#include "connect.h"
#include "text.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
add(verdict_headers *headers, const char *line)
{
	verdict_headers_add_line(headers, line, strlen(line));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const status_lines[] = {"HTTP/1.1 400 X\r\n", "HTTP/1.1 503 X\r\n",
											   "HTTP/2 800\r\n", "HTTP/1.1 204 X\r\n"};
	verdict_host host;
	verdict_headers headers;
	verdict_arena arena;
	verdict_connect_error error;
	verdict_status status;
	const char *body = (const char *) data;
	size_t i;

	verdict_host_init_posix(&host);
	verdict_headers_init(&headers, &host);
	verdict_arena_init(&arena, &host, 256 * 1024);
	add(&headers, status_lines[size % 4]);
	add(&headers, "Content-Type: application/json\r\n");
	add(&headers, "\r\n");

	verdict_status_init(&status);
	check(!verdict_connect_check_answer(&headers, body, size, VERDICT_WIRE_JSON, true, 0, &arena,
										&error, &status));
	check(status.code != VERDICT_OK && status.outcome != VERDICT_OUTCOME_APPLIED);
	check(status.message[0] != '\0');
	check(verdict_is_text(status.message, strnlen(status.message, VERDICT_MESSAGE_SIZE)));
	check(error.code == VERDICT_OK || (error.code == status.code && !status.inferred));
	check(arena.used <= arena.maximum);
	for (i = 0; i < error.detail_count; i++)
		check(error.details[i].type[0] != '\0' && error.details[i].value != NULL);
	verdict_arena_free(&arena);
	verdict_headers_free(&headers);
	return 0;
}
