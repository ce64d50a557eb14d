-- Every function of the SQL surface, once for each instance and wire format; the
-- answers must be the same everywhere.  The server is called "surface".
\set ON_ERROR_STOP off
\set VERBOSITY sqlstate
\pset format unaligned
\pset null NULL
SET verdict.server = 'surface';

-- the policy
SELECT verdict_set_policy($$
	allow(actor, "read", doc)   if viewer(actor, doc) and not banned(actor, doc);
	allow(actor, action, doc)   if parent(doc, folder) and allow(actor, action, folder);
	allow(user: User, _, _)     if is_admin(user);
	viewer(user, doc)           if team_viewer(team, doc) and member(user, team);
$$);
SELECT md5(verdict_get_policy());
SELECT verdict_set_policy('allow(actor, $');
SELECT md5(verdict_get_policy());

-- changes: one, many, again, undone
SELECT verdict_insert_fact('member(User:alice, Team:red)');
SELECT verdict_insert_fact('member(User:alice, Team:red)');
SELECT verdict_insert_fact('team_viewer', verdict_identity('Team', 'red'), verdict_identity('Folder', 1));
SELECT verdict_batch_facts(
	inserts => ARRAY['parent(Document:7, Folder:1)', 'parent(Document:8, Folder:1)',
					 'parent(Document:9, Folder:1)', 'banned(User:alice, Document:9)',
					 'viewer(User:bob, Document:9)', 'is_admin(User:root)',
					 'note(User:"Zoë, \"the\" boss", "é€𝄞", -9223372036854775808, true)',
					 'note(User:alice, "", 9223372036854775807, false)',
					 'temporary(1)']::verdict_fact[],
	deletes => ARRAY['temporary(1)', 'never(1)']::verdict_fact[]);
SELECT verdict_delete_fact('never', 1);
SELECT verdict_insert_fact('allow(User:alice, "read", Document:7)');

-- checks
SELECT verdict_authorize('User:alice', 'read', 'Document:7'),
	   verdict_authorize('User:alice', 'write', 'Document:7'),
	   verdict_authorize('User:root', 'write', 'Document:7'),
	   verdict_authorize('User:nobody', 'read', 'Document:7', 'authoritative'),
	   verdict_authorize('User:bob', 'read', 'Document:9', 'eventual');
SELECT verdict_authorize_many('User:alice', 'read',
	ARRAY['Document:7', 'Document:none', 'Document:8', 'Folder:1']::verdict_identity[]);
SELECT verdict_authorize_many('User:alice', 'read',
	(SELECT array_agg(verdict_identity('Document', n) ORDER BY n) FROM generate_series(1, 20) n));

-- queries
SELECT * FROM verdict_query('allow(User:alice, "read", ?doc:Document)') AS (doc verdict_identity) ORDER BY doc;
SELECT * FROM verdict_query('member(?who, ?team)') AS (who text, team verdict_identity);
SELECT * FROM verdict_query('note(?who, ?text, ?number, ?flag)')
	AS (who verdict_identity, text text, number bigint, flag boolean) ORDER BY number;
SELECT * FROM verdict_query('allow(User:root, ?action, ?what)') AS (action text, what text)
	ORDER BY action NULLS FIRST, what NULLS FIRST;
SELECT * FROM verdict_query('allow(User:alice, "read", Document:7)') AS (holds boolean);
SELECT * FROM verdict_query('allow(User:alice, "write", Document:7)') AS (holds boolean);
SELECT * FROM verdict_list_resources('User:alice', 'read', 'Document') ORDER BY 1;
SELECT * FROM verdict_list_resources('User:root', 'read', 'Document');
SELECT * FROM verdict_list_actors('read', 'Document:9', 'User') ORDER BY 1;
SELECT * FROM verdict_list_actions('User:alice', 'Document:7');
SELECT * FROM verdict_list_facts('parent(?doc, Folder:1)') ORDER BY 1;
SELECT * FROM verdict_list_facts('note(_, _, _, _)') ORDER BY 1;
SELECT count(*) FROM verdict_list_facts();

-- more facts than a page holds
SELECT sum(verdict_batch_facts(batch)) FROM (
	SELECT array_agg(verdict_fact('numbered', n)) AS batch
	FROM generate_series(1, 12000) n GROUP BY n / 4000) AS batches;
SELECT count(*), count(DISTINCT fact) FROM verdict_list_facts('numbered(?n)') AS fact;
SELECT count(*), sum(n) FROM verdict_query('numbered(?n)') AS (n bigint);

-- the trigger
CREATE TEMPORARY TABLE document (id integer, owner text);
CREATE TRIGGER emit AFTER INSERT OR UPDATE OR DELETE ON document FOR EACH ROW
	EXECUTE FUNCTION verdict_emit_fact('viewer', 'User:{owner}', 'Document:{id}');
INSERT INTO document VALUES (100, 'carol'), (101, NULL);
SELECT verdict_authorize('User:carol', 'read', 'Document:100');
UPDATE document SET owner = 'dave' WHERE id = 100;
SELECT verdict_authorize('User:carol', 'read', 'Document:100'),
	   verdict_authorize('User:dave', 'read', 'Document:100');
DELETE FROM document;
SELECT verdict_authorize('User:dave', 'read', 'Document:100');

-- the session
BEGIN;
SELECT consistency, inconsistent FROM verdict_session();
SELECT verdict_new_session('surface-session', 'eventual');
SELECT session_id, consistency, inconsistent FROM verdict_session();
SELECT verdict_authorize('User:alice', 'read', 'Document:7');
COMMIT;
SET verdict.actor = 'User:alice';
SELECT verdict_actor();
SELECT verdict_authorize(verdict_actor(), 'read', 'Document:8');
