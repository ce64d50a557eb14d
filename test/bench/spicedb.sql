-- The facts and tables of the comparison with SpiceDB; what SpiceDB is to load goes
-- into the file :bootstrap.
--
-- Variables: documents; bootstrap; port, of SpiceDB's postgres-fdw, whose password is
-- in the environment.
-- The verdict policy that reads viewer() is set before.
\set ON_ERROR_STOP on
\getenv password SPICEDB_POSTGRES_ACCESS_TOKEN_SECRET
CREATE SCHEMA spice;
SET search_path = spice, public;
SET client_min_messages = warning;
SET verdict.mutation_mode = 'immediate';

CREATE TABLE acl (user_id int, doc_id int, PRIMARY KEY (user_id, doc_id));
-- User 1 sees one in a hundred, user 2 every second, user 3 a hundred, users from 10 on a few each.
INSERT INTO acl SELECT 1, n FROM generate_series(1, :documents) AS n WHERE hashint4(n) % 100 = 0;
INSERT INTO acl SELECT 2, n FROM generate_series(1, :documents) AS n WHERE hashint4(n) % 2 = 0;
INSERT INTO acl SELECT 3, n * (:documents / 100) FROM generate_series(1, 100) AS n;
INSERT INTO acl SELECT 10 + n % 1000, 1 + (n::bigint * 7919 % :documents) FROM generate_series(1, :documents / 5) AS n ON CONFLICT DO NOTHING;

CREATE TABLE by_native (id int PRIMARY KEY, title text);
INSERT INTO by_native SELECT n, 'document number ' || n FROM generate_series(1, :documents) AS n;
CREATE TABLE by_verdict AS TABLE by_native;
CREATE TABLE by_list AS TABLE by_native;
CREATE TABLE by_check AS TABLE by_native;
CREATE TABLE by_none AS TABLE by_native;
ALTER TABLE by_verdict ADD PRIMARY KEY (id);
ALTER TABLE by_list ADD PRIMARY KEY (id);
ALTER TABLE by_check ADD PRIMARY KEY (id);
ALTER TABLE by_none ADD PRIMARY KEY (id);
ALTER TABLE by_native ENABLE ROW LEVEL SECURITY;
ALTER TABLE by_verdict ENABLE ROW LEVEL SECURITY;
ALTER TABLE by_list ENABLE ROW LEVEL SECURITY;
ALTER TABLE by_check ENABLE ROW LEVEL SECURITY;

-- As SpiceDB's documentation of postgres-fdw has it, with two changes that spare
-- round trips: no estimates are asked for when a query is planned, and a list comes in
-- one piece instead of in hundreds.
CREATE EXTENSION postgres_fdw;
CREATE SERVER spicedb FOREIGN DATA WRAPPER postgres_fdw
	OPTIONS (host '127.0.0.1', port :'port', dbname 'default', fetch_size '1000000');
CREATE USER MAPPING FOR PUBLIC SERVER spicedb OPTIONS (user 'postgres', password :'password');
CREATE FOREIGN TABLE permissions (
	resource_type text NOT NULL,
	resource_id text NOT NULL,
	permission text NOT NULL,
	subject_type text NOT NULL,
	subject_id text NOT NULL,
	optional_subject_relation text NOT NULL,
	has_permission boolean,
	consistency text DEFAULT ''
) SERVER spicedb;

-- SpiceDB's server takes constants, and refuses the parameters that postgres_fdw sends
-- for everything that is known only when a query runs ("unsupported expression type").
-- So the queries are in functions that plan each time for the values at hand.
CREATE FUNCTION may_read(document text) RETURNS boolean LANGUAGE plpgsql STABLE SET plan_cache_mode = force_custom_plan AS $$
DECLARE
	who text := current_setting('bench.who');
BEGIN
	RETURN (SELECT has_permission FROM spice.permissions
		WHERE resource_type = 'document' AND resource_id = document AND permission = 'read'
		AND subject_type = 'user' AND subject_id = who);
END $$;
CREATE FUNCTION may_read_consistent(document text) RETURNS boolean LANGUAGE plpgsql STABLE SET plan_cache_mode = force_custom_plan AS $$
DECLARE
	who text := current_setting('bench.who');
BEGIN
	RETURN (SELECT has_permission FROM spice.permissions
		WHERE resource_type = 'document' AND resource_id = document AND permission = 'read'
		AND subject_type = 'user' AND subject_id = who AND consistency = 'fully_consistent');
END $$;
CREATE FUNCTION readable() RETURNS SETOF int LANGUAGE plpgsql STABLE SET plan_cache_mode = force_custom_plan AS $$
DECLARE
	who text := current_setting('bench.who');
BEGIN
	RETURN QUERY SELECT resource_id::int FROM spice.permissions
		WHERE resource_type = 'document' AND permission = 'read' AND subject_type = 'user' AND subject_id = who;
END $$;

CREATE POLICY native ON by_native USING (id IN (SELECT doc_id FROM acl WHERE user_id = current_setting('bench.who')::int));
CREATE POLICY plain ON by_verdict USING (verdict_authorize(verdict_actor(), 'read', verdict_identity('Document', id)));
CREATE POLICY list ON by_list USING (id IN (SELECT readable()));
CREATE POLICY one ON by_check USING (may_read(id::text));

CREATE ROLE spice_reader;
GRANT USAGE ON SCHEMA spice TO spice_reader;
GRANT SELECT ON ALL TABLES IN SCHEMA spice TO spice_reader;
SELECT format('GRANT USAGE ON FOREIGN SERVER %I TO spice_reader', current_setting('verdict.server')) \gexec
SELECT count(*) AS batches FROM (
	SELECT verdict_batch_facts(array_agg(verdict_fact('viewer', verdict_identity('User', user_id), verdict_identity('Document', doc_id))))
	FROM (SELECT *, row_number() OVER () / 10000 AS batch FROM acl) AS facts GROUP BY batch) AS sent;
VACUUM ANALYZE acl;
VACUUM ANALYZE by_native;
VACUUM ANALYZE by_verdict;
VACUUM ANALYZE by_list;
VACUUM ANALYZE by_check;
VACUUM ANALYZE by_none;

\pset format unaligned
\pset tuples_only on
\o :bootstrap
SELECT E'schema: |-\n  definition user {}\n  definition document {\n    relation viewer: user\n    permission read = viewer\n  }\nrelationships: |-';
SELECT format('  document:%s#viewer@user:%s', doc_id, user_id) FROM acl;
\o
