"""What is answered as one interpreted task and what is compiled and spread is the same: all twins, judged both ways."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from harness.checks.judge import Judgement
from harness.checks.spark import session
from tests.harness.checks.histories.build import judge_stories
from tests.harness.checks.twins import (
    twins,
    twins_of_clients,
    twins_of_copies,
    twins_of_groups,
    twins_of_removal,
    twins_of_scenarios,
    twins_of_transactions,
)

# The others add theirs to these.
assert twins_of_copies.__doc__
assert twins_of_scenarios.__doc__
assert twins_of_groups.__doc__
assert twins_of_removal.__doc__
assert twins_of_transactions.__doc__
STORIES = {**twins.STORIES, **twins_of_clients.STORIES}


def found(judgements: dict[str, Judgement]) -> dict[str, tuple[object, Sequence[object]]]:
    return {
        name: (
            judgement.as_json(),
            [finding.as_row(number) | {"fingerprint": finding.fingerprint} for number, finding in judgement.findings],
        )
        for name, judgement in judgements.items()
    }


@pytest.mark.timeout(900)
def test_the_same_is_found_in_few_rows_and_in_more(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = []
    for most in (10**9, 0):
        monkeypatch.setattr(session, "FEW_ROWS", most)
        folder = tmp_path / str(most)
        folder.mkdir()
        answers.append(found(judge_stories(spark, folder, STORIES)))

    few, more = answers

    assert [name for name, (_, findings) in few.items() if findings]
    assert [name for name in few if few[name] != more[name]] == []
