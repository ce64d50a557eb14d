-- Changes of facts and policy.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS verdict;
RESET client_min_messages;
\set url `echo "$VERDICT_TEST_URL"`
\set key `echo "$VERDICT_TEST_KEY"`
\set wire `echo "$VERDICT_TEST_WIRE"`
\set VERBOSITY terse
CREATE SERVER change_test FOREIGN DATA WRAPPER verdict
	OPTIONS (instance_url :'url', wire_format :'wire');
CREATE USER MAPPING FOR CURRENT_USER SERVER change_test OPTIONS (api_key :'key');
SET verdict.server = 'change_test';
SET verdict.mutation_mode = immediate;

-- In and out; a change without effect succeeds and says so.
SELECT verdict_insert_fact('owns(User:alice, Document:1)');
SELECT verdict_insert_fact('owns(User:alice, Document:1)');
SELECT * FROM verdict_list_facts('owns(_, _)');
SELECT verdict_delete_fact('owns(User:alice, Document:1)');
SELECT verdict_delete_fact('owns(User:alice, Document:1)');
SELECT count(*) FROM verdict_list_facts('owns(_, _)');

-- Built from arguments of every kind.
SELECT verdict_insert_fact('mixed', verdict_identity('User', 7), 'a "text"', 42, -1::bigint, 3::smallint, true);
SELECT * FROM verdict_list_facts() AS fact WHERE fact::text LIKE 'mixed%';
SELECT verdict_delete_fact('mixed', VARIADIC ARRAY['x', 'y']);
SELECT verdict_delete_fact('mixed', verdict_identity('User', 7), 'a "text"'::text, 42, -1, 3, true);
SELECT count(*) FROM verdict_list_facts() AS fact WHERE fact::text LIKE 'mixed%';

-- A batch is whole or nothing, and runs the inserts first.
SELECT verdict_batch_facts(ARRAY['b(User:1)', 'b(User:2)', 'b(User:2)']::verdict_fact[]);
SELECT verdict_batch_facts(ARRAY['b(User:3)']::verdict_fact[], ARRAY['b(User:3)', 'b(User:1)', 'b(User:9)']::verdict_fact[]);
SELECT * FROM verdict_list_facts('b(_)') ORDER BY 1;
SELECT verdict_batch_facts(ARRAY['b(User:4)', 'allow(User:1, "read", Document:1)']::verdict_fact[]);
SELECT * FROM verdict_list_facts('b(_)') ORDER BY 1;
SELECT verdict_batch_facts(deletes => ARRAY['b(User:2)']::verdict_fact[]);
SELECT verdict_batch_facts();
SELECT verdict_batch_facts((SELECT array_agg(verdict_fact('many', n)) FROM generate_series(1, 5000) AS n));
SELECT verdict_batch_facts(deletes => (SELECT array_agg(verdict_fact('many', n)) FROM generate_series(1, 5000) AS n));

-- Patterns, NULL, and what the instance does not store.
SELECT verdict_insert_fact('owns(?who, Document:1)');
SELECT verdict_delete_fact('owns(_, Document:1)');
SELECT verdict_insert_fact('owns', NULL);
SELECT verdict_insert_fact('owns', verdict_variable('who'));
SELECT verdict_batch_facts(ARRAY['b(_)']::verdict_fact[]);
SELECT verdict_insert_fact(NULL::verdict_fact);
SELECT verdict_delete_fact(NULL, 1);
SELECT verdict_batch_facts(NULL);
SELECT verdict_batch_facts(deletes => NULL);
SELECT verdict_batch_facts(ARRAY[NULL]::verdict_fact[]);
SELECT verdict_insert_fact('not an identifier', 1);
SELECT verdict_insert_fact('allow(User:1, "read", Document:1)');
SELECT verdict_set_policy(NULL);

-- The policy: set, seen by the next check, refused with the place.
SELECT verdict_set_policy('allow(user, "read", doc) if owns(user, doc);');
SELECT verdict_get_policy();
SELECT verdict_insert_fact('owns(User:alice, Document:1)');
SELECT verdict_authorize('User:alice', 'read', 'Document:1') AS alice, verdict_authorize('User:bob', 'read', 'Document:1') AS bob;
SELECT verdict_delete_fact('owns(User:alice, Document:1)');
SELECT verdict_authorize('User:alice', 'read', 'Document:1') AS alice;
SELECT verdict_set_policy(E'allow(user, "read", doc) if owns(user, doc);\nallow(user "write", doc);');
SELECT verdict_get_policy();
SELECT verdict_set_policy('');

-- Only where something may be written.
BEGIN READ ONLY;
SELECT verdict_authorize('User:alice', 'read', 'Document:1');
SELECT verdict_insert_fact('owns(User:alice, Document:1)');
ROLLBACK;
BEGIN READ ONLY;
SELECT verdict_set_policy('');
ROLLBACK;
BEGIN READ ONLY;
SELECT verdict_batch_facts(ARRAY['b(User:1)']::verdict_fact[]);
ROLLBACK;

-- Every change has a key of its own, also when the same thing is done again after
-- a savepoint was rolled back, and nothing was sent that failed before.
\set cleared `perl -MHTTP::Tiny -e 'print HTTP::Tiny->new->delete("$ENV{VERDICT_TEST_ADMIN}/log")->{success}'`
SET client_min_messages = error;
BEGIN;
SELECT verdict_insert_fact('again(User:1)');
SELECT verdict_delete_fact('again(User:1)');
SAVEPOINT s;
SELECT verdict_insert_fact('again(User:1)');
ROLLBACK TO s;
SELECT verdict_insert_fact('again(User:1)');
SELECT verdict_delete_fact('again(User:1)');
COMMIT;
RESET client_min_messages;
\! perl -MHTTP::Tiny -e '$_ = HTTP::Tiny->new->get("$ENV{VERDICT_TEST_ADMIN}/log")->{content}; my %k = map { $_ => 1 } /(pg1-[0-9a-f]{64})/g; print scalar(keys %k), " keys\n"'

SET client_min_messages = warning;
DROP SERVER change_test CASCADE;
