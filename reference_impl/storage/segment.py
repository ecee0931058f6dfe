"""One segment of a log: `<base offset, 20 digits>.log` with its .index and .timeindex.

Appends go straight to the page cache (no buffer of our own), so a killed process loses nothing. Only the segment that
is appended to keeps a file open.
"""

import os
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from reference_impl.core.retention import SegmentView
from reference_impl.storage.continuity import Continuity
from reference_impl.storage.indexes import OffsetIndex, TimeIndex
from reference_impl.storage.producer_snapshots import SNAPSHOT_SUFFIX
from reference_impl.storage.transaction_index import TRANSACTION_INDEX_SUFFIX
from reference_impl.wire.record_batches import (
    HEADER_SIZE,
    BatchHeader,
    BatchOutline,
    Buffer,
    CorruptBatch,
    batch_length,
    bounds,
    check_pieces,
    outline,
    read_header,
    scan,
)
from reference_impl.wire.record_timestamps import NO_TIMESTAMP

LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX = ".log", ".index", ".timeindex"
DELETED_SUFFIX = ".deleted"  # appended to the names of deleted files
CLEANED_SUFFIX, SWAP_SUFFIX = ".cleaned", ".swap"  # of a segment that is written to replace others, and of a whole one
MAX_RELATIVE_OFFSET = 2**31 - 1
MAX_POSITION = 2**31 - 1
_SEARCH_BYTES = 16 * 1024
_LOAD_BYTES = 256 * 1024


def segment_name(base_offset: int) -> str:
    return f"{base_offset:020d}"


class Segment:
    def __init__(self, folder: Path, base_offset: int, suffix: str = "") -> None:
        """Creates a new segment; `Segment.load` opens an existing one. `suffix`: of one that is to replace others."""
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.size = 0
        name = segment_name(base_offset)
        self._path = folder / (name + LOG_SUFFIX + suffix)
        self.producers_path = folder / (name + SNAPSHOT_SUFFIX)
        self._index = OffsetIndex(folder / (name + INDEX_SUFFIX + suffix))
        self._time_index = TimeIndex(folder / (name + TIME_INDEX_SUFFIX + suffix))
        self.aborted_path = folder / (name + TRANSACTION_INDEX_SUFFIX + suffix)
        self._bytes_since_entry = 0
        self._max_timestamp = -1
        self._max_timestamp_offset = base_offset  # last offset of the batch with the largest timestamp
        self._first_timestamp: int | None = None
        self._descriptor = -1

    @classmethod
    def create(cls, folder: Path, base_offset: int) -> "Segment":
        segment = cls(folder, base_offset)
        segment.create_files()
        return segment

    def create_files(self) -> None:
        self.open_for_append()
        self._index.clear()
        self._time_index.clear()

    @classmethod
    def at(cls, folder: Path, base_offset: int, suffix: str = "") -> "Segment":
        """Returns an existing segment of which only the size is known: to be loaded, read through or deleted."""
        segment = cls(folder, base_offset, suffix)
        segment.size = segment._path.stat().st_size
        return segment

    def load(self, continuity: Continuity, *, index_interval_bytes: int, verify: bool, retired: bool) -> bytes:
        """Checks every batch (with `verify` all of its bytes) and removes everything from the first one on that does
        not continue the log; returns the removed bytes. Rebuilds the indexes."""
        begun = continuity.mark()
        valid_bytes = self._take(continuity, index_interval_bytes, verify=verify)
        if valid_bytes < self.size and not verify:
            # Only the following bytes reveal a wrong length: if anything is wrong, verify all of it.
            continuity.rewind(begun)
            valid_bytes = self._take(continuity, index_interval_bytes, verify=True)
        if retired and valid_bytes:
            self._note_time()
        self._index.write()
        self._time_index.write()
        cut = self.read_all(valid_bytes)
        self._drop_behind(valid_bytes)
        return cut

    def _take(self, continuity: Continuity, index_interval_bytes: int, *, verify: bool) -> int:
        """Returns how many bytes, from the first on, are batches that continue the log, and indexes those."""
        self._index.entries.clear()
        self._time_index.entries.clear()
        self._bytes_since_entry = valid_bytes = 0
        self._max_timestamp, self._max_timestamp_offset = NO_TIMESTAMP, self.base_offset
        self.next_offset = self.base_offset
        for batch, piece in self._pieces():
            # Check the CRC first: `Continuity` then counts the batch as part of the log.
            if (verify and not self._is_sound(batch, piece)) or not continuity.takes(batch):
                break
            self._note(batch, batch.position, index_interval_bytes)
            valid_bytes = batch.position + batch.length
            self.next_offset = batch.next_offset
        return valid_bytes

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
        """Appends `data`, which consists of these batches; the first one's header contains `first_position`."""
        self.open_for_append()
        try:
            written = 0
            while written < len(data):
                written += os.write(self._descriptor, data[written:])
        except OSError:
            os.ftruncate(self._descriptor, self.size)  # a full disk: leave no torn batch behind
            raise
        noted = len(self._index.entries), len(self._time_index.entries)
        for header in headers:
            self._note(header, self.size - first_position + header.position, index_interval_bytes)
        self._index.append_from(noted[0])
        self._time_index.append_from(noted[1])
        self.size += len(data)
        self.next_offset = headers[-1].next_offset

    def _note(self, batch: BatchHeader | BatchOutline, position: int, index_interval_bytes: int) -> None:
        """Adds index entries in memory for a batch at this position of the file."""
        if batch.max_timestamp > self._max_timestamp:
            self._max_timestamp = batch.max_timestamp
            self._max_timestamp_offset = batch.last_offset
        if self._bytes_since_entry > index_interval_bytes:
            self._index.entries.append((batch.last_offset - self.base_offset, position))
            self._note_time()
            self._bytes_since_entry = 0
        self._bytes_since_entry += batch.length

    def _note_time(self) -> None:
        if self._max_timestamp > self._time_index.max_timestamp:
            self._time_index.entries.append((self._max_timestamp, self._max_timestamp_offset - self.base_offset))

    def retire(self) -> None:
        """Ends appending to this segment: writes the last entry of the time index and closes the file."""
        if self.size:
            noted = len(self._time_index.entries)
            self._note_time()
            self._time_index.append_from(noted)
        self.close()

    def truncate_to(self, offset: int) -> bytes:
        """Removes the batch that contains `offset` and all after it; returns them."""
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
        """Returns the position of the batch that contains `offset`, or of the next one; None after the last."""
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
        """Returns whole batches from the one that contains `offset`, at least one, none that reaches beyond
        `end_offset`."""
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
        """The largest timestamp of this segment's records; -1 if there is none."""
        return self._max_timestamp

    @property
    def first_timestamp(self) -> int:
        """The largest timestamp of the first batch; -1 if there is none."""
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
            first_timestamp_ms=largest_ms if self.first_timestamp == NO_TIMESTAMP else self.first_timestamp,
            largest_timestamp_ms=largest_ms,
        )

    def batch_at_or_after(self, timestamp: int, from_offset: int) -> bytes | None:
        """Returns the first batch at or after `from_offset` with a largest timestamp of at least `timestamp`. The
        indexes exclude earlier batches; from there on the batches' headers are read."""
        relative_offset = max(self._time_index.relative_offset_for(timestamp), from_offset - self.base_offset)
        for data, headers in self._windows(self._index.position_for(relative_offset)):
            for header in headers:
                if header.max_timestamp >= timestamp and header.next_offset > from_offset:
                    return data[header.position : header.end_position]
        return None

    def youngest_batch(self, from_offset: int, end_offset: int) -> bytes | None:
        """Returns the first batch with the largest timestamp from `from_offset` up to `end_offset`."""
        if from_offset <= self.base_offset and self.next_offset <= end_offset:
            return self.batch_at_or_after(self._max_timestamp, from_offset) if self.size else None
        youngest: bytes | None = None
        max_timestamp = NO_TIMESTAMP
        for data, headers in self._windows(self._index.position_for(max(from_offset - self.base_offset, 0))):
            for header in headers:
                if header.next_offset > end_offset:
                    return youngest
                if header.next_offset > from_offset and (youngest is None or header.max_timestamp > max_timestamp):
                    youngest = data[header.position : header.end_position]
                    max_timestamp = header.max_timestamp
        return youngest

    def _windows(self, position: int) -> Iterator[tuple[bytes, list[BatchHeader]]]:
        """Yields the batches from `position` on, in pieces of bounded size."""
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

    def _find_end(self) -> None:
        """Computes the next offset and the largest timestamp after a truncation, from the indexes and the batches after
        their last entry."""
        start = self._index.entries[-1][1] if self._index.entries else 0
        self.next_offset = self.base_offset
        for _, headers in self._windows(start):
            self.next_offset = headers[-1].next_offset
        self._bytes_since_entry = self.size - start
        self._time_index.truncate(self.next_offset - self.base_offset)
        self._max_timestamp, self._max_timestamp_offset = self._time_index.max_timestamp, self.base_offset
        if self._time_index.entries:
            self._max_timestamp_offset += self._time_index.entries[-1][1]
        for _, headers in self._windows(start):
            for header in headers:
                if header.max_timestamp > self._max_timestamp:
                    self._max_timestamp, self._max_timestamp_offset = header.max_timestamp, header.last_offset

    def _drop_behind(self, position: int) -> None:
        if position < self.size:
            os.truncate(self._path, position)
            self.size = position
            self._first_timestamp = None

    def _pieces(self) -> Iterator[tuple[BatchOutline, memoryview]]:
        """Yields each whole batch with its position in the file and the bytes that were read at once: all of them,
        unless the batch is long."""
        position = 0
        while self.size - position >= HEADER_SIZE:
            data = memoryview(self.read(position, _LOAD_BYTES))
            passed = 0
            while len(data) - passed >= HEADER_SIZE:
                batch = outline(data, passed)
                if passed and passed + batch.length > len(data):
                    break  # the next piece begins with this batch
                if not HEADER_SIZE <= batch.length <= self.size - position - passed:
                    return
                yield batch._replace(position=position + passed), data[passed : passed + batch.length]
                passed += batch.length
            if not passed:
                return  # the file was cut meanwhile
            position += passed

    def _is_sound(self, batch: BatchOutline, first_piece: memoryview) -> bool:
        end = batch.position + batch.length
        further = range(batch.position + len(first_piece), end, _LOAD_BYTES)
        rest = (self.read(at, min(_LOAD_BYTES, end - at)) for at in further)
        pieces: Iterator[Buffer] = chain([first_piece], rest)
        try:
            check_pieces(read_header(first_piece, 0), pieces)
        except CorruptBatch:
            return False
        return True

    def headers(self) -> Iterator[BatchHeader]:
        """Yields the headers of its batches; their positions are not meaningful."""
        for _, piece in self._pieces():
            yield read_header(piece, 0)

    def flush(self) -> None:
        """fsyncs the log file only: indexes can be rebuilt."""
        if self._descriptor >= 0:
            os.fsync(self._descriptor)
            return
        with self._path.open("rb") as file:
            os.fsync(file.fileno())

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def batches_in_order(self) -> Iterator[bytes]:
        """Yields each batch of the file."""
        for batch, piece in self._pieces():
            rest = self.read(batch.position + len(piece), batch.length - len(piece))
            yield bytes(piece) + rest

    def set_aside(self, *, producers_too: bool = True) -> list[Path]:
        """Renames the files, so that they no longer count as a segment; returns the new names."""
        self.close()
        renamed = []
        paths = (self._path, self._index.path, self._time_index.path, self.aborted_path)
        for path in (*paths, self.producers_path) if producers_too else paths:
            if path.exists():
                renamed.append(path.rename(path.with_name(path.name + DELETED_SUFFIX)))
        return renamed

    def rename(self, suffix: str) -> None:
        """Gives the files another suffix. The log is last: it is the one that counts."""
        name = segment_name(self.base_offset)
        for index, kind in ((self._index, INDEX_SUFFIX), (self._time_index, TIME_INDEX_SUFFIX)):
            index.path = index.path.rename(index.path.with_name(name + kind + suffix))
        if self.aborted_path.exists():
            self.aborted_path.rename(self.aborted_path.with_name(name + TRANSACTION_INDEX_SUFFIX + suffix))
        self.aborted_path = self.aborted_path.with_name(name + TRANSACTION_INDEX_SUFFIX + suffix)
        self.rename_log(suffix)

    def rename_log(self, suffix: str = "") -> None:
        """Without its indexes, which a start makes anew."""
        self._path = self._path.rename(self._path.with_name(segment_name(self.base_offset) + LOG_SUFFIX + suffix))

    def discard(self) -> None:
        """Removes the files of a segment that replaces nothing."""
        self.close()
        for path in (self._index.path, self._time_index.path, self.aborted_path, self._path):
            path.unlink(missing_ok=True)

    def delete(self) -> bytes:
        """Removes the files, the log last: a log without indexes can be opened, indexes without a log are useless."""
        data = self.read_all()
        self.close()
        self._index.path.unlink(missing_ok=True)
        self._time_index.path.unlink(missing_ok=True)
        self.producers_path.unlink(missing_ok=True)
        self.aborted_path.unlink(missing_ok=True)
        self._path.unlink()
        return data
