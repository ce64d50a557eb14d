-- What a failure looks like: each Connect code and each cause of this client's own.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS verdict;
RESET client_min_messages;
\set url `echo "$VERDICT_TEST_URL"`
\set key `echo "$VERDICT_TEST_KEY"`
\set wire `echo "$VERDICT_TEST_WIRE"`
CREATE SERVER error_test FOREIGN DATA WRAPPER verdict
	OPTIONS (instance_url :'url', wire_format :'wire', retry_owner 'none',
		read_timeout_ms '2000', max_response_bytes '65536');
CREATE USER MAPPING FOR CURRENT_USER SERVER error_test OPTIONS (api_key :'key');
SET verdict.server = 'error_test';
SET verdict.mutation_mode = immediate;

-- What differs from run to run is left out.
CREATE FUNCTION pg_temp.attempt(statement text, OUT state text, OUT message text, OUT detail text, OUT hint text)
LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE statement;
	message := 'no error';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
		detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	detail := regexp_replace(detail, '[0-9a-f]{8}-[0-9a-f-]{27}', '<uuid>');
	message := regexp_replace(message, '(did|does not decode|connect to the instance): .*', '\1: <and why>');
	message := regexp_replace(message, 'after \d+ ms', 'after <n> ms');
END $$;
\x on

-- Connect codes, as the instance says them.
\set ordered `perl -MHTTP::Tiny -e 'print HTTP::Tiny->new->post("$ENV{VERDICT_TEST_ADMIN}/faults", {content => "[" . join(",", map { qq({"method":"Authorize","fault":{"kind":"error","code":"$_","message":"says $_"}}) } @ARGV) . "]"})->{success}' canceled unknown invalid_argument deadline_exceeded not_found already_exists permission_denied resource_exhausted failed_precondition aborted out_of_range unimplemented internal unavailable data_loss unauthenticated`
\echo ordered: :ordered
SELECT * FROM generate_series(1, 16) AS n, LATERAL pg_temp.attempt(format('SELECT %s, verdict_authorize(''User:a'', ''read'', ''Document:1'')', n));

-- HTTP statuses of something that does not speak Connect.
\set ordered `perl -MHTTP::Tiny -e 'print HTTP::Tiny->new->post("$ENV{VERDICT_TEST_ADMIN}/faults", {content => "[" . join(",", map { qq({"method":"Authorize","fault":{"kind":"status","status":$_,"content_type":"text/html","body":"<h1>no</h1>"}}) } @ARGV) . "]"})->{success}' 400 401 403 404 409 418 429 500 502 503`
\echo ordered: :ordered
SELECT * FROM generate_series(1, 10) AS n, LATERAL pg_temp.attempt(format('SELECT %s, verdict_authorize(''User:a'', ''read'', ''Document:1'')', n));

-- Answers that cannot be trusted.
\set ordered `perl -MHTTP::Tiny -e 'print HTTP::Tiny->new->post("$ENV{VERDICT_TEST_ADMIN}/faults", {content => "[" . join(",", map { qq({"method":"Authorize","fault":{$_}}) } q("kind":"cut"), q("kind":"cut_undelimited"), q("kind":"content_type","value":"text/plain"), q("kind":"body","hex":"ffffff"), q("kind":"oversize","bytes":1000000), q("kind":"gzip_bomb","bytes":1000000), q("kind":"redirect","location":"http://127.0.0.1:1/")) . "]"})->{success}'`
\echo ordered: :ordered
SELECT * FROM generate_series(1, 7) AS n, LATERAL pg_temp.attempt(format('SELECT %s, verdict_authorize(''User:a'', ''read'', ''Document:1'')', n));

-- The client's own deadline.
ALTER SERVER error_test OPTIONS (SET read_timeout_ms '100');
\set ordered `perl -MHTTP::Tiny -e 'print HTTP::Tiny->new->post("$ENV{VERDICT_TEST_ADMIN}/faults", {content => q({"method":"Authorize","fault":{"kind":"stall","ms":1000}})})->{success}'`
\echo ordered: :ordered
SELECT * FROM pg_temp.attempt('SELECT verdict_authorize(''User:a'', ''read'', ''Document:1'')');
ALTER SERVER error_test OPTIONS (SET read_timeout_ms '10000');

-- A change whose answer was lost may have been applied, and has been.
\set ordered `perl -MHTTP::Tiny -e 'print HTTP::Tiny->new->post("$ENV{VERDICT_TEST_ADMIN}/faults", {content => q({"method":"InsertFact","fault":{"kind":"close","when":"after"}})})->{success}'`
\echo ordered: :ordered
SELECT * FROM pg_temp.attempt('SELECT verdict_insert_fact(''lost(User:a)'')');
SELECT verdict_delete_fact('lost(User:a)') AS was_there;
-- With the client as owner of retries it is sent again under its key.
ALTER SERVER error_test OPTIONS (SET retry_owner 'client');
\set ordered `perl -MHTTP::Tiny -e 'print HTTP::Tiny->new->post("$ENV{VERDICT_TEST_ADMIN}/faults", {content => q({"method":"InsertFact","fault":{"kind":"close","when":"after"}})})->{success}'`
\echo ordered: :ordered
SELECT verdict_insert_fact('lost(User:a)') AS inserted;
SELECT verdict_delete_fact('lost(User:a)') AS was_there;

-- What is refused here is told apart from what the instance refuses.
SELECT * FROM pg_temp.attempt('SELECT verdict_authorize(''User:a'', '''', ''Document:1'')');
SELECT * FROM pg_temp.attempt('SELECT verdict_insert_fact(''allow(User:a, "read", Document:1)'')');

-- Nobody at home, and no such file.
ALTER SERVER error_test OPTIONS (SET instance_url 'http://127.0.0.1:1');
SELECT * FROM pg_temp.attempt('SELECT verdict_authorize(''User:a'', ''read'', ''Document:1'')');
ALTER SERVER error_test OPTIONS (SET instance_url 'https://127.0.0.1:1', ADD ssl_ca_file '/no/such/file.pem');
SELECT * FROM pg_temp.attempt('SELECT verdict_authorize(''User:a'', ''read'', ''Document:1'')');

-- The text of an instance is shown, not interpreted.
ALTER SERVER error_test OPTIONS (SET instance_url :'url', DROP ssl_ca_file);
\set ordered `perl -MHTTP::Tiny -e 'print HTTP::Tiny->new->post("$ENV{VERDICT_TEST_ADMIN}/faults", {content => q({"method":"Authorize","fault":{"kind":"error","code":"internal","message":"100%s %n % zo\u00eb \u20ac \u0007bell"}})})->{success}'`
\echo ordered: :ordered
SELECT * FROM pg_temp.attempt('SELECT verdict_authorize(''User:a'', ''read'', ''Document:1'')');
\x off

SET client_min_messages = warning;
DROP SERVER error_test CASCADE;
