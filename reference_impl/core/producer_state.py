"""A replica's state of idempotent producers: it detects repeated batches and refuses gaps in their sequence numbers.

The state is built from the batches of the log. Leaders check against it, followers only keep it up to date, and a
truncation rebuilds it, so that a removed batch is not called a duplicate later (docs/replication.md R45 to R47).
Batches deleted by retention still count: their state survives restarts in the log's snapshots, until the producer was
inactive for producer.id.expiration.ms.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from reference_impl.core.identifiers import ErrorCode
from reference_impl.wire.record_batches import NO_PRODUCER_ID, BatchHeader

CACHED_BATCHES = 5  # the most that a producer may have in flight (KAFKA-5494)
_SEQUENCES = 2**31


@dataclass(frozen=True, kw_only=True)
class CachedBatch:
    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    log_append_time_ms: int = -1  # the append time in the producer's answer; -1: the topic keeps the producers' times


class ProducerEntry(NamedTuple):
    """The last batch of a producer: the part of the state that outlives the batches themselves."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int


@dataclass(kw_only=True)
class _Producer:
    epoch: int
    last_timestamp: int = -1  # the records' own timestamp, as in Kafka, so that all replicas expire a producer alike
    batches: deque[CachedBatch] = field(default_factory=lambda: deque(maxlen=CACHED_BATCHES))


def last_sequence(header: BatchHeader) -> int:
    """Computes a batch's last sequence number; sequences wrap to 0 after 2^31 - 1."""
    assert header.base_sequence >= 0
    assert header.last_offset_delta >= 0
    return (header.base_sequence + header.last_offset_delta) % _SEQUENCES


class ProducerStates:
    def __init__(self) -> None:
        self._producers: dict[int, _Producer] = {}

    def check(self, header: BatchHeader) -> CachedBatch | ErrorCode:
        """Decides what a leader does with a batch: append it (NONE), refuse it, or answer as for its earlier copy."""
        if header.producer_id == NO_PRODUCER_ID:
            return ErrorCode.NONE
        known = self._producers.get(header.producer_id)
        if known is None:
            return ErrorCode.NONE  # unknown or expired producer: any sequence is accepted (KIP-360)
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
        """Takes an appended batch with its final offsets. Followers do not check: the leader did."""
        if header.producer_id == NO_PRODUCER_ID or header.is_control:
            return
        known = self._producers.get(header.producer_id)
        if known is None or known.epoch != header.producer_epoch:
            known = self._producers[header.producer_id] = _Producer(epoch=header.producer_epoch)
        known.last_timestamp = header.max_timestamp
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
        assert log_start_offset >= 0
        kept: dict[int, _Producer] = {}
        for producer_id, known in self._producers.items():
            before_start = [batch for batch in known.batches if batch.last_offset < log_start_offset]
            if before_start:
                kept[producer_id] = _Producer(
                    epoch=known.epoch,
                    last_timestamp=known.last_timestamp,
                    batches=deque(before_start, maxlen=CACHED_BATCHES),
                )
        self._producers = kept
        remembered = frozenset(kept)
        for header in headers:
            if header.last_offset >= log_start_offset or header.producer_id not in remembered:
                self.update(header)

    def expire(self, *, wall_clock_ms: float, after_ms: int) -> int:
        """Forgets producers whose last records are older than the limit; returns their number. A producer that returns
        counts as new: its next sequence is accepted, whatever it is (KIP-360)."""
        assert after_ms >= 0
        gone = [key for key, known in self._producers.items() if wall_clock_ms - known.last_timestamp > after_ms]
        for producer_id in gone:
            del self._producers[producer_id]
        return len(gone)

    # Snapshots

    @property
    def entries(self) -> list[ProducerEntry]:
        return [
            ProducerEntry(
                producer_id,
                known.epoch,
                known.batches[-1].last_sequence,
                known.batches[-1].last_offset,
                known.batches[-1].last_offset - known.batches[-1].base_offset,
                known.last_timestamp,
            )
            for producer_id, known in self._producers.items()
        ]

    def restore(self, entries: Iterable[ProducerEntry]) -> None:
        """Loads saved state; call it before any batch is taken."""
        assert not self._producers, "batches were taken already"
        for entry in entries:
            batch = CachedBatch(
                first_sequence=(entry.last_sequence - entry.offset_delta) % _SEQUENCES,
                last_sequence=entry.last_sequence,
                base_offset=entry.last_offset - entry.offset_delta,
                last_offset=entry.last_offset,
            )
            self._producers[entry.producer_id] = _Producer(
                epoch=entry.epoch, last_timestamp=entry.timestamp, batches=deque([batch], maxlen=CACHED_BATCHES)
            )
