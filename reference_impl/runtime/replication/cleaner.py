"""The log cleaner: compacts, one log after the other, the replicas of topics whose cleanup.policy has "compact".

Whichever log has the largest share of dirty bytes comes first; when none is due, it waits log.cleaner.backoff.ms. What
a pass leaves is decided in core/cleaning/compaction.py and written by storage/cleaned_segments.py, away from the loop.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from weakref import WeakKeyDictionary

from reference_impl.core.cleaning.compaction import Cleaning
from reference_impl.runtime.config import BrokerConfig
from reference_impl.runtime.disk_work import DiskEffects
from reference_impl.runtime.replication.replica_manager import ReplicaManager
from reference_impl.runtime.replication.retention import Retention
from reference_impl.storage.disk import StorageError
from reference_impl.storage.log import Log
from reference_impl.wire.compression import UnreadableRecords

logger = logging.getLogger(__name__)

BYTES_OF_A_KEY = 24  # in Kafka's offsets map, which is filled to nine tenths
LOAD_FACTOR = 0.9


class LogCleaner:
    def __init__(
        self,
        config: BrokerConfig,
        replicas: ReplicaManager,
        disk: DiskEffects,
        retention: Retention,
        wall_clock_ms: Callable[[], int],
    ) -> None:
        self._replicas = replicas
        self._disk = disk
        self._retention = retention
        self._wall_clock_ms = wall_clock_ms
        self._backoff_s = config.log_cleaner_backoff_ms / 1000
        self._is_enabled = config.log_cleaner_enable
        self._keys_max = max(1, int(config.log_cleaner_dedupe_buffer_size * LOAD_FACTOR) // BYTES_OF_A_KEY)
        self._may_be_due = asyncio.Event()
        # `changes` of logs of which a record could not be read; what was cut or deleted since may have been that one
        self._uncleanable = WeakKeyDictionary[Log, int]()

    async def run(self) -> None:
        while True:
            self._may_be_due.clear()
            try:
                goes_on = self._is_enabled and await self._clean_one()
            except (OSError, StorageError) as error:  # of the disk: then it is offline, and the broker halts
                logger.error("cleaning paused: %s", error)
                goes_on = False
            if not goes_on:
                await self._pause(self._may_be_due)

    async def _pause(self, until: asyncio.Event) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._backoff_s):
                await until.wait()

    async def keep_marking(self) -> None:
        """Followers copy the gaps of their leader, whether they clean or not, and while a pass goes on as well."""
        changed = self._replicas.compaction_changed
        while True:
            is_changed = changed.is_set()
            changed.clear()
            try:
                await self._mark()
            except (OSError, StorageError) as error:
                logger.error("logs of compacted topics take no gaps yet: %s", error)
            if is_changed:
                self._may_be_due.set()
            await self._pause(changed)

    async def _mark(self) -> None:
        unmarked = [
            key
            for key, partition in self._replicas.partitions.items()
            if partition.settings.compaction is not None and partition.log.cleaned_to is None
        ]
        if unmarked:
            await self._disk.mark_as_compacted(unmarked)

    def _due(self) -> list[tuple[Log, Cleaning]]:
        now_ms = self._wall_clock_ms()
        found = (
            (log, partition.cleaning(wall_clock_ms=now_ms))
            for key, partition in self._replicas.partitions.items()
            if (log := self._replicas.log(key)) is not None and self._uncleanable.get(log) != log.changes
        )
        return [(log, plan) for log, plan in found if plan is not None]

    async def _clean_one(self) -> bool:
        """True if a log was cleaned: perhaps another one is due."""
        due = self._due()
        if not due:
            return False
        log, plan = max(due, key=lambda each: each[1].dirty_ratio)
        key = log.topic_partition
        try:
            cleaned = await self._disk.clean(key, plan, keys_max=self._keys_max)
        except UnreadableRecords as error:
            logger.error("%s: not cleaned any more: %s", key, error)
            self._uncleanable[log] = log.changes
            return True
        if cleaned is None:
            return False
        logger.info("%s: cleaned up to %d, %d records removed", key, cleaned.end_offset, cleaned.removed_records)
        self._retention.remove_set_aside(log)
        return True
