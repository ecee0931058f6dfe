"""Flaws of disks: each lets pass what the sound broker finds or keeps."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from reference_impl.core.flaws import with_flaws
from reference_impl.core.identifiers import TopicPartition
from reference_impl.core.storage_rules import StorageRules
from reference_impl.storage.log_directory import LogDirectory

MakeBatch = Callable[..., bytes]

ORDERS = TopicPartition("orders", 0)


def _rules(flaw: str | None) -> StorageRules:
    return with_flaws([] if flaw is None else [flaw]).storage


def _directory(path: Path, flaw: str | None) -> LogDirectory:
    return LogDirectory(path, broker_id=1, segment_bytes=10_000, rules=_rules(flaw))


def _of_three(path: Path, flaw: str | None, make_batch: MakeBatch) -> LogDirectory:
    directory = _directory(path, flaw)
    log = directory.create(ORDERS, None)
    for offset in range(3):
        log.append(make_batch(offset, b"value"), offset + 1)
    return directory


def _damaged(path: Path) -> None:
    """The last byte of its last batch is another one."""
    (log,) = (path / "orders-0").glob("*.log")
    content = bytearray(log.read_bytes())
    content[-1] ^= 0xFF
    log.write_bytes(content)


@pytest.mark.parametrize("flaw", [None, "every-stop-is-clean", "damaged-batches-taken"])
def test_a_damaged_batch_is_kept_after_a_crash(tmp_path: Path, make_batch: MakeBatch, flaw: str | None) -> None:
    _of_three(tmp_path, flaw, make_batch).abandon()
    _damaged(tmp_path)

    again = _directory(tmp_path, flaw)

    assert again.logs[ORDERS].log_end_offset == (2 if flaw is None else 3)
    again.abandon()


@pytest.mark.parametrize("flaw", [None, "recovery-point-with-append"])
def test_what_no_flush_has_kept_counts_as_flushed(tmp_path: Path, make_batch: MakeBatch, flaw: str | None) -> None:
    directory = _of_three(tmp_path, flaw, make_batch)

    assert directory.recovery_points() == {ORDERS: 0 if flaw is None else 3}
    directory.abandon()


@pytest.mark.parametrize("flaw", [None, "flush-without-sync"])
def test_a_flush_keeps_nothing(
    tmp_path: Path, make_batch: MakeBatch, flaw: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = _of_three(tmp_path, flaw, make_batch)
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_mode))

    directory.flush()

    assert any(map(stat.S_ISREG, synced)) == (flaw is None)
    assert directory.recovery_points() == {ORDERS: 3}
    directory.abandon()
