# The test of t/090_ledger.pl and long/090_ledger.pl, in a size that they give.
package LedgerTest;

use strict;
use warnings;

use LedgerLoad;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VerdictDev;

# The size as LedgerLoad::run() has it, for each of three isolation levels.
sub run
{
	my (%size) = @_;
	my $instance = VerdictDev->start(api_keys => ['ledger-key']);
	my $node = PostgreSQL::Test::Cluster->new('ledger');
	my $folder = PostgreSQL::Test::Utils::tempdir();
	my $effects = 0;
	my $terminated = 0;

	$node->init;
	# A crash of the server is part of the test, one of the machine is not.
	$node->append_conf('postgresql.conf', <<'END');
shared_preload_libraries = 'verdict'
restart_after_crash = on
fsync = off
max_connections = 64
END
	$node->start;
	my $url = $instance->url;
	$node->safe_psql('postgres', <<"END");
CREATE EXTENSION verdict;
CREATE SERVER main FOREIGN DATA WRAPPER verdict OPTIONS (instance_url '$url');
CREATE USER MAPPING FOR PUBLIC SERVER main OPTIONS (api_key 'ledger-key');
ALTER DATABASE postgres SET verdict.server = 'main';
END

	for my $level ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE')
	{
		my $name = lc $level =~ tr/ /_/r;
		my $met = LedgerLoad::run($node, %size, level => $level, name => $name, folder => $folder);
		my %states = %{ $met->{states} };

		note "$level: ", join ', ', (map { "$_ $states{$_} times" } sort keys %states),
		  map { "$_ $met->{$_}" } qw(rollbacks lost terminated crashes);
		is($states{'00000'}, $size{keys} * $size{duplicates}, "$level: every operation has committed");
		delete $states{'00000'};
		delete $states{'40001'} if $level ne 'READ COMMITTED';
		is_deeply(\%states, {}, '... and no client met an error that it need not expect');
		cmp_ok($met->{rollbacks}, '>', 0, '... though there were rollbacks');
		is($met->{crashes}, $size{crashes}, '... and crashes');
		$terminated += $met->{terminated};

		ok($node->poll_query_until('postgres', 'SELECT count(*) = 0 FROM verdict_outbox'), '... all is delivered');
		my $executed = 0;
		my $counts = $instance->counts;
		$executed += $counts->{$_}{executions} for qw(InsertFact DeleteFact BatchFacts SetPolicy);
		is($executed - $effects, $size{keys}, "... and $size{keys} changes were made");
		$effects = $executed;
		is($node->safe_psql('postgres',
				"SELECT count(*), count(DISTINCT n), min(n), max(n) FROM verdict_query('$name(?n)') AS (n integer)"),
			join('|', $size{keys}, $size{keys}, 0, $size{keys} - 1), '... one for each key');
		is($node->safe_psql('postgres', 'SELECT count(*), count(*) FILTER (WHERE changed = 1) FROM verdict_ledger'),
			"$size{keys}|$size{keys}", '... and its answer stands in the ledger');
		$node->safe_psql('postgres', 'DELETE FROM verdict_ledger');
	}

	cmp_ok($terminated, '>', 0, 'backends were terminated, too');

	$node->stop;
	is($instance->stop, 0, 'the instance ends well');
	done_testing();
}

1;
