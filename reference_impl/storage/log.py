"""One replica's log on disk: segments in Kafka's format, with the leader epoch cache.

It implements core.log_port.PartitionLog. The log has no gaps, unless compaction took records out of it: a batch begins
where the one before it ends. Only the last segment is appended to. The log starts at the first segment's base offset,
or later; then the log directory's checkpoint of log starts has the offset, and the records before it are deleted with
their segment. `flush` moves the recovery point to the log end; after an unclean stop the log is verified from there on
(docs/replication.md R49).
"""

import logging
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from reference_impl.core.cleaning.compaction import Cleaning
from reference_impl.core.identifiers import TopicPartition
from reference_impl.core.leader_epochs import LeaderEpochCache
from reference_impl.core.log_transactions import AbortedTransaction
from reference_impl.core.producer_state import ProducerEntry
from reference_impl.core.retention import SegmentView
from reference_impl.core.storage_rules import StorageRules
from reference_impl.storage.checkpoints import sync_folder, write_atomically
from reference_impl.storage.cleaned_segments import CleanedLog, clean_segments
from reference_impl.storage.disk import Disk, StorageError
from reference_impl.storage.epoch_checkpoint import EpochCheckpoint
from reference_impl.storage.log_loading import LEADER_EPOCH_CHECKPOINT, MAY_HAVE_GAPS_FILE, load_log
from reference_impl.storage.producer_snapshots import SNAPSHOT_SUFFIX, read_snapshot, write_snapshot
from reference_impl.storage.segment import SWAP_SUFFIX, Segment, segment_name
from reference_impl.storage.transaction_index import append_aborted, write_aborted
from reference_impl.wire.record_batches import BatchHeader, read_header, scan
from reference_impl.wire.record_timestamps import NO_TIMESTAMP

logger = logging.getLogger(__name__)

NEVER_MS = 2**63 - 1
_SOUND = StorageRules()


@dataclass(frozen=True, kw_only=True)
class LogSettings:
    segment_bytes: int
    index_interval_bytes: int = 4096
    segment_ms: int = NEVER_MS
    file_delete_delay_ms: int = 60_000


class Log:
    def __init__(
        self,
        folder: Path,
        topic_partition: TopicPartition,
        segments: list[Segment],
        settings: LogSettings,
        *,
        leader_epochs: list[tuple[int, int]],
        recovery_point: int,
        log_start_offset: int = 0,
        cut_at_start: bytes = b"",
        cleaned_to: int | None = None,
        recovery_point_lowered: Callable[[], None] = lambda: None,
        disk: Disk | None = None,
        rules: StorageRules = _SOUND,
    ) -> None:
        """`Log.open` creates one from the files on disk."""
        self.folder = folder
        self.topic_partition = topic_partition
        self._log_start_offset = max(log_start_offset, segments[0].base_offset)
        self.recovery_point = min(max(recovery_point, self._log_start_offset), segments[-1].next_offset)
        # None: never compacted, so it has no gaps
        self.cleaned_to = None if cleaned_to is None else min(cleaned_to, segments[-1].next_offset)
        self.cut_at_start = cut_at_start  # a torn or damaged tail that recovery removed
        self._segments = segments
        self._settings = settings
        self._recovery_point_lowered = recovery_point_lowered
        self._rules = rules
        self._disk = disk if disk is not None else Disk(folder)
        self._folder_changed = True
        self._set_aside: list[Path] = []
        self.changes = 0  # how often segments were taken away or cut
        self._epoch_checkpoint = EpochCheckpoint(folder / LEADER_EPOCH_CHECKPOINT, self._disk)
        self._leader_epochs = LeaderEpochCache(leader_epochs, self._epoch_checkpoint.write)
        self._without_producers = {each.base_offset for each in segments if not each.producers_path.exists()}
        # In this order: otherwise an epoch below the start of an empty log would begin at its end.
        self._leader_epochs.truncate_from_start(self.log_start_offset)
        self._leader_epochs.truncate_from_end(self.log_end_offset)
        segments[-1].open_for_append()

    @classmethod
    def open(
        cls,
        folder: Path,
        topic_partition: TopicPartition,
        settings: LogSettings,
        *,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        cleaned_to: int | None = None,
        clean: bool = False,
        recovery_point_lowered: Callable[[], None] = lambda: None,
        disk: Disk | None = None,
        rules: StorageRules = _SOUND,
    ) -> "Log":
        """Opens an existing log, or begins one at its checkpointed start. After an unclean stop the segments from the
        recovery point on are verified; the first bad batch, or the first that does not continue the log, is removed
        with everything after it. `cleaned_to` is as checkpointed: without it a log that may have gaps is cleaned again
        from its start."""
        disk = disk if disk is not None else Disk(folder)
        cleaned_to = _cleaned_to(folder, cleaned_to, disk)
        loaded = load_log(
            folder,
            index_interval_bytes=settings.index_interval_bytes,
            log_start_offset=log_start_offset,
            recovery_point=recovery_point,
            clean=clean,
            may_have_gaps=cleaned_to is not None,
            verifies=rules.verifies,
        )
        if loaded.cut:
            end = loaded.segments[-1].next_offset
            logger.warning("%s: dropped %d bytes behind offset %d", folder, len(loaded.cut), end)
        return cls(
            folder,
            topic_partition,
            loaded.segments,
            settings,
            leader_epochs=loaded.epochs,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            cut_at_start=loaded.cut,
            cleaned_to=cleaned_to,
            recovery_point_lowered=recovery_point_lowered,
            disk=disk,
            rules=rules,
        )

    @property
    def log_start_offset(self) -> int:
        return self._log_start_offset

    @property
    def starts_behind_first_segment(self) -> bool:
        """True if no file name shows where the log starts."""
        return self._log_start_offset > self._segments[0].base_offset

    @property
    def log_end_offset(self) -> int:
        return self._segments[-1].next_offset

    @property
    def leader_epochs(self) -> LeaderEpochCache:
        return self._leader_epochs

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self._segments)

    @property
    def segment_base_offsets(self) -> tuple[int, ...]:
        return tuple(segment.base_offset for segment in self._segments)

    @property
    def file_delete_delay_ms(self) -> int:
        return self._settings.file_delete_delay_ms

    def update_settings(self, settings: LogSettings) -> None:
        """Takes effect with the next append."""
        self._settings = settings

    def append(self, batches: bytes | bytearray | memoryview, next_offset: int) -> None:
        """Appends whole stamped batches that continue the log. After an OSError the log holds only what was written
        completely."""
        data = memoryview(batches)
        headers, valid_bytes = scan(data)
        assert headers, "an append has batches"
        assert valid_bytes == len(data), "an append has whole batches only"
        has_gap = headers[0].base_offset > self.log_end_offset
        assert headers[0].base_offset >= self.log_end_offset, "a log never goes back"
        assert self.cleaned_to is not None or not has_gap, "a log that was never compacted has no gaps"
        assert headers[-1].next_offset == next_offset, "the caller knows where the log ends afterwards"
        self._epoch_checkpoint.settle(self._leader_epochs.entries)
        with self._disk:
            self._append_runs(data, headers)
        self.recovery_point = self._rules.recovery_point_after_append(self.recovery_point, self.log_end_offset)

    def _append_runs(self, data: memoryview, headers: list[BatchHeader]) -> None:
        begun = 0
        while begun < len(headers):
            segment, end = self._run_for_one_segment(headers, begun)
            run = headers[begun:end]
            first_byte = run[0].position
            segment.append(
                data[first_byte : run[-1].end_position],
                run,
                first_byte,
                index_interval_bytes=self._settings.index_interval_bytes,
            )
            begun = end

    def _run_for_one_segment(self, headers: list[BatchHeader], begun: int) -> tuple[Segment, int]:
        """Returns the segment for batch number `begun`, rolling one if needed, and the index after its last batch."""
        segment = self._segments[-1]
        segment_bytes = self._settings.segment_bytes
        first = headers[begun]
        has_room = segment.has_room_for(first.length, first.last_offset, segment_bytes=segment_bytes)
        # An empty segment takes a batch of any size: a new one would not have more room.
        if segment.size and not (has_room and self._is_near(segment.first_timestamp, first)):
            segment = self._roll()
        begun_at = segment.first_timestamp if segment.size else first.max_timestamp
        end = begun + 1
        while (
            end < len(headers)
            and self._is_near(begun_at, headers[end])
            and segment.has_room_for(
                headers[end].end_position - first.position, headers[end].last_offset, segment_bytes=segment_bytes
            )
        ):
            end += 1
        return segment, end

    def _is_near(self, begun_at: int, header: BatchHeader) -> bool:
        """segment.ms: compares the segment's first batch with this one. Records without a timestamp never make a
        segment old."""
        return NO_TIMESTAMP in (begun_at, header.max_timestamp) or (
            header.max_timestamp - begun_at <= self._settings.segment_ms
        )

    def _roll(self) -> Segment:
        self._segments[-1].retire()
        segment = Segment.create(self.folder, self.log_end_offset)
        self._segments.append(segment)
        self._folder_changed = True
        if not segment.producers_path.exists():
            self._without_producers.add(segment.base_offset)
        return segment

    def read(self, offset: int, max_bytes: int, end_offset: int) -> bytes:
        """Returns whole batches from the one that contains `offset`; more than `max_bytes` only if the first one is
        that long (KIP-74), nothing if `max_bytes` is 0. One read ends with its segment, as in Kafka."""
        if max_bytes <= 0 or offset >= min(end_offset, self.log_end_offset):
            return b""
        for index in range(self._segment_index(offset), len(self._segments)):
            found = self._segments[index].batches(offset, max_bytes, end_offset)
            if found:
                return found
        return b""

    def _segment_index(self, offset: int) -> int:
        """The index of the last segment that begins at or before `offset`, or 0."""
        index = len(self._segments) - 1
        while index > 0 and self._segments[index].base_offset > offset:
            index -= 1
        return index

    def all_batches(self, from_offset: int = 0) -> bytes:
        parts = []
        for segment in self._segments[self._segment_index(from_offset) :]:
            position = segment.position_of(from_offset)
            if position is not None:
                parts.append(segment.read_all(position))
        return b"".join(parts)

    def headers(self) -> Iterator[BatchHeader]:
        """Yields the headers of all batches, read piece by piece."""
        for segment in self._segments:
            yield from segment.headers()

    # Aborted transactions

    def note_aborted(self, aborted: AbortedTransaction) -> None:
        try:
            with self._disk:
                append_aborted(self._segments[self._segment_index(aborted.last_offset)].aborted_path, aborted)
        except (OSError, StorageError) as error:
            logger.warning("%s: an aborted transaction is in no index until a start: %s", self.folder, error)

    def save_aborted(self, aborted: Sequence[AbortedTransaction]) -> None:
        by_segment: dict[int, list[AbortedTransaction]] = {}
        for each in aborted:
            by_segment.setdefault(self._segment_index(each.last_offset), []).append(each)
        with self._disk:
            for index, segment in enumerate(self._segments):
                write_aborted(segment.aborted_path, by_segment.get(index, ()))

    # Snapshots of producers

    @property
    def segments_without_producers(self) -> Set[int]:
        return self._without_producers

    def save_producers(self, base_offset: int, entries: Sequence[ProducerEntry]) -> bool:
        try:
            if entries:
                with self._disk:
                    write_snapshot(self.folder / f"{segment_name(base_offset)}{SNAPSHOT_SUFFIX}", entries)
        except (OSError, StorageError) as error:
            logger.warning("%s: the producers before offset %d are in no snapshot: %s", self.folder, base_offset, error)
            return False
        self._without_producers.discard(base_offset)
        return True

    def saved_producers(self) -> Sequence[ProducerEntry]:
        return read_snapshot(self._segments[0].producers_path)

    # By time

    def batch_at_or_after(self, timestamp: int, from_offset: int, end_offset: int) -> bytes | None:
        from_offset = max(from_offset, self._log_start_offset)
        for segment in self._segments:
            if segment.max_timestamp >= timestamp and segment.next_offset > from_offset:
                found = segment.batch_at_or_after(timestamp, from_offset)
                if found is not None:
                    return found if read_header(found, 0).base_offset < end_offset else None
        return None

    def youngest_batch(self, end_offset: int) -> bytes | None:
        """Searches from the end backwards: for most segments the largest timestamp is enough."""
        youngest: bytes | None = None
        max_timestamp = NO_TIMESTAMP
        for segment in reversed(self._segments):
            if youngest is not None and segment.max_timestamp < max_timestamp:
                continue
            found = segment.youngest_batch(self._log_start_offset, end_offset)
            if found is not None and read_header(found, 0).max_timestamp >= max_timestamp:
                youngest, max_timestamp = found, read_header(found, 0).max_timestamp
        return youngest

    # The start of the log

    @property
    def segments(self) -> Sequence[SegmentView]:
        return [segment.view() for segment in self._segments]

    def advance_log_start(self, offset: int) -> None:
        assert self._log_start_offset <= offset <= self.log_end_offset, "a log starts within itself, and never earlier"
        with self._disk:
            self._start_at(offset)

    def delete_segments(self, count: int) -> None:
        """Removes segments from the log at once; their renamed files wait until a caller takes `take_set_aside`."""
        with self._disk:
            if count == len(self._segments):
                self._roll()
            self.changes += 1
            gone = self._segments[:count]
            del self._segments[:count]
            for segment in gone:  # oldest first, so that a crash leaves no gap
                self._set_aside += segment.set_aside()
            self._folder_changed = True
            self._start_at(max(self._log_start_offset, self._segments[0].base_offset))

    def _start_at(self, offset: int) -> None:
        self._log_start_offset = offset
        self._leader_epochs.truncate_from_start(offset)
        self.recovery_point = max(self.recovery_point, offset)

    def take_set_aside(self) -> list[Path]:
        """Returns the files of deleted segments; the caller removes them after file.delete.delay.ms."""
        paths, self._set_aside = self._set_aside, []
        return paths

    # Compaction

    def write_that_it_may_have_gaps(self) -> None:
        """May run in any thread. The log takes gaps once its `cleaned_to` is set."""
        _write_that_it_may_have_gaps(self.folder, self._disk)

    def clean(self, plan: Cleaning, *, keys_max: int) -> Callable[[], CleanedLog]:
        """Returns the work of the pass, which may run in any thread; `replace` then takes its result over."""
        folder, segment_bytes = self.folder, self._settings.segment_bytes
        interval, changes = self._settings.index_interval_bytes, self.changes
        return lambda: clean_segments(
            folder,
            plan,
            keys_max=keys_max,
            segment_bytes=segment_bytes,
            index_interval_bytes=interval,
            disk=self._disk,
            changes=changes,
        )

    def replace(self, cleaned: CleanedLog) -> bool:
        """Puts the segments that a pass wrote in the place of those that it read. False if some of these were cut or
        deleted meanwhile: then nothing is replaced."""
        if cleaned.changes != self.changes:
            with self._disk:
                for each in cleaned.segments:
                    each.segment.discard()
            return False
        by_base = {segment.base_offset: segment for segment in self._segments}
        with self._disk:
            for each in reversed(cleaned.segments):  # see complete_swaps: a start completes what is whole
                each.segment.rename(SWAP_SUFFIX)
            for each in cleaned.segments:
                for base_offset in each.replaced:
                    is_first = base_offset == each.segment.base_offset
                    self._set_aside += by_base.pop(base_offset).set_aside(producers_too=not is_first)
                    if not is_first:
                        self._without_producers.discard(base_offset)
            for each in cleaned.segments:
                each.segment.rename("")
                by_base[each.segment.base_offset] = each.segment
        self._segments = [by_base[base_offset] for base_offset in sorted(by_base)]
        self._folder_changed = True
        self.cleaned_to = cleaned.end_offset
        return True

    # Truncation

    def truncate_to(self, offset: int) -> bytes:
        """Removes every batch that reaches `offset` or beyond, and the epochs that began there; returns the batches."""
        with self._disk:
            return self._truncate_to(max(offset, self.log_start_offset))

    def _truncate_to(self, offset: int) -> bytes:
        cut: list[bytes] = []
        self.changes += 1
        while len(self._segments) > 1 and self._segments[-1].base_offset > offset:
            cut.append(self._segments.pop().delete())
            self._folder_changed = True
        cut.append(self._segments[-1].truncate_to(offset))
        self._segments[-1].open_for_append()
        if self.log_end_offset < self._log_start_offset:  # the log start was inside the removed batch
            cut.append(self._start_anew_at(self._log_start_offset))
        self._leader_epochs.truncate_from_end(min(offset, self.log_end_offset))
        self._lower_recovery_point()
        return b"".join(reversed(cut))

    def truncate_fully_and_start_at(self, offset: int) -> bytes:
        """Empties the log; it then starts and ends at `offset`. Returns the removed batches."""
        with self._disk:
            return self._start_anew_at(offset)

    def _start_anew_at(self, offset: int) -> bytes:
        cut = [segment.delete() for segment in reversed(self._segments)]
        self.changes += 1
        self._segments = [Segment.create(self.folder, offset)]
        self._log_start_offset = offset
        self._folder_changed = True
        self._leader_epochs.clear()
        self.recovery_point = max(self.recovery_point, offset)
        self._lower_recovery_point()
        return b"".join(reversed(cut))

    def _lower_recovery_point(self) -> None:
        """Lowers the recovery point, because records appended after a truncation were never flushed, nor cleaned."""
        end = self.log_end_offset
        is_lowered = self.recovery_point > end or (self.cleaned_to is not None and self.cleaned_to > end)
        self.recovery_point = min(self.recovery_point, end)
        if self.cleaned_to is not None:
            self.cleaned_to = min(self.cleaned_to, end)
        if is_lowered:
            self._recovery_point_lowered()

    # Leader epochs, written before they begin

    def writing_epoch_ahead(self, epoch: int, start_offset: int) -> Callable[[], None] | None:
        """Returns a function that writes the epoch's entry ahead, so that assigning it does not wait; None if that is
        not needed."""
        return self._epoch_checkpoint.writing_ahead(self._leader_epochs, epoch, start_offset)

    def take_back_epochs(self) -> None:
        """Removes entries that were written ahead but not used."""
        self._epoch_checkpoint.take_back(self._leader_epochs.entries)

    def flush(self) -> None:
        """fsyncs the log, so that it survives a power loss. Moves the recovery point to the end."""
        if self._rules.syncs():
            self._sync()
        self.recovery_point = self.log_end_offset

    def _sync(self) -> None:
        with self._disk:
            if self._folder_changed:
                sync_folder(self.folder)
                self._folder_changed = False
            for segment in self._segments:
                if segment.next_offset > self.recovery_point:
                    segment.flush()

    def close(self) -> None:
        self.changes += 1
        for segment in self._segments:
            segment.close()


def _cleaned_to(folder: Path, checkpointed: int | None, disk: Disk) -> int | None:
    """Writes down what only the checkpoint knew: no loss of it may cut the log."""
    if (folder / MAY_HAVE_GAPS_FILE).exists():
        return checkpointed or 0
    if checkpointed is not None:
        _write_that_it_may_have_gaps(folder, disk)
    return checkpointed


def _write_that_it_may_have_gaps(folder: Path, disk: Disk) -> None:
    with disk:
        write_atomically(folder / MAY_HAVE_GAPS_FILE, "", sync=True)
