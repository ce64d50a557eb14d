# A hot standby, its promotion, and two-phase commit.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Outbox;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my ($node, $instance) = Outbox::start('primary', init => { allows_streaming => 1 },
	conf => "max_prepared_transactions = 5\n");
my $psql = sub { $node->safe_psql('postgres', join "\n", @_) };
Outbox::set_policy($instance);

# ------------------------------------------------------------ two-phase commit

$psql->('BEGIN;', Outbox::grant('first'), "PREPARE TRANSACTION 'one';");
sleep 0.7;
is(Outbox::viewers($instance), '', 'what is prepared is not sent');
$psql->("COMMIT PREPARED 'one'");
ok(Outbox::wait_until(sub { Outbox::viewers($instance) eq 'first' }), 'COMMIT PREPARED sends it');
$psql->('BEGIN;', Outbox::grant('second'), "PREPARE TRANSACTION 'two';");
$psql->("ROLLBACK PREPARED 'two'");
sleep 0.7;
is(Outbox::viewers($instance), 'first', 'ROLLBACK PREPARED does not');
$psql->('BEGIN;', Outbox::grant('third'), "PREPARE TRANSACTION 'three';");
$node->restart;
$psql->("COMMIT PREPARED 'three'");
ok(Outbox::wait_until(sub { Outbox::viewers($instance) eq 'first third' }), '... nor does a restart in between lose it');
ok(Outbox::drained($node), 'all is answered');

# ----------------------------------------------------------------- a standby

my $standby = PostgreSQL::Test::Cluster->new('standby');
$node->backup('base');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
$node->wait_for_catchup($standby);

my $check = q{SELECT verdict_authorize('User:first', 'read', 'Document:1')};
is($standby->safe_psql('postgres', $check), 't', 'a standby reads');
is($standby->safe_psql('postgres', "SET verdict.session_scope = database; $check"), 't', '... with database scope too');
for my $mode ('outbox', 'deferred', 'immediate')
{
	my ($status, undef, $errors) = $standby->psql('postgres',
		"\\set VERBOSITY verbose\nSET verdict.mutation_mode = $mode; " . Outbox::grant('standby'));
	like($errors, qr/ERROR:  25006/, "... and refuses changes ($mode)");
}
like(($standby->psql('postgres', "\\set VERBOSITY verbose\nCALL verdict_deliver()"))[2], qr/ERROR:  25006/,
	'... and does not deliver');
is($standby->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'verdict%'"), '0',
	'... and has no worker');

# A revocation is committed, replicated and on its way: a read of the standby that
# has database scope waits for its answer.
$instance->fault('BatchFacts', { kind => 'stall', ms => 700, when => 'before' });
$psql->(Outbox::revoke('first'));
$node->wait_for_catchup($standby);
is($standby->safe_psql('postgres', "SET verdict.session_scope = database; $check"), 'f',
	'a revocation that the standby has seen is never missed there');
ok(Outbox::drained($node), '... and it is answered');

# ---------------------------------------------------------------- promotion

# The primary dies inside a call that was applied, with more behind it.
$instance->clear_log;
$instance->fault('BatchFacts', { kind => 'stall', ms => 3000, when => 'after' });
$psql->(Outbox::grant('pending1'));
Outbox::wait_until(sub { Outbox::viewers($instance) =~ /pending1/ }) or die 'nothing came';
$psql->(Outbox::grant('pending2'));
$psql->('BEGIN;', Outbox::grant('pending3'), "PREPARE TRANSACTION 'over';");
$node->wait_for_catchup($standby);
$node->stop('immediate');
is($standby->safe_psql('postgres', 'SELECT count(*) FROM verdict_outbox'), '2', 'the standby has what is pending');
$standby->promote;
ok(Outbox::wait_until(sub { Outbox::worker($standby) ne '' }), 'after the promotion there is a worker');
ok(Outbox::drained($standby), '... which sends what was pending');
my @first = grep { pack('H*', $_->{body_hex}) =~ /pending1/ } Outbox::mutations($instance);
cmp_ok(scalar @first, '>=', 2, '... what the primary had sent, too');
my %keys = map { $_->{headers}{'idempotency-key'} => 1 } @first;
is(scalar keys %keys, 1, '... under the same key');
ok((grep { $_->{replayed} } @first), '... and it is applied once: the repeat is answered as one');
unlike(Outbox::viewers($instance), qr/pending3/, 'what is prepared stays prepared');
$standby->safe_psql('postgres', "COMMIT PREPARED 'over'");
ok(Outbox::wait_until(sub { Outbox::viewers($instance) =~ /pending2 pending3/ }), '... until it is committed there');
$standby->safe_psql('postgres', Outbox::grant('promoted'));
ok(Outbox::drained($standby), 'and new changes go');
like(Outbox::viewers($instance), qr/promoted/, '... to the instance');

$standby->stop;
done_testing();
