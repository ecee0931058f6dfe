"""Cycles in runs of ours, one row per kind, with what Kafka promises about it and the shortest one in words."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

from pyspark.sql import SparkSession

from harness.checks.contract.rulings import CycleCode
from harness.checks.cycles.model import WW, Component, Cycle, Kind, Limits, Mode, NotSearched, Search
from harness.checks.cycles.names import Names, names_of
from harness.checks.cycles.native_graph import NativeGraph, operation_of
from harness.checks.cycles.search import search_graph
from harness.checks.cycles.words import in_words
from harness.checks.spark.tables import Tables
from harness.history.schema.client_rows import PROCESSES
from harness.history.schema.cluster_rows import PARTITIONS, TOPICS

_SHOWN = 20

READ_BEFORE_SEND = "read-before-send"
ORDER_AGAINST_TIME = "order-against-time"
CIRCULAR_READING = "circular-reading"
_KINDS = {
    Kind.G1C_WR + Kind.REALTIME_SUFFIX: READ_BEFORE_SEND,
    Kind.G0 + Kind.REALTIME_SUFFIX: ORDER_AGAINST_TIME,
    Kind.G1C_WR: CIRCULAR_READING,
    Kind.G1C + Kind.REALTIME_SUFFIX: "G1c-ww-realtime",
    Kind.G1C: "G1c-ww",
}
_UNTIMED = {base + Kind.REALTIME_SUFFIX: base for base in (Kind.G0, Kind.G1C_WR, Kind.G1C)}


@dataclass(frozen=True, kw_only=True)
class CycleRow:
    """A kind of cycle found in a run. `count`: components that hold one; the rest describes the shortest of them.

    `promised`: Kafka promises that no such cycle is; `reason` says why, or why it is allowed.
    """

    run: int
    kind: str
    cycle_kind: str  # Elle's name for it
    promised: bool
    reason: CycleCode
    count: int
    cycle: Cycle
    names: Names
    sentence: str
    topic: str | None
    partition: int | None
    operations: Sequence[int]  # ops.op
    transactions: Sequence[int]
    values: Sequence[int]
    first_ns: int
    last_ns: int


@dataclass(frozen=True, kw_only=True)
class NativeSearch:
    rows: Mapping[int, Sequence[CycleRow]] = field(default_factory=dict)
    not_searched: Mapping[int, Sequence[NotSearched]] = field(default_factory=dict)


# By run and kind: the values that something else reports.
KnownOperations: TypeAlias = Mapping[int, Mapping[str, frozenset[int]]]


def find_cycles(
    spark: SparkSession,
    tables: Tables,
    *,
    known_operations: KnownOperations | None = None,
    limits: Limits | None = None,
) -> NativeSearch:
    """See the package."""
    found = search_graph(NativeGraph(spark, tables), Mode.FULL, limits or Limits())
    known = known_operations or {}
    best = {
        run: kinds for run, components in found.components.items() if (kinds := _best(components, known.get(run, {})))
    }
    names = names_of(tables, {run: [chosen.cycle for chosen, _ in kinds.values()] for run, kinds in best.items()})
    rows = {
        run: [_row(run, chosen, count, tables, names[run]) for chosen, count in kinds.values()]
        for run, kinds in best.items()
    }
    return NativeSearch(rows=rows, not_searched=_left_out(tables, found))


@dataclass(frozen=True, kw_only=True)
class _Chosen:
    cycle: Cycle
    component: Component


_Best: TypeAlias = Mapping[str, tuple[_Chosen, int]]


def _best(components: Sequence[Component], known: Mapping[str, frozenset[int]]) -> _Best:
    """Per kind the shortest cycle (the earliest of them) and how many components hold one that is not reported yet."""
    found: dict[str, tuple[_Chosen, int]] = {}
    for component in components:
        for cycle in component.cycles:
            if known.get(_KINDS.get(cycle.kind, cycle.kind), frozenset()).intersection(_values(cycle)):
                continue
            kept, count = found.get(cycle.kind, (None, 0))
            if kept is None or len(cycle.steps) < len(kept.cycle.steps):
                kept = _Chosen(cycle=cycle, component=component)
            found[cycle.kind] = (kept, count + 1)
    return found


def _values(cycle: Cycle) -> list[int]:
    return [value for step in cycle.steps for value in (step.value, step.next_value) if value is not None]


def _operations(cycle: Cycle) -> list[int]:
    return sorted({operation for name in cycle.operations if (operation := operation_of(name)) is not None})


def _row(run: int, chosen: _Chosen, count: int, tables: Tables, names: Names) -> CycleRow:
    cycle, times = chosen.cycle, chosen.component.times
    touched = {step.partition_id for step in cycle.steps if step.partition_id is not None}
    topic, part = names.partitions.get(min(touched), (None, None)) if len(touched) == 1 else (None, None)
    in_transactions = any(name < 0 for name in cycle.operations)
    promised, reason = _promise(
        cycle.kind, _all_read_committed(run, tables), in_transactions=in_transactions, interleaved=_interleaves(cycle)
    )
    known = [moment for begin, end in times.values() for moment in (begin, end) if moment is not None]
    return CycleRow(
        run=run,
        kind=_KINDS.get(cycle.kind, cycle.kind),
        cycle_kind=cycle.kind,
        promised=promised,
        reason=reason,
        count=count,
        cycle=cycle,
        names=names,
        topic=topic,
        partition=part,
        values=list(dict.fromkeys(_values(cycle)))[:_SHOWN],
        sentence=in_words(cycle, operation_name=names.operation, record_name=names.record),
        operations=_operations(cycle)[:_SHOWN],
        first_ns=min(known),
        last_ns=max(known),
        transactions=sorted({-name - 1 for name in cycle.operations if name < 0})[:_SHOWN],
    )


def _interleaves(cycle: Cycle) -> bool:
    """Whether it goes through a transaction from one of its writes to another: these are appended one by one, so that
    others, and their answers, come between them (KIP-98 isolates no writes)."""
    return any(
        into.target < 0
        and into.relation == out_of.relation == WW
        and (into.partition_id, into.next_value) != (out_of.partition_id, out_of.value)
        for into, out_of in pairwise([*cycle.steps, cycle.steps[0]])
    )


def _promise(
    kind: str, read_committed: bool, *, in_transactions: bool = False, interleaved: bool = False
) -> tuple[bool, CycleCode]:
    timed, base = kind in _UNTIMED, _UNTIMED.get(kind, kind)
    if timed and base in (Kind.G1C_WR, Kind.G1C) and in_transactions and not read_committed:
        return False, "reads-of-open-transactions"
    if timed and base == Kind.G1C_WR:
        return True, "read-before-sent"
    if timed and base == Kind.G0 and interleaved:
        return False, "writes-interleave"
    if timed and base == Kind.G0:
        return True, "order-of-acknowledged"
    if timed and base == Kind.G1C:
        return True, "order-of-read"
    if base == Kind.G1C_WR:
        if read_committed:
            return True, "committed-readers-waited"
        return False, "reads-of-uncommitted"
    return False, "writes-interleave"


def _all_read_committed(run: int, tables: Tables) -> bool:
    """Whether each consumer of the run said so; one that is not known could have read anything."""
    rows = tables.rows(PROCESSES, run)
    readers = [row["isolation"] for row in rows if row["role"] in ("consumer", "both")]
    return bool(readers) and all(isolation == "read_committed" for isolation in readers)


def _left_out(tables: Tables, found: Search) -> dict[int, list[NotSearched]]:
    every: dict[int, list[NotSearched]] = defaultdict(list)
    for run, left_out in found.not_searched.items():
        every[run] += left_out
    for run in range(tables.runs):
        gone = {row["topic"] for row in tables.rows(TOPICS, run) if row["deleted_ns"] is not None or row["undecided"]}
        unread = [
            f"{row['topic']}-{row['partition']}"
            for row in tables.rows(PARTITIONS, run)
            if row["read_to_end"] is False and row["topic"] not in gone
        ]
        if unread:
            reason = (
                f"the order of writes behind what the final read saw of {', '.join(sorted(unread)[:_SHOWN])} is not "
                "known, so no cycle through it was looked for"
            )
            every[run].append(NotSearched(run=run, reason=reason, is_unread=True))
    return dict(every)
