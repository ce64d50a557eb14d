-- What a rollback says about changes that have been sent.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS verdict;
RESET client_min_messages;
\set url `echo "$VERDICT_TEST_URL"`
\set key `echo "$VERDICT_TEST_KEY"`
\set wire `echo "$VERDICT_TEST_WIRE"`
CREATE SERVER savepoint_test FOREIGN DATA WRAPPER verdict
	OPTIONS (instance_url :'url', wire_format :'wire');
CREATE USER MAPPING FOR CURRENT_USER SERVER savepoint_test OPTIONS (api_key :'key');
SET verdict.server = 'savepoint_test';
SET verdict.mutation_mode = immediate;

-- A transaction: one warning with the number; none after COMMIT, none without changes.
BEGIN;
SELECT verdict_insert_fact('s(User:1)'), verdict_batch_facts(ARRAY['s(User:2)', 's(User:3)']::verdict_fact[]);
ROLLBACK;
BEGIN;
SELECT verdict_delete_fact('s(User:1)');
COMMIT;
BEGIN;
SELECT count(*) FROM verdict_list_facts('s(_)');
ROLLBACK;
-- An error, too (its order with the warning is the client's affair).
BEGIN;
SELECT verdict_delete_fact('s(User:2)');
SET LOCAL client_min_messages = error;
SELECT 1 / 0;
ROLLBACK;

-- Savepoints: each rollback warns of its own changes, and of none twice.
BEGIN;
SELECT verdict_insert_fact('s(User:10)');
SAVEPOINT a;
SELECT verdict_insert_fact('s(User:11)');
SAVEPOINT b;
SELECT verdict_insert_fact('s(User:12)');
ROLLBACK TO b;
SELECT verdict_insert_fact('s(User:13)');
RELEASE b;
SAVEPOINT c;
RELEASE c;
ROLLBACK TO a;
SELECT sent_changes FROM verdict_session();
ROLLBACK;

-- Released savepoints count for whoever is rolled back in the end.
BEGIN;
SAVEPOINT a;
SAVEPOINT b;
SELECT verdict_insert_fact('s(User:20)');
RELEASE b;
SAVEPOINT c;
SELECT verdict_insert_fact('s(User:21)');
RELEASE c;
RELEASE a;
ROLLBACK;

-- An exception block is a subtransaction.
DO $$
BEGIN
	PERFORM verdict_insert_fact('s(User:30)');
	BEGIN
		PERFORM verdict_insert_fact('s(User:31)');
		RAISE division_by_zero;
	EXCEPTION WHEN division_by_zero THEN
		NULL;
	END;
	BEGIN
		PERFORM verdict_insert_fact('s(User:?)');
		PERFORM verdict_insert_fact('allow(User:1, "read", Document:1)');
	EXCEPTION WHEN invalid_parameter_value THEN
		RAISE NOTICE 'refused';
	END;
END $$;

-- The facts are where the warnings said.
SELECT * FROM verdict_list_facts('s(_)') ORDER BY 1;

-- Two-phase commit, where the cluster has it, is refused with sent changes.
BEGIN;
SELECT verdict_insert_fact('s(User:40)');
SET LOCAL client_min_messages = error;
PREPARE TRANSACTION 'verdict_savepoint';
SELECT verdict_batch_facts(deletes => (SELECT array_agg(f) FROM verdict_list_facts('s(_)') AS f)) > 0 AS cleaned;

-- A cursor that reads outlives a savepoint, and what it held is freed.
BEGIN;
SELECT verdict_batch_facts((SELECT array_agg(verdict_fact('s', n)) FROM generate_series(1, 100) AS n));
SAVEPOINT a;
DECLARE c CURSOR FOR SELECT * FROM verdict_list_facts('s(_)') ORDER BY 1;
FETCH 1 FROM c;
RELEASE a;
FETCH 1 FROM c;
SAVEPOINT b;
DECLARE d CURSOR FOR SELECT * FROM verdict_list_facts('s(_)') ORDER BY 1;
FETCH 1 FROM d;
ROLLBACK TO b;
FETCH 1 FROM c;
SELECT verdict_batch_facts(deletes => (SELECT array_agg(f) FROM verdict_list_facts('s(_)') AS f));
COMMIT;

SET client_min_messages = warning;
DROP SERVER savepoint_test CASCADE;
