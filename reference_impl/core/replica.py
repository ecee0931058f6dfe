"""The replicas of one partition: this broker's copy (`LocalReplica`), and the leader's state of each other copy.

Every truncation of the local log and every change of its start goes through here, so that producer state, high
watermark and evidence always follow.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from reference_impl.core.cleaning.compaction import Cleaning, cleaning
from reference_impl.core.evidence import EvidenceSink
from reference_impl.core.identifiers import UNKNOWN_OFFSET, TopicPartition
from reference_impl.core.log_port import PartitionLog
from reference_impl.core.log_transactions import AbortedTransaction
from reference_impl.core.partition_data import PartitionSettings
from reference_impl.core.producer_state import ProducerEntry, ProducerStates, Taken
from reference_impl.core.retention import expired
from reference_impl.core.rules import Rules
from reference_impl.wire.control_records import read_marker
from reference_impl.wire.key_values import Producer
from reference_impl.wire.record_batches import BatchHeader, Buffer

NEVER_MS = float("-inf")


class LocalReplica:
    """The log together with its state in memory: high watermark and producers."""

    def __init__(
        self,
        *,
        topic_partition: TopicPartition,
        broker_id: int,
        log: PartitionLog,
        settings: PartitionSettings,
        rules: Rules,
        evidence: EvidenceSink,
        checkpointed_high_watermark: int,
    ) -> None:
        self.topic_partition = topic_partition
        self.broker_id = broker_id
        self.log = log
        self.settings = settings
        self.rules = rules
        self.evidence = evidence
        self.producers = ProducerStates(rules.producers)
        self.high_watermark = checkpointed_high_watermark
        self._unsaved: dict[int, list[ProducerEntry]] = {}  # of segments that began since
        self.producers.restore(log.saved_producers())
        self._rebuild_producers(log.segments[0].base_offset)
        # The checkpoint may be older than the log's start.
        keep_to = max(rules.startup_truncation(log.log_end_offset, checkpointed_high_watermark), log.log_start_offset)
        if keep_to < log.log_end_offset:
            self.truncate(keep_to, epoch=log.leader_epochs.latest_epoch, reason="high watermark at start")
        self.set_high_watermark(checkpointed_high_watermark)

    @property
    def log_end_offset(self) -> int:
        return self.log.log_end_offset

    @property
    def log_start_offset(self) -> int:
        return self.log.log_start_offset

    def set_high_watermark(self, offset: int) -> None:
        """Clamps the high watermark into the log (R50): a checkpoint may differ from what recovery left."""
        self.high_watermark = max(self.log_start_offset, min(offset, self.log_end_offset))
        self.producers.transactions.committed_to(self.high_watermark)

    @property
    def last_stable_offset(self) -> int:
        return self.producers.transactions.last_stable_offset(self.high_watermark, self.log_start_offset)

    def has_open(self, producer: Producer) -> bool:
        """Whether a transaction of the producer, in this epoch, is open here."""
        return self.producers.has_open(producer)

    def continues(self, base_offset: int, end_offset: int) -> bool:
        """R84: a batch begins where the one before it ends, or later if compaction may have taken out what was
        between."""
        return base_offset == end_offset or (base_offset > end_offset and self.log.cleaned_to is not None)

    def append(self, batches: Buffer, headers: list[BatchHeader]) -> None:
        """Appends stamped batches with final offsets and epochs. The epoch entry is written first: an entry without
        records is harmless, records without an entry are not. Producers are updated after that: a failed append must
        not make the retry a duplicate (R47). What is written about them comes last, and does not undo the append."""
        assert headers, "nothing to append"
        assert self.continues(headers[0].base_offset, self.log_end_offset), "a log has no gaps"
        for header in headers:
            if header.leader_epoch > self.log.leader_epochs.latest_epoch:
                self.log.leader_epochs.assign(header.leader_epoch, header.base_offset)
        self.log.append(batches, headers[-1].next_offset)
        aborted: list[AbortedTransaction] = []
        for header in headers:
            if header.base_offset in self.log.segments_without_producers:
                self._unsaved.setdefault(header.base_offset, self.producers.entries)
            marker = read_marker(batches[header.position : header.end_position]) if header.is_control else None
            ended = self.producers.update(header, marker)
            aborted += [] if ended is None else [ended]
        for each in aborted:
            self.log.note_aborted(each)
        self._save_producers()

    def forget_producers(self) -> None:
        """Of all that is in the log."""
        self.producers = ProducerStates(self.rules.producers)

    def truncate(self, offset: int, *, epoch: int, reason: str) -> None:
        """Truncates to `offset`; even at or above the log end it removes the epoch entries from there on (KAFKA-10706).
        A truncation below the high watermark lowers it. A log that starts after the cut becomes empty."""
        assert offset >= 0
        if offset < self.log_start_offset:
            self.restart_at(offset, epoch=epoch, reason=reason)
            return
        before = self.log_end_offset
        cut = self.log.truncate_to(min(offset, before))
        self._after_cut(before, cut, epoch, reason)

    def restart_at(self, offset: int, *, epoch: int, reason: str) -> None:
        """Deletes everything; log and high watermark continue at `offset` (KAFKA-9491). Beyond the log's end nothing is
        known of any producer: markers and batches of the skipped part were never seen."""
        assert offset >= 0
        before = self.log_end_offset
        if offset > before:
            self.forget_producers()
        cut = self.log.truncate_fully_and_start_at(offset)
        self._after_cut(before, cut, epoch, reason)

    # The start of the log

    def advance_log_start(self, offset: int, reason: str) -> None:
        """Moves the log start forward, never back and never beyond the high watermark: the log would begin with records
        that a truncation may still remove."""
        before = self.log_start_offset
        if before < offset <= self.high_watermark:
            self.log.advance_log_start(offset)
            self._log_start(before, segments=0, reason=reason)

    def delete_expired(self, *, wall_clock_ms: float) -> int:
        """R54; returns the number of deleted segments. Producer state stays: retries of deleted batches may still
        arrive."""
        found = expired(
            self.log.segments,
            log_start_offset=self.log_start_offset,
            high_watermark=self.rules.deletable_end(self.high_watermark, self.log_end_offset),
            settings=self.settings.retention,
            wall_clock_ms=wall_clock_ms,
        )
        if found.count:
            before = self.log_start_offset
            is_next_missing = found.count == len(self.log.segments)
            if not self._save_producers() or (
                is_next_missing and not self.log.save_producers(self.log_end_offset, self.producers.entries)
            ):
                return 0  # nothing else would tell of them after a restart
            self.log.delete_segments(found.count)
            self._log_start(before, segments=found.count, reason=", ".join(found.reasons))
        return found.count

    def cleaning(self, *, wall_clock_ms: int) -> Cleaning | None:
        """R79: the pass of the log cleaner that is due."""
        cleaned_to = self.log.cleaned_to
        if self.settings.compaction is None or cleaned_to is None:
            return None
        return cleaning(
            self.log.segments,
            self.settings.compaction,
            self.rules.cleaning,
            dirty_from=min(max(cleaned_to, self.log_start_offset), self.log_end_offset),
            last_stable_offset=self.last_stable_offset,
            wall_clock_ms=wall_clock_ms,
            aborted=self.producers.transactions.all_aborted,
            producers=self.producers.entries,
        )

    def _log_start(self, before: int, *, segments: int, reason: str) -> None:
        if self.log_start_offset == before:
            return  # the segments were below the log start already
        self.producers.transactions.deleted_to(self.log_start_offset)
        self.evidence.log_start_advanced(
            self.topic_partition,
            from_offset=before,
            to_offset=self.log_start_offset,
            segments=segments,
            reason=reason,
        )

    def _after_cut(self, before: int, cut: bytes, epoch: int, reason: str) -> None:
        after = self.log_end_offset
        if self.rules.lowers_high_watermark():
            self.set_high_watermark(self.high_watermark)
        if after == before and not cut:
            return
        if self.rules.producers.forgets_what_was_cut():
            self._rebuild_producers(self.log_start_offset)
        self.evidence.truncated(
            self.topic_partition, from_offset=before, to_offset=after, epoch=epoch, reason=reason, cut=cut
        )

    def _save_producers(self) -> bool:
        """Tries again what failed before; False if something is left."""
        missing = self.log.segments_without_producers
        self._unsaved = {
            base_offset: entries
            for base_offset, entries in self._unsaved.items()
            if base_offset in missing and not self.log.save_producers(base_offset, entries)
        }
        return not self._unsaved

    def _rebuild_producers(self, remembered_to: int) -> None:
        """Keeps the state of batches before that offset and rebuilds the rest from the log's batches."""
        assert remembered_to >= 0
        self._unsaved.clear()
        self.producers.rebuild(self._with_markers(self.log.headers()), log_start_offset=remembered_to)
        self.producers.transactions.deleted_to(self.log_start_offset)
        self.producers.transactions.committed_to(self.high_watermark)
        self.log.save_aborted(self.producers.transactions.all_aborted)

    def _with_markers(self, headers: Iterable[BatchHeader]) -> Iterator[Taken]:
        for header in self._saving_producers(headers):
            batch = self.log.read(header.base_offset, 1, header.next_offset) if header.is_control else b""
            yield header, read_marker(batch) if batch else None

    def _saving_producers(self, headers: Iterable[BatchHeader]) -> Iterator[BatchHeader]:
        """Yields the same headers; saves the producer state before the first batch of each new segment."""
        for header in headers:
            if header.base_offset in self.log.segments_without_producers:
                self._unsaved[header.base_offset] = self.producers.entries
                self._save_producers()
            yield header


@dataclass(kw_only=True)
class RemoteReplica:
    """A leader's record of one other replica (R18). Times are the caller's milliseconds."""

    broker_id: int
    log_end_offset: int = UNKNOWN_OFFSET
    leader_end_at_last_fetch: int = UNKNOWN_OFFSET
    last_fetch_ms: float = NEVER_MS
    last_caught_up_ms: float = NEVER_MS
    log_start_offset: int = UNKNOWN_OFFSET
    broker_epoch: int = -1  # broker epoch of the incarnation that fetched last; -1: none yet, or an old fetch version

    def fetched(self, *, fetch_offset: int, leader_end_offset: int, broker_epoch: int, now_ms: float) -> None:
        """R18: caught up now, or at the time of the previous fetch if this fetch reaches the log end of that time. So a
        follower that is always one fetch behind under load is in sync, and one that fetches too slowly is not."""
        assert 0 <= fetch_offset <= leader_end_offset
        assert broker_epoch >= -1
        if fetch_offset >= leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif self.leader_end_at_last_fetch != UNKNOWN_OFFSET and fetch_offset >= self.leader_end_at_last_fetch:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.log_end_offset = fetch_offset
        self.leader_end_at_last_fetch = leader_end_offset
        self.last_fetch_ms = now_ms
        self.broker_epoch = broker_epoch
