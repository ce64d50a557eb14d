# A call ends at once on cancel, statement_timeout and termination, whatever it is
# waiting for, and the next call works.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use IO::Socket::INET;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Socket qw(SOCK_NONBLOCK);
use Test::More;
use Time::HiRes qw(sleep time);
use VerdictDev;

# How long after the interrupt a call may take to end, in seconds.
my $bound = 1.0;

# A resolver that hangs for one name: the system's own cannot be made to without
# touching the machine.
my $shim = "$PostgreSQL::Test::Utils::tmp_check/resolver.so";
open my $source, '>', "$shim.c" or die "$shim.c: $!";
print $source <<'END';
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <string.h>
#include <unistd.h>
int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **result)
{
	int (*next)(const char *, const char *, const struct addrinfo *, struct addrinfo **) = dlsym(RTLD_NEXT, "getaddrinfo");
	if (node && strcmp(node, "resolver-hangs.invalid") == 0)
		sleep(4);
	return next(node, service, hints, result);
}
END
close $source;
my $cc = $ENV{CC} || 'cc';
system_or_bail($cc, '-shared', '-fPIC', '-o', $shim, "$shim.c", '-ldl');

# Peers that stop in the middle: each accepts, does its part, and says no more.
sub listener
{
	return IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => $_[0], ReuseAddr => 1)
	  || die "listen: $@";
}
my %peers;
my @children;
my $parent = $$;
sub peer
{
	my ($name, $serve) = @_;
	my $socket = listener(64);
	$peers{$name} = $socket->sockport;
	my $pid = fork;
	die "fork: $!" unless defined $pid;
	if ($pid)
	{
		push @children, $pid;
		return;
	}
	$SIG{PIPE} = 'IGNORE';
	my @open;
	while (my $client = $socket->accept)
	{
		push @open, $client;
		$serve->($client);
	}
	exit 0;
}
END
{
	local $?;
	if ($$ == $parent)
	{
		kill 'KILL', @children;
		waitpid $_, 0 for @children;
	}
}
sub read_request
{
	my ($client) = @_;
	my $text = '';
	sysread $client, $text, 65536, length $text until $text =~ /\r\n\r\n/;
}
peer('tls', sub { });
peer('headers', sub { read_request($_[0]) });
peer('body', sub {
	my ($client) = @_;
	read_request($client);
	syswrite $client, "HTTP/1.1 200 OK\r\nContent-Type: application/proto\r\nContent-Length: 100\r\n\r\nx";
	# One byte a second, so that time passes with answers.
	my $pid = fork;
	if (defined $pid && $pid == 0)
	{
		for (1 .. 90) { sleep 1; syswrite $client, 'x' or last }
		exit 0;
	}
});
# Nobody accepts and the queue is full: the kernel drops every further attempt.
my $full = listener(1);
my @queue;
for (1 .. 8)
{
	push @queue, IO::Socket::INET->new(PeerAddr => '127.0.0.1',
		PeerPort => $full->sockport, Blocking => 0);
}
$peers{connect} = $full->sockport;

my $instance = VerdictDev->start(api_keys => ['cancel-key']);
my $node = PostgreSQL::Test::Cluster->new('cancel');
$node->init;
$node->append_conf('postgresql.conf', 'verdict.mutation_mode = immediate');
{
	local $ENV{LD_PRELOAD} = $shim;
	$node->start;
}

# Before 17 an extension has no name of its own for it.
my $wait_event = $node->pg_version >= 17 ? 'VerdictCall' : 'Extension';
my %urls = (
	resolve => 'http://resolver-hangs.invalid:80',
	connect => "http://127.0.0.1:$peers{connect}",
	tls => "https://127.0.0.1:$peers{tls}",
	headers => "http://127.0.0.1:$peers{headers}",
	body => "http://127.0.0.1:$peers{body}",
	good => $instance->url);
my $setup = 'CREATE EXTENSION verdict;';
for my $name (sort keys %urls)
{
	$setup .= "CREATE SERVER $name FOREIGN DATA WRAPPER verdict OPTIONS (instance_url '$urls{$name}', read_timeout_ms '55000');"
	  . "CREATE USER MAPPING FOR PUBLIC SERVER $name OPTIONS (api_key 'cancel-key');";
}
$node->safe_psql('postgres', $setup);
$node->safe_psql('postgres', q{ALTER DATABASE postgres SET verdict.server = 'good'});

my $check = q{SELECT 'answer ' || verdict_authorize('User:a', 'read', 'Document:1');};
my $descriptors = q{SELECT 'descriptors ' || count(*) FROM pg_ls_dir('/proc/self/fd');};

# Runs one session: a good call, the call that hangs, a good call again.
# "interrupt" is called with the backend's pid while the call waits.  The
# descriptors are counted when a resolver's thread, which nobody can end, is over.
sub interrupted
{
	my ($phase, $statement, $interrupt) = @_;
	my ($out, $err) = ('', '');
	my $script = <<"END";
\\set VERBOSITY verbose
SET verdict.server = 'good';
$check
$descriptors
SELECT 'pid ' || pg_backend_pid();
SET verdict.server = '$phase';
$statement
RESET statement_timeout;
SELECT 'ended';
SET verdict.server = 'good';
$check
END
	$script .= 'SELECT pg_sleep(4.5);' if $phase eq 'resolve';
	$script .= "$descriptors\n";
	my $psql = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-f', '-' ],
		'<', \$script, '>', \$out, '2>', \$err, IPC::Run::timeout(120));
	$psql->pump until $out =~ /^pid (\d+)$/m;
	my ($pid) = $out =~ /^pid (\d+)$/m;
	my $started = time;
	if ($interrupt)
	{
		$node->poll_query_until('postgres',
			"SELECT state = 'active' AND wait_event = '$wait_event' FROM pg_stat_activity WHERE pid = $pid")
		  or die "the call does not wait: $out $err";
		# Into the middle of the wait, not to its beginning.
		sleep 0.2;
		$started = time;
		$interrupt->($pid);
	}
	$psql->pump until $out =~ /^ended$/m || $err =~ /FATAL/ || !$psql->pumpable;
	my $took = time - $started;
	$psql->finish;
	my @counts = $out =~ /^descriptors (\d+)$/mg;
	return ($took, $out, $err, @counts);
}

my $call = q{SELECT verdict_authorize('User:a', 'read', 'Document:1');};
# Once for nothing, so that what is looked up is in memory: the first session would
# have files of the catalogs open that it is not asked about.
interrupted('resolve', "SET statement_timeout = '100ms'; $call");
for my $phase (qw(resolve connect tls headers body))
{
	my ($took, $out, $err, @counts) = interrupted($phase, $call,
		sub { $node->safe_psql('postgres', "SELECT pg_cancel_backend($_[0])") });
	like($err, qr/ERROR:  57014: canceling statement due to user request/, "$phase: cancel");
	cmp_ok($took, '<', $bound, "$phase: cancel ends at once");
	like($out, qr/answer .*answer /s, "$phase: cancel, the next call works");
	is($counts[1], $counts[0], "$phase: cancel, no descriptor is left");

	($took, $out, $err, @counts) = interrupted($phase, "SET statement_timeout = '300ms'; $call");
	like($err, qr/ERROR:  57014: canceling statement due to statement timeout/, "$phase: statement_timeout");
	cmp_ok($took, '<', 0.3 + $bound, "$phase: statement_timeout ends at once");
	like($out, qr/answer .*answer /s, "$phase: statement_timeout, the next call works");
	is($counts[1], $counts[0], "$phase: statement_timeout, no descriptor is left");

	($took, $out, $err) = interrupted($phase, $call,
		sub { $node->safe_psql('postgres', "SELECT pg_terminate_backend($_[0])") });
	like($err, qr/FATAL:  57P01: terminating connection due to administrator command/, "$phase: terminate");
	cmp_ok($took, '<', $bound, "$phase: terminate ends at once");
}

# Caught in a block: the error is what it says, and the block goes on.
my ($took, $out, $err, @counts) = interrupted('headers', <<'END');
SET statement_timeout = '300ms';
DO $$
BEGIN
	PERFORM verdict_authorize('User:a', 'read', 'Document:1');
EXCEPTION WHEN query_canceled THEN
	RAISE NOTICE 'caught %', SQLSTATE;
END $$;
END
like($err, qr/caught 57014/, 'an exception block catches it');
like($out, qr/answer .*answer /s, 'and the next call works');

# on_failure = deny is for failures, not for interrupts.
($took, $out, $err) = interrupted('headers', "SET verdict.on_failure = 'deny'; SET statement_timeout = '300ms'; $call");
like($err, qr/ERROR:  57014/, 'verdict.on_failure = deny does not hide a cancel');

# A loop stops at the call that is cancelled.
$instance->clear_log;
$instance->fault('Authorize', { kind => 'stall', ms => 200 }, times => 50, skip => 1);
($took, $out, $err) = interrupted('good', <<'END', sub { sleep 0.5; $node->safe_psql('postgres', "SELECT pg_cancel_backend($_[0])") });
DO $$
BEGIN
	FOR i IN 1 .. 50 LOOP
		PERFORM verdict_authorize('User:a', 'read', 'Document:1');
	END LOOP;
END $$;
END
$instance->clear_faults;
like($err, qr/ERROR:  57014/, 'a loop of calls is cancelled');
cmp_ok(scalar(@{ $instance->log }), '<', 12, 'and asks no more');

# A change that was sent when it was cancelled says what is known of it.
$instance->fault('InsertFact', { kind => 'stall', ms => 60000, when => 'after' });
($took, $out, $err) = interrupted('good', q{SELECT verdict_insert_fact('sent(User:a)');},
	sub { $node->safe_psql('postgres', "SELECT pg_cancel_backend($_[0])") });
$instance->clear_faults;
like($err, qr/57014.*CONTEXT:.*outcome maybe_applied/s, 'a cancelled change may have been applied');

# The postmaster's death ends a backend that waits.
{
	my $script = "SELECT 'pid ' || pg_backend_pid(); SET verdict.server = 'headers'; $call\n";
	my ($out, $err) = ('', '');
	my $psql = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-f', '-' ],
		'<', \$script, '>', \$out, '2>', \$err, IPC::Run::timeout(60));
	$psql->pump until $out =~ /^pid (\d+)$/m;
	my ($pid) = $out =~ /^pid (\d+)$/m;
	$node->poll_query_until('postgres',
		"SELECT wait_event = '$wait_event' FROM pg_stat_activity WHERE pid = $pid");
	$node->kill9;
	my $started = time;
	$psql->finish;
	cmp_ok(time - $started, '<', 5, 'a backend that waits ends with the postmaster');
	for (1 .. 100)
	{
		last unless kill 0, $pid;
		sleep 0.05;
	}
	ok(!kill(0, $pid), 'its process is gone');
}

done_testing();
