# What COMMIT can wait for, and sessions that start from what the database has
# committed.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Outbox;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PsqlSession;
use Test::More;
use Time::HiRes qw(sleep time);

my ($node, $instance) = Outbox::start('scope', instance => { args => [ '--replicas', '2', '--lag', '400' ] }, conf => "max_prepared_transactions = 50\n");
Outbox::set_policy($instance);

my $writer = PsqlSession->new($node, 'postgres');
my $reader = PsqlSession->new($node, 'postgres');
my $check = $Outbox::check;
my @viewer = @Outbox::viewer;

sub slow
{
	my ($ms) = @_;
	$instance->clear_faults;
	$instance->fault('BatchFacts', { kind => 'stall', ms => $ms, when => 'before' }, times => -1) if $ms;
}

# Runs the code and returns how long it took.
sub seconds
{
	my $start = time;
	$_[0]->();
	return time - $start;
}

# ----------------------------------------------------------- verdict.commit_wait

my $committed = sub { $writer->must('SHOW verdict.committed_revision') };
$writer->must("SET verdict.commit_wait = '5s'");
slow(300);
my $took = seconds(sub { $writer->must(Outbox::grant('bob')) });
cmp_ok($took, '>=', 0.3, 'COMMIT waits for the answer');
cmp_ok($took, '<', 4, '... and no longer');
is(Outbox::viewers($instance), 'bob', '... which is there');
like($committed->(), qr/^v1\./, '... and its revision is known') if $instance->call('GetPolicy', {})->{headers}{'verdict-revision'};
is($node->safe_psql('postgres', 'SELECT count(*) FROM verdict_outbox'), '0', '... and the row is gone');

slow(1000);
$writer->must("SET verdict.commit_wait = '200ms'");
$took = seconds(sub { $writer->must(Outbox::grant('carol')) });
cmp_ok($took, '>=', 0.2, 'a bounded wait');
cmp_ok($took, '<', 0.9, '... is over in time');
is($committed->(), '', '... and COMMIT says that it does not know');
ok(Outbox::drained($node), '... but the batch is delivered');

slow(0);
$writer->must("SET verdict.commit_wait = '10s'");
$instance->fault('BatchFacts', { kind => 'error', code => 'invalid_argument' });
$took = seconds(sub { $writer->must(Outbox::grant('dave')) });
cmp_ok($took, '<', 5, 'a refusal ends the wait');
is($committed->(), '', '... without a revision');
$node->safe_psql('postgres', 'SELECT verdict_outbox_drop(id) FROM verdict_outbox');

$took = seconds(sub { $writer->must('BEGIN; ' . Outbox::grant('erin') . ' ROLLBACK; SELECT 1') });
cmp_ok($took, '<', 2, 'ROLLBACK does not wait');
$took = seconds(sub { $writer->must('CREATE TEMP TABLE t (a integer); DROP TABLE t') });
cmp_ok($took, '<', 2, '... nor does a transaction without changes');

# A cancel ends the wait, and the transaction stays committed.
slow(5000);
my $pid = $writer->must('SELECT pg_backend_pid()');
my $child = fork;
if ($child == 0)
{
	sleep 0.7;
	$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
	POSIX::_exit(0);
}
$took = seconds(sub { $writer->must('BEGIN; ' . Outbox::grant('frank') . ' COMMIT') });
waitpid $child, 0;
cmp_ok($took, '<', 4, 'a cancel ends the wait');
slow(0);
ok(Outbox::drained($node), '... and the batch is delivered all the same');
like(Outbox::viewers($instance), qr/frank/, '... to the instance');
$writer->must('SELECT 1; RESET verdict.commit_wait');

# -------------------------------------------------------- verdict.session_scope

sub rounds { return Outbox::revoke_and_ask($node, $instance, $writer, $reader, $_[0]) }

slow(300);
$reader->must('SET verdict.session_scope = database');
is(rounds(20), 0, 'what was revoked and committed here is never allowed later, on any connection');
$reader->must('SET verdict.session_scope = transaction');
my $missed = 0;
for (1 .. 20) { last if $missed += rounds(1) }
cmp_ok($missed, '>', 0, '... without that it is: the test can fail');
$reader->must('SET verdict.session_scope = database');

# Nothing outstanding: no wait, and no look at the table.
my $scans = q{SELECT coalesce(seq_scan, 0) + coalesce(idx_scan, 0) FROM pg_stat_user_tables WHERE relname = 'verdict_outbox'};
sub is_known_empty
{
	my ($name) = @_;
	return ok(Outbox::wait_until(sub {
		my $before = $reader->must("SELECT pg_stat_force_next_flush(); $scans");
		$reader->must($check) for 1 .. 20;
		return $reader->must("SELECT pg_stat_force_next_flush(); $scans") == $before;
	}), $name);
}
slow(0);
$reader->must($check);
is_known_empty('with nothing outstanding the table is not looked at');
$instance->clear_log;
$reader->must($check) for 1 .. 5;
is(scalar(grep { ($_->{headers}{'verdict-consistency'} || '') eq 'authoritative' } @{ $instance->log }), 0,
	'... and no read is made authoritative') if $instance->call('GetPolicy', {})->{headers}{'verdict-revision'};

# Its own changes do not make it wait.
$reader->must('BEGIN; ' . Outbox::grant('own'));
$took = seconds(sub { $reader->must($check) });
cmp_ok($took, '<', 5, 'a transaction does not wait for its own batch');
$reader->must('COMMIT');

# The wait is bounded by the read's deadline.
$node->safe_psql('postgres', "ALTER SERVER main OPTIONS (ADD read_timeout_ms '700')");
slow(5000);
$writer->must(Outbox::revoke('alice'));
my ($answer, $state);
$took = seconds(sub { ($answer, $state) = $reader->ask($check) });
is($state, '08000', 'when the answer does not come in time it is an error');
cmp_ok($took, '<', 3, '... in time');
like($reader->error, qr/were not answered in time/, '... that says so');
($answer, $state) = $reader->ask(q{SELECT verdict_authorize('User:alice', 'read', 'Document:1', 'eventual')});
is($state, '00000', 'an eventual read does not wait');
$reader->must('SET verdict.session_scope = transaction');
is(($reader->ask($check))[1], '00000', '... nor one without the scope');
$reader->must('SET verdict.session_scope = database');
slow(0);
$node->safe_psql('postgres', "ALTER SERVER main OPTIONS (SET read_timeout_ms '10000')");
ok(Outbox::drained($node), 'it is delivered in the end');

# What was refused is an error, until somebody decides.
$instance->fault('BatchFacts', { kind => 'error', code => 'permission_denied' });
$writer->must(Outbox::revoke('alice'));
Outbox::wait_until(sub { $node->safe_psql('postgres', 'SELECT count(*) FROM verdict_outbox WHERE parked_at IS NOT NULL') eq '1' });
is(($reader->ask($check))[1], '55000', 'a refused batch: an error');
like($reader->error, qr/was committed but refused/, '... that says so');
$node->safe_psql('postgres', 'SELECT verdict_outbox_drop(id) FROM verdict_outbox');
is(($reader->ask($check))[1], '00000', '... until it is given up');

# Renamed with a batch on the way.
$instance->fault('BatchFacts', { kind => 'error', code => 'unauthenticated' }, times => -1);
$writer->must(Outbox::revoke('alice'));
$node->safe_psql('postgres', 'ALTER SERVER main RENAME TO renamed');
$reader->must("SET verdict.server = renamed; SET statement_timeout = '1s'");
is(($reader->ask($check))[1], '57014', 'a batch whose server is gone counts for every server');
$reader->must('RESET statement_timeout; RESET verdict.server');
$node->safe_psql('postgres', 'ALTER SERVER renamed RENAME TO main');
$instance->clear_faults;
ok(Outbox::drained($node), 'named as before it is delivered');

# Two-phase commit: what is prepared is not committed; what was, counts.
slow(300);
$instance->call(@viewer);
$writer->must('BEGIN; ' . Outbox::revoke('alice') . " PREPARE TRANSACTION 'revoke'");
is($reader->must($check), 't', 'a prepared revocation is none');
$writer->must("COMMIT PREPARED 'revoke'");
is($reader->must($check), 'f', '... until it is committed');
ok(Outbox::drained($node), 'and it is delivered');
$writer->must('BEGIN; ' . Outbox::grant('prepared') . " PREPARE TRANSACTION 'grant'; ROLLBACK PREPARED 'grant'");
$reader->must($check);
is($node->safe_psql('postgres', 'SELECT count(*) FROM verdict_outbox'), '0', 'a prepared change that was rolled back is none');

# After a restart nothing is known in memory, and everything still holds.
slow(300);
$instance->call(@viewer);
$writer->must(Outbox::revoke('alice'));
$_->quit for $writer, $reader;
$node->restart;
$reader = PsqlSession->new($node, 'postgres', 'SET verdict.session_scope = database');
is($reader->must($check), 'f', 'after a restart it still waits');
$writer = PsqlSession->new($node, 'postgres');
is(rounds(3), 0, '... and goes on');

# After a failover of the instance what was known is of another history: the first to
# meet it fails, and the next starts afresh, from the writer.
slow(0);
Outbox::drained($node) or die;
$reader->must($check);
$instance->failover;
my @states = map { ($reader->ask($check))[1] } 1 .. 3;
like("@states", qr/^(55000 )?00000 00000( 00000)?$/, 'a failover of the instance costs one read at most');
slow(300);
is(rounds(3), 0, '... and afterwards everything holds');

# In every isolation level, and while another transaction is open.
for my $level ('REPEATABLE READ', 'SERIALIZABLE')
{
	$instance->call(@viewer);
	$writer->must(Outbox::revoke('alice'));
	$reader->must("BEGIN ISOLATION LEVEL $level");
	is($reader->must($check), 'f', "$level");
	$reader->must('COMMIT');
	Outbox::drained($node);
}

# A parallel plan.
$instance->call(@viewer);
$writer->must(Outbox::revoke('alice'));
$reader->must('SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; '
	. 'SET min_parallel_table_scan_size = 0');
is($reader->must("SELECT count(*) FROM pg_class WHERE relname = 'pg_class' AND verdict_authorize('User:alice', 'read', 'Document:1')"),
	'0', 'in a parallel plan');

# Under load, with transactions that roll back, time out, are prepared or lose their
# backend, nothing is counted that does not end.
slow(0);
my $folder = PostgreSQL::Test::Utils::tempdir();
my %scripts = (
	commit => Outbox::grant('load'),
	wait => "SET verdict.commit_wait = '50ms'; " . Outbox::grant('load'),
	rollback => 'BEGIN; SET LOCAL work_mem = 64; ' . Outbox::grant('load') . ' ROLLBACK;',
	early => "BEGIN; SELECT count(verdict_insert_fact('viewer', verdict_identity('User', g), verdict_identity('Document', 2))) "
	  . 'FROM generate_series(1, 2500) g; ROLLBACK;',
	prepared => 'BEGIN; ' . Outbox::grant('load') . " PREPARE TRANSACTION 'load:process:client_id'; COMMIT PREPARED 'load:process:client_id';",
	scope => "SET verdict.session_scope = database; $check;");
my @files;
for my $name (sort keys %scripts)
{
	open my $file, '>', "$folder/$name" or die $!;
	print $file $scripts{$name};
	close $file;
	push @files, '-f', "$folder/$name";
}
$reader->must('RESET ALL; SET verdict.session_scope = database');
my @load = map {
	my $child = fork;
	if ($child == 0)
	{
		open STDERR, '>', "$folder/errors$_";
		open STDOUT, '>', '/dev/null';
		$ENV{PGAPPNAME} = 'load';
		exec 'pgbench', '-n', '-D', "process=$_", '-c', '6', '-T', '5', @files, $node->connstr('postgres');
	}
	$child;
} 1 .. 3;
for (1 .. 12)
{
	sleep 0.4;
	$node->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE application_name = 'load' ORDER BY random() LIMIT 1});
}
waitpid $_, 0 for @load;

$node->safe_psql('postgres', "ROLLBACK PREPARED '$_'")
  for split /\n/, $node->safe_psql('postgres', 'SELECT gid FROM pg_prepared_xacts');
ok(Outbox::drained($node), 'after much load everything is delivered');
is_known_empty('... and known to be');

$_->quit for $writer, $reader;
$node->stop;
done_testing();
