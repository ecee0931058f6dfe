"""Which missing records a poll had passed over: it returned records before and behind one, and not this one.

So the record was gone by then: what happened later did not remove it. Only polls count that began after the record had
been acknowledged, or read, and of consumers that do not start anew at the end of the log.
"""

from typing import TypedDict

from pyspark.sql import functions as sf

from harness.checks.judged_runs import JudgedRuns
from harness.history.schema.typed_rows import RowsOf, typed

NAME = "passed-over"
# The longest jump of a poll whose offsets are looked at one by one.
_JUMP_MAX = 1_000
_MISSING = ("run", "partition_id", "value", "offset", "since_ns")


class PassedRow(TypedDict):
    """passed_ns: when the first such poll ended."""

    run: int
    partition_id: int
    value: int
    offset: int
    passed_ns: int


ANSWER = RowsOf(NAME, PassedRow)


def query(runs: JudgedRuns) -> list[PassedRow]:
    stepped = runs.detection.stepped
    missing = [
        {"run": row.run, "partition_id": row.partition_id, "value": row.value, "offset": row.offset, "since_ns": since}
        for rows in runs.detection.flagged.values()
        for row in rows
        if row.flags & {"lost", "unseen", "dirty"}
        and row.offset is not None
        and (row.run, row.partition_id) in stepped
        and (since := row.known_until_ns) is not None
    ]
    if not missing:
        return []
    from_the_end = [
        {"run": run, "process": process}
        for (run, process), row in runs.processes().items()
        if row["offset_reset"] == "latest"
    ]
    columns = ("run", "process")
    passed = (
        runs.tables.records.where(f"kind > 0 and replica is null and offset_step between 2 and {_JUMP_MAX}")
        .join(sf.broadcast(runs.frame(columns, from_the_end)), ["run", "process"], "left_anti")
        .selectExpr(
            "run",
            "partition_id",
            "invoked_ns",
            "completed_ns",
            "explode(sequence(offset - offset_step + 1, offset - 1)) as offset",
        )
    )
    found = (
        passed.join(sf.broadcast(runs.frame(_MISSING, missing)), ["run", "partition_id", "offset"])
        .where("since_ns < invoked_ns")
        .groupBy("run", "partition_id", "value", "offset")
        .agg(sf.min("completed_ns").alias("passed_ns"))
    )
    return typed(PassedRow, found.toArrow())
