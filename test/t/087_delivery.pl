# What happens around a delivery: nothing of it may take another batch away, keep
# one back, or make anybody wait for what will not come.
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

my ($node, $instance) = Outbox::start('delivery');
my $psql = sub { $node->safe_psql('postgres', join "\n", @_) };

# The extension is made anew while a batch is under way: the batch that has its id
# now is another one.
$instance->fault('BatchFacts', { kind => 'stall', ms => 1500, when => 'before' });
$psql->(Outbox::grant('under_way'));
Outbox::wait_until(sub { Outbox::mutations($instance) }) or die 'nothing was sent';
my $first = $psql->('SELECT id FROM verdict_outbox');
$psql->('DROP EXTENSION verdict CASCADE');
Outbox::install($node, 'postgres', $instance);
$psql->(Outbox::grant('anew'));
is($psql->('SELECT id FROM verdict_outbox'), $first, 'a batch of another extension has the id of one that is under way');
ok(Outbox::drained($node), '... is taken from the outbox');
like(Outbox::viewers($instance), qr/\banew\b/, '... when it has been delivered, and not before');

# Where the server is the business of a function and not of the session, COMMIT waits
# for the answer as well.
$psql->(<<'END');
ALTER DATABASE postgres RESET verdict.server;
CREATE FUNCTION change(fact text) RETURNS boolean LANGUAGE sql SET verdict.server = 'main' RETURN verdict_insert_fact(fact::verdict_fact);
END
my $session = PsqlSession->new($node, 'postgres', "SET verdict.commit_wait = '10s'");
my $wait = sub {
	my $start = time;
	$session->must("SELECT change('viewer(User:$_[0], Document:1)')");
	return time - $start;
};
$instance->fault('BatchFacts', { kind => 'stall', ms => 400, when => 'before' }, times => 3);
for my $name ('pinned1', 'pinned2', 'pinned3')
{
	my $took = $wait->($name);
	cmp_ok($took, '>=', 0.4, "$name: COMMIT waits for the answer");
	cmp_ok($took, '<', 5, '... and no longer');
}
$session->quit;

$node->stop;
done_testing();
