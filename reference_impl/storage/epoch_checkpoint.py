"""A log's leader-epoch-checkpoint, which can be written ahead: before the epoch begins, where waiting is possible.

An epoch's entry must be safe on disk before the epoch is used, and the core assigns the epoch while it becomes leader,
where nothing may wait. So the entry is written before; when the core assigns the epoch, the file is up to date already.
An entry that was not used is removed again: after a crash it would stand between records of other epochs.
"""

import threading
from collections.abc import Callable
from pathlib import Path

from reference_impl.core.leader_epochs import EpochEntry, LeaderEpochCache
from reference_impl.storage.checkpoints import write_epochs
from reference_impl.storage.disk import Disk

Entries = tuple[EpochEntry, ...]


class EpochCheckpoint:
    def __init__(self, path: Path, disk: Disk) -> None:
        self._path = path
        self._disk = disk
        self._turn = threading.Lock()  # between the loop and the thread that writes ahead
        self._changes = 0
        self._ahead: Entries | None = None  # entries known to be safe on disk; None: unknown
        self._owed = False  # a write failed: the disk does not have the cache's entries

    def write(self, entries: Entries, sync: bool) -> None:
        """Writes the cache's entries, unless exactly these were written ahead."""
        with self._turn, self._disk:
            self._changes += 1
            if entries == self._ahead:
                return
            self._ahead, self._owed = None, True
            write_epochs(self._path, entries, sync=sync)
            self._owed = False

    def writing_ahead(self, cache: LeaderEpochCache, epoch: int, start_offset: int) -> Callable[[], None] | None:
        """Returns a function that writes the checkpoint as it will be once `epoch` is assigned, or None if nothing has
        to be written. It may run in any thread, and does nothing if the cache has changed by then."""
        present = cache.entries
        copy = LeaderEpochCache(present, lambda entries, sync: None)
        copy.assign(epoch, start_offset)
        wanted, changes = copy.entries, self._changes
        if wanted == self._ahead or (wanted == present and not self._owed):
            return None

        def write() -> None:
            with self._turn, self._disk:
                if self._changes != changes:
                    return
                self._ahead = None
                write_epochs(self._path, wanted, sync=True)
                self._ahead, self._owed = wanted, False

        return write

    def settle(self, entries: Entries) -> None:
        """Repeats a failed write; call it before records are appended."""
        if self._owed:
            self.write(entries, sync=True)

    def take_back(self, entries: Entries) -> None:
        """Removes an entry that was written ahead but not used."""
        if self._ahead is not None and self._ahead != entries:
            self.write(entries, sync=True)
