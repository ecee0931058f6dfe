"""Which logs the cleaner leaves alone, and for how long."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from reference_impl.runtime.replication.cleaner import LogCleaner
from reference_impl.storage.log import Log
from reference_impl.wire.compression import UnreadableRecords
from tests.reference_impl.storage.logs import ORDERS, open_log


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
