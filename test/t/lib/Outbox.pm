# A cluster whose worker delivers to a verdict-dev, and what tests of it ask.
package Outbox;

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use Test::More;
use Time::HiRes qw(sleep time);
use VerdictDev;

# Prepares database $database of the node: extension, server "main" for the
# instance, mapping for everybody, outbox mode.
sub install
{
	my ($node, $database, $instance) = @_;
	my $url = $instance->url;
	my $key = $instance->{api_keys}[0];
	my $options = defined $key ? "OPTIONS (api_key '$key')" : '';

	$node->safe_psql($database, <<"END");
CREATE EXTENSION verdict;
CREATE SERVER main FOREIGN DATA WRAPPER verdict OPTIONS (instance_url '$url');
CREATE USER MAPPING FOR PUBLIC SERVER main $options;
GRANT USAGE ON FOREIGN SERVER main TO PUBLIC;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO PUBLIC;
ALTER DATABASE $database SET verdict.server = 'main';
ALTER DATABASE $database SET verdict.mutation_mode = 'outbox';
END
	return;
}

# A started cluster with the library preloaded, and its instance.
sub start
{
	my ($name, %options) = @_;
	my $instance = VerdictDev->start(api_keys => ['outbox-key'], %{ $options{instance} || {} });
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init(%{ $options{init} || {} });
	$node->append_conf('postgresql.conf', "shared_preload_libraries = 'verdict'\n" . ($options{conf} || ''));
	$node->start;
	install($node, 'postgres', $instance);
	return ($node, $instance);
}

# SQL that inserts the fact viewer(User:<name>, Document:1).
sub grant { return "SELECT verdict_insert_fact('viewer(User:$_[0], Document:1)');" }
sub revoke { return "SELECT verdict_delete_fact('viewer(User:$_[0], Document:1)');" }

# Waits until the code gives true; false after 20 seconds.
sub wait_until
{
	my ($code, $patience) = @_;
	my $end = time + ($patience || 20);

	while (1)
	{
		return 1 if $code->();
		return 0 if time > $end;
		sleep 0.02;
	}
}

# Waits until the outbox of the database holds nothing that is to be sent.
sub drained
{
	my ($node, $database) = @_;
	return wait_until(sub { $node->safe_psql($database || 'postgres',
		'SELECT count(*) FROM verdict_outbox WHERE parked_at IS NULL') eq '0' });
}

# The mutations that came to the instance, the oldest first.
sub mutations
{
	my ($instance) = @_;
	return grep { $_->{method} =~ /Fact$|Facts$|SetPolicy/ && $_->{method} ne 'ListFacts' } @{ $instance->log };
}

# The Idempotency-Keys of those, in order.
sub keys_sent
{
	my ($instance) = @_;
	return map { $_->{headers}{'idempotency-key'} } mutations($instance);
}

# Who may see Document:1, sorted: from the instance itself.
sub viewers
{
	my ($instance) = @_;
	my $answer = $instance->call('ListFacts', { pattern => { predicate => 'viewer' } },
		'Verdict-Consistency' => 'authoritative');
	die "ListFacts: $answer->{message}" if $answer->{status} != 200;
	return join ' ', sort map { $_->{args}[0]{identity}{id} } @{ $answer->{body}{facts} || [] };
}

# Whoever is a viewer of a document may read it.
sub set_policy
{
	my ($instance) = @_;
	my $answer = $instance->call('SetPolicy', { policy => 'allow(a, "read", r) if viewer(a, r);' });
	die "SetPolicy: $answer->{message}" if $answer->{status} != 200;
	return;
}

# Whether alice may, and the call that makes her a viewer behind the database's back.
our $check = q{SELECT verdict_authorize('User:alice', 'read', 'Document:1')};
our @viewer = ('InsertFact', { fact => VerdictDev::fact_of('viewer', 'User:alice', 'Document:1') });

# Her right is revoked and committed by one session, then another one asks: how
# often the answer was yes.
sub revoke_and_ask
{
	my ($node, $instance, $writer, $reader, $rounds) = @_;
	my $yes = 0;

	for my $round (1 .. $rounds)
	{
		$instance->call(@viewer)->{status} == 200 or die 'InsertFact failed';
		$writer->must(revoke('alice'));
		my ($answer, $state) = $reader->ask($check);
		die "round $round: $state " . $reader->error if $state ne '00000';
		$yes++ if $answer eq 't';
		# The next round begins from nothing.
		drained($node) or die "round $round: not drained";
	}
	return $yes;
}

# The process id of the worker of a database, '' for none.
sub worker
{
	my ($node, $database) = @_;
	$database ||= 'postgres';
	return $node->safe_psql('postgres',
		"SELECT pid FROM pg_stat_activity WHERE backend_type = 'verdict worker' AND datname = '$database'");
}

1;
