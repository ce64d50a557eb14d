# What the worker costs: no statement when there is nothing to do, and a bounded
# amount of memory whatever there is to do.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Outbox;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my ($node, $instance) = Outbox::start('idle', conf => <<'END');
shared_preload_libraries = 'pg_stat_statements, verdict'
pg_stat_statements.track = all
fsync = off
autovacuum = off
END
my $psql = sub { $node->safe_psql('postgres', join "\n", @_) };

$psql->(Outbox::grant('warm'));
ok(Outbox::drained($node), 'something is delivered');
my $worker = Outbox::worker($node);

sub resident
{
	open my $file, '<', "/proc/$worker/statm" or die "the worker is gone: $!";
	my (undef, $pages, $shared) = split ' ', <$file>;
	return ($pages - $shared) * 4;
}

SKIP:
{
	skip 'pg_stat_statements is not installed', 2
	  if ($node->psql('postgres', 'CREATE EXTENSION pg_stat_statements'))[0] != 0;
	sleep 0.5;
	my $calls = q{SELECT sum(calls) FROM pg_stat_statements WHERE query LIKE '%verdict_outbox%' AND query NOT LIKE '%pg_stat_statements%'};
	my $transactions = q{SELECT pg_stat_force_next_flush(); SELECT xact_commit FROM pg_stat_database WHERE datname = 'postgres'};
	my $before = $psql->($calls);
	my $wakeups = context_switches();
	sleep 5;
	is($psql->($calls), $before, 'an idle worker runs no statement');
	cmp_ok(context_switches() - $wakeups, '<=', 2, '... and does not even wake');
}

sub context_switches
{
	open my $file, '<', "/proc/$worker/status" or die "the worker is gone: $!";
	local $/;
	my ($count) = <$file> =~ /^voluntary_ctxt_switches:\s*(\d+)/m;
	return $count;
}

# Many batches, written as a user's transactions would: one each.
sub queue
{
	my ($count) = @_;
	my $script = PostgreSQL::Test::Utils::tempdir() . '/script';
	open my $file, '>', $script or die $!;
	print $file "SELECT verdict_insert_fact('viewer', verdict_identity('User', (random() * 1000)::int), verdict_identity('Document', 1));\n";
	close $file;
	my $each = $count / 4;
	$node->command_ok([ 'pgbench', '-n', '-c', '4', '-j', '1', '-t', $each, '-f', $script, $node->connstr('postgres') ], "$count transactions");
	return;
}

my $batches = $ENV{VERDICT_BATCHES} || 4000;
queue(1000);
ok(Outbox::drained($node), 'the first batches are delivered');
sleep 0.3;
my $before = resident();
my $start = time;
queue($batches);
ok(Outbox::wait_until(sub { $psql->('SELECT count(*) FROM verdict_outbox') eq '0' }, 300), 'and all the others');
note sprintf '%.0f batches a second', $batches / (time - $start);
my $grown = resident() - $before;
cmp_ok($grown, '<', 1024, "the worker has not grown ($grown kB)");
is(Outbox::worker($node), $worker, '... and is still the same');

# The same while everything fails.
$instance->fault('*', { kind => 'error', code => 'invalid_argument' }, times => -1);
$before = resident();
queue(1000);
ok(Outbox::wait_until(sub { $psql->('SELECT count(*) FROM verdict_outbox WHERE parked_at IS NULL') eq '0' }, 60), 'a thousand are refused');
$grown = resident() - $before;
cmp_ok($grown, '<', 1024, "... nor by failures ($grown kB)");
is($psql->('SELECT parked_batches FROM verdict_stat_outbox'), '1000', '... and parked');
$instance->clear_faults;
$psql->('SELECT verdict_outbox_resend(id) FROM verdict_outbox');
ok(Outbox::wait_until(sub { $psql->('SELECT count(*) FROM verdict_outbox') eq '0' }, 60), '... and delivered when told to');

# A pile of batches for an instance that is down leaves others their way.
$psql->("CREATE SERVER dead FOREIGN DATA WRAPPER verdict OPTIONS (instance_url 'http://127.0.0.1:1');",
	'CREATE USER MAPPING FOR PUBLIC SERVER dead;', "ALTER DATABASE postgres SET verdict.server = 'dead';");
queue(3000);
$start = time;
$psql->('SET verdict.server = main;', Outbox::grant('quick'));
ok(Outbox::wait_until(sub { Outbox::viewers($instance) =~ /quick/ }), 'behind 3,000 batches that cannot be sent');
cmp_ok(time - $start, '<', 5, '... another server\'s is not late');
# By an index: what that session has read may be counted after it has ended.
is($psql->('SET enable_seqscan = off; SELECT count(*) FROM verdict_outbox'), '3000', '... and they stay');

# Once they can be sent, a look costs what it takes along, not what is left: nobody
# sorts the pile for each thousand, whatever the planner knows of the table.
my $read = q{SELECT pg_stat_force_next_flush(); SELECT seq_tup_read FROM pg_stat_user_tables WHERE relname = 'verdict_outbox'};
$before = $psql->($read);
$psql->("ALTER SERVER dead OPTIONS (SET instance_url '" . $instance->url . "');",
	"ALTER USER MAPPING FOR PUBLIC SERVER dead OPTIONS (ADD api_key 'outbox-key');");
ok(Outbox::wait_until(sub { $psql->('SET enable_seqscan = off; SELECT count(*) FROM verdict_outbox') eq '0' }, 60),
	'when they can, they are');
sleep 0.5;
$read = $psql->($read) - $before;
cmp_ok($read, '<', 3000, "... with $read rows read out of order");

$node->stop;
done_testing();
