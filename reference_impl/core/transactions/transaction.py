"""One transactional id: its producer, the state of its transaction, and the states that may follow.

    Empty -> Ongoing -> PrepareCommit -> CompleteCommit
                     -> PrepareAbort  -> CompleteAbort     and from both Complete states back to Ongoing or Empty

A value of this class never changes: the coordinator replaces it when the record of the next one is replicated.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum

from reference_impl.core.identifiers import TopicPartition
from reference_impl.wire.key_values import KeyValue, Producer
from reference_impl.wire.record_fields import UnreadableRecord
from reference_impl.wire.transaction_records import NO_PRODUCER_ID, StoredTransaction, transaction_record

NO_EPOCH = -1
EPOCH_OF_EACH = 2  # the transaction.version since which each transaction has an epoch of its own (KIP-890)
LAST_EPOCH = 2**15 - 2  # the one above is left for fencing; then the producer gets another id
NO_TIME_MS = -1


class TransactionState(Enum):
    """The names are those of DescribeTransactions and ListTransactions; the numbers those of the log."""

    EMPTY = 0, "Empty"
    ONGOING = 1, "Ongoing"
    PREPARE_COMMIT = 2, "PrepareCommit"
    PREPARE_ABORT = 3, "PrepareAbort"
    COMPLETE_COMMIT = 4, "CompleteCommit"
    COMPLETE_ABORT = 5, "CompleteAbort"

    @property
    def number(self) -> int:
        return self.value[0]

    @property
    def label(self) -> str:
        return self.value[1]

    @property
    def is_prepared(self) -> bool:
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def has_ended(self) -> bool:
        """Whether nothing of a transaction is left to be done."""
        return self in (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


_BY_NUMBER = {state.number: state for state in TransactionState}


@dataclass(frozen=True, kw_only=True)
class Transaction:
    transactional_id: str
    producer_id: int
    epoch: int = NO_EPOCH
    last: Producer | None = None  # the id and epoch before, if the producer itself asked for the next (KIP-360)
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    updated_ms: int = NO_TIME_MS
    started_ms: int = NO_TIME_MS
    previous_id: int = NO_PRODUCER_ID  # whose epochs the last transaction used up
    next_id: int = NO_PRODUCER_ID  # who goes on when this one has ended
    client_version: int = 0  # the transaction.version that the producer spoke last

    # What may follow

    @property
    def producer(self) -> Producer:
        return Producer(self.producer_id, self.epoch)

    def next_producer(self, *, timeout_ms: int, asked: Producer | None, fresh_id: int, now_ms: int) -> "Transaction":
        """R72: a new incarnation gets the next epoch; none is left: another id. Who asks again gets the same answer.
        `asked`: who the producer was, if it goes on."""
        changed = replace(
            self, state=TransactionState.EMPTY, partitions=frozenset(), timeout_ms=timeout_ms, updated_ms=now_ms
        )
        changed = replace(changed, started_ms=NO_TIME_MS, previous_id=NO_PRODUCER_ID)
        if asked is not None and asked == self.last:
            return changed
        last = self.producer if asked == self.producer else None
        if self.needs_fresh_id:
            return replace(changed, producer_id=fresh_id, epoch=0, last=last)
        return replace(changed, epoch=self.epoch + 1, last=last)

    @property
    def needs_fresh_id(self) -> bool:
        return self.epoch >= LAST_EPOCH

    def has_open(self, key: TopicPartition) -> bool:
        return self.state is TransactionState.ONGOING and key in self.partitions

    @property
    def following_producer(self) -> Producer:
        """R87: who goes on after this transaction, once its end is decided."""
        return self.producer if self.next_id == NO_PRODUCER_ID else Producer(self.next_id, 0)

    def was_ended_by(self, producer: Producer) -> bool:
        """R87: whether this producer's last transaction is the one that has ended, or is ending: it asks again."""
        if self.client_version < EPOCH_OF_EACH or self.state in (TransactionState.EMPTY, TransactionState.ONGOING):
            return False
        if producer.producer_id == self.previous_id:
            return producer.producer_epoch == LAST_EPOCH and self.epoch == 0
        return producer == Producer(self.producer_id, self.epoch - 1)

    def with_partitions(
        self, partitions: Iterable[TopicPartition], now_ms: int, *, client_version: int = 0
    ) -> "Transaction":
        started_ms = self.started_ms if self.state is TransactionState.ONGOING else now_ms
        known = self.partitions if self.state is TransactionState.ONGOING else frozenset()
        return replace(
            self,
            state=TransactionState.ONGOING,
            partitions=known | frozenset(partitions),
            updated_ms=now_ms,
            started_ms=started_ms,
            client_version=client_version,
        )

    def prepared(self, *, is_commit: bool, fenced: bool, now_ms: int) -> "Transaction":
        """`fenced`: under the next epoch, so that its producer can neither write nor commit any more."""
        state = TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT
        epoch, last = (self.epoch + 1, None) if fenced else (self.epoch, self.last)
        return replace(self, state=state, epoch=epoch, last=last, updated_ms=now_ms)

    def prepared_with_next_epoch(self, *, is_commit: bool, fresh_id: int, now_ms: int) -> "Transaction":
        """R87: ended by its producer, which goes on with the next epoch; none is left: with another id."""
        known = self if self.state is TransactionState.ONGOING else self.with_partitions((), now_ms)
        return replace(
            known.prepared(is_commit=is_commit, fenced=True, now_ms=now_ms),
            last=self.producer,
            previous_id=NO_PRODUCER_ID,
            next_id=fresh_id if self.needs_fresh_id else NO_PRODUCER_ID,
            client_version=EPOCH_OF_EACH,
        )

    def completed(self, now_ms: int) -> "Transaction":
        is_commit = self.state is TransactionState.PREPARE_COMMIT
        state = TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT
        ended = replace(self, state=state, partitions=frozenset(), updated_ms=now_ms)
        if self.next_id == NO_PRODUCER_ID:
            return ended
        following = self.following_producer
        return replace(
            ended,
            producer_id=following.producer_id,
            epoch=following.producer_epoch,
            previous_id=self.producer_id,
            next_id=NO_PRODUCER_ID,
        )

    # Records

    def record(self) -> KeyValue:
        by_topic: dict[str, list[int]] = {}
        for key in sorted(self.partitions):
            by_topic.setdefault(key.topic, []).append(key.partition)
        stored = StoredTransaction(
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            timeout_ms=self.timeout_ms,
            state=self.state.number,
            partitions=by_topic,
            updated_ms=self.updated_ms,
            started_ms=self.started_ms,
            previous_id=self.previous_id,
            next_id=self.next_id,
            client_version=self.client_version,
        )
        return transaction_record(self.transactional_id, stored)

    @classmethod
    def loaded(cls, transactional_id: str, stored: StoredTransaction) -> "Transaction":
        """Raises UnreadableRecord."""
        state = _BY_NUMBER.get(stored.state)
        if state is None:
            raise UnreadableRecord(f"a transaction in state {stored.state}")
        return cls(
            transactional_id=transactional_id,
            producer_id=stored.producer_id,
            epoch=stored.producer_epoch,
            timeout_ms=stored.timeout_ms,
            state=state,
            partitions=frozenset(
                TopicPartition(topic, number) for topic, numbers in stored.partitions.items() for number in numbers
            ),
            updated_ms=stored.updated_ms,
            started_ms=stored.started_ms,
            previous_id=stored.previous_id,
            next_id=stored.next_id,
            client_version=stored.client_version,
        )
