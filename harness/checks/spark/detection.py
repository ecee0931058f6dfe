"""One query over the records that finds every suspicious row.

The rows are folded to one per (partition, value, offset): what its sender and its readers recorded of that value at
that offset. Windows by value, by offset and by sending process then set the flags that the families ask for; the driver
adds `lost` (acknowledged, and not in the final log although that was read past it) and `unseen` (the final log was not
read that far). Only flagged rows leave Spark, and one row for each line of the accounting, so the cost of everything
after this (causes, classes, sentences) depends on the number of problems, not of operations. It is one query, because
the first run of any query costs more than a million records.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypedDict

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from harness.checks.spark.fused_query import BACKWARD, GONE, Flags, FoldedRow, flagged_rows
from harness.checks.spark.passing_by import grouped, log_rows_at, records_at
from harness.checks.spark.sends import Sends, place_of, sends_of, value_of
from harness.checks.spark.tables import Tables, small_frame, small_table
from harness.history.schema.cluster_rows import PARTITIONS, REPLICA_SNAPSHOTS, TOPICS
from harness.history.schema.schemas import KIND_FINAL_POLL, STATUS_OK
from harness.history.schema.typed_rows import typed

_PLACE = ("run", "partition_id")
_BY: tuple[Literal["value", "offset"], ...] = ("value", "offset")
# Beyond this many flagged rows the rest is counted but not classed one by one.
FLAGGED_MAX = 1_000_000
ALL_OFFSETS = 2**63 - 1
SEEN_POLL, SEEN_FINAL, SEEN_REPLICA = 1, 2, 4  # the bits of `seen`; the queries below spell them out


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
    is_uncommitted: bool = False  # answered: in a transaction that did not certainly commit

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


_OF_THE_DRIVER = {GONE.name, BACKWARD.name}
Partition = tuple[int, int]


def detect(spark: SparkSession, tables: Tables, flags: Flags) -> Detection:
    first = flagged_rows(tables.every_record, tables.jumps, flags, at_most=FLAGGED_MAX)
    rows = typed(FoldedRow, first.toArrow())
    complete = len(rows) < FLAGGED_MAX
    suspicious = None if complete else flagged_rows(tables.every_record, tables.jumps, flags)
    accounts = rows if suspicious is None else typed(FoldedRow, suspicious.where("accounts").toArrow())
    lines = [row for row in accounts if row["accounts"]]
    ends, places = _ends(tables, lines), _Places.of(tables, flags)
    held = _holdings(tables, rows, flags)
    sent = sends_of(spark, tables, rows, lines, flags)
    flagged = [each for row in rows if (each := _flagged(row, _settled(row, ends, places, flags), held, sent)).flags]
    by_run: dict[int, list[Flagged]] = {run: [] for run in range(tables.runs)}
    for each in flagged:
        by_run[each.run].append(each)
    for listed in by_run.values():
        listed.sort(key=lambda row: (row.partition_id, -1 if row.offset is None else row.offset, row.value))
    counts = _counts(flagged) if suspicious is None else _counts_of_all(spark, suspicious, ends, places, flags)
    entangled = {row["run"] for row in rows if BACKWARD.name in flags.names(row["flags"])}
    entangled |= {run for run, marks in tables.activity.items() if marks["transactional"]}
    if not complete:
        entangled = set(by_run)
    return Detection(
        flagged=by_run,
        counts=counts,
        accounting=[_line(row) for row in lines],
        sent_again=sent.again,
        entangled=frozenset(entangled),
        restamped=frozenset(row["run"] for row in lines if row["line_restamped"]),
        stepped=frozenset((row["run"], row["partition_id"]) for row in lines if (row["line_step"] or 0) > 1),
        reads=_epoch_reads(tables, flagged, flags),
    )


@dataclass(frozen=True, kw_only=True)
class _Places:
    """Partitions that were deleted with their topic, so nothing can be read, and numbers that are not partitions."""

    deleted: frozenset[Partition]
    set_apart: frozenset[Partition]
    need_the_end: frozenset[str]  # flags

    @classmethod
    def of(cls, tables: Tables, flags: Flags) -> "_Places":
        topics = {(row["run"], row["topic"]) for row in tables.every(TOPICS) if row["deleted_ns"] is not None}
        rows = tables.every(PARTITIONS) if topics else ()
        return cls(
            deleted=frozenset(
                (row["run"], row["partition_id"]) for row in rows if (row["run"], row["topic"]) in topics
            ),
            set_apart=tables.set_apart,
            need_the_end=flags.need_the_end,
        )

    def flags(self, place: Partition, flags: set[str]) -> set[str]:
        """The flags that have a meaning there."""
        if place in self.set_apart:
            return {"unseen"} & flags
        if place in self.deleted:  # everything reported is gone from the final log
            return ({"lost"} if {"lost", "unseen"} & flags else set()) | flags - {"unseen"} - self.need_the_end
        return flags


def _ends(tables: Tables, lines: Sequence[FoldedRow]) -> dict[Partition, int]:
    """The offset up to which each partition's final read proves that a record is missing: all offsets if it ended.

    If the end of a final read is not recorded, it proves this up to its last record.
    """
    ends: dict[Partition, int] = {}
    for row in lines:
        if row["line_end"] is not None:
            place = row["run"], row["partition_id"]
            ends[place] = max(ends.get(place, -1), row["line_end"])
    for partition in tables.every(PARTITIONS):
        if partition["read_to_end"]:
            ends[partition["run"], partition["partition_id"]] = ALL_OFFSETS
    return ends


def _past(ends: Mapping[Partition, int], row: FoldedRow) -> bool:
    end = ends.get((row["run"], row["partition_id"]), -1)
    return end == ALL_OFFSETS or (row["offset"] is not None and row["offset"] <= end)


def _settled(row: FoldedRow, ends: Mapping[Partition, int], places: _Places, flags: Flags) -> frozenset[str]:
    """The flags that a row has, as far as the final read went and its partition is there still."""
    names, past = flags.names(row["flags"]), _past(ends, row)
    if GONE.name in names:
        names.add("lost" if past else "unseen")
    kept = names - _OF_THE_DRIVER if past else names - _OF_THE_DRIVER - flags.need_the_end
    return frozenset(places.flags((row["run"], row["partition_id"]), kept))


def _counts(flagged: Sequence[Flagged]) -> dict[tuple[int, int, str], int]:
    return Counter((row.run, row.partition_id, flag) for row in flagged for flag in row.flags)


def _counts_of_all(
    spark: SparkSession, suspicious: DataFrame, ends: Mapping[Partition, int], places: _Places, flags: Flags
) -> dict[tuple[int, int, str], int]:
    """The counts, computed by Spark if there are too many rows to fetch."""
    read_to = [{"run": run, "partition_id": partition_id, "end": end} for (run, partition_id), end in ends.items()]
    frame = small_frame(spark, ("run", "partition_id", "end"), read_to)
    past = f"(coalesce(end = {ALL_OFFSETS}, false) or coalesce(offset <= end, false))"
    set_there = {name: f"flags & {bit} <> 0" for name, bit in flags.bits.items()}
    conditions = {
        "lost": f"{set_there[GONE.name]} and {past}",
        "unseen": f"{set_there[GONE.name]} and not {past}",
        **{
            name: f"{is_set} and {past}" if name in flags.need_the_end else is_set
            for name, is_set in set_there.items()
            if name not in _OF_THE_DRIVER
        },
    }
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


class HeldRow(TypedDict):
    """A copy of a value at an offset."""

    run: int
    partition_id: int
    offset: int
    value: int
    node: int
    snapshot: int
    leader_epoch: int | None


class Holdings:
    """The replicas that ever had the flagged records: by value at any offset, and by offset with each copy's epoch."""

    def __init__(self, copies: Iterable[HeldRow] = (), *, ended: Collection[tuple[int, int]] = ()) -> None:
        self._ended = ended
        self._of_value: dict[tuple[int, int, int], set[tuple[int, Copy]]] = {}
        self._at: dict[tuple[int, int, int], set[tuple[int, Copy]]] = {}
        for row in copies:
            copy = Copy(row["node"], row["snapshot"], row["leader_epoch"])
            self._of_value.setdefault((row["run"], row["partition_id"], row["value"]), set()).add((row["offset"], copy))
            self._at.setdefault((row["run"], row["partition_id"], row["offset"]), set()).add((row["value"], copy))

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


def _holdings(tables: Tables, rows: Sequence[FoldedRow], flags: Flags) -> Holdings:
    suspects = [row for row in rows if row["flags"] & ~flags.bits[BACKWARD.name]]
    if not suspects or not tables.every(REPLICA_SNAPSHOTS):
        return Holdings()
    ended = {(row["run"], row["snapshot"]) for row in tables.every(REPLICA_SNAPSHOTS) if row["reason"] == "end"}
    copies = (
        row
        for column in _BY
        for found in log_rows_at(tables, _wanted(suspects, column), list(HeldRow.__annotations__))
        for row in typed(HeldRow, found)
    )
    return Holdings(copies, ended=ended)


def _wanted(rows: Sequence[FoldedRow], column: Literal["value", "offset"]) -> pa.Table:
    keys = sorted({(row["run"], row["partition_id"], number) for row in rows if (number := row[column]) is not None})
    return small_table(
        ("run", "partition_id", column),
        [{"run": run, "partition_id": partition_id, column: number} for run, partition_id, number in keys],
    )


class _EpochReadRow(TypedDict):
    run: int
    partition_id: int
    leader_epoch: int
    final: bool
    first: int
    last: int


def _epoch_reads(tables: Tables, flagged: Sequence[Flagged], flags: Flags) -> dict[Partition, list[EpochRead]]:
    """What readers saw of each epoch, for the partitions that need a ruling."""
    places = sorted(
        {(row.run, row.partition_id) for row in flagged if row.flags & (flags.need_a_ruling | {"lost", "unseen"})}
    )
    if not places:
        return {}
    wanted = small_table(_PLACE, [dict(zip(_PLACE, place, strict=True)) for place in places])
    read = (pc.field("kind") > 0) & pc.field("replica").is_null() & pc.field("leader_epoch").is_valid()
    found = grouped(
        (
            rows.append_column("final", pc.equal(rows.column("kind"), KIND_FINAL_POLL))
            for rows in records_at(tables, wanted, [*_PLACE, "kind", "leader_epoch", "offset"], read)
        ),
        (*_PLACE, "leader_epoch", "final"),
        {"first": ("offset", "min"), "last": ("offset", "max")},
    )
    reads: dict[Partition, list[EpochRead]] = {}
    for row in sorted(
        () if found is None else typed(_EpochReadRow, found), key=lambda row: (row["leader_epoch"], row["final"])
    ):
        reads.setdefault((row["run"], row["partition_id"]), []).append(
            EpochRead(row["leader_epoch"], row["final"], row["first"], row["last"])
        )
    return reads


def _line(row: FoldedRow) -> AccountLine:
    """Values by their sender's outcome and by whether the final log has them."""
    return {
        "run": row["run"],
        "partition_id": row["partition_id"],
        "status": row["value_status"],
        "acks": row["value_acks"],
        "in_final": bool(row["value_seen"] & SEEN_FINAL),
        "count": row["line_count"],
        "duplicates": row["line_duplicates"],
        "read": row["line_read"],
    }


def _flagged(row: FoldedRow, flags: frozenset[str], held: Holdings, sent: Sends) -> Flagged:
    if value_of(row) in sent.overtook_none:
        flags -= {"send_order"}
    if "back_inside" in flags:
        step = row["least_step"]
    elif "back_between" in flags:
        step = row["least_jump"]
    elif "skip_inside" in flags:
        step = row["greatest_step"]
    else:
        step = row["greatest_jump"] if "skip_between" in flags else None
    above = row["acked_all_above_ns"]
    tries, uncommitted = sent.tries.get(value_of(row), (1, None))
    ever, at_end, copies, others = held.of(row)
    return Flagged(
        run=row["run"],
        partition_id=row["partition_id"],
        value=row["value"],
        offset=row["offset"],
        status=row["value_status"],
        acks=row["own_acks"],
        acknowledged=row["value_acknowledged_at"],
        process=row["own_process"],
        operation=row["own_operation"],
        invoked_ns=row["own_invoked_ns"],
        completed_ns=row["own_completed_ns"],
        seen=row["seen"],
        seen_any=row["value_seen"],
        final_offsets=row["value_final_offsets"],
        read_epoch=row["read_epoch"],
        read_first=row["first_read_ns"],
        read_last=row["last_read_ns"],
        step=step,
        flags=flags,
        held=ever,
        held_at_end=at_end,
        copies=copies,
        others=others,
        below_acks_all=above is not None and above < (row["own_invoked_ns"] or 0),
        above_kept=row["above_kept"],
        overtook_kept=row["overtook_kept"],
        overtook_in_order=row["overtook_in_order"],
        overtook_gone=row["overtook_gone"],
        in_order=place_of(row) in sent.in_order,
        tries=tries,
        answered=row["answered"],
        is_uncommitted=row["answered"]
        and (row["value_status"] != STATUS_OK if uncommitted is None else row["offset"] in uncommitted),
    )
