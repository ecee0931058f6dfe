"""In-sync replicas: the leader proposes, the controller commits, and until then either ISR may be in
force (KIP-497)."""

import pytest

from reference_impl.core.identifiers import ErrorCode
from reference_impl.core.isr import Committed, PendingExpand, PendingShrink
from tests.reference_impl.core.replication_world import LAG_MS, World


def without_3(*, min_isr: int = 2) -> World:
    """ISR (1, 2), one record; 3 is alive and behind."""
    world = World(min_isr=min_isr)
    world.write("a")
    world.fetch(2, rounds=2)
    world.now_ms += 2 * LAG_MS
    assert world.shrink() is ErrorCode.NONE
    assert world.state.isr == (1, 2)
    return world


def test_a_replica_behind_for_longer_than_the_limit_leaves_and_the_write_goes_on() -> None:
    world = World()
    result = world.write("a")
    world.fetch(2, rounds=2)
    world.now_ms += LAG_MS
    assert world.shrink() is None
    world.now_ms += 1
    world.leader.check_shrink(now_ms=world.now_ms)
    assert world.leader.isr_state.maximal_isr == {1, 2, 3}
    assert world.outcome(result) is None
    assert world.settle_isr() is ErrorCode.NONE
    assert world.outcome(result) is ErrorCode.NONE
    assert world.leader.state == world.state


def test_an_equal_log_stays_in_sync_however_long_it_is_silent() -> None:
    world = World()
    world.write("a")
    world.fetch(2, 3, rounds=2)
    world.now_ms += 100 * LAG_MS
    assert world.shrink() is None
    world.write("b")
    assert world.shrink() is ErrorCode.NONE  # at the next write the silent ones are late at once (claim S34)
    assert world.state.isr == (1,)


def test_always_one_fetch_behind_is_in_sync_and_never_caught_up_is_not() -> None:
    world = World()
    world.write("0")
    world.fetch(2, 3, rounds=2)
    slow = world.ask(3)
    for number in range(30):
        world.write(str(number + 1))
        world.fetch(2)
        world.now_ms += LAG_MS / 10
        if number % 8 == 0 and slow is not None:  # 3 fetches, but takes in only what was there long ago
            world.deliver(slow)
            slow = world.ask(3)
        world.shrink()
    assert world.state.isr == (1, 2)


def test_a_newcomer_joins_at_the_end_and_counts_from_the_proposal_on() -> None:
    """R27: the controller may have committed it before the leader hears so."""
    world = without_3()
    world.fetch(3, rounds=2)
    assert isinstance(world.leader.isr_state, PendingExpand)
    proposal = world.leader.isr_proposal(now_ms=world.now_ms)
    assert proposal is not None
    assert world.leader.isr_proposal(now_ms=world.now_ms) is None
    result = world.write("b")
    world.fetch(2, rounds=2)
    assert world.outcome(result) is None
    world.leader.isr_answered(proposal, *world.alter_partition(proposal))
    assert world.leader.isr_state.isr == (1, 2, 3)
    world.fetch(3, rounds=2)
    assert world.outcome(result) is ErrorCode.NONE


def test_a_newcomer_must_reach_the_start_of_the_leader_epoch() -> None:
    """R28, KAFKA-7128: replica 2 leads with a high watermark that lags behind what 1 had committed."""
    world = without_3()
    world.write("b")
    world.fetch(2, rounds=1)
    late = world.ask(2)  # 1 counts b as committed; 2 does not hear of it
    assert late is not None
    assert world.leader.high_watermark == 2
    world.kill(1)
    world.notice_deaths()
    world.tell()
    assert world.leader.high_watermark == 1
    request = world.leader.read_for_follower(
        3, world.broker_epochs[3], 1, last_fetched_epoch=0, current_leader_epoch=1, max_bytes=1, now_ms=world.now_ms
    )
    assert request.error is ErrorCode.NONE
    assert world.leader.isr_state == Committed(isr=(2,))
    world.fetch(3, rounds=2)
    assert isinstance(world.leader.isr_state, PendingExpand)


def test_a_broker_that_is_leaving_or_is_a_newer_incarnation_does_not_join() -> None:
    for registered in ({1: 101, 2: 102}, {1: 101, 2: 102, 3: 999}):
        world = without_3()
        world.fetch(3)
        world.leader.update_live_brokers({**registered})
        world.leader.read_for_follower(
            3,
            -1 if 3 not in registered else 999,
            0,
            last_fetched_epoch=-1,
            current_leader_epoch=0,
            max_bytes=1,
            now_ms=world.now_ms,
        )
        world.leader.update_live_brokers({**registered, **({3: 1000} if 3 in registered else {})})
        answer = world.leader.read_for_follower(
            3, 999, 1, last_fetched_epoch=0, current_leader_epoch=0, max_bytes=1, now_ms=world.now_ms
        )
        expected = ErrorCode.NOT_LEADER_OR_FOLLOWER if 3 in registered else ErrorCode.NONE
        assert answer.error is expected
        assert world.leader.isr_state == Committed(isr=(1, 2))


def test_an_expansion_names_the_incarnation_that_caught_up_even_when_it_is_sent_again() -> None:
    """R26, KIP-903: a newer incarnation of the same broker may have lost its tail."""
    world = without_3()
    world.fetch(3, rounds=2)
    first = world.leader.isr_proposal(now_ms=world.now_ms)
    assert first is not None
    old = world.broker_epochs[3]
    world.kill(3)
    world.start(3)
    world.tell()
    world.leader.isr_answered(first, ErrorCode.REQUEST_TIMED_OUT, None)
    again = world.leader.isr_proposal(now_ms=world.now_ms)
    assert again == first
    assert dict(again.isr)[3] == old
    error, state = world.alter_partition(again)
    world.leader.isr_answered(again, error, state)
    assert error is ErrorCode.INELIGIBLE_REPLICA
    assert world.leader.isr_state == Committed(isr=(1, 2))


@pytest.mark.parametrize(
    ("error", "state", "sent_again"),
    [
        (ErrorCode.INELIGIBLE_REPLICA, Committed, False),
        (ErrorCode.OPERATION_NOT_ATTEMPTED, Committed, False),
        (ErrorCode.INVALID_UPDATE_VERSION, PendingExpand, False),
        (ErrorCode.FENCED_LEADER_EPOCH, PendingExpand, False),
        (ErrorCode.UNKNOWN_TOPIC_ID, PendingExpand, False),
        (ErrorCode.NOT_CONTROLLER, PendingExpand, True),
        (ErrorCode.REQUEST_TIMED_OUT, PendingExpand, True),
        (ErrorCode.STALE_BROKER_EPOCH, PendingExpand, True),
    ],
)
def test_a_refusal_reverts_waits_or_is_tried_again(error: ErrorCode, state: type, sent_again: bool) -> None:
    world = without_3()
    world.fetch(3, rounds=2)
    proposal = world.leader.isr_proposal(now_ms=world.now_ms)
    assert proposal is not None
    world.leader.isr_answered(proposal, error, None)
    assert isinstance(world.leader.isr_state, state)
    assert (world.leader.isr_proposal(now_ms=world.now_ms) == proposal) is sent_again


def test_the_controllers_repeated_update_lets_a_waiting_proposal_be_sent_again_but_not_one_in_flight() -> None:
    world = without_3()
    world.fetch(3, rounds=2)
    proposal = world.leader.isr_proposal(now_ms=world.now_ms)
    assert proposal is not None
    world.tell(1)
    assert world.leader.isr_proposal(now_ms=world.now_ms) is None
    world.leader.isr_answered(proposal, ErrorCode.UNKNOWN_TOPIC_ID, None)
    world.tell(1)
    assert world.leader.isr_proposal(now_ms=world.now_ms) == proposal


def test_a_newer_update_of_the_controller_overtakes_the_answer() -> None:
    world = without_3()
    world.fetch(3, rounds=2)
    proposal = world.leader.isr_proposal(now_ms=world.now_ms)
    assert proposal is not None
    error, old_state = world.alter_partition(proposal)
    world.kill(2)
    world.notice_deaths()
    world.tell(1)
    world.leader.isr_answered(proposal, error, old_state)
    assert world.leader.isr_state == Committed(isr=(1, 3))
    assert world.leader.state == world.state


def test_a_pending_shrink_still_needs_the_slow_replica() -> None:
    """R27: until the controller confirms, it may elect the one that is left out."""
    world = World()
    result = world.write("a")
    world.fetch(2, rounds=2)
    world.now_ms += 2 * LAG_MS
    world.leader.check_shrink(now_ms=world.now_ms)
    assert isinstance(world.leader.isr_state, PendingShrink)
    world.fetch(2)
    assert world.outcome(result) is None


def test_a_leader_tells_whom_it_asks_for_and_when_it_hears_of_an_isr_that_it_did_not_make() -> None:
    world = without_3()
    world.fetch(3, rounds=2)
    assert world.evidence[1].asked_for == [(0, 3)]
    assert world.settle_isr() is ErrorCode.NONE
    world.tell(1)
    assert world.evidence[1].learned == []

    world._set_isr((1, 2))  # 3 shuts down, and its controller takes it out
    world.write("b")
    world.fetch(2, rounds=2)
    world.tell(1)

    assert world.evidence[1].learned == [(0, world.state.partition_epoch, 1)]
