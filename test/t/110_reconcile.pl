# verdict_reconcile_facts() on a real cluster: progress, interruption and going on,
# what others change meanwhile, memory, an instance that fails.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PsqlSession;
use Test::More;
use Time::HiRes qw(sleep time);
use VerdictDev;

my $instance = VerdictDev->start(api_keys => ['key'], args => [ '--max-page', '500' ]);
my $url = $instance->url;
my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'verdict'\nlog_temp_files = 0\n");
$node->start;
$node->safe_psql('postgres', <<"END");
CREATE EXTENSION verdict;
CREATE SERVER app FOREIGN DATA WRAPPER verdict OPTIONS (instance_url '$url', batch_size '100');
CREATE USER MAPPING FOR PUBLIC SERVER app OPTIONS (api_key 'key');
ALTER DATABASE postgres SET verdict.server = 'app';
CREATE TABLE document (id integer PRIMARY KEY, owner_id integer NOT NULL);
INSERT INTO document SELECT n, n % 50 FROM generate_series(1, 2000) AS n;
CREATE ROLE stranger;
CREATE ROLE monitor;
GRANT pg_monitor TO monitor;
END

my $owners = q{'SELECT verdict_identity(''User'', owner_id), verdict_identity(''Document'', id) FROM document'};
my $call = "SELECT count(*) FROM verdict_reconcile_facts('owner', $owners, true)";
my $worker = PsqlSession->new($node, 'postgres');
my $watcher = PsqlSession->new($node, 'postgres');
my $backend = $worker->must('SELECT pg_backend_pid()');

# The methods of the requests since the last call, in order.
sub methods
{
	my @methods = map { $_->{method} // '' } @{ $instance->log };
	$instance->clear_log;
	return \@methods;
}
sub sent { return scalar grep { $_ eq 'BatchFacts' } @{ methods() } }
sub facts { return $watcher->must(q{SELECT count(*) FROM verdict_list_facts('owner(_, _)', 'authoritative')}) }

# Gives statements to the worker without waiting, and waits for their end.
sub begin { my ($statements) = @_; print { $worker->{in} } "$statements;\n"; return }
sub end { return $worker->ask('SELECT 1') }

# Waits until the view shows a row that a condition holds for; returns the row.
sub wait_for
{
	my ($condition) = @_;
	my $end = time + 30;
	while (time < $end)
	{
		my $row = $watcher->must("SELECT * FROM verdict_progress_reconcile WHERE $condition");
		return $row if $row ne '';
		sleep 0.02;
	}
	return $watcher->must('SELECT * FROM verdict_progress_reconcile');
}

# ---- progress

my ($database, $server) = split /\|/, $watcher->must(
	"SELECT d.oid, s.oid FROM pg_database d, pg_foreign_server s WHERE datname = 'postgres' AND srvname = 'app'");
is($watcher->must('SELECT count(*) FROM verdict_progress_reconcile'), '0', 'nobody is at work');
$instance->fault('ListFacts', { kind => 'stall', ms => 1500, when => 'before' });
$instance->fault('BatchFacts', { kind => 'stall', ms => 1500, when => 'before' }, skip => 7);
begin($call);
is(wait_for("phase = 'listing facts'"), "$backend|$database|postgres|$server|owner|listing facts|0|0|0|0|0|0",
	'the facts are being listed');
is(wait_for('batches_sent = 7'), "$backend|$database|postgres|$server|owner|repairing|0|2000|2000|700|20|7",
	'a repair is under way, and how long it takes is known');
is($watcher->must('SET ROLE stranger; SELECT * FROM verdict_progress_reconcile; RESET ROLE'),
	"$backend|$database|postgres|||||||||", 'a stranger sees that somebody is at work');
is($watcher->must('SET ROLE monitor; SELECT phase FROM verdict_progress_reconcile; RESET ROLE'),
	'repairing', 'and a monitor what he does');
end();
is($watcher->must('SELECT count(*) FROM verdict_progress_reconcile'), '0', 'and then nobody');
is(facts(), '2000', 'the first load is complete');

$instance->clear_log;
is($worker->must($call), '0', 'a second run finds nothing to do');
is_deeply(methods(), [ ('ListFacts') x 4 ], 'and sends nothing');

# ---- a repair that is stopped goes on where it was

sub stopped
{
	my ($what, $stop, $state) = @_;

	$worker->must(q{SELECT count(*) FROM verdict_reconcile_facts('owner', 'SELECT 1, 2 WHERE false', true)});
	is(facts(), '0', "$what: from the beginning");
	$instance->clear_faults;
	$instance->clear_log;
	$instance->fault('BatchFacts', { kind => 'stall', ms => 20000, when => 'before' }, skip => 12);
	begin($call);
	wait_for('batches_sent = 12');
	$stop->();
	my $began = time;
	is(($watcher->ask("DO \$\$ BEGIN WHILE EXISTS (SELECT FROM verdict_progress_reconcile) LOOP PERFORM pg_sleep(0.02); END LOOP; END \$\$"))[1],
		'00000', "$what: its place is free");
	cmp_ok(time - $began, '<', 10, "$what: at once");
	$instance->clear_faults;
	my $left = 2000 - facts();
	ok($left <= 800 && $left >= 700, "$what: the batches that were answered stay ($left are left)");
	$instance->clear_log;
	return $left;
}

my $left = stopped('cancel', sub { $watcher->must("SELECT pg_cancel_backend($backend)") });
end();
is($worker->must($call), $left, 'the next call finds what is left');
is(sent(), $left / 100, 'and sends nothing else');
is(facts(), '2000', 'and then all is there');

$left = stopped('terminate', sub { $watcher->must("SELECT pg_terminate_backend($backend)") });
$worker->quit;
$worker = PsqlSession->new($node, 'postgres');
$backend = $worker->must('SELECT pg_backend_pid()');
is($worker->must($call), $left, 'the next session finds what is left');
is(facts(), '2000', 'and then all is there, too');

# An instance that refuses in the middle of it.
$worker->must(q{SELECT count(*) FROM verdict_reconcile_facts('owner', 'SELECT 1, 2 WHERE false', true)});
$instance->fault('BatchFacts', { kind => 'error', code => 'failed_precondition', message => 'as ordered' }, skip => 3, times => 1);
my ($output, $errors);
$node->psql('postgres', $call, stdout => \$output, stderr => \$errors);
like($errors, qr/WARNING:  300 changes sent to Verdict stay.*/m, 'a failure: what was sent stays, as the warning says');
like($errors, qr/^psql:<stdin>:1: ERROR:  could not change the facts: as ordered$/m, 'a failure: the call fails');
like($errors, qr/^CONTEXT:  repair of predicate "owner": 300 of 2000 differences were repaired before$/m, 'and how far it got');
is($output, '', 'and gives no rows');
is($worker->must($call), '1700', 'and can go on');

# An instance whose list breaks off changes nothing.
$instance->fault('ListFacts', { kind => 'cut', bytes => 2000 }, skip => 2, times => -1);
is(($worker->ask("SELECT count(*) FROM verdict_reconcile_facts('owner', 'SELECT 1, 2 WHERE false', true)"))[1], '08006',
	'a list that breaks off is an error');
$instance->clear_faults;
is(facts(), '2000', 'and no fact is removed for it');

# ---- what others change meanwhile

$node->safe_psql('postgres', q{CREATE TRIGGER emit AFTER INSERT OR UPDATE OR DELETE ON document FOR EACH ROW
	EXECUTE FUNCTION verdict_emit_fact('owner', 'User:{owner_id}', 'Document:{id}')});
for my $when ('before', 'after')
{
	$instance->fault('ListFacts', { kind => 'stall', ms => 2000, when => $when });
	begin($call);
	wait_for("phase = 'listing facts'");
	sleep 0.5;
	$watcher->must('DELETE FROM document WHERE id = 1000; INSERT INTO document VALUES (3000, 1); UPDATE document SET owner_id = 77 WHERE id = 7');
	end();
	is($watcher->must("SELECT count(*) FROM verdict_reconcile_facts('owner', $owners)"), '0',
		"changes while the facts are listed ($when): afterwards everything is right");
	$watcher->must('INSERT INTO document VALUES (1000, 0); DELETE FROM document WHERE id = 3000; UPDATE document SET owner_id = 7 WHERE id = 7');
}

# Under a lock nobody changes anything.
$instance->fault('BatchFacts', { kind => 'stall', ms => 1000, when => 'before' });
$worker->must('SET verdict.mutation_mode = immediate; SELECT verdict_delete_fact(fact) FROM verdict_list_facts() AS fact LIMIT 150');
begin("BEGIN; LOCK TABLE document IN SHARE MODE; $call; COMMIT");
wait_for("phase = 'repairing'");
is(($watcher->ask("SET lock_timeout = '100ms'; DELETE FROM document WHERE id = 5"))[1], '55P03', 'a lock keeps writers away');
end();
is($worker->must($call), '0', 'and everything is right');

# ---- memory

my $rows = 100000;
$worker->quit;
$worker = PsqlSession->new($node, 'postgres', q{SET work_mem = '64kB'; SET verdict.mutation_mode = deferred});
$backend = $worker->must('SELECT pg_backend_pid()');
my $wide = qq{'SELECT repeat(''x'', 100) || n FROM generate_series(1, $rows) AS n'};
my $peak = sub { my ($kb) = slurp_file("/proc/$backend/status") =~ /^VmHWM:\s+(\d+)/m; return $kb };
$worker->must('ALTER SERVER app OPTIONS (SET batch_size \'10000\')');
$worker->must(q{SELECT count(*) FROM verdict_reconcile_facts('wide', 'SELECT ''x'' FROM generate_series(1, 1000)', true)});
my $before = $peak->();
my $logged = -s $node->logfile;
is($worker->must("SELECT count(*) FROM verdict_reconcile_facts('wide', $wide, true)"), $rows + 1, "$rows long facts");
is($worker->must("SELECT count(*) FROM verdict_reconcile_facts('wide', $wide, true)"), '0', 'and nothing is left to do');
my $grown = $peak->() - $before;
cmp_ok($grown, '<', 8000, "with little memory ($grown kB)");
like(slurp_file($node->logfile, $logged), qr/LOG:  temporary file: path .*size \d{7}/, 'since it sorts on disk');

$worker->quit;
$watcher->quit;

# ---- not preloaded

$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "''");
$node->restart;
is($node->safe_psql('postgres', "SELECT count(*) FROM verdict_reconcile_facts('owner', $owners, true)"), '0',
	'without the library preloaded it works');
is($node->safe_psql('postgres', 'SELECT count(*) FROM verdict_progress_reconcile'), '0', 'and there is no progress to see');

$node->stop;
done_testing();
