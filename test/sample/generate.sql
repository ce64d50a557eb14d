-- The sample's data: 1,000 people, 50 teams, 2,000 nested folders, 20,000
-- documents and 100,000 facts, the same ones at every run.  The generator is a
-- hash of a number and a seed, so it depends on neither the order of evaluation
-- nor the state of random().
\set ON_ERROR_STOP on
\set seed 20261130

CREATE FUNCTION pick(choices integer, number bigint, salt bigint) RETURNS integer
LANGUAGE sql IMMUTABLE
RETURN (((hashint8extended(number, salt) % choices) + choices) % choices)::integer;

INSERT INTO person
	SELECT 'alice' UNION ALL SELECT 'bob' UNION ALL SELECT 'carol' UNION ALL SELECT 'root'
	UNION ALL SELECT format('person%s', n) FROM generate_series(5, 1000) n;
INSERT INTO team SELECT format('team%s', n) FROM generate_series(1, 50) n;

-- Folder 1 is the root; every other folder lies in one with a smaller number.
INSERT INTO folder
	SELECT n, CASE WHEN n > 1 THEN 1 + pick((n - 1)::integer, n, :seed) END
	FROM generate_series(1, 2000) n;
INSERT INTO member
	SELECT DISTINCT format('person%s', 5 + pick(996, n, :seed + 1)),
		   format('team%s', 1 + pick(50, n, :seed + 2))
	FROM generate_series(1, 3000) n;
INSERT INTO member VALUES ('bob', 'team7');

-- Documents 1 to 3 belong to the people of the tour.
INSERT INTO document
	SELECT n,
		   CASE n WHEN 1 THEN 'alice' WHEN 2 THEN 'alice' WHEN 3 THEN 'carol'
			ELSE format('person%s', 5 + pick(996, n, :seed + 3)) END,
		   1 + pick(2000, n, :seed + 4),
		   CASE n WHEN 1 THEN 'Handbook' WHEN 2 THEN 'Salaries' WHEN 3 THEN 'Roadmap'
			ELSE format('Document %s', n) END
	FROM generate_series(1, 20000) n;

-- All facts, in one table so that exactly 100,000 of them are loaded.
CREATE TEMPORARY TABLE sample_fact (fact verdict_fact PRIMARY KEY);

INSERT INTO sample_fact
	SELECT verdict_fact('is_admin', verdict_identity('User', 'root'));
INSERT INTO sample_fact
	SELECT verdict_fact('is_owner', verdict_identity('User', owner_id), verdict_identity('Document', id))
	FROM document;
INSERT INTO sample_fact
	SELECT verdict_fact('parent', verdict_identity('Document', id), verdict_identity('Folder', folder_id))
	FROM document;
INSERT INTO sample_fact
	SELECT verdict_fact('parent', verdict_identity('Folder', id), verdict_identity('Folder', parent_id))
	FROM folder WHERE parent_id IS NOT NULL;
INSERT INTO sample_fact
	SELECT verdict_fact('member', verdict_identity('User', person_id), verdict_identity('Team', team_id))
	FROM member;
-- The handbook is for team 7, in which bob is; carol is banned from it.
INSERT INTO sample_fact VALUES
	('team_viewer(Team:team7, Document:1)'),
	('viewer(User:carol, Document:1)'),
	('banned(User:carol, Document:1)');
INSERT INTO sample_fact
	SELECT verdict_fact('team_viewer', verdict_identity('Team', format('team%s', 1 + pick(50, n, :seed + 5))),
						verdict_identity('Folder', 2 + pick(1999, n, :seed + 6)))
	FROM generate_series(1, 500) n
	ON CONFLICT DO NOTHING;
INSERT INTO sample_fact
	SELECT verdict_fact('team_editor', verdict_identity('Team', format('team%s', 1 + pick(50, n, :seed + 7))),
						verdict_identity('Document', 4 + pick(19997, n, :seed + 8)))
	FROM generate_series(1, 10000) n
	ON CONFLICT DO NOTHING;
INSERT INTO sample_fact
	SELECT verdict_fact('banned', verdict_identity('User', format('person%s', 5 + pick(996, n, :seed + 9))),
						verdict_identity('Document', 4 + pick(19997, n, :seed + 10)))
	FROM generate_series(1, 2000) n
	ON CONFLICT DO NOTHING;
-- Single shares fill up to 100,000.
INSERT INTO sample_fact
	SELECT fact FROM (
		SELECT DISTINCT ON (fact) fact, n FROM (
			SELECT verdict_fact('viewer',
								verdict_identity('User', format('person%s', 5 + pick(996, n, :seed + 11))),
								verdict_identity('Document', 4 + pick(19997, n, :seed + 12))) AS fact, n
			FROM generate_series(1, 60000) n) AS shares) AS distinct_shares
	ORDER BY n
	LIMIT 100000 - (SELECT count(*) FROM sample_fact);

-- To the instance, in batches; each is sent at once, and applied whole or not at all.
SET verdict.mutation_mode = immediate;
SELECT sum(verdict_batch_facts(batch)) AS facts_loaded
FROM (SELECT array_agg(fact) AS batch
	  FROM (SELECT fact, (row_number() OVER () - 1) / 5000 AS number FROM sample_fact) AS numbered
	  GROUP BY number) AS batches;
RESET verdict.mutation_mode;
SELECT count(*) AS documents FROM document;

DROP FUNCTION pick;
ANALYZE;
