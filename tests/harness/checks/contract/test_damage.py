"""Damaged and full disks: what they excuse, and what they do not. Each history has a twin that differs in one thing."""

import pytest
from pyspark.sql import SparkSession

from harness.checks.judge import Judgement
from harness.verdict import Verdict
from tests.harness.checks.histories.build import ISR, SECOND, History, Stories, judge_stories, scenario
from tests.harness.checks.twins.twins import acknowledged, nothing_happened

VIOLATION, PASS, OPEN = Verdict.VIOLATION, Verdict.PASS, Verdict.INCONCLUSIVE
STORIES = Stories()
expecting = STORIES.expecting


@expecting(PASS, {("lost-write", "permitted"): 6})
def every_in_sync_copy_damaged() -> History:
    history = acknowledged().state(1, 0, (1,), at=3)
    history.damage(1, 4, 6, at=5)
    history.state(-1, 0, (1,), at=6)
    history.state(1, 1, (1,), at=8, start=4)
    return history.final([(offset, offset) for offset in range(4)])


@expecting(VIOLATION, {("lost-write", "violation"): 4, ("lost-write", "permitted"): 2})
def a_damage_beyond_the_lost_records() -> History:
    history = acknowledged().state(1, 0, (1,), at=3)
    history.damage(1, 8, 10, at=5)
    history.state(1, 1, (1,), at=8, start=4)
    return history.final([(offset, offset) for offset in range(4)])


def _elected_over(*, cut_at: float, uncertainty_s: int = 0) -> History:
    """A batch of the only copy in sync is damaged; another broker is elected at 8, and this one cuts its log."""
    history = acknowledged().state(1, 0, (1,), at=3)
    history.damage(1, 4, 5, at=5)
    history.state(2, 1, (2,), at=8, start=4)
    history.rows["partition_states"][-1]["uncertainty_ns"] = uncertainty_s * SECOND
    history.truncation(1, 4, 10, epoch=None, at=cut_at)
    return history.final([(offset, offset) for offset in range(4)])


@expecting(VIOLATION, {("unclean-election", "violation"): 1, ("lost-write", "permitted"): 6})
def cut_for_a_damaged_batch_before_another_was_elected() -> History:
    return _elected_over(cut_at=7)


@expecting(
    VIOLATION, {("unclean-election", "violation"): 6, ("lost-write", "permitted"): 1, ("lost-write", "observation"): 5}
)
def cut_for_a_damaged_batch_after_another_was_elected() -> History:
    return _elected_over(cut_at=9)


@expecting(
    VIOLATION, {("unclean-election", "violation"): 6, ("lost-write", "permitted"): 1, ("lost-write", "observation"): 5}
)
def cut_for_a_damaged_batch_before_or_after_another_was_elected() -> History:
    return _elected_over(cut_at=9, uncertainty_s=2)


@expecting(OPEN, {("lost-write", "observation"): 6})
def a_damage_of_which_nobody_recorded_the_place() -> History:
    history = acknowledged().state(1, 0, (1,), at=3)
    history.fault("damage", [1], at=5)
    history.state(1, 1, (1,), at=8, start=4)
    return history.final([(offset, offset) for offset in range(4)])


@expecting(VIOLATION, {("lost-write", "violation"): 6})
def one_of_two_in_sync_copies_damaged() -> History:
    """It was cut at its start, led all the same, and the others cut theirs after it."""
    history = acknowledged().state(1, 0, (1, 2), at=3)
    history.fault("damage", [1], at=5)
    history.state(1, 1, (1, 2), at=8, start=4)
    return history.final([(offset, offset) for offset in range(4)])


@expecting(VIOLATION, {("lost-write", "violation"): 6})
def a_full_disk_excuses_no_loss() -> History:
    history = acknowledged().state(1, 0, (1,), at=3)
    history.fault("full", [1], at=5)
    history.state(-1, 0, (1,), at=6)
    history.state(1, 1, (1,), at=8, start=4)
    return history.final([(offset, offset) for offset in range(4)])


@expecting(
    VIOLATION, {("phantom", "violation"): 1, ("lost-write", "violation"): 1, ("inconsistent-offsets", "violation"): 1}
)
def a_damaged_record_was_served() -> History:
    """Its value is one that nobody sent, at an offset whose own value is gone."""
    history = acknowledged().fault("damage", [1], at=5)
    return history.final([(offset, 999 if offset == 3 else offset) for offset in range(10)])


@expecting(VIOLATION, {("replica-divergence", "violation"): 1})
def a_damaged_record_was_copied_over_a_good_one() -> History:
    history = acknowledged().fault("damage", [1], at=5)
    for node in ISR:
        history.snapshot(
            node, [(offset, 0, 999 if node == 2 and offset == 3 else offset) for offset in range(10)], high_watermark=10
        )
    return history.final([(offset, offset) for offset in range(10)])


@expecting(VIOLATION, {("corrupt-record", "violation"): 2})
def a_damaged_batch_was_served_and_refused() -> History:
    """The leader's log is damaged, and it serves what it reads, although its follower's log is sound."""
    history = nothing_happened().fault("damage", [1], at=5)
    history.refused_read(at=6)
    return history.refused_read(at=7, f="final_poll")


@expecting(PASS, {("corrupt-record", "permitted"): 1})
def the_only_copy_was_damaged_and_served() -> History:
    history = nothing_happened().state(1, 0, (1,), at=4)
    history.fault("damage", [1], at=5)
    return history.refused_read(at=6)


@expecting(PASS, {})
def a_read_failed_for_another_reason() -> History:
    return nothing_happened().fault("damage", [1], at=5).refused_read(at=6, error="KafkaTimeoutError")


def _unread_behind(damaged: int, *, faulty: int) -> History:
    history = acknowledged().fault("damage", [faulty], at=5)
    for node in ISR:
        history.snapshot(
            node, [(offset, 0, offset) for offset in range(4 if node == damaged else 10)], high_watermark=10
        )
    return history.final([(offset, offset) for offset in range(10)])


@expecting(PASS, {("replica-divergence", "permitted"): 6})
def a_damaged_copy_that_nobody_had_to_read() -> History:
    return _unread_behind(2, faulty=2)


@expecting(VIOLATION, {("replica-divergence", "violation"): 6, ("evidence", "observation"): 2})
def a_copy_that_cannot_be_read_though_another_was_damaged() -> History:
    return _unread_behind(2, faulty=3)


@expecting(VIOLATION, {("replica-divergence", "violation"): 6})
def a_damaged_copy_that_was_not_cut_at_a_start_after_a_crash() -> History:
    return _unread_behind(2, faulty=2).started(2, at=6)


@expecting(PASS, {("replica-divergence", "permitted"): 6})
def a_damaged_copy_of_a_broker_that_started_before_it_was_damaged() -> History:
    return _unread_behind(2, faulty=2).started(2, at=4)


@expecting(PASS, {("replica-divergence", "permitted"): 6})
def a_damaged_copy_of_a_broker_that_was_stopped_cleanly_and_started() -> History:
    return _unread_behind(2, faulty=2).fault("stop", [2], at=5.5, until=6).started(2, at=6)


@expecting(PASS, {("replica-divergence", "permitted"): 6})
def a_damaged_copy_in_segments_that_may_have_been_full() -> History:
    history = _unread_behind(2, faulty=2)
    history.scenario = scenario(settings={"log.segment.bytes": "1000"})
    return history.started(2, at=6)


@expecting(VIOLATION, {("corrupt-record", "permitted"): 1, ("corrupt-record", "violation"): 1})
def the_only_copy_was_damaged_and_served_after_a_crash() -> History:
    """Before, it had not had to read it."""
    return the_only_copy_was_damaged_and_served().started(1, at=7).refused_read(at=8)


def _back_with_an_empty_log(*, leads: bool) -> History:
    """Its leader lost its disk and was back before anybody noticed: it leads on, or does not."""
    history = acknowledged()
    history.scenario = scenario(coverage={"elections": "1", "wipes": "1"})
    history.fault("kill", [1], at=5, until=6)
    history.fault("wipe", [1], at=5.5, until=6)
    history.started(1, at=6)
    if leads:
        history.step("wait", "leader = 2", "timeout", seen="leader 1")
        for node in (2, 3):
            history.truncation(node, 0, 10, epoch=0, at=6.5)
        history.snapshot(1, [], high_watermark=0)
        history.final([])
    else:
        history.state(2, 1, (2, 3), at=6.1, start=10)
        history.final([(offset, offset) for offset in range(10)])
    return history


@expecting(VIOLATION, {("lost-write", "violation"): 10})
def a_broker_that_came_back_fast_with_an_empty_log_leads() -> History:
    return _back_with_an_empty_log(leads=True)


@expecting(PASS, {})
def a_broker_that_came_back_fast_with_an_empty_log_leads_no_more() -> History:
    return _back_with_an_empty_log(leads=False)


@pytest.fixture(scope="module")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Judgement]:
    return judge_stories(spark, tmp_path_factory.mktemp("damage"), STORIES, with_evidence=False)


@pytest.mark.parametrize(
    ("name", "verdict", "expected"),
    STORIES.cases(),
)
def test_the_verdict_follows_the_evidence(
    judged: dict[str, Judgement], name: str, verdict: Verdict, expected: dict[tuple[str, str], int]
) -> None:
    sums: dict[tuple[str, str], int] = {}
    for _, finding in judged[name].findings:
        key = (finding.check, finding.classification)
        sums[key] = sums.get(key, 0) + finding.count
    assert (judged[name].verdict, sums) == (verdict, expected), judged[name].sentence


def test_a_served_record_is_reported_with_who_refused_it_and_why_it_counts(judged: dict[str, Judgement]) -> None:
    ((_, finding),) = judged["a_damaged_batch_was_served_and_refused"].findings
    assert "2 reads were answered with a batch whose checksum does not hold, the first at 6." in finding.sentence
    assert "(consumer-1): the log of broker 1 had been damaged, and other in-sync copies were sound" in finding.sentence
