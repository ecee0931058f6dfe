"""Cycles of dependencies between operations (cycles/), as findings: a cycle that Kafka rules out is a violation.

A value that was read before it was sent is reported once, as a phantom; an offset below an earlier acknowledged one, or
against a producer's own order, also once; the cycle they form is not reported again. A cycle that Kafka does not rule
out is permitted, and so is one in a partition where a permitted loss moved the log; where nobody knows whether one did,
it is an open question, as that loss is. A part that was not searched makes the run inconclusive (judge.py).
"""

from collections.abc import Sequence
from typing import Any, TypedDict

from harness.checks.contract.rulings import Cause, Class
from harness.checks.cycles.model import REALTIME, RW, WR, WW, Step
from harness.checks.cycles.names import Names
from harness.checks.cycles.native import CycleRow, find_cycles
from harness.checks.family import Family
from harness.checks.findings import Finding, RunContext
from harness.checks.judged_runs import JudgedRuns
from harness.checks.spark.detection import Flagged
from harness.checks.wording.causes import cause_words
from harness.history.schema.typed_rows import RowsOf

CHECK = "cycle"
_TOLD_AS = {"read-before-send": ("early",), "order-against-time": ("regression", "send_order")}
_STEPS_MAX = 20
_RELATIONS = {WW: "write-write", WR: "write-read", RW: "read-write", REALTIME: "real time"}
# The families that tell of a log whose end moved back.
_MOVES = (
    "lost-write",
    "dirty-read",
    "duplicate",
    "inconsistent-offsets",
    "unclean-election",
    "acknowledged-regression",
)


class CycleAnswer(TypedDict):
    """A kind of cycle that was found, or why some were not searched."""

    run: int
    cycle: CycleRow | None
    not_searched: str | None


ANSWER = RowsOf(CHECK, CycleAnswer)


def query(runs: JudgedRuns) -> list[CycleAnswer]:
    wanted = sorted(runs.detection.entangled)
    if not wanted:
        return []  # every operation is later than all it depends on: there can be no cycle
    search = find_cycles(
        runs.spark,
        runs.tables.with_records_of(wanted),
        known_operations={run: _known_operations(runs.detection.flagged[run]) for run in wanted},
    )
    found: list[CycleAnswer] = [
        {"run": run, "cycle": row, "not_searched": None} for run, rows in search.rows.items() for row in rows
    ]
    # Partitions not read to their end are a separate reason, unless the scenario expects them.
    not_searched: list[CycleAnswer] = [
        {"run": run, "cycle": None, "not_searched": left_out.reason}
        for run, every in search.not_searched.items()
        for left_out in every
        if not left_out.is_unread
    ]
    return [*found, *not_searched]


def not_searched(context: RunContext) -> list[str]:
    return [reason for row in context.rows[ANSWER] if (reason := row["not_searched"]) is not None]


def find(context: RunContext) -> list[Finding]:
    cycles = [cycle for row in context.rows[ANSWER] if (cycle := row["cycle"]) is not None]
    return [_finding(context, cycle) for cycle in cycles]


def _known_operations(flagged: Sequence[Flagged]) -> dict[str, frozenset[int]]:
    """Kind of cycle -> values that a family of single records already reports."""
    return {
        kind: frozenset(row.value for row in flagged if row.flags.intersection(flags))
        for kind, flags in _TOLD_AS.items()
    }


def _finding(context: RunContext, cycle: CycleRow) -> Finding:
    classification, cause = _ruled(context, cycle)
    return Finding(
        run=context.run,
        check=CHECK,
        classification=classification,
        kind=cycle.kind,
        topic=cycle.topic,
        partition=cycle.partition,
        count=cycle.count,
        sentence=_closed(cycle.sentence, cause),
        cause=cause,
        values=cycle.values,
        operations=cycle.operations,
        first_ns=cycle.first_ns,
        last_ns=cycle.last_ns,
        evidence={
            "cycle": cycle.cycle_kind,
            "transactions": list(cycle.transactions),
            "steps": [_step(cycle.names, step) for step in cycle.cycle.steps[:_STEPS_MAX]],
            "steps_left_out": max(0, len(cycle.cycle.steps) - _STEPS_MAX) or None,
        },
    )


def _step(names: Names, step: Step) -> dict[str, Any]:
    """A step as pages and terminals print it: reports replace a value's number by its text."""
    return {
        "relation": _RELATIONS[step.relation],
        "source": names.operation(step.source),
        "target": names.operation(step.target),
        "partition": names.partition(step.partition_id),
        "value": step.value,
        "next_value": step.next_value,
    }


def _ruled(context: RunContext, cycle: CycleRow) -> tuple[Class, Cause]:
    if not cycle.promised:
        return "permitted", Cause(code=cycle.reason)
    moved: Sequence[Finding] = [
        finding
        for name in _MOVES
        for finding in context.found.get(name, ())
        if cycle.partition is None or (finding.topic, finding.partition) == (cycle.topic, cycle.partition)
    ]
    for finding in moved:
        if finding.classification == "permitted":
            return "permitted", Cause(code="moved-by-a-permitted-loss", check=finding.check)
    for finding in moved:
        if finding.is_open:
            return "observation", Cause(code="moved-by-a-loss-in-doubt", check=finding.check)
    return "violation", Cause(code=cycle.reason)


def _closed(sentence: str, cause: Cause) -> str:
    return f"{sentence.rstrip('.')} ({cause_words(cause)})."


FAMILY = Family(name=CHECK, find=find, query=query, follows_detection=True)
