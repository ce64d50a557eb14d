# The plain policy beside SpiceDB by its postgres-fdw: the same facts, in one run.
#
#	spicedb.pl ROUNDS README INSTANCE SPICEDB PROXY
#
# Runs in the database that psql's environment leads to, after spicedb.sql, beside the
# processes with these ids: verdict's instance, SpiceDB, and its postgres-fdw.  Every
# figure is the median of ROUNDS rounds with the least and the most, each round asking
# all of them in turn: by the clock, and what the backend, the postgres-fdw and the
# instance that answers took on a processor, SpiceDB's with the backends of its database.  Ways that answer the same question must answer it
# alike.  The table replaces what stands between README's "bench spicedb" marks.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../t/lib";

use List::Util qw(max min);
use PsqlSession;
use Time::HiRes qw(time);

my ($rounds, $readme, $instance, $spicedb, $proxy) = @ARGV;

{ package Here; sub connstr { my ($self, $database) = @_; return "dbname='$database'" } }
my $session = PsqlSession->new(bless({}, 'Here'), $ENV{PGDATABASE});
# Room for a hash of half of the documents, which the policies with IN need to be fast.
$session->must("SET search_path = spice, public; SET work_mem = '64MB'; SET ROLE spice_reader");
my $backend = $session->must('SELECT pg_backend_pid()');

# Milliseconds on a processor, of all threads of these processes.
sub processor
{
	my $sum = 0;
	for my $file (map { glob "/proc/$_/task/*/schedstat" } @_)
	{
		open my $in, '<', $file or next;
		$sum += (split ' ', scalar <$in>)[0] / 1e6;
	}
	return $sum;
}

my $count = 'SELECT count(*) FROM';
my $page = 'SELECT md5(string_agg(id::text, \',\')) FROM (SELECT * FROM %s ORDER BY id LIMIT 50) AS page';
my $series = 'generate_series(1, 1000) AS n';
my $verdict_check = "$count $series WHERE verdict_authorize(verdict_actor(), 'read', verdict_identity('Document', n))";

# What is asked, of whom, and the ways to answer it: name and statement.
my @questions = (
	(map { my ($user, $share) = @$_; (
		[ "`count(*)`, $share visible", $user,
			[ 'native `IN` over a table', "$count by_native" ],
			[ 'verdict, the plain policy', "$count by_verdict" ],
			[ 'SpiceDB, `IN (SELECT …)` over its list', "$count by_list" ] ],
		[ "`ORDER BY id LIMIT 50`, $share visible", $user,
			[ 'native `IN` over a table', sprintf $page, 'by_native' ],
			[ 'verdict, the plain policy', sprintf $page, 'by_verdict' ],
			[ 'SpiceDB, `IN (SELECT …)` over its list', sprintf $page, 'by_list' ],
			[ 'SpiceDB, a check for each row', sprintf $page, 'by_check' ] ],
		[ "all that one may read, as a list, $share", $user,
			[ 'verdict, `verdict_list_resources()`', "$count verdict_list_resources(verdict_actor(), 'read', 'Document')" ],
			[ 'SpiceDB, `permissions` by actor', "$count readable()" ] ],
	) } [ 1, '1 %' ], [ 2, '50 %' ]),
	[ '100 visible documents by their index', 3,
		[ 'verdict, `id = ANY (verdict_resource_ids(…))`', "$count by_none WHERE id = ANY (verdict_resource_ids(verdict_actor(), 'read', 'Document', NULL::int))" ],
		[ 'SpiceDB, `id = ANY (ARRAY(SELECT …))` over its list', "$count by_none WHERE id = ANY (ARRAY(SELECT readable()))" ] ],
	[ '1,000 checks', 1,
		[ 'verdict, one after the other', "SET verdict.prefetch = off; $verdict_check; RESET verdict.prefetch" ],
		[ 'verdict, `verdict_authorize_many()`', "$count unnest(verdict_authorize_many(verdict_actor(), 'read', ARRAY(SELECT verdict_identity('Document', n) FROM $series))) AS allowed WHERE allowed" ],
		[ 'SpiceDB, one after the other, at most 5 s old', "$count $series WHERE may_read(n::text)" ],
		[ 'SpiceDB, one after the other, `fully_consistent`', "$count $series WHERE may_read_consistent(n::text)" ] ]);

my %figures;
for my $round (0 .. $rounds)
{
	# The first is to get warm.
	%figures = () if $round == 1;
	print STDERR "round $round of $rounds\n";
	my @answering = ($instance, $spicedb, split /\n/, $session->must("SELECT pid FROM pg_stat_activity WHERE datname = 'spicedb'"));
	for my $question (@questions)
	{
		my ($title, $user, @ways) = @$question;
		my $right;
		$session->must("SET bench.who = '$user'; SET verdict.actor = 'User:$user'");
		for my $way (@ways)
		{
			my @before = (time, processor($backend), processor($proxy), processor(@answering));
			my $answer = $session->must($way->[1]);
			my @after = (time, processor($backend), processor($proxy), processor(@answering));
			$right //= $answer;
			die "$title: $way->[0]: $answer, not $right\n" if $answer ne $right;
			push @{ $figures{$title}{ $way->[0] }[$_] }, ($after[$_] - $before[$_]) * ($_ == 0 ? 1000 : 1) for 0 .. 3;
		}
	}
}
$session->quit;

sub median { my @sorted = sort { $a <=> $b } @_; return $sorted[ $#sorted / 2 ] }
sub short { my ($x) = @_; return $x >= 100 ? sprintf '%.0f', $x : $x >= 10 ? sprintf '%.1f', $x : sprintf '%.2f', $x }

my @lines = ('| | by the clock, ms | backend, ms | `postgres-fdw`, ms | instance, ms | ratio to verdict |', '| --- | --- | --- | --- | --- | --- |');
for my $question (@questions)
{
	my ($title, $user, @ways) = @$question;
	my ($verdict) = grep { $_->[0] =~ /^verdict/ } @ways;
	my $unit = median(@{ $figures{$title}{ $verdict->[0] }[0] });
	push @lines, "| **$title** | | | | | |";
	for my $way (@ways)
	{
		my ($clock, $own, $between, $answering) = @{ $figures{$title}{ $way->[0] } };
		push @lines, sprintf '| %s | %s (%s to %s) | %s | %s | %s | %.2f |', $way->[0], short(median(@$clock)), short(min(@$clock)),
		  short(max(@$clock)), short(median(@$own)),
		  $way->[0] =~ /^SpiceDB/ ? short(median(@$between)) : '', $way->[0] =~ /^native/ ? '' : short(median(@$answering)), median(@$clock) / $unit;
	}
}
print "$_\n" for @lines;

open my $in, '<', $readme or die "$readme: $!\n";
my $text = do { local $/; <$in> };
my $table = join "\n", @lines;
$text =~ s/(<!-- bench spicedb -->\n).*?(<!-- end of bench spicedb -->)/$1$table\n$2/s or die "$readme has no marks\n";
open my $out, '>', $readme or die "$readme: $!\n";
print $out $text;
close $out or die "$readme: $!\n";
