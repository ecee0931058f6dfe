"""Tiny histories, told by hand, each beside a twin that differs in the one thing that changes the verdict."""

from harness.scenario.model import ExpectSpec
from harness.verdict import Verdict
from tests.harness.checks.histories.build import ISR, SECOND, History, Stories, scenario
from workloads.produce_and_poll import ProduceAndPollSettings

STORIES = Stories()
story, expecting = STORIES.story, STORIES.expecting
VIOLATION, PASS, OPEN = Verdict.VIOLATION, Verdict.PASS, Verdict.INCONCLUSIVE


def acknowledged(count: int = 10, *, acks: int = -1, **more: object) -> History:
    """Broker 1 leads in epoch 0 and acknowledges values 0..count-1 at offsets 0..count-1."""
    history = History(**more)  # type: ignore[arg-type]
    history.state(1, 0, ISR, at=0, start=0)
    for value in range(count):
        history.send(value, value, at=1 + value / 10, acks=acks)
    return history


def failed_over(history: History, *, leader: int, isr_before: tuple[int, ...], kept: int, epoch: int = 1) -> History:
    """`leader` takes over with log end `kept`; the old leader comes back and cuts its tail; then the final read."""
    history.state(history._leader or 1, history._epoch, isr_before, at=5)
    history.fault("kill", [1], at=6, until=9)
    history.snapshot(1, [(offset, 0, offset) for offset in range(10)], at=6, reason="kill", epochs="0:0")
    history.state(leader, epoch, (leader,), at=8, start=kept)
    history.truncation(1, kept, 10, epoch=epoch, at=10)
    for node in ISR:
        history.snapshot(node, [(offset, 0, offset) for offset in range(kept)], high_watermark=kept, epochs="0:0")
    return history.final([(offset, offset) for offset in range(kept)])


@expecting(PASS, {})
def nothing_happened() -> History:
    history = acknowledged()
    history.poll([(offset, offset) for offset in range(5)], at=3)
    history.poll([(offset, offset) for offset in range(5, 10)], at=4)
    return history.final([(offset, offset) for offset in range(10)])


@expecting(PASS, {("lost-write", "permitted"): 3, ("unclean-election", "permitted"): 3})
def unclean_election_lost_three() -> History:
    history = acknowledged().unclean_config("true")
    return failed_over(history, leader=2, isr_before=(1,), kept=7)


@expecting(VIOLATION, {("lost-write", "violation"): 3})
def unclean_allowed_but_the_election_was_clean() -> History:
    history = acknowledged().unclean_config("true")
    return failed_over(history, leader=2, isr_before=(1, 2), kept=7)


@expecting(VIOLATION, {("lost-write", "violation"): 3, ("unclean-election", "violation"): 3})
def unclean_election_although_forbidden() -> History:
    history = acknowledged().unclean_config("false")
    return failed_over(history, leader=2, isr_before=(1,), kept=7)


@expecting(
    VIOLATION, {("lost-write", "violation"): 1, ("lost-write", "permitted"): 3, ("unclean-election", "permitted"): 3}
)
def unclean_election_above_the_lost_record() -> History:
    """Value 3 vanishes though the uncleanly elected leader's log reached to 7: that election cannot have cost it."""
    history = acknowledged().unclean_config("true")
    failed_over(history, leader=2, isr_before=(1,), kept=7)
    history.rows["records"] = [r for r in history.rows["records"] if not (r["kind"] == 2 and r["value"] == 3)]
    return history


@expecting(PASS, {("lost-write", "permitted"): 3})
def acks_1_lost_by_fail_over() -> History:
    return failed_over(acknowledged(acks=1), leader=2, isr_before=ISR, kept=7)


@expecting(VIOLATION, {("lost-write", "violation"): 3})
def acks_all_lost_by_clean_fail_over() -> History:
    return failed_over(acknowledged(), leader=2, isr_before=ISR, kept=7)


@expecting(VIOLATION, {("lost-write", "violation"): 3})
def acks_1_lost_by_restart_of_the_same_leader() -> History:
    return failed_over(acknowledged(acks=1), leader=1, isr_before=(1,), kept=7)


@expecting(VIOLATION, {("lost-write", "violation"): 1})
def acks_1_lost_without_any_election() -> History:
    return acknowledged(acks=1).final([(offset, offset) for offset in range(10) if offset != 4])


@expecting(VIOLATION, {("lost-write", "violation"): 3, ("dirty-read", "violation"): 3})
def acks_1_lost_although_a_consumer_had_read_it() -> History:
    history = acknowledged(acks=1).poll([(offset, offset) for offset in range(10)], at=3)
    return failed_over(history, leader=2, isr_before=ISR, kept=7)


@expecting(PASS, {("lost-write", "permitted"): 10})
def every_in_sync_disk_lost() -> History:
    history = acknowledged().state(1, 0, (1,), at=3)
    history.fault("wipe", [1], at=5)
    history.state(-1, 0, (1,), at=6)
    history.state(1, 1, (1,), at=8, start=0)
    return history.final([])


@expecting(VIOLATION, {("lost-write", "violation"): 10})
def one_of_two_in_sync_disks_lost() -> History:
    history = acknowledged().state(1, 0, (1, 2), at=3)
    history.fault("wipe", [1], at=5)
    history.state(1, 1, (1, 2), at=8, start=0)
    return history.final([])


@expecting(VIOLATION, {("lost-write", "violation"): 10})
def disks_lost_one_after_the_other_with_a_rejoin_between() -> History:
    """1 loses its disk, comes back in sync, then 2 loses its own: 1 has everything, so nothing may be lost."""
    history = acknowledged().state(1, 0, (1, 2), at=3)
    history.fault("wipe", [1], at=4)
    history.state(2, 1, (2,), at=5, start=10)
    history.state(2, 1, (1, 2), at=6)
    history.fault("wipe", [2], at=7)
    history.state(1, 2, (1,), at=8, start=0)
    return history.final([])


@expecting(PASS, {("unreadable", "observation"): 4})
def unreadable_above_a_frozen_high_watermark() -> History:
    history = acknowledged(acks=1).state(1, 0, (1,), at=0.5)
    history.snapshot(1, [(offset, 0, offset) for offset in range(10)], high_watermark=6, epochs="0:0")
    return history.final([(offset, offset) for offset in range(6)])


@expecting(VIOLATION, {("lost-write", "violation"): 4})
def unread_and_gone_from_the_in_sync_log() -> History:
    history = acknowledged().state(1, 0, (1,), at=0.5)
    history.snapshot(1, [(offset, 0, offset) for offset in range(6)], high_watermark=6, epochs="0:0")
    return history.final([(offset, offset) for offset in range(6)])


@expecting(Verdict.INCONCLUSIVE, {("unseen-tail", "observation"): 4})
def not_read_to_the_end() -> History:
    return acknowledged(read_to_end=False).final([(offset, offset) for offset in range(6)])


@expecting(PASS, {("unseen-tail", "observation"): 4})
def not_read_to_the_end_as_expected() -> History:
    expect = ExpectSpec(unreadable=True)
    return acknowledged(read_to_end=False, scenario_=scenario(expect=expect)).final(
        [(offset, offset) for offset in range(6)]
    )


@expecting(OPEN, {("lost-write", "observation"): 1})
def in_no_log_and_a_fail_over_after_the_acknowledgement() -> History:
    history = acknowledged(7, acks=1).send(50, 7, at=3, acks=1)
    history.state(2, 1, (2, 3), at=5)
    return history.final([(offset, offset) for offset in range(7)])


@expecting(VIOLATION, {("lost-write", "violation"): 1})
def in_no_log_and_a_fail_over_before_the_acknowledgement() -> History:
    history = acknowledged(7, acks=1).state(2, 1, (2, 3), at=2)
    history.send(50, 7, at=3, acks=1)
    return history.final([(offset, offset) for offset in range(7)])


@expecting(PASS, {("lost-write", "permitted"): 1})
def zombie_leader_acknowledged_alone() -> History:
    """Broker 2 leads from 5 s on; broker 1 does not know and acknowledges value 10 at 6 s with acks=1."""
    history = acknowledged(acks=1, scenario_=scenario(coverage={"zombie_acks": "= 1", "elections": "= 1"}))
    history.state(2, 1, (2, 3), at=5, start=10)
    history.send(10, 10, at=6, acks=1)
    history.truncation(1, 10, 11, epoch=1, at=9)
    history.snapshot(1, [(10, 0, 10)], at=9, reason="truncation")
    for node in ISR:
        history.snapshot(node, [(offset, 0, offset) for offset in range(10)], high_watermark=10, epochs="0:0")
    return history.final([(offset, offset) for offset in range(10)])


@expecting(VIOLATION, {("dirty-read", "violation"): 1})
def read_by_a_consumer_and_then_gone() -> History:
    history = acknowledged(7).send(50, None, at=1.8, status=2)
    history.poll([(7, 50)], at=4)
    return history.final([(offset, offset) for offset in range(7)])


@expecting(VIOLATION, {("aborted-read", "violation"): 1})
def refused_and_then_read() -> History:
    return acknowledged(3).send(50, None, at=1.8, status=1).final([(0, 0), (1, 1), (2, 2), (3, 50)])


@expecting(PASS, {})
def unknown_and_then_read() -> History:
    return acknowledged(3).send(50, None, at=1.8, status=2).final([(0, 0), (1, 1), (2, 2), (3, 50)])


@expecting(VIOLATION, {("phantom", "violation"): 1})
def read_and_never_sent() -> History:
    return acknowledged(3).final([(0, 0), (1, 1), (2, 2), (3, 77)])


@expecting(VIOLATION, {("phantom", "violation"): 1})
def read_before_it_was_sent() -> History:
    return acknowledged(3).poll([(2, 2)], at=0.2).final([(0, 0), (1, 1), (2, 2)])


@expecting(VIOLATION, {("duplicate", "violation"): 1})
def twice_in_the_log_of_an_idempotent_producer() -> History:
    return acknowledged(3).final([(0, 0), (1, 1), (2, 2), (3, 2)])


def _repeated(*, disturbed: bool) -> History:
    history = acknowledged(3, scenario_=scenario(workload=ProduceAndPollSettings(idempotence=False)))
    if disturbed:
        history.fault("pause", [1], at=1, until=2)
    return history.final([(0, 0), (1, 1), (2, 2), (3, 2)])


@expecting(PASS, {("duplicate", "permitted"): 1})
def twice_in_the_log_after_a_retry_under_a_fault() -> History:
    return _repeated(disturbed=True)


@expecting(Verdict.INCONCLUSIVE, {("duplicate", "observation"): 1})
def twice_in_the_log_without_a_reason_to_retry_of_a_client_that_tells_nothing() -> History:
    return _repeated(disturbed=False)


@expecting(
    VIOLATION,
    {("inconsistent-offsets", "violation"): 1, ("lost-write", "violation"): 1, ("reordering", "violation"): 1},
)
def two_values_at_one_offset() -> History:
    return acknowledged(3).send(50, 2, at=4).final([(0, 0), (1, 1), (2, 50)])


@expecting(VIOLATION, {("acknowledged-regression", "violation"): 1, ("cycle", "violation"): 1})
def two_orders_against_time_of_which_one_is_told_by_its_acknowledgements() -> History:
    """Value 2 was acknowledged below 1; value 4 stands below 3, which had been acknowledged, and had no answer."""
    history = History().state(1, 0, ISR, at=0, start=0)
    history.send(1, 1, at=1)
    history.send(2, 0, at=2, process=2)
    history.send(3, 3, at=3)
    history.send(4, None, at=4, process=2, status=2)
    return history.final([(0, 2), (1, 1), (2, 4), (3, 3)])


@expecting(VIOLATION, {("nonmonotonic-read", "violation"): 1})
def a_poll_went_back() -> History:
    return nothing_happened().poll([(2, 2), (3, 3)], at=5)


def _read_from_the_head_again(*, offset_reset: str) -> History:
    """A consumer had read up to 9; then the log ended at 7, and it read from 0 on, in the same assignment."""
    history = acknowledged().unclean_config("true")
    history.client(9, offset_reset=offset_reset)
    history.poll([(offset, offset) for offset in range(10)], at=4, epoch=0)
    failed_over(history, leader=2, isr_before=(1,), kept=7)
    return history.poll([(offset, offset) for offset in range(7)], at=11, epoch=0)


@expecting(
    PASS,
    {
        ("lost-write", "permitted"): 3,
        ("unclean-election", "permitted"): 3,
        ("dirty-read", "permitted"): 3,
        ("nonmonotonic-read", "permitted"): 1,
    },
)
def a_poll_went_back_to_the_head_after_the_log_had_been_cut_below_its_position() -> History:
    return _read_from_the_head_again(offset_reset="earliest")


@expecting(
    VIOLATION,
    {
        ("lost-write", "permitted"): 3,
        ("unclean-election", "permitted"): 3,
        ("dirty-read", "permitted"): 3,
        ("nonmonotonic-read", "violation"): 1,
    },
)
def a_poll_went_back_to_the_head_though_its_consumer_never_resets_its_position() -> History:
    return _read_from_the_head_again(offset_reset="none")


@expecting(PASS, {})
def a_new_assignment_starts_over() -> History:
    return nothing_happened().poll([(2, 2), (3, 3)], at=5, assignment=1)


@expecting(VIOLATION, {("skipped-read", "violation"): 1})
def a_poll_skipped() -> History:
    return acknowledged().poll([(0, 0), (1, 1), (5, 5)], at=3).final([(offset, offset) for offset in range(10)])


@expecting(PASS, {})
def a_poll_stepped_over_a_hole_in_the_log() -> History:
    history = acknowledged(2).send(5, 5, at=2)
    history.poll([(0, 0), (1, 1), (5, 5)], at=3)
    return history.final([(0, 0), (1, 1), (5, 5)])


@expecting(VIOLATION, {("replica-divergence", "violation"): 1})
def replicas_of_the_isr_disagree() -> History:
    history = nothing_happened()
    for node, value in ((1, 4), (2, 4), (3, 44)):
        history.snapshot(node, [(4, 0, value)], high_watermark=5)
    return history


@expecting(PASS, {})
def replicas_differ_above_their_high_watermarks() -> History:
    history = nothing_happened()
    for node, value in ((1, 4), (2, 4), (3, 44)):
        history.snapshot(node, [(4, 0, value)], high_watermark=4)
    return history


def _reborn(*, moved_between: bool) -> History:
    """Broker 1, a leader, goes at 3 s and is registered again at 4 s; the controller acts between or afterwards."""
    history = acknowledged(scenario_=scenario(coverage={"deaths_and_births_in_one_event": "= 1"}))
    history._add("broker_events", node=1, time_ns=3 * SECOND, event="broker_gone")
    history._add("broker_events", node=1, time_ns=4 * SECOND, event="broker_registered")
    history.state(2, 1, (2, 3), at=3.5 if moved_between else 4.5, start=10)
    return history.final([(offset, offset) for offset in range(10)])


@expecting(PASS, {})
def death_and_birth_seen_as_one_change() -> History:
    return _reborn(moved_between=False)


@expecting(Verdict.VACUOUS, {})
def death_seen_before_the_birth() -> History:
    return _reborn(moved_between=True)


@expecting(PASS, {("lost-write", "permitted"): 3, ("unclean-election", "permitted"): 3})
def unclean_election_told_only_by_its_states() -> History:
    """The books say who led and who was in sync; whether that was unclean follows from them."""
    history = unclean_election_lost_three()
    for row in history.rows["partition_states"]:
        row |= {"unclean": None, "isr_before": None, "leader_before": None}
    return history
