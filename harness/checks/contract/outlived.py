"""Later records of a lost one's epoch that are still there at the end: what cuts a log's end takes them with it.

A log with the later record had the earlier one, too (Raft's log matching, which KIP-101 brought to Kafka). Elections,
truncations and lost disks take a log from some offset on, so none of them can have parted the two. What can have done
so is damage (a record's `matched`), and what moves a log's start, retention or DeleteRecords, unless it is known to lie
below the record. What compaction removed is not asked for here (families/records/removal.py).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from harness.checks.model.elections import Snapshot
from harness.checks.model.lost_records import LostRecord
from harness.checks.model.partition_history import PartitionHistory
from harness.checks.spark.detection import EpochRead


@dataclass(frozen=True, kw_only=True)
class _Span:
    """The first and last offset of an epoch, in a log (the number of its snapshot) or in the final read (None)."""

    snapshot: int | None
    epoch: int
    first: int
    last: int


class Successors:
    """Of the records of one partition."""

    def __init__(self, history: PartitionHistory, logs: Iterable[Snapshot], reads: Sequence[EpochRead]) -> None:
        self._history = history
        self._logs = logs
        self._reads = reads

    def outlive(self, lost: LostRecord, epoch: int | None) -> bool:
        """Whether a later record of that epoch, the lost one's, is in the final read, or in a log that was in sync."""
        offset = lost.offset
        if not lost.matched or epoch is None or offset is None:
            return False
        holding = {copy.snapshot for copy in lost.copies}
        begins_below = self._start is not None and self._start <= offset
        return any(
            span.epoch == epoch
            and offset < span.last
            and (begins_below or (span.snapshot is None and span.first <= offset))
            and (span.snapshot is None or (span.first <= offset and span.snapshot not in holding))
            for span in self._spans
        )

    @property
    def offsets(self) -> set[int]:
        """Every offset that a record's is compared with."""
        return {place for span in self._spans for place in (span.first, span.last)} | {self._start or 0}

    @cached_property
    def _start(self) -> int | None:
        """The highest start of the log that anybody told of at the end; None if nobody did."""
        ends = [row["log_start_offset"] for row in self._history.end_snapshots.values()]
        return max((start for start in (self._history.log_start, *ends) if start is not None), default=None)

    @cached_property
    def _spans(self) -> Sequence[_Span]:
        found = [
            _Span(snapshot=None, epoch=read.epoch, first=read.first_offset, last=read.last_offset)
            for read in self._reads
            if read.is_final
        ]
        for log in self._logs:
            end = log.row["log_end_offset"]
            if log.row["reason"] == "end" and log.node in self._history.final_isr and end is not None:
                found += [
                    _Span(snapshot=log.number, epoch=epoch, first=first, last=behind - 1)
                    for (epoch, first), (_, behind) in pairwise([*log.chain, (-1, end)])
                ]
        return found
