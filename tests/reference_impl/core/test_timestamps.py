"""Record timestamps: whose time they carry, which ones a leader refuses, and lookup by time."""

from dataclasses import replace

import pytest

from reference_impl.core.identifiers import ErrorCode
from reference_impl.core.timestamps import NO_LIMIT_MS, TimestampSettings
from reference_impl.wire.record_batches import parse_headers, stamp, validate
from reference_impl.wire.record_timestamps import TimedOffset, first_at_or_after, record_times
from tests.reference_impl.core.memory_log import BATCH_TIME_MS, batch, records_in
from tests.reference_impl.core.replication_world import World


def world_with(settings: TimestampSettings) -> World:
    world = World()
    for partition in world.partitions.values():
        partition.update_settings(replace(world.settings, timestamps=settings))
    return world


def append(world: World, data: bytearray, *, wall_clock_ms: int) -> ErrorCode:
    return world.leader.append(data, acks=1, now_ms=world.now_ms, wall_clock_ms=wall_clock_ms).error


@pytest.mark.parametrize(
    ("wall_clock_ms", "error"),
    [
        (BATCH_TIME_MS - 11, ErrorCode.INVALID_TIMESTAMP),
        (BATCH_TIME_MS - 10, ErrorCode.NONE),
        (BATCH_TIME_MS + 5, ErrorCode.NONE),
        (BATCH_TIME_MS + 6, ErrorCode.INVALID_TIMESTAMP),
    ],
)
def test_a_producers_time_may_be_so_far_from_the_leaders(wall_clock_ms: int, error: ErrorCode) -> None:
    world = world_with(TimestampSettings(before_max_ms=5, after_max_ms=10))
    assert append(world, batch("a"), wall_clock_ms=wall_clock_ms) is error
    assert world.logs[1].log_end_offset == (error is ErrorCode.NONE)


def test_records_without_a_time_are_within_every_limit() -> None:
    world = world_with(TimestampSettings(before_max_ms=0, after_max_ms=0))
    assert append(world, batch("a", timestamp=-1), wall_clock_ms=10**12) is ErrorCode.NONE


def test_only_a_leader_calls_a_time_the_append_time() -> None:
    world = world_with(TimestampSettings(is_log_append_time=True))
    assert append(world, batch("a"), wall_clock_ms=77) is ErrorCode.NONE
    claimed = bytearray(world.logs[1].all_batches())
    stamp(claimed, 0, 0, -1)
    assert append(world, claimed, wall_clock_ms=78) is ErrorCode.INVALID_TIMESTAMP


def test_append_time_goes_over_every_record_and_its_crc_holds_on_every_replica() -> None:
    world = world_with(TimestampSettings(is_log_append_time=True, before_max_ms=0, after_max_ms=0))
    numbered = batch("a", "b", producer_id=7, producer_epoch=0, sequence=0)
    retry = bytearray(numbered)
    first = world.leader.append(numbered, acks=1, now_ms=world.now_ms, wall_clock_ms=5000)
    assert first.log_append_time_ms == 5000
    again = world.leader.append(retry, acks=1, now_ms=world.now_ms, wall_clock_ms=6000)
    assert (again.duplicate, again.log_append_time_ms) == (True, 5000)
    world.fetch(2, 3, rounds=2)
    for log in world.logs.values():
        data = log.all_batches()
        validate(data)
        (header,) = parse_headers(data)
        assert list(record_times(data, header)) == [(0, 5000), (1, 5000)]


def test_with_the_producers_time_none_is_answered() -> None:
    world = World()
    assert world.write("a").log_append_time_ms == -1


def test_what_is_found_by_time_is_committed() -> None:
    world = World()
    world.write("a")
    world.fetch(2, 3, rounds=2)
    world.wall_clock_ms += 10
    world.write("b", acks=1)
    leader = world.leader
    error, found = leader.batch_for_time(BATCH_TIME_MS, current_leader_epoch=0)
    assert error is ErrorCode.NONE
    assert found is not None
    assert first_at_or_after(found, BATCH_TIME_MS) == TimedOffset(0, BATCH_TIME_MS, 0)
    assert leader.batch_for_time(BATCH_TIME_MS, current_leader_epoch=0, from_offset=1) == (ErrorCode.NONE, None)
    assert leader.batch_for_time(BATCH_TIME_MS + 1, current_leader_epoch=0) == (ErrorCode.NONE, None)
    assert leader.batch_of_max_timestamp(current_leader_epoch=0) == (ErrorCode.NONE, found)
    assert leader.batch_for_time(0, current_leader_epoch=1) == (ErrorCode.UNKNOWN_LEADER_EPOCH, None)
    assert world.partitions[2].batch_for_time(0, current_leader_epoch=-1)[0] is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_new_leader_answers_what_it_knows_to_be_committed_but_not_that_there_is_no_more() -> None:
    """KIP-207 for lookup by time: an answer of "none" would be a step back."""
    world = World()
    world.write("a")
    world.fetch(2, 3, rounds=3)
    world.wall_clock_ms += 10
    world.write("b", acks=1)
    world.fetch(2)
    world.elect(2)
    world.tell()
    error, found = world.leader.batch_for_time(0, current_leader_epoch=-1)
    assert (error, records_in(found or b"")) == (ErrorCode.NONE, [(0, 0, "a")])
    late = world.leader.batch_for_time(BATCH_TIME_MS + 1, current_leader_epoch=-1)
    assert late == (ErrorCode.OFFSET_NOT_AVAILABLE, None)
    assert world.leader.batch_of_max_timestamp(current_leader_epoch=-1) == late


def test_no_limit_is_kafkas_largest_number() -> None:
    assert TimestampSettings().before_max_ms == TimestampSettings().after_max_ms == NO_LIMIT_MS == 2**63 - 1
