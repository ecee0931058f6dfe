"""The same command finds the same on a Spark cluster: one master and two workers, started from PySpark's own jars."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from harness.checks.judge import judge_many
from harness.checks.spark.standalone import cluster_settings, driver_address, staging_parent
from harness.verdict import exit_code_of
from tests.harness.checks.spark.standalone_cluster import standalone_cluster
from tests.harness.checks.test_judge_run_folder import run_folder
from tests.harness.checks.twins import twins

pytestmark = [pytest.mark.cluster, pytest.mark.jvm, pytest.mark.slow]

STORIES = {"lossy": twins.unclean_election_lost_three, "good": twins.nothing_happened}


def folders(path: Path) -> list[Path]:
    path.mkdir()
    return [run_folder(path / name, make()) for name, make in STORIES.items()]


def checked(paths: list[Path], *options: str, environment: dict[str, str]) -> int:
    command = [sys.executable, "-m", "harness", "check", *map(str, paths), *options]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=600, env={**os.environ, **environment}
    )
    assert done.returncode in (0, 1), done.stderr[-3000:]
    return done.returncode


def found(path: Path) -> tuple[object, list[object]]:
    findings = pq.read_table(path / "tables" / "findings.parquet").to_pylist()
    return json.loads((path / "verdict.json").read_text()), findings


@pytest.mark.timeout(900)
def test_a_cluster_of_two_workers_finds_what_one_machine_finds(spark: SparkSession, tmp_path: Path) -> None:
    cluster = tmp_path / "cluster"
    cluster.mkdir()
    here, there = folders(tmp_path / "here"), folders(tmp_path / "there")
    alone = exit_code_of({judgement.verdict for judgement in judge_many(here, spark)})
    with standalone_cluster(cluster) as (url, environment):
        assert checked(there, "--master", url, "--no-pages", environment=environment) == alone
        executors = list(cluster.glob("worker-*/app-*/*/stderr"))
    assert {path.parents[2].name for path in executors} == {"worker-1", "worker-2"}
    assert [found(path) for path in there] == [found(path) for path in here]
    assert [len(findings) for _, findings in map(found, there)] == [2, 0]


def test_a_cluster_gets_what_its_owner_wrote_into_spark_defaults(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text("# ours\nspark.executor.memory 3g\nspark.cores.max = 4\n\nodd\n")
    asked = {"SPARK_CONF_DIR": str(tmp_path)}
    assert cluster_settings(asked) == {"spark.executor.memory": "3g", "spark.cores.max": "4"}
    assert cluster_settings({}) == {}


def test_the_directory_we_happen_to_be_in_sets_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text("spark.driver.extraJavaOptions -javaagent:mine.jar\n")
    monkeypatch.chdir(tmp_path)

    assert cluster_settings({}) == {}


def test_only_a_cluster_may_reach_the_driver_from_outside(tmp_path: Path) -> None:
    assert driver_address("local[2]", {}) == {"SPARK_LOCAL_IP": "127.0.0.1"}
    assert driver_address("spark://host:7077", {}) == {}
    assert staging_parent("local[2]", tmp_path) is None
    assert staging_parent("spark://host:7077", tmp_path) == tmp_path
