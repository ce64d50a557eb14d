# The worker of the outbox: what it sends, in which order, and what it does with
# what cannot be sent.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Outbox;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my ($node, $instance) = Outbox::start('worker');
my $psql = sub { $node->safe_psql('postgres', join "\n", @_) };
# Does something while nothing can be delivered, nor is tried again within a call;
# ends when the worker has met what was done.
my $hold = sub {
	my $seen = sub { $psql->('SELECT coalesce(max(attempts), 0) + 9 * count(parked_at) FROM verdict_outbox') };

	$instance->fault('*', { kind => 'error', code => 'unauthenticated' }, times => -1);
	$_[0]->();
	# One attempt may have been under way.
	my $before = $seen->();
	Outbox::wait_until(sub { $seen->() > $before + 1 });
	$instance->clear_faults;
};

# --------------------------------------------------------- what is committed

is(Outbox::viewers($instance), '', 'nothing at the instance');
$psql->('BEGIN;', Outbox::grant('alice'), Outbox::grant('bob'), 'COMMIT;');
ok(Outbox::drained($node), 'a committed batch is delivered');
is(Outbox::viewers($instance), 'alice bob', '... whole');
is(scalar(Outbox::mutations($instance)), 1, '... in one request');

$instance->clear_log;
$psql->('BEGIN;', Outbox::grant('nobody'), 'ROLLBACK;');
$psql->("BEGIN;", Outbox::grant("user$_"), 'COMMIT;') for 1 .. 20;
ok(Outbox::drained($node), 'many transactions are delivered');
my @sent = Outbox::mutations($instance);
is(scalar @sent, 20, '... one request each, and none for what was rolled back');
my %keys = map { $_ => 1 } Outbox::keys_sent($instance);
is(scalar keys %keys, 20, '... each under a key of its own');
like((keys %keys)[0], qr/^pg1-[0-9a-f]{64}$/, '... derived as all keys are');
my @order = map { pack('H*', $_->{body_hex}) =~ /user(\d+)/ ? $1 : () } @sent;
is("@order", join(' ', 1 .. 20), '... in order');

# ------------------------------------------------------------------- parking

$instance->clear_log;
$instance->fault('*', { kind => 'error', code => 'invalid_argument', message => 'secret-content is wrong' });
my $log_start = -s $node->logfile;
$psql->(Outbox::grant('refused'));
$psql->(Outbox::grant('later'));
ok(Outbox::drained($node), 'a refused batch does not hold up the next');
is(Outbox::viewers($instance) =~ /\blater\b/, 1, '... which is delivered');
is($psql->('SELECT server, method, changes, attempts, parked_at IS NOT NULL, error_code, error_message, '
	. 'foreign_origin FROM verdict_outbox_status'),
	'main|BatchFacts|1|1|t|invalid_argument|secret-content is wrong|f', '... and can be seen, parked');
is($psql->('SELECT * FROM verdict_stat_outbox'), 'main|0|0||1|0', '... and counted');
my $log = slurp_file($node->logfile, $log_start);
like($log, qr/WARNING:  batch \d+ of verdict_outbox was refused and is parked/, '... and is in the log');
unlike($log =~ s/^.*LOG:  statement:.*$//mgr, qr/secret-content|User:refused/, '... without what it was about');

my $id = $psql->('SELECT id FROM verdict_outbox');
$psql->("SELECT verdict_outbox_resend($id)");
ok(Outbox::wait_until(sub { $psql->('SELECT count(*) FROM verdict_outbox') eq '0' }), 'sent again it is delivered');
my ($first, undef, $again) = Outbox::keys_sent($instance);
is($again, $first, '... under the key it had');
like(Outbox::viewers($instance), qr/\brefused\b/, '... and done');

$instance->fault('*', { kind => 'error', code => 'permission_denied' });
$psql->(Outbox::grant('dropped'));
ok(Outbox::wait_until(sub { $psql->('SELECT count(*) FROM verdict_outbox WHERE parked_at IS NOT NULL') eq '1' }),
	'another one is parked');
$id = $psql->('SELECT id FROM verdict_outbox');
is(($node->psql('postgres', "SELECT verdict_outbox_drop($id + 1)"))[2] =~ /has no batch/, 1, 'no such batch');
$psql->("SELECT verdict_outbox_drop($id)");
is($psql->('SELECT count(*) FROM verdict_outbox'), '0', 'and dropped');
sleep 0.3;
unlike(Outbox::viewers($instance), qr/\bdropped\b/, '... for good');

# Every code that ends the matter, and every one that does not.
for my $code ('not_found', 'already_exists', 'failed_precondition', 'out_of_range', 'unimplemented')
{
	$instance->fault('*', { kind => 'error', code => $code });
	$psql->(Outbox::grant("code_$code"));
	ok(Outbox::wait_until(sub { $psql->("SELECT count(*) FROM verdict_outbox WHERE error_code = '$code' AND parked_at IS NOT NULL") }),
		"$code parks");
}
$psql->('SELECT verdict_outbox_drop(id) FROM verdict_outbox');
for my $code ('unavailable', 'deadline_exceeded', 'resource_exhausted', 'aborted', 'internal', 'unknown', 'data_loss',
	'canceled', 'unauthenticated')
{
	$instance->clear_log;
	$instance->fault('*', { kind => 'error', code => $code }, times => 2);
	$psql->(Outbox::grant("again_$code"));
	ok(Outbox::drained($node), "$code is tried again");
	like(Outbox::viewers($instance), qr/\bagain_$code\b/, '... until it is done');
	my %used = map { $_ => 1 } Outbox::keys_sent($instance);
	is(scalar keys %used, 1, '... under one key');
}
# Without an explicit code nothing is refused for good.
for my $status (400, 403, 404, 501)
{
	$instance->fault('*', { kind => 'status', status => $status, body => 'proxy' }, times => 1);
	$psql->(Outbox::grant("status_$status"));
	ok(Outbox::drained($node), "HTTP status $status alone is tried again");
	like(Outbox::viewers($instance), qr/\bstatus_$status\b/, '... until it is done');
}
is($psql->('SELECT count(*) FROM verdict_outbox'), '0', 'nothing of it is left');

# What others have written is in the view, and never in the log.
$log_start = -s $node->logfile;
for my $fault ({ kind => 'status', status => 500, content_type => 'application/json', body => '{"message":"hidden-content"}' },
	{ kind => 'error', code => 'internal', message => 'hidden-content' })
{
	$instance->fault('*', $fault, times => -1);
	$psql->(Outbox::grant('hidden'));
	ok(Outbox::wait_until(sub { $psql->("SELECT count(*) FROM verdict_outbox WHERE error_message LIKE '%hidden-content%'") eq '1' }),
		"$fault->{kind}: the text of the answer can be seen");
	$instance->clear_faults;
	ok(Outbox::drained($node), '... and the batch is delivered');
}
unlike(slurp_file($node->logfile, $log_start) =~ s/^.*LOG:  statement:.*$//mgr, qr/hidden-content/, '... and is not in the log');

# ------------------------------------------------------------------ waiting

# A wrong credential waits until it is mended.
$psql->("ALTER USER MAPPING FOR PUBLIC SERVER main OPTIONS (SET api_key 'wrong')");
$psql->(Outbox::grant('credential'));
ok(Outbox::wait_until(sub { $psql->("SELECT count(*) FROM verdict_outbox WHERE error_code = 'unauthenticated' AND attempts > 1") }),
	'a wrong credential: the batch waits and is tried again');
is($psql->('SELECT count(*) FROM verdict_outbox WHERE parked_at IS NOT NULL'), '0', '... not parked');
$psql->("ALTER USER MAPPING FOR PUBLIC SERVER main OPTIONS (SET api_key 'outbox-key')");
ok(Outbox::drained($node), '... and is delivered when it is right');

# A server that is not there.
my $url = $instance->url;
$hold->(sub { $psql->(Outbox::grant('server'), 'ALTER SERVER main RENAME TO other') });
ok(Outbox::wait_until(sub { $psql->("SELECT count(*) FROM verdict_outbox WHERE error_code = '42704' AND attempts > 1 AND parked_at IS NULL") }),
	'a server that is not there: the batch waits');
$psql->('ALTER SERVER other RENAME TO main');
ok(Outbox::drained($node), '... until it is');

# The batches of other servers go on meanwhile, those of this one keep their order.
$psql->("CREATE SERVER dead FOREIGN DATA WRAPPER verdict OPTIONS (instance_url 'http://127.0.0.1:1');",
	'CREATE USER MAPPING FOR PUBLIC SERVER dead;');
$psql->('SET verdict.server = dead;', Outbox::grant("dead$_")) for 1 .. 3;
$psql->(Outbox::grant('alive'));
ok(Outbox::wait_until(sub { $psql->("SELECT count(*) FROM verdict_outbox WHERE server = 'main'") eq '0' }),
	'a server that is down does not hold up another');
is($psql->("SELECT count(*) FROM verdict_outbox WHERE attempts > 0"), '1', '... and only its first batch is tried');
my $tries = sub { $psql->('SELECT max(attempts) FROM verdict_outbox') };
my ($start, $from) = (time, $tries->());
sleep 3;
my $made = $tries->() - $from;
cmp_ok($made, '<=', 8, "less and less often ($made in 3 s)");
cmp_ok($made, '>=', 1, '... but again and again');
$instance->clear_log;
$psql->("ALTER SERVER dead OPTIONS (SET instance_url '$url');",
	"ALTER USER MAPPING FOR PUBLIC SERVER dead OPTIONS (ADD api_key 'outbox-key');");
ok(Outbox::drained($node), '... and all are delivered once it is up');
@order = map { pack('H*', $_->{body_hex}) =~ /dead(\d+)/ ? $1 : () } Outbox::mutations($instance);
is("@order", '1 2 3', '... in order');

# Delivery by hand beside a worker waits for what the worker is at.
$instance->fault('BatchFacts', { kind => 'stall', ms => 400, when => 'before' }, times => 2);
$psql->(Outbox::grant('hand1'), Outbox::grant('hand2'));
like(($node->psql('postgres', 'CALL verdict_deliver()'))[2], qr/NOTICE:  [12] batch(es were| was) delivered/,
	'CALL verdict_deliver() beside a worker');
like(Outbox::viewers($instance), qr/\bhand1 hand2\b/, '... returns when all is answered');
like(($node->psql('postgres', 'CALL verdict_deliver()'))[2], qr/NOTICE:  0 batches/, '... and at once when nothing is pending');
$instance->fault('BatchFacts', { kind => 'error', code => 'unauthenticated' }, times => -1);
$psql->(Outbox::grant('hand3'));
like(($node->psql('postgres', "SET statement_timeout = '600ms'; CALL verdict_deliver()"))[2], qr/statement timeout/,
	'... and can be ended while it waits');
$instance->clear_faults;
ok(Outbox::drained($node), '... which leaves the batch to the worker');

# What an application's key has claimed gets its answer, or is given up with the batch.
$psql->("SET verdict.idempotency_key = 'order-1';", Outbox::grant('ordered'));
ok(Outbox::drained($node), 'a batch under a key of the application is delivered');
is($psql->('SELECT changed FROM verdict_ledger'), '1', '... and the ledger has the answer');
$instance->fault('BatchFacts', { kind => 'error', code => 'invalid_argument' });
$psql->("SET verdict.idempotency_key = 'order-2';", Outbox::grant('given_up'));
ok(Outbox::wait_until(sub { $psql->('SELECT count(*) FROM verdict_outbox WHERE parked_at IS NOT NULL') eq '1' }), '... another is refused');
is($psql->('SELECT count(*) FROM verdict_ledger'), '2', '... which keeps its claim');
$psql->('SELECT verdict_outbox_drop(id) FROM verdict_outbox');
is($psql->('SELECT count(*) FROM verdict_ledger'), '1', '... until it is given up');
$psql->("SET verdict.idempotency_key = 'order-2';", Outbox::grant('given_up'));
ok(Outbox::drained($node), '... and the application may try it again');
like(Outbox::viewers($instance), qr/\bgiven_up\b/, '... with effect');

# ------------------------------------------------------- roles and their rights

$psql->('CREATE ROLE clerk LOGIN;', 'GRANT CONNECT ON DATABASE postgres TO clerk;');
my $as_clerk = sub { $node->safe_psql('postgres', "SET ROLE clerk; $_[0]") };
$as_clerk->(Outbox::grant('clerk'));
ok(Outbox::drained($node), 'whoever may change facts needs no right on the table');
for my $statement ('SELECT * FROM verdict_outbox', 'DELETE FROM verdict_outbox', 'SELECT * FROM verdict_outbox_status',
	'SELECT verdict_outbox_drop(1)', 'CALL verdict_deliver()')
{
	$psql->('REVOKE EXECUTE ON FUNCTION verdict_outbox_drop(bigint) FROM PUBLIC');
	$psql->('REVOKE EXECUTE ON PROCEDURE verdict_deliver() FROM PUBLIC');
	my ($status, undef, $errors) = $node->psql('postgres', "SET ROLE clerk; $statement");
	like($errors, qr/permission denied/, "$statement: not for everybody");
}

$psql->('CREATE ROLE watcher LOGIN IN ROLE pg_monitor');
for my $view ('verdict_outbox_status', 'verdict_stat_outbox')
{
	is($node->safe_psql('postgres', "SET ROLE watcher; SELECT count(*) FROM $view"), '0', "$view is for pg_monitor");
}

# Its mapping decides; without one, or without the role, somebody has to decide.
$hold->(sub { $as_clerk->(Outbox::grant('no_usage')); $psql->('REVOKE USAGE ON FOREIGN SERVER main FROM PUBLIC') });
ok(Outbox::wait_until(sub { $psql->("SELECT count(*) FROM verdict_outbox WHERE parked_at IS NOT NULL AND error_code = '42501'") }),
	'a role that lost USAGE: parked');
$psql->('GRANT USAGE ON FOREIGN SERVER main TO PUBLIC', ';SELECT verdict_outbox_resend(id) FROM verdict_outbox');
ok(Outbox::drained($node), '... and delivered when it may again');

$hold->(sub { $as_clerk->(Outbox::grant('no_role')); $psql->('DROP OWNED BY clerk;', 'DROP ROLE clerk') });
$psql->(Outbox::grant('after_role'));
ok(Outbox::wait_until(sub { $psql->("SELECT count(*) FROM verdict_outbox WHERE parked_at IS NOT NULL AND error_code = '42704'") }),
	'a role that was dropped: parked');
ok(Outbox::drained($node), '... and others go on');
like(Outbox::viewers($instance), qr/\bafter_role\b/, '... to the instance');
like($psql->('SELECT role FROM verdict_outbox_status'), qr/^\d+$/, '... with the number that is left of it');
$psql->('SELECT verdict_outbox_drop(id) FROM verdict_outbox');

$node->stop;
done_testing();
