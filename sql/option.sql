-- Options of servers and user mappings: what is checked where it is written.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS verdict;
RESET client_min_messages;
-- What libcurl says of a URL differs between its versions.
CREATE FUNCTION pg_temp.attempt(statement text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	state text; message text; detail text; hint text;
BEGIN
	EXECUTE statement;
	RETURN 'accepted';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
		detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	detail := regexp_replace(detail, 'URL: [A-Z].*', 'URL: <libcurl says why>');
	RETURN concat_ws(' | ', state, message, nullif(detail, ''), nullif(hint, ''));
END $$;
CREATE FUNCTION pg_temp.server(options text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	result := pg_temp.attempt(format('CREATE SERVER option_test FOREIGN DATA WRAPPER verdict %s',
		'OPTIONS (' || nullif(options, '') || ')'));
	DROP SERVER IF EXISTS option_test;
	RETURN result;
END $$;
SET client_min_messages = warning;

-- The URL is required, and is one.
SELECT o AS options, pg_temp.server(o) AS result FROM unnest(ARRAY[
	'',
	$$wire_format 'json'$$,
	$$instance_url 'http://localhost:1'$$,
	$$instance_url 'https://verdict.example/some/prefix/'$$,
	$$instance_url 'HTTPS://verdict.example'$$,
	$$instance_url ''$$,
	$$instance_url 'verdict.example'$$,
	$$instance_url 'file:///etc/passwd'$$,
	$$instance_url 'gopher://localhost'$$,
	$$instance_url 'http://'$$,
	$$instance_url 'http://name:hidden@localhost'$$,
	$$instance_url 'http://localhost/?query'$$,
	$$instance_url 'http://localhost/#fragment'$$,
	$$instance_url E'http://localhost/\nHost: other'$$,
	$$instance_url 'http://localhost:99999'$$
]) AS o;

-- Words, booleans, paths.
SELECT o AS options, pg_temp.server($$instance_url 'http://localhost', $$ || o) AS result FROM unnest(ARRAY[
	$$wire_format 'binary'$$,
	$$wire_format 'json'$$,
	$$wire_format 'JSON'$$,
	$$wire_format ''$$,
	$$http_version '1.1'$$,
	$$http_version '2'$$,
	$$http_version '3'$$,
	$$retry_owner 'client'$$,
	$$retry_owner 'application'$$,
	$$retry_owner 'mesh'$$,
	$$retry_owner 'none'$$,
	$$retry_owner 'everybody'$$,
	$$retry_http_503 'on'$$,
	$$retry_http_503 'false'$$,
	$$retry_http_503 'perhaps'$$,
	$$retry_owner 'none', retry_http_503 'true'$$,
	$$retry_owner 'mesh', retry_http_503 'off'$$,
	$$ssl_ca_file '/etc/ssl/some.pem'$$,
	$$ssl_ca_file 'some.pem'$$,
	$$mutation_attempt_timeout_ms '30000'$$,
	$$mutation_attempt_timeout_ms '30001'$$,
	$$mutation_attempt_timeout_ms '500', mutation_overall_timeout_ms '499'$$,
	$$mutation_attempt_timeout_ms '500', mutation_overall_timeout_ms '500'$$,
	$$mutation_overall_timeout_ms '500'$$
]) AS o;
SELECT pg_temp.server($$instance_url 'https://localhost', ssl_ca_file '/etc/ssl/some.pem'$$);
SELECT pg_temp.server($$instance_url 'https://localhost', http_version '2'$$);

-- Numbers: both ends of every range, and what is no number.
SELECT format('%s %L', o, v) AS option,
	pg_temp.server(format('instance_url %L, %s %L', 'http://localhost', o, v)) AS result
FROM unnest(ARRAY['mutation_overall_timeout_ms', 'read_timeout_ms', $$mutation_overall_timeout_ms '55000', mutation_attempt_timeout_ms$$]) AS o,
	unnest(ARRAY['0', '1', '55000', '55001']) AS v;
SELECT v AS max_response_bytes,
	pg_temp.server(format('instance_url %L, max_response_bytes %L', 'http://localhost', v)) AS result
FROM unnest(ARRAY['1023', '1024', '1073741823', '1073741824', '-1', '', '1e6', '0x400', ' 2048', '2048 ',
	'99999999999999999999']) AS v;

-- Unknown, in the wrong place, twice.
SELECT pg_temp.server($$instance_url 'http://localhost', uri 'x'$$);
SELECT pg_temp.server($$instance_url 'http://localhost', api_key 'a-key-that-is-not-shown'$$);
SELECT pg_temp.server($$instance_url 'http://localhost', instance_url 'http://localhost'$$);
SELECT pg_temp.attempt($$SELECT verdict_fdw_validator('{instance_url=http://localhost,instance_url=http://localhost}', 'pg_foreign_server'::regclass)$$);

CREATE SERVER option_test FOREIGN DATA WRAPPER verdict OPTIONS (instance_url 'http://localhost');
SELECT o AS options, pg_temp.attempt(format('CREATE USER MAPPING FOR PUBLIC SERVER option_test OPTIONS (%s)', o)) AS result
FROM unnest(ARRAY[
	$$api_key ''$$,
	$$api_key 'not shown'$$,
	$$api_key 'not-shown-é'$$,
	$$api_key E'not-shown\n'$$,
	$$password 'not-shown'$$,
	$$instance_url 'http://localhost'$$
]) AS o;
CREATE USER MAPPING FOR PUBLIC SERVER option_test OPTIONS (api_key 'right');

-- ALTER is checked as a whole.
SELECT a AS alteration, pg_temp.attempt('ALTER SERVER option_test OPTIONS (' || a || ')') AS result FROM unnest(ARRAY[
	$$SET instance_url 'ftp://localhost'$$,
	$$DROP instance_url$$,
	$$ADD http_version '2'$$,
	$$ADD http_version '2', SET instance_url 'https://localhost'$$,
	$$SET instance_url 'http://localhost'$$,
	$$ADD read_timeout_ms '5'$$
]) AS a;
SELECT srvoptions FROM pg_foreign_server WHERE srvname = 'option_test';

-- Nothing else takes options, and there are no foreign tables.
SELECT pg_temp.attempt($$ALTER FOREIGN DATA WRAPPER verdict OPTIONS (ADD wire_format 'json')$$);
SELECT pg_temp.attempt($$ALTER FOREIGN DATA WRAPPER verdict OPTIONS (ADD anything 'x')$$);
SELECT pg_temp.attempt($$CREATE FOREIGN TABLE option_test_table (a integer) SERVER option_test$$);
SELECT pg_temp.attempt($$CREATE FOREIGN TABLE option_test_table (a integer) SERVER option_test OPTIONS (a 'b')$$);
SELECT pg_temp.attempt($$IMPORT FOREIGN SCHEMA s FROM SERVER option_test INTO public$$);

DROP SERVER option_test CASCADE;
