# The bundled instance by itself, seen from HTTP: the eight methods, what it
# refuses, and every fault that can be ordered.  No PostgreSQL here.

use strict;
use warnings;

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use lib abs_path(dirname(__FILE__)) . '/lib';

use Digest::SHA qw(sha256_hex);
use File::Temp ();
use IO::Compress::Gzip ();
use IO::Socket::INET;
use IO::Uncompress::Gunzip ();
use JSON::PP ();
use Socket qw(IPPROTO_TCP TCP_NODELAY);
use Test::More;
use Time::HiRes qw(sleep time);
use VerdictDev;

my $service = '/verdict.v1.VerdictService';
my ($true, $false) = (JSON::PP::true, JSON::PP::false);
my $directory = File::Temp->newdir;

my $policy = <<'END';
allow(actor, "read", doc) if viewer(actor, doc);
allow(actor, action, doc) if owner(actor, doc);
END

sub fact { return VerdictDev::fact_of(@_) }

sub check
{
	my ($actor, $action, $resource) = @_;
	return { actor => VerdictDev::identity($actor), action => $action,
		resource => VerdictDev::identity($resource) };
}

# Some readable bytes from a socket; reads to the end.
sub slurp
{
	my ($socket) = @_;
	my $bytes = '';
	while (1)
	{
		my $read = sysread $socket, $bytes, 65536, length $bytes;
		return ($bytes, $read) if !$read;
	}
}

# One POST on a connection of its own, answer and ending as they come.
sub raw_post
{
	my ($instance, $method, $body, @headers) = @_;
	my $socket = IO::Socket::INET->new(PeerAddr => $instance->address)
	  or die "connect: $@";
	my $head = join "\r\n", "POST $service/$method HTTP/1.1", 'Host: test',
	  'Content-Type: application/json', 'Content-Length: ' . length $body, @headers;

	$socket->syswrite("$head\r\n\r\n$body");
	my ($bytes, $read) = slurp($socket);
	return ($bytes, defined $read ? 'end' : "$!");
}

# curl: the status, and the body.
sub curl
{
	my (@arguments) = @_;
	open my $out, '-|', 'curl', '--silent', '--max-time', '20',
	  '--noproxy', '*', '--write-out', '\n%{http_code}', @arguments
	  or die "curl: $!";
	local $/;
	my $text = <$out>;
	close $out;
	my ($body, $status) = $text =~ /\A(.*)\n(\d+)\z/s;
	return ($status, $body, $? >> 8);
}

my $instance = VerdictDev->start(args => [ '--max-request-bytes', '100000' ]);
like($instance->url, qr{^http://127\.0\.0\.1:\d+$}, 'it says where it listens');

# ------------------------------------------------------------- eight methods

my $answer = $instance->call('GetPolicy', {});
is($answer->{status}, 200, 'GetPolicy before any SetPolicy');
is_deeply($answer->{body}, {}, '... is the empty text');

$answer = $instance->call('SetPolicy', { policy => $policy });
is($answer->{status}, 200, 'SetPolicy') or diag $answer->{message};
is_deeply($answer->{body}, {}, '... answers the empty message');
is($answer->{headers}{'content-length'}, 2, '... with its length');
is($instance->call('GetPolicy', {})->{body}{policy}, $policy, 'GetPolicy gives it back');

$answer = $instance->call('InsertFact', { fact => fact('viewer', 'User:ann', 'Document:1') });
is_deeply($answer->{body}, { changed => $true }, 'InsertFact of a new fact');
$answer = $instance->call('InsertFact', { fact => fact('viewer', 'User:ann', 'Document:1') });
is_deeply($answer->{body}, {}, 'InsertFact of a fact that is there changes nothing');
$answer = $instance->call('BatchFacts', { changes => [
	{ insert => fact('owner', 'User:bob', 'Document:2') },
	{ insert => fact('viewer', 'User:bob', 'Document:1') },
	{ delete => fact('viewer', 'User:nobody', 'Document:1') } ] });
is_deeply($answer->{body}, { changed => 2 }, 'BatchFacts counts the steps with an effect')
  or diag explain $answer;

$answer = $instance->call('Authorize', check('User:ann', 'read', 'Document:1'));
is_deeply($answer->{body}, { allowed => $true }, 'Authorize: yes') or diag explain $answer;
is($answer->{headers}{'content-type'}, 'application/json', '... in the type asked');
ok(!exists $answer->{headers}{'verdict-revision'}, '... without a revision');
$answer = $instance->call('Authorize', check('User:ann', 'write', 'Document:1'));
is_deeply($answer->{body}, {}, 'Authorize: no');

my $query = { pattern => { predicate => 'allow', args => [
	{ value => { identity => VerdictDev::identity('User:bob') } },
	{ value => { string => 'read' } },
	{ variable => { name => 'doc', type => 'Document' } } ] } };
$answer = $instance->call('Query', $query);
is_deeply($answer->{body}{variables}, ['doc'], 'Query names its variables')
  or diag explain $answer;
is(join(' ', sort map { $_->{values}[0]{identity}{id} } @{ $answer->{body}{rows} }),
	'1 2', '... and gives the rows');
$answer = $instance->call('Query', { %$query, limit => 1 });
is(scalar @{ $answer->{body}{rows} }, 1, 'Query with a limit');
ok($answer->{body}{truncated}, '... says that it was cut');

$answer = $instance->call('ListFacts', { limit => 2 });
is(scalar @{ $answer->{body}{facts} }, 2, 'ListFacts: a page') or diag explain $answer;
my @facts = @{ $answer->{body}{facts} };
$answer = $instance->call('ListFacts', { limit => 2, after => $answer->{body}{next} });
push @facts, @{ $answer->{body}{facts} };
is(join(' ', sort map { join ':', $_->{predicate}, map { $_->{identity}{id} } @{ $_->{args} } } @facts),
	'owner:bob:2 viewer:ann:1 viewer:bob:1', '... and the next, all facts once');
ok(!defined $answer->{body}{next}, '... and no more');

$answer = $instance->call('DeleteFact', { fact => fact('viewer', 'User:ann', 'Document:1') });
is_deeply($answer->{body}, { changed => $true }, 'DeleteFact');
is($instance->allowed('User:ann', 'read', 'Document:1'), 0, '... takes the permission away');
is($instance->allowed('User:bob', 'write', 'Document:2'), 1, '... and no other');

# The same in binary: actor { type, id } = 1, action = 2, resource { type, id } = 3.
sub field { my ($number, $bytes) = @_; return chr($number << 3 | 2) . chr(length $bytes) . $bytes }
my $binary = field(1, field(1, 'User') . field(2, 'bob')) . field(2, 'read')
  . field(3, field(1, 'Document') . field(2, '2'));
my $response = $instance->post("$service/Authorize", $binary, 'Content-Type' => 'application/proto');
is($response->{status}, 200, 'Authorize in binary');
is($response->{content}, "\x08\x01", '... says yes');
is($response->{headers}{'content-type'}, 'application/proto', '... in binary');
$response = $instance->post("$service/GetPolicy", '', 'Content-Type' => 'application/proto');
like($response->{content}, qr/viewer/, 'a body of zero bytes is the empty message');

# ------------------------------------------------------------------ refusals

sub refused
{
	my ($name, $response, $status, $code, $pattern) = @_;
	subtest $name => sub {
		is($response->{status}, $status, 'HTTP status');
		is($response->{headers}{'content-type'}, 'application/json', 'JSON');
		ok(defined $response->{headers}{'content-length'}, 'with a length');
		my $error = eval { JSON::PP::decode_json($response->{content}) } || {};
		is($error->{code}, $code, 'code');
		like($error->{message}, $pattern, 'message');
	};
}

my @json = ('Content-Type' => 'application/json');
my $good = JSON::PP::encode_json(check('User:bob', 'read', 'Document:2'));
my $fact = JSON::PP::encode_json({ fact => fact('viewer', 'User:eve', 'Document:1') });

sub authorize
{
	my ($body, @headers) = @_;
	return $instance->post("$service/Authorize", $body, @json, @headers);
}

refused('an unknown method', $instance->post("$service/Explode", '{}', @json),
	404, 'unimplemented', qr/no such method/);
refused('an unknown path', $instance->post('/', '{}', @json), 404, 'unimplemented', qr/path/);
refused('an escaped path', $instance->post("$service/%41uthorize", '{}', @json),
	404, 'unimplemented', qr/path/);
$response = HTTP::Tiny->new->get($instance->url . "$service/Authorize");
refused('GET', $response, 405, 'unimplemented', qr/POST/);
is($response->{headers}{allow}, 'POST', '... with Allow');
refused('another content type',
	$instance->post("$service/Authorize", $good, 'Content-Type' => 'text/plain'),
	415, 'unimplemented', qr/content type/);
is(authorize($good, 'Content-Type' => 'Application/JSON; charset=utf-8')->{status}, 200,
	'a content type with a parameter');

my $invalid = sub { refused($_[0], authorize($_[1], @_[ 2 .. $#_ - 1 ]), 400, 'invalid_argument', $_[-1]) };
$invalid->('broken JSON', '{"actor":', qr/\S/);
$invalid->('no JSON', 'hello', qr/\S/);
$invalid->('an unknown name', '{"acton":"read"}', qr/acton/);
$invalid->('a missing actor', '{"action":"read"}', qr/actor/);
$invalid->('U+0000', '{"action":"a\u0000b"}', qr/\S/);
$invalid->('invalid UTF-8', "{\"action\":\"\xff\"}", qr/\S/);
$invalid->('a session id with a space', $good, 'Verdict-Session-Id' => 'a b', qr/Session-Id/);
$invalid->('an empty session id', $good, 'Verdict-Session-Id' => '', qr/Session-Id/);
$invalid->('a long session id', $good, 'Verdict-Session-Id' => 'x' x 129, qr/Session-Id/);
$invalid->('an unknown consistency', $good, 'Verdict-Consistency' => 'strong', qr/Consistency/);
$invalid->('a bad key', $good, 'Idempotency-Key' => 'a b', qr/Idempotency-Key/);
$invalid->('a long key', $good, 'Idempotency-Key' => 'x' x 256, qr/Idempotency-Key/);
$invalid->('a bad revision', $good, 'Verdict-Revision' => 'v1.a.01.5', qr/Revision/);
$invalid->('a timeout of zero', $good, 'Connect-Timeout-Ms' => '0', qr/Timeout/);
$invalid->('a timeout of 11 digits', $good, 'Connect-Timeout-Ms' => '12345678901', qr/Timeout/);
$invalid->('a timeout in words', $good, 'Connect-Timeout-Ms' => 'soon', qr/Timeout/);
$invalid->('another protocol version', $good, 'Connect-Protocol-Version' => '2', qr/Version/);
$invalid->('a header twice', $good, 'Verdict-Session-Id' => [ 'a', 'b' ], qr/more than once/);
$invalid->('damaged gzip', 'xxxx', 'Content-Encoding' => 'gzip', qr/gzip/);
refused('binary garbage',
	$instance->post("$service/Authorize", "\xff\xff\xff", 'Content-Type' => 'application/proto'),
	400, 'invalid_argument', qr/\S/);
refused('a revision', authorize($good, 'Verdict-Revision' => 'v1.other.1.7'),
	400, 'failed_precondition', qr/stands alone/);
refused('an unknown encoding', authorize($good, 'Content-Encoding' => 'br'),
	501, 'unimplemented', qr/br/);
refused('a large request', authorize(' ' x 100_001), 429, 'resource_exhausted', qr/larger/);
IO::Compress::Gzip::gzip(\(' ' x 100_001), \my $bomb);
refused('a small request that grows', authorize($bomb, 'Content-Encoding' => 'gzip'),
	429, 'resource_exhausted', qr/decompressed/);
is((curl('-X', 'POST', '-H', 'Content-Type: application/json', '-H', 'Expect: 100-continue',
	'--data-binary', ' ' x 100_001, $instance->url . "$service/Authorize"))[0], 429,
	'a large request that asks first');
refused('a bad policy', $instance->post("$service/SetPolicy", '{"policy":"allow(a, b) if\n nonsense"}', @json),
	400, 'invalid_argument', qr/line \d+ column \d+/);
is($instance->call('GetPolicy', {})->{body}{policy}, $policy, '... leaves the policy as it was');
refused('a bad batch', $instance->post("$service/BatchFacts",
	JSON::PP::encode_json({ changes => [ { insert => fact('viewer', 'User:x', 'Document:1') },
		{ insert => { predicate => 'viewer', args => [ {} ] } } ] }), @json),
	400, 'invalid_argument', qr/changes\[1\]/);
is($instance->allowed('User:x', 'read', 'Document:1'), 0, '... changes nothing');

IO::Compress::Gzip::gzip(\$good, \my $zipped);
is(authorize($zipped, 'Content-Encoding' => 'gzip')->{content}, '{"allowed":true}',
	'a request in gzip');
is(authorize($good, 'Content-Encoding' => 'identity')->{status}, 200, 'identity');
is(authorize($good, map { $_ => 'x' x 100 } map { "X-$_" } 1 .. 30)->{status}, 200,
	'thirty foreign headers');

# Answers in gzip: only when asked for, and when there is something to gain.
my $long = $policy . '# ' . 'y' x 3000 . "\n";
is($instance->call('SetPolicy', { policy => $long })->{status}, 200, 'a longer policy');
$response = $instance->post("$service/GetPolicy", '{}', @json, 'Accept-Encoding' => 'br, gzip');
is($response->{headers}{'content-encoding'}, 'gzip', 'a long answer is compressed');
is($response->{headers}{'content-length'}, length $response->{content}, '... with its length');
IO::Uncompress::Gunzip::gunzip(\$response->{content}, \my $plain);
is(JSON::PP::decode_json($plain)->{policy}, $long, '... and is the same');
for ([ 'nothing', undef ], [ 'another', 'br' ], [ 'gzip of weight 0', 'gzip;q=0' ])
{
	my ($name, $value) = @$_;
	$response = $instance->post("$service/GetPolicy", '{}', @json,
		defined $value ? ('Accept-Encoding' => $value) : ());
	ok(!exists $response->{headers}{'content-encoding'}, "not compressed when $name is accepted");
}
ok(!exists authorize($good, 'Accept-Encoding' => 'gzip')->{headers}{'content-encoding'},
	'a short answer is not compressed');

# --------------------------------------------------------------- idempotency

my %key = ('Idempotency-Key' => 'key-1');
my $insert = { fact => fact('viewer', 'User:kim', 'Document:1') };
$instance->clear_log;
my $before = $instance->counts;
is_deeply($instance->call('InsertFact', $insert, %key)->{body}, { changed => $true }, 'a key, first');
is_deeply($instance->call('InsertFact', $insert, %key)->{body}, { changed => $true },
	'the same again gets the first answer');
my $request = field(1, field(1, 'viewer') . join '', map { field(2, field(1, $_)) }
	field(1, 'User') . field(2, 'kim'), field(1, 'Document') . field(2, '1'));
$response = $instance->post("$service/InsertFact", $request,
	'Content-Type' => 'application/proto', %key);
is($response->{content}, "\x08\x01", '... in binary too: it is one payload');
$answer = $instance->call('InsertFact', { fact => fact('viewer', 'User:kim', 'Document:9') }, %key);
is("$answer->{status} $answer->{code}", '400 failed_precondition', 'another payload is refused');
$answer = $instance->call('DeleteFact', $insert, %key);
is_deeply($answer->{body}, { changed => $true }, 'another method is another key');
is_deeply([ map { $_->{executed} ? 'run' : $_->{replayed} ? 'replay' : $_->{code} } @{ $instance->log } ],
	[ 'run', 'replay', 'replay', 'failed_precondition', 'run' ], 'the log tells them apart');
is($instance->counts->{InsertFact}{executions} - $before->{InsertFact}{executions}, 1,
	'one execution is counted');
is($instance->counts->{InsertFact}{requests} - $before->{InsertFact}{requests}, 4,
	'and every request');

# -------------------------------------------------------------------- faults

# The log of the last request.
sub last_entry { return $instance->log->[-1] }

sub ordered
{
	my ($fault, %order) = @_;
	$instance->clear_faults;
	$instance->fault('Authorize', $fault, %order);
}

ordered({ kind => 'status', status => 503, headers => { 'Retry-After' => '1' }, body => 'busy',
	content_type => 'text/plain' });
$response = authorize($good);
is("$response->{status} $response->{content}", '503 busy', 'status');
is($response->{headers}{'retry-after'}, 1, '... with its headers');
is($response->{headers}{'content-type'}, 'text/plain', '... and type');
ok(!last_entry->{executed}, '... without running');
is(last_entry->{fault}, 'status', '... and the log says why');
is(authorize($good)->{status}, 200, 'one time only');
ordered({ kind => 'status', status => 502, run => $true });
is(authorize($good)->{status}, 502, 'status after running');
ok(last_entry->{executed}, '... the log says so');
ordered({ kind => 'status', status => 800 });
is(authorize($good)->{status}, 800, 'a status that does not exist');

ordered({ kind => 'error', code => 'unavailable', message => 'come back' });
refused('error', authorize($good), 503, 'unavailable', qr/^come back$/);
ordered({ kind => 'error', code => 'aborted', status => 422, run => $true });
refused('error with another status', authorize($good), 422, 'aborted', qr/./);
is(last_entry->{code}, 'aborted', '... the log has the code');

ordered({ kind => 'stall', ms => 300, when => 'before' });
my $start = time;
raw_post($instance, 'Authorize', $good, 'Connection: close', 'Connect-Timeout-Ms: 100');
cmp_ok(time - $start, '>=', 0.3, 'stall before running');
is(last_entry->{status}, 200, '... then runs, whatever the deadline was');
ordered({ kind => 'stall', ms => 300, when => 'after' });
$start = time;
is(authorize($good)->{status}, 200, 'stall after running');
cmp_ok(time - $start, '>=', 0.3, '... takes its time');

# A stalled mutation is running for everybody else, and nobody else waits.
$instance->fault('InsertFact', { kind => 'stall', ms => 1500 });
my $child = fork;
if ($child == 0)
{
	raw_post($instance, 'InsertFact', $fact, 'Connection: close', 'Idempotency-Key: slow');
	POSIX::_exit(0);
}
sleep 0.05 until grep { ($_->{fault} || '') eq 'stall' && !$_->{ended} } @{ $instance->log };
$start = time;
is(authorize($good)->{status}, 200, 'others are served meanwhile');
$response = $instance->post("$service/InsertFact", $fact, @json, 'Idempotency-Key' => 'slow');
refused('the same key meanwhile', $response, 409, 'aborted', qr/./);
cmp_ok(time - $start, '<', 1, '... at once');
waitpid $child, 0;
$response = $instance->post("$service/InsertFact", $fact, @json, 'Idempotency-Key' => 'slow');
is($response->{content}, '{"changed":true}', 'the same key afterwards');
ok(last_entry->{replayed}, '... is a replay');

for my $when ('before', 'after')
{
	ordered({ kind => 'close', when => $when });
	my ($bytes, $end) = raw_post($instance, 'Authorize', $good);
	is("$bytes$end", 'end', "close $when running: not a byte");
	is(!!last_entry->{executed}, $when eq 'after', '... executed or not');
	is(last_entry->{status}, undef, '... no status');
	ordered({ kind => 'close', when => $when, reset => $true });
	($bytes, $end) = raw_post($instance, 'Authorize', $good);
	like("$bytes$end", qr/^Connection reset/, "reset $when running");
}

my $json_yes = '{"allowed":true}';
ordered({ kind => 'cut', bytes => 5 });
my ($bytes, $end) = raw_post($instance, 'Authorize', $good);
like($bytes, qr/\r\nContent-Length: 16\r\n(.*\r\n)?\r\n\{"all\z/s, 'cut: less than the length says');
is($end, 'end', '... then the end');
ordered({ kind => 'cut' });
like((raw_post($instance, 'Authorize', $good))[0], qr/\r\n\r\n\{"allowe\z/, 'cut in the middle');
ordered({ kind => 'cut', bytes => 100 });
like((raw_post($instance, 'Authorize', $good))[0], qr/\r\nContent-Length: 32\r\n(.*\r\n)?\r\n\Q$json_yes\E\z/s,
	'cut after everything: more is promised');
ordered({ kind => 'cut', bytes => 0 });
like((raw_post($instance, 'Authorize', $good))[0], qr/\r\n\r\n\z/, 'cut before everything');
ordered({ kind => 'cut_chunked', bytes => 5 });
like((raw_post($instance, 'Authorize', $good))[0],
	qr/\r\nTransfer-Encoding: chunked\r\n(.*\r\n)?\r\n5\r\n\{"all\r\n\z/s, 'cut_chunked: no last chunk');
ordered({ kind => 'cut_undelimited', bytes => 5 });
($bytes) = raw_post($instance, 'Authorize', $good);
like($bytes, qr/\r\n\r\n\{"all\z/, 'cut_undelimited');
unlike($bytes, qr/Content-Length|Transfer-Encoding/, '... neither length nor chunks');

ordered({ kind => 'drip', bytes_per_second => 40 });
$start = time;
is(authorize($good)->{content}, $json_yes, 'drip: all of it');
cmp_ok(time - $start, '>=', 0.35, '... slowly');

for my $type ('application/json', 'application/proto')
{
	my $body = $type =~ /json/ ? $good : $binary;
	ordered({ kind => 'oversize', bytes => 3_000_000 });
	$response = $instance->post("$service/Authorize", $body, 'Content-Type' => $type);
	cmp_ok(length $response->{content}, '>=', 3_000_000, "oversize, $type");
	is($response->{headers}{'content-length'}, length $response->{content}, '... with its length');
	ordered({ kind => 'gzip_bomb', bytes => 30_000_000 });
	$response = $instance->post("$service/Authorize", $body, 'Content-Type' => $type);
	cmp_ok(length $response->{content}, '<', 100_000, 'gzip_bomb: small');
	is($response->{headers}{'content-encoding'}, 'gzip', '... compressed');
	ok(IO::Uncompress::Gunzip::gunzip(\$response->{content}, \my $huge), '... correctly');
	cmp_ok(length $huge, '>=', 30_000_000, '... to much more');
	like($huge, qr/\A\{ *\}\z/, '... that decodes') if $type =~ /json/;
}

ordered({ kind => 'content_type', value => 'text/html' });
$response = authorize($good);
is("$response->{headers}{'content-type'} $response->{content}", "text/html $json_yes", 'content_type');
ordered({ kind => 'revision', values => [ 'v1.other.1.7', 'nonsense' ] });
is_deeply(authorize($good)->{headers}{'verdict-revision'}, [ 'v1.other.1.7', 'nonsense' ], 'revision');
ordered({ kind => 'body', hex => '7b00ff' });
$response = authorize($good);
is("$response->{status} $response->{content}", "200 {\x00\xff", 'body');
is($response->{headers}{'content-type'}, 'application/json', '... in the type asked for');
ordered({ kind => 'header_flood', bytes => 400_000 });
($bytes, $end) = raw_post($instance, 'Authorize', $good);
cmp_ok(length $bytes, '>', 400_000, 'header_flood');
like($bytes, qr/\AHTTP\/1\.1 200 OK\r\n.*x\r\n\r\n\z/s, '... is well-formed');
ordered({ kind => 'redirect', location => 'http://127.0.0.1:1/' });
$response = authorize($good);
is("$response->{status} $response->{headers}{location}", '302 http://127.0.0.1:1/', 'redirect');

# Which requests a fault strikes.
$instance->clear_faults;
$instance->fault('*', { kind => 'status', status => 599 }, skip => 1, times => 2);
is(join(' ', map { authorize($good)->{status} } 1 .. 4), '200 599 599 200', 'skip and times');
$instance->fault('GetPolicy', { kind => 'status', status => 500 }, times => -1);
is(join(' ', (map { $instance->call('GetPolicy', {})->{status} } 1 .. 3), authorize($good)->{status}),
	'500 500 500 200', 'without end, for one method');
is(scalar @{ $instance->faults }, 1, 'what is left can be looked at');
$instance->clear_faults;
is_deeply($instance->faults, [], 'and taken back');
for ({ method => 'Authorize', fault => { kind => 'explode' } },
	{ method => 'Nothing', fault => { kind => 'close' } },
	{ method => 'Authorize', fault => { kind => 'close', ms => 1 } },
	{ method => 'Authorize', fault => { kind => 'stall' } },
	{ method => 'Authorize', fault => { kind => 'body', hex => 'abc' } },
	{ method => 'Authorize', fault => { kind => 'error', code => 'ok' } },
	{ method => 'Authorize', times => 0, fault => { kind => 'close' } },
	{ method => 'Authorize', fault => { kind => 'status', status => 200,
		headers => { 'X-Y' => "a\nb" } } },
	[ { method => 'Authorize', fault => { kind => 'close' } }, 7 ])
{
	my ($status, $body) = curl('-d', JSON::PP::encode_json($_), $instance->admin_url . '/faults');
	is($status, 400, 'a wrong order is refused: ' . $body);
}
is_deeply($instance->faults, [], '... and nothing of it is kept');

# The log.
$instance->clear_log;
authorize($good, 'Authorization' => 'Bearer very-secret', 'X-Request-Id' => 'r1');
authorize('{"action":');
my $log = $instance->log;
is(scalar @$log, 2, 'the log has both requests');
my $entry = $log->[0];
is($entry->{method} . ' ' . $entry->{format} . ' ' . $entry->{path},
	"Authorize json $service/Authorize", '... method, format, path');
is(pack('H*', $entry->{body_hex}), $good, '... body');
is($entry->{body_sha256}, sha256_hex($good), '... and its hash');
is($entry->{headers}{'x-request-id'}, 'r1', '... headers');
is($entry->{headers}{authorization}, 'present', '... but no credential');
unlike(JSON::PP::encode_json($log), qr/very-secret/, '... nowhere');
is($entry->{connection}, $log->[1]{connection}, '... the kept connection');
is($log->[1]{code}, 'invalid_argument', '... how it ended');
cmp_ok($log->[1]{number}, '==', $entry->{number} + 1, '... numbered');

# ------------------------------------------------------------- graceful stop

$instance->fault('Authorize', { kind => 'stall', ms => 700 });
$child = fork;
if ($child == 0)
{
	my ($bytes) = raw_post($instance, 'Authorize', $good);
	POSIX::_exit($bytes =~ /\Q$json_yes\E\z/ && $bytes =~ /Connection: close/ ? 0 : 1);
}
sleep 0.05 until grep { ($_->{fault} || '') eq 'stall' && !$_->{ended} } @{ $instance->log };
$start = time;
is($instance->stop, 0, 'SIGTERM: exit status 0');
cmp_ok(time - $start, '<', 4, '... soon');
waitpid $child, 0;
is($? >> 8, 0, '... after the running request was answered');
is($instance->errors, '', '... and it never complained');

$instance = VerdictDev->start;
$instance->fault('*', { kind => 'stall', ms => 60_000 }, times => -1);
$child = fork;
if ($child == 0)
{
	raw_post($instance, 'Authorize', $good);
	POSIX::_exit(0);
}
sleep 0.05 until @{ $instance->log };
$start = time;
is($instance->stop('INT'), 0, 'SIGINT with a request that does not end');
cmp_ok(time - $start, '<', 9, '... within the 5 seconds');
waitpid $child, 0;

# --------------------------------------------------- data, keys, prefix, TLS

open my $file, '>', "$directory/policy" or die $!;
print $file $policy;
close $file;
$instance = VerdictDev->start(api_keys => [ 'alpha-key', 'beta-key' ],
	args => [ '--data', "$directory/data", '--path-prefix', '/some/prefix/',
		'--policy', "$directory/policy" ]);
like($instance->url, qr{:\d+/some/prefix$}, 'the prefix is part of the URL');
is($instance->call('InsertFact', { fact => fact('owner', 'User:zoe', 'Document:3') },
	'Idempotency-Key' => 'k')->{status}, 200, 'a fact is inserted below the prefix');
is($instance->allowed('User:zoe', 'read', 'Document:3'), 1, 'the policy of the file rules');
for ([ 'no key' ], [ 'a wrong key', Authorization => 'Bearer alpha-kez' ],
	[ 'a longer key', Authorization => 'Bearer alpha-keyy' ],
	[ 'another scheme', Authorization => 'Basic alpha-key' ], [ 'an empty key', Authorization => 'Bearer ' ])
{
	my ($name, @headers) = @$_;
	$response = $instance->post("$service/Authorize", $good, @json, @headers);
	refused($name, $response, 401, 'unauthenticated', qr/API key/);
}
$response = $instance->post("$service/Authorize", $good, @json, Authorization => 'bearer beta-key');
is($response->{status}, 200, 'the second key');
(my $origin = $instance->url) =~ s{/some/prefix}{};
is((curl('-d', '{}', '-H', 'Content-Type: application/json', "$origin$service/GetPolicy"))[0], 404,
	'nothing is served outside the prefix');

$instance->restart;
is($instance->allowed('User:zoe', 'read', 'Document:3'), 1, 'after a restart the fact is there');
$instance->call('InsertFact', { fact => fact('owner', 'User:zoe', 'Document:3') },
	'Idempotency-Key' => 'k');
ok($instance->log->[-1]{replayed}, '... and the key is known');
is($instance->call('InsertFact', { fact => fact('owner', 'User:zoe', 'Document:3') },
	'Idempotency-Key' => 'k', Authorization => 'Bearer beta-key')->{status}, 200, 'another caller ...');
ok(!$instance->log->[-1]{replayed}, '... has keys of its own');
$instance->stop('KILL');
$instance->restart;
is($instance->allowed('User:zoe', 'read', 'Document:3'), 1, 'after kill -9 as well');
unlike($instance->errors . JSON::PP::encode_json($instance->log), qr/alpha-key|beta-key/,
	'no key is told anywhere');
is($instance->stop, 0, "... and it stops");

system("openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext "
	  . "subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout $directory/key.pem -out $directory/cert.pem 2>/dev/null") == 0
  or die 'openssl failed';
$instance = VerdictDev->start(args => [ '--tls-cert', "$directory/cert.pem", '--tls-key', "$directory/key.pem" ]);
like($instance->url, qr{^https://}, 'TLS: the URL says so');
my @tls = ('-H', 'Content-Type: application/json', '-d', $good, $instance->url . "$service/Authorize");
my ($status, $body) = curl('--cacert', "$directory/cert.pem", @tls);
is("$status $body", '200 {}', '... and it answers');
is((curl(@tls))[2], 60, '... to who trusts it');
for my $kind ('cut', 'close', 'cut_chunked', 'drip')
{
	$instance->fault('Authorize', { kind => $kind,
		$kind eq 'drip' ? (bytes_per_second => 100) : () });
	($status, $body, my $exit) = curl('--cacert', "$directory/cert.pem", @tls);
	$kind eq 'drip' ? is("$status $body", '200 {}', "$kind over TLS") : isnt($exit, 0, "$kind over TLS");
}
is((curl('-d', JSON::PP::encode_json({ method => '*', fault => { kind => 'header_flood', bytes => 1 } }),
	$instance->admin_url . '/faults'))[0], 400, 'what TLS cannot do is refused');
is($instance->stop, 0, '... and it stops');

# -------------------------------------------------------- command line errors

for ([ '--listen', 'nonsense' ], [ '--listen', '127.0.0.1:99999' ], ['--nonsense'], [ '--max-rows', '0' ],
	[ '--max-rows', 'many' ], [ '--tls-cert', "$directory/cert.pem" ], [ '--path-prefix', 'x' ],
	[ '--api-key', 'a b' ], [ '--api-key-file', '/dev/null' ], [ '--policy', "$directory/none" ],
	[ '--data', "$directory/none/none" ], ['extra'],
	[ '--tls-cert', "$directory/policy", '--tls-key', "$directory/key.pem" ])
{
	my $started = eval { VerdictDev->start(args => $_) };
	like($@, qr/did not start \(status [12]\): (verdict-dev: )?.+/, "refused: @$_");
}
like(scalar `${\ VerdictDev::program()} --help`, qr/--listen HOST:PORT/, '--help');

# It does not outlive its parent.
pipe my $read, my $write;
$child = fork;
if ($child == 0)
{
	my $short = VerdictDev->start;
	syswrite $write, $short->pid;
	POSIX::_exit(0);
}
waitpid $child, 0;
sysread $read, my $pid, 32;
my $give_up = time + 10;
sleep 0.05 while kill(0, $pid) && time < $give_up;
ok(!kill(0, $pid), 'it ends when its parent does');

done_testing();
