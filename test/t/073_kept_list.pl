# Lists that are kept from one statement for the next: a single check tells whether
# one is still right, by the revision at which the instance answered it.
#
# A replica is held back by a long lag, so nothing depends on how fast the machine is.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PsqlSession;
use Test::More;
use VerdictDev;

my $instance = VerdictDev->start(api_keys => [ 'kept-key', 'other-key' ], args => [ '--replicas', 1, '--sync', 1 ]);
my $node = PostgreSQL::Test::Cluster->new('kept');
$node->init;
$node->append_conf('postgresql.conf', "verdict.mutation_mode = immediate\nfsync = off\njit = off\n");
$node->start;
my $url = $instance->url;
$node->safe_psql('postgres', <<"END");
CREATE EXTENSION verdict;
CREATE SERVER main FOREIGN DATA WRAPPER verdict OPTIONS (instance_url '$url', retry_owner 'none');
CREATE USER MAPPING FOR PUBLIC SERVER main OPTIONS (api_key 'kept-key');
ALTER DATABASE postgres SET verdict.server = 'main';
SET verdict.server = 'main';
CREATE TABLE document (id int PRIMARY KEY);
INSERT INTO document SELECT n FROM generate_series(1, 2000) AS n;
ALTER TABLE document ENABLE ROW LEVEL SECURITY;
CREATE POLICY readable ON document FOR SELECT USING (verdict_authorize(verdict_actor(), 'read', verdict_identity('Document', id)));
CREATE ROLE app LOGIN;
CREATE ROLE other LOGIN;
GRANT SELECT ON document TO app, other;
GRANT USAGE ON FOREIGN SERVER main TO app, other;
SELECT verdict_set_policy('allow(actor, "read", item) if viewer(actor, item); allow(actor, "read", _) if admin(actor);');
SELECT verdict_batch_facts(ARRAY(
	SELECT verdict_fact('viewer', verdict_identity('User', 'alice'), verdict_identity('Document', n)) FROM generate_series(2, 2000, 2) AS n
	UNION ALL SELECT verdict_fact('viewer', verdict_identity('User', 'bob'), verdict_identity('Document', n)) FROM generate_series(1, 5) AS n
	UNION ALL SELECT verdict_fact('viewer', verdict_identity('User', n), verdict_identity('Document', n)) FROM generate_series(1, 600) AS n
	UNION ALL SELECT verdict_fact('admin', verdict_identity('User', 'root'))));
ANALYZE;
GRANT SELECT ON pg_backend_memory_contexts TO app;
GRANT EXECUTE ON FUNCTION pg_get_backend_memory_contexts(), verdict_insert_fact(verdict_fact), verdict_set_policy(text) TO app;
END

sub session
{
	my ($settings) = @_;
	return PsqlSession->new($node, 'postgres', "SET verdict.actor = 'User:alice'; SET ROLE app; " . ($settings // ''));
}

# What a statement says and the calls that it makes: "Authorize/Query".
sub calls
{
	my ($session, $statement) = @_;
	$instance->clear_log;
	my ($answer, $state) = $session->ask($statement);
	my %count;
	$count{ $_->{method} }++ for grep { defined $_->{method} } @{ $instance->log };
	return [ ($state eq '00000' ? '' : "$state ") . $answer, ($count{Authorize} // 0) . '/' . ($count{Query} // 0) ];
}

sub change
{
	my ($kind, $actor, $resource) = @_;
	my $answer = $instance->call($kind, { fact => VerdictDev::fact_of('viewer', $actor, $resource) });
	die "$kind: $answer->{message}" if $answer->{status} != 200;
	$instance->catch_up;
	return $answer->{headers}{'verdict-revision'};
}

sub kept { my ($session) = @_; return $session->must('SELECT lists_kept FROM verdict_stat_decisions()') }

my $scan = 'SELECT count(*) FROM document';
my $many = q{SELECT count(*) FROM unnest(verdict_authorize_many(verdict_actor(), 'read', ARRAY(SELECT verdict_identity('Document', n) FROM generate_series(1, 1000) AS n))) AS yes WHERE yes};

# ------------------------------------------------------------------ when it is right

my $session = session();
is_deeply(calls($session, $scan), [ '1000', '4/1' ], 'the first statement asks for a list');
is_deeply(calls($session, $scan), [ '1000', '1/0' ], 'the next one makes a check, and uses it');
is_deeply(calls($session, 'SELECT count(*) FROM (SELECT FROM document ORDER BY id LIMIT 50) AS page'), [ '50', '1/0' ], 'so does one that stops early');
is_deeply(calls($session, 'SELECT count(*) FROM document WHERE id = 2'), [ '1', '1/0' ], '... or looks at one row');
is_deeply(calls($session, $many), [ '500', '1/0' ], '... or makes many checks at once');
is_deeply(calls($session, "BEGIN; $scan; $scan; COMMIT"), [ "1000\n1000", '2/0' ], 'each statement of a transaction makes its check');
is_deeply(calls($session, "SET verdict.consistency = 'authoritative'; $scan"), [ '1000', '1/0' ], 'an authoritative one, too');
is(kept($session), 7, 'counted');
is_deeply(calls($session, "RESET verdict.consistency; SET verdict.prefetch = off; SELECT count(*) FROM document WHERE id <= 10"), [ '5', '10/0' ], 'not without prefetch');
$session->must('RESET verdict.prefetch');
is_deeply(calls($session, "SET verdict.actor = 'User:bob'; $scan"), [ '5', '4/1' ], 'another actor has another list');
is_deeply(calls($session, "SET verdict.actor = 'User:alice'; $scan"), [ '1000', '1/0' ], '... and the first is still there');
is_deeply(calls($session, "SET verdict.actor = 'User:root'; $scan"), [ '2000', '4/1' ], 'a list that says "every"');
is_deeply(calls($session, $scan), [ '2000', '1/0' ], '... is kept as well');
is_deeply(calls($session, "SET verdict.actor = 'User:nobody'; $scan"), [ '0', '4/1' ], 'an empty one');
is_deeply(calls($session, $scan), [ '0', '1/0' ], '... too');
is_deeply(calls($session, "SET verdict.actor = 'User:alice'; BEGIN; SAVEPOINT s; $scan; ROLLBACK TO s; $scan; COMMIT; $scan"), [ "1000\n1000\n1000", '3/0' ], 'after a rollback');
is_deeply(calls($session, "BEGIN; DECLARE c CURSOR FOR SELECT id FROM document ORDER BY id; FETCH 2 FROM c; $scan; FETCH 2 FROM c; COMMIT"), [ "2\n4\n1000\n6\n8", '2/0' ], 'a cursor beside another statement');
$session->must(q{SELECT count(*) FROM document, LATERAL (SELECT 1 / (id - 1000)) AS failing WHERE id > 990 LIMIT 5});
is(($session->ask('SELECT sum(1 / (id - 1000)) FROM document'))[1], '22012', 'a statement that fails while it uses one');
is_deeply(calls($session, $scan), [ '1000', '1/0' ], '... leaves it as it is');

# -------------------------------------------------------------------- when it is not

change('DeleteFact', 'User:alice', 'Document:1000');
is_deeply(calls($session, $scan), [ '999', '4/1' ], 'after a revocation it is not used');
is_deeply(calls($session, $scan), [ '999', '1/0' ], '... and a new one is kept');
change('InsertFact', 'User:carol', 'Document:1');
is_deeply(calls($session, $scan), [ '999', '4/1' ], 'any change is one');
is_deeply(calls($session, "BEGIN; SELECT verdict_insert_fact('viewer(User:alice, Document:1000)'); $scan; $scan; COMMIT; $scan"), [ "t\n1000\n1000\n1000", '6/1' ], 'a change of its own is seen, and new lists are kept for what comes after it');
is($session->must(q{SELECT verdict_set_policy('allow(actor, "read", item) if viewer(actor, item) and not banned(actor);')}), '', 'another policy');
$instance->catch_up;
is_deeply(calls($session, $scan), [ '1000', '4/1' ], '... is a change');

# The list was right before the revocation, and the replica does not know of it yet.
my $other = session();
is_deeply(calls($other, $scan), [ '1000', '4/1' ], 'another backend keeps its own');
$instance->stop('TERM');
$instance = VerdictDev->start(api_keys => [ 'kept-key', 'other-key' ], args => [ '--replicas', 1, '--lag', 0 ]);
$url = $instance->url;
$node->safe_psql('postgres', <<"END");
ALTER SERVER main OPTIONS (SET instance_url '$url');
SELECT verdict_set_policy('allow(actor, "read", item) if viewer(actor, item);');
SELECT verdict_batch_facts(ARRAY(
	SELECT verdict_fact('viewer', verdict_identity('User', 'alice'), verdict_identity('Document', n)) FROM generate_series(2, 2000, 2) AS n));
END
my $revision = $node->safe_psql('postgres', q{BEGIN; SELECT verdict_insert_fact('viewer(User:eve, Document:1)'); SELECT verdict_revision(); COMMIT});
($revision) = $revision =~ /(v1\.\S+)/;
is_deeply(calls($session, "SELECT verdict_observe('$revision'); BEGIN; SELECT verdict_observe('$revision'); $scan; COMMIT"), [ "\n\n1000", '4/1' ], 'an instance at another address, with the same position: its own list');
$instance->order_node(1, lag_ms => 600_000);
my $current = change('DeleteFact', 'User:alice', 'Document:1000');
is_deeply(calls($session, $scan), [ '1000', '1/0' ], 'a replica that lags says what the list says');
is($session->must(q{SELECT verdict_authorize('User:alice', 'read', 'Document:1000')}), 't', '... and so does a single check');
is_deeply(calls($session, "SET verdict.consistency = 'eventual'; BEGIN; SELECT verdict_observe('$current'); SELECT count(*) FROM document WHERE id IN (999, 1000); COMMIT"), [ "\n1", '2/0' ], 'an eventual read below what the session has observed uses none');
is_deeply(calls($session, "SET verdict.consistency = 'authoritative'; $scan"), [ '999', '4/1' ], 'the writer has another revision: an authoritative statement never misses it');
is_deeply(calls($session, $scan), [ '999', '1/0' ], '... nor does the next');
# What decides the credential decides whose list it is.
is_deeply(calls($session, "SET verdict.consistency = 'authoritative'; $scan"), [ '999', '1/0' ], 'before');
$node->safe_psql('postgres', q{CREATE USER MAPPING FOR other SERVER main OPTIONS (api_key 'other-key')});
is_deeply(calls($session, "RESET ROLE; SET ROLE other; $scan"), [ '999', '4/1' ], 'another mapping: its own list');
is_deeply(calls($session, "RESET ROLE; SET ROLE app; $scan"), [ '999', '1/0' ], '... and back');
$node->safe_psql('postgres', q{ALTER USER MAPPING FOR PUBLIC SERVER main OPTIONS (SET api_key 'other-key')});
is_deeply(calls($session, $scan), [ '999', '4/1' ], 'another key: another list');
$node->safe_psql('postgres', q{ALTER USER MAPPING FOR PUBLIC SERVER main OPTIONS (SET api_key 'wrong')});
is(($session->ask($scan))[1], '28000', 'a key that is no longer one: no list is used');
$node->safe_psql('postgres', q{ALTER USER MAPPING FOR PUBLIC SERVER main OPTIONS (SET api_key 'kept-key')});
is_deeply(calls($session, $scan), [ '999', '4/1' ], '... nor when it is one again');

# Another generation is another history, also at the same position.
$instance->failover(1);
my ($after, $made) = @{ calls($session, $scan) };
is("$after $made", '1000 4/1', 'after a failover, which lost the revocation: a new list');
is_deeply(calls($session, $scan), [ '1000', '1/0' ], '... is kept');

# An answer with two revisions tells nothing.
$instance->fault('Authorize', { kind => 'revision', values => [ 'v1.a.1.1', 'v1.a.1.1' ] }, times => 1);
is_deeply(calls($session, "SET verdict.consistency = 'eventual'; SELECT count(*) FROM document WHERE id <= 2"), [ '1', '2/0' ], 'a malformed one');
$instance->clear_faults;
is_deeply(calls($session, $scan), [ '1000', '1/0' ], 'the next statement');

# A list that was cut or broken is not kept.
change('InsertFact', 'User:alice', 'Document:1');
$instance->fault('Query', { kind => 'cut', bytes => 5000 }, times => 1);
is((split ' ', calls($session, $scan)->[0])[-1], '1001', 'a list that breaks off: single checks, or another list');
is_deeply(calls($session, $scan)->[0], '1001', '... and nothing of it is kept');
$session->quit;
$other->quit;

# ------------------------------------------------------------------------- memory

$session = session();
my $lists = q{SELECT count(*) FILTER (WHERE name = 'verdict list'), sum(total_bytes) < 20000000 FROM pg_backend_memory_contexts WHERE name LIKE 'verdict%'};
$node->safe_psql('postgres', <<'END');
SELECT verdict_batch_facts(ARRAY(
	SELECT verdict_fact('viewer', verdict_identity('User', n), verdict_identity('Document', n)) FROM generate_series(1, 600) AS n)) \g /dev/null
SELECT verdict_batch_facts(ARRAY(
	SELECT verdict_fact('viewer', verdict_identity('User', 'long' || u), verdict_identity('Document', repeat('x', 200) || n)) FROM generate_series(1, 9000) AS n)) FROM generate_series(1, 10) AS u \g /dev/null
END
my $wide = join ';', map { "SET verdict.actor = 'User:long$_'; SELECT verdict_authorize_many(verdict_actor(), 'read', ARRAY(SELECT verdict_identity('Document', n) FROM generate_series(1, 1000) AS n)) \\g /dev/null\n" } 1 .. 10;
$session->must(join ';', map { "SET verdict.actor = 'User:$_'; $scan" } 1 .. 600);
is($session->must($lists), '256|t', 'no more lists are kept than there is room for');
is_deeply(calls($session, "SET verdict.actor = 'User:600'; $scan"), [ '1', '1/0' ], 'the latest are');
is_deeply(calls($session, "SET verdict.actor = 'User:1'; $scan"), [ '1', '4/1' ], '... the earliest are not');
$session->must($wide);
my ($count, $fits) = split /\|/, $session->must($lists);
is($fits, 't', 'nor more memory is taken by long ones');
cmp_ok($count, '<', 256, "... which drive others out ($count left)");
$session->must(join ';', ($scan) x 100);
my $contexts = q{SELECT sum(total_bytes) FROM pg_backend_memory_contexts};
my ($before, $then) = map { $session->must((join ';', ($scan) x 200) . "\n"); $session->must($contexts) } 1, 2;
cmp_ok($then - $before, '<', 32 * 1024, "memory stays flat ($before, $then)");
$session->quit;

done_testing();
