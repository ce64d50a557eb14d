# A plain policy: how many calls it makes, by the instance's own log, and that it
# never shows what a single check would deny, whatever becomes of a list.
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

my $instance = VerdictDev->start(api_keys => ['policy-key']);
my $node = PostgreSQL::Test::Cluster->new('policy');
$node->init;
$node->append_conf('postgresql.conf', "verdict.mutation_mode = immediate\nfsync = off\n");
$node->start;
my $url = $instance->url;
$node->safe_psql('postgres', <<"END");
CREATE EXTENSION verdict;
CREATE SERVER main FOREIGN DATA WRAPPER verdict OPTIONS (instance_url '$url', retry_owner 'none');
CREATE USER MAPPING FOR PUBLIC SERVER main OPTIONS (api_key 'policy-key');
CREATE SERVER small FOREIGN DATA WRAPPER verdict OPTIONS (instance_url '$url', retry_owner 'none', max_response_bytes '20000');
CREATE USER MAPPING FOR PUBLIC SERVER small OPTIONS (api_key 'policy-key');
CREATE SERVER hasty FOREIGN DATA WRAPPER verdict OPTIONS (instance_url '$url', retry_owner 'none', read_timeout_ms '700');
CREATE USER MAPPING FOR PUBLIC SERVER hasty OPTIONS (api_key 'policy-key');
ALTER DATABASE postgres SET verdict.server = 'main';
SET verdict.server = 'main';
CREATE TABLE document (id int PRIMARY KEY, folder int);
INSERT INTO document SELECT n, n % 50 FROM generate_series(1, 2000) AS n;
CREATE TABLE folder (id int PRIMARY KEY);
INSERT INTO folder SELECT n FROM generate_series(0, 49) AS n;
ALTER TABLE document ENABLE ROW LEVEL SECURITY;
ALTER TABLE folder ENABLE ROW LEVEL SECURITY;
CREATE POLICY readable ON document FOR SELECT USING (verdict_authorize(verdict_actor(), 'read', verdict_identity('Document', id)));
CREATE POLICY readable ON folder FOR SELECT USING (verdict_authorize(verdict_actor(), 'read', verdict_identity('Folder', id)));
CREATE ROLE app LOGIN;
GRANT SELECT ON document, folder TO app;
GRANT USAGE ON FOREIGN SERVER main, small, hasty TO app;
SELECT verdict_set_policy('allow(actor, "read", item) if viewer(actor, item);');
SELECT verdict_batch_facts(ARRAY(
	SELECT verdict_fact('viewer', verdict_identity('User', 'alice'), verdict_identity('Document', n)) FROM generate_series(2, 2000, 2) AS n
	UNION ALL SELECT verdict_fact('viewer', verdict_identity('User', 'alice'), verdict_identity('Folder', n)) FROM generate_series(0, 49, 5) AS n
	UNION ALL SELECT verdict_fact('viewer', verdict_identity('User', 'bob'), verdict_identity('Document', n)) FROM generate_series(1, 5) AS n));
ANALYZE;
END
# What a list holds for alice, so that its length is known nowhere before it is asked for.
my $expected = 1000;

sub session
{
	my ($settings) = @_;
	return PsqlSession->new($node, 'postgres', "SET verdict.actor = 'User:alice'; SET ROLE app; " . ($settings // ''));
}

# The calls that a statement makes: "Authorize/Query".
sub calls
{
	my ($session, $statement) = @_;
	$instance->clear_log;
	my ($answer, $state) = $session->ask($statement);
	my %count;
	$count{ $_->{method} }++ for grep { defined $_->{method} } @{ $instance->log };
	return ("$state $answer", ($count{Authorize} // 0) . '/' . ($count{Query} // 0));
}

sub change
{
	my ($kind, $actor, $resource) = @_;
	my $answer = $instance->call($kind, { fact => VerdictDev::fact_of('viewer', $actor, $resource) });
	die "$kind: $answer->{message}" if $answer->{status} != 200;
}

# -------------------------------------------------------------------- counting

my $session = session();
is_deeply([ calls($session, 'SELECT count(*) FROM document') ], [ "00000 $expected", '4/1' ], 'a scan: a few checks and one list');
is_deeply([ calls($session, 'SELECT count(*) FROM document WHERE id = 2') ], [ '00000 1', '1/0' ], 'one row: one check');
is_deeply([ calls($session, 'SELECT count(*) FROM (SELECT FROM document ORDER BY id LIMIT 1) AS first') ], [ '00000 1', '2/0' ], 'a statement that stops early');
is_deeply([ calls($session, 'SELECT count(*) FROM (SELECT FROM document ORDER BY id LIMIT 5) AS page') ], [ '00000 5', '4/1' ], 'one that goes on a little');
is_deeply([ calls($session, 'SELECT count(*) FROM document WHERE id <= 8') ], [ '00000 4', '4/1' ], 'few rows');
is_deeply([ calls($session, 'SELECT count(*) FROM document JOIN folder ON folder.id = document.folder') ],
	[ '00000 200', '8/2' ], 'a join of two protected tables');
is_deeply([ calls($session, 'SET verdict.prefetch = off; SELECT count(*) FROM document WHERE id <= 100') ], [ '00000 50', '100/0' ], 'without lists');
is_deeply([ calls($session, 'RESET verdict.prefetch; EXPLAIN (COSTS OFF) SELECT count(*) FROM document WHERE id = ANY (verdict_resource_ids(verdict_actor(), \'read\', \'Document\', NULL::int)) \g /dev/null') ],
	[ '00000 ', '0/0' ], 'EXPLAIN asks nobody');
is_deeply([ calls($session, 'SELECT count(*) FROM document WHERE id = ANY (verdict_resource_ids(verdict_actor(), \'read\', \'Document\', NULL::int))') ],
	[ "00000 $expected", '4/2' ], 'an array of ids, through the policy');
is_deeply([ calls($session, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM document; SELECT count(*) FROM document; SELECT count(*) FROM document; COMMIT') ],
	[ "00000 $expected\n$expected\n$expected", '4/1' ], 'a transaction on one snapshot asks once');

# How much is allowed of what was looked at decides whether a page is worth a long list.
$node->safe_psql('postgres', join ';', map { "SELECT verdict_batch_facts(ARRAY(SELECT verdict_fact('viewer', verdict_identity('User', '$_->[0]'), verdict_identity('Document', n)) FROM generate_series($_->[1], $_->[1] + 19998, 2) AS n))" }
	[ dora => 2 ], [ dora => 20002 ], [ emil => 3000 ], [ emil => 23000 ]);
for my $case ([ dora => $expected, '00000 30', '60/0', 'not worth it where every second is allowed' ], [ emil => 0, '00000 0', '19/1', 'soon where nothing is' ])
{
	my ($actor, $count, @said) = @$case;
	my $pages = session("SET verdict.actor = 'User:$actor'");
	is($pages->must('SELECT count(*) FROM document'), $count, 'a list that holds more than the table');
	is_deeply([ calls($pages, 'SELECT count(*) FROM (SELECT FROM document ORDER BY id LIMIT 30) AS page') ], [ @said[ 0, 1 ] ], "... $said[2]");
	$pages->quit;
}

# The statement that goes on after a change of another session is not told of it,
# the next one is.
$session->must('BEGIN');
is($session->must('SELECT count(*) FROM document'), $expected, 'before a revocation');
change('DeleteFact', 'User:alice', 'Document:1000');
is($session->must('SELECT count(*) FROM document'), $expected - 1, 'the next statement knows of a revocation');
change('InsertFact', 'User:alice', 'Document:1000');
$session->must('COMMIT');
$session->must("BEGIN ISOLATION LEVEL REPEATABLE READ; SET LOCAL verdict.consistency = 'authoritative'");
is($session->must('SELECT count(*) FROM document'), $expected, 'authoritative, before a revocation');
change('DeleteFact', 'User:alice', 'Document:1000');
is($session->must('SELECT count(*) FROM document'), $expected - 1, '... and after it, on one snapshot, too');
change('InsertFact', 'User:alice', 'Document:1000');
$session->must('COMMIT');

# ------------------------------------------------- revisions that others observe

sub answers_at { my ($method, @positions) = @_; $instance->fault($method, { kind => 'revision', values => ["v1.test.1.$_"] }, times => 1) for @positions }

sub check { my ($resource) = @_; return "SELECT verdict_authorize('User:bob', 'read', '$resource')" }

answers_at('Authorize', 1 .. 4);
# A standalone instance takes no revision; eventual reads send none and observe all the same.
$session->must("SET verdict.consistency = 'eventual'; BEGIN ISOLATION LEVEL REPEATABLE READ");
is($session->must(check('Document:1')), 't', 'a yes at revision 1');
is((calls($session, check('Document:1')))[1], '0/0', '... is remembered');
change('DeleteFact', 'User:bob', 'Document:1');
is($session->must(check('Document:9')), 'f', 'another check observes revision 2');
is_deeply([ calls($session, check('Document:1')) ], [ '00000 f', '1/0' ], '... and the yes is not used any more');
change('InsertFact', 'User:bob', 'Document:1');
$session->must('COMMIT');
$instance->clear_faults;

# An instance that changes under a statement: every answer is newer than the last.
answers_at('*', 1 .. 400);
$instance->clear_log;
my ($answer, $made) = calls($session, 'SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_memoize = off; SELECT count(*) FROM document JOIN folder ON folder.id = document.folder');
is($answer, '00000 200', 'a join while the instance changes all the time');
my ($singles, $lists) = split '/', $made;
cmp_ok($singles + $lists, '<=', 30, "... ends with few calls ($made)");
cmp_ok($lists, '>=', 2, '... of which some are lists');
$instance->clear_faults;
is($session->must('SELECT lists_kept FROM verdict_stat_decisions()'), 0, 'a standalone instance names no revision, so none of its lists is used again');
$session->quit;

# -------------------------------------------------------------------- fail closed

sub varint { my ($n) = @_; my $text = ''; while ($n > 127) { $text .= chr(($n & 127) | 128); $n >>= 7 } return $text . chr $n }
sub field { my ($number, $content) = @_; return chr($number << 3 | 2) . varint(length $content) . $content }
sub row_of { return field(2, join '', map { field(1, $_) } @_) }
sub identity_value { my ($type, $id) = @_; return field(1, field(1, $type) . field(2, $id)) }
sub answer { my ($variable, @rows) = @_; return unpack 'H*', field(1, $variable) . join '', @rows }

my $true = identity_value('Document', 1);
my @faults = (
	[ 'cut at its start', { kind => 'cut', bytes => 1 } ],
	[ 'cut in the middle', { kind => 'cut', bytes => 10_000 } ],
	[ 'cut in chunks', { kind => 'cut_chunked', bytes => 10_000 } ],
	[ 'cut without a length', { kind => 'cut_undelimited', bytes => 10_000 }, '08P01' ],
	[ 'lost before', { kind => 'close' } ],
	[ 'lost after', { kind => 'close', when => 'after' } ],
	[ 'reset', { kind => 'close', reset => JSON::PP::true } ],
	[ 'unimplemented', { kind => 'error', code => 'unimplemented', message => 'no' } ],
	[ 'invalid', { kind => 'error', code => 'invalid_argument', message => 'no' } ],
	[ 'exhausted', { kind => 'error', code => 'resource_exhausted', message => 'no' } ],
	[ 'internal', { kind => 'error', code => 'internal', message => 'no' } ],
	[ 'denied', { kind => 'error', code => 'permission_denied', message => 'no' } ],
	[ 'unauthenticated', { kind => 'error', code => 'unauthenticated', message => 'no' } ],
	[ 'status 500', { kind => 'status', status => 500 } ],
	[ 'status 404', { kind => 'status', status => 404 } ],
	[ 'oversize', { kind => 'oversize', bytes => 50_000_000 } ],
	[ 'gzip bomb', { kind => 'gzip_bomb', bytes => 100_000_000 } ],
	[ 'redirect', { kind => 'redirect', status => 302, location => 'http://127.0.0.1:1/' } ],
	[ 'a page', { kind => 'content_type', value => 'text/html' }, '08P01' ],
	[ 'no identity', { kind => 'body', hex => answer('resource', row_of($true), row_of(field(2, 'a string'))) }, '08P01' ],
	[ 'another type', { kind => 'body', hex => answer('resource', row_of($true), row_of(identity_value('Folder', 3))) }, '08P01' ],
	[ 'another type only', { kind => 'body', hex => answer('resource', row_of(identity_value('Folder', 3))) }, '08P01' ],
	[ 'two values', { kind => 'body', hex => answer('resource', row_of($true, $true)) }, '08P01' ],
	[ 'a row without a value', { kind => 'body', hex => answer('resource', row_of($true), row_of()) }, '08P01' ],
	[ 'another variable', { kind => 'body', hex => answer('doc', row_of($true)) }, '08P01' ],
	[ 'no variable', { kind => 'body', hex => unpack 'H*', row_of($true) }, '08P01' ],
	[ 'half a row', { kind => 'body', hex => substr answer('resource', row_of($true)), 0, -4 }, '08P01' ],
	[ 'an empty id', { kind => 'body', hex => answer('resource', row_of($true), row_of(identity_value('Document', ''))) }, '08P01' ],
	[ 'a type that is none', { kind => 'body', hex => answer('resource', row_of(identity_value('', '1'))) }, '08P01' ],
	[ 'text that is no UTF-8', { kind => 'body', hex => answer('resource', row_of(identity_value('Document', "\xff"))) }, '08P01' ]);
my $wanted = join ',', map { $_ * 2 } 1 .. 30;

for (@faults)
{
	my ($name, $fault, $state) = @$_;
	my $statement = "SELECT string_agg(id::text, ',' ORDER BY id) FROM document WHERE id <= 60";

	# A session of its own: what would not be given is not asked for again at once.
	my $fresh = session();
	$instance->fault('Query', $fault, times => -1);
	my ($rows, $got) = $fresh->ask($statement);
	if (defined $state)
	{
		is("$got $rows", "$state ", "list with $name: the statement fails");
		($rows, $got) = $fresh->ask("SET verdict.on_failure = 'deny'; $statement");
		my %yes = map { $_ => 1 } split /,/, $wanted;
		is(scalar(grep { !$yes{$_} } split /,/, $rows), 0, '... or with deny shows nothing that is denied');
		is($got, '00000', '... and goes on');
	}
	else
	{
		is("$got $rows", "00000 $wanted", "list with $name: single checks decide");
	}
	$instance->clear_faults;
	is($fresh->must("RESET verdict.on_failure; SELECT count(*) FROM document"), $expected, '... and the next statement is right');
	$fresh->quit;
}

# A list that the instance cuts by its own cap, or that is too large for this client.
{
	my $cutting = VerdictDev->start(api_keys => ['policy-key'], args => [ '--max-rows', 300 ]);
	my $cutting_url = $cutting->url;
	$node->safe_psql('postgres', <<"END");
CREATE SERVER cutting FOREIGN DATA WRAPPER verdict OPTIONS (instance_url '$cutting_url');
CREATE USER MAPPING FOR PUBLIC SERVER cutting OPTIONS (api_key 'policy-key');
GRANT USAGE ON FOREIGN SERVER cutting TO app;
SET verdict.server = 'cutting';
SELECT verdict_set_policy('allow(actor, "read", item) if viewer(actor, item);');
SELECT verdict_batch_facts(ARRAY(
	SELECT verdict_fact('viewer', verdict_identity('User', 'alice'), verdict_identity('Document', n)) FROM generate_series(2, 2000, 2) AS n));
END
	my $fresh = session("SET verdict.server = 'cutting'");
	is($fresh->must('SELECT count(*) FROM document'), $expected, 'a list that the instance cuts');
	is($fresh->must('SELECT lists || $$/$$ || lists_cut FROM verdict_stat_decisions()'), '1/1', '... is asked for once');
	is(scalar(grep { ($_->{method} // '') eq 'Authorize' } @{ $cutting->log }), 2000 - 300 + 2, '... and tells what it holds, two of which were asked for before');
	$fresh->quit;

	$fresh = session("SET verdict.server = 'small'");
	is($fresh->must('SELECT count(*) FROM document'), $expected, 'a list that is too large for the client');
	is($fresh->must('SELECT lists_refused FROM verdict_stat_decisions()'), 1, '... is given up');
	$fresh->quit;
}

# The instance dies in the middle of the list.
{
	my $fresh = session();
	my $pid = $instance->pid;
	$instance->fault('Query', { kind => 'drip', bytes_per_second => 2000 }, times => -1);
	my $killer = fork // die "fork: $!";
	if ($killer == 0)
	{
		sleep 1.5;
		kill 'KILL', $pid;
		POSIX::_exit(0);
	}
	my $start = time;
	my ($rows, $state) = $fresh->ask("SELECT string_agg(id::text, ',') FROM document");
	waitpid $killer, 0;
	like($state, qr/^08/, "the instance dies in the middle of the list: the statement fails ($state)");
	is($rows, '', '... and shows nothing');
	cmp_ok(time - $start, '<', 8, '... at once');
	$instance->restart;
	$node->safe_psql('postgres', <<'END');
SET verdict.server = 'main';
SELECT verdict_set_policy('allow(actor, "read", item) if viewer(actor, item);');
SELECT verdict_batch_facts(ARRAY(
	SELECT verdict_fact('viewer', verdict_identity('User', 'alice'), verdict_identity('Document', n)) FROM generate_series(2, 2000, 2) AS n));
END
	is($fresh->must('SELECT count(*) FROM document'), $expected, '... and works when there is one again');
	$fresh->quit;
}

# An instance that hangs is waited for once a statement, with deny.
{
	my $fresh = session("SET verdict.server = 'hasty'; SET verdict.on_failure = 'deny'; SET client_min_messages = error");
	$instance->fault('*', { kind => 'stall', ms => 20_000 }, times => -1);
	my $start = time;
	is($fresh->must('SELECT count(*) FROM document'), 0, 'with deny and an instance that hangs nothing is shown');
	cmp_ok(time - $start, '<', 5, '... after one time-out');
	$instance->clear_faults;
	is($fresh->must('SELECT count(*) FROM document'), $expected, '... and everything once it answers');
	$fresh->quit;
}

# ------------------------------------------------------------------------ memory

# Contexts of the backend stay as they are, however many statements decide.
{
	my $fresh = session('SET jit = off');
	my $contexts = 'SELECT sum(total_bytes) FROM pg_backend_memory_contexts';
	my $scans = join ';', ('SELECT count(*) FROM document WHERE id <= 40') x 300;
	$node->safe_psql('postgres', 'GRANT EXECUTE ON FUNCTION pg_get_backend_memory_contexts() TO app; GRANT SELECT ON pg_backend_memory_contexts TO app');
	$fresh->must("$contexts; $scans");
	my $before = (split /\n/, $fresh->must("$scans; $contexts"))[-1];
	my $after = (split /\n/, $fresh->must("$scans; $contexts"))[-1];
	cmp_ok($after - $before, '<', 32 * 1024, "memory stays flat ($before, $after)");
	$fresh->quit;
}

done_testing();
