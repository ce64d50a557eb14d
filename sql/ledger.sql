-- Idempotency keys of applications: the setting, and how old entries go.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS verdict;
RESET client_min_messages;
LOAD 'verdict';

-- A key is 1 to 255 visible ASCII characters, or nothing.
SET verdict.idempotency_key = 'order-42';
SHOW verdict.idempotency_key;
SET verdict.idempotency_key = 'order 42';
SET verdict.idempotency_key = 'Bestellung-für-42';
SELECT length(set_config('verdict.idempotency_key', repeat('~', 255), false));
SELECT set_config('verdict.idempotency_key', repeat('k', 256), false);
SHOW verdict.idempotency_key;
SET verdict.idempotency_key = '';

-- It cannot be a default: all operations but the first would do nothing.
ALTER SYSTEM SET verdict.idempotency_key = 'order-42';
DO $$ BEGIN
	EXECUTE format('ALTER DATABASE %I SET verdict.idempotency_key = ''order-42''', current_database());
END $$;
ALTER ROLE ALL SET verdict.idempotency_key = 'order-42';
CREATE FUNCTION with_a_key() RETURNS void LANGUAGE sql SET verdict.idempotency_key = 'order-42' AS '';
-- Nothing as a default is what there is.
ALTER ROLE ALL SET verdict.idempotency_key = '';
ALTER ROLE ALL RESET verdict.idempotency_key;

-- It ends with the transaction, with a savepoint, and with the session's reset.
BEGIN;
SET LOCAL verdict.idempotency_key = 'order-42';
SAVEPOINT s;
SET LOCAL verdict.idempotency_key = 'order-43';
ROLLBACK TO s;
SHOW verdict.idempotency_key;
COMMIT;
SHOW verdict.idempotency_key;
SET verdict.idempotency_key = 'order-42';
DISCARD ALL;
SHOW verdict.idempotency_key;

-- Entries younger than a day stay.
SELECT verdict_prune_ledger('23:59:59.999999');
SELECT verdict_prune_ledger('0');
SELECT verdict_prune_ledger('-10 years');
SELECT verdict_prune_ledger('-178000000 years');
SELECT verdict_prune_ledger('1 month -30 days 23 hours');
SELECT verdict_prune_ledger(NULL);
SELECT verdict_prune_ledger('178000000 years');
SELECT verdict_prune_ledger('24 hours'), verdict_prune_ledger('1 day'), verdict_prune_ledger('1 month -29 days');
BEGIN;
INSERT INTO verdict_ledger
	SELECT 'somewhere', 'pg_monitor', 'InsertFact', sha256(age::text::bytea), sha256('changes'), 1, NULL, now() - age
	FROM unnest('{00:00, 23:59, 24:01, 47:59, 48:01, 744:00}'::interval[]) AS age;
-- What waits for its answer stays, too.
INSERT INTO verdict_outbox (server, role, method, changes, payload, idempotency_key, fingerprint, ledger_key,
		transaction, system_identifier, database, queued_at)
	SELECT server, caller, method, 1, '', 'key', fingerprint, key, pg_current_xact_id(), 0, 0, recorded_at
	FROM verdict_ledger WHERE recorded_at < now() - interval '720 hours';
SELECT verdict_prune_ledger('2 days');
SELECT verdict_prune_ledger();
SELECT justify_interval(make_interval(secs => extract(epoch FROM now() - recorded_at)::integer)) AS age
	FROM verdict_ledger ORDER BY recorded_at DESC;
-- Neither the clocks of the time zone nor a search_path of the caller's count.
SET LOCAL TimeZone = 'Europe/Berlin';
CREATE SCHEMA planted;
CREATE FUNCTION planted.always(timestamptz, timestamptz) RETURNS boolean LANGUAGE plpgsql AS
	$$ BEGIN RAISE EXCEPTION 'planted'; END $$;
CREATE OPERATOR planted.< (LEFTARG = timestamptz, RIGHTARG = timestamptz, FUNCTION = planted.always);
CREATE TABLE planted.verdict_ledger (LIKE verdict_ledger);
SET LOCAL search_path = planted, pg_catalog, public;
DELETE FROM public.verdict_outbox;
SELECT public.verdict_prune_ledger();
SELECT pg_catalog.count(*) FROM public.verdict_ledger;
ROLLBACK;

-- Not for everybody, and whoever may prune needs no right on the table.
CREATE ROLE regress_verdict_pruner;
SET ROLE regress_verdict_pruner;
SELECT verdict_prune_ledger();
RESET ROLE;
GRANT EXECUTE ON FUNCTION verdict_prune_ledger TO regress_verdict_pruner;
SET ROLE regress_verdict_pruner;
SELECT verdict_prune_ledger();
SELECT * FROM verdict_ledger;
SELECT current_user;
-- As the owner, and back again after an error.
BEGIN READ ONLY;
SELECT verdict_prune_ledger();
ROLLBACK;
SELECT current_user;
RESET ROLE;
DROP OWNED BY regress_verdict_pruner;
DROP ROLE regress_verdict_pruner;

-- The plans that a session has kept are not those of another table.
SELECT current_database() AS database \gset
CREATE DATABASE regress_verdict_ledger;
\c regress_verdict_ledger
CREATE SCHEMA elsewhere;
CREATE EXTENSION verdict;
SELECT verdict_prune_ledger();
DROP EXTENSION verdict;
CREATE EXTENSION verdict SCHEMA elsewhere;
SELECT elsewhere.verdict_prune_ledger();
ALTER SCHEMA elsewhere RENAME TO renamed;
SELECT renamed.verdict_prune_ledger();
\c :database
DROP DATABASE regress_verdict_ledger;
