"""What the harness keeps of the partitions that coordinators write: their states in the books, and their records."""

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

from harness.history.facts.internal_topics import GROUP_OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from tests.world.chronicle import Appended, Committed, Entry, Partition, Snapshot
from tests.world.group_coordinator import GROUP, Commits, Generation
from tests.world.histories import History
from tests.world.transaction_coordinator import TIMEOUT_MS, TransactionState
from tests.world.visibility import Visibility

Row = dict[str, Any]


def internal_rows(history: History, visibility: Visibility) -> dict[str, list[Row]]:
    kept = [each for each in history.chronicle.snapshots if each.partition not in history.partitions]
    taken = [
        each for each in kept if each.reason == "end" or ("kill" in visibility.snapshots and each.reason == "kill")
    ]
    snapshots = dict(enumerate(taken if "end" in visibility.snapshots else ()))
    return {
        "internal_partition_states": _states(history, visibility) if visibility.books else [],
        "internal_replica_snapshots": [_snapshot(number, each) for number, each in snapshots.items()],
        "transaction_state": list(_transaction_states(history, snapshots)),
        "consumer_offsets": list(_consumer_offsets(history, snapshots)),
    }


def _states(history: History, visibility: Visibility) -> list[Row]:
    random = Random(history.setup.seed)
    rows: list[Row] = []
    layouts = {topic.name: topic.layout for topic in history.setup.topics}
    for each in history.chronicle.happenings:
        if not isinstance(each, Committed) or each.partition in history.partitions:
            continue
        blur = visibility.blur_ns if each.before is not None else 0
        earliest = rows[-1]["time_ns"] + 1 if rows else 0
        rows.append(
            {
                "topic": each.partition[0],
                "partition": each.partition[1],
                "time_ns": max(each.time_ns + random.randint(-blur, blur), earliest),
                "uncertainty_ns": visibility.blur_ns,
                "exact": True,
                "observer": -1,
                "leader": each.state.leader,
                "leader_epoch": each.state.epoch,
                "partition_epoch": each.state.partition_epoch,
                "controller_epoch": 1,
                "isr": list(each.state.isr),
                "isr_before": None if each.before is None else list(each.before.isr),
                "leader_before": None if each.before is None else each.before.leader,
                "unclean": each.unclean and each.before is not None and each.state.epoch != each.before.epoch,
                "replicas": list(layouts[each.partition[0]][each.partition[1]]),
            }
        )
    return rows


def _snapshot(number: int, each: Snapshot) -> Row:
    return {
        "snapshot": number,
        "node": each.node,
        "time_ns": each.time_ns,
        "reason": "end" if each.reason == "end" else "wipe",
        "topic": each.partition[0],
        "partition": each.partition[1],
        "log_start_offset": each.log_start,
        "high_watermark": each.high_watermark,
        "log_end_offset": each.log_end,
        "leader_epochs": " ".join(f"{epoch}:{start}" for epoch, start in each.epochs),
        "topic_id": None,
        "kept_from": each.log_start,
    }


def records_of(
    history: History, snapshots: Mapping[int, Snapshot], topic: str
) -> Iterator[tuple[list[int], Partition, int, Entry, int]]:
    """Each record once: in which snapshots, where, and when its leader wrote it."""
    written = {
        entry.value: each.time_ns
        for each in history.chronicle.happenings
        if isinstance(each, Appended) and each.by_leader
        for entry in each.entries
    }
    held: dict[tuple[Partition, int, Entry], list[int]] = {}
    for number, each in snapshots.items():
        if each.partition[0] == topic:
            for place, entry in enumerate(each.entries):
                held.setdefault((each.partition, each.log_start + place, entry), []).append(number)
    for (partition, offset, entry), numbers in held.items():
        yield numbers, partition, offset, entry, written[entry.value]


def _transaction_states(history: History, snapshots: Mapping[int, Snapshot]) -> Iterator[Row]:
    for numbers, partition, offset, entry, time_ns in records_of(history, snapshots, TRANSACTIONS_TOPIC):
        state = entry.kept
        assert isinstance(state, TransactionState)
        yield {
            "snapshots": numbers,
            "partition": partition[1],
            "offset": offset,
            "leader_epoch": entry.epoch,
            "time_ns": time_ns,
            "transactional_id": state.transactional_id,
            "removed": False,
            "producer_id": state.producer[0],
            "producer_epoch": state.producer[1],
            "state": state.state,
            "timeout_ms": TIMEOUT_MS,
            "begun_ns": state.begun_ns if state.begun_ns >= 0 else None,
            "partitions": [{"topic": topic, "partition": part} for topic, part in state.partitions],
        }


def _consumer_offsets(history: History, snapshots: Mapping[int, Snapshot]) -> Iterator[Row]:
    """A record of the world's may have several offsets; each of them is one of Kafka's."""
    for numbers, partition, offset, entry, time_ns in records_of(history, snapshots, GROUP_OFFSETS_TOPIC):
        row: Row = {
            "snapshots": numbers,
            "partition": partition[1],
            "offset": offset,
            "leader_epoch": entry.epoch,
            "time_ns": time_ns,
            "transactional": entry.producer is not None,
            "producer_id": None if entry.producer is None else entry.producer[0],
            "producer_epoch": None if entry.producer is None else entry.producer[1],
            "removed": False,
            "group": GROUP,
        }
        if entry.marks is not None:
            yield {**row, "group": None, "kind": "marker", "commits": entry.marks}
        if isinstance(entry.kept, Generation):
            yield {
                **row,
                "kind": "group",
                "generation": entry.kept.number,
                "members": list(entry.kept.members),
            }
        elif isinstance(entry.kept, Commits):
            for (topic, part), committed in entry.kept.offsets:
                yield {
                    **row,
                    "kind": "offset",
                    "topic": topic,
                    "topic_partition": part,
                    "committed_offset": committed,
                    "commit_ns": time_ns,
                }
