"""Offsets that are committed in a transaction: pending until its marker, then told or dropped (docs/replication.md
R77)."""

from hypothesis import given
from hypothesis import strategies as st

from reference_impl.core.groups.group_data import Identity
from reference_impl.core.groups.offsets import Outcomes
from reference_impl.core.identifiers import ErrorCode, TopicPartition
from reference_impl.wire.group_records import CommittedOffset
from reference_impl.wire.key_values import Producer
from tests.reference_impl.core.groups.group_world import GROUP, PARTITION, World

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


def test_a_group_that_is_deleted_keeps_what_a_transaction_may_still_commit() -> None:
    world = World()
    world.commit(3)
    commit(world, 5)
    deleted: list[ErrorCode] = []
    world.coordinator.delete(GROUP, deleted.append)
    world.settle()
    assert deleted == [ErrorCode.NONE]
    assert world.committed() == -1
    end(world, commits=True)
    assert world.committed() == world.successor().committed() == 5


STEPS = st.lists(st.tuples(st.sampled_from(["plain", "send", "commit", "abort"]), st.integers(0, 2)), max_size=25)


@given(STEPS)
def test_a_successor_tells_what_the_coordinator_told(steps: list[tuple[str, int]]) -> None:
    world = World()
    for number, (step, producer_id) in enumerate(steps):
        if step == "plain":
            world.commit(number)
        elif step == "send":
            commit(world, number, producer_id=producer_id)
        else:
            end(world, producer_id=producer_id, commits=step == "commit")
    told, is_unstable = world.committed(), unstable(world)
    after = world.successor()
    assert (after.committed(), unstable(after)) == (told, is_unstable)
