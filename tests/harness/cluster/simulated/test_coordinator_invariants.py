"""Which moves of a transaction, and of a group, are none of Kafka's."""

import pytest

from harness.checks.verdict_sentence import _BROKEN
from harness.cluster.simulated.coordinator_invariants import (
    GENERATION,
    GROUPS,
    PRODUCER_EPOCH,
    TRANSACTION_MOVES,
    TRANSACTIONS,
    CoordinatorStates,
    Moved,
)
from harness.cluster.simulated.invariants import INVARIANTS
from reference_impl.core.transactions.transaction import Transaction
from reference_impl.core.transactions.transaction import TransactionState as State
from reference_impl.wire.group_records import GroupKey, StoredGroup, group_record
from reference_impl.wire.key_values import KeyValue, key_value_batch

EMPTY = Transaction(transactional_id="t", producer_id=7, epoch=3, timeout_ms=1000)
ONGOING = EMPTY.with_partitions((), 1)
COMMITTING = ONGOING.prepared(is_commit=True, fenced=False, now_ms=2)
ABORTING = ONGOING.prepared(is_commit=False, fenced=True, now_ms=2)
FENCED = EMPTY.next_producer(timeout_ms=1000, asked=None, fresh_id=8, now_ms=3)


def _taken(topic: str, *records: KeyValue) -> Moved | None:
    """What the last one broke, each in a batch of its own."""
    states = CoordinatorStates()
    *before, last = [bytes(key_value_batch([record], 1000)) for record in records]
    assert [states.take(topic, batch) for batch in before] == [None] * len(before)
    return states.take(topic, last)


@pytest.mark.parametrize(
    "moves",
    [
        (EMPTY, ONGOING, ONGOING, COMMITTING, COMMITTING.completed(3), ONGOING),
        (EMPTY, ONGOING, ABORTING, ABORTING.completed(3), FENCED),
        (FENCED, FENCED.with_partitions((), 4)),
    ],
)
def test_a_transaction_begins_is_decided_and_ends(moves: tuple[Transaction, ...]) -> None:
    assert _taken(TRANSACTIONS, *(each.record() for each in moves)) is None


@pytest.mark.parametrize(
    ("moves", "wanted", "seen"),
    [
        ((ONGOING, COMMITTING, ABORTING), State.PREPARE_COMMIT, State.PREPARE_ABORT),
        (
            (ONGOING, COMMITTING, ABORTING.completed(3)),
            State.PREPARE_COMMIT,
            State.COMPLETE_ABORT,
        ),
        ((ONGOING, COMMITTING, ONGOING), State.PREPARE_COMMIT, State.ONGOING),
        ((EMPTY, COMMITTING), State.EMPTY, State.PREPARE_COMMIT),
        ((ONGOING, COMMITTING.completed(3)), State.ONGOING, State.COMPLETE_COMMIT),
    ],
)
def test_what_was_decided_stays(moves: tuple[Transaction, ...], wanted: State, seen: State) -> None:
    moved = _taken(TRANSACTIONS, *(each.record() for each in moves))

    assert moved == Moved(TRANSACTION_MOVES, wanted.number, seen.number)


def test_a_producer_that_has_a_successor_begins_no_transaction() -> None:
    assert _taken(TRANSACTIONS, FENCED.record(), ONGOING.record()) == Moved(PRODUCER_EPOCH, 4, 3)


def _group(generation: int | None) -> KeyValue:
    if generation is None:
        return group_record(GroupKey(group_id="g"), None)
    stored = StoredGroup(
        protocol_type="consumer", generation=generation, protocol=None, leader=None, state_since_ms=1, members=()
    )
    return group_record(GroupKey(group_id="g"), stored)


def test_a_generation_goes_back_only_with_its_group() -> None:
    assert _taken(GROUPS, _group(1), _group(2), _group(2)) is None
    assert _taken(GROUPS, _group(2), _group(1)) == Moved(GENERATION, 2, 1)
    assert _taken(GROUPS, _group(2), _group(None), _group(0)) is None


def test_each_invariant_has_a_sentence() -> None:
    assert set(_BROKEN) == set(INVARIANTS)
