"""One broker's replicas: its own copy of a partition (`LocalReplica`), and what a leader keeps of each other copy.

Every change of the local log's end downwards and of its start goes through here, so that the producers' state, the high
watermark and the evidence never miss one.
"""

from dataclasses import dataclass

from reference_impl.core.evidence import EvidenceSink
from reference_impl.core.identifiers import UNKNOWN_OFFSET, TopicPartition
from reference_impl.core.log_port import PartitionLog
from reference_impl.core.partition_data import PartitionSettings
from reference_impl.core.producer_state import ProducerStates
from reference_impl.core.retention import expired
from reference_impl.core.rules import Rules
from reference_impl.wire.record_batches import BatchHeader, parse_headers

NEVER_MS = float("-inf")


class LocalReplica:
    """The log with what belongs to it in memory: high watermark and producers."""

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
        self.producers = ProducerStates()
        self.high_watermark = checkpointed_high_watermark
        # A checkpoint may be older than the log's start.
        keep_to = max(rules.startup_truncation(log.log_end_offset, checkpointed_high_watermark), log.log_start_offset)
        if keep_to < log.log_end_offset:
            self.truncate(keep_to, epoch=log.leader_epochs.latest_epoch, reason="high watermark at start")
        else:
            self._rebuild_producers()
        self.set_high_watermark(checkpointed_high_watermark)

    @property
    def log_end_offset(self) -> int:
        return self.log.log_end_offset

    @property
    def log_start_offset(self) -> int:
        return self.log.log_start_offset

    def set_high_watermark(self, offset: int) -> None:
        """Clamped into the log (1.14): a checkpoint may be older or younger than what recovery left."""
        self.high_watermark = max(self.log_start_offset, min(offset, self.log_end_offset))

    def append(self, batches: bytes | bytearray | memoryview, headers: list[BatchHeader]) -> None:
        """Stamped batches, offsets and epochs final. Epochs first: an entry without records is harmless, records
        without an entry are not. Producers last: a failed append must not make the retry a duplicate (M66)."""
        for header in headers:
            if header.leader_epoch > self.log.leader_epochs.latest_epoch:
                self.log.leader_epochs.assign(header.leader_epoch, header.base_offset)
        self.log.append(batches, headers[-1].next_offset)
        for header in headers:
            self.producers.update(header)

    def truncate(self, offset: int, *, epoch: int, reason: str) -> None:
        """Cuts to `offset`; even at or above the log end the epoch entries from there on go (KAFKA-10706).
        A cut below the high watermark takes it down too. Of a log that begins behind the cut nothing is left."""
        if offset < self.log_start_offset:
            self.restart_at(offset, epoch=epoch, reason=reason)
            return
        before = self.log_end_offset
        cut = self.log.truncate_to(min(offset, before))
        self._after_cut(before, cut, epoch, reason)

    def restart_at(self, offset: int, *, epoch: int, reason: str) -> None:
        """Drops everything; the log begins anew at `offset`, and so does the high watermark (KAFKA-9491)."""
        before = self.log_end_offset
        cut = self.log.truncate_fully_and_start_at(offset)
        self._after_cut(before, cut, epoch, reason)

    # The start of the log

    def advance_log_start(self, offset: int, reason: str) -> None:
        """Never back, and never behind what is committed: the log would begin with what may yet be cut."""
        before = self.log_start_offset
        if before < offset <= self.high_watermark:
            self.log.advance_log_start(offset)
            self._tell_start(before, segments=0, reason=reason)

    def delete_expired(self, *, wall_clock_ms: float) -> int:
        """1.14; answers how many segments went. Producers stay known: their retries may still be on the way."""
        found = expired(
            self.log.segments,
            log_start_offset=self.log_start_offset,
            high_watermark=self.high_watermark,
            settings=self.settings.retention,
            wall_clock_ms=wall_clock_ms,
        )
        if found.count:
            before = self.log_start_offset
            self.log.delete_segments(found.count)
            self._tell_start(before, segments=found.count, reason=", ".join(found.reasons))
        return found.count

    def _tell_start(self, before: int, *, segments: int, reason: str) -> None:
        if self.log_start_offset == before:
            return  # the segments lay before the start already
        self.evidence.log_start_advanced(
            self.topic_partition,
            from_offset=before,
            to_offset=self.log_start_offset,
            segments=segments,
            reason=reason,
        )

    def _after_cut(self, before: int, cut: bytes, epoch: int, reason: str) -> None:
        after = self.log_end_offset
        self.set_high_watermark(self.high_watermark)
        if after == before and not cut:
            return
        self._rebuild_producers()
        self.evidence.truncated(
            self.topic_partition, from_offset=before, to_offset=after, epoch=epoch, reason=reason, cut=cut
        )

    def _rebuild_producers(self) -> None:
        self.producers.rebuild(parse_headers(self.log.all_batches()), log_start_offset=self.log_start_offset)


@dataclass(kw_only=True)
class RemoteReplica:
    """A leader's record of one other replica (1.1). Times are the caller's milliseconds."""

    broker_id: int
    log_end_offset: int = UNKNOWN_OFFSET
    leader_end_at_last_fetch: int = UNKNOWN_OFFSET
    last_fetch_ms: float = NEVER_MS
    last_caught_up_ms: float = NEVER_MS
    broker_epoch: int = -1  # of the incarnation that fetched last; -1: none yet, or an old fetch version

    def fetched(self, *, fetch_offset: int, leader_end_offset: int, broker_epoch: int, now_ms: float) -> None:
        """1.6 step 5: caught up now, or by the time of the previous fetch if it has reached what was the end then.
        So a follower that is always one fetch behind under load is in sync, one that fetches slowly is not."""
        if fetch_offset >= leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif self.leader_end_at_last_fetch != UNKNOWN_OFFSET and fetch_offset >= self.leader_end_at_last_fetch:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.log_end_offset = fetch_offset
        self.leader_end_at_last_fetch = leader_end_offset
        self.last_fetch_ms = now_ms
        self.broker_epoch = broker_epoch
