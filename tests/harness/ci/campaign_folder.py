"""Campaign folders as a campaign leaves them, without running one."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

_s, _i, _f, _b = pa.string(), pa.int64(), pa.float64(), pa.bool_()
SCHEMAS: Mapping[str, pa.Schema] = {
    "runs": pa.schema(
        {
            "number": _i,
            "key": _s,
            "scenario": _s,
            "system": _s,
            "world": _s,
            "client": _s,
            "seed": _i,
            "profile": _s,
            "folder": _s,
            "verdict": _s,
            "stated": _s,
            "as_stated": _b,
            "sentence_text": _s,
            "began": _s,
            "took_s": _f,
            "operations": _i,
            "records_acknowledged": _i,
            "kept": _b,
        }
    ),
    "findings": pa.schema(
        {
            "fingerprint": _s,
            "check": _s,
            "class": _s,
            "cause": _s,
            "count": _i,
            "runs": _i,
            "faults": pa.list_(_s),
            "first_run": _i,
            "last_run": _i,
            "look_at": _i,
            "smallest_faults": _i,
            "flaky": _b,
            "accepted_reason": _s,
            "accepted_until": _s,
        }
    ),
    "occurrences": pa.schema({"fingerprint": _s, "run": _i, "count": _i}),
    "measures": pa.schema(
        {"run": _i, "system": _s, "fault": _s, "recovery_s": _f, "gap_s": _f, "throughput_per_s": _f}
    ),
}


def run_row(number: int, **changed: Any) -> dict[str, Any]:
    return {
        "number": number,
        "key": f"k{number}",
        "scenario": "leader-crash",
        "system": "reference",
        "world": "local",
        "client": "kafka-python",
        "seed": number,
        "profile": "",
        "folder": f"runs/run-{number}",
        "verdict": "pass",
        "stated": "pass",
        "as_stated": True,
        "sentence_text": "All 200 acknowledged records were read.",
        "began": "2026-11-23T02:00:00Z",
        "took_s": 12.5,
        "operations": 400,
        "records_acknowledged": 200,
        "kept": True,
        **changed,
    }


def group_row(fingerprint: str, **changed: Any) -> dict[str, Any]:
    return {
        "fingerprint": fingerprint,
        "check": "lost-write",
        "class": "violation",
        "cause": "no cause",
        "count": 7,
        "runs": 1,
        "faults": ["kill"],
        "first_run": 1,
        "last_run": 1,
        "look_at": 1,
        "smallest_faults": 1,
        "flaky": False,
        "accepted_reason": "",
        "accepted_until": "",
        **changed,
    }


def campaign_folder(
    path: Path,
    runs: Sequence[Mapping[str, Any]],
    *,
    findings: Sequence[Mapping[str, Any]] = (),
    occurrences: Sequence[tuple[str, int]] = (),
    measures: Sequence[Mapping[str, Any]] = (),
    verdict: str = "pass",
) -> Path:
    (path / "tables").mkdir(parents=True)
    rows: Mapping[str, Sequence[Mapping[str, Any]]] = {
        "runs": runs,
        "findings": findings,
        "occurrences": [{"fingerprint": each, "run": run, "count": 1} for each, run in occurrences],
        "measures": measures,
    }
    for name, schema in SCHEMAS.items():
        pq.write_table(pa.Table.from_pylist(list(rows[name]), schema=schema), path / "tables" / f"{name}.parquet")
    fields = {"verdict": verdict, "exit_code": 0, "sentence": "What it came to.", "counts": {}}
    (path / "verdict.json").write_text(json.dumps(fields), encoding="utf-8")
    campaign = {"version": 1, "name": "nightly", "seed": 7, "begun": "2026-11-23T02:00:00Z"}
    (path / "campaign.json").write_text(json.dumps(campaign), encoding="utf-8")
    return path
