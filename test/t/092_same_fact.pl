# Many sessions write one fact at the same time: all of them commit, in each mode,
# and nothing stays behind that could not be delivered.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VerdictDev;

my ($clients, $transactions) = (5, 201);
my $instance = VerdictDev->start(api_keys => ['same-key']);
my $node = PostgreSQL::Test::Cluster->new('same_fact');
$node->init;
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'verdict'\nfsync = off\n");
$node->start;

my $url = $instance->url;
$node->safe_psql('postgres', <<"END");
CREATE EXTENSION verdict;
CREATE SERVER main FOREIGN DATA WRAPPER verdict OPTIONS (instance_url '$url');
CREATE USER MAPPING FOR PUBLIC SERVER main OPTIONS (api_key 'same-key');
ALTER DATABASE postgres SET verdict.server = 'main';
END

# A table whose rows give the fact, so that whoever comes last in the database is
# known: its only row says whether the fact is to be there.
$node->safe_psql('postgres', q{CREATE TABLE fact (id integer PRIMARY KEY, there boolean); INSERT INTO fact VALUES (1, false)});
my $script = $node->basedir . '/change.sql';
append_to_file($script, <<'END');
BEGIN;
UPDATE fact SET there = NOT there WHERE id = 1 RETURNING there \gset
\if :there
SELECT verdict_insert_fact('viewer(User:alice, Document:1)');
\else
SELECT verdict_delete_fact('viewer(User:alice, Document:1)');
\endif
SELECT verdict_insert_fact('seen(User:alice)');
COMMIT;
END

for my $mode (qw(immediate deferred outbox))
{
	local $ENV{PGOPTIONS} = "-c verdict.mutation_mode=$mode";
	$node->command_checks_all(
		[ 'pgbench', '-n', '-c', $clients, '-j', 1, '-t', $transactions, '-f', $script, 'postgres' ],
		0, [qr{actually processed: (\d+)/\1\n}], [qr/^\s*\z|^pgbench[^\n]*\n\z/], "$mode: $clients clients write one fact");
	ok($node->poll_query_until('postgres', 'SELECT count(*) = 0 FROM verdict_outbox'), '... nothing stays in the outbox');
	is($node->safe_psql('postgres', q{SELECT string_agg(fact::text, ' ' ORDER BY fact) FROM verdict_list_facts() AS fact}),
		join(' ', 'seen(User:alice)', $node->safe_psql('postgres', 'SELECT there FROM fact') eq 't' ? 'viewer(User:alice, Document:1)' : ()),
		'... and the fact is as the last transaction left it');
	$node->safe_psql('postgres', 'SET verdict.mutation_mode = immediate; UPDATE fact SET there = false;'
		  . 'SELECT verdict_batch_facts(deletes => ARRAY(SELECT verdict_list_facts()))');
}

$node->stop;
done_testing();
