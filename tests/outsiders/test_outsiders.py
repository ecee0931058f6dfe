"""What an outsider expects of the promise alone is what the checks say: all their histories, judged as one job."""

from importlib import import_module
from pkgutil import iter_modules

import pytest
from pyspark.sql import SparkSession

from harness.checks.judge import Judgement
from tests import outsiders
from tests.harness.checks.histories.build import judge_stories
from tests.outsiders.history_builder import CASES, ExpectedJudgement

THEMES = tuple(
    import_module(module.name)  # so that theirs are among CASES
    for module in iter_modules(outsiders.__path__, f"{outsiders.__name__}.")
    if ".histories_of_" in module.name
)


@pytest.fixture(scope="module")
def judged(adaptive_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Judgement]:
    stories = {name: history.make for name, history in CASES.items()}
    return judge_stories(adaptive_spark, tmp_path_factory.mktemp("outsiders"), stories)


@pytest.mark.parametrize("history", CASES.values(), ids=CASES.keys())
def test_the_verdict_is_what_the_promise_says(judged: dict[str, Judgement], history: ExpectedJudgement) -> None:
    judgement = judged[history.name]
    said = [f"{finding.classification} {finding.check}: {finding.sentence}" for _, finding in judgement.findings]
    assert not history.disagreements(judgement), "\n".join([history.story, history.why, judgement.sentence, *said])
