"""One replica of one partition: leader or follower as the newest controller update says; older updates are ignored.

This class is the entire interface of the replication core to the runtime. It is synchronous and takes the time as
`now_ms`, so the same sequence of calls always ends in the same state. leadership.py has the leader part, following.py
the follower part.
"""

from collections.abc import Callable, Mapping

from reference_impl.core.cleaning.compaction import Cleaning
from reference_impl.core.evidence import EvidenceSink
from reference_impl.core.following import Following
from reference_impl.core.identifiers import NO_LEADER, UNDEFINED_EPOCH, UNKNOWN_OFFSET, ErrorCode, TopicPartition
from reference_impl.core.isr import Committed, IsrState
from reference_impl.core.leadership import Leadership
from reference_impl.core.log_port import PartitionLog
from reference_impl.core.partition_data import (
    AppendResult,
    Applied,
    FetchedPartition,
    FetchPosition,
    Origin,
    PartitionSettings,
    ReadResult,
)
from reference_impl.core.producer_state import ProducerEntry
from reference_impl.core.replica import LocalReplica
from reference_impl.core.rules import Rules
from reference_impl.core.state import IsrProposal, PartitionState
from reference_impl.wire.control_records import Marker
from reference_impl.wire.key_values import Producer
from reference_impl.wire.looks import Look

__all__ = [
    "AppendResult",
    "Applied",
    "FetchPosition",
    "FetchedPartition",
    "Partition",
    "PartitionSettings",
    "ReadResult",
]

Offset = tuple[ErrorCode, int, int]  # error, offset, epoch


def _nobody_waits() -> None:
    """The default callback until the runtime sets its own."""


class Partition:
    """Calls `progressed` after every change of high watermark, log end, role or ISR, so that parked requests are
    checked again."""

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
        """Opens a replica after log recovery; if the rules include a truncation at start-up, it happens here."""
        assert broker_id >= 0
        assert topic_partition.partition >= 0
        self._replica = LocalReplica(
            topic_partition=topic_partition,
            broker_id=broker_id,
            log=log,
            settings=settings,
            rules=rules,
            evidence=evidence,
            checkpointed_high_watermark=checkpointed_high_watermark,
        )
        self.state: PartitionState | None = None
        self.progressed: Callable[[], None] = _nobody_waits
        self._leading: Leadership | None = None
        self._following: Following | None = None
        self._live_brokers: dict[int, int] = {}

    # Current state

    @property
    def topic_partition(self) -> TopicPartition:
        return self._replica.topic_partition

    @property
    def is_leader(self) -> bool:
        return self._leading is not None

    @property
    def leader_epoch(self) -> int:
        return UNDEFINED_EPOCH if self.state is None else self.state.leader_epoch

    @property
    def high_watermark(self) -> int:
        return self._replica.high_watermark

    def readable_end(self, *, read_committed: bool) -> int:
        """Where a leader's consumers end; nothing can be read elsewhere."""
        return 0 if self._leading is None else self._leading.readable_end(read_committed=read_committed)

    @property
    def producers(self) -> list[ProducerEntry]:
        return self._replica.producers.entries

    @property
    def log(self) -> PartitionLog:
        return self._replica.log

    @property
    def settings(self) -> PartitionSettings:
        return self._replica.settings

    @property
    def isr_state(self) -> IsrState:
        """The ISR state of a leader; empty for a follower."""
        return Committed(isr=()) if self._leading is None else self._leading.isr_state

    def update_settings(self, settings: PartitionSettings) -> None:
        """Takes effect with the next append or fetch. A lowered min ISR alone does not move the high watermark (R12,
        seen on Kafka 4.3.1)."""
        self._replica.settings = settings

    def update_live_brokers(self, epochs: Mapping[int, int]) -> None:
        """Sets who may join an ISR: broker id -> broker epoch of registered brokers that are not shutting down."""
        assert all(broker_id >= 0 for broker_id in epochs)
        if self._live_brokers == epochs:
            return
        self._live_brokers = dict(epochs)
        if self._leading is not None:
            self._leading.live_brokers = self._live_brokers
            self.progressed()  # nobody waits for a dead replica to delete records (R78)

    def expire_producers(self, *, wall_clock_ms: float, after_ms: int) -> int:
        """Forgets idempotent producers that were inactive for producer.id.expiration.ms; returns their number."""
        assert after_ms >= 0
        return self._replica.producers.expire(wall_clock_ms=wall_clock_ms, after_ms=after_ms)

    # Controller updates

    def become_leader(self, state: PartitionState, *, now_ms: float) -> None:
        """R5. A new leader epoch gets its entry in the epoch cache before any append (KAFKA-7415)."""
        assert state.topic_partition == self.topic_partition, f"{state} is not of {self.topic_partition}"
        assert state.leader_epoch >= 0
        assert state.leader == self._replica.broker_id, f"{state} names another leader than {self._replica.broker_id}"
        if self._is_stale(state):
            return
        if self._leading is None:
            self._following = None
            self._leading = Leadership(self._replica, state, self._live_brokers, now_ms=now_ms)
        else:
            self._leading.continue_with(state, now_ms=now_ms)
        self.state = state
        self.progressed()

    def become_follower(self, state: PartitionState, *, now_ms: float) -> bool:
        """R6. True if the leader epoch rose, so that the fetcher must start over."""
        assert state.topic_partition == self.topic_partition, f"{state} is not of {self.topic_partition}"
        assert state.leader_epoch >= 0
        assert state.leader != self._replica.broker_id, f"{state} names this broker the leader"
        if self._is_stale(state):
            return False
        epoch_rose = state.leader_epoch > self.leader_epoch
        if self._leading is not None:
            self._leading.end()
            self._leading = None
        if self._following is None or epoch_rose:
            leader_before = NO_LEADER if self.state is None else self.state.leader
            self._following = Following(self._replica, state, leader_before=leader_before)
        self.state = state
        self.progressed()
        return epoch_rose

    def _is_stale(self, state: PartitionState) -> bool:
        known = self.state
        if known is None:
            return False
        return (state.leader_epoch, state.partition_epoch) < (known.leader_epoch, known.partition_epoch)

    # Produce, on the leader

    def append(
        self,
        batches: bytearray,
        *,
        acks: int,
        now_ms: float,
        wall_clock_ms: int,
        look: Look | None = None,
        origin: Origin = Origin.CLIENT,
    ) -> AppendResult:
        """R7. Patches `batches` in place. The wall clock is used for record timestamps only. If settings.looks_inside,
        the caller may pass the decoded contents; otherwise they are decoded here. Error NONE with acks=-1 means: wait
        for produce_outcome(required_offset)."""
        if self._leading is None:
            return AppendResult(error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        result = self._leading.append(
            batches,
            acks=acks,
            now_ms=now_ms,
            wall_clock_ms=wall_clock_ms,
            look=look,
            origin=origin,
        )
        if result.error is ErrorCode.NONE and not result.duplicate:
            self.progressed()
        return result

    def append_marker(self, producer: Producer, marker: Marker, *, now_ms: float, wall_clock_ms: int) -> AppendResult:
        """R70: ends a producer's transaction in this partition. Error NONE means: wait for produce_outcome."""
        if self._leading is None:
            return AppendResult(error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        result = self._leading.append_marker(producer, marker, now_ms=now_ms, wall_clock_ms=wall_clock_ms)
        if result.error is ErrorCode.NONE:
            self.progressed()
        return result

    def needs_verification(self, producer: Producer, *, adds: bool) -> bool:
        """R86: whether the producer's transaction must be verified before it appends here. `adds`: the partition is to
        be added to it (R88)."""
        is_asked = adds or self._replica.rules.producers.verifies(self.settings.verifies_transactions)
        return self.is_leader and is_asked and not self._replica.has_open(producer)

    def begin_verification(self, producer: Producer, *, adds: bool) -> int | None:
        """A guard, if it must."""
        if not self.needs_verification(producer, adds=adds):
            return None
        return self._replica.producers.begin_verification(producer.producer_id)

    def end_verification(self, producer: Producer, guard: int, *, is_refused: bool) -> bool:
        """Whether the producer may append, by the answer to the question that was asked under this guard."""
        return self._replica.producers.end_verification(producer, guard, is_refused=is_refused)

    def produce_outcome(self, required_offset: int, leader_epoch: int) -> ErrorCode | None:
        """R9: the outcome of an acks=all produce in `leader_epoch`; None while it still waits."""
        if self._leading is None or leader_epoch != self.leader_epoch:
            return self._replica.rules.after_term()
        return self._leading.produce_outcome(required_offset)

    # Reads, on the leader

    def read_for_consumer(
        self,
        fetch_offset: int,
        *,
        max_bytes: int,
        current_leader_epoch: int,
        last_fetched_epoch: int = UNDEFINED_EPOCH,
        read_committed: bool = False,
    ) -> ReadResult:
        """R25, R68: reads up to the high watermark, or the last stable offset, only on the leader."""
        error = self._check_leader(current_leader_epoch)
        if error is not ErrorCode.NONE or self._leading is None:
            return ReadResult(error=error)
        return self._leading.read_for_consumer(
            fetch_offset, max_bytes=max_bytes, last_fetched_epoch=last_fetched_epoch, read_committed=read_committed
        )

    def read_for_follower(
        self,
        replica_id: int,
        broker_epoch: int,
        fetch_offset: int,
        *,
        last_fetched_epoch: int,
        current_leader_epoch: int,
        max_bytes: int,
        now_ms: float,
        log_start_offset: int = UNKNOWN_OFFSET,
    ) -> ReadResult:
        """R18: reads, then counts the fetch as progress; the answer carries the high watermark from before (R14)."""
        answer = self.reread_for_follower(
            replica_id,
            broker_epoch,
            fetch_offset,
            last_fetched_epoch=last_fetched_epoch,
            current_leader_epoch=current_leader_epoch,
            max_bytes=max_bytes,
        )
        is_progress = self._replica.rules.is_progress
        if answer.error is not ErrorCode.NONE or self._leading is None:
            return answer
        if not is_progress(answer.diverging is not None, fetch_offset, self.log.log_end_offset):
            return answer
        if self._leading.follower_fetched(
            replica_id, broker_epoch, fetch_offset, log_start_offset=log_start_offset, now_ms=now_ms
        ):
            self.progressed()
        return answer

    def reread_for_follower(
        self,
        replica_id: int,
        broker_epoch: int,
        fetch_offset: int,
        *,
        last_fetched_epoch: int,
        current_leader_epoch: int,
        max_bytes: int,
    ) -> ReadResult:
        """Completes a parked fetch: the same checks and the same read; its progress was counted on arrival."""
        error = self._check_leader(current_leader_epoch)
        if error is not ErrorCode.NONE or self._leading is None:
            return ReadResult(error=error)
        error = self._leading.check_follower(replica_id, broker_epoch, has_epoch=current_leader_epoch >= 0)
        if error is not ErrorCode.NONE:
            return ReadResult(error=error)
        return self._leading.read_for_follower(fetch_offset, last_fetched_epoch=last_fetched_epoch, max_bytes=max_bytes)

    def latest_offset(
        self, *, current_leader_epoch: int, for_replica: bool = False, read_committed: bool = False
    ) -> Offset:
        """ListOffsets LATEST: the high watermark, or error 78 while a new leader does not know it (KIP-207); the last
        stable offset for who reads committed records. For a replica: the log end."""
        error = self._check_leader(current_leader_epoch)
        if error is not ErrorCode.NONE or self._leading is None:
            return error, UNKNOWN_OFFSET, UNDEFINED_EPOCH
        return self._leading.latest_offset(for_replica=for_replica, read_committed=read_committed)

    def earliest_offset(self, *, current_leader_epoch: int) -> Offset:
        error = self._check_leader(current_leader_epoch)
        if error is not ErrorCode.NONE or self._leading is None:
            return error, UNKNOWN_OFFSET, UNDEFINED_EPOCH
        return self._leading.earliest_offset()

    def batch_for_time(
        self,
        timestamp: int,
        *,
        current_leader_epoch: int,
        for_replica: bool = False,
        read_committed: bool = False,
        from_offset: int = 0,
    ) -> tuple[ErrorCode, bytes | None]:
        """ListOffsets by time: the first committed batch from `from_offset` on whose header promises a record at or
        after `timestamp`. Only decoding the batch (wire.record_timestamps) finds the record; there may be none."""
        error = self._check_leader(current_leader_epoch)
        if error is not ErrorCode.NONE or self._leading is None:
            return error, None
        return self._leading.batch_for_time(
            timestamp, for_replica=for_replica, read_committed=read_committed, from_offset=from_offset
        )

    def batch_of_max_timestamp(
        self, *, current_leader_epoch: int, for_replica: bool = False, read_committed: bool = False
    ) -> tuple[ErrorCode, bytes | None]:
        """ListOffsets MAX_TIMESTAMP (KIP-734): the first batch that has the largest timestamp of all
        committed records."""
        error = self._check_leader(current_leader_epoch)
        if error is not ErrorCode.NONE or self._leading is None:
            return error, None
        return self._leading.batch_of_max_timestamp(for_replica=for_replica, read_committed=read_committed)

    def end_offset_for_epoch(self, epoch: int, *, current_leader_epoch: int) -> Offset:
        """OffsetForLeaderEpoch: (error, end offset, found epoch). Callers need the found epoch (KIP-279)."""
        error = self._check_leader(current_leader_epoch)
        if error is not ErrorCode.NONE:
            return error, UNKNOWN_OFFSET, UNDEFINED_EPOCH
        found_epoch, end_offset = self.log.leader_epochs.end_offset_for(epoch, self.log.log_end_offset)
        return ErrorCode.NONE, end_offset, found_epoch

    def _check_leader(self, current_leader_epoch: int) -> ErrorCode:
        """R16; -1: the request does not state a leader epoch."""
        if current_leader_epoch >= 0:
            if self._replica.rules.fences_leader_epoch(current_leader_epoch, self.leader_epoch):
                return ErrorCode.FENCED_LEADER_EPOCH
            if current_leader_epoch > self.leader_epoch:
                return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE if self.is_leader else ErrorCode.NOT_LEADER_OR_FOLLOWER

    # DeleteRecords, on the leader

    def delete_records(self, before_offset: int) -> tuple[ErrorCode, int]:
        """R78: (error, the offset that `records_deleted` waits for). -1: all that is committed."""
        if self._leading is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, UNKNOWN_OFFSET
        result = self._leading.delete_records(before_offset)
        if result[0] is ErrorCode.NONE:
            self.progressed()
        return result

    def records_deleted(self, offset: int, leader_epoch: int) -> tuple[ErrorCode | None, int]:
        """R78: (error, low watermark); None while a live replica may have records below `offset`."""
        if self._leading is None or leader_epoch != self.leader_epoch:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, UNKNOWN_OFFSET
        low_watermark = self._leading.low_watermark
        return (ErrorCode.NONE if low_watermark >= offset else None), low_watermark

    # Retention, on every replica

    def delete_expired(self, *, wall_clock_ms: float) -> int:
        """Called every log.retention.check.interval.ms (R54); returns the number of deleted segments."""
        count = self._replica.delete_expired(wall_clock_ms=wall_clock_ms)
        if count:
            self.progressed()
        return count

    # Compaction, on every replica

    def cleaning(self, *, wall_clock_ms: int) -> Cleaning | None:
        """Asked every log.cleaner.backoff.ms (R79): the pass of the log cleaner that is due."""
        return self._replica.cleaning(wall_clock_ms=wall_clock_ms)

    # In-sync replicas, on the leader

    def check_shrink(self, *, now_ms: float) -> None:
        """Called every replica.lag.time.max.ms / 2 (R29)."""
        if self._leading is not None and self._leading.check_shrink(now_ms=now_ms):
            self.progressed()

    def isr_proposal(self, *, now_ms: float) -> IsrProposal | None:
        """Returns a proposal to send now by AlterPartition; each one returned must be answered with isr_answered."""
        return None if self._leading is None else self._leading.isr_tracker.take_proposal()

    def isr_answered(self, proposal: IsrProposal, error: ErrorCode, state: PartitionState | None) -> None:
        """R30. `state` comes with NONE. A missing answer counts as any other error (REQUEST_TIMED_OUT):
        it is retried."""
        assert proposal.topic_partition == self.topic_partition
        if self._leading is None:
            return
        if self._leading.isr_answered(proposal, error, state):
            self.state = self._leading.state
            self.progressed()

    # Follower

    def fetch_position(self) -> FetchPosition:
        """What to request from the leader next. Only while following."""
        assert self._following is not None, f"{self.topic_partition} does not follow"
        return self._following.fetch_position()

    def apply_fetched(self, position: FetchPosition, response: FetchedPartition, *, now_ms: float) -> Applied:
        """R20: `position` is what the request asked for; an answer to another than the current position is STALE."""
        if self._following is None:
            return Applied.STALE
        applied = self._following.apply(position, response)
        if applied in (Applied.APPENDED, Applied.TRUNCATED, Applied.NOTHING):
            self.progressed()
        return applied

    @property
    def fetch_refusal(self) -> str:
        """Why the follower refused the last batches of its leader; empty if it accepted them."""
        return "" if self._following is None else self._following.refusal

    def truncate_out_of_range(
        self, leader_log_start: int, leader_log_end: int, *, leader_epoch: int | None = None
    ) -> None:
        """Handles the leader's ListOffsets answers after OUT_OF_RANGE. Ignored if the role, or the leader epoch if
        given, has changed since the request (KAFKA-13207)."""
        assert leader_log_start >= 0
        assert leader_log_end >= 0
        if self._following is None or (leader_epoch is not None and leader_epoch != self.leader_epoch):
            return
        self._following.out_of_range(leader_log_start, leader_log_end)
        self.progressed()
