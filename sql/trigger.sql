-- verdict_emit_fact(): a fact for each row.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS verdict;
RESET client_min_messages;
\set url `echo "$VERDICT_TEST_URL"`
\set key `echo "$VERDICT_TEST_KEY"`
\set wire `echo "$VERDICT_TEST_WIRE"`
\set VERBOSITY terse
CREATE SERVER trigger_test FOREIGN DATA WRAPPER verdict
	OPTIONS (instance_url :'url', wire_format :'wire');
CREATE USER MAPPING FOR CURRENT_USER SERVER trigger_test OPTIONS (api_key :'key');
SET verdict.server = 'trigger_test';
SET verdict.mutation_mode = immediate;
CREATE VIEW facts AS SELECT * FROM verdict_list_facts() AS fact ORDER BY fact::text;

-- INSERT, UPDATE, DELETE; a NULL column is no fact.
CREATE TABLE doc (id integer, gone text, owner_id text, title text);
ALTER TABLE doc DROP COLUMN gone;
CREATE TRIGGER emit AFTER INSERT OR UPDATE OR DELETE ON doc FOR EACH ROW
	EXECUTE FUNCTION verdict_emit_fact('is_owner', 'User:{owner_id}', 'Document:{id}');
INSERT INTO doc VALUES (1, 'alice', 'One'), (2, NULL, 'Two'), (NULL, 'bob', 'Three');
SELECT * FROM facts;
UPDATE doc SET title = 'First' WHERE id = 1;
UPDATE doc SET owner_id = 'bob' WHERE id = 1;
SELECT * FROM facts;
UPDATE doc SET owner_id = 'carol' WHERE id = 2;
UPDATE doc SET owner_id = NULL WHERE id = 1;
SELECT * FROM facts;
DELETE FROM doc;
SELECT * FROM facts;

-- An UPDATE that changes nothing sends nothing, one that does sends one batch.
\set cleared `perl -MHTTP::Tiny -e 'print HTTP::Tiny->new->delete("$ENV{VERDICT_TEST_ADMIN}/log")->{success}'`
INSERT INTO doc VALUES (1, 'alice', 'One');
UPDATE doc SET title = 'x';
UPDATE doc SET owner_id = 'bob';
DELETE FROM doc;
\! perl -MHTTP::Tiny -e '$_ = HTTP::Tiny->new->get("$ENV{VERDICT_TEST_ADMIN}/log")->{content}; print "$_\n" for m{VerdictService/(\w+)}g'

-- Whatever a column holds, it stays inside its place.
INSERT INTO doc VALUES (1, 'x), is_admin(User:x', 'a'), (2, '_', 'b'), (3, '?who', 'c'), (4, '"', 'd'),
	(5, 'Group:y', 'e'), (6, E'line\nbreak', 'f'), (7, '{id}', 'g'), (8, 'zoë €', 'h');
SELECT * FROM facts;
DELETE FROM doc;
-- An empty id is no identity.
INSERT INTO doc VALUES (1, '', 'a');
DROP TRIGGER emit ON doc;

-- Kinds of values: the column alone, mixed text, plain text.
CREATE DOMAIN short AS varchar(20);
CREATE TYPE color AS ENUM ('red', 'green');
CREATE TABLE kinds (i integer, b bigint, s smallint, t text, d short, c char(4), f boolean, e color,
	u uuid, who verdict_identity, n numeric, g text GENERATED ALWAYS AS (t || '!') STORED);
CREATE TRIGGER emit AFTER INSERT OR DELETE ON kinds FOR EACH ROW
	EXECUTE FUNCTION verdict_emit_fact('kinds', '{i}', '{b}', '{s}', '{t}', '{d}', '{c}', '{f}', '{who}',
		'plain', 'Plain:id', 'row {i} of {t}', 'Id:{u}/{e}', 'Flag:{f}', 'N:{n}', '{g}',
		'Code:{c}', '{c}/{i}');
INSERT INTO kinds VALUES (1, -2, 3, '4', 'five', 'six', true, 'green', '00000000-0000-0000-0000-000000000007', 'User:eight', 9.50);
SELECT * FROM facts;
DELETE FROM kinds;
SELECT * FROM facts;
DROP TABLE kinds;

-- Types whose text depends on settings are refused inside other text, and alone.
CREATE TABLE moody (id integer, at timestamptz, f float8, b bytea, a integer[]);
INSERT INTO moody VALUES (1, '2026-01-01 00:00+00', 0.5, 'x', '{1}');
CREATE TRIGGER at AFTER UPDATE ON moody FOR EACH ROW WHEN (NEW.id = 2) EXECUTE FUNCTION verdict_emit_fact('p', 'At:{at}');
CREATE TRIGGER f AFTER UPDATE ON moody FOR EACH ROW WHEN (NEW.id = 3) EXECUTE FUNCTION verdict_emit_fact('p', 'F:{f}');
CREATE TRIGGER b AFTER UPDATE ON moody FOR EACH ROW WHEN (NEW.id = 4) EXECUTE FUNCTION verdict_emit_fact('p', '{b}');
CREATE TRIGGER a AFTER UPDATE ON moody FOR EACH ROW WHEN (NEW.id = 5) EXECUTE FUNCTION verdict_emit_fact('p', 'A:{a}');
UPDATE moody SET id = 2;
UPDATE moody SET id = 3;
UPDATE moody SET id = 4;
UPDATE moody SET id = 5;
DROP TABLE moody;

-- Bad templates.
CREATE FUNCTION pg_temp.try_template(template text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	state text; message text; detail text;
BEGIN
	EXECUTE format('CREATE TRIGGER emit AFTER INSERT ON doc FOR EACH ROW EXECUTE FUNCTION verdict_emit_fact(%L, %L)', 'p', template);
	INSERT INTO doc VALUES (1, 'alice', 'One');
	RAISE EXCEPTION 'accepted';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL;
	RETURN concat_ws(' | ', state, message, nullif(detail, ''));
END $$;
SELECT t AS template, pg_temp.try_template(t) AS result FROM unnest(ARRAY['', '{', '}', 'User:{', 'User:{id', 'User:id}',
	'User:{{id}}', '{}', '{no_such_column}', '{gone}', '{ID}', '{ctid}', ':{id}', '9:{id}', 'my-type:{id}', '{title}:{id}']) AS t;

-- Bad triggers.
CREATE TRIGGER emit BEFORE INSERT ON doc FOR EACH ROW EXECUTE FUNCTION verdict_emit_fact('p', '{id}');
INSERT INTO doc VALUES (1);
DROP TRIGGER emit ON doc;
CREATE TRIGGER emit AFTER INSERT ON doc FOR EACH STATEMENT EXECUTE FUNCTION verdict_emit_fact('p', '{id}');
INSERT INTO doc VALUES (1);
DROP TRIGGER emit ON doc;
CREATE TRIGGER emit AFTER TRUNCATE ON doc FOR EACH STATEMENT EXECUTE FUNCTION verdict_emit_fact('p', '{id}');
TRUNCATE doc;
DROP TRIGGER emit ON doc;
CREATE TRIGGER emit AFTER INSERT ON doc FOR EACH ROW EXECUTE FUNCTION verdict_emit_fact();
INSERT INTO doc VALUES (1);
DROP TRIGGER emit ON doc;
CREATE TRIGGER emit AFTER INSERT ON doc FOR EACH ROW EXECUTE FUNCTION verdict_emit_fact('p');
INSERT INTO doc VALUES (1);
DROP TRIGGER emit ON doc;
CREATE TRIGGER emit AFTER INSERT ON doc FOR EACH ROW EXECUTE FUNCTION verdict_emit_fact('not one', '{id}');
INSERT INTO doc VALUES (1);
DROP TRIGGER emit ON doc;
CREATE TRIGGER emit AFTER INSERT ON doc FOR EACH ROW EXECUTE FUNCTION verdict_emit_fact('allow', 'User:{id}', 'read', 'Document:1');
INSERT INTO doc VALUES (1);
DROP TRIGGER emit ON doc;
SELECT verdict_emit_fact();

-- Partitions, a deferred constraint trigger, and a row that goes back.
CREATE TABLE part (extra integer, id integer, owner_id text) PARTITION BY RANGE (id);
CREATE TABLE part_low (owner_id text, id integer, extra integer);
ALTER TABLE part ATTACH PARTITION part_low FOR VALUES FROM (0) TO (10);
CREATE TABLE part_high PARTITION OF part FOR VALUES FROM (10) TO (20);
CREATE TRIGGER emit AFTER INSERT OR UPDATE OR DELETE ON part FOR EACH ROW
	EXECUTE FUNCTION verdict_emit_fact('is_owner', 'User:{owner_id}', 'Document:{id}');
INSERT INTO part VALUES (0, 1, 'alice'), (0, 11, 'bob');
SELECT * FROM facts;
UPDATE part SET id = 12 WHERE id = 1;
SELECT * FROM facts;
DELETE FROM part;
SELECT * FROM facts;
DROP TABLE part;
CREATE CONSTRAINT TRIGGER emit AFTER INSERT ON doc DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
	EXECUTE FUNCTION verdict_emit_fact('is_owner', 'User:{owner_id}', 'Document:{id}');
BEGIN;
INSERT INTO doc VALUES (5, 'alice');
SELECT * FROM facts;
COMMIT;
SELECT * FROM facts;
BEGIN;
INSERT INTO doc VALUES (6, 'alice');
SET CONSTRAINTS emit IMMEDIATE;
ROLLBACK;
SELECT * FROM facts;
SELECT verdict_batch_facts(deletes => (SELECT array_agg(fact) FROM facts));

-- Without a server the row is not written.
RESET verdict.server;
INSERT INTO doc VALUES (7, 'alice');
SELECT count(*) FROM doc WHERE id = 7;

DROP VIEW facts;
DROP TABLE doc;
DROP TYPE color;
DROP DOMAIN short;
SET client_min_messages = warning;
DROP SERVER trigger_test CASCADE;
