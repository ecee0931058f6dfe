"""Reads a broker's replicas from its files: segments, leader-epoch checkpoints, high-watermark checkpoints.

It works on a live broker too, because brokers append whole batches: a torn tail, or the zeros of a preallocated
segment, is where the log ends. A log's records and its end come from the same bytes.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec

from harness.cluster import node_files
from harness.cluster.record_batches import HEAD_BYTES, batches, end_of, hops, open_transactions, records_of
from harness.errors import HarnessError
from harness.history.facts.internal_topics import COORDINATORS_TOPICS
from harness.history.files_below import can_lie_below
from harness.history.schema.schemas import UNREADABLE_EVENT
from harness.host import memory
from harness.ports.cluster import BrokerEvent, LogRecord, NodeId, ReplicaLog, StoredLog
from harness.scenario.topic_names import INTERNAL_TOPICS

EVENTS = "events.jsonl"
_REMEDY = "put the file back as its broker left it"
_Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
_Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_WINDOW_BYTES = 1 << 16
_ATTEMPTS = 5
_PARTITION_METADATA = "partition.metadata"
_REPLICA = re.compile(r"(.+)-(\d+)")  # not t-0.<uuid>-delete, -future or -stray: these are deleted or not active yet


def partition_folders(data: Path) -> Iterator[tuple[str, int, Path]]:
    """(topic, partition, folder) of every active replica of a data directory, internal topics aside."""
    return (found for found in _folders(data) if found[0] not in INTERNAL_TOPICS)


def coordinators_folders(data: Path) -> Iterator[tuple[str, int, Path]]:
    """Like `partition_folders`, of the internal topics in which coordinators keep groups and transactions."""
    return (found for found in _folders(data) if found[0] in COORDINATORS_TOPICS)


def _folders(data: Path) -> Iterator[tuple[str, int, Path]]:
    for name in node_files.folders(data):
        match = _REPLICA.fullmatch(name)
        if match and node_files.has_folder(data / name):
            yield match[1], int(match[2]), data / name


def segment_files(folder: Path) -> list[Path]:
    """Returns the files in the order of their offsets."""
    paths = (folder / name for name in node_files.names(folder) if name.endswith(".log"))
    return sorted((path for path in paths if path.stem.isdecimal()), key=lambda path: int(path.stem))


def read_log(node: NodeId, topic: str, partition: int, folder: Path, *, t_ns: int) -> tuple[StoredLog, bytes]:
    """What the files of one replica say of it, and the content of its segments: joined into one piece, since after an
    invalid batch nothing is read, in later segments either."""
    # Read the checkpoints first: a live broker's log only grows beyond them, unless it is being truncated.
    high_watermark = read_high_watermarks(folder.parent).get((topic, partition))
    epochs = tuple(_pairs(folder / "leader-epoch-checkpoint"))
    segments = _contents(folder)
    log = StoredLog(
        node=node,
        topic=topic,
        partition=partition,
        t_ns=t_ns,
        log_start=segments[0][0] if segments else 0,
        high_watermark=high_watermark,
        log_end=_last_end((base, end_of(batches(content))) for base, content in reversed(segments)),
        epochs=epochs,
        topic_id=read_topic_id(folder),
    )
    return log, b"".join(content for _, content in segments)


def read_replica(node: NodeId, topic: str, partition: int, folder: Path, *, t_ns: int) -> ReplicaLog:
    log, content = read_log(node, topic, partition, folder, t_ns=t_ns)
    return ReplicaLog(
        **vars(log), records=tuple(records_of(content)), open_transactions=tuple(open_transactions(content))
    )


def read_topic_id(folder: Path) -> str | None:
    """The replica's topic id, which brokers store since 2.8 (KIP-516)."""
    try:
        text = node_files.read(folder / _PARTITION_METADATA).decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    return fields.get("topic_id", "").strip() or None


def read_replicas(node: NodeId, data: Path, *, t_ns: int) -> list[ReplicaLog]:
    """Returns all replicas of a data directory."""
    return [
        read_replica(node, topic, partition, folder, t_ns=t_ns)
        for topic, partition, folder in may_be_held(partition_folders(data))
    ]


def may_be_held(replicas: Iterable[tuple[str, int, Path]]) -> list[tuple[str, int, Path]]:
    """The same, before their logs are read one after the other. Raises HarnessError where they are too large together:
    what one of them says of its size may be made up."""
    found, together = list(replicas), memory.Together()
    for _, _, folder in found:
        for segment in segment_files(folder):
            together.take(str(segment), node_files.size(segment))
    return found


def _contents(folder: Path) -> list[tuple[int, bytes]]:
    """(base offset, bytes) of every segment."""
    for _ in range(_ATTEMPTS):
        try:
            segments = segment_files(folder)
            contents = node_files.read_joined(segments)
            return [(int(segment.stem), content) for segment, content in zip(segments, contents, strict=True)]
        except FileNotFoundError:
            continue  # a live broker deleted a file after it was listed
    raise HarnessError(f"{folder}: its segments vanish while they are read; stop the broker first")


def log_end_in(data: Path, topic: str, partition: int) -> int | None:
    """Of a replica in a data directory; None where there is none."""
    folder = data / f"{topic}-{partition}"
    return log_end(folder) if node_files.has_folder(folder) else None


def log_ends(data: Path) -> dict[tuple[str, int], int]:
    """Of all replicas of a data directory."""
    return {(topic, partition): log_end(folder) for topic, partition, folder in partition_folders(data)}


def log_end(folder: Path) -> int:
    """The offset after the last whole batch, from headers alone."""
    return _last_end((int(path.stem), _end_of_file(path)) for path in reversed(segment_files(folder)))


def _last_end(segments: Iterable[tuple[int, int | None]]) -> int:
    """`ends`: (base offset, end if there is a whole batch), last segment first; reads no further than needed."""
    for base, end in segments:
        if end is not None:
            return end
        if base:
            return base  # a new segment without a batch
    return 0


def _end_of_file(path: Path) -> int | None:
    """Reads windows, not the whole file: many small batches share one; of a large batch only the head is read."""
    try:
        opened = node_files.opened(path)
    except FileNotFoundError:
        return None  # a live broker deleted it at this moment
    file = opened.fileno()
    begins, window = 0, b""

    def head_at(position: int) -> bytes:
        nonlocal begins, window
        if position + HEAD_BYTES > begins + len(window):
            begins, window = position, os.pread(file, _WINDOW_BYTES, position)
        return window[position - begins : position - begins + HEAD_BYTES]

    with opened:
        return end_of(hops(os.fstat(file).st_size, head_at))


# ---- checkpoints and journals ---------------------------------------------------------------------------------------


def _lines(path: Path) -> list[list[str]]:
    """The entries of a Kafka checkpoint file; none if it does not exist or is being replaced."""
    try:
        lines = node_files.read(path).decode("utf-8").splitlines()
    except FileNotFoundError:
        return []
    return [line.split(" ") for line in lines[2:] if line]


def _pairs(path: Path) -> Iterator[tuple[int, int]]:
    for epoch, start in _lines(path):
        yield int(epoch), int(start)


def read_high_watermarks(data: Path) -> dict[tuple[str, int], int]:
    return _offsets(data / "replication-offset-checkpoint")


def read_recovery_points(data: Path) -> dict[tuple[str, int], int]:
    """(topic, partition) -> the offset up to which the log is known to be on the disk."""
    return _offsets(data / "recovery-point-offset-checkpoint")


def _offsets(checkpoint: Path) -> dict[tuple[str, int], int]:
    return {(topic, int(partition)): int(offset) for topic, partition, offset in _lines(checkpoint)}


class _Entry(msgspec.Struct):
    """A line of a broker's journal; number types as in the tables."""

    t: _Int64
    event: str
    topic: str | None = None
    partition: _Int32 | None = None
    epoch: _Int32 | None = None
    from_offset: _Int64 | None = None
    to_offset: _Int64 | None = None
    reason: str | None = None
    detail: Any = None
    cut: str | None = None


_ENTRY: msgspec.json.Decoder[_Entry] = msgspec.json.Decoder(_Entry)


def read_events(node: NodeId, evidence: Path) -> Iterator[BrokerEvent]:
    """Returns a broker's journal; the batches that truncations removed are decoded from their files.

    An unreadable line before other lines becomes an event of its own: something is missing there. Raises HarnessError.
    """
    try:
        lines = node_files.read(evidence / EVENTS).splitlines()  # bytes: a torn line may end inside a character
    except FileNotFoundError:
        return
    t_ns, cuts = 0, memory.Together()
    for number, line in enumerate(lines, start=1):
        try:
            entry = _ENTRY.decode(line)
        except (msgspec.ValidationError, RecursionError) as error:
            raise HarnessError(
                f"{evidence / EVENTS}:{number}: no line of a broker's journal ({error}); {_REMEDY}"
            ) from error
        except msgspec.DecodeError:
            if number < len(lines):  # otherwise the broker was killed while writing it
                where = f"{Path(*evidence.parts[-2:]) / EVENTS}:{number}"
                yield BrokerEvent(node=node, t_ns=t_ns, event=UNREADABLE_EVENT, detail=where)
            continue
        t_ns = entry.t
        yield BrokerEvent(
            node=node,
            t_ns=entry.t,
            event=entry.event,
            topic=entry.topic,
            partition=entry.partition,
            epoch=entry.epoch,
            from_offset=entry.from_offset,
            to_offset=entry.to_offset,
            reason=entry.reason,
            detail=_text(entry.detail),
            cut=tuple(_cut(evidence, entry.cut, cuts)),
        )


def _text(detail: Any) -> str | None:
    return detail if detail is None or isinstance(detail, str) else json.dumps(detail)


def _cut(evidence: Path, named: str | None, cuts: memory.Together) -> Sequence[LogRecord]:
    """The file of removed batches must lie below the journal's folder; any other path in a journal is refused.

    cuts: what was held before. Raises HarnessError.
    """
    if named is None or not can_lie_below(named):
        return ()
    try:
        content = node_files.read(evidence / named)
    except FileNotFoundError:
        return ()
    cuts.take(str(evidence / named), len(content))
    return list(records_of(content))
