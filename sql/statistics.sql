-- What is counted of calls, and how many a statement may make.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS verdict;
RESET client_min_messages;
\set url `echo "$VERDICT_TEST_URL"`
\set key `echo "$VERDICT_TEST_KEY"`
\set wire `echo "$VERDICT_TEST_WIRE"`
CREATE SERVER statistics_test FOREIGN DATA WRAPPER verdict
	OPTIONS (instance_url :'url', wire_format :'wire', retry_owner 'none');
CREATE USER MAPPING FOR PUBLIC SERVER statistics_test OPTIONS (api_key :'key');
SET verdict.server = 'statistics_test';
SET verdict.mutation_mode = immediate;
CREATE FUNCTION pg_temp.calls() RETURNS TABLE (method text, calls bigint, errors bigint, sends bigint)
LANGUAGE sql AS $$
	SELECT method, calls, errors, sends FROM verdict_stat_calls WHERE server = 'statistics_test' ORDER BY method
$$;

-- Nothing was called yet.
SELECT verdict_stat_reset();
SELECT * FROM pg_temp.calls();
SELECT count(*) FROM verdict_stat_retry_budget;

-- Each call is counted where it belongs.
SELECT verdict_set_policy('allow(user, "read", doc) if viewer(user, doc);');
SELECT verdict_insert_fact('viewer(User:alice, Document:1)');
SELECT verdict_authorize('User:alice', 'read', 'Document:1'), verdict_authorize('User:bob', 'read', 'Document:1');
SELECT verdict_authorize_many('User:alice', 'read', ARRAY['Document:1', 'Document:2']::verdict_identity[]);
SELECT * FROM verdict_list_resources('User:alice', 'read', 'Document');
\set VERBOSITY sqlstate
SELECT verdict_set_policy('allow(');
\set VERBOSITY default
SELECT * FROM pg_temp.calls();
SELECT datname = current_database() AS database, serverid = (SELECT oid FROM pg_foreign_server WHERE srvname = server) AS server,
	invalid_argument, attempts, retries, waits_503, budget_refusals, bytes_sent > 0 AS sent, bytes_received > 0 AS received, total_time > 0 AS took,
	cardinality(time_histogram) AS buckets, (SELECT sum(n) FROM unnest(time_histogram) n) AS in_them, stats_reset < now() AS since
FROM verdict_stat_calls WHERE server = 'statistics_test' AND method = 'SetPolicy';
SELECT tokens, granted, refused FROM verdict_stat_retry_budget;

-- A wrong argument is no call.
SELECT verdict_stat_reset();
SELECT verdict_authorize('User:alice', '', 'Document:1');
SELECT * FROM pg_temp.calls();

-- How many calls a statement may make.
SET verdict.statement_call_limit = 3;
SELECT count(verdict_get_policy()) FROM generate_series(1, 3);
SELECT count(verdict_get_policy()) FROM generate_series(1, 4);
-- On failure deny does not hide it.
SET verdict.on_failure = 'deny';
SELECT verdict_get_policy(), verdict_get_policy(), verdict_get_policy(), verdict_authorize('User:alice', 'read', 'Document:1');
RESET verdict.on_failure;
-- Many are refused before any is sent.
SELECT verdict_stat_reset();
SELECT verdict_authorize_many('User:alice', 'read', ARRAY['Document:1', 'Document:2', 'Document:3', 'Document:4']::verdict_identity[]);
SELECT * FROM pg_temp.calls();
SELECT verdict_authorize_many('User:alice', 'read', ARRAY['Document:1', 'Document:2', 'Document:3']::verdict_identity[]);
-- What a function calls counts for the statement that called it; each statement begins anew.
SET client_min_messages = error;
DO $$BEGIN
	FOR n IN 1 .. 4 LOOP
		PERFORM verdict_insert_fact('viewer', verdict_identity('User', 'bob'), verdict_identity('Document', n));
	END LOOP;
END$$;
RESET client_min_messages;
SELECT verdict_authorize('User:alice', 'read', 'Document:1');
-- The way out.
SELECT verdict_batch_facts(ARRAY(SELECT verdict_fact('viewer', verdict_identity('User', 'bob'), verdict_identity('Document', n)) FROM generate_series(1, 10) n));
SELECT count(*) FROM verdict_list_resources('User:bob', 'read', 'Document');
RESET verdict.statement_call_limit;

-- Who may look, who may reset, who may have things logged.
CREATE ROLE verdict_test_reader;
SET ROLE verdict_test_reader;
SELECT count(*) FROM verdict_stat_calls;
SELECT count(*) FROM verdict_stat_retry_budget;
SELECT count(*) FROM verdict_stat_calls();
SELECT count(*) FROM verdict_stat_retry_budget();
SELECT verdict_stat_reset();
SET verdict.log_min_call_duration = 0;
SET verdict.statement_call_limit = -1;
RESET ROLE;
GRANT pg_monitor TO verdict_test_reader;
SET ROLE verdict_test_reader;
SELECT count(*) > 0 AS calls FROM verdict_stat_calls;
SELECT count(*) > 0 AS servers FROM verdict_stat_retry_budget;
SELECT verdict_stat_reset();
RESET ROLE;

DROP ROLE verdict_test_reader;
DROP SERVER statistics_test CASCADE;
