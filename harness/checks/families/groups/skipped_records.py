"""Skipped: records of the final log that a group's committed offset passed over, and that no member ever read.

The commit that first passed over a record did it: what anybody set later excuses nothing before it. Members that seek
beyond what they had read themselves commit as they like, and are not judged, nor are groups that do not start at the
earliest record, and runs in which no read of any group's member was recorded.
"""

from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from harness.checks.contract.rulings import Cause, Class
from harness.checks.families.groups.delivery_rows import NO_TIMES, DeliveryRow, SkippedRow, SpanRow, StartRow
from harness.checks.families.groups.group_register import Commit, Key, Register, resets
from harness.checks.families.groups.unrecorded_clients import set_ahead
from harness.checks.families.transactions.isolation import with_outcome
from harness.checks.findings import RunContext
from harness.checks.judged_runs import JudgedRuns
from harness.history.schema.typed_rows import typed

_PLACE = ("run", "partition_id", "group")
_TOP = (*_PLACE, "top")
_SPAN = (*_PLACE, "process", "low", "high", "time_ns")
_NEVER_READ = Cause(code="committed-and-never-read")


def skipped(
    runs: JudgedRuns, polls: DataFrame, known: Mapping[Key, Register], starts: Sequence[StartRow]
) -> list[DeliveryRow]:
    """Committed records of the final log that no member read, by the certain commit that first passed over them."""
    begin_at, sought = resets(runs), _sought_ahead(runs, starts)
    recorded = {row["run"] for row in starts}
    spans = [
        span
        for key, register in known.items()
        if key not in sought and key[0] in recorded and begin_at.get(key[:2]) == "earliest"
        for span in _spans(key, register.commits)
    ]
    if not spans:
        return []
    # Few records are left to be placed in spans, of which there are many.
    tops = {(span["run"], span["partition_id"], span["group"]): span["high"] for span in spans}  # the last, and highest
    rows = [dict(zip(_TOP, (*place, top), strict=True)) for place, top in tops.items()]
    final = with_outcome(runs, runs.tables.records.where("kind = 2 and replica is null")).where("outcome = 0")
    passed = (
        final.select("run", "partition_id", "offset", "value")
        .join(sf.broadcast(runs.frame(_TOP, rows)), ["run", "partition_id"])
        .where("offset < top")
    )
    read = polls.select(*_PLACE, "offset").distinct()
    found = (
        passed.join(read, [*_PLACE, "offset"], "left_anti")
        .join(sf.broadcast(runs.frame(_SPAN, spans)), [*_PLACE])
        .where("offset >= low and offset < high")
        .groupBy(*_PLACE, "high", "time_ns", "process")
        .agg(
            sf.countDistinct("offset").alias("count"),
            sf.min("offset").alias("low"),
            sf.max("offset").alias("last"),
            sf.slice(sf.collect_set("value"), 1, 200).alias("values"),
        )
    )
    return [_row(row) for row in typed(SkippedRow, found.toArrow())]


def skipped_ruled(context: RunContext, rows: Iterable[DeliveryRow]) -> list[tuple[DeliveryRow, Class, Cause]]:
    """Those of one group and partition that are ruled the same, as one."""
    merged: dict[tuple[int, str, Class, Cause], DeliveryRow] = {}
    for row in sorted(rows, key=lambda row: row["high"]):
        partition = context.partition(row["partition_id"])
        ahead = set_ahead(context, row["group"], partition, row["last"], by_ns=row["first_ns"])
        ruled: tuple[Class, Cause] = ("violation", _NEVER_READ) if ahead is None else ("permitted", ahead)
        key = (row["partition_id"], row["group"], *ruled)
        merged[key] = _joined(merged.get(key), row)
    return [(row, classification, cause) for (_, _, classification, cause), row in merged.items()]


def _joined(row: DeliveryRow | None, higher: DeliveryRow) -> DeliveryRow:
    if row is None:
        return higher
    return {
        **higher,
        "count": row["count"] + higher["count"],
        "low": row["low"],
        "first_ns": min(row["first_ns"], higher["first_ns"]),
        "last_ns": max(row["last_ns"], higher["last_ns"]),
        "values": [*row["values"], *higher["values"]][:200],
    }


def _sought_ahead(runs: JudgedRuns, starts: Sequence[StartRow]) -> set[Key]:
    """The places where a member sought beyond what it had read itself."""
    ahead: set[Key] = set()
    read: dict[tuple[int, int, int], list[StartRow]] = {}
    for row in starts:
        read.setdefault((row["run"], row["process"], row["partition_id"]), []).append(row)
    for event in runs.group_events():
        if event["event"] == "seek":
            own = read.get((event["run"], event["process"], event["partition_id"]), ())
            before = [row["high"] for row in own if row["time_ns"] <= event["completed_ns"]]
            if (event["offset"] or 0) > max(before, default=-1) + 1:
                ahead.add((event["run"], event["group"], event["partition_id"]))
    return ahead


def _spans(key: Key, commits: Iterable[Commit]) -> list[SpanRow]:
    """What each certain commit passed over first: from the highest offset before it up to its own."""
    spans: list[SpanRow] = []
    top = 0
    for commit in sorted(commits, key=lambda commit: commit.completed_ns):
        if commit.certain and commit.offset > top:
            span: SpanRow = {
                "run": key[0],
                "partition_id": key[2],
                "group": key[1],
                "process": commit.process,
                "assignment": None,
                "low": top,
                "high": commit.offset,
                "time_ns": commit.completed_ns,
            }
            spans.append(span)
            top = commit.offset
    return spans


def _row(row: SkippedRow) -> DeliveryRow:
    return {
        "run": row["run"],
        "partition_id": row["partition_id"],
        "group": row["group"],
        "kind": "skipped",
        "count": row["count"],
        "low": row["low"],
        "last": row["last"],
        "high": row["high"],
        "process": row["process"],
        "assignment": None,
        "first_ns": row["time_ns"],
        "last_ns": row["time_ns"],
        "why": "",
        "committed": None,
        **NO_TIMES,
        "operations": [],
        "values": row["values"],
    }
