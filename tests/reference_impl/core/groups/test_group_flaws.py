"""What a planted flaw of groups does, where the sound coordinator does not."""

import pytest

from reference_impl.core.flaws import with_flaws
from reference_impl.core.identifiers import ErrorCode
from tests.reference_impl.core.groups.group_world import World
from tests.reference_impl.core.groups.test_transactional_offsets import commit, end


@pytest.fixture(params=[False, True], ids=["sound", "flawed"])
def is_flawed(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def world(flaw: str, is_flawed: bool) -> World:
    return World(rules=with_flaws([flaw] if is_flawed else []).groups)


def test_a_commit_that_was_answered_before_replication_is_lost_with_its_coordinator(is_flawed: bool) -> None:
    made = world("commit-before-replication", is_flawed)
    made.log.holds = True
    assert made.commit(7) == ([ErrorCode.NONE] if is_flawed else [])
    assert made.committed() == (7 if is_flawed else -1)
    made.log.batches.clear()  # the next leader never had it
    assert made.successor().committed() == -1


def test_somebody_who_is_out_takes_back_what_its_successor_committed(is_flawed: bool) -> None:
    made = world("commit-of-anybody", is_flawed)
    leader, other = made.pair()
    made.commit(5, other, 2)
    made.leave(other)
    made.join(leader)
    made.sync(leader, 3, {leader: b"all"})
    made.commit(9, leader, 3)
    assert made.commit(6, other, 2) == [ErrorCode.NONE if is_flawed else ErrorCode.UNKNOWN_MEMBER_ID]
    assert made.committed() == (6 if is_flawed else 9)


def test_a_coordinator_that_loads_says_that_nothing_was_committed(is_flawed: bool) -> None:
    made = world("no-offsets-while-loading", is_flawed)
    made.commit(7)
    after = made.successor(load=False)
    assert after.committed() == (-1 if is_flawed else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    after.coordinator.replay(after.log.batches)  # all is read, and not yet known to be committed
    assert after.committed() == (-1 if is_flawed else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def test_a_late_assignment_of_the_generation_before_is_given_out(is_flawed: bool) -> None:
    made = world("sync-of-any-generation", is_flawed)
    leader, other = made.pair()
    made.join(leader)
    made.join(other)
    late = made.sync(leader, 2, {leader: b"old"})
    assert [answer.error for answer in late] == [ErrorCode.NONE if is_flawed else ErrorCode.ILLEGAL_GENERATION]


def test_only_the_active_segment_is_loaded(is_flawed: bool) -> None:
    rules = with_flaws(["load-last-segment-of-offsets"] if is_flawed else []).groups
    assert rules.loads_from(3, 9) == (9 if is_flawed else 3)


def test_offsets_of_a_transaction_that_was_aborted_count(is_flawed: bool) -> None:
    made = world("offsets-before-their-marker", is_flawed)
    made.commit(3)
    commit(made, 5)
    end(made, commits=False)
    assert made.committed() == (5 if is_flawed else 3)


def test_offsets_of_a_group_without_members_are_forgotten_at_once(is_flawed: bool) -> None:
    made = world("expire-offsets-at-once", is_flawed)
    made.commit(3)
    made.coordinator.expire()
    made.settle()
    assert made.committed() == (-1 if is_flawed else 3)
