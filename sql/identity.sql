-- The type verdict_identity: text, comparison, parts, bad input.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS verdict;

-- Split at the first colon; the id is any text that is not empty.
SELECT i, verdict_identity_type(i) AS type, verdict_identity_id(i) AS id
FROM unnest(ARRAY['User:alice', 'Doc:a:b', '_x9:7', 'Folder: two  words ',
	'T:"quoted"', 'T:(,)', 'Datei:Größe €', 'T::']::verdict_identity[]) AS i;

-- Every malformed text is refused, and the message says where.
CREATE FUNCTION pg_temp.refusal(type regtype, input text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	state text; message text; detail text;
BEGIN
	EXECUTE format('SELECT %L::%s', input, type);
	RETURN 'accepted';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
		detail = PG_EXCEPTION_DETAIL;
	RETURN concat_ws(' | ', state, message, nullif(detail, ''));
END $$;

SELECT input, pg_temp.refusal('verdict_identity', input)
FROM unnest(ARRAY['', ':', 'User', 'User:', ':alice', ' User:alice', 'Us er:alice',
	'9User:alice', 'Üser:alice', repeat('T', 129) || ':x']) AS input;
SELECT pg_temp.refusal('verdict_identity', repeat('T', 128) || ':x');

-- Built from parts: text, and any type by its text form.
SELECT verdict_identity('User', 'alice'),
	verdict_identity('Doc', 42),
	verdict_identity('Doc', 42::bigint),
	verdict_identity('Doc', '5e9c1e2c-55b2-4b4c-8f62-2f9ad1a6a6b0'::uuid),
	verdict_identity('Price', 1.50),
	verdict_identity('Doc', 'x'::varchar(5)),
	verdict_identity('Doc', 'x'::char(5)) = 'Doc:x' AS trimmed,
	verdict_identity('Doc', 'n'::name);
SELECT verdict_identity('User', NULL::text) IS NULL AS no_id,
	verdict_identity(NULL, 5) IS NULL AS no_type,
	verdict_identity_type(NULL) IS NULL AS type_of_null,
	verdict_identity_id(NULL) IS NULL AS id_of_null;
SELECT verdict_identity('User', '');
SELECT verdict_identity('User:', 'alice');
SELECT verdict_identity('', 7);
SELECT verdict_identity(repeat('long', 40), 7);
-- One call site, many rows, prepared and not.
SELECT count(DISTINCT verdict_identity('Doc', n)) FROM generate_series(1, 1000) AS n;
PREPARE made(int) AS SELECT verdict_identity('Doc', $1);
EXECUTE made(1);
EXECUTE made(2);

-- Compared as bytes, whatever the collation.
SELECT i FROM unnest(ARRAY['b:1', 'B:1', 'a:1', 'a:10', 'a:2', 'a:é', 'a:z']::verdict_identity[]) AS i
ORDER BY i;
SELECT 'a:1'::verdict_identity < 'a:2' AS lt, 'a:1'::verdict_identity <= 'a:1' AS le,
	'a:1'::verdict_identity = 'a:1' AS eq, 'a:1'::verdict_identity <> 'A:1' AS ne,
	'a:2'::verdict_identity >= 'a:2' AS ge, 'a:2'::verdict_identity > 'a:1' AS gt;
SELECT 'a:1'::verdict_identity = 'a:1'::text;
SELECT 'User:alice'::text::verdict_identity, 'User:alice'::verdict_identity::text;

CREATE TABLE identity_sample (i verdict_identity PRIMARY KEY, n int);
INSERT INTO identity_sample SELECT verdict_identity('Doc', n), n FROM generate_series(1, 2000) AS n;
INSERT INTO identity_sample VALUES ('Doc:7', 0);
CREATE INDEX identity_sample_hash ON identity_sample USING hash (i);
ANALYZE identity_sample;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_hashjoin = off;
SET enable_nestloop = off;
EXPLAIN (COSTS OFF) SELECT n FROM identity_sample WHERE i > 'Doc:99' ORDER BY i;
SELECT n FROM identity_sample WHERE i > 'Doc:997' ORDER BY i;
SELECT count(*) FROM identity_sample a JOIN identity_sample b USING (i);
RESET enable_hashjoin;
SET enable_mergejoin = off;
SELECT count(*) FROM identity_sample a JOIN identity_sample b USING (i);
ALTER TABLE identity_sample DROP CONSTRAINT identity_sample_pkey;
EXPLAIN (COSTS OFF) SELECT n FROM identity_sample WHERE i = 'Doc:77';
SELECT n FROM identity_sample WHERE i = 'Doc:77';
RESET ALL;
SET client_min_messages = warning;
CREATE TABLE identity_part (i verdict_identity) PARTITION BY HASH (i);
CREATE TABLE identity_part_0 PARTITION OF identity_part FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE identity_part_1 PARTITION OF identity_part FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO identity_part SELECT verdict_identity('Doc', n) FROM generate_series(1, 100) AS n;
SELECT count(*), count(DISTINCT tableoid) AS parts FROM identity_part;

-- The form with two texts is immutable; ids may be large.
CREATE TABLE identity_generated (id text, i verdict_identity GENERATED ALWAYS AS (verdict_identity('Doc', id)) STORED);
INSERT INTO identity_generated VALUES ('handbook'), (repeat('é', 500000));
SELECT left(i::text, 15) AS start, octet_length(i::text) AS bytes, octet_length(verdict_identity_id(i)) AS id_bytes
FROM identity_generated ORDER BY bytes;

-- Binary form: what COPY writes it reads again, and it checks what it reads.
\set file `mktemp -u /tmp/verdict_identity.XXXXXX`
COPY (SELECT 'User:été'::verdict_identity AS i) TO :'file' (FORMAT binary);
CREATE TABLE identity_copied (i verdict_identity);
COPY identity_copied FROM :'file' (FORMAT binary);
TABLE identity_copied;
COPY (SELECT 'no colon'::text AS i) TO :'file' (FORMAT binary);
COPY identity_copied FROM :'file' (FORMAT binary);
\setenv file :file
\! rm -f "$file"
SELECT verdict_identity_send('User:alice');

DROP EXTENSION verdict CASCADE;
