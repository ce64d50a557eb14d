# What happens around a delivery: nothing of it may take another batch away, keep
# one back, or make anybody wait for what will not come.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Outbox;
use IPC::Run ();
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

# A server that the transaction itself has altered is the one that its batch goes to;
# and while COMMIT waits nobody waits for the transaction.
my $moved = VerdictDev->start(api_keys => ['outbox-key']);
my $url = $moved->url;
$session = PsqlSession->new($node, 'postgres', "SET verdict.commit_wait = '1s'; SET verdict.server = 'main'");
$session->must(Outbox::grant('before'));
$session->must("BEGIN; ALTER SERVER main OPTIONS (SET instance_url '$url'); " . Outbox::grant('moved') . ' COMMIT');
ok(Outbox::drained($node), 'a batch for a server that its transaction has altered');
is(Outbox::viewers($moved), 'moved', '... goes to where the server is now');
$moved->fault('BatchFacts', { kind => 'stall', ms => 2000, when => 'before' });
$session->must('CREATE TABLE held (id integer)');
$session->begin('BEGIN; LOCK TABLE held; ' . Outbox::grant('held') . ' COMMIT');
Outbox::wait_until(sub { Outbox::viewers($moved); grep { pack('H*', $_->{body_hex}) =~ /held/ } Outbox::mutations($moved) }) or die 'nothing was sent';
is(($node->psql('postgres', "SET lock_timeout = '300ms'; SELECT * FROM held"))[0], 0, 'a transaction that waits for its answer holds no lock');
$session->finish;
ok(Outbox::drained($node), '... and gets it');
$session->quit;
$url = $instance->url;
$psql->("ALTER SERVER main OPTIONS (SET instance_url '$url')");

# A trigger that somebody has put on the table keeps a batch in it: it is not sent for
# that as fast as it can be.
$psql->(<<'END');
CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER keep BEFORE UPDATE OR DELETE ON verdict_outbox FOR EACH ROW EXECUTE FUNCTION keep();
END
for my $refusals (0, 100)
{
	$instance->clear_log;
	$instance->fault('BatchFacts', { kind => 'error', code => 'invalid_argument' }, times => $refusals) if $refusals;
	$psql->("SET verdict.server = 'main';", Outbox::grant("kept$refusals"));
	Outbox::wait_until(sub { Outbox::mutations($instance) }) or die 'nothing was sent';
	sleep 2;
	cmp_ok(scalar(Outbox::mutations($instance)), '<', 5, 'a batch that stays as it is, is sent now and then');
}
$instance->clear_faults;
$psql->('DROP TRIGGER keep ON verdict_outbox');
ok(Outbox::drained($node), '... until it can');

# A database that nobody may connect to has no worker, and has one again when somebody
# may, without anything new.
$node->safe_psql('postgres', 'CREATE DATABASE closed');
Outbox::install($node, 'closed', $instance);
$instance->fault('BatchFacts', { kind => 'error', code => 'unauthenticated' }, times => -1);
$node->safe_psql('closed', Outbox::grant('closed'));
my $worker;
Outbox::wait_until(sub { ($worker = Outbox::worker($node, 'closed')) =~ /\d/ }) or die 'no worker';
$psql->('ALTER DATABASE closed ALLOW_CONNECTIONS false');
$psql->("SELECT pg_terminate_backend($worker)");
sleep 2.5;
is(Outbox::worker($node, 'closed'), '', 'a closed database has no worker');
$psql->('ALTER DATABASE closed ALLOW_CONNECTIONS true');
$instance->clear_faults;
ok(Outbox::wait_until(sub { Outbox::viewers($instance) =~ /\bclosed\b/ }), '... but what it had queued is delivered when it is open');

# Databases without anything to deliver take no worker from those who need one.
$node->safe_psql('postgres', "CREATE DATABASE plain$_") for 1 .. 12;
$node->safe_psql('postgres', 'CREATE DATABASE last');
Outbox::install($node, 'last', $instance);
$instance->fault('BatchFacts', { kind => 'error', code => 'unauthenticated' }, times => -1);
$node->safe_psql('last', Outbox::grant('last'));
my $log = -s $node->logfile;
$node->restart;
$instance->clear_faults;
ok(Outbox::wait_until(sub { Outbox::viewers($instance) =~ /\blast\b/ }), 'in a cluster of many databases the last one has its worker soon');
is(slurp_file($node->logfile, $log) =~ /no background worker slot/ ? 1 : 0, 0, '... and there were enough of them');

# Where there are fewer workers than databases they take turns, also when one of the
# databases always has something to send.
my @databases = map { "turn$_" } 1 .. 4;
for my $name (@databases)
{
	$node->safe_psql('postgres', "CREATE DATABASE $name");
	Outbox::install($node, $name, $instance);
}
$node->append_conf('postgresql.conf', "max_worker_processes = 4\n");
$log = -s $node->logfile;
$node->restart;
my $script = PostgreSQL::Test::Utils::tempdir() . '/script';
append_to_file($script, Outbox::grant('busy') . "\n\\sleep 3 ms\n");
my @busy = map {
	IPC::Run::start([ 'pgbench', '-n', '-T', '120', '-f', $script, $node->connstr($_) ], '>', \my $out, '2>', \my $err)
} 'turn1', 'turn2';
for my $round (1 .. 2)
{
	$node->safe_psql($_, Outbox::grant("$_$round")) for @databases;
	ok(Outbox::wait_until(sub { my $viewers = Outbox::viewers($instance); !grep { $viewers !~ /\b$_$round\b/ } @databases }),
		"two workers deliver for all databases ($round)");
}
$node->safe_psql($_, "ALTER SERVER main OPTIONS (SET instance_url 'http://127.0.0.1:1')") for 'turn1', 'turn2';
sleep 2;
$node->safe_psql($_, Outbox::grant("${_}dead")) for 'turn3', 'turn4';
ok(Outbox::wait_until(sub { Outbox::viewers($instance) =~ /\bturn3dead\b.*\bturn4dead\b/ }),
	'... and for others while the instances of two are down');
my $told = () = slurp_file($node->logfile, $log) =~ /no background worker slot is left/g;
is($told, 1, '... and it is told once that they are few');
$_->signal('TERM') for @busy;
$_->finish for @busy;

$node->stop;
done_testing();
