"""The two sparse indexes of a segment in Kafka's files: where to begin a search by offset or by time.

An entry of .index is (last offset of a batch - base offset, the batch's position); of .timeindex (largest timestamp so
far, last offset of its batch - base offset). Both are kept in memory too, because segments here are small. They are
rebuilt from the log at every start, so they are never fsynced and the files' contents are never trusted.
"""

import os
import struct
from bisect import bisect_left, bisect_right
from operator import itemgetter
from pathlib import Path

_first = itemgetter(0)
_second = itemgetter(1)


class _SparseIndex:
    """Pairs of rising numbers, appended to a file of fixed-size entries."""

    entry: struct.Struct

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries: list[tuple[int, int]] = []

    def write(self) -> None:
        """Writes the entries in memory to the file, unless the file has them already."""
        data = b"".join(self.entry.pack(*entry) for entry in self.entries)
        try:
            if self.path.read_bytes() == data:
                return
        except FileNotFoundError:
            pass  # then the file is created
        self.path.write_bytes(data)

    def append_from(self, count: int) -> None:
        """Appends the entries after the first `count` to the file."""
        if count < len(self.entries):
            with self.path.open("ab", buffering=0) as file:
                file.write(b"".join(self.entry.pack(*entry) for entry in self.entries[count:]))

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
        """Returns the position of a batch; no batch before it contains the offset."""
        found = bisect_right(self.entries, relative_offset, key=_first)
        return self.entries[found - 1][1] if found else 0

    def truncate(self, position: int) -> None:
        """Drops the entries of batches at or after `position`."""
        self._keep(bisect_left(self.entries, position, key=_second))


class TimeIndex(_SparseIndex):
    entry = struct.Struct(">qi")

    @property
    def max_timestamp(self) -> int:
        return self.entries[-1][0] if self.entries else -1

    def relative_offset_for(self, timestamp: int) -> int:
        """Returns a relative offset; no record before it has a timestamp as large as `timestamp`."""
        found = bisect_left(self.entries, timestamp, key=_first)
        return self.entries[found - 1][1] if found else 0

    def truncate(self, relative_offset: int) -> None:
        """Drops the entries that point to `relative_offset` or later."""
        self._keep(bisect_left(self.entries, relative_offset, key=_second))
