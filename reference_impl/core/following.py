"""The follower part of a partition: it reconciles with the leader of one epoch, then copies the leader's log byte by
byte.

Rules R6, R14 and R20 to R24 of docs/replication.md.
"""

from reference_impl.core.identifiers import NO_LEADER, UNDEFINED_EPOCH, ErrorCode
from reference_impl.core.partition_data import Applied, FetchedPartition, FetchPosition
from reference_impl.core.replica import LocalReplica
from reference_impl.core.state import PartitionState
from reference_impl.wire.record_batches import BatchHeader, CorruptBatch, parse_headers, validate


class Following:
    def __init__(self, replica: LocalReplica, state: PartitionState, *, leader_before: int = NO_LEADER) -> None:
        """Starts following in a new leader epoch. Without a leader the log stays unchanged, but the replica exists
        (KAFKA-1647)."""
        assert state.leader != replica.broker_id
        assert state.leader_epoch >= 0
        self._replica = replica
        self._leader_epoch = state.leader_epoch
        self._failed = False
        self._reconciles = replica.rules.reconciles(state.leader, leader_before)
        self.refusal = ""  # why the last batches were refused; empty if they were accepted
        if state.leader == NO_LEADER:
            return
        keep_to = self._initial_fetch_offset()
        if keep_to < replica.log_end_offset:
            self._truncate(keep_to, "high watermark on becoming follower")

    def fetch_position(self) -> FetchPosition:
        """Returns the log end: the only offset to fetch from."""
        latest_epoch = self._replica.log.leader_epochs.latest_epoch if self._reconciles else UNDEFINED_EPOCH
        return FetchPosition(
            fetch_offset=self._replica.log_end_offset,
            last_fetched_epoch=self._replica.rules.fetch_epoch(latest_epoch),
            current_leader_epoch=self._leader_epoch,
        )

    def apply(self, position: FetchPosition, response: FetchedPartition) -> Applied:
        if self._failed:
            return Applied.FAILED
        rules = self._replica.rules
        if not rules.takes_answer(position, self.fetch_position()):
            return Applied.STALE  # sent before a truncation or in another epoch (KAFKA-18991)
        if response.error is not ErrorCode.NONE:
            return self._refused(response.error)
        if response.diverging is not None:
            if not rules.ignores_high_watermark():
                self._replica.set_high_watermark(response.high_watermark)
            self._reconcile(*response.diverging)
            return Applied.TRUNCATED
        self.refusal = ""
        applied = self._append(response.records) if response.records else Applied.NOTHING
        if applied in (Applied.APPENDED, Applied.NOTHING) and response.high_watermark >= 0:
            # may decrease: a new leader's high watermark can be lower
            self._replica.set_high_watermark(response.high_watermark)
            self._replica.advance_log_start(response.log_start_offset, "leader's log start")
        return applied

    def out_of_range(self, leader_log_start: int, leader_log_end: int) -> None:
        """R23: the log is cut only to a shorter log of the leader, and never deleted without comparing the log ends
        (KAFKA-7414)."""
        assert leader_log_start >= 0
        assert leader_log_end >= 0
        own_end = self._replica.log_end_offset
        goes_on_at = self._replica.rules.out_of_range(own_end, leader_log_start, leader_log_end)
        if goes_on_at < own_end:
            self._truncate(goes_on_at, "leader's log ends earlier")
        elif goes_on_at > own_end:
            self._replica.restart_at(
                goes_on_at, epoch=self._leader_epoch, reason="leader's log starts later than this one ends"
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
        """KIP-279, KIP-595: truncates to where the two histories certainly diverge; the next fetch shows whether that
        was enough."""
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
        """Appends batches unchanged: offsets, epochs and producer ids are the leader's, which has
        checked idempotence."""
        assert records
        try:
            headers = parse_headers(records)
            if self._replica.rules.storage.verifies_fetched():
                validate(records)
        except CorruptBatch as error:
            return self._refuse(str(error))  # damaged on the way or on the leader; never append it
        known = self._of_known_epochs(headers)
        if not known:
            newer = headers[0]
            return self._refuse(
                f"the batch at offset {newer.base_offset} is of leader epoch {newer.leader_epoch}, and the leader"
                f" leads in epoch {self._leader_epoch}"
            )
        headers = known
        expected = self._replica.log_end_offset
        for header in headers:
            if not self._replica.continues(header.base_offset, expected):
                if header.base_offset > expected and self._replica.settings.compaction is not None:
                    return self._refuse(
                        f"offset {expected} was compacted away, and this log is not marked as compacted"
                    )
                return self._fail()  # a retry cannot repair a gap or an overlap
            expected = header.next_offset
        last = headers[-1]
        self._replica.append(memoryview(records)[: last.position + last.length], headers)
        return Applied.APPENDED

    def _refuse(self, why: str) -> Applied:
        """Refuses for now, because the leader may send something else soon. `fetch_refusal` gives the reason."""
        self.refusal = why
        return Applied.RETRY_LATER

    def _of_known_epochs(self, headers: list[BatchHeader]) -> list[BatchHeader]:
        """Returns the batches before the first one of an epoch that this follower does not know yet: it must reconcile
        before it appends those (KAFKA-18723)."""
        for index, header in enumerate(headers):
            if self._replica.rules.refuses_epoch(header.leader_epoch, self._leader_epoch):
                return headers[:index]
        return headers

    def _initial_fetch_offset(self) -> int:
        replica = self._replica
        has_epochs = replica.log.leader_epochs.latest_epoch != UNDEFINED_EPOCH
        return replica.rules.follow_truncation(replica.log_end_offset, replica.high_watermark, has_epochs)

    def _truncate(self, offset: int, reason: str) -> None:
        self._replica.truncate(offset, epoch=self._leader_epoch, reason=reason)
