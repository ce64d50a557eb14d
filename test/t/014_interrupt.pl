# What else a server asks of a backend is done while it waits for an instance:
# barriers, reports, a conflict with recovery, a client that has gone.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);
use VerdictDev;

my $instance = VerdictDev->start(api_keys => ['interrupt-key']);
my $node = PostgreSQL::Test::Cluster->new('primary');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', 'verdict.mutation_mode = immediate');
$node->append_conf('postgresql.conf', "client_connection_check_interval = 100ms\n");
$node->start;
my $url = $instance->url;
# Before 17 an extension has no name of its own for it.
my $wait_event = $node->pg_version >= 17 ? 'VerdictCall' : 'Extension';
$node->safe_psql('postgres', <<"END");
CREATE EXTENSION verdict;
CREATE SERVER main FOREIGN DATA WRAPPER verdict OPTIONS (instance_url '$url', read_timeout_ms '55000', retry_owner 'none');
CREATE USER MAPPING FOR PUBLIC SERVER main OPTIONS (api_key 'interrupt-key');
ALTER DATABASE postgres SET verdict.server = 'main';
CREATE TABLE seen AS SELECT 1 AS a;
END

my $check = q{SELECT verdict_authorize('User:a', 'read', 'Document:1');};

# A session that is in the middle of a call; "$before" runs first.
sub waiting
{
	my ($where, $before) = @_;
	my %session = (in => "\\set VERBOSITY verbose\n$before\nSELECT 'pid ' || pg_backend_pid();\n$check\n", out => '', err => '');
	$instance->fault('Authorize', { kind => 'stall', ms => 50000 });
	$session{run} = IPC::Run::start([ 'psql', '-XAtq', '-d', $where->connstr('postgres'), '-f', '-' ],
		'<', \$session{in}, '>', \$session{out}, '2>', \$session{err}, IPC::Run::timeout(120));
	$session{run}->pump until $session{out} =~ /^pid (\d+)$/m;
	($session{pid}) = $session{out} =~ /^pid (\d+)$/m;
	$where->poll_query_until('postgres',
		"SELECT state = 'active' AND wait_event = '$wait_event' FROM pg_stat_activity WHERE pid = $session{pid}")
	  or die "the call does not wait: $session{out} $session{err}";
	return \%session;
}

# DROP DATABASE waits until every backend has answered a barrier.
my $session = waiting($node, '');
my $started = time;
$node->safe_psql('postgres', 'CREATE DATABASE short_lived');
$node->safe_psql('postgres', 'DROP DATABASE short_lived');
cmp_ok(time - $started, '<', 5, 'DROP DATABASE does not wait for a call');

# So does a report of memory, which goes to the log.
my $place = -s $node->logfile;
is($node->safe_psql('postgres', "SELECT pg_log_backend_memory_contexts($session->{pid})"), 't', 'a report of memory is asked for');
my $reported;
for (1 .. 100)
{
	$reported = slurp_file($node->logfile, $place) =~ /logging memory contexts of PID $session->{pid}/;
	last if $reported;
	sleep 0.05;
}
ok($reported, 'and written during the call');

# Neither has disturbed the call, which still can be ended.
is($node->safe_psql('postgres', "SELECT state FROM pg_stat_activity WHERE pid = $session->{pid}"), 'active', 'the call goes on');

# The client goes away: the backend notices and ends.
$session->{run}->signal('KILL');
$started = time;
ok($node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $session->{pid}"),
	'a backend whose client has gone ends');
cmp_ok(time - $started, '<', 10, 'soon');
$session->{run}->finish;
$instance->clear_faults;
is($node->safe_psql('postgres', $check), 'f', 'the server goes on');

# On a standby a call gives way to recovery.
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', "max_standby_streaming_delay = 100ms\n");
$standby->start;
$session = waiting($standby, "BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT a FROM seen;");
$node->safe_psql('postgres', 'DROP TABLE seen');
$started = time;
$session->{in} .= "ROLLBACK;\nSET verdict.consistency = 'eventual';\n$check\nSELECT 'over';\n";
$session->{run}->pump until $session->{out} =~ /^over$/m || $session->{err} =~ /FATAL/;
cmp_ok(time - $started, '<', 10, 'a conflict with recovery ends a call');
like($session->{err}, qr/ERROR:  40001: canceling statement due to conflict with recovery/, 'with the words of the server');
like($session->{out}, qr/^f\nover$/m, 'and the next call works');
$session->{run}->finish;
$instance->clear_faults;

# Fast shutdown does not wait for a call either.
$session = waiting($node, '');
$started = time;
$node->stop('fast');
cmp_ok(time - $started, '<', 10, 'a fast shutdown ends a call');
$session->{run}->finish;
like($session->{err}, qr/57P01/, 'with the words of the server');
$standby->stop;

done_testing();
