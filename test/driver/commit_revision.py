#!/usr/bin/python3
"""Carry a commit's revision to another connection, with psycopg.

usage: commit_revision.py CONNINFO FACT

Stores a fact in a transaction on one connection and looks for it on another,
as two requests of one user would that a pool gives two connections.  Without the
revision the second may be answered by a replica that has not seen the fact yet.

The server reports verdict.committed_revision together with its answer to COMMIT,
so there is no query for it.  The value is empty when no revision is known: the
instance sends none, or a change went to the outbox and verdict.commit_wait did not
let COMMIT wait for its answer.

CONNINFO is a connection string; its database needs a default verdict.server.
The exit status is 0 when the second connection has seen the fact.
"""

import sys

import psycopg


def commit(connection, fact):
    """Store a fact; return the revision of the commit, or None."""
    with connection.transaction():
        connection.execute("SELECT verdict_insert_fact(%s::verdict_fact)", [fact])
    return connection.info.parameter_status("verdict.committed_revision") or None


def holds(connection, fact, revision):
    """Whether the fact holds, in a transaction that starts from the revision."""
    with connection.transaction():
        if revision is not None:
            connection.execute("SELECT set_config('verdict.revision', %s, true)", [revision])
        answer = connection.execute(
            "SELECT EXISTS (SELECT FROM verdict_query(%s::verdict_fact) AS (holds boolean))",
            [fact],
        )
        return answer.fetchone()[0]


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    conninfo, fact = sys.argv[1:]
    # Only what the program says begins a transaction.
    with psycopg.connect(conninfo, autocommit=True) as writer, psycopg.connect(
        conninfo, autocommit=True
    ) as reader:
        revision = commit(writer, fact)
        seen = holds(reader, fact, revision)
    print("committed at", revision or "no known revision")
    print("seen" if seen else "not seen")
    sys.exit(0 if seen else 1)


if __name__ == "__main__":
    main()
