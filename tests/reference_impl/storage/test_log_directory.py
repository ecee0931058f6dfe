"""A log directory over several starts and ends of its broker."""

import itertools
import os
import re
import shutil
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from reference_impl.core.identifiers import TopicPartition
from reference_impl.storage.disk import StorageError
from reference_impl.storage.log import Log
from reference_impl.storage.log_directory import LogDirectory

MakeBatch = Callable[..., bytes]

ORDERS, PAYMENTS = TopicPartition("orders", 0), TopicPartition("pay-ments.x_y", 12)
TOPIC_ID = uuid.UUID(int=99)
_numbers = itertools.count(1)


def directory_at(path: Path, *, broker_id: int = 1) -> LogDirectory:
    return LogDirectory(
        path,
        broker_id=broker_id,
        segment_bytes=1000,
        index_interval_bytes=100,
        new_id=lambda: uuid.UUID(int=next(_numbers)),
    )


def append(log: Log, make_batch: MakeBatch, count: int = 1) -> None:
    for _ in range(count):
        log.append(make_batch(log.log_end_offset, b"value"), log.log_end_offset + 1)


def test_replicas_and_their_topic_ids_are_there_after_a_restart(tmp_path: Path, make_batch: MakeBatch) -> None:
    directory = directory_at(tmp_path)
    append(directory.create(ORDERS, TOPIC_ID), make_batch, 3)
    append(directory.create(PAYMENTS, None), make_batch, 50)
    directory.abandon()
    again = directory_at(tmp_path)
    assert {key: log.log_end_offset for key, log in again.logs.items()} == {ORDERS: 3, PAYMENTS: 50}
    assert again.topic_id(ORDERS) == TOPIC_ID
    assert again.topic_id(PAYMENTS) is None
    assert again.topic_id(TopicPartition("none", 0)) is None
    again.abandon()


def test_creating_a_replica_that_is_there_gives_it_back(tmp_path: Path, make_batch: MakeBatch) -> None:
    directory = directory_at(tmp_path)
    log = directory.create(ORDERS, TOPIC_ID)
    append(log, make_batch)
    assert directory.create(ORDERS, TOPIC_ID) is log
    directory.abandon()


def test_only_a_clean_end_leaves_the_clean_shutdown_file_and_a_start_takes_it_away(tmp_path: Path) -> None:
    directory = directory_at(tmp_path)
    assert not directory.was_clean
    directory.close_cleanly(broker_epoch=17)
    assert '"brokerEpoch": 17' in (tmp_path / ".kafka_cleanshutdown").read_text()
    again = directory_at(tmp_path)
    assert again.was_clean
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    again.abandon()
    third = directory_at(tmp_path)
    assert not third.was_clean
    third.abandon()


def test_after_an_unclean_end_a_torn_tail_is_cut(tmp_path: Path, make_batch: MakeBatch) -> None:
    directory = directory_at(tmp_path)
    append(directory.create(ORDERS, TOPIC_ID), make_batch, 3)
    directory.abandon()
    path = tmp_path / "orders-0" / f"{0:020d}.log"
    path.write_bytes(path.read_bytes()[:-1])
    again = directory_at(tmp_path)
    assert again.logs[ORDERS].log_end_offset == 2
    assert again.logs[ORDERS].cut_at_start == make_batch(2, b"value")[:-1]
    again.abandon()


def test_a_clean_end_moves_the_recovery_points_to_the_log_ends(tmp_path: Path, make_batch: MakeBatch) -> None:
    directory = directory_at(tmp_path)
    append(directory.create(ORDERS, TOPIC_ID), make_batch, 3)
    directory.close_cleanly()
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n1\norders 0 3\n"
    again = directory_at(tmp_path)
    again.logs[ORDERS].truncate_to(1)
    assert again.recovery_points_lowered == 1  # whoever appends behind the cut has to see to the checkpoint first
    again.checkpoint_recovery_points(again.recovery_points())
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n1\norders 0 1\n"
    again.abandon()


def test_a_tail_cut_at_the_start_takes_the_recovery_point_down_at_once(tmp_path: Path, make_batch: MakeBatch) -> None:
    """Or what is appended in its place would pass for flushed at the next start."""
    directory = directory_at(tmp_path)
    append(directory.create(ORDERS, TOPIC_ID), make_batch, 3)
    directory.close_cleanly()
    path = tmp_path / "orders-0" / f"{0:020d}.log"
    path.write_bytes(path.read_bytes()[:-1])
    directory_at(tmp_path).abandon()
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n1\norders 0 2\n"


@pytest.mark.parametrize("is_lost", ["whole batches", "the folder"])
def test_so_does_a_tail_that_is_missing_without_a_trace_and_no_less_for_what_was_cleaned(
    tmp_path: Path, make_batch: MakeBatch, is_lost: str
) -> None:
    directory = directory_at(tmp_path)
    log = directory.create(ORDERS, TOPIC_ID)
    append(log, make_batch, 3)
    log.write_that_it_may_have_gaps()
    log.cleaned_to = 3
    directory.checkpoint_cleaned(directory.cleaned())
    directory.close_cleanly()
    path = log.folder / f"{0:020d}.log"
    if is_lost == "the folder":
        shutil.rmtree(log.folder)
    else:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 3])
    again = directory_at(tmp_path)
    assert not [each.cut_at_start for each in again.logs.values() if each.cut_at_start]
    append(again.create(ORDERS, TOPIC_ID), make_batch, 4)
    again.abandon()
    third = directory_at(tmp_path)
    ends = (0, None) if is_lost == "the folder" else (1, 1)
    assert (third.logs[ORDERS].recovery_point, third.logs[ORDERS].cleaned_to) == ends
    third.abandon()


def test_high_watermarks_are_kept_in_kafkas_file(tmp_path: Path) -> None:
    directory = directory_at(tmp_path)
    assert directory.read_high_watermarks() == {}
    directory.checkpoint_high_watermarks({PAYMENTS: 7, ORDERS: 5})
    assert (tmp_path / "replication-offset-checkpoint").read_text() == "0\n2\norders 0 5\npay-ments.x_y 12 7\n"
    directory.abandon()
    again = directory_at(tmp_path)
    assert again.read_high_watermarks() == {ORDERS: 5, PAYMENTS: 7}
    again.abandon()


def test_a_damaged_checkpoint_is_read_as_empty(tmp_path: Path, make_batch: MakeBatch) -> None:
    directory = directory_at(tmp_path)
    append(directory.create(ORDERS, TOPIC_ID), make_batch, 3)
    directory.close_cleanly()
    for name in ("replication-offset-checkpoint", "recovery-point-offset-checkpoint"):
        (tmp_path / name).write_bytes(b"\xff\xfe broken")
    again = directory_at(tmp_path)
    assert again.read_high_watermarks() == {}
    assert again.logs[ORDERS].log_end_offset == 3
    again.abandon()


def test_a_deleted_replica_leaves_nothing_to_a_namesake(tmp_path: Path, make_batch: MakeBatch) -> None:
    directory = directory_at(tmp_path)
    append(directory.create(ORDERS, TOPIC_ID), make_batch, 3)
    directory.checkpoint_high_watermarks({ORDERS: 3, PAYMENTS: 1})
    directory.flush()
    directory.delete(ORDERS)
    assert ORDERS not in directory.logs
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []
    assert directory.read_high_watermarks() == {PAYMENTS: 1}
    log = directory.create(ORDERS, uuid.UUID(int=100))
    assert (log.log_end_offset, log.recovery_point) == (0, 0)
    directory.delete(TopicPartition("never", 0))
    directory.abandon()


def test_what_a_crash_left_of_a_deletion_goes_at_the_next_start(tmp_path: Path, make_batch: MakeBatch) -> None:
    directory = directory_at(tmp_path)
    append(directory.create(ORDERS, TOPIC_ID), make_batch)
    directory.abandon()
    (tmp_path / "orders-0").rename(tmp_path / "orders-0.0123-delete")
    again = directory_at(tmp_path)
    assert dict(again.logs) == {}
    assert not (tmp_path / "orders-0.0123-delete").exists()
    again.abandon()


def test_a_topic_of_the_longest_name_can_be_deleted(tmp_path: Path) -> None:
    received: list[OSError] = []
    directory = LogDirectory(tmp_path, broker_id=1, segment_bytes=1000, failed=received.append)
    longest, short = TopicPartition("x" * 249, 12), TopicPartition("y", 3)
    names = [directory._deleted_name(key) for key in (longest, short)]
    assert len(names[0]) == 255
    assert re.fullmatch(r"x{212}-12\.[0-9a-f]{32}-delete", names[0])  # as Kafka's logDeleteDirName
    assert re.fullmatch(r"y-3\.[0-9a-f]{32}-delete", names[1])
    directory.create(longest, TOPIC_ID)
    directory.delete(longest)
    assert received == []
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []
    directory.abandon()


@pytest.mark.parametrize(
    "key",
    [TopicPartition("../../x", 0), TopicPartition("a/b", 0), TopicPartition("..", 0), TopicPartition("orders", -1)],
)
def test_what_is_no_replica_of_a_topic_gets_no_folder_anywhere(tmp_path: Path, key: TopicPartition) -> None:
    directory = directory_at(tmp_path / "a" / "data")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(StorageError, match="names no replica of a topic"):
        directory.create(key, TOPIC_ID)
    assert sorted(tmp_path.rglob("*")) == before
    directory.abandon()


@pytest.mark.parametrize("name", ["a b-0", "orders-07", "orders-٣", "..-0", "x" * 250 + "-0", "orders"])
def test_a_folder_that_is_no_replicas_is_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    directory = directory_at(tmp_path)
    assert dict(directory.logs) == {}
    assert (tmp_path / name).is_dir()
    directory.abandon()


def test_the_directory_id_stays_until_the_disk_is_lost(tmp_path: Path) -> None:
    directory = directory_at(tmp_path)
    directory_id = directory.directory_id
    assert directory.is_new
    directory.abandon()
    again = directory_at(tmp_path)
    assert (again.directory_id, again.is_new) == (directory_id, False)
    again.abandon()
    (tmp_path / "meta.properties").write_text("garbage")
    third = directory_at(tmp_path)
    assert third.directory_id != directory_id
    assert third.is_new
    third.abandon()


def test_a_directory_serves_one_cluster_and_one_broker(tmp_path: Path) -> None:
    directory = directory_at(tmp_path)
    directory.belong_to("cluster-a")
    with pytest.raises(StorageError, match="belongs to cluster cluster-a"):
        directory.belong_to("cluster-b")
    directory.abandon()
    again = directory_at(tmp_path)
    assert again.cluster_id == "cluster-a"
    again.belong_to("cluster-a")
    again.abandon()
    with pytest.raises(StorageError, match=r"broker\.id is 1, this is broker 2"):
        directory_at(tmp_path, broker_id=2)
    directory_at(tmp_path).abandon()


def test_two_brokers_never_share_a_directory(tmp_path: Path) -> None:
    directory = directory_at(tmp_path)
    with pytest.raises(StorageError, match="another broker uses this directory"):
        directory_at(tmp_path)
    directory.abandon()
    directory_at(tmp_path).abandon()


def test_after_the_first_failed_write_the_directory_is_offline_and_its_owner_is_informed_once(
    tmp_path: Path, make_batch: MakeBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    received: list[OSError] = []
    directory = LogDirectory(tmp_path, broker_id=1, segment_bytes=1000, failed=received.append)
    orders, payments = directory.create(ORDERS, TOPIC_ID), directory.create(PAYMENTS, TOPIC_ID)
    append(payments, make_batch)

    def full(descriptor: int, data: memoryview) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space"):
            append(orders, make_batch)
    with pytest.raises(StorageError, match="offline since a write failed"):
        append(payments, make_batch)
    for write in (partial(directory.checkpoint_recovery_points, {}), payments.flush):
        with pytest.raises(StorageError, match="offline since a write failed"):
            write()
    assert [error.errno for error in received] == [28]
    directory.abandon()
    assert directory_at(tmp_path).logs[PAYMENTS].log_end_offset == 1


def test_strange_folders_are_left_alone(tmp_path: Path) -> None:
    for name in ("lost+found", "notes", "-3"):
        (tmp_path / name).mkdir(parents=True)
    directory = directory_at(tmp_path)
    assert dict(directory.logs) == {}
    assert (tmp_path / "notes").is_dir()
    directory.abandon()


def grow(log: Log, make_batch: MakeBatch, count: int) -> None:
    """One batch a segment, if segments are that small."""
    for _ in range(count):
        log.append(make_batch(log.log_end_offset, b"x" * 500), log.log_end_offset + 1)


def test_a_start_that_no_file_name_reports_is_in_kafkas_checkpoint(tmp_path: Path, make_batch: MakeBatch) -> None:
    directory = directory_at(tmp_path)
    grow(directory.create(ORDERS, TOPIC_ID), make_batch, 6)
    grow(directory.create(PAYMENTS, TOPIC_ID), make_batch, 6)
    directory.logs[ORDERS].advance_log_start(3)
    directory.logs[PAYMENTS].delete_segments(2)
    directory.checkpoint_log_starts(directory.log_starts())
    checkpoint = tmp_path / "log-start-offset-checkpoint"
    started_at = {key: log.log_start_offset for key, log in directory.logs.items()}
    assert checkpoint.read_text() == "0\n1\norders 0 3\n"
    directory.abandon()
    again = directory_at(tmp_path)
    assert {key: log.log_start_offset for key, log in again.logs.items()} == started_at
    again.logs[ORDERS].delete_segments(5)
    again.checkpoint_log_starts(again.log_starts())
    assert checkpoint.read_text() == "0\n0\n"
    again.delete(ORDERS)
    assert again.create(ORDERS, TOPIC_ID).log_start_offset == 0
    again.abandon()


def test_what_was_set_aside_for_deletion_is_gone_after_a_restart(tmp_path: Path, make_batch: MakeBatch) -> None:
    directory = directory_at(tmp_path)
    grow(directory.create(ORDERS, TOPIC_ID), make_batch, 4)
    directory.logs[ORDERS].delete_segments(2)
    assert list(tmp_path.glob("orders-0/*.log.deleted"))
    directory.abandon()
    again = directory_at(tmp_path)
    assert not list(tmp_path.glob("orders-0/*.deleted"))
    assert (again.logs[ORDERS].log_start_offset, again.logs[ORDERS].log_end_offset) == (2, 4)
    paths = again.logs[ORDERS].take_set_aside()
    again.remove(paths)
    again.delete(ORDERS)
    again.remove(paths)  # they went with their topic
    again.abandon()


def test_a_log_that_lost_what_reached_beyond_its_start_begins_anew_there(tmp_path: Path, make_batch: MakeBatch) -> None:
    directory = directory_at(tmp_path)
    grow(directory.create(ORDERS, TOPIC_ID), make_batch, 6)
    directory.logs[ORDERS].advance_log_start(5)
    directory.checkpoint_log_starts(directory.log_starts())
    directory.abandon()
    for path in sorted(tmp_path.glob("orders-0/*.log"))[2:]:
        path.unlink()
    again = directory_at(tmp_path)
    log = again.logs[ORDERS]
    assert (log.log_start_offset, log.log_end_offset) == (5, 5)
    assert len(log.cut_at_start) > 1000
    log.append(make_batch(5, b"next"), 6)
    assert log.all_batches() == make_batch(5, b"next")
    again.abandon()
