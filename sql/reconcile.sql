-- Bringing over what is there.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS verdict;
RESET client_min_messages;
\set url `echo "$VERDICT_TEST_URL"`
\set key `echo "$VERDICT_TEST_KEY"`
\set wire `echo "$VERDICT_TEST_WIRE"`
CREATE SERVER reconcile_test FOREIGN DATA WRAPPER verdict
	OPTIONS (instance_url :'url', wire_format :'wire', batch_size '3');
CREATE USER MAPPING FOR PUBLIC SERVER reconcile_test OPTIONS (api_key :'key');
SET verdict.server = 'reconcile_test';
CREATE TABLE reconcile_document (id integer PRIMARY KEY, owner text, note text);
INSERT INTO reconcile_document SELECT n, 'user ' || n % 3, 'a' FROM generate_series(1, 10) AS n;
\set query 'SELECT verdict_identity(\'User\', owner), verdict_identity(\'Document\', id) FROM reconcile_document'

-- First load: the differences, then the repair, then nothing to do.
SELECT * FROM verdict_reconcile_facts('owner', :'query') ORDER BY fact;
SELECT count(*) FROM verdict_list_facts('owner(_, _)');
\set clear `perl -MHTTP::Tiny -e 'print HTTP::Tiny->new->delete("$ENV{VERDICT_TEST_ADMIN}/log")->{success}'`
SELECT difference, repaired, count(*) FROM verdict_reconcile_facts('owner', :'query', true) GROUP BY 1, 2;
\! perl -MHTTP::Tiny -MJSON::PP -e 'print join(" ", map { $_->{method} } @{decode_json(HTTP::Tiny->new->get("$ENV{VERDICT_TEST_ADMIN}/log")->{content})}), "\n"'
SELECT count(*) FROM verdict_list_facts('owner(_, _)');
SELECT * FROM verdict_reconcile_facts('owner', :'query', true);

-- Both ways, in the order of the facts; other predicates are left alone.
SET verdict.mutation_mode = immediate;
SELECT verdict_insert_fact('viewer(User:x, Document:1)');
SELECT verdict_batch_facts(ARRAY['owner(User:x, Document:1)', 'owner(User:x, Document:2)']::verdict_fact[],
	ARRAY['owner(User:"user 1", Document:4)']::verdict_fact[]);
RESET verdict.mutation_mode;
UPDATE reconcile_document SET owner = 'O''Brien "the ä"' WHERE id = 3;
SELECT * FROM verdict_reconcile_facts('owner', :'query');
SELECT * FROM verdict_reconcile_facts('owner', :'query', true);
SELECT * FROM verdict_reconcile_facts('owner', :'query', true);
SELECT * FROM verdict_list_facts('viewer(_, _)');

-- A query without rows removes everything; a row that comes twice is one fact.
SELECT difference, repaired, count(*) FROM verdict_reconcile_facts('owner', :'query' || ' WHERE false', true) GROUP BY 1, 2;
SELECT count(*) FROM verdict_reconcile_facts('owner', :'query' || ' CROSS JOIN generate_series(1, 5)', true);
SELECT count(*) FROM verdict_list_facts('owner(_, _)');

-- The types of the columns are those of verdict_fact().
SELECT * FROM verdict_reconcile_facts('mixed', $$
	VALUES (verdict_identity('User', 'a b'), 'text "x"', 1::smallint, 2, 3::bigint, true, 'c'::char(4)),
		('User:b', '', -1, -2, -3, false, '')$$, true);
SELECT * FROM verdict_list_facts() AS fact WHERE fact::text LIKE 'mixed%' ORDER BY 1;
SELECT * FROM verdict_reconcile_facts('mixed', $$
	WITH row AS (SELECT verdict_identity('User', 'a b'), 'text "x"', 1::smallint, 2, 3::bigint, true, 'c'::varchar) TABLE row$$, true);
SELECT * FROM verdict_reconcile_facts('flag', 'SELECT', true);
SELECT * FROM verdict_reconcile_facts('flag', 'SELECT WHERE false', true);

-- The transaction's own changes count: those of the table, and facts that wait.
BEGIN;
INSERT INTO reconcile_document VALUES (11, 'new', NULL);
SELECT verdict_insert_fact('owner(User:waiting, Document:12)');
SELECT * FROM verdict_reconcile_facts('owner', :'query');
ROLLBACK;
SELECT verdict_delete_fact('owner(User:waiting, Document:12)');

-- A repair in any mode, but not where a rollback would surprise.
SET verdict.mutation_mode = outbox;
DELETE FROM reconcile_document WHERE id = 10;
SELECT * FROM verdict_reconcile_facts('owner', :'query', true);
SHOW verdict.mutation_mode;
BEGIN;
SELECT verdict_insert_fact('owner(User:later, Document:1)');
SELECT * FROM verdict_reconcile_facts('owner', :'query', true);
ROLLBACK;
RESET verdict.mutation_mode;
BEGIN;
UPDATE reconcile_document SET owner = 'other' WHERE id = 1;
SELECT * FROM verdict_reconcile_facts('owner', :'query');
SELECT * FROM verdict_reconcile_facts('owner', :'query', true);
ROLLBACK;
-- ... nor what the query itself changes.
CREATE FUNCTION take_over(id int) RETURNS text LANGUAGE plpgsql AS
$$ BEGIN UPDATE reconcile_document AS d SET owner = 'other' WHERE d.id = take_over.id; RETURN (SELECT owner FROM reconcile_document AS d WHERE d.id = take_over.id); END $$;
BEGIN;
SELECT * FROM verdict_reconcile_facts('owner', $$SELECT verdict_identity('User', take_over(1)), verdict_identity('Document', 1)$$, true);
ROLLBACK;
DROP FUNCTION take_over;
BEGIN;
SET LOCAL verdict.idempotency_key = 'order-42';
SELECT * FROM verdict_reconcile_facts('owner', :'query', true);
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT * FROM verdict_reconcile_facts('owner', :'query');
SELECT * FROM verdict_reconcile_facts('owner', :'query', true);
ROLLBACK;
BEGIN READ ONLY;
SELECT * FROM verdict_reconcile_facts('owner', :'query');
SELECT * FROM verdict_reconcile_facts('owner', :'query', true);
ROLLBACK;
-- Several in one transaction, under a lock that keeps the table as it is.
BEGIN;
LOCK TABLE reconcile_document IN SHARE MODE;
SELECT count(*) FROM verdict_reconcile_facts('owner', :'query' || ' WHERE id < 4', true);
SELECT count(*) FROM verdict_reconcile_facts('other_owner', :'query', true);
COMMIT;
BEGIN;
SELECT count(*) FROM verdict_reconcile_facts('other_owner', :'query' || ' WHERE id < 4', true);
ROLLBACK;
SELECT count(*) FROM verdict_list_facts('other_owner(_, _)');

-- The query cannot lead the repair elsewhere.
CREATE SERVER reconcile_elsewhere FOREIGN DATA WRAPPER verdict OPTIONS (instance_url 'http://127.0.0.1:1');
CREATE USER MAPPING FOR PUBLIC SERVER reconcile_elsewhere;
SELECT fact FROM verdict_reconcile_facts('moved', $$SELECT set_config('verdict.server', 'reconcile_elsewhere', false)$$, true);
SHOW verdict.server;
SET verdict.server = 'reconcile_test';
SELECT * FROM verdict_list_facts() AS fact WHERE fact::text LIKE 'moved%';

-- Mistakes.
\set VERBOSITY default
SELECT verdict_reconcile_facts(NULL, 'SELECT 1');
SELECT verdict_reconcile_facts('owner', NULL);
SELECT verdict_reconcile_facts('owner', 'SELECT 1', NULL);
SELECT verdict_reconcile_facts('not an identifier', 'SELECT 1');
SELECT verdict_reconcile_facts('owner', '');
SELECT verdict_reconcile_facts('owner', 'SELECT 1; SELECT 2');
SELECT verdict_reconcile_facts('owner', 'SELEC 1');
SELECT verdict_reconcile_facts('owner', 'SHOW work_mem');
SELECT verdict_reconcile_facts('owner', 'EXPLAIN SELECT 1');
SELECT verdict_reconcile_facts('owner', 'DELETE FROM reconcile_document RETURNING id');
SELECT verdict_reconcile_facts('gone', 'WITH gone AS (DELETE FROM reconcile_document RETURNING id) SELECT id FROM gone');
SELECT verdict_reconcile_facts('locked', 'SELECT id FROM reconcile_document FOR UPDATE');
SELECT verdict_reconcile_facts('owner', 'SELECT id FROM reconcile_document WHERE id = $1');
SELECT verdict_reconcile_facts('null_owner', 'SELECT note, owner, NULL::text AS nothing FROM reconcile_document');
SELECT verdict_reconcile_facts('owner', $$SELECT verdict_variable('x'), 1$$);
SELECT verdict_reconcile_facts('dated', $$SELECT owner, now() AS since FROM reconcile_document$$);
SELECT verdict_reconcile_facts('owner', $$SELECT verdict_identity('User', owner) FROM reconcile_document$$);
SELECT verdict_reconcile_facts('wide', 'SELECT ' || string_agg('1', ', ')) FROM generate_series(1, 65);
\set VERBOSITY terse
SELECT verdict_reconcile_facts('allow', $$SELECT verdict_identity('User', 1), 'read', verdict_identity('Document', 1)$$, true);
\set VERBOSITY default
SELECT verdict_reconcile_facts('halved', 'SELECT 1 / (id - 5) FROM reconcile_document', true);
SELECT count(*) FROM verdict_list_facts() AS fact WHERE fact::text ~ '^(halved|null_owner|dated|wide)';
\set VERBOSITY terse

-- Rows that a policy hides are not taken for rows that are not there.
CREATE ROLE verdict_test_reconciler;
GRANT USAGE ON FOREIGN SERVER reconcile_test TO verdict_test_reconciler;
GRANT SELECT ON reconcile_document TO verdict_test_reconciler;
SET ROLE verdict_test_reconciler;
SELECT * FROM verdict_reconcile_facts('owner', :'query');
RESET ROLE;
GRANT EXECUTE ON FUNCTION verdict_reconcile_facts(text, text, boolean) TO verdict_test_reconciler;
SET ROLE verdict_test_reconciler;
SELECT count(*) FROM verdict_reconcile_facts('owner', :'query');
SELECT * FROM verdict_reconcile_facts('role', 'SELECT rolname FROM pg_authid');
RESET ROLE;
ALTER TABLE reconcile_document ENABLE ROW LEVEL SECURITY;
CREATE POLICY first_two ON reconcile_document USING (id < 3);
SET ROLE verdict_test_reconciler;
SELECT * FROM verdict_reconcile_facts('owner', :'query', true);
SHOW row_security;
RESET ROLE;
SELECT count(*) FROM verdict_reconcile_facts('owner', :'query');

-- In the places where a set can stand.
CREATE TABLE reconcile_report AS SELECT fact FROM verdict_reconcile_facts('owner', :'query' || ' WHERE id < 3');
INSERT INTO reconcile_report SELECT fact FROM verdict_reconcile_facts('owner', :'query' || ' WHERE id < 3', true);
SELECT count(*) FROM reconcile_report;
SELECT verdict_reconcile_facts('owner', :'query' || ' WHERE id < 4', true);
DO $$
DECLARE
	found integer;
BEGIN
	SELECT count(*) INTO found FROM verdict_reconcile_facts('owner', 'SELECT ''x''::text, 1', true);
	RAISE NOTICE '% differences', found;
	RAISE division_by_zero;
EXCEPTION WHEN division_by_zero THEN
	RAISE NOTICE 'caught';
END $$;
SHOW verdict.mutation_mode;
SELECT * FROM verdict_progress_reconcile;

SET client_min_messages = warning;
DROP TABLE reconcile_document, reconcile_report;
REVOKE EXECUTE ON FUNCTION verdict_reconcile_facts(text, text, boolean) FROM verdict_test_reconciler;
DROP SERVER reconcile_test CASCADE;
DROP SERVER reconcile_elsewhere CASCADE;
DROP ROLE verdict_test_reconciler;
