"""What a run records of its coordinators: which partitions of Kafka's internal topics are its own, and their logs.

A cluster has 50 partitions of each; those that the run's groups and transactional ids belong to are few.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.history.facts.internal_topics import GROUP_OFFSETS_TOPIC, TRANSACTIONS_TOPIC, partition_of
from harness.history.schema.internal_rows import CONSUMER_OFFSETS, INTERNAL_SNAPSHOTS, TRANSACTION_STATE
from harness.history.schema.typed_rows import row_of
from harness.host.clock import Anchor
from harness.ports.cluster import PartitionState, ReplicaLog
from harness.ports.coordinator_logs import CoordinatorLog, CoordinatorRecord, OffsetsRecord, TransactionRecord
from harness.ports.load import LoadFacts

NO_LOAD = LoadFacts()
Row = tuple[str, Mapping[str, Any]]  # a table's name, and what is to be written to it


def _names(load: LoadFacts) -> Mapping[str, Sequence[str]]:
    """Internal topic -> the names that the load's clients have there."""
    groups = [load.group] if load.group else []
    return {GROUP_OFFSETS_TOPIC: groups, TRANSACTIONS_TOPIC: load.transactional_ids}


def coordinators_topics(load: LoadFacts) -> tuple[str, ...]:
    return tuple(topic for topic, names in _names(load).items() if names)


@dataclass(frozen=True)
class Coordinators:
    """The (internal topic, partition) pairs of a load."""

    partitions: frozenset[tuple[str, int]]

    @staticmethod
    def of(load: LoadFacts, states: Iterable[PartitionState]) -> "Coordinators":
        """`states`: of all partitions of the internal topics, since their number decides."""
        partitions = ((state.topic, state.partition) for state in states)
        return Coordinators(frozenset(places_of(load, partitions).values()))


def places_of(load: LoadFacts, partitions: Iterable[tuple[str, int]]) -> dict[str, tuple[str, int]]:
    """Group or transactional id of the load -> the (internal topic, partition) whose leader coordinates it."""
    names = _names(load)
    counts: dict[str, int] = {}
    for topic, partition in partitions:
        if topic in names:
            counts[topic] = max(counts.get(topic, 0), partition + 1)
    return {name: (topic, partition_of(name, count)) for topic, count in counts.items() for name in names[topic]}


def snapshot_row(snapshot: int, node: int, reason: str, log: ReplicaLog | CoordinatorLog) -> dict[str, Any]:
    """What tables of snapshots have of any replica's log."""
    return {
        "snapshot": snapshot,
        "node": node,
        "time_ns": log.t_ns,
        "reason": reason,
        "topic": log.topic,
        "partition": log.partition,
        "log_start_offset": log.log_start,
        "high_watermark": log.high_watermark,
        "log_end_offset": log.log_end,
        "leader_epochs": " ".join(f"{epoch}:{start}" for epoch, start in log.epochs),
        "topic_id": log.topic_id,
    }


def rows_of_logs(reason: str, logs: Sequence[CoordinatorLog], *, first: int) -> Iterator[Row]:
    """The snapshots, numbered from `first`, and their records: one that several replicas have is one row."""
    held: dict[tuple[str, int, CoordinatorRecord], list[int]] = {}
    anchors: dict[int, Anchor] = {}
    for snapshot, log in enumerate(logs, start=first):
        row = snapshot_row(snapshot, int(log.node), reason, log)
        yield INTERNAL_SNAPSHOTS.name, {**row, "kept_from": log.kept_from}
        anchors[snapshot] = log.anchor
        for record in log.records:
            held.setdefault((log.topic, log.partition, record), []).append(snapshot)
    for (_, partition, record), snapshots in held.items():
        place = {
            "snapshots": snapshots,
            "partition": partition,
            "offset": record.offset,
            "leader_epoch": record.epoch if record.epoch >= 0 else None,
            "time_ns": _ns(anchors[snapshots[0]], record.wall_ms),
        }
        if isinstance(record.content, OffsetsRecord):
            yield CONSUMER_OFFSETS.name, place | _offsets(anchors[snapshots[0]], record, record.content)
        else:
            yield TRANSACTION_STATE.name, place | _transaction(anchors[snapshots[0]], record.content)


def _offsets(anchor: Anchor, record: CoordinatorRecord, content: OffsetsRecord) -> dict[str, object]:
    return row_of(
        CONSUMER_OFFSETS,
        content,
        producer_id=record.producer_id,
        producer_epoch=record.producer_epoch,
        transactional=record.transactional,
        commit_ns=_ns(anchor, content.commit_wall_ms),
        expire_ns=_ns(anchor, content.expire_wall_ms),
    )


def _transaction(anchor: Anchor, content: TransactionRecord) -> dict[str, object]:
    places = content.partitions
    return row_of(
        TRANSACTION_STATE,
        content,
        begun_ns=_ns(anchor, content.begun_wall_ms),
        partitions=None if places is None else [{"topic": topic, "partition": part} for topic, part in places],
    )


def _ns(anchor: Anchor, wall_ms: int | None) -> int | None:
    return None if wall_ms is None else anchor.monotonic_from_wall(wall_ms * 1_000_000)
