# Every function of the SQL surface against one instance: surface.sql run by psql,
# its output compared with surface.out, the same for every instance and format.
package Surface;

use strict;
use warnings;

use FindBin;
use PostgreSQL::Test::Utils;
use Test::More;

my $folder = __FILE__ =~ s{[^/]*$}{}r;

# Runs it.  $options are the options of CREATE SERVER, $key the API key or undef.
sub run
{
	my ($node, $name, $options, $key) = @_;
	my $list = join ', ', map { "$_ '$options->{$_}'" } sort keys %$options;
	my $mapping = defined $key ? "OPTIONS (api_key '$key')" : '';

	$node->safe_psql('postgres', <<"END");
DROP SERVER IF EXISTS surface CASCADE;
CREATE SERVER surface FOREIGN DATA WRAPPER verdict OPTIONS ($list);
CREATE USER MAPPING FOR PUBLIC SERVER surface $mapping;
END
	my ($out, $errors);
	$node->psql('postgres', slurp_file("${folder}surface.sql"), on_error_stop => 0,
		stdout => \$out, stderr => \$errors, extra_params => ['--echo-errors']);
	# Only where each error stands in the script may differ.
	$errors =~ s/^psql:[^:]*:\d+: //mg;
	my $got = "$out\n--- errors\n$errors\n";
	my $wanted = slurp_file("${folder}surface.out");
	my $same = ok($got eq $wanted, "every function answers alike: $name");
	if (!$same)
	{
		my $file = "$PostgreSQL::Test::Utils::tmp_check/surface-"
		  . ($name =~ s/\W+/-/gr) . '.out';
		append_to_file($file, $got);
		diag(scalar `diff -u '${folder}surface.out' '$file' | head -n 60`);
	}
	return $same;
}

1;
