"""Access to the files below a folder that somebody else may have created: no link is followed, no pipe or device
opened.

Run folders are exchanged, and their contents are not trusted. Every path is walked by directory descriptors, so nobody
can insert a link between a check and its use. Files are written beside their target and renamed: a file that has a
second name (hard link) elsewhere is replaced here and not changed there.
"""

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from harness.errors import HarnessError, UsageError

UNFINISHED = ".unfinished"
_HELD = Path("/proc/self/fd")  # paths below it lead to a folder held open, wherever it is moved
_REMEDY = "nothing of a run is read or written through one: remove it"

_PLAIN = "a plain file is wanted here"
_NAME_BYTES_MAX = 255  # of a part of a path, on every file system of Linux
_PIECE = 1 << 20
NESTING_MAX = 100  # of folders below a run's, a campaign's or a user's


def can_lie_below(name: str) -> bool:
    """Whether a text that somebody else wrote can name something below a folder, and nothing above or beside it."""
    try:
        parts = [os.fsencode(part) for part in name.split("/")]
    except UnicodeEncodeError:
        return False
    return all(part not in (b"", b".", b"..") and b"\0" not in part and len(part) <= _NAME_BYTES_MAX for part in parts)


class FilesBelow:
    """`top` is resolved once, now; names are relative to it, such as "tables/operations.parquet".

    `is_real`: `top` was resolved already; a link in it since then is refused. Raises UsageError for a link, a pipe or a
    device on the way, FileNotFoundError for a missing file to read, HarnessError for a file that cannot be written.
    """

    def __init__(self, top: Path, *, is_real: bool = False) -> None:
        self.top = top if is_real or top.parent == _HELD else top.resolve()
        assert self.top.is_absolute(), top

    # -- checking ------------------------------------------

    def refuse_links(self, *names: str) -> None:
        """Raises UsageError for the first of these files and folders that is, or contains at any depth, anything but
        plain files."""
        for name in names:
            path = self.top / name
            try:
                mode = path.lstat().st_mode
            except (FileNotFoundError, NotADirectoryError):
                continue
            if stat.S_ISDIR(mode):
                _refuse_links_in(path)
            else:
                _refuse_unless_file(mode, path)

    def has_file(self, name: str) -> bool:
        """Of a name that somebody else may have chosen. Raises UsageError for anything but a plain file."""
        return stat.S_ISREG(self._mode(name))

    def has_folder(self, name: str) -> bool:
        """Of a name that somebody else may have chosen. Raises UsageError for anything but a folder or plain file."""
        return stat.S_ISDIR(self._mode(name))

    def _mode(self, name: str) -> int:
        """0 where there is nothing."""
        if not can_lie_below(name):
            return 0
        absent = contextlib.suppress(FileNotFoundError, NotADirectoryError)
        with _errors_in_one_line(self.top / name, "read"), absent, self._folder_of(name) as (folder, base):
            mode = os.stat(base, dir_fd=folder, follow_symlinks=False).st_mode
            if not stat.S_ISDIR(mode):
                _refuse_unless_file(mode, self.top / name)
            return mode
        return 0

    # -- reading ------------------------------------------

    def entries(self, name: str) -> list[tuple[str, int]]:
        """(name, mode) of all that a folder contains, sorted; links are not followed. None of a missing folder."""
        path = self.top / name
        gone = contextlib.suppress(FileNotFoundError)
        with _errors_in_one_line(path, "read"), gone, self._folder_of(name) as (folder, base):
            if not stat.S_ISDIR(mode := os.stat(base, dir_fd=folder, follow_symlinks=False).st_mode):
                _refuse_unless_file(mode, path)
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(base, flags, dir_fd=folder)
            try:
                with os.scandir(descriptor) as found:
                    return sorted((entry.name, entry.stat(follow_symlinks=False).st_mode) for entry in found)
            finally:
                os.close(descriptor)
        return []

    def read(self, name: str) -> bytes:
        with self.open(name) as file:
            return file.read()

    def read_text(self, name: str) -> str:
        """Raises UsageError if the file is not UTF-8."""
        try:
            return self.read(name).decode("utf-8")
        except UnicodeDecodeError as error:
            raise UsageError(f"{self.top / name}: not UTF-8 text: {error}") from None

    def open(self, name: str) -> BinaryIO:
        """Opens a file for reading."""
        path = self.top / name
        with _errors_in_one_line(path, "read", but=FileNotFoundError), self._folder_of(name) as (folder, base):
            _refuse_unless_file(os.stat(base, dir_fd=folder, follow_symlinks=False).st_mode, path)
            return os.fdopen(self._opened(folder, base, os.O_RDONLY, path), "rb")

    # -- writing ------------------------------------------

    @contextlib.contextmanager
    def replacing(self, name: str) -> Iterator[BinaryIO]:
        """A new file that gets its name when it is complete: readers see the old file or the new one."""
        path = self.top / name
        with _errors_in_one_line(path, "written"), self._folder_of(name) as (folder, base):
            unfinished = base + UNFINISHED
            for each in (base, unfinished):
                with contextlib.suppress(FileNotFoundError):
                    mode = os.stat(each, dir_fd=folder, follow_symlinks=False).st_mode
                    _refuse_unless_file(mode, path.with_name(each))
            with contextlib.suppress(FileNotFoundError):
                os.unlink(unfinished, dir_fd=folder)  # of a writer that was killed
            descriptor = self._opened(folder, unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, path)
            ours = os.fstat(descriptor)
            with os.fdopen(descriptor, "wb") as file:  # open to the end, so that no other file can take its place
                try:
                    yield file
                    file.flush()
                    if not _is_still(ours, folder, unfinished):  # an incomplete file must not get the name
                        raise HarnessError(f"{path}: another kafka-chaos writes it too; wait, and do this again")
                    os.rename(unfinished, base, src_dir_fd=folder, dst_dir_fd=folder)
                except BaseException:
                    if _is_still(ours, folder, unfinished):
                        os.unlink(unfinished, dir_fd=folder)
                    raise

    def replace(self, name: str, content: bytes) -> Path:
        with self.replacing(name) as file:
            file.write(content)
        return self.top / name

    def append(self, name: str) -> BinaryIO:
        """Opens a file for appending, unbuffered; raises HarnessError if it has a second name (hard link)."""
        path = self.top / name
        with _errors_in_one_line(path, "written"), self._folder_of(name) as (folder, base):
            with contextlib.suppress(FileNotFoundError):
                _refuse_unless_file(os.stat(base, dir_fd=folder, follow_symlinks=False).st_mode, path)
            descriptor = self._opened(folder, base, os.O_WRONLY | os.O_APPEND | os.O_CREAT, path)
            if os.fstat(descriptor).st_nlink != 1:
                os.close(descriptor)
                raise HarnessError(f"{path} has a second name (a hard link), which would be written too: copy the file")
            return os.fdopen(descriptor, "ab", buffering=0)

    def open_in_place(self, name: str) -> BinaryIO:
        """Opens a file that is there, to change it where it lies, unbuffered."""
        path = self.top / name
        with _errors_in_one_line(path, "written"), self._folder_of(name) as (folder, base):
            _refuse_unless_file(os.stat(base, dir_fd=folder, follow_symlinks=False).st_mode, path)
            return os.fdopen(self._opened(folder, base, os.O_RDWR, path), "r+b", buffering=0)

    def make_folder(self, name: str) -> None:
        """Creates the folder unless it exists."""
        with _errors_in_one_line(self.top / name, "written"), self._folder_of(name) as (folder, base):
            with contextlib.suppress(FileExistsError):
                os.mkdir(base, dir_fd=folder)
            if not stat.S_ISDIR(mode := os.stat(base, dir_fd=folder, follow_symlinks=False).st_mode):
                _refuse_unless_file(mode, self.top / name)
                raise HarnessError(f"{self.top / name} is a file where a folder has to be: remove it")

    def remove_folder(self, name: str) -> None:
        """Removes it with its contents, links but not their targets; does nothing if it does not exist."""
        gone = contextlib.suppress(FileNotFoundError)
        with _errors_in_one_line(self.top / name, "written"), gone, self._folder_of(name) as (folder, base):
            if stat.S_ISLNK(mode := os.stat(base, dir_fd=folder, follow_symlinks=False).st_mode):
                _refuse_unless_file(mode, self.top / name)
            shutil.rmtree(base, dir_fd=folder)

    def rename_folder(self, name: str, new: str) -> bool:
        """Within the folder that contains it. False if something is there already: nothing is replaced."""
        with _errors_in_one_line(self.top / new, "written"), self._folder_of(name) as (folder, base):
            try:
                os.rename(base, new.rpartition("/")[2], src_dir_fd=folder, dst_dir_fd=folder)
            except OSError as error:
                if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                    return False
                raise
        return True

    # -- internal -----------------------------------------

    @contextlib.contextmanager
    def _folder_of(self, name: str) -> Iterator[tuple[int, str]]:
        """(a descriptor of the folder that contains the file, the file's own name)."""
        *folders, base = name.split("/")
        assert all(part not in ("", ".", "..") for part in (*folders, base)), name
        if self.top.parent == _HELD:
            descriptor = self._descend(folders, start=self.top)
        else:
            descriptor = self._descend([*self.top.parts[1:], *folders])
        try:
            yield descriptor, base
        finally:
            os.close(descriptor)

    @staticmethod
    def _descend(parts: Sequence[str], *, start: Path = Path("/")) -> int:
        # O_PATH: traversing a folder does not require the right to list it.
        flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        reached = os.open(start, flags & ~os.O_NOFOLLOW)
        for number, part in enumerate(parts, start=1):
            try:
                inner = os.open(part, flags, dir_fd=reached)
            except NotADirectoryError:
                path = start.joinpath(*parts[:number])
                _refuse_unless_file(os.stat(part, dir_fd=reached, follow_symlinks=False).st_mode, path)
                raise
            finally:
                os.close(reached)
            reached = inner
        return reached

    @staticmethod
    def _opened(folder: int, base: str, flags: int, path: Path) -> int:
        """Opens the file without following, waiting for or reading anything that replaced it since the check."""
        careful = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            descriptor = os.open(base, flags | careful, 0o666, dir_fd=folder)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise UsageError(f"{path} is a symbolic link; {_REMEDY}") from None
            raise
        try:
            _refuse_unless_file(os.fstat(descriptor).st_mode, path)
        except UsageError:
            os.close(descriptor)
            raise
        return descriptor


def open_plain(path: Path, *, through_links: bool = True) -> BinaryIO:
    """Opens a file by path for reading; does not wait for pipes or trigger devices.

    Raises UsageError if it is not a plain file, OSError if it cannot be opened.
    """
    careful = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if through_links else os.O_NOFOLLOW)
    # checked first: opening a device may have an effect
    mode = (path.stat() if through_links else path.lstat()).st_mode
    _refuse_unless_file(mode, path, _PLAIN)
    descriptor = os.open(path, careful)
    try:
        _refuse_unless_file(os.fstat(descriptor).st_mode, path, _PLAIN)
    except UsageError:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def copy_contents(source: int, target: int) -> None:
    """Between open files; a hole stays a hole, so that a copy takes no more of a disk than what is copied."""
    size, end = os.fstat(source).st_size, 0
    os.ftruncate(target, size)
    while end < size:
        try:
            start = os.lseek(source, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return  # no data after this position
        end = min(os.lseek(source, start, os.SEEK_HOLE), size)
        while start < end and (piece := os.pread(source, min(_PIECE, end - start), start)):
            start += os.pwrite(target, piece, start)


@contextlib.contextmanager
def _errors_in_one_line(path: Path, done: str, *, but: type[OSError] | tuple[()] = ()) -> Iterator[None]:
    """Turns an OSError into one line, except `but`, which the caller handles."""
    try:
        yield
    except but:
        raise
    except OSError as error:
        raise HarnessError(f"{path} cannot be {done}: {error.strerror or error}") from error
    except RecursionError:
        raise HarnessError(f"{path} cannot be {done}: its folders are nested too deep: remove it") from None


def all_below(top: Path) -> Iterator["os.DirEntry[str]"]:
    """At any depth that a run's or a user's files have. No link is followed. Raises HarnessError."""
    waiting = [(str(top), 1)]
    while waiting:
        folder, depth = waiting.pop()
        if depth > NESTING_MAX:
            raise HarnessError(f"{top}: folders nested more than {NESTING_MAX} deep: remove them")
        gone = contextlib.suppress(FileNotFoundError)  # it was replaced at this moment
        with _errors_in_one_line(Path(folder), "read"), gone, os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append((entry.path, depth + 1))
                yield entry


def _refuse_links_in(top: Path) -> None:
    for entry in all_below(top):
        if not (entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False)):
            with contextlib.suppress(FileNotFoundError):
                _refuse_unless_file(os.lstat(entry.path).st_mode, Path(entry.path))


def _refuse_unless_file(mode: int, path: Path, remedy: str = _REMEDY) -> None:
    if stat.S_ISLNK(mode):
        raise UsageError(f"{path} is a symbolic link; {remedy}")
    if stat.S_ISDIR(mode):
        raise UsageError(f"{path} is a folder where a file has to be: remove it")
    if not stat.S_ISREG(mode):
        raise UsageError(f"{path} is a pipe, a socket or a device; {remedy}")


def _is_still(ours: os.stat_result, folder: int, name: str) -> bool:
    try:
        return os.path.samestat(ours, os.stat(name, dir_fd=folder, follow_symlinks=False))
    except FileNotFoundError:
        return False
