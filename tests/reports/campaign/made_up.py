"""The folder of a campaign that never ran, as large as a test wants it: the same every time, with every verdict."""

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.campaign.results import SCHEMAS

SYSTEMS = ("reference", "kafka:4.3.1")
KINDS = ("kill", "pause", "cut", "slow", "restart", "power-loss", "disk-full")
STOPPING = ("kill", "pause", "power-loss", "restart")
NUMBER_OF_A_STATED_VIOLATION = 21
_SENTENCES = {
    "pass": "Pass: of 3812 acknowledged records, none was lost.",
    "violation": "Violation: 12 records acknowledged with acks=all are in no final log.",
    "inconclusive": "Inconclusive: the effect of a fault was not seen.",
    "vacuous": "Vacuous: no leader was elected.",
    "error": "Error: broker 2 did not start within 60 s.",
    "not_run": "",
}
Row = dict[str, Any]


def made_up_campaign(folder: Path, *, runs: int = 60, groups: int = 5, text: str = "") -> Path:
    """Every seventh run is a violation, with a finding of one of the groups; the last run was not begun.

    text: stands for every name and sentence in it.
    """
    chance = random.Random(15)
    planned = [_run(number, last=number == runs) for number in range(1, runs + 1)]
    found: dict[str, dict[int, int]] = {f"fp{number}": {} for number in range(groups)}
    violated = [run["number"] for run in planned if run["verdict"] == "violation"]
    for place, number in enumerate(violated):
        found[f"fp{place % groups}"][number] = 1 + place % 3
    tables: Mapping[str, list[Row]] = {
        "runs": planned,
        "findings": [_group(name, counts, place) for place, (name, counts) in enumerate(found.items()) if counts],
        "occurrences": [
            {"fingerprint": name, "run": run, "count": count}
            for name, counts in found.items()
            for run, count in counts.items()
        ],
        "situations": _situations(runs),
        "measures": [
            row for run in planned if run["verdict"] not in ("not_run", "error") for row in _measures(run, chance)
        ],
    }
    (folder / "tables").mkdir(parents=True, exist_ok=True)
    for name, rows in tables.items():
        built_rows = [_with_text(row, text) for row in rows] if text else rows
        pq.write_table(pa.Table.from_pylist(built_rows, schema=SCHEMAS[name]), folder / "tables" / f"{name}.parquet")
    plan = {
        "name": "made-up",
        "seed": 15,
        "begun": "2026-11-23 03:00:00 UTC",
        "harness_version": "0.3.0",
        "command": f"kafka-chaos campaign --random {runs} --seed 15",
    }
    sentence = f"{runs} runs: {len(violated)} violation."
    verdict = {"verdict": "violation", "exit_code": 1, "sentence": text or sentence}
    _write(folder / "campaign.json", dict.fromkeys(plan, text) if text else plan)
    _write(folder / "verdict.json", verdict)
    return folder


def _write(file: Path, content: Mapping[str, Any]) -> None:
    file.write_text(json.dumps(content), encoding="utf-8")


def _with_text(row: Row, text: str) -> Row:
    """But for what is no text of anybody's: verdicts, classes and the fingerprints that join the tables."""
    kept = ("verdict", "class", "fingerprint", "profile")
    fields = {name: text if isinstance(value, str) and name not in kept else value for name, value in row.items()}
    if row.get("profile"):
        fields["profile"] = text
    if "faults" in row:
        fields["faults"] = [text] * len(row["faults"])
    return fields


def verdict_of(number: int) -> str:
    kinds = {0: "violation", 1: "inconclusive" if number % 2 else "vacuous", 2: "error" if number % 3 else "pass"}
    return kinds.get(number % 7, "pass")


def _run(number: int, *, last: bool) -> Row:
    verdict = "not_run" if last else verdict_of(number)
    profile = ("replication", "elections", "")[number % 3]
    stated = number == NUMBER_OF_A_STATED_VIOLATION
    return {
        "number": number,
        "key": f"{number:016x}",
        "system": SYSTEMS[number % 5 == 0],
        "world": "local",
        "scenario": f"{profile}-{number}" if profile else "leader-crash-acks-all",
        "client": "kafka-python",
        "seed": number * 7919,
        "profile": profile,
        "folder": f"runs/run-{number}" if verdict == "violation" else "",
        "verdict": verdict,
        "stated": "violation" if stated else "pass",
        "as_stated": stated or verdict == "pass",
        "sentence_text": _SENTENCES[verdict],
        "began": "" if last else f"2026-11-23 03:{number % 60:02d}:11 UTC",
        "took_s": None if last else 12.0 + number % 9,
        "operations": 0 if last else 4000,
        "records_acknowledged": 0 if last else 3812,
        "schedule_faults": 3,
        "kept": verdict == "violation",
    }


def _measures(run: Row, chance: random.Random) -> list[Row]:
    return [
        {
            "run": run["number"],
            "system": run["system"],
            "fault": kind,
            "recovery_s": chance.lognormvariate(0.8, 0.7) if kind in STOPPING else None,
            "recovery_open": kind in STOPPING and chance.random() < 0.02,
            "gap_s": chance.lognormvariate(-0.5, 1.0),
            "gap_open": False,
            "throughput_per_s": chance.uniform(40, 210),
        }
        for kind in sorted(chance.sample(KINDS, 3))
    ]


def _group(fingerprint: str, counts: Mapping[int, int], place: int) -> Row:
    return {
        "fingerprint": fingerprint,
        "check": ("lost-write", "divergence", "unclean-election")[place % 3],
        "class": ("violation", "violation", "permitted")[place % 3],
        "cause": "truncated below the high watermark",
        "count": sum(counts.values()),
        "runs": len(counts),
        "faults": list(KINDS[place % 4 : place % 4 + 2]),
        "first_run": min(counts),
        "last_run": max(counts),
        "look_at": min(counts),
        "smallest_faults": place % 3,
        "flaky": place % 4 == 1,
        "accepted_reason": "known as ORDERS-12" if place % 5 == 3 else "",
        "accepted_until": "2027-01-31" if place % 5 == 3 else "",
    }


def _situations(runs: int) -> list[Row]:
    """A controller that is slow after a pause is never reached."""
    every = [
        (kind, role, isr, before)
        for kind in KINDS
        for role in ("leader", "follower", "controller")
        for isr in (1, 2, 3)
        for before in ("", "kill", "pause")
        if (kind, role) != ("slow", "controller")
    ]
    return [
        {
            "run": 1 + place % runs,
            "kind": kind,
            "role": role,
            "isr_size": isr,
            "epoch_change": place % 2 == 0,
            "in_flight": ("nothing", "records")[place % 2],
            "before": before,
            "times": 1 + (place * 37) % 150,
        }
        for place, (kind, role, isr, before) in enumerate(every)
    ]
