"""The follower's part of a partition: reconcile with the leader of one epoch, then copy its log byte by byte (1.7)."""

from reference_impl.core.identifiers import NO_LEADER, UNDEFINED_EPOCH, ErrorCode
from reference_impl.core.partition_data import Applied, FetchedPartition, FetchPosition
from reference_impl.core.replica import LocalReplica
from reference_impl.core.state import PartitionState
from reference_impl.wire.record_batches import BatchHeader, CorruptBatch, parse_headers, validate


class Following:
    def __init__(self, replica: LocalReplica, state: PartitionState) -> None:
        """A new leader epoch. With nobody to follow the log stays as it is, but the replica exists (KAFKA-1647)."""
        self._replica = replica
        self._leader_epoch = state.leader_epoch
        self._failed = False
        if state.leader == NO_LEADER:
            return
        keep_to = self._initial_fetch_offset()
        if keep_to < replica.log_end_offset:
            self._truncate(keep_to, "high watermark on becoming follower")

    def fetch_position(self) -> FetchPosition:
        """The log end is the only place to fetch from: what is not appended was never fetched."""
        return FetchPosition(
            fetch_offset=self._replica.log_end_offset,
            last_fetched_epoch=self._replica.rules.fetch_epoch(self._replica.log.leader_epochs.latest_epoch),
            current_leader_epoch=self._leader_epoch,
        )

    def apply(self, position: FetchPosition, response: FetchedPartition) -> Applied:
        if self._failed:
            return Applied.FAILED
        if position != self.fetch_position():
            return Applied.STALE  # asked before a truncation or in another epoch (KAFKA-18991)
        if response.error is not ErrorCode.NONE:
            return self._refused(response.error)
        if response.diverging is not None:
            self._reconcile(*response.diverging)
            return Applied.TRUNCATED  # and no high watermark from this answer (KAFKA-14704)
        applied = self._append(response.records) if response.records else Applied.NOTHING
        if applied in (Applied.APPENDED, Applied.NOTHING) and response.high_watermark >= 0:
            self._replica.set_high_watermark(response.high_watermark)  # may go down: a new leader's can be lower
            self._replica.advance_log_start(response.log_start_offset, "leader's log start")
        return applied

    def out_of_range(self, leader_log_start: int, leader_log_end: int) -> None:
        """1.7: the shorter log wins only if it is the leader's; never wiped without comparing the ends (M16)."""
        own_end = self._replica.log_end_offset
        if leader_log_end < own_end:
            self._truncate(leader_log_end, "leader's log ends earlier")
        elif leader_log_start > own_end:
            self._replica.restart_at(
                leader_log_start, epoch=self._leader_epoch, reason="leader's log starts later than this one ends"
            )

    def _refused(self, error: ErrorCode) -> Applied:
        if error is ErrorCode.OFFSET_OUT_OF_RANGE:
            return Applied.OUT_OF_RANGE
        if error is ErrorCode.FENCED_LEADER_EPOCH:
            return self._fail()
        return Applied.RETRY_LATER

    def _fail(self) -> Applied:
        self._failed = True
        return Applied.FAILED

    def _reconcile(self, epoch: int, leader_end: int) -> None:
        """KIP-279, KIP-595: cut to where the two histories surely part; the next fetch tells whether that is all."""
        own_end = self._replica.log_end_offset
        own_epoch, epoch_end = self._replica.log.leader_epochs.end_offset_for(epoch, own_end)
        if own_epoch == UNDEFINED_EPOCH:
            keep_to = min(self._initial_fetch_offset(), self._replica.high_watermark)
        elif own_epoch != epoch:
            keep_to = min(epoch_end, own_end)
        else:
            keep_to = min(epoch_end, leader_end, own_end)
        self._truncate(keep_to, f"diverged: the leader's epoch {epoch} ends at {leader_end}")

    def _append(self, records: bytes) -> Applied:
        """Verbatim: offsets, epochs and producers are the leader's; idempotence was checked by it."""
        try:
            headers = parse_headers(records)
            validate(records)
        except CorruptBatch:
            return Applied.RETRY_LATER  # damaged on the way or at the leader; never into this log
        headers = self._of_known_epochs(headers)
        if not headers:
            return Applied.NOTHING
        expected = self._replica.log_end_offset
        if headers[0].base_offset != expected:
            return self._fail()  # a gap or an overlap cannot be repaired by trying again
        for header in headers:
            if header.base_offset < expected:
                return self._fail()
            expected = header.next_offset
        last = headers[-1]
        self._replica.append(memoryview(records)[: last.position + last.length], headers)
        return Applied.APPENDED

    def _of_known_epochs(self, headers: list[BatchHeader]) -> list[BatchHeader]:
        """The batches up to the first of an epoch this follower has not been told of: it must reconcile before it
        takes those (KAFKA-18723)."""
        for index, header in enumerate(headers):
            if header.leader_epoch > self._leader_epoch:
                return headers[:index]
        return headers

    def _initial_fetch_offset(self) -> int:
        replica = self._replica
        has_epochs = replica.log.leader_epochs.latest_epoch != UNDEFINED_EPOCH
        return replica.rules.follow_truncation(replica.log_end_offset, replica.high_watermark, has_epochs)

    def _truncate(self, offset: int, reason: str) -> None:
        self._replica.truncate(offset, epoch=self._leader_epoch, reason=reason)
