# Every SQL function against the independent instance: HTTP/1.1 and, over TLS,
# HTTP/2, in both wire formats, with and without revisions.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../t/lib";

use JSON::PP qw(decode_json);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Surface;
use Test::More;
use VerdictDev;

my $node = PostgreSQL::Test::Cluster->new('peer');
$node->init;
$node->append_conf('postgresql.conf', 'verdict.mutation_mode = immediate');
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION verdict');

# A handle that goes away would wait for its peer to end.
my (@peers, @outputs);
END { kill 'TERM', @peers if @peers }

sub start_peer
{
	my (@options) = @_;
	my $pid = open my $out, '-|', split(/ /, $ENV{VERDICT_PEER}), @options or die "peer: $!";
	push @peers, $pid;
	push @outputs, $out;
	my ($url) = (<$out> // '') =~ /^listening on (\S+)$/ or die 'the peer did not start';
	return $url;
}

sub peer_log
{
	my ($url) = @_;
	$url =~ s{(://[^/]+).*}{$1};
	return decode_json(scalar `curl --silent --insecure $url/log`);
}

my ($certificate, $private) = VerdictDev::certificate();
for my $format (qw(binary json))
{
	my $plain = start_peer('--api-key', 'peer-key');
	Surface::run($node, "peer, $format", { instance_url => $plain, wire_format => $format },
		'peer-key');

	my $secure = start_peer('--api-key', 'peer-key', '--revisions',
		'--path-prefix', '/prefix', '--tls-cert', $certificate, '--tls-key', $private);
	Surface::run($node, "peer, $format, HTTP/2 over TLS, revisions, path prefix",
		{ instance_url => $secure, wire_format => $format, http_version => '2',
			ssl_ca_file => $certificate }, 'peer-key');
	my $log = peer_log($secure);
	cmp_ok($log->{versions}{'2.0'} // 0, '>', 50, 'HTTP/2 was spoken');
	is_deeply([ sort keys %{ $log->{versions} } ], ['2.0'], '... and nothing else');
	my $type = $format eq 'json' ? 'application/json' : 'application/proto';
	is_deeply([ grep { $_->{contentType} ne $type } @{ $log->{requests} } ], [],
		"every request was $type");

	# A session sends what it has observed; a new one starts afresh.
	$node->safe_psql('postgres', <<'END');
SET verdict.server = 'surface';
BEGIN;
SELECT verdict_insert_fact('seen(1)');
SELECT verdict_authorize('User:a', 'read', 'Document:1');
SELECT verdict_authorize('User:a', 'read', 'Document:1', 'eventual');
SELECT verdict_new_session();
SELECT verdict_authorize('User:a', 'read', 'Document:1');
COMMIT;
END
	my @last = @{ peer_log($secure)->{requests} }[ -4 .. -1 ];
	like($last[1]{revision}, qr/^v1\.peer\.1\.\d+$/, 'a read after a write sends its revision');
	is($last[2]{revision}, undef, 'an eventual read sends none');
	is($last[3]{revision}, undef, 'a new session sends none');
	is($last[1]{session}, $last[0]{session}, 'one transaction is one session');
	isnt($last[3]{session}, $last[0]{session}, 'a new session has another id');
	like($last[0]{key}, qr/^pg1-[0-9a-f]{64}$/, 'the change has a key derived from the transaction');

	# The application hands a revision on to another transaction.
	my $revision = $node->safe_psql('postgres', <<'END');
SET verdict.server = 'surface';
\o /dev/null
BEGIN;
SELECT verdict_insert_fact('seen(2)');
\o
SELECT verdict_revision();
COMMIT;
END
	like($revision, qr/^v1\.peer\.1\.\d+$/, 'the revision can be taken');
	$node->safe_psql('postgres', <<"END");
SET verdict.server = 'surface';
SET verdict.revision = '$revision';
SELECT verdict_authorize('User:a', 'read', 'Document:1');
END
	is(peer_log($secure)->{requests}[-1]{revision}, $revision, '... and handed on');
	my ($out, $error);
	$node->psql('postgres', <<'END', stderr => \$error);
\set VERBOSITY sqlstate
SET verdict.server = 'surface';
SET verdict.revision = 'v1.peer.1.999999';
SELECT verdict_authorize('User:a', 'read', 'Document:1');
END
	like($error, qr/ERROR:  55000/, 'a revision that was never reached is refused');
}

# More requests than one HTTP/2 connection is trusted with.
{
	my $secure = start_peer('--tls-cert', $certificate, '--tls-key', $private);
	$node->safe_psql('postgres', <<"END");
DROP SERVER surface CASCADE;
CREATE SERVER surface FOREIGN DATA WRAPPER verdict
	OPTIONS (instance_url '$secure', http_version '2', ssl_ca_file '$certificate');
CREATE USER MAPPING FOR PUBLIC SERVER surface;
END
	is($node->safe_psql('postgres', <<'END'), '3000|0', '3,000 calls over HTTP/2 without a failure');
SET verdict.server = 'surface';
SELECT count(*), count(*) FILTER (WHERE verdict_authorize('User:a', 'read', verdict_identity('Document', n)))
FROM generate_series(1, 3000) n;
END
}

done_testing();
