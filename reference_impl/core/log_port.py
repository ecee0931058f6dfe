"""The Storage port: what the core asks of one replica's log. Synchronous; a write ends in the page cache, so that a
SIGKILL loses nothing; fsync is an effect of the runtime."""

from collections.abc import Sequence
from typing import Protocol

from reference_impl.core.leader_epochs import LeaderEpochCache
from reference_impl.core.retention import SegmentView
from reference_impl.wire.record_timestamps import TimedOffset


class PartitionLog(Protocol):
    """A replica's log: batches as bytes, offsets already stamped in place (wire.record_batches)."""

    @property
    def log_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...

    @property
    def leader_epochs(self) -> LeaderEpochCache:
        """The epoch cache; assigning through it writes and fsyncs leader-epoch-checkpoint before it returns."""
        ...

    def append(self, batches: bytes | bytearray | memoryview, next_offset: int) -> None:
        """Appends whole stamped batches; next_offset is the log end offset after them. Does not touch the epochs."""
        ...

    def read(self, offset: int, max_bytes: int, end_offset: int) -> bytes:
        """Whole batches from the one containing `offset` up to `end_offset` (exclusive); at least one if any."""
        ...

    def truncate_to(self, offset: int) -> bytes:
        """Cuts every batch at or above `offset` (and the epoch entries), returns the cut batches' bytes."""
        ...

    def truncate_fully_and_start_at(self, offset: int) -> bytes:
        """Empties the log; it starts and ends at `offset`. Returns the cut batches' bytes."""
        ...

    # Its beginning

    @property
    def segments(self) -> Sequence[SegmentView]:
        """Oldest first; the last one is the active one."""
        ...

    def advance_log_start(self, offset: int) -> None:
        """The log begins at `offset` from now on, epoch entries too; its segments stay until they are deleted."""
        ...

    def delete_segments(self, count: int) -> None:
        """The oldest `count` segments go; the log begins behind them, or later. The active one is rolled first if it
        is among them."""
        ...

    # By time

    def first_at_or_after(self, timestamp: int, end_offset: int) -> TimedOffset | None:
        """The first record from the log start on that is as young as `timestamp`; None behind `end_offset`."""
        ...

    def latest_timestamp(self, end_offset: int) -> TimedOffset | None:
        """The first of the youngest records below `end_offset`."""
        ...

    def all_batches(self, from_offset: int = 0) -> bytes:
        """Every batch from `from_offset` on, for rebuilding producer state."""
        ...
