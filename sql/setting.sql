-- Settings: values, bad values, and that a pooled connection forgets them.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS verdict;
RESET client_min_messages;
LOAD 'verdict';
SELECT name, setting, context, vartype, enumvals FROM pg_settings WHERE name LIKE 'verdict.%' ORDER BY name;

-- The prefix is taken.
SET verdict.no_such_setting = 'x';
SET verdict.consistency = 'sometimes';
SET verdict.mutation_mode = 'later';
SET verdict.on_failure = 'allow';

-- An actor is an identity or nothing.
SET verdict.actor = 'alice';
SET verdict.actor = ':alice';
SET verdict.actor = 'User:';
SET verdict.actor = '9User:alice';
SET verdict.actor = 'User:alice:the:first';
SELECT verdict_actor(), verdict_identity_id(verdict_actor());
SET verdict.actor = '';
SELECT verdict_actor();

-- A revision is one or nothing.
SET verdict.revision = 'v1.prod.1.7';
SET verdict.revision = 'v1.prod.1.1:7,2:9';
SET verdict.revision = 'v2.prod.1.7';
SET verdict.revision = 'v1.prod.01.7';
SET verdict.revision = 'v1.prod.1.7 ';
SHOW verdict.revision;
SET verdict.revision = '';

-- RESET ALL brings everything back.
SET verdict.server = 'somewhere';
SET verdict.consistency = 'eventual';
SET verdict.actor = 'User:alice';
SET verdict.revision = 'v1.prod.1.7';
SET verdict.on_failure = 'deny';
SELECT verdict_actor();
RESET ALL;
SELECT name, setting FROM pg_settings WHERE name LIKE 'verdict.%' ORDER BY name;
SELECT verdict_actor();

-- SET LOCAL ends with the transaction, and with a savepoint.
BEGIN;
SET LOCAL verdict.actor = 'User:alice';
SAVEPOINT s;
SET LOCAL verdict.actor = 'User:bob';
SELECT verdict_actor();
ROLLBACK TO s;
SELECT verdict_actor();
COMMIT;
SELECT verdict_actor();
