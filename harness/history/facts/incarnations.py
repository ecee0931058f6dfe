"""Topics that were deleted and created again under the same name: each incarnation counts as a topic of its own.

Clients know only names, so their operations are assigned to an incarnation by time, and if that is ambiguous by value:
a record certainly sent to or read from one incarnation belongs to it. Acknowledged records that cannot be assigned
become NAME#0, so that the checks leave them open. In the tables the newest incarnation keeps its name; earlier ones are
NAME#1, NAME#2 ... (not valid Kafka names). Without recreated topics nothing changes.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from harness.history.facts.fault_facts import begin_of, begun, end_of
from harness.history.journals.merging import TopicPart
from harness.history.schema.cluster_rows import (
    BROKER_EVENTS,
    CONFIGURATION,
    DISK_EVENTS,
    PARTITION_STATES,
    PARTITIONS,
    REPLICA_SNAPSHOTS,
    BrokerEventRow,
    ConfigurationRow,
    DiskEventRow,
    FaultRow,
    PartitionRow,
    PartitionStateRow,
    SnapshotRow,
    TopicRow,
)
from harness.history.schema.column_types import END_OF_TIME_NS
from harness.history.schema.schemas import KIND_SEND, STATUS_OK, TABLES
from harness.history.schema.typed_rows import TypedRows

_NULL = 2**62  # of a column of numbers
_APART = "#"
# How long (ns) an unimpeded broker may still serve a deleted topic, and a client return records fetched from it.
_LINGERS_NS = 10**9
_HOLDS_UP = frozenset({"pause", "cut", "slow", "impair", "full"})


def client_name(topic: str) -> str:
    """The name that clients, scenarios and the cluster use."""
    return topic.partition(_APART)[0]


def is_created_anew(topic: TopicRow, topics: Iterable[TopicRow]) -> bool:
    """Whether one of the same name had been there before it."""
    return any(
        each["name"] == topic["name"] and (each["created_ns"] or 0) < (topic["created_ns"] or 0) for each in topics
    )


@dataclass(frozen=True, kw_only=True)
class TopicLife:
    """A topic from creation to deletion (if any), according to the cluster's records."""

    topic: str
    topic_id: str | None
    created_ns: int
    deleted_ns: int | None
    uncertainty_ns: int


@dataclass(frozen=True, kw_only=True)
class Life:
    """One topic from creation to deletion. latest_ns: until when brokers may have served it."""

    topic: str
    name: str
    topic_id: str | None
    created_ns: int
    deleted_ns: int
    latest_ns: int


class Incarnations:
    """The topics of a run; `rows`: of the table `topics`, from the cluster's records."""

    def __init__(self, rows: Iterable[TopicRow], faults: Sequence[FaultRow] = ()) -> None:
        by_name: dict[str, list[TopicRow]] = {}
        for row in rows:
            by_name.setdefault(row["topic"], []).append(row)
        self._rows = {name: sorted(own, key=lambda row: row["created_ns"] or 0) for name, own in by_name.items()}
        self._lives: dict[str, list[Life]] = {
            name: [_life(row, number, len(own), faults) for number, row in enumerate(own, start=1)]
            for name, own in self._rows.items()
            if len(own) > 1
        }
        self._by_id = {life.topic_id or "": life for own in self._lives.values() for life in own}

    def __bool__(self) -> bool:
        return bool(self._lives)

    # -- the cluster's records ------------------------------

    def at(self, name: str, time_ns: int, topic_id: str | None = None) -> str:
        """The topic of that name with that id, or the latest one created by then."""
        own = self._lives.get(name)
        if own is None:
            return name
        if topic_id and (life := self._by_id.get(topic_id)) is not None:
            return life.topic
        place = bisect_right([life.created_ns for life in own], time_ns)
        return own[max(place - 1, 0)].topic

    def _set_for(self, name: str, time_ns: int) -> str:
        """A topic's settings are written just before the topic."""
        return next((life.topic for life in self._lives.get(name, ()) if time_ns <= life.deleted_ns), name)

    def renamed(self, rows: TypedRows) -> TypedRows:
        """The rows of all small tables, each with its incarnation's name."""
        states: list[PartitionStateRow] = [
            {**row, "topic": self.at(row["topic"], row["time_ns"], row["topic_id"])} for row in rows[PARTITION_STATES]
        ]
        events: list[BrokerEventRow] = [
            {**row, "topic": self._at(row["topic"], row["time_ns"])} for row in rows[BROKER_EVENTS]
        ]
        harms: list[DiskEventRow] = [
            {**row, "topic": self._at(row["topic"], row["time_ns"])} for row in rows[DISK_EVENTS]
        ]
        snapshots: list[SnapshotRow] = [
            {**row, "topic": self.at(row["topic"], row["time_ns"] or 0, row["topic_id"])}
            for row in rows[REPLICA_SNAPSHOTS]
        ]
        settings: list[ConfigurationRow] = [
            {**row, "name": self._set_for(name, row["time_ns"])}
            if row["scope"] == "topic" and (name := row["name"]) is not None
            else row
            for row in rows[CONFIGURATION]
        ]
        return rows | {
            "partition_states": states,
            "broker_events": events,
            "disk_events": harms,
            "replica_snapshots": snapshots,
            "configuration": settings,
            "partitions": self._partitions(rows[PARTITIONS]),
        }

    def _at(self, name: str | None, time_ns: int) -> str | None:
        return None if name is None else self.at(name, time_ns)

    def _partitions(self, partitions: Sequence[PartitionRow]) -> list[PartitionRow]:
        """With those of the topics that were before."""
        gone: list[PartitionRow] = [
            {
                "run": row["run"],
                "partition_id": -1,
                "topic": life.topic,
                "partition": row["partition"],
                "replicas": row["replicas"],
                "read_to_end": False,
                "end_offset": None,
                "note_text": "its topic was deleted",
                "log_start_offset": None,
                "cleanup_policy": None,
                "last_stable_offset": None,
            }
            for row in partitions
            for life in self._lives.get(row["topic"], ())[:-1]
        ]
        return [*partitions, *gone]

    def topics(self, undecided: Iterable[str]) -> list[TopicRow]:
        """The rows of the table `topics`; `undecided`: names with records that could not be assigned."""
        rows: list[TopicRow] = []
        for name, own in self._rows.items():
            lives = self._lives.get(name)
            for number, row in enumerate(own):
                rows.append({**row, "topic": lives[number].topic if lives else name, "name": name, "undecided": False})
        return rows + [
            {
                "run": 0,
                "topic": f"{name}{_APART}0",
                "name": name,
                "topic_id": None,
                "created_ns": None,
                "deleted_ns": None,
                "uncertainty_ns": None,
                "undecided": True,
            }
            for name in sorted(undecided)
        ]

    @staticmethod
    def is_set_apart(topic: str) -> bool:
        return topic.endswith(f"{_APART}0")

    # -- what clients did ---------------------------------

    def placed(
        self, records: pa.Table, partition_ids: Mapping[TopicPart, int]
    ) -> tuple[pa.Table, dict[TopicPart, int]]:
        """The records, each with its incarnation's partition, and the dense ids of all partitions."""
        partition_ids, topics = dict(partition_ids), records.column("topic").to_numpy(zero_copy_only=False)
        wanted = ("partition_id", "kind", "status", "value", "invoked_ns", "completed_ns", "operation", "offset_step")
        columns = {name: _numbers(records, name) for name in wanted}
        last = np.asarray(records.column("last_of_poll").fill_null(False))
        partition_id, first = columns["partition_id"].copy(), columns["partition_id"]
        for (name, part), number in list(partition_ids.items()):
            own = self._lives.get(name)
            chosen = np.flatnonzero(first == number)
            if own is None:
                continue
            numbers = [partition_ids.setdefault((life.topic, part), len(partition_ids)) for life in own]
            place = _places(own, {column: values[chosen] for column, values in columns.items()})
            if (place < 0).any():
                numbers.append(
                    partition_ids.setdefault((f"{name}{_APART}0", part), len(partition_ids))
                )  # -1 indexes the last one
            partition_id[chosen] = np.array(numbers)[place]
            for at in np.flatnonzero(place != len(own) - 1):
                life = own[place[at]].topic if place[at] >= 0 else f"{name}{_APART}0"
                topics[chosen[at]] = life
            _part_polls(chosen, place, columns, last)
        step = pa.array(
            np.where(columns["offset_step"] == _NULL, 0, columns["offset_step"]),
            mask=columns["offset_step"] == _NULL,
        )
        changed = {
            "topic": pa.array(topics, pa.string()),
            "partition_id": pa.array(partition_id, pa.int32()),
            "offset_step": step,
            "last_of_poll": pa.array(last, mask=np.asarray(records.column("last_of_poll").is_null())),
        }
        for name, column in changed.items():
            place_of = records.schema.get_field_index(name)
            records = records.set_column(place_of, TABLES["records"].field(name), column)
        return records, partition_ids

    def events(self, table: pa.Table) -> pa.Table:
        """Rows of group_events: events after an assignment belong to the assigned incarnation."""
        rows = table.to_pylist()
        held: dict[tuple[int, str, int], str] = {}
        for row in rows:
            key = row["process"], row["topic"], row["partition"]
            if row["event"] in ("assigned", "fetched", "seek") or key not in held:
                held[key] = self.at(row["topic"], row["invoked_ns"])
            row["topic"] = held[key]
        return pa.Table.from_pylist(rows, schema=table.schema)

    def client_events(self, table: pa.Table) -> pa.Table:
        """Rows of client_events."""
        rows = table.to_pylist()
        for row in rows:
            row["topic"] = self.at(row["topic"], row["time_ns"]) if row["topic"] is not None else None
        return pa.Table.from_pylist(rows, schema=table.schema)

    def logs(self, log: pa.Table, snapshots: Sequence[SnapshotRow]) -> pa.Table:
        """Rows of replica_log, each with the topic of its snapshot."""
        of_snapshot = {row["snapshot"]: row["topic"] for row in snapshots}
        numbers, names = log.column("snapshot").to_pylist(), log.column("topic").to_pylist()
        topics = [of_snapshot.get(number, name) for number, name in zip(numbers, names, strict=True)]
        return log.set_column(log.schema.get_field_index("topic"), log.schema.field("topic"), pa.array(topics))


def _life(row: TopicRow, number: int, of: int, faults: Sequence[FaultRow]) -> Life:
    name, apart = row["topic"], row["uncertainty_ns"] or 0
    deleted = END_OF_TIME_NS if row["deleted_ns"] is None else row["deleted_ns"] + apart
    latest = deleted
    for fault in begun(faults):  # a delayed broker learns of the deletion only after the fault
        begin, end = begin_of(fault), end_of(fault)
        if fault["kind"] in _HOLDS_UP and begin <= deleted + _LINGERS_NS and end >= deleted:
            latest = max(latest, end)
    return Life(
        topic=name if number == of else f"{name}{_APART}{number}",
        name=name,
        topic_id=row["topic_id"],
        created_ns=(row["created_ns"] or 0) - apart,
        deleted_ns=deleted,
        latest_ns=min(latest + _LINGERS_NS, END_OF_TIME_NS),
    )


def _places(lives: Sequence[Life], rows: Mapping[str, Any]) -> Any:
    """For each row of one partition the number of its incarnation; -1: an acknowledged record that cannot
    be assigned."""
    may = np.stack(
        [(rows["completed_ns"] >= life.created_ns) & (rows["invoked_ns"] <= life.latest_ns) for life in lives]
    )
    first, number = may.argmax(axis=0), may.sum(axis=0)
    place = np.where(number == 0, len(lives) - 1, first)
    doubtful = np.flatnonzero(number > 1)
    if not len(doubtful):
        return place
    sure: dict[int, set[int]] = {}
    wanted = set(rows["value"][doubtful].tolist())
    for at in np.flatnonzero(number == 1):
        if (value := int(rows["value"][at])) in wanted:
            sure.setdefault(value, set()).add(int(place[at]))
    acknowledged = {
        int(rows["value"][at]) for at in doubtful if rows["kind"][at] == KIND_SEND and rows["status"][at] == STATUS_OK
    }
    for at in doubtful:
        value = int(rows["value"][at])
        known = [life for life in sure.get(value, ()) if may[life, at]]
        place[at] = max(known) if known else -1 if value in acknowledged else first[at]
    return place


def _part_polls(chosen: Any, place: Any, columns: Mapping[str, Any], last: Any) -> None:
    """If one poll returned records of two incarnations, neither part continues where the other ended."""
    read = np.flatnonzero(columns["kind"][chosen] != KIND_SEND)
    one, two = read[:-1], read[1:]
    parted = (columns["operation"][chosen[one]] == columns["operation"][chosen[two]]) & (place[one] != place[two])
    columns["offset_step"][chosen[two[parted]]] = _NULL
    last[chosen[one[parted]]] = True


def _numbers(records: pa.Table, name: str) -> Any:
    return records.column(name).cast(pa.int64()).fill_null(_NULL).to_numpy().copy()
