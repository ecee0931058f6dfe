"""The state of idempotent producers survives the deletion of their batches, and a restart."""

import errno
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference_impl.core.partition_data import PartitionSettings
from reference_impl.core.producer_state import CachedBatch, ProducerEntry
from reference_impl.core.replica import LocalReplica
from reference_impl.core.retention import RetentionSettings
from reference_impl.core.rules import sound
from reference_impl.storage import log as log_module
from reference_impl.storage.log import Log, LogSettings
from reference_impl.storage.producer_snapshots import read_snapshot, write_snapshot
from reference_impl.wire.record_batches import parse_headers, stamp
from tests.reference_impl.core.memory_log import batch
from tests.reference_impl.core.replication_world import Evidence
from tests.reference_impl.storage.logs import ORDERS

ENTRIES = [ProducerEntry(7, 0, 41, 99, 2, 1_700_000_000_000), ProducerEntry(2**40, 3, 0, 12, 0, -1)]
SETTINGS = PartitionSettings(
    min_insync_replicas=1,
    replica_lag_time_max_ms=1000,
    unclean_leader_election_enable=False,
    max_message_bytes=1 << 20,
    retention=RetentionSettings(retention_bytes=0),
)


def opened(log: Log) -> LocalReplica:
    return LocalReplica(
        topic_partition=ORDERS,
        broker_id=1,
        log=log,
        settings=SETTINGS,
        rules=sound(),
        evidence=Evidence(),
        checkpointed_high_watermark=log.log_end_offset,
    )


def open_log(folder: Path, *, segment_bytes: int = 200) -> Log:
    return Log.open(folder, ORDERS, LogSettings(segment_bytes=segment_bytes))


def append(replica: LocalReplica, *, producer_id: int, sequence: int, count: int = 1) -> None:
    data = batch(*["v"] * count, producer_id=producer_id, producer_epoch=0, sequence=sequence)
    stamp(data, 0, replica.log_end_offset, 0)
    replica.append(data, parse_headers(data))


def without_descriptor(path: Path, entries: Iterable[ProducerEntry]) -> None:
    raise OSError(errno.EMFILE, "Too many open files")


def test_a_snapshot_comes_back_as_it_was_written_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000100.snapshot"
    assert read_snapshot(path) == []
    write_snapshot(path, ENTRIES)
    assert read_snapshot(path) == ENTRIES
    data = path.read_bytes()
    for position in range(len(data)):
        path.write_bytes(data[:position])
        assert read_snapshot(path) == []
        for bit in range(8):
            path.write_bytes(data[:position] + bytes([data[position] ^ (1 << bit)]) + data[position + 1 :])
            assert read_snapshot(path) == []


def test_a_retry_is_recognised_although_its_batch_was_deleted_and_the_broker_restarted(tmp_path: Path) -> None:
    replica = opened(open_log(tmp_path))
    for sequence in range(0, 12, 2):
        append(replica, producer_id=7, sequence=sequence, count=2)
    replica.set_high_watermark(replica.log_end_offset)
    assert replica.delete_expired(wall_clock_ms=0)
    assert replica.log_start_offset == replica.log_end_offset == 12
    replica.log.truncate_to(12)
    again = opened(open_log(tmp_path))
    retried = parse_headers(batch("v", "v", producer_id=7, producer_epoch=0, sequence=10))[0]
    assert again.producers.check(retried) == CachedBatch(
        first_sequence=10, last_sequence=11, base_offset=10, last_offset=11
    )


def test_a_snapshot_without_a_descriptor_costs_no_append_and_holds_deletions_up_until_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes after an append, as the high watermark of acks=all, would be left out."""

    replica = opened(open_log(tmp_path, segment_bytes=1))
    append(replica, producer_id=7, sequence=0)
    with monkeypatch.context() as patched:
        patched.setattr(log_module, "write_snapshot", without_descriptor)
        append(replica, producer_id=8, sequence=0)
        replica.set_high_watermark(1)
        assert replica.delete_expired(wall_clock_ms=0) == 0
    assert replica.log.segments_without_producers == {1}
    replica.set_high_watermark(1)
    assert replica.delete_expired(wall_clock_ms=0) == 1
    assert [each.producer_id for each in read_snapshot(tmp_path / f"{1:020d}.snapshot")] == [7]
    assert replica.log.segments_without_producers == set()


@pytest.mark.parametrize("is_cut", [False, True], ids=["append", "cut"])
def test_a_snapshot_that_failed_is_written_with_the_next_append_or_rebuilding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_cut: bool
) -> None:
    replica = opened(open_log(tmp_path, segment_bytes=1))
    append(replica, producer_id=7, sequence=0)
    with monkeypatch.context() as patched:
        patched.setattr(log_module, "write_snapshot", without_descriptor)
        append(replica, producer_id=8, sequence=0)
        append(replica, producer_id=8, sequence=1)
    if is_cut:
        replica.truncate(2, epoch=0, reason="a test")
    else:
        append(replica, producer_id=8, sequence=2)
    assert [each.producer_id for each in read_snapshot(tmp_path / f"{1:020d}.snapshot")] == [7]
    assert is_cut or [each.last_offset for each in read_snapshot(tmp_path / f"{2:020d}.snapshot")] == [0, 1]


@settings(max_examples=60, deadline=None)
@given(
    batches=st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4)), min_size=1, max_size=12),
    segment_bytes=st.sampled_from([1, 200, 500]),
    cut=st.integers(0, 40),
    deleted=st.integers(0, 12),
)
def test_a_restart_forgets_no_producer(
    batches: list[tuple[int, int]], segment_bytes: int, cut: int, deleted: int
) -> None:
    with tempfile.TemporaryDirectory() as name:
        replica = opened(open_log(Path(name), segment_bytes=segment_bytes))
        sequences = {1: 0, 2: 0, 3: 0}
        for producer_id, count in batches:
            append(replica, producer_id=producer_id, sequence=sequences[producer_id], count=count)
            sequences[producer_id] += count
        replica.truncate(cut, epoch=0, reason="a test")
        append(replica, producer_id=9, sequence=0)
        count = min(deleted, len(replica.log.segments) - 1)
        replica.log.delete_segments(count)
        again = opened(open_log(Path(name), segment_bytes=segment_bytes))
        assert sorted(again.producers.entries) == sorted(replica.producers.entries)
