"""Placement of replicas, and the error codes of refused requests (claims S29 and S40)."""

from collections import Counter

import pytest

from reference_impl.core.controller.assignment import (
    RefusedRequestError,
    added,
    check_topic_name,
    explicit,
    round_robin,
)
from reference_impl.core.identifiers import ErrorCode, is_topic_name


def refused_with(error: ErrorCode, call: object, *arguments: object, **named: object) -> None:
    assert callable(call)
    with pytest.raises(RefusedRequestError) as refusal:
        call(*arguments, **named)
    assert refusal.value.error is error


def test_thirty_partitions_on_three_brokers_are_ten_leaders_and_thirty_replicas_each() -> None:
    assignment = round_robin([1, 2, 3], partitions=30, replication_factor=3, start=2, shift=1)
    assert Counter(replicas[0] for replicas in assignment) == {1: 10, 2: 10, 3: 10}
    assert Counter(replica for replicas in assignment for replica in replicas) == {1: 30, 2: 30, 3: 30}
    assert all(len(set(replicas)) == 3 for replicas in assignment)


@pytest.mark.parametrize("brokers", [1, 2, 3, 4, 5])
def test_no_partition_has_two_replicas_on_one_broker(brokers: int) -> None:
    for factor in range(1, brokers + 1):
        assignment = round_robin(range(brokers), partitions=17, replication_factor=factor, start=1, shift=2)
        assert all(len(set(replicas)) == factor for replicas in assignment)


def test_the_start_turns_the_ring() -> None:
    assert round_robin([1, 2, 3], partitions=2, replication_factor=2, start=1) == ((2, 3), (3, 1))


def test_impossible_sizes_are_refused() -> None:
    refused_with(ErrorCode.INVALID_PARTITIONS, round_robin, [1], partitions=0, replication_factor=1, start=0)
    refused_with(ErrorCode.INVALID_REPLICATION_FACTOR, round_robin, [1], partitions=1, replication_factor=0, start=0)
    refused_with(ErrorCode.INVALID_REPLICATION_FACTOR, round_robin, [1, 2], partitions=1, replication_factor=3, start=0)


def test_an_explicit_assignment_is_taken_as_it_is_even_with_a_dead_broker() -> None:
    assert explicit({1: [2, 1], 0: [1, 3]}, known=[1, 2, 3], live=[1, 2]) == ((1, 3), (2, 1))


@pytest.mark.parametrize(
    "wanted",
    [{1: [1]}, {0: []}, {0: [1], 1: [1, 2]}, {0: [1, 1]}, {0: [9]}, {0: [3]}],
    ids=["a gap", "no replica", "unequal sizes", "a broker twice", "an unknown broker", "only dead brokers"],
)
def test_an_assignment_that_cannot_be_carried_out_is_refused(wanted: dict[int, list[int]]) -> None:
    refused_with(ErrorCode.INVALID_REPLICA_ASSIGNMENT, explicit, wanted, known=[1, 2, 3], live=[1, 2])


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "../../x", "a\n", "x" * 250, "ü", "١"])
def test_illegal_topic_names_are_refused(name: str) -> None:
    refused_with(ErrorCode.INVALID_TOPIC_EXCEPTION, check_topic_name, name)


def test_legal_topic_names_pass() -> None:
    for name in ("second.Topic_1-a", "x" * 249):
        check_topic_name(name)
        assert is_topic_name(name)


def test_added_partitions_go_on_where_the_others_ended() -> None:
    whole = round_robin([1, 2, 3], partitions=7, replication_factor=2, start=1)
    assert added(whole[:4], count=7, wanted=None, known=[1, 2, 3], live=[1, 2, 3]) == whole[4:]


def test_added_partitions_go_where_the_request_says() -> None:
    assert added([(1, 2)], count=2, wanted=[[3, 1]], known=[1, 2, 3], live=[1, 2]) == ((3, 1),)


@pytest.mark.parametrize("count", [-1, 0, 1, 2])
def test_a_topic_does_not_shrink(count: int) -> None:
    refused_with(ErrorCode.INVALID_PARTITIONS, added, [(1,), (2,)], count=count, wanted=None, known=[1, 2], live=[1, 2])


@pytest.mark.parametrize("wanted", [[], [[1, 2], [2, 1]], [[1]], [[1, 1]], [[1, 9]], [[3, 4]]])
def test_assignments_that_do_not_fit_the_topic_are_refused(wanted: list[list[int]]) -> None:
    refused_with(
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        added,
        [(1, 2)],
        count=2,
        wanted=wanted,
        known=[1, 2, 3, 4],
        live=[1, 2],
    )


def test_partitions_are_not_added_with_fewer_brokers_than_replicas() -> None:
    refused_with(ErrorCode.INVALID_REPLICATION_FACTOR, added, [(3, 2)], count=2, wanted=None, known=[2, 3], live=[2])
