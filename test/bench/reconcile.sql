-- What verdict_reconcile_facts() takes for a first load, for a run that finds nothing
-- to do, and for one that repairs one row in a hundred: time by the clock, and of the
-- backend and the instance on a processor.  Runs in a database whose verdict.server is
-- an instance, beside it, as a superuser.
--
--	psql -v rows=1000000 -v instance=PID -f reconcile.sql
\set ON_ERROR_STOP 1
\pset footer off
SET client_min_messages = warning;
CREATE SCHEMA reconcile_bench;
SET search_path = reconcile_bench, public;
CREATE TABLE document (id integer PRIMARY KEY, owner_id integer NOT NULL, title text NOT NULL);
INSERT INTO document SELECT n, n % 10000, 'Document number ' || n FROM generate_series(1, :rows) AS n;
VACUUM ANALYZE document;
CREATE TABLE measured (number serial, run text, differences bigint, clock double precision,
	backend double precision, instance double precision);

-- Fields 14 and 15 of proc(5)'s stat, in hundredths of a second; the second field may hold blanks.
CREATE FUNCTION processor_seconds(process text) RETURNS double precision LANGUAGE sql VOLATILE AS $$
	SELECT sum(field::double precision) / 100
	FROM regexp_split_to_table(regexp_replace(pg_read_file('/proc/' || process || '/stat'), '^.*\) ', ''), ' ')
		WITH ORDINALITY AS fields(field, number)
	WHERE number IN (12, 13)
$$;

CREATE PROCEDURE measure(run text, instance text) LANGUAGE plpgsql AS $$
DECLARE
	clock timestamptz := clock_timestamp();
	backend_before double precision := processor_seconds('self');
	instance_before double precision := processor_seconds(instance);
	found bigint;
BEGIN
	SELECT count(*) INTO found FROM verdict_reconcile_facts('bench_owner',
		'SELECT verdict_identity(''User'', owner_id), verdict_identity(''Document'', id) FROM document', true);
	COMMIT;
	INSERT INTO measured (run, differences, clock, backend, instance)
	VALUES (run, found, extract(epoch FROM clock_timestamp() - clock),
		processor_seconds('self') - backend_before, processor_seconds(instance) - instance_before);
END $$;

CALL measure('first load', :'instance');
CALL measure('nothing to do', :'instance');
UPDATE document SET owner_id = owner_id + 1 WHERE id % 100 = 0;
CALL measure('one row in a hundred', :'instance');

SELECT run, differences, round(clock::numeric, 1) AS seconds, round(:rows / clock) AS rows_a_second,
	round(backend::numeric, 1) AS backend_processor, round(instance::numeric, 1) AS instance_processor
FROM measured ORDER BY number;

SELECT count(*) AS removed FROM verdict_reconcile_facts('bench_owner', 'SELECT 1, 2 WHERE false', true);
SET client_min_messages = error;
DROP SCHEMA reconcile_bench CASCADE;
