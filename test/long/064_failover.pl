# The failovers under load of test/t/064_failover.pl in full size: 100 of them, or
# VERDICT_FAILOVERS, from VERDICT_SEED on.  A minute and a half on two cores.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../t/lib";

use FailoverTest;
use Test::More;

FailoverTest::under_load(failovers => $ENV{VERDICT_FAILOVERS} || 100);
done_testing();
