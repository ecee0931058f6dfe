"""Promises broken without a loss: acks=all below min.insync.replicas, and two leaders in one epoch."""

import json
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from harness.checks.judge import Judgement
from harness.scenario.model import ClusterSpec
from harness.verdict import Verdict
from tests.harness.checks.histories.build import ISR, SECOND, History, Stories, judge_stories
from tests.harness.checks.twins.twins import acknowledged, failed_over, nothing_happened

VIOLATION, PASS, OPEN = Verdict.VIOLATION, Verdict.PASS, Verdict.INCONCLUSIVE
STORIES = Stories()
expecting = STORIES.expecting
THROWN_BACK = {
    (check, "permitted")
    for check in ("lost-write", "unclean-election", "dirty-read", "inconsistent-offsets", "acknowledged-regression")
}


def alone(*, sent_at: float, knows_at: float | None = 5.1, least: str = "2", again_at: float | None = None) -> History:
    """The ISR shrinks to its leader at 5 s, and a record is acknowledged with acks=all."""
    history = History()
    history._add("configuration", time_ns=0, scope="topic", name="t", node=-1, key="min.insync.replicas", value=least)
    history._add("configuration", time_ns=0, scope="topic", name="other", node=-1, key="min.insync.replicas", value="3")
    history.state(1, 0, ISR, at=0, start=0)
    history.send(0, 0, at=1)
    history.state(1, 0, (1,), at=5)
    if knows_at is not None:
        history._add(
            "partition_states",
            topic="t",
            partition=0,
            time_ns=int(knows_at * SECOND),
            uncertainty_ns=0,
            exact=False,
            observer=1,
            leader=1,
            leader_epoch=0,
            isr=[1],
            replicas=list(ISR),
        )
    history.send(1, 1, at=sent_at)
    if again_at is not None:
        history.state(1, 0, (1, 2), at=again_at)
    history.poll([(0, 0), (1, 1)], at=20)
    return history.final([(0, 0), (1, 1)])


@expecting(VIOLATION, {("acknowledged-below-min-isr", "violation")})
def acknowledged_by_a_leader_that_knew_it_was_alone() -> History:
    return alone(sent_at=6)


@expecting(PASS, set())
def acknowledged_where_one_copy_is_enough() -> History:
    return alone(sent_at=6, least="1")


@expecting(PASS, set())
def sent_before_the_leader_knew() -> History:
    return alone(sent_at=4.95, knows_at=8)


@expecting(OPEN, {("acknowledged-below-min-isr", "observation")})
def sent_after_the_shrink_and_answered_after_the_leader_is_seen_to_know() -> History:
    return alone(sent_at=5.1, knows_at=5.15)


@expecting(OPEN, {("acknowledged-below-min-isr", "observation")})
def acknowledged_by_a_leader_of_which_nobody_knows_what_it_knew() -> History:
    return alone(sent_at=6, knows_at=None)


@expecting(PASS, set())
def acknowledged_while_an_expansion_may_have_been_asked_for() -> History:
    return alone(sent_at=6, again_at=6.15)


def refused(*, asked_by: int, in_epoch: int = 0, sent_at: float = 5.35) -> History:
    """The leader asks to take 2 back, which the controller refuses for as long as it has 2 fenced."""
    history = alone(sent_at=sent_at, knows_at=None, again_at=9)
    asked = {"topic": "t", "partition": 0, "event": "isr_expand_refused", "leader_epoch": in_epoch}
    history._add("broker_events", node=asked_by, time_ns=int(5.4 * SECOND), **asked)
    return history


@expecting(PASS, set())
def acknowledged_while_an_expansion_is_asked_for_and_refused() -> History:
    return refused(asked_by=1)


@expecting(PASS, set())
def acknowledged_after_the_leader_asked_for_another_member() -> History:
    history = refused(asked_by=1, sent_at=5.45)
    history.rows["broker_events"][-1]["event"] = "isr_expand_asked"
    return history


@expecting(OPEN, {("acknowledged-below-min-isr", "observation")})
def acknowledged_before_the_leader_asked_for_another_member() -> History:
    history = refused(asked_by=1, sent_at=5.15)
    history.rows["broker_events"][-1]["event"] = "isr_expand_asked"
    return history


@expecting(OPEN, {("acknowledged-below-min-isr", "observation")})
def acknowledged_before_an_expansion_is_refused() -> History:
    return refused(asked_by=1, sent_at=5.1)


@expecting(OPEN, {("acknowledged-below-min-isr", "observation")})
def acknowledged_while_another_leader_is_refused() -> History:
    return refused(asked_by=2)


@expecting(OPEN, {("acknowledged-below-min-isr", "observation")})
def acknowledged_while_an_expansion_of_another_epoch_is_refused() -> History:
    return refused(asked_by=1, in_epoch=1)


def learned(*, at: float, offset: int, in_epoch: int = 0, version: int = 1, enough_before: bool = True) -> History:
    """The leader's own log tells when it heard what the controller made of its ISR, and its high watermark by then; a
    record at offset 1 is answered at 6 s."""
    history = alone(sent_at=5.9, knows_at=None)
    history.scenario = replace(history.scenario, cluster=ClusterSpec(system="kafka:4.3.1"))
    if not enough_before:
        history.rows["partition_states"][0]["isr"] = [1]
        history.rows["records"][0]["acks"] = 1
    heard = {"topic": "t", "partition": 0, "event": "isr_learned", "leader_epoch": in_epoch, "to_offset": offset}
    said = json.dumps({"partition_epoch": version})
    history._add("broker_events", node=1, time_ns=int(at * SECOND), detail_text=said, **heard)
    return history


@expecting(PASS, set())
def answered_before_the_leader_learned_of_the_shrink() -> History:
    return learned(at=8, offset=1)


@expecting(PASS, set())
def committed_before_the_leader_learned_of_the_shrink() -> History:
    return learned(at=5.5, offset=2)


@expecting(PASS, set())
def committed_before_the_leader_learned_of_a_later_change() -> History:
    return learned(at=5.5, offset=2, version=2)


@expecting(OPEN, {("acknowledged-below-min-isr", "observation")})
def answered_after_the_leader_learned_of_the_shrink() -> History:
    return learned(at=5.5, offset=1)


@expecting(OPEN, {("acknowledged-below-min-isr", "observation")})
def answered_before_the_leader_learned_of_an_earlier_change() -> History:
    return learned(at=8, offset=2, version=0)


@expecting(OPEN, {("acknowledged-below-min-isr", "observation")})
def answered_before_a_leader_of_another_epoch_learned_of_a_shrink() -> History:
    return learned(at=8, offset=2, in_epoch=1)


@expecting(OPEN, {("acknowledged-below-min-isr", "observation")})
def answered_with_too_few_before_the_leader_learned_of_the_shrink() -> History:
    return learned(at=8, offset=2, enough_before=False)


@expecting(VIOLATION, {("acknowledged-below-min-isr", "violation")})
def acknowledged_long_before_the_expansion() -> History:
    return alone(sent_at=6, again_at=9)


@expecting(
    VIOLATION,
    {
        ("acknowledged-below-min-isr", "violation"),
        ("lost-write", "violation"),
        ("unclean-election", "permitted"),
    },
)
def lost_to_an_allowed_election_after_it_was_acknowledged_below_the_minimum() -> History:
    history = alone(sent_at=6).unclean_config("true")
    history.fault("kill", [1], at=8, until=30)
    history.snapshot(1, [(0, 0, 0), (1, 0, 1)], at=8, reason="kill", epochs="0:0")
    history.state(2, 1, (2,), at=10, start=1)
    kept = [row for row in history.rows["records"] if not (row["kind"] == 2 and row["value"] == 1)]
    history.rows["records"] = [row for row in kept if not (row["kind"] == 1 and row["value"] == 1)]
    return history


def handed_over(*, epoch: int, seen_by: str, said: bool = True) -> History:
    """Broker 2 hands over to broker 1, which then is alone in the ISR; a record is acknowledged just after that."""
    history = History()
    history._add("configuration", time_ns=0, scope="topic", name="t", node=-1, key="min.insync.replicas", value="2")
    history.state(2, 0, (2, 1), at=0, start=0)
    history.send(0, 0, at=1)
    history.fault("stop", [2], at=5, until=30)
    history.state(1, 1, (1,), at=5, start=1 if epoch else 2)
    if said:
        history.broker_event(1, "leadership_start", at=5.02, leader_epoch=1)
    history.send(1, 1, at=5.05)
    history.poll([(0, 0), (1, 1)], at=20, epoch=epoch if seen_by == "reader" else -1)
    history.final([(0, 0), (1, 1)])
    if seen_by == "disk":
        history.snapshot(1, [(0, 0, 0), (1, epoch, 1)])
    return history


@expecting(PASS, set())
def acknowledged_while_its_leader_handed_over_to_one_that_is_alone() -> History:
    return handed_over(epoch=0, seen_by="disk")


@expecting(PASS, set())
def acknowledged_while_its_leader_handed_over_as_a_reader_shows() -> History:
    return handed_over(epoch=0, seen_by="reader", said=False)


@expecting(VIOLATION, {("acknowledged-below-min-isr", "violation")})
def acknowledged_by_the_one_that_took_over_and_is_alone() -> History:
    return handed_over(epoch=1, seen_by="disk")


@expecting(VIOLATION, {("acknowledged-below-min-isr", "violation")})
def acknowledged_by_the_one_that_took_over_as_a_reader_shows() -> History:
    return handed_over(epoch=1, seen_by="reader")


@expecting(OPEN, {("acknowledged-below-min-isr", "observation")})
def acknowledged_at_a_hand_over_and_nothing_shows_by_whom() -> History:
    return handed_over(epoch=0, seen_by="nobody", said=False)


@expecting(VIOLATION, {("two-leaders", "violation")})
def two_leaders_by_the_books() -> History:
    return nothing_happened().state(2, 0, ISR, at=50)


@expecting(VIOLATION, {("two-leaders", "violation")})
def two_leaders_by_their_own_word() -> History:
    return nothing_happened().broker_event(3, "leadership_start", at=50, leader_epoch=0)


@expecting(PASS, set())
def one_leader_after_the_other() -> History:
    return nothing_happened().state(2, 1, ISR, at=50, start=10)


def thrown_back(*, late: bool) -> History:
    """An allowed unclean election at 5 s takes 7 to 9 from a consumer, which begins anew there; later it goes back."""
    history = acknowledged().unclean_config("true")
    history.poll([(offset, offset) for offset in range(10)], at=3)
    failed_over(history, leader=2, isr_before=(1,), kept=7)
    history.rows["records"] = [row for row in history.rows["records"] if row["kind"] != 2]
    new = [(7, 20), (8, 21), (9, 22)]
    for offset, value in new:
        history.send(value, offset, at=10 + offset / 10, process=2)
    history.poll(new, at=12)
    if late:
        history.poll([(8, 21)], at=490)
    return history.final([*((offset, offset) for offset in range(7)), *new], at=500)


@expecting(PASS, {*THROWN_BACK, ("nonmonotonic-read", "permitted")})
def a_poll_goes_back_under_an_allowed_election() -> History:
    return thrown_back(late=False)


@expecting(VIOLATION, {*THROWN_BACK, ("nonmonotonic-read", "permitted"), ("nonmonotonic-read", "violation")})
def a_poll_goes_back_long_after_an_allowed_election() -> History:
    return thrown_back(late=True)


@pytest.fixture(scope="module")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Judgement]:
    return judge_stories(spark, tmp_path_factory.mktemp("promises"), STORIES)


@pytest.mark.parametrize(
    ("name", "verdict", "expected"),
    STORIES.cases(),
)
def test_a_broken_promise_is_found_where_nothing_is_lost(
    judged: dict[str, Judgement], name: str, verdict: Verdict, expected: set[tuple[str, str]]
) -> None:
    found = {(finding.check, finding.classification) for _, finding in judged[name].findings}
    assert (judged[name].verdict, found - {("availability", "observation"), ("recovery", "observation")}) == (
        verdict,
        expected,
    ), judged[name].sentence


def brokers_0_and_63(lacking: int) -> History:
    """Both are in sync, and one lacks a record below its high watermark."""
    history = History().state(0, 0, (0, 63), at=0, start=0)
    for value in range(3):
        history.send(value, value, at=1 + value)
    for node in (0, 63):
        log = [(offset, 0, offset) for offset in range(3) if (node, offset) != (lacking, 1)]
        history.snapshot(node, log, high_watermark=3, epochs="0:0")
    return history.final([(offset, offset) for offset in range(3)])


def test_any_two_broker_ids_are_told_apart(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> None:
    stories = {"0": lambda: brokers_0_and_63(0), "63": lambda: brokers_0_and_63(63)}
    for name, judgement in judge_stories(spark, tmp_path_factory.mktemp("ids"), stories).items():
        (finding,) = [each for _, each in judgement.findings if each.check == "replica-divergence"]
        assert f"none in another's (broker {name})" in finding.sentence, finding.sentence
