"""Readers that get nothing: a gap, a recovery and a stuck state, as producers have them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.checks.findings import Finding
from harness.checks.judge import Judgement
from harness.scenario.model import ExpectSpec
from harness.verdict import Verdict
from tests.harness.checks.histories.build import SECOND, History, judge_all, scenario

READER, OTHER, PRODUCER = 9, 8, 1
COMMITTED = 0


class Reading(History):
    """Values 0, 1, ... are acknowledged at offsets 0, 1, ... a second apart, from second 1 on."""

    def __init__(self, *, acknowledged: int = 30, bounds: dict[str, float] | None = None, **more: Any) -> None:
        super().__init__(scenario_=scenario(expect=ExpectSpec(bounds=bounds or {})), **more)
        self.state(1, 0, (1, 2, 3), at=0, start=0)
        self.client(PRODUCER, role="producer", acks=-1, idempotent=True)
        for value in range(acknowledged):
            self.send(value, value, at=1 + value, elapsed_s=0.01)

    def reader(self, process: int = READER, *, group: str | None = "g", isolation: str = "read_uncommitted") -> None:
        self.client(process, role="consumer", group=group, isolation=isolation, offset_reset="earliest")

    def read(self, values: Sequence[int], *, at: float, process: int = READER) -> None:
        self.poll([(value, value) for value in values], at=at - 0.1, process=process)

    def empty(self, *, at: float, elapsed_s: float = 0.25, process: int = READER) -> None:
        self.empty_poll(process, at=at, elapsed_s=elapsed_s)

    def follows(self, until: int, *, since: int = 0, process: int = READER) -> None:
        """Each value is read a fifth of a second after it was acknowledged."""
        for value in range(since, until):
            self.read([value], at=value + 1.2, process=process)

    def ends(self, count: int = 30) -> None:
        self.snapshot(1, [(value, 0, value) for value in range(count)], high_watermark=count, epochs="0:0")
        self.final([(value, value) for value in range(count)])


def found(judgement: Judgement, check: str) -> list[Finding]:
    return [finding for _, finding in judgement.findings if finding.check == check]


@pytest.fixture
def judged(spark: SparkSession, tmp_path: Path) -> Any:
    def of(*histories: History) -> list[Judgement]:
        for run, history in enumerate(histories):
            history.as_run(run)
        return judge_all(spark, tmp_path, histories)

    return of


def stands_still(*, asks: bool = True, group: str | None = "g", bounds: dict[str, float] | None = None) -> Reading:
    """It reads up to second 5, and gets values 4 to 15 at second 16.5 only; broker 1 is paused from 5 to 8."""
    history = Reading(bounds=bounds)
    history.reader(group=group)
    history.follows(4)
    history.fault("pause", [1], at=5, until=8)
    for number in range(20 if asks else 0):
        history.empty(at=5 + number / 2)
    history.read(list(range(4, 16)), at=16.5)
    history.follows(30, since=16)
    history.ends()
    return history


def test_a_group_that_stands_still_has_a_gap_from_when_a_record_waited(judged: Any) -> None:
    [judgement] = judged(stands_still())

    [gap] = found(judgement, "availability")
    assert judgement.verdict is Verdict.PASS
    assert (gap.classification, gap.kind, gap.topic, gap.partition) == ("observation", "reading-gap", "t", 0)
    assert gap.evidence["seconds"] == pytest.approx(16.5 - 5.01)
    assert gap.evidence["group"] == "g"
    assert gap.sentence.startswith("Group g got nothing of t-0 for 11.490 s")


def test_its_recovery_counts_from_each_fault(judged: Any) -> None:
    [judgement] = judged(stands_still())

    [recovery] = found(judgement, "recovery")
    assert recovery.classification == "observation"
    assert recovery.evidence["seconds"] == pytest.approx(11.5)


def test_a_stated_bound_makes_it_a_violation(judged: Any) -> None:
    held, broken = judged(
        stands_still(bounds={"reading_gap_s": 12.0, "reading_recovery_time_s": 12.0}),
        stands_still(bounds={"reading_gap_s": 10.0, "availability_gap_s": 1.0}),
    )

    assert held.verdict is Verdict.PASS
    assert [finding.check for _, finding in broken.findings if finding.classification == "violation"] == [
        "availability"
    ]


def test_what_it_lacks_while_the_cluster_is_healthy_is_stuck(judged: Any) -> None:
    """The healthy part of its gap is from 8 to 16.5, too short; without the fault the gap is longer than 10 s."""
    faulted, healthy = stands_still(), stands_still()
    healthy.rows["faults"].clear()

    short, stuck = judged(faulted, healthy)

    assert found(short, "client-stuck") == []
    [finding] = found(stuck, "client-stuck")
    assert (finding.classification, finding.kind) == ("observation", "reader")
    assert finding.evidence["partitions"] == ["t-0"]


def test_without_a_leader_of_the_groups_partition_it_is_not_stuck_and_that_is_said(judged: Any) -> None:
    history = stands_still()
    history.rows["faults"].clear()
    for at, leader in ((0, 2), (4.5, -1), (15, 3)):
        history._add(
            "internal_partition_states",
            topic="__consumer_offsets",
            partition=7,
            time_ns=int(at * SECOND),
            uncertainty_ns=0,
            exact=True,
            observer=-1,
            leader=leader,
            leader_epoch=int(at),
            isr=[2],
            replicas=[2],
        )

    [judgement] = judged(history)

    [gap] = found(judgement, "availability")
    assert gap.evidence["coordinator_leaderless"]
    assert "__consumer_offsets-7, where the group is kept, had no leader" in gap.sentence
    assert found(judgement, "client-stuck") == []


def test_who_does_not_ask_has_no_gap(judged: Any) -> None:
    [judgement] = judged(stands_still(asks=False))

    assert found(judgement, "availability") == []


def test_a_client_without_a_group_has_gaps_of_its_own(judged: Any) -> None:
    [judgement] = judged(stands_still(group=None))

    [gap] = found(judgement, "availability")
    assert (gap.evidence["group"], gap.evidence["client"]) == (None, f"client-{READER}")


def test_where_nothing_waits_there_is_no_gap(judged: Any) -> None:
    history = Reading(acknowledged=5)
    history.reader()
    history.follows(5)
    for number in range(40):
        history.empty(at=6.5 + number / 2)
    history.send(5, 5, at=28, elapsed_s=0.01)
    history.read([5], at=28.3)
    history.ends(6)

    [judgement] = judged(history)

    assert found(judgement, "availability") == []


def test_a_second_delivery_of_old_records_is_none_that_waited(judged: Any) -> None:
    history = Reading(acknowledged=5)
    history.reader()
    history.follows(5)
    for number in range(20):
        history.empty(at=6.5 + number / 2)
    history.read([2, 3, 4], at=17)
    history.ends(5)

    [judgement] = judged(history)

    assert found(judgement, "availability") == []


def test_what_nobody_in_the_group_gets_any_more_is_an_open_gap(judged: Any) -> None:
    history = Reading()
    history.reader()
    history.follows(10)
    for number in range(30):
        history.empty(at=12 + number / 2)
    history.ends()

    [judgement] = judged(history)

    [gap] = found(judgement, "availability")
    assert gap.evidence["open"]
    assert "got nothing of t-0 any more" in gap.sentence
    assert gap.evidence["seconds"] == pytest.approx(26.5 - 11.01)


def test_a_group_that_never_got_anything_has_an_open_gap(judged: Any) -> None:
    history = Reading()
    history.reader()
    history.group("assigned", at=1.5, process=READER, generation=1)
    for number in range(30):
        history.empty(at=2 + number / 2)
    history.ends()

    [judgement] = judged(history)

    [gap] = found(judgement, "availability")
    assert (gap.evidence["open"], gap.evidence["group"]) == (True, "g")


def test_another_member_that_gets_the_records_is_no_gap(judged: Any) -> None:
    history = Reading()
    history.reader()
    history.reader(OTHER)
    history.follows(10)
    for number in range(30):
        history.empty(at=12 + number / 2)
    history.follows(30, since=10, process=OTHER)
    history.ends()

    [judgement] = judged(history)

    assert found(judgement, "availability") == []


def test_what_is_written_in_a_transaction_waits_from_its_end_on(judged: Any) -> None:
    """A record of a transaction that is open for ten seconds is nobody's before that."""
    history = Reading(acknowledged=0)
    history.reader(isolation="read_committed")
    history.client(2, role="producer", transactional_id="p", acks=-1, idempotent=True)
    history.send(0, 0, at=1, elapsed_s=0.01)
    history.read([0], at=1.2)
    history.send(1, 1, at=2, elapsed_s=0.01, process=2, transaction=1)
    history.transaction(1, COMMITTED, at=1.9, until=12, process=2, transactional_id="p")
    for number in range(20):
        history.empty(at=2.5 + number / 2)
    history.read([1], at=12.4)
    history.ends(2)

    [judgement] = judged(history)

    assert found(judgement, "availability") == []
