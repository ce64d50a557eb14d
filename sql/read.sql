-- Everything that reads, against an instance of its own.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS verdict;
\getenv url VERDICT_TEST_URL
\getenv key VERDICT_TEST_KEY
\getenv wire VERDICT_TEST_WIRE
CREATE SERVER instance FOREIGN DATA WRAPPER verdict OPTIONS (instance_url :'url', wire_format :'wire');
CREATE USER MAPPING FOR CURRENT_USER SERVER instance OPTIONS (api_key :'key');
SET verdict.server = 'instance';
SET verdict.mutation_mode = immediate;

-- What a statement fails with, without what differs from run to run.
CREATE FUNCTION pg_temp.refusal(statement text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	state text; message text;
BEGIN
	EXECUTE statement;
	RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT;
	RETURN state || ': ' || message;
END $$;

SELECT verdict_get_policy() = '' AS no_policy_yet;
SELECT verdict_set_policy($$
allow(actor, "read", doc) if viewer(actor, doc);
allow(actor, action, doc) if owner(actor, doc) and owner_action(action);
allow(user: User, _, _) if is_admin(user);
allow(team: Team, action, doc: Document) if may_all(team, action);
$$);
SELECT verdict_get_policy();
SELECT verdict_batch_facts(ARRAY[
	'owner(User:alice, Document:1)', 'owner(User:alice, Document:"two words")',
	'owner(User:alice, Folder:1)', 'owner(User:bob, Document:größe)',
	'viewer(User:bob, Document:1)', 'viewer(User:carol, Document:1)',
	'owner_action("read")', 'owner_action("write")',
	'is_admin(User:root)', 'may_all(Team:all, "read")',
	'kinds(User:alice, "text", 42, true)', 'kinds(User:bob, "2026-11-30", -7, false)'
]::verdict_fact[]);

-- Checks.
SELECT verdict_authorize('User:alice', 'write', 'Document:1') AS owner,
	verdict_authorize('User:bob', 'read', 'Document:1') AS viewer,
	verdict_authorize('User:bob', 'write', 'Document:1') AS viewer_writes,
	verdict_authorize('User:nobody', 'read', 'Document:1') AS stranger,
	verdict_authorize('User:root', 'anything', 'Planet:earth') AS admin,
	verdict_authorize('User:bob', 'read', 'Document:größe') AS beyond_ascii;
SELECT c, verdict_authorize('User:alice', 'read', 'Document:1', c) AS yes,
	verdict_authorize('User:nobody', 'read', 'Document:1', consistency => c) AS no
FROM unnest(ARRAY['session', 'eventual', 'authoritative', NULL]) AS c;
SELECT verdict_authorize_many('User:alice', 'write',
	ARRAY['Document:1', 'Document:2', 'Folder:1', 'Document:two words', 'Document:1']::verdict_identity[]);
SELECT verdict_authorize_many('User:alice', 'write', '{}');
SELECT verdict_authorize_many('User:alice', 'read', array_agg(verdict_identity('Document', n) ORDER BY n))
	= array_agg(n = 1 ORDER BY n) AS in_order
FROM generate_series(0, 99) AS n;
CREATE TABLE document (id int PRIMARY KEY, title text);
INSERT INTO document SELECT n, 'document ' || n FROM generate_series(1, 5) AS n;
SELECT * FROM document
WHERE verdict_authorize('User:carol', 'read', verdict_identity('Document', id));

-- Row-level security.
ALTER TABLE document ENABLE ROW LEVEL SECURITY;
CREATE POLICY readers ON document USING
	(verdict_authorize(verdict_actor(), 'read', verdict_identity('Document', id)));
CREATE ROLE regress_verdict_reader;
GRANT SELECT ON document TO regress_verdict_reader;
GRANT USAGE ON FOREIGN SERVER instance TO regress_verdict_reader;
CREATE USER MAPPING FOR regress_verdict_reader SERVER instance OPTIONS (api_key :'key');
SET ROLE regress_verdict_reader;
SET verdict.actor = 'User:carol';
SELECT * FROM document;
SET verdict.actor = 'User:nobody';
SELECT * FROM document;
SET verdict.actor = 'User:root';
SELECT count(*) FROM document;
RESET ROLE;
RESET verdict.actor;

-- Queries: a column a variable, in the order of first use.
SELECT * FROM verdict_query('owner(User:alice, ?doc)') AS answer(doc verdict_identity) ORDER BY doc;
SELECT * FROM verdict_query('owner(User:alice, ?doc:Folder)') AS answer(doc text);
SELECT * FROM verdict_query('allow(?who:User, ?action, Document:1)') AS answer(who verdict_identity, action text)
ORDER BY who, action;
SELECT * FROM verdict_query('owner(?same, ?same)') AS answer(x text);
SELECT * FROM verdict_query(verdict_fact('viewer', verdict_variable('who'), verdict_identity('Document', 1)),
	'authoritative') AS answer(who verdict_identity) ORDER BY who;
SELECT d.title, a.who FROM document d
	JOIN verdict_query('viewer(?who, ?doc:Document)') AS a(who verdict_identity, doc verdict_identity)
		ON a.doc = verdict_identity('Document', d.id) ORDER BY who;
SELECT n, answer.* FROM generate_series(1, 2) AS n,
	verdict_query(verdict_fact('viewer', verdict_variable('who'), verdict_identity('Document', n))) AS answer(who text)
ORDER BY n, who;
-- Every kind of value into every type that can hold it.
SELECT * FROM verdict_query('kinds(?a, ?b, ?c, ?d)')
	AS answer(a verdict_identity, b text, c bigint, d boolean) ORDER BY a;
SELECT * FROM verdict_query('kinds(?a, ?b, ?c, ?d)') AS answer(a text, b text, c text, d text) ORDER BY a;
SELECT * FROM verdict_query('kinds(?a, ?b, ?c, ?d)')
	AS answer(a varchar(20), b name, c numeric(10,2), d varchar) ORDER BY a;
SELECT * FROM verdict_query('kinds(_, ?b, ?c, false)') AS answer(b date, c smallint);
SELECT * FROM verdict_query('kinds(_, "text", ?c, _)') AS answer(c int);
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE DOMAIN present AS text NOT NULL;
SELECT * FROM verdict_query('kinds(_, "text", ?c, _)') AS answer(c positive);
SELECT * FROM verdict_query('kinds(_, _, ?c, false)') AS answer(c positive);
-- ... and into none that cannot.
SELECT * FROM verdict_query('kinds(?a, _, _, _)') AS answer(a int);
SELECT * FROM verdict_query('kinds(User:alice, ?b, _, _)') AS answer(b int);
SELECT * FROM verdict_query('kinds(User:alice, ?b, _, _)') AS answer(b verdict_identity);
SELECT * FROM verdict_query('kinds(User:alice, ?b, _, _)') AS answer(b date);
SELECT * FROM verdict_query('kinds(User:alice, ?b, _, _)') AS answer(b varchar(2));
SELECT * FROM verdict_query('kinds(User:alice, _, ?c, _)') AS answer(c boolean);
SELECT * FROM verdict_query('kinds(User:alice, _, ?c, _)') AS answer(c numeric(1));
SELECT * FROM verdict_query('kinds(User:alice, _, _, ?d)') AS answer(d int);
SELECT * FROM verdict_query('kinds(User:alice, _, _, ?d)') AS answer(d jsonb);
-- A value that means any is NULL.
SELECT * FROM verdict_query('allow(User:root, ?action, ?what)') AS answer(action text, what verdict_identity);
SELECT * FROM verdict_query('allow(Team:all, ?action, ?what:Document)') AS answer(action text, what verdict_identity);
SELECT * FROM verdict_query('allow(User:root, ?action, Document:1)') AS answer(action present);
-- Without variables: whether it holds.
SELECT * FROM verdict_query('owner(User:alice, Document:1)') AS answer(holds boolean);
SELECT * FROM verdict_query('owner(User:alice, Document:9)') AS answer(holds boolean);
SELECT * FROM verdict_query('owner(_, Document:1)') AS answer(holds boolean);
SELECT * FROM verdict_query('owner(User:alice, Document:1)') AS answer(holds text);
SELECT * FROM verdict_query('owner(User:alice, Document:1)') AS answer(holds boolean, more boolean);
-- The number of columns.
SELECT * FROM verdict_query('owner(?who, ?doc)') AS answer(who text);
SELECT * FROM verdict_query('owner(?who, _)') AS answer(who text, more text);
SELECT verdict_query('owner(?who, _)');

-- Lists.
SELECT * FROM verdict_list_resources('User:alice', 'write', 'Document') AS id ORDER BY id;
SELECT * FROM verdict_list_resources('User:alice', 'write', 'Planet') AS id;
SELECT verdict_list_resources('User:bob', 'read', 'Document') AS id ORDER BY id;
SELECT * FROM verdict_list_actors('read', 'Document:1', 'User') AS id ORDER BY id;
SELECT * FROM verdict_list_actors('write', 'Document:1', 'User', 'eventual') AS id ORDER BY id;
SELECT * FROM verdict_list_actions('User:alice', 'Document:1') AS action ORDER BY action;
SELECT * FROM verdict_list_actions('User:nobody', 'Document:1') AS action;
SELECT * FROM verdict_list_resources('User:root', 'read', 'Document');
SELECT * FROM verdict_list_resources('Team:all', 'read', 'Document');
SELECT * FROM verdict_list_actions('User:root', 'Document:1');
SELECT verdict_insert_fact('owner_action', 7);
SELECT * FROM verdict_list_actions('User:alice', 'Document:1');
SELECT verdict_delete_fact('owner_action', 7);

-- Stored facts, page by page.
SELECT * FROM verdict_list_facts() AS f ORDER BY f;
SELECT * FROM verdict_list_facts('owner(User:alice, ?doc:Document)') AS f ORDER BY f;
SELECT * FROM verdict_list_facts('viewer(_, _)', 'authoritative') AS f ORDER BY f;
SELECT * FROM verdict_list_facts('viewer(User:nobody, _)') AS f;
SELECT * FROM verdict_list_facts('allow(_, _, _)') AS f;
SELECT sum(verdict_batch_facts(facts))
FROM (SELECT array_agg(verdict_fact('n', n)) AS facts FROM generate_series(1, 20500) AS n GROUP BY n / 5000) AS batch;
SELECT count(*), count(DISTINCT f) FROM verdict_list_facts('n(_)') AS f;
SELECT count(DISTINCT n), max(n) FROM verdict_query('n(?n)') AS answer(n int);
SET work_mem = '64kB';
SELECT count(*) FROM verdict_query('n(?n)') AS answer(n int);
SELECT count(*) FROM (SELECT verdict_list_facts('n(_)') LIMIT 3) AS few;
SELECT count(*) FROM verdict_list_facts('n(_)') AS f;
RESET work_mem;

-- NULL means nothing here, and no check is true for it.
SELECT statement, pg_temp.refusal('SELECT * FROM ' || statement) AS refusal
FROM unnest(ARRAY[
	$$verdict_authorize(NULL, 'read', 'Document:1')$$,
	$$verdict_authorize('User:root', NULL, 'Document:1')$$,
	$$verdict_authorize('User:root', 'read', NULL)$$,
	$$verdict_authorize(NULL, NULL, NULL, NULL)$$,
	$$verdict_authorize_many(NULL, 'read', '{}')$$,
	$$verdict_authorize_many('User:root', NULL, '{}')$$,
	$$verdict_authorize_many('User:root', 'read', NULL)$$,
	$$verdict_authorize_many('User:root', 'read', '{Document:1,NULL}')$$,
	$$verdict_authorize_many('User:root', 'read', '{{Document:1},{Document:2}}')$$,
	$$verdict_query(NULL) AS answer(a text)$$,
	$$verdict_list_resources(NULL, 'read', 'Document')$$,
	$$verdict_list_resources('User:root', NULL, 'Document')$$,
	$$verdict_list_resources('User:root', 'read', NULL)$$,
	$$verdict_list_actors(NULL, 'Document:1', 'User')$$,
	$$verdict_list_actors('read', NULL, 'User')$$,
	$$verdict_list_actors('read', 'Document:1', NULL)$$,
	$$verdict_list_actions(NULL, 'Document:1')$$,
	$$verdict_list_actions('User:root', NULL)$$,
	-- empty and malformed
	$$verdict_authorize('User:root', '', 'Document:1')$$,
	$$verdict_authorize('', 'read', 'Document:1')$$,
	$$verdict_authorize('User:root', 'read', 'Document')$$,
	$$verdict_authorize_many('User:root', '', '{Document:1}')$$,
	$$verdict_list_resources('User:root', '', 'Document')$$,
	$$verdict_list_resources('User:root', 'read', '')$$,
	$$verdict_list_resources('User:root', 'read', 'Document:1')$$,
	$$verdict_list_actors('read', 'Document:1', 'no type')$$,
	-- consistency
	$$verdict_authorize('User:root', 'read', 'Document:1', 'strong')$$,
	$$verdict_authorize_many('User:root', 'read', '{}', '')$$,
	$$verdict_query('owner(_, _)', 'Session') AS answer(a bool)$$,
	$$verdict_list_facts(NULL, 'default')$$,
	$$verdict_get_policy('x')$$
]) AS statement;
-- What the instance refuses.
SELECT left(pg_temp.refusal($$SELECT * FROM verdict_query('allow(User:root, "read")') AS answer(a bool)$$), 5);
SELECT verdict_authorize('User:root', 'read', 'Document:1', 'strong');
-- White space is text like any other.
SELECT verdict_authorize('User:alice', ' ', 'Document:1');

-- When the instance fails: an error, or with deny a warning and no.
\set VERBOSITY terse
\setenv FAULT '{"method":"Authorize","times":-1,"fault":{"kind":"error","code":"internal","message":"broken for the test"}}'
\! curl -s -o /dev/null -d "$FAULT" "$VERDICT_TEST_ADMIN/faults"
SELECT verdict_authorize('User:root', 'read', 'Document:1');
SELECT verdict_authorize_many('User:root', 'read', '{Document:1,Document:2}');
SET verdict.on_failure = 'deny';
SELECT verdict_authorize('User:root', 'read', 'Document:1');
SELECT verdict_authorize_many('User:root', 'read', '{Document:1,Document:2}');
SELECT verdict_authorize(NULL, 'read', 'Document:1');
SELECT verdict_authorize('User:root', '', 'Document:1');
SELECT verdict_authorize('User:root', 'read', 'Document:1', 'strong');
\! curl -s -o /dev/null -X DELETE "$VERDICT_TEST_ADMIN/faults"
\setenv FAULT '{"method":"*","times":-1,"fault":{"kind":"error","code":"unauthenticated","message":"who are you"}}'
\! curl -s -o /dev/null -d "$FAULT" "$VERDICT_TEST_ADMIN/faults"
SELECT verdict_authorize('User:root', 'read', 'Document:1');
-- Only for checks: a list that fails is never an empty list.
SELECT * FROM verdict_query('owner(?who, _)') AS answer(who text);
SELECT * FROM verdict_list_resources('User:alice', 'read', 'Document');
SELECT count(*) FROM verdict_list_facts();
SELECT verdict_get_policy();
\! curl -s -o /dev/null -X DELETE "$VERDICT_TEST_ADMIN/faults"
-- A statement that is to end is no failure to answer "no" for.
\setenv FAULT '{"method":"Authorize","times":-1,"fault":{"kind":"stall","ms":20000}}'
\! curl -s -o /dev/null -d "$FAULT" "$VERDICT_TEST_ADMIN/faults"
SET statement_timeout = '200ms';
SELECT verdict_authorize('User:root', 'read', 'Document:1');
SELECT verdict_authorize_many('User:root', 'read', '{Document:1,Document:2}');
RESET statement_timeout;
\! curl -s -o /dev/null -X DELETE "$VERDICT_TEST_ADMIN/faults"
SELECT verdict_authorize('User:root', 'read', 'Document:1');
SELECT verdict_authorize('User:nobody', 'read', 'Document:1');
RESET verdict.on_failure;
\set VERBOSITY default

DROP OWNED BY regress_verdict_reader;
DROP EXTENSION verdict CASCADE;
DROP ROLE regress_verdict_reader;
DROP TABLE document;
DROP DOMAIN positive, present;
