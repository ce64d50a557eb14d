# A commit's revision reaches the application with the answer to COMMIT, and another
# connection that starts from it sees what was committed, on a replica that lags.
#
# The two programs are what README.md shows to applications.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VerdictDev;

# Replicas that apply nothing while this runs.
my $instance = VerdictDev->start(api_keys => ['driver-key'], args => [ '--replicas', 2, '--lag', 600_000 ]);
my $node = PostgreSQL::Test::Cluster->new('driver');
$node->init;
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'verdict'\nlog_statement = all\n");
$node->start;

my $url = $instance->url;
$node->safe_psql('postgres', <<"END");
CREATE EXTENSION verdict;
CREATE SERVER main FOREIGN DATA WRAPPER verdict OPTIONS (instance_url '$url');
CREATE USER MAPPING FOR PUBLIC SERVER main OPTIONS (api_key 'driver-key');
ALTER DATABASE postgres SET verdict.server = 'main';
END

my $number = 0;
sub seen { return $node->safe_psql('postgres', "SELECT count(*) FROM verdict_query('$_[0]') AS (holds boolean)") }

my %programs = (
	psycopg => [ '/usr/bin/python3', "$FindBin::RealBin/../driver/commit_revision.py" ],
	libpq => ["$FindBin::RealBin/../../build/test/driver/commit_revision"]);
my $revision = qr/v1\.[\w-]+\.\d+\.\d+/;

for my $driver (sort keys %programs)
{
	# Runs it with settings for its connections: exit status and output.
	my $run = sub {
		my ($fact, @settings) = @_;
		local $ENV{PGOPTIONS} = join ' ', map { "-c $_" } @settings;
		my ($out, $err);
		IPC::Run::run([ @{ $programs{$driver} }, $node->connstr('postgres'), $fact ], '>', \$out, '2>', \$err);
		is($err, '', "$driver: no complaint");
		return ($? >> 8, $out);
	};

	for my $mode ([qw(verdict.mutation_mode=deferred)], [qw(verdict.mutation_mode=immediate)],
		[qw(verdict.mutation_mode=outbox verdict.commit_wait=30000)])
	{
		my $fact = 'committed(' . ++$number . ')';
		my ($status, $out) = $run->($fact, @$mode);
		like($out, qr/^committed at $revision\nseen\n$/, "$driver: @$mode: committed, carried, seen");
		is($status, 0, '... and so says the exit status');
		is(seen($fact), 0, '... while a session that starts from nothing does not see it');
	}

	# Nobody waited for the answer, so nobody knows the revision.
	my ($status, $out) = $run->('queued(' . ++$number . ')', 'verdict.mutation_mode=outbox');
	is($out, "committed at no known revision\nnot seen\n", "$driver: outbox without a wait: no revision");
	is($status, 1, '... and so says the exit status');

	# What the writing connection asked the server.
	my $fact = 'asked(' . ++$number . ')';
	my $start = -s $node->logfile;
	$run->($fact);
	my $log = substr slurp_file($node->logfile), $start;
	my ($writer) = $log =~ /\[(\d+)\] .*verdict_insert_fact/;
	my @statements = $log =~ /\[$writer\] .*?LOG:  (?:statement|execute [^:]*): (\w+)/g;
	is_deeply(\@statements, [qw(BEGIN SELECT COMMIT)], "$driver: no query is needed for the revision");
}

$node->stop;
done_testing();
