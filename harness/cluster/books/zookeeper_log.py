"""Reads ZooKeeper's transaction log, the exact record of leaders, epochs, ISRs and configuration.

One reader serves the reference cluster's coordination service and a real ZooKeeper. Only relevant transactions are
decoded: creates, sets, deletes, multis, and the ephemeral znodes that a closing session deletes. A multi with a failed
part had no effect. Reading stops at a torn tail or at the zeros of a pre-allocated file.
"""

import contextlib
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.cluster import node_files
from harness.errors import HarnessError
from harness.host import memory

_MAGIC = 0x5A4B4C47
_FIRST = 16  # position of the first entry, after the file's header
_ENTRY = struct.Struct(">qi")
_HEADER = struct.Struct(">qiqqi")
_CREATE, _DELETE, _SET, _CREATE2, _MULTI, _ERROR = 1, 2, 5, 15, 14, -1
_CREATE_TTL, _CREATE_CONTAINER, _CLOSE_SESSION = 21, 19, -11


@dataclass(frozen=True, kw_only=True)
class ZnodeChange:
    """One changed znode. data None: deleted. version: of the data, after the change."""

    zxid: int
    wall_ms: int
    session: int
    path: str
    data: bytes | None
    version: int
    ephemeral: bool = False


@contextlib.contextmanager
def understanding(change: ZnodeChange) -> Iterator[None]:
    """Wraps code that parses a znode's data as Kafka's. ZooKeeper authenticates nobody, so any client may have written
    it. Raises HarnessError."""
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise HarnessError(
            f"the cluster's books: znode {change.path:.300} was given data that no Kafka writes there (zxid "
            f"{change.zxid:#x}): {error!s:.300}; see that nobody else writes to this coordination service"
        ) from error


class _Jute:
    """The needed part of ZooKeeper's serialisation format."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def int32(self) -> int:
        value: int = struct.unpack_from(">i", self._data, self._at)[0]
        self._at += 4
        return value

    def boolean(self) -> bool:
        self._at += 1
        return self._data[self._at - 1] != 0

    def buffer(self) -> bytes:
        length = max(self.int32(), 0)
        self._at += length
        return self._data[self._at - length : self._at]

    def string(self) -> str:
        return self.buffer().decode("utf-8", errors="replace")

    def skip_acl(self) -> None:
        for _ in range(max(self.int32(), 0)):
            self.int32()
            self.buffer()
            self.buffer()


def read_changes(folder: Path) -> Iterator[ZnodeChange]:
    """Returns every change in order, from all log files of a data directory's version-2. Raises HarnessError."""
    return ChangeFollower(folder).read_on()


class ChangeFollower:
    """Reads the log files of a data directory's version-2, and later what was added since."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read_to: dict[Path, int] = {}
        self._ephemerals: dict[int, set[str]] = {}

    def read_on(self) -> Iterator[ZnodeChange]:
        """Returns every change since the last call, in order; none if there is no log yet. Raises HarnessError."""
        paths = [self._folder / name for name in node_files.names(self._folder) if name.startswith("log.")]
        for path in sorted(paths, key=lambda path: int(path.suffix[1:], 16)):
            for session, zxid, wall_ms, kind, body, end in _entries(path, self._read_to.get(path, _FIRST)):
                self._read_to[path] = end
                yield from self._changes(session, zxid, wall_ms, kind, body)

    def _changes(self, session: int, zxid: int, wall_ms: int, kind: int, body: bytes) -> list[ZnodeChange]:
        if kind == _CLOSE_SESSION:
            return [
                ZnodeChange(zxid=zxid, wall_ms=wall_ms, session=session, path=gone, data=None, version=-1)
                for gone in sorted(self._ephemerals.pop(session, ()))
            ]
        changes = []
        for part_kind, part in _parts(kind, body):
            change = _change(part_kind, _Jute(part), zxid, wall_ms, session)
            if change is None:
                continue
            if change.data is None:
                for owned in self._ephemerals.values():
                    owned.discard(change.path)
            elif change.ephemeral:
                self._ephemerals.setdefault(session, set()).add(change.path)
            changes.append(change)
        return changes


def _entries(path: Path, position: int) -> Iterator[tuple[int, int, int, int, bytes, int]]:
    """Yields (session, zxid, wall time in ms, type, record, position of the next entry), from `position` on."""
    with node_files.opened(path) as file:
        head = file.read(_FIRST)
        if len(head) < _FIRST:
            return  # just created
        if struct.unpack_from(">i", head)[0] != _MAGIC:
            raise HarnessError(
                f"{path}: not a ZooKeeper transaction log; the coordination service's dataDir is expected"
            )
        file.seek(position)
        while len(prefix := file.read(_ENTRY.size)) == _ENTRY.size:
            checksum, length = _ENTRY.unpack(prefix)
            memory.check(f"{path}: the entry at {position}", length)
            entry = file.read(length) if length >= _HEADER.size else b""
            if len(entry) < _HEADER.size or len(entry) < length or zlib.adler32(entry) != checksum & 0xFFFFFFFF:
                return
            file.read(1)  # the end-of-record byte
            position += _ENTRY.size + length + 1
            session, _, zxid, wall_ms, kind = _HEADER.unpack_from(entry)
            yield session, zxid, wall_ms, kind, entry[_HEADER.size :], position


def _parts(kind: int, body: bytes) -> list[tuple[int, bytes]]:
    if kind != _MULTI:
        return [(kind, body)]
    jute = _Jute(body)
    parts = [(jute.int32(), jute.buffer()) for _ in range(jute.int32())]
    return [] if any(part == _ERROR for part, _ in parts) else parts


def _change(kind: int, jute: _Jute, zxid: int, wall_ms: int, session: int) -> ZnodeChange | None:
    if kind in (_CREATE, _CREATE2, _CREATE_CONTAINER, _CREATE_TTL):
        path, data = jute.string(), jute.buffer()
        jute.skip_acl()
        ephemeral = kind in (_CREATE, _CREATE2) and jute.boolean()
        return ZnodeChange(
            zxid=zxid, wall_ms=wall_ms, session=session, path=path, data=data, version=0, ephemeral=ephemeral
        )
    if kind == _SET:
        path, data = jute.string(), jute.buffer()
        version = jute.int32()
        return ZnodeChange(zxid=zxid, wall_ms=wall_ms, session=session, path=path, data=data, version=version)
    if kind == _DELETE:
        return ZnodeChange(zxid=zxid, wall_ms=wall_ms, session=session, path=jute.string(), data=None, version=-1)
    return None
