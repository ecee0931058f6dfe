"""Flaws of replication and its controller: each with a schedule that goes wrong with the flaw, and not without it."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from reference_impl.core.controller import alter_partition
from reference_impl.core.controller.controller_state import ClusterState, Incarnation, brokers_changed
from reference_impl.core.controller.election import elect_preferred, settle
from reference_impl.core.flaws import with_flaws
from reference_impl.core.identifiers import NO_LEADER, ErrorCode
from reference_impl.core.rules import Rules
from reference_impl.core.state import IsrProposal, LiveBroker, PartitionState
from tests.reference_impl.core.replication_world import LAG_MS, TP, World, lost, visible

Goes = Callable[[Rules], bool]  # whether it goes wrong under these rules


def _in_sync(rules: Rules, *, min_isr: int = 2) -> World:
    """All three have one committed record, and know that it is."""
    world = World(rules=rules, min_isr=min_isr)
    world.write("before")
    world.fetch(2, 3, rounds=3)
    return world


def _killed(world: World, *brokers: int) -> World:
    for broker in brokers:
        world.kill(broker)
    world.notice_deaths()
    world.tell()
    return world


def what_is_not_committed_is_read(rules: Rules) -> bool:
    world = _in_sync(rules)
    world.write("m")
    return "m" in visible(world.leader)


def a_new_leader_cuts_itself(rules: Rules) -> bool:
    world = _in_sync(rules)
    result = world.write("m")
    world.fetch(2, 3)
    world.ask(2), world.ask(3)  # the leader commits m, and nobody hears of it
    assert world.outcome(result) is ErrorCode.NONE
    return lost(_killed(world, 1), ["m"]) == ["m"]


def two_of_three_are_enough(rules: Rules) -> bool:
    world = _in_sync(rules)
    result = world.write("m")
    world.fetch(2, rounds=2)
    acknowledged = ["m"] if world.outcome(result) is ErrorCode.NONE else []
    return bool(lost(_killed(world, 1, 2), acknowledged))


def who_joins_does_not_count(rules: Rules) -> bool:
    """The controller has let 3 in, and its answer is on the way."""
    world = _in_sync(rules)
    world.now_ms += 2 * LAG_MS
    world.write("while 3 is away")
    world.fetch(2, rounds=2)
    assert world.shrink() is ErrorCode.NONE
    world.fetch(2, 3, rounds=2)
    proposal = world.leader.isr_proposal(now_ms=world.now_ms)
    assert proposal is not None
    assert world.alter_partition(proposal)[0] is ErrorCode.NONE
    result = world.write("m")
    world.fetch(2, rounds=2)
    acknowledged = ["m"] if world.outcome(result) is ErrorCode.NONE else []
    return bool(lost(_killed(world, 1, 2), acknowledged))


def who_leaves_does_not_count(rules: Rules) -> bool:
    """The leader has asked for an ISR of its own, and its question does not reach the controller."""
    world = _in_sync(rules, min_isr=1)
    result = world.write("m")
    world.now_ms += 2 * LAG_MS
    world.leader.check_shrink(now_ms=world.now_ms)
    acknowledged = ["m"] if world.outcome(result) is ErrorCode.NONE else []
    return bool(lost(_killed(world, 1), acknowledged))


def it_joins_too_early(rules: Rules) -> bool:
    """A new leader's high watermark lags behind what is committed, and 3 lacks some of that."""
    world = _in_sync(rules)
    world.now_ms += 2 * LAG_MS
    world.write("while 3 is away")
    world.fetch(2, rounds=2)
    assert world.shrink() is ErrorCode.NONE
    world.fetch(3)
    result = world.write("m")
    world.fetch(2)
    world.ask(2)  # the leader commits m, and 2 does not hear of it
    assert world.outcome(result) is ErrorCode.NONE
    _killed(world, 1)  # 2 leads, and its high watermark is below m
    world.ask(3)  # 3 has not m yet
    world.settle_isr()
    return lost(_killed(world, 2), ["m"]) == ["m"] if 3 in world.state.isr else False


def acks_all_ends_well_with_its_term(rules: Rules) -> bool:
    world = _in_sync(rules)
    result = world.write("m")
    world.elect(2)
    world.tell()
    return world.outcome(result, at=1) is ErrorCode.NONE


def a_timeout_is_a_success(rules: Rules) -> bool:
    return rules.after_timeout() is ErrorCode.NONE


def a_fetch_with_another_history_counts(rules: Rules) -> bool:
    """2 led and appended alone; the next leader has a record of its own there, and believes that 2 has it."""
    world = _in_sync(rules)
    world.elect(2)
    world.tell(2)
    world.write("alone", at=2)
    world.elect(1)
    world.tell(1)
    result = world.write("m")
    world.tell(2, 3)
    world.fetch(3, rounds=2)
    world.ask(2)
    world.ask(3)
    return world.outcome(result) is ErrorCode.NONE


def another_record_stays_below_the_high_watermark(rules: Rules) -> bool:
    """1 and 3 have appended alone, in two epochs, and 1 leads again: in its log the earlier epoch ends behind what 3
    appended."""
    world = _in_sync(rules)
    world.write("unknown to others", acks=1)
    world.elect(3)
    world.tell(3)
    world.write("alone", at=3)
    world.elect(2)
    world.tell(1, 2)
    world.elect(1)
    world.tell(1, 2)
    world.write("m")
    world.write("next")
    world.tell(3)
    world.fetch(2, 3, rounds=4)
    return world.values(3)[1] != world.values(1)[1]


def it_does_not_compare_with_the_same_leader(rules: Rules) -> bool:
    """3 misses the term of 2 in which 1 cut its log, and knows 1 as its leader before and after."""
    world = _in_sync(rules)
    world.write("alone", at=1, acks=1)
    world.fetch(3)
    world.elect(2)
    world.tell(1, 2)
    world.fetch(1)
    world.elect(1)
    world.tell(1, 2)
    world.write("m")
    world.tell(3)
    world.fetch(3, rounds=3)
    return world.values(3)[:2] != world.values(1)[:2]


def an_old_fetch_is_answered(rules: Rules) -> bool:
    world = _in_sync(rules)
    world.elect(2)
    world.elect(1)
    world.tell(1)
    fetch = world.ask(3)  # it has not heard of the new epochs
    assert fetch is not None
    return fetch.answer.error is ErrorCode.NONE


def an_old_answer_is_taken(rules: Rules) -> bool:
    world = _in_sync(rules)
    world.write("m", acks=1)
    fetch = world.ask(3)
    assert fetch is not None
    world.elect(2)
    world.tell(2, 3)
    world.deliver(fetch)
    return "m" in world.values(3)


def the_epoch_is_undefined(rules: Rules) -> bool:
    world = _in_sync(rules)
    world.elect(2)
    world.tell()
    return world.leader.end_offset_for_epoch(1, current_leader_epoch=1)[2] != 1


def records_of_an_unknown_epoch_are_taken(rules: Rules) -> bool:
    return not rules.refuses_epoch(3, 2)


def the_high_watermark_lies_beyond_the_log(rules: Rules) -> bool:
    world = _in_sync(rules)
    partition = world.partitions[3]
    partition.truncate_out_of_range(0, 0)
    return partition.high_watermark > partition.log.log_end_offset


def a_longer_log_is_wiped(rules: Rules) -> bool:
    world = _in_sync(rules)
    world.write("m")
    world.fetch(2, 3, rounds=2)
    world.partitions[3].truncate_out_of_range(0, 1)
    return not world.values(3)


def what_is_not_committed_is_deleted(rules: Rules) -> bool:
    world = _in_sync(rules)
    world.write("m")
    return world.leader.delete_records(2)[0] is ErrorCode.NONE


def an_older_life_fetches(rules: Rules) -> bool:
    world = _in_sync(rules)
    world.kill(3)
    world.start(3)
    world.tell()
    read = world.leader.read_for_follower(
        3, 1, 1, last_fetched_epoch=0, current_leader_epoch=0, max_bytes=1, now_ms=world.now_ms
    )
    return read.error is ErrorCode.NONE


def alone_it_commits(rules: Rules) -> bool:
    world = _in_sync(rules)
    world.now_ms += 2 * LAG_MS
    world.write("while all are away")
    world.shrink()
    world.write("m", acks=1)
    return world.leader.high_watermark == 3


def alone_it_acknowledges(rules: Rules) -> bool:
    world = _in_sync(rules)
    world.now_ms += 2 * LAG_MS
    world.write("while all are away", acks=1)
    world.shrink()
    result = world.write("m")
    return result.error is ErrorCode.NONE and world.outcome(result) is ErrorCode.NONE


def a_smaller_isr_commits_nothing(rules: Rules) -> bool:
    world = _in_sync(rules, min_isr=1)
    world.now_ms += 2 * LAG_MS
    world.write("m")
    world.shrink()
    return world.leader.high_watermark == 1


def who_lags_stays(rules: Rules) -> bool:
    world = _in_sync(rules)
    world.now_ms += 2 * LAG_MS
    world.write("m")
    world.shrink()
    return world.state.isr == (1, 2, 3)


def who_fetches_in_time_leaves(rules: Rules) -> bool:
    world = _in_sync(rules)
    for number in range(5):
        world.write(f"m{number}")
    world.shrink()
    return world.state.isr == (1,)


GOES_WRONG: dict[str, Goes] = {
    "read-to-log-end": what_is_not_committed_is_read,
    "truncate-to-high-watermark-on-lead": a_new_leader_cuts_itself,
    "commit-by-majority": two_of_three_are_enough,
    "commit-without-who-joins": who_joins_does_not_count,
    "shrink-before-it-is-committed": who_leaves_does_not_count,
    "join-at-high-watermark": it_joins_too_early,
    "acknowledge-after-term": acks_all_ends_well_with_its_term,
    "acknowledge-after-timeout": a_timeout_is_a_success,
    "diverging-fetch-is-progress": a_fetch_with_another_history_counts,
    "end-of-another-epoch": another_record_stays_below_the_high_watermark,
    "no-reconciling-with-same-leader": it_does_not_compare_with_the_same_leader,
    "fetches-of-any-epoch": an_old_fetch_is_answered,
    "answers-of-another-term": an_old_answer_is_taken,
    "epoch-with-first-record": the_epoch_is_undefined,
    "records-of-unknown-epochs": records_of_an_unknown_epoch_are_taken,
    "high-watermark-beyond-cut": the_high_watermark_lies_beyond_the_log,
    "wipe-when-out-of-range": a_longer_log_is_wiped,
    "delete-beyond-high-watermark": what_is_not_committed_is_deleted,
    "fetches-of-older-incarnations": an_older_life_fetches,
    "commit-below-min-isr": alone_it_commits,
    "no-min-isr": alone_it_acknowledges,
    "no-look-at-new-isr": a_smaller_isr_commits_nothing,
    "isr-never-shrinks": who_lags_stays,
    "isr-by-records": who_fetches_in_time_leaves,
}


# ---- the controller -------------------------------------------------------------------------------------------------

STATE = PartitionState(
    topic_partition=TP, replicas=(1, 2, 3), leader=1, isr=(1, 2), leader_epoch=4, partition_epoch=7, controller_epoch=1
)


def _brokers(*numbers: int, epoch: int = 100) -> dict[int, LiveBroker]:
    return {
        number: LiveBroker(broker_id=number, broker_epoch=epoch, listeners=(), directory_ids=(f"d{number}",))
        for number in numbers
    }


def _decided(rules: Rules, *, partition_epoch: int = 7, fetched_with: int = 100) -> PartitionState | ErrorCode:
    proposal = IsrProposal(
        topic_partition=TP, leader_epoch=4, partition_epoch=partition_epoch, isr=((1, 100), (3, fetched_with))
    )
    return alter_partition.decide(proposal, sender=1, state=STATE, brokers=_brokers(1, 2, 3), rules=rules.controller)


def an_old_proposal_is_taken(rules: Rules) -> bool:
    return isinstance(_decided(rules, partition_epoch=6), PartitionState)


def an_older_life_joins(rules: Rules) -> bool:
    return isinstance(_decided(rules, fetched_with=99), PartitionState)


def a_restart_is_none(rules: Rules) -> bool:
    state = ClusterState(brokers=_brokers(1, 2, 3), partitions={TP: STATE}, rules=rules.controller)
    state.incarnations = {
        number: Incarnation(broker_epoch=100, directory_ids=(f"d{number}",)) for number in state.brokers
    }
    return not brokers_changed(state, _brokers(2, 3) | _brokers(1, epoch=101)).partitions


def one_outside_the_isr_is_elected(rules: Rules) -> bool:
    return settle(STATE, live=(3,), eligible=(3,), rules=rules.controller).leader == 3


def a_new_leader_has_the_old_epoch(rules: Rules) -> bool:
    return settle(STATE, live=(2, 3), eligible=(2, 3), rules=rules.controller).leader_epoch == 4


def the_preferred_one_lacks_records(rules: Rules) -> bool:
    state = replace(STATE, replicas=(3, 1, 2))
    return isinstance(elect_preferred(state, eligible=(1, 2, 3), rules=rules.controller), PartitionState)


def a_dead_one_is_elected(rules: Rules) -> bool:
    return settle(STATE, live=(3,), eligible=(3,), rules=rules.controller).leader not in (3, NO_LEADER)


GOES_WRONG |= {
    "isr-of-any-epoch": an_old_proposal_is_taken,
    "any-incarnation-joins": an_older_life_joins,
    "restarts-unnoticed": a_restart_is_none,
    "always-unclean": one_outside_the_isr_is_elected,
    "leaders-keep-the-epoch": a_new_leader_has_the_old_epoch,
    "preferred-out-of-sync": the_preferred_one_lacks_records,
    "leaders-that-are-gone": a_dead_one_is_elected,
}


def a_high_watermark_comes_with_a_cut(rules: Rules) -> bool:
    """3 has appended alone, and is told where to cut by a leader whose high watermark lies behind that."""
    world = _in_sync(rules)
    world.now_ms += 2 * LAG_MS
    world.write("while 3 is away")
    world.fetch(2, rounds=2)
    world.shrink()
    world.write("m")
    world.fetch(2, rounds=2)
    world.partitions[3].become_leader(replace(world.state, leader=3, leader_epoch=1, partition_epoch=8), now_ms=0)
    world.write("alone", at=3, acks=1)
    world.state = replace(world.state, leader_epoch=2, partition_epoch=9)
    world.tell()
    world.fetch(3)
    return world.partitions[3].high_watermark > world.logs[3].log_end_offset


def test_what_hides_a_flaw_is_what_must_go_too_for_it_to_be_seen() -> None:
    hidden, safeguard = "high-watermark-before-truncation", "high-watermark-beyond-cut"
    assert not a_high_watermark_comes_with_a_cut(with_flaws([]))
    assert not a_high_watermark_comes_with_a_cut(with_flaws([hidden]))
    assert a_high_watermark_comes_with_a_cut(with_flaws([hidden, safeguard]))


@pytest.mark.parametrize("flaw", GOES_WRONG)
def test_it_goes_wrong_with_the_flaw_alone(flaw: str) -> None:
    assert GOES_WRONG[flaw](with_flaws([flaw]))
    assert not GOES_WRONG[flaw](with_flaws([]))
