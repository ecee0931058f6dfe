"""Nothing is decided on what people read: with random words in every column for them, every verdict is as it was.

Of each history there are two in the job, one of them with words drawn anew, also where there were none. What the checks
decide is compared: verdict, check, class, kind, cause, faults, counts and fingerprints.
"""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.checks.judge import Judgement
from harness.history.schema.schemas import TABLES
from tests.harness.checks.histories.build import History, judge_stories
from tests.outsiders.history_builder import CASES
from tests.outsiders.test_outsiders import THEMES

EVERY = 3  # of them: each is judged twice
WORDS = (
    "unclean",
    "elect unclean of t-0",
    "wipe",
    "n1>n2",
    "the log of t-0 on broker 2 ends at 0 and no longer at 9",
    "compaction",
    "restart",
    "broker 1 is dead",
    "seen",
    "",
    "isr [1]",
    "directory",
    "disk",
    "kill",
    "delete topic t",
)
TEXTS = {name: [column for column in schema.names if column.endswith("_text")] for name, schema in TABLES.items()}
CHOSEN = sorted(CASES)[::EVERY]
assert THEMES, "imported, so that all themes are among CASES"


def in_other_words(make: Callable[[], History], seed: str) -> Callable[[], History]:
    def renamed() -> History:
        history, random = make(), Random(seed)
        for table, columns in TEXTS.items():
            for row in history.rows[table]:
                row.update({column: " ".join(random.choices(WORDS, k=random.randint(1, 4))) for column in columns})
        return history

    return renamed


def decided(judgement: Judgement) -> dict[str, Any]:
    found = [
        (
            each.check,
            each.classification,
            each.kind,
            each.count,
            each.topic,
            each.partition,
            tuple(each.faults),
            str(each.cause and each.cause.code),
            each.first_ns,
            each.last_ns,
            each.fingerprint,
        )
        for _, each in judgement.findings
    ]
    return {"verdict": judgement.verdict, "counts": judgement.counts, "found": sorted(found, key=str)}


@pytest.fixture(scope="module")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Judgement]:
    stories: dict[str, Callable[[], History]] = {}
    for name in CHOSEN:
        stories[name] = CASES[name].make
        stories[f"{name} in other words"] = in_other_words(CASES[name].make, name)
    return judge_stories(spark, tmp_path_factory.mktemp("noise"), stories)


@pytest.mark.parametrize("name", CHOSEN)
def test_other_words_decide_nothing_else(judged: dict[str, Judgement], name: str) -> None:
    assert decided(judged[f"{name} in other words"]) == decided(judged[name])


def test_enough_is_in_words_and_enough_is_found(judged: dict[str, Judgement]) -> None:
    assert len(CHOSEN) >= 60
    assert {"faults", "steps", "broker_events", "partitions"} <= {name for name, columns in TEXTS.items() if columns}
    assert len({each.check for judgement in judged.values() for _, each in judgement.findings}) >= 10
