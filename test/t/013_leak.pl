# Memory and descriptors of a backend stay flat, whatever becomes of its calls.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VerdictDev;

my $calls = 100_000;
my $failures = 10_000;

my $instance = VerdictDev->start(api_keys => ['leak-key']);
my $node = PostgreSQL::Test::Cluster->new('leak');
$node->init;
$node->append_conf('postgresql.conf', 'verdict.mutation_mode = immediate');
# The bench of the server itself is not of interest.
$node->append_conf('postgresql.conf', "fsync = off\njit = off\n");
$node->start;
my $url = $instance->url;
$node->safe_psql('postgres', <<"END");
CREATE EXTENSION verdict;
CREATE SERVER main FOREIGN DATA WRAPPER verdict OPTIONS (instance_url '$url', retry_owner 'none');
CREATE USER MAPPING FOR PUBLIC SERVER main OPTIONS (api_key 'leak-key');
CREATE SERVER nobody FOREIGN DATA WRAPPER verdict OPTIONS (instance_url 'http://127.0.0.1:1', retry_owner 'none');
CREATE USER MAPPING FOR PUBLIC SERVER nobody OPTIONS (api_key 'leak-key');
ALTER DATABASE postgres SET verdict.server = 'main';

-- Resident memory in kB, descriptors, and the server's own memory contexts.
CREATE FUNCTION measure(OUT resident bigint, OUT descriptors bigint, OUT contexts bigint) LANGUAGE sql VOLATILE AS \$\$
	SELECT (regexp_match(pg_read_file('/proc/self/status'), 'VmRSS:\\s+(\\d+)'))[1]::bigint,
		(SELECT count(*) FROM pg_ls_dir('/proc/self/fd')),
		(SELECT sum(total_bytes) FROM pg_backend_memory_contexts)
\$\$;

CREATE PROCEDURE good(n integer) LANGUAGE plpgsql AS \$\$
BEGIN
	FOR i IN 1 .. n LOOP
		PERFORM verdict_authorize('User:a', 'read', 'Document:1');
	END LOOP;
END \$\$;

-- Each call fails in a block of its own.
CREATE PROCEDURE bad(n integer, statement text) LANGUAGE plpgsql AS \$\$
DECLARE
	failed integer := 0;
BEGIN
	FOR i IN 1 .. n LOOP
		BEGIN
			EXECUTE statement;
		EXCEPTION WHEN OTHERS THEN
			failed := failed + 1;
		END;
	END LOOP;
	IF failed <> n THEN
		RAISE EXCEPTION '% of % calls failed', failed, n;
	END IF;
END \$\$;
END

# Runs a statement after a warm-up of the same kind, in one session.
sub flat
{
	my ($name, $warm, $statement) = @_;
	my ($status, $out, $err) = $node->psql('postgres',
		"$warm;\n$warm;\nSELECT * FROM measure() \\gset before_\n$statement;\nSELECT * FROM measure() \\gset after_\n"
		  . '\echo :before_resident :after_resident :before_descriptors :after_descriptors :before_contexts :after_contexts',
		timeout => 600);
	is($err, '', "$name: runs");
	my ($resident, $later, $descriptors, $descriptors_later, $contexts, $contexts_later) = split ' ', $out;
	note "$name: $resident -> $later kB, $descriptors -> $descriptors_later descriptors, $contexts -> $contexts_later bytes of contexts";
	cmp_ok($later - $resident, '<', 1024, "$name: memory grows by less than 1 MB");
	is($descriptors_later, $descriptors, "$name: descriptors stay");
	cmp_ok($contexts_later - $contexts, '<', 256 * 1024, "$name: memory contexts stay");
}

flat("$calls calls", 'CALL good(2000)', "CALL good($calls)");

# Answers that fail in different ways, round and round.
my @faults = (
	{ kind => 'error', code => 'internal', message => 'x' },
	{ kind => 'close' },
	{ kind => 'cut' },
	{ kind => 'body', hex => 'ffffff' },
	{ kind => 'content_type', value => 'text/plain' });
for my $fault (@faults)
{
	$instance->fault('Authorize', $fault, times => -1);
	my $n = $failures / @faults;
	my $statement = q{SELECT verdict_authorize(''User:a'', ''read'', ''Document:1'')};
	flat("$n failing calls ($fault->{kind})", "CALL bad(200, '$statement')", "CALL bad($n, '$statement')");
	$instance->clear_faults;
}

# Nobody listens; a statement that is refused before anything is sent; a result
# set that is left in the middle.
flat('1000 calls without an instance',
	q{SET verdict.server = 'nobody'; CALL bad(100, 'SELECT verdict_authorize(''User:a'', ''read'', ''Document:1'')')},
	q{CALL bad(1000, 'SELECT verdict_authorize(''User:a'', ''read'', ''Document:1'')')});
flat('5000 malformed facts',
	q{CALL bad(500, 'SELECT verdict_insert_fact(''f('')')}, q{CALL bad(5000, 'SELECT verdict_insert_fact(''f('')')});
$node->safe_psql('postgres',
	q{SELECT verdict_batch_facts((SELECT array_agg(verdict_fact('n', n)) FROM generate_series(1, 500) AS n))});
flat('500 result sets that are left',
	q{CALL bad(50, 'SELECT 1 / (row_number() OVER () - 100) FROM verdict_query(''n(?n)'') AS (n integer)')},
	q{CALL bad(500, 'SELECT 1 / (row_number() OVER () - 100) FROM verdict_query(''n(?n)'') AS (n integer)')});
flat('500 result sets of the wrong type',
	q{CALL bad(50, 'SELECT * FROM verdict_query(''n(?n)'') AS (n boolean)')},
	q{CALL bad(500, 'SELECT * FROM verdict_query(''n(?n)'') AS (n boolean)')});

# Facts compared with a query, repaired each time, and when the query fails or has
# too few columns for what is listed.
my $reconcile = q{DO $$ BEGIN FOR i IN 1 .. %d LOOP
	PERFORM FROM verdict_reconcile_facts('n', 'SELECT generate_series(' || i % 100 || ', 500)', true); COMMIT; END LOOP; END $$};
flat('300 repairs', sprintf($reconcile, 50), sprintf($reconcile, 300));
for my $columns ('1 / (500 - generate_series(1, 500))', '1, 2')
{
	my $statement = "SELECT * FROM verdict_reconcile_facts(''n'', ''SELECT $columns'')";
	flat("300 comparisons that fail ($columns)", "CALL bad(50, '$statement')", "CALL bad(300, '$statement')");
}

# The server's settings change: connections are made and dropped.
flat('300 changes of the user mapping',
	q{DO $$ BEGIN FOR i IN 1 .. 30 LOOP ALTER USER MAPPING FOR PUBLIC SERVER main OPTIONS (SET api_key 'leak-key'); COMMIT; PERFORM verdict_authorize('User:a', 'read', 'Document:1'); END LOOP; END $$},
	q{DO $$ BEGIN FOR i IN 1 .. 300 LOOP ALTER USER MAPPING FOR PUBLIC SERVER main OPTIONS (SET api_key 'leak-key'); COMMIT; PERFORM verdict_authorize('User:a', 'read', 'Document:1'); END LOOP; END $$});

$node->stop;
done_testing();
