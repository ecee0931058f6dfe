"""Which logs the cleaner leaves alone, and for how long."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reference_impl.core.cleaning.compaction import BatchCleaner
from reference_impl.runtime.disk_work import DiskEffects
from reference_impl.runtime.replication.cleaner import LogCleaner
from reference_impl.storage.log import Log
from reference_impl.storage.log_directory import LogDirectory
from reference_impl.wire.compression import UnreadableRecords
from reference_impl.wire.key_values import KeyValue, key_value_batch
from tests.reference_impl.runtime.gated_disk import GatedDisk
from tests.reference_impl.storage.logs import ORDERS, open_log
from tests.reference_impl.storage.test_cleaned_segments import NOW_MS, plan_of, put


class World:
    """A log that is always due and never readable."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.tried: list[Log] = []
        partition = SimpleNamespace(cleaning=lambda wall_clock_ms: SimpleNamespace(dirty_ratio=1.0))
        replicas: Any = SimpleNamespace(partitions={ORDERS: partition}, log=lambda key: self.log)
        config: Any = SimpleNamespace(
            log_cleaner_backoff_ms=1, log_cleaner_enable=True, log_cleaner_dedupe_buffer_size=1
        )
        disk: Any = SimpleNamespace(clean=self._clean)
        retention: Any = None
        self._cleaner = LogCleaner(config, replicas, disk, retention, lambda: 0)

    async def _clean(self, key: object, plan: object, *, keys_max: int) -> None:
        self.tried.append(self.log)
        raise UnreadableRecords("damaged")

    async def passes(self, count: int) -> None:
        for _ in range(count):
            await self._cleaner._clean_one()


async def test_what_cannot_be_read_is_not_tried_again_until_the_log_was_cut_or_is_another_one(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    old, new = open_log(tmp_path / "old"), open_log(tmp_path / "new")
    world = World(old)
    await world.passes(3)
    assert world.tried == [old]
    old.truncate_to(0)
    await world.passes(3)
    assert world.tried == [old, old]
    world.log = new  # the topic was deleted and made anew
    await world.passes(3)
    assert world.tried == [old, old, new]


async def test_a_pass_over_a_topic_that_is_deleted_meanwhile_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: list[OSError] = []
    directory = LogDirectory(tmp_path, broker_id=1, segment_bytes=600, failed=failed.append)
    effects = DiskEffects(directory, GatedDisk())
    log = directory.create(ORDERS, None)
    log.leader_epochs.assign(0, 0)
    await effects.mark_as_compacted([ORDERS])
    for _ in range(30):
        put(log, key_value_batch([KeyValue(b"a", b"v" * 50)], NOW_MS))
    plan = plan_of(log)
    assert plan is not None

    def cleaned(self: BatchCleaner, batch: bytes, *, is_last_of_segment: bool) -> bytes:
        directory.delete(ORDERS)
        return sound(self, batch, is_last_of_segment=is_last_of_segment)

    sound = BatchCleaner.cleaned
    monkeypatch.setattr(BatchCleaner, "cleaned", cleaned)
    assert await effects.clean(ORDERS, plan, keys_max=100) is None
    assert not failed
    directory.create(ORDERS, None)  # the disk is not offline
    directory.abandon()
