# Texts beyond ASCII between databases of several encodings and an instance, both
# ways and in both wire formats; text that has no form on the other side.

use strict;
use warnings;
use utf8;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use lib abs_path(dirname(__FILE__)) . '/lib';
use VerdictDev;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(extra => [ '--locale=C', '--encoding=UTF8' ]);
$node->append_conf('postgresql.conf', 'verdict.mutation_mode = immediate');
$node->append_conf('postgresql.conf', "bytea_output = hex\nfsync = off");
$node->start;

my $instance = VerdictDev->start(api_keys => ['encoding-key']);

my %database;
for my $encoding (qw(UTF8 LATIN1 EUC_JP SQL_ASCII))
{
	for my $wire (qw(binary json))
	{
		my $name = lc "${encoding}_$wire";
		$database{$encoding}{$wire} = $name;
		$node->safe_psql('postgres',
			"CREATE DATABASE $name ENCODING '$encoding' LOCALE 'C' TEMPLATE template0");
		my $url = $instance->url;
		$node->safe_psql($name, <<"SQL");
			CREATE EXTENSION verdict;
			CREATE SERVER instance FOREIGN DATA WRAPPER verdict
				OPTIONS (instance_url '$url', wire_format '$wire');
			CREATE USER MAPPING FOR CURRENT_USER SERVER instance OPTIONS (api_key 'encoding-key');
			ALTER DATABASE $name SET verdict.server = 'instance';
SQL
	}
}

# What a statement gives; an error gives its SQLSTATE.  The client speaks UTF-8,
# but in SQL_ASCII, where nothing is converted, so that bytes are as written.
sub ask
{
	my ($name, $sql, $client_encoding) = @_;
	my ($out, $err);
	local $ENV{PGCLIENTENCODING} = $client_encoding // 'UTF8';

	utf8::encode($sql);
	$node->psql($name, "\\set VERBOSITY sqlstate\n$sql",
		stdout => \$out, stderr => \$err, on_error_stop => 1);
	$_ //= '' for $out, $err;
	utf8::decode($out);
	return $1 if $err =~ /ERROR:\s+(\w{5})/;
	return $out;
}

# Facts of one predicate as the instance tells them itself.
sub stored
{
	my ($predicate) = @_;
	my $answer = $instance->call('ListFacts', { pattern => { predicate => $predicate } });
	return [ sort map { join ' ', map { $_->{string} // "$_->{identity}{type}:$_->{identity}{id}" } @{ $_->{args} } }
		@{ $answer->{body}{facts} || [] } ];
}

$instance->call('SetPolicy', { policy => 'allow(actor, "prüfen", what) if may(actor, what);' });
is($instance->call('BatchFacts', { changes => [
	map { { insert => { predicate => 'seen', args => [ { identity => { type => 'Wort', id => $_ } } ] } } }
		'plain', 'été', "\x{20ac}uro", "\x{3042}" ] })->{body}{changed}, 4, 'facts for reading');

for my $wire (qw(binary json))
{
	# Out and back: the instance always has the same characters.
	for my $case (
		[ 'UTF8', "é\x{20ac}\x{3042}\x{1d11e}" ],
		[ 'LATIN1', 'éÿ' ],
		[ 'EUC_JP', "\x{3042}\x{4e9c}" ],
		[ 'SQL_ASCII', "é\x{20ac}\x{3042}\x{1d11e}" ])
	{
		my ($encoding, $word) = @$case;
		my $name = $database{$encoding}{$wire};
		my $predicate = lc "out_${encoding}_$wire";

		is(ask($name, "SELECT verdict_insert_fact('$predicate(Wort:$word, \"($word)\")')"), 't', "$name: inserts");
		is_deeply(stored($predicate), ["Wort:$word ($word)"], "$name: the instance has the characters");
		is(ask($name, "SELECT * FROM verdict_list_facts('$predicate(_, _)')"),
			"$predicate(Wort:$word, \"($word)\")", "$name: listed");
		is(ask($name, "SELECT * FROM verdict_query('$predicate(?a, ?b)') AS x(a verdict_identity, b text)"),
			"Wort:$word|($word)", "$name: queried");
		is(ask($name, "SELECT verdict_identity('Wort', '$word'::text) = 'Wort:$word',
				verdict_identity_id('Wort:$word') = '$word'"), 't|t', "$name: identity");
		is(ask($name, "SELECT verdict_fact('$predicate', 'Wort:$word'::verdict_identity, '($word)'::text)
				= '$predicate(Wort:$word, \"($word)\")'"), 't', "$name: fact built");
		is(ask($name, "SELECT verdict_insert_fact('may(Wort:$word, Ding:$word)')"), $wire eq 'json' || $encoding eq 'SQL_ASCII' ? 'f' : 't',
			"$name: may");
		next if $encoding eq 'EUC_JP';    # has no ü
		is(ask($name, "SELECT verdict_authorize('Wort:$word', 'prüfen', 'Ding:$word'),
				verdict_authorize('Wort:x', 'prüfen', 'Ding:$word'),
				verdict_authorize_many('Wort:$word', 'prüfen', '{Ding:$word,Ding:x}')"),
			't|f|{t,f}', "$name: checked");
		is(ask($name, "SELECT verdict_list_resources('Wort:$word', 'prüfen', 'Ding')"), $word, "$name: resources");
		is(ask($name, "SELECT verdict_list_actions('Wort:$word', 'Ding:$word')"), 'prüfen', "$name: actions");
	}

	# What the database's encoding lacks is an error, and never another character.
	for my $case (
		[ 'UTF8', 1, "Wort:plain Wort:été Wort:\x{20ac}uro Wort:\x{3042}" ],
		[ 'SQL_ASCII', 1, "Wort:plain Wort:été Wort:\x{20ac}uro Wort:\x{3042}" ],
		[ 'LATIN1', 0, '22P05' ],
		[ 'EUC_JP', 0, '22P05' ])
	{
		my ($encoding, $complete, $expected) = @$case;
		my $name = $database{$encoding}{$wire};

		is(ask($name, q{SELECT string_agg(a, ' ' ORDER BY a COLLATE "C") FROM verdict_query('seen(?a)') AS x(a text)}),
			$expected, "$name: all words");
		is(ask($name, q{SELECT count(*) FROM verdict_list_facts('seen(_)')}),
			$complete ? 4 : '22P05', "$name: all facts");
		is(ask($name, q{SELECT count(*) FROM verdict_query('seen(Wort:plain)') AS x(holds boolean)}),
			1, "$name: the next call works");
	}
	# No row can have such an id, so an array of rows' ids is complete without it.
	$instance->call('BatchFacts', { changes => [
		map { { insert => { predicate => 'may', args => [ { identity => { type => 'Wort', id => 'leser' } }, { identity => { type => 'Ding', id => $_ } } ] } } }
			'plain', 'été', "\x{3042}" ] });
	is(ask($database{LATIN1}{$wire}, q{SELECT ARRAY(SELECT unnest(verdict_resource_ids('Wort:leser', 'prüfen', 'Ding', NULL::text)) ORDER BY 1)}),
		'{plain,été}', 'LATIN1: ids that a row can have');
	is(ask($database{LATIN1}{$wire}, q{SELECT verdict_list_resources('Wort:leser', 'prüfen', 'Ding')}),
		'22P05', 'LATIN1: a list has all or fails');
	is(ask($database{LATIN1}{$wire}, q{SELECT verdict_authorize('Wort:€', 'x', 'Ding:1')}),
		'22P05', 'LATIN1: no way in for a character it lacks');

	# Bytes that are no UTF-8 do not leave a SQL_ASCII database.
	my $name = $database{SQL_ASCII}{$wire};
	for my $statement (
		q{SELECT E'Wort:\xe9'::verdict_identity},
		q{SELECT verdict_identity('Wort', E'\xe9'::text)},
		q{SELECT verdict_identity('Wort', E'\xe9'::name)},
		q{SELECT E'f("\xe9")'::verdict_fact},
		q{SELECT verdict_fact('f', E'\xe9')},
		q{SELECT verdict_authorize('Wort:a', E'\xe9', 'Ding:1')},
		q{SELECT verdict_list_resources('Wort:a', E'\xe9', 'Ding')},
		q{SELECT verdict_set_policy(E'// \xe9')})
	{
		is(ask($name, $statement), '22021', "$name: $statement");
	}
	is(ask($name, q{SELECT verdict_list_resources('Wort:a', 'x', E'\xe9')}), '22021', "$name: type");

	# The policy.
	$name = $database{LATIN1}{$wire};
	is(ask($name, q{SELECT verdict_set_policy('// für é
allow(actor, "prüfen", what) if may(actor, what);')}), '', "$name: policy set");
	is($instance->call('GetPolicy', {})->{body}{policy},
		qq{// für é\nallow(actor, "prüfen", what) if may(actor, what);}, "$name: policy in characters");
	is(ask($name, q{SELECT left(verdict_get_policy(), 8)}), '// für é', "$name: policy read");
	is(ask($database{UTF8}{$wire}, q{SELECT verdict_set_policy('// € 
allow(actor, "prüfen", what) if may(actor, what);')}), '', 'a policy with a euro sign');
	is(ask($name, q{SELECT verdict_get_policy()}), '22P05', "$name: policy that has no form here");
	is(ask($database{EUC_JP}{$wire}, q{SELECT verdict_get_policy()}), '22P05', 'EUC_JP: the same');

	# An error of the instance can always be told.
	$instance->fault('Authorize', { kind => 'error', code => 'internal', message => "kaputt \x{20ac} é" }, times => 4);
	for my $encoding (qw(UTF8 LATIN1 EUC_JP SQL_ASCII))
	{
		my $name = $database{$encoding}{$wire};
		my ($out, $err);
		local $ENV{PGCLIENTENCODING} = 'UTF8';
		$node->psql($name, q{SELECT verdict_authorize('Wort:a', 'x', 'Ding:1')}, stdout => \$out, stderr => \$err);
		like($err, qr/ERROR:.*kaputt/, "$name: message of the instance");
	}

	# Bytes of the instance that are no text.
	for my $bad ([ 'no UTF-8', "\xff" ], [ 'cut UTF-8', "\xc3" ], [ 'surrogate', "\xed\xa0\x80" ],
		[ 'overlong', "\xc0\x80" ], [ 'NUL', "\0" ])
	{
		my ($what, $bytes) = @$bad;
		my $length = length $bytes;
		my $in_json = $bytes eq "\0" ? '\\u0000' : $bytes;
		my $body = $wire eq 'json'
		  ? qq({"variables":["a"],"rows":[{"values":[{"string":"$in_json"}]}]})
		  : "\x0a\x01a\x12" . chr($length + 4) . "\x0a" . chr($length + 2) . "\x12" . chr($length) . $bytes;
		$instance->fault('Query', { kind => 'body', hex => unpack('H*', $body) }, times => 4);
		for my $encoding (qw(UTF8 LATIN1 EUC_JP SQL_ASCII))
		{
			my $name = $database{$encoding}{$wire};
			is(ask($name, q{SELECT * FROM verdict_query('f(?a)') AS x(a text)}), '08P01', "$name: $what");
		}
		$instance->clear_faults;
	}

	# A megabyte is a value like any other.
	$name = $database{UTF8}{$wire};
	is(ask($name, "SELECT verdict_insert_fact('large_$wire', repeat('é', 524288), verdict_identity('Wort', repeat('x', 1048576)))"),
		't', "$name: a large fact goes out");
	is(ask($name, "SELECT length(a), a = repeat('é', 524288), octet_length(b::text)
			FROM verdict_query('large_$wire(?a, ?b)') AS x(a text, b verdict_identity)"),
		'524288|t|1048581', "$name: and comes back");
	is(ask($name, "SELECT octet_length(f::text) FROM verdict_list_facts('large_$wire(_, _)') AS f"),
		1048576 + 1048581 + length("large_$wire") + 6, "$name: as a fact too");
	is(ask($name, q{SELECT verdict_authorize('Wort:a', repeat('x', 1048576), verdict_identity('Ding', repeat('y', 1048576)))}),
		'f', "$name: in a check");
}

# The binary form is in the client's encoding.
is(ask($database{UTF8}{binary}, q{SET client_encoding = 'LATIN1'; SELECT verdict_identity_send(('Wort:' || U&'\00e9')::verdict_identity), verdict_fact_send(('f("' || U&'\00e9' || '")')::verdict_fact)}),
	'\x576f72743ae9|\x662822e92229', 'sent in the encoding of the client');

# Templates of a trigger and the setting verdict.actor are text of the database, too.
for my $encoding (qw(UTF8 LATIN1 EUC_JP SQL_ASCII))
{
	my $name = $database{$encoding}{binary};
	is(ask($name, q{SET verdict.actor = 'Wort:né'; SELECT verdict_identity_id(verdict_actor())}), 'né', "$name: actor");
	ask($name, <<"SQL");
		CREATE TABLE spoken (word text);
		CREATE TRIGGER emit AFTER INSERT ON spoken FOR EACH ROW
			EXECUTE FUNCTION verdict_emit_fact('spoken_\L$encoding\E', 'Wort:Köln/{word}', 'é {word}');
		INSERT INTO spoken VALUES ('né');
SQL
	is_deeply(stored("spoken_\L$encoding"), ['Wort:Köln/né é né'], "$name: trigger");
}

$node->stop;
is($instance->stop, 0, 'the instance ends well');
done_testing();
