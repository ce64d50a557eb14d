/*
 * model.h
 *		A simulated instance for test_model.c: a writer and three replicas that
 *		lag, one failover, and the messages between them and four applications.
 *
 * Everything lives in one world and is drawn from its random state, so that a
 * history repeats.  The nodes read and write revisions without the code under
 * test.
 */
#ifndef VERDICT_TEST_MODEL_H
#define VERDICT_TEST_MODEL_H

#include "session.h"
#include "support.h"

#define APPLICATIONS 4
#define REPLICAS 3
#define WRITER REPLICAS
#define SHARDS 3
#define OPERATIONS 500 /* of one history */
#define MAX_CALLS (OPERATIONS + 8)
#define MAX_LOG (4 * OPERATIONS)
#define MAX_MESSAGES 512
#define HEADER_SIZE 160

#define MALFORMED "garbage"

#define ATTEMPT_TIMEOUT_MS 1000
#define REPLICA_WAIT_MS 50

typedef enum fault
{
	NO_FAULT,
	SENDS_NO_REVISION,
	IGNORES_ANSWERS_OF_READS,
	IGNORES_ANSWERS_OF_WRITES,
	LAST_ANSWER_WINS,
	OBSERVES_FAILED_ANSWERS,
	RENEWS_THE_SESSION_BY_ITSELF,
	FRESH_KEY_FOR_THE_SECOND_ATTEMPT,
	DOES_NOT_WAIT_FOR_ANSWERS,
	FAULTS
} fault;

/* What the judge found, and what shows that it had something to look at. */
typedef struct tally
{
	int64_t operations;
	int64_t read_your_writes;
	int64_t monotonic_reads;
	int64_t monotonic_writes;
	int64_t writes_follow_reads;
	int64_t scope;
	int64_t session_reads; /* answered, session or authoritative */
	int64_t writes;		   /* answered */
	int64_t replays;	   /* second sends answered by the first answer */
	int64_t waits;		   /* reads that a replica could not serve at once */
	int64_t refused;	   /* reads of an inconsistent scope */
	int64_t preconditions; /* reads refused by a node, their history being over */
	int64_t inconsistent;  /* scopes that became so */
	int64_t overtaken;	   /* answers that came after a later position's */
} tally;

typedef struct call
{
	int step; /* calls of one step are under way together */
	bool write;
	verdict_consistency consistency;
	int attempt;
	char key[37];
	bool pending;
	bool succeeded;
	int history; /* where it was served, by the node's own word */
	int prefix;
} call;

typedef struct application
{
	verdict_session session;
	call calls[MAX_CALLS];
	int count;
	int scope_start; /* first call of this scope */
	int step;
	int outstanding;
	int node;
	int history; /* of the successful answers of this scope; 0 = none */
	bool mixed;	 /* they were of two histories, or one was malformed */
} application;

typedef enum message_kind
{
	WAKE,	 /* an application goes on */
	REQUEST, /* arrives at a node */
	ANSWER,	 /* arrives at an application */
	TIMEOUT, /* of an attempt */
	PROMOTE, /* the failover */
	LEARN	 /* a replica hears of it */
} message_kind;

typedef struct message
{
	int64_t at_ms;
	message_kind kind;
	int application;
	int call;
	int attempt;
	int node;
	bool waited;
	bool ok;
	bool precondition;
	bool replay;
	int history;
	int prefix;
	char key[37];
	char header[HEADER_SIZE]; /* revision of a request or an answer; "" = none */
} message;

typedef struct commit
{
	int application;
	int call;
	int64_t at_ms;
	char key[37];
} commit;

/* A log and, for each of its prefixes, the position of every shard. */
typedef struct history_log
{
	commit commits[MAX_LOG];
	int positions[MAX_LOG + 1][SHARDS];
	int length;
} history_log;

typedef struct replica
{
	int history;
	int prefix;
	int64_t lag_ms;
} replica;

typedef struct world
{
	uint64_t random_state;
	support_host support;
	fault fault;
	tally *tally;
	int64_t now_ms;
	int issued;
	int history;		 /* the writer's: 1, and 2 after the failover */
	history_log logs[3]; /* by history */
	replica replicas[REPLICAS];
	application applications[APPLICATIONS];
	message messages[MAX_MESSAGES];
	int message_count;
} world;

/* A random number from 0 up, below "bound". */
extern int model_draw(world *w, int bound);
/* True in "chance" of a hundred cases. */
extern bool model_percent(world *w, int chance);
/* Lets the message be due after a delay. */
extern void model_post(world *w, message m, int64_t delay_ms);
/* Removes the message that is due next. */
extern message model_next_message(world *w);
/* Milliseconds of a way through the network, now and then long ones. */
extern int64_t model_network_delay(world *w);

/* What a node does with a request; the answer is posted. */
extern void model_serve_read(world *w, message request);
extern void model_serve_write(world *w, const message *request);
/* An overloaded instance, or something on the way that is none. */
extern void model_serve_failure(world *w, const message *request);

/* The log goes on from a prefix; commits behind it are gone. */
extern void model_fail_over(world *w);
/* A replica hears of it. */
extern void model_learn(world *w, replica *r);

#endif /* VERDICT_TEST_MODEL_H */
