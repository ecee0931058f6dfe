"""Offsets that are committed in a transaction: pending until its marker, then told or dropped (docs/replication.md
R77)."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_impl.core.groups.group_data import Identity
from reference_impl.core.groups.offsets import Outcomes
from reference_impl.core.identifiers import ErrorCode, TopicPartition
from reference_impl.wire.group_records import CommittedOffset
from reference_impl.wire.key_values import Producer
from tests.reference_impl.core.groups.group_world import (
    FORGETTING,
    GROUP,
    PARTITION,
    World,
    delete_topic,
    remove_offset,
)

SOMEBODY = Identity(member_id="")
OTHER = TopicPartition("payments", 0)


def commit(world: World, offset: int, *, producer_id: int = 7, identity: Identity = SOMEBODY) -> list[Outcomes]:
    answers: list[Outcomes] = []
    wanted = {PARTITION: CommittedOffset(offset=offset)}
    world.coordinator.commit_in_transaction(GROUP, identity, Producer(producer_id, 0), wanted, answers.append)
    world.settle()
    return answers


def end(world: World, *, producer_id: int = 7, commits: bool) -> None:
    world.log.end_transaction(producer_id, commit=commits)
    world.coordinator.transaction_ended(producer_id, is_commit=commits)


def unstable(world: World) -> bool:
    return PARTITION in world.coordinator.fetch(GROUP, [PARTITION]).unstable


def test_an_offset_of_a_transaction_is_told_after_its_commit_alone() -> None:
    world = World()
    assert commit(world, 5) == [{PARTITION: ErrorCode.NONE}]
    assert (world.committed(), unstable(world)) == (-1, True)
    end(world, commits=True)
    assert (world.committed(), unstable(world)) == (5, False)


def test_an_offset_of_an_aborted_transaction_is_dropped() -> None:
    world = World()
    world.commit(3)
    commit(world, 5)
    end(world, commits=False)
    assert (world.committed(), unstable(world)) == (3, False)
    assert world.successor().committed() == 3


def test_an_offset_is_unstable_from_its_append_on() -> None:
    world = World()
    world.log.holds = True
    assert not commit(world, 5)
    assert unstable(world)
    world.log.lose()
    assert not unstable(world)


def test_the_next_coordinator_knows_the_open_transactions() -> None:
    world = World()
    commit(world, 5)
    world = world.successor()
    assert (world.committed(), unstable(world)) == (-1, True)
    end(world, commits=True)
    assert world.committed() == 5
    assert world.successor().committed() == 5


def test_whoever_names_a_member_must_be_that_member() -> None:
    world = World()
    stranger = Identity(member_id="stranger", generation=4)
    assert commit(world, 5, identity=stranger) == [{PARTITION: ErrorCode.ILLEGAL_GENERATION}]
    world.commit(3)
    assert commit(world, 5, identity=stranger) == [{PARTITION: ErrorCode.UNKNOWN_MEMBER_ID}]


def test_a_group_with_an_open_transaction_is_not_forgotten() -> None:
    world = World()
    commit(world, 5)
    world.clock.began_ms += 30 * 24 * 3_600_000
    world.coordinator.expire()
    world.settle()
    end(world, commits=True)
    assert world.committed() == 5


@pytest.mark.parametrize("forget", FORGETTING)
@pytest.mark.parametrize("holds", [False, True])
@pytest.mark.parametrize("was_committed", [False, True])
def test_what_is_deleted_comes_back_with_no_transaction_that_wrote_it_before(
    forget: Callable[[World], None], holds: bool, was_committed: bool
) -> None:
    world = World()
    if was_committed:
        world.commit(3)
    world.log.holds = holds
    commit(world, 5)
    forget(world)
    world.log.replicate()
    assert not unstable(world)
    after = world.successor()
    assert not unstable(after)
    end(after, commits=True)
    assert after.committed() == -1 == after.successor().committed()


@pytest.mark.parametrize("forget", [delete_topic, remove_offset])
def test_what_a_transaction_writes_after_the_deletion_counts(forget: Callable[[World], None]) -> None:
    world = World()
    commit(world, 5)
    forget(world)
    world.settle()
    commit(world, 6)
    end(world, commits=True)
    assert world.committed() == 6 == world.successor().committed()


@pytest.mark.parametrize("in_transaction", [True, False])
def test_an_offset_is_not_forgotten_for_its_age_while_a_newer_one_is_on_its_way(in_transaction: bool) -> None:
    world = World()
    world.commit(3)
    world.clock.began_ms += 30 * 24 * 3_600_000
    world.log.holds = True
    if in_transaction:
        commit(world, 5)
    else:
        world.commit(5)
    world.coordinator.expire()
    world.log.replicate()
    end(world, commits=True)
    assert world.committed() == 5 == world.successor().committed()


STEPS = st.lists(
    st.tuples(st.sampled_from(["plain", "send", "commit", "abort", "forget"]), st.integers(0, 2)), max_size=25
)


@given(STEPS)
def test_a_successor_tells_what_the_coordinator_told(steps: list[tuple[str, int]]) -> None:
    world = World()
    for number, (step, producer_id) in enumerate(steps):
        if step == "plain":
            world.commit(number)
        elif step == "send":
            commit(world, number, producer_id=producer_id)
        elif step == "forget":
            FORGETTING[producer_id](world)
            world.settle()
        else:
            end(world, producer_id=producer_id, commits=step == "commit")
    answered, is_unstable = world.committed(), unstable(world)
    after = world.successor()
    assert (after.committed(), unstable(after)) == (answered, is_unstable)
