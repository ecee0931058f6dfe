"""Builds a judged run folder without a cluster and without Spark: a small story of an unclean election."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.history.facts import values
from harness.history.run_folder import RunFolder
from harness.history.schema.schemas import EVIDENCE, FINDINGS, TABLES
from harness.host.clock import Clock

SECOND = 1_000_000_000
SCENARIO = """# The followers are cut off, the leader goes on alone and dies, and one without its records is elected.
# scenario: unclean-election
[cluster]
brokers = [3, 1, 2]
[[topics]]
name = "orders"
assignment = [[1, 2, 3], [2, 3, 1]]
settings = { "min.insync.replicas" = 1, "unclean.leader.election.enable" = true }
[expect]
verdict = "pass"
[coverage]
unclean_elections = 1
"""


class FixedClock:
    """A clock that stands still: the page must not depend on the hour."""

    def monotonic_ns(self) -> int:
        return 100 * SECOND

    def wall_ns(self) -> int:
        return 1_790_000_000 * SECOND


def at(seconds: float) -> int:
    return 100 * SECOND + int(seconds * SECOND)


def finding(**changes: Any) -> dict[str, Any]:
    lost = [values.number(4, sequence) for sequence in range(10, 13)]
    evidence = {
        "cause": "unclean-election",
        "elected": 2,
        "elected_epoch": 2,
        "elected_log_end": 10,
        "unclean": True,
        "isr_before": [1],
        "lost_range": {"first": 10, "last": 12},
        "log_ends": [
            {"replica": 1, "log_end_offset": 13, "state": "leader before", "in_isr": True, "source": "kill snapshot"},
            {"replica": 2, "log_end_offset": 10, "state": "elected", "in_isr": False, "source": "journal"},
        ],
        "rules": [{"rule": "An unclean election came between.", "holds": True, "evidence": "Epoch 2 began at 10."}],
        "prevention": ["With unclean.leader.election.enable=false nothing would have been lost."],
        "cause_chain": [
            link(3.0, "fault", "Fault 0 began: kill broker 1.", fault=0, nodes=[1]),
            link(
                4.0,
                "election",
                "Broker 2 was elected uncleanly.",
                decisive=True,
                nodes=[2],
                epoch_before=0,
                epoch_after=2,
            ),
            link(6.0, "truncation", "Broker 1 truncated its log.", nodes=[1], offset_before=13, offset_after=10),
        ],
    }
    return {
        "run": 0,
        "finding": "F1",
        "check": "lost-write",
        "classification": "permitted",
        "kind": "lost",
        "topic": "orders",
        "partition": 0,
        "offset_first": 10,
        "offset_last": 12,
        "count": 3,
        "values": lost,
        "offsets": [10, 11, 12],
        "operations": [],
        "first_ns": at(2.0),
        "last_ns": at(2.1),
        "faults": [0],
        "leader_epoch": 2,
        "cause_text": "unclean-election",
        "sentence_text": "3 records acknowledged with acks=all at offsets 10-12 of orders-0 are in no final log.",
        "fingerprint": "f00d",
        "evidence": json.dumps(evidence),
    } | changes


def link(time_ns: float, event: str, sentence: str, **more: Any) -> dict[str, Any]:
    blank: dict[str, Any] = {
        "decisive": False,
        "epoch_before": None,
        "epoch_after": None,
        "offset_before": None,
        "offset_after": None,
        "nodes": [],
        "fault": None,
    }
    return {"t_ns": at(time_ns), "event": event, "sentence": sentence, **blank, **more}


def _states() -> list[dict[str, Any]]:
    def state(
        time_ns: float, leader: int, epoch: int, isr: list[int], before: list[int] | None, unclean: bool
    ) -> dict[str, Any]:
        return {
            "run": 0,
            "topic": "orders",
            "partition": 0,
            "time_ns": at(time_ns),
            "uncertainty_ns": 0,
            "exact": True,
            "observer": -1,
            "leader": leader,
            "leader_epoch": epoch,
            "partition_epoch": epoch,
            "controller_epoch": 1,
            "isr": isr,
            "isr_before": before,
            "leader_before": 1 if before else None,
            "unclean": unclean,
            "replicas": [1, 2, 3],
        }

    return [
        state(-1.0, 1, 0, [1, 2, 3], None, False),
        state(1.5, 1, 0, [1], [1, 2, 3], False),
        state(4.0, 2, 2, [2], [1], True),
    ]


def build_run(
    runs: Path,
    *,
    findings: list[dict[str, Any]] | None = None,
    verdict: str = "pass",
    sentence: str = "Pass: of 30 acknowledged records, 3 were lost, and the contract permits it.",
    names: dict[int, str] | None = None,
) -> Path:
    clock: Clock = FixedClock()
    folder = RunFolder.create(runs, scenario="unclean-election", clock=clock, seed=7, stamp="20260101-000000")
    folder.write_scenario(SCENARIO)
    folder.update(status="complete", load_began_ns=at(0), load_ended_ns=at(8), versions={"kafka-chaos": "0.1.0"})
    built_rows = [finding()] if findings is None else findings
    fault = {
        "run": 0,
        "fault": 0,
        "kind": "kill",
        "label_text": "kill broker 1",
        "nodes": [1],
        "links": [],
        "proved": True,
        "trigger_text": "",
        "asked_ns": at(3),
        "begin_ns": at(3),
        "end_asked_ns": at(5),
        "end_ns": at(5.5),
        "proof_text": "process 1 is gone",
        "healed_proof_text": "it runs again",
        "step": 0,
    }
    rows: dict[str, list[dict[str, Any]]] = {
        "faults": [fault],
        "partition_states": _states(),
        "controllers": [{"run": 0, "time_ns": at(-1), "uncertainty_ns": 0, "node": 3, "controller_epoch": 1}],
        "partitions": [
            {
                "run": 0,
                "partition_id": part,
                "topic": "orders",
                "partition": part,
                "replicas": [1, 2, 3],
                "read_to_end": True,
                "end_offset": 30,
                "note_text": "",
            }
            for part in (0, 1)
        ],
        "bins": [
            {
                "run": 0,
                "time_ns": at(second),
                "width_ns": SECOND,
                "ok": 10,
                "info": 0,
                "fail": 0,
                "polled": 5,
                "p50_ns": 2_000_000,
                "p99_ns": 9_000_000,
                "max_ns": 9_000_000,
            }
            for second in range(8)
        ],
        "steps": [
            {
                "run": 0,
                "step": 0,
                "kind": "act",
                "act": "kill",
                "step_text": "kill 1",
                "begin_ns": at(3),
                "end_ns": at(3.1),
                "outcome": "ok",
                "seen_text": "gone",
            }
        ],
        "value_names": [{"run": 0, "value": value, "name": text} for value, text in (names or {}).items()],
        "findings": built_rows,
    }
    for name in (*TABLES, "findings"):
        schema = FINDINGS if name == "findings" else TABLES[name]
        folder.write_table(name, pa.Table.from_pylist(rows.get(name, []), schema=schema))
    _write_evidence(folder.path, built_rows)
    lost = sum(row["count"] for row in built_rows if row["check"] == "lost-write")
    (folder.path / "verdict.json").write_text(
        json.dumps(
            {
                "verdict": verdict,
                "exit_code": {"pass": 0, "violation": 1, "error": 4}.get(verdict, 3),
                "sentence": sentence,
                "reasons": [] if verdict == "pass" else [sentence],
                "counts": {"violation": 0, "permitted": len(built_rows), "observation": 0},
                "coverage": [
                    {"condition": "elections", "meaning": "elections", "required": "1", "seen": 1, "met": True}
                ],
                "expectations": [],
                "as_expected": True,
                "expected": "pass",
                "accounting": {"sent": 30, "acknowledged": 30, "acknowledged_missing": lost, "adds_up": True},
            }
        ),
        encoding="utf-8",
    )
    return folder.path


def _write_evidence(run: Path, rows_given: list[dict[str, Any]]) -> None:
    lost = sum(row["count"] for row in rows_given if row["check"] == "lost-write")
    common = {"topic": "orders", "partition": 0, "acks": -1}
    accounting = [
        {**common, "outcome": "acknowledged", "in_final_log": True, "count": 30 - lost},
        {**common, "outcome": "acknowledged", "in_final_log": False, "count": lost},
    ]
    log_rows = [
        {
            "finding": row["finding"],
            "offset": offset,
            "acknowledged_value": value,
            "acknowledged_ns": at(2),
            "replica": node,
            "leader_epoch": 0,
            "value": value if node == 1 else None,
            "truncated": node == 1,
            "truncated_ns": at(6),
            "final_epoch": 2,
            "final_value": values.number(9, offset),
        }
        for row in rows_given
        for offset, value in zip(row["offsets"] or (), row["values"] or (), strict=True)
        for node in (1, 2)
    ]
    for name, rows in (("accounting", accounting), ("log_rows", log_rows)):
        pq.write_table(pa.Table.from_pylist(rows, schema=EVIDENCE[name]), run / "tables" / f"evidence_{name}.parquet")
