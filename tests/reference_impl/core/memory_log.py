"""A log in memory and the batches in it, for tests of replication."""

from collections.abc import Iterator, Sequence, Set

from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords

from reference_impl.core.leader_epochs import LeaderEpochCache
from reference_impl.core.log_transactions import AbortedTransaction
from reference_impl.core.producer_state import ProducerEntry
from reference_impl.core.retention import SegmentView
from reference_impl.wire.record_batches import BatchHeader, parse_headers

EVERYTHING = 1 << 30
BATCH_TIME_MS = 1000  # the default timestamp of clients' records

Record = tuple[int, int, str]  # offset, epoch, value


def batch(
    *values: str,
    producer_id: int = -1,
    producer_epoch: int = -1,
    sequence: int = -1,
    timestamp: int = BATCH_TIME_MS,
) -> bytearray:
    """A batch of one produce request as a client sends it: base offset 0, no leader epoch."""
    builder = DefaultRecordBatchBuilder(2, 0, False, producer_id, producer_epoch, sequence, EVERYTHING)
    for offset, value in enumerate(values):
        builder.append(offset, timestamp, None, value.encode(), [])
    return bytearray(builder.build())


def records_in(batches: bytes) -> list[Record]:
    found: list[Record] = []
    for header in parse_headers(batches):
        one = MemoryRecords(bytes(batches[header.position : header.position + header.length])).next_batch()
        found += [(record.offset, header.leader_epoch, record.value.decode()) for record in one]
    return found


class MemoryLog:
    """PartitionLog in memory. Batches are kept whole, as on disk; a segment has a fixed number of them."""

    def __init__(self, *, batches_per_segment: int = 3) -> None:
        self._batches: list[tuple[int, int, bytes]] = []  # base offset, next offset, bytes
        self._start = 0
        self._batches_per_segment = batches_per_segment
        self._producers: dict[int, list[ProducerEntry]] = {}  # by base offset of the segment that begins there
        self._active = 0  # base offset of a segment that was rolled although it was not full
        self.cleaned_to: int | None = None
        self.aborted: list[AbortedTransaction] = []
        self.leader_epochs = LeaderEpochCache([], lambda entries, sync: None)

    @property
    def log_start_offset(self) -> int:
        return self._start

    @property
    def log_end_offset(self) -> int:
        return self._batches[-1][1] if self._batches else self._start

    def append(self, batches: bytes | bytearray | memoryview, next_offset: int) -> None:
        data = bytes(batches)
        for header in parse_headers(data):
            assert header.base_offset >= self.log_end_offset
            body = data[header.position : header.position + header.length]
            self._batches.append((header.base_offset, header.next_offset, body))
        assert self.log_end_offset == next_offset

    def read(self, offset: int, max_bytes: int, end_offset: int) -> bytes:
        found = b""
        for _, next_offset, body in self._batches:
            if next_offset <= offset:
                continue
            if next_offset > end_offset or (found and len(found) + len(body) > max_bytes):
                break
            found += body
        return found

    def truncate_to(self, offset: int) -> bytes:
        cut = [entry for entry in self._batches if entry[1] > offset]
        self._batches = [entry for entry in self._batches if entry[1] <= offset]
        self.leader_epochs.truncate_from_end(offset)
        return b"".join(body for _, _, body in cut)

    def truncate_fully_and_start_at(self, offset: int) -> bytes:
        cut = self.all_batches()
        self._batches, self._start, self._active = [], offset, offset
        self.leader_epochs.truncate_from_end(0)
        return cut

    def _runs(self) -> list[list[tuple[int, int, bytes]]]:
        """The batches of each segment; an empty active one is not among them."""
        runs: list[list[tuple[int, int, bytes]]] = []
        for entry in self._batches:
            full = not runs or len(runs[-1]) == self._batches_per_segment
            if full or runs[-1][0][0] < self._active <= entry[0]:
                runs.append([])
            runs[-1].append(entry)
        return runs

    @property
    def segments(self) -> list[SegmentView]:
        found = [
            SegmentView(
                base_offset=run[0][0],
                next_offset=run[-1][1],
                size=sum(len(body) for _, _, body in run),
                first_timestamp_ms=parse_headers(run[0][2])[0].max_timestamp,
                largest_timestamp_ms=max(header.max_timestamp for _, _, body in run for header in parse_headers(body)),
            )
            for run in self._runs()
        ]
        if not found or self._active == self.log_end_offset:
            end = self.log_end_offset
            found.append(
                SegmentView(base_offset=end, next_offset=end, size=0, first_timestamp_ms=0, largest_timestamp_ms=0)
            )
        return found

    def advance_log_start(self, offset: int) -> None:
        assert self._start <= offset <= self.log_end_offset
        self._start = offset
        self.leader_epochs.truncate_from_start(offset)

    def delete_segments(self, count: int) -> None:
        segments = self.segments
        if count == len(segments):
            self._active = self.log_end_offset
        begins = segments[count].base_offset if count < len(segments) else self._active
        start = max(self._start, begins)
        self._batches = [entry for entry in self._batches if entry[0] >= begins]
        self._start = start
        self.leader_epochs.truncate_from_start(start)

    def note_aborted(self, aborted: AbortedTransaction) -> None:
        self.aborted.append(aborted)

    def save_aborted(self, aborted: Sequence[AbortedTransaction]) -> None:
        self.aborted = list(aborted)

    @property
    def segments_without_producers(self) -> Set[int]:
        return {run[0][0] for run in self._runs()} - self._producers.keys()

    def save_producers(self, base_offset: int, entries: Sequence[ProducerEntry]) -> bool:
        self._producers[base_offset] = list(entries)
        return True

    def saved_producers(self) -> Sequence[ProducerEntry]:
        return self._producers.get(self.segments[0].base_offset, [])

    def batch_at_or_after(self, timestamp: int, from_offset: int, end_offset: int) -> bytes | None:
        for max_timestamp, next_offset, body in self._times(end_offset):
            if max_timestamp >= timestamp and next_offset > from_offset:
                return body
        return None

    def youngest_batch(self, end_offset: int) -> bytes | None:
        return max(self._times(end_offset), key=lambda entry: entry[0], default=(0, 0, None))[2]

    def _times(self, end_offset: int) -> list[tuple[int, int, bytes]]:
        """(largest timestamp, next offset, batch)"""
        return [
            (parse_headers(body)[0].max_timestamp, next_offset, body)
            for base_offset, next_offset, body in self._batches
            if next_offset > self._start and base_offset < end_offset
        ]

    def all_batches(self, from_offset: int = 0) -> bytes:
        return b"".join(body for _, next_offset, body in self._batches if next_offset > from_offset)

    def headers(self) -> Iterator[BatchHeader]:
        return iter(parse_headers(self.all_batches()))

    @property
    def records(self) -> list[Record]:
        return records_in(self.all_batches())

    @property
    def values(self) -> list[str]:
        return [value for _, _, value in self.records]
