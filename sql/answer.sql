-- Answers that an instance should never give: each is an error, and no row of
-- it, no "yes" and no empty list comes out.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS verdict;
\getenv url VERDICT_TEST_URL
\getenv key VERDICT_TEST_KEY
\getenv wire VERDICT_TEST_WIRE
CREATE SERVER instance FOREIGN DATA WRAPPER verdict OPTIONS (instance_url :'url', wire_format :'wire');
CREATE USER MAPPING FOR CURRENT_USER SERVER instance OPTIONS (api_key :'key');
SET verdict.server = 'instance';

-- An order to answer with these bytes, in the wire format of this run.
CREATE TABLE wire AS SELECT :'wire' AS format;
CREATE FUNCTION fault(method text, as_json bytea, as_binary bytea) RETURNS text
LANGUAGE sql AS $$
	SELECT format('{"method":"%s","times":-1,"fault":{"kind":"body","hex":"%s"}}', method,
		encode(CASE format WHEN 'json' THEN as_json ELSE as_binary END, 'hex'))
	FROM wire
$$;
CREATE FUNCTION outcome(statement text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	answer text;
BEGIN
	EXECUTE format('SELECT coalesce(string_agg(x::text, %L), %L) FROM (%s) AS x', ', ', 'nothing', statement)
		INTO answer;
	RETURN 'answered: ' || answer;
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE;
END $$;

-- Cut by the instance.
SELECT fault('Query', '{"variables":["id"],"rows":[{"values":[{"string":"a"}]}],"truncated":true}',
	'\x0a02696412050a031201611801') AS fault \gset
\setenv FAULT :fault
\! curl -s -o /dev/null -d "$FAULT" "$VERDICT_TEST_ADMIN/faults"
SELECT * FROM verdict_query('f(?id)') AS answer(id text);
\! curl -s -o /dev/null -X DELETE "$VERDICT_TEST_ADMIN/faults"

-- An identity of another type than was asked for.
SELECT fault('Query', '{"variables":["resource"],"rows":[{"values":[{"identity":{"type":"User","id":"x"}}]}]}',
	'\x0a087265736f75726365120d0a0b0a090a0455736572120178') AS fault \gset
\setenv FAULT :fault
\! curl -s -o /dev/null -d "$FAULT" "$VERDICT_TEST_ADMIN/faults"
SELECT * FROM verdict_list_resources('User:alice', 'read', 'Document');
SELECT * FROM verdict_query('f(?resource:Document)') AS answer(resource text);
SELECT * FROM verdict_query('f(?resource)') AS answer(resource text);
-- Other variables than were asked for.
SELECT outcome($$SELECT * FROM verdict_query('f(?other)') AS answer(other text)$$),
	outcome($$SELECT * FROM verdict_query('f(?resource, ?other)') AS answer(resource text, other text)$$),
	outcome($$SELECT * FROM verdict_query('f(1)') AS answer(holds boolean)$$);
\! curl -s -o /dev/null -X DELETE "$VERDICT_TEST_ADMIN/faults"

-- A row of another width.
SELECT fault('Query', '{"variables":["id"],"rows":[{"values":[]}]}', '\x0a0269641200') AS fault \gset
\setenv FAULT :fault
\! curl -s -o /dev/null -d "$FAULT" "$VERDICT_TEST_ADMIN/faults"
SELECT outcome($$SELECT * FROM verdict_query('f(?id)') AS answer(id text)$$);
\! curl -s -o /dev/null -X DELETE "$VERDICT_TEST_ADMIN/faults"

-- Bytes that are no UTF-8, and a NUL, in a value, a fact and the policy.
SELECT fault('Query', '{"variables":["id"],"rows":[{"values":[{"string":"'::bytea || '\xff' || '"}]}]}'::bytea,
	'\x0a02696412050a031201ff') AS fault \gset
\setenv FAULT :fault
\! curl -s -o /dev/null -d "$FAULT" "$VERDICT_TEST_ADMIN/faults"
SELECT outcome($$SELECT * FROM verdict_query('f(?id)') AS answer(id text)$$);
\! curl -s -o /dev/null -X DELETE "$VERDICT_TEST_ADMIN/faults"
SELECT fault('Query', '{"variables":["id"],"rows":[{"values":[{"string":"\\u0000"}]}]}',
	'\x0a02696412050a03120100') AS fault \gset
\setenv FAULT :fault
\! curl -s -o /dev/null -d "$FAULT" "$VERDICT_TEST_ADMIN/faults"
SELECT outcome($$SELECT * FROM verdict_query('f(?id)') AS answer(id text)$$);
\! curl -s -o /dev/null -X DELETE "$VERDICT_TEST_ADMIN/faults"
SELECT fault('ListFacts', '{"facts":[{"predicate":"f","args":[{"string":"'::bytea || '\xc3' || '"}]}]}'::bytea,
	'\x0a080a016612031201c3') AS fault \gset
\setenv FAULT :fault
\! curl -s -o /dev/null -d "$FAULT" "$VERDICT_TEST_ADMIN/faults"
SELECT outcome('SELECT verdict_list_facts()');
\! curl -s -o /dev/null -X DELETE "$VERDICT_TEST_ADMIN/faults"
SELECT fault('GetPolicy', '{"policy":"a\\u0000b"}', '\x0a03610062') AS fault \gset
\setenv FAULT :fault
\! curl -s -o /dev/null -d "$FAULT" "$VERDICT_TEST_ADMIN/faults"
SELECT outcome('SELECT verdict_get_policy()');
\! curl -s -o /dev/null -X DELETE "$VERDICT_TEST_ADMIN/faults"

-- A fact that is none: no predicate, a value left open.
SELECT fault('ListFacts', '{"facts":[{"args":[{"integer":"1"}]}]}', '\x0a0412021801') AS fault \gset
\setenv FAULT :fault
\! curl -s -o /dev/null -d "$FAULT" "$VERDICT_TEST_ADMIN/faults"
SELECT outcome('SELECT verdict_list_facts()');
\! curl -s -o /dev/null -X DELETE "$VERDICT_TEST_ADMIN/faults"
SELECT fault('ListFacts', '{"facts":[{"predicate":"f","args":[{}]}]}', '\x0a050a01661200') AS fault \gset
\setenv FAULT :fault
\! curl -s -o /dev/null -d "$FAULT" "$VERDICT_TEST_ADMIN/faults"
SELECT outcome('SELECT verdict_list_facts()');
\! curl -s -o /dev/null -X DELETE "$VERDICT_TEST_ADMIN/faults"

-- Pages that go round in a circle.
SELECT fault('ListFacts', '{"facts":[{"predicate":"f","args":[{"integer":"1"}]}],"next":"QQ=="}',
	'\x0a070a016612021801120141') AS fault \gset
\setenv FAULT :fault
\! curl -s -o /dev/null -d "$FAULT" "$VERDICT_TEST_ADMIN/faults"
SELECT verdict_list_facts();
\! curl -s -o /dev/null -X DELETE "$VERDICT_TEST_ADMIN/faults"
-- ... also in a longer one: five pages, again and again.
SELECT string_agg(format('{"method":"ListFacts","times":1,"fault":{"kind":"body","hex":"%s"}}',
		encode(CASE format WHEN 'json' THEN format('{"next":"%s"}', encode(n::text::bytea, 'base64'))::bytea
			ELSE '\x1201'::bytea || n::text::bytea END, 'hex')), ',' ORDER BY lap, n) AS faults
FROM wire, generate_series(1, 5) AS lap, generate_series(1, 5) AS n \gset
\set faults '[' :faults ']'
\setenv FAULT :faults
\! curl -s -o /dev/null -d "$FAULT" "$VERDICT_TEST_ADMIN/faults"
SELECT verdict_list_facts();
\! curl -s -o /dev/null -X DELETE "$VERDICT_TEST_ADMIN/faults"

-- A check whose answer is anything but a clear yes.
SELECT fault('Authorize', '', '') AS fault \gset
\setenv FAULT :fault
\! curl -s -o /dev/null -d "$FAULT" "$VERDICT_TEST_ADMIN/faults"
SELECT outcome($$SELECT verdict_authorize('User:alice', 'read', 'Document:1')$$);
\! curl -s -o /dev/null -X DELETE "$VERDICT_TEST_ADMIN/faults"
SELECT fault('Authorize', '{"allowed":"true"}', '\x0a0474727565') AS fault \gset
\setenv FAULT :fault
\! curl -s -o /dev/null -d "$FAULT" "$VERDICT_TEST_ADMIN/faults"
SELECT outcome($$SELECT verdict_authorize('User:alice', 'read', 'Document:1')$$);
\! curl -s -o /dev/null -X DELETE "$VERDICT_TEST_ADMIN/faults"
SELECT fault('Authorize', '{"allowed":true} x', '\x0801ff') AS fault \gset
\setenv FAULT :fault
\! curl -s -o /dev/null -d "$FAULT" "$VERDICT_TEST_ADMIN/faults"
SELECT outcome($$SELECT verdict_authorize('User:alice', 'read', 'Document:1')$$),
	outcome($$SELECT verdict_authorize_many('User:alice', 'read', '{Document:1,Document:2}')$$);
SET client_min_messages = error;
SET verdict.on_failure = 'deny';
SELECT outcome($$SELECT verdict_authorize('User:alice', 'read', 'Document:1')$$),
	outcome($$SELECT verdict_authorize_many('User:alice', 'read', '{Document:1,Document:2}')$$);
RESET verdict.on_failure;
\! curl -s -o /dev/null -X DELETE "$VERDICT_TEST_ADMIN/faults"
-- And a true one, so that the outcomes above are known to be the answer's fault.
SELECT fault('Authorize', '{"allowed":true}', '\x0801') AS fault \gset
\setenv FAULT :fault
\! curl -s -o /dev/null -d "$FAULT" "$VERDICT_TEST_ADMIN/faults"
SELECT outcome($$SELECT verdict_authorize('User:alice', 'read', 'Document:1')$$);
\! curl -s -o /dev/null -X DELETE "$VERDICT_TEST_ADMIN/faults"

-- Nothing of the above has left anything behind.
SELECT outcome($$SELECT verdict_authorize('User:alice', 'read', 'Document:1')$$),
	outcome('SELECT verdict_list_facts()');
DROP EXTENSION verdict CASCADE;
DROP FUNCTION outcome, fault;
DROP TABLE wire;
