# A thousand times a right is revoked and committed, and asked for on another
# connection while the revocation is still on its way: with database scope the answer
# is never yes, without it is.  Ten minutes, since each revocation takes 300 ms.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../t/lib";

use Outbox;
use PsqlSession;
use Test::More;

my ($node, $instance) = Outbox::start('scope_long', instance => { args => [ '--replicas', '2', '--lag', '400' ] },
	conf => "log_statement = none\n");
Outbox::set_policy($instance);
$instance->fault('BatchFacts', { kind => 'stall', ms => 300, when => 'before' }, times => -1);

my $writer = PsqlSession->new($node, 'postgres');
my $reader = PsqlSession->new($node, 'postgres', 'SET verdict.session_scope = database');
is(Outbox::revoke_and_ask($node, $instance, $writer, $reader, 1000), 0, 'with database scope: never yes');
$reader->must('SET verdict.session_scope = transaction');
cmp_ok(Outbox::revoke_and_ask($node, $instance, $writer, $reader, 20), '>', 0, 'without: yes');

$_->quit for $writer, $reader;
$node->stop;
done_testing();
