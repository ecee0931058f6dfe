"""A judged run folder of any size without a cluster and without Spark: what a page is made of, as the checks write it.

Operations, records and bins are real columns; findings, their evidence, faults and elections are as many as asked for,
spread over the run, of a few kinds each, as a long run under a nemesis has them.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from harness.checks.findings import fingerprint_of
from harness.history.facts import values
from harness.history.run_folder import RunFolder
from harness.history.schema.schemas import EVIDENCE, FINDINGS, TABLES
from harness.history.sealed.derived_tables import bins_of

SECOND = 1_000_000_000
ORIGIN = 1_000 * SECOND
BATCH = 5  # records of an operation
PRODUCERS, NODES = 4, 3
KINDS: tuple[tuple[str, str, str, str], ...] = (
    ("lost-write", "violation", "lost", "clean-election"),
    ("lost-write", "permitted", "lost", "unclean-election"),
    ("unclean-election", "permitted", "election", "topic setting unclean.leader.election.enable=true"),
    ("dirty-read", "violation", "vanished", "clean-election"),
    ("duplicate", "violation", "twice-in-the-log", "an idempotent producer writes each record once"),
    ("inconsistent-offsets", "violation", "two-values", "no permitted loss lies between the two"),
    ("availability", "observation", "gap", ""),
    ("recovery", "observation", "kill", ""),
)
FAULTS = ("kill", "pause", "cut", "slow")
_SCENARIO = """# A long run under many faults, made up to see how its page opens.
[cluster]
brokers = [1, 2, 3]
[[topics]]
name = "t"
partitions = {partitions}
replication_factor = 3
"""


class _StillClock:
    def monotonic_ns(self) -> int:
        return ORIGIN

    def wall_ns(self) -> int:
        return 1_795_141_000 * SECOND


def write_large_run(runs: Path, *, operations: int, findings: int, faults: int, partitions: int = 24) -> Path:
    folder = RunFolder.create(runs, scenario="large", clock=_StillClock(), seed=1, stamp="20260101-000000")
    folder.write_scenario(_SCENARIO.format(partitions=partitions))
    duration = max(60, operations // 2_000) * SECOND
    folder.update(status="complete", load_began_ns=ORIGIN, load_ended_ns=ORIGIN + duration, ended_ns=ORIGIN + duration)
    records = _records(operations * BATCH, duration, partitions)
    finding_rows = [_finding(number, findings, duration, partitions) for number in range(findings)]
    rows: dict[str, list[dict[str, Any]]] = {
        "faults": [_fault(number, faults, duration) for number in range(faults)],
        "steps": [
            {
                "step": number,
                "kind": "act",
                "act": "kill",
                "step_text": f"kill {1 + number % NODES}",
                "begin_ns": begin,
                "end_ns": begin + SECOND,
                "outcome": "ok",
                "seen_text": "gone",
            }
            for number in range(faults)
            for begin in [_moment(number, faults, duration)]
        ],
        "partition_states": [row for part in range(partitions) for row in _states(part, faults, duration)],
        "controllers": [{"time_ns": ORIGIN, "uncertainty_ns": 0, "node": 1, "controller_epoch": 1}],
        "partitions": [
            {
                "partition_id": part,
                "topic": "t",
                "partition": part,
                "replicas": [1, 2, 3],
                "read_to_end": True,
                "end_offset": operations * BATCH // partitions,
                "note_text": "",
            }
            for part in range(partitions)
        ],
    }
    for name, schema in TABLES.items():
        table = records if name == "records" else _ops(operations, duration) if name == "operations" else None
        if name == "bins":
            table = bins_of(records)
        folder.write_table(name, table if table is not None else _filled(schema, rows.get(name, [])))
    folder.write_table("findings", _filled(FINDINGS, finding_rows))
    measures = [_measure(row) for row in rows["faults"]]
    _write_evidence(folder.path, finding_rows, operations * BATCH, partitions, measures)
    _write_verdict(folder.path, finding_rows, operations * BATCH)
    return folder.path


def _filled(schema: pa.Schema, rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist([{"run": 0, **row} for row in rows], schema=schema)


def _moment(number: int, of: int, duration: int) -> int:
    return ORIGIN + (number * 2 + 1) * duration // (2 * max(of, 1))


def _full(schema: pa.Schema, count: int, columns: dict[str, Any]) -> pa.Table:
    made = [
        pa.array(columns[field.name]).cast(field.type) if field.name in columns else pa.nulls(count, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(made, schema=schema)


def _records(count: int, duration: int, partitions: int) -> pa.Table:
    place = np.arange(count, dtype=np.int64)
    invoked_ns = ORIGIN + place * duration // count
    latency = (2 + 40 * np.abs(np.sin(place / 50_000)) ** 20) * 1_000_000
    part = (place % partitions).astype(np.int32)
    zero = np.zeros(count, np.int32)
    columns = {
        "run": zero,
        "kind": zero,
        "status": np.where(place % 997 == 0, 2, 0),
        "acks": zero - 1,
        "operation": place // BATCH,
        "process": place % PRODUCERS,
        "partition_id": part,
        "partition": part,
        "topic": np.full(count, "t"),
        "position": place % BATCH,
        "offset": place // partitions,
        "value": (place % PRODUCERS << 40) + place // PRODUCERS,
        "invoked_ns": invoked_ns,
        "completed_ns": invoked_ns + latency.astype(np.int64),
    }
    return _full(TABLES["records"], count, columns)


def _ops(count: int, duration: int) -> pa.Table:
    place = np.arange(count, dtype=np.int64)
    invoked_ns = ORIGIN + place * duration // count
    columns = {
        "run": np.zeros(count, np.int32),
        "operation": place,
        "process": place % PRODUCERS,
        "function": np.full(count, "send"),
        "client": np.full(count, "producer-1"),
        "status": np.zeros(count, np.int32),
        "invoked_ns": invoked_ns,
        "completed_ns": invoked_ns + 3_000_000,
        "count": np.full(count, BATCH),
    }
    return _full(TABLES["operations"], count, columns)


def _fault(number: int, of: int, duration: int) -> dict[str, Any]:
    kind, node, begin = FAULTS[number % len(FAULTS)], 1 + number % NODES, _moment(number, of, duration)
    links = [{"source": node, "target": 1 + node % NODES}] if kind in ("cut", "slow") else []
    return {
        "fault": number,
        "kind": kind,
        "label_text": f"{kind} broker {node}",
        "nodes": [node],
        "links": links,
        "trigger_text": "",
        "asked_ns": begin,
        "begin_ns": begin,
        "end_asked_ns": begin + 2 * SECOND,
        "end_ns": begin + 3 * SECOND,
        "proved": True,
        "proof_text": f"process of broker {node} is gone",
        "healed_proof_text": "it answers again",
        "step": number,
    }


def _states(partition: int, faults: int, duration: int) -> list[dict[str, Any]]:
    """A leader change for each fault that strikes the partition's leader, an ISR change before it."""
    made: list[dict[str, Any]] = []
    leader = 1 + partition % NODES
    for epoch, number in enumerate(range(-1, faults, 3)):
        t = ORIGIN - SECOND if number < 0 else _moment(number, faults, duration) + partition * 1_000_000
        before, leader = leader, 1 + (partition + epoch) % NODES
        made.append(
            {
                "topic": "t",
                "partition": partition,
                "time_ns": t,
                "uncertainty_ns": 0,
                "exact": True,
                "observer": -1,
                "leader": leader,
                "leader_epoch": epoch,
                "partition_epoch": epoch,
                "controller_epoch": 1,
                "isr": [leader, 1 + leader % NODES],
                "isr_before": [1, 2, 3],
                "leader_before": before,
                "unclean": epoch % 7 == 6,
                "replicas": [1, 2, 3],
            }
        )
    return made


def _finding(number: int, of: int, duration: int, partitions: int) -> dict[str, Any]:
    check, classification, kind, cause = KINDS[number % len(KINDS)]
    part, t, first = number % partitions, _moment(number, of, duration), number * 7
    about_data = classification != "observation"
    offsets = list(range(first, first + 20)) if about_data else []
    evidence: dict[str, Any] = {"seconds": 2.5, "open": False}
    if about_data:
        rule = {"rule": "Every in-sync copy was destroyed.", "holds": False, "evidence": "No disk was lost."}
        chain = {
            "t_ns": t + SECOND,
            "event": "election",
            "sentence": "Broker 2 was elected.",
            "decisive": True,
            "nodes": [2],
            "epoch_before": 1,
            "epoch_after": 2,
            "offset_before": None,
            "offset_after": first,
            "fault": None,
        }
        evidence = {
            "cause": cause,
            "rules": [rule] * 3,
            "cause_chain": [chain],
            "elected": 2,
            "elected_epoch": 2,
            "elected_log_end": first,
            "lost_range": {"first": first, "last": first + 19},
        }
    return {
        "finding": f"F{number + 1}",
        "check": check,
        "classification": classification,
        "kind": kind,
        "topic": "t",
        "partition": part,
        "offset_first": min(offsets, default=None),
        "offset_last": max(offsets, default=None),
        "count": max(len(offsets), 1),
        "values": [values.number(1, offset) for offset in offsets],
        "offsets": offsets,
        "operations": [],
        "first_ns": t,
        "last_ns": t + SECOND,
        "faults": [],
        "leader_epoch": 2,
        "cause_text": cause,
        "sentence_text": f"20 records at offsets {first}-{first + 19} of t-{part} are affected: {cause or 'no write'}.",
        "fingerprint": fingerprint_of(check=check, classification=classification, kind=kind, cause=(cause,)),
        "evidence": json.dumps(evidence),
    }


def _measure(fault: dict[str, Any]) -> dict[str, Any]:
    """What a fault did to availability; a slow link takes no leader."""
    led = fault["kind"] != "slow"
    return {
        "fault": fault["fault"],
        "kind": fault["kind"],
        "label_text": fault["label_text"],
        "begin_ns": fault["begin_ns"],
        "end_ns": fault["end_ns"],
        "leader_s": 1.25 if led else None,
        "leader_never": False if led else None,
        "in_sync_s": 4.5,
        "in_sync_never": fault["fault"] % 50 == 49,
        "gap_s": 1.5 if led else None,
        "gap_never": False if led else None,
    }


def _write_evidence(
    run: Path, rows: list[dict[str, Any]], sent: int, partitions: int, measures: list[dict[str, Any]]
) -> None:
    missing = sum(row["count"] for row in rows if row["check"] == "lost-write")
    accounting = [
        {
            "topic": "t",
            "partition": part,
            "outcome": "acknowledged",
            "acks": -1,
            "in_final_log": True,
            "count": sent // partitions,
            "duplicates": 0,
            "read": sent // partitions,
        }
        for part in range(partitions)
    ]
    accounting.append({**accounting[0], "in_final_log": False, "count": missing, "read": 0})
    lost = [
        {
            "finding": row["finding"],
            "classification": row["classification"],
            "topic": "t",
            "partition": row["partition"],
            "value": value,
            "offset": offset,
            "acks": -1,
            "leader_epoch": 1,
            "process": 1,
            "operation": offset,
            "invoked_ns": row["first_ns"],
            "completed_ns": row["first_ns"] + 2_000_000,
        }
        for row in rows
        if row["check"] == "lost-write"
        for value, offset in zip(row["values"], row["offsets"], strict=True)
    ]
    explained = [row for row in rows if row["offsets"]][:100]
    logs = [
        {
            "finding": row["finding"],
            "topic": "t",
            "partition": row["partition"],
            "offset": offset,
            "acknowledged_value": value,
            "acknowledged_ns": row["first_ns"],
            "acknowledged_acks": -1,
            "replica": node,
            "leader_epoch": 1,
            "value": value,
            "truncated": node == 1,
            "truncated_ns": row["last_ns"],
            "end_epoch": 2,
            "end_value": value + 1,
            "final_epoch": 2,
            "final_value": value + 1,
            "read": False,
        }
        for row in explained
        for value, offset in zip(row["values"], row["offsets"], strict=True)
        for node in (1, 2, 3)
    ]
    operations = [
        {
            "finding": row["finding"],
            "kind": "send",
            "operation": offset,
            "process": 1,
            "status": "ok",
            "acks": -1,
            "topic": "t",
            "partition": row["partition"],
            "offset": offset,
            "value": value,
            "leader_epoch": None,
            "invoked_ns": row["first_ns"],
            "completed_ns": row["last_ns"],
        }
        for row in rows
        for value, offset in zip(row["values"], row["offsets"], strict=True)
    ]
    gaps = [
        {
            "topic": "t",
            "partition": row["partition"],
            "begin_ns": row["first_ns"],
            "end_ns": row["last_ns"],
            "open": False,
        }
        for row in rows
        if row["check"] == "availability"
    ]
    tables = {
        "accounting": accounting,
        "lost_records": lost,
        "log_rows": logs,
        "operations": operations,
        "gaps": gaps,
        "fault_measures": measures,
    }
    for name, schema in EVIDENCE.items():
        pq.write_table(_filled(schema, tables.get(name, [])), run / "tables" / f"evidence_{name}.parquet")


def _write_verdict(run: Path, rows: list[dict[str, Any]], sent: int) -> None:
    counts = {
        name: sum(row["classification"] == name for row in rows) for name in ("violation", "permitted", "observation")
    }
    verdict = "violation" if counts["violation"] else "pass"
    sentence = f"Made up: {len(rows)} findings in {sent} records."
    (run / "verdict.json").write_text(
        json.dumps(
            {
                "verdict": verdict,
                "exit_code": int(verdict == "violation"),
                "sentence": sentence,
                "reasons": [],
                "counts": counts,
                "coverage": [],
                "expectations": [],
                "as_expected": True,
                "expected": verdict,
                "accounting": {"sent": sent, "acknowledged": sent, "acknowledged_missing": 0, "adds_up": True},
            }
        ),
        encoding="utf-8",
    )
