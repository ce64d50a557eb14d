/*
 * commit_revision.c
 *		Carry a commit's revision to another connection, with libpq.
 *
 * usage: commit_revision CONNINFO FACT
 *
 * Stores a fact in a transaction on one connection and looks for it on another,
 * as two requests of one user would that a pool gives two connections.  Without
 * the revision the second may be answered by a replica that has not seen the fact
 * yet.
 *
 * The server reports verdict.committed_revision together with its answer to
 * COMMIT, so there is no query for it.  The value is empty when no revision is
 * known: the instance sends none, or a change went to the outbox and
 * verdict.commit_wait did not let COMMIT wait for its answer.
 *
 * CONNINFO is a connection string; its database needs a default verdict.server.
 * The exit status is 0 when the second connection has seen the fact.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libpq-fe.h>

static PGconn *
open_connection(const char *conninfo)
{
	PGconn *connection = PQconnectdb(conninfo);

	if (PQstatus(connection) != CONNECTION_OK)
	{
		fprintf(stderr, "%s", PQerrorMessage(connection));
		exit(2);
	}
	return connection;
}

/* Runs one statement; the caller clears the result.  Ends the program on failure. */
static PGresult *
run(PGconn *connection, const char *statement, const char *argument)
{
	int arguments = argument == NULL ? 0 : 1;
	PGresult *result =
		PQexecParams(connection, statement, arguments, NULL, &argument, NULL, NULL, 0);

	if (PQresultStatus(result) != PGRES_COMMAND_OK && PQresultStatus(result) != PGRES_TUPLES_OK)
	{
		fprintf(stderr, "%s: %s", statement, PQerrorMessage(connection));
		exit(2);
	}
	return result;
}

/*
 * Stores a fact.  Returns the revision of the commit, "" for none; the text is the
 * connection's and changes with its next commit.
 */
static const char *
commit(PGconn *connection, const char *fact)
{
	const char *revision;

	PQclear(run(connection, "BEGIN", NULL));
	PQclear(run(connection, "SELECT verdict_insert_fact($1)", fact));
	PQclear(run(connection, "COMMIT", NULL));
	revision = PQparameterStatus(connection, "verdict.committed_revision");
	return revision == NULL ? "" : revision;
}

/* Whether the fact holds, in a transaction that starts from the revision. */
static bool
holds(PGconn *connection, const char *fact, const char *revision)
{
	PGresult *answer;
	bool seen;

	PQclear(run(connection, "BEGIN", NULL));
	if (revision[0] != '\0')
		PQclear(run(connection, "SELECT set_config('verdict.revision', $1, true)", revision));
	answer =
		run(connection, "SELECT EXISTS (SELECT FROM verdict_query($1) AS (holds boolean))", fact);
	seen = strcmp(PQgetvalue(answer, 0, 0), "t") == 0;
	PQclear(answer);
	PQclear(run(connection, "COMMIT", NULL));
	return seen;
}

int
main(int argc, char **argv)
{
	PGconn *writer;
	PGconn *reader;
	const char *revision;
	bool seen;

	if (argc != 3)
	{
		fprintf(stderr, "usage: %s CONNINFO FACT\n", argv[0]);
		return 2;
	}
	writer = open_connection(argv[1]);
	reader = open_connection(argv[1]);

	revision = commit(writer, argv[2]);
	seen = holds(reader, argv[2], revision);
	printf("committed at %s\n", revision[0] == '\0' ? "no known revision" : revision);
	printf("%s\n", seen ? "seen" : "not seen");

	PQfinish(writer);
	PQfinish(reader);
	return seen ? 0 : 1;
}
