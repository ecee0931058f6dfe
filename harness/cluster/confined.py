"""Removes and changes files on a node's disk without leaving that disk: symbolic links are refused, not followed.

The node writes its own folder, in a container as any user, and the harness may be root. So a folder is opened part by
part, starting from one that only the harness writes, and removals use file descriptors.
"""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from harness.errors import HarnessError
from harness.ports.faults import NothingToStrike


@contextlib.contextmanager
def folder_below(top: Path, folder: Path) -> Iterator[int]:
    """Returns a descriptor of a folder below `top`, or of `top`. Raises HarnessError if a link is on the way,
    NothingToStrike if the folder is not there."""
    descriptor = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in folder.relative_to(top).parts:
            try:
                inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=descriptor)
            except OSError as error:
                kind = NothingToStrike if isinstance(error, FileNotFoundError) else HarnessError
                raise kind(f"{folder}: {part!r} is no folder there ({error.strerror}); nothing was touched") from None
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def empty(data: Path, *, top: Path) -> int:
    """Removes everything below a data directory (links themselves, not their targets); returns the number of bytes
    removed."""
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
        except RecursionError:
            raise HarnessError(f"{data} cannot be emptied: its folders are nested too deep; remove it") from None
        assert not os.listdir(folder), "everything below the data directory was removed"
    return removed


def refuse_links(folder: Path) -> None:
    """Call it before changing files of a replica. Raises HarnessError with the name of a link."""
    for path in sorted(folder.iterdir()):
        mode = path.lstat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise HarnessError(f"{path} is no plain file: what it leads to is not the replica's, and is left alone")
