"""What an outsider expects of the promise alone is what the checks say: all their histories, judged as one job."""

import pytest
from pyspark.sql import SparkSession

from harness.checks.judge import Judgement
from tests.harness.checks.histories.build import judge_stories
from tests.outsiders import (
    histories_of_absence_seen,
    histories_of_acks,
    histories_of_clients,
    histories_of_disks,
    histories_of_elections,
    histories_of_evidence,
    histories_of_generations,
    histories_of_groups,
    histories_of_ids,
    histories_of_removal,
    histories_of_settings,
    histories_of_sound_runs,
    histories_of_transactional_offsets,
    histories_of_transactions,
    histories_of_two_excuses,
    histories_of_what_stands_above,
)
from tests.outsiders.history_builder import CASES, ExpectedJudgement

THEMES = (
    histories_of_absence_seen,
    histories_of_acks,
    histories_of_clients,
    histories_of_disks,
    histories_of_elections,
    histories_of_evidence,
    histories_of_generations,
    histories_of_groups,
    histories_of_ids,
    histories_of_removal,
    histories_of_settings,
    histories_of_sound_runs,
    histories_of_transactional_offsets,
    histories_of_transactions,
    histories_of_two_excuses,
    histories_of_what_stands_above,
)
assert all(theme.__doc__ for theme in THEMES), "imported, so that theirs are among CASES"


@pytest.fixture(scope="module")
def judged(adaptive_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Judgement]:
    stories = {name: history.make for name, history in CASES.items()}
    return judge_stories(adaptive_spark, tmp_path_factory.mktemp("outsiders"), stories)


@pytest.mark.parametrize("history", CASES.values(), ids=CASES.keys())
def test_the_verdict_is_what_the_promise_says(judged: dict[str, Judgement], history: ExpectedJudgement) -> None:
    judgement = judged[history.name]
    said = [f"{finding.classification} {finding.check}: {finding.sentence}" for _, finding in judgement.findings]
    assert not history.disagreements(judgement), "\n".join([history.story, history.why, judgement.sentence, *said])
