# The bundled instance as a writer and replicas: over HTTP, and what SQL sees of it.
#
# A replica is held back by a long lag and let go by setting it to 0, so nothing
# depends on how fast the machine is, but for the bounds, which are generous.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use File::Temp ();
use IPC::Run ();
use JSON::PP ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PsqlSession;
use Test::More;
use Time::HiRes qw(sleep time);
use VerdictDev;

my $ages = 600_000;
my $policy = 'allow(actor, "read", doc) if viewer(actor, doc);';
my $revision_header = qr/^v1\.[0-9a-f]{16}\.\d+\.\d+(,\d+:\d+)*$/;

sub fact { return { fact => VerdictDev::fact_of('viewer', 'User:ann', "Document:$_[0]") } }

# Inserts and returns the revision.
sub insert
{
	my ($at, $document, %headers) = @_;
	my $answer = $at->call('InsertFact', fact($document), %headers);
	is($answer->{status}, 200, "fact $document is inserted") or diag explain $answer;
	return $answer->{headers}{'verdict-revision'};
}

# One check: "yes", "no" or the code; then the revision.
sub check
{
	my ($at, $document, %headers) = @_;
	my $answer = $at->call('Authorize', { actor => VerdictDev::identity('User:ann'), action => 'read',
		resource => VerdictDev::identity("Document:$document") }, %headers);
	my $said = defined $answer->{code} ? $answer->{code}
	  : $answer->{status} != 200 ? $answer->{status}
	  : $answer->{body}{allowed} ? 'yes' : 'no';
	return ($said, $answer->{headers}{'verdict-revision'}, $answer);
}
sub said { return (check(@_))[0] }

sub let_go
{
	my ($instance, $node) = @_;
	$instance->order_node($node, lag_ms => 0, frozen => JSON::PP::false);
	my $end = time + 60;
	while ($instance->cluster->{nodes}[$node]{behind})
	{
		die "node $node does not get there" if time > $end;
		sleep 0.005;
	}
}

sub at { return ('Verdict-Revision' => $_[0]) }
sub in { return ('Verdict-Session-Id' => $_[0]) }
my @eventual = ('Verdict-Consistency' => 'eventual');
my @authoritative = ('Verdict-Consistency' => 'authoritative');

# ------------------------------------------------------------ the command line

for my $case ([ [ '--lag', 5 ], 'need --replicas' ], [ [ '--sync', 1 ], 'need --replicas' ],
	[ [ '--replicas', 0 ], 'from 1 to 16' ], [ [ '--replicas', 17 ], 'from 1 to 16' ],
	[ [ '--replicas', 2, '--sync', 3 ], 'must not be larger' ],
	[ [ '--replicas', 2, '--shards', 65 ], 'from 1 to 64' ])
{
	my ($arguments, $complaint) = @$case;
	my ($out, $err);
	IPC::Run::run([ VerdictDev::program(), @$arguments ], '<', \'', '>', \$out, '2>', \$err);
	like($err, qr/$complaint/, "@$arguments is refused");
	is($? >> 8, 2, '... with status 2');
}

# ------------------------------------------------------------------ over HTTP

my $instance = VerdictDev->start(api_keys => ['the-key'],
	args => [ '--replicas', 3, '--lag', $ages ]);
is(scalar @{ $instance->{node_urls} }, 4, 'a writer and three replicas tell their addresses');
$instance->call('SetPolicy', { policy => $policy });

my $revision = insert($instance, 1);
like($revision, $revision_header, 'a change answers with a revision');
my $writer = $instance->node(0);
is(said($writer, 1), 'yes', 'the writer has it');
for my $number (1 .. 3)
{
	my $node = $instance->node($number);
	my ($old, $position) = check($node, 1);
	is($old, 'no', "replica $number does not have it");
	like($position, qr/\.1\.0$/, '... and says how far it is');
	is(said($node, 1, at($revision), @eventual), 'no', '... and an eventual read does not mind');
	my $start = time;
	my ($new, $served_at) = check($node, 1, at($revision));
	my $took = time - $start;
	is($new, 'yes', '... a read that has seen it gets it');
	is($served_at, $revision, '... at its own position');
	cmp_ok($took, '>=', 0.04, '... after the wait budget');
	cmp_ok($took, '<', 2, '... and not much later');
	is(said($node, 1, @authoritative), 'yes', '... an authoritative read is the writer\'s');
}
my $figures = $instance->cluster;
is_deeply([ map { $_->{waits} } @{ $figures->{nodes} } ], [ 0, 1, 1, 1 ], 'waits are counted');
is_deeply([ map { $_->{fallbacks} } @{ $figures->{nodes} } ], [ 0, 1, 1, 1 ], 'fallbacks too');
is_deeply([ map { $_->{reads} } @{ $figures->{nodes} } ], [ 7, 2, 2, 2 ], 'and reads, by who served');
is($figures->{nodes}[1]{behind}, 2, 'how far a replica is behind');
cmp_ok($figures->{nodes}[1]{behind_ms}, '>', 0, '... and how long');
is($figures->{pending}, 2, 'and what is under way');

# Uneven lag; the log tells who served.
let_go($instance, 2);
is(said($instance->node(2), 1), 'yes', 'one replica is there');
is(said($instance->node(3), 1), 'no', '... and another one is not');
$instance->clear_log;
is(said($instance->node(2), 1, at($revision)), 'yes', 'served where it is there');
is_deeply([ @{ $instance->log->[-1] }{qw(address served_by)} ], [ 2, 2 ], '... as the log tells');
is(said($instance->node(3), 1, at($revision)), 'yes', 'and by the writer where it is not');
is_deeply([ @{ $instance->log->[-1] }{qw(address served_by)} ], [ 3, 0 ], '... as the log tells');

# A change by way of any node.
my $second = insert($instance->node(3), 2);
is(said($writer, 2), 'yes', 'a replica hands a change on to the writer');
let_go($instance, $_) for 1 .. 3;
is(said($instance->node($_), 2, at($second)), 'yes', "replica $_ has all") for 1 .. 3;

# Freezing.
$instance->order_node(1, frozen => JSON::PP::true);
$revision = insert($instance, 3);
let_go($instance, 2);
is(said($instance->node(2), 3), 'yes', 'the change is replicated');
is(said($instance->node(1), 3), 'no', '... but not to the one that is frozen');
is(said($instance->node(1), 3, at($revision)), 'yes', '... for which the writer stands in');
let_go($instance, 1);
is(said($instance->node(1), 3), 'yes', 'thawed');

# The front.
sub served_by
{
	my ($session) = @_;
	$instance->clear_log;
	check($instance, 1, defined $session ? in($session) : ());
	return $instance->log->[-1]{served_by};
}
my %home = map { $_ => served_by($_) } map { "session-$_" } 1 .. 40;
my %used = map { $_ => 1 } values %home;
is_deeply([ sort keys %used ], [ 1, 2, 3 ], 'sessions are spread over the replicas');
is_deeply({ map { $_ => served_by($_) } keys %home }, \%home, '... and stay where they are');
$instance->order_node(2, front => JSON::PP::false);
my %moved = map { $_ => served_by($_) } keys %home;
ok(!grep({ $moved{$_} == 2 } keys %moved), 'a node that is taken out gets none');
ok(!grep({ $home{$_} != 2 && $moved{$_} != $home{$_} } keys %home), '... and only its sessions move');
$instance->order_node(2, front => JSON::PP::true);
is_deeply({ map { $_ => served_by($_) } keys %home }, \%home, '... and come back with it');
%used = map { served_by(undef) => 1 } 1 .. 30;
is_deeply([ sort keys %used ], [ 1, 2, 3 ], 'calls without a session go round');

# What is not reached, and other histories.
my ($history, $position) = $second =~ /^(.*\.)(\d+)$/;
for my $case ([ $history . 99, 'a revision ahead of the writer' ],
	[ 'v1.stranger.1.1', 'a revision of another instance' ],
	[ $second =~ s/\.1\.(\d+)$/.2.$1/r, 'a revision of another generation' ],
	[ $history . "$position,5:1", 'a position of a shard that is not here' ])
{
	my ($given, $name) = @$case;
	is(said($instance, 1, at($given)), 'failed_precondition', $name);
	is(said($instance, 1, at($given), @authoritative), 'failed_precondition', '... authoritative');
	is(said($instance, 1, at($given), @eventual), 'yes', '... eventual');
}
my (undef, $none, $failed) = check($instance, 1, at('v1.stranger.1.1'));
is($none, undef, 'a failed call carries no revision');
is(said($instance, 1, at('v1.x')), 'invalid_argument', 'a malformed revision');

# A fault's own header is the only one.
$instance->fault('Authorize', { kind => 'revision', values => ['v1.other.1.1'] });
is((check($instance, 1))[1], 'v1.other.1.1', 'an ordered revision takes the place of the true one');

# Keys: one position, whoever is asked.
my %key = ('Idempotency-Key' => 'once');
my $first = insert($instance, 4, %key);
insert($instance, 5);
is(insert($instance->node(2), 4, %key), $first, 'a replay answers with the first position');
$instance->clear_log;
is($instance->call('InsertFact', fact(6), %key)->{code}, 'failed_precondition', 'another payload');

# The writer cut off.
let_go($instance, $_) for 1 .. 3;
$instance->order_node(3, frozen => JSON::PP::true);
$revision = insert($instance, 7);
let_go($instance, 1);
$instance->order_node(0, cut => 'refuse');
is(said($instance->node(1), 7, at($revision)), 'yes', 'a replica that has it goes on');
is(said($instance->node(3), 7, at($revision)), 'unavailable', 'one that has not fails');
is(said($instance->node(3), 7), 'no', '... and serves who does not ask for it');
is(said($instance, 7, @authoritative), 'unavailable', 'authoritative reads fail');
is($instance->call('InsertFact', fact(8))->{code}, 'unavailable', 'changes fail');
is($instance->call('InsertFact', fact(8))->{status}, 503, '... with 503');
is((check($writer, 7))[2]{status}, 599, 'the writer itself does not answer');
$instance->order_node(0, cut => 'hang');
my $start = time;
is(said($instance, 7, @authoritative, 'Connect-Timeout-Ms' => 300), 'deadline_exceeded',
	'a writer that hangs costs no more than the deadline');
cmp_ok(time - $start, '<', 3, '... in time');
$instance->order_node(0, cut => undef);
is(said($instance, 7, @authoritative), 'yes', 'the writer is back');
let_go($instance, 3);

# Failover.
$instance->order_node(1, lag_ms => $ages);
$instance->order_node(2, lag_ms => $ages);
my $lost = insert($instance, 9, 'Idempotency-Key' => 'lost');
let_go($instance, 3);
my $state = $instance->failover(1);
is($state->{writer}, 1, 'a replica becomes the writer');
is($state->{generation}, 2, '... in a new generation');
is($state->{lost}, 1, '... which lacks what it had not received');
for my $number (0 .. 3)
{
	my $node = $instance->node($number);
	is(said($node, 9, at($lost)), 'failed_precondition', "node $number refuses the old generation");
	is(said($node, 9, @eventual), 'no', '... and does not have what was lost');
	is(said($node, 7, @eventual), 'yes', '... and has what was not');
}
like(insert($instance, 4, %key), qr/\.2\.\d+$/, 'a key from before is known in the new generation');
is((split /\./, insert($instance, 4, %key))[3], (split /\./, $first)[3], '... at its position');
$instance->clear_log;
insert($instance, 9, 'Idempotency-Key' => 'lost');
ok(!$instance->log->[-1]{replayed}, 'a key that was lost is new');
let_go($instance, $_) for 0, 2, 3;
is(said($instance->node($_), 9), 'yes', "node $_ follows the new writer") for 0, 2, 3;
is(eval { $instance->failover(1); 1 }, undef, 'the writer cannot take over from itself');
like($@, qr/^POST \/failover: 409 .*node 1 is the writer/, '... it says why');
is(eval { $instance->order_node(1, lag => 5); 1 }, undef, 'an unknown order is refused');

# The end does not wait for what hangs.
$instance->order_node(1, cut => 'hang');
my $pid = fork;
if ($pid == 0)
{
	$instance->call('InsertFact', fact(10));
	POSIX::_exit(0);
}
my $end = time + 20;
sleep 0.01 until $instance->counts->{InsertFact}{requests} > 0 && time > $end - 19.5;
$start = time;
is($instance->stop, 0, 'it stops over a call that hangs');
cmp_ok(time - $start, '<', 15, '... in time');
waitpid $pid, 0;

# --------------------------------------------------------------- shards, files

my $folder = File::Temp->newdir;
$instance = VerdictDev->start(args => [ '--replicas', 2, '--lag', $ages, '--shards', 4,
	'--data', "$folder/store" ]);
$instance->call('SetPolicy', { policy => $policy });
my %shards;
for my $predicate (map { "p$_" } 1 .. 12)
{
	my $answer = $instance->call('InsertFact',
		{ fact => VerdictDev::fact_of($predicate, 'User:ann') });
	my $given = $answer->{headers}{'verdict-revision'};
	$given =~ /^v1\.[0-9a-f]{16}\.1\.(?:(\d+):)?(\d+)$/ or die "$predicate: $given";
	push @{ $shards{ $1 // 0 } }, [ $predicate, $2, $given ];
}
is(scalar keys %shards, 4, 'facts are spread over the shards by predicate');
my ($served) = $instance->node(0)->call('GetPolicy', {})->{headers}{'verdict-revision'};
is($served =~ s/^.*\.//r, join(',', map { ($_ ? "$_:" : '') . $shards{$_}[-1][1] } 0 .. 3),
	'a node stands at the last position of each shard');
my $batch = $instance->call('BatchFacts', { changes => [
	map { { insert => VerdictDev::fact_of($shards{$_}[0][0], 'User:bob') } } 1, 3 ] });
like($batch->{headers}{'verdict-revision'}, qr/\.1\.1:14,3:14$/, 'a batch names the shards it touched');

# Merged by shard, the revisions of two sessions ask for both.
my ($one, $other) = ($shards{1}[-1][2], $shards{2}[-1][2]);
my $both = $one . ',' . ($other =~ s/^.*\.//r);
let_go($instance, 1);
my $list = { pattern => { predicate => $shards{2}[-1][0] } };
is(scalar @{ $instance->node(1)->call('ListFacts', $list, at($both))->{body}{facts} }, 1,
	'a revision of several shards');
is($instance->node(2)->call('ListFacts', $list, at($both))->{headers}{'verdict-revision'},
	$instance->node(0)->call('ListFacts', $list)->{headers}{'verdict-revision'},
	'... is served by the writer where the replica is behind');

# After a restart nobody is behind, and revisions are still good.
$instance->restart;
is($instance->cluster->{nodes}[2]{behind}, 0, 'after a restart no replica is behind');
is(scalar @{ $instance->node(2)->call('ListFacts', $list, at($both))->{body}{facts} }, 1,
	'... and a revision from before is served');
$instance->call('InsertFact', fact(1));
$instance->failover(2);
$revision = insert($instance, 2);
$instance->restart;
is($instance->cluster->{generation}, 2, 'a failover outlives a restart');
is(said($instance->node($_), 2, at($revision)), 'yes', "node $_ has what came after") for 0 .. 2;
is(said($instance->node($_), 1), 'no', "node $_ does not have what was lost") for 0 .. 2;
$instance->stop;

# ----------------------------------------------------------------------- sync

$instance = VerdictDev->start(args => [ '--replicas', 2, '--lag', $ages, '--sync', 1 ]);
$instance->call('SetPolicy', { policy => $policy });
$revision = insert($instance, 1);
is(said($instance->node(1), 1, @eventual), 'no', 'with --sync replicas lag as well');
$state = $instance->failover;
is($state->{lost}, 0, '... but a failover loses nothing');
is(said($instance, 1, @authoritative), 'yes', '... so the change is there');
is(said($instance, 1, at($revision), @authoritative), 'failed_precondition', '... in a new history');
my @replicas = grep { $_ != $state->{writer} } 0 .. 2;
$instance->order_node($_, frozen => JSON::PP::true) for @replicas;
my $answer = $instance->call('InsertFact', fact(2), 'Connect-Timeout-Ms' => 300);
is($answer->{code}, 'deadline_exceeded', 'no replica, no acknowledgement');
$instance->order_node($replicas[1], frozen => JSON::PP::false);
insert($instance, 3);
is(eval { $instance->failover($replicas[0]); 1 }, undef, 'one that lacks what was acknowledged');
like($@, qr/409 .*was acknowledged/, '... cannot become the writer');
is($instance->failover->{writer}, $replicas[1], '... by itself it takes the one that has it');
is(said($instance, 3, @authoritative), 'yes', '... all of it');
$instance->stop;

# Many changes from several sides, the writer changing under them: nothing that was
# acknowledged is missing, nothing is there twice.
$instance = VerdictDev->start(args => [ '--replicas', 2, '--lag', 20, '--sync', 1 ]);
my @children;
for my $child (1 .. 2)
{
	pipe my $read, my $write or die "pipe: $!";
	my $forked = fork;
	if ($forked == 0)
	{
		my $number = 0;
		my $stop = 0;
		local $SIG{TERM} = sub { $stop = 1 };
		until ($stop)
		{
			my $document = "$child-" . ++$number;
			# As a client does: the same key until it is answered.
			my $tries = 0;
			$tries++
			  while $instance->call('InsertFact', fact($document),
				'Idempotency-Key' => $document)->{status} != 200 && $tries < 50;
			syswrite $write, "$document\n" if $tries < 50;
		}
		POSIX::_exit(0);
	}
	close $write;
	push @children, [ $forked, $read ];
}
my $failovers = 0;
$end = time + 60;
while ($failovers < 100 && time < $end)
{
	sleep 0.03;
	$failovers++ if eval { $instance->failover; 1 };
}
kill 'TERM', map { $_->[0] } @children;
my @acknowledged;
for (@children)
{
	my ($forked, $read) = @$_;
	chomp(my @documents = <$read>);
	waitpid $forked, 0;
	is($?, 0, 'a side is done') and cmp_ok(scalar @documents, '>', 10, '... and has done something');
	push @acknowledged, @documents;
}
my %stored;
$stored{$_->{args}[1]{identity}{id}}++
  for @{ $instance->call('ListFacts', { pattern => { predicate => 'viewer' } }, @authoritative)->{body}{facts} };
is($failovers, 100, 'a hundred failovers under load');
is_deeply([ grep { !$stored{$_} } @acknowledged ], [], '... lost nothing of '
	. @acknowledged . ' acknowledged changes');
is($instance->cluster->{generation}, $failovers + 1, '... each a new generation');
is($instance->stop, 0, 'it stops');

# ------------------------------------------------------------------- from SQL

$instance = VerdictDev->start(api_keys => ['the-key'], args => [ '--replicas', 2, '--lag', 500 ]);
$instance->call('SetPolicy', { policy => $policy });
my $node = PostgreSQL::Test::Cluster->new('replicas');
my $url = $instance->url;
$node->init;
$node->append_conf('postgresql.conf', "verdict.mutation_mode = immediate\n");
$node->start;
$node->safe_psql('postgres', <<"END");
CREATE EXTENSION verdict;
CREATE SERVER main FOREIGN DATA WRAPPER verdict OPTIONS (instance_url '$url');
CREATE USER MAPPING FOR PUBLIC SERVER main OPTIONS (api_key 'the-key');
ALTER DATABASE postgres SET verdict.server = 'main';
END
my $one_session = PsqlSession->new($node, 'postgres');
my $other_session = PsqlSession->new($node, 'postgres');

sub grants { return "SELECT verdict_insert_fact('viewer(User:ann, Document:$_[0])')" }
sub checks { return "SELECT verdict_authorize('User:ann', 'read', 'Document:$_[0]'" . ($_[1] // '') . ')' }

# A session never misses what it has written, at any replica.
my $misses = 0;
for my $document (100 .. 119)
{
	$one_session->must('BEGIN');
	$one_session->must(grants($document));
	$misses++ if $one_session->must(checks($document)) ne 't';
	$one_session->must('COMMIT');
}
is($misses, 0, 'session reads see what the session has written');

# Handed over, the other backend does not miss it either.
for my $document (120 .. 124)
{
	$one_session->must('BEGIN');
	$one_session->must(grants($document));
	my $handed = $one_session->must('SELECT verdict_revision()');
	$one_session->must('COMMIT');
	$other_session->must('BEGIN');
	$other_session->must("SET LOCAL verdict.revision = '$handed'");
	$misses++ if $other_session->must(checks($document)) ne 't';
	$other_session->must('COMMIT');
}
is($misses, 0, '... and so does a session that takes its revision over');

# Eventual reads do miss it; authoritative ones see everything.
my ($stale, $fresh) = (0, 0);
for my $document (130 .. 134)
{
	$one_session->must(grants($document));
	$stale++ if $other_session->must(checks($document, ", 'eventual'")) eq 'f';
	$fresh++ if $other_session->must(checks($document, ", 'authoritative'")) eq 't';
}
cmp_ok($stale, '>', 0, 'eventual reads are seen to be stale');
is($fresh, 5, 'authoritative reads never are');

# A failover leaves a session without its history.
$one_session->must('BEGIN');
$one_session->must(grants(140));
my $outlived = $one_session->must('SELECT verdict_revision()');
$one_session->must('SAVEPOINT s');
$instance->failover(1);
my (undef, $sqlstate) = $one_session->ask(checks(140));
is($sqlstate, '55000', 'after a failover a session read fails with 55000') or diag $one_session->error;
$one_session->must('ROLLBACK TO s');
$one_session->must('SELECT verdict_new_session()');
like($one_session->must(checks(140)), qr/^[tf]$/, '... which does');
$one_session->must('COMMIT');
my $error;
$node->psql('postgres', "SET verdict.revision = '$outlived'; " . checks(140), stderr => \$error);
like($error, qr/^HINT:.*verdict_new_session\(\)/m, 'the hint says how to go on');
$one_session->must('BEGIN');
is($one_session->must(checks(100)), 't', 'the next transaction is as any other');
$one_session->must('COMMIT');

# The writer gone: what a replica can answer is answered.
$instance->order_node(1, cut => 'refuse');
is($other_session->must(checks(100)), 't', 'reads go on without a writer');
(undef, $sqlstate) = $other_session->ask(checks(100, ", 'authoritative'"));
is($sqlstate, '08006', 'authoritative reads fail');
$instance->order_node(1, cut => undef);
is($other_session->must(checks(100, ", 'authoritative'")), 't', 'and it is back without a restart');

$node->stop;
is($instance->stop, 0, 'the instance stops');
done_testing();
