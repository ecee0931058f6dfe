"""A coordinator of transactions: who may do what in which state, and what its successor finds (docs/replication.md R71
to R76)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_impl.core.coordinator_log import LoadedBatch
from reference_impl.core.identifiers import ErrorCode
from reference_impl.core.transactions.transaction import LAST_EPOCH, Transaction, TransactionState
from reference_impl.wire.control_records import Marker
from reference_impl.wire.key_values import Producer, StoredKeyValue
from tests.reference_impl.core.coordinator_world import Log
from tests.reference_impl.core.transactions.transaction_world import FRESH, ID, SETTINGS, TIMEOUT_MS, A, B, World

STRANGER = Producer(999, 0)


def older(producer: Producer) -> Producer:
    return Producer(producer.producer_id, producer.producer_epoch - 1)


# Producers


def test_each_incarnation_gets_the_same_id_and_the_next_epoch() -> None:
    world = World()
    assert [world.init() for _ in range(3)] == [(ErrorCode.NONE, FRESH, epoch) for epoch in range(3)]
    assert world.successor().init(fresh_id=-1) == (ErrorCode.NONE, FRESH, 3)


def test_when_the_epochs_are_used_up_there_is_another_id() -> None:
    used_up = Transaction(transactional_id=ID, producer_id=FRESH, epoch=LAST_EPOCH, timeout_ms=TIMEOUT_MS)
    world = World(log=Log(batches=[LoadedBatch((StoredKeyValue(0, *used_up.record()),))]))
    assert world.coordinator.needs_fresh_id(ID)
    assert world.init(fresh_id=FRESH + 1) == (ErrorCode.NONE, FRESH + 1, 0)


@pytest.mark.parametrize("epoch", [LAST_EPOCH - 1, LAST_EPOCH])
def test_who_asks_again_gets_the_same_answer_when_the_epochs_are_used_up(epoch: int) -> None:
    """The first answer was lost."""
    known = Transaction(transactional_id=ID, producer_id=FRESH, epoch=epoch, timeout_ms=TIMEOUT_MS)
    world = World(log=Log(batches=[LoadedBatch((StoredKeyValue(0, *known.record()),))]))
    first = world.init(producer=Producer(FRESH, epoch), fresh_id=FRESH + 1)
    assert first.error is ErrorCode.NONE
    assert world.init(producer=Producer(FRESH, epoch), fresh_id=FRESH + 2) == first
    assert world.init(producer=Producer(FRESH, epoch - 1)).error is ErrorCode.PRODUCER_FENCED


def test_an_incarnation_that_did_not_ask_has_no_epoch_before() -> None:
    world = World()
    world.begun()
    assert world.init(producer=Producer(FRESH, -1)).error is ErrorCode.PRODUCER_FENCED


def test_a_producer_that_goes_on_gets_its_next_epoch_and_the_same_one_if_it_asks_again() -> None:
    """KIP-360."""
    world = World()
    producer = world.begun()
    assert world.init(producer=producer) == (ErrorCode.NONE, FRESH, 1)
    assert world.init(producer=producer) == (ErrorCode.NONE, FRESH, 1)
    world.init()
    assert world.init(producer=producer).error is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("timeout_ms", [0, -1, SETTINGS.max_timeout_ms + 1])
def test_an_impossible_timeout_is_refused(timeout_ms: int) -> None:
    assert World().init(timeout_ms=timeout_ms).error is ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_a_new_incarnation_aborts_what_the_old_one_left_open() -> None:
    world = World()
    old = world.begun(A)
    assert world.init().error is ErrorCode.CONCURRENT_TRANSACTIONS
    ((markers, _),) = world.markers.wanted
    assert markers.marker == Marker(False, 0)
    assert markers.producer.producer_epoch == old.producer_epoch + 1, "the leaders fence the old one"
    assert world.init().error is ErrorCode.CONCURRENT_TRANSACTIONS
    world.write_markers()
    assert world.init() == (ErrorCode.NONE, FRESH, old.producer_epoch + 2)
    assert world.end(old) == [ErrorCode.PRODUCER_FENCED]
    assert world.add(old, A) == [ErrorCode.PRODUCER_FENCED]


def test_who_is_not_the_producer_is_refused() -> None:
    world = World()
    assert world.add(STRANGER, A) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    producer = world.begun(A)
    assert world.add(STRANGER, A) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    assert world.end(older(producer)) == [ErrorCode.PRODUCER_FENCED]
    assert world.state() is TransactionState.ONGOING


# Verification


def test_while_one_partition_is_being_added_another_ones_is_verified() -> None:
    """KAFKA-14904. With several requests in flight a sound producer failed."""
    world = World()
    producer = world.begun(A)
    world.log.holds = True
    assert world.add(producer, B) == []
    assert world.verify(producer, A) is ErrorCode.NONE
    assert world.verify(producer, B) is ErrorCode.CONCURRENT_TRANSACTIONS
    world.log.replicate()
    assert world.verify(producer, B) is ErrorCode.NONE


def test_what_is_in_no_open_transaction_is_refused_and_while_one_ends_nobody_knows() -> None:
    world = World()
    producer = world.begun()
    assert world.verify(producer, A) is ErrorCode.INVALID_TXN_STATE
    assert world.add(producer, A) == [ErrorCode.NONE]
    assert world.verify(producer, B) is ErrorCode.INVALID_TXN_STATE
    world.log.holds = True
    world.end(producer)
    assert world.verify(producer, A) is ErrorCode.CONCURRENT_TRANSACTIONS, "its end is being stored"
    world.log.holds = False
    world.settle()
    assert world.state() is TransactionState.PREPARE_COMMIT
    assert world.verify(producer, A) is ErrorCode.CONCURRENT_TRANSACTIONS
    world.write_markers()
    assert world.verify(producer, A) is ErrorCode.INVALID_TXN_STATE
    assert world.verify(older(producer), A) is ErrorCode.PRODUCER_FENCED


# The end of a transaction


@pytest.mark.parametrize("commit", [True, False])
def test_an_end_is_answered_when_it_is_replicated_and_completed_when_all_markers_are(commit: bool) -> None:
    world = World()
    producer = world.begun(A, B)
    world.log.holds = True
    answers = world.end(producer, commit=commit)
    assert not answers
    assert not world.markers.wanted
    world.log.replicate()
    assert answers == [ErrorCode.NONE]
    ((markers, _),) = world.markers.wanted
    assert (set(markers.partitions), markers.marker) == ({A, B}, Marker(commit, 0))
    world.log.holds = False
    world.write_markers(A)
    assert world.state().is_prepared
    assert world.add(producer, A) == world.end(producer, commit=commit) == [ErrorCode.CONCURRENT_TRANSACTIONS]
    assert world.end(producer, commit=not commit) == [ErrorCode.INVALID_TXN_STATE]
    world.write_markers(B)
    assert world.state() is (TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT)
    assert world.end(producer, commit=commit) == [ErrorCode.NONE]
    assert world.end(producer, commit=not commit) == [ErrorCode.INVALID_TXN_STATE]
    assert world.add(producer, A) == [ErrorCode.NONE]


def test_a_transaction_that_nobody_began_cannot_end() -> None:
    world = World()
    assert world.end(world.begun()) == [ErrorCode.INVALID_TXN_STATE]


def test_what_cannot_be_stored_changes_nothing() -> None:
    world = World()
    producer = world.begun(A)
    world.log.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.end(producer) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert world.state() is TransactionState.ONGOING
    world.log.refuses = ErrorCode.NONE
    assert world.end(producer) == [ErrorCode.NONE]


def test_a_completion_that_cannot_be_stored_is_tried_again() -> None:
    world = World()
    world.end(world.begun(A))
    world.log.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    world.write_markers()
    assert world.state() is TransactionState.PREPARE_COMMIT
    world.log.refuses = ErrorCode.NONE
    world.coordinator.tick()
    world.settle()
    assert world.state() is TransactionState.COMPLETE_COMMIT


def test_an_end_whose_time_is_up_is_open_and_holds_once_it_is_replicated() -> None:
    world = World()
    producer = world.begun(A)
    world.log.holds = True
    answers = world.end(producer)
    world.clock.passed_ms += SETTINGS.write_timeout_ms
    world.coordinator.tick()
    assert answers == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert world.end(producer) == [ErrorCode.CONCURRENT_TRANSACTIONS]
    world.log.replicate()
    assert world.state() is TransactionState.PREPARE_COMMIT


# By time


def test_a_transaction_that_is_open_for_too_long_is_aborted_and_its_producer_fenced() -> None:
    world = World()
    producer = world.begun(A)
    world.clock.passed_ms += TIMEOUT_MS
    world.coordinator.abort_timed_out()
    world.settle()
    assert world.state() is TransactionState.ONGOING
    world.clock.passed_ms += 1
    world.coordinator.abort_timed_out()
    world.settle()
    assert world.state() is TransactionState.PREPARE_ABORT
    assert world.end(producer) == [ErrorCode.PRODUCER_FENCED]


def test_an_id_that_nobody_uses_is_forgotten_but_not_while_its_transaction_is_open() -> None:
    world = World()
    producer = world.begun(A)
    world.clock.began_ms += SETTINGS.id_expiration_ms
    world.coordinator.expire()
    world.settle()
    world.end(producer)
    world.write_markers()
    world.clock.began_ms += SETTINGS.id_expiration_ms
    world.coordinator.expire()
    world.settle()
    assert not world.coordinator.transactions
    assert not world.successor().coordinator.transactions


# Successors


@pytest.mark.parametrize("commit", [True, False])
def test_a_successor_ends_what_it_finds_prepared_as_it_was_decided(commit: bool) -> None:
    world = World()
    producer = world.begun(A, B)
    world.end(producer, commit=commit)
    world.write_markers(A)
    stale, _ = world.markers.wanted[-1]
    after = world.successor()
    assert world.markers.is_stopped
    ((markers, _),) = after.markers.wanted
    assert (set(markers.partitions), markers.marker) == ({A, B}, Marker(commit, 1))
    assert markers.producer == stale.producer
    after.write_markers()
    assert after.end(producer, commit=commit) == [ErrorCode.NONE]


def test_a_successor_goes_on_with_what_is_open() -> None:
    world = World()
    producer = world.begun(A)
    after = world.successor()
    assert after.add(producer, B) == [ErrorCode.NONE]
    assert after.end(producer) == [ErrorCode.NONE]
    assert after.markers.wanted[-1][0].partitions == {A, B}


def test_after_its_term_nobody_is_served() -> None:
    world = World()
    producer = world.begun(A)
    world.log.holds = True
    answers = world.end(producer)
    world.successor()
    assert answers == [ErrorCode.NOT_COORDINATOR]
    assert world.end(producer) == [ErrorCode.NOT_COORDINATOR]
    assert world.init().error is ErrorCode.NOT_COORDINATOR


STEPS = st.lists(
    st.sampled_from(["init", "add", "commit", "abort", "marker", "late", "successor", "timeout", "refuse"]), max_size=30
)


@given(STEPS)
def test_no_transaction_gets_two_results_and_what_was_answered_holds(steps: list[str]) -> None:
    """Each epoch of a producer may end many transactions, one after the other; what was answered as committed has no
    abort marker, in whatever coordinator's term."""
    world = World()
    producer = world.begun()
    decided: set[tuple[int, bool]] = set()  # the number of the transaction, and its result
    number, answered = 0, {}
    seen = 0
    for step in steps:
        if step == "init":
            answer = world.init()
            producer = producer if answer.error else Producer(answer.producer_id, answer.epoch)
        elif step == "add":
            was = world.state()
            if world.add(producer, A) == [ErrorCode.NONE] and was is not TransactionState.ONGOING:
                number += 1
        elif step in ("commit", "abort"):
            was = world.state()
            ended = world.end(producer, commit=step == "commit")
            if was is TransactionState.ONGOING and ended == [ErrorCode.NONE]:
                answered[number] = step == "commit"
        elif step == "marker" and world.markers.wanted and world.state().is_prepared:
            world.write_markers()
        elif step == "late":
            world.end(older(producer))
        elif step == "successor":
            world, seen = world.successor(), 0
        elif step == "timeout":
            world.clock.passed_ms += TIMEOUT_MS + 1
            world.coordinator.abort_timed_out()
            world.settle()
        elif step == "refuse":
            world.log.refuses = ErrorCode.NONE if world.log.refuses else ErrorCode.NOT_ENOUGH_REPLICAS
        for markers, _ in world.markers.wanted[seen:]:
            decided.add((number, markers.marker.is_commit))
        seen = len(world.markers.wanted)
    assert len({each for each, _ in decided}) == len(decided), "a transaction with two results"
    assert set(answered.items()) <= decided
