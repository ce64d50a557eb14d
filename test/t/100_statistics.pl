# What an operator sees: every column of verdict_stat_calls, the retry budget, the
# log line of slow calls; from several backends with the library preloaded, from one
# without.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use IPC::Run;
use List::Util qw(sum0);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PsqlSession;
use Test::More;
use VerdictDev;

my @codes = qw(canceled unknown invalid_argument deadline_exceeded not_found already_exists permission_denied
  resource_exhausted failed_precondition aborted out_of_range unimplemented internal unavailable data_loss unauthenticated);
my @counters = ('calls', 'errors', @codes, qw(attempts sends retries waits_503 budget_refusals bytes_sent bytes_received));
my $instance = VerdictDev->start(api_keys => ['stat-key']);
$instance->call('SetPolicy', { policy => 'allow(user, "read", doc) if viewer(user, doc);' });
$instance->call('InsertFact', { fact => VerdictDev::fact_of('viewer', 'User:alice', 'Document:1') });

# A node of which the library is preloaded or not, with servers in two databases.
sub node
{
	my ($name, $preloaded) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init;
	$node->append_conf('postgresql.conf', "verdict.mutation_mode = immediate\nverdict.log_min_call_duration = 250ms");
	$node->append_conf('postgresql.conf', "shared_preload_libraries = 'verdict'") if $preloaded;
	$node->start;
	$node->safe_psql('postgres', 'CREATE DATABASE other');
	for my $database ('postgres', 'other')
	{
		my $options = "instance_url '" . $instance->url . "'";
		$node->safe_psql($database, <<"END");
CREATE EXTENSION verdict;
CREATE SERVER first FOREIGN DATA WRAPPER verdict OPTIONS ($options);
CREATE SERVER second FOREIGN DATA WRAPPER verdict OPTIONS ($options, wire_format 'json', read_timeout_ms '300');
CREATE USER MAPPING FOR PUBLIC SERVER first OPTIONS (api_key 'stat-key');
CREATE USER MAPPING FOR PUBLIC SERVER second OPTIONS (api_key 'stat-key');
END
	}
	return $node;
}

sub session
{
	my ($node, $server, $database) = @_;
	return PsqlSession->new($node, $database // 'postgres', 'SET verdict.server = ' . ($server // 'first'));
}

my $check = q{SELECT verdict_authorize('User:alice', 'read', 'Document:1')};
my $fact = 0;
sub insert { return "SELECT verdict_insert_fact('probe(Document:" . ++$fact . ")')" }

# One row of the view as a hash; dies when there is none.
sub row
{
	my ($session, $server, $method, $database) = @_;
	my $list = join ', ', @counters, 'total_time', 'array_to_string(time_histogram, $$ $$)';
	my $line = $session->must("SELECT $list FROM verdict_stat_calls WHERE server = '$server' AND method = '$method' AND datname = '"
		  . ($database // 'postgres') . "'");
	die "no row of $server, $method" if $line eq '';
	my @values = split /\|/, $line;
	my %row = map { $_ => shift @values } @counters, 'time', 'histogram';
	$row{histogram} = [ split / /, $row{histogram} ];
	return \%row;
}

# What a row says, and what it has to say: columns that are not named are 0.
sub row_is
{
	my ($row, $wanted, $name) = @_;
	is(join(', ', map { "$_ $row->{$_}" } @counters), join(', ', map { "$_ " . ($wanted->{$_} // 0) } @counters), $name);
	is(sum0(@{ $row->{histogram} }), $row->{calls}, "... and each call is in the histogram");
	return;
}

# Fresh figures, here and at the instance.
sub afresh
{
	my ($session) = @_;
	$session->must('SELECT verdict_stat_reset()');
	$instance->clear_faults;
	$instance->clear_log;
	return;
}

sub requests { my ($method) = @_; return grep { ($_->{method} // '') eq $method } @{ $instance->log } }
sub bytes { return sum0(map { $_->{headers}{'content-length'} } requests($_[0])) }

# What holds in both forms; the backends take turns.
sub figures
{
	my ($form, $viewer, @backends) = @_;
	my $turn = 0;
	my $next = sub { return $backends[ $turn++ % @backends ] };

	# Success.
	afresh($viewer);
	$next->()->must($check) for 1 .. 12;
	row_is(row($viewer, 'first', 'Authorize'),
		{ calls => 12, attempts => 12, sends => 12, bytes_sent => bytes('Authorize'), bytes_received => 24 }, "$form: checks that succeed");
	cmp_ok(row($viewer, 'first', 'Authorize')->{time}, '>', 0.2, '... which take time');

	# Every code, as an error of the instance; a change is sent again after four of them.
	afresh($viewer);
	for my $code (@codes)
	{
		$instance->fault('Authorize', { kind => 'error', code => $code, message => 'ordered', status => 400 });
		$next->()->ask($check);
	}
	my $row = row($viewer, 'first', 'Authorize');
	delete $row->{bytes_received};
	$row->{bytes_received} = 0;
	row_is($row, { calls => 16, errors => 16, attempts => 16, sends => 16, bytes_sent => bytes('Authorize'), map { $_ => 1 } @codes },
		"$form: each Connect code has its column");

	# A wait after a 503; a second attempt; both; the budget's end.
	afresh($viewer);
	$instance->fault('Authorize', { kind => 'status', status => 503, headers => { 'Retry-After' => '0' } });
	$backends[0]->must($check);
	row_is(row($viewer, 'first', 'Authorize'),
		{ calls => 1, attempts => 1, sends => 2, retries => 1, waits_503 => 1, bytes_sent => bytes('Authorize'), bytes_received => 2 },
		"$form: a check after a 503");
	$instance->fault('InsertFact', { kind => 'status', status => 502 });
	$backends[0]->must(insert());
	row_is(row($viewer, 'first', 'InsertFact'),
		{ calls => 1, attempts => 2, sends => 2, retries => 1, bytes_sent => bytes('InsertFact'), bytes_received => 2 },
		"$form: a change with a second attempt");
	$instance->fault('InsertFact', { kind => 'status', status => 502 }, times => 3);
	$backends[0]->ask(insert());
	$backends[0]->ask(insert());
	row_is(row($viewer, 'first', 'InsertFact'),
		{ calls => 3, errors => 2, unavailable => 2, attempts => 5, sends => 5, retries => 2, budget_refusals => 1,
			bytes_sent => bytes('InsertFact'), bytes_received => 2 },
		"$form: a change without one, for want of budget");
	is($viewer->must("SELECT tokens, granted, refused FROM verdict_stat_retry_budget WHERE server = 'first' AND datname = 'postgres'"),
		'0|3|1', "$form: the budget tells so");
	$instance->clear_faults;
	$backends[0]->must($check) for 1 .. 5;
	is($viewer->must("SELECT tokens, granted, refused FROM verdict_stat_retry_budget WHERE server = 'first'"),
		'0.5|3|1', "$form: success fills it again");

	# A slow call: time, its place in the histogram, the log.
	afresh($viewer);
	$instance->fault('GetPolicy', { kind => 'stall', ms => 300 });
	$backends[0]->must('SELECT verdict_get_policy()');
	$row = row($viewer, 'first', 'GetPolicy');
	cmp_ok($row->{time}, '>=', 300, "$form: a slow call is counted as slow");
	is(sum0(@{ $row->{histogram} }[ 0 .. 12 ]), 0, '... and not among the fast (2^18 us)');

	# A cancel.
	afresh($viewer);
	$instance->fault('Query', { kind => 'stall', ms => 5000 });
	$backends[0]->ask(q{SET statement_timeout = '200ms'; SELECT * FROM verdict_query('viewer(?who, Document:1)') AS (who text)});
	$backends[0]->must('RESET statement_timeout');
	$row = row($viewer, 'first', 'Query');
	row_is($row, { calls => 1, errors => 1, canceled => 1, attempts => 1, sends => 1, bytes_sent => $row->{bytes_sent} }, "$form: a cancel");
	cmp_ok($row->{bytes_sent}, '>', 10, '... of a request that was sent');

	# Checks made together are calls each; the other methods by their names.
	afresh($viewer);
	$backends[0]->must(q{SELECT verdict_authorize_many('User:alice', 'read', ARRAY['Document:1', 'Document:2', 'Document:3']::verdict_identity[])});
	$backends[0]->must('SELECT count(*) FROM verdict_list_facts()');
	$backends[0]->must(q{SELECT verdict_set_policy('allow(user, "read", doc) if viewer(user, doc);')});
	$backends[0]->must(q{SELECT verdict_delete_fact('probe(Document:0)')});
	$backends[0]->must(q{SELECT verdict_batch_facts(ARRAY['probe(Folder:0)', 'probe(Folder:1)']::verdict_fact[])});
	is($viewer->must("SELECT string_agg(method || ' ' || calls || ' ' || errors, ', ' ORDER BY method) FROM verdict_stat_calls WHERE server = 'first'"),
		'Authorize 3 0, BatchFacts 1 0, DeleteFact 1 0, ListFacts 1 0, SetPolicy 1 0', "$form: methods by their names");
	return;
}

# ---- preloaded ----

my $node = node('preloaded', 1);
my @backends = map { session($node) } 1 .. 4;
my $viewer = PsqlSession->new($node, 'postgres', '');
figures('preloaded', $viewer, @backends);

# Several backends at once lose nothing.
afresh($viewer);
my $many = 'DO $$BEGIN FOR i IN 1 .. 200 LOOP PERFORM ' . ($check =~ s/^SELECT //r) . '; END LOOP; END$$';
my @runs = map { IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', 'SET verdict.server = first', '-c', $many ],
		'<', \undef, '>', \my $out, '2>', \my $err, IPC::Run::timeout(120)) } 1 .. 4;
$_->finish for @runs;
is(join(' ', @{ row($viewer, 'first', 'Authorize') }{qw(calls errors sends bytes_received)}), '800 0 800 1600', 'four backends at once');
is(scalar requests('Authorize'), 800, '... and the instance saw as many');

# One budget for all of them: the reserve is there once.
afresh($viewer);
$instance->fault('InsertFact', { kind => 'status', status => 502 }, times => -1);
$backends[ $_ % 4 ]->ask(insert()) for 0 .. 39;
is(scalar requests('InsertFact'), 43, 'four backends have one budget');
is($viewer->must("SELECT tokens, granted, refused FROM verdict_stat_retry_budget"), '0|3|37', '... which counts for all');
is(row($viewer, 'first', 'InsertFact')->{budget_refusals}, 37, '... as the calls do');
$instance->clear_faults;

# Servers and databases apart; a name is the latest.
afresh($viewer);
my $second = session($node, 'second');
my $elsewhere = session($node, 'first', 'other');
$second->must($check) for 1 .. 2;
$elsewhere->must($check) for 1 .. 3;
$backends[0]->must($check);
my $rows = 'SELECT datname, server, calls FROM verdict_stat_calls ORDER BY 1, 2';
is($viewer->must($rows), "other|first|3\npostgres|first|1\npostgres|second|2", 'servers and databases are kept apart');
is($viewer->must("SELECT count(*) FROM verdict_stat_calls s JOIN pg_foreign_server f ON f.oid = serverid AND srvname = server"
		  . ' JOIN pg_database d ON d.oid = datid AND d.datname = s.datname WHERE datid = (SELECT oid FROM pg_database WHERE datname = current_database())'),
	2, '... under their oids');
$viewer->must('ALTER SERVER second RENAME TO renamed');
$second->must("SET verdict.server = renamed; $check");
is($viewer->must($rows), "other|first|3\npostgres|first|1\npostgres|renamed|3", 'a server that is renamed keeps its figures');
# json: the answer is {"allowed":true}
is($viewer->must("SELECT bytes_received / calls FROM verdict_stat_calls WHERE server = 'renamed'"), 16, 'bytes are those of the wire format');
$viewer->must('SELECT verdict_stat_reset()');
is($viewer->must('SELECT count(*) FROM verdict_stat_calls'), 0, 'a reset forgets all');
$viewer->must('SELECT pg_sleep(0.01)');
$backends[0]->must($check);
is($viewer->must("SELECT stats_reset BETWEEN now() - interval '1 minute' AND now() FROM verdict_stat_calls"), 't', '... and says when');

# A deadline of the client: a code, and no send more.
$instance->fault('Authorize', { kind => 'stall', ms => 3000 });
$second->ask($check);
is(row($viewer, 'renamed', 'Authorize')->{deadline_exceeded}, 1, "the client's own deadline is deadline_exceeded");
$instance->clear_faults;

# Who may look.
$node->safe_psql('postgres', 'CREATE ROLE watcher; GRANT pg_monitor TO watcher; CREATE ROLE nobody_special');
for my $relation ('verdict_stat_calls', 'verdict_stat_retry_budget')
{
	is(($viewer->ask("SET ROLE watcher; SELECT count(*) > 0 FROM $relation"))[0], 't', "pg_monitor may read $relation");
	is(($viewer->ask("SET ROLE nobody_special; SELECT * FROM $relation"))[1], '42501', '... others may not');
	is(($viewer->ask("SET ROLE nobody_special; SELECT * FROM $relation()"))[1], '42501', '... nor the function');
}
is(($viewer->ask('SET ROLE watcher; SELECT verdict_stat_reset()'))[1], '42501', 'pg_monitor may not reset');
$viewer->must('RESET ROLE');

# There is room for 128; then the one not called for the longest time goes.
$viewer->must('SELECT verdict_stat_reset()');
$backends[0]->must($check);
$viewer->must('SELECT pg_sleep(1.1)');
my $url = $instance->url;
$node->safe_psql('postgres', <<"END");
DO \$\$BEGIN
	FOR i IN 1 .. 130 LOOP
		EXECUTE format('CREATE SERVER s%s FOREIGN DATA WRAPPER verdict OPTIONS (instance_url ''$url'')', i);
		EXECUTE format('CREATE USER MAPPING FOR PUBLIC SERVER s%s OPTIONS (api_key ''stat-key'')', i);
		PERFORM set_config('verdict.server', 's' || i, false);
		PERFORM verdict_get_policy();
	END LOOP;
END\$\$;
END
is($viewer->must("SELECT count(*), count(*) FILTER (WHERE server = 'first') FROM verdict_stat_calls"), '128|0', 'there is room for 128 servers');
$backends[0]->must($check);
is(row($viewer, 'first', 'Authorize')->{calls}, 1, '... and one that was forgotten comes back');

# The log.
my $place = -s $node->logfile;
$instance->fault('Authorize', { kind => 'error', code => 'not_found', message => 'secret-of-the-instance' });
$backends[0]->must('SET verdict.log_min_call_duration = 0');
$instance->clear_log;
$backends[0]->ask($check);
$backends[0]->must('SET verdict.log_min_call_duration = -1; ' . insert());
my ($request) = requests('Authorize');
my $log = slurp_file($node->logfile, $place);
my @lines = $log =~ /^(.*slow call.*)$/mg;
is(scalar @lines, 1, 'one call is logged');
like($lines[0], qr/LOG:  verdict: slow call: \d+\.\d{3} ms, method Authorize, server "first", Connect code not_found, attempts 1, requests sent 1, request id \Q$request->{headers}{'x-request-id'}\E$/,
	'... with what is known of it');
unlike(join("\n", @lines), qr/alice|Document|stat-key|secret-of/, '... and nothing of what it was about');
unlike($log, qr/slow call[^\n]*\n[^\n]*(STATEMENT|CONTEXT)/, '... nor its statement');
like(slurp_file($node->logfile), qr/slow call: [34]\d\d\.\d{3} ms, method GetPolicy/, 'the slow call of before was logged, those of less than 250 ms were not');
is(($node->psql('postgres', "SET SESSION AUTHORIZATION nobody_special; SET verdict.log_min_call_duration = 0"))[0], 3, 'not for everybody');
my ($answers, $to_client) = ('', '');
$node->psql('postgres', "SET log_statement = none; SET client_min_messages = log; SET verdict.log_min_call_duration = 0; SET verdict.server = first; $check", stdout => \$answers, stderr => \$to_client);
is("$answers$to_client", 't', 'the line goes to the log alone');

# A line that is written while a cancel is pending does not swallow it.
$instance->fault('Authorize', { kind => 'stall', ms => 5000 }, times => -1);
$place = -s $node->logfile;
is(($backends[0]->ask("SET verdict.log_min_call_duration = 0; SET statement_timeout = '200ms'; $check"))[1], '57014', 'a cancelled call');
is($backends[0]->error, 'canceling statement due to statement timeout', '... says what it was cancelled by');
like(slurp_file($node->logfile, $place), qr/slow call: .* Connect code canceled, attempts 1, requests sent 1/, '... and is logged');
$instance->clear_faults;

# A restart forgets.
$_->quit for @backends, $viewer, $second, $elsewhere;
$node->restart;
is($node->safe_psql('postgres', 'SELECT count(*) FROM verdict_stat_calls'), 0, 'a restart forgets all');
$node->stop;

# ---- not preloaded ----

$node = node('alone', 0);
my ($one, $two) = map { session($node) } 1 .. 2;
figures('not preloaded', $one, $one);
afresh($one);
$one->must($check);
$two->must("$check; $check");
is(row($one, 'first', 'Authorize')->{calls}, 1, 'without preloading a backend sees its own calls');
is(row($two, 'first', 'Authorize')->{calls}, 2, '... and another its own');
$instance->clear_log;
$instance->fault('InsertFact', { kind => 'status', status => 502 }, times => -1);
$_->must('SELECT verdict_stat_reset()') for $one, $two;
for my $backend ($one, $two) { $backend->ask(insert()) for 1 .. 5 }
is(scalar requests('InsertFact'), 16, '... and each has its own budget');
$instance->clear_faults;
$_->quit for $one, $two;
$node->stop;

done_testing();
