"""KIP-966: electing an eligible leader replica is clean. Each history beside its twin in which the leader was none."""

from collections.abc import Sequence

import pytest
from pyspark.sql import SparkSession

from harness.checks.judge import Judgement
from harness.verdict import Verdict
from tests.harness.checks.histories.build import ISR, History, Stories, judge_stories

STORIES = Stories()
expecting = STORIES.expecting
SENT = 10


class ElrHistory(History):
    """Its states leave it to the checks whether an election was unclean."""

    def elr_state(
        self, leader: int, epoch: int, isr: Sequence[int], elr: Sequence[int], *, at: float, start: int | None = None
    ) -> None:
        self.state(leader, epoch, isr, at=at, start=start)
        self.rows["partition_states"][-1] |= {"elr": list(elr), "unclean": None}


def _leaderless(*, elr: Sequence[int], unclean_allowed: bool = False) -> ElrHistory:
    """Ten records acknowledged by all, then brokers 3 and 2 leave and 1, the last member of the ISR, dies."""
    history = ElrHistory()
    if unclean_allowed:
        history.unclean_config("true")
    history.elr_state(1, 0, ISR, (), at=0, start=0)
    for value in range(SENT):
        history.send(value, value, at=1 + value / 10)
    history.elr_state(1, 0, (1, 2), (), at=4)
    history.elr_state(1, 0, (1,), (2,), at=5)
    history.fault("kill", [1], at=6, until=9)
    history.elr_state(-1, 1, (), elr, at=7)
    return history


def _led_by_2(history: ElrHistory, *, kept: int) -> ElrHistory:
    history.elr_state(2, 2, (2,), (), at=8, start=kept)
    if kept < SENT:
        history.truncation(1, kept, SENT, epoch=2, at=10)
    for node in ISR:
        history.snapshot(node, [(offset, 0, offset) for offset in range(kept)], high_watermark=kept, epochs="0:0")
    return history.final([(offset, offset) for offset in range(kept)])


def _never_led_again(*, held: int) -> ElrHistory:
    """The final read got nowhere; the eligible leader replicas' files tell what they hold."""
    history = _leaderless(elr=(1, 2))
    history.partition |= {"read_to_end": False, "end_offset": 0}
    for node in (1, 2):
        history.snapshot(node, [(offset, 0, offset) for offset in range(held)], high_watermark=held, epochs="0:0")
    return history


@expecting(Verdict.PASS, {})
def elected_from_the_elr() -> History:
    return _led_by_2(_leaderless(elr=(1, 2)), kept=SENT)


@expecting(Verdict.VIOLATION, {("unclean-election", "violation"): 1})
def elected_outside_the_elr() -> History:
    return _led_by_2(_leaderless(elr=(1,)), kept=SENT)


@expecting(Verdict.VIOLATION, {("lost-write", "violation"): 3})
def lost_by_an_election_from_the_elr() -> History:
    return _led_by_2(_leaderless(elr=(1, 2), unclean_allowed=True), kept=7)


@expecting(Verdict.PASS, {("lost-write", "permitted"): 3, ("unclean-election", "permitted"): 3})
def lost_by_an_election_outside_the_elr() -> History:
    return _led_by_2(_leaderless(elr=(1,), unclean_allowed=True), kept=7)


@expecting(Verdict.VIOLATION, {("lost-write", "violation"): 3})
def the_last_isr_member_lost_its_disk_and_an_eligible_one_did_not() -> History:
    history = _leaderless(elr=(1, 2)).fault("disk-loss", [1], at=7.5, until=8)
    return _led_by_2(history, kept=7)


@expecting(Verdict.PASS, {("lost-write", "permitted"): 3})
def the_last_isr_member_and_the_eligible_one_lost_their_disks() -> History:
    history = _leaderless(elr=(1, 2))
    history.fault("disk-loss", [1], at=7.5, until=8)
    history.fault("disk-loss", [2], at=7.6, until=8)
    return _led_by_2(history, kept=7)


@expecting(Verdict.INCONCLUSIVE, {("unreadable", "observation"): 10})
def waits_for_a_leader_and_the_eligible_ones_hold_all() -> History:
    return _never_led_again(held=SENT)


@expecting(Verdict.VIOLATION, {("lost-write", "violation"): 3, ("unreadable", "observation"): 7})
def waits_for_a_leader_and_the_eligible_ones_lack_three() -> History:
    return _never_led_again(held=7)


@pytest.fixture(scope="module")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Judgement]:
    """All of them judged as one job."""
    return judge_stories(spark, tmp_path_factory.mktemp("elr"), STORIES)


@pytest.mark.parametrize(
    ("name", "verdict", "expected"),
    STORIES.cases(),
)
def test_verdicts_and_what_was_found(
    judged: dict[str, Judgement], name: str, verdict: Verdict, expected: dict[tuple[str, str], int]
) -> None:
    sums: dict[tuple[str, str], int] = {}
    for _, finding in judged[name].findings:
        key = (finding.check, finding.classification)
        sums[key] = sums.get(key, 0) + finding.count
    assert (sums, judged[name].verdict) == (expected, verdict)


def test_an_unclean_election_names_the_replicas_that_could_have_led(judged: dict[str, Judgement]) -> None:
    (_, finding), *_ = judged["elected_outside_the_elr"].findings
    assert finding.sentence.startswith(
        "Broker 2, outside the ISR (no broker) and the eligible leader replicas (broker 1), was elected leader of t-0"
    )


def test_a_loss_by_a_clean_election_names_the_eligible_leader_replica(judged: dict[str, Judgement]) -> None:
    (_, finding), *_ = judged["lost_by_an_election_from_the_elr"].findings
    assert "broker 2, an eligible leader replica, was elected cleanly in epoch 2 with log end 7" in finding.sentence


def test_records_of_a_partition_that_waits_for_a_leader_are_unreadable_and_not_lost(
    judged: dict[str, Judgement],
) -> None:
    (_, finding), *_ = judged["waits_for_a_leader_and_the_eligible_ones_hold_all"].findings
    assert "in the log of every in-sync replica (brokers 1 and 2) but the partition has no leader" in finding.sentence


def test_what_would_have_prevented_the_loss_is_waiting_for_the_eligible_one(judged: dict[str, Judgement]) -> None:
    prevention = [
        f.evidence["prevention"]
        for _, f in judged["lost_by_an_election_outside_the_elr"].findings
        if f.check == "lost-write"
    ]
    assert "would have stayed without a leader until broker 1 came back" in prevention[0][0]
