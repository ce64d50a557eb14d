# What an application's key stands for, what a repeat gets, and what is stored.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Digest::SHA qw(sha256_hex);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PsqlSession;
use Test::More;
use VerdictDev;

# Replicas that apply nothing while this runs.
my $instance = VerdictDev->start(api_keys => ['rules-key'], args => [ '--replicas', 2, '--lag', 600_000 ]);
my $node = PostgreSQL::Test::Cluster->new('rules');
$node->init;
$node->append_conf('postgresql.conf', "client_min_messages = warning\n");
$node->start;

my $url = $instance->url;
$node->safe_psql('postgres', <<"END");
CREATE EXTENSION verdict;
CREATE SERVER main FOREIGN DATA WRAPPER verdict OPTIONS (instance_url '$url', batch_size '2');
CREATE USER MAPPING FOR PUBLIC SERVER main OPTIONS (api_key 'rules-key');
CREATE SERVER other FOREIGN DATA WRAPPER verdict OPTIONS (instance_url '$url', batch_size '2');
CREATE USER MAPPING FOR PUBLIC SERVER other OPTIONS (api_key 'rules-key');
ALTER DATABASE postgres SET verdict.server = 'main';
CREATE ROLE alice;
GRANT USAGE ON FOREIGN SERVER main TO alice;
GRANT EXECUTE ON FUNCTION verdict_insert_fact(text, "any") TO alice;
END
my $session = PsqlSession->new($node, 'postgres');

# Requests that change something, since the last time: methods, in order.
sub sent
{
	my @sent = map { $_->{method} } grep { $_->{method} =~ /^(?:InsertFact|DeleteFact|BatchFacts|SetPolicy)$/ } @{ $instance->log };
	$instance->clear_log;
	return \@sent;
}

# A transaction under a key; returns the SQLSTATE of its end.
sub under
{
	my ($key, @statements) = @_;
	my $state;

	for my $statement ('BEGIN', "SET LOCAL verdict.idempotency_key = '$key'", @statements)
	{
		(undef, $state) = $session->ask($statement);
		last if $state ne '00000';
	}
	(undef, my $end) = $session->ask('COMMIT');
	return $state eq '00000' ? $end : $state;
}

my $insert = q{SELECT verdict_insert_fact('f', 1)};
my $read = q{SELECT count(*) FROM verdict_query('f(1)') AS (holds boolean)};

# The repeat starts from the revision of the first, so it sees what that has made.
is(under('first', $insert), '00000', 'a change under a key');
is_deeply(sent(), ['BatchFacts'], '... is sent');
my $revision = $session->must('SHOW verdict.committed_revision');
like($revision, qr/^v1\./, '... and has a revision');
is($session->must($read), 0, '... which another session does not start from');
$session->must("BEGIN; SET LOCAL verdict.idempotency_key = 'first'; $insert");
is($session->must($read), 1, 'a repeat sees what was made');
$session->must('COMMIT');
is($session->must('SHOW verdict.committed_revision'), $revision, '... and its COMMIT reports that revision');
is_deeply(sent(), [], '... and it sends nothing');

# What a key stands for.
is(under('first', q{SELECT verdict_insert_fact('f', 2)}), '55000', 'other changes under the key are refused');
is(under('first', q{SELECT verdict_delete_fact('f', 1)}), '55000', '... the opposite of the change, too');
is(under('first', $insert, q{SELECT verdict_insert_fact('f', 2)}), '55000', '... and more than was done');
is_deeply(sent(), [], '... and none of it is sent');
is(under('second', $insert), '00000', 'another key is another operation');
is(under('first', 'SET LOCAL ROLE alice', $insert), '00000', '... and so is the key of another role');
is(under('first', q{SET LOCAL verdict.server = 'other'}, $insert), '00000', '... and that for another server');
is(under('first', q{SELECT verdict_set_policy('')}), '00000', '... and another method');
is_deeply(sent(), [qw(BatchFacts BatchFacts BatchFacts SetPolicy)], '... which are sent');

# Several batches, cut by size and by a read.
my @many = ((map { "SELECT verdict_insert_fact('many', $_)" } 1 .. 5), q{SELECT count(*) FROM verdict_query('many(?n)') AS (n integer)},
	q{SELECT verdict_delete_fact('many', 1)});
is(under('many', @many), '00000', 'a transaction of four batches');
is(scalar @{ sent() }, 4, '... is sent in four');
is(under('many', @many), '00000', 'its repeat');
is_deeply(sent(), [], '... is not sent');
is(under('many', @many, q{SELECT verdict_insert_fact('many', 9)}), '55000', '... with a change more it is refused');
is(under('many', @many, 'SELECT 1 / 0'), '22012', 'a repeat that fails');
is_deeply(sent(), [], '... has sent nothing');

# Two keys in one transaction: each stands for its own changes.
my @two = ($insert, q{SET LOCAL verdict.idempotency_key = 'two-b'}, q{SELECT verdict_insert_fact('f', 2)},
	q{SET LOCAL verdict.idempotency_key = ''}, q{SELECT verdict_insert_fact('f', 3)});
is(under('two-a', @two), '00000', 'changes under two keys and none');
is_deeply(sent(), [qw(BatchFacts BatchFacts BatchFacts)], '... are three batches');
is(under('two-b', q{SELECT verdict_insert_fact('f', 2)}), '00000', 'a repeat of the second key alone');
is_deeply(sent(), [], '... is not sent');
is(under('two-a', @two), '00000', 'a repeat of all');
is_deeply(sent(), ['BatchFacts'], '... sends what has no key');

# A rollback gives the key back: of the transaction, and of a savepoint.
$session->must("BEGIN; SET LOCAL verdict.idempotency_key = 'back'; $insert; ROLLBACK");
is(under('back', q{SELECT verdict_insert_fact('f', 4)}), '00000', 'a key whose transaction was rolled back is free');
is_deeply(sent(), ['BatchFacts'], '... and its first changes are those that were sent');
is(under('savepoint', 'SAVEPOINT s', $insert, 'ROLLBACK TO s', q{SELECT verdict_insert_fact('f', 5)}), '00000',
	'a change that a savepoint took back');
is(under('savepoint', q{SELECT verdict_insert_fact('f', 5)}), '00000', '... does not belong to the key');
is_deeply(sent(), ['BatchFacts'], '... as the repeat without it tells');
is(under('forced', 'SAVEPOINT s', $insert, $read, 'ROLLBACK TO s', $insert), '00000',
	'a change that a read forced out, taken back and made again');
is_deeply(sent(), [qw(BatchFacts BatchFacts)], '... is sent twice, since the first was taken back');
is(under('forced', 'SAVEPOINT s', $insert, $read, 'ROLLBACK TO s', $insert), '00000', '... and in the repeat');
is_deeply(sent(), ['BatchFacts'], '... only what it takes back again');

# What is stored.
my $stored = $node->safe_psql('postgres', 'SELECT ledger::text FROM verdict_ledger AS ledger');
unlike($stored, qr/first|second|many|savepoint|rules-key/, 'no key stands in the ledger');
my $pack = sub { pack('Q>', length $_[0]) . $_[0] };
my $hash = sha256_hex($pack->('verdict application key 1') . $pack->('second') . pack('Q>', 0));
is($node->safe_psql('postgres', "SELECT server, caller = current_user::regrole, method, changed FROM verdict_ledger WHERE key = '\\x$hash'"),
	'main|t|BatchFacts|0', '... but its hash, as documented');
is($node->safe_psql('postgres', "SELECT has_table_privilege('alice', 'verdict_ledger', 'SELECT, INSERT, UPDATE, DELETE')"), 'f',
	'... which a role cannot read that can make changes');

# A restored database does not make again what was made before the dump.
my $dump = $node->basedir . '/ledger.sql';
command_ok([ 'pg_dump', '-f', $dump, $node->connstr('postgres') ], 'pg_dump');
$node->safe_psql('postgres', 'CREATE DATABASE restored');
command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $dump, $node->connstr('restored') ], '... and restore');
is($node->safe_psql('restored', 'SELECT ledger::text FROM verdict_ledger AS ledger'), $stored, 'the ledger is restored');
$session->quit;
$session = PsqlSession->new($node, 'restored', q{SET verdict.server = 'main'});
$instance->clear_log;
is(under('many', @many), '00000', 'a repeat there');
is_deeply(sent(), [], '... is not sent');

# Old entries are forgotten.
$node->safe_psql('restored', q{UPDATE verdict_ledger SET recorded_at = recorded_at - interval '25 hours'});
cmp_ok($node->safe_psql('restored', 'SELECT verdict_prune_ledger()'), '>', 10, 'old entries are removed');
is(under('many', @many), '00000', '... and then the same transaction');
is(scalar @{ sent() }, 4, '... is a new one');

# Without the extension's tables there is no answer to whether it was made before.
$session->must('ALTER EXTENSION verdict DROP TABLE verdict_ledger; ALTER TABLE verdict_ledger RENAME TO elsewhere');
is(under('lost', $insert), '55000', 'without a ledger a key is refused');
is_deeply(sent(), [], '... and nothing is sent');
$session->quit;

$node->stop;
done_testing();
