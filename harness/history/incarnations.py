"""Topics that were deleted and created anew: each one is a topic of its own, whatever its name.

Clients know names only, so what they did is told apart by time, and where that does not decide, by the value: a record
that was surely sent to one of them, or surely read from one, was in that one. Acknowledged records that nothing places
are set apart, to be left open. In the tables the newest keeps its name; those before it are NAME#1, NAME#2 ... and what
is set apart is of NAME#0: no topic of Kafka's can be called so. Where no topic was created anew nothing is changed.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from harness.history.merging import TopicPart
from harness.history.schemas import KIND_SEND, STATUS_OK, TABLES

_APART = "#"
_NEVER = 2**62
# For how long a broker that nothing holds up may go on serving a topic that was deleted, and a client hand out what it
# had fetched of it.
_LINGERS_NS = 10**9
_HOLDS_UP = frozenset({"pause", "cut", "slow", "impair", "full"})
Row = dict[str, Any]


def client_name(topic: str) -> str:
    """What clients, scenarios and the cluster call it."""
    return topic.partition(_APART)[0]


@dataclass(frozen=True, kw_only=True)
class TopicLife:
    """A topic from its creation to its deletion, if it came, as the cluster's books tell it."""

    topic: str
    topic_id: str | None
    created_ns: int
    deleted_ns: int | None
    uncertainty_ns: int


@dataclass(frozen=True, kw_only=True)
class Life:
    """One topic from its creation to its deletion. latest_ns: until when it may have been served."""

    topic: str
    name: str
    topic_id: str | None
    created_ns: int
    deleted_ns: int
    latest_ns: int


class Incarnations:
    """The topics of a run; `rows`: of the table `topics`, as the cluster's books tell it."""

    def __init__(self, rows: Iterable[Row], faults: Sequence[Row] = ()) -> None:
        told: dict[str, list[Row]] = {}
        for row in rows:
            told.setdefault(row["topic"], []).append(row)
        self._rows = {name: sorted(own, key=lambda row: row["created_ns"] or 0) for name, own in told.items()}
        self._lives: dict[str, list[Life]] = {
            name: [_life(row, number, len(own), faults) for number, row in enumerate(own, start=1)]
            for name, own in self._rows.items()
            if len(own) > 1
        }
        self._by_id = {life.topic_id or "": life for own in self._lives.values() for life in own}

    def __bool__(self) -> bool:
        return bool(self._lives)

    # -- the cluster's books ------------------------------

    def at(self, name: str, t: int, topic_id: str | None = None) -> str:
        """The topic of that name by its id, else the latest that had been created by then."""
        own = self._lives.get(name)
        if own is None:
            return name
        if topic_id and (life := self._by_id.get(topic_id)) is not None:
            return life.topic
        place = bisect_right([life.created_ns for life in own], t)
        return own[max(place - 1, 0)].topic

    def _set_for(self, name: str, t: int) -> str:
        """A topic's settings are written just before itself."""
        return next((life.topic for life in self._lives.get(name, ()) if t <= life.deleted_ns), name)

    def renamed(self, rows: Mapping[str, Sequence[Row]]) -> dict[str, list[Row]]:
        """The rows of all small tables, each under its topic."""
        renamed = {table: list(own) for table, own in rows.items()}
        for table in ("partition_states", "broker_events", "disk_events", "replica_snapshots"):
            renamed[table] = [
                row if row.get("topic") is None
                else {**row, "topic": self.at(row["topic"], row.get("t") or 0, row.get("topic_id"))}
                for row in renamed.get(table, ())
            ]  # fmt: skip
        renamed["configuration"] = [
            {**row, "name": self._set_for(row["name"], row["t"])} if row["scope"] == "topic" else row
            for row in renamed.get("configuration", ())
        ]
        partitions = renamed.get("partitions", [])
        renamed["partitions"] = partitions + [
            {"topic": life.topic, "part": row["part"], "replicas": row.get("replicas"), "read_to_end": False,
             "note": "its topic was deleted"}
            for row in partitions
            for life in self._lives.get(row["topic"], ())[:-1]
        ]  # fmt: skip
        return renamed

    def topics(self, undecided: Iterable[str]) -> list[Row]:
        """The rows of the table `topics`; `undecided`: names of which some records could not be placed."""
        rows = []
        for name, own in self._rows.items():
            lives = self._lives.get(name)
            for number, row in enumerate(own):
                rows.append({**row, "topic": lives[number].topic if lives else name, "name": name, "undecided": False})
        return rows + [{"topic": f"{name}{_APART}0", "name": name, "undecided": True} for name in sorted(undecided)]

    @staticmethod
    def is_set_apart(topic: str) -> bool:
        return topic.endswith(f"{_APART}0")

    # -- what clients did ---------------------------------

    def placed(self, records: pa.Table, tps: Mapping[TopicPart, int]) -> tuple[pa.Table, dict[TopicPart, int]]:
        """The records, each under the topic that it was of, and the dense ids of all partitions."""
        tps, topics = dict(tps), records.column("topic").to_numpy(zero_copy_only=False)
        wanted = ("tp", "kind", "status", "value", "t0", "t1", "op", "step")
        columns = {name: _numbers(records, name) for name in wanted}
        last = np.asarray(records.column("last").fill_null(False))
        tp, first = columns["tp"].copy(), columns["tp"]
        for (name, part), number in list(tps.items()):
            own = self._lives.get(name)
            chosen = np.flatnonzero(first == number)
            if own is None:
                continue
            numbers = [tps.setdefault((life.topic, part), len(tps)) for life in own]
            place = _places(own, {column: values[chosen] for column, values in columns.items()})
            if (place < 0).any():
                numbers.append(tps.setdefault((f"{name}{_APART}0", part), len(tps)))  # -1, as the last one
            tp[chosen] = np.array(numbers)[place]
            for at in np.flatnonzero(place != len(own) - 1):
                life = own[place[at]].topic if place[at] >= 0 else f"{name}{_APART}0"
                topics[chosen[at]] = life
            _part_polls(chosen, place, columns, last)
        step = pa.array(np.where(columns["step"] == _NEVER, 0, columns["step"]), mask=columns["step"] == _NEVER)
        changed = {
            "topic": pa.array(topics, pa.string()), "tp": pa.array(tp, pa.int32()), "step": step,
            "last": pa.array(last, mask=np.asarray(records.column("last").is_null())),
        }  # fmt: skip
        for name, column in changed.items():
            place_of = records.schema.get_field_index(name)
            records = records.set_column(place_of, TABLES["records"].field(name), column)
        return records, tps

    def events(self, table: pa.Table) -> pa.Table:
        """Rows of group_events: what follows an assignment is of the topic that was assigned."""
        rows = table.to_pylist()
        held: dict[tuple[int, str, int], str] = {}
        for row in rows:
            key = row["process"], row["topic"], row["part"]
            if row["event"] in ("assigned", "fetched", "seek") or key not in held:
                held[key] = self.at(row["topic"], row["t0"])
            row["topic"] = held[key]
        return pa.Table.from_pylist(rows, schema=table.schema)

    def met(self, table: pa.Table) -> pa.Table:
        """Rows of client_events."""
        rows = table.to_pylist()
        for row in rows:
            row["topic"] = self.at(row["topic"], row["t"]) if row["topic"] is not None else None
        return pa.Table.from_pylist(rows, schema=table.schema)

    def logs(self, log: pa.Table, snapshots: Sequence[Row]) -> pa.Table:
        """Rows of replica_log, each under the topic of its snapshot."""
        of_snapshot = {row["snapshot"]: row["topic"] for row in snapshots}
        numbers, names = log.column("snapshot").to_pylist(), log.column("topic").to_pylist()
        topics = [of_snapshot.get(number, name) for number, name in zip(numbers, names, strict=True)]
        return log.set_column(log.schema.get_field_index("topic"), log.schema.field("topic"), pa.array(topics))


def _life(row: Row, number: int, of: int, faults: Sequence[Row]) -> Life:
    name, apart = row["topic"], row.get("uncertainty_ns") or 0
    deleted = _NEVER if row["deleted_ns"] is None else row["deleted_ns"] + apart
    latest = deleted
    for fault in faults:  # a broker that is held up hears of the deletion when it no longer is
        begin, end = fault.get("t_begin"), fault.get("t_end")
        end = _NEVER if end is None else end
        if begin is not None and fault["kind"] in _HOLDS_UP and begin <= deleted + _LINGERS_NS and end >= deleted:
            latest = max(latest, end)
    return Life(
        topic=name if number == of else f"{name}{_APART}{number}", name=name, topic_id=row.get("topic_id"),
        created_ns=(row["created_ns"] or 0) - apart, deleted_ns=deleted, latest_ns=min(latest + _LINGERS_NS, _NEVER),
    )  # fmt: skip


def _places(lives: Sequence[Life], rows: Mapping[str, Any]) -> Any:
    """Of each row of one partition the number of its life; -1: an acknowledged record that nothing places."""
    may = np.stack([(rows["t1"] >= life.created_ns) & (rows["t0"] <= life.latest_ns) for life in lives])
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
    """Where one poll gave records of two topics of one name, neither goes on where the other ended."""
    read = np.flatnonzero(columns["kind"][chosen] != KIND_SEND)
    one, two = read[:-1], read[1:]
    parted = (columns["op"][chosen[one]] == columns["op"][chosen[two]]) & (place[one] != place[two])
    columns["step"][chosen[two[parted]]] = _NEVER
    last[chosen[one[parted]]] = True


def _numbers(records: pa.Table, name: str) -> Any:
    return records.column(name).cast(pa.int64()).fill_null(_NEVER).to_numpy().copy()
