# Two different transactions never share an idempotency key, also where a
# transaction id and everything else that names a transaction comes again: after a
# restart, a crash, a promotion, in two clones of one cluster, and after a restore to
# an earlier point.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PsqlSession;
use Test::More;

# Nothing is sent: the keys are read from the outbox.
my $node = PostgreSQL::Test::Cluster->new('keys');
$node->init(allows_streaming => 1, has_archiving => 1);
$node->append_conf('postgresql.conf', <<'END');
autovacuum = off
fsync = off
verdict.mutation_mode = outbox
verdict.server = main
END
$node->start;
$node->safe_psql('postgres', <<'END');
CREATE EXTENSION verdict;
CREATE SERVER main FOREIGN DATA WRAPPER verdict OPTIONS (instance_url 'http://127.0.0.1:9');
CREATE USER MAPPING FOR PUBLIC SERVER main OPTIONS (api_key 'k');
END

my %seen;
my %transactions;

# Commits the one change of this test, and remembers its key and transaction id.
sub change
{
	my ($where, $what) = @_;
	my ($transaction, $key) = split /\|/, $where->safe_psql('postgres', q{
		SET client_min_messages = error;
		SELECT verdict_insert_fact('f(User:alice)') \g /dev/null
		SELECT transaction, idempotency_key FROM verdict_outbox ORDER BY id DESC LIMIT 1});

	like($key, qr/^pg1-[0-9a-f]{64}$/, "$what: there is a key");
	ok(!$seen{$key}++, '... which no other transaction has had');
	$transactions{$transaction}++;
	return $transaction;
}

# Several batches of one transaction, and a batch that is made again after a rollback.
$node->safe_psql('postgres', q{
	SET client_min_messages = error;
	BEGIN;
	SELECT verdict_insert_fact('f(User:alice)');
	SELECT verdict_set_policy('a(x) if b(x)');
	SELECT verdict_insert_fact('f(User:alice)');
	SELECT verdict_set_policy('a(x) if b(x)');
	COMMIT});
is($node->safe_psql('postgres', 'SELECT count(*), count(DISTINCT idempotency_key), count(DISTINCT transaction) FROM verdict_outbox'),
	'4|4|1', 'equal batches of one transaction have keys of their own');
$seen{$_}++ for split /\n/, $node->safe_psql('postgres', 'SELECT idempotency_key FROM verdict_outbox');

change($node, 'at first');
$node->restart;
change($node, 'after a restart');

# A transaction id that reached no disk comes again.
$node->safe_psql('postgres', 'CHECKPOINT');
my $session = PsqlSession->new($node, 'postgres', 'SET client_min_messages = error');
$session->must(q{BEGIN; SELECT verdict_insert_fact('f(User:alice)'); SAVEPOINT s; SET LOCAL verdict.mutation_mode = outbox});
my $lost = $session->must('SELECT pg_current_xact_id()');
$node->stop('immediate');
$node->start;
$session->quit;
is(change($node, 'after a crash'), $lost, '... and the transaction id came again');

# Two clones, and the cluster that they were made from.
$node->backup('base');
my @clones;
for my $name ('one', 'two')
{
	my $clone = PostgreSQL::Test::Cluster->new($name);
	$clone->init_from_backup($node, 'base');
	$clone->append_conf('postgresql.conf', 'archive_mode = off');
	$clone->start;
	push @clones, $clone;
}
my @same = map { change($_, 'in ' . $_->name) } @clones;
is($same[0], $same[1], '... for one transaction id in two clones');
$_->stop for @clones;

# A standby that is promoted while its primary goes on.
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', 'archive_mode = off');
$standby->start;
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
$standby->promote;
my $promoted = change($standby, 'after a promotion');
is(change($node, 'at the old primary'), $promoted, '... for one transaction id on two timelines');
$standby->stop;

# Back to the base backup: what was done since is done again, differently.
$node->safe_psql('postgres', 'SELECT pg_switch_wal()');
my $restored = PostgreSQL::Test::Cluster->new('restored');
$restored->init_from_backup($node, 'base', has_restoring => 1, standby => 0);
$restored->append_conf('postgresql.conf', "archive_mode = off\nrecovery_target = 'immediate'\nrecovery_target_action = 'promote'");
$restored->start;
$restored->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'recovery does not end';
change($restored, 'after a restore to a point in time');
$restored->stop;

cmp_ok((sort { $b <=> $a } values %transactions)[0], '>=', 4, 'one transaction id came four times and more');
$node->stop;
done_testing();
