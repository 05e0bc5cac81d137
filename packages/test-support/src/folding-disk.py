"""A file system that keeps names and compares them without case and Unicode form, as APFS does; for tests.

usage: folding-disk.py BACKING MOUNT [--decomposed]

Files are stored in BACKING, which no other process may change. With --decomposed, names are stored in decomposed form, as HFS+ does.
Renaming one file onto another keeps the spelling of the replaced name. Renaming a file to another spelling of its own name changes it.
It serves one request at a time and ends when it is unmounted.
"""
import os
import stat
import sys
import unicodedata

try:
    import fusepy as fuse  # Debian's name
except ImportError:
    import fuse


def fold(name):
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", name).casefold())


class FoldingDisk(fuse.Operations):
    use_ns = True
    # A deleted file is used by its handle alone. Otherwise the kernel could not write back its mapped pages, and the next sync would fail.
    flag_nullpath_ok = 1

    def __init__(self, backing, decomposed):
        self.backing = backing
        self.decomposed = decomposed
        # Real folder → folded name → stored name. Complete, because every change is made here.
        self.folders = {}

    def names(self, folder):
        known = self.folders.get(folder)
        if known is None:
            try:
                known = {fold(name): name for name in os.listdir(folder)}
            except OSError:
                return {}
            self.folders[folder] = known
        return known

    def real(self, path):
        """The stored path. Names that do not exist are spelled as the caller does."""
        at = self.backing
        for part in filter(None, path.split("/")):
            stored = self.names(at).get(fold(part))
            if stored is None:
                stored = unicodedata.normalize("NFD", part) if self.decomposed else part
            at = at + "/" + stored
        return at

    def changed(self, *paths):
        for path in paths:
            self.folders.pop(os.path.dirname(path), None)

    def getattr(self, path, fh=None):
        found = os.fstat(fh) if fh is not None else os.lstat(self.real(path))
        return {
            "st_mode": found.st_mode, "st_ino": found.st_ino, "st_nlink": found.st_nlink,
            "st_uid": found.st_uid, "st_gid": found.st_gid, "st_size": found.st_size, "st_blocks": found.st_blocks,
            "st_atime": found.st_atime_ns, "st_mtime": found.st_mtime_ns, "st_ctime": found.st_ctime_ns,
        }

    def readdir(self, path, fh):
        return [".", ".."] + ([] if path is None else list(self.names(self.real(path)).values()))

    def readlink(self, path):
        return os.readlink(self.real(path))

    def mkdir(self, path, mode):
        real = self.real(path)
        os.mkdir(real, mode)
        self.own(real)
        self.changed(real)

    def rmdir(self, path):
        real = self.real(path)
        os.rmdir(real)
        self.folders.pop(real, None)
        self.changed(real)

    def unlink(self, path):
        real = self.real(path)
        os.unlink(real)
        self.changed(real)

    def symlink(self, path, target):
        real = self.real(path)
        os.symlink(target, real)
        self.own(real)
        self.changed(real)

    def link(self, path, source):
        real = self.real(path)
        os.link(self.real(source), real, follow_symlinks=False)
        self.changed(real)

    def mknod(self, path, mode, dev):
        real = self.real(path)
        os.mknod(real, mode, dev)
        self.own(real)
        self.changed(real)

    def rename(self, old, new):
        source = self.real(old)
        target = self.real(new)
        if target == source:
            name = new.rsplit("/", 1)[1]
            target = os.path.dirname(source) + "/" + (unicodedata.normalize("NFD", name) if self.decomposed else name)
        is_folder = stat.S_ISDIR(os.lstat(source).st_mode)
        os.rename(source, target)
        if is_folder:
            self.folders.clear()
        self.changed(source, target)

    def own(self, real):
        uid, gid, _ = fuse.fuse_get_context()
        if os.getuid() == 0 and (uid, gid) != (0, 0):
            os.lchown(real, uid, gid)

    def chmod(self, path, mode):
        os.chmod(self.real(path), mode)

    def chown(self, path, uid, gid):
        os.lchown(self.real(path), uid, gid)

    def utimens(self, path, times=None):
        os.utime(self.real(path), ns=times, follow_symlinks=False)

    def create(self, path, mode, fi=None):
        real = self.real(path)
        handle = os.open(real, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
        os.fchmod(handle, mode)
        self.own(real)
        self.changed(real)
        return handle

    def open(self, path, flags):
        # The kernel has applied O_APPEND, and sends reads of a file that is open for writing only.
        flags &= ~(os.O_APPEND | os.O_CREAT | os.O_EXCL)
        if flags & os.O_ACCMODE == os.O_WRONLY:
            flags = (flags & ~os.O_ACCMODE) | os.O_RDWR
        return os.open(self.real(path), flags)

    def read(self, path, size, offset, fh):
        return os.pread(fh, size, offset)

    def write(self, path, data, offset, fh):
        return os.pwrite(fh, data, offset)

    def truncate(self, path, length, fh=None):
        os.truncate(fh if fh is not None else self.real(path), length)

    def flush(self, path, fh):
        return 0

    def fsync(self, path, datasync, fh):
        # It models names, not durability, and must not wait for the disk below.
        return 0

    def fsyncdir(self, path, datasync, fh):
        return 0

    def release(self, path, fh):
        os.close(fh)

    def statfs(self, path):
        found = os.statvfs(self.backing)
        names = ("f_bavail", "f_bfree", "f_blocks", "f_bsize", "f_favail", "f_ffree", "f_files", "f_frsize", "f_namemax")
        return {name: getattr(found, name) for name in names}

    def access(self, path, mode):
        return 0


if __name__ == "__main__":
    backing, mount = sys.argv[1], sys.argv[2]
    os.umask(0)
    fuse.FUSE(
        FoldingDisk(os.path.realpath(backing), "--decomposed" in sys.argv),
        mount,
        foreground=True,
        nothreads=True,
        fsname="folding",
        use_ino=True,
        default_permissions=True,
        hard_remove=True,
        entry_timeout=0,
        attr_timeout=0,
        negative_timeout=0,
        big_writes=True,
        **({"allow_other": True} if os.getuid() == 0 else {}),
    )
