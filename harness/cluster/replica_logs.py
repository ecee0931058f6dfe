"""Reads a broker's replicas from its files: segments, leader-epoch checkpoints, high-watermark checkpoints.

Works on a live broker too, since it appends whole batches: a torn tail is simply where the log ends. Kafka's own
record reader decodes; its CRC check must come before it looks at the records (real_kafka.md 7).
"""

import json
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kafka.errors import CorruptRecordError
from kafka.record import MemoryRecords

from harness.interfaces import BrokerEvent, LogRecord, NodeId, ReplicaLog

_BATCH = struct.Struct(">qiibIhi")
_LENGTH_PREFIX_BYTES = 12
_HEADER_BYTES = 61
EVENTS = "events.jsonl"


def partition_folders(data: Path) -> Iterator[tuple[str, int, Path]]:
    """(topic, partition, folder) of every replica of a data directory."""
    if not data.is_dir():
        return
    for folder in sorted(data.iterdir()):
        topic, dash, partition = folder.name.rpartition("-")
        if dash and partition.isdigit() and folder.is_dir():
            yield topic, int(partition), folder


def _segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.log"), key=lambda path: int(path.stem))


def read_replica(node: NodeId, topic: str, partition: int, folder: Path, *, t_ns: int) -> ReplicaLog:
    segments = _segments(folder)
    # As one piece: what lies behind a batch that cannot be read is not read either, also in later segments.
    records = records_of(b"".join(segment.read_bytes() for segment in segments))
    start = int(segments[0].stem) if segments else 0
    return ReplicaLog(
        node=node,
        topic=topic,
        partition=partition,
        t_ns=t_ns,
        log_start=start,
        high_watermark=read_high_watermarks(folder.parent).get((topic, partition)),
        log_end=log_end(folder),
        epochs=tuple(_pairs(folder / "leader-epoch-checkpoint")),
        records=tuple(records),
    )


def records_of(data: bytes) -> Iterator[LogRecord]:
    """The data records of whole, intact batches; ends at the first that is neither."""
    batches = MemoryRecords(data)
    try:
        while (batch := batches.next_batch()) is not None:
            if not batch.validate_crc():
                return
            if not batch.is_control_batch:
                for record in batch:
                    yield LogRecord(offset=record.offset, epoch=batch.leader_epoch, value=bytes(record.value or b""))
    except CorruptRecordError:
        return


def log_end(folder: Path) -> int:
    """The offset after the last whole batch, from headers alone."""
    for segment in reversed(_segments(folder)):
        end = _end_of(segment.read_bytes())
        if end is not None:
            return end
        if int(segment.stem):
            return int(segment.stem)  # rolled, and nothing appended yet
    return 0


def _end_of(data: bytes) -> int | None:
    position, end = 0, None
    while position + _HEADER_BYTES <= len(data):
        base, length, _, _, _, _, last_delta = _BATCH.unpack_from(data, position)
        if length < _HEADER_BYTES - _LENGTH_PREFIX_BYTES or position + _LENGTH_PREFIX_BYTES + length > len(data):
            break
        end = base + last_delta + 1
        position += _LENGTH_PREFIX_BYTES + length
    return end


def _lines(path: Path) -> list[list[str]]:
    """The entries of one of Kafka's checkpoint files; none when it is not there or is just being replaced."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    return [line.split(" ") for line in lines[2:] if line]


def _pairs(path: Path) -> Iterator[tuple[int, int]]:
    for epoch, start in _lines(path):
        yield int(epoch), int(start)


def read_high_watermarks(data: Path) -> dict[tuple[str, int], int]:
    lines = _lines(data / "replication-offset-checkpoint")
    return {(topic, int(partition)): int(offset) for topic, partition, offset in lines}


def read_events(node: NodeId, evidence: Path) -> Iterator[BrokerEvent]:
    """What a broker journalled of itself; the batches that truncations cut are decoded from their files."""
    try:
        lines = (evidence / EVENTS).read_bytes().splitlines()  # bytes: a torn line may end within a character
    except FileNotFoundError:
        return
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue  # the last line of a broker that was killed while writing it
        yield BrokerEvent(
            node=node,
            t_ns=entry["t"],
            event=entry["event"],
            topic=entry.get("topic"),
            partition=entry.get("partition"),
            epoch=entry.get("epoch"),
            from_offset=entry.get("from_offset"),
            to_offset=entry.get("to_offset"),
            reason=entry.get("reason"),
            detail=_text(entry.get("detail")),
            cut=tuple(_cut(evidence, entry)),
        )


def _text(detail: Any) -> str | None:
    return detail if detail is None or isinstance(detail, str) else json.dumps(detail)


def _cut(evidence: Path, entry: dict[str, Any]) -> Sequence[LogRecord]:
    if not entry.get("cut"):
        return ()
    path = evidence / entry["cut"]
    return list(records_of(path.read_bytes())) if path.is_file() else ()
