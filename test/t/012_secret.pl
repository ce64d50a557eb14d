# The API key is in no log, no view of an ordinary role and no error, and neither
# is a fact in what the server logs by itself.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VerdictDev;

my $secret = 'sEcReT-0123456789-kEy';
my $wrong = 'wRoNg-0123456789-kEy';
my $instance = VerdictDev->start(api_keys => [$secret]);

my $node = PostgreSQL::Test::Cluster->new('secret');
$node->init;
$node->append_conf('postgresql.conf', 'verdict.mutation_mode = immediate');
$node->append_conf('postgresql.conf', <<'END');
log_min_messages = debug5
log_statement = all
log_min_error_statement = debug5
log_error_verbosity = verbose
log_parameter_max_length = -1
log_parameter_max_length_on_error = -1
debug_print_plan = on
END
$node->start;

# The statement that holds the key is logged by log_statement like any other, as
# it is for every foreign-data wrapper: whoever writes it turns that off for it.
my $url = $instance->url;
$node->safe_psql('postgres', <<"END");
CREATE EXTENSION verdict;
CREATE SERVER main FOREIGN DATA WRAPPER verdict OPTIONS (instance_url '$url', read_timeout_ms '500', retry_owner 'none');
CREATE ROLE ordinary LOGIN;
CREATE ROLE other LOGIN;
GRANT USAGE ON FOREIGN SERVER main TO ordinary, other;
SET log_statement = none;
SET log_min_messages = panic;
SET log_min_error_statement = panic;
CREATE USER MAPPING FOR PUBLIC SERVER main OPTIONS (api_key '$secret');
CREATE USER MAPPING FOR ordinary SERVER main OPTIONS (api_key '$wrong');
RESET log_min_messages;
END

my $check = q{SELECT verdict_authorize('User:a', 'read', 'Document:1');};
my $statements = "SET client_min_messages = debug5;\n\\set VERBOSITY verbose\nSET verdict.server = 'main';\n";
my ($out, $err) = ('', '');

# Everything that can go wrong, as told by the instance and by the client.
my @faults = (
	{ kind => 'status', status => 502, body => 'bad gateway' },
	{ kind => 'error', code => 'internal', message => 'broken' },
	{ kind => 'close' },
	{ kind => 'cut' },
	{ kind => 'stall', ms => 2000 },
	{ kind => 'body', hex => 'ffffff' },
	{ kind => 'content_type', value => 'text/plain' },
	{ kind => 'redirect', location => 'http://127.0.0.1:1/' },
	{ kind => 'header_flood', bytes => 1_000_000 },
	{ kind => 'oversize', bytes => 100_000_000 });
$instance->fault('Authorize', $_) for @faults;
my ($status, $text, $errors) = $node->psql('postgres',
	$statements . join("\n", ($check) x @faults, $check, q{SELECT verdict_insert_fact('seen(User:a)');}, q{SELECT * FROM verdict_list_facts();}),
	on_error_stop => 0);
$out .= $text;
$err .= $errors;
my @raised = $errors =~ /^(?:psql:\S+ )?ERROR: /mg;
cmp_ok(scalar(@raised), '>=', @faults - 1, 'the faults were met');
like($text, qr/seen\(User:a\)/, 'and calls went well, too');

# A wrong key, and keys that the validator refuses.
($status, $text, $errors) = $node->psql('postgres', $statements . $check, on_error_stop => 0,
	extra_params => [ '-U', 'ordinary' ]);
like($errors, qr/ERROR:  28000/, 'a wrong key is refused');
$out .= $text;
$err .= $errors;
($status, $text, $errors) = $node->psql('postgres', <<"END", on_error_stop => 0);
SET log_statement = none;
SET log_min_messages = fatal;
SET log_min_error_statement = panic;
\\set VERBOSITY verbose
ALTER USER MAPPING FOR PUBLIC SERVER main OPTIONS (SET api_key '$secret $secret');
ALTER USER MAPPING FOR PUBLIC SERVER main OPTIONS (ADD password '$secret');
ALTER SERVER main OPTIONS (ADD api_key '$secret');
END
like($errors, qr/22023.*HV00D.*HV00D/s, 'a malformed key is refused');
unlike($errors, qr/^(?!LINE|psql:.*LINE).*\Q$secret\E/m, 'and not shown');

# What an ordinary role can read.
($status, $text, $errors) = $node->psql('postgres', <<'END', on_error_stop => 0, extra_params => [ '-U', 'other' ]);
SET verdict.server = 'main';
SELECT verdict_authorize('User:a', 'read', 'Document:1');
SELECT * FROM pg_user_mappings;
SELECT * FROM information_schema.user_mapping_options;
SELECT * FROM information_schema.user_mappings;
SELECT * FROM pg_settings;
SELECT * FROM pg_stat_activity;
SELECT * FROM pg_foreign_server;
SELECT * FROM pg_user_mapping;
SELECT * FROM pg_backend_memory_contexts;
SELECT * FROM verdict_session();
SELECT verdict_version();
\des+ *
\deu+ *
END
like($text, qr/^f$/m, 'a role that uses the PUBLIC mapping gets answers');
$out .= $text;
$err .= $errors;

$node->stop;
my $log = slurp_file($node->logfile);
# Not by like(): the log is long.
ok($log =~ /DEBUG:/, 'the log holds debug messages');
ok($log =~ /could not check authorization/, 'and the failures');
for my $key ($secret, $wrong)
{
	ok(index($log, $key) < 0, 'the key is not in the log');
	ok(index($out, $key) < 0, 'nor in what a client reads');
	ok(index($err, $key) < 0, 'nor in an error');
}
ok($log !~ /Authorization:|Bearer /, 'the header is not in the log');

done_testing();
