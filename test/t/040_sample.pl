# The sample and its tour, statement by statement, as `make try` shows them.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VerdictDev;

my $sample = "$FindBin::RealBin/../sample";
my $instance = VerdictDev->start(api_keys => ['sample-key']);
my $node = PostgreSQL::Test::Cluster->new('sample');
$node->init;
$node->start;
$node->safe_psql('postgres', 'CREATE DATABASE sample');

$ENV{VERDICT_TEST_URL} = $instance->url;
$ENV{VERDICT_TEST_KEY} = 'sample-key';

# Runs a file as `make try` does; returns output and errors together, without
# what differs from run to run.
sub show
{
	my ($file) = @_;
	my $text = '';
	local $ENV{PGHOST} = $node->host;
	local $ENV{PGPORT} = $node->port;
	chdir $sample or die "$sample: $!";
	my $ran = IPC::Run::run [ 'psql', '-X', '-q', '-d', 'sample', '-f', $file ], '<', \'', '>', \$text, '2>&1';
	$text =~ s/port \d+ after \d+ ms/port PORT after N ms/g;
	$text =~ s/Could not connect to server/Couldn't connect to server/g;	# libcurl 8
	$text =~ s/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/REQUEST-ID/g;
	return $text;
}

my $loaded = show('load.sql');
like($loaded, qr/^\s*100000$/m, '100,000 facts are loaded');
unlike($loaded, qr/ERROR|WARNING/, '... without a complaint');

my $tour = show('tour.sql');
$instance->stop;
$tour .= show('tour_stopped.sql');
my $wanted = slurp_file("$sample/tour.out");
my $same = ok($tour eq $wanted, 'the tour shows what it has to show');
if (!$same)
{
	my $file = "$PostgreSQL::Test::Utils::tmp_check/tour.out";
	append_to_file($file, $tour);
	diag(scalar `diff -u '$sample/tour.out' '$file'`);
}

done_testing();
