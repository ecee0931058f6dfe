"""Which part of a log is cleaned next, and what of it stays: the decisions of the log cleaner, without a file.

A log is clean up to some offset, dirty from there on. A pass reads the dirty part and notes of each key the offset of
its last record (the offsets map); then it writes everything before the end of that part anew, without the records that
have a later one of their key. Offsets never change. What stays although its records are gone, and for how long
tombstones and markers stay, is said in docs/replication.md, R79 to R83.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from reference_impl.core.cleaning.cleaning_rules import CleaningRules
from reference_impl.core.identifiers import UNKNOWN_OFFSET
from reference_impl.core.log_transactions import AbortedTransaction
from reference_impl.core.producer_state import ProducerEntry
from reference_impl.core.retention import SegmentView
from reference_impl.wire.record_batches import NO_PRODUCER_ID, BatchHeader, read_header
from reference_impl.wire.record_filtering import KeyedRecord, delete_horizon, filtered_batch, keyed_records

NO_LIMIT_MS = 2**63 - 1


@dataclass(frozen=True, kw_only=True)
class CompactionSettings:
    """Of a topic whose cleanup.policy has "compact"."""

    min_dirty_ratio: float = 0.5
    min_lag_ms: int = 0
    max_lag_ms: int = NO_LIMIT_MS
    delete_retention_ms: int = 86_400_000


@dataclass(frozen=True, kw_only=True)
class Cleaning:
    """One pass over one log. Segments are given by their base offsets, oldest first; each is cleaned as a whole."""

    clean_segments: tuple[int, ...]
    dirty_segments: tuple[int, ...]
    dirty_from: int  # the first dirty offset, perhaps within a segment
    end_offset: int  # where the first segment begins that is not cleaned
    dirty_ratio: float
    now_ms: int
    delete_retention_ms: int
    aborted: tuple[AbortedTransaction, ...]
    producers: tuple[ProducerEntry, ...]
    rules: CleaningRules


def cleaning(
    segments: Sequence[SegmentView],
    settings: CompactionSettings,
    rules: CleaningRules,
    *,
    dirty_from: int,
    last_stable_offset: int,
    wall_clock_ms: int,
    aborted: Sequence[AbortedTransaction],
    producers: Sequence[ProducerEntry],
) -> Cleaning | None:
    """R79: the pass that is due, or None. Only whole segments are cleaned, and never the active one."""
    limit = rules.cleans_to(last_stable_offset, segments[-1].base_offset)
    too_young_ms = wall_clock_ms - settings.min_lag_ms
    cleanable: list[SegmentView] = []
    for segment, following in pairwise(segments):
        is_young = settings.min_lag_ms > 0 and segment.largest_timestamp_ms > too_young_ms
        if following.base_offset > limit or (is_young and segment.next_offset > dirty_from):
            break
        cleanable.append(segment)
    dirty = [segment for segment in cleanable if segment.next_offset > dirty_from]
    if not dirty:
        return None
    clean_size = sum(segment.size for segment in cleanable) - (dirty_size := sum(segment.size for segment in dirty))
    ratio = dirty_size / max(clean_size + dirty_size, 1)
    is_overdue = wall_clock_ms - min(segment.first_timestamp_ms for segment in dirty) > settings.max_lag_ms
    if ratio < settings.min_dirty_ratio and not is_overdue:
        return None
    return Cleaning(
        clean_segments=tuple(segment.base_offset for segment in cleanable if segment not in dirty),
        dirty_segments=tuple(segment.base_offset for segment in dirty),
        dirty_from=dirty_from,
        end_offset=segments[len(cleanable)].base_offset,
        dirty_ratio=ratio,
        now_ms=wall_clock_ms,
        delete_retention_ms=settings.delete_retention_ms,
        aborted=tuple(aborted),
        producers=tuple(producers),
        rules=rules,
    )


class _Aborted:
    """Which batches are of transactions that were aborted."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._by_producer: dict[int, list[AbortedTransaction]] = {}
        for each in aborted:
            self._by_producer.setdefault(each.producer_id, []).append(each)

    def has(self, header: BatchHeader) -> bool:
        """Of a data batch."""
        return header.is_transactional and any(
            each.first_offset <= header.base_offset <= each.last_offset
            for each in self._by_producer.get(header.producer_id, ())
        )


class LatestOffsets:
    """R80: of each key in the dirty part, the offset of its last record that was not aborted."""

    def __init__(self, plan: Cleaning, *, capacity: int) -> None:
        self.end_offset = plan.dirty_from  # the map knows everything before it
        self._capacity = capacity
        self._rules = plan.rules
        self._dirty_from = plan.dirty_from
        self._aborted = _Aborted(plan.aborted)
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def take_segment(self, batches: Iterator[bytes], end_offset: int) -> bool:
        """False if there was no room for all of its keys: the pass ends before that segment, unless it is the first."""
        before = dict(self._offsets)
        for batch in batches:
            header = read_header(batch, 0)
            if header.is_control or self._aborted.has(header) or header.next_offset <= self._dirty_from:
                continue
            for record in keyed_records(batch, header):
                if record.key is not None and record.offset >= self._dirty_from:
                    self._offsets[record.key] = self._rules.notes(self._offsets.get(record.key), record.offset)
            if len(self._offsets) > self._capacity and before:
                self._offsets = before
                return False
        self.end_offset = end_offset
        return True

    def get(self, key: bytes) -> int | None:
        return self._offsets.get(key)


@dataclass(kw_only=True)
class BatchCleaner:
    """Decides batch by batch, in the order of the log, what stays (R81 to R83)."""

    plan: Cleaning
    latest: LatestOffsets
    removed_records: int = 0
    _aborted: _Aborted = field(init=False)
    _last_of: Mapping[int, ProducerEntry] = field(init=False)
    _with_data: set[int] = field(default_factory=set)  # producers of whose running transaction a batch was seen

    def __post_init__(self) -> None:
        self._aborted = _Aborted(self.plan.aborted)
        self._last_of = {entry.producer_id: entry for entry in self.plan.producers}

    def cleaned(self, batch: bytes, *, is_last_of_segment: bool) -> bytes:
        """Returns what stays of the batch; nothing if that is nothing. Raises UnreadableRecords."""
        header = read_header(batch, 0)
        is_aborted = not header.is_control and self._aborted.has(header)
        is_markers_end = header.is_control and self._ends_nothing(header)
        if header.is_transactional and not header.is_control:
            self._with_data.add(header.producer_id)
        horizon = delete_horizon(header)
        records = list(keyed_records(batch, header))
        kept = [] if is_aborted else self._kept(header, records, horizon, is_markers_end=is_markers_end)
        self.removed_records += len(records) - len(kept)
        if not kept and not (is_last_of_segment or self._is_last_of_its_producer(header)):
            return b""
        may_go = is_markers_end or any(not record.has_value for record in kept if not header.is_control)
        if may_go and kept and horizon is None:
            return filtered_batch(header, kept, self.plan.now_ms + self.plan.delete_retention_ms)
        if len(kept) == len(records):
            return batch
        offset_of = self.plan.rules.offset_of
        left = [
            record._replace(offset=offset_of(record.offset, header.base_offset, number))
            for number, record in enumerate(kept)
        ]
        return filtered_batch(header, left, horizon)

    def _kept(
        self, header: BatchHeader, records: Sequence[KeyedRecord], horizon: int | None, *, is_markers_end: bool
    ) -> list[KeyedRecord]:
        rules = self.plan.rules
        outlives = rules.outlives_horizon(horizon, self.plan.now_ms)
        if header.is_control:
            return [] if is_markers_end and horizon is not None and not outlives else list(records)
        kept = []
        for record in records:
            if record.offset >= self.latest.end_offset:
                kept.append(record)
                continue
            is_latest = record.key is not None and rules.is_latest(record.offset, self.latest.get(record.key))
            if is_latest and (record.has_value or outlives):
                kept.append(record)
        return kept

    def _ends_nothing(self, marker: BatchHeader) -> bool:
        """R83: nothing of the transaction that this marker ends is in the log any more."""
        has_data = marker.producer_id in self._with_data
        self._with_data.discard(marker.producer_id)
        return not has_data

    def _is_last_of_its_producer(self, header: BatchHeader) -> bool:
        """R82: so that its next batch is known to follow, and a repeat of this one to be one."""
        last = self._last_of.get(header.producer_id)
        if header.producer_id == NO_PRODUCER_ID or last is None or header.producer_epoch != last.epoch:
            return False
        if last.last_offset == UNKNOWN_OFFSET:
            return header.is_control
        return self.plan.rules.keeps_for_producer(header.last_offset, last.last_offset)
