"""Judged run folders without a cluster and without Spark: tables, sums and verdict as recorder and checks write them.

`quiet_run` is a run without findings that came to any verdict; unclean_story.py tells of a loss.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.history.run_folder import RunFolder
from harness.history.schema.schemas import EVIDENCE, FINDINGS, TABLES
from harness.scenario.file import load
from harness.scenario.written import written_out

ORIGIN_NS = 5_000_000_000_000
DURATION_S = 17
FIRST_LOST, LOST, ELECTED_END = 260, 37, 260
REPLICAS = {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]}
SENT = {0: 700, 1: 650, 2: 650}
HOSTILE = "</script><b>\"'&\u202e\u200f\x00"
Rows = Sequence[Mapping[str, Any]]


def at(seconds: float) -> int:
    return ORIGIN_NS + round(seconds * 1e9)


@dataclass
class StillClock:
    """A clock that stands still: a run folder with the same times, whenever it is built."""

    seconds: float = 0.0

    def monotonic_ns(self) -> int:
        return at(self.seconds)

    def wall_ns(self) -> int:
        return 1_795_141_000_000_000_000 + round(self.seconds * 1e9)


def filled(schema: pa.Schema, rows: Rows) -> pa.Table:
    return pa.Table.from_pylist([{"run": 0, **row} for row in rows], schema=schema)


def write_tables(folder: RunFolder, tables: Mapping[str, Rows], evidence: Mapping[str, Rows], findings: Rows) -> None:
    for name, schema in TABLES.items():
        folder.write_table(name, filled(schema, tables.get(name, ())))
    folder.write_table("findings", filled(FINDINGS, findings))
    for name, schema in EVIDENCE.items():
        path = folder.path / "tables" / f"evidence_{name}.parquet"
        pq.write_table(filled(schema, evidence.get(name, ())), path, compression="zstd")


def folder_of(runs: Path, scenario: str, text: str) -> RunFolder:
    folder = RunFolder.create(runs, scenario=scenario, clock=StillClock(-3.0), seed=7, stamp="20261120-021407")
    folder.write_scenario(text)
    folder.add_anchor(StillClock(DURATION_S))
    folder.update(
        status="done",
        load_began_ns=at(0),
        versions={"kafka-chaos": "0.1.0", "kafka-python": "2.0.2", "python": "3.11.9"},
        environment={"os": "Linux 6.8", "cores": 2},
    )
    return folder


def write_verdict(folder: RunFolder, **fields: Any) -> Path:
    entries: dict[str, Any] = {
        "verdict": "pass",
        "exit_code": 0,
        "sentence": "",
        "reasons": [],
        "counts": {"violation": 0, "permitted": 0, "observation": 0},
        "coverage": [],
        "expectations": [],
        "as_expected": True,
        "expected": "pass",
        "accounting": {},
        **fields,
    }
    (folder.path / "verdict.json").write_text(json.dumps(entries), encoding="utf-8")
    return folder.path


def states() -> Rows:
    """(part, t, leader, epoch, isr)"""
    built_rows = [
        (0, -2.0, 1, 1, [1, 2, 3]),
        (0, 7.498, 1, 1, [1, 3]),
        (0, 7.511, 1, 1, [1]),
        (0, 8.44, 2, 2, [2]),
        (0, 10.9, 2, 2, [2, 3]),
        (0, 14.6, 2, 2, [2, 3, 1]),
        (1, -2.0, 2, 1, [2, 3, 1]),
        (1, 8.43, 2, 1, [2, 3]),
        (1, 14.7, 2, 1, [2, 3, 1]),
        (2, -2.0, 3, 1, [3, 1, 2]),
        (2, 8.45, 3, 1, [3, 2]),
        (2, 14.8, 3, 1, [3, 2, 1]),
    ]
    rows: list[dict[str, Any]] = []
    before: dict[int, tuple[int, list[int]]] = {}
    for number, (part, t, leader, epoch, isr) in enumerate(built_rows):
        led, was = before.get(part, (None, None))
        rows.append(
            {
                "topic": "orders",
                "partition": part,
                "time_ns": at(t),
                "uncertainty_ns": 1_000_000,
                "exact": True,
                "observer": -1,
                "leader": leader,
                "leader_epoch": epoch,
                "partition_epoch": number,
                "controller_epoch": 1,
                "isr": isr,
                "isr_before": was,
                "leader_before": led,
                "unclean": was is not None and leader not in was,
                "replicas": REPLICAS[part],
            }
        )
        before[part] = (leader, isr)
    return rows


def accounting(lost: int) -> Rows:
    def row(partition: int, outcome: str, present: bool, count: int) -> dict[str, Any]:
        kind = {"topic": "orders", "partition": partition, "outcome": outcome, "acks": -1, "in_final_log": present}
        return {**kind, "count": count, "duplicates": 0, "read": count if present else 0}

    rows = []
    for part, sent in SENT.items():
        missing = lost if part == 0 else 0
        indeterminate = (8, 4) if part == 0 and lost else (0, 0)
        refused = 13 if part == 0 and lost else 0
        rows += [
            row(part, "acknowledged", True, sent - missing - sum(indeterminate) - refused),
            row(part, "acknowledged", False, missing),
            row(part, "unknown", True, indeterminate[0]),
            row(part, "unknown", False, indeterminate[1]),
            row(part, "refused", False, refused),
        ]
    return [reported for reported in rows if reported["count"]]


def summary(lost: int) -> dict[str, Any]:
    sent = sum(SENT.values())
    return {
        "sent": sent,
        "send_records": sent,
        "acknowledged": sent - (25 if lost else 0),
        "acknowledged_missing": lost,
        "missing_in_findings": lost,
        "adds_up": True,
    }


def partitions(ends: Mapping[int, int | None]) -> Rows:
    return [
        {
            "partition_id": part,
            "topic": "orders",
            "partition": part,
            "replicas": REPLICAS[part],
            "read_to_end": True,
            "end_offset": end,
        }
        for part, end in ends.items()
    ]


# ---- the quiet one --------------------------------------------------------------------------------------------------


def quiet_run(runs: Path, *, verdict: str = "pass", sentence: str = "Pass: none of 2000 was lost.") -> Path:
    """Nothing was found; nothing was sent either in a run that could not be done."""
    folder = folder_of(runs, "no-faults", written_out(load("no-faults")))
    nothing = verdict == "error"
    first = [row for row in states() if row["isr_before"] is None]
    tables: dict[str, Rows] = {} if nothing else {"partitions": partitions(SENT), "partition_states": first}
    write_tables(folder, tables, {} if nothing else {"accounting": accounting(0)}, ())
    met = {"condition": "acks", "meaning": "records acknowledged", "required": "1", "seen": 2000, "met": True}
    unmet = {"condition": "elections", "meaning": "elections of a leader", "required": "1", "seen": 0, "met": False}
    code = {"pass": 0, "violation": 1, "error": 4}.get(verdict, 3)
    return write_verdict(
        folder,
        verdict=verdict,
        exit_code=code,
        sentence=sentence,
        reasons=[] if verdict == "pass" else [sentence],
        coverage=[met, unmet] if verdict == "vacuous" else [met],
        as_expected=verdict == "pass",
        accounting={} if nothing else summary(0),
    )
