"""The Storage port: what the core asks of one replica's log. Synchronous; a write ends in the page cache, so that a
SIGKILL loses nothing; fsync is an effect of the runtime."""

from typing import Protocol

from reference_impl.core.leader_epochs import LeaderEpochCache


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

    def all_batches(self, from_offset: int = 0) -> bytes:
        """Every batch from `from_offset` on, for rebuilding producer state."""
        ...
