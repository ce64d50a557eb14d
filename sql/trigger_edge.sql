-- verdict_emit_fact(): whose mapping it uses, what it refuses, and tables that change.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS verdict;
RESET client_min_messages;
\set url `echo "$VERDICT_TEST_URL"`
\set key `echo "$VERDICT_TEST_KEY"`
\set wire `echo "$VERDICT_TEST_WIRE"`
CREATE SERVER trigger_edge FOREIGN DATA WRAPPER verdict
	OPTIONS (instance_url :'url', wire_format :'wire');
CREATE USER MAPPING FOR CURRENT_USER SERVER trigger_edge OPTIONS (api_key :'key');
SET verdict.server = 'trigger_edge';
CREATE VIEW facts AS SELECT * FROM verdict_list_facts() AS fact ORDER BY fact::text;
CREATE ROLE verdict_test_table_owner;
CREATE ROLE verdict_test_part_owner;
CREATE ROLE verdict_test_writer;
GRANT USAGE ON FOREIGN SERVER trigger_edge TO verdict_test_table_owner;
CREATE USER MAPPING FOR verdict_test_table_owner SERVER trigger_edge OPTIONS (api_key :'key');
CREATE SCHEMA edge AUTHORIZATION verdict_test_table_owner;
GRANT USAGE ON SCHEMA edge TO verdict_test_writer, verdict_test_part_owner;
SET search_path = edge, public;

--
-- Whose mapping
--

-- The trigger acts as the owner of its table, so a writer needs nothing but the table.
GRANT EXECUTE ON FUNCTION verdict_emit_fact() TO verdict_test_table_owner;
SET ROLE verdict_test_table_owner;
CREATE TABLE doc (id integer, owner_id text, title text);
CREATE TRIGGER emit AFTER INSERT OR UPDATE OR DELETE ON doc FOR EACH ROW
	EXECUTE FUNCTION verdict_emit_fact('is_owner', 'User:{owner_id}', 'Document:{id}');
GRANT ALL ON doc TO verdict_test_writer;
SET ROLE verdict_test_writer;
INSERT INTO doc VALUES (1, 'alice'), (2, 'bob');
UPDATE doc SET owner_id = 'carol' WHERE id = 2;
SELECT verdict_authorize('User:alice', 'read', 'Document:1');
RESET ROLE;
SELECT * FROM facts;
-- What the owner has lost, the trigger has lost.
REVOKE USAGE ON FOREIGN SERVER trigger_edge FROM verdict_test_table_owner;
SET ROLE verdict_test_writer;
INSERT INTO doc VALUES (3, 'dan');
RESET ROLE;
GRANT USAGE ON FOREIGN SERVER trigger_edge TO verdict_test_table_owner;
-- With the table goes the mapping.
ALTER TABLE doc OWNER TO verdict_test_part_owner;
SET ROLE verdict_test_writer;
INSERT INTO doc VALUES (3, 'dan');
RESET ROLE;
ALTER TABLE doc OWNER TO verdict_test_table_owner;
SET ROLE verdict_test_writer;
DELETE FROM doc;
RESET ROLE;
SELECT * FROM facts;
-- The row says whose change it is, also in the outbox.
SET verdict.mutation_mode = outbox;
SET client_min_messages = warning;
SET ROLE verdict_test_writer;
BEGIN;
INSERT INTO doc VALUES (1, 'alice');
COMMIT;
RESET ROLE;
RESET client_min_messages;
SELECT role, method, changes FROM verdict_outbox;
DELETE FROM verdict_outbox;
DELETE FROM doc;
DELETE FROM verdict_outbox;
SET verdict.mutation_mode = deferred;

-- A partition's trigger is the partitioned table's, and so is the mapping, whoever
-- owns the partition and whoever writes to it directly.
SET ROLE verdict_test_table_owner;
CREATE TABLE part (id integer, owner_id text) PARTITION BY RANGE (id);
CREATE TABLE part_low PARTITION OF part FOR VALUES FROM (0) TO (10);
CREATE TABLE part_high PARTITION OF part FOR VALUES FROM (10) TO (100) PARTITION BY RANGE (id);
CREATE TABLE part_high_1 PARTITION OF part_high FOR VALUES FROM (10) TO (20);
CREATE TRIGGER emit AFTER INSERT OR UPDATE OR DELETE ON part FOR EACH ROW
	EXECUTE FUNCTION verdict_emit_fact('is_owner', 'User:{owner_id}', 'Document:{id}');
GRANT ALL ON part, part_low, part_high, part_high_1 TO verdict_test_writer;
RESET ROLE;
ALTER TABLE part_low OWNER TO verdict_test_part_owner;
ALTER TABLE part_high OWNER TO verdict_test_part_owner;
ALTER TABLE part_high_1 OWNER TO verdict_test_part_owner;
SET ROLE verdict_test_writer;
INSERT INTO part VALUES (1, 'alice'), (11, 'bob');
INSERT INTO part_high_1 VALUES (12, 'carol');
UPDATE part SET id = 13 WHERE id = 1;
RESET ROLE;
SELECT * FROM facts;
DELETE FROM part;
SELECT * FROM facts;
-- A trigger of the partition itself is its owner's.
CREATE TRIGGER own AFTER INSERT ON part_low FOR EACH ROW EXECUTE FUNCTION verdict_emit_fact('own', '{id}');
INSERT INTO part VALUES (2, 'alice');
DROP TRIGGER own ON part_low;
-- Detached, it has no trigger any more, and its rows keep their facts.
INSERT INTO part VALUES (2, 'alice');
ALTER TABLE part DETACH PARTITION part_low;
DELETE FROM part_low;
SELECT * FROM facts;
SELECT verdict_delete_fact('is_owner(User:alice, Document:2)');
DROP TABLE part, part_low;

--
-- TRUNCATE is refused before it leaves facts behind.
--

CREATE TRIGGER no_truncate BEFORE TRUNCATE ON doc FOR EACH STATEMENT EXECUTE FUNCTION verdict_emit_fact();
INSERT INTO doc VALUES (1, 'alice');
TRUNCATE doc;
DELETE FROM doc;
SELECT * FROM facts;

--
-- A table that changes in the middle of a session.
--

INSERT INTO doc VALUES (1, 'alice');
ALTER TABLE doc RENAME COLUMN owner_id TO proprietor;
INSERT INTO doc VALUES (2, 'bob');
ALTER TABLE doc RENAME COLUMN proprietor TO owner_id;
INSERT INTO doc VALUES (2, 'bob');
ALTER TABLE doc ALTER COLUMN id TYPE text USING id || '/a';
INSERT INTO doc VALUES ('any', 'carol');
SELECT * FROM facts;
ALTER TABLE doc ALTER COLUMN id TYPE timestamptz USING '2026-11-30 00:00+00';
INSERT INTO doc VALUES (now(), 'dan');
-- Also where the row has no value there.
INSERT INTO doc VALUES (NULL, NULL);
ALTER TABLE doc DROP COLUMN id;
INSERT INTO doc VALUES ('dan');
ALTER TABLE doc ADD COLUMN id bigint DEFAULT 77;
INSERT INTO doc VALUES ('eve');
-- The rewritten rows have other facts now: nobody has told the instance.
SELECT * FROM facts;
DELETE FROM doc;
SELECT * FROM facts;
SELECT verdict_batch_facts(deletes => (SELECT array_agg(fact) FROM facts));
-- In one transaction, with one row each, and a trigger that is replaced.
BEGIN;
INSERT INTO doc (owner_id, id) VALUES ('a', 1);
ALTER TABLE doc ADD COLUMN tenant text DEFAULT 'x';
CREATE OR REPLACE TRIGGER emit AFTER INSERT OR UPDATE OR DELETE ON doc FOR EACH ROW
	EXECUTE FUNCTION verdict_emit_fact('is_owner', 'User:{tenant}/{owner_id}', 'Document:{id}');
INSERT INTO doc (owner_id, id, tenant) VALUES ('a', 2, 'y');
COMMIT;
-- A column that was added with a default has it in every row.
UPDATE doc SET id = 3 WHERE id = 1;
SELECT * FROM facts;
SELECT verdict_delete_fact('is_owner(User:a, Document:1)');
DELETE FROM doc;
-- Prepared statements and functions keep nothing of the old table.
PREPARE add AS INSERT INTO doc (owner_id, id) VALUES ($1, $2);
EXECUTE add('p', 1);
ALTER TABLE doc RENAME COLUMN tenant TO mandant;
EXECUTE add('p', 2);
ALTER TABLE doc RENAME COLUMN mandant TO tenant;
EXECUTE add('p', 3);
DEALLOCATE add;
SELECT * FROM facts;
DELETE FROM doc;

--
-- Generated columns, columns that an UPDATE does not name, values that are stored outside the row.
--

CREATE TABLE made (id integer, owner_id text, key text GENERATED ALWAYS AS (owner_id || '#' || id) STORED);
CREATE TRIGGER emit AFTER INSERT OR UPDATE OR DELETE ON made FOR EACH ROW
	EXECUTE FUNCTION verdict_emit_fact('made', 'Key:{key}', '{id}');
INSERT INTO made VALUES (1, 'alice');
UPDATE made SET owner_id = 'bob';
SELECT * FROM facts;
UPDATE made SET owner_id = repeat('long ', 30000);
SELECT length(fact::text) FROM facts;
UPDATE made SET id = 2;
SELECT length(fact::text), right(fact::text, 12) FROM facts;
DELETE FROM made;
SELECT * FROM facts;
DROP TABLE made;
-- A virtual generated column has no value in a trigger (PostgreSQL 18).
DO $$
BEGIN
	IF current_setting('server_version_num')::integer >= 180000 THEN
		EXECUTE 'CREATE TABLE virtual (id integer, double integer GENERATED ALWAYS AS (id * 2) VIRTUAL)';
		CREATE TRIGGER emit AFTER INSERT ON virtual FOR EACH ROW EXECUTE FUNCTION verdict_emit_fact('p', '{double}');
		BEGIN
			INSERT INTO virtual VALUES (1);
			RAISE 'accepted';
		EXCEPTION WHEN feature_not_supported THEN
			RAISE DEBUG '%', SQLERRM;
		END;
		DROP TABLE virtual;
	END IF;
END $$;

--
-- A constraint trigger that waits for COMMIT, where what it queues is sent or stored.
--

CREATE TABLE late (id integer, owner_id text);
CREATE CONSTRAINT TRIGGER emit AFTER INSERT OR UPDATE OR DELETE ON late DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
	EXECUTE FUNCTION verdict_emit_fact('late', 'User:{owner_id}', '{id}');
BEGIN;
INSERT INTO late VALUES (1, 'alice'), (2, 'bob');
SELECT * FROM facts;
UPDATE late SET id = 3 WHERE id = 2;
COMMIT;
SELECT * FROM facts;
BEGIN;
SET LOCAL client_min_messages = warning;
SET LOCAL verdict.mutation_mode = outbox;
DELETE FROM late;
COMMIT;
SELECT role = current_user::regrole AS owner, method, changes FROM verdict_outbox;
DELETE FROM verdict_outbox;
DROP TABLE late;
SELECT verdict_batch_facts(deletes => (SELECT array_agg(fact) FROM facts));

--
-- Triggers that do not fire: the facts stay as they are.
--

INSERT INTO doc (owner_id, id) VALUES ('alice', 1);
SET session_replication_role = replica;
DELETE FROM doc;
SELECT * FROM facts;
ALTER TABLE doc ENABLE ALWAYS TRIGGER emit;
INSERT INTO doc (owner_id, id) VALUES ('bob', 2);
RESET session_replication_role;
SELECT * FROM facts;
ALTER TABLE doc DISABLE TRIGGER emit;
DELETE FROM doc;
SELECT * FROM facts;
SELECT verdict_batch_facts(deletes => (SELECT array_agg(fact) FROM facts));

--
-- A writer chooses the settings; a function that is made for one server does not listen.
--

CREATE FUNCTION emit_to_edge() RETURNS trigger AS '$libdir/verdict', 'verdict_sql_emit_fact' LANGUAGE C
	SET verdict.server = 'trigger_edge' SET verdict.mutation_mode = 'deferred';
DROP TRIGGER emit ON doc;
CREATE TRIGGER emit AFTER INSERT OR UPDATE OR DELETE ON doc FOR EACH ROW
	EXECUTE FUNCTION emit_to_edge('is_owner', 'User:{owner_id}', 'Document:{id}');
SET ROLE verdict_test_writer;
SET verdict.server = 'elsewhere';
SET verdict.mutation_mode = immediate;
BEGIN;
INSERT INTO doc (owner_id, id) VALUES ('undone', 1);
ROLLBACK;
INSERT INTO doc (owner_id, id) SELECT 'alice', n FROM generate_series(1, 3) AS n;
SHOW verdict.server;
RESET ROLE;
SET verdict.server = 'trigger_edge';
RESET verdict.mutation_mode;
SELECT * FROM facts;
DELETE FROM doc;
SELECT * FROM facts;

--
-- A trigger that fires before and changes the row again: what counts is what is left of it.
--

CREATE TABLE twice (id integer, owner_id text, next text, part integer DEFAULT 1) PARTITION BY LIST (part);
CREATE TABLE twice_1 PARTITION OF twice FOR VALUES IN (1);
CREATE TABLE twice_2 (next text, part integer, dropped integer, owner_id text, id integer);
ALTER TABLE twice_2 DROP COLUMN dropped;
ALTER TABLE twice ATTACH PARTITION twice_2 FOR VALUES IN (2);
CREATE FUNCTION change_again() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.next = 'gone' THEN
		DELETE FROM twice WHERE id = NEW.id;
	ELSIF NEW.next = 'moved' THEN
		UPDATE twice SET next = NULL, part = 2 WHERE id = NEW.id;
	ELSIF NEW.next IS NOT NULL THEN
		UPDATE twice SET next = NULL, owner_id = NEW.next WHERE id = NEW.id;
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER change_again AFTER INSERT OR UPDATE ON twice FOR EACH ROW EXECUTE FUNCTION change_again();
CREATE TRIGGER emit AFTER INSERT OR UPDATE OR DELETE ON twice FOR EACH ROW
	EXECUTE FUNCTION verdict_emit_fact('is_owner', 'User:{owner_id}', 'Document:{id}');
INSERT INTO twice VALUES (1, 'a', 'b'), (2, 'a', NULL), (3, 'a', 'gone'), (4, 'a', 'moved');
SELECT * FROM facts;
UPDATE twice SET owner_id = 'c', next = 'b' WHERE id = 1;
UPDATE twice SET owner_id = 'c', next = 'd' WHERE id = 2;
SELECT * FROM facts;
UPDATE twice SET owner_id = 'e', next = 'moved' WHERE id = 1;
UPDATE twice SET owner_id = 'e', next = 'gone' WHERE id = 2;
UPDATE twice SET owner_id = 'e', next = 'f' WHERE id = 4;
SELECT * FROM facts;
BEGIN;
INSERT INTO twice VALUES (5, 'a', NULL);
SAVEPOINT s;
UPDATE twice SET owner_id = 'g', next = 'h' WHERE id = 5;
ROLLBACK TO s;
UPDATE twice SET owner_id = 'i' WHERE id = 5;
COMMIT;
SELECT * FROM facts;
DROP TRIGGER emit ON twice;
CREATE CONSTRAINT TRIGGER emit AFTER INSERT OR UPDATE OR DELETE ON twice DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
	EXECUTE FUNCTION verdict_emit_fact('is_owner', 'User:{owner_id}', 'Document:{id}');
BEGIN;
UPDATE twice SET owner_id = 'k', next = 'l';
UPDATE twice SET owner_id = 'm' WHERE id = 1;
UPDATE twice SET owner_id = 'l' WHERE id = 1;
COMMIT;
SELECT * FROM facts;
DELETE FROM twice;
SELECT * FROM facts;

RESET search_path;
DROP VIEW facts;
SET client_min_messages = warning;
DROP SCHEMA edge CASCADE;
DROP SERVER trigger_edge CASCADE;
REVOKE EXECUTE ON FUNCTION verdict_emit_fact() FROM verdict_test_table_owner;
DROP ROLE verdict_test_table_owner, verdict_test_part_owner, verdict_test_writer;
