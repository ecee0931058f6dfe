"""A finding about a group or a transaction is shown with what the group and the transaction did."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from harness.history.run_folder import RunFolder
from harness.history.schema.schemas import TABLES
from reports.run.nearby import EVENTS_MAX, event, nearest
from reports.run.proof import proof_of
from reports.run_data import RunData
from tests.reports.stories.build_run import at, build_run, finding


def run_with(runs: Path, table: str, rows: list[dict[str, Any]], evidence: dict[str, Any]) -> Path:
    reported = finding(check="lost-group-offset", kind="lost", values=[], offsets=[], evidence=json.dumps(evidence))
    run = build_run(runs, findings=[reported])
    RunFolder(run).write_table(table, pa.Table.from_pylist([{"run": 0, **row} for row in rows], schema=TABLES[table]))
    return run


def group_event(time_ns: float, what: str, **more: Any) -> dict[str, Any]:
    common = {
        "process": 4,
        "group": "readers",
        "topic": "orders",
        "partition": 0,
        "status": 0,
        "invoked_ns": at(time_ns),
        "completed_ns": at(time_ns),
    }
    return {**common, "event": what, **more}


def test_commits_and_fetches_of_the_group_are_reported(tmp_path: Path) -> None:
    rows = [
        group_event(1.0, "assigned", generation=3),
        group_event(2.0, "committed", offset=5, generation=3),
        group_event(2.5, "committed", offset=9, status=2, error="RequestTimedOut"),
        group_event(3.5, "fetched", offset=-1, process=7),
        group_event(3.6, "revoked"),
        group_event(4.0, "committed", offset=1, group="others"),
        group_event(4.0, "committed", offset=1, partition=1),
    ]
    text = "\n".join(proof_of(run_with(tmp_path, "group_events", rows, {"group": "readers"}), "F1"))
    assert "1.000 s  p4 is assigned orders-0 (generation 3)" in text
    assert "2.000 s  p4 commits offset 5 of orders-0 (generation 3): ok" in text
    assert "2.500 s  p4 commits offset 9 of orders-0: no answer, RequestTimedOut" in text
    assert "3.500 s  p7 asks for the committed offset of orders-0: none (ok)" in text
    assert "3.600 s  orders-0 is revoked from p4" in text
    assert "commits offset 1" not in text
    assert "4.000 s  Epoch 2: broker 2 leads, elected uncleanly" in text  # the cluster's own events stand between


@pytest.mark.parametrize("named", [[7], [{"transaction": 7, "missing": []}]])
def test_begin_and_end_of_the_transactions_are_reported(tmp_path: Path, named: list[Any]) -> None:
    rows: list[dict[str, Any]] = [
        {
            "transaction": 7,
            "process": 2,
            "invoked_ns": at(1),
            "completed_ns": at(2),
            "outcome": 1,
            "error": "InvalidTxnState",
        },
        {"transaction": 8, "process": 2, "invoked_ns": at(3), "completed_ns": at(4), "outcome": 0},
    ]
    text = "\n".join(proof_of(run_with(tmp_path, "transactions", rows, {"transactions": named}), "F1"))
    assert "1.000 s  Transaction 7 of p2 begins" in text
    assert "2.000 s  Transaction 7 of p2 ends: aborted (InvalidTxnState)" in text
    assert "Transaction 8" not in text


def test_of_many_events_the_deciding_and_the_nearest_are_reported_and_the_rest_counted(tmp_path: Path) -> None:
    data = RunData(build_run(tmp_path))
    many = [(at(second), event(data, at(second), f"event {second}", key=second == 90)) for second in range(100)]
    kept = nearest(data, many, at(10), at(12))
    texts = [row.operation for _, row in kept]
    assert len(kept) == EVENTS_MAX + 1
    assert texts[0] == "event 90"
    assert {"event 10", "event 11", "event 12", "event 20"} <= set(texts)
    assert texts[-1].startswith(f"{100 - EVENTS_MAX} more events")
    assert nearest(data, many[:EVENTS_MAX], at(10), at(12)) == many[:EVENTS_MAX]
