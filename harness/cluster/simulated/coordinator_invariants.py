"""Invariants of coordinators: what their logs say of a group or a transactional id only moves as Kafka's does.

Looked at are the committed records alone, in their order, as the leader has them: none of those is ever taken back
(docs/replication.md R61, R63, R72 to R76). A transaction is committed or aborted only while it is open, and ends as it
was decided; a producer's epoch, and a group's generation, never go back.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from reference_impl.core.coordinator_log import loaded_batches
from reference_impl.core.transactions.transaction import TransactionState as State
from reference_impl.wire import group_records, transaction_records
from reference_impl.wire.key_values import StoredKeyValue
from reference_impl.wire.transaction_records import StoredTransaction

TRANSACTION_MOVES = "transaction-moves"
PRODUCER_EPOCH = "producer-epoch-monotonic"
GENERATION = "group-generation-monotonic"
GROUPS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
COORDINATED = (GROUPS, TRANSACTIONS)

_BEGUN = (State.EMPTY, State.ONGOING)
# What may follow each state. The same record again says nothing new. An abort of nothing is one (R87).
_MOVES: Mapping[State, tuple[State, ...]] = {
    State.EMPTY: (*_BEGUN, State.PREPARE_ABORT),
    State.ONGOING: (State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT),
    State.PREPARE_COMMIT: (State.PREPARE_COMMIT, State.COMPLETE_COMMIT),
    State.PREPARE_ABORT: (State.PREPARE_ABORT, State.COMPLETE_ABORT),
    State.COMPLETE_COMMIT: (*_BEGUN, State.PREPARE_ABORT, State.COMPLETE_COMMIT),
    State.COMPLETE_ABORT: (*_BEGUN, State.PREPARE_ABORT, State.COMPLETE_ABORT),
}
_BY_NUMBER = {state.number: state for state in State}


class Moved(NamedTuple):
    """What a record broke. wanted: what was said before; seen: what the record says. States are Kafka's numbers."""

    invariant: str
    wanted: int
    seen: int


@dataclass(kw_only=True)
class CoordinatorStates:
    """Of one partition of a coordinators' topic, after the records that were taken. read_to: where the next begin."""

    read_to: int = 0
    transactions: dict[str, StoredTransaction] = field(default_factory=dict)
    generations: dict[str, int] = field(default_factory=dict)

    def take(self, topic: str, content: bytes) -> Moved | None:
        """Takes whole batches; returns the first move that none is."""
        for batch in loaded_batches(content):
            for record in batch.records:
                moved = self._transaction(record) if topic == TRANSACTIONS else self._group(record)
                if moved is not None:
                    return moved
        return None

    def _transaction(self, record: StoredKeyValue) -> Moved | None:
        name, after = transaction_records.decode(record.key, record.value)
        before = self.transactions.pop(name, None)
        if after is None:
            return None
        self.transactions[name] = after
        if before is None:
            return None
        if _BY_NUMBER[after.state] not in _MOVES[_BY_NUMBER[before.state]]:
            return Moved(TRANSACTION_MOVES, before.state, after.state)
        is_same = after.producer_id == before.producer_id
        if is_same and after.producer_epoch < before.producer_epoch:
            return Moved(PRODUCER_EPOCH, before.producer_epoch, after.producer_epoch)
        return None

    def _group(self, record: StoredKeyValue) -> Moved | None:
        key, after = group_records.decode(record.key, record.value)
        if not isinstance(key, group_records.GroupKey):
            return None
        before = self.generations.pop(key.group_id, None)
        if not isinstance(after, group_records.StoredGroup):
            return None
        self.generations[key.group_id] = after.generation
        if before is not None and after.generation < before:
            return Moved(GENERATION, before, after.generation)
        return None
