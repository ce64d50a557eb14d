/*
 * policy.h
 *		The policy language: its text, its parsed form, its evaluation.
 *
 * A policy is a list of rules:
 *
 *	rule		head [ "if" condition { "and" condition } ] ";"
 *	head		predicate "(" [ argument { "," argument } ] ")"
 *	condition	predicate "(" [ argument { "," argument } ] ")"
 *				| "not" predicate "(" [ argument { "," argument } ] ")"
 *				| argument operator argument
 *	operator	"<" | "<=" | ">" | ">=" | "=" | "!="
 *	argument	variable [ ":" Type ] | "_" [ ":" Type ] | Type ":" "id"
 *				| "string" | integer | "true" | "false"
 *
 * Comments run from // or # to the end of the line.  In strings and ids, \" \\
 * \n \r \t stand for the usual characters.  if, and, not, true, false are
 * reserved.  A variable has one type in a rule, wherever it is written.
 *
 * A rule's head holds for every assignment of its variables under which all
 * conditions hold.  "_" is a new variable each time.  "not" means that no such
 * fact follows, for any value of a "_" in it.  The order < <= > >= holds between
 * integers only, and never for another kind; = and != compare values of every
 * kind, and values of different kinds differ.
 *
 * What is left open in a head means any value (of the type that is written): a
 * "_" in every head, and in the head of allow also a named variable that no
 * condition binds; elsewhere that is refused, as it is most often a misspelled
 * name.  A variable that may stand for any value (by this or through the rules
 * of the predicates it comes from) is refused where a single value is needed: in
 * "not", in a comparison, twice in a head.  So are rule sets in which a predicate
 * depends on its own negation.  Messages begin with "line 3 column 7: "; columns
 * count characters, from 1.
 */
#ifndef VERDICT_SERVER_POLICY_H
#define VERDICT_SERVER_POLICY_H

#include "engine.h"
#include "pool.h"
#include "store.h"

#define POLICY_MAX_BYTES (1024 * 1024)
#define POLICY_MAX_ARGUMENTS 64	 /* a bit each in an argument_set */
#define POLICY_MAX_CONDITIONS 64 /* a bit each in a frame of the evaluation */

typedef struct policy_place
{
	int line;
	int column;
} policy_place;

/* The words of the language. */

typedef enum policy_token_kind
{
	POLICY_END, /* of the text */
	POLICY_NAME,
	POLICY_STRING,
	POLICY_INTEGER,
	POLICY_UNDERSCORE,
	POLICY_IF,
	POLICY_AND,
	POLICY_NOT,
	POLICY_TRUE,
	POLICY_FALSE,
	POLICY_OPEN,
	POLICY_CLOSE,
	POLICY_COMMA,
	POLICY_SEMICOLON,
	POLICY_COLON,
	POLICY_LESS,
	POLICY_LESS_EQUAL,
	POLICY_GREATER,
	POLICY_GREATER_EQUAL,
	POLICY_EQUAL,
	POLICY_NOT_EQUAL
} policy_token_kind;

typedef struct policy_token
{
	policy_token_kind kind;
	policy_place place;
	const char *start; /* as written */
	size_t size;
	const char *text; /* of a name or string, without its escapes */
	int64_t integer;
} policy_token;

typedef struct policy_lexer
{
	const char *at;
	const char *end;
	policy_place place;
	pool *pool; /* for the text of tokens */
} policy_lexer;

/* The next token; false with the error filled when there is none such. */
extern bool policy_next_token(policy_lexer *lexer, policy_token *token, engine_error *error);
/* engine_fail() with invalid_argument and the place before the message. */
extern bool policy_fail(engine_error *error, policy_place place, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The parsed form.  Everything in a policy belongs to its pool. */

typedef enum policy_term_kind
{
	POLICY_WILDCARD,
	POLICY_VARIABLE,
	POLICY_CONSTANT
} policy_term_kind;

typedef struct policy_term
{
	policy_term_kind kind;
	policy_place place;
	int variable;	  /* index into the rule's variables */
	const char *type; /* of a wildcard; NULL = every value */
	store_value constant;
	value_id id; /* set by policy_link(): constant or wildcard */
} policy_term;

typedef struct policy_variable
{
	const char *name;
	const char *type;	/* NULL = every value */
	policy_place place; /* of its first use */
	policy_place typed; /* where its type is written */
	value_id id;		/* set by policy_link(): any, or any of its type */
} policy_variable;

typedef struct policy_predicate policy_predicate;

typedef struct policy_atom
{
	policy_predicate *predicate;
	policy_place place;
	policy_term *args; /* predicate->arity of them */
} policy_atom;

typedef enum policy_condition_kind
{
	POLICY_HOLDS,
	POLICY_HOLDS_NOT,
	POLICY_COMPARES
} policy_condition_kind;

typedef struct policy_condition
{
	policy_condition_kind kind;
	policy_place place;
	policy_atom atom;			  /* unless it compares */
	policy_token_kind comparison; /* the rest when it compares */
	policy_term left;
	policy_term right;
} policy_condition;

typedef struct policy_rule policy_rule;

struct policy_rule
{
	policy_atom head;
	policy_condition *conditions;
	int condition_count;
	policy_variable *variables;
	int variable_count;
	policy_rule *next; /* of the same predicate, in written order */
};

/* One bit an argument. */
typedef uint64_t argument_set;

struct policy_predicate
{
	const char *name;
	int arity;
	policy_rule *rules; /* NULL: stored facts only */
	policy_rule *last_rule;
	argument_set any;	/* arguments that may stand for any value */
	int stratum;		/* evaluated after every lower one */
	relation *relation; /* set by policy_link(): its stored facts */
	/* Of policy_check(). */
	int number;
	int component;
};

typedef struct policy
{
	pool pool;
	policy_predicate **predicates;
	int predicate_count;
	policy_rule **rules; /* in written order */
	int rule_count;
	int strata;
	/* By name and number of arguments: open addressing, a power of two. */
	policy_predicate **table;
	size_t table_size;
} policy;

/*
 * Parses and checks a text; NULL with an invalid_argument error that names line
 * and column.  The result keeps no pointer into the text.
 */
extern policy *policy_parse(const char *text, size_t size, engine_error *error);
/* Safety and stratification; part of policy_parse(). */
extern bool policy_check(policy *policy, engine_error *error);
/* NULL is allowed. */
extern void policy_free(policy *policy);
/* NULL when no rule mentions it. */
extern policy_predicate *policy_find(const policy *policy, const char *name, int arity);

/*
 * Gives every constant, type and predicate of the policy its number in the
 * store.  Inside a write transaction of the store; when that is rolled back the
 * policy must not be used.
 */
extern bool policy_link(policy *policy, store *store, engine_error *error);

/* Evaluation. */

typedef struct evaluator evaluator;

extern evaluator *evaluator_new(store *store);
extern void evaluator_free(evaluator *evaluator);

/*
 * Called for each answer, each once; values holds as many as the goal.  False
 * ends the evaluation.
 */
typedef bool (*evaluator_answer)(void *context, const value_id *values);

/*
 * Finds the facts that follow from the stored facts and the rules and agree with
 * the goal.  A value of the goal that is not VALUE_ANY must be met; an answer
 * repeats it.  Elsewhere an answer holds the value, VALUE_ANY for any value, or
 * the any of a type (see store.h).  Repeated and typed variables are the
 * caller's to compare.  A goal without VALUE_ANY ends at the first answer.
 *
 * policy may be NULL.  False with the error filled when SQLite failed or the
 * evaluation grew too large; the answers given before mean nothing then.
 */
extern bool
evaluator_run(evaluator *evaluator, const policy *policy, const char *predicate, int arity,
			  const value_id *goal, evaluator_answer answer, void *context, engine_error *error);

#endif /* VERDICT_SERVER_POLICY_H */
