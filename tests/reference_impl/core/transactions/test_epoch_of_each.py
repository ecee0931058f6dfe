"""A producer that has an epoch for each transaction (transaction.version 2, KIP-890; docs/replication.md R87, R88)."""

import pytest

from reference_impl.core.coordinator_log import LoadedBatch
from reference_impl.core.identifiers import ErrorCode
from reference_impl.core.transactions.transaction import LAST_EPOCH, Transaction, TransactionState
from reference_impl.core.transactions.transaction_data import InitAnswer
from reference_impl.wire.key_values import Producer, StoredKeyValue
from tests.reference_impl.core.coordinator_world import Log
from tests.reference_impl.core.transactions.transaction_world import FRESH, ID, TIMEOUT_MS, A, B, World


def after(producer: Producer) -> Producer:
    return Producer(producer.producer_id, producer.producer_epoch + 1)


def answer_of(producer: Producer) -> InitAnswer:
    return InitAnswer(ErrorCode.NONE, producer.producer_id, producer.producer_epoch)


@pytest.mark.parametrize("commit", [True, False])
def test_an_end_tells_the_next_epoch_and_its_markers_have_it(commit: bool) -> None:
    world = World()
    producer = world.begun()
    assert world.add_by_leader(producer, A, B) == [ErrorCode.NONE]
    assert world.end_with_next_epoch(producer, commit=commit) == [answer_of(after(producer))]
    ((markers, _),) = world.markers.wanted
    assert markers.producer == after(producer)
    assert set(markers.partitions) == {A, B}
    assert world.add_by_leader(after(producer), A) == [ErrorCode.CONCURRENT_TRANSACTIONS]
    world.write_markers()
    assert world.add_by_leader(producer, A) == [ErrorCode.PRODUCER_FENCED]
    assert world.add_by_leader(after(producer), A) == [ErrorCode.NONE]


@pytest.mark.parametrize("has_own_epoch", [False, True])
def test_a_late_end_ends_the_next_transaction_only_where_both_have_the_same_epoch(has_own_epoch: bool) -> None:
    """The client asked again, on another connection, and went on before its first request arrived."""
    world = World()
    producer = world.begun(A)
    if not has_own_epoch:
        world.end(producer)
        world.write_markers()
        world.add(producer, A)
        assert world.end(producer) == [ErrorCode.NONE]
        assert world.state() is TransactionState.PREPARE_COMMIT
    else:
        world.end_with_next_epoch(producer)
        world.write_markers()
        world.add_by_leader(after(producer), A)
        assert [each.error for each in world.end_with_next_epoch(producer)] == [ErrorCode.PRODUCER_FENCED]
        assert world.state() is TransactionState.ONGOING


@pytest.mark.parametrize("commit", [True, False])
def test_an_end_that_is_asked_again_is_answered_as_before_and_by_a_successor_too(commit: bool) -> None:
    world = World()
    producer = world.begun(A)
    first = world.end_with_next_epoch(producer, commit=commit)
    again = [each.error for each in world.end_with_next_epoch(producer, commit=commit)]
    assert again == [ErrorCode.CONCURRENT_TRANSACTIONS]
    world.write_markers()
    for each in (world, world.successor()):
        assert each.coordinator.transactions[ID].epoch == producer.producer_epoch + 1
    successor = world.successor()
    assert successor.end_with_next_epoch(producer, commit=commit) == first
    assert [each.error for each in successor.end_with_next_epoch(producer, commit=not commit)] == [
        ErrorCode.INVALID_TXN_STATE
    ]


def test_an_abort_of_nothing_fences_what_was_sent_and_a_commit_of_nothing_is_refused() -> None:
    world = World()
    producer = world.begun()
    assert [each.error for each in world.end_with_next_epoch(producer)] == [ErrorCode.INVALID_TXN_STATE]
    assert world.end_with_next_epoch(producer, commit=False) == [answer_of(after(producer))]
    world.coordinator.tick()
    world.settle()
    assert world.state() is TransactionState.COMPLETE_ABORT
    assert world.add_by_leader(producer, A) == [ErrorCode.PRODUCER_FENCED]


def test_when_the_epochs_are_used_up_an_end_tells_another_id_and_tells_it_again() -> None:
    used_up = Transaction(transactional_id=ID, producer_id=FRESH, epoch=LAST_EPOCH, timeout_ms=TIMEOUT_MS)
    world = World(log=Log(batches=[LoadedBatch((StoredKeyValue(0, *used_up.record()),))]))
    producer, other = Producer(FRESH, LAST_EPOCH), Producer(FRESH + 1, 0)
    assert world.add_by_leader(producer, A) == [ErrorCode.NONE]
    assert world.end_with_next_epoch(producer) == [answer_of(other)]
    ((markers, _),) = world.markers.wanted
    assert markers.producer == Producer(FRESH, LAST_EPOCH + 1)
    successor = world.successor()
    successor.write_markers()
    assert successor.end_with_next_epoch(producer) == [answer_of(other)]
    assert successor.add_by_leader(other, A) == [ErrorCode.NONE]


def test_a_leader_that_asks_again_while_another_partition_is_added_is_told_that_its_own_belongs() -> None:
    world = World()
    producer = world.begun()
    world.add_by_leader(producer, A)
    world.log.holds = True
    assert world.add_by_leader(producer, B) == []
    assert world.add_by_leader(producer, A) == [ErrorCode.NONE]
    assert world.add_by_leader(producer, B) == [ErrorCode.CONCURRENT_TRANSACTIONS]
