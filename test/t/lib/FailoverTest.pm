# Failovers under load, in a size that the caller gives: nothing that was
# acknowledged is lost when replicas acknowledge it too (--sync 1).
package FailoverTest;

use strict;
use warnings;

use FailoverLoad;
use Outbox;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VerdictDev;

# An instance with replicas and the policy of FailoverLoad, and a database with a
# worker that changes it; options are instance arguments.
sub start
{
	my ($name, @arguments) = @_;
	my ($node, $instance) = Outbox::start($name, instance => { args => [ '--replicas', 3, '--shards', 2, @arguments ] },
		conf => "fsync = off\n");

	$instance->call('SetPolicy', { policy => FailoverLoad::policy() })->{status} == 200 or die 'no policy';
	$node->safe_psql('postgres', 'ALTER SERVER main OPTIONS (' . join(', ',
			map { "ADD $_ '3000'" } qw(read_timeout_ms mutation_attempt_timeout_ms mutation_overall_timeout_ms)) . ')');
	$node->safe_psql('postgres', FailoverLoad::sql());
	return ($node, $instance);
}

# Both sides of: the facts for the rows of the table are these and no others.
sub differences
{
	my ($node) = @_;
	return $node->safe_psql('postgres', q{
		WITH held AS (SELECT f::text AS fact FROM verdict_list_facts('kept(_, _)', 'authoritative') f),
			due AS (SELECT verdict_fact('kept', verdict_identity('User', owner), verdict_identity('Document', id))::text FROM document)
		SELECT (SELECT count(*) FROM (TABLE due EXCEPT TABLE held) lost), (SELECT count(*) FROM (TABLE held EXCEPT TABLE due) invented)});
}

sub under_load
{
	my (%size) = @_;
	my $seed = $ENV{VERDICT_SEED} || int rand 1_000_000;
	my ($node, $instance) = start('failover', '--sync', 1);
	my $met = FailoverLoad::run($node, $instance, %size, seed => $seed, folder => PostgreSQL::Test::Utils::tempdir());
	my $cluster = $instance->cluster;

	note "seed $seed: ", join ', ', (map { "$_ $met->{states}{$_} times" } sort keys %{ $met->{states} }),
	  (map { "$met->{acknowledged}{$_} acknowledged $_" } sort keys %{ $met->{acknowledged} }),
	  "$met->{known} looked for in the end", "$met->{workers} workers ended", sprintf('%.1f s the longest', $met->{longest}),
	  "$cluster->{lost} lost that nobody was promised";
	is($cluster->{generation}, $size{failovers} + 1, "$size{failovers} failovers");
	is($met->{looks}, $size{failovers}, '... after each of which everything was looked for');
	is_deeply($met->{lost}, [], '... and nothing that was acknowledged was lost');
	is_deeply($met->{wrong}, [], '... nor read wrong by who had changed it');
	cmp_ok($met->{acknowledged}{$_} || 0, '>', 0, "... in $_ mode") for qw(immediate deferred outbox);
	my %states = %{ $met->{states} };
	cmp_ok(delete $states{'00000'}, '>', 0, '... and calls were answered');
	# What a session has seen may be gone, a writer may be away, a key may be in use.
	delete @states{qw(55000 08006 08000 40001 25P02)};
	is_deeply(\%states, {}, '... or failed as they may');
	# A change, one more at commit, and the reads between: each has its own bound.
	cmp_ok($met->{longest}, '<', 9, '... in time');

	ok(Outbox::drained($node), 'the outbox is delivered');
	is($node->safe_psql('postgres', 'SELECT count(*) FROM verdict_outbox'), '0', '... all of it');
	is(differences($node), '0|0', '... and the facts are those of the table: no batch was applied twice or out of order');
	is($node->safe_psql('postgres', 'SET verdict.mutation_mode = immediate; BEGIN; '
			  . q{SELECT verdict_insert_fact('held(User:ann, Document:last)'); SELECT verdict_authorize('User:ann', 'read', 'Document:last'); COMMIT}),
		"t\nt", '... and everything works');
	$node->stop;
	is($instance->stop, 0, 'the instance ends well');
	return;
}

1;
