# The clock is set back while something waits: nothing waits for longer by that.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Outbox;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PsqlSession;
use Test::More;
use Time::HiRes qw(sleep time);

# A library that takes as many seconds off the time of day as a file has bytes.
my $folder = PostgreSQL::Test::Utils::tempdir();
my $offset = "$folder/offset";
append_to_file($offset, '');
append_to_file("$folder/clock.c", <<"END");
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/time.h>

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	static int (*real)(struct timeval *, void *) = NULL;
	struct stat file;
	int result;

	if (real == NULL)
		real = (int (*)(struct timeval *, void *)) dlsym(RTLD_NEXT, "gettimeofday");
	result = real(now, zone);
	if (stat("$offset", &file) == 0)
		now->tv_sec -= file.st_size;
	return result;
}
END
system('cc', '-shared', '-fPIC', '-o', "$folder/clock.so", "$folder/clock.c", '-ldl') == 0 or die 'cc failed';
sub set_back { truncate $offset, 3600 or die "$offset: $!" }
sub set_right { truncate $offset, 0 or die "$offset: $!" }

my ($node, $instance);
{
	local $ENV{LD_PRELOAD} = "$folder/clock.so";
	($node, $instance) = Outbox::start('clock');
}
my $psql = sub { $node->safe_psql('postgres', join "\n", @_) };
my $now = 'SELECT extract(epoch FROM clock_timestamp())::bigint';
my $before = $psql->($now);
set_back();
cmp_ok($psql->($now), '<', $before - 3000, 'the clock of the server can be set back');
set_right();

# The pause of a server that has failed.
$instance->fault('BatchFacts', { kind => 'error', code => 'unauthenticated' }, times => -1);
$psql->(Outbox::grant('pause'));
Outbox::wait_until(sub { $psql->('SELECT max(attempts) FROM verdict_outbox') > 1 }) or die 'it was not sent';
set_back();
$instance->clear_faults;
ok(Outbox::drained($node), 'a server that has failed is tried again');
set_right();

# The pause between two workers of a database: of the second that ends at once.
for (1 .. 2)
{
	my $worker;
	Outbox::wait_until(sub { ($worker = Outbox::worker($node)) =~ /\d/ }) or die 'no worker';
	$psql->("SELECT pg_terminate_backend($worker)");
	Outbox::wait_until(sub { Outbox::worker($node) ne $worker }) or die 'it is still there';
}
set_back();
ok(Outbox::wait_until(sub { Outbox::worker($node) =~ /\d/ }), 'a worker that has ended is started again');
set_right();

# Waits of sessions.
sub waits
{
	my ($name, $session, $statement) = @_;
	my $start = time;

	$session->begin($statement);
	sleep 0.5;
	set_back();
	IO::Select->new($session->answers)->can_read(8);
	my $took = time - $start;
	$instance->clear_faults;
	my (undef, $state) = $session->finish;
	set_right();
	cmp_ok($took, '>=', 0.9, "$name waits as long as it may");
	cmp_ok($took, '<', 5, '... and no longer');
	ok(Outbox::drained($node), '... the batch is delivered');
	return $state;
}

my $session = PsqlSession->new($node, 'postgres', "SET verdict.commit_wait = '1s'");
$instance->fault('BatchFacts', { kind => 'error', code => 'unauthenticated' }, times => -1);
is(waits('COMMIT', $session, Outbox::grant('commit')), '00000', '... and the transaction is committed');
$session->quit;

$psql->("ALTER SERVER main OPTIONS (ADD read_timeout_ms '1000')");
$session = PsqlSession->new($node, 'postgres', 'SET verdict.session_scope = database');
$instance->fault('BatchFacts', { kind => 'error', code => 'unauthenticated' }, times => -1);
$psql->(Outbox::grant('scope'));
is(waits('a session of the database', $session, $Outbox::check), '08000', '... and says so');
$session->quit;

$node->stop;
done_testing();
