"""A broker's number is a name: every twin comes to the same whatever its brokers are called."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.checks.judge import Judgement
from tests.harness.checks.histories.build import History, judge_stories
from tests.harness.checks.twins import (
    twins_of_copies,
    twins_of_groups,
    twins_of_removal,
    twins_of_rules,
    twins_of_scenarios,
    twins_of_transactions,
)
from tests.harness.checks.twins.twins import STORIES

assert all(
    twins.__doc__
    for twins in (
        twins_of_copies,
        twins_of_groups,
        twins_of_removal,
        twins_of_rules,
        twins_of_scenarios,
        twins_of_transactions,
    )
), "imported, so that their stories are among STORIES"

# In which two share a bit of a mask of 63 or 64, go beyond one, or are the largest that Kafka takes.
CALLED: list[dict[int, int]] = [{1: 0, 2: 63, 3: 64}, {1: 1001, 2: 2**31 - 1, 3: 0}]
ONE = ("node", "leader", "leader_before", "observer", "replica")
MANY = ("nodes", "isr", "isr_before", "elr", "replicas")


def renamed(row: Mapping[str, Any], called: Mapping[int, int]) -> dict[str, Any]:
    now = dict(row)
    for name in ONE:
        if now.get(name) is not None:
            now[name] = called.get(now[name], now[name])
    for name in MANY:
        if now.get(name) is not None:
            now[name] = [called.get(node, node) for node in now[name]]
    if now.get("links"):
        now["links"] = [
            {end: called.get(node, node) if end != "client" else node for end, node in link.items()}
            for link in now["links"]
        ]
    return now


def telling(make: Callable[[], History], called: Mapping[int, int]) -> Callable[[], History]:
    def renumbered() -> History:
        history = make()
        history.rows = {name: [renamed(row, called) for row in rows] for name, rows in history.rows.items()}
        return history

    return renumbered


def brief(judgement: Judgement) -> tuple[str, Counter[tuple[str, str, str, int]]]:
    found: Counter[tuple[str, str, str, int]] = Counter(
        (each.check, each.classification, each.kind, each.count) for _, each in judgement.findings
    )
    return judgement.verdict.value, found


@pytest.fixture(scope="module")
def judged_anew(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Judgement]:
    """By story and what its brokers are called."""
    stories = {f"{name} {called}": telling(make, called) for called in CALLED for name, make in STORIES.items()}
    return judge_stories(spark, tmp_path_factory.mktemp("anew"), stories, with_evidence=False)


@pytest.mark.timeout(600)  # all twins twice
@pytest.mark.parametrize("called", CALLED, ids=str)
def test_every_check_says_the_same_whatever_the_brokers_are_called(
    judged_twins: dict[str, Judgement], judged_anew: dict[str, Judgement], called: dict[int, int]
) -> None:
    pairs = {name: (brief(judged_twins[name]), brief(judged_anew[f"{name} {called}"])) for name in STORIES}
    differ = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    assert differ == {}
