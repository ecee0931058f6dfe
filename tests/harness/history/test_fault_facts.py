"""When faults came, against when they were planned; and which were in force together."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.history.facts.fault_facts import came_late, late_s, overlapping
from harness.history.schema.cluster_rows import FaultRow
from harness.history.schema.parquet_tables import read_table
from harness.history.schema.schemas import ADDED_COLUMNS, TABLES
from tests.rows import row_of

SECOND = 10**9


def fault(number: int, *nodes: int, begin: float | None, end: float | None = None, **more: Any) -> FaultRow:
    fields: dict[str, Any] = {
        "fault": number,
        "nodes": list(nodes),
        "proved": begin is not None,
        "asked_ns": int((begin or 0) * SECOND),
        "begin_ns": None if begin is None else int(begin * SECOND),
        "end_ns": None if end is None else int(end * SECOND),
        "planned_ns": None,
        "scheduled": None,
        "step": None,
    } | more
    return row_of(FaultRow, **fields)


@pytest.mark.parametrize(
    ("planned", "asked", "seen", "by", "late"),
    [(5.0, 5.2, 9.0, 0.2, False), (5.0, 6.0, 6.1, 1.0, False), (5.0, 8.0, 8.1, 3.0, True), (5.0, 4.9, 5.0, 0.0, False)],
)
def test_a_fault_is_late_that_was_begun_more_than_a_second_after_its_time(
    planned: float, asked: float, seen: float, by: float, late: bool
) -> None:
    row = fault(0, 1, begin=seen, asked_ns=int(asked * SECOND), planned_ns=int(planned * SECOND))
    assert late_s(row) == pytest.approx(by)
    assert came_late(row) is late


def test_nobody_knows_how_late_a_fault_of_an_older_run_came() -> None:
    row = fault(0, 1, begin=5.0)
    assert late_s(row) is None
    assert not came_late(row)


def test_faults_overlap_that_are_in_force_at_the_same_time_and_were_planned_apart() -> None:
    pause = fault(0, 1, begin=5.0, end=9.0, scheduled=0)
    isolation = fault(1, 2, begin=5.1, end=None, scheduled=1)
    later = fault(2, 3, begin=9.0, end=9.5, scheduled=2)
    never = fault(3, 3, begin=None, scheduled=3)
    assert overlapping([pause, isolation, later, never]) == [
        (frozenset({1}), frozenset({2})),
        (frozenset({2}), frozenset({3})),
    ]

    both = [fault(number, number + 1, begin=5.0 + number, end=20.0, step=4) for number in range(2)]
    assert overlapping(both) == [], "one step that kills two brokers is one fault of the plan"
    third = fault(2, 1, begin=7.0, end=8.0, step=5)
    assert overlapping([*both, third]) == [(frozenset({1, 2}), frozenset({1}))]

    unplanned = [fault(number, number, begin=1.0, end=2.0) for number in range(3)]
    assert len(overlapping(unplanned)) == 3, "each row of an older run is a fault of its own"


def test_a_table_that_was_stored_before_faults_told_their_plan_is_read_with_nothing_known(tmp_path: Path) -> None:
    row = {"run": 0, "fault": 0, "kind": "kill", "nodes": [1], "begin_ns": 7, "planned_ns": 5, "scheduled": 2}
    today = pa.Table.from_pylist([row], TABLES["faults"])
    pq.write_table(today.drop_columns(list(ADDED_COLUMNS["faults"])), tmp_path / "before.parquet")
    pq.write_table(today, tmp_path / "today.parquet")

    (before,) = read_table(tmp_path / "before.parquet", "faults").to_pylist()
    (now,) = read_table(tmp_path / "today.parquet", "faults").to_pylist()
    assert (before["kind"], before["planned_ns"], before["scheduled"]) == ("kill", None, None)
    assert (now["planned_ns"], now["scheduled"]) == (5, 2)
