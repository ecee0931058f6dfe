"""Kafka's jars: downloaded once into the user's cache and verified by pins and a manifest, or taken from a
distribution.

A version is a folder of jars with `manifest.json`. It is created by one rename, so it is complete or absent. A lock
makes two concurrent commands download a version only once. Before a version is used, its jars are compared with their
pins (`pins.py`), or for an unpinned version with the manifest.
"""

import contextlib
import fcntl
import functools
import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from harness.cluster.brokers import ivy
from harness.cluster.brokers.kafka_versions import KafkaVersion, resolve_version
from harness.cluster.brokers.pins import difference, pinned
from harness.errors import HarnessError, UsageError
from harness.history.files_below import open_plain
from harness.history.schema.texts import BYTES_MAX
from harness.host.java import java_home, java_version
from harness.host.user_folders import cache_directory, made_in_cache, refuse_others

_MANIFEST = "manifest.json"
_UNFINISHED = ".unfinished"
_LOCK = ".lock"
_FOLDER = "kafka"  # format version of the cache
# Suffixes of files that may accompany a jar in a distribution.
_BESIDE = ("-sources", "-javadoc", "-test", "-test-sources")
_MIB = 1 << 20


@dataclass(frozen=True, kw_only=True)
class KafkaHome:
    """An installed Kafka: every jar of `libs` is on the class path."""

    version: KafkaVersion
    class_path: str
    libs: Path


@dataclass(frozen=True, kw_only=True)
class Jar:
    """A jar as it was downloaded."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The required contents of a version's folder in the cache."""

    version: str
    jars: tuple[Jar, ...]

    @property
    def bytes(self) -> int:
        return sum(jar.bytes for jar in self.jars)


def _kafka_directory() -> Path:
    return cache_directory() / _FOLDER


# ---- installed versions --------------------------------------------------------------------------------------------


def installed(version: KafkaVersion) -> KafkaHome | None:
    """Returns the version in the cache, or None. Raises HarnessError if it is damaged, or others may change it."""
    folder = _kafka_directory() / version.version
    if not folder.is_dir():
        return None
    refuse_others()
    if wrong := damage(folder, version):
        raise HarnessError(f"Kafka {version} in {folder} is not used: {wrong}; {_remedy(version)}")
    return _home(folder, version)


def damage(folder: Path, version: KafkaVersion) -> str:
    """What is wrong with a version's folder, or "". A large version takes 0.1 s, once per process."""
    try:
        manifest = _manifest(folder)
        there = {path.name: path for path in sorted(folder.iterdir()) if path.suffix.lower() == ".jar"}
    except (OSError, HarnessError, msgspec.DecodeError, RecursionError) as error:
        return f"its {_MANIFEST} cannot be read ({error})"
    names = {jar.name for jar in manifest.jars}
    for needed in version.needed_jars():
        if needed not in names:
            return f"{needed} is not in its {_MANIFEST}"
    for name in there.keys() - names:  # the class path includes every jar in the folder
        return f"{name} is not in its {_MANIFEST}"
    for jar in manifest.jars:
        path = there.get(jar.name)
        if path is None or not path.is_file():
            return f"{jar.name} is missing"
        if path.stat().st_size != jar.bytes:
            return f"{jar.name} has {path.stat().st_size} bytes, not {jar.bytes}"
        if _sha256(path) != jar.sha256:
            return f"{jar.name} is not as it was fetched"
    return _difference(version, manifest)


def _difference(version: KafkaVersion, manifest: Manifest) -> str:
    """How jars that match their manifest differ from their pins, or ""."""
    pins = pinned(version)
    return difference(pins, {jar.name: jar.sha256 for jar in manifest.jars}) if pins else ""


def _remedy(version: KafkaVersion) -> str:
    return f"fetch it anew: kafka-chaos fetch-kafka {version}"


def home_from_distribution(path: Path) -> KafkaHome:
    """An unpacked distribution: DIR/libs/*.jar. Its version is that of the kafka-clients jar. Raises UsageError."""
    libs = Path(os.path.realpath(path)) / "libs"  # a loop of symbolic links
    clients = [jar.stem.removeprefix("kafka-clients-") for jar in sorted(libs.glob("kafka-clients-*.jar"))]
    versions = [version for version in clients if not version.endswith(_BESIDE)]
    brokers = [match[1] for jar in libs.glob("kafka_*.jar") if (match := re.match(r"(kafka_\d+\.\d+)-\d", jar.name))]
    if not versions or not brokers:
        raise UsageError(f"{path} is no Kafka distribution: libs/ must hold kafka-clients-*.jar and kafka_*.jar")
    return _home(libs, replace(resolve_version(versions[0]), artifact=brokers[0]))


def _home(libs: Path, version: KafkaVersion) -> KafkaHome:
    return KafkaHome(version=version, class_path=f"{libs}/*", libs=libs)


def manifest_of(home: KafkaHome) -> Manifest:
    """The manifest of a version that was downloaded."""
    return _manifest(home.libs)


def _manifest(folder: Path) -> Manifest:
    with open_plain(folder / _MANIFEST) as file:
        return msgspec.json.decode(file.read(BYTES_MAX), type=Manifest)


def kafka_health() -> list[tuple[str, bool, str]]:
    """(what, whether it is healthy, what was found or what to do). Having no Kafka at all is healthy."""
    folder = _kafka_directory()
    names = [path.name for path in folder.iterdir() if path.name[0] != "."] if folder.is_dir() else []
    if not names:
        return [("Kafka", True, "none here, none needed for the reference cluster; get one: kafka-chaos fetch-kafka 4")]
    try:
        java = java_version(java_home())
    except HarnessError:
        java = 0  # reported on a line of its own
    return [_health(folder / name, java) for name in sorted(names, key=_numbers, reverse=True)]


def _health(folder: Path, java: int) -> tuple[str, bool, str]:
    try:
        version = resolve_version(folder.name)
    except UsageError as error:
        return "Kafka", False, f"{error}; remove {folder}"
    if wrong := damage(folder, version):
        return "Kafka", False, f"{version}: {wrong}; {_remedy(version)}"
    manifest = _manifest(folder)
    known = "as pinned" if pinned(version) else "as fetched, none pinned"
    description = (
        f"{version}: {len(manifest.jars)} jars {known}, {manifest.bytes / _MIB:.0f} MiB, {' and '.join(version.modes)}"
    )
    if java >= version.oldest_java:
        return "Kafka", True, f"{description}, runs on Java {java}"
    return (
        "Kafka",
        False,
        f"{description}, needs Java {version.oldest_java} or newer" + (f", not {java}" if java else ""),
    )


def _numbers(name: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", name)]


# ---- fetching -------------------------------------------------------------------------------------------------------


def fetch(version: KafkaVersion, *, progress: Callable[[str], None]) -> KafkaHome:
    """Returns the version in the cache; downloads it if it is missing or damaged. Raises HarnessError."""
    directory = _kafka_directory()
    try:
        made_in_cache(_FOLDER)
        with _locked(directory / _LOCK, lambda: progress("another fetch is under way: waiting for it")):
            there = directory / version.version
            wrong = damage(there, version) if there.is_dir() else "not fetched yet"
            if not wrong:
                progress(f"Kafka {version} is in {there}")
            else:
                progress(f"Kafka {version}: {wrong}: fetching")
                _fetch(version, there, progress)
            progress(_verified(version, _manifest(there), anew=bool(wrong)))
            return _home(there, version)
    except OSError as error:
        raise HarnessError(
            f"Kafka {version} could not be stored in {directory} ({error}); XDG_CACHE_HOME chooses another place"
        ) from error


def _verified(version: KafkaVersion, manifest: Manifest, *, anew: bool) -> str:
    count = len(manifest.jars)
    if pinned(version):
        return f"Kafka {version}: {count} jars verified against pinned SHA-256"
    by = "the repository's own checksums" if anew else "the SHA-256 of the first fetch"
    return f"Kafka {version}: {count} jars verified against {by} alone: this version is not pinned"


def _fetch(version: KafkaVersion, there: Path, progress: Callable[[str], None]) -> None:
    began_s = time.monotonic()
    scratch = there.parent / _UNFINISHED
    shutil.rmtree(scratch, ignore_errors=True)  # left by a fetch that was killed; we hold the lock
    jars = scratch / "jars"
    jars.mkdir(parents=True)
    try:
        count = ivy.retrieve(
            version.modules(),
            into=jars,
            work=scratch,
            cache=made_in_cache("ivy"),
            java=java_home(),
            pinned=bool(pinned(version)),
            progress=progress,
        )
        manifest = _write_manifest(jars, version)
        missing = [name for name in version.needed_jars() if not (jars / name).is_file()]
        if missing or len(manifest.jars) != count:
            what = ", ".join(missing) or f"{count - len(manifest.jars)} of {count} jars"
            raise HarnessError(f"Kafka {version} came without {what}: try again, or choose another version")
        if wrong := _difference(version, manifest):
            raise HarnessError(
                f"Kafka {version} is not taken: {wrong}; remove {cache_directory() / 'ivy'} and fetch again, and if it "
                "is so again, do not trust the repository"
            )
        if there.is_dir() and not there.is_symlink():
            shutil.rmtree(there)
        else:
            there.unlink(missing_ok=True)
        jars.rename(there)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    seconds = time.monotonic() - began_s
    progress(f"Kafka {version}: {count} jars, {manifest.bytes / _MIB:.0f} MiB in {seconds:.0f} s, in {there}")


def _write_manifest(folder: Path, version: KafkaVersion) -> Manifest:
    jars = tuple(
        Jar(name=path.name, bytes=path.stat().st_size, sha256=_sha256(path)) for path in sorted(folder.glob("*.jar"))
    )
    manifest = Manifest(version=version.version, jars=jars)
    (folder / _MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n")
    return manifest


def _sha256(path: Path) -> str:
    found = path.stat()
    return _sha256_of(path, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


@functools.cache
def _sha256_of(path: Path, *_identity: int) -> str:
    """Cached per process while the file is unchanged, because a process may ask for its Kafka many times."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def _locked(path: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Holds an exclusive lock among all processes of this user during a `with`; it ends with its process."""
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
