"""A value at two offsets of a partition that nobody could read to its end: what is unread is not gone."""

import pytest
from pyspark.sql import SparkSession

from tests.harness.checks.histories.build import ISR, History, judge_stories

LOGS = ("every log has both", "no log", "a log in sync lacks one")
MANY = {
    f"{'' if idempotent else 'not '}idempotent, {logs}": (idempotent, logs)
    for idempotent in (False, True)
    for logs in LOGS
}
EXPECTED = {
    "not idempotent, every log has both": ("twice-in-the-log", "permitted", False),
    "not idempotent, no log": ("twice-in-the-log", "permitted", False),
    "not idempotent, a log in sync lacks one": ("moved", "violation", False),
    "idempotent, every log has both": ("twice-in-the-log", "violation", False),
    "idempotent, no log": ("twice-in-the-log", "observation", True),
    "idempotent, a log in sync lacks one": ("moved", "violation", False),
}


def sent_again_and_never_read(*, idempotent: bool, logs: str) -> History:
    """Value 7 was polled at 1 and acknowledged at 2, after its first attempt had timed out; nobody leads in the end."""
    history = History(read_to_end=False).state(1, 0, ISR, at=0, start=0)
    history.client(1, role="producer", acks=-1, idempotent=idempotent, tells_attempts=True)
    history.send(6, 0, at=1)
    history.failed_attempt(at=2.5)
    history.send(7, 2, at=2, elapsed_s=3)
    history.poll([(0, 6), (1, 7), (2, 7)], at=6)
    both = [(0, 0, 6), (1, 0, 7), (2, 0, 7)]
    if logs == "every log has both":
        for node in ISR:
            history.snapshot(node, both, high_watermark=3, epochs="0:0")
        history.state(-1, 1, (), at=40)
    if logs == "a log in sync lacks one":
        history.snapshot(1, [(0, 0, 6), (2, 0, 7)], high_watermark=3, epochs="0:0")
        history.state(-1, 1, (1,), at=40)
    return history


@pytest.fixture(scope="module")
def found(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[tuple[str, str, bool]]]:
    stories = {
        name: lambda idempotent=idempotent, logs=logs: sent_again_and_never_read(idempotent=idempotent, logs=logs)
        for name, (idempotent, logs) in MANY.items()
    }
    judged = judge_stories(spark, tmp_path_factory.mktemp("unread"), stories)
    return {
        name: {
            (each.kind, each.classification, each.is_open)
            for _, each in judgement.findings
            if each.check == "duplicate"
        }
        for name, judgement in judged.items()
    }


@pytest.mark.parametrize("name", MANY)
def test_it_is_called_moved_only_where_something_shows_that_one_of_them_is_gone(
    found: dict[str, set[tuple[str, str, bool]]], name: str
) -> None:
    assert found[name] == {EXPECTED[name]}
