# Lists and checks agree: random policies over random facts, and for every actor,
# action and resource the same answer from a plain policy, from lists, from many
# checks at once and from single checks, with lists in place of checks, without, and
# with checks that are read ahead as lists are refused.
# The instance names revisions, so that lists are kept from one statement for the next.
#
# VERDICT_DIFFERENTIAL_ROUNDS says how many policies (default 40), and
# VERDICT_DIFFERENTIAL_SEED where they begin.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PsqlSession;
use Test::More;
use VerdictDev;

my $rounds = $ENV{VERDICT_DIFFERENTIAL_ROUNDS} || 40;
my $seed = $ENV{VERDICT_DIFFERENTIAL_SEED} || 1;

my $instance = VerdictDev->start(api_keys => ['differential-key'], args => [ '--replicas', 1, '--sync', 1 ]);
my $node = PostgreSQL::Test::Cluster->new('differential');
$node->init;
$node->append_conf('postgresql.conf', "verdict.mutation_mode = immediate\nfsync = off\njit = off\n");
$node->start;
my $url = $instance->url;
$node->safe_psql('postgres', <<"END");
CREATE EXTENSION verdict;
CREATE SERVER main FOREIGN DATA WRAPPER verdict OPTIONS (instance_url '$url');
CREATE USER MAPPING FOR PUBLIC SERVER main OPTIONS (api_key 'differential-key');
ALTER DATABASE postgres SET verdict.server = 'main';
CREATE TABLE document (id int PRIMARY KEY);
CREATE TABLE folder (id text PRIMARY KEY);
INSERT INTO document SELECT n FROM generate_series(1, 12) AS n;
INSERT INTO folder VALUES ('a'), ('b'), ('7'), ('größe'), ('b7');
ALTER TABLE document ENABLE ROW LEVEL SECURITY;
ALTER TABLE folder ENABLE ROW LEVEL SECURITY;
CREATE ROLE app;
GRANT SELECT ON document, folder TO app;
GRANT USAGE ON FOREIGN SERVER main TO app;
CREATE FUNCTION act() RETURNS text LANGUAGE sql STABLE AS 'SELECT current_setting(''app.action'')';
CREATE POLICY document_policy ON document USING (verdict_authorize(verdict_actor(), act(), verdict_identity('Document', id)));
CREATE POLICY folder_policy ON folder USING (verdict_authorize(verdict_actor(), act(), verdict_identity('Folder', id)));

-- Whoever may act, and on what.
CREATE TABLE actor (actor verdict_identity);
INSERT INTO actor VALUES ('User:1'), ('User:2'), ('User:3'), ('Team:1'), ('Team:2'), ('Document:1');
CREATE TABLE action (action text);
INSERT INTO action VALUES ('read'), ('write'), ('share');
GRANT SELECT ON actor, action TO app;

CREATE TABLE resource (place int PRIMARY KEY, resource verdict_identity);
INSERT INTO resource SELECT id, verdict_identity('Document', id) FROM document;
INSERT INTO resource SELECT 100 + row_number() OVER (ORDER BY id), verdict_identity('Folder', id) FROM folder;
GRANT SELECT ON resource TO app;

-- What a list gives; every resource of the type when it is all.
CREATE FUNCTION listed(who verdict_identity, what text, kind text) RETURNS SETOF verdict_identity LANGUAGE plpgsql VOLATILE AS \$\$
BEGIN
	RETURN QUERY SELECT verdict_identity(kind, l) FROM verdict_list_resources(who, what, kind) AS l;
EXCEPTION WHEN cardinality_violation THEN
	RETURN QUERY SELECT resource FROM resource WHERE verdict_identity_type(resource) = kind;
END \$\$;
CREATE FUNCTION listed_ids(who verdict_identity, what text) RETURNS SETOF verdict_identity LANGUAGE plpgsql VOLATILE AS \$\$
BEGIN
	RETURN QUERY SELECT verdict_identity('Document', id) FROM document WHERE id = ANY (verdict_resource_ids(who, what, 'Document', NULL::int));
EXCEPTION WHEN cardinality_violation THEN
	RETURN QUERY SELECT verdict_identity('Document', id) FROM document;
END \$\$;

-- How often an answer was yes, and one line for each way that differs from single checks.
CREATE FUNCTION compare(who verdict_identity, what text, lists boolean, OUT allowed bigint, OUT differences text) LANGUAGE plpgsql VOLATILE AS \$\$
DECLARE
	single text; other text;
BEGIN
	PERFORM set_config('verdict.actor', who::text, false), set_config('app.action', what, false), set_config('verdict.prefetch', 'off', false);
	SELECT count(*), string_agg(resource::text, ' ' ORDER BY place) INTO allowed, single FROM resource WHERE verdict_authorize(who, what, resource);
	differences := '';
	FOR way IN 1..2 LOOP
		SELECT string_agg(resource::text, ' ' ORDER BY place) INTO other FROM resource WHERE verdict_authorize(who, what, resource);
		IF other IS DISTINCT FROM single THEN differences := differences || format(E'checks %s: %s, not %s\\n', way, other, single); END IF;
		SELECT string_agg(resource::text, ' ' ORDER BY place) INTO other
		FROM unnest(ARRAY(SELECT resource FROM resource ORDER BY place), verdict_authorize_many(who, what, ARRAY(SELECT resource FROM resource ORDER BY place))) AS m(resource, yes)
			JOIN resource USING (resource) WHERE yes;
		IF other IS DISTINCT FROM single THEN differences := differences || format(E'many %s: %s, not %s\\n', way, other, single); END IF;
		PERFORM set_config('role', 'app', false);
		-- Planned each time, by what is set and was seen.
		EXECUTE 'SELECT string_agg(resource::text, '' '' ORDER BY place) FROM resource
			WHERE resource IN (SELECT verdict_identity(''Document'', id) FROM document UNION ALL SELECT verdict_identity(''Folder'', id) FROM folder)' INTO other;
		PERFORM set_config('role', 'none', false);
		IF other IS DISTINCT FROM single THEN differences := differences || format(E'policy %s: %s, not %s\\n', way, other, single); END IF;
		PERFORM set_config('verdict.prefetch', 'on', false);
	END LOOP;
	IF NOT lists THEN RETURN; END IF;
	SELECT string_agg(resource::text, ' ' ORDER BY place) INTO other FROM resource
	WHERE resource IN (SELECT listed(who, what, 'Document') UNION ALL SELECT listed(who, what, 'Folder'));
	IF other IS DISTINCT FROM single THEN differences := differences || format(E'list: %s, not %s\\n', other, single); END IF;
	SELECT string_agg(resource::text, ' ' ORDER BY place) INTO other FROM resource
	WHERE resource IN (SELECT listed_ids(who, what) UNION ALL SELECT listed(who, what, 'Folder'));
	IF other IS DISTINCT FROM single THEN differences := differences || format(E'ids: %s, not %s\\n', other, single); END IF;
END \$\$;
END

# --------------------------------------------------------------- random policies

# A small generator of its own, so that a seed gives the same everywhere.
my $random = $seed;
sub below { my ($n) = @_; $random = ($random * 1103515245 + 12345) % 2**31; return int($random / 65536) % $n }
sub one_of { return $_[ below(scalar @_) ] }

my @actors = ('User:1', 'User:2', 'User:3', 'Team:1', 'Team:2', 'Document:1');
my @documents = map { "Document:$_" } 1 .. 12;
my @folders = ('Folder:a', 'Folder:b', 'Folder:7', "Folder:gr\x{c3}\x{b6}\x{c3}\x{9f}e", 'Folder:b7');

# What can stand in a rule for allow(actor, action, item).
my @bodies = (
	'viewer(actor, item)', 'owner(actor, item)', 'parent(item, up) and viewer(actor, up)', 'parent(item, up) and allow(actor, action, up)',
	'member(actor, team) and viewer(team, item)', 'viewer(actor, item) and not banned(actor, item)',
	'owner(actor, item) and may(action)', 'public(item)', 'parent(item, up) and public(up) and member(actor, team) and not banned(team, item)',
	'member(actor, team) and allow(team, action, item)', 'level(actor, have) and needs(item, want) and have >= want', 'viewer(actor, actor) and owner(actor, item)');
my @heads = ('allow(actor, "read", item)', 'allow(actor, "write", item)', 'allow(actor, action, item)', 'allow(actor: User, action, item)',
	'allow(actor, action, item: Document)', 'allow(actor: Team, "share", item: Folder)');
my @any = ('allow(user: User, _, _) if admin(user);', 'allow(actor, "read", _) if admin(actor);', 'allow(team: Team, action, item: Document) if admin(team) and may(action);',
	'allow(_, "read", item) if public(item);', 'allow(_, _, item: Folder) if public(item);', 'allow(actor, _, Document:"3") if viewer(actor, Document:"3");');

sub policy
{
	my @rules;
	for (0 .. below(4))
	{
		my ($head, $body) = (one_of(@heads), one_of(@bodies));
		# A constant in the head leaves no variable for the body.
		my ($constant) = $head =~ /("\w+")/;
		$body =~ s/\baction\b/$constant/g if defined $constant;
		push @rules, "$head if $body;";
	}
	push @rules, one_of(@any) for 1 .. below(3);
	return join "\n", @rules;
}

sub facts
{
	my %facts;
	my @items = (@documents, @folders);
	for (1 .. 10 + below(40))
	{
		my $kind = one_of(qw(viewer owner banned parent member public admin may level needs viewer viewer parent));
		$facts{
			$kind eq 'parent' ? sprintf 'parent(%s, %s)', one_of(@items), one_of(@folders)
			: $kind eq 'member' ? sprintf 'member(%s, %s)', one_of(@actors), one_of('Team:1', 'Team:2')
			: $kind eq 'public' ? sprintf 'public(%s)', one_of(@items)
			: $kind eq 'admin' ? sprintf 'admin(%s)', one_of(@actors)
			: $kind eq 'may' ? sprintf 'may("%s")', one_of(qw(read write share))
			: $kind eq 'level' ? sprintf 'level(%s, %d)', one_of(@actors), below(4)
			: $kind eq 'needs' ? sprintf 'needs(%s, %d)', one_of(@items), below(4)
			: sprintf '%s(%s, %s)', $kind, one_of(@actors), one_of(@items)
		} = 1;
	}
	return sort keys %facts;
}

# ---------------------------------------------------------------------- compare

my $session = PsqlSession->new($node, 'postgres', q{SET client_min_messages = error});
# Another backend, which never sees a list.
my $refused_lists = PsqlSession->new($node, 'postgres', q{SET client_min_messages = error});
my ($compared, $allowed, $refused) = (0, 0, 0);
my $compare = 'SELECT count(*), sum(allowed), string_agg(format(E\'%s %s: %s\', actor, action, differences), \'\') FILTER (WHERE differences <> \'\') FROM actor, action, compare(actor, action, ';
for my $round (1 .. $rounds)
{
	my ($policy, @facts) = (policy(), facts());
	my (undef, $state) = $session->ask("SELECT verdict_set_policy(\$policy\$$policy\$policy\$)");
	if ($state ne '00000')
	{
		note "round $round: ", $session->error, "\n$policy";
		$refused++;
		next;
	}
	my $facts = join ',', map { "\$fact\$$_\$fact\$" } @facts;
	$session->must("SELECT verdict_batch_facts(deletes => ARRAY(SELECT verdict_list_facts())); SELECT verdict_batch_facts(ARRAY[$facts]::verdict_fact[])");
	$instance->catch_up;
	my $answer = $session->must($compare . 'true)');
	my ($count, $yes, $differences) = split /\|/, $answer, 3;
	$compared += $count;
	$allowed += $yes;
	is($differences, '', "round $round") or diag("policy:\n$policy\nfacts:\n", join "\n", @facts);
	$instance->fault('Query', { kind => 'error', code => 'unimplemented', message => 'no' }, times => -1);
	$answer = $refused_lists->must($compare . 'false)');
	$instance->clear_faults;
	is($answer, "$count|$yes|", '... without lists') or diag("policy:\n$policy\nfacts:\n", join "\n", @facts);
}
my %stat = map { split /=/ } split /\n/, $session->must('SELECT format(E\'single=%s\\nlists=%s\\nkept=%s\', single_checks, lists, lists_kept) FROM verdict_stat_decisions()');
note "$compared questions, $allowed times yes, $refused policies refused, $stat{single} single checks, $stat{lists} lists, $stat{kept} used again";
cmp_ok($refused, '<', $rounds / 2, 'most policies are accepted');
cmp_ok($allowed, '>', $compared, 'often enough the answer is yes');
cmp_ok($allowed, '<', $compared * 17 / 2, '... and no');
cmp_ok($stat{lists} + $stat{kept}, '>', $compared, 'lists were asked for');
cmp_ok($stat{$_}, '>', $compared / 4, "... and used ($_)") for qw(lists kept);
like($refused_lists->must('SET ROLE app; EXPLAIN (COSTS OFF) SELECT FROM document'), qr/Verdict Read Ahead/, 'checks were read ahead where they were refused');
done_testing();
