# Who sends again, and for how long: one request a call when another owner retries,
# no more time than statement_timeout leaves, no more calls than a statement may make.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PsqlSession;
use Test::More;
use Time::HiRes qw(sleep time);
use VerdictDev;

my $instance = VerdictDev->start(api_keys => ['retry-key']);
$instance->call('SetPolicy', { policy => 'allow(user, "read", doc) if viewer(user, doc);' });
my $node = PostgreSQL::Test::Cluster->new('retry');
$node->init;
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'verdict'\nverdict.mutation_mode = immediate");
$node->start;
my $url = $instance->url;
$node->safe_psql('postgres', 'CREATE EXTENSION verdict');
for my $owner (qw(client application mesh none))
{
	my $more = $owner eq 'client' ? '' : ", retry_owner '$owner'";
	$node->safe_psql('postgres', <<"END");
CREATE SERVER $owner FOREIGN DATA WRAPPER verdict
	OPTIONS (instance_url '$url', read_timeout_ms '400', mutation_attempt_timeout_ms '300', mutation_overall_timeout_ms '2000', batch_size '1'$more);
CREATE USER MAPPING FOR PUBLIC SERVER $owner OPTIONS (api_key 'retry-key');
END
}
my $session = PsqlSession->new($node, 'postgres', 'SET client_min_messages = error');
my $check = q{SELECT verdict_authorize('User:alice', 'read', 'Document:1')};
my $insert = q{SELECT verdict_insert_fact('probe(Document:1)')};
my $batch = q{SELECT verdict_batch_facts(ARRAY['probe(Document:2)', 'probe(Document:3)']::verdict_fact[])};

sub requests { my ($method) = @_; return grep { ($_->{method} // '') eq $method } @{ $instance->log } }

# ---- owners ----

my %faults = (
	'503' => { kind => 'status', status => 503, headers => { 'Retry-After' => '0' } },
	'502' => { kind => 'status', status => 502 },
	'429' => { kind => 'status', status => 429 },
	'unavailable' => { kind => 'error', code => 'unavailable', message => 'ordered' },
	'unknown' => { kind => 'error', code => 'unknown', message => 'ordered' },
	'resource_exhausted' => { kind => 'error', code => 'resource_exhausted', message => 'ordered' },
	'a lost connection' => { kind => 'close' },
	'an answer that does not come' => { kind => 'stall', ms => 3000 },
);
for my $owner (qw(application mesh none))
{
	for my $fault (sort keys %faults)
	{
		my @got;
		for my $operation ([ Authorize => $check ], [ InsertFact => $insert ], [ BatchFacts => $batch ])
		{
			my ($method, $sql) = @$operation;
			# On a kept connection, whose loss would be worth one more try.
			$session->must("SET verdict.server = $owner; SELECT verdict_get_policy()");
			$instance->clear_log;
			$instance->fault($method, $faults{$fault}, times => -1);
			my ($answer, $state) = $session->ask($sql);
			$instance->clear_faults;
			push @got, "$method " . scalar(requests($method)) . ($state eq '00000' ? ' ok' : '');
		}
		is("@got", 'Authorize 1 InsertFact 1 BatchFacts 1', "owner $owner, $fault: one request a call");
	}
}
is($session->must('SELECT sum(sends) = sum(calls), sum(retries), sum(budget_refusals) FROM verdict_stat_calls'), 't|0|0', '... as it is counted');

# Of this client the same faults get more: what is above can fail.
$session->must('SET verdict.server = client; SELECT verdict_stat_reset()');
$instance->clear_log;
$instance->fault('InsertFact', $faults{502}, times => -1);
$session->ask($insert);
$instance->clear_faults;
is(scalar requests('InsertFact'), 2, 'owner client: two requests');

# ---- statement_timeout ----

$session->must("ALTER SERVER client OPTIONS (SET read_timeout_ms '30000', SET mutation_attempt_timeout_ms '30000', SET mutation_overall_timeout_ms '30000')");
sub told { return (map { $_->{headers}{'connect-timeout-ms'} } requests($_[0]))[-1] }
$instance->clear_log;
$session->must("$check; $insert");
cmp_ok(told('Authorize'), '>', 25000, 'without statement_timeout the instance is told of the time-outs of the server');
cmp_ok(told('InsertFact'), '>', 25000, '... for a change too');
$session->must('SET statement_timeout = 2000');
$instance->clear_log;
$session->must($check);
$session->must($insert);
cmp_ok(told('Authorize'), '<=', 2010, 'with it, of what the statement has left');
cmp_ok(told('Authorize'), '>', 500, '... and of no less');
cmp_ok(told('InsertFact'), '<=', 2010, '... for a change too');

# The error is that of statement_timeout, never that of the call, however they race.
$session->must('SET statement_timeout = 60');
$instance->fault('Authorize', { kind => 'stall', ms => 1000 }, times => -1);
my %states;
for my $on_failure ('error', 'deny')
{
	$session->must("SET verdict.on_failure = $on_failure");
	$states{ ($session->ask($check))[1] }++ for 1 .. 15;
}
is_deeply(\%states, { 57014 => 30 }, 'the statement ends by its own time-out');
$session->must('RESET verdict.on_failure; SET statement_timeout = 1000');
$instance->clear_faults;

# A wait that would end after the statement is not begun.
$instance->fault('Authorize', { kind => 'status', status => 503, headers => { 'Retry-After' => '2' } });
my $began = time;
my ($answer, $state) = $session->ask($check);
is($state, '08006', 'a 503 that asks for a wait too long is reported');
cmp_ok(time - $began, '<', 0.9, '... at once');
$session->must('RESET statement_timeout');
$instance->clear_faults;

# ---- the calls of a statement ----

# At commit as well; what was sent before stays, and is told of.
$session->must('SET verdict.statement_call_limit = 2; SET verdict.mutation_mode = deferred');
$session->must("BEGIN; SELECT verdict_insert_fact('late', n) FROM generate_series(1, 3) n");
$instance->clear_log;
is(($session->ask('COMMIT'))[1], '54000', 'a COMMIT that has more batches to send than calls fails');
is(scalar requests('BatchFacts'), 2, '... after those that it may send');
$session->must("BEGIN; SELECT verdict_insert_fact('late', n) FROM generate_series(1, 2) n; COMMIT");

# Statements of one message are one.
$session->must('SET verdict.statement_call_limit = 2');
my $policy = 'SELECT verdict_get_policy()';
is(($session->ask(join('\\;', ($policy) x 2)))[1], '00000', 'two calls of one message');
is(($session->ask(join('\\;', ($policy) x 3)))[1], '54000', '... but not three');
is(($session->ask(join(';', ($policy) x 3)))[1], '00000', 'three messages');

# A worker has no statements.
$node->append_conf('postgresql.conf', 'verdict.statement_call_limit = 1');
$node->reload;
$session->must("RESET verdict.statement_call_limit; SET verdict.mutation_mode = outbox; SELECT verdict_insert_fact('queued', n) FROM generate_series(1, 5) n");
my $delivered = $node->poll_query_until('postgres', 'SELECT count(*) = 0 FROM verdict_outbox');
ok($delivered, 'the worker is not limited');
is($node->safe_psql('postgres', "SELECT sum(calls) >= 5 FROM verdict_stat_calls WHERE server = 'client' AND method IN ('InsertFact', 'BatchFacts')"),
	't', '... and its calls are counted');

$session->quit;
$node->stop;
done_testing();
