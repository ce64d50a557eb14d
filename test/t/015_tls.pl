# TLS from a backend: who is trusted, and what an error says when nobody is.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VerdictDev;

my $folder = PostgreSQL::Test::Utils::tempdir();
my ($certificate, $private) = VerdictDev::certificate();
my ($other_certificate, $other_private) = ("$folder/elsewhere.pem", "$folder/elsewhere.key");
system_or_bail('openssl', 'req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2',
	'-subj', '/CN=elsewhere.example', '-addext', 'subjectAltName=DNS:elsewhere.example',
	'-keyout', $other_private, '-out', $other_certificate);
append_to_file("$folder/garbage.pem", "this is no certificate\n");
append_to_file("$folder/closed.pem", slurp_file($certificate));
chmod 0, "$folder/closed.pem";

sub secure
{
	my ($file, $key) = @_;
	return VerdictDev->start(api_keys => ['tls-key'], args => [ '--tls-cert', $file, '--tls-key', $key ]);
}
my $here = secure($certificate, $private);
my $elsewhere = secure($other_certificate, $other_private);
my $plain = VerdictDev->start(api_keys => ['tls-key']);

my $node = PostgreSQL::Test::Cluster->new('tls');
$node->init;
$node->append_conf('postgresql.conf', 'verdict.mutation_mode = immediate');
$node->start;
my $url = $here->url;
$node->safe_psql('postgres', <<"END");
CREATE EXTENSION verdict;
CREATE SERVER main FOREIGN DATA WRAPPER verdict OPTIONS (instance_url '$url', read_timeout_ms '5000');
CREATE USER MAPPING FOR PUBLIC SERVER main OPTIONS (api_key 'tls-key');
ALTER DATABASE postgres SET verdict.server = 'main';
END

# Alters the server and asks; returns what came, or the error.
sub ask
{
	my ($alteration) = @_;
	my ($status, $out, $err) = $node->psql('postgres', <<"END", on_error_stop => 0);
\\set VERBOSITY verbose
ALTER SERVER main OPTIONS ($alteration);
SELECT verdict_authorize('User:a', 'read', 'Document:1');
END
	return "$out$err";
}

my $refused = qr/ERROR:  08006: could not check authorization: .*HINT:  Option "ssl_ca_file"/s;
like(ask("SET read_timeout_ms '4000'"), $refused, 'an unknown authority is not trusted');
is(ask("ADD ssl_ca_file '$certificate'"), 'f', 'one that is named is');
is(ask("ADD http_version '2'"), 'f', 'also where HTTP/2 may be spoken');
like(ask("SET ssl_ca_file '$other_certificate', DROP http_version"), $refused, 'another is not');
like(ask("SET instance_url '" . $elsewhere->url . "'"), $refused, 'nor is a certificate for another host');
like(ask("SET ssl_ca_file '$folder/garbage.pem', SET instance_url '$url'"), $refused, 'nor a file without certificates');
like(ask("SET ssl_ca_file '$folder/none.pem'"),
	qr/ERROR:  58P01: could not open certificate file "\Q$folder\E\/none.pem": No such file.*option "ssl_ca_file" of server "main"/s,
	'a file that does not exist is named');
SKIP:
{
	skip 'this user can read every file', 1 if open my $file, '<', "$folder/closed.pem";
	like(ask("SET ssl_ca_file '$folder/closed.pem'"),
		qr/ERROR:  42501: could not open certificate file "\Q$folder\E\/closed.pem": Permission denied/,
		'and one that cannot be read');
}
is(ask("SET ssl_ca_file '$certificate'"), 'f', 'the right one again');
is(scalar(grep { ($_->{method} // '') eq 'Authorize' } @{ $here->log }), 3, 'nothing was sent to whom was not trusted');
is(scalar(@{ $elsewhere->log }), 0, 'nor to the other host');

# One side speaks TLS, the other does not.
like(ask("SET instance_url '" . ($plain->url =~ s/^http:/https:/r) . "'"), $refused, 'no TLS there');
like(ask("SET instance_url '" . ($url =~ s/^https:/http:/r) . "', DROP ssl_ca_file"), qr/ERROR:  (08006|HV000|58000|08P01)/,
	'TLS where none is spoken');
is(scalar(@{ $plain->log }), 0, 'and nothing arrived');

$node->stop;
done_testing();
