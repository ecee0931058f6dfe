"""What is known about a lost record, and what readers saw of the records around it."""

from dataclasses import dataclass
from typing import NamedTuple

from harness.checks.model.partition_history import PartitionHistory
from harness.checks.spark.detection import Copy, Flagged


class Rewrite(NamedTuple):
    """A record at its place or below, of this epoch, that was sent after clients last knew of it, and seen there."""

    epoch: int
    sent_ns: int
    seen_ns: int
    copies: frozenset[Copy] = frozenset()


@dataclass(frozen=True, kw_only=True)
class LostRecord:
    """What is known about a lost record. The acknowledged copy is judged: value, offset and epoch."""

    offset: int | None
    epoch: int | None
    acks: int | None
    t_acknowledged: int | None
    committed: bool  # a consumer read it
    in_a_log: bool  # some replica's log held it
    taken: bool = False  # the leader in force at its acknowledgement assigned its offset to another record
    copies: frozenset[Copy] = frozenset()  # of this record at its offset
    others: frozenset[Copy] = frozenset()  # of other records at its offset
    t_first_read: int | None = None  # when the first poll ended that returned it, if no answer to its sender is known
    t_last_read: int | None = None  # when the last poll began that returned it
    matched: bool = True  # records lie in their logs as they were written: no batch damaged, no offset given twice
    t_sent: int | None = None  # when its send began, if that was answered about this place
    rewritten: tuple[Rewrite, ...] = ()
    absent_t: int | None = None  # after its last sighting, clients saw the leader in force without it
    answered_by: int | None = None  # the broker that acknowledged it, if the producer knew no other leader

    @property
    def is_lenient(self) -> bool:
        """Whether only the weak promise of acks=0 or acks=1 applies: it was not committed when it was lost."""
        return self.acks in (0, 1) and not self.committed


def epoch_of_copies(
    history: PartitionHistory, copies: frozenset[Copy], t_acknowledged: int | None, read: int | None
) -> int | None:
    """The epoch of the acknowledged copy, among several copies with its value and offset.

    A first attempt may have been cut, and its retry may have got the same offset from the next leader: then the last
    leader in force at the time of the answer sent it.
    """
    epochs = sorted({copy.epoch for copy in copies if copy.epoch is not None} | ({read} if read is not None else set()))
    if len(epochs) <= 1 or t_acknowledged is None:
        return epochs[0] if epochs else None
    by_then = {each.epoch for each in history.elections if each.earliest_t <= t_acknowledged}
    return max((epoch for epoch in epochs if epoch in by_then), default=epochs[0])


def same_epoch(copy: int | None, epoch: int | None) -> bool:
    """Whether a copy is of the record's epoch, as far as both are known."""
    return copy is None or epoch is None or copy == epoch


def kept_there(history: PartitionHistory, row: Flagged) -> frozenset[int]:
    """The replicas whose final logs have it at its offset, not only somewhere."""
    ends = {end["snapshot"] for end in history.end_snapshots.values()}
    return frozenset(copy.node for copy in row.copies if copy.snapshot in ends)
