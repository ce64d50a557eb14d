-- What verdict_emit_fact() costs in outbox mode, beside the same statements on the
-- same table without it: each way in turn, each with its COMMIT, medians of the
-- rounds, of the time by the clock and of the backend's time on a processor (which
-- other work on the machine hardly changes).  Runs in a database whose verdict.server is an instance; nothing is sent.
--
--	psql -v rounds=9 -v file=/path/for/the/rows -f trigger.sql
\set ON_ERROR_STOP 1
\pset footer off
SET client_min_messages = warning;
SET verdict.mutation_mode = outbox;
CREATE TABLE document (id integer PRIMARY KEY, owner_id integer NOT NULL, title text NOT NULL, changed_at timestamptz NOT NULL);
CREATE TABLE measured (way text, number_of_rows integer, clock double precision, cpu double precision);
SELECT set_config('bench.file', :'file', false) \g /dev/null
COPY (SELECT n, n % 1000, 'Document number ' || n, '2026-11-30 12:00:00+00'::timestamptz + n * interval '1 second'
	FROM generate_series(1, 1000000) AS n) TO :'file';

CREATE TRIGGER by_row AFTER INSERT ON document FOR EACH ROW
	EXECUTE FUNCTION verdict_emit_fact('is_owner', 'User:{owner_id}', 'Document:{id}');
CREATE TRIGGER by_statement AFTER INSERT ON document REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT
	EXECUTE FUNCTION verdict_emit_fact('is_owner', 'User:{owner_id}', 'Document:{id}');

CREATE FUNCTION cpu_ms() RETURNS double precision LANGUAGE sql VOLATILE AS
	$$SELECT split_part(pg_read_file('/proc/self/schedstat'), ' ', 1)::double precision / 1000000$$;

CREATE PROCEDURE measure(way text, number_of_rows integer, trigger text, statement text) LANGUAGE plpgsql AS $$
DECLARE
	clock timestamptz;
	cpu double precision;
BEGIN
	TRUNCATE document, verdict_outbox;
	ALTER TABLE document DISABLE TRIGGER USER;
	IF trigger <> '' THEN
		EXECUTE format('ALTER TABLE document ENABLE TRIGGER %I', trigger);
	END IF;
	COMMIT;
	CHECKPOINT;
	cpu := cpu_ms();
	clock := clock_timestamp();
	EXECUTE statement;
	COMMIT;
	INSERT INTO measured VALUES (way, number_of_rows, 1000 * extract(epoch FROM clock_timestamp() - clock), cpu_ms() - cpu);
	IF trigger <> '' AND number_of_rows <> (SELECT sum(changes) FROM verdict_outbox) THEN
		RAISE EXCEPTION 'the outbox does not hold % changes', number_of_rows;
	END IF;
END $$;

CREATE PROCEDURE measure_all(rounds integer) LANGUAGE plpgsql AS $$
DECLARE
	inserting CONSTANT text := 'INSERT INTO document SELECT n, n % 1000, ''Document number '' || n, now() FROM generate_series(1, 100000) AS n';
	copying CONSTANT text := format('COPY document FROM %L', current_setting('bench.file'));
BEGIN
	-- Round 0 warms up.
	FOR round IN 0 .. rounds LOOP
		CALL measure('INSERT ... SELECT', 100000, '', inserting);
		CALL measure('INSERT ... SELECT, row trigger', 100000, 'by_row', inserting);
		CALL measure('INSERT ... SELECT, statement trigger', 100000, 'by_statement', inserting);
		CALL measure('COPY', 1000000, '', copying);
		CALL measure('COPY, statement trigger', 1000000, 'by_statement', copying);
		IF round = 0 THEN
			DELETE FROM measured;
		END IF;
	END LOOP;
END $$;
CALL measure_all(:rounds);

WITH way AS (
	SELECT way, number_of_rows, percentile_cont(0.5) WITHIN GROUP (ORDER BY clock) AS clock,
		format('%s-%s', round(min(clock)), round(max(clock))) AS spread, percentile_cont(0.5) WITHIN GROUP (ORDER BY cpu) AS cpu
	FROM measured GROUP BY way, number_of_rows)
SELECT way.way, way.number_of_rows AS "rows", round(way.clock) AS "clock ms", way.spread AS "least-most",
	round((way.clock / bare.clock)::numeric, 2) AS ratio, round((1000 * (way.clock - bare.clock) / way.number_of_rows)::numeric, 2) AS "us a row more",
	round(way.cpu) AS "cpu ms", round((way.cpu / bare.cpu)::numeric, 2) AS "ratio ", round((1000 * (way.cpu - bare.cpu) / way.number_of_rows)::numeric, 2) AS "us a row more "
FROM way JOIN way AS bare ON bare.way = split_part(way.way, ',', 1)
ORDER BY way.number_of_rows, way.cpu;
DROP TABLE document, measured;
DROP PROCEDURE measure_all, measure;
DROP FUNCTION cpu_ms;
TRUNCATE verdict_outbox;
