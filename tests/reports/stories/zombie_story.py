"""A zombie as a judged run folder: broker 1 is paused, deposed, resumed, acknowledges with acks=1, and truncates."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.reports.stories.judged_folder import at
from tests.reports.stories.unclean_story import loss_run

ELECTED_AT, ASKED_AT, RUNS_AT, ACKNOWLEDGED_AT, CUT_AT = 5.352, 10.871, 10.894, 10.89, 10.97


def zombie_run(runs: Path, *, as_stored_before: bool = False) -> Path:
    """The unclean story with another chain. as_stored_before: nothing tells of the resume, or of who was deposed."""
    run = loss_run(runs)
    path = run / "tables" / "findings.parquet"
    table = pq.read_table(path)
    rows = table.to_pylist()
    evidence = json.loads(rows[0]["evidence"])
    evidence |= {"cause": "fail-over", "unclean": False, "isr_before": [1, 2, 3], "cause_chain": _chain()}
    if as_stored_before:
        evidence["cause_chain"] = [
            {key: value for key, value in link.items() if key not in ("deposed", "leader")}
            | {"decisive": link["event"] == "election"}
            for link in evidence["cause_chain"]
            if link["event"] != "resume"
        ]
    rows[0] |= {"first_ns": at(ACKNOWLEDGED_AT), "last_ns": at(ACKNOWLEDGED_AT), "evidence": json.dumps(evidence)}
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)
    return run


def _chain() -> list[dict[str, Any]]:
    first, last = 260, 296
    return [
        _link(3.0, "fault", "Fault 1 began.", nodes=[1], t_end_ns=at(RUNS_AT)),
        _link(
            ELECTED_AT,
            "election",
            "Broker 2 was elected cleanly.",
            nodes=[2],
            epoch_before=1,
            epoch_after=2,
            offset_after=first,
            unclean=False,
        ),
        _link(
            ASKED_AT,
            "resume",
            "Broker 1 was resumed.",
            decisive=True,
            nodes=[1],
            fault=1,
            t_end_ns=at(RUNS_AT),
            held_by="paused",
            held_s=7.871,
            leader=2,
            epoch_before=1,
            epoch_after=2,
        ),
        _link(
            ACKNOWLEDGED_AT,
            "acknowledged",
            "37 records.",
            t_end_ns=at(ACKNOWLEDGED_AT),
            epoch_before=1,
            epoch_after=1,
            offset_before=first,
            offset_after=last,
            count=37,
            acks=[1],
            deposed=True,
            leader=1,
        ),
        _link(
            CUT_AT,
            "truncation",
            "Broker 1 truncated.",
            nodes=[1],
            epoch_after=2,
            offset_before=last + 1,
            offset_after=first,
        ),
    ]


def _link(seconds: float, event: str, sentence: str, **more: Any) -> dict[str, Any]:
    return {"t_ns": at(seconds), "event": event, "sentence": sentence, "decisive": False, "nodes": []} | more
