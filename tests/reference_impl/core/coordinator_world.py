"""A coordinator's clock and log, which the test moves: time passes, and records are replicated, when it says so."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from reference_impl.core.coordinator_log import LoadedBatch, Written
from reference_impl.core.identifiers import ErrorCode
from reference_impl.wire.control_records import Marker
from reference_impl.wire.key_values import KeyValue, Producer, StoredKeyValue
from reference_impl.wire.record_batches import NO_PRODUCER_ID


@dataclass
class Clock:
    passed_ms: float = 0
    began_ms: int = 1_700_000_000_000

    def now_ms(self) -> float:
        return self.passed_ms

    def wall_clock_ms(self) -> int:
        return self.began_ms + int(self.passed_ms)


@dataclass
class Log:
    """Replicates at once unless `holds` is set; with `refuses` nothing is appended."""

    batches: list[LoadedBatch] = field(default_factory=list)
    holds: bool = False
    refuses: ErrorCode = ErrorCode.NONE
    leader_epoch: int = 0
    waiting: deque[tuple[int, Callable[[Written], None]]] = field(default_factory=deque)

    @property
    def stored(self) -> list[StoredKeyValue]:
        return [record for batch in self.batches for record in batch.records]

    def append(
        self, records: Sequence[KeyValue], decided: Callable[[Written], None], producer: Producer | None = None
    ) -> Written:
        if self.refuses is not ErrorCode.NONE:
            return Written(error=self.refuses)
        first = len(self.stored)
        numbered = tuple(StoredKeyValue(first + number, *record) for number, record in enumerate(records))
        self.batches.append(LoadedBatch(numbered, NO_PRODUCER_ID if producer is None else producer.producer_id))
        self.waiting.append((first, decided))
        return Written(error=ErrorCode.NONE, offset=first)

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        self.batches.append(LoadedBatch((), producer_id, Marker(commit, 0)))

    def replicate(self) -> None:
        while self.waiting:
            first, decided = self.waiting.popleft()
            decided(Written(error=ErrorCode.NONE, offset=first))

    def lose(self, error: ErrorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER) -> None:
        """The term ends before the waiting records are replicated."""
        while self.waiting:
            first, decided = self.waiting.popleft()
            decided(Written(error=error, offset=first))
