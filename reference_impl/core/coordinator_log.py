"""What a coordinator has of the world: its log and a clock; and appends with a limit to how long anybody waits.

Coordinators (of groups, of transactions) are synchronous; they live for one term of their partition's leader, read
their log, and append to it. Whoever waits for an append is told REQUEST_TIMED_OUT after a while. The record may be
replicated all the same: the coordinator learns of that later, so that what it tells is what its successor would find in
the log (docs/replication.md R65).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple, Protocol

from reference_impl.core.identifiers import UNKNOWN_OFFSET, ErrorCode
from reference_impl.wire.control_records import Marker, read_marker
from reference_impl.wire.key_values import KeyValue, Producer, StoredKeyValue, records_of
from reference_impl.wire.record_batches import NO_PRODUCER_ID, parse_headers


class Phase(Enum):
    LOADING = auto()
    ACTIVE = auto()
    ENDED = auto()
    FAILED = auto()  # the log could not be read

    @property
    def error(self) -> ErrorCode:
        """Why nobody of this partition is served now."""
        return _WHY_NOT_SERVED[self]


_WHY_NOT_SERVED: Mapping[Phase, ErrorCode] = {
    Phase.LOADING: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    Phase.ACTIVE: ErrorCode.NONE,
    Phase.ENDED: ErrorCode.NOT_COORDINATOR,
    Phase.FAILED: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}


@dataclass(frozen=True, kw_only=True)
class Written:
    """What became of an append. `offset` is the first record's; with an error it may be in the log all the same."""

    error: ErrorCode
    offset: int = UNKNOWN_OFFSET


class CoordinatorLog(Protocol):
    """The coordinator's partition of its topic."""

    @property
    def leader_epoch(self) -> int:
        """Of the term."""
        ...

    def append(
        self, records: Sequence[KeyValue], decided: Callable[[Written], None], producer: Producer | None = None
    ) -> Written:
        """Appends as one batch, into the producer's transaction if there is one. An error: nothing was appended, and
        `decided` is not called. Else it is called once, later, in the order of the appends: without error when the high
        watermark passed the records, however long that takes; with one when the leader's term ends before."""
        ...


class CoordinatorClock(Protocol):
    def now_ms(self) -> float:
        """Monotonic; for time-outs."""
        ...

    def wall_clock_ms(self) -> int:
        """For what is stored, and retention."""
        ...


class LoadedBatch(NamedTuple):
    """A batch of a coordinator's log; `producer_id` says in whose transaction it stands, or whose the marker ends."""

    records: Sequence[StoredKeyValue]
    producer_id: int = NO_PRODUCER_ID
    marker: Marker | None = None


def loaded_batches(content: bytes) -> Iterator[LoadedBatch]:
    """Raises UnreadableRecords."""
    for header in parse_headers(content):
        producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
        if header.is_control:
            marker = read_marker(content[header.position : header.end_position])
            yield LoadedBatch((), producer_id, marker)
        else:
            yield LoadedBatch(tuple(records_of(content, header)), producer_id)


@dataclass(kw_only=True, eq=False)
class _Waiting:
    answered: Callable[[ErrorCode], None]
    until_ms: float


class Writes:
    def __init__(self, log: CoordinatorLog, clock: CoordinatorClock, *, timeout_ms: int) -> None:
        self._log = log
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._waiting: dict[_Waiting, None] = {}  # in order of their deadlines

    def append(
        self,
        records: Sequence[KeyValue],
        *,
        committed: Callable[[int], None] = lambda offset: None,
        ended: Callable[[], None] = lambda: None,
        answered: Callable[[ErrorCode], None] = lambda error: None,
        producer: Producer | None = None,
    ) -> Written:
        """`committed` is called with the first record's offset when all are replicated, be it late; `ended` in any
        case, after it; `answered` once, in time. With an error in the result nothing was appended, and `answered` has
        been called."""
        waiting = _Waiting(answered=answered, until_ms=self._clock.now_ms() + self._timeout_ms)

        def decided(written: Written) -> None:
            if written.error is ErrorCode.NONE:
                committed(written.offset)
            ended()
            self._answer(waiting, written.error)

        self._waiting[waiting] = None
        appended = self._log.append(records, decided, producer)
        if appended.error is not ErrorCode.NONE:
            decided(appended)
        return appended

    def tick(self) -> None:
        now_ms = self._clock.now_ms()
        for waiting in [each for each in self._waiting if now_ms >= each.until_ms]:
            self._answer(waiting, ErrorCode.REQUEST_TIMED_OUT)

    def _answer(self, waiting: _Waiting, error: ErrorCode) -> None:
        if waiting in self._waiting:
            del self._waiting[waiting]
            waiting.answered(error)


def write_error(error: ErrorCode) -> ErrorCode:
    """What a client is told when its record could not be stored, or is not known to be. COORDINATOR_NOT_AVAILABLE and
    NOT_COORDINATOR leave open whether it is there."""
    return {
        ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    }.get(error, error)


def load_from_log_start(log_start_offset: int, active_segment_offset: int) -> int:
    """R63, R76: a new coordinator reads its partition from the beginning."""
    assert log_start_offset <= active_segment_offset
    return log_start_offset
