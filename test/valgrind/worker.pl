# A whole cluster under valgrind: launcher, workers, and backends that queue, wait
# and decide, with everything going wrong that can.  No process may be found at fault.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../t/lib";

use Outbox;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PsqlSession;
use Test::More;
use Time::HiRes qw(sleep time);

my $folder = $ENV{VERDICT_VALGRIND} = PostgreSQL::Test::Utils::tempdir();
my ($node, $instance) = Outbox::start('valgrind',
	conf => "shared_buffers = 16MB\njit = off\nfsync = off\nautovacuum = off\nmax_prepared_transactions = 5\n"
	  . "verdict.log_min_call_duration = 0\n");
my $psql = sub { $node->safe_psql('postgres', join "\n", @_) };
my $patience = 120;
my $until = sub { Outbox::wait_until($_[0], $patience) };
my $drained = sub { $until->(sub { $psql->('SELECT count(*) FROM verdict_outbox WHERE parked_at IS NULL') eq '0' }) };
my $many = sub { $psql->(map { Outbox::grant("$_[0]$_") } 1 .. $_[1]) };
my @workers;
my $worker = sub {
	my $pid;
	$until->(sub { ($pid = Outbox::worker($node, $_[0])) =~ /\d/ }) or die 'no worker';
	push @workers, $pid;
	return $pid;
};
my $no_answer = sub { $instance->fault('BatchFacts', { kind => 'error', code => 'unauthenticated' }, times => -1) };
my $stalled = sub {
	$instance->clear_log;
	$instance->fault('BatchFacts', { kind => 'stall', ms => 20_000 }, times => -1);
	$psql->(Outbox::grant('stalled'));
	$until->(sub { Outbox::mutations($instance) }) or die 'nothing was sent';
};

# Batches, and every kind of answer.
$many->('first', 100);
ok($drained->(), 'a hundred batches are delivered');
$worker->();
for my $fault ({ kind => 'error', code => 'internal', message => 'wrong' }, { kind => 'error', code => 'aborted' },
	{ kind => 'close' }, { kind => 'cut' }, { kind => 'body', hex => 'ffffff' }, { kind => 'content_type', value => 'text/plain' },
	{ kind => 'status', status => 503, body => 'busy' }, { kind => 'status', status => 500, content_type => 'application/json', body => '{' })
{
	$instance->fault('BatchFacts', $fault, times => 2);
	$many->('fault', 15);
	ok($drained->(), "... and fifteen around $fault->{kind}");
	$instance->clear_faults;
}
$psql->("ALTER SERVER main OPTIONS (ADD mutation_overall_timeout_ms '1000', ADD mutation_attempt_timeout_ms '500', ADD wire_format 'json')");
$instance->fault('BatchFacts', { kind => 'stall', ms => 3000 }, times => 1);
$many->('late', 5);
ok($drained->(), '... and around one that comes too late, in JSON');
$psql->("ALTER SERVER main OPTIONS (DROP mutation_overall_timeout_ms, DROP mutation_attempt_timeout_ms, DROP wire_format)");

# Large ones, under keys of an application, in parts that are rolled back, prepared.
$psql->("SELECT count(verdict_insert_fact('viewer', verdict_identity('User', n), verdict_identity('Page', 'x'))) FROM generate_series(1, 2500) n");
$psql->('BEGIN;', Outbox::grant('kept'), 'SAVEPOINT a;', Outbox::grant('lost'), 'ROLLBACK TO a;', Outbox::grant('kept2'), 'COMMIT;');
$psql->("SET verdict.idempotency_key = 'one';", Outbox::grant('keyed')) for 1 .. 2;
$psql->('BEGIN;', Outbox::grant('prepared'), "PREPARE TRANSACTION 'p';");
$psql->("COMMIT PREPARED 'p'");
ok($drained->(), 'large, keyed and prepared ones');

# Refused ones, sent again and given up.
$instance->fault('BatchFacts', { kind => 'error', code => 'invalid_argument', message => 'no' }, times => 20);
$many->('refused', 20);
ok($drained->(), 'twenty are refused');
$psql->('SELECT verdict_outbox_resend(id) FROM verdict_outbox WHERE id % 2 = 0');
$psql->('SELECT verdict_outbox_drop(id) FROM verdict_outbox WHERE parked_at IS NOT NULL');
ok($drained->(), '... and decided about');

# Servers, mappings and roles that change while batches wait.
$psql->("CREATE SERVER dead FOREIGN DATA WRAPPER verdict OPTIONS (instance_url 'http://127.0.0.1:1');",
	'CREATE USER MAPPING FOR PUBLIC SERVER dead; CREATE ROLE clerk; GRANT USAGE ON FOREIGN SERVER main TO clerk;');
$psql->('SET verdict.server = dead;', Outbox::grant('dead'));
$no_answer->();
$psql->('SET ROLE clerk;', Outbox::grant('clerk'));
$psql->('ALTER SERVER main RENAME TO other');
sleep 2;
$psql->('ALTER SERVER other RENAME TO main; DROP OWNED BY clerk; DROP ROLE clerk;');
$instance->clear_faults;
ok($until->(sub { $psql->(q{SELECT count(*) FROM verdict_outbox WHERE server = 'main' AND parked_at IS NULL}) eq '0' }),
	'renamed, and without its role');
$psql->('SELECT verdict_outbox_drop(id) FROM verdict_outbox WHERE parked_at IS NOT NULL; TRUNCATE verdict_outbox;');

# Sessions that wait.
Outbox::set_policy($instance);
my $session = PsqlSession->new($node, 'postgres', "SET verdict.commit_wait = '2s'; SET verdict.session_scope = database");
$session->must(Outbox::grant('waited') . $Outbox::check);
$no_answer->();
$session->must(Outbox::grant('unanswered'));
$psql->("ALTER SERVER main OPTIONS (ADD read_timeout_ms '500')");
is(($session->ask($Outbox::check))[1], '08000', 'a session whose wait is over');
$instance->clear_faults;
ok($drained->(), '... and the batch after it');
$session->quit;

# Deliverers that are ended inside a call, and by hand.
for my $end ('pg_cancel_backend', 'pg_terminate_backend')
{
	$stalled->();
	$psql->("SELECT $end(" . $worker->() . ')');
	$instance->clear_faults;
	ok($drained->(), "$end inside a call");
}
is(($node->psql('postgres', 'CALL verdict_deliver()'))[0], 0, 'CALL verdict_deliver()');

# The extension and the database go.
$stalled->();
$worker->();
$psql->('DROP EXTENSION verdict CASCADE');
$instance->clear_faults;
Outbox::install($node, 'postgres', $instance);
$many->('anew', 3);
ok($drained->(), 'the extension is made anew');
$node->safe_psql('postgres', 'CREATE DATABASE other');
Outbox::install($node, 'other', $instance);
$no_answer->();
$node->safe_psql('other', Outbox::grant('other'));
$worker->('other');
$node->safe_psql('postgres', 'DROP DATABASE other');
$instance->clear_faults;
push @workers, $psql->("SELECT pid FROM pg_stat_activity WHERE backend_type = 'verdict launcher'");
$worker->();

$node->stop;
is(scalar(grep { !-e "$folder/$_" } @workers), 0, 'launcher and workers ran under valgrind');
for my $file (glob "$folder/*")
{
	my $found = -f $file && $file =~ m{/\d+\z} ? slurp_file($file) : '';
	is($found, '', 'no finding in ' . $file =~ s{.*/}{}r) if $found ne '';
}
done_testing();
