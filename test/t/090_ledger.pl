# Under an application's key a change is made once, however many clients make it at
# the same time, and whatever becomes of their transactions and of the server.
#
# test/long/090_ledger.pl runs the same in full size.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use LedgerTest;

LedgerTest::run(clients => 32, keys => 100, duplicates => 8, crashes => 1);
