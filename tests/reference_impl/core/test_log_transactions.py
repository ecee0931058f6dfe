"""What a log says of its transactions: where readers of committed records end, and which transactions they leave out
(docs/replication.md R68 to R70)."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference_impl.core.flaws import with_flaws
from reference_impl.core.identifiers import ErrorCode
from reference_impl.core.log_transactions import AbortedTransaction
from reference_impl.core.partition_data import Origin, PartitionSettings
from reference_impl.core.producer_state import CachedBatch, ProducerEntry
from reference_impl.core.replica import LocalReplica
from reference_impl.core.retention import RetentionSettings
from reference_impl.core.rules import sound
from reference_impl.wire.control_records import Marker, marker_batch, read_marker
from reference_impl.wire.key_values import KeyValue, Producer, key_value_batch
from reference_impl.wire.record_batches import parse_headers, stamp
from tests.reference_impl.core.memory_log import EVERYTHING, MemoryLog
from tests.reference_impl.core.replication_world import TP, Evidence, World

TIME_MS = 1000


def data(producer_id: int, *, epoch: int = 0, count: int = 1) -> bytearray:
    return key_value_batch([KeyValue(b"k", b"v")] * count, TIME_MS, Producer(producer_id, epoch))


def marker(producer_id: int, *, commit: bool, epoch: int = 0, coordinator_epoch: int = 0) -> bytearray:
    return marker_batch(producer_id, epoch, Marker(commit, coordinator_epoch), TIME_MS)


def opened(log: MemoryLog, high_watermark: int = 0, *, keep_bytes: int = -1) -> LocalReplica:
    return LocalReplica(
        topic_partition=TP,
        broker_id=1,
        log=log,
        settings=PartitionSettings(
            min_insync_replicas=1,
            replica_lag_time_max_ms=1000,
            unclean_leader_election_enable=False,
            max_message_bytes=1 << 20,
            retention=RetentionSettings(retention_bytes=keep_bytes),
        ),
        rules=sound(),
        evidence=Evidence(),
        checkpointed_high_watermark=high_watermark,
    )


def append(replica: LocalReplica, batch: bytearray) -> None:
    stamp(batch, 0, replica.log_end_offset, 0)
    replica.append(batch, parse_headers(batch))


class ForgetfulLog(MemoryLog):
    """Takes batches; whatever is written about them fails, of which a log tells nobody who appends."""

    def note_aborted(self, aborted: AbortedTransaction) -> None:
        """Lost."""

    def save_producers(self, base_offset: int, entries: Sequence[ProducerEntry]) -> bool:
        return False


def test_what_was_appended_is_known_whatever_could_not_be_written_about_it() -> None:
    """Or a repeated batch would be appended once more."""
    replica = opened(ForgetfulLog())
    batches = [data(7), marker(7, commit=False), data(8)]
    for offset, batch in enumerate(batches):
        stamp(batch, 0, offset, 0)
    content = b"".join(batches)
    replica.append(content, parse_headers(content))
    assert [entry.producer_id for entry in replica.producers.entries] == [7, 8]
    assert isinstance(replica.producers.check(parse_headers(content)[2]), CachedBatch)


def aborted(replica: LocalReplica, start: int = 0, end: int = EVERYTHING) -> list[tuple[int, int]]:
    found = replica.producers.transactions.aborted(start, end)
    return [(each.producer_id, each.first_offset) for each in found]


# The last stable offset


def test_a_reader_of_committed_records_ends_where_the_first_open_transaction_begins() -> None:
    replica = opened(MemoryLog())
    for batch in (data(7), data(8), marker(8, commit=True), data(9), marker(7, commit=True)):
        append(replica, batch)
        replica.set_high_watermark(replica.log_end_offset)
    assert replica.last_stable_offset == 3


def test_a_transaction_is_stable_only_when_its_marker_is_committed() -> None:
    replica = opened(MemoryLog())
    append(replica, data(7))
    append(replica, marker(7, commit=True))
    replica.set_high_watermark(1)
    assert replica.last_stable_offset == 0
    replica.set_high_watermark(2)
    assert replica.last_stable_offset == 2


def test_a_marker_that_is_repeated_ends_nothing_further() -> None:
    replica = opened(MemoryLog())
    for batch in (data(7), marker(7, commit=False), marker(7, commit=False)):
        append(replica, batch)
    assert aborted(replica) == [(7, 0)]


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[str, int, bool]]:
    step = st.tuples(
        st.sampled_from(["data", "data", "end", "end", "replicate", "truncate", "restart"]),
        st.integers(0, 3),
        st.booleans(),
    )
    return draw(st.lists(step, max_size=40))


def told_by(log: MemoryLog, high_watermark: int) -> tuple[int, list[tuple[int, int, int]]]:
    """The last stable offset and the aborted transactions, read off the whole log."""
    begun: dict[int, int] = {}
    unstable, found = [high_watermark], []
    content = log.all_batches()
    for header in parse_headers(content):
        if not header.is_control:
            begun.setdefault(header.producer_id, header.base_offset)
            continue
        read = read_marker(content[header.position : header.end_position])
        assert read is not None
        first = begun.pop(header.producer_id, None)
        if first is not None and header.last_offset >= high_watermark:
            unstable.append(first)
        if first is not None and not read.is_commit:
            found.append((header.producer_id, first, header.last_offset))
    return min([*unstable, *begun.values()]), found


@given(histories())
@settings(max_examples=300, deadline=None)
def test_what_is_known_is_what_the_log_says_whatever_was_cut_and_started_again(
    history: list[tuple[str, int, bool]],
) -> None:
    log = MemoryLog()
    replica = opened(log)
    for step, number, flag in history:
        if step == "data":
            append(replica, data(number, count=1 + flag))
        elif step == "end":
            append(replica, marker(number, commit=flag))
        elif step == "replicate":
            replica.set_high_watermark(max(replica.high_watermark, replica.log_end_offset - number))
        elif step == "truncate":
            cut_at = max(replica.high_watermark, replica.log_end_offset - number)
            replica.truncate(cut_at, epoch=0, reason="test")
        else:
            replica = opened(log, replica.high_watermark)
        stable, ended = told_by(log, replica.high_watermark)
        assert replica.last_stable_offset == stable
        for start in range(0, replica.log_end_offset, 2):
            for end in (start + 1, start + 4, replica.log_end_offset + 1):
                wanted = [(pid, first) for pid, first, last in ended if first < end and last >= start]
                assert aborted(replica, start, end) == wanted


# What outlives the batches


def test_an_open_transaction_outlives_the_deletion_of_its_first_records_and_a_restart() -> None:
    log = MemoryLog(batches_per_segment=2)
    replica = opened(log, keep_bytes=1)
    for batch in (data(7), data(8), marker(8, commit=True), data(9), data(9)):
        append(replica, batch)
    replica.set_high_watermark(replica.log_end_offset)
    assert replica.delete_expired(wall_clock_ms=TIME_MS)
    again = opened(log, replica.high_watermark)
    assert replica.log_start_offset > 0
    assert again.producers.entries == replica.producers.entries
    assert again.last_stable_offset == replica.last_stable_offset == replica.log_start_offset


def test_nothing_is_deleted_of_which_the_producers_could_not_be_saved() -> None:
    replica = opened(ForgetfulLog(batches_per_segment=2), keep_bytes=0)
    for batch in (data(7), data(8)):
        append(replica, batch)
    replica.set_high_watermark(replica.log_end_offset)
    assert replica.delete_expired(wall_clock_ms=TIME_MS) == 0
    assert replica.log_start_offset == 0


def test_a_producer_with_an_open_transaction_is_not_forgotten() -> None:
    replica = opened(MemoryLog())
    append(replica, data(7))
    append(replica, data(8))
    append(replica, marker(8, commit=True))
    assert replica.producers.expire(wall_clock_ms=TIME_MS + 10, after_ms=5) == 1
    assert [entry.producer_id for entry in replica.producers.entries] == [7]


# A leader


def test_a_marker_of_an_older_coordinator_or_producer_is_refused() -> None:
    world = World(min_isr=1)

    def end(epoch: int, coordinator_epoch: int) -> ErrorCode:
        return world.leader.append_marker(
            Producer(7, epoch), Marker(True, coordinator_epoch), now_ms=world.now_ms, wall_clock_ms=TIME_MS
        ).error

    assert end(2, 5) is ErrorCode.NONE
    assert end(2, 4) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert end(1, 5) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert end(3, 5) is ErrorCode.NONE
    assert world.logs[1].log_end_offset == 2


def test_after_a_marker_of_a_new_epoch_the_old_one_is_fenced_and_the_new_one_begins_at_zero() -> None:
    """The coordinator ends a timed-out transaction under the next epoch."""
    replica = opened(MemoryLog())
    append(replica, data(7))
    append(replica, marker(7, commit=False, epoch=1))
    (old,) = parse_headers(data(7, epoch=0))
    (new,) = parse_headers(data(7, epoch=1))
    assert replica.producers.check(old) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert replica.producers.check(new) is ErrorCode.NONE


def test_no_other_record_may_stand_in_an_open_transaction() -> None:
    replica = opened(MemoryLog())
    append(replica, data(7))
    (plain,) = parse_headers(key_value_batch([KeyValue(b"k", b"v")], TIME_MS))
    numbered = replace(plain, producer_id=7, producer_epoch=0, base_sequence=1)
    assert replica.producers.check(numbered) is ErrorCode.INVALID_TXN_STATE


def test_nor_one_of_the_producers_next_epoch() -> None:
    """No marker of the transaction would end it any more: each has the epoch that is fenced."""
    replica = opened(MemoryLog())
    append(replica, data(7))
    (plain,) = parse_headers(key_value_batch([KeyValue(b"k", b"v")], TIME_MS))
    newer = replace(plain, producer_id=7, producer_epoch=1, base_sequence=0)
    assert replica.producers.check(newer) is ErrorCode.INVALID_TXN_STATE
    assert replica.producers.check(replace(newer, producer_id=8)) is ErrorCode.NONE


def test_a_log_that_goes_on_behind_its_end_knows_no_producer_and_no_transaction() -> None:
    """R23: the transaction's marker may be in what was skipped, and nothing would ever end it here."""
    replica = opened(MemoryLog())
    append(replica, data(7))
    append(replica, data(8))
    append(replica, marker(8, commit=False))
    replica.restart_at(20, epoch=0, reason="out of range")
    append(replica, data(9))
    replica.set_high_watermark(21)
    assert (replica.last_stable_offset, aborted(replica)) == (20, [])
    assert [each.producer_id for each in replica.producers.entries] == [9]


def test_a_leader_tells_a_reader_of_committed_records_what_to_leave_out() -> None:
    world = World(min_isr=1, replicas=(1,))
    for batch in (data(7), data(8)):
        world.leader.append(batch, acks=-1, now_ms=world.now_ms, wall_clock_ms=TIME_MS, origin=Origin.COORDINATOR)
    world.leader.append_marker(Producer(7, 0), Marker(False, 0), now_ms=world.now_ms, wall_clock_ms=TIME_MS)
    world.leader.append_marker(Producer(8, 0), Marker(True, 0), now_ms=world.now_ms, wall_clock_ms=TIME_MS)
    read = world.leader.read_for_consumer(0, max_bytes=EVERYTHING, current_leader_epoch=0, read_committed=True)
    assert read.aborted == (AbortedTransaction(7, 0, 2, 1),)
    assert read.last_stable_offset == read.high_watermark == 4
    plain = world.leader.read_for_consumer(0, max_bytes=EVERYTHING, current_leader_epoch=0)
    assert plain.aborted == ()
    assert plain.records == read.records


@pytest.mark.parametrize("is_flawed", [False, True])
def test_with_the_planted_flaw_it_is_given_records_that_are_aborted_later(is_flawed: bool) -> None:
    world = World(min_isr=1, replicas=(1,), rules=with_flaws(["read-committed-to-high-watermark"] if is_flawed else []))
    world.leader.append(data(7), acks=-1, now_ms=world.now_ms, wall_clock_ms=TIME_MS, origin=Origin.COORDINATOR)
    read = world.leader.read_for_consumer(0, max_bytes=EVERYTHING, current_leader_epoch=0, read_committed=True)
    assert bool(read.records) == is_flawed
    assert read.aborted == (), "nobody can leave them out"


def test_a_reader_of_committed_records_gets_nothing_of_an_open_transaction() -> None:
    world = World(min_isr=1, replicas=(1,))
    world.leader.append(data(7), acks=-1, now_ms=world.now_ms, wall_clock_ms=TIME_MS, origin=Origin.COORDINATOR)
    read = world.leader.read_for_consumer(0, max_bytes=EVERYTHING, current_leader_epoch=0, read_committed=True)
    assert read.records == b""
    assert read.last_stable_offset == 0
    latest = world.leader.latest_offset(current_leader_epoch=0, read_committed=True)
    assert latest == (ErrorCode.NONE, 0, 0)
    assert world.leader.latest_offset(current_leader_epoch=0) == (ErrorCode.NONE, 1, 0)
    found = world.leader.batch_for_time(0, current_leader_epoch=0, read_committed=True)
    assert found == (ErrorCode.NONE, None)
