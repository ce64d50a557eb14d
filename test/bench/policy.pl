# A plain policy beside what people would use instead: the same facts, in one run.
#
#	policy.pl ROUNDS DOCUMENTS INSTANCE [README CHART]
#
# "After a change" is right after a fact of somebody else has changed, so that nothing
# an earlier statement has learned is right any more.
#
# Runs in the database that psql's environment leads to, as a superuser, beside the
# bundled instance with process id INSTANCE that its verdict.server stands for;
# VERDICT_TEST_URL, _KEY and _ADMIN lead to it.  Every figure is the median of ROUNDS
# rounds with the least and the most, each round asking all of them in turn: by the
# clock, and what backend (without parallel workers) and instance took on a processor.  With README and CHART
# the tables replace what stands between the two "bench policy" marks, and the chart
# is written as SVG.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../t/lib";

use HTTP::Tiny;
use JSON::PP;
use List::Util qw(max min);
use PsqlSession;
use Time::HiRes qw(time);
use VerdictDev;

my ($rounds, $documents, $instance, $readme, $chart) = @ARGV;
my $admin = $ENV{VERDICT_TEST_ADMIN} or die "VERDICT_TEST_ADMIN is not set\n";
my $http = HTTP::Tiny->new;

{ package Here; sub connstr { my ($self, $database) = @_; return "dbname='$database'" } }
my $session = PsqlSession->new(bless({}, 'Here'), $ENV{PGDATABASE} // 'postgres');
$session->must(<<"END");
SET client_min_messages = warning;
SET verdict.mutation_mode = 'immediate';
SELECT verdict_set_policy('allow(user, "read", doc) if viewer(user, doc);');
CREATE TABLE bench_acl (user_id int, doc_id int, PRIMARY KEY (user_id, doc_id));
-- User 1 sees one in a hundred, user 2 every second, user 3 a hundred, users from 10 on a few each.
INSERT INTO bench_acl SELECT 1, n FROM generate_series(1, $documents) AS n WHERE hashint4(n) % 100 = 0;
INSERT INTO bench_acl SELECT 2, n FROM generate_series(1, $documents) AS n WHERE hashint4(n) % 2 = 0;
INSERT INTO bench_acl SELECT 3, n * ($documents / 100) FROM generate_series(1, 100) AS n;
INSERT INTO bench_acl SELECT 10 + n % 1000, 1 + (n::bigint * 7919 % $documents) FROM generate_series(1, $documents / 5) AS n ON CONFLICT DO NOTHING;
CREATE INDEX ON bench_acl (doc_id, user_id);
CREATE TABLE bench_plain (id int PRIMARY KEY, title text);
INSERT INTO bench_plain SELECT n, 'document number ' || n FROM generate_series(1, $documents) AS n;
CREATE TABLE bench_native AS TABLE bench_plain;
CREATE TABLE bench_any AS TABLE bench_plain;
CREATE TABLE bench_each AS TABLE bench_plain;
CREATE TABLE bench_verdict AS TABLE bench_plain;
ALTER TABLE bench_native ADD PRIMARY KEY (id);
ALTER TABLE bench_any ADD PRIMARY KEY (id);
ALTER TABLE bench_each ADD PRIMARY KEY (id);
ALTER TABLE bench_verdict ADD PRIMARY KEY (id);
ALTER TABLE bench_native ENABLE ROW LEVEL SECURITY;
ALTER TABLE bench_any ENABLE ROW LEVEL SECURITY;
ALTER TABLE bench_each ENABLE ROW LEVEL SECURITY;
ALTER TABLE bench_verdict ENABLE ROW LEVEL SECURITY;

CREATE FUNCTION bench_ids() RETURNS int[] LANGUAGE sql STABLE AS
	'SELECT array_agg(doc_id) FROM bench_acl WHERE user_id = current_setting(''bench.who'')::int';
-- May the user, or a group he is in by whatever way, read it?
CREATE TABLE bench_member (user_id int, group_id int, PRIMARY KEY (user_id, group_id));
CREATE FUNCTION bench_may(id int) RETURNS boolean LANGUAGE plpgsql STABLE AS \$\$
BEGIN
	RETURN EXISTS (
		WITH RECURSIVE who(id) AS (
			SELECT current_setting('bench.who')::int UNION SELECT m.group_id FROM bench_member m JOIN who ON m.user_id = who.id)
		SELECT FROM who JOIN bench_acl a ON a.user_id = who.id AND a.doc_id = bench_may.id);
END \$\$;

CREATE POLICY native ON bench_native USING (id IN (SELECT doc_id FROM bench_acl WHERE user_id = current_setting('bench.who')::int));
CREATE POLICY ids ON bench_any USING (id = ANY ((SELECT bench_ids())::int[]));
CREATE POLICY each ON bench_each USING (bench_may(id));
CREATE POLICY plain ON bench_verdict USING (verdict_authorize(verdict_actor(), 'read', verdict_identity('Document', id)));
CREATE ROLE bench_reader;
GRANT SELECT ON bench_acl, bench_member, bench_plain, bench_native, bench_any, bench_each, bench_verdict TO bench_reader;
DO \$\$ BEGIN EXECUTE format('GRANT USAGE ON FOREIGN SERVER %I TO bench_reader', current_setting('verdict.server')); END \$\$;
SELECT verdict_batch_facts(array_agg(verdict_fact('viewer', verdict_identity('User', user_id), verdict_identity('Document', doc_id))))
FROM (SELECT *, row_number() OVER () / 10000 AS batch FROM bench_acl) AS facts GROUP BY batch;
END
$session->must("VACUUM ANALYZE $_") for qw(bench_acl bench_member bench_plain bench_native bench_any bench_each bench_verdict);
# Room for a hash of half of the documents, which the native policy needs to be fast.
$session->must("SET work_mem = '64MB'; SET ROLE bench_reader");

# ------------------------------------------------------------------------ measuring

my $backend = $session->must('SELECT pg_backend_pid()');

# Milliseconds on a processor, of all threads.
sub processor
{
	my ($pid) = @_;
	my $sum = 0;
	for my $file (glob "/proc/$pid/task/*/schedstat")
	{
		open my $in, '<', $file or next;
		$sum += (split ' ', scalar <$in>)[0] / 1e6;
	}
	return $sum;
}

my %figures;
sub measure
{
	my ($name, $statement) = @_;
	my @before = (time, processor($backend), processor($instance));
	$session->must($statement);
	my @after = (time, processor($backend), processor($instance));
	push @{ $figures{$name}{clock} }, ($after[0] - $before[0]) * 1000;
	push @{ $figures{$name}{backend} }, $after[1] - $before[1];
	push @{ $figures{$name}{instance} }, $after[2] - $before[2];
	return;
}

# How many calls it makes, by the instance's log.
my %calls;
sub count_calls
{
	my ($name, $statement) = @_;
	$http->delete("$admin/log");
	$session->must($statement);
	$calls{$name} = grep { defined $_->{method} } @{ decode_json($http->get("$admin/log")->{content}) };
	return;
}

# Tells the instance something that has nothing to do with what is asked.
my $changed = VerdictDev->at($ENV{VERDICT_TEST_URL}, api_keys => [ $ENV{VERDICT_TEST_KEY} ]);
my $changes = 0;
sub change_something
{
	$changes++;
	my $answer = $changed->call('InsertFact', { fact => VerdictDev::fact_of('viewer', 'User:elsewhere', "Document:$changes") });
	die "the change failed: $answer->{message}\n" if $answer->{status} != 200;
	return;
}

my %tables = (changed => 'bench_verdict', none => 'bench_plain', native => 'bench_native', any => 'bench_any', verdict => 'bench_verdict');
my $sample = int($documents / 100);
my %many = (
	one => "SET verdict.prefetch = off; SELECT count(*) FROM generate_series(1, 1000) AS n WHERE verdict_authorize(verdict_actor(), 'read', verdict_identity('Document', n)); RESET verdict.prefetch",
	many => "SELECT verdict_authorize_many(verdict_actor(), 'read', ARRAY(SELECT verdict_identity('Document', n) FROM generate_series(1, 1000) AS n)) \\g /dev/null",
	fifty => "SELECT verdict_authorize_many(verdict_actor(), 'read', ARRAY(SELECT verdict_identity('Document', n) FROM generate_series(1, 50) AS n)) \\g /dev/null",
	query => "SELECT count(*) FROM verdict_list_resources(verdict_actor(), 'read', 'Document')",
	ids => "SELECT count(*) FROM bench_plain WHERE id = ANY (verdict_resource_ids(verdict_actor(), 'read', 'Document', NULL::int))");

sub act_as { my ($user) = @_; $session->must("SET bench.who = '$user'; SET verdict.actor = 'User:$user'"); return }

for my $round (0 .. $rounds)
{
	# The first is to get warm.
	%figures = () if $round == 1;
	print STDERR "round $round of $rounds\n";
	for my $user (1, 2)
	{
		act_as($user);
		for my $way (qw(none native any changed verdict))
		{
			change_something() if $way eq 'changed';
			measure("count $user $way", "SELECT count(*) FROM $tables{$way}");
		}
		for my $way (qw(none native any changed verdict))
		{
			change_something() if $way eq 'changed';
			measure("page $user $way", "SELECT * FROM $tables{$way} ORDER BY id LIMIT 50 \\g /dev/null");
		}
		measure("each $user", "SELECT count(*) FROM bench_each WHERE id <= $sample");
	}
	# Nothing allowed: what a row costs when everything is known.
	act_as(4);
	measure('warm', 'SELECT count(*) FROM bench_verdict');
	for my $user (1, 3)
	{
		act_as($user);
		measure("$_ $user", $many{$_}) for qw(one query ids);
		for my $kind (qw(many fifty))
		{
			change_something();
			measure("$kind $user changed", $many{$kind});
			measure("$kind $user", $many{$kind});
		}
	}
}
for my $user (1, 2)
{
	act_as($user);
	for my $kind ([ count => 'SELECT count(*) FROM bench_verdict' ], [ page => 'SELECT * FROM bench_verdict ORDER BY id LIMIT 50 \g /dev/null' ])
	{
		change_something();
		count_calls("$kind->[0] $user changed", $kind->[1]);
		count_calls("$kind->[0] $user", $kind->[1]);
	}
}
act_as(3);
count_calls('ids', $many{ids});
$session->quit;

# ------------------------------------------------------------------------- telling

sub median { my @sorted = sort { $a <=> $b } @_; return $sorted[ $#sorted / 2 ] }
sub short { my ($x) = @_; return $x >= 100 ? sprintf '%.0f', $x : $x >= 10 ? sprintf '%.1f', $x : sprintf '%.2f', $x }
sub clock { my ($name) = @_; return median(@{ $figures{$name}{clock} }) }
sub cells
{
	my ($name, $beside) = @_;
	my @clock = @{ $figures{$name}{clock} };
	return sprintf '%s (%s to %s) | %s | %s | %s', short(clock($name)), short(min(@clock)), short(max(@clock)),
	  short(median(@{ $figures{$name}{backend} })), short(median(@{ $figures{$name}{instance} })),
	  defined $beside ? sprintf('%.2f', clock($name) / clock($beside)) : '';
}

my %ways = (none => 'no policy', native => '`id IN (SELECT doc_id FROM acl WHERE …)`', any => '`id = ANY ((SELECT ids()))`', verdict => 'the plain policy', changed => 'the plain policy, after a change');
my %share = (1 => '1 %', 2 => '50 %');
my @lines = ('| | by the clock, ms | backend, ms | instance, ms | ratio |', '| --- | --- | --- | --- | --- |');
for my $user (1, 2)
{
	for my $kind ([ count => 'count(*)' ], [ page => 'ORDER BY id LIMIT 50' ])
	{
		push @lines, "| **`$kind->[1]`, $share{$user} visible** | | | | |";
		push @lines, "| $ways{$_} | " . cells("$kind->[0] $user $_", $_ eq 'none' ? undef : "$kind->[0] $user native") . ' |' for qw(none native any verdict changed);
	}
	push @lines, "| PL/pgSQL look-up for each row, the first $sample rows | " . cells("each $user") . ' |';
}
push @lines, '| **many checks** | | | | |';
for my $user (1, 3)
{
	my $seen = $user == 1 ? '1 % visible' : '100 visible';
	push @lines, "| 1,000 checks one after the other, $seen | " . cells("one $user") . ' |',
	  "| 1,000 by `verdict_authorize_many()` | " . cells("many $user", "one $user") . ' |',
	  "| 1,000 by `verdict_authorize_many()`, after a change | " . cells("many $user changed", "one $user") . ' |',
	  "| one `Query`, as a list | " . cells("query $user") . ' |',
	  "| a page of 50 by `verdict_authorize_many()` | " . cells("fifty $user", "query $user") . ' |',
	  "| a page of 50 by `verdict_authorize_many()`, after a change | " . cells("fifty $user changed", "query $user") . ' |',
	  "| `id = ANY (verdict_resource_ids(…))` | " . cells("ids $user", "query $user") . ' |';
}
my $row = (median(@{ $figures{warm}{backend} }) - median(@{ $figures{'count 1 none'}{backend} })) * 1000 / $documents;
push @lines, '', sprintf('A decision that is known costs %.3f µs a row over a scan without policy. Calls in the instance\'s log: %d and %d for the two counts, %d and %d for the two pages, after a change %d and %d, %d and %d; %d for the array of ids.',
	$row, (map { @calls{"count 1$_", "count 2$_", "page 1$_", "page 2$_"} } '', ' changed'), $calls{ids});
print "$_\n" for @lines;
exit if !defined $readme;

sub slurp { my ($file) = @_; open my $in, '<', $file or die "$file: $!\n"; local $/; return scalar <$in> }
sub spill { my ($file, $text) = @_; open my $out, '>', $file or die "$file: $!\n"; print $out $text; close $out or die "$file: $!\n"; return }

my $text = slurp($readme);
my $table = join "\n", @lines;
$text =~ s/(<!-- bench policy -->\n).*?(<!-- end of bench policy -->)/$1$table\n$2/s or die "$readme has no marks\n";
spill($readme, $text);

# Bars by the clock, on a scale of powers of ten.
my @bars;
for my $user (1, 2)
{
	push @bars, map { [ "$_->[1], $share{$user} visible", "$_->[0] $user" ] } [ count => 'count(*)' ], [ page => 'LIMIT 50' ];
}
my %colour = (none => '#bbbbbb', native => '#4c78a8', any => '#72b7b2', verdict => '#e45756', changed => '#f2a6a7');
my %label = (none => 'no policy', native => 'native IN', any => '= ANY', verdict => 'plain policy', changed => '… after a change');
my ($y, @svg) = (10);
my $most = max(map { clock($_) } grep { /^(count|page) \d \w+$/ } keys %figures);
my $unit = 420 / (log($most) / log(10) + 1);
for my $bar (@bars)
{
	push @svg, sprintf '<text x="10" y="%d" font-weight="bold">%s</text>', $y += 18, $bar->[0];
	for my $way (qw(none native any verdict changed))
	{
		my $ms = clock("$bar->[1] $way");
		my $width = max(1, (log($ms) / log(10) + 1) * $unit);
		push @svg, sprintf '<text x="100" y="%d" text-anchor="end">%s</text><rect x="108" y="%d" width="%.1f" height="11" fill="%s"/><text x="%.1f" y="%d">%s ms</text>',
		  $y + 15, $label{$way}, $y + 5, $width, $colour{$way}, 112 + $width, $y + 15, short($ms);
		$y += 16;
	}
	$y += 8;
}
push @svg, sprintf '<text x="10" y="%d" fill="#666666">by the clock, on a scale of powers of ten</text>', $y += 14;
spill($chart, sprintf '<svg xmlns="http://www.w3.org/2000/svg" width="640" height="%d" font-family="sans-serif" font-size="12"><rect width="100%%" height="100%%" fill="white"/>%s</svg>' . "\n", $y + 10, join "\n", '', @svg, '');
