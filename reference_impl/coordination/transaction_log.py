"""The durable log in ZooKeeper's file format (FileTxnLog), so that ZooKeeper's tools can read it.

    file   = "ZKLG" version=2 dbid=0, then entries
    entry  = Adler32 of the payload (int64), payload length (int32), payload, 'B'

Zero bytes end a file (ZooKeeper pre-allocates). Every entry is one unbuffered write, so a SIGKILL loses nothing that
was answered.
"""

import logging
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from reference_impl.coordination.jute import MalformedRecord
from reference_impl.coordination.transactions import Entry

logger = logging.getLogger(__name__)

_FILE_HEADER = struct.Struct("!4siq")
_ENTRY_HEADER = struct.Struct("!qi")
MAGIC = b"ZKLG"
VERSION = 2
DATABASE_ID = 0
END_OF_RECORD = b"B"


class TransactionLog(Protocol):
    """What the service needs from a disk; a simulated disk can implement it."""

    def recover(self) -> Iterator[Entry]: ...

    def append(self, entry: Entry) -> None: ...

    def close(self) -> None: ...


class CorruptTransactionLog(Exception):
    """The log is damaged in the middle; starting from it would lose answered writes."""


def encode_entry(entry: Entry) -> bytes:
    payload = entry.encode()
    return _ENTRY_HEADER.pack(zlib.adler32(payload), len(payload)) + payload + END_OF_RECORD


def read_entries(data: bytes, *, origin: str = "log") -> Iterator[tuple[Entry, int]]:
    """Yields the whole entries of a file, each with the position after it; a torn last entry is skipped."""
    if len(data) < _FILE_HEADER.size:
        return
    magic, version, _ = _FILE_HEADER.unpack_from(data)
    if magic != MAGIC or version != VERSION:
        raise CorruptTransactionLog(f"{origin}: not a ZooKeeper transaction log (magic {magic!r}, version {version})")
    position = _FILE_HEADER.size
    while position + _ENTRY_HEADER.size <= len(data):
        checksum, length = _ENTRY_HEADER.unpack_from(data, position)
        end = position + _ENTRY_HEADER.size + length + len(END_OF_RECORD)
        if end > len(data):
            return
        payload = data[position + _ENTRY_HEADER.size : end - 1]
        if length <= 0 or data[end - 1 : end] != END_OF_RECORD or zlib.adler32(payload) != checksum:
            # Only the last write can be torn or followed by zeros; a whole entry after that point means a damaged disk.
            if length < 0 or any(data[end:]):
                raise CorruptTransactionLog(
                    f"{origin}: the entry at byte {position} is damaged, and it is not the last"
                )
            return
        try:
            yield Entry.decode(payload), end
        except MalformedRecord as error:
            raise CorruptTransactionLog(f"{origin}: entry at byte {position}: {error}") from error
        position = end


def first_zxid(path: Path) -> int:
    return int(path.name.removeprefix("log."), 16)


def log_files(directory: Path) -> list[Path]:
    """Returns the log files of a version-2 directory, oldest first."""
    return sorted(directory.glob("log.*"), key=first_zxid)


class FileTransactionLog:
    """One growing file in `<data directory>/version-2`, named by its first zxid; older files are read too."""

    def __init__(self, data_directory: Path, *, force_sync: bool = False) -> None:
        self._directory = data_directory / "version-2"
        self._force_sync = force_sync
        self._descriptor: int | None = None

    def recover(self) -> Iterator[Entry]:
        """Returns all entries in order; then removes the torn tail and opens the last file for appending."""
        self._directory.mkdir(parents=True, exist_ok=True)
        files = log_files(self._directory)
        for path in files:
            data = path.read_bytes()
            whole = _FILE_HEADER.size
            for entry, end in read_entries(data, origin=str(path)):
                yield entry
                whole = end
            if path == files[-1]:
                self._reopen(path, data, whole)

    def _reopen(self, path: Path, data: bytes, whole: int) -> None:
        if len(data) < _FILE_HEADER.size:
            # The process was killed between creating the file and writing its header; the file is empty.
            path.unlink()
            return
        if any(data[whole:]):
            logger.warning("%s: cutting a torn entry of %d bytes at byte %d", path, len(data) - whole, whole)
        os.truncate(path, whole)
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)

    def append(self, entry: Entry) -> None:
        data = encode_entry(entry)
        if self._descriptor is None:
            path = self._directory / f"log.{entry.zxid:x}"
            self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            data = _FILE_HEADER.pack(MAGIC, VERSION, DATABASE_ID) + data
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]
        if self._force_sync:
            os.fdatasync(self._descriptor)

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
