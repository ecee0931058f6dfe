"""What the one query over the records promises beyond its flags: counts however many, and no cycle left unsearched."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.checks.catalogue import FLAGS
from harness.checks.cycles.native import find_cycles
from harness.checks.spark import detection
from harness.checks.spark.detection import detect
from harness.checks.spark.tables import small_frame
from harness.checks.warm_up import warm_up
from tests.harness.checks.histories.build import History, judge_all, tables
from tests.harness.checks.spark.test_detection_against_model import drawn

HISTORIES = 60


@pytest.mark.timeout(600)
def test_where_nothing_is_entangled_no_cycle_is_found(spark: SparkSession, tmp_path: Path) -> None:
    histories = [drawn(run, f"entangled/{run}") for run in range(HISTORIES)]
    built = tables(spark, tmp_path, histories)

    entangled = detect(spark, built, FLAGS).entangled
    search = find_cycles(spark, built)

    found = {run for run, rows in search.rows.items() if rows}
    assert len(found) > 5
    assert found <= entangled, sorted(found - entangled)
    assert len(entangled) < HISTORIES


def test_a_record_read_before_it_was_sent_entangles_its_run_and_a_sound_history_does_not(
    spark: SparkSession, tmp_path: Path
) -> None:
    sound, early, crossed = History(run=0), History(run=1), History(run=2)
    for history in (sound, early):
        history.send(1, 0, at=1)
        history.send(2, 1, at=2)
        history.poll([(0, 1), (1, 2)], at=3 if history is sound else 0.5)
        history.final([(0, 1), (1, 2)])
    crossed.send(1, 1, at=1)
    crossed.send(2, 0, at=2)
    crossed.final([(0, 2), (1, 1)])

    assert detect(spark, tables(spark, tmp_path, [sound, early, crossed]), FLAGS).entangled == {1, 2}


def test_two_timestamps_of_one_value_are_noticed_wherever_they_were_seen(spark: SparkSession, tmp_path: Path) -> None:
    """Only in such runs are timestamps compared one by one."""
    sound, at_one_place, unanswered, twice = (History(run=run) for run in range(4))
    for history in (sound, at_one_place):
        history.send(1, 0, at=1, timestamp_ms=1000)
    unanswered.send(1, status=2, at=1, timestamp_ms=1000)
    twice.poll([(0, 1)], at=1, timestamp_ms=1005)
    for history, offset, stamp_ms in (
        (sound, 0, 1000),
        (at_one_place, 0, 1005),
        (unanswered, 0, 1005),
        (twice, 1, 1000),
    ):
        history.poll([(offset, 1)], at=2, timestamp_ms=stamp_ms)

    assert detect(spark, tables(spark, tmp_path, [sound, at_one_place, unanswered, twice]), FLAGS).restamped == {
        1,
        2,
        3,
    }


def test_counts_and_accounting_are_exact_when_there_are_more_flagged_rows_than_are_fetched(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    histories = [drawn(run, f"many/{run}") for run in range(HISTORIES)]
    built = tables(spark, tmp_path, histories)
    complete = detect(spark, built, FLAGS)

    monkeypatch.setattr(detection, "FLAGGED_MAX", 50)
    cut = detect(spark, built, FLAGS)

    def lines(found: detection.Detection) -> list[list[tuple[str, str]]]:
        return sorted(sorted((key, str(value)) for key, value in row.items()) for row in found.accounting)

    assert sum(map(len, cut.flagged.values())) <= 50 < sum(map(len, complete.flagged.values()))
    assert cut.counts == complete.counts
    assert lines(cut) == lines(complete)


def test_the_accounting_counts_every_value_once_by_its_outcome_and_says_how_many_were_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    history = History()
    for value in range(5):
        history.send(value, value, at=1 + value)
    history.send(5, at=6.5, status=2)
    history.send(6, at=6.5, status=1)
    history.poll([(0, 0), (1, 1), (2, 2)], at=7)
    history.poll([(2, 2), (3, 3)], at=8)
    history.final([(0, 0), (1, 1), (2, 2), (4, 4), (5, 1)])

    lines = detect(spark, tables(spark, tmp_path, [history]), FLAGS).accounting

    counted = {(line["status"], line["in_final"]): (line["count"], line["duplicates"], line["read"]) for line in lines}
    assert counted == {(0, True): (4, 1, 4), (0, False): (1, 0, 1), (2, False): (1, 0, 0), (1, False): (1, 0, 0)}


def test_the_made_up_run_of_the_warm_up_asks_the_questions_behind_a_finding(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warm_up(spark)

    history = History().send(1, 0, at=1)
    history.final([(0, 1)])
    assert judge_all(spark, tmp_path, [history])[0].counts["violation"] == 0


def test_a_frame_of_the_driver_has_the_types_of_its_names_and_of_its_values(spark: SparkSession) -> None:
    rows: list[dict[str, Any]] = [
        {"run": 0, "group": None, "offset": None, "note": None, "share": 0.5},
        {"run": 1, "group": None, "offset": None, "note": "late", "share": 1.0},
    ]

    frame = small_frame(spark, ("run", "group", "offset", "note", "share"), rows)

    assert frame.dtypes == [
        ("run", "int"),
        ("group", "string"),
        ("offset", "bigint"),
        ("note", "string"),
        ("share", "double"),
    ]
    assert [row["note"] for row in frame.collect()] == [None, "late"]
