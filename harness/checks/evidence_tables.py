"""The tables that a page needs to explain the findings, of bounded size: RUN/tables/evidence_<name>.parquet.

Reports read them with any Parquet reader, without Spark. Counts in the findings stay exact even if rows are left out
here; only `lost_records` is always complete.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TypedDict

from harness.checks.coverage import Facts
from harness.checks.families.cluster import availability
from harness.checks.findings import EXAMPLES_MAX, Finding, RunContext
from harness.checks.spark.detection import FLAGGED_MAX, AccountLine
from harness.checks.spark.passing_by import records_at
from harness.checks.spark.tables import Tables, small_table
from harness.history.schema.cluster_rows import PARTITIONS
from harness.history.schema.evidence_rows import (
    AccountingRow,
    GapRow,
    LostRecordRow,
    ShownOperationRow,
)
from harness.history.schema.typed_rows import typed

_OPERATIONS_PER_FINDING = 1_000
ROWS_MAX = 50_000
PER_KIND = 40  # findings per fingerprint and run whose operations and logs are kept
# The checks whose findings explain acknowledged records that are not in the final log.
MISSING_CHECKS = ("lost-write", "unreadable", "unseen-tail", "removed-by-configuration", "compacted-away")
_OUTCOMES = {0: "acknowledged", 1: "refused", 2: "unknown", None: "not sent"}

Named = Sequence[tuple[str, Finding]]
_VALUE = ("run", "partition_id", "value")
_OPERATION = ("run", "operation")


class _ShownRow(TypedDict):
    """The columns of the table `records` that are shown."""

    run: int
    partition_id: int
    kind: int
    status: int
    position: int
    operation: int
    process: int
    acks: int | None
    offset: int | None
    value: int
    leader_epoch: int | None
    invoked_ns: int
    completed_ns: int
    replica: int | None
    error: str | None


def accounting_rows(context: RunContext, accounting: Sequence[AccountLine]) -> list[AccountingRow]:
    rows: list[AccountingRow] = []
    for row in sorted(
        accounting, key=lambda row: (row["partition_id"], str(row["status"]), str(row["acks"]), row["in_final"])
    ):
        history = context.partition(row["partition_id"])
        rows.append(
            {
                "run": row["run"],
                "topic": history.topic,
                "partition": history.partition,
                "outcome": _OUTCOMES[row["status"]],
                "acks": row["acks"],
                "in_final_log": row["in_final"],
                "count": row["count"],
                "duplicates": row["duplicates"],
                "read": row["read"],
            }
        )
    return rows


class Sums(TypedDict):
    """Part of verdict.json: records by their senders' outcomes; sent_again: sends of a value that had been sent
    before, by an application; adds_up: the two counts of each agree."""

    sent: int
    sent_again: int
    send_records: int
    acknowledged: int
    acknowledged_missing: int
    missing_in_findings: int
    refused: int
    unknown: int
    never_sent: int
    in_final_log: int
    duplicates: int
    adds_up: bool


def accounting_summary(accounting: Sequence[AccountLine], facts: Facts) -> Sums:
    """The sums of the matrix, compared with a separate count: sends counted as rows, not as values."""
    sent = sum(row["count"] for row in accounting if row["status"] is not None)
    acknowledged = [row for row in accounting if row["status"] == 0 and row["acks"] != 0]
    missing = sum(row["count"] for row in acknowledged if not row["in_final"])
    named = sum(f.count for f in facts.findings if f.check in MISSING_CHECKS)
    return {
        "sent": sent,
        "sent_again": facts.sent_again,
        "send_records": facts.activity["sends"],
        "acknowledged": sum(row["count"] for row in acknowledged),
        "acknowledged_missing": missing,
        "missing_in_findings": named,
        "refused": sum(row["count"] for row in accounting if row["status"] == 1),
        "unknown": sum(row["count"] for row in accounting if row["status"] == 2),
        "never_sent": sum(row["count"] for row in accounting if row["status"] is None),
        "in_final_log": sum(row["count"] for row in accounting if row["in_final"]),
        "duplicates": sum(row["duplicates"] for row in accounting),
        "adds_up": sent + facts.sent_again == facts.activity["sends"] and missing == named,
    }


def lost_record_rows(findings: Named) -> list[LostRecordRow]:
    rows: list[LostRecordRow] = [
        {
            "run": finding.run,
            "finding": name,
            "classification": finding.classification,
            "topic": finding.topic or "",
            "partition": finding.partition or 0,
            "value": row.value,
            "offset": row.offset,
            "acks": row.acks,
            "leader_epoch": row.epoch if row.epoch is not None else (finding.ruling.epoch if finding.ruling else None),
            "process": row.process,
            "operation": row.operation,
            "invoked_ns": row.invoked_ns,
            "completed_ns": row.completed_ns,
        }
        for name, finding in findings
        if finding.check == "lost-write"
        for row in finding.rows
    ]
    return rows[:FLAGGED_MAX]


def gap_rows(context: RunContext) -> list[GapRow]:
    rows: list[GapRow] = []
    gaps = [*context.rows[availability.ANSWER], *context.rows[availability.READING]]
    for gap in sorted(gaps, key=lambda row: (row["partition_id"], row["begin_ns"])):
        history = context.partition(gap["partition_id"])
        rows.append(
            {
                "run": gap["run"],
                "topic": history.topic,
                "partition": history.partition,
                "begin_ns": gap["begin_ns"],
                "end_ns": gap["end_ns"],
                "open": gap["open"],
                "reader": availability.reader_words(gap) or None,
            }
        )
    return rows


def chosen(findings: Named) -> list[tuple[str, Finding]]:
    """The findings whose evidence is kept: the first of each kind in each run. The others have only their own row."""
    seen: Counter[tuple[int, str]] = Counter()
    kept = []
    for name, finding in findings:
        seen[finding.run, finding.fingerprint] += 1
        if seen[finding.run, finding.fingerprint] <= PER_KIND:
            kept.append((name, finding))
    return kept


def operation_rows(tables: Tables, findings: Named) -> list[ShownOperationRow]:
    """The client operations on the findings' example values.

    A finding without flagged rows names its values and operations itself.
    """
    findings = chosen(findings)
    places = {
        (run, row["topic"], row["partition"]): row["partition_id"]
        for run in range(tables.runs)
        for row in tables.rows(PARTITIONS, run)
    }
    values = {key: _values_of(finding, places) for key, finding in _keyed(findings)}
    operations = {
        key: [(finding.run, op) for op in finding.operations[:EXAMPLES_MAX]]
        for key, finding in _keyed(findings)
        if not finding.rows
    }
    by_value = _records_of(
        tables,
        {each for wanted in values.values() for each in wanted},
        _VALUE,
        lambda row: (row["run"], row["partition_id"], row["value"]),
    )
    by_operation = _records_of(
        tables,
        {each for wanted in operations.values() for each in wanted},
        _OPERATION,
        lambda row: (row["run"], row["operation"]),
    )
    names = {(run, partition_id): (topic, part) for (run, topic, part), partition_id in places.items()}
    rows: list[ShownOperationRow] = []
    for key, finding in _keyed(findings):
        found = [row for each in values[key] for row in by_value.get(each, ())]
        found += [row for each in operations.get(key, ()) for row in by_operation.get(each, ())]
        own = {(row["operation"], row["kind"], row["position"], row["partition_id"]): row for row in found}
        made = [_operation_row(key[1], finding, row, names) for row in own.values()]
        rows += sorted(made, key=lambda row: (row["invoked_ns"] or 0, row["operation"] or 0, row["value"]))[
            :_OPERATIONS_PER_FINDING
        ]
    return rows


def _keyed(findings: Named) -> list[tuple[tuple[int, str], Finding]]:
    return [((finding.run, name), finding) for name, finding in findings]


def _values_of(finding: Finding, places: Mapping[tuple[int, str, int], int]) -> list[tuple[int, ...]]:
    if finding.rows:
        return list(dict.fromkeys((finding.run, row.partition_id, row.value) for row in finding.rows[:EXAMPLES_MAX]))
    partition_id = places.get(
        (finding.run, finding.topic or "", -1 if finding.partition is None else finding.partition)
    )
    return (
        [] if partition_id is None else [(finding.run, partition_id, value) for value in finding.values[:EXAMPLES_MAX]]
    )


def _records_of(
    tables: Tables,
    wanted: set[tuple[int, ...]],
    columns: Sequence[str],
    key: Callable[[_ShownRow], tuple[int, ...]],
) -> dict[tuple[int, ...], list[_ShownRow]]:
    """Records by `key`, the columns that identify one."""
    if not wanted:
        return {}
    keys = [dict(zip(columns, each, strict=True)) for each in sorted(wanted)]
    grouped: dict[tuple[int, ...], list[_ShownRow]] = {}
    left = ROWS_MAX
    for found in records_at(tables, small_table(columns, keys), list(_ShownRow.__annotations__)):
        for row in typed(_ShownRow, found.slice(0, left)):
            grouped.setdefault(key(row), []).append(row)
        left -= min(left, len(found))
    return grouped


def _operation_row(
    name: str, finding: Finding, row: _ShownRow, names: Mapping[tuple[int, int], tuple[str, int]]
) -> ShownOperationRow:
    topic, part = names.get((row["run"], row["partition_id"]), (finding.topic, finding.partition))
    return {
        "run": finding.run,
        "finding": name,
        "kind": ("send", "poll", "final_poll")[row["kind"]],
        "status": ("ok", "fail", "info")[row["status"]],
        "topic": topic,
        "partition": part,
        "operation": row["operation"],
        "process": row["process"],
        "acks": row["acks"],
        "offset": row["offset"],
        "value": row["value"],
        "leader_epoch": row["leader_epoch"],
        "invoked_ns": row["invoked_ns"],
        "completed_ns": row["completed_ns"],
        "replica": row["replica"],
        "error": row["error"],
    }
