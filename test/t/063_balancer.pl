# A load balancer that people really use (haproxy) before the replicas, with TLS and
# HTTP/2: the session guarantees hold through it, also while a replica goes.
#
# VERDICT_HISTORIES is how many histories to run, VERDICT_SEED the seed of the first.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

# The checker of 062_histories.pl, which also takes nodes out of the balancer and
# puts them back, in the middle of transactions.
package BalancedHistories
{
	use parent 'Histories';

	sub start
	{
		my ($self, $backend) = @_;

		if (rand() < 0.08)
		{
			my $number = 1 + int rand 3;
			my $out = $self->{out}{$number} = !$self->{out}{$number};

			$out ? $self->{balancer}->take_out($number) : $self->{balancer}->put_back($number);
			$self->{taken_out} += $out;
		}
		return $self->SUPER::start($backend);
	}
}

use Balancer;
use JSON::PP ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PsqlSession;
use Test::More;
use Time::HiRes qw(sleep time);
use VerdictDev;

my $histories = $ENV{VERDICT_HISTORIES} || 3;
my $seed = $ENV{VERDICT_SEED} || 1;
my @replicas = (1 .. 3);
my %lag = (1 => 100, 2 => 500, 3 => 900);

my $instance = VerdictDev->start(api_keys => ['balanced-key'], args => [ '--replicas', 3, '--shards', 4 ]);
my $policy = Histories::policy() . ' allow(user, "read", document) if viewer(user, document);';
is($instance->call('SetPolicy', { policy => $policy })->{status}, 200, 'the policy');
my $balancer = Balancer->start($instance);
my ($url, $certificate) = ($balancer->url, VerdictDev::certificate());

my $node = PostgreSQL::Test::Cluster->new('balancer');
$node->init;
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'verdict'\nverdict.mutation_mode = immediate\nfsync = off\n");
$node->start;
$node->safe_psql('postgres', <<"END");
CREATE EXTENSION verdict;
CREATE SERVER main FOREIGN DATA WRAPPER verdict OPTIONS (instance_url '$url', http_version '2',
	ssl_ca_file '$certificate', read_timeout_ms '3000');
CREATE USER MAPPING FOR PUBLIC SERVER main OPTIONS (api_key 'balanced-key');
ALTER DATABASE postgres SET verdict.server = 'main';
END

# The requests of the database, without the balancer's own.
sub requests { return grep { defined $_->{headers}{'verdict-session-id'} } @{ $instance->log } }

# At which node the last request of a session came in.
sub home
{
	my ($session_id) = @_;
	return (map { $_->{address} } grep { $_->{headers}{'verdict-session-id'} eq $session_id } requests())[-1];
}

sub fact { return "'viewer(User:ann, Document:$_[0])'" }
sub check
{
	my ($document, $consistency) = @_;
	return "SELECT verdict_authorize('User:ann', 'read', 'Document:$document'"
	  . (defined $consistency ? ", '$consistency'" : '') . ')';
}

# A transaction that starts from a revision; returns what the statement gave, and
# the revision after it.
sub transaction
{
	my ($session, $revision, $statement) = @_;

	$session->must("BEGIN; SET LOCAL verdict.revision = '" . ($revision // '') . "'");
	my $answer = $session->must($statement);
	$session->must('COMMIT');
	return ($answer, $session->must('SHOW verdict.committed_revision'));
}

sub lag { $instance->order_node($_, lag_ms => $lag{$_}) for @replicas; return }

sub level
{
	my $end = time + 30;
	while (grep { $_->{behind} } @{ $instance->cluster->{nodes} })
	{
		die 'the replicas do not get there' if time > $end;
		sleep 0.02;
	}
	return;
}

# ---------------------------------------------------- a script, in both formats

my @one_after_another;
sub script
{
	my ($wire) = @_;
	my ($writer, @readers) = map { PsqlSession->new($node, 'postgres') } 0 .. 3;
	my ($misses, $stale, $fresh, $back, $yes, $stale_yes);

	lag();
	$instance->clear_log;

	# Read your writes: in the transaction, and in the next one on another backend.
	$misses = $stale = $fresh = 0;
	for my $number (1 .. 10)
	{
		my $document = "$wire-new-$number";
		my (undef, $revision) =
		  transaction($writer, undef, 'SELECT verdict_insert_fact(' . fact($document) . '); ' . check($document));
		my $reader = $readers[ $number % 3 ];
		$stale++ if $reader->must(check($document, 'eventual')) eq 'f';
		my ($answer) = transaction($reader, $revision, check($document));
		$misses++ if $answer ne 't';
		$fresh++ if $readers[ ($number + 1) % 3 ]->must(check($document, 'authoritative')) eq 't';
	}
	for my $number (1 .. 10)
	{
		my $document = "$wire-own-$number";
		$writer->must('BEGIN; SELECT verdict_insert_fact(' . fact($document) . ')');
		$misses++ if $writer->must(check($document)) ne 't';
		$writer->must('COMMIT');
	}
	is($misses, 0, "$wire: nobody misses what was written before");
	cmp_ok($stale, '>', 0, "... though eventual reads do ($stale of 10): the test can fail");
	is($fresh, 10, '... and authoritative ones never');

	# Monotonic reads: what was once shown stays, whoever is asked next.
	my %again = (session => 0, eventual => 0);
	for my $consistency (sort keys %again)
	{
		for my $number (1 .. 4)
		{
			my $document = "$wire-$consistency-$number";
			my ($shown, $revision) = (0);
			$writer->must('SELECT verdict_insert_fact(' . fact($document) . ')');
			my $end = time + 1.1;
			for (my $turn = 0; time < $end; $turn++)
			{
				(my $answer, $revision) = transaction($readers[ $turn % 3 ],
					$consistency eq 'session' ? $revision : undef, check($document, $consistency));
				$again{$consistency}++ if $shown && $answer eq 'f';
				$shown ||= $answer eq 't';
				sleep 0.02;
			}
			$misses++ if !$shown;
		}
	}
	is($misses, 0, "$wire: everything is shown in the end");
	is($again{session}, 0, '... and never hidden again');
	cmp_ok($again{eventual}, '>', 0, '... unless reads are eventual: the test can fail');

	# Revocation.
	level();
	($yes, $stale_yes) = (0, 0);
	for my $number (1 .. 10)
	{
		my (undef, $revision) =
		  transaction($writer, undef, 'SELECT verdict_delete_fact(' . fact("$wire-new-$number") . ')');
		for my $reader (@readers)
		{
			$stale_yes++ if $reader->must(check("$wire-new-$number", 'eventual')) eq 't';
			my ($answer) = transaction($reader, $revision, check("$wire-new-$number"));
			$yes++ if $answer ne 'f';
			$yes++ if $reader->must(check("$wire-new-$number", 'authoritative')) ne 'f';
		}
	}
	is($yes, 0, "$wire: what was revoked is not allowed");
	cmp_ok($stale_yes, '>', 0, "... but by eventual reads ($stale_yes of 30): the test can fail");

	# The same by way of the outbox, where the database knows what it has revoked.
	$writer->must('SET verdict.mutation_mode = outbox');
	$_->must('SET verdict.session_scope = database') for @readers;
	level();
	$yes = 0;
	for my $number (1 .. 10)
	{
		$writer->must('SELECT verdict_delete_fact(' . fact("$wire-own-$number") . ')');
		$yes++ if $readers[ $number % 3 ]->must(check("$wire-own-$number")) ne 'f';
	}
	is($yes, 0, "$wire: what the outbox has revoked is not allowed to sessions of the database's scope");
	$writer->must('RESET verdict.mutation_mode');

	# How it came.
	my @requests = requests();
	cmp_ok(scalar @requests, '>', 100, "$wire: requests came (" . @requests . ')');
	is_deeply([ grep { ($_->{headers}{'x-balancer-protocol'} // '') ne 'h2' } @requests ], [], '... all by HTTP/2');
	is_deeply([ grep { $_->{format} ne $wire } @requests ], [], '... in their format');
	my %homes;
	$homes{ $_->{headers}{'verdict-session-id'} }{ $_->{address} } = 1 for @requests;
	is_deeply([ grep { keys %$_ > 1 } values %homes ], [], '... each session at one node');
	my %used = map { $_ => 1 } map { keys %$_ } values %homes;
	is_deeply([ sort keys %used ], \@replicas, '... and every replica had some');
	return;
}

# ------------------------------------ a replica goes in the middle of a transaction

sub writes_and_reads
{
	my ($session, $document) = @_;
	return $session->must('SELECT verdict_insert_fact(' . fact($document) . ')') . $session->must(check($document));
}

# Begins a transaction under a session id, which has written and read a document.
sub begin_at
{
	my ($session, $session_id) = @_;

	$session->must("BEGIN; SELECT verdict_new_session('$session_id')");
	die "$session_id does not read what it has written" if writes_and_reads($session, $session_id) ne 'tt';
	return home($session_id);
}

# "how" is what becomes of it: out (of the balancer), refuse or hang (a node that
# does not answer).
sub leaves
{
	my ($wire, $how) = @_;
	my @ids = map { "$wire-$how-$_" } 1 .. 8;
	my %session = map { $_ => PsqlSession->new($node, 'postgres', "SET verdict.prefetch = off") } @ids;
	my (%home, %moved, $wrong, %failed);

	lag();
	$instance->clear_log;
	$home{$_} = begin_at($session{$_}, $_) for @ids;
	my $gone = $home{ $ids[0] };
	if ($how eq 'out')
	{
		$balancer->take_out($gone);
	}
	else
	{
		$instance->order_node($gone, cut => $how);
	}

	# Until the balancer has noticed, a read may fail; what it says is never wrong.
	$wrong = 0;
	my $longest = 0;
	for my $id (@ids)
	{
		my $end = time + 40;
		while (1)
		{
			my $start = time;
			$session{$id}->must('SAVEPOINT s');
			my ($answer, $state) = $session{$id}->ask(check($id));
			$longest = time - $start if time - $start > $longest;
			$failed{$state}++ if $state ne '00000';
			$wrong++ if $state eq '00000' && $answer ne 't';
			last if $state eq '00000' || time > $end;
			$session{$id}->must('ROLLBACK TO s');
		}
		$moved{$id} = home($id);
	}
	is($wrong, 0, "$wire, $how: sessions read what they have written, wherever they are now");
	isnt($moved{ $ids[0] }, $gone, "... not where they were (node $gone)");
	is_deeply([ grep { $moved{$_} == $gone } @ids ], [], '... none of them');
	is_deeply([ grep { $home{$_} != $gone && $home{$_} != $moved{$_} } @ids ], [], '... and nobody else has moved');
	cmp_ok($longest, '<', 6, sprintf '... nothing took longer than it may (%.1f s)', $longest);
	is(join(' ', sort keys %failed), $how eq 'hang' ? '08000' : $how eq 'refuse' ? '08006' : '', '... or failed otherwise')
	  if $how eq 'out' || keys %failed;
	is(join('', map { writes_and_reads($session{$_}, "$_-2") } @ids), 'tt' x @ids, '... all go on writing and reading');

	# It comes back, with a lag that shows.
	$instance->order_node($gone, cut => undef, lag_ms => 5000);
	$balancer->put_back($gone);
	$balancer->wait_for($gone => 'UP');
	is(join('', map { writes_and_reads($session{$_}, "$_-3") } @ids), 'tt' x @ids, '... also when it is back');
	is_deeply({ map { $_ => home($_) } @ids }, \%home, '... where they began');
	$_->must('COMMIT') for values %session;
	return;
}

for my $wire ('binary', 'json')
{
	$node->safe_psql('postgres', "ALTER SERVER main OPTIONS (ADD wire_format '$wire')");
	script($wire);
	leaves($wire, $_) for 'out', 'refuse', 'hang';
	$node->safe_psql('postgres', 'ALTER SERVER main OPTIONS (DROP wire_format)');
}

# Nobody but the writer.
my $session = PsqlSession->new($node, 'postgres');
$balancer->take_out($_) for @replicas;
$instance->clear_log;
$session->must('BEGIN; SELECT verdict_insert_fact(' . fact('alone') . ')');
is($session->must(check('alone')), 't', 'without replicas the writer answers');
is_deeply([ grep { $_->{address} != 0 } requests() ], [], '... itself');
$session->must('COMMIT');
$balancer->put_back($_) for @replicas;
$balancer->wait_for(map { ($_ => 'UP') } @replicas);

# ---------------------------------------------------------------- the histories

my ($sum, $moved) = (0, 0);
my $session_histories = BalancedHistories->new($node, $instance, q{SET verdict.consistency = 'session'});
$session_histories->{balancer} = $balancer;
for my $number ($seed .. $seed + $histories - 1)
{
	$instance->clear_log;
	my @violations = $session_histories->run(seed => $number, operations => 300);
	ok(!@violations, "history $number violates nothing")
	  or diag join "\n", @violations[ 0 .. ($#violations < 9 ? $#violations : 9) ];
	$sum += $session_histories->counts->{$_}{'00000'} || 0 for keys %{ $session_histories->counts };
	my @requests = requests();
	is_deeply([ grep { $_->{address} eq 'front' || ($_->{headers}{'x-balancer-protocol'} // '') ne 'h2' } @requests ],
		[], '... all of it through the balancer (' . @requests . ' requests)');
	my %homes;
	$homes{ $_->{headers}{'verdict-session-id'} }{ $_->{address} } = 1 for @requests;
	$moved += grep { keys %$_ > 1 } values %homes;
}
cmp_ok($moved, '>', 0, "$moved sessions were moved to another node in their middle");
cmp_ok($sum, '>', 200 * $histories, "$sum operations were answered");
cmp_ok($session_histories->{taken_out}, '>', 0, "nodes were taken out $session_histories->{taken_out} times");

my $eventual = BalancedHistories->new($node, $instance, q{SET verdict.consistency = 'eventual'});
$eventual->{balancer} = $balancer;
my %kinds;
for my $more (0 .. 19)
{
	$kinds{ s/:.*//sr }++ for $eventual->run(seed => $seed + $more, operations => 300);
	last if $kinds{'read your writes'} && $kinds{'monotonic reads'};
}
cmp_ok($kinds{'read your writes'} || 0, '>', 0, 'eventual reads do not show what was written: the checker sees it');
cmp_ok($kinds{'monotonic reads'} || 0, '>', 0, '... nor what was shown before');

$node->stop;
ok(eval { $balancer->states }, 'the balancer was there until the end') or diag $balancer->output;
$balancer->stop;
is($instance->stop, 0, 'the instance stops');
done_testing();
