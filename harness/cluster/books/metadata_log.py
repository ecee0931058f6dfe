"""Reads a KRaft node's __cluster_metadata-0 folder, the exact record of leaders, epochs and ISRs.

The log is read from its beginning over all segments; if the beginning was deleted, the snapshot that replaces it comes
first. Only whole batches before the first torn one count, and records of the log's own aborted transactions are
dropped.
"""

import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kafka.errors import CorruptRecordError
from kafka.record import MemoryRecords

from harness.cluster import node_files
from harness.cluster.books.metadata_records import (
    QuorumLeader,
    Record,
    SnapshotHeader,
    TransactionMark,
    decode,
    decode_control,
    record_type,
)
from harness.cluster.books.record_fields import UndecodableError
from harness.errors import HarnessError

_BATCH = struct.Struct(">qiib")  # base offset, length, leader epoch, magic
_LENGTH_PREFIX_BYTES = 12
_LENGTH_MIN = 49  # of a version 2 batch without records
_MAGIC = 2


@dataclass(frozen=True, kw_only=True)
class MetadataEntry:
    """epoch: the quorum's leader epoch. wall_ms: the active controller's clock at the append. batch: its batch's base
    offset; the records of one decision of the controller are one batch.

    from_snapshot: it became so at an unknown time before.
    """

    offset: int
    epoch: int
    wall_ms: int
    record: Record
    batch: int
    from_snapshot: bool = False


@dataclass(frozen=True, kw_only=True)
class MetadataLog:
    """skipped: the number of records per type that are irrelevant for the cluster's history."""

    entries: tuple[MetadataEntry, ...]
    skipped: Mapping[int, int]
    end_epoch: int
    end_offset: int


def longest(folders: Iterable[Path]) -> Path | None:
    """Of several nodes' log folders, the one that a quorum would elect: highest epoch, then highest end offset."""
    present = [folder for folder in folders if _segments(folder)]
    return max(present, key=_end, default=None)


def read_log(folder: Path) -> MetadataLog:
    """Returns all entries of a folder in order. Raises HarnessError."""
    segments = _segments(folder)
    skipped: Counter[int] = Counter()
    entries: list[MetadataEntry] = []
    start = int(segments[0].stem) if segments else 0
    if start > 0:
        snapshot = _snapshot_reaching(folder, start)
        entries += _of_snapshot(snapshot, skipped)
        start, _ = _reach(snapshot)
    log = [entry for entry in _entries(_joined(folder), folder, skipped) if entry.offset >= start]
    end_epoch, end_offset = _end(folder)
    return MetadataLog(
        entries=(*entries, *_settled(log)), skipped=dict(skipped), end_epoch=end_epoch, end_offset=end_offset
    )


def _segments(folder: Path) -> list[Path]:
    paths = (folder / name for name in node_files.names(folder) if name.endswith(".log"))
    return sorted(paths, key=lambda path: int(path.stem))


def _joined(folder: Path) -> bytes:
    """Joins all segments: after a torn batch nothing counts, in later segments either."""
    return b"".join(node_files.read_joined(_segments(folder)))


def _snapshots(folder: Path) -> list[Path]:
    paths = (folder / name for name in node_files.names(folder) if name.endswith(".checkpoint"))
    return sorted((path for path in paths if "-" in path.stem), key=_reach)


def _reach(snapshot: Path) -> tuple[int, int]:
    """(offset after the snapshot's last record, that record's epoch), from the file name."""
    end, epoch = snapshot.stem.split("-")
    return int(end), int(epoch)


def _snapshot_reaching(folder: Path, start: int) -> Path:
    """The earliest snapshot without a gap before the first segment: the log after it has the most detail."""
    for path in _snapshots(folder):
        if _reach(path)[0] >= start:
            return path
    raise HarnessError(
        f"{folder}: the log begins at offset {start} and no snapshot (*.checkpoint) reaches there; "
        "copy the whole folder of the node"
    )


def _of_snapshot(path: Path, skipped: Counter[int]) -> Iterator[MetadataEntry]:
    """The records of a snapshot, all dated as the last log record that it includes."""
    end, epoch = _reach(path)
    wall_ms: int | None = None
    for entry in _entries(node_files.read(path), path, skipped):
        if isinstance(entry.record, SnapshotHeader):
            wall_ms = entry.record.last_wall_ms
        elif not isinstance(entry.record, TransactionMark):
            at = entry.wall_ms if wall_ms is None else wall_ms
            yield replace(entry, offset=end - 1, epoch=epoch, wall_ms=at, from_snapshot=True)


def _batches(data: bytes) -> Iterator[Any]:
    """Yields whole, intact batches; each length is checked before Kafka's reader, which trusts its input, gets the
    batch."""
    position = 0
    while position + _LENGTH_PREFIX_BYTES + _LENGTH_MIN <= len(data):
        _, length, _, magic = _BATCH.unpack_from(data, position)
        end = position + _LENGTH_PREFIX_BYTES + length
        if length < _LENGTH_MIN or end > len(data) or magic != _MAGIC:
            return
        batch = MemoryRecords(data[position:end]).next_batch()
        if not batch.validate_crc():
            return
        yield batch
        position = end


def _end(folder: Path) -> tuple[int, int]:
    """(epoch of the last record, offset after it)."""
    reached = [(epoch, end) for end, epoch in map(_reach, _snapshots(folder))]
    reached += [(batch.leader_epoch, batch.next_offset) for batch in _batches(_joined(folder))]
    return max(reached, default=(-1, 0))


def _entries(data: bytes, place: Path, skipped: Counter[int]) -> Iterator[MetadataEntry]:
    for batch in _batches(data):
        for record in _records(batch, place):
            value = bytes(record.value or b"")
            try:
                if batch.is_control_batch:
                    decoded = decode_control(record.type, value)
                else:
                    decoded = decode(value)
                    if decoded is None:
                        skipped[record_type(value)] += 1
            except UndecodableError as error:
                raise HarnessError(
                    f"{place}, offset {record.offset}: {error}; this Kafka writes what harness/cluster/"
                    "metadata_records.py does not know: take a version that fetch-kafka lists"
                ) from error
            if decoded is not None:
                yield MetadataEntry(
                    offset=record.offset,
                    epoch=batch.leader_epoch,
                    wall_ms=record.timestamp,
                    record=decoded,
                    batch=batch.base_offset,
                )


def _records(batch: Any, place: Path) -> list[Any]:
    try:
        return list(batch)
    except CorruptRecordError as error:
        raise HarnessError(
            f"{place}: the batch at offset {batch.base_offset} has a right checksum and unreadable records; "
            "is this a metadata log?"
        ) from error


def _settled(entries: Iterable[MetadataEntry]) -> Iterator[MetadataEntry]:
    """Drops transaction markers and the records of transactions that were aborted or never ended.

    Quorum leader changes are not part of any transaction.
    """
    pending: list[MetadataEntry] | None = None
    for entry in entries:
        match entry.record:
            case TransactionMark(mark="begin"):
                pending = []
            case TransactionMark(mark="end"):
                yield from pending or ()
                pending = None
            case TransactionMark():
                pending = None
            case _ if pending is None or isinstance(entry.record, QuorumLeader):
                yield entry
            case _:
                pending.append(entry)
