"""One segment of a log: `<base offset, 20 digits>.log` with its .index and .timeindex.

Appends go straight to the page cache (no buffer of our own), so that a killed process loses nothing. Only the segment
being appended to keeps a file open.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from reference_impl.core.retention import SegmentView
from reference_impl.storage.indexes import OffsetIndex, TimeIndex
from reference_impl.wire.record_batches import (
    HEADER_SIZE,
    BatchHeader,
    batch_length,
    bounds,
    read_header,
    scan,
    sound_prefix,
)
from reference_impl.wire.record_timestamps import NO_TIMESTAMP, TimedOffset, first_at_or_after, record_times

LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX = ".log", ".index", ".timeindex"
DELETED_SUFFIX = ".deleted"  # behind the others
MAX_RELATIVE_OFFSET = 2**31 - 1
MAX_POSITION = 2**31 - 1
_SEARCH_BYTES = 16 * 1024


def segment_name(base_offset: int) -> str:
    return f"{base_offset:020d}"


class Segment:
    def __init__(self, folder: Path, base_offset: int) -> None:
        """A new segment; `Segment.load` for one that is there."""
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.size = 0
        self._path = folder / (segment_name(base_offset) + LOG_SUFFIX)
        self._index = OffsetIndex(self._path.with_suffix(INDEX_SUFFIX))
        self._time_index = TimeIndex(self._path.with_suffix(TIME_INDEX_SUFFIX))
        self._bytes_since_entry = 0
        self._max_timestamp = -1
        self._max_timestamp_offset = base_offset  # last offset of the batch that has it
        self._first_timestamp: int | None = None
        self._descriptor = -1

    @classmethod
    def create(cls, folder: Path, base_offset: int) -> "Segment":
        segment = cls(folder, base_offset)
        segment.open_for_append()
        segment._index.clear()
        segment._time_index.clear()
        return segment

    @classmethod
    def load(
        cls, folder: Path, base_offset: int, *, index_interval_bytes: int, verify: bool
    ) -> tuple["Segment", bytes]:
        """(the segment, what was cut from its end). With `verify` every batch's CRC is checked and the indexes are
        rebuilt; otherwise sound indexes are believed, and only the end is looked at."""
        segment = cls(folder, base_offset)
        segment.size = segment._path.stat().st_size
        believed = not verify and segment._index.load() and segment._time_index.load() and segment._indexes_fit()
        if believed:
            return segment, segment._find_end()
        return segment, segment._rebuild(index_interval_bytes, verify=verify)

    # Writing

    def open_for_append(self) -> None:
        if self._descriptor < 0:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)

    def has_room_for(self, size: int, last_offset: int, *, segment_bytes: int) -> bool:
        fits = self.size + size <= min(segment_bytes, MAX_POSITION)
        return fits and last_offset - self.base_offset <= MAX_RELATIVE_OFFSET

    def append(
        self, data: memoryview, headers: Sequence[BatchHeader], first_position: int, *, index_interval_bytes: int
    ) -> None:
        """Appends `data`, which is those batches; `first_position` is what the first one's header says of it."""
        self.open_for_append()
        try:
            written = 0
            while written < len(data):
                written += os.write(self._descriptor, data[written:])
        except OSError:
            os.ftruncate(self._descriptor, self.size)  # a full disk: leave no torn batch for others to stumble on
            raise
        self._note(headers, self.size - first_position, index_interval_bytes)
        self.size += len(data)
        self.next_offset = headers[-1].next_offset

    def _note(self, headers: Sequence[BatchHeader], shift: int, index_interval_bytes: int) -> None:
        """Index entries for batches that stand in the file at their positions + `shift`."""
        for header in headers:
            if header.max_timestamp > self._max_timestamp:
                self._max_timestamp = header.max_timestamp
                self._max_timestamp_offset = header.last_offset
            if self._bytes_since_entry > index_interval_bytes:
                self._index.append(header.last_offset - self.base_offset, shift + header.position)
                self._note_time()
                self._bytes_since_entry = 0
            self._bytes_since_entry += header.length

    def _note_time(self) -> None:
        if self._max_timestamp > self._time_index.max_timestamp:
            self._time_index.append(self._max_timestamp, self._max_timestamp_offset - self.base_offset)

    def retire(self) -> None:
        """Another segment is appended to from now on: the time index gets its last word, the file is closed."""
        if self.size:
            self._note_time()
        self.close()

    def truncate_to(self, offset: int) -> bytes:
        """Cuts the batch that holds `offset` and all behind it; returns them."""
        position = self.position_of(offset)
        return self._cut(self.size if position is None else position)

    def _cut(self, position: int) -> bytes:
        if position >= self.size:
            return b""
        cut = self.read_all(position)
        self._drop_behind(position)
        self._index.truncate(position)
        self._find_end()
        return cut

    # Reading

    def read(self, position: int, size: int) -> bytes:
        size = min(size, self.size - position)
        if size <= 0:
            return b""
        if self._descriptor >= 0:
            return os.pread(self._descriptor, size, position)
        with self._path.open("rb", buffering=0) as file:
            return os.pread(file.fileno(), size, position)

    def read_all(self, position: int = 0) -> bytes:
        return self.read(position, self.size - position)

    def position_of(self, offset: int) -> int | None:
        """Where the batch begins that holds `offset`, or else the next one; None behind the last."""
        position = self._index.position_for(max(offset - self.base_offset, 0))
        while position < self.size:
            data = self.read(position, _SEARCH_BYTES)
            passed = 0
            for batch in bounds(data):
                if batch.next_offset > offset:
                    return position + batch.position
                passed = batch.end_position
            if not passed:  # a batch longer than what was read
                header = read_header(data, 0)
                if header.next_offset > offset:
                    return position
                passed = header.length
            position += passed
        return None

    def batches(self, offset: int, max_bytes: int, end_offset: int) -> bytes:
        """Whole batches from the one that holds `offset`, at least one, none that reaches beyond `end_offset`."""
        start = self.position_of(offset)
        if start is None:
            return b""
        data = self.read(start, max(max_bytes, HEADER_SIZE))
        first_length = batch_length(data)
        if first_length > len(data):
            data = self.read(start, first_length)
        end = 0
        for batch in bounds(data):
            if batch.next_offset > end_offset or (end and batch.end_position > max_bytes):
                break
            end = batch.end_position
        return data[:end]

    # By time

    @property
    def max_timestamp(self) -> int:
        """Of the records of this segment; -1 if there is none."""
        return self._max_timestamp

    @property
    def first_timestamp(self) -> int:
        """Of the first batch; -1 if there is none."""
        if self._first_timestamp is None and self.size:
            self._first_timestamp = read_header(self.read(0, HEADER_SIZE), 0).max_timestamp
        return NO_TIMESTAMP if self._first_timestamp is None else self._first_timestamp

    def view(self) -> SegmentView:
        largest_ms = self._max_timestamp
        if largest_ms == NO_TIMESTAMP:
            largest_ms = self._path.stat().st_mtime_ns // 1_000_000
        return SegmentView(
            base_offset=self.base_offset,
            next_offset=self.next_offset,
            size=self.size,
            largest_timestamp_ms=largest_ms,
        )

    def first_at_or_after(self, timestamp: int, from_offset: int) -> TimedOffset | None:
        """The indexes say where no earlier record can be; from there on the batches' headers are looked at."""
        relative_offset = max(self._time_index.relative_offset_for(timestamp), from_offset - self.base_offset)
        for data, headers in self._windows(self._index.position_for(relative_offset)):
            found = first_at_or_after(data, headers, timestamp, from_offset=from_offset)
            if found is not None:
                return found
        return None

    def latest_timestamp(self, from_offset: int, end_offset: int) -> TimedOffset | None:
        """The first of the youngest records from `from_offset` up to `end_offset`."""
        if from_offset <= self.base_offset and self.next_offset <= end_offset:
            return self.first_at_or_after(self._max_timestamp, from_offset) if self.size else None
        youngest: TimedOffset | None = None
        for data, headers in self._windows(self._index.position_for(max(from_offset - self.base_offset, 0))):
            for header in headers:
                if header.next_offset > end_offset:
                    return youngest
                if header.next_offset <= from_offset or (youngest and header.max_timestamp <= youngest.timestamp):
                    continue
                for offset, found in record_times(data, header):
                    if offset >= from_offset and (youngest is None or found > youngest.timestamp):
                        youngest = TimedOffset(offset, found, header.leader_epoch)
        return youngest

    def _windows(self, position: int) -> Iterator[tuple[bytes, list[BatchHeader]]]:
        """The batches from `position` on, a readable piece at a time."""
        while position < self.size:
            data = self.read(position, _SEARCH_BYTES)
            headers, valid_bytes = scan(data)
            if not headers:  # a batch longer than what was read
                data = self.read(position, batch_length(data))
                headers, valid_bytes = scan(data)
                if not headers:
                    return
            yield data, headers
            position += valid_bytes

    # Start and end

    def _indexes_fit(self) -> bool:
        """Do the last entries point at what they say? A torn or foreign index does not."""
        if self._index.entries:
            relative_offset, position = self._index.entries[-1]
            if position + HEADER_SIZE > self.size:
                return False
            header = read_header(self.read(position, HEADER_SIZE), 0)
            is_whole = HEADER_SIZE <= header.length <= self.size - position
            if not is_whole or header.last_offset - self.base_offset != relative_offset:
                return False
        if self._time_index.entries:
            timestamp, relative_offset = self._time_index.entries[-1]
            last_offset = self.base_offset + relative_offset
            for _, headers in self._windows(self._index.position_for(relative_offset)):
                for header in headers:
                    if header.last_offset >= last_offset:
                        return header.last_offset == last_offset and header.max_timestamp == timestamp
        return True  # an entry of a tail that was cut goes with it

    def _find_end(self) -> bytes:
        """Takes next offset and largest timestamp from the indexes and the batches behind their last entry; cuts a
        torn tail, and returns it."""
        start = self._index.entries[-1][1] if self._index.entries else 0
        data = self.read_all(start)
        headers, valid_bytes = scan(data)
        self.next_offset = headers[-1].next_offset if headers else self.base_offset
        self._bytes_since_entry = valid_bytes
        self._time_index.truncate(self.next_offset - self.base_offset)
        self._max_timestamp, self._max_timestamp_offset = self._time_index.max_timestamp, self.base_offset
        known_to = 0
        if self._time_index.entries:
            self._max_timestamp_offset += self._time_index.entries[-1][1]
            known_to = self._index.position_for(self._time_index.entries[-1][1])
        # A time index that lost its last entries is still in order: what lies behind its last word is looked at.
        unknown = scan(self.read(known_to, start - known_to))[0] if known_to < start else []
        for header in (*unknown, *headers):
            if header.max_timestamp > self._max_timestamp:
                self._max_timestamp, self._max_timestamp_offset = header.max_timestamp, header.last_offset
        self._drop_behind(start + valid_bytes)
        return data[valid_bytes:]

    def _drop_behind(self, position: int) -> None:
        if position < self.size:
            os.truncate(self._path, position)
            self.size = position
            self._first_timestamp = None

    def _rebuild(self, index_interval_bytes: int, *, verify: bool) -> bytes:
        data = self.read_all()
        headers, valid_bytes = sound_prefix(data) if verify else scan(data)
        if headers and headers[0].base_offset < self.base_offset:
            headers, valid_bytes = [], 0
        self._index.clear()
        self._time_index.clear()
        self._bytes_since_entry = 0
        self._note(headers, 0, index_interval_bytes)
        self.next_offset = headers[-1].next_offset if headers else self.base_offset
        self._drop_behind(valid_bytes)
        return data[valid_bytes:]

    def epochs(self) -> list[tuple[int, int]]:
        """(leader epoch, offset) of the first batch of each run of one epoch."""
        found: list[tuple[int, int]] = []
        for header in scan(self.read_all())[0]:
            if not found or found[-1][0] != header.leader_epoch:
                found.append((header.leader_epoch, header.base_offset))
        return found

    def flush(self) -> None:
        """The log survives a power loss from here on; indexes can be rebuilt and are not worth the wait."""
        if self._descriptor >= 0:
            os.fsync(self._descriptor)
            return
        with self._path.open("rb") as file:
            os.fsync(file.fileno())

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def set_aside(self) -> list[Path]:
        """Renames the files, so that they are no segment any more; answers their new names."""
        self.close()
        renamed = []
        for path in (self._path, self._index.path, self._time_index.path):
            if path.exists():
                renamed.append(path.rename(path.with_name(path.name + DELETED_SUFFIX)))
        return renamed

    def delete(self) -> bytes:
        """Removes the files, the log last: a log without indexes can be opened, indexes alone are litter."""
        data = self.read_all()
        self.close()
        self._index.path.unlink(missing_ok=True)
        self._time_index.path.unlink(missing_ok=True)
        self._path.unlink()
        return data
