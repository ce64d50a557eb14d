-- The tables of the sample application and its connection to the instance.
-- Reads VERDICT_TEST_URL and VERDICT_TEST_KEY from the environment.
\set ON_ERROR_STOP on
\getenv instance_url VERDICT_TEST_URL
\getenv api_key VERDICT_TEST_KEY

CREATE EXTENSION verdict;
CREATE SERVER sample FOREIGN DATA WRAPPER verdict
	OPTIONS (instance_url :'instance_url');
CREATE USER MAPPING FOR PUBLIC SERVER sample OPTIONS (api_key :'api_key');
SELECT format('ALTER DATABASE %I SET verdict.server = %L', current_database(), 'sample') \gexec
SET verdict.server = 'sample';

CREATE TABLE person (id text PRIMARY KEY);
CREATE TABLE team (id text PRIMARY KEY);
CREATE TABLE member (
	person_id text REFERENCES person,
	team_id text REFERENCES team,
	PRIMARY KEY (person_id, team_id)
);
CREATE TABLE folder (
	id integer PRIMARY KEY,
	parent_id integer REFERENCES folder
);
CREATE TABLE document (
	id integer PRIMARY KEY,
	owner_id text NOT NULL REFERENCES person,
	folder_id integer REFERENCES folder,
	title text NOT NULL
);
