"""The two sparse indexes of a segment, in Kafka's files: where to begin a search by offset, or by time.

An entry of .index is (last offset of a batch - base offset, the batch's position); of .timeindex (largest timestamp so
far, last offset of its batch - base offset). Both are in memory as well: segments here are small. They can be rebuilt
from the log at any time, so they are never fsynced, and are judged before they are believed.
"""

import os
import struct
from bisect import bisect_left, bisect_right
from itertools import pairwise
from operator import itemgetter
from pathlib import Path

_first = itemgetter(0)
_second = itemgetter(1)


class _SparseIndex:
    """Pairs of numbers that rise together, appended to a file of fixed-size entries."""

    entry: struct.Struct

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries: list[tuple[int, int]] = []

    def load(self) -> bool:
        """False when the file is missing or no sound index; then it stands empty."""
        self.entries = []
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return False
        if len(data) % self.entry.size:
            return False
        entries = list(self.entry.iter_unpack(data))
        for earlier, later in pairwise(entries):
            if later[0] <= earlier[0] or later[1] <= earlier[1]:
                return False
        if entries and (entries[0][0] < 0 or entries[0][1] < 0):
            return False
        self.entries = [(first, second) for first, second in entries]
        return True

    def append(self, first: int, second: int) -> None:
        self.entries.append((first, second))
        with self.path.open("ab", buffering=0) as file:
            file.write(self.entry.pack(first, second))

    def clear(self) -> None:
        self.entries.clear()
        self.path.write_bytes(b"")

    def _keep(self, count: int) -> None:
        if count < len(self.entries):
            del self.entries[count:]
            os.truncate(self.path, count * self.entry.size)


class OffsetIndex(_SparseIndex):
    entry = struct.Struct(">ii")

    def position_for(self, relative_offset: int) -> int:
        """A batch begins there, and no batch before it holds the offset."""
        found = bisect_right(self.entries, relative_offset, key=_first)
        return self.entries[found - 1][1] if found else 0

    def truncate(self, position: int) -> None:
        """Drops the entries of batches at or behind `position`."""
        self._keep(bisect_left(self.entries, position, key=_second))


class TimeIndex(_SparseIndex):
    entry = struct.Struct(">qi")

    @property
    def max_timestamp(self) -> int:
        return self.entries[-1][0] if self.entries else -1

    def relative_offset_for(self, timestamp: int) -> int:
        """No record before it is as young as `timestamp`."""
        found = bisect_left(self.entries, timestamp, key=_first)
        return self.entries[found - 1][1] if found else 0

    def truncate(self, relative_offset: int) -> None:
        """Drops the entries that point at or behind `relative_offset`."""
        self._keep(bisect_left(self.entries, relative_offset, key=_second))
