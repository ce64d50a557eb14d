-- Row-level security by checks: the right rows in every kind of statement.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS verdict;
\getenv url VERDICT_TEST_URL
\getenv key VERDICT_TEST_KEY
\getenv wire VERDICT_TEST_WIRE
CREATE SERVER instance FOREIGN DATA WRAPPER verdict OPTIONS (instance_url :'url', wire_format :'wire');
CREATE USER MAPPING FOR PUBLIC SERVER instance OPTIONS (api_key :'key');
CREATE ROLE regress_verdict_app;
CREATE ROLE regress_verdict_second;
CREATE ROLE regress_verdict_unmapped;
GRANT USAGE ON FOREIGN SERVER instance TO regress_verdict_app, regress_verdict_second;
CREATE USER MAPPING FOR regress_verdict_second SERVER instance OPTIONS (api_key 'notthekey');
SET verdict.server = 'instance';
SET verdict.mutation_mode = 'immediate';
SELECT verdict_set_policy($$
allow(actor, "read", item) if owner(actor, item);
allow(actor, "write", item) if owner(actor, item);
allow(actor, "read", doc) if contains(folder, doc) and reader(actor, folder);
allow(user: User, _, _) if is_admin(user);
$$);
CREATE TABLE folder (id int PRIMARY KEY, name text);
CREATE TABLE document (id bigint PRIMARY KEY, folder int REFERENCES folder, title text, secret int);
INSERT INTO folder SELECT n, 'folder ' || n FROM generate_series(1, 10) AS n;
INSERT INTO document SELECT n, 1 + n % 10, 'document ' || n, n - 25 FROM generate_series(1, 200) AS n;
-- Carol reads folders 1 and 2 and what is in them; Dave owns documents 1 to 50.
SELECT verdict_batch_facts(ARRAY(
	SELECT verdict_fact('contains', verdict_identity('Folder', folder), verdict_identity('Document', id)) FROM document
	UNION ALL SELECT verdict_fact('owner', verdict_identity('User', 'dave'), verdict_identity('Document', id)) FROM document WHERE id <= 50
	UNION ALL SELECT verdict_fact('owner', verdict_identity('User', 'carol'), verdict_identity('Folder', id)) FROM folder WHERE id <= 2)
	|| '{"reader(User:carol, Folder:1)", "reader(User:carol, Folder:2)", is_admin(User:root)}'::verdict_fact[]);
ALTER TABLE folder ENABLE ROW LEVEL SECURITY;
ALTER TABLE document ENABLE ROW LEVEL SECURITY;
CREATE POLICY readable ON folder FOR SELECT
	USING (verdict_authorize(verdict_actor(), 'read', verdict_identity('Folder', id)));
CREATE POLICY readable ON document FOR SELECT
	USING (verdict_authorize(verdict_actor(), 'read', verdict_identity('Document', id)));
CREATE POLICY updatable ON document FOR UPDATE
	USING (verdict_authorize(verdict_actor(), 'write', verdict_identity('Document', id)));
CREATE POLICY deletable ON document FOR DELETE
	USING (verdict_authorize(verdict_actor(), 'write', verdict_identity('Document', id)));
CREATE POLICY insertable ON document FOR INSERT
	WITH CHECK (verdict_authorize(verdict_actor(), 'write', verdict_identity('Document', id)));
GRANT SELECT ON folder TO regress_verdict_app, regress_verdict_second, regress_verdict_unmapped;
GRANT SELECT, INSERT, UPDATE, DELETE ON document TO regress_verdict_app, regress_verdict_second, regress_verdict_unmapped;
-- How PostgreSQL shows a sub-select differs from version to version.
CREATE FUNCTION pg_temp.plan_of(statement text) RETURNS SETOF text LANGUAGE plpgsql AS
$$ BEGIN RETURN QUERY EXECUTE 'EXPLAIN (COSTS OFF) ' || statement; END $$;
SET ROLE regress_verdict_app;

-- Nobody sees nothing, and what is not "no" is nothing either.
SELECT count(*) FROM document;
SELECT count(*) FROM folder WHERE NOT verdict_authorize(verdict_actor(), 'read', verdict_identity('Folder', id));
SET verdict.actor = 'User:carol';
SELECT count(*), min(id), max(id) FROM document;
SELECT * FROM folder ORDER BY id;
SET verdict.actor = 'User:nobody';
SELECT count(*) FROM document;
SET verdict.actor = 'User:root';
SELECT count(*) FROM document;

-- Joins of two protected tables, by every kind of join, and subqueries.
SET verdict.actor = 'User:carol';
EXPLAIN (COSTS OFF) SELECT count(*) FROM document d JOIN folder f ON f.id = d.folder;
SELECT count(*) FROM document d JOIN folder f ON f.id = d.folder;
SET enable_hashjoin = off;
SELECT count(*) FROM document d JOIN folder f ON f.id = d.folder;
SET enable_mergejoin = off;
SELECT count(*) FROM document d JOIN folder f ON f.id = d.folder;
RESET enable_hashjoin;
RESET enable_mergejoin;
SELECT f.id, count(d.id) FROM folder f LEFT JOIN document d ON d.folder = f.id GROUP BY f.id ORDER BY f.id;
SELECT count(*) FROM folder f, LATERAL (SELECT * FROM document d WHERE d.folder = f.id ORDER BY d.id LIMIT 3) AS first;
SELECT count(*) FROM folder f WHERE EXISTS (SELECT FROM document d WHERE d.folder = f.id);
SELECT (SELECT count(*) FROM document) AS documents, (SELECT count(*) FROM folder) AS folders;
WITH mine AS MATERIALIZED (SELECT * FROM document) SELECT count(*) FROM mine UNION ALL SELECT count(*) FROM document;

-- A user's own condition does not see what the policy hides.
SELECT count(*) FROM document WHERE id = 25 AND 1 / secret = 0;
SELECT proname FROM pg_proc WHERE proname ^@ 'verdict_' AND prorettype = 'boolean'::regtype AND proname ~ 'authorize' AND proleakproof;

-- Writing.
UPDATE document SET title = 'changed';
SET verdict.actor = 'User:dave';
UPDATE document SET title = 'changed' WHERE id > 40;
DELETE FROM document WHERE id IN (49, 50, 51);
UPDATE document d SET title = 'also' FROM document other WHERE other.id = d.id + 1 AND d.id < 10;
RESET ROLE;
SELECT count(*) FILTER (WHERE title = 'changed') AS changed, count(*) FILTER (WHERE title = 'also') AS also, count(*) FROM document;
SET ROLE regress_verdict_app;
INSERT INTO document VALUES (50, 1, 'again', 0) RETURNING id, title;
INSERT INTO document VALUES (51, 1, 'not his', 0);
INSERT INTO document VALUES (300, 1, 'not his', 0);
INSERT INTO document VALUES (50, 1, 'twice', 0) ON CONFLICT (id) DO UPDATE SET title = 'conflict' RETURNING title;

-- Prepared statements: whoever acts now, whatever plan there is.
SET plan_cache_mode = force_generic_plan;
PREPARE counted AS SELECT count(*) FROM document;
PREPARE one(bigint) AS SELECT count(*) FROM document WHERE id = $1;
PREPARE asked(text) AS SELECT count(*) FROM document WHERE verdict_authorize($1::verdict_identity, 'read', verdict_identity('Document', id));
EXECUTE counted;
EXECUTE one(7);
EXECUTE asked('User:carol');
SET verdict.actor = 'User:carol';
EXECUTE counted;
EXECUTE one(7);
EXECUTE asked('User:root');
SET verdict.actor = '';
EXECUTE counted;
SET verdict.actor = 'User:carol';
-- ... as which role: another has another key, a third none, and the owner sees all.
SET ROLE regress_verdict_second;
\set VERBOSITY sqlstate
EXECUTE counted;
SET ROLE regress_verdict_unmapped;
EXECUTE counted;
RESET ROLE;
EXECUTE counted;
SET ROLE regress_verdict_app;
EXECUTE counted;
SET verdict.server = 'elsewhere';
EXECUTE counted;
SET verdict.server = 'instance';
EXECUTE counted;
\set VERBOSITY default
RESET plan_cache_mode;
-- ... also within one statement.
SELECT n, set_config('verdict.actor', CASE n WHEN 2 THEN 'User:nobody' WHEN 3 THEN 'User:root' ELSE 'User:carol' END, false) AS actor,
	verdict_authorize(verdict_actor(), 'read', verdict_identity('Document', n)) AS allowed
FROM generate_series(1, 4) AS n;
DEALLOCATE ALL;

-- Cursors.
BEGIN;
DECLARE mine SCROLL CURSOR FOR SELECT id FROM document ORDER BY id;
FETCH 3 FROM mine;
SET LOCAL verdict.actor = 'User:nobody';
FETCH 1 FROM mine;
FETCH PRIOR FROM mine;
SET LOCAL verdict.actor = 'User:carol';
FETCH 2 FROM mine;
DECLARE kept CURSOR WITH HOLD FOR SELECT count(*) FROM document;
COMMIT;
SET verdict.actor = 'User:nobody';
FETCH kept;
CLOSE kept;
SET verdict.actor = 'User:carol';

-- Parallel plans: checks stay with the leader.
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
EXPLAIN (COSTS OFF) SELECT count(*) FROM document;
SELECT count(*) FROM document;
SELECT count(*) FROM document d JOIN folder f ON f.id = d.folder;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;
RESET max_parallel_workers_per_gather;

-- Views with a barrier, and functions that act for their owner.
RESET ROLE;
CREATE VIEW documents WITH (security_barrier) AS
	SELECT id, title FROM document WHERE verdict_authorize(verdict_actor(), 'read', verdict_identity('Document', id));
CREATE FUNCTION titles() RETURNS bigint LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS
	'SELECT count(*) FROM document WHERE verdict_authorize(verdict_actor(), ''read'', verdict_identity(''Document'', id))';
GRANT SELECT ON documents TO regress_verdict_app;
SET ROLE regress_verdict_app;
SELECT count(*) FROM documents;
SELECT titles();

-- Lists: ids of the caller's own type.
SELECT verdict_resource_ids('User:carol', 'write', 'Folder', NULL::int);
SELECT pg_typeof(verdict_resource_ids('User:carol', 'write', 'Folder', NULL::bigint)) AS bigints,
	pg_typeof(verdict_resource_ids('User:carol', 'write', 'Folder', NULL::text)) AS texts,
	verdict_resource_ids('User:carol', 'write', 'Folder', NULL::smallint) AS smallints,
	verdict_resource_ids('User:nobody', 'write', 'Folder', NULL::uuid) AS none,
	verdict_resource_ids(NULL, 'write', 'Folder', NULL::int) IS NULL AS nobody;
RESET ROLE;
SELECT bool_or(line ~ 'Index Cond: \(id = ANY') AS by_index, bool_or(line ~ 'InitPlan 1') AS once
FROM pg_temp.plan_of($$SELECT * FROM document WHERE id = ANY (verdict_resource_ids('User:carol', 'read', 'Document', NULL::bigint))$$) AS line;
SELECT count(*) FROM document WHERE id = ANY (verdict_resource_ids('User:carol', 'read', 'Document', NULL::bigint));
SELECT count(*) FROM document WHERE id = ANY (verdict_resource_ids(NULL, 'read', 'Document', NULL::bigint));
SELECT count(*) FROM document d, folder f
WHERE d.id = ANY (verdict_resource_ids('User:carol', 'read', 'Document', NULL::bigint)) AND f.id = ANY (verdict_resource_ids('User:carol', 'write', 'Folder', NULL::int));
SELECT u, (SELECT count(*) FROM document WHERE id = ANY (verdict_resource_ids(u, 'write', 'Document', d.id)))
FROM unnest('{User:dave,User:carol}'::verdict_identity[]) AS u, (VALUES (1::bigint)) AS d(id);
SELECT count(*) FROM unnest(verdict_resource_ids('User:dave', 'write', 'Document', NULL::bigint)) AS id;
UPDATE document SET title = 'listed' WHERE id = ANY (verdict_resource_ids('User:dave', 'write', 'Document', NULL::bigint)) AND id < 5;
SELECT verdict_batch_facts(ARRAY(SELECT verdict_fact('owner', verdict_identity('User', 'odd'), verdict_identity('Thing', t))
	FROM unnest('{7,007,+8,-9,x,40000,3000000000,a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11,A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A12}'::text[]) AS t));
SELECT ARRAY(SELECT unnest(verdict_resource_ids('User:odd', 'read', 'Thing', NULL::smallint)) ORDER BY 1) AS smallints,
	ARRAY(SELECT unnest(verdict_resource_ids('User:odd', 'read', 'Thing', NULL::int)) ORDER BY 1) AS ints,
	ARRAY(SELECT unnest(verdict_resource_ids('User:odd', 'read', 'Thing', NULL::bigint)) ORDER BY 1) AS bigints,
	ARRAY(SELECT unnest(verdict_resource_ids('User:odd', 'read', 'Thing', NULL::uuid)) ORDER BY 1) AS uuids,
	cardinality(verdict_resource_ids('User:odd', 'read', 'Thing', NULL::text)) AS texts;
SELECT verdict_resource_ids('User:root', 'read', 'Document', NULL::bigint);
SELECT verdict_resource_ids('User:odd', 'read', 'Thing', NULL::numeric);
SELECT verdict_resource_ids('User:odd', NULL, 'Thing', NULL::int);
SELECT verdict_resource_ids('User:odd', 'read', 'no type', NULL::int);
-- What was seen before is what is expected.
EXPLAIN SELECT * FROM verdict_list_resources('User:odd', 'read', 'Thing');
EXPLAIN SELECT * FROM verdict_list_resources('User:not seen', 'read', 'Thing');
SELECT bool_or(line ~ 'Hash') AS hashed
FROM pg_temp.plan_of($$SELECT * FROM document WHERE id::text IN (SELECT verdict_list_resources('User:carol', 'read', 'Document'))$$) AS line;

-- Where the planner looks at a condition again: as one of IN, and as that of a part of UNION ALL.
SELECT count(*) FROM document d WHERE d.id < 3 OR EXISTS (
	SELECT FROM document other WHERE other.id = d.id AND other.id = ANY (verdict_resource_ids('User:dave', 'write', 'Document', NULL::bigint)));
SELECT count(*) FROM document d WHERE d.id = ANY (verdict_resource_ids('User:dave', 'write', 'Document', NULL::bigint)) AND (d.id = 51 OR EXISTS (
	SELECT FROM document other WHERE other.id = d.id AND other.id = ANY (verdict_resource_ids('User:dave', 'write', 'Document', NULL::bigint))));
SELECT who FROM (SELECT 'User:dave'::verdict_identity AS who UNION ALL SELECT 'User:carol') AS users
WHERE 4 = ANY (verdict_resource_ids(who, 'write', 'Document', NULL::bigint));
SELECT who FROM (SELECT 'User:dave'::verdict_identity AS who UNION ALL SELECT 'User:carol') AS users
WHERE true = verdict_authorize(who, 'write', 'Document:4');
-- An argument with several values.
SELECT count(*) FROM (SELECT verdict_resource_ids('User:dave', 'write', unnest('{Document,Folder}'::text[]), NULL::bigint) AS ids FROM folder) AS lists;
-- A check that could be taken for a constant is none.
SELECT n, verdict_authorize('User:nobody', 'write', 'Document:4') AS allowed, CASE n WHEN 2 THEN verdict_insert_fact('owner(User:nobody, Document:4)') END AS change
FROM generate_series(1, 3) AS n;
SELECT verdict_delete_fact('owner(User:nobody, Document:4)');

-- EXPLAIN asks nobody.
CREATE TABLE flags (flag boolean, policy text, id bigint) PARTITION BY LIST (flag);
CREATE TABLE flags_set PARTITION OF flags FOR VALUES IN (true);
CREATE TABLE flags_not_set PARTITION OF flags FOR VALUES IN (false);
INSERT INTO flags SELECT n % 2 = 0, 'rules', n FROM generate_series(1, 100) AS n;
ANALYZE flags;
CREATE FUNCTION may(id bigint) RETURNS boolean LANGUAGE sql STABLE
RETURN verdict_authorize('User:dave', 'read', verdict_identity('Document', id));
SELECT count(*) FROM flags WHERE flag = verdict_authorize('User:dave', 'read', 'Document:2');
SELECT count(*) FROM flags WHERE flag = may(51) AND policy <> verdict_get_policy();
ALTER SERVER instance OPTIONS (SET instance_url 'http://127.0.0.1:1');
CREATE FUNCTION pg_temp.failed_plan(statement text) RETURNS text LANGUAGE plpgsql AS
$$ BEGIN EXECUTE 'EXPLAIN ' || statement; RETURN NULL; EXCEPTION WHEN OTHERS THEN RETURN SQLERRM; END $$;
SELECT count(*) AS planned, array_agg(statement) FILTER (WHERE pg_temp.failed_plan(statement) IS NOT NULL) AS failed
FROM (VALUES ('SELECT FROM flags WHERE flag = verdict_authorize(''User:dave'', ''read'', ''Document:2'')'),
	('SELECT FROM flags WHERE flag IN (verdict_authorize(''User:dave'', ''read'', ''Document:2''), verdict_authorize_id(''User:dave'', ''read'', ''Document'', 3))'),
	('SELECT FROM flags WHERE flag = ANY (verdict_authorize_many(''User:dave'', ''read'', ''{Document:2}''))'),
	('SELECT FROM flags WHERE flag IS NOT DISTINCT FROM coalesce(verdict_authorize(''User:dave'', ''read'', verdict_identity(''Document'', 2)), false)'),
	('SELECT FROM flags WHERE id < CASE WHEN verdict_authorize(''User:dave'', ''read'', ''Document:2'') THEN 5 END'),
	('SELECT FROM flags WHERE policy = verdict_get_policy() OR policy LIKE verdict_get_policy()'),
	('SELECT FROM flags WHERE id = ANY (verdict_resource_ids(''User:dave'', ''read'', ''Document'', id))'),
	('SELECT FROM flags WHERE may(3) = flag OR may(4) AND NOT may(5)'),
	('SELECT FROM flags f WHERE id = 1 OR EXISTS (SELECT FROM flags g WHERE g.id = f.id AND g.flag = may(3))'),
	('SELECT FROM (SELECT verdict_authorize(''User:dave'', ''read'', ''Document:2'') AS allowed) AS c, flags WHERE flag = allowed'),
	('SELECT FROM (SELECT 3 AS n UNION ALL SELECT 4) AS c WHERE true = may(n)'),
	('SELECT FROM flags LIMIT verdict_authorize(''User:dave'', ''read'', ''Document:2'')::int'),
	('SELECT 1 LIMIT cardinality(verdict_resource_ids(''User:dave'', ''read'', ''Document'', 1))'),
	('SELECT FROM generate_series(1, verdict_authorize(''User:dave'', ''read'', ''Document:2'')::int)'),
	('SELECT count(*) FROM flags GROUP BY flag HAVING flag = verdict_authorize(''User:dave'', ''read'', ''Document:2'')'),
	('UPDATE flags SET policy = verdict_get_policy() WHERE flag = verdict_authorize(''User:dave'', ''read'', ''Document:2'')'),
	('SELECT FROM document WHERE verdict_authorize(verdict_actor(), ''read'', ''Folder:1'') = (title = ''x'')')) AS statements(statement);
PREPARE flagged(verdict_identity) AS SELECT FROM flags WHERE flag = verdict_authorize($1, 'read', 'Document:2');
EXPLAIN (COSTS OFF) EXECUTE flagged('User:dave') \g /dev/null
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE flagged('User:dave') \g /dev/null
RESET plan_cache_mode;
DEALLOCATE flagged;
SELECT count(*) > 1 AS planned
FROM pg_temp.plan_of($$SELECT * FROM document WHERE id = ANY (verdict_resource_ids(verdict_actor(), 'read', 'Document', NULL::bigint))$$);
SELECT count(*) > 1 AS planned
FROM pg_temp.plan_of($$SELECT * FROM document WHERE id IN (SELECT verdict_list_resources('User:carol', 'read', 'Document')::bigint)$$);
SET ROLE regress_verdict_app;
EXPLAIN (COSTS OFF) SELECT * FROM document WHERE id = 7;
\set VERBOSITY sqlstate
SELECT * FROM document WHERE id = 7;
RESET ROLE;
\set VERBOSITY default

DROP EXTENSION verdict CASCADE;
DROP TABLE document, folder, flags CASCADE;
DROP ROLE regress_verdict_app, regress_verdict_second, regress_verdict_unmapped;
