"""A check in a session that has seen one before compiles nothing: that was half of what a small check took."""

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from harness.checks.judge import RunInput, judge_tables
from harness.checks.warm_up import warm_up
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


def test_what_one_check_compiled_the_next_finds(spark: SparkSession, tmp_path: Path) -> None:
    lossy(spark, tmp_path / "first")
    before = compiled(spark)

    lossy(spark, tmp_path / "second")

    assert compiled(spark) == before


def test_the_warm_up_leaves_little_to_compile_for_the_check_of_a_loss(spark: SparkSession, tmp_path: Path) -> None:
    warm_up(spark)
    before = compiled(spark)

    lossy(spark, tmp_path / "after")

    assert compiled(spark) - before <= 20
