"""Committed offsets: who may commit, when it is answered, what a successor finds, what is forgotten."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from reference_impl.core.groups.group_data import GroupSettings, Identity
from reference_impl.core.groups.offsets import Outcomes
from reference_impl.core.identifiers import ErrorCode, TopicPartition
from reference_impl.wire.group_records import CommittedOffset
from reference_impl.wire.record_fields import TEXT_BYTES_MAX
from tests.reference_impl.core.coordinator_world import Log
from tests.reference_impl.core.groups.group_world import (
    FORGETTING,
    GROUP,
    PARTITION,
    SESSION_MS,
    SETTINGS,
    TOPIC,
    World,
)

DAY_MS = 24 * 3_600_000
OTHER = TopicPartition("payments", 0)


def test_a_commit_is_answered_and_told_when_its_record_is_replicated() -> None:
    world = World()
    world.log.holds = True
    answers = world.commit(7)
    assert not answers
    assert world.committed() == -1
    world.log.replicate()
    assert answers == [ErrorCode.NONE]
    assert world.committed() == 7


def test_a_commit_whose_time_is_up_is_open_and_is_told_once_it_is_replicated() -> None:
    world = World()
    world.log.holds = True
    answers = world.commit(7)
    world.passes(SETTINGS.offsets_commit_timeout_ms)
    assert answers == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert world.committed() == -1
    world.log.replicate()
    assert answers == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert world.committed() == 7, "a successor would find it in the log"


@pytest.mark.parametrize(
    ("refused", "answered"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
    ],
)
def test_what_cannot_be_appended_is_not_committed(refused: ErrorCode, answered: ErrorCode) -> None:
    world = World()
    world.log.refuses = refused
    assert world.commit(7) == [answered]
    assert world.committed() == -1


def test_a_term_that_ends_leaves_its_commits_open() -> None:
    world = World()
    world.log.holds = True
    answers = world.commit(7)
    after = world.successor()
    assert answers == [ErrorCode.NOT_COORDINATOR]
    assert world.committed() is ErrorCode.NOT_COORDINATOR
    assert after.committed() == 7, "here the record survived"


def test_only_a_member_of_this_generation_commits() -> None:
    world = World()
    leader, other = world.pair()
    assert world.commit(1, leader, 2) == [ErrorCode.NONE]
    assert world.commit(2, leader, 1) == [ErrorCode.ILLEGAL_GENERATION]
    assert world.commit(3, "nobody", 2) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert world.commit(4) == [ErrorCode.UNKNOWN_MEMBER_ID]
    world.leave(other)
    assert world.commit(5, other, 2) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert world.committed() == 1


def test_between_two_generations_a_member_still_commits_until_the_new_one_begins() -> None:
    world = World()
    leader, other = world.pair()
    world.join(leader)
    assert world.commit(1, other, 2) == [ErrorCode.NONE]
    world.join(other)
    assert world.state == "CompletingRebalance"
    assert world.commit(2, other, 2) == [ErrorCode.ILLEGAL_GENERATION]
    assert world.commit(3, other, 3) == [ErrorCode.REBALANCE_IN_PROGRESS]


def test_a_commit_is_a_sign_of_life() -> None:
    world = World()
    member = world.alone()
    for offset in range(4):
        world.passes(SESSION_MS * 0.7)
        assert world.commit(offset, member, 1) == [ErrorCode.NONE]


def test_a_generation_without_its_group_is_not_taken() -> None:
    assert World().commit(1, "somebody", 3) == [ErrorCode.ILLEGAL_GENERATION]


@pytest.mark.parametrize(("allowed", "longest"), [(4096, 4096), (2**20, TEXT_BYTES_MAX)])
def test_metadata_may_be_too_long_for_one_partition_alone(allowed: int, longest: int) -> None:
    world = World(settings=replace(SETTINGS, offset_metadata_max_bytes=allowed))
    outcomes: list[Outcomes] = []
    wanted = {
        PARTITION: CommittedOffset(offset=1, metadata="m" * longest),
        OTHER: CommittedOffset(offset=1, metadata="m" * (longest + 1)),
    }
    world.coordinator.commit(GROUP, Identity(member_id=""), wanted, outcomes.append)
    world.settle()
    assert outcomes == [{PARTITION: ErrorCode.NONE, OTHER: ErrorCode.OFFSET_METADATA_TOO_LARGE}]


# Loading


def test_a_successor_knows_generation_members_assignment_and_offsets() -> None:
    world = World()
    leader, other = world.pair()
    world.commit(5, leader, 2)
    world.commit(6, leader, 2)
    after = world.successor()
    assert (after.state, after.generation, after.committed()) == ("Stable", 2, 6)
    assert after.heartbeat(leader, 2) is ErrorCode.NONE
    assert after.sync(other, 2)[0].assignment == b"1"
    assert after.commit(7, other, 2) == [ErrorCode.NONE]


def test_a_successor_gives_every_member_its_whole_session() -> None:
    world = World()
    leader, _ = world.pair()
    world.passes(SESSION_MS * 0.9)
    after = world.successor()
    after.passes(SESSION_MS * 0.9)
    assert after.heartbeat(leader, 2) is ErrorCode.NONE
    after.passes(SESSION_MS * 0.2)
    assert after.state == "PreparingRebalance"


def test_while_it_loads_nothing_is_told_and_nobody_is_put_out() -> None:
    world = World()
    leader, _ = world.pair()
    world.commit(5, leader, 2)
    after = world.successor(load=False)
    assert after.committed() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert after.commit(6, leader, 2) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    assert after.join()[0].error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert after.sync(leader, 2)[0].error is ErrorCode.REBALANCE_IN_PROGRESS
    assert after.heartbeat(leader, 2) is ErrorCode.NONE
    after.load()
    assert after.committed() == 5


def test_whoever_waits_when_the_term_ends_is_sent_on() -> None:
    world = World()
    leader, _ = world.pair()
    joining = world.join(leader)
    world.successor()
    assert [answer.error for answer in joining] == [ErrorCode.NOT_COORDINATOR]
    assert world.heartbeat(leader, 2) is ErrorCode.NOT_COORDINATOR


def test_a_rebalance_that_was_under_way_is_done_again_from_the_last_stored_generation() -> None:
    world = World()
    leader, other = world.pair()
    world.join(leader)
    world.join(other)
    assert world.generation == 3
    after = world.successor()
    assert (after.state, after.generation) == ("Stable", 2)
    assert after.heartbeat(leader, 3) is ErrorCode.ILLEGAL_GENERATION
    assert after.sync(leader, 3)[0].error is ErrorCode.ILLEGAL_GENERATION


# What goes


def test_an_empty_groups_offsets_outlive_its_last_member_by_the_retention() -> None:
    world = World()
    member = world.alone()
    world.commit(5, member, 1)
    world.leave(member)
    world.passes(SETTINGS.offsets_retention_ms - 1000, step_ms=DAY_MS)
    world.coordinator.expire()
    world.settle()
    assert world.committed() == 5
    world.passes(61_000, step_ms=1000)
    world.coordinator.expire()
    world.settle()
    assert world.committed() == -1
    assert world.state == "Dead"
    after = world.successor()
    assert (after.state, after.committed()) == ("Dead", -1)


def test_what_a_living_group_reads_is_kept_and_what_it_does_not_read_any_more_is_not() -> None:
    world = World(settings=GroupSettings(initial_rebalance_delay_ms=0, offsets_retention_ms=1000))
    member = world.alone()
    world.commit(5, member, 1)
    world.commit(6, member, 1, partition=OTHER)
    world.passes(2000)
    world.coordinator.expire()
    world.settle()
    assert (world.committed(), world.committed(OTHER)) == (5, -1)


def test_a_group_is_deleted_only_without_members() -> None:
    world = World()
    member = world.alone()
    world.commit(5, member, 1)
    errors: list[ErrorCode] = []
    world.coordinator.delete(GROUP, errors.append)
    world.leave(member)
    world.coordinator.delete(GROUP, errors.append)
    world.settle()
    world.coordinator.delete(GROUP, errors.append)
    assert errors == [ErrorCode.NON_EMPTY_GROUP, ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND]
    assert world.successor().committed() == -1


def test_a_deletion_that_fails_deletes_nothing() -> None:
    world = World()
    world.commit(5)
    world.log.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    errors: list[ErrorCode] = []
    world.coordinator.delete(GROUP, errors.append)
    assert errors == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert (world.state, world.committed()) == ("Empty", 5)


def test_offsets_of_what_is_read_are_not_removed() -> None:
    world = World()
    member = world.alone()
    world.commit(5, member, 1)
    world.commit(6, member, 1, partition=OTHER)
    answers: list[tuple[ErrorCode, Outcomes]] = []
    world.coordinator.remove_offsets(GROUP, [PARTITION, OTHER], lambda *answer: answers.append(answer))
    world.settle()
    outcomes = {PARTITION: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, OTHER: ErrorCode.NONE}
    assert answers == [(ErrorCode.NONE, outcomes)]
    assert (world.committed(), world.committed(OTHER)) == (5, -1)


def test_a_deleted_topics_offsets_are_forgotten() -> None:
    world = World()
    world.commit(5)
    world.commit(6, partition=OTHER)
    world.coordinator.topics_deleted(frozenset({TOPIC}))
    world.settle()
    assert (world.committed(), world.committed(OTHER)) == (-1, 6)
    assert world.successor().committed() == -1


@pytest.mark.parametrize("forget", FORGETTING)
def test_a_commit_that_is_not_replicated_yet_is_forgotten_with_the_others(forget: Callable[[World], None]) -> None:
    world = World(log=Log(holds=True))
    world.commit(5)
    forget(world)
    world.log.replicate()
    assert world.committed() == -1 == world.successor().committed()


def test_what_a_successor_tells_never_depends_on_when_records_were_replicated() -> None:
    held = World(log=Log(holds=True))
    held.commit(5)
    held.commit(3)
    held.coordinator.topics_deleted(frozenset({"none"}))
    held.log.replicate()
    assert held.committed() == 3 == held.successor().committed()
