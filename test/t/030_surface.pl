# Every SQL function works the same in both wire formats, behind TLS, behind a
# path prefix, and with both retry owners.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Surface;
use Test::More;
use VerdictDev;

my $node = PostgreSQL::Test::Cluster->new('surface');
$node->init;
$node->append_conf('postgresql.conf', 'verdict.mutation_mode = immediate');
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION verdict');

sub fresh { return VerdictDev->start(api_keys => ['surface-key'], args => [@_]) }

for my $format (qw(binary json))
{
	my $instance = fresh();
	Surface::run($node, "$format", { instance_url => $instance->url, wire_format => $format },
		'surface-key');
	is_deeply([ grep { $_ ne $format } map { $_->{format} // () } @{ $instance->log } ], [],
		"the instance saw nothing but $format");

	my $prefixed = fresh('--path-prefix', '/team/verdict');
	Surface::run($node, "$format behind a path prefix",
		{ instance_url => $prefixed->url . '/', wire_format => $format }, 'surface-key');

	my ($certificate, $private) = VerdictDev::certificate();
	my $secure = fresh('--tls-cert', $certificate, '--tls-key', $private);
	Surface::run($node, "$format over TLS",
		{ instance_url => $secure->url, wire_format => $format, ssl_ca_file => $certificate },
		'surface-key');
}

my $open = VerdictDev->start;
Surface::run($node, 'without a key, without retries',
	{ instance_url => $open->url, retry_owner => 'none' });

done_testing();
