-- Who may call: USAGE on the server, a user mapping, and whose key it is.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS verdict;
RESET client_min_messages;
\set url `echo "$VERDICT_TEST_URL"`
\set key `echo "$VERDICT_TEST_KEY"`
\set wire `echo "$VERDICT_TEST_WIRE"`
CREATE ROLE verdict_test_caller;
CREATE ROLE verdict_test_group;
CREATE ROLE verdict_test_owner;
CREATE SERVER privilege_test FOREIGN DATA WRAPPER verdict
	OPTIONS (instance_url :'url', wire_format :'wire');
CREATE FOREIGN DATA WRAPPER other_wrapper;
CREATE SERVER other_wrapper FOREIGN DATA WRAPPER other_wrapper;
SELECT verdict_version() ~ '^verdict \d+\.\d+, libcurl/\d+\.\d+' AS version;

-- No server, no such server, a server of something else.
SELECT verdict_authorize('User:a', 'read', 'Document:1');
SET verdict.server = 'no_such_server';
SELECT verdict_authorize('User:a', 'read', 'Document:1');
SET verdict.server = 'other_wrapper';
SELECT verdict_authorize('User:a', 'read', 'Document:1');
SET verdict.server = 'privilege_test';
SET verdict.mutation_mode = immediate;

-- No user mapping; with one; with a wrong key.
CREATE USER MAPPING FOR verdict_test_owner SERVER privilege_test OPTIONS (api_key :'key');
SET ROLE verdict_test_caller;
SELECT verdict_authorize('User:a', 'read', 'Document:1');
RESET ROLE;
GRANT USAGE ON FOREIGN SERVER privilege_test TO verdict_test_group;
GRANT verdict_test_group TO verdict_test_caller;
SET ROLE verdict_test_caller;
SELECT verdict_authorize('User:a', 'read', 'Document:1');
CREATE USER MAPPING FOR CURRENT_USER SERVER privilege_test OPTIONS (api_key 'wrong-key');
SELECT set_config('verdict.server', 'privilege_test', false);
CREATE FUNCTION pg_temp.attempt(statement text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	state text; message text; hint text; result text;
BEGIN
	EXECUTE statement INTO result;
	RETURN result;
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(' | ', state, message, nullif(hint, ''));
END $$;
SELECT pg_temp.attempt($$SELECT verdict_authorize('User:a', 'read', 'Document:1')$$);
ALTER USER MAPPING FOR CURRENT_USER SERVER privilege_test OPTIONS (SET api_key :'key');
SELECT pg_temp.attempt($$SELECT verdict_authorize('User:a', 'read', 'Document:1')$$);

-- In one session: what is taken away counts at the next call.
RESET ROLE;
REVOKE verdict_test_group FROM verdict_test_caller;
SET ROLE verdict_test_caller;
SELECT pg_temp.attempt($$SELECT verdict_authorize('User:a', 'read', 'Document:1')$$);
RESET ROLE;
GRANT USAGE ON FOREIGN SERVER privilege_test TO verdict_test_caller;
SET ROLE verdict_test_caller;
SELECT pg_temp.attempt($$SELECT verdict_authorize('User:a', 'read', 'Document:1')$$);
RESET ROLE;
REVOKE USAGE ON FOREIGN SERVER privilege_test FROM verdict_test_caller;
SET ROLE verdict_test_caller;
SELECT pg_temp.attempt($$SELECT verdict_authorize('User:a', 'read', 'Document:1')$$);
RESET ROLE;

-- A function with the rights of its owner calls with the owner's key.
GRANT USAGE ON FOREIGN SERVER privilege_test TO verdict_test_owner;
CREATE FUNCTION privilege_test_check() RETURNS boolean SECURITY DEFINER
SET search_path FROM CURRENT
LANGUAGE sql AS $$SELECT verdict_authorize('User:a', 'read', 'Document:1')$$;
ALTER FUNCTION privilege_test_check() OWNER TO verdict_test_owner;
SET ROLE verdict_test_caller;
SELECT privilege_test_check();
SELECT pg_temp.attempt($$SELECT verdict_authorize('User:a', 'read', 'Document:1')$$);

RESET ROLE;

-- USAGE gives the reads.  Changes are a matter of EXECUTE, which nobody has by
-- itself, and which a trigger does not ask for when it fires.
\set changes 'verdict_insert_fact(verdict_fact), verdict_insert_fact(text, "any"), verdict_delete_fact(verdict_fact), verdict_delete_fact(text, "any"), verdict_batch_facts(verdict_fact[], verdict_fact[]), verdict_set_policy(text), verdict_emit_fact()'
CREATE TABLE privilege_test_row (id integer);
CREATE TRIGGER emit AFTER INSERT OR DELETE ON privilege_test_row FOR EACH ROW EXECUTE FUNCTION verdict_emit_fact('row', '{id}');
ALTER TABLE privilege_test_row OWNER TO verdict_test_owner;
CREATE TABLE privilege_test_own (id integer);
ALTER TABLE privilege_test_own OWNER TO verdict_test_owner;
SET ROLE verdict_test_owner;
SELECT pg_temp.attempt($$SELECT verdict_authorize('User:a', 'read', 'Document:1')$$);
SELECT pg_temp.attempt($$SELECT verdict_insert_fact('row(2)')$$);
SELECT pg_temp.attempt($$SELECT verdict_insert_fact('row', 2)$$);
SELECT pg_temp.attempt($$SELECT verdict_delete_fact('row(2)')$$);
SELECT pg_temp.attempt($$SELECT verdict_delete_fact('row', 2)$$);
SELECT pg_temp.attempt($$SELECT verdict_batch_facts(ARRAY['row(2)']::verdict_fact[])$$);
SELECT pg_temp.attempt($$SELECT verdict_set_policy('')$$);
SELECT pg_temp.attempt($$CREATE TRIGGER emit AFTER INSERT ON privilege_test_own FOR EACH ROW EXECUTE FUNCTION verdict_emit_fact('row', '{id}')$$);
INSERT INTO privilege_test_row VALUES (1);
SELECT * FROM verdict_list_facts('row(?id)');
DELETE FROM privilege_test_row;
SELECT * FROM verdict_list_facts('row(?id)');
RESET ROLE;
GRANT EXECUTE ON FUNCTION :changes TO verdict_test_owner;
SET ROLE verdict_test_owner;
SELECT pg_temp.attempt($$SELECT verdict_insert_fact('row(2)')$$);
SELECT pg_temp.attempt($$SELECT verdict_delete_fact('row', 2)$$);
RESET ROLE;
REVOKE EXECUTE ON FUNCTION :changes FROM verdict_test_owner;
DROP TABLE privilege_test_row, privilege_test_own;

-- The key is in no view that another role may read.
SET ROLE verdict_test_caller;
SELECT count(*) AS mappings, count(umoptions) AS options_seen FROM pg_user_mappings WHERE srvname = 'privilege_test';
RESET ROLE;
CREATE ROLE verdict_test_stranger;
SET ROLE verdict_test_stranger;
SELECT usename, umoptions FROM pg_user_mappings WHERE srvname = 'privilege_test' ORDER BY 1;
SELECT count(*) FROM information_schema.user_mapping_options WHERE option_value IS NOT NULL;
SELECT umoptions FROM pg_user_mapping;
SELECT count(*) FROM pg_settings WHERE setting LIKE '%' || :'key' || '%';
RESET ROLE;

-- Dropping the mapping or the server counts at once, too.
SET ROLE verdict_test_owner;
SELECT pg_temp.attempt($$SELECT verdict_authorize('User:a', 'read', 'Document:1')$$);
RESET ROLE;
DROP USER MAPPING FOR verdict_test_owner SERVER privilege_test;
SET ROLE verdict_test_owner;
SELECT pg_temp.attempt($$SELECT verdict_authorize('User:a', 'read', 'Document:1')$$);
RESET ROLE;
SET client_min_messages = warning;
DROP SERVER privilege_test CASCADE;
SET ROLE verdict_test_owner;
SELECT pg_temp.attempt($$SELECT verdict_authorize('User:a', 'read', 'Document:1')$$);
RESET ROLE;

DROP FUNCTION privilege_test_check();
DROP SERVER other_wrapper;
DROP FOREIGN DATA WRAPPER other_wrapper;
DROP FUNCTION pg_temp.attempt(text);
DROP ROLE verdict_test_caller, verdict_test_group, verdict_test_owner, verdict_test_stranger;
