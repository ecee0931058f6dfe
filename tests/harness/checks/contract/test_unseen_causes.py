"""A cluster whose books are not ours is polled: what it may lawfully have done unseen is not called a violation.

Nor is what its configuration leaves no room for excused. Each history has no replica log and no exact state.
"""

from collections.abc import Sequence

import pytest
from pyspark.sql import SparkSession

from harness.checks.judge import Judgement
from harness.verdict import Verdict
from tests.harness.checks.histories.build import ISR, History, Stories, judge_stories

STORIES = Stories()
expecting = STORIES.expecting
SENT, KEPT = 10, 7


class Polled(History):
    """Broker 1 leads, ten records are acknowledged, another leader may follow, and three records are gone."""

    def heard(self, leader: int, epoch: int, isr: Sequence[int], *, at: float) -> None:
        self.state(leader, epoch, isr, at=at)
        self.rows["partition_states"][-1] |= {"exact": False, "observer": 2, "uncertainty_ns": 500_000_000}

    def judged(
        self,
        *,
        acks: int = -1,
        unclean: bool = False,
        led_next: Sequence[tuple[int, int, Sequence[int]]] = (),
        epochs: bool = True,
        read: bool = False,
    ) -> "Polled":
        self.unclean_config(str(unclean).lower())
        self.heard(1, 0 if epochs else -1, ISR, at=0)
        for value in range(SENT):
            self.send(value, value, at=1 + value / 10, acks=acks)
        if read:
            self.poll([(value, value) for value in range(SENT)], at=3)
        for number, (leader, epoch, isr) in enumerate(led_next):
            self.heard(leader, epoch, isr, at=5 + number)
        self.final([(offset, offset) for offset in range(KEPT)])
        return self


@expecting(Verdict.VIOLATION, "violation")
def strict_and_a_clean_election() -> History:
    return Polled().judged(led_next=[(2, 1, (2, 3))])


@expecting(Verdict.VIOLATION, "violation")
def strict_and_an_election_that_looks_unclean() -> History:
    return Polled().judged(led_next=[(1, 0, (1,)), (2, 1, (2,))])


@expecting(Verdict.VIOLATION, "violation")
def strict_and_no_election() -> History:
    return Polled().judged()


@expecting(Verdict.INCONCLUSIVE, "observation")
def unclean_allowed_and_an_election_that_looks_clean() -> History:
    return Polled().judged(unclean=True, led_next=[(2, 1, (2, 3))])


@expecting(Verdict.VIOLATION, "violation")
def unclean_allowed_and_no_election() -> History:
    return Polled().judged(unclean=True)


@expecting(Verdict.INCONCLUSIVE, "observation")
def unclean_allowed_and_one_seen() -> History:
    return Polled().judged(unclean=True, led_next=[(1, 0, (1,)), (2, 1, (2,))])


@expecting(Verdict.INCONCLUSIVE, "observation")
def unclean_seen_and_the_records_were_read() -> History:
    return Polled().judged(unclean=True, led_next=[(1, 0, (1,)), (2, 1, (2,))], read=True)


@expecting(Verdict.INCONCLUSIVE, "observation")
def acks_1_and_another_leader() -> History:
    return Polled().judged(acks=1, led_next=[(2, 1, (2, 3))])


@expecting(Verdict.INCONCLUSIVE, "observation")
def acks_1_and_the_same_leader_in_a_later_epoch() -> History:
    return Polled().judged(acks=1, led_next=[(1, 2, ISR)])


@expecting(Verdict.VIOLATION, "violation")
def acks_1_and_no_election() -> History:
    return Polled().judged(acks=1)


@expecting(Verdict.INCONCLUSIVE, "observation")
def acks_1_and_no_epochs_told() -> History:
    return Polled().judged(acks=1, epochs=False)


@pytest.fixture(scope="module")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Judgement]:
    return judge_stories(spark, tmp_path_factory.mktemp("polled"), STORIES)


@pytest.mark.parametrize(
    ("name", "verdict", "classification"),
    STORIES.cases(),
)
def test_a_loss_is_a_violation_only_if_nothing_unseen_could_have_permitted_it(
    judged: dict[str, Judgement], name: str, verdict: Verdict, classification: str
) -> None:
    lost = [finding for _, finding in judged[name].findings if finding.check == "lost-write"]
    assert [(finding.classification, finding.count) for finding in lost] == [(classification, SENT - KEPT)]
    assert judged[name].verdict == verdict


def test_the_verdict_says_what_was_not_seen(judged: dict[str, Judgement]) -> None:
    reasons = judged["unclean_allowed_and_an_election_that_looks_clean"].reasons
    assert any("it is unknown whether that was permitted: an unclean election was allowed" in one for one in reasons)


def test_an_election_that_only_looks_forbidden_is_no_violation_by_itself(judged: dict[str, Judgement]) -> None:
    (election,) = [
        finding
        for _, finding in judged["strict_and_an_election_that_looks_unclean"].findings
        if finding.check == "unclean-election"
    ]
    assert election.classification == "observation"
    assert "may have changed since" in election.sentence


def test_the_sums_add_up_with_what_nobody_can_tell(judged: dict[str, Judgement]) -> None:
    assert all(judgement.accounting["adds_up"] for judgement in judged.values())
