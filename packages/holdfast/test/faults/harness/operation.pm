# From a system call to what it does to files: one operation with canonical paths, inode numbers and offsets.
package operation;
use strict;
use warnings;
use Cwd ();
use ptrace;

use constant { O_CREAT => 0100, O_TRUNC => 01000, O_APPEND => 02000, AT_REMOVEDIR => 0x200, AT_FDCWD => -100 };

# Before the call is made: undef when it changes no file.
sub parse {
  my ($tid, $call, $args, $stdout) = @_;
  my @a = @$args;
  my %o = (call => $call, args => $args);
  my $here = AT_FDCWD;
  if ($call eq 'open') { return opened($tid, \%o, $here, @a[ 0, 1, 2 ]) }
  if ($call eq 'creat') { return opened($tid, \%o, $here, $a[0], 01101, $a[1]) }
  if ($call eq 'openat') { return opened($tid, \%o, int32($a[0]), @a[ 1, 2, 3 ]) }
  if ($call eq 'openat2') {
    my ($flags, $mode) = unpack('Q Q', ptrace::memory($tid, $a[2], 16));
    return opened($tid, \%o, int32($a[0]), $a[1], $flags, $mode);
  }
  if ($call =~ /^(?:write|pwrite64|writev|pwritev2?|sendfile|copy_file_range)$/) { return write_to($tid, \%o, $stdout) }
  if ($call =~ /^(fsync|fdatasync|syncfs)$/) { return on_fd($tid, { %o, kind => $1 }, $a[0]) }
  if ($call eq 'sync_file_range') { return on_fd($tid, { %o, kind => 'writeout' }, $a[0]) }
  if ($call eq 'sync') { return { %o, kind => 'sync' } }
  if ($call eq 'ftruncate') { return on_fd($tid, { %o, kind => 'truncate', size => $a[1] }, $a[0]) }
  if ($call eq 'truncate') { return on_path($tid, { %o, kind => 'truncate', size => $a[1] }, $here, $a[0]) }
  if ($call eq 'fallocate') { return on_fd($tid, { %o, kind => 'fallocate', mode => $a[1], offset => $a[2], bytes => $a[3] }, $a[0]) }
  if ($call eq 'fchmod') { return on_fd($tid, { %o, kind => 'chmod', mode => $a[1] }, $a[0]) }
  if ($call eq 'chmod') { return on_path($tid, { %o, kind => 'chmod', mode => $a[1] }, $here, $a[0]) }
  if ($call eq 'fchmodat') { return on_path($tid, { %o, kind => 'chmod', mode => $a[2] }, int32($a[0]), $a[1]) }
  if ($call eq 'mkdir') { return on_path($tid, { %o, kind => 'mkdir', mode => $a[1] }, $here, $a[0]) }
  if ($call eq 'mkdirat') { return on_path($tid, { %o, kind => 'mkdir', mode => $a[2] }, int32($a[0]), $a[1]) }
  if ($call eq 'rmdir') { return on_path($tid, { %o, kind => 'rmdir' }, $here, $a[0]) }
  if ($call eq 'unlink') { return on_path($tid, { %o, kind => 'unlink' }, $here, $a[0]) }
  if ($call eq 'unlinkat') {
    return on_path($tid, { %o, kind => ($a[2] & AT_REMOVEDIR) ? 'rmdir' : 'unlink' }, int32($a[0]), $a[1]);
  }
  if ($call eq 'rename') { return two_paths($tid, { %o, kind => 'rename', flags => 0 }, $here, $a[0], $here, $a[1]) }
  if ($call eq 'link') { return two_paths($tid, { %o, kind => 'link' }, $here, $a[0], $here, $a[1]) }
  if ($call eq 'linkat') { return two_paths($tid, { %o, kind => 'link' }, int32($a[0]), $a[1], int32($a[2]), $a[3]) }
  if ($call =~ /^renameat2?$/) {
    my $flags = $call eq 'renameat2' ? $a[4] : 0;
    return two_paths($tid, { %o, kind => 'rename', flags => $flags }, int32($a[0]), $a[1], int32($a[2]), $a[3]);
  }
  if ($call eq 'symlink') { return on_path($tid, { %o, kind => 'symlink', target => ptrace::text($tid, $a[0]) }, $here, $a[1]) }
  if ($call eq 'symlinkat') {
    return on_path($tid, { %o, kind => 'symlink', target => ptrace::text($tid, $a[0]) }, int32($a[1]), $a[2]);
  }
  if ($call eq 'mmap') { return on_fd($tid, { %o, kind => 'mmap' }, $a[4]) }
  return undef;
}

# After the call was made: what only its outcome tells.
sub complete {
  my ($tid, $o, $result) = @_;
  if ($o->{kind} eq 'create') {
    my $fd = "/proc/$tid/fd/$result";
    $o->{path} = readlink($fd) // $o->{path};
    (undef, $o->{ino}, $o->{mode}) = stat($fd);
  }
  elsif ($o->{kind} eq 'mkdir' || $o->{kind} eq 'symlink') { (undef, $o->{ino}, $o->{mode}) = lstat($o->{path}) }
}

# The bytes that landed, for the log.
sub written {
  my ($tid, $o, $result) = @_;
  return undef unless $o->{kind} eq 'write' && $result > 0;
  my @a = @{ $o->{args} };
  return ptrace::memory($tid, $a[1], $result) if $o->{call} =~ /^p?write(?:64)?$/;
  if ($o->{call} =~ /writev/) {
    my ($bytes, $left) = ('', $result);
    for my $i (0 .. $a[2] - 1) {
      my ($base, $length) = unpack('Q Q', ptrace::memory($tid, $a[1] + 16 * $i, 16));
      $length = $left if $length > $left;
      $bytes .= ptrace::memory($tid, $base, $length);
      $left -= $length;
    }
    return $bytes;
  }
  # Copied inside the kernel: only the file itself can tell.
  open(my $file, '<:raw', "/proc/$tid/fd/$o->{fd}") or return '';
  sysseek($file, $o->{offset}, 0);
  sysread($file, my $bytes, $result);
  return $bytes;
}

sub int32 { return unpack('l', pack('L', $_[0] & 0xffffffff)) }

sub resolve {
  my ($tid, $dirfd, $address) = @_;
  my $path = ptrace::text($tid, $address);
  if ($path !~ m{^/}) {
    my $base = readlink($dirfd == AT_FDCWD ? "/proc/$tid/cwd" : "/proc/$tid/fd/$dirfd") // return undef;
    return $base if $path eq '';
    $path = "$base/$path";
  }
  $path =~ s{/+$}{} if $path ne '/';
  my ($parent, $name) = $path =~ m{^(.*)/([^/]*)$};
  if ($name eq '.' || $name eq '..') { return Cwd::realpath($path) }
  my $real = Cwd::realpath($parent eq '' ? '/' : $parent) // return undef;
  return $real eq '/' ? "/$name" : "$real/$name";
}

sub opened {
  my ($tid, $o, $dirfd, $address, $flags, $mode) = @_;
  my $path = resolve($tid, $dirfd, $address) // return undef;
  $path = Cwd::realpath($path) // $path if -l $path;
  my (undef, $ino, undef, undef, undef, undef, undef, $size) = stat($path);
  my %o = (%$o, path => $path);
  return { %o, kind => 'create', mode => $mode } if ($flags & O_CREAT) && !defined $ino;
  return { %o, kind => 'truncate', ino => $ino, size => 0 } if defined $ino && ($flags & O_TRUNC) && $size;
  return { %o, kind => 'open', flags => $flags };
}

sub on_fd {
  my ($tid, $o, $fd) = @_;
  $fd = int32($fd);
  my $link = readlink("/proc/$tid/fd/$fd") // return undef;
  return undef unless $link =~ m{^/};
  my (undef, $ino, $mode) = stat("/proc/$tid/fd/$fd");
  $link =~ s/ \(deleted\)$//;
  return { %$o, fd => $fd, path => $link, ino => $ino };
}

sub on_path {
  my ($tid, $o, $dirfd, $address) = @_;
  my $path = resolve($tid, $dirfd, $address) // return undef;
  my (undef, $ino) = lstat($path);
  return { %$o, path => $path, ino => $ino };
}

sub two_paths {
  my ($tid, $o, $from_fd, $from, $to_fd, $to) = @_;
  my $path = resolve($tid, $from_fd, $from) // return undef;
  # link(/proc/self/fd/N) gives a name to a file that has none
  $path = readlink($path) // $path if $path =~ m{^/proc/};
  my $other = resolve($tid, $to_fd, $to) // return undef;
  my (undef, $ino) = lstat($path);
  return { %$o, path => $path, to => $other, ino => $ino };
}

sub write_to {
  my ($tid, $o, $stdout) = @_;
  my ($call, @a) = ($o->{call}, @{ $o->{args} });
  my $fd = int32($call eq 'copy_file_range' ? $a[2] : $a[0]);
  my $link = readlink("/proc/$tid/fd/$fd") // return undef;
  if ($call eq 'write' && $fd == 1 && $link eq $stdout) {
    return { %$o, kind => 'print', text => ptrace::memory($tid, $a[1], $a[2] > 4096 ? 4096 : $a[2]) };
  }
  my $operation = on_fd($tid, { %$o, kind => 'write' }, $fd) // return undef;
  $operation->{wanted} = $a[2] if $call eq 'write' || $call eq 'pwrite64';
  if ($call =~ /^pwrite/) { $operation->{offset} = $a[3] }
  else {
    open(my $info, '<', "/proc/$tid/fdinfo/$fd") or return undef;
    my %field = map { /^(\w+):\s*(\S+)/ ? ($1 => $2) : () } <$info>;
    $operation->{offset} = (oct $field{flags}) & O_APPEND ? (stat "/proc/$tid/fd/$fd")[7] : $field{pos};
  }
  return $operation;
}

1;
