"""DeleteRecords: how far a leader moves the start of its log, and when nobody has a record below it any more
(docs/replication.md R78)."""

from dataclasses import replace

import pytest

from reference_impl.core.identifiers import ErrorCode
from tests.reference_impl.core.replication_world import World

ALL = -1


def written(values: str = "abcdef", *, rounds: int = 3) -> World:
    world = World()
    for value in values:
        world.write(value)
    world.fetch(2, 3, rounds=rounds)
    return world


def test_the_low_watermark_is_the_lowest_start_of_the_live_replicas() -> None:
    world = written()
    assert world.leader.delete_records(4) == (ErrorCode.NONE, 4)
    assert world.evidence[1].deletions == [(0, 4)]
    world.fetch(2, 3)  # they say what they had, and take it over
    assert world.leader.records_deleted(4, 0) == (None, 0)
    world.fetch(2)
    assert world.leader.records_deleted(4, 0) == (None, 0)
    world.fetch(3)
    assert world.leader.records_deleted(4, 0) == (ErrorCode.NONE, 4)
    assert [log.log_start_offset for log in world.logs.values()] == [4, 4, 4]
    assert [evidence.deletions for evidence in world.evidence.values()] == [[(0, 4)], [], []]


def test_a_replica_that_is_dead_or_was_never_heard_of_holds_nothing_up_or_all() -> None:
    world = written()
    world.leader.delete_records(ALL)
    world.fetch(2, rounds=2)
    world.kill(3)
    assert world.leader.records_deleted(6, 0)[0] is None, "nobody noticed yet"
    world.notice_deaths()
    world.tell()
    assert world.leader.records_deleted(6, world.leader.leader_epoch) == (ErrorCode.NONE, 6)
    world.start(3)
    world.tell()
    assert world.leader.records_deleted(6, world.leader.leader_epoch)[0] is None


def test_who_waits_for_a_replica_looks_again_when_it_is_known_to_be_dead() -> None:
    world = written()
    world.leader.delete_records(ALL)
    world.fetch(2, rounds=2)
    seen: list[ErrorCode | None] = []
    leader = world.leader
    leader.progressed = lambda: seen.append(leader.records_deleted(6, leader.leader_epoch)[0])
    leader.update_live_brokers(world.broker_epochs)
    assert not seen, "nothing changed"
    leader.update_live_brokers({broker: epoch for broker, epoch in world.broker_epochs.items() if broker != 3})
    assert seen == [ErrorCode.NONE]


@pytest.mark.parametrize("offset", [7, -2, 2**62])
def test_no_further_than_what_is_committed(offset: int) -> None:
    world = written()
    world.write("not replicated", acks=1)
    assert world.leader.delete_records(offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert world.logs[1].log_start_offset == 0
    assert world.leader.delete_records(ALL) == (ErrorCode.NONE, 6)


def test_the_start_goes_back_for_nobody() -> None:
    world = written()
    world.leader.delete_records(4)
    assert world.leader.delete_records(2) == (ErrorCode.NONE, 2)
    assert world.logs[1].log_start_offset == 4


def test_a_topic_that_only_compacts_refuses_it_and_so_does_a_follower() -> None:
    world = written()
    world.leader.update_settings(replace(world.settings, deletes=False))
    assert world.leader.delete_records(2) == (ErrorCode.POLICY_VIOLATION, -1)
    assert world.partitions[2].delete_records(2) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    assert world.partitions[2].records_deleted(2, 0)[0] is ErrorCode.NOT_LEADER_OR_FOLLOWER
