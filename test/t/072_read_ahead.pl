# Checks read ahead where an instance gives no lists: right rows in every shape of a
# statement, several calls in flight by the instance's own log, no more of them than
# a statement that stops early is worth, and nothing shown or done behind a policy.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PsqlSession;
use Test::More;
use Time::HiRes qw(sleep time);
use VerdictDev;

my $instance = VerdictDev->start(api_keys => ['ahead-key']);
my $node = PostgreSQL::Test::Cluster->new('ahead');
$node->init;
$node->append_conf('postgresql.conf', "verdict.mutation_mode = immediate\nfsync = off\njit = off\n");
$node->start;
my $url = $instance->url;
# alice may read what is even, and write what three divides; bob may read what five divides.
my $facts = <<'END';
SET verdict.server = 'main';
SELECT verdict_set_policy('allow(actor, "read", item) if viewer(actor, item); allow(actor, "write", item) if editor(actor, item);');
SELECT verdict_batch_facts(ARRAY(
	SELECT verdict_fact('viewer', verdict_identity('User', 'alice'), verdict_identity('Document', n)) FROM generate_series(2, 400, 2) AS n
	UNION ALL SELECT verdict_fact('editor', verdict_identity('User', 'alice'), verdict_identity('Document', n)) FROM generate_series(3, 400, 3) AS n
	UNION ALL SELECT verdict_fact('viewer', verdict_identity('User', 'bob'), verdict_identity('Document', n)) FROM generate_series(5, 400, 5) AS n
	UNION ALL SELECT verdict_fact('viewer', verdict_identity('User', 'alice'), verdict_identity('Folder', n)) FROM generate_series(0, 49, 5) AS n));
END
$node->safe_psql('postgres', <<"END");
CREATE EXTENSION verdict;
CREATE SERVER main FOREIGN DATA WRAPPER verdict OPTIONS (instance_url '$url', retry_owner 'none', read_timeout_ms '3000');
CREATE USER MAPPING FOR PUBLIC SERVER main OPTIONS (api_key 'ahead-key');
ALTER DATABASE postgres SET verdict.server = 'main';
$facts
CREATE TABLE document (gone int, id int PRIMARY KEY, folder int, name text, owner text);
INSERT INTO document SELECT 0, n, n % 50, 'd' || n, CASE WHEN n % 7 = 0 THEN 'app' ELSE 'somebody' END FROM generate_series(1, 400) AS n;
ALTER TABLE document DROP COLUMN gone;
CREATE TABLE shared (LIKE document);
INSERT INTO shared SELECT * FROM document;
CREATE TABLE part (id int, folder int) PARTITION BY RANGE (id);
CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (1) TO (101);
CREATE TABLE part_2 (folder int, id int);
ALTER TABLE part ATTACH PARTITION part_2 FOR VALUES FROM (101) TO (201);
INSERT INTO part SELECT n, n % 50 FROM generate_series(1, 200) AS n;
CREATE TABLE folder (id text PRIMARY KEY);
INSERT INTO folder SELECT n::text FROM generate_series(0, 49) AS n;
CREATE MATERIALIZED VIEW stored AS SELECT id FROM document;
ALTER TABLE document ENABLE ROW LEVEL SECURITY;
ALTER TABLE shared ENABLE ROW LEVEL SECURITY;
ALTER TABLE part ENABLE ROW LEVEL SECURITY;
ALTER TABLE folder ENABLE ROW LEVEL SECURITY;
CREATE POLICY readable ON document FOR SELECT USING (verdict_authorize(verdict_actor(), 'read', verdict_identity('Document', id)));
CREATE POLICY changeable ON document FOR UPDATE USING (verdict_authorize(verdict_actor(), 'write', verdict_identity('Document', id)));
CREATE POLICY removable ON document FOR DELETE USING (verdict_authorize(verdict_actor(), 'write', verdict_identity('Document', id)));
CREATE POLICY a_own ON shared FOR SELECT USING (owner = current_user);
CREATE POLICY b_readable ON shared FOR SELECT USING (verdict_authorize(verdict_actor(), 'read', verdict_identity('Document', id)));
CREATE POLICY c_some ON shared AS RESTRICTIVE FOR SELECT USING (folder < 40);
CREATE POLICY readable ON part FOR SELECT USING (verdict_authorize(verdict_actor(), 'read', verdict_identity('Document', id)));
CREATE POLICY readable ON folder FOR SELECT USING (verdict_authorize(verdict_actor(), 'read', verdict_identity('Folder', id)));
CREATE ROLE app;
CREATE ROLE other;
GRANT SELECT ON stored, part, folder, shared TO app, other;
GRANT SELECT, UPDATE, DELETE ON document TO app, other;
GRANT USAGE ON FOREIGN SERVER main TO app, other;
CREATE FUNCTION leak(id int) RETURNS boolean LANGUAGE plpgsql STABLE COST 0.0001 AS 'BEGIN RAISE NOTICE ''saw %'', id; RETURN true; END';
ANALYZE;
END

sub refuse_lists { $instance->fault('Query', { kind => 'error', code => 'unimplemented', message => 'no' }, times => -1) }

sub session { return PsqlSession->new($node, 'postgres', "SET verdict.actor = 'User:alice'; SET ROLE app; " . ($_[0] // '')) }

# One to whose backend lists of these actions and types have been refused.
sub refused_session
{
	my $session = session();
	$session->must("SELECT count(*) FROM document; SELECT count(*) FROM folder; BEGIN; UPDATE document SET folder = folder; ROLLBACK");
	$session->must($_[0]) if defined $_[0];
	return $session;
}

# Runs a statement: its state and answer, how many checks it made, and how many were
# under way at once at the most.  The instance notes the end of one when the next may
# have come already: to tell them apart, only a first part of each counts, when given.
sub watch
{
	my ($session, $statement, $part) = @_;
	$instance->clear_log;
	my ($answer, $state) = $session->ask($statement);
	my @checks = grep { ($_->{method} // '') eq 'Authorize' } @{ $instance->log };
	my ($most, $under_way) = (0, 0);
	for (sort { $a->[0] <=> $b->[0] || $a->[1] <=> $b->[1] }
		map { ([ $_->{arrived}, 1 ], [ $_->{arrived} + $_->{duration_us} / 1e6 * ($part // 1), -1 ]) } @checks)
	{
		$under_way += $_->[1];
		$most = $under_way if $under_way > $most;
	}
	return ("$state $answer", scalar @checks, $most);
}

sub nodes { my ($session, $statement) = @_; return scalar(() = $session->must("EXPLAIN (COSTS OFF) $statement") =~ /Verdict Read Ahead/g) }

sub numbers { my ($want, @from) = @_; return join ',', grep { $want->($_) } @from }
my $even = sub { $_[0] % 2 == 0 };

# ------------------------------------------------------- where lists are to be had

my $all = 'SELECT string_agg(id::text, $$,$$ ORDER BY id) FROM document';
my $session = session();
$session->must($all);
is(nodes($session, $all), 0, 'no node where lists are given');

# -------------------------------------------------------------- several in flight

refuse_lists();
$session->quit;
$session = refused_session();
is(nodes($session, $all), 1, 'a node where they were refused');
is((watch($session, "EXPLAIN $all"))[1], 0, 'EXPLAIN asks nobody');
$instance->fault('Authorize', { kind => 'stall', ms => 20 }, times => -1);
my ($answer, $checks, $most) = watch($session, $all);
is($answer, '00000 ' . numbers($even, 1 .. 400), 'a scan gives the right rows');
is($checks, 400, '... by one check for each row');
is($most, 8, '... eight of which are under way together');
$instance->clear_faults;
refuse_lists();
like($session->must('EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT FROM document'),
	qr/Verdict Read Ahead.*Checks Read Ahead: 399\b.*Seq Scan on document \(actual rows=400/s, '... and EXPLAIN ANALYZE tells');

($answer, $checks) = watch($session, 'SELECT id FROM document ORDER BY id LIMIT 1');
is($answer, '00000 2', 'a statement that stops early');
cmp_ok($checks, '<=', 3, "... asks little ($checks)");
($answer, $checks) = watch($session, 'SELECT id FROM document ORDER BY id LIMIT 20');
is($answer, '00000 ' . join("\n", map { 2 * $_ } 1 .. 20), '... a page');
cmp_ok($checks, '<=', 80, "... about twice of what it looked at ($checks)");
($answer, $checks) = watch($session, 'SELECT EXISTS (SELECT FROM document WHERE id > 1)');
is($answer, '00000 t', '... EXISTS');
cmp_ok($checks, '<=', 3, "... asks little, too ($checks)");
$instance->fault('Authorize', { kind => 'stall', ms => 20 }, times => -1);
is_deeply([ (watch($session, 'SET verdict.prefetch = off; SELECT count(*) FROM document WHERE id <= 20', 0.5))[ 1, 2 ] ], [ 20, 1 ], 'nothing ahead without prefetch');
$instance->clear_faults;
refuse_lists();
is(nodes($session, $all), 0, '... and no node');
$session->must('RESET verdict.prefetch');

# ------------------------------------------------------------------------ shapes

my @shapes = (
	# Nodes, a statement, and what it gives.
	[ 1, 'SELECT string_agg(id::text, $$,$$) FROM (SELECT id FROM document ORDER BY id DESC LIMIT 5) AS d', '400,398,396,394,392' ],
	[ 1, 'SELECT string_agg(id::text, $$,$$ ORDER BY id) FROM document WHERE id IN (1, 2, 3, 4, 399, 400)', '2,4,400' ],
	[ 1, 'SELECT string_agg(name, $$,$$ ORDER BY id) FROM document WHERE folder = 3 AND upper(name) <> $$D3$$ AND id < 300', '' ],
	[ 1, 'SELECT count(*) FROM (SELECT d, upper(name), ctid, tableoid FROM document AS d WHERE (d.*)::text LIKE $$%1%$$) AS x', scalar(grep { $_ % 2 == 0 && ($_ . $_ % 50) =~ /1/ } 1 .. 400) ],
	[ 1, 'SELECT count(*) FROM (SELECT generate_series(1, 2), id FROM document) AS x', 400 ],
	[ 1, 'SELECT count(*) FROM document TABLESAMPLE bernoulli (100)', 200 ],
	[ 2, 'SELECT count(*) FROM document AS a JOIN document AS b USING (folder) WHERE a.id < b.id', 25 * 8 * 7 / 2 ],
	[ 2, 'SELECT count(*) FROM document JOIN folder ON folder.id = document.folder::text', 5 * 8 ],
	[ 1, 'SELECT count(*) FROM document AS a WHERE NOT EXISTS (SELECT FROM document AS b WHERE b.id > a.id)', 1 ],
	[ 1, 'SELECT sum(n) FROM folder, LATERAL (SELECT count(*) AS n FROM (VALUES (1), (2)) AS v(x) WHERE x::text <> folder.id) AS l', 20 ],
	[ 2, 'SELECT sum((SELECT count(*) FROM document AS b WHERE b.folder = a.folder)) FROM document AS a WHERE id <= 20', 80 ],
	[ 1, 'SELECT string_agg(second::text, $$,$$) FROM (SELECT (SELECT id FROM document WHERE folder = g ORDER BY id OFFSET 1 LIMIT 1) AS second FROM generate_series(2, 8, 2) AS g) AS l', '52,54,56,58' ],
	[ 2, 'SELECT count(*) || $$/$$ || sum(id) FROM part', '100/10100' ],
	[ 2, 'SELECT string_agg(id::text, $$,$$) FROM (SELECT id FROM part WHERE id > 95 ORDER BY id LIMIT 5) AS p', '96,98,100,102,104' ],
	[ 1, 'SELECT count(*) FROM stored WHERE verdict_authorize(verdict_actor(), $$read$$, verdict_identity($$Document$$, id))', 200 ],
	[ 2, 'SELECT string_agg(id::text, $$,$$ ORDER BY id) FROM stored WHERE verdict_authorize(verdict_actor(), $$read$$, verdict_identity($$Document$$, id)) AND id <= 30 AND verdict_authorize(verdict_actor(), $$write$$, verdict_identity($$Document$$, id))', '6,12,18,24,30' ],
	[ 0, 'SELECT count(*) FROM stored WHERE verdict_authorize(verdict_actor(), $$read$$, verdict_identity($$Document$$, 2))', 400 ],
	[ 1, 'SELECT count(*) FROM document WHERE verdict_authorize(verdict_actor(), $$read$$, verdict_identity($$Document$$, 2)) AND current_user = $$app$$', 200 ],
	[ 1, 'SELECT count(*) FROM shared', scalar(grep { $_ % 50 < 40 && ($_ % 2 == 0 || $_ % 7 == 0) } 1 .. 400) ],
	[ 0, 'SELECT count(*) FROM document WHERE random() < 2', 200 ],
	[ 2, 'SELECT id FROM document WHERE id = 12 FOR UPDATE', 12 ],
	[ 2, 'UPDATE document SET name = upper(name) WHERE id <= 12 RETURNING id, name', "6|D6\n12|D12" ],
	[ 2, 'DELETE FROM document WHERE id BETWEEN 10 AND 20 RETURNING id', "12\n18" ]);
my $parallel = $node->pg_version < 16 ? 'SET force_parallel_mode = on' : 'SET debug_parallel_query = on';
for my $plan ('', 'SET enable_seqscan = off', 'SET enable_seqscan = off; SET enable_indexscan = off', 'SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off',
	'SET enable_hashjoin = off; SET enable_nestloop = off', $parallel)
{
	for (@shapes)
	{
		my ($nodes, $statement, $expected) = @$_;
		$session->must("BEGIN; $plan");
		my $found = nodes($session, $statement);
		my $got = $session->must("$statement");
		$session->must('ROLLBACK; RESET ALL; SET verdict.actor = $$User:alice$$; SET ROLE app');
		is($got, $expected, "$plan: $statement");
		is($found, $nodes, '... with nodes') if $plan eq '';
	}
}

# Only where no earlier policy lets a row pass is it asked for, and only what the
# conditions before the check let pass.
my $seven_or = 'SELECT count(*) FROM stored WHERE id % 7 = 0 OR verdict_authorize(verdict_actor(), $$read$$, verdict_identity($$Document$$, id))';
is(nodes($session, $seven_or), 1, 'a check after OR');
is((watch($session, $seven_or))[1], scalar(grep { $_ % 7 != 0 } 1 .. 400), '... is made where it counts only');
($answer, $checks) = watch($session, 'SELECT count(*) FROM document WHERE name LIKE $$d1%$$ AND id < 100');
is($answer, '00000 5', 'a condition that is not leakproof');
is($checks, 99, '... comes after the check');

# A condition of the user's own is shown nothing that the policy hides.
my $spied = session('SET client_min_messages = error');
$spied->must('SELECT count(*) FROM document');
my ($out, $err) = ('', '');
$node->psql('postgres', "SET verdict.actor = 'User:alice'; SET ROLE app; SELECT count(*) FROM document; SELECT count(*) FROM document WHERE leak(id); EXPLAIN SELECT FROM document WHERE leak(id)", stdout => \$out, stderr => \$err);
like($out, qr/^200\n200\n.*Read Ahead/s, 'a function that tells what it sees');
my %saw = map { $_ => 1 } $err =~ /saw (\d+)/g;
is(join(',', sort { $a <=> $b } keys %saw), numbers($even, 1 .. 400), '... sees what may be read only');
is((watch($spied, 'CREATE FUNCTION pg_temp.tell(id int) RETURNS boolean LANGUAGE plpgsql STABLE COST 0.0001 AS $f$BEGIN RAISE NOTICE $$saw %$$, id; RETURN 1 / (id % 2 - 1) < 0; END$f$; SELECT count(*) FROM document WHERE pg_temp.tell(id)'))[0],
	'00000 200', '... also one that would fail for what is hidden, above the node');
is(nodes($spied, 'SELECT count(*) FROM document WHERE pg_temp.tell(id)'), 1, '... which is there');
$spied->quit;

# ------------------------------------------------------------------------ cursors

is($session->must('BEGIN; DECLARE c SCROLL CURSOR FOR SELECT id FROM document ORDER BY id; FETCH 3 FROM c; FETCH BACKWARD 1 FROM c; FETCH LAST FROM c; FETCH PRIOR FROM c; COMMIT'),
	"2\n4\n6\n4\n400\n398", 'a cursor goes back');
is($session->must('BEGIN; DECLARE c CURSOR FOR SELECT id FROM document WHERE id % 6 = 0; FETCH 2 FROM c; UPDATE document SET name = $$here$$ WHERE CURRENT OF c RETURNING id; ROLLBACK'),
	"6\n12\n12", 'WHERE CURRENT OF finds the row');
is($session->must('DECLARE held CURSOR WITH HOLD FOR SELECT id FROM document ORDER BY id; FETCH 2 FROM held; CLOSE held'), "2\n4", 'a cursor that outlives its transaction');

# ------------------------------------------------------- plans that are kept

$session->must('SET plan_cache_mode = force_generic_plan; PREPARE kept AS SELECT count(*) FROM document WHERE id > $1');
is($session->must('EXECUTE kept(0)'), 200, 'a generic plan');
is(scalar(() = $session->must('EXPLAIN (COSTS OFF) EXECUTE kept(0)') =~ /Read Ahead/g), 1, '... with the node');
is($session->must(q{SET verdict.actor = 'User:bob'; EXECUTE kept(0)}), 80, '... for another actor');
is($session->must(q{RESET ROLE; SET ROLE other; EXECUTE kept(0)}), 80, '... for another role');
is($session->must(q{RESET verdict.actor; EXECUTE kept(0)}), 0, '... for nobody');
$session->must(q{RESET ROLE; SET ROLE app; SET verdict.actor = 'User:alice'; EXECUTE kept(0)});
$instance->clear_faults;
$session->quit;
refuse_lists();
$session = refused_session('SET plan_cache_mode = force_generic_plan; PREPARE kept AS SELECT count(*) FROM document WHERE id > $1');
is(scalar(() = $session->must('EXPLAIN (COSTS OFF) EXECUTE kept(0)') =~ /Read Ahead/g), 1, 'a kept plan with the node');
$instance->clear_faults;
is($session->must(q{SET verdict.actor = 'User:bob'; EXECUTE kept(0)}), 80, '... counts when lists are given');
($answer, $checks) = watch($session, 'EXECUTE kept(0)');
is("$answer/$checks", '00000 80/4', '... and leaves it to a list');
$session->quit;
refuse_lists();

# ------------------------------------------------------------- concurrent changes

$session = refused_session();
my $writer = PsqlSession->new($node, 'postgres', 'SELECT 1');
my @waiting = (
	[ 'UPDATE document SET name = name || $$!$$ WHERE folder = 6 AND id < 200 RETURNING id, name', "6|new!\n156|d156!", 'UPDATE' ],
	[ 'SELECT id, name FROM document WHERE folder = 6 AND id < 200 AND id % 6 = 0 ORDER BY id FOR UPDATE', "6|new\n156|d156", 'FOR UPDATE' ],
	[ 'DELETE FROM document WHERE folder = 6 AND id < 200 RETURNING id, name', "6|new\n156|d156", 'DELETE' ]);
for (@waiting)
{
	my ($statement, $expected, $name) = @$_;
	is(nodes($session, $statement), 2, "$name reads ahead for both policies");
	for my $change ([ 'name = $$new$$', $expected ], [ 'folder = 7', join "\n", grep { !/^6\|/ } split /\n/, $expected ],
		# The new row is another resource, which may be read and not written.
		[ 'id = 1004', join "\n", grep { !/^6\|/ } split /\n/, $expected ])
	{
		my ($set, $rows) = @$change;
		$writer->must("BEGIN; UPDATE document SET $set WHERE id = 6");
		$session->must('BEGIN');
		my $pid = $session->must('SELECT pg_backend_pid()');
		$session->begin($statement);
		$node->poll_query_until('postgres', "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $pid") or die 'does not wait';
		$writer->must('COMMIT');
		my ($got, $state) = $session->finish;
		is("$state $got", "00000 $rows", "$name meets $set");
		$session->must('ROLLBACK');
		$node->safe_psql('postgres', q{UPDATE document SET id = 6, folder = 6, name = 'd6' WHERE id IN (6, 1004)});
	}
}
$writer->quit;

# ------------------------------------------------------------------------ failures

# A check that the instance answers with an error, far behind the end of a page.
$session->must('SELECT count(*) FROM document');
$instance->fault('Authorize', { kind => 'error', code => 'invalid_argument', message => 'not this one' }, times => 1, skip => 40);
($answer) = watch($session, 'SELECT count(*) FROM (SELECT FROM document ORDER BY id LIMIT 17) AS page');
is($answer, '00000 17', 'a check that fails is not met before its row is');
$instance->clear_faults;
refuse_lists();
$instance->fault('Authorize', { kind => 'error', code => 'permission_denied', message => 'not this one' }, times => -1, skip => 40);
my ($rows, $state) = $session->ask('SELECT id FROM document');
is("$rows $state", ' 42501', 'one that is met fails the statement');
($rows, $state) = $session->ask(q{SET client_min_messages = error; SET verdict.on_failure = 'deny'; SELECT string_agg(id::text, ',') FROM document});
is($state, '00000', '... and denies with deny');
is(scalar(grep { $_ % 2 } split /,/, $rows), 0, '... showing nothing else');
$instance->clear_faults;
refuse_lists();
is($session->must($all), numbers($even, 1 .. 400), '... and the next statement is right');

# An instance that hangs is waited for once.
$instance->fault('Authorize', { kind => 'stall', ms => 20_000 }, times => -1, skip => 20);
my $start = time;
($rows, $state) = $session->ask("$all");
is($state, '00000', 'with deny and an instance that hangs the statement ends');
cmp_ok(time - $start, '<', 5.5, '... after one time-out');
is(scalar(grep { $_ % 2 || $_ > 20 } split /,/, $rows), 0, '... showing only what was answered');
$start = time;
($rows, $state) = $session->ask("RESET verdict.on_failure; $all");
like($state, qr/^57|^08/, 'without deny it fails');
cmp_ok(time - $start, '<', 5.5, '... after one time-out');
$session->begin("SET statement_timeout = 500; $all");
(undef, $state) = $session->finish;
is($state, '57014', 'a cancel reaches what is read ahead');
$session->must('RESET statement_timeout');
$instance->clear_faults;
refuse_lists();

# Calls that a statement may not make are not made ahead either.
($answer) = watch($session, 'SET verdict.statement_call_limit = 100; SELECT count(*) FROM document');
is($answer, '54000 ', 'the limit of calls counts');
$session->must('RESET verdict.statement_call_limit');

# The instance dies in the middle.
for my $deny (0, 1)
{
	$instance->fault('Authorize', { kind => 'stall', ms => 30 }, times => -1);
	my $pid = $instance->pid;
	my $killer = fork // die "fork: $!";
	if ($killer == 0)
	{
		sleep 0.7;
		kill 'KILL', $pid;
		POSIX::_exit(0);
	}
	($rows, $state) = $session->ask(($deny ? q{SET verdict.on_failure = 'deny'; } : '') . 'SELECT id FROM document');
	waitpid $killer, 0;
	if ($deny)
	{
		is($state, '00000', 'the instance dies, with deny');
		my @shown = split /\n/, $rows;
		is(scalar(grep { $_ % 2 } @shown), 0, '... nothing is shown that is denied');
		cmp_ok(scalar @shown, '<', 150, '... nor what was not answered');
	}
	else
	{
		like($state, qr/^08/, 'the instance dies in the middle: the statement fails');
		is($rows, '', '... and shows nothing');
	}
	$instance->restart;
	$node->safe_psql('postgres', $facts);
	refuse_lists();
}
$session->must('RESET verdict.on_failure');
is($session->must($all), numbers($even, 1 .. 400), '... and works when there is one again');

# ------------------------------------------------------------------------ memory

{
	my $contexts = 'SELECT sum(total_bytes) FROM pg_backend_memory_contexts';
	my $scans = join ';', ('SELECT count(*) FROM document WHERE id <= 40') x 200;
	$node->safe_psql('postgres', 'GRANT EXECUTE ON FUNCTION pg_get_backend_memory_contexts() TO app; GRANT SELECT ON pg_backend_memory_contexts TO app');
	$session->must("$contexts; $scans");
	my $before = (split /\n/, $session->must("$scans; $contexts"))[-1];
	my $after = (split /\n/, $session->must("$scans; $contexts"))[-1];
	cmp_ok($after - $before, '<', 32 * 1024, "memory stays flat ($before, $after)");
}
$session->quit;

done_testing();
