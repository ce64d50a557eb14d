# Connections of backends: kept, dropped when server or mapping change, found
# again after a restart; a standby, a preloaded library, many backends at once.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VerdictDev;

my $instance = VerdictDev->start(api_keys => [ 'first-key', 'second-key' ]);
my $other = VerdictDev->start(api_keys => ['first-key']);

my $node = PostgreSQL::Test::Cluster->new('primary');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', 'verdict.mutation_mode = immediate');
# Loaded by the postmaster: nothing may be started before a backend's first call.
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'verdict'\nmax_connections = 60\n");
$node->start;

my $threads = slurp_file('/proc/' . slurp_first($node->data_dir . '/postmaster.pid') . '/status');
like($threads, qr/^Threads:\s+1$/m, 'the postmaster has no thread');

my $url = $instance->url;
$node->safe_psql('postgres', <<"END");
CREATE EXTENSION verdict;
CREATE SERVER main FOREIGN DATA WRAPPER verdict OPTIONS (instance_url '$url');
CREATE USER MAPPING FOR PUBLIC SERVER main OPTIONS (api_key 'first-key');
ALTER DATABASE postgres SET verdict.server = 'main';
END
my $check = q{SELECT verdict_authorize('User:a', 'read', 'Document:1');};
is($node->safe_psql('postgres', $check), 'f', 'a preloaded library answers');

sub slurp_first { return (split /\n/, slurp_file($_[0]))[0] }

# The numbers of the connections that Authorize came by.
sub connections
{
	my ($from) = @_;
	my @numbers = map { $_->{connection} } grep { ($_->{method} // '') eq 'Authorize' } @{ $from->log };
	my %seen;
	return scalar grep { !$seen{$_}++ } @numbers;
}

# One session with several statements.  Returns output and errors.
sub session
{
	my (@statements) = @_;
	my ($out, $err);
	$node->psql('postgres', join("\n", '\set VERBOSITY terse', @statements), stdout => \$out, stderr => \$err,
		on_error_stop => 0);
	return ($out, $err);
}

# Kept across transactions.
$instance->clear_log;
session(($check) x 20);
is(connections($instance), 1, 'twenty transactions, one connection');
is(scalar(@{ $instance->log }), 20, 'and twenty requests');

# Another URL, another key: the next call uses it.
$instance->clear_log;
$other->clear_log;
my $other_url = $other->url;
my ($out, $err) = session($check,
	"ALTER SERVER main OPTIONS (SET instance_url '$other_url');", $check, $check,
	"ALTER SERVER main OPTIONS (SET instance_url '$url');", $check);
is("$out", join("\n", ('f') x 4), 'the server may change under a session');
is(scalar(@{ $other->log }), 2, 'calls go where the server says');
is(connections($instance), 2, 'the connection of the old server was not used again');

($out, $err) = session($check,
	q{ALTER USER MAPPING FOR PUBLIC SERVER main OPTIONS (SET api_key 'wrong-key');}, $check,
	q{ALTER USER MAPPING FOR PUBLIC SERVER main OPTIONS (SET api_key 'second-key');}, $check,
	q{ALTER USER MAPPING FOR PUBLIC SERVER main OPTIONS (SET api_key 'first-key');}, $check);
is($out, "f\nf\nf", 'the key may change under a session');
like($err, qr/could not check authorization/, 'and a wrong one is refused');

# Inside one transaction.
($out, $err) = session('BEGIN;', $check,
	"ALTER SERVER main OPTIONS (SET instance_url '$other_url');", $check,
	'ROLLBACK;', $check);
is($out, "f\nf\nf", 'a change of the server that is rolled back');
my $instance_count = @{ $instance->log };
session($check);
is(scalar(@{ $instance->log }), $instance_count + 1, 'is rolled back for calls, too');

# Connections do not pile up.
($out, $err) = session($check,
	"ALTER SERVER main OPTIONS (SET instance_url '$url');", $check,
	q{SELECT 'descriptors ' || count(*) FROM pg_ls_dir('/proc/self/fd');},
	map({ ("ALTER SERVER main OPTIONS (SET instance_url '" . ($_ % 2 ? $other_url : $url) . "');", $check) } 1 .. 20),
	q{SELECT 'descriptors ' || count(*) FROM pg_ls_dir('/proc/self/fd');});
my @counts = $out =~ /descriptors (\d+)/g;
# Files of catalogs come and go among them.
cmp_ok($counts[1], '<', $counts[0] + 10, 'twenty changes of the server leave no descriptors');

# Nor do those of many servers, which one backend asks by turns.
$node->safe_psql('postgres', <<"SQL");
DO \$\$ BEGIN FOR n IN 1 .. 400 LOOP
	EXECUTE format('CREATE SERVER tenant_%s FOREIGN DATA WRAPPER verdict OPTIONS (instance_url %L)', n, '$url');
	EXECUTE format('CREATE USER MAPPING FOR PUBLIC SERVER tenant_%s OPTIONS (api_key %L)', n, 'first-key');
END LOOP; END \$\$;
SQL
my $turns = q{DO $$ BEGIN FOR n IN 1 .. 400 LOOP
	PERFORM set_config('verdict.server', 'tenant_' || n, false);
	PERFORM verdict_authorize('User:a', 'read', 'Document:1');
	COMMIT;
END LOOP; END $$;};
($out, $err) = session($turns, q{SELECT count(*) < 100 FROM pg_ls_dir('/proc/self/fd');}, $turns,
	q{SELECT count(*) < 100 FROM pg_ls_dir('/proc/self/fd');});
is("$out$err", "t\nt", 'four hundred servers by turns leave a few connections');
($out, $err) = session(map({ ("SET verdict.server = tenant_$_;", $check) } 1 .. 20, 1 .. 20));
is($out, join("\n", ('f') x 40), 'twenty servers by turns');
$instance->clear_log;
session(map({ ("SET verdict.server = tenant_$_;", $check) } 1 .. 20, 1 .. 20));
is(connections($instance), 20, 'keep a connection each');

# A restart between two calls of one session is not noticed.
{
	my $in = "\\set VERBOSITY verbose\n$check\n";
	my ($answers, $errors) = ('', '');
	my $psql = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-f', '-' ],
		'<', \$in, '>', \$answers, '2>', \$errors, IPC::Run::timeout(60));
	$psql->pump until $answers =~ /f\n/;
	$instance->restart;
	$in .= "$check\nSELECT 'then';\n";
	$psql->pump until $answers =~ /then/;
	is($answers, "f\nf\nthen\n", 'a restart of the instance between two calls');
	is($errors, '', 'is not an error');
	$instance->stop;
	$in .= "$check\nSELECT 'last';\n";
	$psql->pump until $answers =~ /last/;
	is($answers, "f\nf\nthen\nlast\n", 'a stopped instance gives no answer');
	like($errors, qr/ERROR:  08006: could not check authorization/, 'but a connection failure');
	$instance->restart;
	$in .= "$check\n\\q\n";
	$psql->finish;
	is($answers, "f\nf\nthen\nlast\nf\n", 'and when it is back, it answers');
}

# Twenty backends at once, each with its own connection and its own answers.
{
	$node->safe_psql('postgres', q{SELECT verdict_set_policy('allow(user, "read", doc) if owns(user, doc);')});
	$node->safe_psql('postgres',
		q{SELECT verdict_batch_facts((SELECT array_agg(verdict_fact('owns', verdict_identity('User', n), verdict_identity('Document', n))) FROM generate_series(1, 20) AS n))});
	$instance->clear_log;
	my @sessions;
	for my $n (1 .. 20)
	{
		my $script = <<"END";
SELECT count(*) FROM generate_series(1, 20) AS d, generate_series(1, 5)
WHERE verdict_authorize('User:$n', 'read', verdict_identity('Document', d)) = (d = $n);
END
		my %one = (out => '', err => '');
		$one{run} = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-f', '-' ],
			'<', \$script, '>', \$one{out}, '2>', \$one{err}, IPC::Run::timeout(120));
		push @sessions, \%one;
	}
	$_->{run}->finish for @sessions;
	is(join(' ', map { $_->{out} =~ s/\n//r } @sessions), join(' ', (100) x 20), 'twenty backends get their own answers');
	is(join('', map { $_->{err} } @sessions), '', 'without an error');
	is(connections($instance), 20, 'each by a connection of its own');
}

# A parallel plan: the workers load the library, the leader asks.
($out, $err) = session(
	'CREATE TABLE big AS SELECT n AS id FROM generate_series(1, 1000) AS n;',
	'SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;',
	$node->pg_version >= 16 ? 'SET debug_parallel_query = on;' : 'SET force_parallel_mode = on;',
	q{SET verdict.actor = 'User:7';},
	q{SELECT count(*) FROM big WHERE id < 50 AND verdict_authorize(verdict_actor(), 'read', verdict_identity('Document', id));},
	q{SELECT count(*) FROM big WHERE verdict_actor() = 'User:7';});
is("$out$err", "1\n1000", 'parallel plans');

# DROP and CREATE EXTENSION in one session.
($out, $err) = session($check, 'SET client_min_messages = error; DROP EXTENSION verdict CASCADE;', $check,
	'CREATE EXTENSION verdict;', $check,
	"CREATE SERVER main FOREIGN DATA WRAPPER verdict OPTIONS (instance_url '$url');",
	q{CREATE USER MAPPING FOR PUBLIC SERVER main OPTIONS (api_key 'first-key');}, $check);
is($out, "f\nf", 'the extension may be dropped and made again');
like($err, qr/function verdict_authorize.* does not exist.*server "main" of verdict.server does not exist/s, 'with clear errors between');

# A standby reads and does not write.
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
is($standby->safe_psql('postgres', q{SELECT verdict_authorize('User:7', 'read', 'Document:7')}), 't', 'a standby reads');
$instance->clear_log;
for my $change (q{verdict_insert_fact('owns(User:a, Document:1)')}, q{verdict_delete_fact('owns(User:a, Document:1)')},
	q{verdict_set_policy('')}, q{verdict_batch_facts(ARRAY['owns(User:a, Document:1)']::verdict_fact[])})
{
	my ($status, $text, $errors) = $standby->psql('postgres', "\\set VERBOSITY verbose\nSELECT $change;");
	like($errors, qr/ERROR:  25006: cannot execute a change of Verdict during recovery/, "a standby refuses $change");
}
is(scalar(@{ $instance->log }), 0, 'and sends nothing');
$standby->promote;
is($standby->safe_psql('postgres', q{SELECT verdict_insert_fact('owns(User:a, Document:1)')}), 't', 'a promoted standby writes');
$standby->stop;

# Without preloading, in a fresh database, as the first thing.
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''\n");
$node->restart;
is($node->safe_psql('postgres', $check), 't', 'it works without being preloaded');
# Another process of the cluster has the settings only after the library is there.
is($node->safe_psql('postgres', q{SET verdict.actor = 'User:early'; SELECT verdict_actor()}), 'User:early',
	'a setting that came before the library is kept');
my ($status, $text, $errors) = $node->psql('postgres', q{SET verdict.actor = 'early'; SELECT verdict_actor()});
like($errors, qr/verdict.actor/, 'or refused when it is wrong');

# Dump and restore keep server, mapping and settings of the database.
$node->safe_psql('postgres', 'CREATE DATABASE restored');
my $dump = "$PostgreSQL::Test::Utils::tmp_check/dump.sql";
command_ok([ 'pg_dump', '-d', $node->connstr('postgres'), '-f', $dump ], 'pg_dump');
command_ok([ 'psql', '-X', '-v', 'ON_ERROR_STOP=1', '-q', '-d', $node->connstr('restored'), '-f', $dump ], 'and restore');
is($node->safe_psql('restored', q{SET verdict.server = 'main'; SELECT verdict_authorize('User:7', 'read', 'Document:7')}), 't',
	'the restored database asks');

$node->stop;
done_testing();
