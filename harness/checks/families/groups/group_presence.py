"""Until when members of a group certainly were in it, by what they read: offsets of a group in use do not expire.

A member reads on under one assignment only while it is in its group. A client may not have heard yet that it was
removed, where a fault keeps it from its coordinator: what it read around a fault says nothing (group_forgetting.py).
Asked only of runs that last as long as offsets are kept, or in which a group was told a lower generation than before.
"""

from typing import TypedDict

from pyspark.sql import functions as sf

from harness.checks.family import Family
from harness.checks.judged_runs import JudgedRuns
from harness.history.schema.client_rows import GROUP_EVENTS
from harness.history.schema.column_types import END_OF_TIME_NS
from harness.history.schema.schemas import KIND_POLL, STATUS_OK
from harness.history.schema.typed_rows import RowsOf, typed

NAME = "group-presence"
RETENTION = "offsets.retention.minutes"
MINUTE_NS = 60 * 10**9


class _JoinedRow(TypedDict):
    run: int
    process: int
    group: str
    joined_ns: int


class PresenceRow(_JoinedRow):
    """Of one assignment of a member that had joined before it: its first and its last read."""

    partition_id: int
    assignment: int
    first_ns: int
    last_ns: int


ANSWER = RowsOf(NAME, PresenceRow)


def query(runs: JudgedRuns) -> list[PresenceRow]:
    joined = _joined(runs)
    if not joined:
        return []
    columns = ("run", "process", "group", "joined_ns")
    reads = (
        runs.tables.records.where(f"kind = {KIND_POLL} and status = {STATUS_OK}")
        .join(sf.broadcast(runs.frame(columns, joined)), ["run", "process"])
        .groupBy("run", "process", "group", "joined_ns", "partition_id", "assignment")
        .agg(sf.min("completed_ns").alias("first_ns"), sf.max("completed_ns").alias("last_ns"))
        .where("joined_ns <= first_ns and first_ns < last_ns")
    )
    return typed(PresenceRow, reads.toArrow())


def _joined(runs: JudgedRuns) -> list[_JoinedRow]:
    """When clients first were told an assignment in a generation; others may read without being members."""
    long = {history.run for history in runs.histories if _is_long(runs, history.run)} | _went_back(runs)
    found: dict[tuple[int, int, str], int] = {}
    for event in runs.rows(GROUP_EVENTS):
        is_assigned = event["event"] == "assigned" and event["status"] == STATUS_OK and (event["generation"] or -1) >= 0
        if is_assigned and event["run"] in long and event["group"]:
            key = event["run"], event["process"], event["group"]
            found[key] = min(event["completed_ns"], found.get(key, event["completed_ns"]))
    return [
        {"run": run, "process": process, "group": group, "joined_ns": joined_ns}
        for (run, process, group), joined_ns in sorted(found.items())
    ]


def _is_long(runs: JudgedRuns, run: int) -> bool:
    history, activity = runs.histories[run], runs.tables.activity.get(run)
    last_ns = None if activity is None else activity["last_ns"]
    least = min(history.settings.numbers(RETENTION, None, 0, END_OF_TIME_NS))
    return last_ns is not None and last_ns - history.origin >= least * MINUTE_NS


def _went_back(runs: JudgedRuns) -> set[int]:
    """The runs in which a member was told a lower generation than another before it."""
    reached: dict[tuple[int, str | None], int] = {}
    found: set[int] = set()
    for event in sorted(runs.rows(GROUP_EVENTS), key=lambda event: event["completed_ns"]):
        generation = event["generation"]
        if event["event"] == "assigned" and generation is not None and generation > 0:
            key = event["run"], event["group"]
            if generation < reached.setdefault(key, generation):
                found.add(event["run"])
            reached[key] = max(reached[key], generation)
    return found


FAMILY = Family(name=NAME, query=query)
