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

SET verdict.server = 'bundled';

CALL every_call();

SET verdict.server = 'bundled_json';

CALL every_call();

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

SELECT 'the whole script ran' AS last;

