"""The transactions in a replica's log: which are open, which ended behind the high watermark, and which were aborted.

From the first two follows the last stable offset, where readers of committed records end: nothing of a transaction
whose marker is not committed yet is below it. The aborted ones are what such a reader must leave out. All of it is
built from the log (docs/replication.md R68, R69).
"""

from bisect import bisect_left
from collections import deque
from typing import NamedTuple

from reference_impl.core.identifiers import UNKNOWN_OFFSET


class AbortedTransaction(NamedTuple):
    """`last_stable_offset`: what it was after this marker; whatever is aborted later begins there or behind it."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class LogTransactions:
    def __init__(self) -> None:
        self._open: dict[int, int] = {}  # by producer: the transaction's first offset; the lowest is the first
        self._ended: deque[tuple[int, int]] = deque()  # first offset and marker's, not known to be committed
        self._aborted: list[AbortedTransaction] = []  # in the order of their markers

    def first_offset(self, producer_id: int) -> int:
        """Where the producer's open transaction begins; UNKNOWN_OFFSET if it has none."""
        return self._open.get(producer_id, UNKNOWN_OFFSET)

    def begun(self, producer_id: int, first_offset: int) -> None:
        self._open.setdefault(producer_id, first_offset)

    def ended(self, producer_id: int, marker_offset: int, *, is_commit: bool) -> AbortedTransaction | None:
        """A marker without an open transaction ends nothing: the coordinator repeats a marker until it is answered.
        Returns the transaction if it was aborted."""
        first_offset = self._open.pop(producer_id, None)
        if first_offset is None:
            return None
        self._ended.append((first_offset, marker_offset))
        if is_commit:
            return None
        stable = next(iter(self._open.values()), marker_offset + 1)
        aborted = AbortedTransaction(producer_id, first_offset, marker_offset, stable)
        self._aborted.append(aborted)
        return aborted

    def committed_to(self, high_watermark: int) -> None:
        while self._ended and self._ended[0][1] < high_watermark:
            self._ended.popleft()

    def deleted_to(self, log_start_offset: int) -> None:
        gone = bisect_left(self._aborted, log_start_offset, key=_last_offset)
        del self._aborted[:gone]

    def last_stable_offset(self, high_watermark: int, log_start_offset: int) -> int:
        """R68: the first record of a transaction that has not ended, as far as that is committed. The log may begin
        behind it."""
        unstable = min([first for first, _ in self._ended], default=high_watermark)
        unstable = min(unstable, next(iter(self._open.values()), unstable), high_watermark)
        return max(unstable, min(log_start_offset, high_watermark))

    def aborted(self, from_offset: int, end_offset: int) -> tuple[AbortedTransaction, ...]:
        """R69: those with records from `from_offset` up to `end_offset` (exclusive)."""
        found = []
        for each in self._aborted[bisect_left(self._aborted, from_offset, key=_last_offset) :]:
            if each.first_offset < end_offset:
                found.append(each)
            if each.last_stable_offset >= end_offset:
                break
        return tuple(found)

    @property
    def all_aborted(self) -> tuple[AbortedTransaction, ...]:
        return tuple(self._aborted)

    def restart(self, still_open: dict[int, int]) -> None:
        """Before the log is read anew."""
        self._open = dict(sorted(still_open.items(), key=lambda each: each[1]))
        self._ended.clear()
        self._aborted.clear()


def _last_offset(transaction: AbortedTransaction) -> int:
    return transaction.last_offset
