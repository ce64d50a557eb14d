# The four session guarantees, over recorded histories: four backends, a writer and
# three replicas with up to two seconds of uneven lag, one failover in each.
#
# VERDICT_HISTORIES is how many to run, VERDICT_SEED the seed of the first.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Histories;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VerdictDev;

my $histories = $ENV{VERDICT_HISTORIES} || 5;
my $seed = $ENV{VERDICT_SEED} || 1;

my ($node, $instance) = Histories::cluster();

my $session = Histories->new($node, $instance, q{SET verdict.consistency = 'session'});
my %answered;
for my $number ($seed .. $seed + $histories - 1)
{
	my @violations = $session->run(seed => $number);
	ok(!@violations, "history $number violates nothing")
	  or diag join "\n", @violations[ 0 .. ($#violations < 9 ? $#violations : 9) ];
	my $counts = $session->counts;
	for my $operation (keys %$counts)
	{
		$answered{$operation}{$_} += $counts->{$operation}{$_} for keys %{ $counts->{$operation} };
	}
}
# The histories are worth something only when everything has happened in them.
cmp_ok($answered{$_}{'00000'}, '>', 0, "$_ was answered")
  for qw(grant check check_many list observe savepoint rollback end);
cmp_ok($answered{failing}{'58000'}, '>', 0, 'calls failed');
my $refused = 0;
$refused += $answered{$_}{'55000'} || 0 for keys %answered;
cmp_ok($refused, '>', 0, 'sessions were refused after a failover');
my $cluster = $instance->cluster;
for my $figure (qw(waits fallbacks reads))
{
	my $sum = 0;
	$sum += $_->{$figure} for @{ $cluster->{nodes} };
	cmp_ok($sum, '>', 0, "there were $sum $figure");
}
cmp_ok($cluster->{lost}, '>', 0, "failovers lost $cluster->{lost} changes");
note explain \%answered if $ENV{VERDICT_HISTORIES};

# The same lag, and nobody asks for anything: the checker sees it, most of the time
# in the first history.
my $eventual = Histories->new($node, $instance, q{SET verdict.consistency = 'eventual'});
my %kinds;
for my $number (1 .. 10)
{
	$kinds{ s/:.*//sr }++ for $eventual->run(seed => $number);
	last if $kinds{'read your writes'} && $kinds{'monotonic reads'};
}
cmp_ok($kinds{'read your writes'} || 0, '>', 0, 'eventual reads do not show what was written');
cmp_ok($kinds{'monotonic reads'} || 0, '>', 0, '... nor what was shown before');

$node->stop;
done_testing();
