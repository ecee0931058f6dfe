"""harness/scenarios/unclean-election.toml as a judged run folder: broker 1 acknowledges 37 records alone and dies.

Broker 2, which lacks them, is elected. The same story is permitted or a violation, by the topic's configuration.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.history.facts import values
from harness.scenario.file import load
from harness.scenario.written import written_out
from tests.links import struck
from tests.reports.stories.judged_folder import (
    DURATION_S,
    ELECTED_END,
    FIRST_LOST,
    LOST,
    Rows,
    accounting,
    at,
    folder_of,
    partitions,
    states,
    summary,
    write_tables,
    write_verdict,
)
from tests.reports.stories.unclean_findings import acknowledged_at, findings, lost_values

# ---- the loss -------------------------------------------------------------------------------------------------------

_STEPS = (
    ("wait", "acks 400", 0.0, 3.9, "400 acknowledged"),
    ("act", "cut 2>1 3>1", 3.9, 4.004, "a request on 2>1 was lost"),
    ("wait", "isr 1 (topic orders)", 4.004, 7.512, "isr [1] of orders-0"),
    ("wait", "acks +60", 7.512, 8.019, "62 more acknowledged"),
    ("act", "kill 1", 8.019, 8.022, "process of broker 1 gone"),
    ("wait", "leader 2 (topic orders)", 8.022, 10.481, "leader 2, epoch 2"),
    ("act", "heal all", 10.481, 10.502, ""),
    ("wait", "acks +200", 10.502, 12.4, "203 more acknowledged"),
    ("act", "start 1", 12.4, 13.31, "broker 1 registered"),
    ("wait", "recovered true", 13.31, 15.2, "every ISR is full"),
)


def _fault(
    fault: int, kind: str, label: str, nodes: list[int], begin: float | None, end: float | None
) -> dict[str, Any]:
    proofs = {
        "cut": (
            "request from broker 2 to broker 1 unanswered for 100 ms; broker 3 to n100 untouched",
            "fetching again",
        ),
        "kill": ("process 4711 of broker 1 gone: SIGKILL", "registered with node 100 again"),
    }
    proof, healed = proofs.get(kind, (None, None))
    return {
        "fault": fault,
        "kind": kind,
        "label_text": label,
        "nodes": nodes,
        "links": struck("2>1 3>1" if kind == "cut" else ""),
        "trigger_text": "",
        "asked_ns": at((begin or 1.0) - 0.002),
        "begin_ns": None if begin is None else at(begin),
        "end_asked_ns": None if end is None else at(end - 0.01),
        "end_ns": None if end is None else at(end),
        "proved": begin is not None,
        "proof_text": proof if begin is not None else None,
        "healed_proof_text": healed if end is not None else None,
        "step": {"cut": 1, "kill": 4}.get(kind, -1),
    }


def _faults() -> Rows:
    return [
        _fault(0, "cut", "cut 2>1 3>1", [2, 3], 4.004, 10.502),
        _fault(1, "kill", "kill 1", [1], 8.022, 13.31),
        _fault(2, "pause", "pause broker 3", [3], None, None),
    ]


def _bins() -> Rows:
    rows = []
    for number in range(DURATION_S * 2):
        t = number / 2
        quiet = 8.0 <= t < 10.5
        rows.append(
            {
                "time_ns": at(t),
                "width_ns": 500_000_000,
                "ok": 40 if quiet else 62,
                "info": 12 if t == 8.0 else 0,
                "fail": 4 if 8.5 <= t < 10 else 0,
                "polled": 60,
                "p50_ns": 3_000_000 + number * 20_000,
                "p99_ns": 900_000_000 if 7.5 <= t < 10.5 else 11_000_000,
                "max_ns": 1_000_000_000,
            }
        )
    return rows


def _log_rows() -> Rows:
    rows = []
    lost = dict(zip(range(FIRST_LOST, FIRST_LOST + LOST), lost_values(), strict=True))
    for offset in range(FIRST_LOST - 5, FIRST_LOST + LOST + 5):
        old = lost.get(offset) or (values.number(0, 150 + offset - 200) if offset < FIRST_LOST else None)
        new = old if offset < ELECTED_END else values.number(0, 400 + offset)
        number = offset - FIRST_LOST
        for node, end in ((1, FIRST_LOST + LOST), (2, ELECTED_END), (3, 258)):
            held = old if offset < end else None
            rows.append(
                {
                    "finding": "F1",
                    "topic": "orders",
                    "partition": 0,
                    "offset": offset,
                    "acknowledged_value": old or new,
                    "acknowledged_ns": at(acknowledged_at(number)) if offset in lost else at(7.4 if old else 11.0),
                    "acknowledged_acks": -1,
                    "replica": node,
                    "leader_epoch": 1 if held else None,
                    "value": held,
                    "truncated": held is not None and offset >= ELECTED_END,
                    "truncated_ns": at(13.6) if held is not None and offset >= ELECTED_END else None,
                    "end_epoch": 1 if offset < ELECTED_END else 2,
                    "end_value": new,
                    "final_epoch": 1 if offset < ELECTED_END else 2,
                    "final_value": new,
                    "read": offset < ELECTED_END,
                }
            )
    return rows


def _operations() -> Rows:
    return [
        {
            "finding": "F1",
            "kind": "send",
            "operation": 900 + number,
            "process": 1,
            "status": "ok",
            "acks": -1,
            "topic": "orders",
            "partition": 0,
            "offset": FIRST_LOST + number,
            "value": value,
            "leader_epoch": None,
            "invoked_ns": at(acknowledged_at(number) - 0.004),
            "completed_ns": at(acknowledged_at(number)),
        }
        for number, value in enumerate(lost_values())
    ]


def loss_run(
    runs: Path,
    *,
    classification: str = "permitted",
    hostile: str = "",
    system: str = "",
    coordination: str = "",
    elr: Sequence[int] = (),
) -> Path:
    """The unclean election. `hostile` is put wherever a run's own text may stand."""
    text = written_out(load("unclean-election"))
    if classification == "violation":
        text = text.replace('"unclean.leader.election.enable" = "true"', '"unclean.leader.election.enable" = "false"')
    folder = folder_of(runs, "unclean-election", text)
    if system:
        folder.update(environment={"system": system} | ({"coordination": coordination} if coordination else {}))
    found = findings(classification)
    evidence = {
        "accounting": accounting(LOST),
        "log_rows": _log_rows(),
        "operations": _operations(),
        "gaps": [{"topic": "orders", "partition": 0, "begin_ns": at(8.019), "end_ns": at(10.482), "open": False}],
    }
    tables: dict[str, Rows] = {
        "faults": _faults(),
        "steps": [
            {
                "step": n,
                "kind": kind,
                "act": text.partition(" ")[0],
                "step_text": text,
                "begin_ns": at(t0),
                "end_ns": at(t1),
                "outcome": "ok",
                "seen_text": seen,
                "arguments": json.dumps({text: True}),
            }
            for n, (kind, text, t0, t1, seen) in enumerate(_STEPS)
        ],
        "partition_states": [{**row, "elr": elr if row["isr"] == [1] else []} for row in states()],
        "controllers": [{"time_ns": at(-2.5), "uncertainty_ns": 0, "node": 3, "controller_epoch": 1}],
        "broker_events": [
            {
                "node": 1,
                "time_ns": at(13.6),
                "event": "truncation",
                "topic": "orders",
                "partition": 0,
                "leader_epoch": 2,
                "from_offset": FIRST_LOST + LOST,
                "to_offset": ELECTED_END,
                "reason_text": "diverging epoch",
            }
        ],
        "partitions": partitions({0: 650, 1: 650, 2: 650}),
        "bins": _bins(),
    }
    if hostile:
        tables["value_names"] = [{"value": lost_values()[0], "name": hostile}]
        tables["faults"] = [
            {**row, "label_text": hostile, "proof_text": hostile, "trigger_text": hostile} for row in _faults()
        ]
        tables["steps"] = [{**row, "step_text": hostile, "seen_text": hostile} for row in tables["steps"]]
        found = [{**row, "sentence_text": hostile, "cause_text": hostile, "fingerprint": hostile} for row in found]
        folder.update(environment={"os": hostile, hostile: "key"})
    write_tables(folder, tables, evidence, found)
    violation = classification == "violation"
    cuts = {"condition": "truncations", "meaning": "truncations of a replica's log", "required": "1", "seen": 1}
    met = {"condition": "unclean_elections", "meaning": "elections of a leader that was not in the ISR"}
    return write_verdict(
        folder,
        verdict="violation" if violation else "pass",
        exit_code=1 if violation else 0,
        sentence=hostile or f"{LOST} acknowledged records were lost.",
        counts={"violation": 2 if violation else 0, "permitted": 0 if violation else 2, "observation": 1},
        coverage=[{**met, "required": "1", "seen": 1, "met": True}, {**cuts, "met": True}],
        as_expected=not violation,
        accounting=summary(LOST),
    )
