"""Checks, for every batch when a log is opened, that it continues the log.

Base offset and leader epoch are not covered by a batch's CRC. But a log has no gaps, its epochs never decrease, and an
epoch is checkpointed on disk before its first batch is written (docs/replication.md R3), so both can be checked against
their neighbours. A log that was compacted has gaps: there a batch may begin later. A checkpoint that is older because
of a power loss has too many entries, never too few.
"""

from bisect import bisect_right
from collections.abc import Sequence
from operator import itemgetter

from reference_impl.wire.record_batches import MAGIC, BatchOutline

_start_of = itemgetter(1)


class Continuity:
    """`epochs`: (epoch, start offset) as checkpointed; if there are none, they are taken from the batches."""

    def __init__(self, epochs: Sequence[tuple[int, int]], *, log_end_offset: int, may_have_gaps: bool = False) -> None:
        self.next_offset = log_end_offset
        self._may_have_gaps = may_have_gaps
        self.epochs_seen: list[tuple[int, int]] = []
        self._checkpointed = sorted(epochs, key=_start_of)
        self._latest_epoch = 0

    def takes(self, batch: BatchOutline) -> bool:
        """True if the batch continues the log; the log's position then moves past it."""
        continues = batch.magic == MAGIC and batch.base_offset < batch.next_offset
        if not (continues and self.reaches(batch.base_offset)) or batch.leader_epoch < self._latest_epoch:
            return False
        if not self.epochs_seen or batch.leader_epoch > self._latest_epoch:
            if self._checkpointed and batch.leader_epoch > self._checkpointed_epoch(batch.base_offset):
                return False
            self.epochs_seen.append((batch.leader_epoch, batch.base_offset))
            self._latest_epoch = batch.leader_epoch
        self.next_offset = batch.next_offset
        return True

    def reaches(self, base_offset: int) -> bool:
        """Whether a batch or segment that begins there is the next one."""
        return base_offset == self.next_offset or (self._may_have_gaps and base_offset > self.next_offset)

    def mark(self) -> tuple[int, int, int]:
        """The current position, for `rewind`."""
        return self.next_offset, self._latest_epoch, len(self.epochs_seen)

    def rewind(self, mark: tuple[int, int, int]) -> None:
        self.next_offset, self._latest_epoch, seen = mark
        del self.epochs_seen[seen:]

    def _checkpointed_epoch(self, offset: int) -> int:
        """Of entries before the log's start, which are deleted with their segment, the first is the latest."""
        covering = bisect_right(self._checkpointed, offset, key=_start_of) - 1
        return self._checkpointed[max(covering, 0)][0]
