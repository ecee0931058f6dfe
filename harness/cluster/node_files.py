"""Reads what a node wrote on its disk: plain files alone, through no link, and no more than may be held.

A node in a container writes its volume as it likes, and the harness reads it as the machine's root: a link would show
files of this machine, a pipe would wait for ever, and a file may say that it is a million times larger than its disk.
"""

import io
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from harness.errors import HarnessError, UsageError
from harness.history.files_below import FilesBelow
from harness.host import memory

_LINE_CHARACTERS = 1 << 20  # what is longer comes in pieces
_BLOCK_BYTES = 512  # of st_blocks, on every file system of Linux


def opened(path: Path) -> BinaryIO:
    """Raises FileNotFoundError, HarnessError."""
    try:
        return _beside(path).open(path.name)
    except UsageError as error:
        raise _of_node(error) from None


def opened_for_change(path: Path) -> BinaryIO:
    """Of a file that is there: to be changed in place. Raises HarnessError."""
    try:
        return _beside(path).open_in_place(path.name)
    except UsageError as error:
        raise _of_node(error) from None


def read(path: Path) -> bytes:
    """Raises FileNotFoundError, HarnessError."""
    return read_joined([path])[0]


def read_joined(paths: Sequence[Path]) -> list[bytes]:
    """Of files that are held at the same time. Raises FileNotFoundError, HarnessError."""
    together = memory.Together()
    contents = []
    for path in paths:
        with opened(path) as file:
            size = os.fstat(file.fileno()).st_size
            together.take(str(path), size)
            contents.append(file.read(size))
    return contents


def read_end(path: Path, most_bytes: int, *, since: int = 0) -> bytes:
    """The last bytes, none before `since`. Raises FileNotFoundError, HarnessError."""
    with opened(path) as file:
        file.seek(max(os.fstat(file.fileno()).st_size - most_bytes, since))
        return file.read(most_bytes)


def lines(path: Path) -> Iterator[str]:
    """Of a log, which is read a line at a time, however long it is: one that consists of holes is none.

    None of a missing file. Raises HarnessError.
    """
    try:
        file = opened(path)
    except FileNotFoundError:
        return
    with io.TextIOWrapper(file, encoding="utf-8", errors="replace") as text:
        found = os.fstat(file.fileno())
        if found.st_blocks * _BLOCK_BYTES < found.st_size:
            memory.check(str(path), found.st_size)
        while line := text.readline(_LINE_CHARACTERS):
            yield line


def size(path: Path) -> int:
    """0 where there is none. Raises HarnessError."""
    try:
        with opened(path) as file:
            return os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        return 0


def names(folder: Path) -> list[str]:
    """Of the files in a folder, sorted; none where there is no folder. Raises HarnessError."""
    return [name for name, mode in _entries(folder) if not stat.S_ISDIR(mode)]


def folders(folder: Path) -> list[str]:
    """The names of the folders in a folder, and of what takes the place of one: opening that is refused."""
    return [name for name, mode in _entries(folder) if not stat.S_ISREG(mode)]


def has_folder(path: Path) -> bool:
    """Raises HarnessError for what leads elsewhere."""
    try:
        return _beside(path).has_folder(path.name)
    except UsageError as error:
        raise _of_node(error) from None


def _entries(folder: Path) -> list[tuple[str, int]]:
    try:
        return _beside(folder).entries(folder.name)
    except UsageError as error:
        raise _of_node(error) from None


def _beside(path: Path) -> FilesBelow:
    """The folder above a node's own is resolved by whoever made it, and has no link; so none is allowed on the way."""
    return FilesBelow(path.parent, is_real=True)


def _of_node(error: UsageError) -> HarnessError:
    """What is wrong in a node's files is not the user's input, so it is no usage error."""
    return HarnessError(str(error))
