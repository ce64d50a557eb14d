-- Decisions remembered, and lists in place of single checks.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS verdict;
\getenv url VERDICT_TEST_URL
\getenv key VERDICT_TEST_KEY
\getenv wire VERDICT_TEST_WIRE
CREATE SERVER instance FOREIGN DATA WRAPPER verdict OPTIONS (instance_url :'url', wire_format :'wire');
CREATE USER MAPPING FOR CURRENT_USER SERVER instance OPTIONS (api_key :'key');
SET verdict.server = 'instance';
SET verdict.mutation_mode = 'immediate';

-- How checks were answered since the last time.
CREATE TEMPORARY TABLE seen AS SELECT * FROM verdict_stat_decisions();
CREATE FUNCTION pg_temp.asked(OUT single bigint, OUT lists bigint, OUT cut bigint, OUT refused bigint)
LANGUAGE plpgsql AS $$
DECLARE
	now pg_temp.seen;
BEGIN
	SELECT * INTO now FROM verdict_stat_decisions();
	SELECT now.single_checks - s.single_checks, now.lists - s.lists, now.lists_cut - s.lists_cut,
		now.lists_refused - s.lists_refused
	INTO single, lists, cut, refused FROM pg_temp.seen AS s;
	DELETE FROM pg_temp.seen;
	INSERT INTO pg_temp.seen VALUES (now.*);
END $$;

SELECT verdict_set_policy($$
allow(actor, "read", item) if viewer(actor, item) and not banned(actor, item);
allow(user: User, _, _) if is_admin(user);
allow(team: Team, action, item: Document) if may_all(team, action);
$$);
SELECT sum(verdict_batch_facts(facts)) FROM (
	SELECT array_agg(verdict_fact('viewer', verdict_identity('User', 'alice'), verdict_identity('Document', n))) AS facts
	FROM generate_series(2, 1000, 2) AS n
	UNION ALL SELECT '{is_admin(User:root), "may_all(Team:all, \"read\")", "viewer(User:alice, Folder:1)",
		"viewer(User:bob, Document:1)", "viewer(User:bob, Document:7)"}') AS all_facts;
CREATE TABLE document (id int PRIMARY KEY, folder int NOT NULL);
INSERT INTO document SELECT n, n % 10 FROM generate_series(1, 1000) AS n;

-- A few single checks, then one list.
SELECT count(*) FROM document WHERE verdict_authorize('User:alice', 'read', verdict_identity('Document', id));
SELECT * FROM pg_temp.asked();
-- The next statement asks again.
SELECT count(*) FROM document WHERE verdict_authorize('User:alice', 'read', verdict_identity('Document', id));
SELECT * FROM pg_temp.asked();
-- The same resource is asked for once.
SELECT count(*) FROM document WHERE verdict_authorize('User:alice', 'read', verdict_identity('Document', 2));
SELECT * FROM pg_temp.asked();
SELECT count(*) FROM generate_series(1, 100) AS n
WHERE verdict_authorize('User:alice', 'read', verdict_identity('Document', n % 3));
SELECT * FROM pg_temp.asked();
-- Two questions are two.
SELECT count(*) FROM document
WHERE verdict_authorize('User:alice', 'read', verdict_identity('Document', id))
	AND verdict_authorize('User:alice', 'read', verdict_identity('Folder', folder))
	OR verdict_authorize('User:bob', 'read', verdict_identity('Document', id));
SELECT * FROM pg_temp.asked();
-- A statement that stops early asks for no list.
SELECT id FROM document WHERE verdict_authorize('User:alice', 'read', verdict_identity('Document', id)) ORDER BY id LIMIT 2;
SELECT * FROM pg_temp.asked();
-- All resources of the type, or all of any.
SELECT count(*) FROM document WHERE verdict_authorize('User:root', 'read', verdict_identity('Document', id));
SELECT * FROM pg_temp.asked();
SELECT count(*) FROM document WHERE verdict_authorize('Team:all', 'read', verdict_identity('Document', id));
SELECT * FROM pg_temp.asked();
SELECT count(*) FROM document WHERE verdict_authorize('Team:all', 'write', verdict_identity('Document', id));
SELECT * FROM pg_temp.asked();
-- Turned off.
SET verdict.prefetch = off;
SELECT count(*) FROM document WHERE id <= 100 AND verdict_authorize('User:alice', 'read', verdict_identity('Document', id));
SELECT * FROM pg_temp.asked();
RESET verdict.prefetch;

-- What ids may be: the same answers by every type.
SELECT verdict_batch_facts(ARRAY(
	SELECT verdict_fact('viewer', verdict_identity('User', 'ids'), verdict_identity('Thing', t))
	FROM unnest(ARRAY['0', '-1', '9223372036854775807', '-9223372036854775808', '9223372036854775808', '007', '+5', '-0', ' 8',
		'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'B0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', 'größe', 'two words', 'User:x', '1.0']) AS t));
CREATE TABLE thing (t text, u uuid, b bigint);
INSERT INTO thing VALUES ('0', NULL, 0), ('00', NULL, NULL), ('-1', NULL, -1), ('9223372036854775807', NULL, 9223372036854775807),
	('-9223372036854775808', NULL, -9223372036854775808), ('9223372036854775808', NULL, NULL), ('007', NULL, 7), ('+5', NULL, 5),
	('-0', NULL, 0), (' 8', NULL, 8), ('8', NULL, 8),
	('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', NULL),
	('A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', 'b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', NULL),
	('B0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', NULL, NULL), ('größe', NULL, NULL), ('Größe', NULL, NULL),
	('two words', NULL, NULL), ('User:x', NULL, NULL), ('1.0', NULL, 1);
SELECT t, verdict_authorize('User:ids', 'read', verdict_identity('Thing', t)) AS as_text,
	CASE WHEN u IS NOT NULL THEN verdict_authorize('User:ids', 'read', verdict_identity('Thing', u)) END AS as_uuid,
	CASE WHEN b IS NOT NULL THEN verdict_authorize('User:ids', 'read', verdict_identity('Thing', b)) END AS as_bigint
FROM thing;
SELECT * FROM pg_temp.asked();
SET verdict.prefetch = off;
SELECT string_agg(t, ', ') FROM thing WHERE verdict_authorize('User:ids', 'read', verdict_identity('Thing', t));
SELECT string_agg(u::text, ', ') FROM thing WHERE u IS NOT NULL AND verdict_authorize('User:ids', 'read', verdict_identity('Thing', u));
SELECT string_agg(b::text, ', ') FROM thing WHERE b IS NOT NULL AND verdict_authorize('User:ids', 'read', verdict_identity('Thing', b));
RESET verdict.prefetch;

-- The rewriting: what it takes, and what it leaves alone.
CREATE TABLE kinds (i2 smallint, i4 int, i8 bigint, u uuid, t text, v varchar, n numeric, d date, kind text);
EXPLAIN (COSTS OFF) SELECT FROM kinds WHERE
	verdict_authorize(verdict_actor(), 'read', verdict_identity('A', i2)) AND verdict_authorize(verdict_actor(), 'read', verdict_identity('B', i4))
	AND verdict_authorize(verdict_actor(), 'read', verdict_identity('C', i8)) AND verdict_authorize(verdict_actor(), 'read', verdict_identity('D', u))
	AND verdict_authorize(verdict_actor(), 'read', verdict_identity('E', t)) AND verdict_authorize(verdict_actor(), 'read', verdict_identity('F', v), 'eventual');
EXPLAIN (COSTS OFF) SELECT FROM kinds WHERE
	verdict_authorize(verdict_actor(), 'read', verdict_identity('A', n)) AND verdict_authorize(verdict_actor(), 'read', verdict_identity('B', d))
	AND verdict_authorize(verdict_actor(), 'read', verdict_identity(kind, i4)) AND verdict_authorize(verdict_actor(), 'read', verdict_identity('not one', i4))
	AND verdict_authorize(verdict_actor(), 'read', verdict_identity('A', (random() * 10)::int));
-- A function of the same name that is somebody else's is left alone.
CREATE FUNCTION verdict_identity(type text, id int) RETURNS verdict_identity LANGUAGE plpgsql STABLE STRICT AS
$$ BEGIN RETURN verdict_identity(type, 'other-' || id); END $$;
EXPLAIN (COSTS OFF) SELECT FROM document WHERE verdict_authorize('User:alice', 'read', verdict_identity('Document', id));
SELECT count(*) FROM document WHERE verdict_authorize('User:alice', 'read', verdict_identity('Document', id));
DROP FUNCTION verdict_identity(text, int);
-- What has been set for one of them is not passed by.
ALTER FUNCTION verdict_authorize(verdict_identity, text, verdict_identity, text) SET verdict.server = 'instance';
SET verdict.server = 'elsewhere';
SELECT count(*) FROM document WHERE verdict_authorize('User:alice', 'read', verdict_identity('Document', id));
ALTER FUNCTION verdict_authorize(verdict_identity, text, verdict_identity, text) RESET ALL;
SET verdict.server = 'instance';
ALTER FUNCTION verdict_authorize_id(verdict_identity, text, text, anyelement, text) SECURITY DEFINER;
EXPLAIN (COSTS OFF) SELECT FROM document WHERE verdict_authorize('User:alice', 'read', verdict_identity('Document', id));
ALTER FUNCTION verdict_authorize_id(verdict_identity, text, text, anyelement, text) SECURITY INVOKER;
-- Whoever may not use the schema of the functions may use what others have made of them.
CREATE ROLE regress_verdict_other;
GRANT USAGE ON FOREIGN SERVER instance TO regress_verdict_other;
CREATE USER MAPPING FOR regress_verdict_other SERVER instance OPTIONS (api_key :'key');
GRANT SELECT ON document TO regress_verdict_other;
CREATE SCHEMA apart
	CREATE VIEW readable AS SELECT id FROM document WHERE verdict_authorize('User:alice', 'read', verdict_identity('Document', id));
GRANT USAGE ON SCHEMA apart TO regress_verdict_other;
GRANT SELECT ON apart.readable TO regress_verdict_other;
REVOKE USAGE ON SCHEMA public FROM PUBLIC;
SET ROLE regress_verdict_other;
SELECT count(*) FROM apart.readable;
RESET ROLE;
GRANT USAGE ON SCHEMA public TO PUBLIC;
DROP SCHEMA apart CASCADE;
-- The errors of the two are the same.
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
CREATE TABLE ids (id text, none text, empty text);
INSERT INTO ids VALUES ('1', NULL, '');
SELECT arguments,
	pg_temp.refusal(format('SELECT verdict_authorize(%s, %s, verdict_identity(%s, %s), %s) FROM ids', VARIADIC a)) AS whole,
	pg_temp.refusal(format('SELECT verdict_authorize_id(%s, %s, %s, %s, %s) FROM ids', VARIADIC a)) AS by_id
FROM (VALUES ('''User:a''|''read''|''D''|none|NULL'), ('''User:a''|''read''|''D''|empty|NULL'), ('NULL|''read''|''D''|id|NULL'),
	('NULL|''read''|''D''|empty|NULL'), ('''User:a''|NULL|''D''|id|NULL'), ('''User:a''|''''|''D''|id|NULL'),
	('''User:a''|''read''|''D''|id|''strong'''), ('''User:a''|''read''|''not one''|id|NULL'), ('''User:a''|''read''|''''|id|NULL'),
	('''User:a''|''read''|id|some|NULL'), ('''User:a''|''read''|NULL|id|NULL')) AS v(arguments),
	string_to_array(arguments, '|') AS a;
SELECT verdict_authorize_id('User:a', 'read', 'D', 1.5);
SELECT verdict_authorize_id('User:ids', 'read', 'Thing', 0) AS int, verdict_authorize_id('User:ids', 'read', 'Thing', 0::smallint) AS smallint,
	verdict_authorize_id('User:ids', 'read', 'Thing', '007'::text, 'authoritative') AS text;
SELECT verdict_authorize(NULL, 'read', 'Document:1') IS NULL AS nobody, verdict_authorize_id(NULL, 'read', 'Document', 1) IS NULL AS by_id,
	verdict_authorize_many(NULL, 'read', '{Document:1}') IS NULL AS many;
SELECT * FROM pg_temp.asked();

-- A change of the session's own is seen at once, in every kind of statement.
BEGIN;
SELECT verdict_authorize('User:bob', 'read', 'Document:7');
SELECT verdict_delete_fact('viewer(User:bob, Document:7)');
SELECT verdict_authorize('User:bob', 'read', 'Document:7');
SELECT verdict_insert_fact('viewer(User:bob, Document:7)');
SELECT verdict_authorize('User:bob', 'read', 'Document:7');
ROLLBACK;
SELECT verdict_authorize('User:bob', 'read', 'Document:7');
-- ... in the statement that makes it,
SELECT n, CASE n WHEN 3 THEN verdict_delete_fact('viewer(User:bob, Document:7)') WHEN 5 THEN verdict_insert_fact('viewer(User:bob, Document:7)') END AS change,
	verdict_authorize('User:bob', 'read', 'Document:7') AS allowed
FROM generate_series(1, 6) AS n;
-- ... under REPEATABLE READ,
SELECT * FROM pg_temp.asked();
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT verdict_authorize('User:bob', 'read', 'Document:7');
SELECT verdict_authorize('User:bob', 'read', 'Document:7');
SELECT * FROM pg_temp.asked();
SELECT verdict_authorize('User:bob', 'read', 'Document:7', 'authoritative');
SELECT verdict_authorize('User:bob', 'read', 'Document:7', 'authoritative');
SELECT * FROM pg_temp.asked();
SAVEPOINT before;
SELECT verdict_delete_fact('viewer(User:bob, Document:7)');
SELECT verdict_authorize('User:bob', 'read', 'Document:7');
ROLLBACK TO before;
SELECT verdict_authorize('User:bob', 'read', 'Document:7');
SELECT verdict_insert_fact('viewer(User:bob, Document:7)');
SELECT verdict_authorize('User:bob', 'read', 'Document:7');
SELECT * FROM pg_temp.asked();
SELECT verdict_new_session() IS NOT NULL AS fresh;
SELECT verdict_authorize('User:bob', 'read', 'Document:7');
SELECT verdict_set_policy('allow(actor, "write", item) if viewer(actor, item);');
SELECT verdict_authorize('User:bob', 'read', 'Document:7');
COMMIT;
SELECT verdict_set_policy('allow(actor, "read", item) if viewer(actor, item);');
SELECT verdict_authorize('User:bob', 'read', 'Document:7');
-- ... with a cursor held open,
BEGIN;
DECLARE readable CURSOR FOR SELECT id FROM document WHERE verdict_authorize('User:alice', 'read', verdict_identity('Document', id)) ORDER BY id;
FETCH 3 FROM readable;
SELECT * FROM pg_temp.asked();
FETCH 20 FROM readable \g /dev/null
SELECT * FROM pg_temp.asked();
SELECT verdict_delete_fact('viewer(User:alice, Document:48)');
FETCH 2 FROM readable;
SELECT * FROM pg_temp.asked();
FETCH 2 FROM readable;
SELECT * FROM pg_temp.asked();
COMMIT;
SELECT verdict_insert_fact('viewer(User:alice, Document:48)');
-- ... and in functions, of which a STABLE one is part of the statement around it.
CREATE FUNCTION may_stable(id int) RETURNS boolean LANGUAGE plpgsql STABLE AS
$$ BEGIN RETURN verdict_authorize('User:alice', 'read', verdict_identity('Document', id)); END $$;
CREATE FUNCTION may_volatile(id int) RETURNS boolean LANGUAGE plpgsql VOLATILE AS
$$ BEGIN RETURN verdict_authorize('User:alice', 'read', verdict_identity('Document', id)); END $$;
CREATE FUNCTION may_sql(id int) RETURNS boolean LANGUAGE sql STABLE
RETURN verdict_authorize('User:alice', 'read', verdict_identity('Document', id));
CREATE FUNCTION may_query(wanted int) RETURNS boolean LANGUAGE plpgsql STABLE AS
$$ BEGIN RETURN EXISTS (SELECT FROM document WHERE id = wanted AND verdict_authorize('User:alice', 'read', verdict_identity('Document', id))); END $$;
SELECT * FROM pg_temp.asked();
SELECT count(*) FROM document WHERE id <= 100 AND may_stable(id);
SELECT * FROM pg_temp.asked();
SELECT count(*) FROM document WHERE id <= 100 AND may_sql(id);
SELECT * FROM pg_temp.asked();
SELECT count(*) FROM document WHERE id <= 100 AND may_query(id);
SELECT * FROM pg_temp.asked();
SELECT count(*) FROM document WHERE id <= 100 AND may_volatile(id);
SELECT * FROM pg_temp.asked();
DO $$
DECLARE
	answers text := '';
	r record;
BEGIN
	FOR i IN 1..6 LOOP
		IF i = 3 THEN PERFORM verdict_delete_fact('viewer(User:bob, Document:7)'); END IF;
		IF i = 5 THEN PERFORM verdict_insert_fact('viewer(User:bob, Document:7)'); END IF;
		answers := answers || verdict_authorize('User:bob', 'read', 'Document:7') || ' ';
	END LOOP;
	FOR r IN SELECT id FROM document WHERE verdict_authorize('User:bob', 'read', verdict_identity('Document', id)) ORDER BY id LOOP
		answers := answers || r.id || ' ';
	END LOOP;
	RAISE WARNING '%', answers;
END $$;

-- Many: each once, what is known not at all, a list where that is less.
SELECT * FROM pg_temp.asked();
SELECT verdict_authorize_many('User:bob', 'read', '{Document:1,Document:2,Document:1,Document:7,Folder:1,Document:1}');
SELECT * FROM pg_temp.asked();
SET verdict.prefetch = off;
SELECT verdict_authorize_many('User:bob', 'read', '{Document:1,Document:2,Document:1,Document:7,Folder:1,Document:1}');
SELECT * FROM pg_temp.asked();
RESET verdict.prefetch;
SELECT verdict_authorize_many('User:bob', 'read', ARRAY(SELECT verdict_identity('Document', id) FROM document ORDER BY id))
	= ARRAY(SELECT id IN (1, 7) FROM document ORDER BY id) AS the_same;
SELECT * FROM pg_temp.asked();
SELECT count(*) FROM generate_series(1, 5) AS n, verdict_authorize_many('User:bob', 'read', '{Document:1,Document:2,Document:3}') AS a WHERE a[1];
SELECT * FROM pg_temp.asked();

-- A list that the instance will not give: single checks.
\setenv FAULT '{"method":"Query","times":-1,"fault":{"kind":"error","code":"unimplemented","message":"no lists here"}}'
\! curl -s -o /dev/null -d "$FAULT" "$VERDICT_TEST_ADMIN/faults"
SELECT count(*) FROM document WHERE id <= 20 AND verdict_authorize('User:carol', 'read', verdict_identity('Document', id));
SELECT * FROM pg_temp.asked();
-- It is not asked for again at once.
SELECT count(*) FROM document WHERE id <= 20 AND verdict_authorize('User:carol', 'read', verdict_identity('Document', id));
SELECT * FROM pg_temp.asked();
\! curl -s -o /dev/null -X DELETE "$VERDICT_TEST_ADMIN/faults"
-- One that is too large for this client.
ALTER SERVER instance OPTIONS (ADD max_response_bytes '1024');
SELECT verdict_batch_facts(ARRAY(SELECT verdict_fact('viewer', verdict_identity('User', 'dave'), verdict_identity('Document', n))
	FROM generate_series(1, 500) AS n));
SELECT count(*) FROM document WHERE verdict_authorize('User:dave', 'read', verdict_identity('Document', id));
SELECT * FROM pg_temp.asked();
ALTER SERVER instance OPTIONS (DROP max_response_bytes);
-- One that is longer than the first that is tried.
SELECT verdict_batch_facts(ARRAY(SELECT verdict_fact('viewer', verdict_identity('User', 'erin'), verdict_identity('Document', n))
	FROM generate_series(1, 3000) AS n));
-- A statement that may stop spends a part of its cost first,
SELECT count(*) FROM (SELECT FROM generate_series(2901, 3900) AS n
	WHERE verdict_authorize('User:erin', 'read', verdict_identity('Document', n)) LIMIT 50) AS page;
SELECT * FROM pg_temp.asked();
SELECT count(*) FROM (SELECT FROM generate_series(2951, 3900) AS n
	WHERE verdict_authorize('User:erin', 'read', verdict_identity('Document', n)) LIMIT 60) AS page;
SELECT * FROM pg_temp.asked();
SELECT count(*) FROM (SELECT FROM generate_series(2951, 3900) AS n
	WHERE verdict_authorize('User:erin', 'read', verdict_identity('Document', n)) LIMIT 60) AS page;
SELECT * FROM pg_temp.asked();
-- ... and one that goes on does not.
SELECT count(*) FROM generate_series(2501, 3500) AS n WHERE verdict_authorize('User:erin', 'read', verdict_identity('Document', n));
SELECT * FROM pg_temp.asked();

-- What is remembered for one statement is bounded, however many lists could be had.
SELECT verdict_batch_facts(array_agg(fact)) FROM (
	SELECT verdict_fact('large', verdict_identity('Large', n || repeat('x', 500))) AS fact FROM generate_series(1, 4000) AS n
	UNION ALL SELECT verdict_fact('reads_large', verdict_identity('User', n)) FROM generate_series(1, 40) AS n) AS facts;
SELECT verdict_set_policy(verdict_get_policy() || ' allow(user, "read", item: Large) if reads_large(user) and large(item);');
CREATE TEMPORARY TABLE large AS SELECT n || repeat('x', 500) AS id FROM generate_series(1, 30) AS n;
SELECT (SELECT count(*) FROM large CROSS JOIN LATERAL (SELECT verdict_identity('User', n) AS who FROM generate_series(1, 40) AS n OFFSET 0) AS users
		WHERE verdict_authorize(who, 'read', verdict_identity('Large', id))) AS allowed,
	(SELECT sum(total_bytes) FROM pg_backend_memory_contexts WHERE name = 'verdict decisions') < 80 * 1024 * 1024 AS bounded;
SELECT single > 0 AS single, lists BETWEEN 10 AND 40 AS lists, cut, refused > 0 AS refused FROM pg_temp.asked();

-- An instance that fails is waited for, and warned of, once a statement.
\setenv FAULT '{"method":"*","times":-1,"fault":{"kind":"error","code":"internal","message":"broken for the test"}}'
\! curl -s -o /dev/null -d "$FAULT" "$VERDICT_TEST_ADMIN/faults"
\set VERBOSITY terse
SET verdict.on_failure = 'deny';
SELECT count(*) FROM document WHERE verdict_authorize('User:alice', 'read', verdict_identity('Document', id));
SELECT verdict_authorize_many('User:bob', 'read', '{Document:1,Document:2,Folder:1}');
SELECT * FROM pg_temp.asked();
RESET verdict.on_failure;
SELECT count(*) FROM document WHERE verdict_authorize('User:alice', 'read', verdict_identity('Document', id));
\! curl -s -o /dev/null -X DELETE "$VERDICT_TEST_ADMIN/faults"
SELECT count(*) FROM document WHERE verdict_authorize('User:alice', 'read', verdict_identity('Document', id));
\set VERBOSITY default


-- Changes that are not sent yet are seen, too, and eventual reads do not send them.
SET verdict.mutation_mode = 'deferred';
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT verdict_authorize('User:bob', 'read', 'Document:7');
SELECT verdict_delete_fact('viewer(User:bob, Document:7)');
SELECT verdict_authorize('User:bob', 'read', 'Document:7', 'eventual');
SELECT verdict_authorize('User:bob', 'read', 'Document:7');
SELECT verdict_authorize('User:bob', 'read', 'Document:7', 'eventual');
SAVEPOINT before;
SELECT verdict_insert_fact('viewer(User:bob, Document:7)');
ROLLBACK TO before;
SELECT verdict_authorize('User:bob', 'read', 'Document:7');
COMMIT;
SELECT n, CASE n WHEN 3 THEN verdict_insert_fact('viewer(User:bob, Document:7)') WHEN 5 THEN verdict_delete_fact('viewer(User:bob, Document:7)') END AS change,
	verdict_authorize('User:bob', 'read', 'Document:7') AS allowed
FROM generate_series(1, 6) AS n;

-- Nobody may call one of them any more: nothing goes past that.
REVOKE EXECUTE ON FUNCTION verdict_authorize(verdict_identity, text, verdict_identity, text) FROM PUBLIC;
SET ROLE regress_verdict_other;
SELECT count(*) FROM document WHERE verdict_authorize('User:alice', 'read', verdict_identity('Document', id));
RESET ROLE;
GRANT EXECUTE ON FUNCTION verdict_authorize(verdict_identity, text, verdict_identity, text) TO PUBLIC;

DROP OWNED BY regress_verdict_other;
DROP EXTENSION verdict CASCADE;
DROP ROLE regress_verdict_other;
DROP TABLE document, thing, kinds, ids;
DROP FUNCTION may_stable, may_volatile, may_query;
