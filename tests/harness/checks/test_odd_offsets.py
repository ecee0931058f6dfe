"""A producer is answered an offset that its leader gave to another record: the finding says which of the two is odd."""

from collections.abc import Mapping

import pytest
from pyspark.sql import SparkSession

from tests.harness.checks.histories.build import ISR, History, judge_stories

Causes = Mapping[str, str]


def _answered(offset: int, *, fail_over: bool = False) -> History:
    """Values 6, 7, 8 stand at 0, 1, 2; of 8 the answer says `offset`. fail_over: before, another one led."""
    history = History().state(1, 0, ISR, at=0, start=0)
    history.client(1, role="producer", acks=-1, idempotent=True, tells_attempts=True)
    history.send(6, 0, at=1)
    epoch = int(fail_over)
    if fail_over:
        history.state(2, 1, (2, 3), at=4, start=1)
    history.send(7, 1, at=8)
    history.send(8, offset, at=3 if fail_over else 9)
    log = [(0, 0, 6), (1, epoch, 7), (2, epoch, 8)]
    for node in ISR[1:] if fail_over else ISR:
        history.snapshot(node, log, high_watermark=3, epochs="0:0,1:1" if fail_over else "0:0")
    history.final([(each, value) for each, _, value in log])
    for row in history.rows["records"]:
        if row["kind"] == 2:
            row["leader_epoch"] = log[row["offset"]][1]
    return history


STORIES = {
    "right": lambda: _answered(2),
    "odd": lambda: _answered(1),
    "of another epoch": lambda: _answered(1, fail_over=True),
}


@pytest.fixture(scope="module")
def causes(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Causes]:
    judged = judge_stories(spark, tmp_path_factory.mktemp("odd"), STORIES)
    return {
        name: {
            each.check: each.cause.code
            for _, each in judgement.findings
            if each.check in ("duplicate", "inconsistent-offsets") and each.cause is not None
        }
        for name, judgement in judged.items()
    }


def test_an_offset_that_its_leader_gave_to_another_record_is_an_odd_answer(causes: Mapping[str, Causes]) -> None:
    assert causes["right"] == {}
    assert causes["odd"] == {"duplicate": "answered-elsewhere", "inconsistent-offsets": "answered-elsewhere"}


def test_what_a_former_leader_answered_may_have_been_there(causes: Mapping[str, Causes]) -> None:
    assert "answered-elsewhere" not in causes["of another epoch"].values()
