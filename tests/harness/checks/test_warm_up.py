"""The warm-up asks what small runs ask, so that nothing of it is asked for the first time while somebody waits."""

import sys
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.classic.dataframe import DataFrame

from harness.checks import warm_up

# What the demo's check asks: an unclean election, before which a reader had read what was lost.
OF_THE_DEMO = {
    "harness.checks.spark.detection",
    "harness.checks.families.cluster.availability",
    "harness.checks.families.cluster.read_epochs",
    "harness.checks.families.cluster.reading_gaps",
    "harness.checks.families.reads.head_skip",
    "harness.checks.cycles.native_graph",
}


def test_what_a_run_with_an_election_asks_was_asked_before(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: set[str] = set()

    def noted(answer: Callable[[DataFrame], Any]) -> Callable[[DataFrame], Any]:
        def answered(frame: DataFrame) -> Any:
            asked.add(sys._getframe(1).f_globals["__name__"])
            return answer(frame)

        return answered

    for name in ("toArrow", "isEmpty"):
        monkeypatch.setattr(DataFrame, name, noted(getattr(DataFrame, name)))
    monkeypatch.setattr(warm_up, "FEW_ROWS", -1)  # as few rows twice: what is compiled asks the same

    warm_up.warm_up(spark)

    assert OF_THE_DEMO - asked == set()
