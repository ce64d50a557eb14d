# Dump and restore, and delivery by hand in a cluster that has no worker.
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

# Without shared_preload_libraries.
my $instance = VerdictDev->start(api_keys => ['outbox-key']);
my $node = PostgreSQL::Test::Cluster->new('restore');
$node->init;
$node->start;
Outbox::install($node, 'postgres', $instance);
my $psql = sub { $node->safe_psql('postgres', join "\n", @_) };
# Delivers by hand; how many batches it says it has delivered.
sub deliver
{
	my ($database, $before) = @_;
	my ($status, $out, $errors) = $node->psql($database || 'postgres', ($before || '') . 'CALL verdict_deliver()');
	die $errors if $status != 0;
	return $errors =~ /NOTICE:  (\d+) batch(es were| was) delivered/ ? $1 : 'nothing said';
}

# ---------------------------------------------------------- delivery by hand

my (undef, undef, $errors) = $node->psql('postgres', Outbox::grant('one') . Outbox::grant('two'));
is(() = $errors =~ /no worker/gi, 1, 'without a worker a session is told so, once');
like($errors, qr/shared_preload_libraries.*verdict_deliver/s, '... and what to do');
$psql->(Outbox::grant($_)) for 'three', 'four';
sleep 0.5;
is(Outbox::viewers($instance), '', 'nothing is delivered by itself');
is(deliver(), '4', 'CALL verdict_deliver() delivers and counts');
is(Outbox::viewers($instance), 'four one three two', '... everything');
is(deliver(), '0', '... and then there is nothing');
$psql->(Outbox::grant('procedure'));
$psql->('DO $$ BEGIN PERFORM 1; CALL verdict_deliver(); END $$');
like(Outbox::viewers($instance), qr/procedure/, 'a procedure may call it');
like(($node->psql('postgres', "\\set VERBOSITY verbose\nBEGIN; CALL verdict_deliver(); COMMIT"))[2], qr/2D000/, 'not inside a transaction block');
$psql->(Outbox::grant('block'));
like(($node->psql('postgres', "\\set VERBOSITY verbose\n" . 'BEGIN; DO $$ BEGIN CALL verdict_deliver(); END $$; COMMIT'))[2], qr/2D000/,
	'... nor in a function inside one');
is(deliver(), '1', '... where it has done nothing');

# One session at a time; a failing one gives the turn back.
$instance->fault('BatchFacts', { kind => 'stall', ms => 1500 });
$psql->(Outbox::grant('turn'));
my $child = fork;
if ($child == 0)
{
	$node->psql('postgres', 'CALL verdict_deliver()');
	POSIX::_exit(0);
}
Outbox::wait_until(sub { $psql->(q{SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'}) eq '1' });
is($psql->(q{SELECT count(*) FROM pg_locks WHERE locktype <> 'advisory' AND pid <> pg_backend_pid() AND locktype <> 'virtualxid'}), '0',
	'a session in a call holds no lock but its turn');
like(($node->psql('postgres', 'CALL verdict_deliver()'))[2], qr/another session delivers/, 'one at a time');
is($psql->('SELECT pg_try_advisory_lock(0)'), 't', '... which no advisory lock of a user is in the way of');
waitpid $child, 0;
$instance->fault('BatchFacts', { kind => 'stall', ms => 5000 });
$psql->(Outbox::grant('cancelled'));
my $session = PsqlSession->new($node, 'postgres', "SET statement_timeout = '500ms'");
is(($session->ask('CALL verdict_deliver()'))[1], '57014', 'a time-out ends it');
$instance->clear_faults;
$session->must('RESET statement_timeout');
is($psql->(q{SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'}), '0', '... and it gives its turn back');
ok(Outbox::wait_until(sub { $session->ask('CALL verdict_deliver()'); $psql->('SELECT count(*) FROM verdict_outbox') eq '0' }),
	'... and another call delivers');
$session->quit;

# What fails stays, with its error; a refusal is parked.
my $url = $instance->url;
$psql->("ALTER SERVER main OPTIONS (SET instance_url 'http://127.0.0.1:1')");
$psql->(Outbox::grant('down1'), Outbox::grant('down2'));
my $warned = ($node->psql('postgres', 'CALL verdict_deliver()'))[2];
like($warned, qr/WARNING:  batches of verdict_outbox for server "main" wait.*NOTICE:  0 batches were delivered/s,
	'an instance that is down: nothing is delivered, and it is told');
is($psql->('SELECT error_code, attempts FROM verdict_outbox_status ORDER BY id LIMIT 1'), 'unavailable|1', '... and it is seen why');
$psql->("ALTER SERVER main OPTIONS (SET instance_url '$url')");
is(deliver(), '2', '... and at the next call it is');
$instance->fault('BatchFacts', { kind => 'error', code => 'invalid_argument' });
$psql->(Outbox::grant('bad'), Outbox::grant('good'));
($errors) = ($node->psql('postgres', 'CALL verdict_deliver()'))[2];
like($errors, qr/NOTICE:  1 batch was delivered/, 'a refused batch does not hold up the next');
like($errors, qr/WARNING:  batch \d+ of verdict_outbox was refused and is parked/, '... and is told');

# A session with database scope waits until somebody delivers.
Outbox::set_policy($instance);
$psql->('SELECT verdict_outbox_drop(id) FROM verdict_outbox');
my $check = q{SELECT verdict_authorize('User:one', 'read', 'Document:1')};
is($psql->("SET verdict.session_scope = database; $check"), 't', 'database scope without a worker');
$psql->(Outbox::revoke('one'));
$psql->("ALTER SERVER main OPTIONS (ADD read_timeout_ms '500')");
like(($node->psql('postgres', "SET verdict.session_scope = database; $check"))[2], qr/not answered in time.*verdict_deliver/s,
	'... waits, in vain, and says why');
$psql->('CALL verdict_deliver()');
is($psql->("SET verdict.session_scope = database; $check"), 'f', '... and goes on when it is delivered');

# -------------------------------------------------------------- dump and restore

$psql->('CREATE ROLE clerk');
$psql->('SET ROLE clerk;', Outbox::grant('dumped1'), "SET verdict.idempotency_key = 'order-42';", Outbox::grant('dumped2'));
$psql->(Outbox::grant('dumped3'));
my $last = $psql->('SELECT max(id) FROM verdict_outbox');
my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump';
$node->command_ok([ 'pg_dump', '-Fc', '-f', $dump, '-d', $node->connstr('postgres') ], 'a dump with pending batches');
$psql->('CREATE DATABASE restored');
$node->command_ok([ 'pg_restore', '--exit-on-error', '-d', $node->connstr('restored'), $dump ], 'it is restored');
my $restored = sub { $node->safe_psql('restored', join "\n", 'SET verdict.server = main;', 'SET verdict.mutation_mode = outbox;', @_) };
is($restored->('SELECT role, changes, foreign_origin FROM verdict_outbox_status ORDER BY id'),
	join("\n", 'clerk|1|t', 'clerk|1|t', $psql->('SELECT current_user') . '|1|t'), 'what was pending is there, as another database\'s');
is($restored->('SELECT count(*) FROM verdict_ledger'), '1', 'and so is the ledger');
is(deliver('restored'), '0', 'nothing of it is sent');
$instance->clear_log;
is(deliver(), '3', 'but the original sends it');
$restored->(Outbox::grant('new'));
cmp_ok($restored->('SELECT max(id) FROM verdict_outbox'), '>', $last, 'the ids go on behind the restored ones');
is($restored->('SELECT count(*) FROM verdict_outbox_status WHERE NOT foreign_origin'), '1', '... of its own');
is($restored->("SELECT pending_batches, foreign_batches FROM verdict_stat_outbox"), '1|3', '... and is counted apart');
deliver('restored');
is($restored->("SET verdict.session_scope = database; $check"), 'f', '... and is all that anybody waits for');
$restored->('SELECT verdict_outbox_resend(id) FROM verdict_outbox');
is(deliver('restored'), '3', 'sent when somebody says so');
is(scalar(grep { $_->{replayed} } Outbox::mutations($instance)), 3, '... under the keys of the original: done once');
is($node->safe_psql('restored', "SET verdict.server = main; SET verdict.mutation_mode = outbox; SET ROLE clerk; SET verdict.idempotency_key = 'order-42'; "
	. Outbox::grant('dumped2') . ' RESET ROLE; SELECT count(*) FROM verdict_outbox') =~ /0$/ ? 1 : 0, 1, 'and what the ledger knows is not made again');

# As SQL text, and once more.
$psql->(Outbox::grant('again'));
$node->command_ok([ 'pg_dump', '--inserts', '-f', $dump, '-d', $node->connstr('postgres') ], 'a dump as INSERT commands');
$psql->('CREATE DATABASE inserted');
$node->command_ok([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('inserted'), '-f', $dump ], '... is restored, too');
is($node->safe_psql('inserted', 'SELECT count(*), bool_and(foreign_origin) FROM verdict_outbox_status'), '1|t', '... with what it held');

$node->stop;
done_testing();
