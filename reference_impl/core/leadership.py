"""The leader part of a partition, from one become_leader to the end of the role: append, progress, ISR, reads."""

from collections.abc import Mapping

from reference_impl.core import reading
from reference_impl.core.identifiers import UNDEFINED_EPOCH, UNKNOWN_OFFSET, ErrorCode
from reference_impl.core.isr import Committed, IsrState, IsrTracker, PendingExpand, PendingShrink
from reference_impl.core.partition_data import AppendResult, Origin, ReadResult
from reference_impl.core.producer_state import CachedBatch
from reference_impl.core.replica import NEVER_MS, LocalReplica, RemoteReplica
from reference_impl.core.rules import Candidate, FollowerView
from reference_impl.core.state import IsrProposal, PartitionState
from reference_impl.core.timestamps import is_refused
from reference_impl.core.validation import refusal, refusal_inside
from reference_impl.wire.control_records import Marker, marker_batch
from reference_impl.wire.key_values import Producer
from reference_impl.wire.looks import Look, look_at
from reference_impl.wire.record_batches import parse_headers, stamp
from reference_impl.wire.record_timestamps import NO_TIMESTAMP, stamp_append_time, stamp_max_timestamp

_ACKS_ALL = -1


class Leadership:
    def __init__(
        self, replica: LocalReplica, state: PartitionState, live_brokers: Mapping[int, int], *, now_ms: float
    ) -> None:
        """Starts without knowing the other replicas' log ends; ISR members get the full lag time to fetch (R5)."""
        assert replica.broker_id in state.replicas, f"{state} has no replica of broker {replica.broker_id}"
        assert set(state.isr) <= set(state.replicas), f"{state}: the ISR has others than replicas"
        self.state = state
        self.live_brokers = live_brokers
        self.isr_tracker = IsrTracker(state.isr)
        self._replica = replica
        self._now_ms = now_ms
        self._remotes = {broker_id: RemoteReplica(broker_id=broker_id) for broker_id in self._others(state)}
        for remote in self._remotes.values():
            remote.last_caught_up_ms = now_ms if remote.broker_id in state.isr else NEVER_MS
        keep_to = replica.rules.lead_truncation(replica.log_end_offset, replica.high_watermark)
        if keep_to < replica.log_end_offset:
            replica.truncate(keep_to, epoch=state.leader_epoch, reason="high watermark on becoming leader")
        if not replica.rules.producers.inherits():
            replica.forget_producers()
        self._begin_epoch()
        self._raise_high_watermark()

    def continue_with(self, state: PartitionState, *, now_ms: float) -> None:
        """Takes a newer state while already leading: another ISR or assignment, or a new epoch with the same leader."""
        assert state.topic_partition == self.state.topic_partition
        assert state.leader == self.state.leader
        assert set(state.isr) <= set(state.replicas), f"{state}: the ISR has others than replicas"
        self._now_ms = max(self._now_ms, now_ms)
        known, self.state = self.state, state
        if (state.leader_epoch, state.partition_epoch) == (known.leader_epoch, known.partition_epoch):
            self.isr_tracker.heard_again()
            return
        if state.leader_epoch == known.leader_epoch:
            self._replica.evidence.isr_learned(
                state.topic_partition,
                epoch=state.leader_epoch,
                partition_epoch=state.partition_epoch,
                high_watermark=self._replica.high_watermark,
            )
        self.isr_tracker.committed(state.isr)
        self._remotes = {
            broker_id: self._remotes.get(broker_id) or RemoteReplica(broker_id=broker_id)
            for broker_id in self._others(state)
        }
        if state.leader_epoch > known.leader_epoch:
            self._end_epoch(known.leader_epoch)
            for remote in self._remotes.values():
                remote.leader_end_at_last_fetch = self._replica.log_end_offset
                since_ms = self._now_ms if remote.broker_id in state.isr else NEVER_MS
                remote.last_fetch_ms = remote.last_caught_up_ms = since_ms
            self._begin_epoch()
        self._raise_high_watermark()

    def end(self) -> None:
        self._end_epoch(self.state.leader_epoch)

    def _begin_epoch(self) -> None:
        """Writes the epoch entry before any append, so that no follower finds the epoch undefined (KAFKA-7415)."""
        self.leader_epoch_start_offset = self._replica.log_end_offset
        if self._replica.rules.notes_epoch():
            self._replica.log.leader_epochs.assign(self.state.leader_epoch, self.leader_epoch_start_offset)
        self._replica.evidence.leadership_started(
            self.state.topic_partition, epoch=self.state.leader_epoch, log_end_offset=self.leader_epoch_start_offset
        )

    def _end_epoch(self, epoch: int) -> None:
        self._replica.evidence.leadership_ended(
            self.state.topic_partition, epoch=epoch, log_end_offset=self._replica.log_end_offset
        )

    def _others(self, state: PartitionState) -> list[int]:
        return [broker_id for broker_id in state.replicas if broker_id != self._replica.broker_id]

    @property
    def isr_state(self) -> IsrState:
        return self.isr_tracker.state

    @property
    def _min_isr(self) -> int:
        return self._replica.rules.effective_min_isr(
            self._replica.settings.min_insync_replicas, len(self.state.replicas)
        )

    # Produce

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
        """R7. Every refusal precedes the first written byte, so it means "not appended by this attempt"."""
        self._now_ms = max(self._now_ms, now_ms)
        replica = self._replica
        if acks not in (_ACKS_ALL, 0, 1):
            return AppendResult(error=ErrorCode.INVALID_REQUIRED_ACKS)
        if acks == _ACKS_ALL and not replica.rules.admits_append(len(self.isr_state.isr), self._min_isr):
            return AppendResult(error=ErrorCode.NOT_ENOUGH_REPLICAS)
        error = refusal(batches, replica.settings.max_message_bytes, origin)
        if error is not ErrorCode.NONE:
            return AppendResult(error=error)
        header = parse_headers(batches)[0]
        times = replica.settings.timestamps
        looks_inside = replica.settings.looks_inside and origin is not Origin.COORDINATOR
        look = (look or look_at(batches)) if looks_inside else None
        if look is not None and look.unfit is not None:
            return AppendResult(error=refusal_inside(look.unfit))
        if look is not None and replica.settings.compaction is not None and not look.all_keyed:
            return AppendResult(error=ErrorCode.INVALID_RECORD)  # R84
        if is_refused(header, times, wall_clock_ms, look):
            return AppendResult(error=ErrorCode.INVALID_TIMESTAMP)
        checked = (
            replica.producers.check_epoch(header.producer_id, header.producer_epoch)
            if origin is Origin.COORDINATOR
            else replica.producers.check(header, begins_at_zero=origin is Origin.ADDED and header.is_transactional)
        )
        if isinstance(checked, CachedBatch):
            return self._appended(
                checked.base_offset,
                replica.rules.producers.repeated_waits_for(checked.last_offset + 1),
                checked.log_append_time_ms,
                duplicate=True,
            )
        if checked is not ErrorCode.NONE:
            return AppendResult(error=checked)
        append_time_ms = wall_clock_ms if times.is_log_append_time else NO_TIMESTAMP
        if times.is_log_append_time:
            stamp_append_time(batches, header, append_time_ms)
        elif look is not None and look.youngest != header.max_timestamp:
            stamp_max_timestamp(batches, header, look.youngest)
        return self._write(batches, append_time_ms)

    def append_marker(self, producer: Producer, marker: Marker, *, now_ms: float, wall_clock_ms: int) -> AppendResult:
        """R70. As with acks=all; a marker is never a duplicate: one that was appended already ends nothing."""
        self._now_ms = max(self._now_ms, now_ms)
        replica = self._replica
        error = replica.producers.check_marker(producer.producer_id, producer.producer_epoch, marker)
        if error is not ErrorCode.NONE:
            return AppendResult(error=error)
        if not replica.rules.admits_append(len(self.isr_state.isr), self._min_isr):
            return AppendResult(error=ErrorCode.NOT_ENOUGH_REPLICAS)
        batch = marker_batch(producer.producer_id, producer.producer_epoch, marker, wall_clock_ms)
        return self._write(batch, NO_TIMESTAMP)

    def _write(self, batch: bytearray, append_time_ms: int) -> AppendResult:
        base_offset = self._replica.log_end_offset
        stamp(batch, 0, base_offset, self.state.leader_epoch)
        self._replica.append(batch, parse_headers(batch))
        self._raise_high_watermark()
        return self._appended(base_offset, self._replica.log_end_offset, append_time_ms, duplicate=False)

    def _appended(
        self, base_offset: int, required_offset: int, log_append_time_ms: int, *, duplicate: bool
    ) -> AppendResult:
        return AppendResult(
            error=ErrorCode.NONE,
            base_offset=base_offset,
            required_offset=required_offset,
            leader_epoch=self.state.leader_epoch,
            log_start_offset=self._replica.log_start_offset,
            log_append_time_ms=log_append_time_ms,
            duplicate=duplicate,
        )

    def produce_outcome(self, required_offset: int) -> ErrorCode | None:
        """With strict min ISR, error 20 remains for one race only: the ISR shrinks after the high
        watermark has risen."""
        assert required_offset >= 0
        rules = self._replica.rules
        if not rules.acknowledges(required_offset, self._replica.high_watermark):
            return None
        if rules.raises_high_watermark(len(rules.isr_in_force(self.isr_state)), self._min_isr):
            return ErrorCode.NONE
        return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    # Reads

    def read_for_consumer(
        self, fetch_offset: int, *, max_bytes: int, last_fetched_epoch: int, read_committed: bool
    ) -> ReadResult:
        read = reading.read_committed if read_committed else reading.read
        end_offset = self.readable_end(read_committed=read_committed)
        return read(self._replica, fetch_offset, last_fetched_epoch, max_bytes=max_bytes, end_offset=end_offset)

    def readable_end(self, *, read_committed: bool) -> int:
        replica = self._replica
        if read_committed:
            return replica.rules.stable_end(replica.last_stable_offset, replica.high_watermark)
        return replica.rules.readable_end(replica.high_watermark, replica.log_end_offset)

    def check_follower(self, replica_id: int, broker_epoch: int, *, has_epoch: bool) -> ErrorCode:
        """R16. An unknown replica may belong to a newer assignment than this leader knows; an older incarnation of a
        broker must not act for the newer one (KIP-903)."""
        if replica_id not in self._remotes:
            return ErrorCode.UNKNOWN_LEADER_EPOCH if has_epoch else ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self._replica.rules.fences_incarnation(broker_epoch, self.live_brokers.get(replica_id, -1)):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE

    def read_for_follower(self, fetch_offset: int, *, last_fetched_epoch: int, max_bytes: int) -> ReadResult:
        end_offset = self._replica.log_end_offset
        return reading.read(self._replica, fetch_offset, last_fetched_epoch, max_bytes=max_bytes, end_offset=end_offset)

    def latest_offset(self, *, for_replica: bool, read_committed: bool = False) -> tuple[ErrorCode, int, int]:
        replica = self._replica
        epoch = replica.log.leader_epochs.latest_epoch
        if for_replica:
            return ErrorCode.NONE, replica.log_end_offset, epoch
        if not replica.rules.latest_is_known(replica.high_watermark, self.leader_epoch_start_offset):
            return ErrorCode.OFFSET_NOT_AVAILABLE, -1, UNDEFINED_EPOCH
        latest = replica.rules.latest(self.readable_end(read_committed=False), self.leader_epoch_start_offset)
        if read_committed:
            latest = min(latest, self.readable_end(read_committed=True))
        return ErrorCode.NONE, latest, epoch

    def earliest_offset(self) -> tuple[ErrorCode, int, int]:
        start_offset = self._replica.log_start_offset
        return ErrorCode.NONE, start_offset, reading.epoch_at(self._replica, start_offset)

    def batch_for_time(
        self, timestamp: int, *, for_replica: bool, read_committed: bool, from_offset: int = 0
    ) -> tuple[ErrorCode, bytes | None]:
        """A committed batch is returned at once; "no such batch" only once the committed end is known (KIP-207)."""
        error, end_offset, _ = self.latest_offset(for_replica=for_replica, read_committed=read_committed)
        replica = self._replica
        known_end = end_offset if error is ErrorCode.NONE else self.readable_end(read_committed=read_committed)
        found = replica.log.batch_at_or_after(timestamp, from_offset, known_end)
        return (ErrorCode.NONE, found) if found is not None else (error, None)

    def batch_of_max_timestamp(self, *, for_replica: bool, read_committed: bool) -> tuple[ErrorCode, bytes | None]:
        error, end_offset, _ = self.latest_offset(for_replica=for_replica, read_committed=read_committed)
        return error, None if error is not ErrorCode.NONE else self._replica.log.youngest_batch(end_offset)

    # The start of the log

    def delete_records(self, before_offset: int) -> tuple[ErrorCode, int]:
        """R78: the log starts at `before_offset`, or at the high watermark if that is -1; returns that offset, which
        the low watermark is to reach."""
        replica = self._replica
        if not replica.settings.deletes:
            return ErrorCode.POLICY_VIOLATION, UNKNOWN_OFFSET
        offset = replica.high_watermark if before_offset == UNKNOWN_OFFSET else before_offset
        if not 0 <= offset <= replica.rules.deletable_end(replica.high_watermark, replica.log_end_offset):
            return ErrorCode.OFFSET_OUT_OF_RANGE, UNKNOWN_OFFSET
        replica.advance_log_start(offset, "DeleteRecords")
        replica.evidence.records_deleted(self.state.topic_partition, epoch=self.state.leader_epoch, to_offset=offset)
        return ErrorCode.NONE, offset

    @property
    def low_watermark(self) -> int:
        """R78: below it no live replica has a record; -1 while it is not known of one of them."""
        live = (remote for remote in self._remotes.values() if remote.broker_id in self.live_brokers)
        return min([self._replica.log_start_offset, *(remote.log_start_offset for remote in live)])

    # Progress and ISR

    def follower_fetched(
        self, replica_id: int, broker_epoch: int, fetch_offset: int, *, log_start_offset: int, now_ms: float
    ) -> bool:
        """R18, R28 and R78; True if the high watermark, the ISR state or the replica's log start changed."""
        assert replica_id in self._remotes, f"broker {replica_id} has no replica"
        self._now_ms = max(self._now_ms, now_ms)
        remote = self._remotes[replica_id]
        remote.fetched(
            fetch_offset=fetch_offset,
            leader_end_offset=self._replica.log_end_offset,
            broker_epoch=broker_epoch,
            now_ms=self._now_ms,
        )
        starts_later, remote.log_start_offset = log_start_offset > remote.log_start_offset, log_start_offset
        expanding = self._maybe_expand(remote)
        return self._raise_high_watermark() or expanding or starts_later

    def check_shrink(self, *, now_ms: float) -> bool:
        self._now_ms = max(self._now_ms, now_ms)
        if not isinstance(self.isr_state, Committed):
            return False
        isr = self.isr_state.isr
        leaving = frozenset(broker_id for broker_id in isr if self._is_out_of_sync(broker_id))
        if not leaving:
            return False
        staying = tuple(broker_id for broker_id in isr if broker_id not in leaving)
        self.isr_tracker.propose(PendingShrink(isr=isr, leaving=leaving, proposal=self._proposal(staying)))
        self._raise_high_watermark()  # who leaves counts until the controller has answered (R27)
        return True

    def isr_answered(self, proposal: IsrProposal, error: ErrorCode, state: PartitionState | None) -> bool:
        """Returns True if the ISR state changed. A success that is older than the current state, or of an epoch that
        this leader does not know yet, changes nothing: a LeaderAndIsr request brings the rest."""
        if error is not ErrorCode.NONE or state is None:
            assert error is not ErrorCode.NONE, "a success says what was committed"
            return self.isr_tracker.refused(proposal, error)
        if not self.isr_tracker.is_pending(proposal) or state.leader_epoch != self.state.leader_epoch:
            return False
        self.state = state
        self.isr_tracker.committed(state.isr)
        if self._replica.rules.looks_again():
            self._raise_high_watermark()
        return True

    def _maybe_expand(self, remote: RemoteReplica) -> bool:
        assert remote.broker_id in self._remotes
        if not isinstance(self.isr_state, Committed) or remote.broker_id in self.isr_state.isr:
            return False
        candidate = Candidate(
            log_end_offset=remote.log_end_offset,
            high_watermark=self._replica.high_watermark,
            leader_epoch_start_offset=self.leader_epoch_start_offset,
            eligible=self._is_eligible(remote),
        )
        if not self._replica.rules.may_expand(candidate):
            return False
        isr = self.isr_state.isr
        proposal = self._proposal((*isr, remote.broker_id))
        self.isr_tracker.propose(PendingExpand(isr=isr, joining=remote.broker_id, proposal=proposal))
        self._replica.evidence.isr_expand_asked(
            self.state.topic_partition, epoch=self.state.leader_epoch, joining=remote.broker_id
        )
        return True

    def _proposal(self, members: tuple[int, ...]) -> IsrProposal:
        assert self._replica.broker_id in members
        assert len(set(members)) == len(members)
        return IsrProposal(
            topic_partition=self.state.topic_partition,
            leader_epoch=self.state.leader_epoch,
            partition_epoch=self.state.partition_epoch,
            isr=tuple((broker_id, self._fetched_broker_epoch(broker_id)) for broker_id in members),
        )

    def _fetched_broker_epoch(self, broker_id: int) -> int:
        """Returns the broker epoch of the incarnation that fetched (KIP-903). A member that has not fetched yet gets
        the epoch of its registration; the partition epoch fences that claim. -1: unknown."""
        assert broker_id in self.state.replicas
        remote = self._remotes.get(broker_id)
        if remote is not None and remote.broker_epoch >= 0:
            return remote.broker_epoch
        return self.live_brokers.get(broker_id, -1)

    def _is_eligible(self, remote: RemoteReplica) -> bool:
        """True if registered, not shutting down (KIP-841) and still the incarnation that fetched (-1: the fetch did not
        say)."""
        registered = self.live_brokers.get(remote.broker_id)
        return registered is not None and remote.broker_epoch in (-1, registered)

    def _is_out_of_sync(self, broker_id: int) -> bool:
        remote = self._remotes.get(broker_id)
        return remote is not None and self._replica.rules.must_shrink(
            remote.log_end_offset,
            self._replica.log_end_offset,
            self._now_ms - remote.last_caught_up_ms,
            self._replica.settings.replica_lag_time_max_ms,
        )

    def _raise_high_watermark(self) -> bool:
        """R12 and R13: a leader never lowers its high watermark, and freezes it below min ISR."""
        replica = self._replica
        in_force = replica.rules.isr_in_force(self.isr_state)
        if not replica.rules.raises_high_watermark(len(in_force), self._min_isr):
            return False
        views = [self._view(remote, in_force) for remote in self._remotes.values()]
        offset = replica.rules.high_watermark(replica.log_end_offset, views)
        if offset <= replica.high_watermark:
            return False
        replica.set_high_watermark(offset)
        return True

    def _view(self, remote: RemoteReplica, in_force: frozenset[int]) -> FollowerView:
        """R11: a follower as the rule of the high watermark sees it."""
        return FollowerView(
            log_end_offset=remote.log_end_offset,
            in_maximal_isr=remote.broker_id in in_force,
            in_committed_isr=remote.broker_id in self.isr_state.isr,
            caught_up=self._now_ms - remote.last_caught_up_ms <= self._replica.settings.replica_lag_time_max_ms,
            eligible=self._is_eligible(remote),
        )
