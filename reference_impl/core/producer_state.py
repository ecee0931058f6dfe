"""What a replica remembers of idempotent producers, so that a repeated batch is recognised and a gap is refused (1.12).

Built from the batches of the log: leaders check against it, followers only keep it up to date, and after a truncation
it is built anew, so that a batch that was cut is not called a duplicate later (flaws.md M64). Batches that retention
deleted were not cut: what is known of them stays known as long as the broker runs.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from reference_impl.core.identifiers import ErrorCode
from reference_impl.wire.record_batches import NO_PRODUCER_ID, BatchHeader

CACHED_BATCHES = 5  # as many as a producer may have in flight (KAFKA-5494)
_SEQUENCES = 2**31


@dataclass(frozen=True, kw_only=True)
class CachedBatch:
    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    log_append_time_ms: int = -1  # what its producer was told; -1: the topic keeps the producers' times


@dataclass(kw_only=True)
class _Producer:
    epoch: int
    batches: deque[CachedBatch] = field(default_factory=lambda: deque(maxlen=CACHED_BATCHES))


def last_sequence(header: BatchHeader) -> int:
    """Sequences wrap to 0 after 2^31 - 1."""
    return (header.base_sequence + header.last_offset_delta) % _SEQUENCES


class ProducerStates:
    def __init__(self) -> None:
        self._producers: dict[int, _Producer] = {}

    def check(self, header: BatchHeader) -> CachedBatch | ErrorCode:
        """What a leader does with a batch: append it (NONE), refuse it, or answer the earlier copy of it."""
        if header.producer_id == NO_PRODUCER_ID:
            return ErrorCode.NONE
        known = self._producers.get(header.producer_id)
        if known is None:
            return ErrorCode.NONE  # new here, or forgotten: any sequence (KIP-360)
        if header.producer_epoch < known.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if header.producer_epoch > known.epoch:
            return ErrorCode.NONE if header.base_sequence == 0 else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        sequences = (header.base_sequence, last_sequence(header))
        for batch in known.batches:
            if (batch.first_sequence, batch.last_sequence) == sequences:
                return batch
        if header.base_sequence != (known.batches[-1].last_sequence + 1) % _SEQUENCES:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        return ErrorCode.NONE

    def update(self, header: BatchHeader) -> None:
        """Takes an appended batch, its offsets final. Followers do not check: the leader did."""
        if header.producer_id == NO_PRODUCER_ID or header.is_control:
            return
        known = self._producers.get(header.producer_id)
        if known is None or known.epoch != header.producer_epoch:
            known = self._producers[header.producer_id] = _Producer(epoch=header.producer_epoch)
        known.batches.append(
            CachedBatch(
                first_sequence=header.base_sequence,
                last_sequence=last_sequence(header),
                base_offset=header.base_offset,
                last_offset=header.last_offset,
                log_append_time_ms=header.max_timestamp if header.has_log_append_time else -1,
            )
        )

    def rebuild(self, headers: Iterable[BatchHeader], *, log_start_offset: int = 0) -> None:
        kept: dict[int, _Producer] = {}
        for producer_id, known in self._producers.items():
            before_start = [batch for batch in known.batches if batch.last_offset < log_start_offset]
            if before_start:
                kept[producer_id] = _Producer(epoch=known.epoch, batches=deque(before_start, maxlen=CACHED_BATCHES))
        self._producers = kept
        remembered = frozenset(kept)
        for header in headers:
            if header.last_offset >= log_start_offset or header.producer_id not in remembered:
                self.update(header)
