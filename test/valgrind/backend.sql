CREATE EXTENSION verdict;

CREATE SERVER bundled FOREIGN DATA WRAPPER verdict OPTIONS (instance_url '@URL@');

CREATE USER MAPPING FOR CURRENT_USER SERVER bundled OPTIONS (api_key '@KEY@');

CREATE SERVER bundled_json FOREIGN DATA WRAPPER verdict OPTIONS (instance_url '@URL@', wire_format 'json');

CREATE USER MAPPING FOR CURRENT_USER SERVER bundled_json OPTIONS (api_key '@KEY@');

CREATE SERVER nobody FOREIGN DATA WRAPPER verdict OPTIONS (instance_url 'http://127.0.0.1:1');

CREATE USER MAPPING FOR CURRENT_USER SERVER nobody OPTIONS (api_key '@KEY@');

CREATE PROCEDURE every_call() LANGUAGE plpgsql AS $$
BEGIN
	PERFORM verdict_set_policy('allow(user, "read", doc) if viewer(user, doc) and not banned(user, doc);');
	ASSERT verdict_get_policy() LIKE 'allow%';
	ASSERT verdict_insert_fact('viewer(User:alice, Document:1)');
	ASSERT verdict_insert_fact('viewer', verdict_identity('User', 'bob'), verdict_identity('Document', 1));
	PERFORM verdict_batch_facts(inserts => ARRAY['viewer(User:carol, Document:1)', 'banned(User:carol, Document:1)']::verdict_fact[]);
	FOR i IN 1..20 LOOP
		ASSERT verdict_authorize('User:alice', 'read', 'Document:1');
		ASSERT NOT verdict_authorize('User:carol', 'read', 'Document:1');
	END LOOP;
	ASSERT verdict_authorize_many('User:bob', 'read', ARRAY['Document:1', 'Document:2']::verdict_identity[]) = ARRAY[true, false];
	ASSERT (SELECT count(*) = 2 FROM verdict_query('allow(?who, "read", Document:1)') AS (who text));
	ASSERT (SELECT count(*) = 2 FROM verdict_list_actors('read', 'Document:1', 'User'));
	ASSERT (SELECT count(*) = 1 FROM verdict_list_resources('User:alice', 'read', 'Document'));
	ASSERT (SELECT count(*) = 3 FROM verdict_list_facts('viewer(?who, Document:1)'));
	BEGIN
		PERFORM verdict_set_policy('allow(user, "read"');
		ASSERT false;
	EXCEPTION WHEN invalid_parameter_value THEN NULL;
	END;
	BEGIN
		PERFORM 'no identity'::verdict_identity;
		ASSERT false;
	EXCEPTION WHEN invalid_text_representation THEN NULL;
	END;
	PERFORM verdict_batch_facts(deletes => ARRAY['viewer(User:carol, Document:1)', 'viewer(User:bob, Document:1)', 'banned(User:carol, Document:1)']::verdict_fact[]);
	ASSERT verdict_delete_fact('viewer(User:alice, Document:1)');
	ASSERT NOT verdict_authorize('User:alice', 'read', 'Document:1');
END;
$$;

SET verdict.mutation_mode = immediate;

SET verdict.server = 'bundled';

CALL every_call();

SET verdict.server = 'bundled_json';

CALL every_call();

CREATE TABLE document (id integer PRIMARY KEY, owner_id text);

CREATE TABLE page (id integer, owner_id text);

CREATE TRIGGER emit AFTER INSERT OR UPDATE OR DELETE ON document FOR EACH ROW
	EXECUTE FUNCTION verdict_emit_fact('owner', 'User:{owner_id}', 'Document:{id}');

CREATE TRIGGER emit AFTER INSERT ON page REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT
	EXECUTE FUNCTION verdict_emit_fact('owner', 'User:{owner_id}', 'Page:{id}');

CREATE PROCEDURE queued_changes(number integer) LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO document SELECT n, 'user' || n % 7 FROM generate_series(number, number + 299) n;
	INSERT INTO page SELECT n, 'user' || n % 7 FROM generate_series(number, number + 299) n;
	UPDATE document SET owner_id = owner_id || 'x' WHERE id = number;
	BEGIN
		DELETE FROM document;
		PERFORM verdict_insert_fact('owner', repeat('y', 100000));
		RAISE 'taken back';
	EXCEPTION WHEN raise_exception THEN NULL;
	END;
	PERFORM verdict_set_policy('allow(user, "read", doc) if owner(user, doc);');
	DELETE FROM document WHERE id = number + 1;
END;
$$;

CREATE PROCEDURE checks() LANGUAGE plpgsql AS $$
DECLARE
	visible bigint;
BEGIN
	SELECT count(*) INTO visible FROM document WHERE verdict_authorize('User:user3', 'read', verdict_identity('Document', id));
	ASSERT visible BETWEEN 42 AND 43, visible;
	ASSERT cardinality(verdict_resource_ids('User:user3', 'read', 'Document', NULL::integer)) BETWEEN 42 AND 43;
	ASSERT (SELECT count(*) > 0 FROM verdict_reconcile_facts('owner', 'SELECT verdict_identity(''User'', ''nobody''), 1'));
	ASSERT (SELECT count(*) > 0 FROM verdict_stat_calls());
END;
$$;

SET work_mem = '64kB';

SET verdict.mutation_mode = deferred;

SET verdict.server = 'bundled';

CALL queued_changes(1);

CALL checks();

SET verdict.mutation_mode = outbox;

CALL queued_changes(1001);

SELECT set_config('verdict.idempotency_key', 'once', false);

CALL queued_changes(2001);

SELECT set_config('verdict.idempotency_key', '', false);

CALL verdict_deliver();

DO $$ BEGIN ASSERT (SELECT count(*) = 0 FROM verdict_outbox); END $$;

SELECT verdict_prune_ledger();

SELECT set_config('verdict.mutation_mode', 'immediate', false);

SELECT verdict_set_policy('allow(actor, "read", item) if viewer(actor, item); allow(user: User, _, _) if admin(user);');

SELECT verdict_batch_facts(ARRAY(
	SELECT verdict_fact('viewer', verdict_identity('User', 'decider'), verdict_identity('Document', n)) FROM generate_series(1, 1500) AS n
	UNION ALL SELECT verdict_fact('viewer', verdict_identity('User', 'decider'), verdict_identity('Thing', 'thing ' || n)) FROM generate_series(1, 50) AS n
	UNION ALL SELECT verdict_fact('viewer', verdict_identity('User', 'decider'), verdict_identity('Object', md5(n::text)::uuid)) FROM generate_series(1, 50) AS n
	UNION ALL SELECT verdict_fact('admin', verdict_identity('User', 'root'))));

SELECT set_config('verdict.actor', 'User:decider', false);

DO $$
DECLARE
	one CURSOR FOR SELECT n FROM generate_series(1001, 2000) AS n WHERE verdict_authorize(verdict_actor(), 'read', verdict_identity('Document', n));
	sum bigint := 0;
BEGIN
	FOR i IN 1..2 LOOP
		ASSERT (SELECT count(*) = 500 FROM generate_series(1001, 2000) AS n WHERE verdict_authorize(verdict_actor(), 'read', verdict_identity('Document', n)));
		ASSERT (SELECT count(*) = 40 FROM generate_series(11, 90) AS n WHERE verdict_authorize(verdict_actor(), 'read', verdict_identity('Thing', 'thing ' || n)));
		ASSERT (SELECT count(*) = 40 FROM generate_series(11, 90) AS n WHERE verdict_authorize(verdict_actor(), 'read', verdict_identity('Object', md5(n::text)::uuid)));
		ASSERT (SELECT count(*) = 20 FROM generate_series(1, 20) AS n WHERE verdict_authorize('User:root', 'read', verdict_identity('Document', n)));
		ASSERT (SELECT count(*) = 1 FROM generate_series(1, 200) AS n WHERE verdict_authorize(verdict_identity('User', CASE n WHEN 7 THEN 'root' ELSE n::text END), 'read', 'Document:1'));
		ASSERT (SELECT count(*) = 3 FROM (SELECT FROM generate_series(1498, 2000) AS n WHERE verdict_authorize(verdict_actor(), 'read', verdict_identity('Document', n)) LIMIT 5) AS page);
		ASSERT (SELECT cardinality(verdict_resource_ids(verdict_actor(), 'read', 'Document', NULL::bigint)) = 1500);
		ASSERT (SELECT cardinality(verdict_resource_ids(verdict_actor(), 'read', 'Thing', NULL::text)) = 50);
		ASSERT (SELECT cardinality(verdict_resource_ids(verdict_actor(), 'read', 'Object', NULL::uuid)) = 50);
		ASSERT verdict_authorize_many(verdict_actor(), 'read', '{Document:1,Thing:x,Document:1,Object:y,Document:1501,Thing:thing 2}') = '{t,f,t,f,f,t}';
		-- A change in the middle of a statement, and between the steps of a cursor.
		ASSERT (SELECT count(*) = 6 FROM generate_series(1, 9) AS n
			WHERE verdict_authorize(verdict_actor(), 'read', verdict_identity('Document', n / n)) AND CASE n WHEN 6 THEN verdict_delete_fact('viewer(User:decider, Document:1)') ELSE true END);
		PERFORM verdict_insert_fact('viewer(User:decider, Document:1)');
		FOR row IN one LOOP
			sum := sum + 1;
			IF sum % 100 = 0 THEN PERFORM verdict_new_session(); END IF;
		END LOOP;
	END LOOP;
	ASSERT sum = 1000;
END;
$$;

SET verdict.server = 'nobody';

DO $$
BEGIN
	FOR i IN 1..20 LOOP
		BEGIN
			PERFORM verdict_authorize('User:alice', 'read', 'Document:1');
			ASSERT false;
		EXCEPTION WHEN connection_exception OR sqlclient_unable_to_establish_sqlconnection THEN NULL;
		END;
	END LOOP;
END;
$$;

-- A list too large for the client, so that checks are read ahead.
CREATE SERVER small FOREIGN DATA WRAPPER verdict OPTIONS (instance_url '@URL@', max_response_bytes '1024');

CREATE USER MAPPING FOR PUBLIC SERVER small OPTIONS (api_key '@KEY@');

SET verdict.server = 'small';

CREATE TABLE thing (gone int, id text, document int, note text) PARTITION BY RANGE (document);

CREATE TABLE thing_1 PARTITION OF thing FOR VALUES FROM (1) TO (61);

CREATE TABLE thing_2 PARTITION OF thing FOR VALUES FROM (61) TO (201);

INSERT INTO thing SELECT 0, 'thing ' || n, n, repeat(n::text, 3000) FROM generate_series(1, 120) AS n;

ALTER TABLE thing DROP COLUMN gone;

DO $$
DECLARE
	got text;
	readable text := 'verdict_authorize(verdict_actor(), ''read'', verdict_identity(''Document'', document + 1400))';
BEGIN
	FOR i IN 1..3 LOOP
		EXECUTE 'SELECT count(*) || ''/'' || sum(length(note)) FROM thing WHERE ' || readable INTO got;
		ASSERT got = '100/' || (SELECT sum(length(note)) FROM thing WHERE document <= 100), got;
		EXECUTE 'SELECT count(*) FROM thing AS t WHERE verdict_authorize(verdict_actor(), ''read'', verdict_identity(''Thing'', id)) AND length((t.*)::text) > 9' INTO got;
		ASSERT got = '50', got;
		EXECUTE 'SELECT string_agg(document::text, '','') FROM (SELECT document, note FROM thing WHERE ' || readable || ' AND ' || readable || ' LIMIT 9) AS page' INTO got;
		ASSERT got = '1,2,3,4,5,6,7,8,9', got;
		EXECUTE 'SELECT sum((SELECT count(*) FROM (SELECT FROM thing WHERE (document % 4 = g OR ' || readable || ') AND document > 90 LIMIT 5) AS few)) FROM generate_series(1, 5) AS g' INTO got;
		ASSERT got = '25', got;
		EXECUTE 'WITH changed AS (UPDATE thing SET note = note WHERE ' || readable || ' RETURNING id) SELECT count(*) FROM changed' INTO got;
		ASSERT got = '100', got;
	END LOOP;
	EXECUTE 'EXPLAIN (FORMAT JSON, ANALYZE) SELECT count(*) FROM thing WHERE ' || readable INTO got;
	ASSERT got LIKE '%Checks Read Ahead%', got;
END;
$$;

SELECT 'the whole script ran' AS last;

