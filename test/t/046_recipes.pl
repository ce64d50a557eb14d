# The recipes of the README, each as it stands in a database of its own.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PsqlSession;
use Test::More;
use VerdictDev;

my $readme = slurp_file("$FindBin::RealBin/../../README.md");
my ($recipes) = $readme =~ /^## Recipes\n(.*?)(?=^## )/ms or die 'no recipes';
my %recipe = map { /^(.*?)\n.*?```sql\n(.*?)```/s ? ($1 => $2) : () } split /^### /m, $recipes;
my $key = 'your-instance-key';
my $instance = VerdictDev->start(api_keys => [$key]);
my $url = $instance->url;
my $node = PostgreSQL::Test::Cluster->new('recipes');
$node->init;
$node->start;

# What the recipes begin with.
$node->safe_psql('postgres', <<'END');
CREATE ROLE app_user LOGIN;
CREATE ROLE alice LOGIN;
CREATE ROLE bob LOGIN;
CREATE ROLE stranger LOGIN;
GRANT app_user TO alice, bob, stranger;
CREATE DATABASE base;
END
$node->safe_psql('base', <<"END");
CREATE EXTENSION verdict;
CREATE SERVER app FOREIGN DATA WRAPPER verdict OPTIONS (instance_url '$url');
CREATE USER MAPPING FOR PUBLIC SERVER app OPTIONS (api_key '$key');
GRANT USAGE ON FOREIGN SERVER app TO app_user;
SET verdict.server = 'app';
SELECT verdict_set_policy('allow(user, "read", doc) if is_owner(user, doc); allow(user, "read", doc) if viewer(user, doc);');
CREATE TABLE document (id integer PRIMARY KEY, owner_id text NOT NULL, title text);
CREATE TRIGGER emit_owner AFTER INSERT OR UPDATE OR DELETE ON document FOR EACH ROW
    EXECUTE FUNCTION verdict_emit_fact('is_owner', 'User:{owner_id}', 'Document:{id}');
INSERT INTO document VALUES (1, 'alice', 'Handbook'), (2, 'bob', 'Roadmap'), (3, 'carol', 'Salaries');
SELECT verdict_insert_fact('viewer(User:alice, Document:2)');
ALTER TABLE document ENABLE ROW LEVEL SECURITY;
GRANT SELECT ON document TO app_user;
END

# A database with what a recipe says, by the beginning of its title; and its text.
my $databases = 0;
sub database
{
	my ($title, $prepare) = @_;
	my ($name) = grep { index($_, $title) == 0 } keys %recipe;
	my $text = delete $recipe{$name};
	my $database = 'recipe_' . ++$databases;
	my $errors;

	$node->safe_psql('postgres', "CREATE DATABASE $database TEMPLATE base");
	$node->safe_psql('postgres', "ALTER DATABASE $database SET verdict.server = 'app'");
	is($node->psql($database, $prepare // $text, stderr => \$errors, on_error_stop => 1), 0, "$name: it runs") or diag($errors);
	return ($database, $text);
}

# A session of a role; dies of what is no answer.
sub session
{
	my ($database, $role) = @_;
	local $ENV{PGUSER} = $role;
	return PsqlSession->new($node, $database);
}
# What a role gets for a statement, and the SQLSTATE.
sub answer
{
	my ($database, $role, $statements) = @_;
	my $session = session($database, $role);
	my ($answer, $state) = $session->ask($statements);
	$session->quit;
	return $state eq '00000' ? $answer : $state;
}

my $titles = 'SELECT title FROM document ORDER BY id';
my ($database, $text);

# ---- request.jwt.claims

($database) = database('A web API');
my $session = session($database, 'app_user');
is($session->must($titles), '', 'without claims there is nothing');
for my $request ([ '{"sub":"alice","role":"web"}', "Handbook\nRoadmap" ], [ '{"sub":"bob"}', 'Roadmap' ], [ '{"role":"web"}', '' ])
{
	my ($claims, $sees) = @$request;
	is($session->must("BEGIN; SELECT set_config('request.jwt.claims', '$claims', true) \\g /dev/null\n$titles"), $sees, "a request with $claims");
	$session->must('COMMIT');
	is($session->must($titles), '', '... and nothing after it');
}
$instance->clear_log;
$session->must(q{BEGIN; SELECT set_config('request.jwt.claims', '{"sub":"alice"}', true)});
$session->must("$titles; COMMIT");
cmp_ok(scalar @{ $instance->log }, '<=', 3, 'with a few calls at most');
$session->quit;

# ---- current_user

($database) = database('Database users');
is(answer($database, 'alice', "SET verdict.actor = 'User:bob'; $titles"), "Handbook\nRoadmap", 'alice sees what alice may, whatever she sets');
is(answer($database, 'bob', $titles), 'Roadmap', '... and bob what bob may');
is(answer($database, 'stranger', $titles), '', '... and a stranger nothing');

# ---- PgBouncer, first as what it makes of a backend

my $policy = q{CREATE POLICY readable ON document FOR SELECT
    USING (verdict_authorize(verdict_actor(), 'read', verdict_identity('Document', id)))};
($database, $text) = database('A pool', $policy);
like($text, qr/SET LOCAL verdict\.actor/, 'the recipe of the pool');
my $request = sub { my ($actor) = @_; return $text =~ s/User:alice/User:$actor/r };

sub use_pool
{
	my ($what, $one, $other) = @_;

	is($one->must($request->('alice')), "Handbook\nRoadmap", "$what: a request of alice");
	is($other->must($request->('bob')), 'Roadmap', "$what: a request of bob");
	is($one->must($titles), '', "$what: a request of nobody");
	is(($one->ask("BEGIN; SET LOCAL verdict.actor = 'User:alice'; SELECT 1 / 0"))[1], '22012', "$what: a request that fails");
	$one->ask('ROLLBACK');
	is($other->must($titles), '', "$what: leaves nothing");
	$one->must("SET verdict.actor = 'User:alice'");
	is($other->must($titles), "Handbook\nRoadmap", "$what: a plain SET does, as the recipe warns");
	$one->must('RESET verdict.actor');
	return;
}
$session = session($database, 'app_user');
use_pool('one backend', $session, $session);
$session->quit;

SKIP:
{
	my $program = $ENV{VERDICT_PGBOUNCER} || '';
	skip 'there is no pgbouncer', 1 if $program eq '';

	my $folder = PostgreSQL::Test::Utils::tempdir();
	my $port = PostgreSQL::Test::Cluster::get_free_port();
	my ($host, $server_port) = ($node->host, $node->port);
	append_to_file("$folder/users", qq{"app_user" ""\n});
	append_to_file("$folder/ini", <<"END");
[databases]
$database = host=$host port=$server_port
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $port
unix_socket_dir =
auth_type = trust
auth_file = $folder/users
pool_mode = transaction
default_pool_size = 1
logfile = $folder/log
pidfile = $folder/pid
END
	my $pid = fork // die "fork: $!";
	if ($pid == 0)
	{
		open STDOUT, '>', '/dev/null';
		open STDERR, '>&', \*STDOUT;
		exec $program, '-q', "$folder/ini" or POSIX::_exit(127);
	}
	my $pooled = sub {
		local $ENV{PGUSER} = 'app_user';
		return PsqlSession->at("host=127.0.0.1 port=$port dbname=$database");
	};
	my ($one, $other);
	for (1 .. 100)
	{
		last if eval { $one = $pooled->(); $one->must('SELECT 1') };
		Time::HiRes::sleep(0.1);
	}
	$other = $pooled->();
	is($one->must('SELECT pg_backend_pid()'), $other->must('SELECT pg_backend_pid()'), 'PgBouncer gives two clients one backend');
	use_pool('PgBouncer', $one, $other);
	is($one->must("BEGIN; SET LOCAL verdict.actor = 'User:alice'; $titles"), "Handbook\nRoadmap", 'PgBouncer: a transaction that lasts');
	$one->must('COMMIT');
	$_->quit for $one, $other;
	kill 'TERM', $pid;
	waitpid $pid, 0;
}

# ---- a view

($database) = database('A view');
$node->safe_psql($database, <<'END');
CREATE FUNCTION leak(text) RETURNS boolean LANGUAGE plpgsql COST 0.0001 AS $$BEGIN RAISE WARNING 'leaked %', $1; RETURN true; END$$;
GRANT EXECUTE ON FUNCTION leak(text) TO app_user;
END
is(answer($database, 'app_user', "SET verdict.actor = 'User:bob'; SELECT title FROM readable_document"), 'Roadmap', 'the view shows what may be read');
is(answer($database, 'app_user', 'SELECT title FROM readable_document'), '', '... to nobody nothing');
is(answer($database, 'app_user', $titles), '42501', '... and the table is closed');
my ($out, $errors);
$node->psql($database, "SET ROLE app_user; SET verdict.actor = 'User:bob'; SELECT title FROM readable_document WHERE leak(title)",
	stdout => \$out, stderr => \$errors);
is_deeply([ $errors =~ /leaked (\w+)/g ], ['Roadmap'], '... and a function in the condition sees no other row');

# ---- a wrapper

($database) = database('A wrapper');
$node->safe_psql($database, 'DROP USER MAPPING FOR PUBLIC SERVER app');
is(answer($database, 'alice', 'SELECT may_read(1), may_read(2), may_read(3)'), 't|t|f', 'the wrapper answers');
is(answer($database, 'stranger', "SET verdict.server = 'elsewhere'; SELECT may_read(1)"), 'f', '... for who is connected');
is(answer($database, 'alice', q{SELECT verdict_authorize('User:bob', 'read', 'Document:3')}), '42501', '... and is the only way');

# ---- INSERT ... RETURNING

($database) = database('`INSERT');
my $insert = q{INSERT INTO document VALUES (%d, 'bob', 'Plan') RETURNING title};
for my $mode ('deferred', 'outbox', 'immediate')
{
	my $settings = "SET verdict.mutation_mode = $mode; SET verdict.actor = 'User:bob'; SET client_min_messages = error";
	$databases++;
	is(answer($database, 'app_user', sprintf "$settings; $insert", 10 + $databases), 'Plan', "$mode: the row is returned");
}
is(answer($database, 'app_user', q{SET verdict.actor = 'User:bob'; INSERT INTO document VALUES (30, 'carol', 'Plan')}), '42501', 'nobody inserts for another');
is(answer($database, 'app_user', q{INSERT INTO document VALUES (30, 'bob', 'Plan')}), '42501', '... nor without an actor');

# Without the condition of the row itself.
$node->safe_psql($database, "DROP POLICY readable ON document; $policy");
my $settings = "SET verdict.actor = 'User:bob'; SET client_min_messages = error";
is(answer($database, 'app_user', sprintf "$settings; $insert", 40), '42501', 'the policy is checked before the trigger fires');
my $twice = q{BEGIN; INSERT INTO document VALUES (%d, 'bob', 'Plan'); SELECT title FROM document WHERE id = %1$d};
is(answer($database, 'app_user', sprintf "$settings; $twice; COMMIT", 41), 'Plan', 'deferred: the next statement sees it');
$session = session($database, 'app_user');
$session->must("$settings; SET verdict.mutation_mode = outbox");
is($session->must(sprintf $twice, 42), '', 'outbox: the next statement does not');
$session->must('COMMIT');
is($session->must('SELECT title FROM document WHERE id = 42'), '', '... nor does one after COMMIT');
$node->safe_psql($database, 'CALL verdict_deliver()');
is($session->must('SELECT title FROM document WHERE id = 42'), 'Plan', '... until it is delivered');
$session->quit;

is_deeply([ keys %recipe ], [], 'every recipe was run');
$node->stop;
done_testing();
