/*
 * codec.h
 *		Requests to bytes and answers back, in either wire format.
 *
 * Every decoder checks all it reads; a failure is VERDICT_INTERNAL with cause
 * ANSWER ("body does not decode"), or VERDICT_RESOURCE_EXHAUSTED with cause
 * TOO_LARGE when the arena's cap is met.  A body of zero bytes is the empty
 * message in both formats.
 */
#ifndef VERDICT_CODEC_H
#define VERDICT_CODEC_H

#include "value.h"

typedef enum verdict_wire_format
{
	VERDICT_WIRE_BINARY, /* application/proto */
	VERDICT_WIRE_JSON	 /* application/json */
} verdict_wire_format;

/* "application/proto" or "application/json". */
extern const char *verdict_wire_content_type(verdict_wire_format format);

/*
 * Encoders append one whole request message to the buffer.  They check what the
 * contract asks of a request (non-empty types, ids, predicates and action) and
 * fail with VERDICT_INVALID_ARGUMENT, cause ARGUMENT; or TOO_LARGE/MEMORY from
 * the buffer.
 */
extern bool verdict_encode_authorize(verdict_buffer *out, verdict_wire_format format,
									 const verdict_identity *actor, const char *action,
									 const verdict_identity *resource, verdict_status *status);
extern bool
verdict_encode_query(verdict_buffer *out, verdict_wire_format format, const verdict_fact *pattern,
					 uint32_t limit, verdict_status *status);
/*
 * "pattern" may be NULL: every fact (an empty pattern is sent).  "after" is the
 * previous page's next.
 */
extern bool verdict_encode_list_facts(verdict_buffer *out, verdict_wire_format format,
									  const verdict_fact *pattern, uint32_t limit,
									  const void *after, size_t after_size, verdict_status *status);
extern bool
verdict_encode_get_policy(verdict_buffer *out, verdict_wire_format format, verdict_status *status);
/* InsertFact and DeleteFact share one shape. */
extern bool verdict_encode_fact(verdict_buffer *out, verdict_wire_format format,
								const verdict_fact *fact, verdict_status *status);
extern bool
verdict_encode_batch(verdict_buffer *out, verdict_wire_format format, const verdict_change *changes,
					 size_t count, verdict_status *status);

/*
 * The same in two steps and binary alone, for whoever makes many: the message
 * Fact of a ground fact (equal facts are equal bytes), and around such bytes one
 * element of a BatchFacts request.  Elements one after the other are the request.
 */
extern bool
verdict_encode_bare_fact(verdict_buffer *out, const verdict_fact *fact, verdict_status *status);
extern bool verdict_encode_change(verdict_buffer *out, bool insert, const void *fact, size_t size,
								  verdict_status *status);

extern bool verdict_encode_set_policy(verdict_buffer *out, verdict_wire_format format,
									  const char *policy, verdict_status *status);

extern bool
verdict_decode_authorize(const verdict_host *host, verdict_wire_format format, const void *body,
						 size_t size, bool *allowed, verdict_status *status);
/* The answer to InsertFact and DeleteFact. */
extern bool
verdict_decode_changed(const verdict_host *host, verdict_wire_format format, const void *body,
					   size_t size, bool *changed, verdict_status *status);
extern bool
verdict_decode_batch(const verdict_host *host, verdict_wire_format format, const void *body,
					 size_t size, uint32_t *changed, verdict_status *status);
/* The policy lives in the arena. */
extern bool
verdict_decode_get_policy(verdict_arena *arena, verdict_wire_format format, const void *body,
						  size_t size, const char **policy, verdict_status *status);
extern bool verdict_decode_set_policy(const verdict_host *host, verdict_wire_format format,
									  const void *body, size_t size, verdict_status *status);

/*
 * A large repeated answer, read element by element so that memory is bounded by
 * the element and not by the answer.  Opening walks the whole body once, checks
 * its outer structure and reads everything but the elements; a body that is
 * damaged at its end is refused before the first element is given out.
 */
typedef enum verdict_rows_kind
{
	VERDICT_ROWS_QUERY, /* elements are rows of values */
	VERDICT_ROWS_FACTS	/* elements are facts */
} verdict_rows_kind;

typedef struct verdict_rows verdict_rows;

/*
 * Takes over the body (memory of the host; freed by verdict_rows_free(), or
 * here when NULL is returned).  "expected" is the number of variables in the
 * pattern sent (QUERY): an answer with other variables is refused.  The order
 * and the names of the answer's variables are checked against "names".
 */
extern verdict_rows *
verdict_rows_open(const verdict_host *host, verdict_wire_format format, verdict_rows_kind kind,
				  void *body, size_t size, const char *const *names, size_t expected,
				  verdict_status *status);
/* Values of each row of a query; 0 for facts. */
extern size_t verdict_rows_width(const verdict_rows *rows);
/* The instance cut the answer (query). */
extern bool verdict_rows_truncated(const verdict_rows *rows);
/* The token of the next page (facts); *size 0 when this was the last. */
extern const void *verdict_rows_next_token(const verdict_rows *rows, size_t *size);
/*
 * The next row: 1 with *values pointing to width values, 0 after the last, -1
 * with a status on failure, and then for good.  Values live until the next call.
 */
extern int
verdict_rows_next(verdict_rows *rows, const verdict_value **values, verdict_status *status);
/* The same for facts. */
extern int
verdict_rows_next_fact(verdict_rows *rows, const verdict_fact **fact, verdict_status *status);
extern void verdict_rows_free(verdict_rows *rows);

#endif /* VERDICT_CODEC_H */
