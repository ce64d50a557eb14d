# When changes are sent: the three values of verdict.mutation_mode, what a rollback
# and a crash do to each, and what the instance's log says was sent.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use JSON::PP ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PsqlSession;
use Test::More;
use VerdictDev;

my $instance = VerdictDev->start(api_keys => ['modes-key']);
my $node = PostgreSQL::Test::Cluster->new('modes');
$node->init;
$node->append_conf('postgresql.conf', "autovacuum = off\nfsync = off\nmax_prepared_transactions = 2");
$node->start;

my $url = $instance->url;
$node->safe_psql('postgres', <<"END");
CREATE EXTENSION verdict;
CREATE SERVER main FOREIGN DATA WRAPPER verdict OPTIONS (instance_url '$url', wire_format 'json');
CREATE SERVER small FOREIGN DATA WRAPPER verdict
	OPTIONS (instance_url '$url', wire_format 'json', batch_size '3');
CREATE USER MAPPING FOR PUBLIC SERVER main OPTIONS (api_key 'modes-key');
CREATE USER MAPPING FOR PUBLIC SERVER small OPTIONS (api_key 'modes-key');
ALTER DATABASE postgres SET verdict.server = 'main';
CREATE FUNCTION put(name text) RETURNS boolean LANGUAGE sql AS
	\$\$ SELECT verdict_insert_fact('f', name) \$\$;
CREATE FUNCTION drop(name text) RETURNS boolean LANGUAGE sql AS
	\$\$ SELECT verdict_delete_fact('f', name) \$\$;
CREATE FUNCTION facts() RETURNS bigint LANGUAGE sql VOLATILE AS
	\$\$ SELECT count(*) FROM verdict_list_facts('f(_)') \$\$;
END

my $session = PsqlSession->new($node, 'postgres', 'SET client_min_messages = error');

# The changes of one logged request, such as "+a -b".
sub changes_of
{
	my ($entry) = @_;
	my $body = JSON::PP::decode_json(pack "H*", $entry->{body_hex});
	my $name = sub { $_[0]{args}[0]{string} };

	return '+' . $name->($body->{fact}) if $entry->{method} eq 'InsertFact';
	return '-' . $name->($body->{fact}) if $entry->{method} eq 'DeleteFact';
	return 'policy' if $entry->{method} eq 'SetPolicy';
	return join ' ', map { $_->{insert} ? '+' . $name->($_->{insert}) : '-' . $name->($_->{delete}) }
	  @{ $body->{changes} };
}

# What was sent since the last call: a text for each change request.
sub sent
{
	my @entries = grep { $_->{method} !~ /^(Authorize|Query|ListFacts|GetPolicy)$/ } @{ $instance->log };
	my %keys = map { $_->{headers}{'idempotency-key'} // '' => 1 } @entries;

	is(scalar(keys %keys), scalar(@entries), 'each batch has a key of its own')
	  if @entries > 1;
	$instance->clear_log;
	return [ map { changes_of($_) } @entries ];
}

# The facts that the instance holds, and then none.
sub held
{
	my $answer = $instance->call('ListFacts', { pattern => { predicate => 'f' } });
	my @facts = sort map { $_->{args}[0]{string} } @{ $answer->{body}{facts} // [] };

	$instance->call('DeleteFact', { fact => { predicate => 'f', args => [ { string => $_ } ] } })
	  for @facts;
	$instance->clear_log;
	return "@facts";
}

sub outbox
{
	return $session->must('SELECT coalesce(sum(changes), 0) FROM verdict_outbox');
}

sub mode { $session->must("SET verdict.mutation_mode = $_[0]"); return }

# ---- deferred

mode('deferred');
$session->must("BEGIN; SELECT put('a'); SELECT put('b'); SELECT drop('a')");
is_deeply(sent(), [], 'deferred: nothing is sent while the transaction runs');
is($session->must('SELECT sent_changes, pending_changes FROM verdict_session()'), '0|3',
	'and the session counts what waits');
$session->must('COMMIT');
is_deeply(sent(), ['+a +b -a'], 'COMMIT sends one batch, in order, nothing left out');
is(held(), 'b', 'which is applied');

is($session->must("SELECT put('a') IS NULL"), 't', 'what a change will have changed is not known');
is_deeply(sent(), ['+a'], 'a transaction of one statement sends at its end');
is(held(), 'a', 'and it is applied');

$session->must("BEGIN; SELECT put('a'); ROLLBACK");
is_deeply(sent(), [], 'deferred: a rollback sends nothing');

$session->must("BEGIN; SELECT put('a'); SELECT put('b')");
is($session->must('SELECT facts()'), '2', 'deferred: a read sees what the transaction did');
is_deeply(sent(), ['+a +b'], 'since it was sent before it');
$session->must("SELECT put('c'); COMMIT");
is_deeply(sent(), ['+c'], 'the rest is sent at commit');
is(held(), 'a b c', 'all of it is applied');

$session->must("BEGIN; SELECT put('a')");
is($session->must(q{SELECT count(*) FROM verdict_list_facts('f(_)', 'eventual')}), '0',
	'an eventual read asks for nothing to be sent');
is_deeply(sent(), [], 'and nothing is');
$session->must("COMMIT");
is(held(), 'a', 'until the commit');

{
	my ($output, $error);
	$node->psql('postgres', q{
		BEGIN; SELECT put('a'); SELECT put('b'); SELECT facts(); SELECT put('c'); ROLLBACK;},
		stderr => \$error, stdout => \$output);
	like($error, qr/WARNING:  2 changes sent to Verdict stay although the transaction was rolled back/,
		'deferred: a rollback warns of what a read forced out');
	is_deeply(sent(), ['+a +b'], 'and only of that');
	is(held(), 'a b', 'which stays');
}

# A commit that fails.
$instance->fault('BatchFacts', { kind => 'error', code => 'invalid_argument', message => 'no' });
my ($answer, $state) = $session->ask("BEGIN; SELECT put('a')");
($answer, $state) = $session->ask('COMMIT');
is($state, '22023', 'deferred: a refusal at commit aborts the transaction with its SQLSTATE');
like($session->error, qr/could not change the facts: no/, 'and says why');
$instance->clear_faults;
sent();
is(held(), '', 'nothing was applied');

# A commit whose answer is lost, twice: applied, and nobody knows.
{
	my $error;
	$instance->fault('BatchFacts', { kind => 'close', when => 'after' }, times => -1);
	isnt($node->psql('postgres', q{BEGIN; SELECT put('a'); COMMIT;}, stderr => \$error, on_error_stop => 1), 0,
		'deferred: a commit whose answer is lost fails');
	like($error, qr/outcome maybe_applied/, 'the error says that the outcome is not known');
	like($error, qr/WARNING:  1 change sent to Verdict may stay/, 'and so does a warning');
	$instance->clear_faults;
	my %keys = map { $_->{headers}{'idempotency-key'} => 1 } grep { $_->{method} eq 'BatchFacts' } @{ $instance->log };
	is(scalar(keys %keys), 1, 'all of its sends had one key');
	$instance->clear_log;
	is(held(), 'a', 'it was applied');
}

# ---- savepoints

my @savepoints = (
	[ "SELECT put('a'); SAVEPOINT s; SELECT put('b'); ROLLBACK TO s; SELECT put('c')", '+a +c', 'ROLLBACK TO' ],
	[ "SELECT put('a'); SAVEPOINT s; SELECT put('b'); RELEASE s; SELECT put('c')", '+a +b +c', 'RELEASE' ],
	[ "SELECT put('a'); SAVEPOINT s; SAVEPOINT t; SELECT put('b'); RELEASE t; ROLLBACK TO s; SELECT put('c')",
		'+a +c', 'RELEASE, then an outer ROLLBACK TO' ],
	[ "SAVEPOINT s; SELECT put('a'); SAVEPOINT t; SELECT put('b'); ROLLBACK TO t; SELECT put('c'); RELEASE s",
		'+a +c', 'ROLLBACK TO inside a savepoint that is released' ],
	[ "SAVEPOINT s; SELECT put('a'); ROLLBACK TO s; SELECT put('a'); ROLLBACK TO s; SELECT put('b')",
		'+b', 'ROLLBACK TO twice' ],
	[ q{DO $$ BEGIN PERFORM put('1'); BEGIN PERFORM put('2'); BEGIN PERFORM put('3'); BEGIN PERFORM put('4');
		BEGIN PERFORM put('5'); RAISE 'five'; EXCEPTION WHEN OTHERS THEN PERFORM put('-5'); END;
		RAISE 'four'; EXCEPTION WHEN OTHERS THEN PERFORM put('-4'); END;
		PERFORM put('after'); EXCEPTION WHEN OTHERS THEN PERFORM put('never'); END;
		RAISE 'two'; EXCEPTION WHEN OTHERS THEN PERFORM put('-2'); END;
		BEGIN PERFORM put('6'); EXCEPTION WHEN OTHERS THEN NULL; END; END $$},
		'+1 +-2 +6', 'exception blocks five deep' ],
);

for my $mode ('deferred', 'outbox')
{
	mode($mode);
	for my $case (@savepoints)
	{
		my ($statements, $expected, $what) = @$case;
		$session->must("BEGIN; $statements; COMMIT");
		$session->must('CALL verdict_deliver()') if $mode eq 'outbox';
		is_deeply(sent(), [$expected], "$mode: $what: what survived is sent in one batch, in order");
		held();
	}
}

# What was sent inside a savepoint stays; what was not sent is taken back.
mode('deferred');
$session->must("BEGIN; SELECT put('a'); SAVEPOINT s; SELECT put('b'); SELECT facts(); SELECT put('c'); ROLLBACK TO s");
is($session->must('SELECT sent_changes, pending_changes FROM verdict_session()'), '2|0',
	'deferred: a savepoint keeps what a read forced out and drops the rest');
$session->must("SELECT put('d'); COMMIT");
is_deeply(sent(), [ '+a +b', '+d' ], 'and what comes after it is sent');
held();

# ---- batches are cut, and spill to disk

$session->must(q{SET work_mem = '64kB'; SET verdict.server = 'small'});
$session->must(q{BEGIN; SELECT put('x' || n) FROM generate_series(1, 7) n; COMMIT});
is_deeply(sent(), [ '+x1 +x2 +x3', '+x4 +x5 +x6', '+x7' ], 'batch_size cuts batches, each with its own key');
held();
$session->must(q{SET verdict.server = 'main'});
$session->must(q{BEGIN; SELECT put(repeat('y', 1000) || n) FROM generate_series(1, 300) n;
	SAVEPOINT s; SELECT put(repeat('z', 1000) || n) FROM generate_series(1, 300) n; ROLLBACK TO s;
	SELECT put('end'); COMMIT});
is(scalar(grep { $_->{method} eq 'BatchFacts' } @{ $instance->log }), 1, 'a queue larger than work_mem is sent as well');
$answer = $instance->call('ListFacts', { pattern => { predicate => 'f' } });
is(scalar(grep { $_->{args}[0]{string} =~ /^y{1000}\d+$/ } @{ $answer->{body}{facts} }), 300, 'whole');
is(scalar(grep { $_->{args}[0]{string} !~ /^y/ } @{ $answer->{body}{facts} }), 1, 'and cut back');
held();
$session->must('RESET work_mem');
$session->must(q{BEGIN; SELECT put(repeat('y', 1000) || n) FROM generate_series(1, 300) n});
is($session->must('SELECT count(*) FROM pg_ls_tmpdir()'), '0', 'a smaller queue is in memory');
is($session->must(q{SET LOCAL work_mem = '64kB'; SELECT put('end'); SELECT count(*) FROM pg_ls_tmpdir()}) =~ /^\n?1$/m ? 1 : 0, 1,
	'... until there may be less of it');
$session->must('ROLLBACK');

# ---- immediate

mode('immediate');
$session->must("BEGIN");
is($session->must("SELECT put('a')"), 't', 'immediate: the answer is the change\'s own');
is_deeply(sent(), ['+a'], 'since it is sent in the call');
is($session->must('SELECT facts()'), '1', 'and seen by the next read');
$session->must('ROLLBACK');
is(held(), 'a', 'a rollback does not take it back');

mode('deferred');
$session->must("BEGIN; SELECT put('a'); SET LOCAL verdict.mutation_mode = immediate; SELECT put('b'); COMMIT");
is_deeply(sent(), [ '+a', '+b' ], 'immediate after deferred: the order is kept');
held();

# ---- outbox

mode('outbox');
$session->must("BEGIN; SELECT put('a'); SELECT put('b'); SELECT drop('a'); ROLLBACK");
is(outbox(), '0', 'outbox: a rollback leaves no row');
$session->must("BEGIN; SELECT put('a'); SELECT put('b'); SELECT drop('a')");
is($session->must('SELECT facts()'), '0', 'outbox: a read in the transaction does not see its changes');
is(outbox(), '0', 'and the row is not there');
$session->must('COMMIT');
is(outbox(), '3', 'outbox: COMMIT writes the row');
is_deeply(sent(), [], 'and sends nothing');
my $key = $session->must('SELECT idempotency_key FROM verdict_outbox');
$session->must('CALL verdict_deliver()');
is($instance->log->[-1]{headers}{'idempotency-key'}, $key, 'it is delivered under the key of its row');
is_deeply(sent(), ['+a +b -a'], 'as one batch, in order');
is(outbox(), '0', 'and the row is gone');
is(held(), 'b', 'it is applied');

($answer, $state) = $session->ask("BEGIN; SELECT put('a'); SET LOCAL verdict.mutation_mode = deferred; SELECT put('b')");
is($state, '55000', 'outbox does not mix with another mode');
$session->ask('ROLLBACK');

# Full batches go to the table early; a savepoint takes them back.
$session->must(q{SET verdict.server = 'small'});
$session->must(q{BEGIN; SELECT put('x' || n) FROM generate_series(1, 7) n});
is(outbox(), '6', 'outbox: full batches are written early');
$session->must(q{SAVEPOINT s; SELECT put('y' || n) FROM generate_series(1, 7) n; ROLLBACK TO s});
$session->must(q{SELECT put('z1'); SELECT put('z2'); COMMIT; CALL verdict_deliver()});
is_deeply(sent(), [ '+x1 +x2 +x3', '+x4 +x5 +x6', '+x7 +z1 +z2' ], 'and what survived is sent in order');
held();
$session->must(q{SET verdict.server = 'main'});

# ---- a policy is a change like the others

mode('deferred');
$session->must(q{BEGIN; SELECT put('a'); SELECT verdict_set_policy('allow(a, "read", d) if owner(a, d);'); SELECT put('b'); COMMIT});
is_deeply(sent(), [ '+a', 'policy', '+b' ], 'a policy is sent in its place');
held();

# ---- two-phase commit

mode('deferred');
($answer, $state) = $session->ask("BEGIN; SELECT put('a'); PREPARE TRANSACTION 'd'");
is($state, '0A000', 'deferred: PREPARE TRANSACTION is refused');
$session->ask('ROLLBACK');
is_deeply(sent(), [], 'and nothing was sent');
mode('outbox');
$session->must("BEGIN; SELECT put('a'); PREPARE TRANSACTION 'o'");
is(outbox(), '0', 'outbox: PREPARE TRANSACTION takes the row with it');
$session->must("COMMIT PREPARED 'o'");
$session->must('CALL verdict_deliver()');
is_deeply(sent(), ['+a'], 'and COMMIT PREPARED releases it');
held();

# ---- nothing can be changed where nothing may be written

for my $mode ('deferred', 'outbox', 'immediate')
{
	mode($mode);
	($answer, $state) = $session->ask("BEGIN READ ONLY; SELECT put('a')");
	is($state, '25006', "$mode: a read-only transaction refuses a change");
	$session->ask('ROLLBACK');
}

# ---- crash between answer and commit, and after commit

sub crash
{
	$session->quit;
	$node->stop('immediate');
	$node->start;
	$session = PsqlSession->new($node, 'postgres', 'SET client_min_messages = error');
	return;
}

mode('deferred');
$session->must("BEGIN; SELECT put('a'); SELECT facts()");
crash();
is(held(), 'a', 'deferred: what was answered before the crash stays');
mode('deferred');
$session->must("BEGIN; SELECT put('a')");
crash();
is(held(), '', 'what was not sent is lost with its transaction');
mode('immediate');
$session->must("BEGIN; SELECT put('a')");
crash();
is(held(), 'a', 'immediate: what was answered stays');
mode('outbox');
$session->must("SELECT put('a'); BEGIN; SELECT put('b')");
$key = $node->safe_psql('postgres', 'SELECT idempotency_key FROM verdict_outbox');
crash();
sent();
is($session->must('SELECT idempotency_key FROM verdict_outbox'), $key,
	'outbox: the row of a committed transaction is there after the crash, with its key');
$session->must('CALL verdict_deliver()');
is_deeply(sent(), ['+a'], 'and is sent, and nothing else');
is(held(), 'a', 'once');

$session->quit;
$node->stop;
done_testing();
