# Histories of transactions on several backends over a replicated instance, and
# what they show of the four session guarantees.
#
# A document is granted once and never revoked, so the replicas of one generation
# hold ever longer beginnings of one list of grants.  A session (a transaction, and
# whoever takes its revision over) therefore knows documents that it must be shown
# from then on:
#
#	read your writes		what it has granted itself
#	monotonic reads			what it has been shown before
#	monotonic writes		what the granter of a document it knows had granted before
#	writes follow reads		what the granter of a document it knows had been shown before
#
# and is refused (55000) when history has forked since, only then, and always then.
# A grant that may have run on either side of a failover binds nobody but its own
# session.  The choices come from the seed; the timing does not.
package Histories;

use strict;
use warnings;

use IO::Select;
use JSON::PP ();
use PostgreSQL::Test::Cluster;
use PsqlSession;
use VerdictDev;

my $backends = 4;
my $predicates = 8;
my $most_lag_ms = 2000;

# The policy that the histories need; facts of different predicates lie in
# different shards.
sub policy
{
	return join "\n",
	  map { qq{allow(user, "read", document) if grant_$_(user, document);} } 1 .. $predicates;
}

# A PostgreSQL with the extension, and the replicated instance that it uses.
sub cluster
{
	my $instance = VerdictDev->start(args => [ '--replicas', 3, '--shards', 4 ]);
	my $url = $instance->url;
	my $node = PostgreSQL::Test::Cluster->new('histories');
	my $answer = $instance->call('SetPolicy', { policy => policy() });

	die "the policy is refused: $answer->{message}" if $answer->{status} != 200;
	$node->init;
	$node->append_conf('postgresql.conf', 'verdict.mutation_mode = immediate');
	$node->start;
	$node->safe_psql('postgres', <<"END");
CREATE EXTENSION verdict;
CREATE SERVER main FOREIGN DATA WRAPPER verdict OPTIONS (instance_url '$url');
CREATE USER MAPPING FOR PUBLIC SERVER main;
ALTER DATABASE postgres SET verdict.server = 'main';
END
	return ($node, $instance);
}

# Begins with "settings" in each of the sessions.
sub new
{
	my ($class, $node, $instance, $settings) = @_;
	my $self = bless { instance => $instance, history => 0 }, $class;

	$self->{backends} =
	  [ map { { session => PsqlSession->new($node, 'postgres', $settings) } } 1 .. $backends ];
	return $self;
}

# One history; returns what it violated, each as a text that begins with the name
# of the guarantee, in the order it was seen.  Options: seed, operations (500).
sub run
{
	my ($self, %options) = @_;
	my $instance = $self->{instance};

	srand $options{seed};
	$self->{violations} = [];
	$self->{documents} = [];
	$self->{finished} = [];
	$self->{counts} = {};
	$self->{epoch} = 0;
	# Every history has a user of its own.
	$self->{user} = 'h' . ++$self->{history} . "_$options{seed}";
	my $left = $options{operations} || 500;
	my $failover_at = int($left * (0.35 + rand 0.3));
	$self->disturb($_) for 0 .. $#{ $instance->{node_urls} };
	while ($left > 0 || grep { $_->{busy} } @{ $self->{backends} })
	{
		for my $backend (grep { !$_->{busy} } @{ $self->{backends} })
		{
			next if $left <= 0;
			$left--;
			$self->disturb(int rand @{ $instance->{node_urls} }) if rand() < 0.03;
			$self->fail_over if $left == $failover_at;
			$self->start($backend);
		}
		my $select = IO::Select->new(map { $_->{session}->answers }
			grep { $_->{busy} } @{ $self->{backends} });
		my %ready = map { $_ => 1 } $select->can_read(60);
		die 'a backend does not answer' if !%ready && $select->count;
		for my $backend (grep { $_->{busy} } @{ $self->{backends} })
		{
			$self->take_answer($backend) if $ready{ $backend->{session}->answers };
		}
	}
	for my $backend (@{ $self->{backends} })
	{
		$backend->{session}->must('ROLLBACK') if $backend->{scope};
		delete @$backend{qw(scope left savepoint must_roll_back)};
	}
	$instance->clear_faults;
	return @{ $self->{violations} };
}

# How often each operation was answered, and with which SQLSTATE, in the last run.
sub counts { return $_[0]{counts} }

sub violation
{
	my ($self, $guarantee, $text) = @_;
	push @{ $self->{violations} }, "$guarantee: $text";
	return;
}

# Another lag for a node; now and then it is frozen, or out of the front's set.
sub disturb
{
	my ($self, $number) = @_;
	my $lag = rand() < 0.2 ? 0 : int rand $most_lag_ms;

	$self->{instance}->order_node($number, lag_ms => $lag,
		frozen => rand() < 0.1 ? JSON::PP::true : JSON::PP::false,
		front => rand() < 0.2 ? JSON::PP::false : JSON::PP::true);
	return;
}

# What runs meanwhile may be of the history before or after.
sub fail_over
{
	my ($self) = @_;
	$_->{epoch} = undef for grep { $_->{busy} } @{ $self->{backends} };
	my $writer = $self->{instance}->cluster->{writer};
	my @others = grep { $_ != $writer } 0 .. $#{ $self->{instance}{node_urls} };
	$self->{instance}->failover($others[ rand @others ]);
	$self->{epoch}++;
	return;
}

# Scopes: what a session knows.

# { known => { document => [ guarantee, epoch ] }, epochs => { epoch => 1 }, unsure => n }
sub fresh_scope { return { known => {}, epochs => {}, unsure => 0 } }

# Where an answer came from: the epoch, or undef when a failover was under way.
sub note_epoch
{
	my ($scope, $epoch) = @_;
	defined $epoch ? ($scope->{epochs}{$epoch} = 1) : ($scope->{unsure} = 1);
	return;
}

sub learn
{
	my ($scope, $document, $guarantee, $epoch) = @_;
	$scope->{known}{$document} ||= [ $guarantee, $epoch ];
	return;
}

# The session was shown a document: it knows what its granter knew, too.
sub shown
{
	my ($self, $scope, $document, $epoch) = @_;
	my $before = $document->{before};

	return if $scope->{known}{ $document->{name} };
	learn($scope, $document->{name}, 'monotonic reads', $epoch);
	return if !defined $epoch || !defined $document->{epoch} || $document->{epoch} != $epoch;
	learn($scope, $_, $before->{$_}, $epoch) for keys %$before;
	return;
}

# What a granter had before its grant, for those who are shown it.
sub before
{
	my ($scope, $epoch) = @_;
	my %before;

	for my $name (keys %{ $scope->{known} })
	{
		my ($guarantee, $learnt) = @{ $scope->{known}{$name} };
		next if !defined $epoch || !defined $learnt || $learnt != $epoch;
		$before{$name} = $guarantee =~ /writes$/ ? 'monotonic writes' : 'writes follow reads';
	}
	return \%before;
}

# A read was answered with these documents (of those that were asked for).
sub check_read
{
	my ($self, $backend, $asked, $shown) = @_;
	my ($scope, $epoch) = @$backend{qw(scope epoch)};
	my %shown = map { $_->{name} => 1 } @$shown;

	for my $document (@$asked)
	{
		my $known = $scope->{known}{ $document->{name} } or next;
		$self->violation($known->[0], "$document->{name} was not shown") if !$shown{ $document->{name} };
	}
	# What was seen of a history that is gone can not be seen again.
	my ($older) = grep { defined $epoch && $_ < $epoch } keys %{ $scope->{epochs} };
	$self->violation('history', "a session of generation $older was answered from $epoch")
	  if defined $older;
	note_epoch($scope, $epoch);
	$self->shown($scope, $_, $epoch) for @$shown;
	return;
}

# A read was refused.
sub check_refusal
{
	my ($self, $backend, $scope) = @_;
	my @older = grep { $_ < $self->{epoch} } keys %{ $scope->{epochs} };
	return if @older || $scope->{unsure} || !defined $backend->{epoch};
	$self->violation('availability', 'a read was refused and history has not forked: '
		. $backend->{session}->error);
	return;
}

# Operations.  Each begins a statement and says what its answer means.

sub document_sql { return "'Document:$_[0]{name}'" }

# Documents to ask for: mostly late ones, of anybody.
sub some_documents
{
	my ($self, $scope, $count) = @_;
	my $all = $self->{documents};
	my @known = grep { $scope->{known}{ $_->{name} } } @$all;
	my @some;

	for (1 .. $count)
	{
		my $from = @known && rand() < 0.6 ? \@known : $all;
		my $window = @$from < 30 ? @$from : 30;
		push @some, $from->[ @$from - 1 - int rand $window ] if $window;
	}
	my %seen;
	return grep { !$seen{ $_->{name} }++ } @some;
}

sub grant
{
	my ($self, $backend) = @_;
	my $scope = $backend->{scope};
	my $number = @{ $self->{documents} } + 1;
	my $document = { name => "$self->{user}_$number", predicate => 1 + int rand $predicates };

	push @{ $self->{documents} }, $document;
	return ("SELECT verdict_insert_fact('grant_$document->{predicate}', "
		. "'User:$self->{user}'::verdict_identity, " . document_sql($document) . '::verdict_identity)',
		sub {
			$document->{epoch} = $backend->{epoch};
			$document->{before} = before($scope, $backend->{epoch});
			learn($scope, $document->{name}, 'read your writes', $backend->{epoch});
			note_epoch($scope, $backend->{epoch});
		});
}

sub check
{
	my ($self, $backend) = @_;
	my ($document) = $self->some_documents($backend->{scope}, 1) or return $self->grant($backend);

	return ("SELECT verdict_authorize('User:$self->{user}', 'read', " . document_sql($document) . ')',
		sub { $self->check_read($backend, [$document], $_[0] eq 't' ? [$document] : []) });
}

# Several calls under way together, one of which may be answered late.
sub check_many
{
	my ($self, $backend) = @_;
	my @documents = $self->some_documents($backend->{scope}, 8) or return $self->grant($backend);

	$self->{instance}->fault('Authorize',
		{ kind => 'stall', when => 'after', ms => 20 + int rand 60 }, skip => int rand 8)
	  if rand() < 0.5;
	return ("SELECT array_to_string(verdict_authorize_many('User:$self->{user}', 'read', "
		. 'ARRAY[' . join(', ', map { document_sql($_) } @documents) . ']::verdict_identity[]), \',\')',
		sub {
			my @said = split /,/, $_[0];
			$self->check_read($backend, \@documents, [ @documents[ grep { $said[$_] eq 't' } 0 .. $#said ] ]);
		});
}

sub list
{
	my ($self, $backend) = @_;

	return ("SELECT string_agg(d, ',') FROM verdict_list_resources('User:$self->{user}', 'read', 'Document') d",
		sub {
			my %listed = map { $_ => 1 } split /,/, $_[0];
			$self->check_read($backend, $self->{documents},
				[ grep { $listed{ $_->{name} } } @{ $self->{documents} } ]);
		});
}

# A call that fails with a revision that means nothing.
sub failing
{
	my ($self, $backend) = @_;
	my $revision = $backend->{scope}{revision} || 'v1.stranger.1.1';

	$revision =~ s/\d+$/999999999/ if rand() < 0.5;
	$revision =~ s/^(v1\.\w+)\.\d+/$1.999/ if rand() < 0.3;
	$self->{instance}->fault('GetPolicy', { kind => 'error', code => 'internal',
		headers => { 'Verdict-Revision' => $revision } });
	return ('SAVEPOINT failing; SELECT length(verdict_get_policy())', sub { });
}

# Takes the revision of a transaction over, in the middle of this one.
sub observe
{
	my ($self, $backend) = @_;
	my $other = $self->{finished}[ rand @{ $self->{finished} } ] or return $self->check($backend);
	my $scope = $backend->{scope};

	$backend->{taken} = $other;
	return ("SELECT verdict_observe('$other->{revision}')", sub {
		learn($scope, $_, @{ $other->{known}{$_} }) for keys %{ $other->{known} };
		$scope->{epochs}{$_} = 1 for keys %{ $other->{epochs} };
		$scope->{unsure} ||= $other->{unsure};
	});
}

# One statement on an idle backend.
sub start
{
	my ($self, $backend) = @_;
	my ($name, $sql, $then);

	if (!$backend->{scope})
	{
		my $earlier = @{ $self->{finished} } && rand() < 0.5
		  ? $self->{finished}[ -1 - int rand(@{ $self->{finished} } < 8 ? @{ $self->{finished} } : 8) ] : undef;

		$backend->{scope} = fresh_scope();
		$backend->{scope} = { known => { %{ $earlier->{known} } }, epochs => { %{ $earlier->{epochs} } },
			unsure => $earlier->{unsure}, revision => $earlier->{revision} } if $earlier;
		$backend->{left} = 3 + int rand 10;
		($name, $sql, $then) = ('begin', 'BEGIN; SET LOCAL verdict.revision = '
			. "'" . ($earlier ? $earlier->{revision} : '') . "'", sub { });
	}
	elsif ($backend->{must_roll_back})
	{
		my $to = delete $backend->{must_roll_back};
		($name, $sql, $then) = $to eq 'all'
		  ? ('rollback', 'ROLLBACK', sub { $backend->{scope} = undef; delete $backend->{savepoint} })
		  : ('rollback', "ROLLBACK TO $to", sub { });
	}
	elsif ($backend->{left}-- <= 0)
	{
		my $scope = $backend->{scope};

		($name, $sql, $then) = ('end', 'SELECT verdict_revision(); COMMIT', sub {
			# An inconsistent session has none to hand on.
			if ($_[0] ne '')
			{
				$scope->{revision} = $_[0];
				push @{ $self->{finished} }, $scope;
			}
			$backend->{scope} = undef;
			delete $backend->{savepoint};
		});
	}
	else
	{
		my $dice = rand;

		if ($backend->{savepoint} && $dice < 0.15)
		{
			delete $backend->{savepoint};
			($name, $sql, $then) = ('rollback', 'ROLLBACK TO here', sub { });
		}
		elsif (!$backend->{savepoint} && $dice < 0.1)
		{
			$backend->{savepoint} = 1;
			($name, $sql, $then) = ('savepoint', 'SAVEPOINT here', sub { });
		}
		else
		{
			$dice = rand;
			$name = $dice < 0.35 ? 'grant' : $dice < 0.6 ? 'check' : $dice < 0.8 ? 'check_many'
			  : $dice < 0.9 ? 'list' : $dice < 0.95 ? 'failing' : 'observe';
			($sql, $then) = $self->$name($backend);
		}
	}
	@$backend{qw(busy name then epoch)} = (1, $name, $then, $self->{epoch});
	$backend->{session}->begin($sql);
	return;
}

sub take_answer
{
	my ($self, $backend) = @_;
	my ($answer, $state) = $backend->{session}->finish;
	my $name = $backend->{name};
	my $scope = $backend->{scope};

	$backend->{busy} = 0;
	$self->{counts}{$name}{$state}++;
	if ($name eq 'failing')
	{
		# Another backend's fault may have come first, or the next one's is left.
		$backend->{must_roll_back} = 'failing' if $state ne '00000';
		note_epoch($scope, $backend->{epoch}) if $state eq '00000';
		return if $state eq '58000' || $state eq '00000';
	}
	if ($state eq '00000')
	{
		$backend->{then}->($answer);
		return;
	}
	$backend->{must_roll_back} = 'all';
	if ($state ne '55000')
	{
		$self->violation('errors', "$name failed with $state: " . $backend->{session}->error);
		return;
	}
	if ($name eq 'observe')
	{
		$scope->{epochs}{$_} = 1 for keys %{ $backend->{taken}{epochs} };
		# Once there has been a failover a revision may be of either history: the
		# commit that it comes from may have been answered on both of its sides.
		$scope->{unsure} ||= $backend->{taken}{unsure} || $self->{epoch} > 0;
	}
	$self->check_refusal($backend, $scope);
	return;
}

1;
