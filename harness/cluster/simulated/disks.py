"""A node's disk in the simulated world: what survives a power loss, what is refused, where a kill strikes.

Files are files in the run's folder, as they stand in the page cache. Of each the disk knows what an fsync has made
safe: the contents of a file by an fsync of the file, the names in a folder (new, renamed, removed) by one of the
folder, and nothing else, which is all that POSIX promises. `disk_watch.py` tells it what the node's code does.
"""

import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

_DESCRIPTORS_FROM = 1 << 9  # above those that nodes count to know how many are free


@dataclass(kw_only=True)
class _Safe:
    """A file or folder that the disk knows, by its inode; `held` keeps the number from being given to another one."""

    held: int
    contents: bytes | None = None  # of a file, since its last fsync
    names: dict[str, int] | None = None  # of a folder: name -> inode


@dataclass(kw_only=True)
class CrashPoint:
    """A kill before the nth change from now that the node makes to its disk; torn: half of the write is there."""

    nth: int
    torn: bool
    strike: Callable[[str], None]  # told what the node was about to do


@dataclass(kw_only=True)
class Contents:
    """All of a folder at one moment: what a folder holds, by its path."""

    folders: list[str] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)

    @staticmethod
    def of(top: Path) -> "Contents":
        found = Contents()
        for folder, names, files in os.walk(top):
            inside = os.path.relpath(folder, top)
            found.folders += [os.path.join(inside, name) for name in sorted(names)]
            found.files |= {os.path.join(inside, name): Path(folder, name).read_bytes() for name in sorted(files)}
        return found

    def put(self, top: Path) -> None:
        """Nothing else is there afterwards."""
        for path in top.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        for folder in self.folders:
            (top / folder).mkdir(parents=True, exist_ok=True)
        for name, data in self.files.items():
            (top / name).write_bytes(data)


@dataclass(kw_only=True)
class Failure:
    """The disk fails at the nth change from now, and at each that follows."""

    nth: int
    strike: Callable[[], None]  # called at each


class NodeDisk:
    """The folder `top`. While it is full, every change that takes room fails."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.is_full = False
        self.failure: Failure | None = None
        self.crash_point: CrashPoint | None = None
        self.at_crash: Contents | None = None  # what there was when a crash point struck
        self._safe: dict[int, _Safe] = {}

    # -- what survives ------------------------------------------------------------------------------------------------

    def adopt(self) -> None:
        """All that is there now is safe: somebody else than the node put it there, or the power was off meanwhile."""
        self.close()
        for folder, _, files in os.walk(self.top):
            self._take(folder)
            for name in files:
                self._take(os.path.join(folder, name))

    def close(self) -> None:
        for each in self._safe.values():
            os.close(each.held)
        self._safe.clear()

    def _take(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            self.synced(descriptor)
        finally:
            os.close(descriptor)

    def synced(self, descriptor: int) -> None:
        """An fsync of it has returned."""
        status = os.fstat(descriptor)
        safe = self._known(status.st_ino, descriptor)
        if not stat.S_ISDIR(status.st_mode):
            safe.contents = _read(descriptor, status.st_size)
            return
        safe.names = {}
        for entry in sorted(os.scandir(descriptor), key=lambda each: each.name):
            safe.names[entry.name] = entry.inode()
            if entry.inode() not in self._safe:  # its name is safe, and none of its contents
                self._hold(entry.name, descriptor)

    def _hold(self, name: str, folder: int) -> None:
        descriptor = os.open(name, os.O_RDONLY, dir_fd=folder)
        try:
            self._known(os.fstat(descriptor).st_ino, descriptor)
        finally:
            os.close(descriptor)

    def _known(self, inode: int, descriptor: int) -> _Safe:
        if inode not in self._safe:
            self._safe[inode] = _Safe(held=fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _DESCRIPTORS_FROM))
        return self._safe[inode]

    def lose_unsynced(self, chance: Random) -> None:
        """As after a power loss: what was safe is there, and of a write that was under way at most a torn part."""
        left = Contents()
        self._keep(os.stat(self.top).st_ino, "", left, chance)
        left.put(self.top)
        self.adopt()

    def _keep(self, inode: int, inside: str, left: Contents, chance: Random) -> None:
        safe = self._safe.get(inode)
        for name, child in sorted(((safe and safe.names) or {}).items()):
            path = os.path.join(inside, name)
            known = self._safe[child]
            if stat.S_ISDIR(os.fstat(known.held).st_mode):
                left.folders.append(path)
                self._keep(child, path, left, chance)
            else:
                left.files[path] = _torn(known, chance)

    # -- what a write meets -------------------------------------------------------------------------------------------

    def changes(self, *, takes_room: bool) -> bool:
        """The node is about to change something on it. Raises OSError where it cannot. True: it is struck, and half of
        the write is there."""
        if self.is_full and takes_room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self.failure is not None:
            self.failure.nth -= 1
            if self.failure.nth <= 0:
                self.failure.strike()
                raise OSError(errno.EIO, os.strerror(errno.EIO))
        point = self.crash_point
        if point is None:
            return False
        point.nth -= 1
        if point.nth > 0:
            return False
        return point.torn

    def strikes_now(self, what: str) -> None:
        """What is there at this moment is what the node leaves behind, whatever its code does on its way out."""
        point = self.crash_point
        if point is not None and point.nth <= 0:
            self.crash_point = None
            self.at_crash = Contents.of(self.top)
            point.strike(what)

    def crashed(self) -> None:
        """Its node is gone: back to how it stood when it was struck."""
        if self.at_crash is not None:
            self.at_crash.put(self.top)
            self.at_crash = None


def _read(descriptor: int, size: int) -> bytes:
    path = f"/proc/self/fd/{descriptor}"  # it may have been opened for writing alone
    with open(path, "rb") as file:
        return file.read(size)


def _torn(known: _Safe, chance: Random) -> bytes:
    """What was appended and not synced never came to the disk, or a part of it did."""
    safe = known.contents or b""
    now = _read(known.held, os.fstat(known.held).st_size)
    if len(now) > len(safe) and now.startswith(safe) and chance.random() < 0.5:
        return now[: chance.randrange(len(safe), len(now))]
    return safe
