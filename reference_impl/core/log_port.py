"""The storage port: what the core needs from one replica's log.

It is synchronous. A write ends in the page cache, so a SIGKILL loses nothing; fsync is left to the runtime.
"""

from collections.abc import Iterator, Sequence, Set
from typing import Protocol

from reference_impl.core.leader_epochs import LeaderEpochCache
from reference_impl.core.log_transactions import AbortedTransaction
from reference_impl.core.producer_state import ProducerEntry
from reference_impl.core.retention import SegmentView
from reference_impl.wire.record_batches import BatchHeader


class PartitionLog(Protocol):
    """The log of one replica: batches as bytes, offsets already stamped in place (wire.record_batches)."""

    @property
    def log_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...

    @property
    def leader_epochs(self) -> LeaderEpochCache:
        """The epoch cache; assigning an epoch writes and fsyncs leader-epoch-checkpoint before it returns."""
        ...

    def append(self, batches: bytes | bytearray | memoryview, next_offset: int) -> None:
        """Appends whole stamped batches; next_offset is the log end offset afterwards. Does not change
        the epoch cache."""
        ...

    def read(self, offset: int, max_bytes: int, end_offset: int) -> bytes:
        """Returns whole batches from the one that contains `offset` up to `end_offset` (exclusive), at least one if
        there is any."""
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

    # Compaction

    @property
    def cleaned_to(self) -> int | None:
        """Up to where the log is clean. None: nothing was ever taken out of it, so it has no gaps."""
        ...

    # Aborted transactions

    def note_aborted(self, aborted: AbortedTransaction) -> None:
        """Its marker was appended. A failure is not raised: nobody relies on what is noted."""
        ...

    def save_aborted(self, aborted: Sequence[AbortedTransaction]) -> None:
        """All of the log, in the order of their markers, after the log was opened or cut."""
        ...

    # Snapshots of producers

    @property
    def segments_without_producers(self) -> Set[int]:
        """Base offsets of segments for which nobody has said yet what was known of producers where they begin."""
        ...

    def save_producers(self, base_offset: int, entries: Sequence[ProducerEntry]) -> bool:
        """What is known of producers where that segment begins; kept, and deleted, with the segment. A failure is not
        raised: False, and nobody has said it yet."""
        ...

    def saved_producers(self) -> Sequence[ProducerEntry]:
        """Returns the saved producer state at the start of the first segment."""
        ...

    # By time

    def batch_at_or_after(self, timestamp: int, from_offset: int, end_offset: int) -> bytes | None:
        """Returns the first batch from `from_offset` (or the log start) on whose header's largest timestamp is at least
        `timestamp`; None if there is none below `end_offset`."""
        ...

    def youngest_batch(self, end_offset: int) -> bytes | None:
        """Returns the first batch with the largest timestamp below `end_offset`, by the batch headers."""
        ...

    def headers(self) -> Iterator[BatchHeader]:
        """Yields the header of every batch; used to rebuild the producer state."""
        ...

    def all_batches(self, from_offset: int = 0) -> bytes:
        """Returns every batch from `from_offset` on in one piece; for comparisons of small logs."""
        ...
