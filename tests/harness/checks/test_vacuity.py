"""A scenario without its fault proves nothing: its coverage conditions say so, for every scenario that is shipped."""

import dataclasses

import pytest
from pyspark.sql import SparkSession

from harness.checks.judge import Judgement
from harness.scenario.file import load, shipped_names
from harness.verdict import Verdict
from tests.harness.checks.histories.build import judge_all
from tests.harness.checks.twins.twins import nothing_happened

FAULTLESS = [name for name in shipped_names() if name != "no-faults"]


@pytest.fixture(scope="module")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Judgement]:
    """The history of a healthy run, held against the coverage of every scenario, as one job."""
    histories = []
    for run, name in enumerate(FAULTLESS):
        history = nothing_happened()
        history.as_run(run)
        assert history.scenario is not None
        history.scenario = dataclasses.replace(history.scenario, coverage=load(name).coverage)
        histories.append(history)
    answers = judge_all(spark, tmp_path_factory.mktemp("faultless"), histories, with_evidence=False)
    return dict(zip(FAULTLESS, answers, strict=True))


@pytest.mark.parametrize("name", FAULTLESS)
def test_without_its_fault_a_scenario_is_vacuous(judged: dict[str, Judgement], name: str) -> None:
    assert judged[name].verdict is Verdict.VACUOUS
    assert any(not row["met"] for row in judged[name].coverage)
