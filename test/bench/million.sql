-- 1,000,000 facts of the sample's kind, under the sample's policy: 10,000 users,
-- 500 teams, 20,000 nested folders, 200,000 documents.
SET verdict.server = 'bench';
\o /dev/null
\ir ../sample/policy.sql
CREATE FUNCTION pick(choices integer, number bigint, salt bigint) RETURNS integer
LANGUAGE sql IMMUTABLE
RETURN 1 + (((hashint8extended(number, salt) % choices) + choices) % choices)::integer;
CREATE FUNCTION pair(predicate text, left_type text, left_id integer, right_type text, right_id integer)
RETURNS verdict_fact LANGUAGE sql
RETURN verdict_fact(predicate, verdict_identity(left_type, left_id), verdict_identity(right_type, right_id));

CREATE TEMPORARY TABLE facts AS
	SELECT pair('is_owner', 'User', pick(10000, n, 1), 'Document', n) AS fact FROM generate_series(1, 200000) n
	UNION ALL
	SELECT pair('parent', 'Document', n, 'Folder', pick(20000, n, 2)) FROM generate_series(1, 200000) n
	UNION ALL
	SELECT pair('parent', 'Folder', n, 'Folder', pick(n - 1, n, 3)) FROM generate_series(2, 20000) n
	UNION ALL
	SELECT pair('member', 'User', n % 10000 + 1, 'Team', pick(500, n, 4)) FROM generate_series(1, 30000) n
	UNION ALL
	SELECT pair('team_viewer', 'Team', pick(500, n, 5), 'Folder', n % 20000 + 1) FROM generate_series(1, 20000) n
	UNION ALL
	SELECT pair('team_editor', 'Team', pick(500, n, 6), 'Document', n % 200000 + 1) FROM generate_series(1, 100000) n
	UNION ALL
	SELECT pair('banned', 'User', pick(10000, n, 7), 'Document', n % 200000 + 1) FROM generate_series(1, 30000) n
	UNION ALL
	SELECT pair('viewer', 'User', pick(10000, n, 8), 'Document', pick(200000, n, 9)) FROM generate_series(1, 400001) n;
SELECT verdict_batch_facts(array_agg(fact))
FROM (SELECT fact, row_number() OVER () / 10000 AS number FROM facts) AS numbered GROUP BY number;
\o
SELECT count(*) AS facts_sent, count(DISTINCT fact) AS distinct_facts FROM facts;
