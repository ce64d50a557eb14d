# verdict_emit_fact() where one session and one kind of statement are not enough:
# MERGE, logical replication, another encoding, and many rows.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VerdictDev;

my $instance = VerdictDev->start(api_keys => ['trigger-key']);
my $url = $instance->url;
my $templates = q{'is_owner', 'User:{owner_id}', 'Document:{id}'};

# What a database needs before its tables have triggers.
sub prepare
{
	my ($node, $database) = @_;
	$node->safe_psql($database, <<"END");
CREATE EXTENSION verdict;
CREATE SERVER main FOREIGN DATA WRAPPER verdict OPTIONS (instance_url '$url');
CREATE USER MAPPING FOR CURRENT_USER SERVER main OPTIONS (api_key 'trigger-key');
ALTER DATABASE $database SET verdict.server = 'main';
END
}

# A trigger for each row, or for each statement.
sub row_trigger
{
	my ($table) = @_;
	return "CREATE TRIGGER emit AFTER INSERT OR UPDATE OR DELETE ON $table FOR EACH ROW EXECUTE FUNCTION verdict_emit_fact($templates);";
}

sub statement_triggers
{
	my ($table) = @_;
	my %tables = (INSERT => 'NEW TABLE AS n', DELETE => 'OLD TABLE AS o', UPDATE => 'OLD TABLE AS o NEW TABLE AS n');
	return join "\n", map {
		"CREATE TRIGGER emit_\L$_\E AFTER $_ ON $table REFERENCING $tables{$_} FOR EACH STATEMENT EXECUTE FUNCTION verdict_emit_fact($templates);"
	} sort keys %tables;
}

# The facts of the instance, in short: "alice:1 bob:2".
sub facts
{
	my ($node, $database) = @_;
	return $node->safe_psql($database, <<'END');
SELECT coalesce(string_agg(who || ':' || what, ' ' ORDER BY what COLLATE "C", who COLLATE "C"), '') FROM
	verdict_query('is_owner(?u:User, ?d:Document)') AS q (u verdict_identity, d verdict_identity),
	verdict_identity_id(u) AS who, verdict_identity_id(d) AS what
END
}

my $node = PostgreSQL::Test::Cluster->new('trigger');
$node->init(allows_streaming => 'logical');
$node->append_conf('postgresql.conf', "fsync = off\njit = off\nautovacuum = off\nmax_wal_size = 2GB\n");
$node->start;
prepare($node, 'postgres');
my $version = $node->safe_psql('postgres', 'SHOW server_version_num');

SKIP:
{
	skip 'MERGE came with PostgreSQL 15', 4 if $version < 150000;
	for my $kind (qw(row statement))
	{
		$node->safe_psql('postgres', 'CREATE TABLE doc (id integer PRIMARY KEY, owner_id text);'
			  . ($kind eq 'row' ? row_trigger('doc') : statement_triggers('doc')));
		$node->safe_psql('postgres', <<'END');
INSERT INTO doc VALUES (1, 'alice'), (2, 'bob'), (3, 'carol');
MERGE INTO doc USING (VALUES (1, 'alice'), (2, 'xavier'), (3, NULL), (4, 'dan')) AS source (id, owner_id) ON doc.id = source.id
	WHEN MATCHED AND source.owner_id IS NULL THEN DELETE
	WHEN MATCHED THEN UPDATE SET owner_id = source.owner_id
	WHEN NOT MATCHED THEN INSERT VALUES (source.id, source.owner_id);
END
		is(facts($node, 'postgres'), 'alice:1 xavier:2 dan:4', "MERGE, $kind trigger");
		# The row goes, and another one with its fact comes.
		$node->safe_psql('postgres', <<'END') if $kind eq 'row';
ALTER TABLE doc DROP CONSTRAINT doc_pkey, ADD COLUMN line integer;
UPDATE doc SET line = id;
MERGE INTO doc USING (VALUES (4, true), (7, false)) AS source (line, old) ON doc.line = source.line
	WHEN MATCHED THEN DELETE
	WHEN NOT MATCHED THEN INSERT VALUES (4, 'dan', source.line);
END
		is(facts($node, 'postgres'), 'alice:1 xavier:2 dan:4', "$kind trigger: the end is right") if $kind eq 'row';
		$node->safe_psql('postgres', 'DELETE FROM doc; DROP TABLE doc');
		is(facts($node, 'postgres'), '', "all is gone again");
	}
}

# What the README says to write.
my ($section) = slurp_file("$FindBin::RealBin/../../README.md") =~ /^## Triggers\n(.*?)^## /ms;
my @blocks = $section =~ /```sql\n(.*?)```/sg;
$node->safe_psql('postgres', join "\n", 'CREATE TABLE document (id integer, owner_id text);', @blocks);
$node->safe_psql('postgres', q{INSERT INTO document VALUES (1, 'alice'), (2, 'bob'); UPDATE document SET id = id + 1; DELETE FROM document WHERE id = 2});
is(facts($node, 'postgres'), 'bob:3', "the README's triggers");
like(($node->psql('postgres', 'TRUNCATE document'))[2], qr/cannot truncate table "document"/, 'and TRUNCATE is refused');
$node->safe_psql('postgres', <<'END');
ALTER SERVER main RENAME TO app;
DROP TRIGGER fact_inserted ON document;
CREATE TRIGGER fact_inserted AFTER INSERT ON document REFERENCING NEW TABLE AS new_rows
	FOR EACH STATEMENT EXECUTE FUNCTION emit_to_app('is_owner', 'User:{owner_id}', 'Document:{id}');
INSERT INTO document VALUES (4, 'carol');
ALTER SERVER app RENAME TO main;
END
is($node->safe_psql('postgres', 'SELECT server, method, changes FROM verdict_outbox'), 'app|BatchFacts|1', 'and its pinned function');
$node->safe_psql('postgres', 'DELETE FROM verdict_outbox; DELETE FROM document; DROP TABLE document');
is(facts($node, 'postgres'), '', 'all is gone again');

# Many rows: few batches, whole, in order, and memory that does not follow the rows.
my $million = 200_000;
$node->safe_psql('postgres', <<"END");
CREATE TABLE doc (id integer, owner_id integer);
${\ statement_triggers('doc')}
COPY (SELECT n, n % 1000 FROM generate_series(1, $million) AS n) TO '${\ $node->basedir}/rows';
ALTER SERVER main OPTIONS (ADD batch_size '5000');
END
$instance->clear_log;
$node->safe_psql('postgres', "COPY doc FROM '${\ $node->basedir}/rows'");
my @batches = map { $_->{method} } @{ $instance->log };
is(scalar @batches, $million / 5000, 'COPY: the batches are full');
is(join(' ', keys %{ { map { $_ => 1 } @batches } }), 'BatchFacts', 'and nothing else is sent');
is($node->safe_psql('postgres', <<'END'), "$million|0", 'every row has its fact');
WITH facts AS MATERIALIZED (SELECT fact FROM verdict_list_facts('is_owner(_, _)') AS fact)
SELECT (SELECT count(*) FROM facts), (SELECT count(*) FROM (
	SELECT verdict_fact('is_owner', verdict_identity('User', owner_id), verdict_identity('Document', id)) FROM doc
	EXCEPT SELECT fact FROM facts) AS missing)
END

# The most memory that a session of its own needed for a statement, in kB.
sub peak
{
	my (@statements) = @_;
	return $node->safe_psql('postgres', join(";\n", 'SET verdict.mutation_mode = outbox', 'SET client_min_messages = warning',
		"SET work_mem = '1MB'", @statements,
		q{SELECT (regexp_match(pg_read_file('/proc/self/status'), 'VmHWM:\s+(\d+)'))[1]}));
}
for my $case (
	[ 'an UPDATE of all facts', 'UPDATE doc SET id = id + 1, owner_id = 1 WHERE id <= %d' ],
	[ 'an UPDATE of no fact', 'UPDATE doc SET owner_id = owner_id WHERE id <= %d' ],
	[ 'an INSERT', "INSERT INTO doc SELECT n, 5 FROM generate_series(1, %d) AS n" ],
	[ 'a DELETE', 'DELETE FROM doc WHERE id <= %d' ])
{
	my ($name, $statement) = @$case;
	my ($little, $much) = map { peak('BEGIN', sprintf($statement, $_), 'ROLLBACK') } $million / 10, $million;
	note "$name: $little kB, $much kB";
	cmp_ok($much - $little, '<', 8 * 1024, "$name: ten times the rows take no more memory");
}
# The same for each row; the server's own list of events is 16 bytes a row.
$node->safe_psql('postgres', 'CREATE TABLE each (id integer, owner_id integer);' . row_trigger('each'));
my ($little, $much) = map { peak('BEGIN', "INSERT INTO each SELECT n, 5 FROM generate_series(1, $_) AS n", 'ROLLBACK') } $million / 10, $million;
note "each row: $little kB, $much kB";
cmp_ok($much - $little, '<', 8 * 1024 + 16 * $million / 1024, 'each row: nothing is left of a row');

# Cancelled in the middle: nothing stays.
$instance->clear_log;
my ($status, $out, $err) = $node->psql('postgres', "SET statement_timeout = '100ms'; UPDATE doc SET id = id + 1");
like($err, qr/statement timeout/, 'a statement that is cancelled');
is(scalar @{ $instance->log }, 0, 'sends nothing');
$node->safe_psql('postgres', 'DELETE FROM doc; DROP TABLE doc, each');
is(facts($node, 'postgres'), '', 'all is gone again');

# Another encoding than UTF-8.
$node->safe_psql('postgres', q{CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0});
prepare($node, 'latin');
$node->safe_psql('latin', 'CREATE TABLE doc (id integer, owner_id text);' . statement_triggers('doc'));
$node->safe_psql('latin', q{SET client_encoding = 'UTF8'; INSERT INTO doc VALUES (1, 'né'); UPDATE doc SET owner_id = 'naïf'});
is($instance->call('ListFacts', {})->{body}{facts}[0]{args}[0]{identity}{id}, "na\x{ef}f", 'LATIN1 becomes UTF-8');
$node->safe_psql('latin', 'DELETE FROM doc');
is(facts($node, 'latin'), '', 'and is found again');

# Logical replication: what is applied fires row triggers that are enabled for it,
# with the mapping of the table's owner.
my $subscriber = PostgreSQL::Test::Cluster->new('subscriber');
$subscriber->init;
$subscriber->append_conf('postgresql.conf', "fsync = off\n");
$subscriber->start;
prepare($subscriber, 'postgres');
$node->safe_psql('postgres', <<'END');
CREATE TABLE doc (id integer PRIMARY KEY, owner_id text);
INSERT INTO doc VALUES (1, 'early');
CREATE PUBLICATION pub FOR TABLE doc;
END
$subscriber->safe_psql('postgres', 'CREATE TABLE doc (id integer PRIMARY KEY, owner_id text);' . row_trigger('doc'));
$subscriber->safe_psql('postgres', "CREATE SUBSCRIPTION sub CONNECTION '${\ $node->connstr} dbname=postgres' PUBLICATION pub");
$subscriber->wait_for_subscription_sync($node, 'sub') if $subscriber->can('wait_for_subscription_sync');
$subscriber->poll_query_until('postgres', 'SELECT count(*) = 1 FROM doc') or die 'the table was not copied';
$node->safe_psql('postgres', q{INSERT INTO doc VALUES (2, 'quiet')});
$node->wait_for_catchup('sub');
is($subscriber->safe_psql('postgres', 'SELECT count(*) FROM doc'), '2', 'the rows are applied');
is(facts($subscriber, 'postgres'), '', 'an ordinary trigger does not fire for them');
$subscriber->safe_psql('postgres', 'ALTER TABLE doc ENABLE ALWAYS TRIGGER emit');
$node->safe_psql('postgres', q{INSERT INTO doc VALUES (3, 'loud'); UPDATE doc SET owner_id = 'louder' WHERE id = 3; DELETE FROM doc WHERE id = 2});
$node->wait_for_catchup('sub');
is(facts($subscriber, 'postgres'), 'louder:3', 'one that is enabled always does');
$node->safe_psql('postgres', q{TRUNCATE doc});
$node->wait_for_catchup('sub');
is(facts($subscriber, 'postgres'), 'louder:3', 'a TRUNCATE that is applied leaves the facts');
$subscriber->safe_psql('postgres', 'DROP SUBSCRIPTION sub');

$subscriber->stop;
$node->stop;
is($instance->stop, 0, 'the instance ends well');
done_testing();
