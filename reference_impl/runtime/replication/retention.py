"""Deletes expired segments on every replica, and their files after a delay.

The partition decides what expires (core.retention); this module has the wall clock and the waiting. Files of deleted
segments stay, renamed, for file.delete.delay.ms, so that current readers can finish; what a stop leaves is deleted at
the next start.
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from reference_impl.runtime.replication.replica_manager import ReplicaManager
from reference_impl.storage.log import Log
from reference_impl.storage.log_directory import LogDirectory

logger = logging.getLogger(__name__)


class Retention:
    def __init__(self, replicas: ReplicaManager, log_directory: LogDirectory, wall_clock_ms: Callable[[], int]) -> None:
        self._replicas = replicas
        self._log_directory = log_directory
        self._wall_clock_ms = wall_clock_ms
        self._waiting: dict[int, asyncio.TimerHandle] = {}
        self._next_wait = 0

    def check(self) -> None:
        """Called every log.retention.check.interval.ms."""
        for key, partition in list(self._replicas.partitions.items()):
            log = self._log_directory.logs.get(key)
            if log is None:
                continue
            count = partition.delete_expired(wall_clock_ms=self._wall_clock_ms())
            if count:
                logger.info("%s: deleted %d segments, the log starts at %d", key, count, log.log_start_offset)
            self.remove_set_aside(log)

    def remove_set_aside(self, log: Log) -> None:
        paths = log.take_set_aside()
        if paths:
            self._remove_later(paths, log.file_delete_delay_ms)

    def _remove_later(self, paths: list[Path], delay_ms: int) -> None:
        number = self._next_wait
        self._next_wait += 1

        def remove() -> None:
            del self._waiting[number]
            self._log_directory.remove(paths)

        self._waiting[number] = asyncio.get_running_loop().call_later(delay_ms / 1000, remove)

    def stop(self) -> None:
        for handle in self._waiting.values():
            handle.cancel()
        self._waiting.clear()
