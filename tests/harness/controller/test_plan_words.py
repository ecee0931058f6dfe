"""The terminal tells when each fault of a schedule was planned and came, who came late, and who did not come."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from harness.controller.faults.plan_words import plan_words
from harness.history.run_folder import RunFolder
from harness.history.schema.schemas import TABLES
from tests.jumping_time import CLOCK

SECOND = 10**9


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    folder = RunFolder.create(tmp_path, scenario="story", clock=CLOCK, seed=1, stamp="now")
    folder.update(load_began_ns=10 * SECOND)
    return folder


def fault(number: int, label: str, *, planned: float | None, asked: float, **more: Any) -> dict[str, Any]:
    return {
        "run": 0,
        "fault": number,
        "kind": "pause",
        "nodes": [1],
        "label_text": label,
        "planned_ns": None if planned is None else int(planned * SECOND),
        "asked_ns": int(asked * SECOND),
        "begin_ns": int(asked * SECOND) + SECOND // 4,
    } | more


def versions_of(folder: RunFolder, *rows: dict[str, Any]) -> list[str]:
    folder.write_table("faults", pa.Table.from_pylist(list(rows), TABLES["faults"]))
    return plan_words(folder)


def test_each_fault_of_a_schedule_is_reported_in_its_order_and_the_late_one_with_a_warning(folder: RunFolder) -> None:
    assert versions_of(
        folder,
        fault(1, "isolate of broker 2", planned=15, asked=18, scheduled=1),
        fault(0, "pause of broker 1", planned=15, asked=15, scheduled=0),
        fault(2, "kill of broker 3", planned=16, asked=16, scheduled=2, begin_ns=None),
    ) == [
        "Faults, in seconds since the load began:",
        "  planned 5.000, began 5.250: pause of broker 1",
        "  planned 5.000, began 8.250: isolate of broker 2  WARNING: 3.0 s late",
        "  planned 6.000, no effect seen: kill of broker 3",
    ]


def test_of_steps_only_what_came_late_is_reported_and_of_older_runs_nothing(folder: RunFolder) -> None:
    steps = [
        fault(0, "kill of broker 1", planned=15, asked=15.1, step=2),
        fault(1, "kill of broker 2", planned=16, asked=18, step=3),
    ]
    assert versions_of(folder, *steps)[1:] == ["  planned 6.000, began 8.250: kill of broker 2  WARNING: 2.0 s late"]
    assert versions_of(folder, fault(0, "kill of broker 1", planned=None, asked=15)) == []


def test_what_was_skipped_is_reported_with_its_reason(folder: RunFolder) -> None:
    folder.update(skipped_faults=[{"kind": "pause", "target": "2", "trigger": "at 3 s", "why": "no-victim"}])
    assert versions_of(folder)[1:] == [
        "  skipped: pause of 2 (at 3 s): nobody that it could strike was there and up when it was to begin"
    ]
