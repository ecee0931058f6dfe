"""A coordinator's log: its partition of a coordinators' topic, during one term of the partition's leader.

Implements core.coordinator_log.CoordinatorLog. Records are appended like a producer's with acks=all: refused below
min.insync.replicas, decided when the high watermark passes them.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from reference_impl.core.coordinator_log import CoordinatorClock, Written
from reference_impl.core.identifiers import ErrorCode
from reference_impl.core.partition import Partition
from reference_impl.core.partition_data import AppendResult, Origin
from reference_impl.wire.control_records import Marker
from reference_impl.wire.key_values import KeyValue, Producer, key_value_batch

ACKS_ALL = -1


class _Waiting(NamedTuple):
    required_offset: int
    offset: int
    decided: Callable[[Written], None]


class PartitionTermLog:
    def __init__(self, partition: Partition, clock: CoordinatorClock) -> None:
        self.leader_epoch = partition.leader_epoch
        self._partition = partition
        self._clock = clock
        self._waiting: deque[_Waiting] = deque()  # in the order of the log

    def append(
        self, records: Sequence[KeyValue], decided: Callable[[Written], None], producer: Producer | None = None
    ) -> Written:
        if self._partition.leader_epoch != self.leader_epoch:
            return Written(error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        wall_clock_ms = self._clock.wall_clock_ms()
        result = self._partition.append(
            key_value_batch(records, wall_clock_ms, producer),
            acks=ACKS_ALL,
            now_ms=self._clock.now_ms(),
            wall_clock_ms=wall_clock_ms,
            origin=Origin.COORDINATOR,
        )
        return self._awaiting(result, decided)

    def append_marker(self, producer: Producer, marker: Marker, decided: Callable[[Written], None]) -> Written:
        """The same for the end of a transaction, as another coordinator tells it."""
        if self._partition.leader_epoch != self.leader_epoch:
            return Written(error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        result = self._partition.append_marker(
            producer, marker, now_ms=self._clock.now_ms(), wall_clock_ms=self._clock.wall_clock_ms()
        )
        return self._awaiting(result, decided)

    def _awaiting(self, result: AppendResult, decided: Callable[[Written], None]) -> Written:
        if result.error is not ErrorCode.NONE:
            return Written(error=result.error)
        self._waiting.append(_Waiting(result.required_offset, result.base_offset, decided))
        return Written(error=ErrorCode.NONE, offset=result.base_offset)

    def progressed(self) -> None:
        """Decides what can be decided now."""
        while self._waiting:
            first = self._waiting[0]
            outcome = self._partition.produce_outcome(first.required_offset, self.leader_epoch)
            if outcome is None:
                return
            self._waiting.popleft()
            if outcome is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
                outcome = ErrorCode.NONE  # it is below the high watermark, and that is what was promised
            first.decided(Written(error=outcome, offset=first.offset))
