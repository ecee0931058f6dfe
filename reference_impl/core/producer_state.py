"""A replica's state of producers: it detects repeated batches and refuses gaps in their sequence numbers, and knows of
each whether a transaction of it is open.

The state is built from the batches of the log. Leaders check against it, followers only keep it up to date, and a
truncation rebuilds it, so that a removed batch is not called a duplicate later (docs/replication.md R45 to R47, R68).
Batches deleted by retention still count: their state survives restarts in the log's snapshots, until the producer was
inactive for producer.id.expiration.ms.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from reference_impl.core.identifiers import UNKNOWN_OFFSET, ErrorCode
from reference_impl.core.log_transactions import AbortedTransaction, LogTransactions
from reference_impl.core.producer_rules import ProducerRules
from reference_impl.wire.control_records import Marker
from reference_impl.wire.key_values import Producer
from reference_impl.wire.record_batches import NO_PRODUCER_ID, BatchHeader

CACHED_BATCHES = 5  # the most that a producer may have in flight (KAFKA-5494)
NO_COORDINATOR = -1  # epoch of the coordinator that wrote a producer's last marker: it has none
_SEQUENCES = 2**31
_SOUND = ProducerRules()


@dataclass(frozen=True, kw_only=True)
class CachedBatch:
    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    log_append_time_ms: int = -1  # the append time in the producer's answer; -1: the topic keeps the producers' times


_NO_BATCH = CachedBatch(first_sequence=-1, last_sequence=-1, base_offset=UNKNOWN_OFFSET, last_offset=UNKNOWN_OFFSET)
Taken = tuple[BatchHeader, Marker | None]  # a batch of the log, and the marker in it


class ProducerEntry(NamedTuple):
    """The last batch of a producer and its transaction: the part of the state that outlives the batches themselves. A
    producer of which only a marker is known has no batch."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int = NO_COORDINATOR
    transaction_offset: int = UNKNOWN_OFFSET  # where its open transaction begins


@dataclass(kw_only=True)
class _Producer:
    epoch: int
    last_timestamp: int = -1  # the records' own timestamp, as in Kafka, so that all replicas expire a producer alike
    batches: deque[CachedBatch] = field(default_factory=lambda: deque(maxlen=CACHED_BATCHES))
    coordinator_epoch: int = NO_COORDINATOR
    marker_offset: int = UNKNOWN_OFFSET  # of its last marker


def last_sequence(header: BatchHeader) -> int:
    """Computes a batch's last sequence number; sequences wrap to 0 after 2^31 - 1."""
    assert header.base_sequence >= 0
    assert header.last_offset_delta >= 0
    return (header.base_sequence + header.last_offset_delta) % _SEQUENCES


class ProducerStates:
    def __init__(self, rules: ProducerRules = _SOUND) -> None:
        self.transactions = LogTransactions()
        self._rules = rules
        self._producers: dict[int, _Producer] = {}
        self._guards: dict[int, set[int]] = {}  # of producers whose transactions are being verified
        self._guards_given = 0

    # Verification of transactions

    def begin_verification(self, producer_id: int) -> int:
        """R86. The guard is good until the producer's next batch or marker, and for one answer."""
        self._guards_given += 1
        self._guards.setdefault(producer_id, set()).add(self._guards_given)
        return self._guards_given

    def end_verification(self, producer: Producer, guard: int, *, is_refused: bool) -> bool:
        """Whether it may append: the coordinator did not refuse it, and no marker came since it was asked."""
        guards = self._guards.get(producer.producer_id, set())
        is_good = guard in guards
        guards.discard(guard)
        if not guards:
            self._guards.pop(producer.producer_id, None)
        return not is_refused and (is_good or self.has_open(producer))

    def has_open(self, producer: Producer) -> bool:
        """Whether a transaction is open that this epoch of the producer began."""
        known = self._producers.get(producer.producer_id)
        is_open = self.transactions.first_offset(producer.producer_id) != UNKNOWN_OFFSET
        return is_open and known is not None and known.epoch == producer.producer_epoch

    # Batches

    def check(self, header: BatchHeader, *, begins_at_zero: bool = False) -> CachedBatch | ErrorCode:
        """Decides what a leader does with a batch: append it (NONE), refuse it, or answer as for its earlier copy.
        `begins_at_zero`: each transaction has an epoch, so that an unknown producer's first sequence is 0 (R88)."""
        if header.producer_id == NO_PRODUCER_ID:
            return ErrorCode.NONE
        known = self._producers.get(header.producer_id)
        if known is None:
            is_gap = begins_at_zero and header.base_sequence != 0
            # Otherwise it is unknown or expired, and any sequence is accepted (KIP-360).
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER if is_gap else ErrorCode.NONE
        if self._rules.fences_producer(header.producer_epoch, known.epoch):
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if header.producer_epoch < known.epoch:
            return ErrorCode.NONE  # it has no place in the sequence
        batches = known.batches if header.producer_epoch == known.epoch else ()  # a new epoch begins at 0
        sequences = (header.base_sequence, last_sequence(header))
        for number, batch in enumerate(reversed(batches)):
            is_repeated = (batch.first_sequence, batch.last_sequence) == sequences
            if is_repeated and self._rules.looks_for_repeated(number):
                return batch
        expected = (batches[-1].last_sequence + 1) % _SEQUENCES if batches else 0
        if not self._rules.follows(header.base_sequence, expected):
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        is_open = self.transactions.first_offset(header.producer_id) != UNKNOWN_OFFSET
        return ErrorCode.INVALID_TXN_STATE if is_open and not header.is_transactional else ErrorCode.NONE

    def check_epoch(self, producer_id: int, producer_epoch: int) -> ErrorCode:
        """Of what a coordinator writes for a producer, the epoch alone is checked: it has no sequence."""
        known = self._producers.get(producer_id)
        is_old = known is not None and self._rules.fences_producer(producer_epoch, known.epoch)
        return ErrorCode.INVALID_PRODUCER_EPOCH if is_old else ErrorCode.NONE

    def check_marker(self, producer_id: int, producer_epoch: int, marker: Marker) -> ErrorCode:
        """R70: neither a producer nor a coordinator that has a successor ends a transaction."""
        known = self._producers.get(producer_id)
        if known is not None and self._rules.fences_coordinator(marker.coordinator_epoch, known.coordinator_epoch):
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        return self.check_epoch(producer_id, producer_epoch)

    def update(self, header: BatchHeader, marker: Marker | None = None) -> AbortedTransaction | None:
        """Takes an appended batch with its final offsets; of a control batch, the marker in it. Followers do not check:
        the leader did. Returns the transaction that a marker aborted."""
        if header.producer_id == NO_PRODUCER_ID or (header.is_control and marker is None):
            return None
        known = self._producers.get(header.producer_id)
        if known is None or known.epoch != header.producer_epoch:
            coordinator_epoch = NO_COORDINATOR if known is None else known.coordinator_epoch
            known = _Producer(epoch=header.producer_epoch, coordinator_epoch=coordinator_epoch)
            self._producers[header.producer_id] = known
        known.last_timestamp = header.max_timestamp
        self._guards.pop(header.producer_id, None)
        if marker is not None:
            known.coordinator_epoch, known.marker_offset = marker.coordinator_epoch, header.last_offset
            return self.transactions.ended(header.producer_id, header.last_offset, is_commit=marker.is_commit)
        if header.is_transactional:
            self.transactions.begun(header.producer_id, header.base_offset)
        known.batches.append(
            CachedBatch(
                first_sequence=header.base_sequence,
                last_sequence=last_sequence(header),
                base_offset=header.base_offset,
                last_offset=header.last_offset,
                log_append_time_ms=header.max_timestamp if header.has_log_append_time else -1,
            )
        )
        return None

    def rebuild(self, batches: Iterable[Taken], *, log_start_offset: int = 0) -> None:
        """Keeps what is known of batches before `log_start_offset`, and takes these batches anew."""
        assert log_start_offset >= 0
        kept: dict[int, _Producer] = {}
        still_open: dict[int, int] = {}
        for producer_id, known in self._producers.items():
            before_start = [batch for batch in known.batches if batch.last_offset < log_start_offset]
            if before_start or (not known.batches and known.marker_offset < log_start_offset):
                kept[producer_id] = replace(known, batches=deque(before_start, maxlen=CACHED_BATCHES))
                if UNKNOWN_OFFSET < self.transactions.first_offset(producer_id) < log_start_offset:
                    still_open[producer_id] = self.transactions.first_offset(producer_id)
        self._producers = kept
        self.transactions.restart(still_open)
        self._guards.clear()
        remembered = frozenset(kept)
        for header, marker in batches:
            if header.last_offset >= log_start_offset or header.producer_id not in remembered:
                self.update(header, marker)

    def expire(self, *, wall_clock_ms: float, after_ms: int) -> int:
        """Forgets producers whose last records are older than the limit, but none with an open transaction; returns
        their number. A producer that returns counts as new: its next sequence is accepted, whatever it is (KIP-360)."""
        assert after_ms >= 0
        gone = [
            producer_id
            for producer_id, known in self._producers.items()
            if self._rules.is_idle(wall_clock_ms - known.last_timestamp, after_ms)
            and self.transactions.first_offset(producer_id) == UNKNOWN_OFFSET
        ]
        for producer_id in gone:
            del self._producers[producer_id]
        return len(gone)

    # Snapshots

    @property
    def entries(self) -> list[ProducerEntry]:
        return [self._entry(producer_id, known) for producer_id, known in self._producers.items()]

    def _entry(self, producer_id: int, known: _Producer) -> ProducerEntry:
        last = known.batches[-1] if known.batches else _NO_BATCH
        return ProducerEntry(
            producer_id=producer_id,
            epoch=known.epoch,
            last_sequence=last.last_sequence,
            last_offset=last.last_offset,
            offset_delta=last.last_offset - last.base_offset,
            timestamp=known.last_timestamp,
            coordinator_epoch=known.coordinator_epoch,
            transaction_offset=self.transactions.first_offset(producer_id),
        )

    def restore(self, entries: Iterable[ProducerEntry]) -> None:
        """Loads saved state; call it before any batch is taken."""
        assert not self._producers, "batches were taken already"
        still_open: dict[int, int] = {}
        for entry in entries:
            batch = CachedBatch(
                first_sequence=(entry.last_sequence - entry.offset_delta) % _SEQUENCES,
                last_sequence=entry.last_sequence,
                base_offset=entry.last_offset - entry.offset_delta,
                last_offset=entry.last_offset,
            )
            self._producers[entry.producer_id] = _Producer(
                epoch=entry.epoch,
                last_timestamp=entry.timestamp,
                batches=deque([batch] if entry.last_offset != UNKNOWN_OFFSET else [], maxlen=CACHED_BATCHES),
                coordinator_epoch=entry.coordinator_epoch,
            )
            if entry.transaction_offset != UNKNOWN_OFFSET:
                still_open[entry.producer_id] = entry.transaction_offset
        self.transactions.restart(still_open)
