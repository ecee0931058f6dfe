"""What the harness removes or changes on a node's disk stays on that disk: a link in the way is refused, not followed.

A node's folder is written by the node, and in a container by whatever runs there; the harness may be root. So folders
are reached part by part from one that nobody else writes in, and what lies below is removed by way of descriptors.
"""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from harness.errors import HarnessError


@contextlib.contextmanager
def folder_below(top: Path, folder: Path) -> Iterator[int]:
    """A descriptor of a folder below `top`, or of `top` itself. Raises HarnessError where a link lies on the way."""
    descriptor = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in folder.relative_to(top).parts:
            try:
                inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=descriptor)
            except OSError as error:
                raise HarnessError(
                    f"{folder}: {part!r} is no folder there ({error.strerror}); nothing was touched"
                ) from None
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def empty(data: Path, *, top: Path) -> int:
    """Removes everything below a data directory, links and not what they lead to; the bytes removed."""
    removed = 0
    with folder_below(top, data) as folder:
        try:
            for _, names_of_folders, names_of_files, here in os.fwalk(".", topdown=False, dir_fd=folder):
                for name in (*names_of_files, *names_of_folders):
                    found = os.lstat(name, dir_fd=here)
                    if stat.S_ISDIR(found.st_mode):
                        os.rmdir(name, dir_fd=here)
                    else:
                        removed += found.st_size
                        os.unlink(name, dir_fd=here)
        except OSError as error:
            raise HarnessError(f"{data} cannot be emptied: {error.strerror}, {error.filename}") from error
        assert not os.listdir(folder), "everything below the data directory was removed"
    return removed


def refuse_links(folder: Path) -> None:
    """Before files of a replica are changed. Raises HarnessError that names one that is somebody else's."""
    for path in sorted(folder.iterdir()):
        mode = path.lstat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise HarnessError(f"{path} is no plain file: what it leads to is not the replica's, and is left alone")


def open_unlinked(path: str, flags: int) -> int:
    """An `opener` that fails on a link, also on one that was put there a moment ago."""
    return os.open(path, flags | os.O_NOFOLLOW)
