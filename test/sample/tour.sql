-- The tour of `make try`: each statement is shown with its answer.
\set ON_ERROR_STOP on
\set QUIET on
\pset footer off
\set ECHO none

\echo
\echo '== 1. A check that is true, one that is false, and why they differ'
\echo 'alice owns document 1. carol was given it too, but she is banned from it.'
\set ECHO queries
SELECT verdict_authorize('User:alice', 'read', 'Document:1') AS alice,
       verdict_authorize('User:carol', 'read', 'Document:1') AS carol;
SELECT * FROM verdict_list_facts('is_owner(?user, Document:1)');
SELECT * FROM verdict_list_facts('viewer(User:carol, Document:1)');
SELECT * FROM verdict_list_facts('banned(?user, Document:1)');
\set ECHO none

\echo
\echo '== 2. A query with a variable: what may alice do with document 1?'
\set ECHO queries
SELECT * FROM verdict_query('allow(User:alice, ?action, Document:1)') AS (action text) ORDER BY 1;
\set ECHO none
\echo '... and which documents may she read?'
\set ECHO queries
SELECT count(*) AS documents FROM verdict_list_resources('User:alice', 'read', 'Document');
\set ECHO none

\echo
\echo '== 3. Who may read document 1?'
\set ECHO queries
SELECT * FROM verdict_list_actors('read', 'Document:1', 'User') AS actor WHERE actor IN ('alice', 'bob', 'carol', 'root') ORDER BY 1;
SELECT * FROM verdict_query('member(User:bob, ?team)') AS (team verdict_identity);
SELECT * FROM verdict_list_facts('team_viewer(?team, Document:1)');
\set ECHO none
\echo 'And what may root, an administrator?  Any action with any resource: NULL says so.'
\set ECHO queries
\pset null any
SELECT * FROM verdict_query('allow(User:root, ?action, ?resource)') AS (action text, resource text);
\pset null ''
\set ECHO none

\echo
\echo '== 4. Row-level security: one policy, two users, the same SELECT'
\set ECHO queries
CREATE ROLE sample_app;
GRANT SELECT, INSERT, DELETE ON document TO sample_app;
GRANT USAGE ON FOREIGN SERVER sample TO sample_app;
ALTER TABLE document ENABLE ROW LEVEL SECURITY;
CREATE POLICY readable ON document FOR SELECT
	USING (verdict_authorize(verdict_actor(), 'read', verdict_identity('Document', id)));
CREATE POLICY insertable ON document FOR INSERT WITH CHECK (true);
SET ROLE sample_app;
SET verdict.actor = 'User:alice';
SELECT id, owner_id, title FROM document WHERE id <= 3 ORDER BY id;
SET verdict.actor = 'User:carol';
SELECT id, owner_id, title FROM document WHERE id <= 3 ORDER BY id;
\set ECHO none
\echo 'The whole table of 20,000 rows, each one checked:'
\set ECHO queries
SET verdict.actor = 'User:bob';
SELECT count(*) AS readable_for_bob FROM document;
RESET ROLE;
\set ECHO none

\echo
\echo '== 5. A trigger that emits a fact: the new owner may read at once'
\set ECHO queries
CREATE TRIGGER emit_owner AFTER INSERT OR UPDATE OR DELETE ON document FOR EACH ROW
	EXECUTE FUNCTION verdict_emit_fact('is_owner', 'User:{owner_id}', 'Document:{id}');
SET ROLE sample_app;
SET verdict.actor = 'User:bob';
INSERT INTO document VALUES (20001, 'bob', NULL, 'Notes of bob');
SELECT id, owner_id, title FROM document WHERE id = 20001;
RESET ROLE;
\set ECHO none

\echo
\echo '== 6. A change belongs to its transaction: a rollback sends nothing, a commit does'
\set ECHO queries
BEGIN;
DELETE FROM document WHERE id = 20001;
SELECT sent_changes, pending_changes FROM verdict_session();
ROLLBACK;
SELECT verdict_authorize('User:bob', 'read', 'Document:20001');
DELETE FROM document WHERE id = 20001;
SELECT verdict_authorize('User:bob', 'read', 'Document:20001');
\set ECHO none

\echo
\echo '== 7. A role without USAGE on the server may not even ask'
\set ON_ERROR_STOP off
\set ECHO queries
CREATE ROLE sample_stranger;
SET ROLE sample_stranger;
SELECT verdict_authorize('User:alice', 'read', 'Document:1');
RESET ROLE;
\set ECHO none
