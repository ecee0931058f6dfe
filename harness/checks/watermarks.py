"""Whether a record was committed: below a high watermark that somebody was told.

A reader is told one by each record that it is given; a log that held the record has one beside it; brokers write theirs
down. What was committed is held to the strict promise, whatever its acks.
"""

from collections.abc import Callable, Sequence

from harness.checks.elections import Election, Snapshot
from harness.checks.fates import EpochRead, Fate
from harness.checks.story import PartitionStory
from harness.checks.tables import Row

# How long a high watermark on disk may be older than what the log below it is: Kafka writes it every 5 s.
CHECKPOINT_NS = 10 * 10**9


def marks_of(story: PartitionStory) -> Sequence[Row]:
    """High watermarks that brokers wrote down."""
    told = (row for row in story.events if row["event"] == "high_watermark_checkpoint")
    return [row for row in told if row["to_offset"] is not None]


class Watermarks:
    """Of one partition. reads: what readers saw, by epoch; may_answer_for_another: of survival.py."""

    def __init__(
        self, story: PartitionStory, reads: Sequence[EpochRead], may_answer_for_another: Callable[[Election, int], bool]
    ) -> None:
        self._story = story
        self._may_answer_for_another = may_answer_for_another
        self._reads = reads
        self._marks = marks_of(story)
        self._logs = {log.number: log for log in story.logs if log.row.get("snapshot") is not None}

    def is_committed(self, fate: Fate) -> bool:
        """Whether the record was below a high watermark that somebody was told: by a read, or by a log that held it."""
        if fate.committed:
            return True
        if fate.offset is None:
            return False
        if fate.matched and fate.epoch is not None:
            for read in self._reads:
                if not read.is_final and read.epoch == fate.epoch and fate.offset <= read.last_offset:
                    return True
        if any(self._below_mark(self._logs.get(copy.snapshot), fate.offset) for copy in fate.copies):
            return True
        return any(self._told_above(row, fate, fate.offset) for row in self._marks)

    def _told_above(self, mark: Row, fate: Fate, offset: int) -> bool:
        """Whether a broker in the record's own reign wrote down a mark above it: a leader tells no mark beyond its log.

        Its leader, a holder of the record and whoever is in sync with that leader have their marks from it.
        """
        if mark["to_offset"] <= offset or fate.t_acknowledged is None or mark["t"] <= fate.t_acknowledged:
            return False
        reign, node = self._story.reign_at(mark["t"]), mark["node"]
        epoch = self._epoch_by_time(fate.t_acknowledged) if fate.epoch is None else fate.epoch
        if reign is None or reign.epoch != epoch:
            return False
        holders = {copy.node for copy in fate.copies}
        return node == reign.leader or node in holders or self._story.is_in_sync(node, mark["t"])

    def _epoch_by_time(self, t: int) -> int | None:
        """Who acknowledged something then, where only one leader can have."""
        reign = self._story.reign_at(t)
        return None if reign is None or self._may_answer_for_another(reign, t) else reign.epoch

    def _below_mark(self, log: Snapshot | None, offset: int) -> bool:
        """A mark above the log's end, or older than a cut of that log, is of another log than the one that is there."""
        if log is None or not log.is_whole or log.row["high_watermark"] is None or log.row["log_end"] is None:
            return False
        if not offset < log.row["high_watermark"] <= log.row["log_end"]:
            return False
        return not any(
            cut.node == log.node and cut.to_offset <= offset and log.t - CHECKPOINT_NS <= cut.t <= log.t
            for cut in self._story.truncations
        )
