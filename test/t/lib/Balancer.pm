# haproxy before the nodes of a verdict-dev that has replicas, as an operator would
# set it up: TLS and HTTP/2 for the clients, and each session to one of the
# replicas, by consistent hashing of Verdict-Session-Id.  The first writer takes
# the sessions while no other node is there.
#
# It tells the nodes what the client speaks with it, in the header
# X-Balancer-Protocol.  A request is sent to another node only when it has reached
# none (haproxy's default): a change that may have been applied is for the client to
# repeat, who knows its key.
#
# An object owns its process, which also ends when this one does.
package Balancer;

use strict;
use warnings;

use Carp qw(croak);
use Fcntl qw(F_SETFD);
use File::Temp ();
use IO::Socket::INET;
use IO::Socket::UNIX;
use POSIX ();
use Socket qw(SOCK_STREAM);
use Time::HiRes qw(sleep time);
use VerdictDev;

sub program
{
	my ($found) = grep { -x } map { "$_/haproxy" } split(/:/, $ENV{PATH}), '/usr/sbin', '/usr/local/sbin';
	croak 'haproxy is not installed; test/bin/setup installs it' unless defined $found;
	return $found;
}

# Starts it and waits until it takes every node for alive.  A node is asked for its
# health by a read of its own, each 200 ms, and is out after one failure.
sub start
{
	my ($class, $instance) = @_;
	my $self = bless { directory => File::Temp->newdir('verdict-balancer-XXXXXX', TMPDIR => 1),
		nodes => scalar @{ $instance->{node_urls} } }, $class;
	my $folder = "$self->{directory}";
	my $key = $instance->{api_keys}[0];
	my ($certificate, $private) = VerdictDev::certificate();

	write_file("$folder/certificate.pem", map { read_file($_) } $certificate, $private);
	# The port is ours before the program runs, so nobody can take it.
	my $socket = IO::Socket::INET->new(Listen => 64, LocalAddr => '127.0.0.1', Proto => 'tcp')
	  or croak "no port: $@";
	$self->{url} = 'https://127.0.0.1:' . $socket->sockport;
	my @servers = map {
		my ($address) = $instance->{node_urls}[$_] =~ m{^http://([^/]+)};
		"server node$_ $address check" . ($_ == 0 ? ' backup' : '')
	} 0 .. $self->{nodes} - 1;
	my $authorization = defined $key ? qq( hdr Authorization "Bearer $key") : '';
	my $servers = join "\n\t", @servers;
	write_file("$folder/haproxy.cfg", <<"END");
global
	stats socket $folder/orders level admin
	nbthread 1
	ssl-default-bind-options ssl-min-ver TLSv1.2

defaults
	mode http
	option redispatch
	timeout connect 2s
	timeout client 60s
	timeout server 60s
	timeout check 2s
	default-server inter 200ms fall 1 rise 1

frontend verdict
	bind fd\@${\ fileno $socket} ssl crt $folder/certificate.pem alpn h2,http/1.1
	http-request set-header X-Balancer-Protocol %[ssl_fc_alpn]
	default_backend nodes

backend nodes
	balance hdr(Verdict-Session-Id)
	hash-type consistent djb2 avalanche
	option httpchk
	http-check send meth POST uri /verdict.v1.VerdictService/ListFacts hdr Content-Type application/json hdr Verdict-Consistency eventual$authorization body "{\\"pattern\\":{\\"predicate\\":\\"health\\"}}"
	http-check expect status 200
	$servers
END

	my $pid = fork // croak "fork: $!";
	if ($pid == 0)
	{
		fcntl $socket, F_SETFD, 0;
		open STDIN, '<', '/dev/null';
		open STDOUT, '>', "$folder/output";
		open STDERR, '>&', \*STDOUT;
		{ no warnings; exec 'setpriv', '--pdeathsig', 'KILL', program(), '-db', '-f', "$folder/haproxy.cfg"; }
		print STDERR "cannot run it: $!\n";
		POSIX::_exit(127);
	}
	@$self{qw(pid owner)} = ($pid, $$);
	$self->wait_for(map { ($_ => 'UP') } 0 .. $self->{nodes} - 1);
	return $self;
}

sub read_file
{
	my ($path) = @_;
	open my $in, '<', $path or croak "$path: $!";
	local $/;
	return scalar <$in>;
}

sub write_file
{
	my ($path, @text) = @_;
	open my $out, '>', $path or croak "$path: $!";
	print $out @text;
	close $out or croak "$path: $!";
	return;
}

sub url { return $_[0]{url} }

# What it wrote.
sub output { return read_file("$_[0]{directory}/output") }

# One order of its runtime interface; returns the answer.
sub order
{
	my ($self, $order) = @_;
	my $socket = IO::Socket::UNIX->new(Type => SOCK_STREAM, Peer => "$self->{directory}/orders")
	  or croak "haproxy does not take orders: $!\n" . $self->output;
	print $socket "$order\n";
	$socket->flush;
	local $/;
	return scalar <$socket> // '';
}

# { node => what haproxy takes it for, "UP", "DOWN", "MAINT" }, the first word of it
sub states
{
	my ($self) = @_;
	my %states;

	for (split /\n/, $self->order('show stat'))
	{
		my @fields = split /,/;
		$states{$1} = $fields[17] =~ s/ .*//r if $fields[0] eq 'nodes' && $fields[1] =~ /^node(\d+)$/;
	}
	return \%states;
}

# Waits until nodes are taken for this: wait_for(1 => 'DOWN', ...).
sub wait_for
{
	my ($self, %wanted) = @_;
	my $end = time + 60;

	while (1)
	{
		my $states = eval { $self->states };
		return if $states && !grep { ($states->{$_} // '') ne $wanted{$_} } keys %wanted;
		croak "haproxy ended: " . $self->output if waitpid($self->{pid}, POSIX::WNOHANG()) == $self->{pid};
		croak 'haproxy does not come to think so: ' . join ', ', map { "node $_ is $wanted{$_}" } sort keys %wanted
		  if time > $end;
		sleep 0.02;
	}
}

# No new request for a node from now on; what runs there ends there.
sub take_out
{
	my ($self, $node) = @_;
	my $answer = $self->order("set server nodes/node$node state maint");
	croak $answer if $answer =~ /\S/;
	return;
}

sub put_back
{
	my ($self, $node) = @_;
	my $answer = $self->order("set server nodes/node$node state ready");
	croak $answer if $answer =~ /\S/;
	return;
}

sub stop
{
	my ($self) = @_;
	my $pid = delete $self->{pid} // return;

	kill 'TERM', $pid;
	my $end = time + 20;
	until (waitpid($pid, POSIX::WNOHANG()) == $pid)
	{
		kill 'KILL', $pid if time > $end;
		sleep 0.005;
	}
	return $? & 127 ? 'signal ' . ($? & 127) : $? >> 8;
}

sub DESTROY
{
	my ($self) = @_;
	local ($?, $!, $@);
	$self->stop if defined $self->{pid} && $self->{owner} == $$;
}

1;
