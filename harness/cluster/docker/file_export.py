"""Copies files out of containers and volumes: folders and plain files only.

Programs in a container can create links to any path and, as root, devices; copying or following them would bring files
of this machine into the run folder, or write outside it. So they are skipped and listed in a file beside the copy.
Programs can also create files with a huge apparent size: holes stay holes, and an archive's size in memory is limited.
"""

import io
import os
import stat
import tarfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from harness.history.files_below import copy_contents
from harness.host import memory

LEFT_OUT = "left-out.txt"
_NESTING_MAX = 12  # folders below a volume's own; with names of any length a path stays one that can be opened
_TOO_DEEP = f"folders nested more than {_NESTING_MAX} deep"


def copy(source: Path, target: Path) -> list[str]:
    """Copies a volume that is a folder of this machine into a folder that may exist; returns what was skipped."""
    left_out = []
    for place, inner, _, here in os.fwalk(source):
        below = Path(place).relative_to(source)
        (target / below).mkdir(parents=True, exist_ok=True)
        if len(below.parts) == _NESTING_MAX and inner:
            left_out.append(_skipped_line(str(below), _TOO_DEEP))
            inner.clear()
        for name in os.listdir(here):
            found = os.lstat(name, dir_fd=here)
            if stat.S_ISREG(found.st_mode):
                _copy_file(name, here, target / below / name)
            elif not stat.S_ISDIR(found.st_mode):
                left_out.append(
                    _skipped_line(str(below / name), "a link" if stat.S_ISLNK(found.st_mode) else "no plain file")
                )
    return left_out


def _copy_file(name: str, here: int, target: Path) -> None:
    """Copies the times too, but not mode or owner: a file of root in a container must not become one here."""
    source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=here)
    with open(source, "rb"), open(target, "wb", opener=_unlinked) as written:
        found = os.fstat(source)
        copy_contents(source, written.fileno())
        os.utime(written.fileno(), ns=(found.st_atime_ns, found.st_mtime_ns))


def _unlinked(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def joined(pieces: Iterable[bytes], what: str) -> bytes:
    """Joins an archive that comes in pieces. Raises HarnessError if it becomes too large."""
    archive = bytearray()
    for piece in pieces:
        archive += piece
        memory.check(f"{what}, as far as it came,", len(archive))
    return bytes(archive)


def extract(archive: bytes, target: Path) -> list[str]:
    """Extracts the engine's archive of a container's folder; returns what was skipped.

    Raises tarfile.TarError, OSError where a file is in the place of a folder that came before, or the other way round.
    """
    target.mkdir(parents=True, exist_ok=True)
    left_out: list[str] = []

    def only_plain(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo | None:
        if not (member.isreg() or member.isdir()):
            left_out.append(
                _skipped_line(member.name, "a link" if member.issym() or member.islnk() else "no plain file")
            )
            return None
        if len(Path(member.name).parts) > _NESTING_MAX + 1:
            left_out.append(_skipped_line(member.name, _TOO_DEEP))
            return None
        try:
            return tarfile.data_filter(member, path)
        except tarfile.FilterError:
            left_out.append(_skipped_line(member.name, "outside of the folder"))
            return None

    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        opened.extractall(target, filter=only_plain)
    return left_out


def note(left_out: Sequence[str], folder: Path) -> None:
    """Writes the list of skipped files."""
    if left_out:
        folder.mkdir(parents=True, exist_ok=True)
        text = "Not taken out of the container, since it could lead elsewhere:\n" + "".join(left_out)
        with open(folder / LEFT_OUT, "w", encoding="utf-8", errors="backslashreplace", opener=_unlinked) as file:
            file.write(text)


def _skipped_line(name: str, reason: str) -> str:
    return f"{name!r}: {reason}\n"
