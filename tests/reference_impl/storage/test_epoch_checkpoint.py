"""A leader epoch that is on disk before it begins, and one that never begins."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from reference_impl.core.identifiers import TopicPartition
from reference_impl.storage.checkpoints import read_epochs
from reference_impl.storage.log import Log, LogSettings

MakeBatch = Callable[..., bytes]
CHECKPOINT = "leader-epoch-checkpoint"


@pytest.fixture
def log(tmp_path: Path, make_batch: MakeBatch) -> Log:
    """Records 0 to 4 of epoch 0."""
    log = Log.open(tmp_path, TopicPartition("orders", 0), LogSettings(segment_bytes=1000))
    log.leader_epochs.assign(0, 0)
    for offset in range(5):
        log.append(make_batch(offset, b"value"), offset + 1)
    return log


def on_disk(log: Log) -> list[tuple[int, int]]:
    return read_epochs(log.folder / CHECKPOINT)


def write_ahead(log: Log, epoch: int) -> None:
    work = log.writing_epoch_ahead(epoch, log.log_end_offset)
    assert work is not None
    work()


def test_an_epoch_written_ahead_is_on_disk_and_assigning_it_waits_for_no_disk(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_ahead(log, 3)
    assert on_disk(log) == [(0, 0), (3, 5)]
    assert log.leader_epochs.latest_epoch == 0
    monkeypatch.setattr(os, "fsync", lambda descriptor: pytest.fail("assigning waited for the disk"))
    log.leader_epochs.assign(3, 5)
    assert log.leader_epochs.latest_epoch == 3
    log.take_back_epochs()
    assert on_disk(log) == [(0, 0), (3, 5)]
    assert log.writing_epoch_ahead(3, 5) is None
    log.close()


def test_an_epoch_that_begins_elsewhere_is_written_where_it_begins(log: Log, make_batch: MakeBatch) -> None:
    write_ahead(log, 3)
    log.append(make_batch(5, b"value"), 6)
    log.leader_epochs.assign(3, 6)
    assert on_disk(log) == [(0, 0), (3, 6)]
    log.close()


def test_an_epoch_that_never_begins_is_taken_back(log: Log) -> None:
    write_ahead(log, 3)
    log.take_back_epochs()
    assert on_disk(log) == [(0, 0)]
    log.close()


def test_what_the_cache_wrote_meanwhile_is_not_overwritten(log: Log) -> None:
    late = log.writing_epoch_ahead(3, 5)
    assert late is not None
    log.leader_epochs.assign(2, 5)
    late()
    assert on_disk(log) == [(0, 0), (2, 5)]
    log.close()


def test_records_wait_for_an_epoch_whose_write_failed(
    log: Log, make_batch: MakeBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_many(*arguments: object, **more: object) -> None:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", too_many)
        with pytest.raises(OSError, match="Too many"):
            log.leader_epochs.assign(3, 5)
        with pytest.raises(OSError, match="Too many"):
            log.append(make_batch(5, b"value"), 6)
    assert log.log_end_offset == 5
    log.append(make_batch(5, b"value"), 6)
    assert on_disk(log) == [(0, 0), (3, 5)]
    log.close()
