# test/t/090_ledger.pl in full size: 32 clients, 500 keys, 8 clients for each key, in
# each isolation level.  A minute on two cores.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../t/lib";

use LedgerTest;

LedgerTest::run(clients => 32, keys => 500, duplicates => 8, crashes => 5);
