/* sql/verdict--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION verdict" to load this file. \quit

--
-- Foreign-data wrapper
--
-- A server stands for an instance, a user mapping for a credential.  There is no
-- handler: an instance has no tables.
--

CREATE FUNCTION verdict_fdw_validator(options text[], catalog oid) RETURNS void
	AS 'MODULE_PATHNAME', 'verdict_sql_validator'
	LANGUAGE C STRICT STABLE PARALLEL SAFE;
COMMENT ON FUNCTION verdict_fdw_validator(text[], oid) IS
	'Checks the options of servers and user mappings of the wrapper verdict. Errors: HV00D for an option that does not exist or belongs elsewhere; HV00J when instance_url is missing; 22023 for a value that cannot be used; 42710 for an option given twice; 0A000 for a foreign table.';

CREATE FOREIGN DATA WRAPPER verdict VALIDATOR verdict_fdw_validator;
COMMENT ON FOREIGN DATA WRAPPER verdict IS
	'Verdict instances: a server of this wrapper is an instance, a user mapping holds the API key for it.';

-- end of Foreign-data wrapper

--
-- Types
--
-- Each type is a varlena that holds one canonical text in the encoding of the
-- database.  Equal values are equal bytes, so the comparison, hash and sort
-- functions are the server's own for bytea, under names and types of ours.
--

CREATE TYPE verdict_identity;

CREATE FUNCTION verdict_identity_in(cstring) RETURNS verdict_identity
	AS 'MODULE_PATHNAME', 'verdict_sql_identity_in'
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION verdict_identity_out(verdict_identity) RETURNS cstring
	AS 'MODULE_PATHNAME', 'verdict_sql_identity_out'
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION verdict_identity_recv(internal) RETURNS verdict_identity
	AS 'MODULE_PATHNAME', 'verdict_sql_identity_recv'
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION verdict_identity_send(verdict_identity) RETURNS bytea
	AS 'MODULE_PATHNAME', 'verdict_sql_identity_send'
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE TYPE verdict_identity (
	INPUT = verdict_identity_in,
	OUTPUT = verdict_identity_out,
	RECEIVE = verdict_identity_recv,
	SEND = verdict_identity_send,
	INTERNALLENGTH = VARIABLE,
	ALIGNMENT = int4,
	STORAGE = extended
);

COMMENT ON TYPE verdict_identity IS
	'Who or what a permission is about, written Type:id (User:alice): the type is an identifier, the id any text that is not empty. Malformed text is refused with 22P02.';

CREATE TYPE verdict_fact;

CREATE FUNCTION verdict_fact_in(cstring) RETURNS verdict_fact
	AS 'MODULE_PATHNAME', 'verdict_sql_fact_in'
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION verdict_fact_out(verdict_fact) RETURNS cstring
	AS 'MODULE_PATHNAME', 'verdict_sql_fact_out'
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION verdict_fact_recv(internal) RETURNS verdict_fact
	AS 'MODULE_PATHNAME', 'verdict_sql_fact_recv'
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION verdict_fact_send(verdict_fact) RETURNS bytea
	AS 'MODULE_PATHNAME', 'verdict_sql_fact_send'
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE TYPE verdict_fact (
	INPUT = verdict_fact_in,
	OUTPUT = verdict_fact_out,
	RECEIVE = verdict_fact_recv,
	SEND = verdict_fact_send,
	INTERNALLENGTH = VARIABLE,
	ALIGNMENT = int4,
	STORAGE = extended
);

COMMENT ON TYPE verdict_fact IS
	'A fact such as is_owner(User:alice, Document:handbook), or, with a variable (?doc, ?doc:Document) or the wildcard _, a pattern. Arguments are identities, quoted strings, integers, true and false. Kept in one canonical spelling. Malformed text is refused with 22P02.';

-- Not called verdict_variable: verdict_variable('doc') would then be a cast.
CREATE TYPE verdict_pattern_variable;

CREATE FUNCTION verdict_pattern_variable_in(cstring) RETURNS verdict_pattern_variable
	AS 'MODULE_PATHNAME', 'verdict_sql_variable_in'
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION verdict_pattern_variable_out(verdict_pattern_variable) RETURNS cstring
	AS 'MODULE_PATHNAME', 'verdict_sql_variable_out'
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE TYPE verdict_pattern_variable (
	INPUT = verdict_pattern_variable_in,
	OUTPUT = verdict_pattern_variable_out,
	INTERNALLENGTH = VARIABLE,
	ALIGNMENT = int4,
	STORAGE = extended
);

COMMENT ON TYPE verdict_pattern_variable IS
	'A variable of a pattern, written ?name or ?name:Type; what verdict_variable() makes for verdict_fact(). Malformed text is refused with 22P02.';

-- Comparison of identities

CREATE FUNCTION verdict_identity_lt(verdict_identity, verdict_identity) RETURNS boolean
	AS 'bytealt' LANGUAGE internal IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
CREATE FUNCTION verdict_identity_le(verdict_identity, verdict_identity) RETURNS boolean
	AS 'byteale' LANGUAGE internal IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
CREATE FUNCTION verdict_identity_eq(verdict_identity, verdict_identity) RETURNS boolean
	AS 'byteaeq' LANGUAGE internal IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
CREATE FUNCTION verdict_identity_ne(verdict_identity, verdict_identity) RETURNS boolean
	AS 'byteane' LANGUAGE internal IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
CREATE FUNCTION verdict_identity_ge(verdict_identity, verdict_identity) RETURNS boolean
	AS 'byteage' LANGUAGE internal IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
CREATE FUNCTION verdict_identity_gt(verdict_identity, verdict_identity) RETURNS boolean
	AS 'byteagt' LANGUAGE internal IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
CREATE FUNCTION verdict_identity_cmp(verdict_identity, verdict_identity) RETURNS integer
	AS 'byteacmp' LANGUAGE internal IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
CREATE FUNCTION verdict_identity_sortsupport(internal) RETURNS void
	AS 'bytea_sortsupport' LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION verdict_identity_hash(verdict_identity) RETURNS integer
	AS 'hashvarlena' LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION verdict_identity_hash_extended(verdict_identity, bigint) RETURNS bigint
	AS 'hashvarlenaextended' LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE;

CREATE OPERATOR < (
	LEFTARG = verdict_identity, RIGHTARG = verdict_identity,
	FUNCTION = verdict_identity_lt, COMMUTATOR = >, NEGATOR = >=,
	RESTRICT = scalarltsel, JOIN = scalarltjoinsel
);
CREATE OPERATOR <= (
	LEFTARG = verdict_identity, RIGHTARG = verdict_identity,
	FUNCTION = verdict_identity_le, COMMUTATOR = >=, NEGATOR = >,
	RESTRICT = scalarlesel, JOIN = scalarlejoinsel
);
CREATE OPERATOR = (
	LEFTARG = verdict_identity, RIGHTARG = verdict_identity,
	FUNCTION = verdict_identity_eq, COMMUTATOR = =, NEGATOR = <>,
	RESTRICT = eqsel, JOIN = eqjoinsel, HASHES, MERGES
);
CREATE OPERATOR <> (
	LEFTARG = verdict_identity, RIGHTARG = verdict_identity,
	FUNCTION = verdict_identity_ne, COMMUTATOR = <>, NEGATOR = =,
	RESTRICT = neqsel, JOIN = neqjoinsel
);
CREATE OPERATOR >= (
	LEFTARG = verdict_identity, RIGHTARG = verdict_identity,
	FUNCTION = verdict_identity_ge, COMMUTATOR = <=, NEGATOR = <,
	RESTRICT = scalargesel, JOIN = scalargejoinsel
);
CREATE OPERATOR > (
	LEFTARG = verdict_identity, RIGHTARG = verdict_identity,
	FUNCTION = verdict_identity_gt, COMMUTATOR = <, NEGATOR = <=,
	RESTRICT = scalargtsel, JOIN = scalargtjoinsel
);

CREATE OPERATOR CLASS verdict_identity_ops
	DEFAULT FOR TYPE verdict_identity USING btree AS
		OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
		FUNCTION 1 verdict_identity_cmp(verdict_identity, verdict_identity),
		FUNCTION 2 verdict_identity_sortsupport(internal),
		FUNCTION 4 btequalimage(oid);

CREATE OPERATOR CLASS verdict_identity_ops
	DEFAULT FOR TYPE verdict_identity USING hash AS
		OPERATOR 1 =,
		FUNCTION 1 verdict_identity_hash(verdict_identity),
		FUNCTION 2 verdict_identity_hash_extended(verdict_identity, bigint);

-- Comparison of facts

CREATE FUNCTION verdict_fact_lt(verdict_fact, verdict_fact) RETURNS boolean
	AS 'bytealt' LANGUAGE internal IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
CREATE FUNCTION verdict_fact_le(verdict_fact, verdict_fact) RETURNS boolean
	AS 'byteale' LANGUAGE internal IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
CREATE FUNCTION verdict_fact_eq(verdict_fact, verdict_fact) RETURNS boolean
	AS 'byteaeq' LANGUAGE internal IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
CREATE FUNCTION verdict_fact_ne(verdict_fact, verdict_fact) RETURNS boolean
	AS 'byteane' LANGUAGE internal IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
CREATE FUNCTION verdict_fact_ge(verdict_fact, verdict_fact) RETURNS boolean
	AS 'byteage' LANGUAGE internal IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
CREATE FUNCTION verdict_fact_gt(verdict_fact, verdict_fact) RETURNS boolean
	AS 'byteagt' LANGUAGE internal IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
CREATE FUNCTION verdict_fact_cmp(verdict_fact, verdict_fact) RETURNS integer
	AS 'byteacmp' LANGUAGE internal IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
CREATE FUNCTION verdict_fact_sortsupport(internal) RETURNS void
	AS 'bytea_sortsupport' LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION verdict_fact_hash(verdict_fact) RETURNS integer
	AS 'hashvarlena' LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION verdict_fact_hash_extended(verdict_fact, bigint) RETURNS bigint
	AS 'hashvarlenaextended' LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE;

CREATE OPERATOR < (
	LEFTARG = verdict_fact, RIGHTARG = verdict_fact,
	FUNCTION = verdict_fact_lt, COMMUTATOR = >, NEGATOR = >=,
	RESTRICT = scalarltsel, JOIN = scalarltjoinsel
);
CREATE OPERATOR <= (
	LEFTARG = verdict_fact, RIGHTARG = verdict_fact,
	FUNCTION = verdict_fact_le, COMMUTATOR = >=, NEGATOR = >,
	RESTRICT = scalarlesel, JOIN = scalarlejoinsel
);
CREATE OPERATOR = (
	LEFTARG = verdict_fact, RIGHTARG = verdict_fact,
	FUNCTION = verdict_fact_eq, COMMUTATOR = =, NEGATOR = <>,
	RESTRICT = eqsel, JOIN = eqjoinsel, HASHES, MERGES
);
CREATE OPERATOR <> (
	LEFTARG = verdict_fact, RIGHTARG = verdict_fact,
	FUNCTION = verdict_fact_ne, COMMUTATOR = <>, NEGATOR = =,
	RESTRICT = neqsel, JOIN = neqjoinsel
);
CREATE OPERATOR >= (
	LEFTARG = verdict_fact, RIGHTARG = verdict_fact,
	FUNCTION = verdict_fact_ge, COMMUTATOR = <=, NEGATOR = <,
	RESTRICT = scalargesel, JOIN = scalargejoinsel
);
CREATE OPERATOR > (
	LEFTARG = verdict_fact, RIGHTARG = verdict_fact,
	FUNCTION = verdict_fact_gt, COMMUTATOR = <, NEGATOR = <=,
	RESTRICT = scalargtsel, JOIN = scalargtjoinsel
);

CREATE OPERATOR CLASS verdict_fact_ops
	DEFAULT FOR TYPE verdict_fact USING btree AS
		OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
		FUNCTION 1 verdict_fact_cmp(verdict_fact, verdict_fact),
		FUNCTION 2 verdict_fact_sortsupport(internal),
		FUNCTION 4 btequalimage(oid);

CREATE OPERATOR CLASS verdict_fact_ops
	DEFAULT FOR TYPE verdict_fact USING hash AS
		OPERATOR 1 =,
		FUNCTION 1 verdict_fact_hash(verdict_fact),
		FUNCTION 2 verdict_fact_hash_extended(verdict_fact, bigint);

-- Making values and taking them apart

CREATE FUNCTION verdict_identity(type text, id text) RETURNS verdict_identity
	AS 'MODULE_PATHNAME', 'verdict_sql_identity_make'
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION verdict_identity(text, text) IS
	'The identity type:id; NULL when either is NULL. Errors: 22023 when the type is not an identifier or the id is empty.';

-- Stable: the output of some types depends on settings.
CREATE FUNCTION verdict_identity(type text, id anyelement) RETURNS verdict_identity
	AS 'MODULE_PATHNAME', 'verdict_sql_identity_make'
	LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION verdict_identity(text, anyelement) IS
	'The identity type:id, the id being the text form of any value, such as an integer or a uuid; NULL when either is NULL. Errors: 22023 when the type is not an identifier or the id is empty.';

CREATE FUNCTION verdict_identity_type(identity verdict_identity) RETURNS text
	AS 'MODULE_PATHNAME', 'verdict_sql_identity_type'
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION verdict_identity_type(verdict_identity) IS
	'The type of an identity: User of User:alice.';

CREATE FUNCTION verdict_identity_id(identity verdict_identity) RETURNS text
	AS 'MODULE_PATHNAME', 'verdict_sql_identity_id'
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION verdict_identity_id(verdict_identity) IS
	'The id of an identity: alice of User:alice.';

CREATE FUNCTION verdict_variable(name text, type text DEFAULT NULL) RETURNS verdict_pattern_variable
	AS 'MODULE_PATHNAME', 'verdict_sql_variable_make'
	LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION verdict_variable(text, text) IS
	'A variable for verdict_fact(); with a type it matches identities of that type only. Errors: 22004 when the name is NULL; 22023 when name or type is not an identifier.';

-- Stable: text-like types of other extensions bring their own output functions.
CREATE FUNCTION verdict_fact(predicate text, VARIADIC arguments "any") RETURNS verdict_fact
	AS 'MODULE_PATHNAME', 'verdict_sql_fact_make'
	LANGUAGE C STABLE PARALLEL SAFE;
COMMENT ON FUNCTION verdict_fact(text, "any") IS
	'The fact or pattern predicate(arguments...). An argument is a verdict_identity, a text or another text-like type (a string; so is a literal without a type), an integer, a boolean, a verdict_variable(), or NULL for the wildcard. Errors: 22004 when the predicate is NULL; 22023 when it is not an identifier or there are too many arguments; 42804 for an argument of another type.';

-- end of Types

--
-- Reads
--
-- Every function here asks the instance of verdict.server, as the current user.
-- The optional last argument "consistency" is session, eventual or
-- authoritative; NULL takes what the session of the transaction says.
--
-- The cost of a call is high enough for every local condition to be tried first,
-- and low enough not to carry a statement over jit_above_cost for nothing.  Checks
-- cost less: nearly all of those that a statement makes are answered from memory.
--

-- The planner rewrites verdict_authorize(actor, action, verdict_identity('Type', id)) to
-- verdict_authorize_id(actor, action, 'Type', id), and evaluates none of these functions.
CREATE FUNCTION verdict_read_support(internal) RETURNS internal
	AS 'MODULE_PATHNAME', 'verdict_sql_read_support'
	LANGUAGE C STRICT;
CREATE FUNCTION verdict_authorize(actor verdict_identity, action text,
		resource verdict_identity, consistency text DEFAULT NULL) RETURNS boolean
	AS 'MODULE_PATHNAME', 'verdict_sql_authorize'
	LANGUAGE C STABLE PARALLEL RESTRICTED COST 10
	SUPPORT verdict_read_support;
COMMENT ON FUNCTION verdict_authorize(verdict_identity, text, verdict_identity, text) IS
	'Whether the policy allows the actor to do the action with the resource; NULL for a NULL actor, without asking. Answers are remembered for the statement (under REPEATABLE READ and SERIALIZABLE for the transaction, unless the consistency is authoritative), until the session changes something or observes a newer revision; after a few resources of one type a list of all that are allowed is fetched, unless verdict.prefetch is off. Errors: 22004 for any other NULL argument but the consistency, 22023 for an empty action or an unknown consistency, and those of the connection and the instance; with verdict.on_failure = deny the latter are a warning and the answer is false.';

CREATE FUNCTION verdict_authorize_id(actor verdict_identity, action text, resource_type text,
		id anyelement, consistency text DEFAULT NULL) RETURNS boolean
	AS 'MODULE_PATHNAME', 'verdict_sql_authorize_id'
	LANGUAGE C STABLE PARALLEL RESTRICTED COST 10
	SUPPORT verdict_read_support;
COMMENT ON FUNCTION verdict_authorize_id(verdict_identity, text, text, anyelement, text) IS
	'verdict_authorize(actor, action, verdict_identity(resource_type, id), consistency) for an id of type smallint, integer, bigint, uuid or text, without making the identity; the planner rewrites the one to the other. Errors: those of both, and 0A000 for an id of another type.';

CREATE FUNCTION verdict_stat_decisions(OUT remembered bigint, OUT single_checks bigint,
		OUT lists bigint, OUT lists_cut bigint, OUT lists_refused bigint,
		OUT resources_listed bigint, OUT lists_kept bigint, OUT forgotten bigint) RETURNS record
	AS 'MODULE_PATHNAME', 'verdict_sql_stat_decisions'
	LANGUAGE C VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION verdict_stat_decisions() IS
	'How the checks of this backend were answered since it began: from what was remembered; by single checks; by lists, how many of them were cut or could not be had, and how many resources they held; by lists of an earlier statement that were still right; how often something remembered was forgotten before its statement ended.';

CREATE FUNCTION verdict_authorize_many(actor verdict_identity, action text,
		resources verdict_identity[], consistency text DEFAULT NULL) RETURNS boolean[]
	AS 'MODULE_PATHNAME', 'verdict_sql_authorize_many'
	LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000
	SUPPORT verdict_read_support;
COMMENT ON FUNCTION verdict_authorize_many(verdict_identity, text, verdict_identity[], text) IS
	'verdict_authorize() for each resource of the array, several calls under way together; the answers stand in the order of the resources. Errors: as verdict_authorize(), 22004 also for a NULL element, 2202E for an array of several dimensions. One call that fails fails all (or, with verdict.on_failure = deny, makes all answers false).';

CREATE FUNCTION verdict_query(pattern verdict_fact, consistency text DEFAULT NULL) RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'verdict_sql_query'
	LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000 ROWS 1000;
COMMENT ON FUNCTION verdict_query(verdict_fact, text) IS
	'The values for which the pattern holds: one row a solution, one column a variable in the order of first use, named and typed by the column definition list. NULL stands for "every value". A pattern without variables takes one boolean column and gives one row (true) when it holds, else none. Errors: 22004 for a NULL pattern; 22023 for an unknown consistency; 42804 when number or types of the columns do not fit; 54000 when the instance cut the answer; those of the connection and the instance.';

-- How many rows a list will have, by the last one; and verdict_resource_ids() is
-- evaluated once a statement.
CREATE FUNCTION verdict_list_support(internal) RETURNS internal
	AS 'MODULE_PATHNAME', 'verdict_sql_list_support'
	LANGUAGE C STRICT;

CREATE FUNCTION verdict_list_resources(actor verdict_identity, action text,
		resource_type text, consistency text DEFAULT NULL) RETURNS SETOF text
	AS 'MODULE_PATHNAME', 'verdict_sql_list_resources'
	LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000 ROWS 1000
	SUPPORT verdict_list_support;
COMMENT ON FUNCTION verdict_list_resources(verdict_identity, text, text, text) IS
	'The ids (without the type) of the resources of one type with which the actor may do the action. Errors: 22004 for a NULL argument; 22023 for an empty action, a type that is not an identifier, an unknown consistency; 21000 when the policy allows every resource, which no list can say; 54000 when the instance cut the answer; those of the connection and the instance.';

CREATE FUNCTION verdict_resource_ids(actor verdict_identity, action text, resource_type text,
		id_type anyelement, consistency text DEFAULT NULL) RETURNS anyarray
	AS 'MODULE_PATHNAME', 'verdict_sql_resource_ids'
	LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000
	SUPPORT verdict_list_support;
COMMENT ON FUNCTION verdict_resource_ids(verdict_identity, text, text, anyelement, text) IS
	'verdict_list_resources() as an array of the type of the fourth argument, which may be NULL, for id = ANY (...): smallint, integer, bigint, uuid or text. Ids that are not the text of a value of that type, to the letter, are left out: no row has them. NULL for a NULL actor, without asking. Errors: as verdict_list_resources(), and 0A000 for another type.';

CREATE FUNCTION verdict_list_actors(action text, resource verdict_identity,
		actor_type text, consistency text DEFAULT NULL) RETURNS SETOF text
	AS 'MODULE_PATHNAME', 'verdict_sql_list_actors'
	LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000 ROWS 1000;
COMMENT ON FUNCTION verdict_list_actors(text, verdict_identity, text, text) IS
	'The ids (without the type) of the actors of one type that may do the action with the resource. Errors: as verdict_list_resources().';

CREATE FUNCTION verdict_list_actions(actor verdict_identity, resource verdict_identity,
		consistency text DEFAULT NULL) RETURNS SETOF text
	AS 'MODULE_PATHNAME', 'verdict_sql_list_actions'
	LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000 ROWS 10;
COMMENT ON FUNCTION verdict_list_actions(verdict_identity, verdict_identity, text) IS
	'The actions that the actor may do with the resource. Errors: as verdict_list_resources(), and 42804 when the policy allows a value that is not a string, which is no action.';

CREATE FUNCTION verdict_list_facts(pattern verdict_fact DEFAULT NULL,
		consistency text DEFAULT NULL) RETURNS SETOF verdict_fact
	AS 'MODULE_PATHNAME', 'verdict_sql_list_facts'
	LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000 ROWS 1000;
COMMENT ON FUNCTION verdict_list_facts(verdict_fact, text) IS
	'The stored facts that match the pattern, or with NULL all of them, fetched page by page. Errors: 22023 for an unknown consistency; 08P01 when the pages of the instance go round in a circle; those of the connection and the instance.';

CREATE FUNCTION verdict_get_policy(consistency text DEFAULT NULL) RETURNS text
	AS 'MODULE_PATHNAME', 'verdict_sql_get_policy'
	LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000
	SUPPORT verdict_read_support;
COMMENT ON FUNCTION verdict_get_policy(text) IS
	'The text of the policy; empty when none has been set. Errors: 22023 for an unknown consistency; those of the connection and the instance.';

-- end of Reads

--
-- Outbox and ledger
--

-- Batches of committed transactions that wait for their answer.  They are dumped
-- with the database; a restored row carries the origin of another database and is
-- not sent until somebody says so (verdict_outbox_resend).
CREATE TABLE verdict_outbox (
	id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	server text NOT NULL,
	role regrole NOT NULL,
	method text NOT NULL,
	changes integer NOT NULL,
	payload bytea NOT NULL,
	idempotency_key text NOT NULL,
	fingerprint bytea NOT NULL,
	ledger_key bytea,
	transaction xid8 NOT NULL,
	system_identifier bigint NOT NULL,
	database oid NOT NULL,
	queued_at timestamptz NOT NULL,
	attempts integer NOT NULL DEFAULT 0,
	last_attempt_at timestamptz,
	parked_at timestamptz,
	error_code text,
	error_message text
);
ALTER TABLE verdict_outbox ALTER COLUMN payload SET STORAGE EXTERNAL;
COMMENT ON TABLE verdict_outbox IS
	'Batches of changes that wait for the answer of their server''s instance, in the order in which they are sent; see verdict_outbox_status. Written and removed by the extension only.';

-- What was committed and not answered is part of the database.
SELECT pg_catalog.pg_extension_config_dump('verdict_outbox', '');
SELECT pg_catalog.pg_extension_config_dump('verdict_outbox_id_seq', '');

CREATE VIEW verdict_outbox_status AS
	SELECT outbox.id, outbox.server, outbox.role, outbox.method, outbox.changes,
		outbox.queued_at, outbox.attempts, outbox.last_attempt_at, outbox.parked_at,
		outbox.error_code, outbox.error_message,
		(outbox.system_identifier, outbox.database) IS DISTINCT FROM
			(system.system_identifier, here.oid) AS foreign_origin
	FROM @extschema@.verdict_outbox AS outbox
		CROSS JOIN (SELECT system_identifier FROM pg_catalog.pg_control_system()) AS system
		CROSS JOIN (SELECT oid FROM pg_catalog.pg_database
			WHERE datname = pg_catalog.current_database()) AS here;
COMMENT ON VIEW verdict_outbox_status IS
	'The batches of verdict_outbox without their payload. A batch with parked_at was refused for good and is not sent again by itself, nor is one of foreign_origin, which a restored or copied database has brought along; for both there are verdict_outbox_resend() and verdict_outbox_drop(). error_code is the Connect code of the last answer, or a SQLSTATE for what failed on this side.';

CREATE VIEW verdict_stat_outbox AS
	SELECT server,
		pg_catalog.count(*) FILTER (WHERE sent) AS pending_batches,
		COALESCE(pg_catalog.sum(changes) FILTER (WHERE sent), 0) AS pending_changes,
		pg_catalog.min(queued_at) FILTER (WHERE sent) AS oldest_pending,
		pg_catalog.count(*) FILTER (WHERE parked_at IS NOT NULL) AS parked_batches,
		pg_catalog.count(*) FILTER (WHERE foreign_origin AND parked_at IS NULL) AS foreign_batches
	FROM (SELECT *, parked_at IS NULL AND NOT foreign_origin AS sent
		FROM @extschema@.verdict_outbox_status) AS status
	GROUP BY server;
COMMENT ON VIEW verdict_stat_outbox IS
	'The outbox in figures, one row for each server that has a batch in it: batches and changes that wait for their answer and since when the oldest of them does, batches that were refused and are parked, and batches that another database had queued.';

GRANT SELECT ON verdict_outbox_status, verdict_stat_outbox TO pg_monitor;

CREATE PROCEDURE verdict_deliver()
	AS 'MODULE_PATHNAME', 'verdict_sql_deliver'
	LANGUAGE C;
COMMENT ON PROCEDURE verdict_deliver() IS
	'Delivers the outbox of this database now and says in a notice how many batches were answered. Without a worker (shared_preload_libraries) this session sends every batch that can be sent, once, and commits after each; one that fails stays, with a line in the log or a warning. With a worker it wakes it and waits until all that was pending is answered or parked. Errors: 2D000 inside a transaction block or function; 55006 when another session delivers; 25006 during recovery.';

CREATE FUNCTION verdict_outbox_resend(id bigint) RETURNS void
	AS 'MODULE_PATHNAME', 'verdict_sql_outbox_resend'
	LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION verdict_outbox_resend(bigint) IS
	'Has a batch of verdict_outbox that is parked or of foreign origin sent by this database when the transaction commits, under the key that it has. Errors: P0002 when there is none of that id; 55000 when it is being sent anyway.';

CREATE FUNCTION verdict_outbox_drop(id bigint) RETURNS void
	AS 'MODULE_PATHNAME', 'verdict_sql_outbox_drop'
	LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION verdict_outbox_drop(bigint) IS
	'Gives up a batch of verdict_outbox that is parked or of foreign origin, and what it has claimed in verdict_ledger. Errors: as verdict_outbox_resend().';

REVOKE ALL ON PROCEDURE verdict_deliver() FROM PUBLIC;
REVOKE ALL ON FUNCTION verdict_outbox_resend(bigint), verdict_outbox_drop(bigint) FROM PUBLIC;

-- What has been done under the keys of applications (verdict.idempotency_key).
CREATE TABLE verdict_ledger (
	server text NOT NULL,
	caller regrole NOT NULL,
	method text NOT NULL,
	key bytea NOT NULL,
	fingerprint bytea NOT NULL,
	changed bigint,
	revision text,
	recorded_at timestamptz NOT NULL,
	PRIMARY KEY (key, server, caller, method)
);
COMMENT ON TABLE verdict_ledger IS
	'Changes made under verdict.idempotency_key: an entry is there exactly when its transaction has committed. key is a hash, changed and revision are what the instance answered (null while it has not). Removed by verdict_prune_ledger().';

-- A restored database must not make again what was made before the dump.
SELECT pg_catalog.pg_extension_config_dump('verdict_ledger', '');

CREATE FUNCTION verdict_prune_ledger(retention interval DEFAULT '24 hours') RETURNS bigint
	AS 'MODULE_PATHNAME', 'verdict_sql_prune_ledger'
	LANGUAGE C VOLATILE PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION verdict_prune_ledger(interval) FROM PUBLIC;
COMMENT ON FUNCTION verdict_prune_ledger(interval) IS
	'Removes the entries of verdict_ledger that are older than the retention (a day counts as 24 hours, a month as 30 days), and returns how many; entries whose batch still waits in verdict_outbox stay. To be run now and then, such as once a day. Errors: 22004 for NULL; 22023 for less than 24 hours, the time for which a repeat has to be known.';

-- end of Outbox and ledger

--
-- Changes
--
-- Sent to the instance of verdict.server as the current user, when
-- verdict.mutation_mode says.  The same errors hold for all: 25006 in a read-only
-- transaction and during recovery, and those of the connection and the instance.
--

CREATE FUNCTION verdict_insert_fact(fact verdict_fact) RETURNS boolean
	AS 'MODULE_PATHNAME', 'verdict_sql_insert_fact'
	LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION verdict_insert_fact(verdict_fact) IS
	'Stores a fact; false when it was there. Errors: 22004 for NULL; 22023 for a pattern, and for what the instance does not store; those of all changes.';

CREATE FUNCTION verdict_insert_fact(predicate text, VARIADIC arguments "any") RETURNS boolean
	AS 'MODULE_PATHNAME', 'verdict_sql_insert_fact_of'
	LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION verdict_insert_fact(text, "any") IS
	'verdict_insert_fact(verdict_fact(predicate, arguments...)). Errors: those of both.';

CREATE FUNCTION verdict_delete_fact(fact verdict_fact) RETURNS boolean
	AS 'MODULE_PATHNAME', 'verdict_sql_delete_fact'
	LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION verdict_delete_fact(verdict_fact) IS
	'Removes a fact; false when it was not there. Errors: as verdict_insert_fact().';

CREATE FUNCTION verdict_delete_fact(predicate text, VARIADIC arguments "any") RETURNS boolean
	AS 'MODULE_PATHNAME', 'verdict_sql_delete_fact_of'
	LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION verdict_delete_fact(text, "any") IS
	'verdict_delete_fact(verdict_fact(predicate, arguments...)). Errors: those of both.';

CREATE FUNCTION verdict_batch_facts(inserts verdict_fact[] DEFAULT '{}',
		deletes verdict_fact[] DEFAULT '{}') RETURNS bigint
	AS 'MODULE_PATHNAME', 'verdict_sql_batch_facts'
	LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION verdict_batch_facts(verdict_fact[], verdict_fact[]) IS
	'Stores and removes facts, whole or not at all: first the inserts, then the deletes, each in the order of its array. Returns how many of them had an effect. Errors: 22004 for a NULL array or element; 22023 for a pattern; what the instance says of a batch over its cap; those of all changes.';

CREATE FUNCTION verdict_set_policy(policy text) RETURNS void
	AS 'MODULE_PATHNAME', 'verdict_sql_set_policy'
	LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION verdict_set_policy(text) IS
	'Replaces the policy. Errors: 22004 for NULL; 22023 for a text that the instance does not accept, with the place; those of all changes.';

CREATE FUNCTION verdict_emit_fact() RETURNS trigger
	AS 'MODULE_PATHNAME', 'verdict_sql_emit_fact'
	LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION verdict_emit_fact() IS
	'AFTER trigger that keeps a fact for each row. Its arguments are the predicate and a template for each argument of the fact: User:{owner_id} is an identity with the text of a column in its id, {name} alone is the value of a column, other text is a string. INSERT inserts the fact, DELETE deletes it, UPDATE does both when it differs; a NULL column means no fact. FOR EACH STATEMENT it takes the rows from the transition tables: REFERENCING NEW TABLE for INSERT, OLD TABLE for DELETE, both for UPDATE. It acts with the user mapping of the owner of the table that it was created on. TRUNCATE is refused. Errors: 39P01 for a trigger that is not AFTER or lacks a transition table; 22023 for a template that cannot be read and an empty id; 42703 for an unknown column; 42804 for a column whose type has no fixed text; 0A000 for a virtual generated column; 55000 for TRUNCATE; those of verdict_insert_fact().';

-- USAGE on a server is what a policy needs of everyone; it must not be enough to
-- change what the policy asks for.  A trigger needs EXECUTE of whoever creates it,
-- not of those whose rows fire it.
REVOKE EXECUTE ON FUNCTION
	verdict_insert_fact(verdict_fact), verdict_insert_fact(text, "any"),
	verdict_delete_fact(verdict_fact), verdict_delete_fact(text, "any"),
	verdict_batch_facts(verdict_fact[], verdict_fact[]),
	verdict_set_policy(text), verdict_emit_fact()
	FROM PUBLIC;

-- end of Changes

--
-- Bringing over what is there
--

CREATE FUNCTION verdict_reconcile_facts(predicate text, query text, repair boolean DEFAULT false,
		OUT fact verdict_fact, OUT difference text, OUT repaired boolean) RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'verdict_sql_reconcile_facts'
	LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000 ROWS 1000;
REVOKE EXECUTE ON FUNCTION verdict_reconcile_facts(text, text, boolean) FROM PUBLIC;
COMMENT ON FUNCTION verdict_reconcile_facts(text, text, boolean) IS
	'Compares the facts of a predicate that the instance of verdict.server holds with those that should be: the query is one SELECT, its columns are the arguments of the facts in order, with the rules of verdict_fact() for their types; a row that comes twice is one fact. It runs as the caller. Each difference is a row: missing (in the query only) or surplus (at the instance only). With repair missing facts are stored and surplus ones removed, at once whatever verdict.mutation_mode says, in batches of the server''s batch_size that each stay whatever comes after: a call that failed is made again and does what is left. Nothing is changed before everything is compared. What others change meanwhile may be reported; a fact whose row is deleted between the query and its batch is stored all the same, and one whose transaction is just committing may be removed: where that must not be, lock the table in SHARE mode first, in the same transaction, and let the outbox be delivered. Memory stays within work_mem, its progress is in verdict_progress_reconcile. Errors: 22004 for NULL, in the query''s rows too; 22023 for a predicate that is not an identifier, for a query that is not one SELECT, changes or locks rows, or has too many columns; 42804 for a column whose type no fact can hold, and when the instance holds facts of another number of arguments; 42501 when row-level security would hide rows from the query; for a repair 25001 in a transaction that has changed something or is REPEATABLE READ or SERIALIZABLE, 55000 under verdict.idempotency_key, and those of all changes; those of the query, the connection and the instance.';

CREATE FUNCTION verdict_progress_reconcile(OUT pid integer, OUT datid oid, OUT serverid oid,
		OUT predicate text, OUT phase text, OUT facts_listed bigint, OUT rows_read bigint,
		OUT differences bigint, OUT repaired bigint, OUT batches_total bigint,
		OUT batches_sent bigint) RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'verdict_sql_progress_reconcile'
	LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 100 ROWS 10;
COMMENT ON FUNCTION verdict_progress_reconcile() IS
	'How far the calls of verdict_reconcile_facts() are, in all databases; what the view verdict_progress_reconcile shows. Of a call of another role only its process and database are told, except to members of pg_read_all_stats. Empty unless the library is in shared_preload_libraries.';

CREATE VIEW verdict_progress_reconcile AS
	SELECT call.pid, call.datid, pg_database.datname, call.serverid, call.predicate, call.phase,
		call.facts_listed, call.rows_read, call.differences, call.repaired, call.batches_total,
		call.batches_sent
	FROM verdict_progress_reconcile() AS call
	LEFT JOIN pg_catalog.pg_database ON pg_database.oid OPERATOR(pg_catalog.=) call.datid;
GRANT SELECT ON verdict_progress_reconcile TO PUBLIC;
COMMENT ON VIEW verdict_progress_reconcile IS
	'How far each running call of verdict_reconcile_facts() is: phase (listing facts, running the query, comparing, repairing), facts listed at the instance, rows read of the query, differences found and repaired, batches to be sent (0 until everything is compared) and sent. Empty unless the library is in shared_preload_libraries.';

-- end of Bringing over what is there

--
-- Session
--
-- A session belongs to the transaction and the server: it begins with the first
-- call to the server and ends with the transaction.  These functions are about the
-- session with verdict.server.
--

CREATE FUNCTION verdict_session(OUT session_id text, OUT consistency text, OUT revision text,
		OUT inconsistent boolean, OUT sent_changes bigint, OUT pending_changes bigint) RETURNS record
	AS 'MODULE_PATHNAME', 'verdict_sql_session'
	LANGUAGE C VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION verdict_session() IS
	'The session of this transaction with verdict.server: its id, its consistency, the revision it has observed (NULL for none), whether it has seen revisions that do not belong together, how many changes this transaction has sent, and how many wait for it to end. Errors: 55000 when no server is set; 55000 and 22023 when it cannot start from verdict.revision.';

CREATE FUNCTION verdict_new_session(session_id text DEFAULT NULL, consistency text DEFAULT NULL) RETURNS text
	AS 'MODULE_PATHNAME', 'verdict_sql_new_session'
	LANGUAGE C VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION verdict_new_session(text, text) IS
	'Starts a fresh session with verdict.server, without an observed revision, inside this transaction and returns its id: a new UUID, or the one given. The consistency is session unless given. Errors: 22023 for an id that is not 1 to 128 visible ASCII characters and for an unknown consistency; 55000 when no server is set.';

CREATE FUNCTION verdict_revision() RETURNS text
	AS 'MODULE_PATHNAME', 'verdict_sql_revision'
	LANGUAGE C VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION verdict_revision() IS
	'The revision that the session has observed, to be handed to another session as a whole and not to be taken apart; NULL when there is none. Errors: as verdict_session().';

CREATE FUNCTION verdict_observe(revision text) RETURNS void
	AS 'MODULE_PATHNAME', 'verdict_sql_observe'
	LANGUAGE C VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION verdict_observe(text) IS
	'Makes the session with verdict.server read nothing older than a revision of another session. Errors: 22004 for NULL; 22023 for a text that is no revision; 55000 for a revision of another history for a session that is inconsistent, and when no server is set.';

CREATE FUNCTION verdict_version() RETURNS text
	AS 'MODULE_PATHNAME', 'verdict_sql_version'
	LANGUAGE C STABLE PARALLEL SAFE;
COMMENT ON FUNCTION verdict_version() IS
	'The versions of this library and of the libcurl it runs with.';

-- end of Session

--
-- Statistics
--
-- In shared memory when the library was preloaded (shared_preload_libraries): of
-- all backends, kept until a restart, for the last 128 servers.  Else of this
-- backend alone.
--

CREATE FUNCTION verdict_stat_calls(OUT datid oid, OUT serverid oid, OUT server text,
		OUT method text, OUT calls bigint, OUT errors bigint,
		OUT canceled bigint, OUT unknown bigint, OUT invalid_argument bigint,
		OUT deadline_exceeded bigint, OUT not_found bigint, OUT already_exists bigint,
		OUT permission_denied bigint, OUT resource_exhausted bigint,
		OUT failed_precondition bigint, OUT aborted bigint, OUT out_of_range bigint,
		OUT unimplemented bigint, OUT internal bigint, OUT unavailable bigint,
		OUT data_loss bigint, OUT unauthenticated bigint,
		OUT attempts bigint, OUT sends bigint, OUT retries bigint, OUT waits_503 bigint,
		OUT budget_refusals bigint, OUT bytes_sent bigint, OUT bytes_received bigint,
		OUT total_time double precision, OUT time_histogram bigint[],
		OUT stats_reset timestamptz) RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'verdict_sql_stat_calls'
	LANGUAGE C VOLATILE PARALLEL RESTRICTED ROWS 20;
COMMENT ON FUNCTION verdict_stat_calls() IS
	'What the view verdict_stat_calls shows.';

CREATE VIEW verdict_stat_calls AS
	SELECT s.datid, d.datname, s.serverid, s.server, s.method, s.calls, s.errors,
		s.canceled, s.unknown, s.invalid_argument, s.deadline_exceeded, s.not_found,
		s.already_exists, s.permission_denied, s.resource_exhausted, s.failed_precondition,
		s.aborted, s.out_of_range, s.unimplemented, s.internal, s.unavailable, s.data_loss,
		s.unauthenticated, s.attempts, s.sends, s.retries, s.waits_503, s.budget_refusals,
		s.bytes_sent, s.bytes_received, s.total_time, s.time_histogram, s.stats_reset
	FROM verdict_stat_calls() s
		LEFT JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) s.datid;
COMMENT ON VIEW verdict_stat_calls IS
	'Calls of Verdict by server and method, of all databases: one row for each that was called. With the library preloaded, of all backends; else of this one. The code columns, from canceled to unauthenticated, count failed calls by Connect code and add up to errors.';
COMMENT ON COLUMN verdict_stat_calls.server IS 'Name of the foreign server when it was last used.';
COMMENT ON COLUMN verdict_stat_calls.calls IS 'Calls that have ended, however: each check of verdict_authorize_many() is one, and one that failed before anything was sent is one too.';
COMMENT ON COLUMN verdict_stat_calls.errors IS 'Those that failed.';
COMMENT ON COLUMN verdict_stat_calls.canceled IS 'Also those that ended because the statement was canceled, or because another call made together with them had failed.';
COMMENT ON COLUMN verdict_stat_calls.attempts IS 'Attempts at calls: a change has up to two, a read has one.';
COMMENT ON COLUMN verdict_stat_calls.sends IS 'Requests that left.';
COMMENT ON COLUMN verdict_stat_calls.retries IS 'How often a call was taken up again: second attempts, sends after an HTTP 503, and replacements of a kept connection that had died.';
COMMENT ON COLUMN verdict_stat_calls.waits_503 IS 'Those of the retries that waited first, after an HTTP 503.';
COMMENT ON COLUMN verdict_stat_calls.budget_refusals IS 'Calls that failed for want of a retry, because the retry budget of the server was spent.';
COMMENT ON COLUMN verdict_stat_calls.bytes_sent IS 'Bytes of request bodies, all sends together, without headers.';
COMMENT ON COLUMN verdict_stat_calls.bytes_received IS 'Bytes of answer bodies as they came, compressed ones as such, without headers.';
COMMENT ON COLUMN verdict_stat_calls.total_time IS 'Milliseconds from the begin of calls to their end, waits included.';
COMMENT ON COLUMN verdict_stat_calls.time_histogram IS 'Calls by duration, in 21 elements: the first counts those of less than 64 microseconds, the second those of less than 128 and so on, element n those of less than 2^(n+5) microseconds; the last has no upper bound and begins at 33.6 seconds.';
COMMENT ON COLUMN verdict_stat_calls.stats_reset IS 'Since when is counted: verdict_stat_reset(), or the start.';

CREATE FUNCTION verdict_stat_retry_budget(OUT datid oid, OUT serverid oid, OUT server text,
		OUT tokens double precision, OUT granted bigint, OUT refused bigint) RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'verdict_sql_stat_retry_budget'
	LANGUAGE C VOLATILE PARALLEL RESTRICTED ROWS 20;
COMMENT ON FUNCTION verdict_stat_retry_budget() IS
	'What the view verdict_stat_retry_budget shows.';

CREATE VIEW verdict_stat_retry_budget AS
	SELECT s.datid, d.datname, s.serverid, s.server, s.tokens, s.granted, s.refused
	FROM verdict_stat_retry_budget() s
		LEFT JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) s.datid;
COMMENT ON VIEW verdict_stat_retry_budget IS
	'The retry budget of each server that was used: a retry takes one token, after a time-out two; a call that succeeds at once brings a tenth. It starts with three and never holds more than a hundred. With the library preloaded it is one for all backends; else each has its own.';
COMMENT ON COLUMN verdict_stat_retry_budget.tokens IS 'What is left now.';
COMMENT ON COLUMN verdict_stat_retry_budget.granted IS 'Retries that were paid for.';
COMMENT ON COLUMN verdict_stat_retry_budget.refused IS 'Retries that there were not enough tokens for.';

CREATE FUNCTION verdict_stat_reset() RETURNS void
	AS 'MODULE_PATHNAME', 'verdict_sql_stat_reset'
	LANGUAGE C VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION verdict_stat_reset() IS
	'Forgets the statistics of all servers and databases; their retry budgets start again.';

REVOKE ALL ON FUNCTION verdict_stat_calls(), verdict_stat_retry_budget(), verdict_stat_reset() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION verdict_stat_calls(), verdict_stat_retry_budget() TO pg_monitor;
GRANT SELECT ON verdict_stat_calls, verdict_stat_retry_budget TO pg_monitor;

-- end of Statistics

--
-- Settings helpers
--

CREATE FUNCTION verdict_actor() RETURNS verdict_identity
	AS 'MODULE_PATHNAME', 'verdict_sql_actor'
	LANGUAGE C STABLE PARALLEL SAFE;
COMMENT ON FUNCTION verdict_actor() IS
	'The identity of the setting verdict.actor, for policies such as USING (verdict_authorize(verdict_actor(), ...)); NULL when it is not set. Errors: 22023 when it is no identity.';

-- end of Settings helpers
