# A change that is made after a crash is made, even when the transaction id of one
# before the crash comes again: an id that reached no disk is given out once more.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PsqlSession;
use Test::More;
use VerdictDev;

my $instance = VerdictDev->start(api_keys => ['crash-key']);
my $node = PostgreSQL::Test::Cluster->new('crash');
$node->init;
$node->append_conf('postgresql.conf', 'verdict.mutation_mode = immediate');
$node->append_conf('postgresql.conf', 'autovacuum = off');
$node->start;

my $url = $instance->url;
$node->safe_psql('postgres', <<"END");
CREATE EXTENSION verdict;
CREATE SERVER main FOREIGN DATA WRAPPER verdict OPTIONS (instance_url '$url');
CREATE USER MAPPING FOR PUBLIC SERVER main OPTIONS (api_key 'crash-key');
ALTER DATABASE postgres SET verdict.server = 'main';
CHECKPOINT;
END

my $viewer = { fact => VerdictDev::fact_of('viewer', 'User:alice', 'Document:1') };
my $viewers = { pattern => { predicate => 'viewer' } };
my $revoke = q{SELECT verdict_delete_fact('viewer(User:alice, Document:1)')};

# Revokes in a transaction that does not end, and returns its id.
sub revoke
{
	my $session = PsqlSession->new($node, 'postgres');

	$session->must('BEGIN');
	is($session->must($revoke), 't', "$_[0]: it is revoked");
	return $session->must('SELECT pg_current_xact_id()');
}

$instance->call('InsertFact', $viewer);
my $before = revoke('before the crash');
$node->stop('immediate');
$node->start;

# Somebody else grants it again.
$instance->call('InsertFact', $viewer);
my $after = revoke('after the crash');
is($after, $before, 'the transaction id came again');
is_deeply($instance->call('ListFacts', $viewers)->{body}, {}, 'and what was revoked is gone');
is(scalar(grep { $_->{replayed} } @{ $instance->log }), 0, 'nothing was taken for something that was done before');

$node->stop;
done_testing();
