"""A set of offsets as disjoint ranges: of a log without holes it needs one, however long the log is."""

from array import array
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

Range = tuple[int, int]  # from the first to before the second
_FOLD_AT = 100_000  # offsets that are kept one by one
_OFFSETS_END = 2**62  # no log ends there: what somebody else's client wrote may be any number


class OffsetRanges:
    def __init__(self, offsets: Iterable[int] = ()) -> None:
        self._fresh = array("q")
        self._ranges: Any = np.empty((0, 2), np.int64)
        self.add(offsets)

    def add(self, offsets: Iterable[int | None]) -> None:
        self._fresh.extend(offset for offset in offsets if offset is not None and 0 <= offset < _OFFSETS_END)
        if len(self._fresh) >= _FOLD_AT:
            self._fold()

    def add_ranges(self, ranges: Iterable[Range]) -> None:
        more = np.array(list(ranges), np.int64).reshape(-1, 2)
        self._fold()
        self._ranges = _joined(np.concatenate([self._ranges, more]))

    @property
    def ranges(self) -> list[Range]:
        """In order; neither overlapping nor adjacent."""
        self._fold()
        return [(first, end) for first, end in self._ranges.tolist()]

    @property
    def end(self) -> int:
        """One above the highest offset; 0 if there is none."""
        self._fold()
        return int(self._ranges[-1, 1]) if len(self._ranges) else 0

    def __len__(self) -> int:
        self._fold()
        return int((self._ranges[:, 1] - self._ranges[:, 0]).sum())

    def without(self, other: "OffsetRanges", *, first: int = 0) -> list[Range]:
        """The ranges of this set from `first` on that the other lacks."""
        left: list[Range] = []
        theirs, place = other.ranges, 0
        for begin, end in self.ranges:
            begin = max(begin, first)
            while place < len(theirs) and theirs[place][1] <= begin:
                place += 1
            at = place
            while begin < end and at < len(theirs) and theirs[at][0] < end:
                if theirs[at][0] > begin:
                    left.append((begin, theirs[at][0]))
                begin = max(begin, theirs[at][1])
                at += 1
            if begin < end:
                left.append((begin, end))
        return left

    def _fold(self) -> None:
        if not self._fresh:
            return
        offsets = np.unique(np.frombuffer(self._fresh, np.int64))
        self._ranges = _joined(np.concatenate([self._ranges, np.stack([offsets, offsets + 1], axis=1)]))
        self._fresh = array("q")


def _joined(ranges: Any) -> Any:
    """In order, those that overlap or touch as one."""
    if not len(ranges):
        return ranges
    ranges = ranges[np.argsort(ranges[:, 0], kind="stable")]
    ends = np.maximum.accumulate(ranges[:, 1])
    begins = np.append(True, ranges[1:, 0] > ends[:-1])
    return np.stack([ranges[begins, 0], ends[np.append(begins[1:], True)]], axis=1)


def length_of(ranges: Iterable[Range]) -> int:
    return sum(end - first for first, end in ranges)


def in_at_most(ranges: Sequence[Range], most: int) -> list[Range]:
    """At most so many ranges that cover all of these: what lies in the smallest gaps comes with them."""
    if not ranges:
        return []
    gaps = sorted(range(1, len(ranges)), key=lambda at: ranges[at][0] - ranges[at - 1][1], reverse=True)
    begins = [0, *sorted(gaps[: most - 1])]
    return [(ranges[at][0], ranges[after - 1][1]) for at, after in zip(begins, [*begins[1:], len(ranges)], strict=True)]
