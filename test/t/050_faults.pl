# The fault matrix: every operation of SQL meets every fault that an instance can be
# ordered to make, in both wire formats.  For each meeting: the SQLSTATE or the
# answer, how many requests the instance saw, one key and one body on all requests
# of a change, how often it was executed, and that the backend goes on.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use JSON::PP ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PsqlSession;
use Test::More;
use Time::HiRes qw(sleep time);
use VerdictDev;

# What the honest answer is, and how it is asked for.  A change is of facts of its
# own, so that it always has an effect to be counted.
my @operations = (
	{ name => 'check', method => 'Authorize', answer => 't',
		sql => q{SELECT verdict_authorize('User:alice', 'read', 'Document:1')} },
	{ name => 'check of the writer', method => 'Authorize', answer => 't',
		sql => q{SELECT verdict_authorize('User:alice', 'read', 'Document:1', 'authoritative')} },
	{ name => 'check, deny', method => 'Authorize', answer => 't', deny => 1,
		sql => q{SELECT verdict_authorize('User:alice', 'read', 'Document:1')} },
	{ name => 'many checks', method => 'Authorize', answer => '{t,t,t}', calls => 3,
		sql => q{SELECT verdict_authorize_many('User:alice', 'read', ARRAY['Document:1', 'Document:2', 'Document:3']::verdict_identity[])} },
	{ name => 'query', method => 'Query', answer => "1\n2\n3",
		sql => q{SELECT verdict_identity_id(doc) FROM verdict_query('allow(User:alice, "read", ?doc:Document)') AS (doc verdict_identity) ORDER BY 1} },
	{ name => 'insert', method => 'InsertFact', answer => 't', change => 1,
		sql => q{SELECT verdict_insert_fact('probe(Document:NUMBER)')} },
	{ name => 'batch', method => 'BatchFacts', answer => '2', change => 1,
		sql => q{SELECT verdict_batch_facts(ARRAY['probe(Document:NUMBER)', 'probe(Folder:NUMBER)']::verdict_fact[])} });

my @single = map { $_->{name} } grep { !$_->{calls} } @operations;

my $true = JSON::PP::true;
my $always = -1;
my %type = (binary => 'application/proto', json => 'application/json');
my %other_type = (binary => $type{json}, json => $type{binary});
my %yes = (binary => "\x08\x01", json => '{"allowed":true}');

# Orders.  A value may be a function of the wire format.
sub status { my ($status, %more) = @_; return { kind => 'status', status => $status, %more } }
sub busy { my ($after, %more) = @_; return status(503, headers => { 'Retry-After' => "$after" }, %more) }
sub html { my ($status) = @_; return status($status, body => '<h1>Bad</h1>', content_type => 'text/html') }
sub json { my ($status, $body) = @_; return status($status, body => $body, content_type => 'application/json') }
sub code { my ($code, %more) = @_; return { kind => 'error', code => $code, message => 'ordered', %more } }
sub cut { my ($kind, %more) = @_; return { kind => $kind, %more } }
sub drip { return { kind => 'drip', bytes_per_second => 1 } }
sub stall { my ($when, $ms) = @_; return { kind => 'stall', ms => $ms, when => $when } }
sub body { my (%bytes) = @_; return { kind => 'body', hex => sub { unpack 'H*', $bytes{ $_[0] } } } }
sub under { my ($types, %headers) = @_; return { kind => 'content_type', value => sub { $types->{ $_[0] } }, headers => \%headers } }
sub yes_with { my ($status) = @_; return status($status, body => sub { $yes{ $_[0] } }, content_type => sub { $type{ $_[0] } }) }

# The matrix.  "times" is how many requests the fault strikes; "read" and "change"
# are what becomes of a call, "ok" or its SQLSTATE, and the number of requests.
# "ran" tells that the instance acts on the requests that it answers badly, "reused"
# that the connection was used before, "hasty" that the time-outs are short, "takes"
# how long it takes at least; "only" names the operations that meet it, if not all.
my @faults = (
	# HTTP 503: two more requests at most, for reads and changes alike
	{ name => '503 once', fault => busy(0), times => 1, read => 'ok 2', change => 'ok 2' },
	{ name => '503 twice', fault => busy(0), times => 2, read => 'ok 3', change => 'ok 3' },
	{ name => '503 always', fault => busy(0), read => '08006 3', change => '08006 3' },
	{ name => '503 without Retry-After', fault => status(503), times => 1, read => 'ok 2', change => 'ok 2' },
	{ name => '503, Retry-After 1', fault => busy(1), times => 1, read => 'ok 2', change => 'ok 2',
		takes => 1, only => [ 'check', 'insert' ] },
	{ name => '503, Retry-After 6', fault => busy(6), read => '08006 1', change => '08006 1' },
	{ name => '503, Retry-After in the past', fault => busy('Sun, 06 Nov 1994 08:49:37 GMT'), times => 1,
		read => 'ok 2', change => 'ok 2' },
	{ name => '503, Retry-After far away', fault => busy('Sat, 01 Jan 2200 00:00:00 GMT'),
		read => '08006 1', change => '08006 1' },
	{ name => '503, Retry-After garbage', fault => busy('soon'), times => 1, read => 'ok 2', change => 'ok 2' },
	{ name => '503, Retry-After negative', fault => busy(-1), times => 1, read => 'ok 2', change => 'ok 2' },
	{ name => '503 after it ran', fault => busy(0, run => $true), times => 1, ran => 1, read => 'ok 2', change => 'ok 2' },
	{ name => '503 after it ran, always', fault => busy(0, run => $true), ran => 1, read => '08006 3', change => '08006 3' },
	# The 503 path was used: a change has no second attempt any more.
	{ name => '503, then a lost connection', fault => [ busy(0), { kind => 'close' } ], times => 1,
		read => 'ok 3', change => '08006 2', only => \@single },
	# The other way round there are two attempts, and never more than four requests.
	{ name => 'a lost kept connection, then 503 twice', fault => [ { kind => 'close' }, busy(0), busy(0) ], times => 1, reused => 1,
		read => 'ok 4', change => 'ok 4', only => \@single },
	{ name => 'a lost kept connection, then 503 always', fault => [ { kind => 'close' }, busy(0), busy(0), busy(0) ], times => 1, reused => 1,
		read => '08006 4', change => '08006 4', only => \@single },

	# Other statuses without a Connect error
	{ name => '429', fault => status(429), read => '08006 1', change => '08006 2' },
	{ name => '502 with HTML', fault => html(502), read => '08006 1', change => '08006 2' },
	{ name => '504 with HTML once', fault => html(504), times => 1, read => '08006 1', change => 'ok 2' },
	{ name => '500', fault => status(500), read => 'HV000 1', change => 'HV000 2' },
	{ name => '505', fault => status(505), read => 'HV000 1', change => 'HV000 2' },
	{ name => '400', fault => status(400), read => '58000 1', change => '58000 1' },
	{ name => '401', fault => status(401), read => '28000 1', change => '28000 1' },
	{ name => '403 with HTML', fault => html(403), read => '42501 1', change => '42501 1' },
	{ name => '404 with HTML', fault => html(404), read => '0A000 1', change => '0A000 1' },
	(map { { name => "$_", fault => status($_), read => 'HV000 1', change => 'HV000 1' } } 409, 413, 415, 422, 431, 800),
	{ name => '302', fault => { kind => 'redirect', status => 302, location => 'http://127.0.0.1:1/' },
		read => 'HV000 1', change => 'HV000 1' },
	{ name => '201 with a yes', fault => yes_with(201), read => 'HV000 1', change => 'HV000 1' },
	{ name => '206 with a yes', fault => yes_with(206), read => 'HV000 1', change => 'HV000 1' },
	{ name => '500 with a yes', fault => yes_with(500), read => 'HV000 1', change => 'HV000 2' },

	# Answers that are none
	{ name => 'header flood', fault => { kind => 'header_flood', bytes => 300_000 }, read => '08P01 1', change => '08P01 1' },
	{ name => 'wrong type', fault => { kind => 'content_type', value => 'text/html' }, ran => 1,
		read => '08P01 1', change => '08P01 1' },
	{ name => 'wrong codec', fault => under(\%other_type), ran => 1, read => '08P01 1', change => '08P01 1' },
	{ name => 'compression that was not asked for', fault => under(\%type, 'Content-Encoding' => 'br'), ran => 1,
		read => '08P01 1', change => '08P01 1' },
	{ name => 'gzip that is none', fault => under(\%type, 'Content-Encoding' => 'gzip'), ran => 1,
		read => '08P01 1', change => '08P01 1' },
	{ name => 'gzip bomb', fault => { kind => 'gzip_bomb', bytes => 100_000_000 }, read => '54000 1', change => '54000 1' },
	{ name => 'oversize', fault => { kind => 'oversize', bytes => 2_000_000 }, read => '54000 1', change => '54000 1' },
	{ name => 'truncated message', fault => body(binary => "\x08", json => '{"allowed":t'), read => '08P01 1', change => '08P01 1' },
	{ name => 'garbage after a yes', fault => body(binary => "\x08\x01\xff", json => '{"allowed":true}x'),
		read => '08P01 1', change => '08P01 1' },
	{ name => 'a yes of another type',
		fault => body(binary => "\x0a\x01\x01", json => '{"allowed":"true","changed":"true","rows":"true"}'),
		read => '08P01 1', change => '08P01 1' },
	{ name => 'no message', fault => body(binary => "\xff\xff\xff\xff", json => 'null'), read => '08P01 1', change => '08P01 1' },

	# Answers that stop before their end
	{ name => 'cut', fault => cut('cut'), ran => 1, read => '08006 1', change => '08006 2' },
	{ name => 'cut once', fault => cut('cut'), times => 1, ran => 1, read => '08006 1', change => 'ok 2' },
	{ name => 'cut before the body', fault => cut('cut', bytes => 0), ran => 1, read => '08006 1', change => '08006 2' },
	{ name => 'whole, and more was promised', fault => cut('cut', bytes => 1_000_000), ran => 1, read => '08006 1', change => '08006 2' },
	{ name => 'cut in chunks', fault => cut('cut_chunked'), ran => 1, read => '08006 1', change => '08006 2' },
	{ name => 'chunks without the last', fault => cut('cut_chunked', bytes => 1_000_000), times => 1, ran => 1,
		read => '08006 1', change => 'ok 2' },
	{ name => 'cut without a length', fault => cut('cut_undelimited'), ran => 1, read => '08P01 1', change => '08P01 1' },
	{ name => 'whole without a length', fault => cut('cut_undelimited', bytes => 1_000_000), ran => 1,
		read => '08P01 1', change => '08P01 1' },

	# The connection ends without a byte.  A kept one may have been dying anyway: a
	# read is asked once more on a fresh one.
	(map {
		my ($name, $fault, %more) = @$_;
		my $read = $more{reused} ? 'ok 2' : '08006 1';
		{ name => $name, fault => $fault, read => $more{reused} ? '08006 2' : '08006 1', change => '08006 2', %more },
		{ name => "$name, once", fault => $fault, times => 1, read => $read, change => 'ok 2', %more }
	} map {
		my ($name, %how) = @$_;
		[ "$name before it runs", { kind => 'close', %how } ],
		[ "$name after it ran", { kind => 'close', when => 'after', %how }, ran => 1 ],
		[ "$name of a kept connection before it runs", { kind => 'close', %how }, reused => 1 ],
		[ "$name of a kept connection after it ran", { kind => 'close', when => 'after', %how }, ran => 1, reused => 1 ]
	} [ 'close' ], [ 'reset', reset => $true ]),

	# Time
	{ name => 'drip', fault => drip(), ran => 1, hasty => 1, read => '08000 1', change => '08000 2' },
	{ name => 'drip once', fault => drip(), times => 1, ran => 1, hasty => 1, read => '08000 1', change => 'ok 2' },
	{ name => 'stall after it ran', fault => stall('after', 900), ran => 1, hasty => 1, read => '08000 1', change => '08000 2' },
	{ name => 'stall after it ran, once', fault => stall('after', 900), times => 1, ran => 1, hasty => 1,
		read => '08000 1', change => 'ok 2' },
	# The second attempt meets the first, which the instance has not done with.
	{ name => 'stall before it runs, once', fault => stall('before', 900), times => 1, hasty => 1,
		read => '08000 1', change => '40001 2' },

	# Connect errors.  Unavailable is HTTP 503.
	(map {
		my ($code, $state, $sends) = @$_;
		{ name => "code $code", fault => code($code), read => "$state 1", change => "$state " . ($sends // 1) }
	} [ 'canceled', '57000' ], [ 'unknown', 'HV000', 2 ], [ 'invalid_argument', '22023' ], [ 'deadline_exceeded', '08000', 2 ],
		[ 'not_found', '42704' ], [ 'already_exists', '42710' ], [ 'permission_denied', '42501' ],
		[ 'resource_exhausted', '53000', 2 ], [ 'failed_precondition', '55000' ], [ 'aborted', '40001' ],
		[ 'out_of_range', '22003' ], [ 'unimplemented', '0A000' ], [ 'internal', '58000' ], [ 'data_loss', 'XX001' ],
		[ 'unauthenticated', '28000' ]),
	{ name => 'code unavailable', fault => code('unavailable', headers => { 'Retry-After' => '0' }),
		read => '08006 3', change => '08006 3' },
	{ name => 'code unavailable, not as 503', fault => code('unavailable', status => 500), read => '08006 1', change => '08006 2' },
	{ name => 'code unknown as 400', fault => code('unknown', status => 400), read => 'HV000 1', change => 'HV000 2' },
	{ name => 'code resource_exhausted once', fault => code('resource_exhausted'), times => 1, read => '53000 1', change => 'ok 2' },
	{ name => 'code unknown after it ran', fault => code('unknown', run => $true), ran => 1, times => 1,
		read => 'HV000 1', change => 'ok 2' },
	{ name => 'code internal after it ran', fault => code('internal', run => $true), ran => 1, read => '58000 1', change => '58000 1' },
	{ name => 'error null', fault => json(401, 'null'), read => '28000 1', change => '28000 1' },
	{ name => 'error without a code', fault => json(401, '{"message":"oops"}'), read => '28000 1', change => '28000 1' },
	{ name => 'error with an unknown code', fault => json(429, '{"code":"foobar"}'), read => '08006 1', change => '08006 2' },
	{ name => 'error that is no JSON', fault => json(500, '{"code":'), read => 'HV000 1', change => 'HV000 2' },
	{ name => 'error with garbage for details',
		fault => json(422, '{"code":"out_of_range","details":[1,null,{"type":2},{"type":"a.B","value":"%"}]}'),
		read => '22003 1', change => '22003 1' },
	{ name => 'error with a huge message', fault => json(400, '{"code":"invalid_argument","message":"' . 'x' x 60_000 . '"}'),
		read => '22023 1', change => '22023 1' });

my $instance = VerdictDev->start(api_keys => ['fault-key']);
my $node = PostgreSQL::Test::Cluster->new('faults');
$node->init;
$node->append_conf('postgresql.conf', 'verdict.mutation_mode = immediate');
$node->start;

my $setup = 'CREATE EXTENSION verdict;';
for my $format (qw(binary json))
{
	my $options = "wire_format '$format', max_response_bytes '1000000', instance_url '" . $instance->url . "'";
	$setup .= <<"END";
CREATE SERVER ${format}_calm FOREIGN DATA WRAPPER verdict OPTIONS ($options);
CREATE SERVER ${format}_hasty FOREIGN DATA WRAPPER verdict
	OPTIONS ($options, read_timeout_ms '250', mutation_attempt_timeout_ms '250');
CREATE USER MAPPING FOR PUBLIC SERVER ${format}_calm OPTIONS (api_key 'fault-key');
CREATE USER MAPPING FOR PUBLIC SERVER ${format}_hasty OPTIONS (api_key 'fault-key');
END
}
$node->safe_psql('postgres', $setup);
$instance->call('SetPolicy', { policy => 'allow(user, "read", doc) if viewer(user, doc);' });
$instance->call('InsertFact', { fact => VerdictDev::fact_of('viewer', 'User:alice', "Document:$_") }) for 1 .. 3;
my $session = PsqlSession->new($node, 'postgres', 'SET client_min_messages = error');

# Uses a server by a new client, with no connection yet and a fresh retry budget.
sub use_anew
{
	my ($server, $on_failure) = @_;
	$session->must("ALTER SERVER $server OPTIONS (SET max_response_bytes '1000000'); SELECT verdict_stat_reset(); SET verdict.server = $server; "
		  . 'SET verdict.on_failure = ' . ($on_failure // 'error'));
	return;
}

# An order with the values that depend on the format filled in.
sub in_format
{
	my ($order, $format) = @_;
	return { map { $_ => ref $order->{$_} eq 'CODE' ? $order->{$_}->($format) : $order->{$_} } keys %$order };
}

# The requests of one method; when "all" is said, after the instance is through
# with them, also with those whose caller has gone.
sub requests
{
	my ($method, $all) = @_;
	my $end = time + 10;
	while (1)
	{
		my @log = grep { ($_->{method} // '') eq $method } @{ $instance->log };
		return @log if !$all || !grep({ !$_->{ended} } @log) || time > $end;
		sleep 0.02;
	}
}

# How many different values there are.
sub different
{
	my %seen;
	$seen{ $_ // '' }++ for @_;
	return scalar keys %seen;
}

# Whether the fact of a number is there, as the instance says.
sub stored
{
	my ($number) = @_;
	my $answer = $instance->call('ListFacts', { pattern => { predicate => 'probe',
		args => [ { value => { identity => { type => 'Document', id => "$number" } } } ] } });
	return scalar @{ $answer->{body}{facts} // [] };
}

sub account
{
	return join '', map { "request $_->{number}: connection $_->{connection}, fault "
		  . ($_->{fault} // 'none') . ', status ' . ($_->{status} // 'none')
		  . ($_->{executed} ? ', executed' : '') . ($_->{replayed} ? ', replayed' : '') . "\n" } @_;
}

my $number = 0;
my $check = q{SELECT verdict_authorize('User:alice', 'read', 'Document:1')};

# A statement about a fact of its own.
sub numbered
{
	my ($sql) = @_;
	++$number;
	return $sql =~ s/NUMBER/$number/gr;
}

# One operation meets one fault.
sub meet
{
	my ($operation, $row, $format) = @_;
	my $calls = $operation->{calls} // 1;
	my $change = $operation->{change};
	my $sql = numbered($operation->{sql});
	my ($result, $sends) = split / /, $row->{ $change ? 'change' : 'read' };

	use_anew($format . ($row->{hasty} ? '_hasty' : '_calm'), $operation->{deny} ? 'deny' : 'error');
	# As many kept connections as calls that will be under way together.
	$session->must($calls > 1 ? $sql : $check) if $row->{reused};
	$instance->clear_log;
	$instance->fault($operation->{method}, in_format($_, $format), times => $row->{times} // $always)
	  for ref $row->{fault} eq 'ARRAY' ? @{ $row->{fault} } : $row->{fault};

	my $began = time;
	my ($answer, $state) = $session->ask($sql);
	my $took = time - $began;
	my $error = $session->error;
	$instance->clear_faults;
	my @requests = requests($operation->{method}, $change);
	my ($next, $next_state) = $session->ask($check);

	my %got = (answer => $answer, state => $state, requests => scalar @requests, next => "$next $next_state",
		keys => different(map { $_->{headers}{'idempotency-key'} } @requests),
		time => $took >= ($row->{takes} // 0) && $took < ($row->{hasty} ? 0.25 * $sends + 0.35 : 10) ? 'good' : $took);
	my %wanted = (answer => $operation->{answer}, state => '00000', requests => $calls + $sends - 1, next => 't 00000',
		keys => 1, time => 'good');
	if ($result ne 'ok')
	{
		$wanted{answer} = $operation->{deny} ? 'f' : '';
		$wanted{state} = $result unless $operation->{deny};
		# One call that fails ends the others, wherever they are.
		$wanted{requests} = @requests if $calls > 1 && @requests >= 1 && @requests <= $calls * $sends;
	}
	if ($change)
	{
		$got{executed} = grep { $_->{executed} } @requests;
		$got{replayed} = grep { $_->{replayed} } @requests;
		$got{stored} = stored($number);
		$got{bodies} = different(map { "$_->{body_sha256} $_->{headers}{'x-request-id'}" } @requests);
		$wanted{executed} = $wanted{stored} = $result eq 'ok' || $row->{ran} ? 1 : 0;
		$wanted{replayed} = $row->{ran} ? $sends - 1 : 0;
		$wanted{bodies} = 1;
	}
	$got{keyed} = grep { defined $_->{headers}{'idempotency-key'} } @requests;
	$wanted{keyed} = $change ? @requests : 0;
	my ($seen, $expected) = map { my $facts = $_; join ', ', map { "$_ $facts->{$_}" } sort keys %$facts } \%got, \%wanted;
	is($seen, $expected, "$format, $operation->{name}: $row->{name}") || diag("error: $error\n" . account(@requests));
	return;
}

for my $format (qw(binary json))
{
	for my $row (@faults)
	{
		my %only = map { $_ => 1 } @{ $row->{only} // [] };
		meet($_, $row, $format) for grep { !%only || $only{ $_->{name} } } @operations;
	}
}

# The instance changes something by a request of a kept connection, which dies before
# a byte of the answer is out: the change is asked for again under its key, once, on
# another connection, and has happened once.
for my $format (qw(binary json))
{
	for my $how ({}, { reset => $true })
	{
		my $end = $how->{reset} ? 'is reset' : 'closes';
		my $fact = 'probe(Document:' . ++$number . ')';
		for my $change (
			[ InsertFact => "verdict_insert_fact('$fact')", 't' ],
			[ DeleteFact => "verdict_delete_fact('$fact')", 't' ],
			[ BatchFacts => "verdict_batch_facts(ARRAY['$fact', 'other$fact']::verdict_fact[])", '2' ],
			[ SetPolicy => q{verdict_set_policy(verdict_get_policy() || '# changed')}, '' ])
		{
			my ($method, $call, $answer) = @$change;
			my $name = "$format, $method, the kept connection $end after the change";

			use_anew("${format}_calm");
			$session->must("$check; $check");
			$instance->clear_log;
			$instance->fault($method, { kind => 'close', when => 'after', %$how });
			is_deeply([ $session->ask("SELECT $call") ], [ $answer, '00000' ], "$name: it succeeds");
			my @requests = requests($method, 1);
			is(join(', ', map { $_->{executed} ? 'executed' : $_->{replayed} ? 'replayed' : 'neither' } @requests),
				'executed, replayed', "$name: two requests, one effect");
			is(different(map { "$_->{headers}{'idempotency-key'} $_->{body_sha256}" } @requests), 1, "$name: one key, one body");
			is(different(map { $_->{connection} } @requests), 2, "$name: two connections");
		}
	}
}

# A message without a byte is the empty message: nothing is allowed, nothing changed.
for my $format (qw(binary json))
{
	use_anew("${format}_calm");
	$instance->fault('*', { kind => 'body', hex => '' }, times => $always);
	is(join(' ', $session->ask($check)), 'f 00000', "$format, empty answer: a check");
	is(join(' ', $session->ask("SELECT verdict_insert_fact('probe(Document:empty)')")), 'f 00000', "$format, empty answer: an insert");
	is(($session->ask($operations[4]{sql}))[1], '08P01', "$format, empty answer: a query misses its variable");
	$instance->clear_faults;
}

# Whoever else owns the retries: this client sends everything once.
sub sends
{
	my ($method, $sql, $fault) = @_;
	$session->must($check);
	$instance->clear_log;
	$instance->fault($method, $fault, times => $always);
	my ($answer, $state) = $session->ask($sql);
	$instance->clear_faults;
	return scalar(requests($method)) . " $state";
}
use_anew('binary_calm');
for my $owner (qw(application mesh none))
{
	$session->must("ALTER SERVER binary_calm OPTIONS (ADD retry_owner '$owner')");
	for my $fault ([ '503', busy(0) ], [ 'a lost kept connection', { kind => 'close' } ])
	{
		is(sends('Authorize', $check, $fault->[1]), '1 08006', "retry_owner $owner: a check, $fault->[0]");
		is(sends('InsertFact', numbered($operations[5]{sql}), $fault->[1]), '1 08006', "retry_owner $owner: an insert, $fault->[0]");
	}
	$session->must('ALTER SERVER binary_calm OPTIONS (DROP retry_owner)');
}
$session->must(q{ALTER SERVER binary_calm OPTIONS (ADD retry_http_503 'false')});
is(sends('Authorize', $check, busy(0)), '1 08006', 'retry_http_503 off: a check');
is(sends('InsertFact', numbered($operations[5]{sql}), busy(0)), '2 08006', 'retry_http_503 off: an insert has its second attempt');
$session->must('ALTER SERVER binary_calm OPTIONS (DROP retry_http_503)');

# Retries fade while everything fails: three in reserve, then one for ten successes.
use_anew('binary_calm');
is(join(' ', map { (split / /, sends('InsertFact', numbered($operations[5]{sql}), code('resource_exhausted')))[0] } 1 .. 8), '2 2 2 1 1 1 1 1',
	'the reserve of retries is used up');
$session->must(join '; ', ($check) x 5);
is(join(' ', map { (split / /, sends('InsertFact', numbered($operations[5]{sql}), code('resource_exhausted')))[0] } 1 .. 2), '2 1',
	'and earned again by successes');

# Revisions that do not belong together end the session's claim, and nothing else.
my $revision = q{SELECT coalesce(revision, 'none'), inconsistent FROM verdict_session()};
my $eventual = $check =~ s/\)$/, 'eventual')/r;
sub answer_with { return $instance->fault('Authorize', { kind => 'revision', values => [@_] }) }
for my $bad ([ 'a malformed revision', 'v1.a.1' ], [ 'another instance', 'v1.b.1.9' ], [ 'another generation', 'v1.a.2.9' ],
	[ 'two revisions', 'v1.a.1.9', 'v1.a.1.9' ], [ 'a revision that is too long', 'v1.' . 'a' x 65 . '.1.9' ])
{
	my ($name, @values) = @$bad;

	use_anew('binary_calm');
	$session->must('BEGIN');
	answer_with('v1.a.1.5');
	$session->must($check);
	is($session->must($revision), 'v1.a.1.5|f', "$name: after a good one");
	$instance->clear_log;
	$instance->fault('Authorize', { kind => 'status', status => 500, headers => { 'Verdict-Revision' => \@values } });
	$session->must('SAVEPOINT s');
	is(($session->ask($check))[1], 'HV000', "$name: a failed call");
	$session->must('ROLLBACK TO s');
	is($session->must($revision), 'v1.a.1.5|f', "$name: does not touch the session");
	is((requests('Authorize'))[0]{headers}{'verdict-revision'}, 'v1.a.1.5', "$name: the good one was sent");
	answer_with(@values);
	is($session->must($check =~ s/\)$/, 'eventual')/r), 't', "$name: the answer itself counts");
	is($session->must($revision), 'none|t', "$name: the session is inconsistent");
	$instance->clear_log;
	is(($session->ask("SAVEPOINT s; $check"))[1], '55000', "$name: a session read is refused");
	is(($session->ask("ROLLBACK TO s; SELECT verdict_authorize('User:alice', 'read', 'Document:1', 'authoritative')"))[1],
		'55000', "$name: an authoritative read is refused");
	is(scalar(requests('Authorize')), 0, "$name: neither is sent");
	is($session->must("ROLLBACK TO s; $eventual"), 't', "$name: an eventual read works");
	$session->must(q{SELECT verdict_new_session()});
	is($session->must($check), 't', "$name: a fresh session works");
	is((requests('Authorize'))[-1]{headers}{'verdict-revision'}, undef, "$name: without a revision");
	$session->must('COMMIT');
}
use_anew('binary_calm');
$session->must('BEGIN');
for my $step ([ 'v1.a.1.5,2:7', 'v1.a.1.5,2:7' ], [ 'v1.a.1.4,2:8', 'v1.a.1.5,2:8' ], [ 'v1.a.1.1', 'v1.a.1.5,2:8' ])
{
	answer_with($step->[0]);
	$session->must($eventual);
	is($session->must($revision), "$step->[1]|f", "an answer of $step->[0] takes nothing back");
}
$session->must('COMMIT');

# Two servers by turns in one transaction: each sees its own revisions only.
$session->must('BEGIN');
for my $turn ([ 'binary_calm', 'v1.a.1.5' ], [ 'json_calm', 'v1.b.9.1' ], [ 'binary_calm', 'v1.a.1.6' ], [ 'json_calm', 'v1.b.9.2' ])
{
	my ($server, $answered) = @$turn;

	answer_with($answered);
	is($session->must("SET LOCAL verdict.server = $server; $eventual"), 't', "by turns, $server");
	is($session->must($revision), "$answered|f", "by turns, $server: its own revision");
	# Answered without a look at the request: this instance knows no revision.
	$instance->clear_log;
	$instance->fault('Authorize', in_format(body(%yes), $server =~ s/_.*//r));
	is($session->must($check), 't', "by turns, $server again");
	is((requests('Authorize'))[0]{headers}{'verdict-revision'}, $answered, "by turns, $server: is sent to it");
}
$session->must('COMMIT');

# No instance: nothing is sent, and nobody is trusted.
my ($certificate, $private) = VerdictDev::certificate();
my $secure = VerdictDev->start(api_keys => ['fault-key'], args => [ '--tls-cert', $certificate, '--tls-key', $private ]);
my $gone = VerdictDev->start;
my $gone_url = $gone->url;
$gone->stop;
for my $where ([ 'nobody listens', $gone_url ], [ 'no TLS there', $instance->url =~ s/^http/https/r ],
	[ 'a certificate nobody vouches for', $secure->url ], [ 'TLS there', $secure->url =~ s/^https/http/r ])
{
	my ($name, $url) = @$where;

	$instance->clear_log;
	$secure->clear_log;
	$session->must("ALTER SERVER binary_calm OPTIONS (SET instance_url '$url')");
	for my $operation (@operations)
	{
		my ($answer, $state) = $session->ask('SET verdict.on_failure = ' . ($operation->{deny} ? 'deny; ' : 'error; ')
			  . numbered($operation->{sql}));
		is("$answer $state", $operation->{deny} ? 'f 00000' : ' 08006', "$operation->{name}: $name");
	}
	is(@{ $instance->log } + @{ $secure->log }, 0, "$name: no request");
}
$session->must("ALTER SERVER binary_calm OPTIONS (SET instance_url '" . $instance->url . "')");
is($session->must($check), 't', 'and in the end the same backend gets its answer');

done_testing();
