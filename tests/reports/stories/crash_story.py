"""Judged runs of one crash, as different systems would go through it: how fast a leader, how long silent, what lost."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.history.run_folder import RunFolder
from harness.history.schema.schemas import KIND_SEND, STATUS_INFO, STATUS_OK
from harness.scenario.file import load
from harness.scenario.written import written_out
from tests.reports.stories.judged_folder import (
    DURATION_S,
    REPLICAS,
    Rows,
    at,
    folder_of,
    partitions,
    write_tables,
    write_verdict,
)

KILL_S, HEALED_S = 6.0, 12.0
SCENARIO = "leader-crash-acks-all"
_PERIOD_S = 0.05


def crash_run(
    runs: Path,
    *,
    leader_s: float | None = 2.0,
    silent_s: float = 2.5,
    lost: int = 0,
    latency_ms: float = 4.0,
    verdict: str = "pass",
    reasons: Sequence[str] = (),
    seed: int = 7,
    overrides: Sequence[str] = (),
    faults: bool = True,
    versions: Mapping[str, str] | None = None,
    environment: Mapping[str, Any] | None = None,
) -> Path:
    """Broker 1, the leader of orders-0, is killed at 6 s and back at 12 s; `leader_s` None: nobody takes over."""
    scenario = load(SCENARIO, overrides=overrides)
    folder = folder_of(runs, SCENARIO, written_out(scenario))
    (folder.path / "scenario.source.toml").write_text(scenario.source, encoding="utf-8")
    folder.update(seed=seed, load_ended_ns=at(DURATION_S))
    folder.update(versions=dict(versions or {"kafka-chaos": "0.1.0", "machine": "Linux, 2 cores"}))
    folder.update(environment=dict(environment or {}))
    records = sends(silent_s=silent_s if faults else 0.0, latency_ms=latency_ms, open_=leader_s is None)
    tables: dict[str, Rows] = {
        "records": records,
        "faults": [kill_row()] if faults else [],
        "steps": [_step(1, "kill leader(orders/0)")] if faults else [],
        "partition_states": crash_states(leader_s if faults else None),
        "partitions": partitions(dict.fromkeys(REPLICAS, 300)),
        "bins": _bins(silent_s if faults else 0.0),
    }
    acknowledged = sum(row["status"] == STATUS_OK for row in records)
    common = {"topic": "orders", "partition": 0, "acks": -1, "duplicates": 0, "read": 0}
    accounting: Rows = [
        {**common, "outcome": "acknowledged", "in_final_log": True, "count": acknowledged - lost},
        {**common, "outcome": "acknowledged", "in_final_log": False, "count": lost},
        {**common, "outcome": "unknown", "in_final_log": False, "count": len(records) - acknowledged},
    ]
    write_tables(folder, tables, {"accounting": accounting}, _findings(lost))
    return _judged(folder, verdict, reasons, lost, records=len(records), acknowledged=acknowledged)


def _judged(
    folder: RunFolder, verdict: str, reasons: Sequence[str], lost: int, *, records: int, acknowledged: int
) -> Path:
    return write_verdict(
        folder,
        verdict=verdict,
        exit_code={"pass": 0, "violation": 1, "error": 4}.get(verdict, 3),
        sentence=f"{verdict}.",
        reasons=list(reasons),
        counts={"violation": 0, "permitted": int(lost > 0), "observation": 0},
        as_expected=verdict == "pass",
        accounting={
            "sent": records,
            "send_records": records,
            "acknowledged": acknowledged,
            "acknowledged_missing": lost,
            "missing_in_findings": lost,
            "adds_up": True,
            "duplicates": 0,
        },
    )


def kill_row(**changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "fault": 0,
        "kind": "kill",
        "label_text": "kill broker 1",
        "nodes": [1],
        "links": [],
        "proved": True,
        "trigger_text": "",
        "asked_ns": at(KILL_S - 0.01),
        "begin_ns": at(KILL_S),
        "end_asked_ns": at(HEALED_S - 0.1),
        "end_ns": at(HEALED_S),
        "proof_text": "process gone",
        "healed_proof_text": "registered",
        "step": 1,
    }
    return row | changes


def _step(number: int, text: str) -> dict[str, Any]:
    return {
        "step": number,
        "kind": "act",
        "act": text.partition(" ")[0],
        "step_text": text,
        "arguments": json.dumps({text: True}),
        "begin_ns": at(KILL_S),
        "end_ns": at(KILL_S),
        "outcome": "ok",
        "seen_text": "",
    }


def state(
    time_ns: float, partition: int, leader: int, epoch: int, isr: Sequence[int], **changes: Any
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "topic": "orders",
        "partition": partition,
        "time_ns": at(time_ns),
        "uncertainty_ns": 0,
        "exact": True,
        "observer": -1,
        "leader": leader,
        "leader_epoch": epoch,
        "partition_epoch": epoch,
        "controller_epoch": 1,
        "isr": list(isr),
        "isr_before": None,
        "leader_before": None,
        "unclean": False,
        "replicas": REPLICAS[partition],
    }
    return row | changes


def crash_states(leader_s: float | None) -> Rows:
    """orders-0 changes its leader, and after the healing its preferred one leads again."""
    rows = [state(-2.0, part, replicas[0], 0, replicas) for part, replicas in REPLICAS.items()]
    if leader_s is None:
        return [*rows, state(KILL_S + 0.1, 0, -1, 0, [1])]
    return [
        *rows,
        state(KILL_S + leader_s, 0, 2, 1, [2, 3]),
        state(HEALED_S + 0.5, 0, 2, 1, [2, 3, 1]),
        state(HEALED_S + 1.5, 0, 1, 2, [2, 3, 1]),
    ]


def sends(*, silent_s: float, latency_ms: float, open_: bool = False) -> list[dict[str, Any]]:
    """A record every 50 ms to each of three partitions; orders-0 answers nothing for `silent_s` after the kill."""
    rows = []
    for number in range(int(DURATION_S / _PERIOD_S)):
        t = number * _PERIOD_S
        for part in REPLICAS:
            silent = part == 0 and t >= KILL_S and (open_ or t < KILL_S + silent_s)
            rows.append(
                {
                    "kind": KIND_SEND,
                    "status": STATUS_INFO if silent else STATUS_OK,
                    "acks": -1,
                    "operation": number,
                    "process": 0,
                    "topic": "orders",
                    "partition": part,
                    "partition_id": part,
                    "position": 0,
                    "offset": number,
                    "value": number,
                    "invoked_ns": at(t),
                    "completed_ns": at(t + latency_ms / 1e3),
                }
            )
    return rows


def _bins(silent_s: float) -> Rows:
    return [
        {
            "time_ns": at(second),
            "width_ns": 1_000_000_000,
            "ok": 40 if KILL_S <= second < KILL_S + silent_s else 60,
            "info": 0,
            "fail": 0,
            "polled": 60,
            "p50_ns": 4_000_000,
            "p99_ns": 5_000_000,
            "max_ns": 5_000_000,
        }
        for second in range(DURATION_S)
    ]


def _findings(lost: int) -> Rows:
    if not lost:
        return []
    return [
        {
            "finding": "F1",
            "check": "lost-write",
            "classification": "permitted",
            "kind": "lost",
            "topic": "orders",
            "partition": 0,
            "offset_first": 120,
            "offset_last": 119 + lost,
            "count": lost,
            "values": [],
            "offsets": [],
            "operations": [],
            "first_ns": at(KILL_S - 1),
            "last_ns": at(KILL_S),
            "faults": [0],
            "leader_epoch": 1,
            "cause_text": "fail-over",
            "sentence_text": "lost",
            "fingerprint": "f00d",
            "evidence": json.dumps({"cause": "fail-over"}),
        }
    ]
