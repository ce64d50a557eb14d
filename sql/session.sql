-- The session of a transaction.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS verdict;
RESET client_min_messages;
\set url `echo "$VERDICT_TEST_URL"`
\set key `echo "$VERDICT_TEST_KEY"`
\set wire `echo "$VERDICT_TEST_WIRE"`
CREATE SERVER session_test FOREIGN DATA WRAPPER verdict
	OPTIONS (instance_url :'url', wire_format :'wire', retry_owner 'none');
CREATE USER MAPPING FOR CURRENT_USER SERVER session_test OPTIONS (api_key :'key');
SET verdict.server = 'session_test';
SET verdict.mutation_mode = immediate;

-- One session a transaction; a fresh one in the next.
BEGIN;
SELECT session_id AS first, consistency, coalesce(revision, 'none') AS revision, inconsistent, sent_changes FROM verdict_session() \gset
SELECT :'first' ~ '^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$' AS uuid,
	:'consistency' AS consistency, :'revision' AS revision, :'inconsistent' AS inconsistent, :sent_changes AS sent;
SAVEPOINT s;
SELECT session_id = :'first' AS same FROM verdict_session();
ROLLBACK TO s;
SELECT session_id = :'first' AS same FROM verdict_session();
COMMIT;
SELECT session_id = :'first' AS same FROM verdict_session();

-- Its consistency is the setting's when it starts.
BEGIN;
SET LOCAL verdict.consistency = 'eventual';
SELECT consistency FROM verdict_session();
SET LOCAL verdict.consistency = 'authoritative';
SELECT consistency FROM verdict_session();
-- A new one starts as the client's page says.
SELECT verdict_new_session() IS NOT NULL AS new;
SELECT consistency, revision FROM verdict_session();
SELECT verdict_new_session('my-session', 'authoritative');
SELECT session_id, consistency FROM verdict_session();
SAVEPOINT s;
SELECT verdict_new_session('two words');
ROLLBACK TO s;
SELECT verdict_new_session(repeat('x', 129));
ROLLBACK TO s;
SELECT verdict_new_session('');
ROLLBACK TO s;
SELECT verdict_new_session('x', 'weak');
ROLLBACK TO s;
SELECT session_id, consistency FROM verdict_session();
COMMIT;

-- A revision is handed over, kept the largest, and never of two histories.
BEGIN;
SELECT verdict_revision() IS NULL AS none;
SELECT verdict_observe('v1.prod.1.7');
SELECT verdict_revision();
SELECT verdict_observe('v1.prod.1.5');
SELECT verdict_revision();
SELECT verdict_observe('v1.prod.1.3,2:9');
SELECT verdict_revision();
SAVEPOINT s;
SELECT verdict_observe('v1.prod.1.11');
ROLLBACK TO s;
SELECT verdict_revision();
SELECT verdict_observe('v1.prod.2.1');
ROLLBACK TO s;
SELECT verdict_observe('v1.test.1.1');
ROLLBACK TO s;
SELECT verdict_observe('garbage');
ROLLBACK TO s;
SELECT verdict_observe(NULL);
ROLLBACK TO s;
SELECT revision, inconsistent FROM verdict_session();
COMMIT;
SELECT verdict_revision() IS NULL AS none;

-- verdict.revision is read when the session starts.
BEGIN;
SET LOCAL verdict.revision = 'v1.prod.4.2';
SELECT verdict_revision();
SET LOCAL verdict.revision = 'v1.prod.4.3';
SELECT verdict_revision();
COMMIT;

-- A standalone instance cannot satisfy a revision: a refusal, no old answer.
BEGIN;
SELECT verdict_observe('v1.prod.1.7');
\set VERBOSITY terse
SELECT verdict_authorize('User:a', 'read', 'Document:1');
ROLLBACK;

-- Each server has a session of its own in a transaction: what one instance has told
-- means nothing to another.
CREATE SERVER session_other FOREIGN DATA WRAPPER verdict
	OPTIONS (instance_url :'url', wire_format :'wire', retry_owner 'none');
CREATE USER MAPPING FOR CURRENT_USER SERVER session_other OPTIONS (api_key :'key');
BEGIN;
SELECT verdict_observe('v1.prod.1.7');
SELECT session_id AS first FROM verdict_session() \gset
SET LOCAL verdict.server = 'session_other';
SELECT session_id = :'first' AS same, revision IS NULL AS none FROM verdict_session();
SELECT verdict_authorize('User:a', 'read', 'Document:1');
SELECT verdict_observe('v1.test.1.1');
SELECT verdict_new_session('other-session', 'eventual');
SET LOCAL verdict.server = 'session_test';
SELECT session_id = :'first' AS same, consistency, revision, inconsistent FROM verdict_session();
SET LOCAL verdict.server = 'session_other';
SELECT session_id, consistency, revision FROM verdict_session();
COMMIT;
-- Without a server there is none, and a revision is not observed for nothing.
SET verdict.server = '';
SELECT verdict_observe('v1.prod.1.7');
SELECT session_id FROM verdict_session();
SELECT verdict_new_session();
SELECT verdict_revision();
SET verdict.server = 'session_test';

-- An answer whose revision is of another history makes the session useless for
-- anything but eventual reads, until a new one is started.
\set ordered `perl -MHTTP::Tiny -e 'print HTTP::Tiny->new->post("$ENV{VERDICT_TEST_ADMIN}/faults", {content => q([{"method":"Authorize","fault":{"kind":"revision","values":["v1.prod.1.7"]}},{"method":"Authorize","fault":{"kind":"revision","values":["v1.prod.2.1"]}}])})->{success}'`
\echo ordered: :ordered
BEGIN;
SELECT verdict_authorize('User:a', 'read', 'Document:1', 'eventual');
SELECT verdict_revision();
SELECT verdict_authorize('User:a', 'read', 'Document:1', 'eventual');
SELECT revision IS NULL AS emptied, inconsistent FROM verdict_session();
SELECT verdict_authorize('User:a', 'read', 'Document:1', 'eventual');
SAVEPOINT s;
SELECT verdict_authorize('User:a', 'read', 'Document:1');
ROLLBACK TO s;
SELECT verdict_authorize('User:a', 'read', 'Document:1', 'authoritative');
ROLLBACK TO s;
SELECT verdict_observe('v1.prod.1.7');
ROLLBACK TO s;
SELECT verdict_new_session('fresh');
SELECT verdict_authorize('User:a', 'read', 'Document:1');
SELECT revision IS NULL AS none, inconsistent FROM verdict_session();
COMMIT;

-- The instance saw one session id a transaction.
\set cleared `perl -MHTTP::Tiny -e 'print HTTP::Tiny->new->delete("$ENV{VERDICT_TEST_ADMIN}/log")->{success}'`
BEGIN;
SELECT verdict_new_session('seen-by-the-instance') IS NOT NULL AS started;
SELECT verdict_authorize('User:a', 'read', 'Document:1'), verdict_insert_fact('seen(User:a)'), verdict_get_policy('eventual') = '' AS policy;
SELECT sent_changes FROM verdict_session();
COMMIT;
\! perl -MHTTP::Tiny -e '$_ = HTTP::Tiny->new->get("$ENV{VERDICT_TEST_ADMIN}/log")->{content}; my $n = () = /seen-by-the-instance/g; print "$n\n"'
SELECT verdict_delete_fact('seen(User:a)');

SET client_min_messages = warning;
DROP SERVER session_test, session_other CASCADE;
