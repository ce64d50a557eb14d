-- The end of the tour of `make try`: the instance has been stopped.
\set QUIET on
\pset footer off
\set ECHO queries
SELECT verdict_authorize('User:alice', 'read', 'Document:1');
SET ROLE sample_app;
SET verdict.actor = 'User:alice';
SELECT id, owner_id, title FROM document WHERE id <= 3;
RESET ROLE;
SET verdict.on_failure = 'deny';
SELECT verdict_authorize('User:alice', 'read', 'Document:1');
\set ECHO none
