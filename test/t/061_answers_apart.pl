# Answers of the bundled instance hold what was asked for, also while others ask the
# same node at another of its addresses, whose thread is another one.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use POSIX ();
use Test::More;
use VerdictDev;

my $each = 400;
my $instance = VerdictDev->start(args => [ '--replicas', 1, '--sync', 1 ]);

sub must
{
	my ($at, $method, $request) = @_;
	my $answer = $at->call($method, $request);
	die "$method: $answer->{message}" if $answer->{status} != 200;
	return $answer->{body};
}

# The resources that an actor may read, sorted.
sub readable
{
	my ($at, $actor) = @_;
	my $body = must($at, 'Query', { pattern => { predicate => 'allow', args => [ { value => { identity => VerdictDev::identity($actor) } },
		{ value => { string => 'read' } }, { variable => { name => 'resource' } } ] } });
	return join ' ', sort map { "$_->{values}[0]{identity}{type}:$_->{values}[0]{identity}{id}" } @{ $body->{rows} // [] };
}

must($instance, 'SetPolicy', { policy => 'allow(actor, "read", item) if viewer(actor, item);' });
must($instance, 'BatchFacts', { changes => [
	map { my $actor = $_; map { { insert => VerdictDev::fact_of('viewer', "User:$actor", ($actor eq 'ann' ? 'Document' : 'Spreadsheet') . ":$actor-$_") } } 1 .. $each } 'ann', 'bob' ] });
$instance->catch_up;

my %expected = (
	'User:ann' => join(' ', sort map { "Document:ann-$_" } 1 .. $each),
	'User:bob' => join(' ', sort map { "Spreadsheet:bob-$_" } 1 .. $each));

# The front, which sends reads to the replica, and the replica's own address.
my @readers;
for ([ 'User:ann', $instance ], [ 'User:bob', $instance->node(1) ])
{
	my ($actor, $at) = @$_;
	my $process = open my $wrong, '-|';
	die "fork: $!" if !defined $process;
	if ($process == 0)
	{
		my $count = grep { my $got = eval { readable($at, $actor) } // ''; $got ne $expected{$actor} } 1 .. 60;
		syswrite STDOUT, "$count\n";
		POSIX::_exit(0);
	}
	push @readers, [ $actor, $wrong ];
}
for (@readers)
{
	my ($actor, $wrong) = @$_;
	is(scalar <$wrong>, "0\n", "$actor gets nobody else's answer, and no broken one");
}
is($instance->stop, 0, 'the instance stops');
done_testing();
