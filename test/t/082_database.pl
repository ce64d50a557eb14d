# Commands that need the database, or the outbox, for themselves, while the worker
# is idle and while it is inside a call that takes ten seconds.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Outbox;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my ($node, $instance) = Outbox::start('database', conf => "allow_in_place_tablespaces = on\nlog_min_messages = info\n");

my $number = 0;

# A database whose worker is inside a call of ten seconds, and the batch behind it.
sub busy_database
{
	my ($ms) = @_;
	my $name = 'busy' . ++$number;

	$node->safe_psql('postgres', "CREATE DATABASE $name");
	Outbox::install($node, $name, $instance);
	$node->safe_psql($name, Outbox::grant("warm$number"));
	ok(Outbox::drained($node, $name), "$name: the worker starts with the first row");
	make_busy($name, $ms);
	return $name;
}

sub make_busy
{
	my ($name, $ms) = @_;
	my $before = @{ $instance->log };

	$instance->fault('BatchFacts', { kind => 'stall', ms => $ms || 10_000 }, times => -1);
	$node->safe_psql($name, Outbox::grant('slow'));
	Outbox::wait_until(sub { @{ $instance->log } > $before }) or die 'the batch was not sent';
	$instance->clear_faults;
	return;
}

# Runs SQL, which has to go well within two seconds.
sub quick
{
	my ($name, $database, $sql) = @_;
	my $start = time;
	my ($status, undef, $errors) = $node->psql($database, $sql, timeout => 60);
	my $took = time - $start;

	$errors =~ s/^.*(NOTICE|DETAIL|drop cascades).*\n?//mg;
	is("$status$errors", '0', "$name works");
	cmp_ok($took, '<', 2, sprintf '... in %.2f s', $took);
	return;
}

sub worker_is_back
{
	my ($database) = @_;
	return ok(Outbox::wait_until(sub { Outbox::worker($node, $database) ne '' }), "... and the worker is back");
}

# ---------------------------------------------- while it waits for the network

my $database = busy_database();
my $worker = Outbox::worker($node, $database);
is($node->safe_psql($database, "SELECT count(*) FROM pg_locks WHERE pid = $worker"), '0',
	'a worker in a call holds no lock');
is($node->safe_psql($database, "SELECT xact_start IS NULL, backend_xid IS NULL, backend_xmin IS NULL, state, wait_event_type, wait_event "
	. "FROM pg_stat_activity WHERE pid = $worker"), $node->pg_version >= 17 ? 't|t|t|active|Extension|VerdictCall' : 't|t|t|active|Extension|Extension',
	'... and no transaction, and says what it waits for');
like($node->safe_psql($database, "SELECT query FROM pg_stat_activity WHERE pid = $worker"),
	qr/^sending batch \d+ to server main$/, '... and what it does, nothing more');
quick('TRUNCATE', $database, 'TRUNCATE verdict_outbox');
quick('VACUUM FULL', $database, 'VACUUM FULL verdict_outbox');
quick('ALTER TABLE', $database, 'ALTER TABLE verdict_outbox SET (fillfactor = 90)');
quick('DROP EXTENSION that is rolled back', $database, 'BEGIN; DROP EXTENSION verdict CASCADE; ROLLBACK');
is(Outbox::worker($node, $database), $worker, '... with the worker where it was');
quick('DROP EXTENSION', $database, 'DROP EXTENSION verdict CASCADE');
quick('CREATE EXTENSION', $database, 'CREATE EXTENSION verdict');
quick('another DROP DATABASE', 'postgres', 'CREATE DATABASE unrelated; DROP DATABASE unrelated');
quick('DROP DATABASE', 'postgres', "DROP DATABASE $database");

$database = busy_database(2500);
quick('ALTER DATABASE RENAME', 'postgres', "ALTER DATABASE $database RENAME TO renamed");
worker_is_back('renamed');
ok(Outbox::drained($node, 'renamed'), '... and delivers what it was at');
make_busy('renamed', 2500);
quick('CREATE DATABASE ... TEMPLATE', 'postgres', 'CREATE DATABASE copy TEMPLATE renamed');
worker_is_back('renamed');
is($node->safe_psql('copy', 'SELECT DISTINCT foreign_origin FROM verdict_outbox_status'), 't',
	'... and what was copied is not the copy\'s to send');
ok(Outbox::drained($node, 'renamed'), '... but the original\'s');
is($node->safe_psql('copy', 'SELECT count(*) FROM verdict_outbox'), '1', 'the copy keeps it');
my $here = 'SET verdict.server = main; SET verdict.mutation_mode = outbox; ';
$node->safe_psql('copy', $here . Outbox::grant('copied'));
ok(Outbox::wait_until(sub { Outbox::viewers($instance) =~ /copied/ }), '... and delivers its own');
$instance->clear_log;
$node->safe_psql('copy', 'SELECT verdict_outbox_resend(id) FROM verdict_outbox');
ok(Outbox::drained($node, 'copy'), '... and the copied one when it is told to');
ok((Outbox::mutations($instance))[0]{replayed}, '... which changes nothing, for it has the same key');
make_busy('renamed');
$node->safe_psql('postgres', "CREATE TABLESPACE here LOCATION ''");
quick('ALTER DATABASE SET TABLESPACE', 'postgres', 'ALTER DATABASE renamed SET TABLESPACE here');
worker_is_back('renamed');
make_busy('renamed');
quick('DROP DATABASE ... FORCE', 'postgres', 'DROP DATABASE renamed WITH (FORCE)');

# A command that fails, or is refused, brings the worker back too.
$database = busy_database(2500);
my (undef, undef, $errors) = $node->psql('postgres', "ALTER DATABASE $database RENAME TO postgres");
like($errors, qr/already exists/, 'a rename that fails');
worker_is_back($database);
$node->safe_psql('postgres', 'CREATE ROLE nobody_special');
$worker = Outbox::worker($node, $database);
(undef, undef, $errors) = $node->psql('postgres', "SET ROLE nobody_special; DROP DATABASE $database");
like($errors, qr/must be owner/, 'a drop by somebody else');
(undef, undef, $errors) = $node->psql('postgres', "SET ROLE nobody_special; CREATE DATABASE mine TEMPLATE $database");
like($errors, qr/permission denied/, '... or a copy');
(undef, undef, $errors) = $node->psql('postgres', "SET ROLE nobody_special; ALTER DATABASE $database RENAME TO mine");
like($errors, qr/must be owner/, '... or another name');
is(Outbox::worker($node, $database), $worker, '... does not even end the worker');

# Idle.
ok(Outbox::drained($node, $database), 'nothing to do');
quick('DROP DATABASE of an idle worker', 'postgres', "DROP DATABASE $database");
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'verdict worker' AND datname IS DISTINCT FROM 'postgres' AND datname <> 'copy'"),
	'0', 'no worker is left of it');

# ----------------------------------------------- without extension, and with less

$node->safe_psql('postgres', 'CREATE DATABASE plain');
$node->safe_psql('plain', 'CREATE SCHEMA verdict; CREATE TABLE verdict.verdict_outbox (id bigint)');
my $start = -s $node->logfile;
$node->restart;
ok(Outbox::wait_until(sub { Outbox::worker($node) ne '' }), 'after a restart the worker is there');
sleep 3;
is(Outbox::worker($node, 'plain'), '', 'a schema of that name alone has none');
my $log = slurp_file($node->logfile, $start);
unlike($log, qr/ERROR|FATAL: (?! *terminating)/, '... and nothing complains');
$node->safe_psql('plain', 'DROP SCHEMA verdict CASCADE');
Outbox::install($node, 'plain', $instance);
$node->safe_psql('plain', Outbox::grant('plain'));
ok(Outbox::drained($node, 'plain'), 'the first row starts one');
$node->safe_psql('plain', 'DROP EXTENSION verdict CASCADE');
ok(Outbox::wait_until(sub { Outbox::worker($node, 'plain') eq '' }), '... DROP EXTENSION ends it');
Outbox::install($node, 'plain', $instance);
$node->safe_psql('plain', Outbox::grant('plain2'));
ok(Outbox::drained($node, 'plain'), '... the next row starts it again');

# Terminated, it comes back.
$worker = Outbox::worker($node, 'plain');
$node->safe_psql('postgres', "SELECT pg_terminate_backend($worker)");
ok(Outbox::wait_until(sub { my $now = Outbox::worker($node, 'plain'); $now ne '' && $now ne $worker }, 5),
	'a terminated worker comes back');
$node->safe_psql('plain', Outbox::grant('plain3'));
ok(Outbox::drained($node, 'plain'), '... and delivers');
$worker = $node->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE backend_type = 'verdict launcher'");
$node->safe_psql('postgres', "SELECT pg_terminate_backend($worker)");
ok(Outbox::wait_until(sub { my $now = $node->safe_psql('postgres',
	"SELECT pid FROM pg_stat_activity WHERE backend_type = 'verdict launcher'"); $now ne '' && $now ne $worker }, 5),
	'... and so does the launcher');
make_busy('plain', 2500);
$worker = Outbox::worker($node, 'plain');
$node->safe_psql('postgres', "SELECT pg_terminate_backend($worker)");
ok(Outbox::wait_until(sub { Outbox::worker($node, 'plain') ne $worker }, 1), 'inside a call it ends at once');
ok(Outbox::drained($node, 'plain'), '... and the next goes on');
make_busy('plain', 2500);
$worker = Outbox::worker($node, 'plain');
$node->safe_psql('postgres', "SELECT pg_cancel_backend($worker)");
ok(Outbox::drained($node, 'plain'), 'a cancel costs one attempt');
is(Outbox::worker($node, 'plain'), $worker, '... and not the worker');

# ------------------------------------------------------------------- shutdown

$node->append_conf('postgresql.conf', "synchronous_standby_names = 'none1'");
$node->reload;
$instance->fault('BatchFacts', { kind => 'stall', ms => 10_000 }, times => -1);
$node->safe_psql('plain', 'SET synchronous_commit = local; ' . Outbox::grant('shutdown'));
Outbox::wait_until(sub { $node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE query ~ '^sending batch'") eq '1' });
$start = time;
$node->stop('fast');
cmp_ok(time - $start, '<', 4, 'a fast shutdown is fast, also where nobody acknowledges commits');

$instance->clear_faults;
$node->append_conf('postgresql.conf', "synchronous_standby_names = ''\nmax_worker_processes = 2\n");
$start = -s $node->logfile;
$node->start;
ok(Outbox::wait_until(sub { slurp_file($node->logfile, $start) =~ /no background worker slot is left/ }),
	'without a free slot it says so');
sleep 6;
my $warnings = () = slurp_file($node->logfile, $start) =~ /no background worker slot/g;
cmp_ok($warnings, '<=', 2, '... and not again and again');
like(slurp_file($node->logfile, $start), qr/Increase max_worker_processes/, '... with a hint');

$node->stop;
done_testing();
