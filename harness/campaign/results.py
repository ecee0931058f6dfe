"""A campaign's results in its folder: the tables and verdict.json, from which its page is made (docs/campaigns.md).

They are made anew from the journal each time, so that they never disagree with it.
"""

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from harness.campaign.outcome import Outcome
from harness.campaign.plan import Plan
from harness.campaign.rows import NOT_RUN, RunJudged
from harness.history.accepted import Accepted
from harness.history.files_below import FilesBelow

_s, _i, _f, _b = pa.string(), pa.int64(), pa.float64(), pa.bool_()
SCHEMAS: Mapping[str, pa.Schema] = {
    name: pa.schema(columns)
    for name, columns in {
        "runs": {
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
            "schedule_faults": _i,
            "kept": _b,
        },
        "findings": {
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
        },
        "occurrences": {"fingerprint": _s, "run": _i, "count": _i},
        "situations": {
            "run": _i,
            "kind": _s,
            "role": _s,
            "isr_size": _i,
            "epoch_change": _b,
            "in_flight": _s,
            "before": _s,
            "times": _i,
        },
        "measures": {
            "run": _i,
            "system": _s,
            "fault": _s,
            "recovery_s": _f,
            "recovery_open": _b,
            "gap_s": _f,
            "gap_open": _b,
            "throughput_per_s": _f,
        },
    }.items()
}
Row = dict[str, Any]


def tables_of(plan: Plan, judged: Mapping[int, RunJudged], outcome: Outcome) -> Mapping[str, list[Row]]:
    """The rows of each table, in the columns of SCHEMAS."""
    system = {run.number: run.system for run in plan.runs}
    runs = [judged[number] for number in sorted(judged)]
    return {
        "runs": _runs(plan, judged, outcome.why_not_run),
        "findings": [
            {
                "fingerprint": group.fingerprint,
                "check": group.check,
                "class": group.classification,
                "cause": group.cause,
                "count": group.count,
                "runs": len(group.runs),
                "faults": list(group.faults),
                "first_run": group.runs[0],
                "last_run": group.runs[-1],
                "look_at": group.look_at,
                "smallest_faults": group.smallest_faults,
                "flaky": group.flaky,
                "accepted_reason": group.accepted.reason if group.accepted else "",
                "accepted_until": group.accepted.until.isoformat() if group.accepted else "",
            }
            for group in outcome.groups
        ],
        "occurrences": [
            {"fingerprint": seen.fingerprint, "run": run.number, "count": seen.count}
            for run in runs
            for seen in run.findings
        ],
        "situations": [{"run": run.number} | msgspec.structs.asdict(each) for run in runs for each in run.situations],
        "measures": [
            {"run": run.number, "system": system[run.number]} | msgspec.structs.asdict(each)
            for run in runs
            for each in run.measures
        ],
    }


def _runs(plan: Plan, judged: Mapping[int, RunJudged], why_not_run: Mapping[int, str]) -> list[Row]:
    rows = []
    for planned in plan.runs:
        row: Row = {
            "number": planned.number,
            "key": planned.key,
            "scenario": planned.scenario,
            "system": planned.system,
            "world": planned.world,
            "client": planned.client,
            "seed": planned.seed,
            "profile": planned.profile,
            "folder": "",
            "verdict": NOT_RUN,
            "stated": "",
            "as_stated": False,
            "sentence_text": why_not_run.get(planned.number, ""),
            "began": "",
            "took_s": None,
            "operations": 0,
            "records_acknowledged": 0,
            "schedule_faults": 0,
            "kept": False,
        }
        if (run := judged.get(planned.number)) is not None:
            fields = msgspec.structs.asdict(run)
            row |= {name: fields[name] for name in row if name in fields} | {"kept": bool(run.folder)}
            row["client"] = run.client or planned.client
        rows.append(row)
    return rows


def write_results(files: FilesBelow, plan: Plan, judged: Mapping[int, RunJudged], outcome: Outcome) -> None:
    """Raises HarnessError."""
    files.make_folder("tables")
    for name, rows in tables_of(plan, judged, outcome).items():
        files.replace(f"tables/{name}.parquet", _parquet(rows, SCHEMAS[name]))
    fields = {
        "verdict": outcome.verdict.value,
        "exit_code": outcome.exit_code,
        "sentence": outcome.sentence,
        "counts": dict(outcome.counts),
        "accepted_runs": outcome.accepted_runs,
        "stop": outcome.stop,
        "expired": _known(outcome.expired),
        "unseen": _known(outcome.unseen),
        "violations": sum(each.classification == "violation" and each.accepted is None for each in outcome.groups),
    }
    files.replace("verdict.json", json.dumps(fields, indent=2).encode() + b"\n")


def _known(findings: Sequence[Accepted]) -> list[dict[str, str]]:
    return [
        {"fingerprint": each.fingerprint, "reason": each.reason, "until": each.until.isoformat()} for each in findings
    ]


def _parquet(rows: Sequence[Row], schema: pa.Schema) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), file)
    return file.getvalue()
