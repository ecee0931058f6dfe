"""Idempotent producers: a repeated batch is detected, a gap is refused, and truncated batches are forgotten
(docs/replication.md R45 to R47)."""

from dataclasses import replace

import pytest

from reference_impl.core.identifiers import ErrorCode
from reference_impl.core.producer_state import CachedBatch, ProducerStates
from reference_impl.wire.control_records import Marker
from reference_impl.wire.key_values import Producer
from reference_impl.wire.record_batches import BatchHeader, parse_headers
from tests.reference_impl.core.memory_log import batch
from tests.reference_impl.core.replication_world import World


def header(sequence: int, *, count: int = 1, epoch: int = 0, offset: int = 0) -> BatchHeader:
    one = parse_headers(batch(*("x" * count), producer_id=7, producer_epoch=epoch, sequence=0))[0]
    return replace(one, base_sequence=sequence, base_offset=offset)


def known(*sequences: int) -> ProducerStates:
    producers = ProducerStates()
    for offset, sequence in enumerate(sequences):
        producers.update(header(sequence, offset=offset))
    return producers


def test_a_producer_seen_for_the_first_time_may_begin_anywhere() -> None:
    assert known().check(header(41)) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (header(3), ErrorCode.NONE),
        (header(4), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (header(2, count=2), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (header(0, epoch=1), ErrorCode.NONE),
        (header(3, epoch=1), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    ],
)
def test_sequences_follow_one_another_and_a_new_epoch_begins_at_zero(sent: BatchHeader, answer: ErrorCode) -> None:
    assert known(0, 1, 2).check(sent) is answer


def test_an_older_epoch_is_fenced() -> None:
    producers = known(0)
    producers.update(header(0, epoch=2, offset=1))
    assert producers.check(header(1, epoch=1)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_the_last_five_batches_are_remembered_with_their_offsets() -> None:
    producers = known(0, 1, 2, 3, 4, 5)
    found = producers.check(header(1))
    assert found == CachedBatch(first_sequence=1, last_sequence=1, base_offset=1, last_offset=1)
    assert producers.check(header(0)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequences_wrap_after_two_to_the_thirty_one() -> None:
    producers = known(2**31 - 1)
    assert producers.check(header(0)) is ErrorCode.NONE
    wrapping = known(2**31 - 3)
    wrapping.update(header(2**31 - 2, count=3, offset=1))
    assert wrapping.check(header(1)) is ErrorCode.NONE


def test_a_duplicate_is_answered_with_its_first_offsets_and_still_waits() -> None:
    """R46: the first copy is not committed yet, so neither is the second."""
    world = World()
    world.write("before")
    one = batch("a", producer_id=7, producer_epoch=0, sequence=0)
    retry = bytearray(one)
    first = world.leader.append(one, acks=-1, now_ms=world.now_ms, wall_clock_ms=world.wall_clock_ms)
    second = world.leader.append(retry, acks=-1, now_ms=world.now_ms, wall_clock_ms=world.wall_clock_ms)
    assert (second.base_offset, second.required_offset, second.duplicate) == (1, first.required_offset, True)
    assert world.values(1) == ["before", "a"]
    assert world.outcome(second) is None
    world.fetch(2, 3, rounds=2)
    assert world.outcome(second) is ErrorCode.NONE


def test_what_was_cut_is_not_a_duplicate_later() -> None:
    """R47: the batch of the old leader was truncated; its retry must be appended."""
    world = World()
    one = batch("a", producer_id=7, producer_epoch=0, sequence=0)
    retry = bytearray(one)
    world.leader.append(one, acks=-1, now_ms=world.now_ms, wall_clock_ms=world.wall_clock_ms)
    world.elect(2)
    world.tell()
    world.write("b")
    world.fetch(1, 3, rounds=3)
    world.elect(1)
    world.tell()
    assert not world.leader.append(retry, acks=-1, now_ms=world.now_ms, wall_clock_ms=world.wall_clock_ms).duplicate
    assert world.values(1) == ["b", "a"]


def test_a_restart_remembers_what_the_log_holds() -> None:
    world = World(min_isr=1, replicas=(1,))
    one = batch("a", producer_id=7, producer_epoch=0, sequence=0)
    retry = bytearray(one)
    world.leader.append(one, acks=-1, now_ms=world.now_ms, wall_clock_ms=world.wall_clock_ms)
    world.kill(1)
    world.start(1)
    world.tell()
    assert world.leader.append(retry, acks=-1, now_ms=world.now_ms, wall_clock_ms=world.wall_clock_ms).duplicate


def test_a_refused_batch_leaves_no_trace() -> None:
    world = World()
    gap = batch("c", producer_id=7, producer_epoch=0, sequence=5)
    world.leader.append(
        batch("a", producer_id=7, producer_epoch=0, sequence=0),
        acks=1,
        now_ms=world.now_ms,
        wall_clock_ms=world.wall_clock_ms,
    )
    refused = world.leader.append(gap, acks=1, now_ms=world.now_ms, wall_clock_ms=world.wall_clock_ms)
    assert refused.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    following = batch("b", producer_id=7, producer_epoch=0, sequence=1)
    assert (
        world.leader.append(following, acks=1, now_ms=world.now_ms, wall_clock_ms=world.wall_clock_ms).base_offset == 1
    )


def test_a_producer_whose_records_are_old_is_forgotten_and_may_begin_anywhere() -> None:
    producers = known(0, 1)
    at = header(1).max_timestamp
    assert producers.expire(wall_clock_ms=at + 100, after_ms=100) == 0
    assert producers.check(header(5)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producers.expire(wall_clock_ms=at + 101, after_ms=100) == 1
    assert producers.check(header(5)) is ErrorCode.NONE


def test_a_restored_producer_is_known_by_its_last_batch() -> None:
    producers = ProducerStates()
    producers.restore(known(0, 1, 2).entries)
    assert producers.check(header(3)) is ErrorCode.NONE
    assert isinstance(producers.check(header(2)), CachedBatch)
    assert producers.check(header(1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_guard_is_for_one_answer_and_none_outlives_its_marker() -> None:
    producers = ProducerStates()
    first, second = producers.begin_verification(7), producers.begin_verification(7)
    assert not producers.end_verification(Producer(7, 0), first, is_refused=True)
    assert producers.end_verification(Producer(7, 0), second, is_refused=False), (
        "the other one's refusal is not its own"
    )
    assert not producers.end_verification(Producer(7, 0), second, is_refused=False), "it must ask again"
    asked = producers.begin_verification(7)
    producers.update(header(0), Marker(True, 0))
    assert not producers.end_verification(Producer(7, 0), asked, is_refused=False)


def test_no_guard_outlives_its_answer_and_a_producer_that_comes_back_keeps_its_own() -> None:
    producers = known(0)
    returning = producers.begin_verification(7)
    assert producers.expire(wall_clock_ms=header(0).max_timestamp + 101, after_ms=100) == 1
    assert producers.end_verification(Producer(7, 0), returning, is_refused=False)
    producers.end_verification(Producer(8, 0), producers.begin_verification(8), is_refused=False)
    assert not producers._guards


@pytest.mark.parametrize(
    ("begins_at_zero", "expected"), [(False, ErrorCode.NONE), (True, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)]
)
def test_an_unknown_producer_begins_at_zero_where_each_transaction_has_an_epoch(
    begins_at_zero: bool, expected: ErrorCode
) -> None:
    """Its first request was put off, and the second one came before it again."""
    assert ProducerStates().check(header(1), begins_at_zero=begins_at_zero) is expected
    assert ProducerStates().check(header(0), begins_at_zero=begins_at_zero) is ErrorCode.NONE
