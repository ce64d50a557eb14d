# Backends, the worker and the postmaster are killed at random points under
# concurrent load.  Afterwards the instance holds what the committed transactions
# say: with the outbox exactly that, in deferred mode at least that.
#
# VERDICT_KILLS is how often (60), VERDICT_SEED what the random numbers start from.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../t/lib";

use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PsqlSession;
use Test::More;
use Time::HiRes qw(sleep time);
use VerdictDev;

my $kills = $ENV{VERDICT_KILLS} || 60;
my $seed = $ENV{VERDICT_SEED} || int rand 1_000_000;
my $clients = 6;
my $rows = 150;
note("seed $seed, $kills kills");

my $instance = VerdictDev->start(api_keys => ['kills-key']);
my $node = PostgreSQL::Test::Cluster->new('kills');
$node->init;
$node->append_conf('postgresql.conf', <<'END');
shared_preload_libraries = 'verdict'
restart_after_crash = on
log_statement = none
fsync = off
max_wal_size = 4GB
log_min_messages = warning
END
$node->start;
my $url = $instance->url;
$node->safe_psql('postgres', <<"END");
CREATE EXTENSION verdict;
CREATE SERVER main FOREIGN DATA WRAPPER verdict OPTIONS (instance_url '$url', batch_size '7');
CREATE USER MAPPING FOR PUBLIC SERVER main OPTIONS (api_key 'kills-key');
ALTER DATABASE postgres SET verdict.server = 'main';
CREATE TABLE document (id integer PRIMARY KEY, owner text NOT NULL);
CREATE TRIGGER emit AFTER INSERT OR UPDATE OR DELETE ON document FOR EACH ROW
	EXECUTE FUNCTION verdict_emit_fact('is_owner', 'User:{owner}', 'Document:{id}');
CREATE TABLE share (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, reader text NOT NULL);
CREATE TRIGGER emit AFTER INSERT ON share FOR EACH ROW
	EXECUTE FUNCTION verdict_emit_fact('viewer', 'User:{reader}', 'Share:{id}');
END

# One transaction of a client, as text.
sub outbox_work
{
	my $id = 1 + int rand $rows;
	my $owner = 'u' . int rand 5;
	my $kind = int rand 10;
	my $end = rand() < 0.8 ? 'COMMIT' : 'ROLLBACK';
	my @steps = ("SET LOCAL verdict.mutation_mode = outbox");

	push @steps, "INSERT INTO document VALUES ($id, '$owner') ON CONFLICT (id) DO UPDATE SET owner = excluded.owner"
	  if $kind < 5;
	push @steps, "DELETE FROM document WHERE id = $id" if $kind == 5 || $kind == 6;
	push @steps, "UPDATE document SET owner = '$owner' WHERE id BETWEEN $id AND $id + 20" if $kind == 7;
	push @steps, "SAVEPOINT s", "DELETE FROM document WHERE id < $id", "ROLLBACK TO s",
	  "DELETE FROM document WHERE id = $id"
	  if $kind == 8;
	push @steps, "SAVEPOINT s", "INSERT INTO document VALUES ($id, '$owner') ON CONFLICT DO NOTHING", "RELEASE s"
	  if $kind == 9;
	return join '; ', 'BEGIN', @steps, $end;
}

sub deferred_work
{
	my $reader = 'u' . int rand 5;
	my $end = rand() < 0.8 ? 'COMMIT' : 'ROLLBACK';
	return "BEGIN; INSERT INTO share (reader) SELECT '$reader' FROM generate_series(1, 1 + (random() * 10)::int); $end";
}

# A client that works until it is told to stop, whatever happens to its backend.
sub client
{
	my ($number) = @_;
	my $parent = $$;
	my $pid = fork;
	die "fork: $!" unless defined $pid;
	return $pid if $pid;

	my $stop = 0;
	local $SIG{TERM} = sub { $stop = 1 };
	local $SIG{PIPE} = 'IGNORE';
	open STDERR, '>', '/dev/null';
	srand($seed + $number);
	my $session;
	until ($stop)
	{
		eval {
			$session ||= PsqlSession->new($node, 'postgres', "SET client_min_messages = error; SET deadlock_timeout = '50ms'");
			my (undef, $state) = $session->ask($number % 3 ? outbox_work() : deferred_work());
			$session->ask('ROLLBACK') if $state ne '00000';
			# The worker is killed all the time, and has to come after.
			sleep 0.01 + rand 0.04;
			1;
		} or do {
			kill 'KILL', $session->{pid} if $session;
			waitpid $session->{pid}, 0 if $session;
			$session = undef;
			sleep 0.05;
			$stop = 1 if getppid() != $parent;
		};
	}
	POSIX::_exit(0);
}

sub processes
{
	my ($pattern) = @_;
	my ($status, $out) = $node->psql('postgres',
		"SELECT pid FROM pg_stat_activity WHERE $pattern AND pid <> pg_backend_pid()", timeout => 20);
	return defined $status && $status == 0 ? grep { /^\d+$/ } split /\n/, $out : ();
}

sub up
{
	for (1 .. 600)
	{
		my ($status, $out) = eval { $node->psql('postgres', 'SELECT 1', timeout => 20) };
		return if defined $status && $status == 0;
		sleep 0.05;
	}
	BAIL_OUT('the cluster does not come back');
}

srand $seed;
my @workers = map { client($_) } 1 .. $clients;
my %killed = (backend => 0, worker => 0, postmaster => 0);
my $done = 0;
while ($done < $kills)
{
	sleep rand 0.5;
	my $dice = rand;
	if ($dice < 0.15)
	{
		# Its children notice, and then it is started as an operator would.
		my ($pid) = slurp_file($node->data_dir . '/postmaster.pid') =~ /^(\d+)/;
		kill 'KILL', $pid;
		$node->{_pid} = undef;
		for (1 .. 400)
		{
			last unless `pgrep -f '^postgres: kills' 2>/dev/null` =~ /\d/;
			sleep 0.02;
		}
		# A process that nobody has waited for still has its number.
		unlink $node->data_dir . '/postmaster.pid';
		my $started;
		for (1 .. 100)
		{
			last if $started = $node->start(fail_ok => 1);
			sleep 0.1;
		}
		BAIL_OUT('the postmaster does not start again') unless $started;
		$killed{postmaster}++;
		$done++;
	}
	else
	{
		my $what = $dice < 0.5 ? 'worker' : 'backend';
		my @pids = processes($what eq 'worker' ? "backend_type LIKE 'verdict%worker%'" : "backend_type = 'client backend'");
		next unless @pids;
		next unless kill 'KILL', $pids[ rand @pids ];
		$killed{$what}++;
		$done++;
	}
	up();
}
note(join ', ', map { "$killed{$_} of $_" } sort keys %killed);
kill 'TERM', @workers;
waitpid $_, 0 for @workers;
up();

ok($killed{backend} && $killed{worker}, 'backends and workers were killed');

# The worker needs no push.
my $left = $node->safe_psql('postgres', 'SELECT count(*) FROM verdict_outbox');
note("$left batches wait");
my $before = $left + 1;
while ($left != 0 && $left < $before)
{
	$before = $left;
	for (1 .. 300)
	{
		$left = $node->safe_psql('postgres', 'SELECT count(*) FROM verdict_outbox');
		last if $left == 0;
		sleep 0.1;
	}
}
is($left, '0', 'everything was delivered')
  or diag($node->safe_psql('postgres', 'SELECT * FROM verdict_outbox_status LIMIT 5'));

my $compare = q{
	WITH held AS (SELECT f::text AS fact FROM verdict_list_facts('%s') f), due AS (%s)
	SELECT (SELECT count(*) FROM due), (SELECT count(*) FROM (TABLE due EXCEPT TABLE held) lost),
		(SELECT count(*) FROM (TABLE held EXCEPT TABLE due) invented)};
my ($due, $lost, $invented) = split /\|/, $node->safe_psql('postgres', sprintf $compare, 'is_owner(_, _)',
	q{SELECT verdict_fact('is_owner', verdict_identity('User', owner), verdict_identity('Document', id))::text FROM document});
cmp_ok($due, '>', 0, "outbox: there are facts ($due)");
is($lost, '0', 'none is lost');
is($invented, '0', 'none is invented');

($due, $lost) = split /\|/, $node->safe_psql('postgres', sprintf $compare, 'viewer(_, _)',
	q{SELECT verdict_fact('viewer', verdict_identity('User', reader), verdict_identity('Share', id))::text FROM share});
cmp_ok($due, '>', 0, "deferred: there are facts ($due)");
is($lost, '0', 'those of every committed transaction are there');

$node->stop;
done_testing();
