"""The start offset of each leader epoch in a replica's log. Truncation after a leader change uses it (KIP-101).

An entry (epoch, start offset) says that the first record of that epoch has, or would have, this offset. Both numbers
rise strictly from entry to entry. The owner stores the entries: it is informed of every change and whether the change
must be on disk before the caller continues (docs/replication.md R3).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import NamedTuple

from reference_impl.core.identifiers import UNDEFINED_EPOCH, UNKNOWN_OFFSET


class EpochEntry(NamedTuple):
    epoch: int
    start_offset: int


EpochsChanged = Callable[[tuple[EpochEntry, ...], bool], None]
"""Called with the entries after a change, and True when they must be on disk before it returns."""

_UNDEFINED = (UNDEFINED_EPOCH, UNKNOWN_OFFSET)
_epoch_of = attrgetter("epoch")
_start_of = attrgetter("start_offset")


class LeaderEpochCache:
    def __init__(self, entries: Iterable[tuple[int, int]], on_change: EpochsChanged) -> None:
        self._on_change = on_change
        self._entries: list[EpochEntry] = []
        for epoch, start_offset in sorted(entries):
            self._insert(epoch, start_offset)

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        return tuple(self._entries)

    @property
    def latest_epoch(self) -> int:
        return self._entries[-1].epoch if self._entries else UNDEFINED_EPOCH

    def assign(self, epoch: int, start_offset: int) -> None:
        """Records that `epoch` begins at `start_offset` and removes contradicting entries. On disk when it returns."""
        if self._insert(epoch, start_offset):
            self._on_change(self.entries, True)

    def _insert(self, epoch: int, start_offset: int) -> bool:
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"leader epoch {epoch} starting at {start_offset}: neither may be negative")
        if self._entries and self._entries[-1].epoch == epoch and start_offset >= self._entries[-1].start_offset:
            return False
        while self._entries and (self._entries[-1].epoch >= epoch or self._entries[-1].start_offset >= start_offset):
            self._entries.pop()
        self._entries.append(EpochEntry(epoch, start_offset))
        return True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Returns (largest known epoch not above `epoch`, its end offset), or (-1, -1) if unknown.

        The found epoch is part of the answer: with the offset alone two replicas that lack each other's epochs would
        keep different records (KIP-279). An epoch newer than the latest is unknown; the answer is not the log end.
        """
        assert log_end_offset >= 0
        if epoch == UNDEFINED_EPOCH or not self._entries or epoch > self.latest_epoch:
            return _UNDEFINED
        if epoch == self.latest_epoch:
            return epoch, log_end_offset
        following = bisect_right(self._entries, epoch, key=_epoch_of)
        if following == 0:  # older than every entry: the log has no record of it
            return epoch, self._entries[0].start_offset
        return self._entries[following - 1].epoch, self._entries[following].start_offset

    def truncate_from_end(self, offset: int) -> None:
        """Handles a truncation to `offset`: removes the epochs that would begin there or later (KAFKA-10706)."""
        assert offset >= 0
        keep = bisect_left(self._entries, offset, key=_start_of)
        if keep < len(self._entries):
            del self._entries[keep:]
            self._on_change(self.entries, False)

    def truncate_from_start(self, offset: int) -> None:
        """Handles a new log start `offset`: removes epochs entirely below it; the one that covers it begins there."""
        assert offset >= 0
        covering = bisect_right(self._entries, offset, key=_start_of) - 1
        if covering < 0 or self._entries[0].start_offset == offset:
            return
        self._entries[: covering + 1] = [EpochEntry(self._entries[covering].epoch, offset)]
        self._on_change(self.entries, False)

    def clear(self) -> None:
        """Handles a log that was emptied."""
        if self._entries:
            self._entries.clear()
            self._on_change((), False)
