"""What a check compiles: nothing of few records, and of more what no check before it in its session has compiled."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.checks.judge import RunInput, judge_tables
from harness.checks.spark import session
from tests.harness.checks.histories.build import History, tables
from tests.harness.checks.twins.twins import unclean_election_lost_three


def compiled(spark: SparkSession) -> int:
    """How many pieces of code this JVM has compiled so far."""
    jvm: Any = spark._jvm
    return int(jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME().getCount())


def lossy(spark: SparkSession, folder: Path) -> None:
    history: History = unclean_election_lost_three()
    folder.mkdir()
    judge_tables(spark, tables(spark, folder, [history]), [RunInput(scenario=history.scenario)])


def test_a_check_of_few_records_compiles_nothing(spark: SparkSession, tmp_path: Path) -> None:
    before = compiled(spark)

    lossy(spark, tmp_path / "few")

    assert compiled(spark) == before


def test_of_many_records_what_one_check_compiled_the_next_finds(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "FEW_ROWS", 0)
    nothing = compiled(spark)
    lossy(spark, tmp_path / "first")
    before = compiled(spark)

    lossy(spark, tmp_path / "second")

    assert nothing < before == compiled(spark)
