"""What a planted flaw of transactions does, where the sound coordinator and the sound log do not."""

from dataclasses import replace

import pytest

from reference_impl.core.flaws import with_flaws
from reference_impl.core.identifiers import ErrorCode
from reference_impl.core.log_transactions import AbortedTransaction
from reference_impl.core.partition_data import Origin
from reference_impl.core.producer_state import ProducerStates
from reference_impl.core.transactions.transaction import TransactionState
from reference_impl.wire.control_records import Marker, marker_batch
from reference_impl.wire.key_values import KeyValue, Producer, key_value_batch
from reference_impl.wire.record_batches import parse_headers
from tests.reference_impl.core.memory_log import EVERYTHING
from tests.reference_impl.core.replication_world import World as Replicas
from tests.reference_impl.core.test_log_transactions import data
from tests.reference_impl.core.transactions.transaction_world import TIMEOUT_MS, A, B, World


@pytest.fixture(params=[False, True], ids=["sound", "flawed"])
def is_flawed(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def world(flaw: str, is_flawed: bool) -> World:
    return World(rules=with_flaws([flaw] if is_flawed else []).transactions)


def test_an_end_that_was_answered_before_replication_is_lost_with_its_coordinator(is_flawed: bool) -> None:
    made = world("end-before-replication", is_flawed)
    producer = made.begun(A)
    made.log.holds = True
    assert made.end(producer) == ([ErrorCode.NONE] if is_flawed else [])
    made.log.batches.pop()  # the next leader never had it
    assert made.successor().state() is TransactionState.ONGOING


def test_what_a_coordinator_had_decided_gets_no_markers_of_the_next_one(is_flawed: bool) -> None:
    made = world("forget-prepared-transactions", is_flawed)
    made.end(made.begun(A))
    assert len(made.successor().markers.wanted) == (0 if is_flawed else 1)


def test_one_partition_of_a_transaction_gets_the_opposite_marker(is_flawed: bool) -> None:
    made = world("other-marker-in-last-partition", is_flawed)
    made.end(made.begun(A, B))
    results = {key: each.marker.is_commit for each, _ in made.markers.wanted for key in each.partitions}
    assert results == {A: True, B: not is_flawed}


def test_a_producer_that_was_late_commits_what_was_aborted_for_it_and_goes_on(is_flawed: bool) -> None:
    made = world("late-transactions-keep-their-epoch", is_flawed)
    producer = made.begun(A)
    made.clock.passed_ms += TIMEOUT_MS + 1
    made.coordinator.abort_timed_out()
    made.settle()
    made.write_markers()
    assert made.add(producer, B) == [ErrorCode.NONE if is_flawed else ErrorCode.PRODUCER_FENCED]


def test_a_producer_that_has_a_successor_ends_its_transaction(is_flawed: bool) -> None:
    made = world("old-epochs-go-on", is_flawed)
    old = made.begun()
    made.begun(A)
    assert made.end(old) == [ErrorCode.NONE if is_flawed else ErrorCode.PRODUCER_FENCED]


def states(flaw: str, is_flawed: bool) -> ProducerStates:
    return ProducerStates(with_flaws([flaw] if is_flawed else []).producers)


def test_a_leader_takes_records_of_a_producer_that_has_a_successor(is_flawed: bool) -> None:
    known = states("old-epochs-go-on", is_flawed)
    (newer,) = parse_headers(key_value_batch([KeyValue(b"k", b"v")], 0, Producer(7, 1)))
    known.update(newer)
    (older,) = parse_headers(key_value_batch([KeyValue(b"k", b"v")], 0, Producer(7, 0)))
    assert known.check(older) is (ErrorCode.NONE if is_flawed else ErrorCode.INVALID_PRODUCER_EPOCH)


def test_a_leader_takes_a_marker_of_a_coordinator_that_has_a_successor(is_flawed: bool) -> None:
    known = states("markers-of-old-coordinators", is_flawed)
    (ended,) = parse_headers(marker_batch(7, 0, Marker(True, 5), 0))
    known.update(ended, Marker(True, 5))
    expected = ErrorCode.NONE if is_flawed else ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert known.check_marker(7, 0, Marker(False, 4)) is expected


def test_a_leader_appends_without_asking_whether_the_transaction_is_open(is_flawed: bool) -> None:
    made = Replicas(rules=with_flaws(["no-verification"] if is_flawed else []))
    made.leader.update_settings(replace(made.settings, verifies_transactions=True))
    assert made.leader.needs_verification(Producer(7, 0), adds=False) is not is_flawed


def test_a_reader_is_told_of_no_aborted_transaction(is_flawed: bool) -> None:
    made = Replicas(min_isr=1, replicas=(1,), rules=with_flaws(["no-list-of-aborted"] if is_flawed else []))
    made.leader.append(data(7), acks=-1, now_ms=made.now_ms, wall_clock_ms=0, origin=Origin.COORDINATOR)
    made.leader.append_marker(Producer(7, 0), Marker(False, 0), now_ms=made.now_ms, wall_clock_ms=0)
    read = made.leader.read_for_consumer(0, max_bytes=EVERYTHING, current_leader_epoch=0, read_committed=True)
    assert read.aborted == (() if is_flawed else (AbortedTransaction(7, 0, 1, 2),))
