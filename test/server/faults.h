/*
 * faults.h
 *		Orders to misbehave, and who they strike.
 *
 * An order says which method it strikes ("*" = each), how many matching requests
 * pass before it does (skip), and how many it strikes (times, -1 = until the
 * orders are cleared).  A request takes the first order of the list that strikes
 * it; an order that only lets it pass counts it and leaves it to the next.
 *
 * A fault that was taken is shared: each taker releases it, clearing the orders
 * does not touch it.  Every function may be called from any thread.
 */
#ifndef VERDICT_SERVER_FAULTS_H
#define VERDICT_SERVER_FAULTS_H

#include "status.h"

#include <jansson.h>
#include <stddef.h>

typedef enum fault_kind
{
	FAULT_STATUS,		   /* an HTTP status with a body as ordered */
	FAULT_ERROR,		   /* a Connect error */
	FAULT_STALL,		   /* a wait before or after running */
	FAULT_CLOSE,		   /* the connection closed without a byte */
	FAULT_CUT,			   /* less than Content-Length says */
	FAULT_CUT_CHUNKED,	   /* no last chunk */
	FAULT_CUT_UNDELIMITED, /* no length, no chunks, the end is missing */
	FAULT_DRIP,			   /* the body slowly */
	FAULT_OVERSIZE,		   /* a huge body that decodes */
	FAULT_GZIP_BOMB,	   /* the same, small while compressed */
	FAULT_CONTENT_TYPE,	   /* the answer under another type */
	FAULT_REVISION,		   /* the answer with Verdict-Revision headers */
	FAULT_BODY,			   /* other bytes as the body of a 200 */
	FAULT_HEADER_FLOOD,	   /* a 200 with very many header bytes */
	FAULT_REDIRECT		   /* a 3xx with Location */
} fault_kind;

typedef struct fault_header
{
	char *name;
	char *value;
} fault_header;

typedef struct fault
{
	fault_kind kind;
	bool run;			/* the request is executed all the same */
	bool after;			/* stall and close: after running, not before */
	bool reset;			/* close: by RST */
	int status;			/* 0 = the one that is usual */
	verdict_code code;	/* error */
	char *message;		/* error */
	char *content_type; /* NULL = the one that is usual */
	char *body;			/* status, body */
	size_t body_size;
	int64_t ms;				  /* stall */
	int64_t bytes;			  /* cut*, oversize, gzip_bomb, header_flood; -1 = half */
	int64_t bytes_per_second; /* drip */
	fault_header *headers;	  /* added to whatever is answered */
	size_t header_count;
	int users; /* of faults.c */
} fault;

typedef struct faults faults;

/* NULL when there is no memory. */
extern faults *faults_create(void);
extern void faults_destroy(faults *faults);
/*
 * Appends an order.  "tls" tells that the instance speaks TLS, where a header
 * flood cannot be had.  False with a message for people when the order is wrong.
 */
extern bool faults_add(faults *faults, json_t *order, bool tls, char *message, size_t message_size);
extern void faults_clear(faults *faults);
/* A new array of the orders with what is left of them. */
extern json_t *faults_json(faults *faults);
/* The fault that strikes a request of this method; NULL for none. */
extern fault *faults_take(faults *faults, const char *method);
/* NULL is allowed. */
extern void fault_release(fault *fault);
/* "status", "error", ... */
extern const char *fault_kind_name(fault_kind kind);

#endif /* VERDICT_SERVER_FAULTS_H */
