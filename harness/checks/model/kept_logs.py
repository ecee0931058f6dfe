"""What the logs of the coordinators held in the end: decisions on transactions (KIP-98), and the offsets of groups.

Of several replicas the one that was led last counts: of the highest leader epoch, then the longest. A log is only what
was kept of it (coordinator_logs.py), and both topics are compacted: what is not there says nothing.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeVar

from harness.checks.spark.tables import Tables
from harness.history.facts.epoch_checkpoints import epochs_of
from harness.history.facts.internal_topics import CLOCKS_APART_NS, GROUP_OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from harness.history.schema.cluster_rows import SnapshotRow
from harness.history.schema.internal_rows import (
    CONSUMER_OFFSETS,
    INTERNAL_SNAPSHOTS,
    TRANSACTION_STATE,
    ConsumerOffsetsRow,
    InternalSnapshotRow,
    TransactionStateRow,
)
from harness.history.schema.typed_rows import RowsOf

Row = TypeVar("Row", ConsumerOffsetsRow, TransactionStateRow)
Span = tuple[int, int]

_COMPLETION_OF = {"PrepareCommit": "CompleteCommit", "PrepareAbort": "CompleteAbort"}


@dataclass(slots=True)
class LoggedTransaction:
    """commits: what its coordinator decided, and at decided_ns; complete_ns: its markers were everywhere by then.
    states: those of its records, in the log's order."""

    begun_ns: int
    begin_is_recorded: bool = False
    commits: bool | None = None
    decided_ns: int | None = None
    complete_ns: int | None = None
    states: list[str] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Whether the log has its begin, its decision, and the completion of that."""
        completions = {_COMPLETION_OF[state] for state in self.states if state in _COMPLETION_OF}
        return self.states[:1] == ["Ongoing"] and completions == set(self.states[-1:])


@dataclass(slots=True)
class LoggedOffset:
    """An offset that a group committed. place: of its record in its log. commits: what its marker said, at marked_ns;
    None: it is outside transactions, or there is no marker behind it."""

    place: int
    time_ns: int
    commits: bool | None = None
    marked_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOffset:
    """What a group had committed of a partition. offset: None: it was removed. place: of the record in its log."""

    place: int
    offset: int | None
    in_a_transaction: bool


OffsetKey = tuple[int, str, str, int, int, bool]  # run, group, topic, partition, offset, in a transaction


def kept_logs(tables: Tables, run: int) -> Mapping[tuple[str, int], Sequence[SnapshotRow]]:
    """(topic, partition) -> the logs that were read of it, as those of the scenario's partitions are known.

    Of one from which records are missing, compacted away, nobody knows what it never had: it has no start.
    """
    kept: dict[tuple[str, int], set[int]] = {}
    for topic, table in ((GROUP_OFFSETS_TOPIC, CONSUMER_OFFSETS), (TRANSACTIONS_TOPIC, TRANSACTION_STATE)):
        for record in tables.rows(table, run):
            for number in record["snapshots"]:
                kept.setdefault((topic, number), set()).add(record["offset"])
    found: dict[tuple[str, int], list[SnapshotRow]] = {}
    for snapshot in sorted(tables.rows(INTERNAL_SNAPSHOTS, run), key=lambda snapshot: snapshot["time_ns"]):
        own = kept.get((snapshot["topic"], snapshot["snapshot"]), ())
        is_whole = len(own) == snapshot["log_end_offset"] - snapshot["kept_from"]
        row: SnapshotRow = {
            "run": run,
            "snapshot": snapshot["snapshot"],
            "node": snapshot["node"],
            "time_ns": snapshot["time_ns"],
            "reason": snapshot["reason"],
            "topic": snapshot["topic"],
            "partition": snapshot["partition"],
            "log_start_offset": snapshot["kept_from"] if is_whole else None,
            "high_watermark": snapshot["high_watermark"],
            "log_end_offset": snapshot["log_end_offset"],
            "leader_epochs": snapshot["leader_epochs"],
            "digest": None,
            "topic_id": snapshot["topic_id"],
            "open_transactions": None,
        }
        found.setdefault((snapshot["topic"], snapshot["partition"]), []).append(row)
    return found


def logged_transactions(tables: Tables) -> dict[tuple[int, str], list[LoggedTransaction]]:
    """(run, transactional id) -> its transactions, in the log's order."""
    found: dict[tuple[int, str], list[LoggedTransaction]] = {}
    current: dict[tuple[int, str], LoggedTransaction | None] = {}
    for row in _last_led(tables, TRANSACTION_STATE, TRANSACTIONS_TOPIC):
        if row["transactional_id"] is None or row["time_ns"] is None:
            continue
        key = row["run"], row["transactional_id"]
        state = row["state"]
        if state is None or state in ("Empty", "Dead"):
            current[key] = None
            continue
        own = current.get(key)
        if own is None or (state in ("Ongoing", "PrepareCommit", "PrepareAbort") and _is_another(own, row)):
            is_recorded = row["begun_ns"] is not None
            own = LoggedTransaction(row["begun_ns"] if row["begun_ns"] is not None else row["time_ns"], is_recorded)
            found.setdefault(key, []).append(own)
            current[key] = own
        own.states.append(state)
        if state != "Ongoing" and own.commits is None:
            own.commits, own.decided_ns = state in ("PrepareCommit", "CompleteCommit"), row["time_ns"]
        if state in ("CompleteCommit", "CompleteAbort"):
            own.complete_ns = row["time_ns"]
    return found


def _is_another(own: LoggedTransaction, row: TransactionStateRow) -> bool:
    """A record of an open or just decided transaction, after records of `own`."""
    other_begin = own.begin_is_recorded and row["begun_ns"] is not None and row["begun_ns"] != own.begun_ns
    return other_begin or own.complete_ns is not None or (own.commits is not None and row["state"] == "Ongoing")


def logged_offsets(tables: Tables) -> dict[OffsetKey, list[LoggedOffset]]:
    """Committed offsets, in the log's order; those in transactions with the next marker of their producer."""
    found: dict[OffsetKey, list[LoggedOffset]] = {}
    pending: dict[tuple[int, int, int | None], list[LoggedOffset]] = {}
    for row in _last_led(tables, CONSUMER_OFFSETS, GROUP_OFFSETS_TOPIC):
        producer = row["run"], row["partition"], row["producer_id"]
        if row["kind"] == "marker":
            for own in pending.pop(producer, ()):
                own.commits, own.marked_ns = row["commits"], row["time_ns"]
        if row["kind"] != "offset" or row["removed"] or row["time_ns"] is None:
            continue
        group, topic, part, offset = row["group"], row["topic"], row["topic_partition"], row["committed_offset"]
        if group is None or topic is None or part is None or offset is None:
            continue
        own_offset = LoggedOffset(row["offset"], row["time_ns"])
        found.setdefault((row["run"], group, topic, part, offset, row["transactional"]), []).append(own_offset)
        if row["transactional"]:
            pending.setdefault(producer, []).append(own_offset)
    return found


def committed_until(tables: Tables, until: Mapping[int, int]) -> dict[tuple[int, str, str, int], HeldOffset]:
    """(run, group, topic, partition) -> what the group had committed there by that time of each run, for certain. Of
    records in transactions those count whose marker stands behind them; a group that was removed has none."""
    found: dict[tuple[int, str, str, int], HeldOffset] = {}
    pending: dict[tuple[int, int, int | None], list[ConsumerOffsetsRow]] = {}
    for row in _last_led(tables, CONSUMER_OFFSETS, GROUP_OFFSETS_TOPIC):
        if row["run"] not in until or row["time_ns"] is None or row["time_ns"] > until[row["run"]]:
            continue
        producer = row["run"], row["partition"], row["producer_id"]
        if row["kind"] == "offset" and row["transactional"]:
            pending.setdefault(producer, []).append(row)
        elif row["kind"] == "offset":
            _hold(found, row, in_a_transaction=False)
        elif row["kind"] == "marker":
            own = pending.pop(producer, [])
            for each in own if row["commits"] else ():
                _hold(found, each, in_a_transaction=True)
    return found


def _hold(
    found: dict[tuple[int, str, str, int], HeldOffset], row: ConsumerOffsetsRow, *, in_a_transaction: bool
) -> None:
    """The record that stands later holds, whichever marker came first (KAFKA-5247)."""
    group, topic, part, offset = row["group"], row["topic"], row["topic_partition"], row["committed_offset"]
    if group is None or topic is None or part is None:
        return
    key = row["run"], group, topic, part
    before = found.get(key)
    if before is None or before.place < row["offset"]:
        held = None if row["removed"] else offset
        found[key] = HeldOffset(place=row["offset"], offset=held, in_a_transaction=in_a_transaction)


def _last_led(tables: Tables, table: RowsOf[Row], topic: str) -> Iterator[Row]:
    """The records of the replica that was led last, of each partition, in order."""
    replicas: dict[tuple[int, int], list[InternalSnapshotRow]] = {}
    for snapshot in tables.every(INTERNAL_SNAPSHOTS):
        if snapshot["topic"] == topic and snapshot["reason"] == "end":
            replicas.setdefault((snapshot["run"], snapshot["partition"]), []).append(snapshot)
    counts = {place: max(own, key=_led_until)["snapshot"] for place, own in replicas.items()}
    for row in sorted(tables.every(table), key=lambda row: (row["run"], row["partition"], row["offset"])):
        counted = counts.get((row["run"], row["partition"]))
        if counted is None or counted in row["snapshots"]:
            yield row


def _led_until(replica: InternalSnapshotRow) -> tuple[int, int]:
    return max((epoch for epoch, _ in epochs_of(replica["leader_epochs"])), default=-1), replica["log_end_offset"]


# ---- what clients did, and its traces in a log ----------------------------------------------------------------------


def paired(spans: Sequence[Span], times: Sequence[int]) -> list[int | None]:
    """For each span in which a client did something, in order of their begins: which of the logged times, in order,
    is that of it. None: none is, or it is not certain which.

    Where spans and times are equally many within reach of each other, they are each other's in order.
    """
    if any(after < before for before, after in pairwise(times)):
        return [None] * len(spans)  # brokers' clocks disagree
    reach = [
        (bisect_left(times, begin - CLOCKS_APART_NS), bisect_right(times, end + CLOCKS_APART_NS))
        for begin, end in spans
    ]
    found: list[int | None] = [None] * len(spans)
    for together in _in_reach(reach):
        low, high = min(reach[each][0] for each in together), max(reach[each][1] for each in together)
        if high - low == len(together) and all(
            reach[each][0] <= low + place < reach[each][1] for place, each in enumerate(together)
        ):
            for place, each in enumerate(together):
                found[each] = low + place
    return found


def _in_reach(reach: Sequence[tuple[int, int]]) -> Iterable[list[int]]:
    """The places of those that have times in common, directly or by way of others; without those that have none."""
    together: list[int] = []
    until = 0
    some = [place for place, (low, high) in enumerate(reach) if high > low]
    for each in sorted(some, key=lambda place: reach[place]):
        if together and reach[each][0] >= until:
            yield together
            together = []
        together.append(each)
        until = max(until, reach[each][1])
    if together:
        yield together
