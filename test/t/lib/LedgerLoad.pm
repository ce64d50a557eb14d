# Many clients that do the same operations at the same time, each under the
# operation's key, until every one of them has committed.
#
# An operation stores one fact.  Some transactions are rolled back, backends are
# terminated, and some are killed, which takes the whole server through crash
# recovery; a client whose COMMIT was not answered does what an application does:
# it makes the whole transaction again, under the same key.
package LedgerLoad;

use strict;
use warnings;

use IO::Handle;
use JSON::PP ();
use List::Util qw(sum0);
use POSIX ();
use PsqlSession;
use Time::HiRes qw(sleep time);

# How long all of it may take, in seconds.
my $patience = 900;

# Runs it in database postgres of the node, in outbox mode.  Options:
#   level        isolation level, as BEGIN has it
#   name         a word that keys and facts of this run have in common
#   clients      processes, a session each
#   keys         operations
#   duplicates   how many clients do each of them
#   crashes      how many backends are killed by SIGKILL
#   folder       for the clients' reports
# Returns { states => { SQLSTATE => n }, rollbacks, lost, terminated, crashes }: what
# the clients met, of which "lost" counts connections that ended without an answer.
sub run
{
	my ($node, %run) = @_;
	my @children;

	for my $client (0 .. $run{clients} - 1)
	{
		my $pid = fork // die "fork: $!";
		if ($pid == 0)
		{
			# Nothing of the parent is to end with a child.
			POSIX::_exit(eval { _client($node, $client, %run); 1 } ? 0 : _complain());
		}
		push @children, $pid;
	}

	my $total = _disturb($node, \@children, %run);
	for my $client (0 .. $run{clients} - 1)
	{
		open my $in, '<', "$run{folder}/$run{name}-$client" or die "client $client left no report: $!";
		my $report = JSON::PP->new->decode(join '', <$in>);
		$total->{$_} += $report->{$_} for qw(rollbacks lost);
		$total->{states}{$_} += $report->{states}{$_} for keys %{ $report->{states} };
	}
	return $total;
}

sub _complain
{
	print STDERR "a client failed: $@";
	return 1;
}

sub _client
{
	my ($node, $client, %run) = @_;
	my $report = { states => {}, rollbacks => 0, lost => 0 };
	my $session;
	my $end = time + $patience;

	srand $client;
	local $SIG{PIPE} = 'IGNORE';
	# Neighbours do the same operation, at the same time.
	for (my $n = $client; $n < $run{keys} * $run{duplicates}; $n += $run{clients})
	{
		my $key = int($n / $run{duplicates});
		my $done = 0;

		until ($done)
		{
			die "key $key is not done after $patience seconds" if time > $end;
			$done = eval { _operation($session ||= PsqlSession->new($node, 'postgres'), $key, $report, %run) };
			next if defined $done;
			$report->{lost}++;
			eval { $session->quit };
			undef $session;
			sleep 0.05;
		}
		# Time for what is to happen meanwhile; the same for all, so that they meet.
		sleep 0.07;
	}
	$session->quit if $session;

	open my $out, '>', "$run{folder}/$run{name}-$client" or die $!;
	print $out JSON::PP->new->encode($report);
	close $out or die $!;
}

# Runs a statement; returns its SQLSTATE, and dies when the connection is lost.
sub _state
{
	my (undef, $state) = $_[0]->ask($_[1]);

	die "connection lost\n" if ($state // '') !~ /^\w{5}$/ || $state =~ /^(?:08|57P0)/;
	return $state;
}

# One attempt; true when it has committed, dies when the connection is lost.
sub _operation
{
	my ($session, $key, $report, %run) = @_;
	my $state = _state($session, "BEGIN ISOLATION LEVEL $run{level}; SET LOCAL verdict.mutation_mode = outbox;"
		  . " SET LOCAL verdict.idempotency_key = '$run{name}-$key'; SELECT verdict_insert_fact('$run{name}', $key)");

	if ($state eq '00000' && rand() < 0.1)
	{
		_state($session, 'ROLLBACK');
		$report->{rollbacks}++;
		return 0;
	}
	$state = _state($session, 'COMMIT') if $state eq '00000';
	$report->{states}{$state}++;
	return 1 if $state eq '00000';
	_state($session, 'ROLLBACK');
	return 0;
}

# While the children run: ends sessions, and kills backends.
sub _disturb
{
	my ($node, $children, %run) = @_;
	my $total = { states => {}, rollbacks => 0, lost => 0, terminated => 0, crashes => 0 };
	my @left = @$children;
	my $session;
	my $end = time + $patience;

	local $SIG{PIPE} = 'IGNORE';
	while (@left)
	{
		@left = grep { my $pid = waitpid $_, POSIX::WNOHANG(); !($pid > 0 && ($? == 0 || die "a client failed")) } @left;
		die 'the clients do not end' if time > $end;
		sleep 0.05;
		my $found = eval {
			$session ||= PsqlSession->new($node, 'postgres');
			$session->must(q{SELECT pid, (SELECT count(*) FROM verdict_ledger) FROM pg_stat_activity
				WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1});
		};
		if (!defined $found)
		{
			eval { $session->quit };
			undef $session;
			next;
		}
		my ($backend, $done) = split /\|/, $found or next;
		# The crashes are spread over the whole.
		if ($done / $run{keys} > ($total->{crashes} + 1) / ($run{crashes} + 1))
		{
			$total->{crashes} += kill 'KILL', $backend;
			sleep 0.5;
		}
		else
		{
			eval { $session->must("SELECT pg_terminate_backend($backend)"); $total->{terminated}++ };
		}
	}
	eval { $session->quit } if $session;
	return $total;
}

1;
