-- Loads the whole sample: tables and server, policy, data and facts.
\set ON_ERROR_STOP on
\set QUIET on
\pset footer off
\echo 'Creating the extension, the server and the tables'
\ir schema.sql
\echo 'Setting the policy'
\o /dev/null
\ir policy.sql
\o
\echo 'Generating 20,000 documents and loading 100,000 facts'
\ir generate.sql
