"""A leader refuses before it writes, its high watermark means committed, and it checks every fetch."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from reference_impl.core.identifiers import ErrorCode
from reference_impl.core.isr import PendingShrink
from reference_impl.core.partition import Applied, ReadResult
from tests.reference_impl.core.memory_log import EVERYTHING, batch, records_in
from tests.reference_impl.core.replication_world import LAG_MS, World, visible


def fetched(
    world: World, follower: int, offset: int, last_epoch: int, epoch: int, broker_epoch: int = -1
) -> ReadResult:
    return world.leader.read_for_follower(
        follower,
        broker_epoch,
        offset,
        last_fetched_epoch=last_epoch,
        current_leader_epoch=epoch,
        max_bytes=EVERYTHING,
        now_ms=world.now_ms,
    )


def test_a_leader_notes_its_epoch_before_anything_is_appended() -> None:
    world = World()
    assert world.logs[1].leader_epochs.entries == ((0, 0),)
    world.write("a")
    world.fetch(2, 3)
    world.elect(2)
    world.tell()
    assert tuple(world.logs[2].leader_epochs.entries) == ((0, 0), (1, 1))
    assert world.evidence[1].leaderships == [("start", 0, 0), ("end", 0, 1)]
    assert world.evidence[2].leaderships == [("start", 1, 1)]


def test_offsets_and_the_leader_epoch_are_stamped_on_each_batch() -> None:
    world = World()
    assert [world.write("a", "b").base_offset, world.write("c").base_offset] == [0, 2]
    assert world.logs[1].records == [(0, 0, "a"), (1, 0, "b"), (2, 0, "c")]


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: batch("x" * (2 << 20)), ErrorCode.MESSAGE_TOO_LARGE),
        (lambda: batch("a") + batch("b"), ErrorCode.INVALID_RECORD),
        (lambda: batch("a")[:-1] + b"?", ErrorCode.CORRUPT_MESSAGE),
        (lambda: batch("a")[:-4], ErrorCode.INVALID_RECORD),
        (bytearray, ErrorCode.INVALID_RECORD),
    ],
)
def test_what_is_refused_is_not_appended(make: Callable[[], bytearray], error: ErrorCode) -> None:
    world = World()
    assert world.leader.append(make(), acks=1, now_ms=world.now_ms, wall_clock_ms=world.wall_clock_ms).error is error
    assert world.logs[1].log_end_offset == 0


def test_acks_other_than_all_none_and_one_are_refused() -> None:
    world = World()
    assert world.write("a", acks=2).error is ErrorCode.INVALID_REQUIRED_ACKS
    assert world.write("a", at=2).error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_below_min_isr_acks_all_is_refused_and_acks_one_is_taken_but_not_shown() -> None:
    world = World()
    world.kill(2)
    world.kill(3)
    world.notice_deaths()
    world.tell()
    assert world.write("a").error is ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.logs[1].log_end_offset == 0
    assert world.write("b", acks=1).error is ErrorCode.NONE
    assert world.leader.high_watermark == 0
    assert visible(world.leader) == []


def test_a_lowered_min_isr_shows_what_it_freed_with_the_next_append() -> None:
    world = World()
    world.kill(2)
    world.kill(3)
    world.notice_deaths()
    world.tell()
    world.write("a", acks=1)
    world.leader.update_settings(replace(world.settings, min_insync_replicas=1))
    assert world.leader.high_watermark == 0
    world.write("b")
    assert visible(world.leader) == ["a", "b"]


def test_min_isr_cannot_ask_for_more_than_the_replication_factor() -> None:
    world = World(min_isr=2, replicas=(1,))
    result = world.write("a")
    assert world.outcome(result) is ErrorCode.NONE


def test_an_acks_all_write_waits_for_every_in_sync_replica() -> None:
    world = World()
    result = world.write("a")
    assert world.outcome(result) is None
    world.fetch(2, rounds=2)
    assert world.outcome(result) is None
    world.fetch(3, rounds=2)
    assert world.outcome(result) is ErrorCode.NONE


def test_a_waiting_write_ends_with_the_leadership_it_was_made_in() -> None:
    world = World()
    result = world.write("a")
    world.elect(2)
    world.tell()
    assert world.outcome(result, at=1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    world.elect(1)
    world.tell()
    assert world.outcome(result, at=1) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_error_20_is_left_for_an_isr_that_shrinks_after_the_high_watermark_rose() -> None:
    world = World()
    result = world.write("a")
    world.fetch(2, 3, rounds=2)
    world.kill(2)
    world.kill(3)
    world.notice_deaths()
    world.tell()
    assert world.leader.high_watermark >= result.required_offset
    assert world.outcome(result) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_the_high_watermark_follows_the_steps_of_the_first_record() -> None:
    """R14 and R18: a waiting fetch that the first record wakes carries the high watermark of before."""
    world = World(replicas=(1, 2))
    parked = world.ask(2)
    assert parked is not None
    world.write("a")
    woken = world.leader.reread_for_follower(
        2, world.broker_epochs[2], 0, last_fetched_epoch=-1, current_leader_epoch=0, max_bytes=EVERYTHING
    )
    assert (woken.high_watermark, world.leader.high_watermark) == (0, 0)
    world.deliver(replace(parked, answer=replace(parked.answer, records=woken.records)))
    assert (world.logs[2].log_end_offset, world.partitions[2].high_watermark) == (1, 0)
    second = world.ask(2)
    assert second is not None
    assert (second.answer.high_watermark, world.leader.high_watermark) == (0, 1)
    world.deliver(second)
    assert world.partitions[2].high_watermark == 0
    world.fetch(2)
    assert world.partitions[2].high_watermark == 1


def test_a_follower_learns_the_high_watermark_one_fetch_late() -> None:
    """R14, claim S44."""
    world = World(replicas=(1, 2))
    for value in "abcd":
        world.write(value)
    world.fetch(2, rounds=3)
    world.write("e")
    world.fetch(2)
    assert (world.logs[2].log_end_offset, world.leader.high_watermark) == (5, 4)
    fetch = world.ask(2)
    assert fetch is not None
    assert fetch.answer.high_watermark == 4
    assert world.leader.high_watermark == 5
    world.deliver(fetch)
    assert world.partitions[2].high_watermark == 4
    world.fetch(2)
    assert world.partitions[2].high_watermark == 5


def test_a_new_leader_waits_for_every_member_before_its_high_watermark_moves() -> None:
    world = World()
    world.write("a")
    world.fetch(2, 3, rounds=2)
    world.kill(1)
    world.notice_deaths()
    world.tell()
    assert world.leader.high_watermark == 0
    assert world.leader.latest_offset(current_leader_epoch=1)[0] is ErrorCode.OFFSET_NOT_AVAILABLE
    assert visible(world.leader) == []
    world.fetch(3)
    assert world.leader.latest_offset(current_leader_epoch=1) == (ErrorCode.NONE, 1, 1)
    assert visible(world.leader) == ["a"]


def test_fetches_of_another_epoch_are_fenced() -> None:
    world = World()
    world.elect(2)
    world.tell()
    assert fetched(world, 3, 0, -1, 0).error is ErrorCode.FENCED_LEADER_EPOCH
    assert fetched(world, 3, 0, -1, 2).error is ErrorCode.UNKNOWN_LEADER_EPOCH
    consumer = world.leader.read_for_consumer(0, max_bytes=1, current_leader_epoch=0)
    assert consumer.error is ErrorCode.FENCED_LEADER_EPOCH
    assert world.leader.latest_offset(current_leader_epoch=2)[0] is ErrorCode.UNKNOWN_LEADER_EPOCH
    follower = world.partitions[3].read_for_consumer(0, max_bytes=1, current_leader_epoch=1)
    assert follower.error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_stranger_or_an_old_incarnation_does_not_count_as_a_follower() -> None:
    world = World()
    assert fetched(world, 9, 0, -1, 0).error is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert fetched(world, 9, 0, -1, -1).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    world.write("a")
    old = world.broker_epochs[2] - 1
    assert fetched(world, 2, 1, 0, 0, broker_epoch=old).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    world.fetch(3, rounds=2)
    assert world.leader.high_watermark == 0


def test_a_diverging_fetch_is_answered_and_not_counted_as_progress() -> None:
    """KAFKA-13141: replica 1's tail of epoch 0 reaches as far as the new leader's log."""
    world = World()
    world.write("a")
    world.fetch(2, 3, rounds=2)
    world.write("never replicated", acks=1)
    world.elect(2)
    world.tell()
    result = world.write("b")
    world.fetch(3, rounds=2)
    answer = fetched(world, 1, 2, 0, 1)
    assert (answer.error, answer.diverging, answer.records) == (ErrorCode.NONE, (0, 1), b"")
    assert world.outcome(result) is None


def test_a_fetch_before_the_log_start_is_out_of_range_even_when_it_diverges() -> None:
    world = World()
    world.logs[1].truncate_fully_and_start_at(5)
    world.elect(1)
    world.tell()
    assert fetched(world, 2, 3, 0, 1).error is ErrorCode.OFFSET_OUT_OF_RANGE
    assert fetched(world, 2, 6, -1, 1).error is ErrorCode.OFFSET_OUT_OF_RANGE
    assert fetched(world, 2, 5, 7, 1).error is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_consumer_reads_to_the_high_watermark_and_no_further() -> None:
    world = World()
    world.write("a")
    world.fetch(2, 3, rounds=2)
    world.write("b")
    assert visible(world.leader) == ["a"]
    assert visible(world.leader, 1) == []
    assert visible(world.leader, 2) == []
    beyond = world.leader.read_for_consumer(3, max_bytes=1, current_leader_epoch=0)
    assert beyond.error is ErrorCode.OFFSET_OUT_OF_RANGE


def test_followers_read_to_the_log_end() -> None:
    world = World()
    world.write("a")
    assert records_in(fetched(world, 2, 0, -1, 0).records) == [(0, 0, "a")]
    assert world.leader.latest_offset(current_leader_epoch=0, for_replica=True) == (ErrorCode.NONE, 1, 0)
    assert world.leader.earliest_offset(current_leader_epoch=0) == (ErrorCode.NONE, 0, 0)


def test_the_end_of_an_epoch_is_answered_with_the_epoch_that_was_found() -> None:
    world = World()
    world.write("a")
    world.fetch(2, 3, rounds=2)
    world.elect(2)
    world.tell()
    world.elect(2)
    world.tell()
    assert world.leader.end_offset_for_epoch(0, current_leader_epoch=2) == (ErrorCode.NONE, 1, 0)
    assert world.leader.end_offset_for_epoch(1, current_leader_epoch=2) == (ErrorCode.NONE, 1, 0)
    assert world.leader.end_offset_for_epoch(2, current_leader_epoch=2) == (ErrorCode.NONE, 1, 2)
    assert world.leader.end_offset_for_epoch(3, current_leader_epoch=2) == (ErrorCode.NONE, -1, -1)


def test_an_older_update_of_the_controller_is_ignored() -> None:
    world = World()
    old = world.state
    world.elect(2)
    world.tell()
    world.partitions[1].become_leader(old, now_ms=world.now_ms)
    assert not world.partitions[1].is_leader
    assert not world.partitions[2].become_follower(old, now_ms=world.now_ms)
    assert world.partitions[2].is_leader


def test_re_election_of_the_same_leader_keeps_what_it_knows_of_the_others() -> None:
    world = World()
    world.write("a")
    world.fetch(2, 3, rounds=2)
    world.elect(1)
    world.tell(1)
    result = world.write("b")
    world.tell(2, 3)
    world.fetch(2, 3, rounds=2)
    assert world.outcome(result) is ErrorCode.NONE
    assert world.evidence[1].leaderships == [("start", 0, 0), ("end", 0, 1), ("start", 1, 1)]


def test_every_change_is_announced_to_those_who_wait() -> None:
    world = World()
    heard: list[int] = []
    world.leader.progressed = lambda: heard.append(world.leader.high_watermark)
    world.write("a")
    world.fetch(2, 3, rounds=2)
    assert heard[0] == 0
    assert heard[-1] == 1
    world.leader.check_shrink(now_ms=world.now_ms)
    quiet = len(heard)
    world.write("b")
    world.fetch(2, rounds=2)
    world.now_ms += 2 * LAG_MS
    world.leader.check_shrink(now_ms=world.now_ms)
    assert isinstance(world.leader.isr_state, PendingShrink)
    assert len(heard) > quiet
    world.settle_isr()
    assert world.leader.isr_state.isr == (1, 2)
    assert world.fetch(2) is Applied.NOTHING
