"""Keeps the classes that a check loads in parsed form for the next JVM: half of a cold check is reading Spark's jars.

Java writes such an archive when a JVM that was asked for it ends (Java 25: the ahead-of-time cache, JEP 514; before:
a dynamic class-data archive, JEP 350), and takes it only with the same Java and the very same class path. So it is in
the user's cache under a name built from both. Nothing depends on it: without one, or with one that Java refuses, a
check is only slower. The first check on a machine creates it, after its verdict.
"""

import contextlib
import hashlib
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import HarnessError
from harness.host.user_cache import cache_directory, made_in_cache, refuse_others

OFF = "KAFKA_CHAOS_NO_CLASS_ARCHIVE"  # set to any value: neither used nor created
_FOLDER = "spark-classes"
_AHEAD_OF_TIME_FROM = 25
_ABANDONED_S = 3600.0
_SMALLEST_BYTES = 1_000_000


@dataclass(frozen=True, kw_only=True)
class ClassArchive:
    """The options with which a JVM uses the archive, or writes it; call `keep` or `drop` after that JVM has ended."""

    path: Path
    unfinished: Path | None  # where this JVM writes a new one
    options: tuple[str, ...]

    @property
    def making(self) -> bool:
        return self.unfinished is not None

    def keep(self) -> None:
        """Puts a complete new archive in place."""
        if self.unfinished is not None:
            with contextlib.suppress(OSError):
                if self.unfinished.stat().st_size >= _SMALLEST_BYTES:
                    self.unfinished.replace(self.path)
            self.drop()

    def drop(self) -> None:
        """Gives up the new archive, so that another JVM can create it."""
        if self.unfinished is not None:
            _clear(self.path.parent, self.path.stem)


def class_archive(
    *, home: Path, version: int, class_path: str, options: Sequence[str], environment: Mapping[str, str] = os.environ
) -> ClassArchive | None:
    """The archive for a JVM of this Java, class path and options; None if disabled or if another process creates it."""
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
    if path.is_file():
        option = "-XX:AOTCache" if version >= _AHEAD_OF_TIME_FROM else "-XX:SharedArchiveFile"
        return ClassArchive(path=path, unfinished=None, options=(f"{option}={path}", *_QUIET))
    try:
        made_in_cache(_FOLDER, environment)
        if not _first(folder, name):
            return None
    except OSError:  # the home directory is not writable
        return None
    unfinished = folder / f"{name}.unfinished-{os.getpid()}"
    option = "-XX:AOTCacheOutput" if version >= _AHEAD_OF_TIME_FROM else "-XX:ArchiveClassesAtExit"
    return ClassArchive(path=path, unfinished=unfinished, options=(f"{option}={unfinished}", *_QUIET))


# Java's messages about classes that do not fit into an archive help nobody.
_QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr", "-Xlog:aot*=off", "-Xlog:cds*=off")


def _build(home: Path) -> list[str]:
    """What distinguishes one build of Java from another; the `release` file alone is not enough."""
    files = (home / "release", home / "lib" / "server" / "libjvm.so", home / "lib" / "modules")
    return [f"{path} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in files if path.exists()]


def _first(folder: Path, name: str) -> bool:
    """Whether no other process creates this archive; the mark of a process that died expires after an hour."""
    mark = folder / f"{name}.making"
    with contextlib.suppress(FileNotFoundError):
        if time.time() - mark.stat().st_mtime > _ABANDONED_S:
            _clear(folder, name)
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _clear(folder: Path, name: str) -> None:
    for left in (folder / f"{name}.making", *folder.glob(f"{name}.unfinished-*")):
        left.unlink(missing_ok=True)
