# The kernel's side of the tracer: ptrace, seccomp and registers, without a compiler. Perl because perl-base is on every
# Debian, and its `syscall` reaches ptrace(2). Works unprivileged on own children; x86_64 and aarch64.
package ptrace;
use strict;
use warnings;
use POSIX ();

my $machine = (POSIX::uname())[4];
my %ARCH = (
  x86_64 => {
    audit => 0xC000003E, ptrace => 101, seccomp => 317, prctl => 157,
    # user_regs_struct: places of the six arguments, the number and the result.
    args => [ 14, 13, 12, 7, 9, 8 ], number => 15, result => 10, words => 27,
    calls => {
      write => 1, open => 2, mmap => 9, pwrite64 => 18, writev => 20, sendfile => 40, fsync => 74, fdatasync => 75,
      truncate => 76, ftruncate => 77, rename => 82, mkdir => 83, rmdir => 84, creat => 85, link => 86, unlink => 87,
      symlink => 88, chmod => 90, fchmod => 91, sync => 162, openat => 257, mkdirat => 258, unlinkat => 263,
      renameat => 264, linkat => 265, symlinkat => 266, fchmodat => 268, fallocate => 285, pwritev => 296, syncfs => 306,
      renameat2 => 316, copy_file_range => 326, sync_file_range => 277, pwritev2 => 328, openat2 => 437,
    },
  },
  aarch64 => {
    audit => 0xC00000B7, ptrace => 117, seccomp => 277, prctl => 167,
    args => [ 0, 1, 2, 3, 4, 5 ], number => undef, result => 0, words => 34,
    calls => {
      mkdirat => 34, unlinkat => 35, symlinkat => 36, linkat => 37, renameat => 38, truncate => 45, ftruncate => 46,
      fallocate => 47, fchmod => 52, fchmodat => 53, openat => 56, write => 64, writev => 66, pwrite64 => 68,
      pwritev => 70, sendfile => 71, sync_file_range => 84, sync => 81, fsync => 82, fdatasync => 83, mmap => 222, syncfs => 267,
      renameat2 => 276, copy_file_range => 285, pwritev2 => 287, openat2 => 437,
    },
  },
);
my $arch = $ARCH{$machine};
my %name_of = $arch ? map { $arch->{calls}{$_} => $_ } keys %{ $arch->{calls} } : ();

sub supported { return defined $arch ? '' : "no register table for $machine" }

use constant {
  TRACEME => 0, CONT => 7, SYSCALL => 24, SETOPTIONS => 0x4200, GETEVENTMSG => 0x4201,
  GETREGSET => 0x4204, SETREGSET => 0x4205, GET_SYSCALL_INFO => 0x420e,
  # fork, vfork, clone, exec, seccomp, kill on exit, mark syscall stops
  OPTIONS => 0x2 | 0x4 | 0x8 | 0x10 | 0x80 | 0x100000 | 0x1,
  NT_PRSTATUS => 1, NT_ARM_SYSTEM_CALL => 0x404,
};

# $_[3] itself, not a copy: the kernel writes into it.
sub call { return syscall($arch->{ptrace}, $_[0], $_[1], $_[2], $_[3]) }
sub set_options { return call(SETOPTIONS, $_[0], 0, OPTIONS) }
sub resume { my ($tid, $signal) = @_; return call(CONT, $tid, 0, $signal // 0) }
sub resume_to_exit { return call(SYSCALL, $_[0], 0, 0) }

# In the child, before exec. RET_TRACE for the calls that can change a file; everything else runs at full speed.
sub trace_me { return call(TRACEME, 0, 0, 0) }

sub install_filter {
  my ($reads) = @_;
  my $filter = seccomp_program($reads);
  my $program = pack('S x6 P', length($filter) / 8, $filter);
  syscall($arch->{prctl}, 38, 1, 0, 0, 0);    # PR_SET_NO_NEW_PRIVS: asked for without root
  return syscall($arch->{seccomp}, 1, 0, $program) == 0;
}

sub seccomp_program {
  my ($reads) = @_;
  my %c = %{ $arch->{calls} };
  my $statement = sub { return pack('S C C L', @_) };
  my ($allow, $trace) = (0x7fff0000, 0x7ff00000);
  my $code = $statement->(0x20, 0, 0, 4);                                   # load the architecture
  $code .= $statement->(0x15, 1, 0, $arch->{audit}) . $statement->(0x06, 0, 0, $allow);
  $code .= $statement->(0x20, 0, 0, 0);                                     # load the number
  # An open matters when it may create or cut; a mapping when it is shared and writable.
  my $unless_flags = sub {
    my ($number, $argument, $mask) = @_;
    $code .= $statement->(0x15, 0, 4, $number) . $statement->(0x20, 0, 0, 16 + 8 * $argument);
    $code .= $statement->(0x45, 0, 1, $mask) . $statement->(0x06, 0, 0, $trace) . $statement->(0x06, 0, 0, $allow);
  };
  unless ($reads) {
    $unless_flags->($c{openat}, 2, 01100);
    $unless_flags->($c{open}, 1, 01100) if $c{open};
  }
  # prot & WRITE, then flags & SHARED
  $code .= $statement->(0x15, 0, 6, $c{mmap}) . $statement->(0x20, 0, 0, 16 + 16) . $statement->(0x45, 0, 3, 2);
  $code .= $statement->(0x20, 0, 0, 16 + 24) . $statement->(0x45, 0, 1, 1) . $statement->(0x06, 0, 0, $trace);
  $code .= $statement->(0x06, 0, 0, $allow);
  my @plain = grep { $_ ne 'mmap' && ($reads || ($_ ne 'open' && $_ ne 'openat')) } sort keys %c;
  $code .= $statement->(0x15, 0, 1, $c{$_}) . $statement->(0x06, 0, 0, $trace) for @plain;
  return $code . $statement->(0x06, 0, 0, $allow);
}

sub event_message {
  my $buffer = pack('Q', 0);
  call(GETEVENTMSG, $_[0], 0, $buffer);
  return unpack('Q', $buffer);
}

# (name, arguments) at a seccomp stop.
sub entry {
  my $info = "\0" x 128;
  my $got = call(GET_SYSCALL_INFO, $_[0], length $info, $info);
  return if $got <= 0;
  my ($number, @args) = unpack('x24 Q q6', $info);
  return ($name_of{$number}, @args);
}

sub result {
  my $info = "\0" x 128;
  call(GET_SYSCALL_INFO, $_[0], length $info, $info);
  return unpack('x24 q', $info);
}

sub registers {
  my $buffer = "\0" x ($arch->{words} * 8);
  my $vector = pack('P Q', $buffer, length $buffer);
  call(GETREGSET, $_[0], NT_PRSTATUS, $vector);
  return unpack('q*', $buffer);
}

sub set_registers {
  my ($tid, @words) = @_;
  my $buffer = pack('q*', @words);
  my $vector = pack('P Q', $buffer, length $buffer);
  return call(SETREGSET, $tid, NT_PRSTATUS, $vector);
}

sub set_argument {
  my ($tid, $place, $value) = @_;
  my @words = registers($tid);
  $words[ $arch->{args}[$place] ] = $value;
  return set_registers($tid, @words);
}

# The call is not made; its caller sees `-errno`.
sub refuse {
  my ($tid, $errno) = @_;
  my @words = registers($tid);
  $words[ $arch->{number} ] = -1 if defined $arch->{number};
  $words[ $arch->{result} ] = -$errno;
  set_registers($tid, @words);
  return if defined $arch->{number};
  my $buffer = pack('l', -1);
  my $vector = pack('P Q', $buffer, 4);
  return call(SETREGSET, $tid, NT_ARM_SYSTEM_CALL, $vector);
}

sub memory {
  my ($tid, $address, $length) = @_;
  open(my $mem, '<:raw', "/proc/$tid/mem") or return '';
  sysseek($mem, $address, 0);
  my $bytes = '';
  while (length($bytes) < $length) {
    my $got = sysread($mem, $bytes, $length - length $bytes, length $bytes);
    last unless $got;
  }
  return $bytes;
}

sub text {
  my ($tid, $address) = @_;
  my $bytes = memory($tid, $address, 4096 - ($address & 4095));
  $bytes .= memory($tid, $address + length $bytes, 4096) if index($bytes, "\0") < 0;
  return substr($bytes, 0, index($bytes, "\0"));
}

1;
