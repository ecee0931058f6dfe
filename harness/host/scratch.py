"""Folders for a while, in the system's temporary folder: each goes with whoever made it, however he ended.

Who is killed removes nothing. So each folder has an entry in the state directory, which only this user can write, and
which is locked for as long as its maker lives: the sweep of a later command removes the folders whose locks are free.
Without a state directory there is no entry, and the folder is removed by its maker alone.
"""

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from harness.errors import HarnessError
from harness.host.user_folders import state_directory

_LARGEST_BYTES = 1 << 16


class _Entry(msgspec.Struct, frozen=True, kw_only=True):
    folder: str
    inode: int


class Scratch:
    """A folder that is its user's alone, until `remove`. beside: where it is made, if not in the temporary folder."""

    def __init__(self, prefix: str, *, beside: Path | None = None) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=beside)).resolve()
        self._lock: int | None = None
        self._entry: Path | None = None
        self._enter()

    @classmethod
    def of_starter(cls, path: Path) -> "Scratch":
        """The folder of whoever started this process, who may be killed as well. Raises HarnessError."""
        made = cls.__new__(cls)
        made.path, made._lock, made._entry = path.resolve(), None, None
        try:
            found = made.path.stat()
        except OSError as error:
            raise HarnessError(f"{path}: no folder of who started this ({error.strerror})") from None
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
            raise HarnessError(f"{path}: no folder that is its user's alone")
        made._enter()
        return made

    def _enter(self) -> None:
        draft = None
        try:
            entry = _entries() / f"{os.getpid()}-{self.path.name}.json"
            draft = entry.with_suffix(".new")
            self._lock = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            whole = msgspec.json.encode(_Entry(folder=str(self.path), inode=self.path.stat().st_ino))
            if os.write(self._lock, whole) == len(whole):
                draft.replace(entry)
                self._entry = entry
        except (HarnessError, OSError, UnicodeEncodeError):
            self._entry = None  # its maker alone removes it
        finally:
            if draft is not None and self._entry is None:
                draft.unlink(missing_ok=True)

    def remove(self) -> None:
        """May be called again. What cannot be removed now is left to the sweep."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.let_go(forget=not self.path.exists())

    def let_go(self, *, forget: bool = True) -> None:
        if forget and self._entry is not None:
            self._entry.unlink(missing_ok=True)
        if self._lock is not None:
            os.close(self._lock)
        self._entry = self._lock = None


@contextlib.contextmanager
def scratch_folder(prefix: str, *, beside: Path | None = None) -> Iterator[Path]:
    made = Scratch(prefix, beside=beside)
    try:
        yield made.path
    finally:
        made.remove()


@contextlib.contextmanager
def left_behind() -> Iterator[Callable[[], list[str]]]:
    """What removes the folders whose makers are gone now, and says so, a sentence each. A folder may hold what says how
    to end its maker's processes: that comes before."""
    held: list[tuple[Path, int]] = []
    try:
        for path in sorted(_entries().glob("*.json")):
            descriptor = _lock(path)
            if descriptor is not None:
                held.append((path, descriptor))
        yield lambda: [sentence for path, descriptor in held if (sentence := _removed(path, descriptor))]
    finally:
        for _, descriptor in held:
            os.close(descriptor)


def is_anything_left() -> bool:
    """Whether there is a folder whose maker is gone."""
    for path in _entries().glob("*.json"):
        if (descriptor := _lock(path)) is not None:
            os.close(descriptor)
            return True
    return False


def _entries() -> Path:
    folder = state_directory() / "scratch"
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise HarnessError(f"{folder}: no folder for what is entered there ({error.strerror}); remove it") from None
    return folder


def _lock(path: Path) -> int | None:
    """None while its maker lives, or another sweep has it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found = os.fstat(descriptor)
        if stat.S_ISREG(found.st_mode) and os.path.samestat(found, path.lstat()):
            return descriptor
    except OSError:  # locked, or removed at this moment
        os.close(descriptor)
        return None
    os.close(descriptor)  # no file, or not the one of that name any more
    return None


def _remove_within(reached: int, name: str) -> None:
    def unless_it_is_gone(_: object, __: object, raised: tuple[type, BaseException, object]) -> None:
        if not isinstance(raised[1], FileNotFoundError):
            raise raised[1]

    if stat.S_ISDIR(os.stat(name, dir_fd=reached, follow_symlinks=False).st_mode):
        shutil.rmtree(name, dir_fd=reached, onerror=unless_it_is_gone)
    else:
        os.unlink(name, dir_fd=reached)


def _removed(path: Path, descriptor: int) -> str:
    try:
        entry = msgspec.json.decode(os.read(descriptor, _LARGEST_BYTES), type=_Entry)
    except (msgspec.DecodeError, RecursionError, OSError) as error:
        path.unlink(missing_ok=True)
        return f"removed {path}, which is no entry of a folder ({' '.join(str(error).split())})"
    folder = Path(entry.folder)
    try:
        reached = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        path.unlink(missing_ok=True)
        return ""
    except OSError as error:
        path.unlink(missing_ok=True)
        return f"{folder} is not the folder that was entered ({error.strerror}): it is left alone"
    try:
        found = os.fstat(reached)
        if found.st_ino != entry.inode or found.st_uid != os.geteuid():
            path.unlink(missing_ok=True)
            return f"{folder} is not the folder that was entered (another one is in its place): it is left alone"
        for name in os.listdir(reached):
            with contextlib.suppress(FileNotFoundError):  # a JVM that is ending removes what is its own
                _remove_within(reached, name)
        folder.rmdir()
    except OSError as error:
        return f"{folder}, left behind, cannot be removed: {error.strerror}"
    finally:
        os.close(reached)
    path.unlink(missing_ok=True)
    return f"removed {folder} that a kafka-chaos that was killed had left behind"
