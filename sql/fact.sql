-- The type verdict_fact: text, canonical form, building from values, bad input.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS verdict;

-- One canonical spelling, which reads back as the same fact.
SELECT f, f = f::text::verdict_fact AS stable
FROM unnest(ARRAY[
	'is_owner(User:alice,Document:handbook)',
	E'  is_owner (\tUser:alice ,\n Document:handbook )  ',
	'level(User:alice, -42, 9223372036854775807, -9223372036854775808)',
	'flag(true, false)',
	'title(Doc:1, "a \"quoted\" text\nwith a line")',
	'odd(Doc:"with space", Doc:"plain", Doc:a:b)',
	'name(User:zoë, "né(e), €")',
	'is_owner(?who, ?doc:Document)',
	'is_owner(_, ?doc:Document)',
	'ready()'
]::verdict_fact[]) AS f;
SELECT 'f(1,2)'::verdict_fact = 'f( 1 , 2 )'::verdict_fact AS equal,
	'f(1)'::verdict_fact < 'f(2)'::verdict_fact AS less,
	'f("1")'::verdict_fact = 'f(1)'::verdict_fact AS kinds_differ;

CREATE FUNCTION pg_temp.refusal(statement text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	state text; message text; detail text;
BEGIN
	EXECUTE statement;
	RETURN 'accepted';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
		detail = PG_EXCEPTION_DETAIL;
	RETURN concat_ws(' | ', state, message, nullif(detail, ''));
END $$;

-- Every malformed text is refused, and the message says where.
SELECT input, pg_temp.refusal(format('SELECT %L::verdict_fact', input))
FROM unnest(ARRAY['', 'f', 'f(', 'f()x', '(1)', '9f(1)', 'f(1,)', 'f(,1)', 'f(1 2)', 'f(alice)',
	'f(User:)', 'f("open)', 'f("bad \q")', 'f(9223372036854775808)', 'f(1.5)', 'f(?)', 'f(?x:)',
	'f(?9)', 'f(User:"")', 'f(User: alice)', 'f(NULL)']) AS input;
SELECT left(pg_temp.refusal(format('SELECT %L::verdict_fact', 'f(' || repeat('1,', n - 1) || '1)')), 60)
FROM unnest(ARRAY[64, 65]) AS n;

-- Built from values: what a value becomes is decided by its type.
SELECT verdict_fact('is_owner', 'User:alice'::verdict_identity, verdict_identity('Document', 7));
SELECT verdict_fact('title', verdict_identity('Doc', 1), 'User:alice'::text, 'User:bob');
SELECT verdict_fact('kinds', 1::smallint, -2, 3::bigint, true, false, 't'::text, 'v'::varchar(9),
	'b'::char(9), 'n'::name, 'c'::"char", 'l');
SELECT verdict_fact('is_owner', NULL, verdict_variable('doc', 'Document')),
	verdict_fact('is_owner', verdict_variable('who'), NULL::verdict_identity);
SELECT verdict_fact('tags', VARIADIC ARRAY['a', NULL, 'c d']),
	verdict_fact('owners', VARIADIC ARRAY['User:a', 'User:b']::verdict_identity[]),
	verdict_fact('none', VARIADIC ARRAY[]::int[]);
CREATE DOMAIN short_text AS text CHECK (length(VALUE) < 10);
CREATE DOMAIN who AS verdict_identity;
SELECT verdict_fact('domains', 'x'::short_text, 'User:alice'::who, ARRAY['a']::text[] IS NULL);
SELECT count(DISTINCT verdict_fact('n', verdict_identity('Doc', n), n, n % 2 = 0, n::text))
FROM generate_series(1, 1000) AS n;
PREPARE made(int, text) AS SELECT verdict_fact('f', $1, $2);
EXECUTE made(1, 'a');
EXECUTE made(NULL, 'b');
-- Cast notation and function notation of the type are the same.
SELECT verdict_fact('f(1)');

SELECT verdict_fact(NULL, 1);
SELECT verdict_fact('no predicate', 1);
SELECT verdict_fact('', 1);
SELECT verdict_fact('f', 1.5);
SELECT verdict_fact('f', '5e9c1e2c-55b2-4b4c-8f62-2f9ad1a6a6b0'::uuid);
SELECT verdict_fact('f', now()) IS NULL;
SELECT verdict_fact('f', ARRAY[1, 2]);
SELECT verdict_fact('f', 'g(1)'::verdict_fact);
SELECT verdict_fact('f', ROW(1, 2));
SELECT verdict_fact('f', VARIADIC NULL::text[]);
SELECT verdict_fact('f', VARIADIC ARRAY[1.5]);
SELECT verdict_fact('f', VARIADIC array_fill(1, ARRAY[65]));
SELECT length(verdict_fact('f', VARIADIC array_fill(1, ARRAY[64]))::text);

-- Variables.
SELECT verdict_variable('doc'), verdict_variable('doc', 'Document'), verdict_variable('doc', NULL);
SELECT '?a'::verdict_pattern_variable, '?a:B'::verdict_pattern_variable;
SELECT verdict_variable(NULL);
SELECT verdict_variable('not one');
SELECT verdict_variable('doc', '');
SELECT input, pg_temp.refusal(format('SELECT %L::verdict_pattern_variable', input))
FROM unnest(ARRAY['', '?', 'doc', '?a:', '?a:b:c', '? a']) AS input;

-- Comparable and indexable.
CREATE TABLE fact_sample (f verdict_fact UNIQUE);
INSERT INTO fact_sample SELECT verdict_fact('n', n) FROM generate_series(1, 1000) AS n;
INSERT INTO fact_sample VALUES ('n( 5 )');
ANALYZE fact_sample;
SELECT count(*) FROM fact_sample a JOIN fact_sample b USING (f);
SELECT f FROM fact_sample WHERE f > 'n(99)' ORDER BY f LIMIT 3;
SET enable_sort = off;
SELECT count(*) FROM (SELECT DISTINCT f FROM fact_sample) AS d;
RESET enable_sort;

-- Large.
SELECT octet_length(f::text) AS bytes, md5(f::text) = md5('f("' || repeat('ü', 500000) || '")') AS same
FROM verdict_fact('f', repeat('ü', 500000)) AS f;

-- Binary form.
\set file `mktemp -u /tmp/verdict_fact.XXXXXX`
COPY (SELECT 'f(User:été, "x")'::verdict_fact AS f) TO :'file' (FORMAT binary);
CREATE TABLE fact_copied (f verdict_fact);
COPY fact_copied FROM :'file' (FORMAT binary);
TABLE fact_copied;
COPY (SELECT 'f('::text AS f) TO :'file' (FORMAT binary);
COPY fact_copied FROM :'file' (FORMAT binary);
\setenv file :file
\! rm -f "$file"

DROP DOMAIN short_text;
DROP EXTENSION verdict CASCADE;
