# A running verdict-dev, or any other instance of which only the URL is known.
#
# An object owns its process and ends it when it goes; the process also ends when
# this one does, however that happens.  Every failure of the helper itself dies:
# a test must not go on with an instance that is not there.
package VerdictDev;

use strict;
use warnings;

use Carp qw(croak);
use Cwd qw(abs_path);
use Fcntl qw(LOCK_EX LOCK_NB);
use File::Basename qw(dirname);
use File::Temp ();
use HTTP::Tiny;
use IO::Select;
use IO::Socket::INET;
use JSON::PP ();
use POSIX ();
use Time::HiRes qw(sleep time);

my $json = JSON::PP->new->utf8->canonical->allow_nonref;
my $root = abs_path(dirname(__FILE__) . '/../../..');

# The program under test.
sub program
{
	return $ENV{VERDICT_DEV} || "$root/build/test/server/verdict-dev";
}

# Starts an instance.  Options:
#   listen, admin   addresses (default: a port of its own each; admin => undef for none)
#   api_keys        keys it lets in; they travel in a file
#   args            further command line arguments
sub start
{
	my ($class, %options) = @_;
	my $self = bless {
		listen => '127.0.0.1:0',
		admin => '127.0.0.1:0',
		args => [],
		api_keys => [],
		%options
	}, $class;

	$self->{directory} = File::Temp->newdir('verdict-dev-XXXXXX', TMPDIR => 1);
	# One for it, one for its orders, and with replicas one for each node.
	my ($replicas) = "@{ $self->{args} }" =~ /--replicas[ =](\d+)/;
	my $first = _own_ports(2 + (defined $replicas ? $replicas + 1 : 0));
	$self->{admin} =~ s/:0$/":$first"/e if defined $self->{admin};
	$self->{listen} =~ s/:0$/':' . ($first + 1)/e;
	$self->_run;
	return $self;
}

# The first of so many ports in a row that nobody uses, below those that the system
# gives to connections.  They are this process's until it ends, also while the instance
# is stopped: test files that run at the same time agree by locks in PG_TEST_PORT_DIR.
my $block = 20;
my $blocks_asked = $$;
my @locks;
sub _own_ports
{
	my ($count) = @_;
	my $folder = $ENV{PG_TEST_PORT_DIR};

	for (1 .. 600)
	{
		my $number = $blocks_asked++ % 600;
		my $first = 20_000 + $number * $block;
		my $lock;
		if (defined $folder)
		{
			open $lock, '>>', "$folder/verdict-dev-$number" or croak "$folder: $!";
			flock $lock, LOCK_EX | LOCK_NB or next;
		}
		my @held = grep { defined } map {
			IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => $_, Listen => 1, ReuseAddr => 1)
		} $first .. $first + $count - 1;
		next if @held != $count;
		push @locks, $lock;
		return $first;
	}
	croak "no $count free ports in a row";
}

# An instance that somebody else runs: call() and url() work, nothing else does.
sub at
{
	my ($class, $url, %options) = @_;
	return bless { url => $url, api_keys => [], %options }, $class;
}

sub _run
{
	my ($self) = @_;
	my @command = (program(), '--exit-with-parent', '--listen', $self->{listen});

	push @command, '--admin', $self->{admin} if defined $self->{admin};
	if (@{ $self->{api_keys} })
	{
		my $file = "$self->{directory}/api_keys";
		open my $out, '>', $file or croak "$file: $!";
		print $out "$_\n" for @{ $self->{api_keys} };
		close $out;
		push @command, '--api-key-file', $file;
	}
	push @command, @{ $self->{args} };

	pipe my $read, my $write or croak "pipe: $!";
	my $errors = "$self->{directory}/stderr";
	my $pid = fork;
	croak "fork: $!" unless defined $pid;
	if ($pid == 0)
	{
		open STDIN, '<', '/dev/null';
		open STDOUT, '>&', $write;
		open STDERR, '>', $errors;
		close $read;
		close $write;
		{ no warnings; exec @command; }
		print STDERR "cannot run $command[0]: $!\n";
		POSIX::_exit(127);
	}
	close $write;
	$self->{pid} = $pid;
	$self->{owner} = $$;

	my $text = '';
	my $select = IO::Select->new($read);
	my $end = time + 60;
	while ($text !~ /^listening on \S+\n/m)
	{
		my $ready = $select->can_read($end - time);
		if (!$ready || !sysread $read, $text, 4096, length $text)
		{
			my $status = $self->stop;
			croak "verdict-dev did not start (status $status): "
			  . $self->errors . $text;
		}
	}
	close $read;
	($self->{url}) = $text =~ /^listening on (\S+)$/m;
	($self->{admin_url}) = $text =~ /^admin on (\S+)$/m;
	$self->{node_urls} = [ $text =~ /^(?:writer|replica \d+) on (\S+)$/mg ];
	$self->{http} = undef;
}

# A self-signed certificate for 127.0.0.1 and localhost: two files, the
# certificate and its private key, which last as long as this process.
my $certificate_folder;
sub certificate
{
	$certificate_folder ||= File::Temp->newdir('verdict-tls-XXXXXX', TMPDIR => 1);
	my ($certificate, $private) = ("$certificate_folder/cert.pem", "$certificate_folder/key.pem");
	return ($certificate, $private) if -e $certificate;
	my $openssl = 'openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost'
	  . ' -addext subjectAltName=DNS:localhost,IP:127.0.0.1'
	  . " -keyout '$private' -out '$certificate' 2>&1";
	my $output = `$openssl`;
	croak "openssl failed: $output" if $?;
	chmod 0755, "$certificate_folder";
	return ($certificate, $private);
}

sub url { return $_[0]{url} }
sub admin_url { return $_[0]{admin_url} }
sub pid { return $_[0]{pid} }
sub directory { return "$_[0]{directory}" }

# "HOST:PORT" it listens at.
sub address
{
	my ($self) = @_;
	my ($address) = $self->{url} =~ m{^https?://([^/]+)};
	return $address;
}

# What it wrote to standard error.
sub errors
{
	my ($self) = @_;
	open my $in, '<', "$self->{directory}/stderr" or return '';
	local $/;
	return scalar <$in>;
}

# Sends a signal and waits for the end, by force after 20 seconds.  Returns the
# exit status: the code, or "signal N".
sub stop
{
	my ($self, $signal) = @_;
	my $pid = delete $self->{pid};
	return unless defined $pid;

	$self->{http} = undef;
	kill $signal || 'TERM', $pid;
	my $end = time + 20;
	until (waitpid($pid, POSIX::WNOHANG()) == $pid)
	{
		kill 'KILL', $pid if time > $end;
		sleep 0.005;
	}
	return $? & 127 ? 'signal ' . ($? & 127) : $? >> 8;
}

# Starts it again at the same addresses.
sub restart
{
	my ($self) = @_;
	$self->stop;
	# Somebody's connection may have got one of the ports meanwhile, for a moment.
	for my $attempt (1 .. 50)
	{
		last if eval { $self->_run; 1 };
		croak $@ if $@ !~ /Address already in use/ || $attempt == 50;
		sleep 0.2;
	}
	return;
}

sub DESTROY
{
	my ($self) = @_;
	local ($?, $!, $@);
	$self->stop if defined $self->{pid} && $self->{owner} == $$;
}

# One request with any body and any headers, on a kept connection.  Returns
# HTTP::Tiny's answer; status 599 means that no answer came.
sub post
{
	my ($self, $path, $body, %headers) = @_;
	$self->{http} ||= HTTP::Tiny->new(keep_alive => 1, max_redirect => 0,
		timeout => 60, agent => 'verdict-test');
	return $self->{http}->request('POST', $self->{url} . $path,
		{ content => $body, headers => \%headers });
}

# One call in JSON.  Returns { status, code, message, body, headers }; code is
# undef when it went well.
sub call
{
	my ($self, $method, $request, %headers) = @_;
	my $key = $self->{api_keys}[0];
	my $answer = $self->post("/verdict.v1.VerdictService/$method",
		$json->encode($request),
		'Content-Type' => 'application/json',
		'Connect-Protocol-Version' => '1',
		defined $key ? (Authorization => "Bearer $key") : (),
		%headers);
	my $body = eval { $json->decode($answer->{content}) };
	return {
		status => $answer->{status},
		code => $answer->{success} ? undef : ref $body ? $body->{code} : undef,
		message => $answer->{success} || !ref $body ? $answer->{content} : $body->{message},
		body => $body,
		headers => $answer->{headers}
	};
}

# "User:alice" as JSON.
sub identity
{
	my ($text) = @_;
	my ($type, $id) = split /:/, $text, 2;
	return { type => $type, id => $id };
}

# A fact whose arguments are identities.
sub fact_of
{
	my ($predicate, @identities) = @_;
	return { predicate => $predicate,
		args => [ map { { identity => identity($_) } } @identities ] };
}

# True, false, or dies.
sub allowed
{
	my ($self, $actor, $action, $resource) = @_;
	my $answer = $self->call('Authorize', { actor => identity($actor),
		action => $action, resource => identity($resource) });
	croak "Authorize failed: $answer->{status} $answer->{message}"
	  if $answer->{status} != 200;
	return $answer->{body}{allowed} ? 1 : 0;
}

sub _admin
{
	my ($self, $method, $path, $value) = @_;
	croak 'there is no admin address' unless defined $self->{admin_url};
	my $answer = HTTP::Tiny->new(timeout => 60)->request($method,
		$self->{admin_url} . $path,
		defined $value ? { content => $json->encode($value) } : {});
	croak "$method $path: $answer->{status} $answer->{content}"
	  unless $answer->{success};
	return length $answer->{content} ? $json->decode($answer->{content}) : undef;
}

# Orders a fault: fault('Authorize', { kind => ... }, times => 2, skip => 1).
sub fault
{
	my ($self, $method, $fault, %order) = @_;
	return $self->_admin('POST', '/faults',
		{ method => $method, fault => $fault, %order });
}

sub faults { return $_[0]->_admin('GET', '/faults') }
sub clear_faults { $_[0]->_admin('DELETE', '/faults'); return }
# The requests that came, as an array reference, the oldest first.
sub log { return $_[0]->_admin('GET', '/log') }
sub clear_log { $_[0]->_admin('DELETE', '/log'); return }
# { Authorize => { requests => n, executions => n }, ..., other => n }
sub counts { return $_[0]->_admin('GET', '/counts') }

# An instance of several nodes (args => ['--replicas', N, ...]); nodes are numbered
# from 0, the first writer.

# A node at its own address: call(), post() and url() work, nothing else does.
sub node
{
	my ($self, $number) = @_;
	my $url = $self->{node_urls}[$number];
	croak "there is no node $number" unless defined $url;
	return $self->{nodes}{$url} ||= VerdictDev->at($url, api_keys => $self->{api_keys});
}

# What the nodes are and have done, as admin.h describes it.
sub cluster { return $_[0]->_admin('GET', '/cluster') }
# Waits for the replicas that are not held back: what they have (--sync) they apply a
# moment later.
sub catch_up
{
	my ($self) = @_;
	for (1 .. 2000)
	{
		return unless grep { $_->{role} eq 'replica' && $_->{lag_ms} == 0 && $_->{behind} > 0 } @{ $self->cluster->{nodes} };
		sleep(0.005);
	}
	croak 'the replicas do not catch up';
}
# order_node(1, lag_ms => 500): returns the new state of all.
sub order_node
{
	my ($self, $number, %order) = @_;
	return $self->_admin('POST', "/nodes/$number", \%order);
}
# Makes a replica the writer, without a number the one that has most.  Dies when
# the instance refuses.
sub failover
{
	my ($self, $to) = @_;
	return $self->_admin('POST', '/failover', defined $to ? { to => $to + 0 } : {});
}

1;
