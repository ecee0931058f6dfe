"""Keeps the classes that a check loads in parsed form for the next JVM: half of a cold check is reading Spark's jars.

Java writes such an archive when a JVM that was asked for it ends (Java 25: the ahead-of-time cache, JEP 514; before:
a dynamic class-data archive, JEP 350), and takes it only with the same Java and the very same class path. So it is in
the user's cache under a name built from both. Nothing depends on it: without one, or with one that Java refuses, a
check is only slower. The first check on a machine has it made after its verdict, by a JVM of its own: one that writes
down what it loads takes three times as long.
"""

import contextlib
import fcntl
import hashlib
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from harness.errors import HarnessError
from harness.host.user_folders import cache_directory, made_in_cache, refuse_others

OFF = "KAFKA_CHAOS_NO_CLASS_ARCHIVE"  # set to any value: neither used nor created
_FOLDER = "spark-classes"
_AHEAD_OF_TIME_FROM = 25
_MAKING, _UNFINISHED = ".making", ".unfinished-"
_SMALLEST_BYTES = 1_000_000
# Each is 200 MB, and every update of Java, of PySpark or of where they are makes a new one.
_KEPT_MAX = 8
_UNUSED_S = 14 * 24 * 3600.0


@dataclass(frozen=True, kw_only=True)
class ClassArchive:
    """The options with which a JVM uses the archive, or writes it; call `keep` or `drop` after that JVM has ended."""

    path: Path
    unfinished: Path | None  # where this JVM writes a new one
    options: tuple[str, ...]
    mark: BinaryIO | None = None  # locked for as long as the process that has it made lives

    @property
    def making(self) -> bool:
        return self.unfinished is not None

    def keep(self) -> None:
        """Puts a complete new archive in place."""
        if self.unfinished is not None:
            with contextlib.suppress(OSError):
                if self.unfinished.stat().st_size >= _SMALLEST_BYTES:
                    self.unfinished.replace(self.path)
                    _remove_unused(self.path)
            self.drop()

    def drop(self) -> None:
        """Gives up the new archive, so that another JVM can create it."""
        if self.unfinished is not None:
            _clear(self.path.parent, self.path.stem)
        if self.mark is not None:
            self.mark.close()


def class_archive(
    *,
    home: Path,
    version: int,
    class_path: str,
    options: Sequence[str],
    making: bool = False,
    environment: Mapping[str, str] = os.environ,
) -> ClassArchive | None:
    """The archive for a JVM of this Java, class path and options; None if it is disabled, or not there yet.

    making: the JVM is started to write it if it is not there; None then if another process has it made.
    """
    if environment.get(OFF):
        return None
    try:
        refuse_others(environment)
    except HarnessError:  # its classes would be run; a check is only slower without them
        return None
    parts = "\n".join((*_build(home), class_path, *options))
    name = hashlib.sha256(parts.encode()).hexdigest()[:20]
    folder = cache_directory(environment) / _FOLDER
    path = folder / f"{name}.{'aot' if version >= _AHEAD_OF_TIME_FROM else 'jsa'}"
    try:
        _remove_abandoned(folder)
        if path.is_file():
            os.utime(path)  # used today
            option = "-XX:AOTCache" if version >= _AHEAD_OF_TIME_FROM else "-XX:SharedArchiveFile"
            return ClassArchive(path=path, unfinished=None, options=(f"{option}={path}", *_QUIET))
        if not making:
            return None
        made_in_cache(_FOLDER, environment)
        mark = _locked(folder / f"{name}{_MAKING}")
    except OSError:  # the home directory is not writable
        return None
    if mark is None:  # another process has it made
        return None
    unfinished = folder / f"{name}{_UNFINISHED}{os.getpid()}"
    option = "-XX:AOTCacheOutput" if version >= _AHEAD_OF_TIME_FROM else "-XX:ArchiveClassesAtExit"
    return ClassArchive(path=path, unfinished=unfinished, options=(f"{option}={unfinished}", *_QUIET), mark=mark)


# Java's messages about classes that do not fit into an archive help nobody.
_QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr", "-Xlog:aot*=off", "-Xlog:cds*=off")


def _build(home: Path) -> list[str]:
    """What distinguishes one build of Java from another; the `release` file alone is not enough."""
    files = (home / "release", home / "lib" / "server" / "libjvm.so", home / "lib" / "modules")
    return [f"{path} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in files if path.exists()]


def _locked(mark: Path) -> BinaryIO | None:
    """The mark, if nobody holds it: whoever did has ended, however he ended."""
    opened = open(os.open(mark, os.O_RDWR | os.O_NOFOLLOW | os.O_CREAT, 0o600), "r+b")  # noqa: SIM115  # held until closed
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(opened.fileno()).st_nlink:  # its holder may have removed it meanwhile
            return opened
    opened.close()
    return None


def _remove_abandoned(folder: Path) -> None:
    """Removes what processes that are gone had begun. A JVM may outlive its process, and write what nobody awaits."""
    for name in {path.name.partition(".")[0] for kind in (_MAKING, _UNFINISHED) for path in folder.glob(f"*{kind}*")}:
        mark = _locked(folder / f"{name}{_MAKING}")
        if mark is not None:
            _clear(folder, name)
            mark.close()


def _remove_unused(newest: Path) -> None:
    """Removes the archives that nobody has used for long, and the least recently used ones of too many.

    A JVM that has one mapped keeps what it has; one that was about to map it starts without, and more slowly.
    """
    used = {path: path.stat().st_mtime for kind in ("aot", "jsa") for path in newest.parent.glob(f"*.{kind}")}
    others = sorted((path for path in used if path != newest), key=lambda path: used[path], reverse=True)
    for place, path in enumerate(others, start=1):
        if place >= _KEPT_MAX or time.time() - used[path] > _UNUSED_S:
            path.unlink(missing_ok=True)


def _clear(folder: Path, name: str) -> None:
    for left in (*folder.glob(f"{name}{_UNFINISHED}*"), folder / f"{name}{_MAKING}"):
        left.unlink(missing_ok=True)
