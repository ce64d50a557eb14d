# Batches that were committed are sent after every kind of crash, without anything
# new happening, and under the key they had before.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Outbox;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my ($node, $instance) = Outbox::start('crash', conf => "restart_after_crash = on\n");
my $psql = sub { $node->safe_psql('postgres', join "\n", @_) };

my $executions;

# Commits a batch of two facts, waits until the instance has got and applied it,
# and leaves the worker inside that call, which takes long to be answered.
sub make_busy
{
	my ($name) = @_;

	$instance->clear_log;
	$executions = $instance->counts->{BatchFacts}{executions};
	$instance->fault('BatchFacts', { kind => 'stall', ms => 4000, when => 'after' });
	$psql->('BEGIN;', Outbox::grant("${name}1"), Outbox::grant("${name}2"), 'COMMIT;');
	Outbox::wait_until(sub { Outbox::viewers($instance) =~ /${name}2/ }) or die 'nothing came';
	return;
}

# The batch is delivered by itself, with one key, and applied once.
sub delivered_once
{
	my ($how) = @_;
	my %keys;

	ok(Outbox::wait_until(sub { grep { $_->{replayed} } Outbox::mutations($instance) }),
		"$how: sent again without anything new");
	ok(Outbox::drained($node), '... until it is answered');
	$keys{$_}++ for Outbox::keys_sent($instance);
	is(scalar keys %keys, 1, '... under one key');
	Outbox::wait_until(sub { $instance->counts->{BatchFacts}{executions} > $executions }, 6);
	is($instance->counts->{BatchFacts}{executions} - $executions, 1, '... and applied once');
	return;
}

make_busy('immediate');
$node->stop('immediate');
$node->start;
delivered_once('pg_ctl stop -m immediate');

make_busy('worker');
my $worker = Outbox::worker($node);
kill 'KILL', $worker;
Outbox::wait_until(sub { ($node->psql('postgres', 'SELECT 1'))[0] == 0 });
delivered_once('kill -9 of the worker');

make_busy('backend');
my $pid = $psql->(q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'});
kill 'KILL', $pid;
Outbox::wait_until(sub { ($node->psql('postgres', 'SELECT 1'))[0] == 0 });
delivered_once('kill -9 of another process');

make_busy('postmaster');
$worker = Outbox::worker($node);
open my $file, '<', $node->data_dir . '/postmaster.pid' or die $!;
my $postmaster = <$file>;
chomp $postmaster;
kill 'KILL', $postmaster;
my $start = time;
# Whether the process runs; what only waits to be collected does not.
sub runs
{
	my ($process) = @_;
	open my $stat, '<', "/proc/$process/stat" or return 0;
	return <$stat> !~ /\) [ZX] /;
}

ok(Outbox::wait_until(sub { !runs($worker) }, 5), 'kill -9 of the postmaster: the worker ends');
cmp_ok(time - $start, '<', 1, '... within a second, inside its call');
# What it has left behind has to be gone before another one can start.
Outbox::wait_until(sub { undef $node->{_pid}; $node->start(fail_ok => 1) }) or die 'it does not start';
delivered_once('kill -9 of the postmaster');

# Asynchronous commits are not sent before they are safe: what the instance has is
# what the database has, also when the last commits are lost.
$node->append_conf('postgresql.conf', "wal_writer_delay = '10s'\nwal_writer_flush_after = '1GB'\n");
$node->reload;
$psql->('CREATE TABLE done (name text)');
my $count = sub { scalar(() = Outbox::viewers($instance) =~ /async/g) };
$psql->('SET synchronous_commit = off;',
	map { ("BEGIN; INSERT INTO done VALUES ('async$_');", Outbox::grant("async$_"), 'COMMIT;') } 1 .. 20);
Outbox::wait_until(sub { $count->() > 0 }, 5);
$node->stop('immediate');
$node->start;
ok(Outbox::drained($node), 'after a crash with asynchronous commits');
is(join(' ', grep { /async/ } split ' ', Outbox::viewers($instance)),
	$psql->(q{SELECT string_agg(name, ' ' ORDER BY name COLLATE "C") FROM done}), '... the instance has what the database has');

$node->stop;
done_testing();
