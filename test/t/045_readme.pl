# What the README says is so: its example runs and answers as its comments say,
# and its tables name what there is, no more and no less.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VerdictDev;

my $readme = slurp_file("$FindBin::RealBin/../../README.md");
my $key = 'your-instance-key';
my $instance = VerdictDev->start(api_keys => [$key]);
my $url = $instance->url;
my $node = PostgreSQL::Test::Cluster->new('readme');
$node->init;
$node->start;

# The text of a section, and the first cells of its tables.
sub section
{
	my ($title) = @_;
	my ($text) = $readme =~ /^## \Q$title\E\n(.*?)(?=^## |\z)/ms or die "no section $title";
	return $text;
}
sub rows { return map { [ map { s/^\s+|\s+$//gr } split /\|/, $_ =~ s/^\| //r ] } grep { /^\| (?!---)/ } split /\n/, $_[0] }
sub words { return $_[0] =~ /`([^`]+)`/g }

# The example.
my ($example) = section('An example') =~ /```sql\n(.*?)```/s;
like($example, qr/CREATE EXTENSION verdict/, 'there is an example');
$example =~ s{https://verdict\.example\.com}{$url};
my ($out, $errors);
is($node->psql('postgres', "$example", stdout => \$out, stderr => \$errors, on_error_stop => 1), 0,
	'the example runs') or diag($errors);
is($errors, '', '... without a complaint');
like($out, qr/^\n\nt\n(User:alice\nUser:bob|User:bob\nUser:alice)\n(1\n2|2\n1)\nRoadmap$/,
	'... and answers as it says');

# A policy that depends on nothing that a user can set.
my ($pinned) = section('Settings') =~ /```sql\n(.*?)```/s;
is($node->psql('postgres', <<"END", stdout => \$out, stderr => \$errors, on_error_stop => 1), 0, 'the server can be pinned') or diag($errors);
SET verdict.server = 'app';
$pinned
CREATE ROLE alice;
GRANT USAGE ON FOREIGN SERVER app TO alice;
CREATE USER MAPPING FOR alice SERVER app OPTIONS (api_key '$key');
SET ROLE alice;
SET verdict.server = 'elsewhere';
SET verdict.actor = 'User:bob';
SELECT may_read(1), may_read(3);
END
is($out, 't|f', '... and the role be asked for, whatever is set');

# The policy language.
my ($policy) = section('The bundled instance') =~ /```\n(.*?)```/s;
is($node->psql('postgres', "SET verdict.server = 'app'; SELECT verdict_set_policy(\$policy\$$policy\$policy\$)",
		stderr => \$errors), 0, 'the policy shown is accepted') or diag($errors);
is($instance->allowed('User:alice', 'write', 'Document:handbook'), 0, '... and says no to what it does not derive');

# Functions.
my %named = map { $_ => 1 } map { /^(verdict_\w+)\(/ ? $1 : () } map { words($_->[0]) } rows(section('Functions'));
my %there = map { $_ => 1 } split /\n/, $node->safe_psql('postgres', <<'END');
SELECT DISTINCT proname FROM pg_proc, pg_depend, pg_extension
WHERE pg_proc.oid = objid AND pg_depend.classid = 'pg_proc'::regclass AND refobjid = pg_extension.oid
  AND deptype = 'e' AND extname = 'verdict' AND obj_description(pg_proc.oid, 'pg_proc') IS NOT NULL
  AND proname NOT LIKE '%validator'
END
is_deeply([ sort keys %named ], [ sort keys %there ], 'the functions are those that have a comment');
is($node->safe_psql('postgres', <<'END'), '', '... and every other function supports a type, an operator, the planner or the wrapper');
SELECT proname FROM pg_proc, pg_depend, pg_extension
WHERE pg_proc.oid = objid AND pg_depend.classid = 'pg_proc'::regclass AND refobjid = pg_extension.oid
  AND deptype = 'e' AND extname = 'verdict' AND obj_description(pg_proc.oid, 'pg_proc') IS NULL
  AND proname !~ '_(in|out|recv|send|lt|le|eq|ne|ge|gt|cmp|sortsupport|hash|hash_extended|validator|support)$'
END

# Options.
sub valid_options
{
	my ($statement) = @_;
	$node->psql('postgres', $statement, stderr => \my $error);
	return [ sort split /, /, ($error =~ /HINT:  Valid options of a [A-Z ]+ are: (.*)\./)[0] // '' ];
}
my $options = section('Options');
is_deeply([ sort map { words($_->[0]) } grep { $_->[0] ne 'option' } rows($options) ],
	valid_options("ALTER SERVER app OPTIONS (ADD nonsense '')"), 'the options of a server');
like($options, qr/Of the user mapping: `api_key`\./, 'the option of a user mapping ...');
is_deeply(valid_options("ALTER USER MAPPING FOR CURRENT_USER SERVER app OPTIONS (ADD nonsense '')"), ['api_key'], '... is it');

# Settings, with their defaults.
my %settings = map { (words($_->[0]))[0] => $_->[1] =~ s/`//gr =~ s/^none$//r }
  grep { $_->[0] ne 'setting' } rows(section('Settings'));
my %real = map { my ($name, $value) = split /\|/; $name => $value // '' }
  split /\n/, $node->safe_psql('postgres', "LOAD 'verdict'; SELECT name, boot_val FROM pg_settings WHERE name LIKE 'verdict.%'");
is_deeply(\%settings, \%real, 'the settings and their defaults');

# Errors: each row of the table.
my $count = 0;
for my $row (rows(section('Errors')))
{
	my @cells = @$row;
	while (@cells >= 2)
	{
		my ($code, $state) = splice @cells, 0, 3;
		next unless $code =~ /^`(\w+)`$/;
		$instance->clear_faults;
		$instance->fault('Authorize', { kind => 'error', code => $1, message => 'as ordered' }, times => -1);
		$node->psql('postgres', "\\set VERBOSITY sqlstate\nSET verdict.server = 'app';\n"
			  . "SELECT verdict_authorize('User:alice', 'read', 'Document:1');", stderr => \my $error);
		like($error, qr/ERROR:  $state$/m, "$code is $state");
		$count++;
	}
}
is($count, 16, 'every code of Connect is in the table');

done_testing();
