"""Whether a record was committed: below a known high watermark.

Each record that a reader gets shows one; a log that held the record has one with it; brokers write theirs to disk. The
strict promise holds for committed records, independent of acks.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from harness.checks.model.elections import Election, Snapshot
from harness.checks.model.lost_records import LostRecord
from harness.checks.model.partition_history import PartitionHistory
from harness.checks.spark.detection import EpochRead

# How much older a high watermark on disk may be than the log itself: Kafka writes it every 5 s.
CHECKPOINT_NS = 10 * 10**9


class Mark(NamedTuple):
    """A high watermark that a broker wrote to disk."""

    node: int
    time_ns: int
    offset: int


def marks_of(history: PartitionHistory) -> Sequence[Mark]:
    """The marks, in the order of their recording."""
    return [
        Mark(node=row["node"], time_ns=row["time_ns"], offset=mark)
        for row in history.events
        if row["event"] == "high_watermark_checkpoint" and (mark := row["to_offset"]) is not None
    ]


class Watermarks:
    """The marks of one partition. reads: what readers saw, by epoch; may_answer_for_another: from deposed.py."""

    def __init__(
        self,
        history: PartitionHistory,
        reads: Sequence[EpochRead],
        may_answer_for_another: Callable[[Election, int], bool],
    ) -> None:
        self._history = history
        self._may_answer_for_another = may_answer_for_another
        self._reads = reads
        self._marks = marks_of(history)
        self._logs = {log.number: log for log in history.logs if log.row.get("snapshot") is not None}

    def is_committed(self, lost: LostRecord) -> bool | None:
        """Whether the record was below a high watermark that a read shows, or a log that held it.

        None where a mark above it was reported, and it is unknown by whose log: of its leader, or of another one.
        """
        if lost.committed:
            return True
        if lost.offset is None:
            return False
        if lost.matched and lost.epoch is not None:
            for read in self._reads:
                if not read.is_final and read.epoch == lost.epoch and lost.offset <= read.last_offset:
                    return True
        if any(self._below_mark(self._logs.get(copy.snapshot), lost.offset) for copy in lost.copies):
            return True
        by_marks = {self._mark_above(row, lost, lost.offset) for row in self._marks}
        return True if True in by_marks else None if None in by_marks else False

    def _mark_above(self, mark: Mark, lost: LostRecord, offset: int) -> bool | None:
        """Whether a broker in the record's own term wrote down a mark above it: a leader has no mark beyond its log.

        Its leader, a replica with the record and replicas in sync with that leader got their marks from it. Of another
        replica, and of one that kept its log into the next term, that is not sure.
        """
        since = lost.t_acknowledged if lost.t_sent is None else lost.t_sent  # its answer may come after the mark
        if mark.offset <= offset or lost.t_acknowledged is None or since is None or mark.time_ns <= since:
            return False
        term, node = self._history.term_at(mark.time_ns), mark.node
        epoch = self._epoch_by_time(lost.t_acknowledged) if lost.epoch is None else lost.epoch
        if term is None:
            return None if self._may_be_of(mark.time_ns, epoch) else False
        if term.epoch != epoch:
            return None if epoch is not None and self._cut_it_later(mark, offset, epoch) else False
        holders = {copy.node for copy in lost.copies}
        return True if node == term.leader or node in holders or self._history.is_in_sync(node, mark.time_ns) else None

    def _cut_it_later(self, mark: Mark, offset: int, epoch: int) -> bool:
        """Whether the broker still had its log of the term before, which it cut for the next leader only afterwards."""
        successor = next((each for each in self._history.elections if each.epoch > epoch), None)
        return successor is not None and any(
            cut.node == mark.node
            and cut.epoch == successor.epoch
            and cut.time_ns > mark.time_ns
            and cut.to_offset <= offset < cut.from_offset
            for cut in self._history.truncations
        )

    def _may_be_of(self, time_ns: int, epoch: int | None) -> bool:
        """Whether a leader of that epoch may have been in force then, where it is not sure who was."""
        later = (each for each in self._history.elections if epoch is None or each.epoch > epoch)
        successor = next(later, None)
        return successor is None or time_ns < successor.latest_t

    def _epoch_by_time(self, time_ns: int) -> int | None:
        """The epoch of the leader that acknowledged at that time, if only one leader can have."""
        term = self._history.term_at(time_ns)
        return None if term is None or self._may_answer_for_another(term, time_ns) else term.epoch

    def _below_mark(self, log: Snapshot | None, offset: int) -> bool:
        """Whether the offset is below the log's mark. A mark above the log's end or older than a cut is ignored."""
        if log is None or not log.is_whole or log.row["high_watermark"] is None or log.row["log_end_offset"] is None:
            return False
        if not offset < log.row["high_watermark"] <= log.row["log_end_offset"]:
            return False
        return not any(
            cut.node == log.node
            and cut.to_offset <= offset
            and log.time_ns - CHECKPOINT_NS <= cut.time_ns <= log.time_ns
            for cut in self._history.truncations
        )
