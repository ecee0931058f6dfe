"""The classic protocol, member by member, with a clock that only the test moves."""

import pytest

from reference_impl.core.groups.group_data import GroupSettings, Identity
from reference_impl.core.identifiers import ErrorCode
from tests.reference_impl.core.groups.group_world import (
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    SETTINGS,
    SUBSCRIPTION,
    World,
)


def test_the_first_member_leads_and_gets_what_it_assigns() -> None:
    world = World()
    (joined,) = world.join()
    assert (joined.error, joined.generation, joined.leader) == (ErrorCode.NONE, 1, joined.member_id)
    assert [each.member_id for each in joined.members] == [joined.member_id]
    assert world.state == "CompletingRebalance"
    (synced,) = world.sync(joined.member_id, 1, {joined.member_id: b"all"})
    assert (synced.error, synced.assignment, synced.protocol) == (ErrorCode.NONE, b"all", "range")
    assert world.state == "Stable"


def test_a_new_member_waits_until_the_others_have_joined_again() -> None:
    world = World()
    leader = world.alone()
    newcomer = world.join()
    assert not newcomer
    assert world.state == "PreparingRebalance"
    assert world.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    (rejoined,) = world.join(leader)
    assert [rejoined.generation, newcomer[0].generation] == [2, 2]
    assert len(rejoined.members) == 2
    assert not newcomer[0].members, "only the leader is told who the members are"
    waiting = world.sync(newcomer[0].member_id, 2)
    assert not waiting
    (own,) = world.sync(leader, 2, {leader: b"0", newcomer[0].member_id: b"1"})
    assert (own.assignment, waiting[0].assignment) == (b"0", b"1")


def test_who_does_not_join_again_in_time_is_out() -> None:
    world = World()
    leader, other = world.pair()
    answer = world.join(leader)
    world.passes(SESSION_MS * 0.9)
    assert world.heartbeat(other, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    while not answer and world.clock.passed_ms < REBALANCE_MS * 2:
        world.passes(SESSION_MS * 0.5)
        world.heartbeat(other, 2)
    assert REBALANCE_MS <= world.clock.passed_ms < REBALANCE_MS + SESSION_MS
    assert answer[0].generation == 3
    assert [each.member_id for each in answer[0].members] == [leader]
    assert world.heartbeat(other, 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_who_is_silent_for_its_session_is_out_and_the_others_share_anew() -> None:
    world = World()
    leader, other = world.pair()
    world.passes(SESSION_MS / 2)
    assert world.heartbeat(leader, 2) is ErrorCode.NONE
    world.passes(SESSION_MS / 2 + 1)
    assert world.heartbeat(leader, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.heartbeat(other, 2) is ErrorCode.UNKNOWN_MEMBER_ID
    (rejoined,) = world.join(leader)
    assert [each.member_id for each in rejoined.members] == [leader]


def test_who_waits_for_the_others_is_not_silent() -> None:
    world = World()
    leader, other = world.pair()
    answer = world.join(leader)
    for _ in range(4):
        world.passes(SESSION_MS * 0.9)
        assert world.heartbeat(other, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    world.join(other)
    assert answer[0].error is ErrorCode.NONE


def test_who_does_not_sync_in_time_is_out() -> None:
    world = World()
    leader = world.alone()
    newcomer = world.join()
    world.join(leader)
    world.sync(leader, 2, {leader: b"0"})
    assert world.state == "Stable"
    for _ in range(int(REBALANCE_MS / SESSION_MS * 2) + 1):
        world.passes(SESSION_MS / 2)
        for member in (leader, newcomer[0].member_id):
            world.heartbeat(member, 2)
    assert world.heartbeat(newcomer[0].member_id, 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_new_dynamic_member_is_given_an_id_first_and_is_no_member_before() -> None:
    world = World()
    (refused,) = world.join(needs_known_id=True)
    assert refused.error is ErrorCode.MEMBER_ID_REQUIRED
    assert refused.member_id
    assert world.heartbeat(refused.member_id, 0) is ErrorCode.UNKNOWN_MEMBER_ID
    (joined,) = world.join(refused.member_id, needs_known_id=True)
    assert (joined.error, joined.member_id) == (ErrorCode.NONE, refused.member_id)


def test_a_promised_id_is_waited_for_no_longer_than_a_session() -> None:
    world = World()
    leader = world.alone()
    world.join(needs_known_id=True)
    world.coordinator.groups[GROUP].members[leader].session_timeout_ms = 10 * SESSION_MS
    world.heartbeat(leader, 1)
    answer = world.join(leader)
    assert not answer, "somebody is about to come"
    world.passes(SESSION_MS + 50)
    assert [each.member_id for each in answer[0].members] == [leader]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"session_timeout_ms": 5999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": (("sticky", b""),)}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"instance_id": "nobody", "member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_join_is_refused_with_kafkas_error(changes: dict[str, object], error: ErrorCode) -> None:
    world = World()
    world.alone()
    answers = world.join(**{"member_id": "", **changes})  # type: ignore[arg-type]
    assert [answer.error for answer in answers] == [error]
    assert world.state == "Stable"


def test_a_group_may_be_full() -> None:
    world = World(settings=GroupSettings(initial_rebalance_delay_ms=0, max_size=1))
    world.alone()
    assert world.join()[0].error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_the_protocol_is_the_one_most_members_prefer_of_those_that_all_know() -> None:
    world = World(settings=GroupSettings(initial_rebalance_delay_ms=1000))
    answers = [
        world.join(protocols=(("a", b"1"), ("b", b"2"), ("c", b"3"))),
        world.join(protocols=(("b", b"4"), ("a", b"5"))),
        world.join(protocols=(("x", b"6"), ("b", b"7"), ("a", b"8"))),
    ]
    world.passes(REBALANCE_MS + 2000)
    assert {answer[0].protocol for answer in answers} == {"b"}
    assert [each.metadata for answer in answers for each in answer[0].members] == [b"2", b"4", b"7"]


def test_the_first_generation_waits_for_those_who_come_at_the_same_time() -> None:
    world = World(settings=GroupSettings(initial_rebalance_delay_ms=3000))
    first = world.join()
    world.passes(2000)
    second = world.join()
    world.passes(1050)
    assert not first, "somebody came: it is prolonged"
    world.passes(3000)
    assert [answer[0].generation for answer in (first, second)] == [1, 1]


def test_a_member_that_says_nothing_new_is_told_its_generation_again() -> None:
    world = World()
    leader, other = world.pair()
    (answer,) = world.join(other)
    assert (answer.generation, answer.leader, world.state) == (2, leader, "Stable")
    assert not world.join(other, protocols=(("range", SUBSCRIPTION + b"."),)), "another subscription is news"
    assert world.state == "PreparingRebalance"


def test_the_leader_rebalances_whenever_it_joins() -> None:
    world = World()
    leader, _ = world.pair()
    assert not world.join(leader)
    assert world.state == "PreparingRebalance"


def test_a_leader_that_is_out_is_replaced_by_a_member_that_joined() -> None:
    world = World()
    leader, other = world.pair()
    assert world.leave(leader) == [ErrorCode.NONE]
    (rejoined,) = world.join(other)
    assert rejoined.leader == other


def test_several_leave_at_once_and_each_is_told_its_own_error() -> None:
    world = World()
    leader, other = world.pair()
    assert world.leave(leader, "nobody", other) == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE]
    world.passes(REBALANCE_MS + 50)
    assert world.state == "Empty"
    assert world.generation == 3


def test_a_sync_of_another_generation_gets_nothing() -> None:
    world = World()
    leader, other = world.pair()
    assert world.sync(other, 1)[0].error is ErrorCode.ILLEGAL_GENERATION
    assert world.sync(other, 2)[0].assignment == b"1"
    world.join(leader)
    assert world.sync(other, 2)[0].error is ErrorCode.REBALANCE_IN_PROGRESS


def test_nobody_is_told_an_assignment_before_it_is_replicated() -> None:
    world = World()
    (joined,) = world.join()
    world.log.holds = True
    answers = world.sync(joined.member_id, 1, {joined.member_id: b"all"})
    assert not answers
    world.log.replicate()
    assert answers[0].assignment == b"all"


@pytest.mark.parametrize(
    ("refused", "answer"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_an_assignment_that_cannot_be_stored_is_nobodys(refused: ErrorCode, answer: ErrorCode) -> None:
    world = World()
    (joined,) = world.join()
    world.log.refuses = refused
    assert world.sync(joined.member_id, 1, {joined.member_id: b"all"})[0].error is answer
    assert world.state == "PreparingRebalance"


def test_an_assignment_that_is_not_replicated_in_time_is_nobodys_even_if_it_is_later() -> None:
    world = World()
    (joined,) = world.join()
    world.log.holds = True
    answers = world.sync(joined.member_id, 1, {joined.member_id: b"all"})
    world.passes(SETTINGS.offsets_commit_timeout_ms)
    assert answers[0].error is ErrorCode.REBALANCE_IN_PROGRESS
    world.log.replicate()
    assert world.state == "PreparingRebalance"


# Static members


def test_a_static_member_that_is_back_gets_what_it_had_without_a_rebalance() -> None:
    world = World()
    (joined,) = world.join(instance_id="one")
    world.sync(joined.member_id, 1, {joined.member_id: b"all"})
    (back,) = world.join(instance_id="one")
    assert (back.error, back.generation, back.skip_assignment) == (ErrorCode.NONE, 1, True)
    assert back.member_id != joined.member_id
    assert world.state == "Stable"
    assert world.sync(back.member_id, 1)[0].assignment == b"all"


def test_a_client_that_cannot_skip_the_assignment_is_not_told_that_it_leads() -> None:
    world = World()
    (joined,) = world.join(instance_id="one")
    world.sync(joined.member_id, 1, {joined.member_id: b"all"})
    (back,) = world.join(instance_id="one", can_skip_assignment=False)
    assert back.leader == joined.member_id != back.member_id
    assert not back.members


def test_the_instance_that_was_there_before_is_fenced() -> None:
    world = World()
    (joined,) = world.join(instance_id="one")
    world.sync(joined.member_id, 1, {joined.member_id: b"all"})
    world.join(instance_id="one")
    before = Identity(member_id=joined.member_id, instance_id="one", generation=1)
    assert world.coordinator.heartbeat(GROUP, before) is ErrorCode.FENCED_INSTANCE_ID
    assert world.coordinator.leave(GROUP, [before])[1] == [ErrorCode.FENCED_INSTANCE_ID]
    assert world.join(joined.member_id, instance_id="one")[0].error is ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_keeps_its_place_while_others_rebalance() -> None:
    world = World()
    (joined,) = world.join(instance_id="one")
    world.sync(joined.member_id, 1, {joined.member_id: b"all"})
    newcomer = world.join(session_timeout_ms=10 * REBALANCE_MS)
    world.coordinator.groups[GROUP].members[joined.member_id].heard_until_ms = 100 * REBALANCE_MS
    world.passes(REBALANCE_MS + 50)
    (answer,) = newcomer
    assert {each.instance_id for each in answer.members} == {"one", None}
    assert answer.leader == answer.member_id, "one who joined leads"


def test_a_static_member_may_leave_by_its_instance_alone() -> None:
    world = World()
    world.join(instance_id="one")
    _, errors = world.coordinator.leave(GROUP, [Identity(member_id="", instance_id="one")])
    assert errors == [ErrorCode.NONE]


def test_a_static_members_new_id_is_stored() -> None:
    world = World()
    (joined,) = world.join(instance_id="one")
    world.sync(joined.member_id, 1, {joined.member_id: b"all"})
    (back,) = world.join(instance_id="one")
    after = world.successor()
    now = Identity(member_id=back.member_id, instance_id="one", generation=1)
    assert after.coordinator.heartbeat(GROUP, now) is ErrorCode.NONE
    before = Identity(member_id=joined.member_id, instance_id="one", generation=1)
    assert after.coordinator.heartbeat(GROUP, before) is ErrorCode.FENCED_INSTANCE_ID


def test_a_static_members_new_id_that_cannot_be_stored_is_not_given() -> None:
    world = World()
    (joined,) = world.join(instance_id="one")
    world.sync(joined.member_id, 1, {joined.member_id: b"all"})
    world.log.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.join(instance_id="one")[0].error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    known = Identity(member_id=joined.member_id, instance_id="one", generation=1)
    assert world.coordinator.heartbeat(GROUP, known) is ErrorCode.NONE
