# A client with a planted fault (VERDICT_PLANTED is its name, the extension that is
# installed has it): the checker of histories catches it within twenty.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../t/lib";

use Histories;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VerdictDev;

my $fault = $ENV{VERDICT_PLANTED} or die 'VERDICT_PLANTED does not tell which fault is planted';
my ($node, $instance) = Histories::cluster();
my $session = Histories->new($node, $instance, q{SET verdict.consistency = 'session'});
my @violations;
my $histories = 0;

@violations = $session->run(seed => ++$histories) while !@violations && $histories < 20;
ok(@violations > 0, "$fault is caught in history $histories");
note @violations ? $violations[0] : 'no violation';

$node->stop;
done_testing();
