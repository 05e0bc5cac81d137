#!/usr/bin/perl
# Runs a command and sees every operation that can change a file below the roots, of all its threads and children, with
# ONE counter: logs them with their data, and at operation N kills, refuses, shortens, pauses, or cuts the file system's power.
#
#   tracer.pl --log FILE --data FILE --root DIR [--root DIR] [--reads]
#             [--at N --do ACTION [--phase before|after] [--sticky] [--kinds write,fsync,...]] -- command...
#
# With --kinds only those are counted; "print" (a line on standard output) is counted only then.
# ACTION: kill (all at once), kill-leader (children live on), tear (half a write, then kill), errno:N, short, pause (until a byte on fd 4), shutdown:DIR
# Log lines are tab-separated: number, tid, kind, result, then the fields of the kind. Text is percent-escaped.
use strict;
use warnings;
use Cwd ();
use POSIX ();

use lib __FILE__ =~ m{^(.*)/} ? $1 : ".";
use ptrace;
use operation;

my (%option, @roots);
while (@ARGV) {
  my $flag = shift @ARGV;
  last if $flag eq '--';
  if ($flag eq '--root') { push @roots, shift @ARGV }
  elsif ($flag =~ /^--(reads|sticky)$/) { $option{$1} = 1 }
  elsif ($flag =~ /^--(log|data|at|do|phase|kinds)$/) { $option{$1} = shift @ARGV }
  else { die "unknown flag $flag\n" }
}
die 'cannot trace: ' . ptrace::supported() . "\n" if ptrace::supported();
my %kinds = map { $_ => 1 } split /,/, $option{kinds} // '';
my $at = $option{at} // 0;
my $phase = $option{phase} // 'before';
my ($action, $detail) = split /:/, $option{do} // '', 2;

open(my $log, '>:raw', $option{log}) or die "$option{log}: $!\n";
open(my $data, '>:raw', $option{data} // '/dev/null') or die "data: $!\n";
my $data_bytes = 0;
my $stdout = readlink('/proc/self/fd/1');

my $leader = fork() // die "fork: $!\n";
if ($leader == 0) {
  ptrace::trace_me();
  kill STOP => $$;
  ptrace::install_filter($option{reads}) or die "seccomp: $!\n";
  exec { $ARGV[0] } @ARGV or POSIX::_exit(127);
}

my $WALL = 0x40000000;
waitpid($leader, $WALL);
ptrace::set_options($leader) == 0 or die "ptrace: $!\n";
ptrace::resume($leader);

my %seen = ($leader => 1);
my %under_way;     # tid => the operation between its entry and its exit
my @held;          # tids stopped at an entry while another counted operation is under way
my $count = 0;
my $exit_code = 0;

while ((my $tid = waitpid(-1, $WALL)) > 0) {
  my $status = ${^CHILD_ERROR_NATIVE};    # $? forgets stops
  if (($status & 0xff) != 0x7f) { ended($tid, $status); next }
  my ($signal, $event) = (($status >> 8) & 0xff, $status >> 16);
  if ($event == 7) { at_entry($tid) }
  elsif ($event) {
    $seen{ ptrace::event_message($tid) } = 1 if $event <= 3;
    ptrace::resume($tid);
  }
  elsif ($signal == (POSIX::SIGTRAP() | 0x80)) { at_exit($tid) }
  elsif ($signal == POSIX::SIGSTOP() || !$seen{$tid}) { $seen{$tid} = 1; ptrace::resume($tid) }
  else { ptrace::resume($tid, $signal) }
}
print {$log} "$count\t0\tend\t0\n";
close $log or die "log: $!\n";
close $data or die "data: $!\n";
exit $exit_code;

sub ended {
  my ($tid, $status) = @_;
  delete $seen{$tid};
  $exit_code = $status & 0x7f ? 128 + ($status & 0x7f) : $status >> 8 if $tid == $leader;
  release_next() if delete $under_way{$tid};
}

# Counted operations are taken one at a time, so that the log's order is the order in which they happened.
sub at_entry {
  my ($tid) = @_;
  my ($name, @args) = ptrace::entry($tid);
  my $operation = defined $name ? operation::parse($tid, $name, \@args, $stdout) : undef;
  my $printed = $operation && $operation->{kind} eq 'print';
  if ($printed && !$kinds{print}) { emit($tid, 0, $operation, 0); $operation = undef }
  if ($operation && !$printed && !inside($operation)) {
    $operation->{attempted} = 1;    # its outcome is not waited for
    emit($tid, 0, $operation, 0) if $option{reads};
    $operation = undef;
  }
  if (!$operation) { ptrace::resume($tid); return }
  if ($operation->{kind} eq 'open') { emit($tid, 0, $operation, 0); ptrace::resume($tid); return }
  if (%under_way) { push @held, $tid; return }
  start($tid, $operation);
}

# SQLite's -shm is shared memory with a name: never durable, rebuilt by the first to open.
sub inside {
  my ($operation) = @_;
  return 0 if ($operation->{path} // '') =~ /-shm$/;
  for my $path (grep { defined } @{$operation}{qw(path to)}) {
    for my $root (@roots) { return 1 if $path eq $root || index($path, "$root/") == 0 }
  }
  return $operation->{kind} eq 'sync';
}

sub start {
  my ($tid, $operation) = @_;
  my $counted = !%kinds || $kinds{ $operation->{kind} };
  $operation->{number} = $counted ? ++$count : 0;
  $under_way{$tid} = $operation;
  my $hit = $at && $counted && ($count == $at || ($option{sticky} && $count > $at));
  $operation->{hit} = $hit;
  if ($hit && $action eq 'errno') {
    ptrace::refuse($tid, $detail);
    delete $under_way{$tid};
    emit($tid, $operation->{number}, $operation, -$detail);
    ptrace::resume($tid);
    release_next();
    return;
  }
  ptrace::set_argument($tid, 2, int($operation->{wanted} / 2)) if $hit && $action =~ /^(?:short|tear)$/ && ($operation->{wanted} // 0) > 1;
  return if $hit && $phase eq 'before' && act($tid);
  ptrace::resume_to_exit($tid);
}

sub at_exit {
  my ($tid) = @_;
  my $operation = delete $under_way{$tid};
  if (!$operation) { ptrace::resume($tid); return }
  my $result = ptrace::result($tid);
  emit($tid, $operation->{number}, $operation, $result);
  return if $operation->{hit} && $phase eq 'after' && act($tid);
  ptrace::resume($tid);
  release_next();
}

sub release_next {
  return if %under_way;
  while (my $tid = shift @held) {
    my ($name, @args) = ptrace::entry($tid);
    next unless defined $name;
    # Parsed again: what was under way may have made or removed the very file.
    my $operation = operation::parse($tid, $name, \@args, $stdout);
    if (!$operation || ($operation->{kind} ne 'print' && !inside($operation))) { ptrace::resume($tid); next }
    start($tid, $operation);
    return;
  }
}

# True when the thread must not be resumed.
sub act {
  my ($tid) = @_;
  if ($action eq 'kill' || $action eq 'tear') { ptrace::refuse($tid, 4) if $phase eq 'before'; kill KILL => keys %seen; return 1 }
  if ($action eq 'kill-leader') {
    # The thread that made the operation may be a child's: it lives on.
    kill KILL => $leader;
    return 0;
  }
  if ($action eq 'shutdown') {
    cut_power($detail);
    ptrace::refuse($tid, 5) if $phase eq 'before';
    kill KILL => keys %seen;
    return 1;
  }
  if ($action eq 'pause') {
    kill STOP => keys %seen;
    open(my $tell, '>&=', 3) or die "fd 3: $!\n";
    open(my $hear, '<&=', 4) or die "fd 4: $!\n";
    syswrite($tell, "paused $count\n");
    sysread($hear, my $byte, 1);
  }
  return 0;
}

# FS_IOC_SHUTDOWN without flushing the log: what the disk had is what is left.
sub cut_power {
  my ($directory) = @_;
  sysopen(my $handle, $directory, 0) or die "$directory: $!\n";
  my $flag = pack('L', 2);
  ioctl($handle, 0x8004587d, $flag) or die "shutdown of $directory: $!\n";
}

sub emit {
  my ($tid, $number, $operation, $result) = @_;
  my $made = $result >= 0 && !$operation->{attempted};
  operation::complete($tid, $operation, $result) if $made;
  my $bytes = $made ? operation::written($tid, $operation, $result) : undef;
  if (defined $bytes) {
    $operation->{data} = $data_bytes;
    $operation->{length} = length $bytes;
    print {$data} $bytes;
    $data_bytes += length $bytes;
  }
  my @fields = map { my $v = $operation->{$_}; $_ . '=' . escape($v) }
    grep { defined $operation->{$_} && !/^(?:kind|number|hit|wanted|call|args|fd|attempted)$/ } sort keys %$operation;
  print {$log} join("\t", $number, $tid, $operation->{kind}, $result, @fields), "\n";
}

sub escape {
  my ($text) = @_;
  $text =~ s/([^ -~]|%)/sprintf('%%%02X', ord $1)/ge;
  return $text;
}
