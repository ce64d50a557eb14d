# Changes from several backends in every mode, while the writer changes under them;
# after each failover everything that was acknowledged before is looked for.
#
# A client writes down what it knows about a document: "+" it is there, "-" it is
# not, "?" it may be either; "?" before it asks for a change, and the rest when that
# was acknowledged.  So what stands in its file before and after the look, the
# instance must show.
package FailoverLoad;

use strict;
use warnings;

use JSON::PP ();
use POSIX ();
use PsqlSession;
use Time::HiRes qw(sleep time);

# One of each is a mode with its clients.
my @modes = qw(immediate deferred outbox immediate deferred outbox);

# What the instance needs as its policy, and the database beside the extension.
sub policy { return 'allow(user, "read", document) if held(user, document);' }

sub sql
{
	return <<'END';
CREATE TABLE document (id text PRIMARY KEY, owner text NOT NULL);
CREATE TRIGGER emit AFTER INSERT OR UPDATE OR DELETE ON document FOR EACH ROW
	EXECUTE FUNCTION verdict_emit_fact('kept', 'User:{owner}', 'Document:{id}');
END
}

# Runs it in database postgres of the node against an instance with replicas.
# Options: failovers, seed, folder.  Returns {
#	acknowledged => { mode => n }, states => { SQLSTATE => n }, longest => seconds,
#	lost => [ what was acknowledged and is not so ], wrong => [ what was read and must not be ],
#	looks => n, known => documents looked for in the last, workers => n terminated }.
sub run
{
	my ($node, $instance, %run) = @_;
	my $result = { acknowledged => {}, states => {}, longest => 0, lost => [], wrong => [], looks => 0, workers => 0 };
	my @children;

	for my $number (0 .. $#modes)
	{
		my $pid = fork // die "fork: $!";
		if ($pid == 0)
		{
			my $done = eval { _client($node, $number, %run); 1 };
			print STDERR "client $number failed: $@" if !$done;
			# Nothing of the parent is to end with a child.
			POSIX::_exit($done ? 0 : 1);
		}
		push @children, $pid;
	}

	srand $run{seed};
	my $good = eval {
		my $session = PsqlSession->new($node, 'postgres');
		for my $number (1 .. $run{failovers})
		{
			_disturb($instance, $session, $result);
			_look($session, $result, $number, %run);
		}
		1;
	};
	my $error = $@;
	# Not a signal, which would break into a statement.
	open my $stop, '>', "$run{folder}/stop" or die $!;
	for (@children)
	{
		waitpid $_, 0;
		$error ||= 'a client failed' if $?;
	}
	die $error if !$good || $error;

	for my $number (0 .. $#modes)
	{
		open my $in, '<', "$run{folder}/report-$number" or die "client $number left no report: $!";
		my $report = JSON::PP->new->decode(join '', <$in>);
		$result->{states}{$_} += $report->{states}{$_} for keys %{ $report->{states} };
		$result->{acknowledged}{ $modes[$number] } += $report->{acknowledged};
		push @{ $result->{wrong} }, @{ $report->{wrong} };
		$result->{longest} = $report->{longest} if $report->{longest} > $result->{longest};
	}
	return $result;
}

# One failover, as it happens: ordered, or after the writer was gone for a while, now
# and then for longer than a call may take; with uneven lag, with one replica or all
# that have stopped to receive (then changes are made that nobody is promised); and
# a worker that ends.
sub _disturb
{
	my ($instance, $session, $result) = @_;
	my $cluster = $instance->cluster;
	my $writer = $cluster->{writer};
	my @replicas = grep { $_ != $writer } 0 .. $#{ $cluster->{nodes} };
	my $dice = rand;
	my @frozen = $dice < 0.3 ? @replicas : $dice < 0.5 ? $replicas[ rand @replicas ] : ();
	my $cut = rand() < 0.3 ? 'refuse' : rand() < 0.5 ? 'hang' : undef;

	$instance->order_node($_, lag_ms => int rand 200) for @replicas;
	$instance->order_node($_, frozen => JSON::PP::true) for @frozen;
	sleep 0.1 + rand 0.2;
	if (rand() < 0.4)
	{
		# One that has lived for a while: after a short life the next one waits.
		$result->{workers} += $session->must(q{SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE backend_type = 'verdict worker' AND backend_start < clock_timestamp() - interval '3 seconds'});
	}
	if ($cut)
	{
		$instance->order_node($writer, cut => $cut);
		sleep rand() < 0.1 ? 4 : 0.05 + rand 0.2;
	}
	$instance->failover;
	sleep rand 0.1;
	$instance->order_node($writer, cut => undef);
	$instance->order_node($_, frozen => JSON::PP::false) for @frozen;
	return;
}

sub _known
{
	my (%run) = @_;
	my %known;

	for my $number (0 .. $#modes)
	{
		open my $in, '<', "$run{folder}/known-$number" or next;
		while (<$in>)
		{
			# A line that is being written is not known yet.  The number of the line
			# tells a document that has gone and come back from one that has stayed.
			$known{$2} = "$1 $." if /^([-+?]) (\S+)\n\z/;
		}
	}
	return \%known;
}

# Looks for what is known; a call that meets a cut is made again.
sub _look
{
	my ($session, $result, $number, %run) = @_;
	my $before = _known(%run);
	my %there;
	my $end = time + 30;

	for my $predicate (qw(held kept))
	{
		my ($facts, $state);
		do
		{
			($facts, $state) = $session->ask("SELECT f FROM verdict_list_facts('$predicate(_, _)', 'authoritative') f");
			die "the facts cannot be listed: " . $session->error if time > $end;
		} until $state eq '00000';
		$there{$1} = 1 while $facts =~ /Document:(\w+)\)/g;
	}
	my $after = _known(%run);
	my @sure = grep { $before->{$_} eq $after->{$_} && $before->{$_} !~ /^\?/ } keys %$before;
	push @{ $result->{lost} }, map { "$before->{$_} $_ after failover $number" }
	  grep { !!$there{$_} != ($before->{$_} =~ /^\+/) } sort @sure;
	$result->{looks}++;
	$result->{known} = @sure;
	return;
}

# A client, which works until it is told to stop; always on the same backend.
sub _client
{
	my ($node, $number, %run) = @_;
	my $mode = $modes[$number];
	my $self = bless { number => $number, last => 0, mine => [], session => PsqlSession->new($node, 'postgres',
			"SET verdict.mutation_mode = '$mode'; SET verdict.prefetch = off; SET client_min_messages = error"),
		report => { states => {}, acknowledged => 0, longest => 0, wrong => [] } }, __PACKAGE__;
	my $parent = getppid();
	my $backend = $self->{session}->must('SELECT pg_backend_pid()');

	srand $run{seed} + $number;
	open $self->{known}, '>', "$run{folder}/known-$number" or die $!;
	until (-e "$run{folder}/stop")
	{
		my $work = "_$mode";
		die 'alone' if getppid() != $parent;
		$self->$work or sleep 0.02;
		sleep 0.01;
	}
	die 'another backend' if $self->{session}->must('SELECT pg_backend_pid()') ne $backend;

	open my $out, '>', "$run{folder}/report-$number" or die $!;
	print $out JSON::PP->new->encode($self->{report});
	close $out or die $!;
	return;
}

# Runs a statement; returns its SQLSTATE and its answer.
sub _ask
{
	my ($self, $statement) = @_;
	my $report = $self->{report};
	my $start = time;
	my ($answer, $state) = $self->{session}->ask($statement);
	my $took = time - $start;

	$report->{states}{$state}++;
	$report->{longest} = $took if $took > $report->{longest};
	return ($state, $answer);
}

sub _note
{
	my ($self, $sign, @documents) = @_;
	my $text = join '', map { "$sign $_\n" } @documents;
	die "what is known cannot be written: $!" if (syswrite($self->{known}, $text) // -1) != length $text;
	return;
}

sub _acknowledged
{
	my ($self, $sign, @documents) = @_;

	$self->_note($sign, @documents);
	$self->{report}{acknowledged} += @documents;
	push @{ $self->{mine} }, @documents if $sign eq '+';
	return 1;
}

sub _new_document { return "c$_[0]{number}_" . ++$_[0]{last} }
sub _fact { return "'held(User:ann, Document:$_[0])'" }
sub _check { return "SELECT verdict_authorize('User:ann', 'read', 'Document:$_[0]')" }

# A document that is there, to be revoked: not known from now on.
sub _some_document
{
	my ($self) = @_;
	my $mine = $self->{mine};
	return @$mine > 5 && rand() < 0.3 ? splice(@$mine, int rand @$mine, 1) : undef;
}

# Reads in the transaction that has changed: what it has changed, or an error.
sub _read_back
{
	my ($self, $document, $expected) = @_;
	my ($state, $answer) = $self->_ask(_check($document));

	push @{ $self->{report}{wrong} }, "$document: $answer, not $expected" if $state eq '00000' && $answer ne $expected;
	return $state eq '00000';
}

sub _immediate
{
	my ($self) = @_;
	my $revoked = $self->_some_document;
	my $document = $revoked // $self->_new_document;
	my ($call, $sign, $expected) = defined $revoked ? ('delete', '-', 'f') : ('insert', '+', 't');

	$self->_note('?', $document);
	$self->_ask('BEGIN');
	my ($state) = $self->_ask("SELECT verdict_${call}_fact(" . _fact($document) . ')');
	# Acknowledged, whatever becomes of the transaction.
	my $good = $state eq '00000' && $self->_acknowledged($sign, $document);
	$self->_read_back($document, $expected) if $good;
	$self->_ask('COMMIT');
	return $good;
}

sub _deferred
{
	my ($self) = @_;
	my $revoked = $self->_some_document;
	my @documents = map { $self->_new_document } 1 .. 1 + int rand 3;
	my @all = (@documents, defined $revoked ? $revoked : ());

	$self->_note('?', @all);
	$self->_ask('BEGIN');
	$self->_ask('SELECT ' . join ', ', (map { 'verdict_insert_fact(' . _fact($_) . ')' } @documents),
		defined $revoked ? 'verdict_delete_fact(' . _fact($revoked) . ')' : ());
	# A read sends what is pending, and what follows is sent by COMMIT.
	my $good = rand() < 0.7 || $self->_read_back($documents[0], 't');
	if ($good && rand() < 0.5)
	{
		push @documents, my $late = $self->_new_document;
		$self->_note('?', $late);
		$self->_ask('SELECT verdict_insert_fact(' . _fact($late) . ')');
	}
	my ($state) = $self->_ask($good ? 'COMMIT' : 'ROLLBACK');
	return 0 if !$good || $state ne '00000';
	$self->_acknowledged('-', $revoked) if defined $revoked;
	return $self->_acknowledged('+', @documents);
}

# Rows come and go, so that a batch which is applied again, late, shows.
sub _outbox
{
	my ($self) = @_;
	my %rows = map { ("k$self->{number}_" . int rand 20) => 1 } 1 .. 1 + int rand 3;
	my @insert = grep { !$self->{row}{$_} } sort keys %rows;
	my @delete = grep { $self->{row}{$_} } sort keys %rows;
	my $waits = rand() < 0.6;

	$self->_note('?', @insert, @delete);
	my ($state) = $self->_ask(join '; ', 'BEGIN', $waits ? "SET LOCAL verdict.commit_wait = '3s'" : (),
		(map { "INSERT INTO document VALUES ('$_', 'ann')" } @insert),
		(map { "DELETE FROM document WHERE id = '$_'" } @delete), 'COMMIT');
	die "an outbox transaction failed: $state " . $self->{session}->error if $state ne '00000';
	$self->{row}{$_} = 1 for @insert;
	delete $self->{row}{$_} for @delete;
	my ($shown, $revision) = $self->_ask('SHOW verdict.committed_revision');
	return 1 if !$waits || $revision eq '';
	# The rows of an earlier transaction that nobody waited for go before these.
	$self->_note('+', @insert);
	$self->_note('-', @delete);
	$self->{report}{acknowledged} += @insert + @delete;
	return 1;
}

1;
