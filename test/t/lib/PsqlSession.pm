# One psql and so one backend, to which statements are given one at a time.
package PsqlSession;

use strict;
use warnings;

use Errno;
use IO::Handle;
use IO::Select;
use IPC::Open3 qw(open3);
use List::Util qw(max);
use Time::HiRes qw(time);

# How long one statement may take, in seconds.
my $patience = 120;

# A session in a database of the node; "settings" is SQL that it begins with.
sub new
{
	my ($class, $node, $database, $settings) = @_;

	return $class->at($node->connstr($database), $settings);
}

# The same by a connection string.
sub at
{
	my ($class, $connection, $settings) = @_;
	my $self = bless { number => 0, error => '' }, $class;

	open my $nowhere, '>', '/dev/null' or die "/dev/null: $!";
	$self->{pid} = open3($self->{in}, $self->{out}, '>&' . fileno $nowhere,
		'psql', '-XAtq', '-d', $connection, '-f', '-');
	$self->{in}->autoflush(1);
	$self->{ready} = IO::Select->new($self->{out});
	$self->must($settings) if defined $settings;
	return $self;
}

# Runs statements.  Returns what they gave out, without the last newline, and the
# SQLSTATE of the last; the text of the latest error is in error().
sub ask
{
	my ($self, $statements) = @_;

	$self->begin($statements);
	return $self->finish;
}

# The same in two steps, between which other sessions may run; answers() is the
# handle that becomes readable when the second need not wait long.
sub begin
{
	my ($self, $statements) = @_;

	$self->{mark} = 'answered ' . ++$self->{number};
	$self->{statements} = $statements;
	# \g takes the rest of its line for the name of a file.
	my $end = $statements =~ /\\g[^\n]*\z/ ? '' : ';';
	print { $self->{in} } "$statements$end\n\\echo '$self->{mark}' :SQLSTATE :LAST_ERROR_MESSAGE\n";
	return;
}

sub answers { return $_[0]{out} }

sub finish
{
	my ($self) = @_;
	my $mark = $self->{mark};
	my $end = time + $patience;
	my $text = '';

	until ($text =~ /^$mark .*\n\z/ms)
	{
		local $! = 0;
		my $more = $self->{ready}->can_read(max(0, $end - time)) && sysread $self->{out}, $text, 65536, length $text;
		# Another process of this test may end meanwhile, of which a signal tells.
		die "no answer to: $self->{statements}\n$text" if !$more && (!$!{EINTR} || time > $end);
	}
	my ($answer, $state, $error) = $text =~ /^(.*?)\n?^$mark (\w{5}) ?(.*)\n\z/ms;
	$self->{error} = $error;
	return ($answer, $state);
}

sub error { return $_[0]{error} }

# The same, and dies unless the last went well.
sub must
{
	my ($self, $statements) = @_;
	my ($answer, $state) = $self->ask($statements);

	die "$statements: $self->{error}" if $state ne '00000';
	return $answer;
}

sub quit
{
	my ($self) = @_;

	close $self->{in};
	waitpid $self->{pid}, 0;
	return;
}

1;
