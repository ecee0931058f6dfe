"""Takes files out of containers and volumes: folders and plain files, and nothing that leads elsewhere.

Whoever runs in a container can make links to any path and, being root there, devices; copied as they are, or followed,
they would bring this machine's own files into the run folder, or its writes out of it. They are left out, and named in
a file beside what was taken. So can he make files that are said to be larger than any disk: their holes stay holes, and
an archive is held in memory only as far as that is allowed.
"""

import errno
import io
import os
import stat
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from harness import memory

LEFT_OUT = "left-out.txt"
_PIECE = 1 << 20


def copy(source: Path, target: Path) -> list[str]:
    """A volume that is a folder of this machine, into a folder that may be there already; what was left out."""
    left_out = []
    for place, _, _, here in os.fwalk(source):
        below = Path(place).relative_to(source)
        (target / below).mkdir(parents=True, exist_ok=True)
        for name in os.listdir(here):
            found = os.lstat(name, dir_fd=here)
            if stat.S_ISREG(found.st_mode):
                _copy_file(name, here, target / below / name)
            elif not stat.S_ISDIR(found.st_mode):
                left_out.append(_told(str(below / name), "a link" if stat.S_ISLNK(found.st_mode) else "no plain file"))
    return left_out


def _copy_file(name: str, here: int, target: Path) -> None:
    """Its times too, but not its mode or owner: a program that runs as root in a container shall not do so here."""
    source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=here)
    with open(source, "rb"), open(target, "wb", opener=_unlinked) as written:
        found = os.fstat(source)
        os.ftruncate(written.fileno(), found.st_size)
        for start, end in _without_holes(source, found.st_size):
            while start < end and (piece := os.pread(source, min(_PIECE, end - start), start)):
                start += os.pwrite(written.fileno(), piece, start)
        os.utime(written.fileno(), ns=(found.st_atime_ns, found.st_mtime_ns))


def _without_holes(file: int, size: int) -> Iterator[tuple[int, int]]:
    """Where in the file something was ever written, from here to there."""
    end = 0
    while end < size:
        try:
            start = os.lseek(file, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return  # from there on nothing was
        end = os.lseek(file, start, os.SEEK_HOLE)
        yield start, min(end, size)


def _unlinked(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def joined(pieces: Iterable[bytes], what: str) -> bytes:
    """An archive that comes in pieces. Raises HarnessError once it has become too large."""
    archive = bytearray()
    for piece in pieces:
        archive += piece
        memory.check(f"{what}, as far as it came,", len(archive))
    return bytes(archive)


def extract(archive: bytes, target: Path) -> list[str]:
    """An archive as the engine makes it of a container's folder; what was left out. Raises tarfile.TarError."""
    target.mkdir(parents=True, exist_ok=True)
    left_out: list[str] = []

    def only_plain(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo | None:
        if not (member.isreg() or member.isdir()):
            left_out.append(_told(member.name, "a link" if member.issym() or member.islnk() else "no plain file"))
            return None
        try:
            return tarfile.data_filter(member, path)
        except tarfile.FilterError:
            left_out.append(_told(member.name, "outside of the folder"))
            return None

    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        opened.extractall(target, filter=only_plain)
    return left_out


def note(left_out: Sequence[str], folder: Path) -> None:
    """For whoever looks for what is not there."""
    if left_out:
        text = "Not taken out of the container, since it could lead elsewhere:\n" + "".join(left_out)
        with open(folder / LEFT_OUT, "w", encoding="utf-8", errors="backslashreplace", opener=_unlinked) as file:
            file.write(text)


def _told(name: str, reason: str) -> str:
    return f"{name!r}: {reason}\n"
