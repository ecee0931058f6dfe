"""The port for work that waits for the disk: fsync, and operations on hundreds of files.

The broker has one thread, its event loop; while it waits for a disk, no heartbeat is sent and no leader can serve. Such
work is therefore handed to this one port, `DiskWork`, and awaited before its result is sent to anybody. A simulated
world implements the port itself. Writes into the page cache do not wait and stay on the loop.

Other work continues meanwhile, so a caller must check the state again afterwards. `_turn` keeps the work on one file in
order.
"""

import asyncio
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from reference_impl.core.cleaning.compaction import Cleaning
from reference_impl.core.identifiers import TopicPartition
from reference_impl.storage.cleaned_segments import CleanedLog
from reference_impl.storage.log import Log
from reference_impl.storage.log_directory import LogDirectory, MadeReplica
from reference_impl.wire.compression import UnreadableRecords

Result = TypeVar("Result")
ATTEMPTS = 3  # attempts to write an epoch entry ahead
AT_ONCE = 32  # replicas per task, so that several tasks wait for the disk at the same time


class DiskWork(Protocol):
    async def run(self, work: Callable[[], Result]) -> Result:
        """Returns the result of the work or raises its exception. A cancelled caller still waits until the work has
        ended."""
        ...

    async def close(self) -> None:
        """Returns when no work is running any more."""
        ...


class DiskEffects:
    """The waiting work of one log directory. Its checkpoints, and the deletions that change them, are done one after
    the other."""

    def __init__(self, log_directory: LogDirectory, work: DiskWork) -> None:
        self._log_directory = log_directory
        self._work = work
        self._turn = asyncio.Lock()
        self._lowered_on_disk = log_directory.recovery_points_lowered
        self._checkpointed_starts: Mapping[TopicPartition, int] | None = None  # unknown: write the next one

    async def close(self) -> None:
        await self._work.close()

    # Replicas

    async def create(
        self, wanted: Sequence[tuple[TopicPartition, uuid.UUID | None]]
    ) -> dict[TopicPartition, Log | Exception]:
        """Creates missing replicas; each log is safe on disk, or the result says why it was not created."""
        directory = self._log_directory
        made = await asyncio.gather(
            *(
                self._work.run(lambda few=few: directory.make(few))  # type: ignore[misc]
                for few in (wanted[start : start + AT_ONCE] for start in range(0, len(wanted), AT_ONCE))
            )
        )
        found: list[MadeReplica] = [each for some in made for each in some]
        directory.adopt(found)
        return {each.topic_partition: each.log for each in found}

    async def write_topic_ids(self, ids: Mapping[TopicPartition, uuid.UUID]) -> None:
        for key, topic_id in ids.items():
            await self._work.run(lambda key=key, topic_id=topic_id: self._log_directory.write_topic_id(key, topic_id))  # type: ignore[misc]

    async def delete(self, keys: Iterable[TopicPartition], forgotten: Callable[[], None]) -> None:
        """Deletes replicas; calls `forgotten` when no checkpoint contains them any more."""
        async with self._turn:
            detached = self._log_directory.detach(keys)
            if detached:
                await self._work.run(lambda: self._log_directory.remove_replicas(detached))
            self._checkpointed_starts = None
            forgotten()

    async def flush(self) -> None:
        """Flushes all logs; call it when nothing is appended any more."""
        keys = list(self._log_directory.logs)
        pieces = [keys[start : start + AT_ONCE] for start in range(0, len(keys), AT_ONCE)]
        await asyncio.gather(*(self._work.run(lambda few=few: self._log_directory.flush(few)) for few in pieces))  # type: ignore[misc]

    # Leader epochs

    async def write_epochs_ahead(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, Exception]:
        """Writes epoch entries ahead, so that assigning such an epoch at the current log end does not wait for the disk
        (unless the log grows all the while). Returns the failures. Call `take_back_epochs` afterwards, whether they
        were assigned or not."""
        logs, failed = self._log_directory.logs, dict[TopicPartition, Exception]()
        for _ in range(ATTEMPTS):
            works = [
                (key, work)
                for key, epoch in wanted.items()
                if key in logs
                and key not in failed
                and (work := logs[key].writing_epoch_ahead(epoch, logs[key].log_end_offset)) is not None
            ]
            if not works:
                break
            pieces = [works[start : start + AT_ONCE] for start in range(0, len(works), AT_ONCE)]
            for some in await asyncio.gather(*(self._work.run(lambda few=few: _all_done(few)) for few in pieces)):  # type: ignore[misc]
                failed |= some
        return failed

    def take_back_epochs(self, keys: Iterable[TopicPartition]) -> None:
        for key in keys:
            log = self._log_directory.logs.get(key)
            if log is not None:
                log.take_back_epochs()

    # Checkpoints

    async def settle_recovery_points(self) -> None:
        """Lowers recovery points on disk before anything is appended after a cut, so that new records do not count as
        flushed, or cleaned, because of those that were cut."""
        while self._lowered_on_disk < self._log_directory.recovery_points_lowered:
            await self.checkpoint_recovery_points()

    async def checkpoint_recovery_points(self) -> None:
        directory = self._log_directory
        async with self._turn:
            lowered, points = directory.recovery_points_lowered, directory.recovery_points()
            if lowered > self._lowered_on_disk:
                cleaned = directory.cleaned()
                await self._work.run(lambda: directory.checkpoint_lowered(points, cleaned))
            else:
                await self._work.run(lambda: directory.checkpoint_recovery_points(points))
            self._lowered_on_disk = lowered

    async def checkpoint_log_starts(self) -> None:
        async with self._turn:
            starts = self._log_directory.log_starts()
            if starts != self._checkpointed_starts:
                await self._work.run(lambda: self._log_directory.checkpoint_log_starts(starts))
                self._checkpointed_starts = starts

    # Compaction

    async def mark_as_compacted(self, keys: Iterable[TopicPartition]) -> None:
        """From then on these logs may have gaps; their folders say so before the first one. One log a turn: others do
        not wait for the files of all."""
        for key in keys:
            async with self._turn:  # no folder is removed meanwhile
                log = self._log_directory.logs.get(key)
                if log is not None:
                    await self._work.run(log.write_that_it_may_have_gaps)
                    log.cleaned_to = log.cleaned_to or 0

    async def clean(self, key: TopicPartition, plan: Cleaning, *, keys_max: int) -> CleanedLog | None:
        """One pass of the log cleaner over a log; None if the log changed too much meanwhile. Raises OSError and
        UnreadableRecords."""
        directory = self._log_directory
        log = directory.logs[key]
        changes = log.changes
        try:
            cleaned = await self._work.run(log.clean(plan, keys_max=keys_max))
        except (FileNotFoundError, UnreadableRecords):
            if log.changes != changes:
                return None  # it read what was being cut or deleted
            raise
        if not log.replace(cleaned):
            return None
        async with self._turn:
            if directory.logs.get(key) is log:
                checkpoint = directory.cleaned()
                await self._work.run(lambda: directory.checkpoint_cleaned(checkpoint))
        return cleaned

    async def checkpoint_high_watermarks(
        self,
        present: Callable[[], Mapping[TopicPartition, int] | None],
        written: Callable[[Mapping[TopicPartition, int]], None],
    ) -> None:
        """Writes what `present` returns at that moment, unless it is None; `written` is called before the next turn."""
        async with self._turn:
            high_watermarks = present()
            if high_watermarks is not None:
                await self._work.run(lambda: self._log_directory.checkpoint_high_watermarks(high_watermarks))
                written(high_watermarks)


def _all_done(works: Sequence[tuple[TopicPartition, Callable[[], None]]]) -> dict[TopicPartition, Exception]:
    failed: dict[TopicPartition, Exception] = {}
    for key, work in works:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - it is the error of one partition and returned as such
            failed[key] = error
    return failed
