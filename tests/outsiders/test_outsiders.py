"""What an outsider expects of the promise alone is what the checks say: all their histories, judged as one job."""

import pytest
from pyspark.sql import SparkSession

from harness.checks.judge import Judgement
from tests.harness.checks.histories.build import judge_stories
from tests.outsiders import (
    tales_of_acks,
    tales_of_clients,
    tales_of_disks,
    tales_of_elections,
    tales_of_evidence,
    tales_of_groups,
    tales_of_ids,
    tales_of_removal,
    tales_of_sound_runs,
    tales_of_transactions,
    tales_of_two_excuses,
)
from tests.outsiders.tale import TALES, Told

THEMES = (
    tales_of_acks, tales_of_clients, tales_of_disks, tales_of_elections, tales_of_evidence, tales_of_groups,
    tales_of_ids, tales_of_removal, tales_of_sound_runs, tales_of_transactions, tales_of_two_excuses,
)  # fmt: skip
assert all(theme.__doc__ for theme in THEMES), "imported, so that their tales are among TALES"


@pytest.fixture(scope="module")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Judgement]:
    stories = {name: told.make for name, told in TALES.items()}
    return judge_stories(spark, tmp_path_factory.mktemp("outsiders"), stories)


@pytest.mark.parametrize("told", TALES.values(), ids=TALES.keys())
def test_the_verdict_is_what_the_promise_says(judged: dict[str, Judgement], told: Told) -> None:
    judgement = judged[told.name]
    said = [f"{finding.classification} {finding.check}: {finding.sentence}" for _, finding in judgement.findings]
    assert not told.disagreements(judgement), "\n".join([told.story, told.why, judgement.sentence, *said])
