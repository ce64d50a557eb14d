# The writer cut off, and failovers: what goes on, what fails and how soon, what is
# lost and who is told.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FailoverTest;
use JSON::PP ();
use Outbox;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PsqlSession;
use Test::More;
use Time::HiRes qw(sleep time);
use VerdictDev;

my ($node, $instance) = FailoverTest::start('cut');
my $bound = 3;
# Generous: several sessions run at once, and perhaps other programs.
my $slack = 3;

sub fact { return "'held(User:ann, Document:$_[0])'" }
sub insert { return 'SELECT verdict_insert_fact(' . fact($_[0]) . ')' }
sub check { return "SELECT verdict_authorize('User:ann', 'read', 'Document:$_[0]'" . (defined $_[1] ? ", '$_[1]'" : '') . ')' }
sub session { return PsqlSession->new($node, 'postgres', 'SET verdict.mutation_mode = immediate; ' . ($_[0] // 'SELECT 1')) }

sub level
{
	ok(Outbox::wait_until(sub { !grep { $_->{behind} } @{ $instance->cluster->{nodes} } }), $_[0]);
	return;
}

# ------------------------------------------------------------- the writer cut off

# Replica 1 serves the sessions and has everything, replica 2 lacks the last change.
my $writing = session();
$writing->must(insert('old'));
level('the replicas have what there is');
$instance->order_node(3, front => JSON::PP::false);
$instance->order_node(2, front => JSON::PP::false, frozen => JSON::PP::true);
$writing->must('BEGIN; ' . insert('new'));
my $seen = $writing->must('SELECT verdict_revision()');
$writing->must('COMMIT');
ok(Outbox::wait_until(sub { $instance->cluster->{nodes}[1]{behind} == 0 }), 'one replica has the last change');

# What any replica can answer, by consistency.
sub reads
{
	my ($consistency) = @_;
	return (
		[ check('old', $consistency), 't' ],
		[ "SELECT verdict_authorize_many('User:ann', 'read', '{Document:old,Document:none}', '$consistency')", '{t,f}' ],
		[ "SELECT * FROM verdict_query('held(?who, Document:old)', '$consistency') AS (who text)", 'User:ann' ],
		[ "SELECT count(*) FROM verdict_list_resources('User:ann', 'read', 'Document', '$consistency') d WHERE d = 'old'", '1' ],
		[ "SELECT * FROM verdict_list_actors('read', 'Document:old', 'User', '$consistency')", 'ann' ],
		[ "SELECT * FROM verdict_list_actions('User:ann', 'Document:old', '$consistency')", 'read' ],
		[ "SELECT f FROM verdict_list_facts('held(_, Document:old)', '$consistency') f", 'held(User:ann, Document:old)' ],
		[ "SELECT verdict_get_policy('$consistency')", FailoverLoad::policy() ]);
}

my @served = ((map { reads($_) } 'session', 'eventual'),
	[ "SET verdict.revision = '$seen'; " . check('new'), 't' ],
	[ 'SET verdict.mutation_mode = outbox; ' . insert('later'), '' ]);
my @refused = ((map { $_->[0] } reads('authoritative')),
	insert('more'),
	'SELECT verdict_delete_fact(' . fact('old') . ')',
	'SELECT verdict_batch_facts(ARRAY[' . fact('more') . '::verdict_fact], \'{}\')',
	q{SELECT verdict_set_policy('')},
	'SET verdict.mutation_mode = deferred; ' . insert('more'),
	q{SELECT * FROM verdict_reconcile_facts('held', $$SELECT 'User:ann'::verdict_identity, 'Document:more'::verdict_identity$$, true)},
	# The outbox has a change that is not answered, and who sees it must wait.
	'SET verdict.session_scope = database; ' . check('old'));
# Backends that were there before and are there afterwards.
my @sessions = map { session() } 1 .. (@served > @refused ? @served : @refused);
my @backends = map { $_->must('SELECT pg_backend_pid()') } @sessions;
$_->must(check('old')) for @sessions;

# Runs them all at the same time: [ answer, state, error ] of each, and the longest time.
sub at_once
{
	my (@statements) = @_;
	my @answers;
	my $start = time;

	$sessions[$_]->begin("RESET verdict.revision; RESET verdict.session_scope; SET verdict.mutation_mode = immediate;"
		  . " $statements[$_]") for 0 .. $#statements;
	push @answers, [ $sessions[$_]->finish, $sessions[$_]->error ] for 0 .. $#statements;
	return (time - $start, @answers);
}

for my $cut ('refuse', 'hang')
{
	my $code = $cut eq 'hang' ? '08000' : '08006';
	my $is_down = $cut eq 'hang' ? 'hangs' : 'is gone';

	$instance->order_node(0, cut => $cut);
	my ($took, @answers) = at_once(map { $_->[0] } @served);
	is_deeply([ map { "$_->[1]: $_->[0]" } @answers ], [ map { "00000: $_->[1]" } @served ],
		"the writer $is_down: what replicas can answer, and the outbox, go on");
	cmp_ok($took, '<', $bound, sprintf '... at once (%.1f s)', $took);
	($took, @answers) = at_once(@refused);
	# The last waits until its time is over, whatever the worker is told.
	is_deeply([ map { "$_->[1]: $_->[0]" } @answers ], [ ("$code: ") x $#refused, '08000: ' ], '... the rest fails')
	  or diag join "\n", map { $_->[2] } @answers;
	cmp_ok($took, '<', $bound + $slack, sprintf '... in time (%.1f s)', $took);

	# Only one that lacks what was seen.
	$instance->order_node(1, front => JSON::PP::false);
	$instance->order_node(2, front => JSON::PP::true);
	my $start = time;
	my (undef, $state) = $sessions[0]->ask("SET verdict.revision = '$seen'; " . check('new'));
	is($state, $code, '... a replica that lacks what the session has seen does not answer');
	cmp_ok(time - $start, '<', $bound + $slack, '... in time');
	is($sessions[0]->must("SET verdict.revision = ''; " . check('new')), 'f', '... another session it does');
	$instance->order_node(1, front => JSON::PP::true);
	$instance->order_node(2, front => JSON::PP::false);

	# Bounds that the user sets.
	is($sessions[0]->must("SET client_min_messages = error; SET verdict.on_failure = deny; " . check('old', 'authoritative')),
		'f', '... a check that is to deny denies');
	$start = time;
	(undef, $state) = $sessions[0]->ask("RESET verdict.on_failure; SET statement_timeout = '300ms'; " . check('old', 'authoritative'));
	like($state, $cut eq 'hang' ? qr/^(57014|08000)$/ : qr/^(57014|08006)$/, '... statement_timeout ends it');
	cmp_ok(time - $start, '<', 2.5, '... sooner');
	$start = time;
	$sessions[0]->must("RESET statement_timeout; SET verdict.mutation_mode = outbox; SET verdict.commit_wait = '300ms'; " . insert('waits'));
	cmp_ok(time - $start, '<', 2.5, '... and COMMIT does not wait longer than it is told to');
	$sessions[0]->must('RESET verdict.commit_wait; RESET client_min_messages');

	$instance->order_node(0, cut => undef);
	($took, @answers) = at_once((map { $_->[0] } reads('authoritative')), insert("after-$cut"), check("after-$cut", 'authoritative'));
	is_deeply([ grep { $_->[1] ne '00000' } @answers ], [], "the writer is back: everything works, in the same sessions");
	ok(Outbox::drained($node), '... and the outbox is delivered');
	is($writing->must(check('waits', 'authoritative')), 't', '... to it');
	# What failed may have been applied, for all that anybody knows: put it right.
	$writing->must("SELECT verdict_set_policy('" . FailoverLoad::policy() . "'); SELECT verdict_delete_fact(" . fact('more')
		  . '); ' . insert('old'));
	ok(Outbox::wait_until(sub { $instance->cluster->{nodes}[1]{behind} == 0 }), '... and replicas follow');
}
is_deeply([ map { $_->must('SELECT pg_backend_pid()') } @sessions ], \@backends, 'nothing was restarted');
$instance->order_node($_, front => JSON::PP::true, frozen => JSON::PP::false) for 1 .. 3;
level('and all replicas are there');

# ----------------------------------------------------------- a failover that loses

my $other = session();
my $scoped = session(q{SET verdict.session_scope = 'database'});
$scoped->must(check('old'));
$instance->order_node($_, frozen => JSON::PP::true) for 1 .. 3;
$writing->must('BEGIN; ' . insert('lost'));
my $lost = $writing->must('SELECT verdict_revision()');
is($writing->must(check('lost')), 't', 'a change is acknowledged and read');
my $in_outbox = session(q{SET verdict.mutation_mode = outbox; SET verdict.commit_wait = '10s'});
$in_outbox->must(insert('lost_too'));
my $committed = $in_outbox->must('SHOW verdict.committed_revision');
like($committed, qr/^v1\./, '... another by way of the outbox');
cmp_ok($instance->failover->{lost}, '>=', 2, '... and a failover loses them');
$instance->order_node($_, frozen => JSON::PP::false) for 0 .. 3;

# Who has seen it is told, by every kind of read, and by authoritative ones too.
my (undef, $state) = $writing->ask(check('lost'));
is($state, '55000', 'the transaction that made it is told');
$writing->must('ROLLBACK');
for my $token ($lost, $committed)
{
	for my $consistency ('session', 'authoritative')
	{
		for my $read (reads($consistency))
		{
			my ($status, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\nSET verdict.revision = '$token'; $read->[0]");
			like($err, qr/ERROR:  55000: .*^HINT:  .*verdict_new_session\(\)/ms, "$consistency: 55000, and the way on: $read->[0]");
		}
	}
}
$other->must("BEGIN; SET LOCAL verdict.revision = '$lost'");
is($other->must(check('lost', 'eventual')), 'f', 'eventual reads go on');
is($other->must(insert('found')), 't', '... and changes');
$other->must('SAVEPOINT s');
(undef, $state) = $other->ask(check('found'));
is($state, '55000', '... but repair nothing');
$other->must('ROLLBACK TO s; SELECT verdict_new_session()');
is($other->must(check('lost', 'authoritative')), 'f', 'a new session goes on: what was lost is not there');
is($other->must(check('found', 'authoritative')), 't', '... what was not is');
$other->must('COMMIT');
for my $session ($writing, $other)
{
	is($session->must(check('old')), 't', 'the next transaction knows of nothing');
}

# The database's own scope finds to the new history by itself.
my @scoped;
for (1 .. 3)
{
	my ($answer, $how) = $scoped->ask(check('old'));
	push @scoped, $how eq '00000' ? $answer : $how;
}
like("@scoped", qr/^(55000 )?(t ?)+$/, "the database's scope goes on (@scoped)");
is($in_outbox->must(insert('kept_now') . '; ' . check('kept_now', 'authoritative')), "\nt", 'the outbox goes on');

# ------------------------------------- the worker's batch, and failovers around it

# The batch of an outbox transaction: its sends, the oldest first.
sub sends
{
	my ($document) = @_;
	my $hex = unpack 'H*', $document;
	return grep { ($_->{method} // '') =~ /Fact/ && $_->{headers}{'idempotency-key'} && $_->{body_hex} =~ /$hex/ } @{ $instance->log };
}
sub sent { my @all = sends($_[0]); return scalar grep { $_->{ended} } @all }

level('the replicas have everything');
my $queue = session('SET verdict.mutation_mode = outbox');

# Applied and replicated, its answer lost, then a failover.  Meanwhile the fact is
# revoked: the batch's key is known, and does not bring it back.
$instance->clear_log;
$instance->fault('BatchFacts', { kind => 'close', when => 'after' });
$instance->fault('BatchFacts', { kind => 'error', code => 'unavailable' }, times => -1);
$queue->must(insert('revoked'));
ok(Outbox::wait_until(sub { sent('revoked') }), 'a batch was sent, and its answer lost');
ok(Outbox::wait_until(sub { $writing->must(check('revoked', 'authoritative')) eq 't' }), '... and it was applied');
$writing->must('SELECT verdict_delete_fact(' . fact('revoked') . ')');
level('... and the replicas have it');
$instance->failover;
$instance->clear_faults;
ok(Outbox::drained($node), '... after a failover it is delivered');
my @sends = sends('revoked');
my %keys = map { $_->{headers}{'idempotency-key'} => 1 } grep { $_->{method} eq 'BatchFacts' } @sends;
is(scalar keys %keys, 1, '... with one key');
ok($sends[-1]{replayed}, '... which the new writer knows');
is($writing->must(check('revoked', 'authoritative')), 'f', '... so what was revoked since is not brought back');

# Applied, its answer lost, and gone with the failover: then it is applied anew.
$instance->clear_log;
$instance->order_node($_, frozen => JSON::PP::true) for 0 .. 3;
$instance->fault('BatchFacts', { kind => 'close', when => 'after' });
$instance->fault('BatchFacts', { kind => 'error', code => 'unavailable' }, times => -1);
$queue->must(insert('again'));
ok(Outbox::wait_until(sub { sent('again') }), 'a batch was sent, and its answer lost');
ok(Outbox::wait_until(sub { $writing->must(check('again', 'authoritative')) eq 't' }), '... and it was applied');
$instance->failover;
is($writing->must(check('again', 'authoritative')), 'f', '... and lost by a failover');
$instance->order_node($_, frozen => JSON::PP::false) for 0 .. 3;
$instance->clear_faults;
ok(Outbox::drained($node), '... it is delivered');
is($writing->must(check('again', 'authoritative')), 't', '... so it is there');
%keys = map { $_->{headers}{'idempotency-key'} => 1 } sends('again');
is(scalar keys %keys, 1, '... with one key');

$node->stop;
is($instance->stop, 0, 'the instance ends well');

# -------------------------------------------------------------------- under load

FailoverTest::under_load(failovers => 5);

# The same without --sync: something is lost, and the test sees it.
($node, $instance) = FailoverTest::start('async', '--lag', 200);
my $met = FailoverLoad::run($node, $instance, failovers => 3, seed => 1, folder => PostgreSQL::Test::Utils::tempdir());
cmp_ok(scalar @{ $met->{lost} }, '>', 0, 'without --sync acknowledged changes are lost: the test can fail');
$node->stop;
$instance->stop;
done_testing();
