"""The tables a page needs to explain the findings: bounded, written beside them as RUN/tables/evidence_<name>.parquet.

Reports read these with any Parquet reader; nothing in them needs Spark. Counts in the findings stay exact whatever is
cut here; `lost_records` alone is complete.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from harness.checks.coverage import Facts
from harness.checks.detection import FLAGGED_MAX, small_frame
from harness.checks.findings import EXAMPLES_MAX, Finding, RunContext
from harness.checks.tables import Row, Tables

AROUND = 5
OFFSETS_MAX = 220
_OPERATIONS_PER_FINDING = 1_000
_ROWS_MAX = 50_000
PER_KIND = 40  # findings of one fingerprint and run whose operations and logs are kept
_EXPLAINED = ("lost-write", "dirty-read", "unreadable", "inconsistent-offsets", "replica-divergence", "duplicate",
              "compacted-away", "acknowledged-regression")  # fmt: skip
# The checks whose findings account for acknowledged records that are not in the final log.
MISSING_CHECKS = ("lost-write", "unreadable", "unseen-tail", "removed-by-configuration", "compacted-away")
_OUTCOMES = {0: "acknowledged", 1: "refused", 2: "unknown", None: "not sent"}
_i32, _i64 = pa.int32(), pa.int64()

Named = Sequence[tuple[str, Finding]]
_VALUE = {"run": _i32, "tp": _i32, "value": _i64}
_OPERATION = {"run": _i32, "op": _i64}
_SHOWN = (
    "run", "tp", "kind", "status", "i", "op", "process", "acks", "off", "value", "epoch", "t0", "t1", "replica",
    "error",
)  # fmt: skip


def accounting_rows(context: RunContext, accounting: Sequence[Row]) -> list[dict[str, Any]]:
    rows = []
    for row in sorted(accounting, key=lambda row: (row["tp"], str(row["status"]), str(row["acks"]), row["in_final"])):
        story = context.partition(row["tp"])
        rows.append(
            {"run": row["run"], "topic": story.topic, "part": story.part, "outcome": _OUTCOMES[row["status"]],
             "acks": row["acks"], "in_final_log": row["in_final"], "count": row["count"],
             "duplicates": row["duplicates"] or 0, "read": row["read"]}
        )  # fmt: skip
    return rows


def accounting_summary(context: RunContext, accounting: Sequence[Row], facts: Facts) -> dict[str, Any]:
    """The sums of the matrix, held against a count of their own: sends counted as rows, not as values."""
    sent = sum(row["count"] for row in accounting if row["status"] is not None)
    acknowledged = [row for row in accounting if row["status"] == 0 and row["acks"] != 0]
    missing = sum(row["count"] for row in acknowledged if not row["in_final"])
    named = sum(f.count for f in facts.findings if f.check in MISSING_CHECKS)
    return {
        "sent": sent, "send_records": facts.activity["sends"], "acknowledged": sum(r["count"] for r in acknowledged),
        "acknowledged_missing": missing, "missing_in_findings": named,
        "refused": sum(row["count"] for row in accounting if row["status"] == 1),
        "unknown": sum(row["count"] for row in accounting if row["status"] == 2),
        "never_sent": sum(row["count"] for row in accounting if row["status"] is None),
        "in_final_log": sum(row["count"] for row in accounting if row["in_final"]),
        "duplicates": sum(row["duplicates"] or 0 for row in accounting),
        "adds_up": sent == facts.activity["sends"] and missing == named,
    }  # fmt: skip


def lost_record_rows(findings: Named) -> list[dict[str, Any]]:
    return [
        {"run": finding.run, "finding": name, "classification": finding.classification, "topic": finding.topic,
         "part": finding.part, "value": row.value, "off": row.off, "acks": row.acks,
         "epoch": row.epoch if row.epoch is not None else (finding.ruling.epoch if finding.ruling else None),
         "process": row.process, "op": row.op, "t0": row.t0, "t1": row.t1}
        for name, finding in findings
        if finding.check == "lost-write"
        for row in finding.rows
    ][:FLAGGED_MAX]  # fmt: skip


def gap_rows(context: RunContext) -> list[dict[str, Any]]:
    rows = []
    for gap in sorted(context.gaps, key=lambda row: (row["tp"], row["begin_t"])):
        story = context.partition(gap["tp"])
        rows.append({"run": gap["run"], "topic": story.topic, "part": story.part, "begin_t": gap["begin_t"],
                     "end_t": gap["end_t"], "open": gap["open"]})  # fmt: skip
    return rows


def chosen(findings: Named) -> list[tuple[str, Finding]]:
    """Those whose evidence is kept: the first of each kind in each run. The others are told by their own row alone."""
    seen: Counter[tuple[int, str]] = Counter()
    kept = []
    for name, finding in findings:
        seen[finding.run, finding.fingerprint] += 1
        if seen[finding.run, finding.fingerprint] <= PER_KIND:
            kept.append((name, finding))
    return kept


def operation_rows(spark: SparkSession, tables: Tables, findings: Named) -> list[dict[str, Any]]:
    """One job for all findings of all runs: the client operations on their example values.

    A finding that is not made of flagged rows names its values and operations itself.
    """
    findings = chosen(findings)
    places = {
        (run, row["topic"], row["part"]): row["tp"]
        for run in range(tables.runs)
        for row in tables.rows("partitions", run)
    }
    values = {key: _values_of(finding, places) for key, finding in _keyed(findings)}
    operations = {
        key: [(finding.run, op) for op in finding.operations[:EXAMPLES_MAX]]
        for key, finding in _keyed(findings)
        if not finding.rows
    }
    by_value = _records_of(spark, tables, {each for wanted in values.values() for each in wanted}, _VALUE)
    by_operation = _records_of(spark, tables, {each for wanted in operations.values() for each in wanted}, _OPERATION)
    names = {(run, tp): (topic, part) for (run, topic, part), tp in places.items()}
    rows = []
    for key, finding in _keyed(findings):
        found = [row for each in values[key] for row in by_value.get(each, ())]
        found += [row for each in operations.get(key, ()) for row in by_operation.get(each, ())]
        own = {(row["op"], row["kind"], row["i"], row["tp"]): row for row in found}
        made = [_operation_row(key[1], finding, row, names) for row in own.values()]
        rows += sorted(made, key=lambda row: (row["t0"] or 0, row["op"] or 0, row["value"]))[:_OPERATIONS_PER_FINDING]
    return rows


def _keyed(findings: Named) -> list[tuple[tuple[int, str], Finding]]:
    return [((finding.run, name), finding) for name, finding in findings]


def _values_of(finding: Finding, places: Mapping[tuple[int, str, int], int]) -> list[tuple[int, ...]]:
    if finding.rows:
        return list(dict.fromkeys((finding.run, row.tp, row.value) for row in finding.rows[:EXAMPLES_MAX]))
    tp = places.get((finding.run, finding.topic or "", -1 if finding.part is None else finding.part))
    return [] if tp is None else [(finding.run, tp, value) for value in finding.values[:EXAMPLES_MAX]]


def _records_of(
    spark: SparkSession, tables: Tables, wanted: set[tuple[int, ...]], columns: Mapping[str, pa.DataType]
) -> dict[tuple[int, ...], list[Row]]:
    if not wanted:
        return {}
    keys = [dict(zip(columns, each, strict=True)) for each in sorted(wanted)]
    frame = sf.broadcast(small_frame(spark, columns, keys))
    found = tables.records.join(frame, list(columns), "left_semi").limit(_ROWS_MAX).select(*_SHOWN)
    grouped: dict[tuple[int, ...], list[Row]] = {}
    for row in found.toArrow().to_pylist():
        grouped.setdefault(tuple(row[name] for name in columns), []).append(row)
    return grouped


def _operation_row(
    name: str, finding: Finding, row: Row, names: Mapping[tuple[int, int], tuple[str, int]]
) -> dict[str, Any]:
    topic, part = names.get((row["run"], row["tp"]), (finding.topic, finding.part))
    return {
        "run": finding.run, "finding": name, "kind": ("send", "poll", "final_poll")[row["kind"]],
        "status": ("ok", "fail", "info")[row["status"]], "topic": topic, "part": part,
        **{c: row[c] for c in ("op", "process", "acks", "off", "value", "epoch", "t0", "t1", "replica", "error")},
    }  # fmt: skip


# ---- the replicas' logs side by side --------------------------------------------------------------------------------


def shown_offsets(finding: Finding) -> list[tuple[int, int]]:
    """Closed ranges: all offsets of a short loss with some around it, or the two ends of a long one."""
    if not finding.offsets:
        return []
    first, last = max(0, min(finding.offsets) - AROUND), max(finding.offsets) + AROUND
    if last - first < OFFSETS_MAX:
        return [(first, last)]
    half = OFFSETS_MAX // 2
    return [(first, first + half - 1), (last - half + 1, last)]


def log_rows(
    spark: SparkSession, tables: Tables, contexts: Mapping[int, RunContext], findings: Named
) -> list[dict[str, Any]]:
    explained = [(name, each) for name, each in chosen(findings) if each.check in _EXPLAINED and each.offsets]
    explained = explained[:100]
    numbers = {
        (run, story.topic, story.part): tp for run, c in contexts.items() for tp, story in c.story.partitions.items()
    }
    spans = [
        {"run": finding.run, "tp": tp, "low": low, "high": high}
        for _, finding in explained
        for tp in [numbers.get((finding.run, finding.topic or "", finding.part or 0))]
        if tp is not None
        for low, high in shown_offsets(finding)
    ]
    if not spans:
        return []
    columns = {"run": pa.int32(), "tp": pa.int32(), "low": pa.int64(), "high": pa.int64()}
    wanted = small_frame(spark, columns, spans).distinct()
    held = _held(tables, wanted)
    seen = _seen(tables, wanted)
    snapshots = {
        (run, row["snapshot"], row["node"]): row
        for run, rows in tables.small["replica_snapshots"].items()
        for row in rows
    }
    rows: list[dict[str, Any]] = []
    for name, finding in explained:
        tp = numbers.get((finding.run, finding.topic or "", finding.part or 0))
        if tp is None:
            continue
        story = contexts[finding.run].partition(tp)
        decisive = finding.ruling.cause_epoch if finding.ruling else None
        for low, high in shown_offsets(finding):
            for off in range(low, high + 1):
                place = (finding.run, tp, off)
                head = _head(name, finding, off, seen.get(place, ()))
                nodes = sorted({*story.replicas, *held.get(place, {})})
                for node in nodes:
                    copies = held.get(place, {}).get(node, [])
                    rows.append(head | _replica(finding.run, node, copies, snapshots, decisive, head))
    return rows[:_ROWS_MAX]


def _held(tables: Tables, wanted: Any) -> dict[tuple[int, int, int], dict[int, list[Row]]]:
    near = (
        tables.replica_log.join(sf.broadcast(wanted), ["run", "tp"])
        .where("off between low and high")
        .select("run", "tp", "off", "node", "snapshot", "epoch", "value")
        .distinct()
    )
    held: dict[tuple[int, int, int], dict[int, list[Row]]] = {}
    for row in near.limit(4 * _ROWS_MAX).toArrow().to_pylist():
        held.setdefault((row["run"], row["tp"], row["off"]), {}).setdefault(row["node"], []).append(row)
    return held


def _seen(tables: Tables, wanted: Any) -> dict[tuple[int, int, int], list[Row]]:
    near = (
        tables.records.join(sf.broadcast(wanted), ["run", "tp"])
        .where("off between low and high")
        .groupBy("run", "tp", "off", "value")
        .agg(
            sf.min(sf.expr("if(kind = 0 and status = 0, t1, null)")).alias("acknowledged_t"),
            sf.min(sf.expr("if(kind = 0 and status = 0, acks, null)")).alias("acks"),
            sf.max(sf.expr("kind = 2 and replica is null")).alias("in_final"),
            sf.max(sf.expr("kind = 1")).alias("polled"),
            sf.max(sf.expr("if(kind = 2 and replica is null, epoch, null)")).alias("epoch"),
        )
    )
    seen: dict[tuple[int, int, int], list[Row]] = {}
    for row in near.limit(_ROWS_MAX).toArrow().to_pylist():
        seen.setdefault((row["run"], row["tp"], row["off"]), []).append(row)
    return seen


def _head(name: str, finding: Finding, off: int, seen: Sequence[Row]) -> dict[str, Any]:
    """What clients know of the offset. Of several acknowledged values the one that is gone is shown."""
    acknowledged = sorted(
        (row for row in seen if row["acknowledged_t"] is not None),
        key=lambda row: (row["in_final"], row["acknowledged_t"]),
    )
    finals = [row for row in seen if row["in_final"]]
    first = acknowledged[0] if acknowledged else None
    return {
        "run": finding.run, "finding": name, "topic": finding.topic, "part": finding.part, "off": off,
        "acknowledged_value": first["value"] if first else None,
        "acknowledged_t": first["acknowledged_t"] if first else None,
        "acknowledged_acks": first["acks"] if first else None,
        "final_epoch": finals[0]["epoch"] if finals else None, "final_value": finals[0]["value"] if finals else None,
        "read": any(row["polled"] for row in seen),
    }  # fmt: skip


def _replica(
    run: int, node: int, copies: Sequence[Row], snapshots: Mapping[tuple[int, int, int], Row], decisive: int | None,
    head: Mapping[str, Any],
) -> dict[str, Any]:  # fmt: skip
    """The replica's record from before the deciding epoch (or the acknowledged one), and what its log ended with."""

    def reason(row: Row) -> str:
        snapshot = snapshots.get((run, row["snapshot"], row["node"]))
        return snapshot["reason"] if snapshot else ""

    ended = [row for row in copies if reason(row) == "end"]
    end = ended[-1] if ended else None
    # Records from before Kafka 0.11 have no epoch: only their value tells the old ones from the new.
    if decisive is not None and all(row["epoch"] is not None for row in copies):
        older = [row for row in copies if row["epoch"] < decisive]
    else:
        older = [row for row in copies if row["value"] == head["acknowledged_value"]] or list(ended)
    before = max(older, key=lambda row: (-1 if row["epoch"] is None else row["epoch"], row["snapshot"]), default=None)
    gone = before is not None and (end is None or (end["epoch"], end["value"]) != (before["epoch"], before["value"]))
    cuts = [
        snapshots[run, row["snapshot"], row["node"]]["t"]
        for row in copies
        if before is not None and reason(row) == "truncation" and row["value"] == before["value"]
    ]
    return {
        "replica": node, "epoch": before["epoch"] if before else None, "value": before["value"] if before else None,
        "truncated": gone, "truncated_t": min(cuts, default=None), "end_epoch": end["epoch"] if end else None,
        "end_value": end["value"] if end else None,
    }  # fmt: skip
