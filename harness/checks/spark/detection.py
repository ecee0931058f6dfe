"""One query over the records that finds every suspicious row.

The rows are folded to one per (partition, value, offset): what its sender and its readers recorded of that value at
that offset. Windows by value, by offset and by sending process then set the flags. Only flagged rows leave Spark, and
one row for each line of the accounting, so the cost of everything after this (causes, classes, sentences) depends on
the number of problems, not of operations. It is one query, because the first run of any query costs more than a million
records.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypedDict

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from harness.checks.spark.fused_query import BITS, CONDITIONS, FoldedRow, flagged_rows
from harness.checks.spark.sends import Sends, sends_of, value_of
from harness.checks.spark.tables import Tables, small_frame
from harness.history.schema.cluster_rows import PARTITIONS, REPLICA_SNAPSHOTS, TOPICS
from harness.history.schema.typed_rows import typed

# Beyond this many flagged rows the rest is counted but not classed one by one.
FLAGGED_MAX = 1_000_000
ALL_OFFSETS = 2**63 - 1
SEEN_POLL, SEEN_FINAL, SEEN_REPLICA = 1, 2, 4  # the bits of `seen`; the queries below spell them out

# flag -> its meaning for a folded row
FLAGS: Mapping[str, str] = {
    "lost": "acknowledged, and not in the final log although that was read past it",
    "unseen": "acknowledged, not in the final log, which was not read that far",
    "duplicate": "the value was seen at another offset too",
    "conflict": "another value was seen at this offset",
    "aborted": "read although its send definitely failed",
    "phantom": "read although nobody sent it",
    "early": "read before it was sent",
    "send_order": "acknowledged at or below the offset of a record that the same process sent before",
    "regression": "acknowledged below an offset that was acknowledged before this send began",
    "back_inside": "a poll went back, or stood still, inside itself",
    "back_between": "a poll began at or below the end of the poll before it",
    "skip_inside": "a poll jumped over a record of the final log inside itself",
    "skip_between": "a poll began behind a record of the final log that the poll before had not reached",
    "dirty": "read while the load ran, and not in the final log",
}


class Copy(NamedTuple):
    """A record in a snapshot (its number) of one node's log."""

    node: int
    snapshot: int
    epoch: int | None


class EpochRead(NamedTuple):
    """The first and last offset that readers saw of one epoch's records; is_final: in the final log."""

    epoch: int
    is_final: bool
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True)
class Flagged:
    """A folded row with at least one flag. Times in ns; None if not recorded."""

    run: int
    partition_id: int
    value: int
    offset: int | None
    status: int | None  # of the send, at any offset
    acks: int | None
    acknowledged: int | None  # offset of the acknowledgement, if any
    process: int | None
    operation: int | None
    invoked_ns: int | None
    completed_ns: int | None
    seen: int  # bits, at this offset
    seen_any: int  # bits, at any offset
    final_offsets: int  # number of offsets at which the final log has the value
    read_epoch: int | None
    read_first: int | None
    read_last: int | None  # begin of the last poll that returned it here
    step: int | None  # the worst step of a poll onto this row, if a poll flag is set
    flags: frozenset[str]
    held: frozenset[int]  # nodes that had the record in some snapshot or truncation
    held_at_end: frozenset[int]
    copies: frozenset[Copy]  # of this value at this offset; at any offset if it has none
    others: frozenset[Copy]  # of other values at this offset
    below_acks_all: bool  # another at or above its offset had been acknowledged with acks=all before this send
    # It and a record above it are both in the final log, so that neither was cut: one that had been acknowledged before
    # it was called; one that its process had sent before it, surely or if one task made both calls.
    above_kept: bool = False
    overtook_kept: bool = False
    overtook_in_order: bool = True
    overtook_gone: bool = False  # one that its process had sent before it is not in the final log
    in_order: bool = True  # send_order: it was surely called later; False: so it was if one task made both calls
    tries: int = 1  # sends of this value that may have been appended: an application may send one again
    answered: bool = False  # its send was answered with this offset, whatever became of its transaction

    @property
    def epoch(self) -> int | None:
        """The epoch of its last copy in a log at this offset, otherwise as readers saw it."""
        logged = max((copy.epoch for copy in self.copies if copy.epoch is not None), default=None)
        return logged if logged is not None else self.read_epoch

    @property
    def known_until_ns(self) -> int | None:
        """When clients last knew of it here: its answer, or the begin of the last poll that returned it."""
        answered = self.completed_ns if self.answered else None
        return max((t for t in (answered, self.read_last) if t is not None), default=None)


class AccountLine(TypedDict):
    """The number of values with the same outcome at the sender that the final log has, or lacks."""

    run: int
    partition_id: int
    status: int | None
    acks: int | None
    in_final: bool
    count: int
    duplicates: int
    read: int


@dataclass(frozen=True, kw_only=True)
class Detection:
    """Flagged rows by run; `counts[run, partition_id, flag]`, exact even if rows were left out; accounting rows.

    sent_again: by run, how many sends were of values that had been sent before.
    entangled: the runs that may contain a cycle; in the others each operation is later than all it depends on.
    restamped: the runs in which a value was seen with two timestamps.
    stepped: the (run, partition_id) of which a poll returned two records with an offset between them that it left out.
    reads: by (run, partition_id), for the partitions that need a ruling.
    """

    flagged: Mapping[int, Sequence[Flagged]]
    counts: Mapping[tuple[int, int, str], int]
    accounting: Sequence[AccountLine]
    sent_again: Mapping[int, int]
    entangled: frozenset[int]
    restamped: frozenset[int]
    stepped: frozenset[tuple[int, int]]
    reads: Mapping[tuple[int, int], Sequence[EpochRead]]


_NOT_FLAGS = {"gone", "backward"}
assert {*CONDITIONS} - _NOT_FLAGS | {"lost", "unseen"} == {*FLAGS}

Partition = tuple[int, int]


def detect(spark: SparkSession, tables: Tables) -> Detection:
    rows = typed(FoldedRow, flagged_rows(spark, tables.every_record, tables.jumps, at_most=FLAGGED_MAX).toArrow())
    complete = len(rows) < FLAGGED_MAX
    suspicious = None if complete else flagged_rows(spark, tables.every_record, tables.jumps)
    accounts = rows if suspicious is None else typed(FoldedRow, suspicious.where("accounts").toArrow())
    lines = [row for row in accounts if row["accounts"]]
    ends, places = _ends(tables, lines), _Places.of(tables)
    held = _holdings(spark, tables, rows)
    sent = sends_of(spark, tables, rows, lines)
    flagged = [each for row in rows if (each := _flagged(row, ends, places, held, sent)).flags]
    by_run: dict[int, list[Flagged]] = {run: [] for run in range(tables.runs)}
    for each in flagged:
        by_run[each.run].append(each)
    for listed in by_run.values():
        listed.sort(key=lambda row: (row.partition_id, -1 if row.offset is None else row.offset, row.value))
    counts = _counts(flagged) if suspicious is None else _counts_of_all(spark, suspicious, ends, places)
    entangled = {row["run"] for row in rows if row["flags"] & BITS["backward"]}
    entangled |= {run for run, marks in tables.activity.items() if marks["transactional"]}
    if not complete:
        entangled = set(by_run)
    return Detection(
        flagged=by_run,
        counts=counts,
        accounting=[_line(row) for row in lines],
        sent_again=sent.again,
        entangled=frozenset(entangled),
        restamped=frozenset(row["run"] for row in lines if row["a_restamped"]),
        stepped=frozenset((row["run"], row["partition_id"]) for row in lines if (row["a_step"] or 0) > 1),
        reads=_epoch_reads(spark, tables, flagged),
    )


@dataclass(frozen=True, kw_only=True)
class _Places:
    """Partitions that were deleted with their topic, so nothing can be read, and numbers that are not partitions."""

    deleted: frozenset[Partition]
    set_apart: frozenset[Partition]

    @classmethod
    def of(cls, tables: Tables) -> "_Places":
        topics = {(row["run"], row["topic"]) for row in tables.every(TOPICS) if row["deleted_ns"] is not None}
        rows = tables.every(PARTITIONS) if topics else ()
        return cls(
            deleted=frozenset(
                (row["run"], row["partition_id"]) for row in rows if (row["run"], row["topic"]) in topics
            ),
            set_apart=tables.set_apart,
        )

    def flags(self, place: Partition, flags: set[str]) -> set[str]:
        """The flags that have a meaning there."""
        if place in self.set_apart:
            return {"unseen"} & flags
        if place in self.deleted:  # everything reported is gone from the final log
            return ({"lost"} if {"lost", "unseen"} & flags else set()) | flags - {"unseen", "dirty"}
        return flags


def _ends(tables: Tables, lines: Sequence[FoldedRow]) -> dict[Partition, int]:
    """The offset up to which each partition's final read proves that a record is missing: all offsets if it ended.

    If the end of a final read is not recorded, it proves this up to its last record.
    """
    ends: dict[Partition, int] = {}
    for row in lines:
        if row["a_end"] is not None:
            place = row["run"], row["partition_id"]
            ends[place] = max(ends.get(place, -1), row["a_end"])
    for partition in tables.every(PARTITIONS):
        if partition["read_to_end"]:
            ends[partition["run"], partition["partition_id"]] = ALL_OFFSETS
    return ends


def _past(ends: Mapping[Partition, int], row: FoldedRow) -> bool:
    end = ends.get((row["run"], row["partition_id"]), -1)
    return end == ALL_OFFSETS or (row["offset"] is not None and row["offset"] <= end)


def _settled(row: FoldedRow, ends: Mapping[Partition, int], places: _Places) -> frozenset[str]:
    flags = {name for name, bit in BITS.items() if row["flags"] & bit}
    past = _past(ends, row)
    if "gone" in flags:
        flags.add("lost" if past else "unseen")
    kept = flags - _NOT_FLAGS if past else flags - _NOT_FLAGS - {"dirty"}
    return frozenset(places.flags((row["run"], row["partition_id"]), kept))


def _counts(flagged: Sequence[Flagged]) -> dict[tuple[int, int, str], int]:
    return Counter((row.run, row.partition_id, flag) for row in flagged for flag in row.flags)


def _counts_of_all(
    spark: SparkSession, suspicious: DataFrame, ends: Mapping[Partition, int], places: _Places
) -> dict[tuple[int, int, str], int]:
    """The counts, computed by Spark if there are too many rows to fetch."""
    read_to = [{"run": run, "partition_id": partition_id, "end": end} for (run, partition_id), end in ends.items()]
    frame = small_frame(spark, {"run": pa.int32(), "partition_id": pa.int32(), "end": pa.int64()}, read_to)
    past = f"(coalesce(end = {ALL_OFFSETS}, false) or coalesce(offset <= end, false))"
    conditions = {name: f"flags & {bit} <> 0" for name, bit in BITS.items()}
    gone, _ = conditions.pop("gone"), conditions.pop("backward")
    conditions |= {"lost": f"{gone} and {past}", "unseen": f"{gone} and not {past}"}
    conditions["dirty"] += f" and {past}"
    counted = (
        suspicious.join(sf.broadcast(frame), ["run", "partition_id"], "left")
        .groupBy("run", "partition_id")
        .agg(*[sf.count_if(sf.expr(condition)).alias(name) for name, condition in conditions.items()])
    )
    counts: dict[tuple[int, int, str], int] = Counter()
    numbers: list[dict[str, int]] = counted.toArrow().to_pylist()
    for row in numbers:
        for name in conditions:
            for flag in places.flags((row["run"], row["partition_id"]), {name}) if row[name] else ():
                counts[row["run"], row["partition_id"], flag] += row[name]
    return dict(counts)


class _CopyRow(TypedDict):
    node: int
    snapshot: int
    leader_epoch: int | None


class HeldRow(TypedDict):
    """Every copy of a value at an offset."""

    run: int
    partition_id: int
    offset: int
    value: int
    copies: list[_CopyRow]


class Holdings:
    """The replicas that ever had the flagged records: by value at any offset, and by offset with each copy's epoch."""

    def __init__(self, copies: Sequence[HeldRow] = (), *, ended: Collection[tuple[int, int]] = ()) -> None:
        self._ended = ended
        self._of_value: dict[tuple[int, int, int], list[tuple[int, Copy]]] = {}
        self._at: dict[tuple[int, int, int], list[tuple[int, Copy]]] = {}
        for row in copies:
            for stored_copy in row["copies"]:
                copy = Copy(stored_copy["node"], stored_copy["snapshot"], stored_copy["leader_epoch"])
                self._of_value.setdefault((row["run"], row["partition_id"], row["value"]), []).append(
                    (row["offset"], copy)
                )
                self._at.setdefault((row["run"], row["partition_id"], row["offset"]), []).append((row["value"], copy))

    def of(self, row: FoldedRow) -> tuple[frozenset[int], frozenset[int], frozenset[Copy], frozenset[Copy]]:
        """For a folded row: nodes that ever had its value, nodes at the end, its copies here, others' copies here."""
        every = self._of_value.get((row["run"], row["partition_id"], row["value"]), ())
        here = every if row["offset"] is None else [pair for pair in every if pair[0] == row["offset"]]
        beside = () if row["offset"] is None else self._at.get((row["run"], row["partition_id"], row["offset"]), ())
        return (
            frozenset(copy.node for _, copy in every),
            frozenset(copy.node for _, copy in every if (row["run"], copy.snapshot) in self._ended),
            frozenset(copy for _, copy in here),
            frozenset(copy for value, copy in beside if value != row["value"]),
        )


def _holdings(spark: SparkSession, tables: Tables, rows: Sequence[FoldedRow]) -> Holdings:
    suspects = [row for row in rows if row["flags"] & ~BITS["backward"]]
    if not suspects or not tables.every(REPLICA_SNAPSHOTS):
        return Holdings()
    ended = {(row["run"], row["snapshot"]) for row in tables.every(REPLICA_SNAPSHOTS) if row["reason"] == "end"}
    logs = [
        tables.replica_log.join(
            sf.broadcast(_wanted(spark, suspects, column)), ["run", "partition_id", column], "left_semi"
        )
        for column in ("value", "offset")
    ]
    found = (
        logs[0]
        .unionByName(logs[1])
        .groupBy("run", "partition_id", "offset", "value")
        .agg(sf.collect_set(sf.struct("node", "snapshot", "leader_epoch")).alias("copies"))
    )
    return Holdings(typed(HeldRow, found.toArrow()), ended=ended)


def _wanted(spark: SparkSession, rows: Sequence[FoldedRow], column: Literal["value", "offset"]) -> DataFrame:
    keys = sorted({(row["run"], row["partition_id"], number) for row in rows if (number := row[column]) is not None})
    return small_frame(
        spark,
        {"run": pa.int32(), "partition_id": pa.int32(), column: pa.int64()},
        [{"run": run, "partition_id": partition_id, column: number} for run, partition_id, number in keys],
    )


class _EpochReadRow(TypedDict):
    run: int
    partition_id: int
    leader_epoch: int
    final: bool
    first: int
    last: int


def _epoch_reads(spark: SparkSession, tables: Tables, flagged: Sequence[Flagged]) -> dict[Partition, list[EpochRead]]:
    """What readers saw of each epoch, for the partitions that need a ruling."""
    places = sorted({(row.run, row.partition_id) for row in flagged if row.flags - {"phantom", "aborted", "early"}})
    if not places:
        return {}
    wanted = small_frame(
        spark,
        {"run": pa.int32(), "partition_id": pa.int32()},
        [{"run": run, "partition_id": number} for run, number in places],
    )
    found = (
        tables.records.where("kind > 0 and replica is null and leader_epoch is not null")
        .join(sf.broadcast(wanted), ["run", "partition_id"], "left_semi")
        .groupBy("run", "partition_id", "leader_epoch", sf.expr("kind = 2").alias("final"))
        .agg(sf.min("offset").alias("first"), sf.max("offset").alias("last"))
    )
    reads: dict[Partition, list[EpochRead]] = {}
    for row in sorted(typed(_EpochReadRow, found.toArrow()), key=lambda row: (row["leader_epoch"], row["final"])):
        reads.setdefault((row["run"], row["partition_id"]), []).append(
            EpochRead(row["leader_epoch"], row["final"], row["first"], row["last"])
        )
    return reads


def _line(row: FoldedRow) -> AccountLine:
    """Values by their sender's outcome and by whether the final log has them."""
    return {
        "run": row["run"],
        "partition_id": row["partition_id"],
        "status": row["v_status"],
        "acks": row["v_acks"],
        "in_final": bool(row["v_seen"] & SEEN_FINAL),
        "count": row["a_count"],
        "duplicates": row["a_duplicates"],
        "read": row["a_read"],
    }


def _flagged(row: FoldedRow, ends: Mapping[Partition, int], places: _Places, held: Holdings, sent: Sends) -> Flagged:
    flags = _settled(row, ends, places)
    if value_of(row) in sent.overtook_none:
        flags -= {"send_order"}
    if "back_inside" in flags:
        step = row["step_lo"]
    elif "back_between" in flags:
        step = row["jump_lo"]
    elif "skip_inside" in flags:
        step = row["step_hi"]
    else:
        step = row["jump_hi"] if "skip_between" in flags else None
    above = row["acked_all_above"]
    ever, at_end, copies, others = held.of(row)
    return Flagged(
        run=row["run"],
        partition_id=row["partition_id"],
        value=row["value"],
        offset=row["offset"],
        status=row["v_status"],
        acks=row["own_acks"],
        acknowledged=row["v_ack"],
        process=row["own_process"],
        operation=row["own_op"],
        invoked_ns=row["own_t0"],
        completed_ns=row["own_t1"],
        seen=row["seen"],
        seen_any=row["v_seen"],
        final_offsets=row["v_finals"],
        read_epoch=row["r_epoch"],
        read_first=row["r_first"],
        read_last=row["r_last"],
        step=step,
        flags=flags,
        held=ever,
        held_at_end=at_end,
        copies=copies,
        others=others,
        below_acks_all=above is not None and above < (row["own_t0"] or 0),
        above_kept=row["above_kept"],
        overtook_kept=row["overtook_kept"],
        overtook_in_order=row["overtook_in_order"],
        overtook_gone=row["overtook_gone"],
        in_order=value_of(row) in sent.in_order,
        tries=sent.tries.get(value_of(row), 1),
        answered=row["answered"],
    )
