"""The consequences of a new set of registrations: deaths, births, new incarnations, lost disks.

Rules R43 and R52 of docs/replication.md.
"""

import uuid
from dataclasses import replace

from reference_impl.core.controller.controller_state import (
    ClusterState,
    Incarnation,
    Topic,
    brokers_changed,
    leaderless_after,
    shutting_down,
)
from reference_impl.core.identifiers import NO_LEADER, TopicPartition
from reference_impl.core.state import LiveBroker, PartitionState


def broker(broker_id: int, *, epoch: int, disk: str | None = None) -> LiveBroker:
    return LiveBroker(
        broker_id=broker_id,
        broker_epoch=epoch,
        listeners=(("INTERNAL", f"node{broker_id}", 9092),),
        directory_ids=(disk or f"disk-{broker_id}",),
    )


def cluster(*partitions: tuple[str, int, str], brokers: str = "123") -> ClusterState:
    """Partitions are (replicas, leader, isr); broker N is registered with epoch 10N."""
    state = ClusterState()
    state.topics["t"] = Topic(name="t", topic_id=uuid.UUID(int=1))
    for number, (replicas, leader, isr) in enumerate(partitions):
        key = TopicPartition("t", number)
        state.partitions[key] = PartitionState(
            topic_partition=key,
            replicas=tuple(map(int, replicas)),
            leader=leader,
            isr=tuple(map(int, isr)),
            leader_epoch=0,
            partition_epoch=0,
            controller_epoch=1,
        )
    for broker_id in map(int, brokers):
        state.brokers[broker_id] = broker(broker_id, epoch=10 * broker_id)
        state.incarnations[broker_id] = Incarnation(
            broker_epoch=10 * broker_id, directory_ids=(f"disk-{broker_id}",), version=0
        )
    return state


def registered(state: ClusterState, *without: int) -> dict[int, LiveBroker]:
    return {key: value for key, value in state.brokers.items() if key not in without}


def summaries(partitions: tuple[PartitionState, ...]) -> list[tuple[int, tuple[int, ...], int]]:
    return [(state.leader, state.isr, state.leader_epoch) for state in partitions]


def test_a_death_changes_only_the_partitions_it_concerns() -> None:
    state = cluster(("12", 1, "12"), ("23", 2, "23"), ("21", 2, "21"))
    change = brokers_changed(state, registered(state, 1))
    assert change.died == {1}
    assert change.born == frozenset()
    assert [s.topic_partition.partition for s in change.partitions] == [0, 2]
    assert summaries(change.partitions) == [(2, (2,), 1), (2, (2,), 0)]


def test_two_deaths_seen_at_once_leave_both_in_the_isr() -> None:
    state = cluster(("12", 1, "12"))
    assert summaries(brokers_changed(state, registered(state, 1, 2)).partitions) == [(NO_LEADER, (1, 2), 1)]


def test_a_birth_elects_for_the_partitions_that_waited() -> None:
    state = cluster(("12", NO_LEADER, "1"), brokers="23")
    state.incarnations[1] = Incarnation(broker_epoch=10, directory_ids=("disk-1",), version=0)
    change = brokers_changed(state, registered(state) | {1: broker(1, epoch=99)})
    assert change.born == {1}
    assert summaries(change.partitions) == [(1, (1,), 1)]


def test_an_unseen_restart_is_a_death_and_a_birth() -> None:
    state = cluster(("12", 1, "12"), ("21", 2, "21"), ("13", 1, "1"))
    change = brokers_changed(state, registered(state) | {1: broker(1, epoch=99)})
    assert change.born == change.died == {1}
    assert summaries(change.partitions) == [(2, (2,), 1), (2, (2,), 0), (1, (1,), 2)]
    assert change.incarnations[1].broker_epoch == 99
    assert not change.lost_disks


def test_a_new_controller_notices_a_restart_that_happened_before_its_time() -> None:
    state = cluster(("12", 1, "12"))
    reborn = registered(state) | {1: broker(1, epoch=99)}
    state.brokers = {}
    assert summaries(brokers_changed(state, reborn).partitions) == [(2, (2,), 1)]


def test_a_lost_disk_leaves_isrs_whose_other_member_is_dead() -> None:
    state = cluster(("12", NO_LEADER, "12"), brokers="3")
    for broker_id in (1, 2):
        state.incarnations[broker_id] = Incarnation(
            broker_epoch=broker_id, directory_ids=(f"disk-{broker_id}",), version=4
        )
    change = brokers_changed(state, registered(state) | {1: broker(1, epoch=99, disk="new")})
    assert change.lost_disks == {1}
    assert summaries(change.partitions) == [(NO_LEADER, (2,), 0)]
    assert change.incarnations[1] == Incarnation(
        broker_epoch=99, directory_ids=("new",), previous_directory_ids=("disk-1",), version=4
    )


def test_a_lost_disk_of_the_sole_member_is_led_with_what_it_has() -> None:
    state = cluster(("12", 1, "1"))
    change = brokers_changed(state, registered(state) | {1: broker(1, epoch=99, disk="new")})
    assert summaries(change.partitions) == [(1, (1,), 2)]


def test_an_additional_directory_is_no_lost_disk() -> None:
    state = cluster(("12", 1, "12"))
    grown = replace(broker(1, epoch=99), directory_ids=("disk-1", "another"))
    assert not brokers_changed(state, registered(state) | {1: grown}).lost_disks


def test_an_unclean_election_does_not_overtake_an_in_sync_replica_that_is_just_back() -> None:
    state = cluster(("21", NO_LEADER, "1"), brokers="2")
    state.unclean_by_default = True
    state.incarnations[1] = Incarnation(broker_epoch=10, directory_ids=("disk-1",), version=0)
    change = brokers_changed(state, registered(state) | {1: broker(1, epoch=99)})
    assert summaries(change.partitions) == [(1, (1,), 1)]


def test_shutting_down_lasts_as_long_as_the_incarnation() -> None:
    state = cluster(("12", 2, "2"))
    state.brokers[1] = shutting_down(state, 1)
    assert brokers_changed(state, {1: broker(1, epoch=10), 2: state.brokers[2]}).brokers[1].shutting_down
    assert not brokers_changed(state, {1: broker(1, epoch=99), 2: state.brokers[2]}).brokers[1].shutting_down


def test_allowing_unclean_election_on_a_topic_elects_for_its_leaderless_partitions() -> None:
    state = cluster(("12", NO_LEADER, "1"), ("23", 2, "23"), brokers="23")
    assert leaderless_after(state, "t") == []
    state.topics["t"] = replace(state.topics["t"], configs={"unclean.leader.election.enable": "true"})
    assert summaries(tuple(leaderless_after(state, "t"))) == [(2, (2,), 1)]
