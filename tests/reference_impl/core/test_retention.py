"""Retention: which segments expire, compared with a model that checks each segment alone, and its
effect on replicas."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_impl.core.flaws import with_flaws
from reference_impl.core.identifiers import ErrorCode
from reference_impl.core.partition import Applied
from reference_impl.core.retention import UNLIMITED, RetentionSettings, SegmentView, expired
from tests.reference_impl.core.memory_log import EVERYTHING, batch
from tests.reference_impl.core.replication_world import World, visible

NOW_MS = 1000


def keeping(*, ms: int = UNLIMITED, size: int = UNLIMITED) -> RetentionSettings:
    return RetentionSettings(retention_ms=ms, retention_bytes=size)


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[SegmentView], int, int]:
    """(segments, log start, high watermark); only the active one may be empty."""
    counts = [*draw(st.lists(st.integers(1, 4), max_size=6)), draw(st.integers(0, 4))]
    base = first = draw(st.integers(0, 5))
    segments = []
    for count in counts:
        size = count * draw(st.integers(1, 30))
        time = draw(st.integers(0, NOW_MS + 50))
        segments.append(
            SegmentView(
                base_offset=base,
                next_offset=base + count,
                size=size,
                first_timestamp_ms=time,
                largest_timestamp_ms=time,
            )
        )
        base += count
    start = draw(st.integers(first, base))
    return segments, start, draw(st.integers(start, base))


@given(log=logs(), ms=st.integers(-1, NOW_MS), size=st.integers(-1, 300))
def test_each_deleted_segment_had_a_reason_and_the_first_kept_one_had_none(
    log: tuple[list[SegmentView], int, int], ms: int, size: int
) -> None:
    segments, start, high_watermark = log
    found = expired(
        segments,
        log_start_offset=start,
        high_watermark=high_watermark,
        settings=keeping(ms=ms, size=size),
        wall_clock_ms=NOW_MS,
    )

    def may_go(number: int) -> bool:
        segment = segments[number]
        kept_behind = sum(later.size for later in segments[number + 1 :])
        followed_at_start = number + 1 < len(segments) and segments[number + 1].base_offset <= start
        too_old = ms >= 0 and segment.largest_timestamp_ms < NOW_MS - ms
        too_much = size >= 0 and kept_behind >= size
        committed = segment.next_offset <= high_watermark
        is_empty_active = number == len(segments) - 1 and segment.size == 0
        return committed and not is_empty_active and (followed_at_start or too_old or too_much)

    assert all(may_go(number) for number in range(found.count))
    assert bool(found.reasons) == bool(found.count)
    # Size and start are asked of every segment before time is, as in Kafka: what follows an old one they cannot see.
    if found.count < len(segments):
        assert not may_go(found.count)


def test_by_size_a_segment_goes_when_the_rest_alone_is_enough() -> None:
    segments = [
        SegmentView(base_offset=n, next_offset=n + 1, size=100, first_timestamp_ms=NOW_MS, largest_timestamp_ms=NOW_MS)
        for n in range(4)
    ]
    counts = [
        expired(segments, log_start_offset=0, high_watermark=4, settings=keeping(size=size), wall_clock_ms=NOW_MS).count
        for size in (500, 400, 301, 300, 299, 100, 99, 0)
    ]
    assert counts == [0, 0, 0, 1, 1, 3, 3, 4]


# Leaders and followers


def world_keeping(*, ms: int = UNLIMITED, size: int = UNLIMITED) -> World:
    world = World()
    for broker in world.partitions.values():
        broker.update_settings(replace(world.settings, retention=keeping(ms=ms, size=size)))
    return world


def write_aged(world: World, *values: str, age_ms: int) -> None:
    world.wall_clock_ms -= age_ms
    for value in values:
        world.write(value)
    world.wall_clock_ms += age_ms


def test_what_is_not_committed_is_kept_however_old_it_is() -> None:
    world = world_keeping(ms=10)
    write_aged(world, "a", "b", "c", "d", age_ms=100)
    assert world.leader.delete_expired(wall_clock_ms=world.wall_clock_ms) == 0
    world.fetch(2, 3, rounds=2)
    assert world.leader.delete_expired(wall_clock_ms=world.wall_clock_ms) == 2
    assert (world.logs[1].log_start_offset, world.logs[1].log_end_offset) == (4, 4)


def test_an_expired_active_segment_is_rolled_and_deleted_and_the_log_goes_on() -> None:
    world = world_keeping(ms=10)
    write_aged(world, "a", age_ms=100)
    world.fetch(2, 3, rounds=2)
    world.leader.delete_expired(wall_clock_ms=world.wall_clock_ms)
    assert world.values(1) == []
    assert world.write("b").base_offset == 1
    world.fetch(2, 3, rounds=2)
    assert visible(world.leader, 1) == ["b"]
    assert world.leader.delete_expired(wall_clock_ms=world.wall_clock_ms) == 0
    assert world.evidence[1].log_starts == [(0, 1, 1, "retention.ms")]


def test_an_empty_active_segment_is_left_alone() -> None:
    world = world_keeping(ms=0, size=0)
    assert world.leader.delete_expired(wall_clock_ms=1 << 50) == 0
    assert world.evidence[1].log_starts == []


def test_readers_below_the_start_learn_that_they_are_out_of_range() -> None:
    world = world_keeping(size=0)
    world.write("a")
    world.write("b")
    world.fetch(2, 3, rounds=2)
    world.leader.delete_expired(wall_clock_ms=0)
    read = world.leader.read_for_consumer(1, max_bytes=EVERYTHING, current_leader_epoch=-1)
    assert read.error is ErrorCode.OFFSET_OUT_OF_RANGE
    assert world.leader.earliest_offset(current_leader_epoch=-1) == (ErrorCode.NONE, 2, 0)


def test_followers_begin_where_their_leader_begins_and_delete_what_lies_before() -> None:
    world = world_keeping()
    for value in "abcdefg":
        world.write(value)
    world.fetch(2, 3, rounds=2)
    world.leader.update_settings(replace(world.settings, retention=keeping(size=1)))
    world.leader.delete_expired(wall_clock_ms=0)
    assert world.logs[1].log_start_offset == 6
    world.fetch(2)
    assert world.logs[2].log_start_offset == 6
    assert world.values(2) == list("abcdefg")
    assert world.partitions[2].delete_expired(wall_clock_ms=0) == 2
    assert world.values(2) == ["g"]
    assert world.evidence[2].log_starts == [(0, 6, 0, "leader's log start")]
    assert world.logs[2].leader_epochs.entries == ((0, 6),)


def test_a_follower_takes_its_leaders_start_only_up_to_what_it_knows_to_be_committed() -> None:
    world = world_keeping(size=0)
    for value in "abc":
        world.write(value)
    world.fetch(2, 3, rounds=2)
    world.leader.delete_expired(wall_clock_ms=0)
    fetch = world.ask(2)
    assert fetch is not None
    answer = replace(fetch.answer, log_start_offset=99)
    assert world.deliver(replace(fetch, answer=answer)) is Applied.NOTHING
    assert world.logs[2].log_start_offset == 0


def world_without_the_third_since_its_first_record() -> World:
    """Broker 3 has a and is dead; 1 and 2 have a to g, all of it committed."""
    world = world_keeping()
    world.write("a")
    world.fetch(2, 3, rounds=2)
    world.kill(3)
    world.notice_deaths()
    world.tell()
    for value in "bcdefg":
        world.write(value)
    world.fetch(2, rounds=3)
    return world


def test_a_follower_that_ends_before_its_leaders_start_begins_anew_there() -> None:
    world = world_without_the_third_since_its_first_record()
    world.leader.update_settings(replace(world.settings, retention=keeping(size=0)))
    world.leader.delete_expired(wall_clock_ms=0)
    world.write("h")
    world.start(3)
    world.tell()
    assert world.fetch(3) is Applied.OUT_OF_RANGE
    start = world.leader.earliest_offset(current_leader_epoch=-1)[1]
    end = world.leader.latest_offset(current_leader_epoch=-1, for_replica=True)[1]
    world.partitions[3].truncate_out_of_range(start, end)
    assert (world.logs[3].log_start_offset, world.logs[3].log_end_offset) == (7, 7)
    world.fetch(2, 3, rounds=2)
    assert world.logs[3].records == world.logs[1].records == [(7, 0, "h")]
    assert world.settle_isr() is ErrorCode.NONE
    assert set(world.state.isr) == {1, 2, 3}


def test_a_follower_whose_log_begins_behind_its_leaders_end_begins_anew_at_that_end() -> None:
    """An unclean election has made a replica the leader that was far behind."""
    world = world_without_the_third_since_its_first_record()
    for broker in (1, 2):
        world.partitions[broker].update_settings(replace(world.settings, retention=keeping(size=0)))
        world.partitions[broker].delete_expired(wall_clock_ms=0)
    assert world.logs[2].log_start_offset == 7
    world.kill(1)
    world.start(3)
    world.elect_uncleanly(3)
    world.tell()
    for _ in range(4):
        if world.fetch(2) is Applied.OUT_OF_RANGE:
            world.partitions[2].truncate_out_of_range(0, 1)
    assert (world.logs[2].log_start_offset, world.logs[2].log_end_offset) == (1, 1)
    world.write("z", acks=1)
    world.fetch(2, rounds=2)
    assert world.values(2) == ["z"]


def test_a_broker_that_got_no_settings_yet_deletes_nothing() -> None:
    world = World()
    write_aged(world, "a", age_ms=10**9)
    world.fetch(2, 3, rounds=2)
    assert world.leader.delete_expired(wall_clock_ms=1 << 50) == 0


def test_a_retry_of_a_deleted_batch_is_still_known_also_after_a_truncation() -> None:
    world = world_keeping()
    numbered = batch("a", producer_id=7, producer_epoch=0, sequence=0)
    retry = bytearray(numbered)
    world.leader.append(numbered, acks=-1, now_ms=world.now_ms, wall_clock_ms=world.wall_clock_ms)
    world.write("b")
    world.fetch(2, 3, rounds=2)
    world.leader.update_settings(replace(world.settings, retention=keeping(size=0)))
    world.leader.delete_expired(wall_clock_ms=0)
    world.write("tail", acks=1)
    world.elect(2)
    world.tell()
    world.fetch(1, rounds=2)
    world.elect(1)
    world.tell()
    assert world.values(1) == []
    answer = world.leader.append(retry, acks=-1, now_ms=world.now_ms, wall_clock_ms=world.wall_clock_ms)
    assert (answer.duplicate, answer.base_offset) == (True, 0)


def test_a_flawed_start_cuts_to_an_old_checkpoint_but_never_before_the_start() -> None:
    world = World(rules=with_flaws(["truncate-to-high-watermark-at-start"]))
    world.partitions[2].update_settings(replace(world.settings, retention=keeping(size=1)))
    for value in "abcdefg":
        world.write(value)
    world.fetch(2, 3, rounds=3)
    world.partitions[2].delete_expired(wall_clock_ms=0)
    world.kill(2)
    world.start(2)  # whose checkpoint says 0
    assert (world.logs[2].log_start_offset, world.logs[2].log_end_offset) == (6, 6)


@pytest.mark.parametrize("kept", ["a", "ab", "abcdef"])
def test_after_a_restart_the_high_watermark_is_never_before_the_start(kept: str) -> None:
    world = world_keeping(size=0)
    for value in kept:
        world.write(value)
    world.fetch(2, 3, rounds=3)
    world.partitions[2].delete_expired(wall_clock_ms=0)
    world.kill(2)
    world.start(2)  # with no checkpoint of the high watermark
    assert world.partitions[2].high_watermark == world.logs[2].log_start_offset == len(kept)
