"""The logs side by side: what clients know of each offset stands beside what each replica holds there."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from harness.checks.judge import RunInput, judge_tables
from harness.history.schema.evidence_rows import LogComparisonRow
from tests.harness.checks.histories.build import SECOND, History, tables
from tests.harness.checks.twins.twins import acknowledged, failed_over


def replaced() -> History:
    """Value 8 was acknowledged at offset 8, by acks=1, and read; an unclean leader without it put value 20 there."""
    history = acknowledged()
    for row in history.rows["records"]:
        if (row["kind"], row["value"]) == (0, 8):
            row["acks"] = 1
    history.unclean_config("true")
    history.poll([(6, 6), (7, 7), (8, 8)], at=3)
    failed_over(history, leader=2, isr_before=(1,), kept=7)
    history.rows["records"] = [row for row in history.rows["records"] if row["kind"] != 2]
    history.send(21, at=9.5, status=2)
    for value, offset in ((19, 7), (20, 8)):
        history.send(value, offset, at=10, process=2)
    history.final([*((offset, offset) for offset in range(7)), (7, 19), (8, 20)])
    for row in history.rows["records"]:
        if row["kind"] == 2:
            row["leader_epoch"] = 1 if row["offset"] >= 7 else 0
    return history


@pytest.fixture(scope="module")
def at_offset(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[int, LogComparisonRow]:
    """Of the lost write's comparison, replica 1's row of each offset."""
    folder: Path = tmp_path_factory.mktemp("logs")
    history = replaced()
    (judged,) = judge_tables(
        spark,
        tables(spark, folder, [history]),
        [RunInput(scenario=history.scenario, run={"anchors": history.anchors, "journals_may_lack_their_end": False})],
    )
    judgement, evidence = judged
    lost = next(name for name, finding in judgement.findings if finding.check == "lost-write")
    rows: list[LogComparisonRow] = evidence["log_rows"]  # type: ignore[assignment]
    return {row["offset"]: row for row in rows if row["finding"] == lost and row["replica"] == 1}


def test_of_two_values_acknowledged_at_an_offset_the_lost_one_is_shown_with_how_it_was_promised(
    at_offset: dict[int, LogComparisonRow],
) -> None:
    row = at_offset[8]
    assert (row["acknowledged_value"], row["acknowledged_acks"]) == (8, 1)
    sent = next(r for r in replaced().rows["records"] if (r["kind"], r["value"]) == (0, 8))
    assert row["acknowledged_ns"] == sent["completed_ns"] < 10 * SECOND
    assert (at_offset[7]["acknowledged_value"], at_offset[7]["acknowledged_acks"]) == (7, -1)


def test_the_final_log_is_what_the_final_read_saw_with_its_epoch(at_offset: dict[int, LogComparisonRow]) -> None:
    assert [(at_offset[o]["final_value"], at_offset[o]["final_epoch"]) for o in (6, 7, 8)] == [(6, 0), (19, 1), (20, 1)]
    assert (at_offset[9]["final_value"], at_offset[9]["final_epoch"]) == (None, None)


def test_whether_a_consumer_polled_an_offset_is_not_what_the_final_read_saw(
    at_offset: dict[int, LogComparisonRow],
) -> None:
    assert {offset: at_offset[offset]["read"] for offset in (5, 6, 7, 8, 9)} == {
        5: False,
        6: True,
        7: True,
        8: True,
        9: False,
    }
