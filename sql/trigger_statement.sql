-- verdict_emit_fact() for each statement: the facts of the transition tables.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS verdict;
RESET client_min_messages;
\set url `echo "$VERDICT_TEST_URL"`
\set key `echo "$VERDICT_TEST_KEY"`
\set wire `echo "$VERDICT_TEST_WIRE"`
CREATE SERVER statement_test FOREIGN DATA WRAPPER verdict
	OPTIONS (instance_url :'url', wire_format :'wire');
CREATE USER MAPPING FOR CURRENT_USER SERVER statement_test OPTIONS (api_key :'key');
SET verdict.server = 'statement_test';
CREATE VIEW facts AS SELECT * FROM verdict_list_facts() AS fact ORDER BY fact::text;

CREATE TABLE doc (id integer, owner_id text, title text);
CREATE TRIGGER inserted AFTER INSERT ON doc REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT
	EXECUTE FUNCTION verdict_emit_fact('is_owner', 'User:{owner_id}', 'Document:{id}');
CREATE TRIGGER updated AFTER UPDATE ON doc REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT
	EXECUTE FUNCTION verdict_emit_fact('is_owner', 'User:{owner_id}', 'Document:{id}');
CREATE TRIGGER deleted AFTER DELETE ON doc REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT
	EXECUTE FUNCTION verdict_emit_fact('is_owner', 'User:{owner_id}', 'Document:{id}');

-- What the facts and the rows do not have in common.
CREATE VIEW facts_of_doc AS SELECT DISTINCT verdict_fact('is_owner', verdict_identity('User', owner_id),
	verdict_identity('Document', id)) AS fact FROM doc WHERE owner_id IS NOT NULL AND id IS NOT NULL;
CREATE VIEW difference AS
	(SELECT 'missing' AS which, fact FROM facts_of_doc EXCEPT SELECT 'missing', fact FROM facts) UNION ALL
	(SELECT 'too much', fact FROM facts EXCEPT SELECT 'too much', fact FROM facts_of_doc);

INSERT INTO doc VALUES (1, 'alice', 'One'), (2, NULL, 'Two'), (NULL, 'bob', 'Three'), (4, 'dan', 'Four');
SELECT * FROM facts;
UPDATE doc SET owner_id = coalesce(owner_id, 'carol') || '!' WHERE id < 4;
SELECT * FROM facts;
UPDATE doc SET owner_id = NULL WHERE id = 1;
DELETE FROM doc WHERE id = 4;
SELECT * FROM facts;
COPY doc FROM stdin;
5	eve	Five
6	\N	Six
7	x), is_admin(User:x	Seven
\.
SELECT * FROM facts;
SELECT * FROM difference;
INSERT INTO doc SELECT 1, 'a', 'b' WHERE false;
UPDATE doc SET id = 9 WHERE false;
DELETE FROM doc WHERE false;

-- One statement is one batch; what changes nothing sends nothing.
DELETE FROM doc;
\set cleared `perl -MHTTP::Tiny -e 'print HTTP::Tiny->new->delete("$ENV{VERDICT_TEST_ADMIN}/log")->{success}'`
INSERT INTO doc SELECT n, 'alice', 'n' FROM generate_series(1, 100) AS n;
UPDATE doc SET title = 'x';
UPDATE doc SET owner_id = owner_id;
UPDATE doc SET owner_id = 'bob' WHERE id < 3;
DELETE FROM doc;
\! perl -MHTTP::Tiny -MJSON::PP -e 'print "$_->{method}\n" for @{decode_json(HTTP::Tiny->new->get("$ENV{VERDICT_TEST_ADMIN}/log")->{content})}'
SELECT * FROM facts;

-- Rows exchange their facts; a fact goes from row to row; one row gives up what another keeps.
INSERT INTO doc VALUES (1, 'alice'), (1, 'bob');
UPDATE doc SET owner_id = CASE owner_id WHEN 'alice' THEN 'bob' ELSE 'alice' END;
SELECT * FROM facts;
DELETE FROM doc;
INSERT INTO doc SELECT n, 'alice' FROM generate_series(1, 3) AS n;
UPDATE doc SET id = id + 1;
SELECT * FROM facts;
UPDATE doc SET id = id - 1;
SELECT * FROM facts;
UPDATE doc SET id = 1;
SELECT * FROM facts;
UPDATE doc SET id = 7, title = 'moved' WHERE ctid = (SELECT max(ctid) FROM doc);
SELECT * FROM facts;
DELETE FROM doc WHERE id = 7;
INSERT INTO doc VALUES (5, 'dora', 'a'), (5, 'dora', 'b');
UPDATE doc SET id = CASE title WHEN 'a' THEN 6 ELSE id END WHERE owner_id = 'dora';
SELECT * FROM facts;
DELETE FROM doc;
SELECT * FROM facts;

-- Whatever an UPDATE does to many rows: more than fits into work_mem.
SET work_mem = '64kB';
INSERT INTO doc SELECT n, 'user ' || n % 7, repeat('x', 40) FROM generate_series(1, 5000) AS n;
SELECT count(*) FROM facts;
UPDATE doc SET id = id + 1;
SELECT * FROM difference;
UPDATE doc SET owner_id = CASE WHEN id % 3 = 0 THEN NULL ELSE 'user ' || id % 5 END WHERE id % 2 = 0;
SELECT * FROM difference;
UPDATE doc SET id = 5002 - id;
SELECT * FROM difference;
UPDATE doc SET owner_id = 'x' WHERE id = 77;
SELECT * FROM difference;
SELECT count(*) FROM facts;
DELETE FROM doc;
SELECT count(*) FROM facts;
RESET work_mem;

-- At random: few values, so that rows share, exchange and pass on their facts all the time.
DO $$
DECLARE
	wrong bigint := 0;
BEGIN
	PERFORM setseed(0.25);
	INSERT INTO doc SELECT n % 4, chr(97 + n % 3), n::text FROM generate_series(1, 12) AS n;
	FOR round IN 1 .. 150 LOOP
		UPDATE doc SET id = CASE WHEN random() < 0.3 THEN nullif((random() * 4)::integer, 4) ELSE id END,
			owner_id = CASE WHEN random() < 0.3 THEN nullif(chr(97 + (random() * 3)::integer), 'd') ELSE owner_id END;
		wrong := wrong + (SELECT count(*) FROM difference);
	END LOOP;
	RAISE NOTICE '% differences', wrong;
	DELETE FROM doc;
END $$;
SELECT * FROM facts;

-- INSERT ... ON CONFLICT, statements in WITH, cascades.
CREATE UNIQUE INDEX doc_id ON doc (id);
INSERT INTO doc VALUES (1, 'alice'), (2, 'bob');
INSERT INTO doc VALUES (2, 'carol'), (3, 'dan') ON CONFLICT (id) DO UPDATE SET owner_id = excluded.owner_id;
SELECT * FROM facts;
INSERT INTO doc VALUES (2, 'nobody') ON CONFLICT DO NOTHING;
WITH gone AS (DELETE FROM doc WHERE id = 3 RETURNING *), changed AS (UPDATE doc SET owner_id = 'eve' WHERE id = 1)
	INSERT INTO doc SELECT id + 10, owner_id FROM gone;
SELECT * FROM facts;
CREATE TABLE reader (doc_id integer REFERENCES doc (id) ON DELETE CASCADE ON UPDATE CASCADE, user_id text);
CREATE TRIGGER inserted AFTER INSERT ON reader REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT
	EXECUTE FUNCTION verdict_emit_fact('reader', 'User:{user_id}', 'Document:{doc_id}');
CREATE TRIGGER updated AFTER UPDATE ON reader REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT
	EXECUTE FUNCTION verdict_emit_fact('reader', 'User:{user_id}', 'Document:{doc_id}');
CREATE TRIGGER deleted AFTER DELETE ON reader REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT
	EXECUTE FUNCTION verdict_emit_fact('reader', 'User:{user_id}', 'Document:{doc_id}');
INSERT INTO reader VALUES (1, 'x'), (2, 'x'), (2, 'y');
UPDATE doc SET id = 20 WHERE id = 2;
DELETE FROM doc WHERE id = 1;
SELECT * FROM facts;
DELETE FROM doc;
SELECT * FROM facts;
DROP TABLE reader;

-- A statement that is undone; an exception block.
INSERT INTO doc VALUES (1, 'alice');
BEGIN;
SAVEPOINT a;
UPDATE doc SET owner_id = 'bob';
ROLLBACK TO a;
INSERT INTO doc VALUES (2, 'bob');
COMMIT;
DO $$
BEGIN
	INSERT INTO doc VALUES (3, 'carol');
	BEGIN
		DELETE FROM doc;
		RAISE division_by_zero;
	EXCEPTION WHEN division_by_zero THEN
		NULL;
	END;
END $$;
SELECT * FROM facts;
SELECT * FROM difference;
DELETE FROM doc;

-- Immediate mode sends batches of the server's size.
ALTER SERVER statement_test OPTIONS (ADD batch_size '40');
SET verdict.mutation_mode = immediate;
\set cleared `perl -MHTTP::Tiny -e 'print HTTP::Tiny->new->delete("$ENV{VERDICT_TEST_ADMIN}/log")->{success}'`
INSERT INTO doc SELECT n, 'alice', 'n' FROM generate_series(1, 100) AS n;
\! perl -MHTTP::Tiny -MJSON::PP -e 'print "$_->{method}\n" for @{decode_json(HTTP::Tiny->new->get("$ENV{VERDICT_TEST_ADMIN}/log")->{content})}'
SELECT * FROM difference;
DELETE FROM doc;
RESET verdict.mutation_mode;

-- Partitions: the statement trigger of the whole table sees them all, in its own order of columns.
CREATE TABLE part (extra integer, id integer, owner_id text) PARTITION BY RANGE (id);
CREATE TABLE part_low (owner_id text, id integer, extra integer);
ALTER TABLE part ATTACH PARTITION part_low FOR VALUES FROM (0) TO (10);
CREATE TABLE part_high PARTITION OF part FOR VALUES FROM (10) TO (20);
CREATE TRIGGER inserted AFTER INSERT ON part REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT
	EXECUTE FUNCTION verdict_emit_fact('is_owner', 'User:{owner_id}', 'Document:{id}');
CREATE TRIGGER updated AFTER UPDATE ON part REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT
	EXECUTE FUNCTION verdict_emit_fact('is_owner', 'User:{owner_id}', 'Document:{id}');
CREATE TRIGGER deleted AFTER DELETE ON part REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT
	EXECUTE FUNCTION verdict_emit_fact('is_owner', 'User:{owner_id}', 'Document:{id}');
INSERT INTO part VALUES (0, 1, 'alice'), (0, 2, 'alice'), (0, 11, 'bob');
SELECT * FROM facts;
-- A row moves to another partition; 1 to 11 and back, so that facts pass from row to row.
UPDATE part SET id = 12 - id, owner_id = 'same';
SELECT * FROM facts;
UPDATE part SET id = 12 - id;
SELECT * FROM facts;
-- A statement on the partition itself does not fire it.
INSERT INTO part_low VALUES ('quiet', 5, 0);
SELECT * FROM facts;
DELETE FROM part;
SELECT * FROM facts;
-- A row that another trigger keeps from arriving in its new partition: OLD TABLE has it, NEW TABLE has not.
CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN NULL; END$$;
CREATE TRIGGER swallow BEFORE INSERT ON part_high FOR EACH ROW WHEN (NEW.extra = 1) EXECUTE FUNCTION swallow();
INSERT INTO part VALUES (1, 1, 'alice'), (0, 2, 'bob'), (0, 3, 'bob'), (0, 4, 'carol');
UPDATE part SET id = id + 10 WHERE id < 4;
SELECT * FROM facts;
SELECT * FROM part ORDER BY id;
DELETE FROM part;
SELECT * FROM facts;
DROP TABLE part;
DROP FUNCTION swallow;

-- Bad triggers say what is missing.
DROP TRIGGER inserted ON doc;
DROP TRIGGER updated ON doc;
DROP TRIGGER deleted ON doc;
CREATE TRIGGER bad AFTER INSERT ON doc FOR EACH STATEMENT
	EXECUTE FUNCTION verdict_emit_fact('p', '{id}');
INSERT INTO doc VALUES (1);
DROP TRIGGER bad ON doc;
CREATE TRIGGER bad AFTER UPDATE ON doc REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT
	EXECUTE FUNCTION verdict_emit_fact('p', '{id}');
UPDATE doc SET id = 1;
DROP TRIGGER bad ON doc;
CREATE TRIGGER bad BEFORE INSERT ON doc FOR EACH STATEMENT
	EXECUTE FUNCTION verdict_emit_fact('p', '{id}');
INSERT INTO doc VALUES (1);
DROP TRIGGER bad ON doc;
-- Also when no row comes: what is wrong with a trigger does not depend on the rows.
CREATE TRIGGER bad AFTER INSERT ON doc REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT
	EXECUTE FUNCTION verdict_emit_fact('p', 'Document:{id}', 'User:{owner}');
INSERT INTO doc SELECT WHERE false;
DROP TRIGGER bad ON doc;

DROP VIEW difference, facts_of_doc, facts;
DROP TABLE doc;
SET client_min_messages = warning;
DROP SERVER statement_test CASCADE;
