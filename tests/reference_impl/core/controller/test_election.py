"""Elections of one partition, in the schedules of the scenarios recovery-* and second-topic (docs/replication.md R32 to
R35)."""

from dataclasses import replace

from reference_impl.core.controller.election import (
    after_lost_disk,
    before_shutdown,
    elect_preferred,
    elect_unclean,
    settle,
)
from reference_impl.core.identifiers import NO_LEADER, ErrorCode, TopicPartition
from reference_impl.core.state import PartitionState


def partition(replicas: str, *, leader: int, isr: str, epoch: int = 0, number: int = 0) -> PartitionState:
    return PartitionState(
        topic_partition=TopicPartition("t", number),
        replicas=tuple(map(int, replicas)),
        leader=leader,
        isr=tuple(map(int, isr)),
        leader_epoch=epoch,
        partition_epoch=0,
        controller_epoch=1,
    )


def among(state: PartitionState, *live: int, unclean: bool = False) -> PartitionState:
    return settle(state, live=live, eligible=live, unclean=unclean)


def summary(state: PartitionState) -> tuple[int, tuple[int, ...], int]:
    return state.leader, state.isr, state.leader_epoch


def test_a_dead_leader_is_followed_by_the_first_live_in_sync_replica_in_assignment_order() -> None:
    assert summary(among(partition("312", leader=3, isr="321"), 1, 2)) == (1, (2, 1), 1)


def test_a_live_replica_outside_the_isr_is_passed_over() -> None:
    assert summary(among(partition("312", leader=3, isr="32"), 1, 2)) == (2, (2,), 1)


def test_a_live_leader_stays_and_the_dead_leave_its_isr_without_a_new_leader_epoch() -> None:
    assert summary(among(partition("123", leader=1, isr="123"), 1, 3)) == (1, (1, 3), 0)


def test_nothing_changes_for_a_healthy_partition() -> None:
    state = partition("123", leader=1, isr="123")
    assert among(state, 1, 2, 3) is state


def test_a_broker_that_is_shutting_down_is_no_candidate_but_goes_on_leading() -> None:
    state = partition("12", leader=1, isr="12")
    assert settle(state, live=[1, 2], eligible=[2]) is state
    assert summary(settle(state, live=[2], eligible=[])) == (NO_LEADER, (1, 2), 1)


class TestTheThreeRecoveryCases:
    """Scenarios recovery-*: AR 0,1,2; replica 2 was down from early on."""

    start = partition("012", leader=0, isr="01", epoch=5)

    def test_case_1_the_leader_crashes_and_the_other_in_sync_replica_leads(self) -> None:
        assert summary(among(self.start, 1, 3)) == (1, (1,), 6)

    def test_case_2_then_the_second_crashes_and_stays_in_the_isr_of_a_leaderless_partition(self) -> None:
        leaderless = among(among(self.start, 1, 3), 3)
        assert summary(leaderless) == (NO_LEADER, (1,), 7)
        assert among(leaderless, 3) is leaderless, "the epoch rises once"

    def test_case_2a_the_replica_outside_the_isr_returns_first_and_waits_for_the_other(self) -> None:
        leaderless = among(among(self.start, 1, 3), 3)
        assert among(leaderless, 0, 3) is leaderless
        assert summary(among(leaderless, 0, 1, 3)) == (1, (1,), 8)

    def test_case_2b_unclean_election_gives_it_to_the_replica_that_is_there(self) -> None:
        leaderless = among(among(self.start, 1, 3), 3)
        assert summary(among(leaderless, 0, 3, unclean=True)) == (0, (0,), 8)

    def test_case_2c_only_the_last_in_sync_replica_returns(self) -> None:
        assert summary(among(among(among(self.start, 1, 3), 3), 1, 3)) == (1, (1,), 8)

    def test_case_2d_neither_returns_and_unclean_election_takes_the_replica_left_behind(self) -> None:
        leaderless = among(among(self.start, 1, 3), 3)
        assert among(leaderless, 2, 3) is leaderless
        assert summary(among(leaderless, 2, 3, unclean=True)) == (2, (2,), 8)

    def test_case_3_both_crash_at_once_and_either_may_lead_alone(self) -> None:
        leaderless = among(self.start, 3)
        assert summary(leaderless) == (NO_LEADER, (0, 1), 6)
        assert summary(among(leaderless, 0, 3)) == (0, (0,), 7)
        assert summary(among(leaderless, 1, 3)) == (1, (1,), 7)
        assert summary(among(leaderless, 0, 1, 3)) == (0, (0, 1), 7)


class TestW1:
    """Scenario second-topic: four partitions, broker 0 stopped cleanly and started, then preferred election of P1."""

    topic = (
        partition("102", leader=1, isr="102", number=0),
        partition("021", leader=0, isr="021", number=1),
        partition("210", leader=2, isr="210", number=2),
        partition("120", leader=1, isr="120", number=3),
    )

    def stopped(self) -> list[PartitionState]:
        moved = [before_shutdown(state, 0, live=[0, 1, 2], eligible=[1, 2]) for state in self.topic]
        return [among(state, 1, 2) for state in moved]

    def test_a_clean_stop_moves_only_the_leader_that_stops(self) -> None:
        stopped = self.stopped()
        assert [state.leader for state in stopped] == [1, 2, 2, 1]
        assert [state.isr for state in stopped] == [(1, 2), (2, 1), (2, 1), (1, 2)]
        assert [state.leader_epoch for state in stopped] == [0, 1, 0, 0]

    def test_a_returned_broker_leads_again_only_by_a_preferred_election(self) -> None:
        returned = [replace(state, isr=(*state.isr, 0)) for state in self.stopped()]
        assert [among(state, 0, 1, 2) for state in returned] == returned
        elected = elect_preferred(returned[1], eligible=[0, 1, 2])
        assert isinstance(elected, PartitionState)
        assert summary(elected) == (0, (2, 1, 0), 2)
        assert elect_preferred(elected, eligible=[0, 1, 2]) is ErrorCode.ELECTION_NOT_NEEDED


def test_a_clean_stop_leaves_what_nobody_else_can_lead() -> None:
    alone = partition("12", leader=1, isr="1")
    assert before_shutdown(alone, 1, live=[1, 2], eligible=[2]) is alone
    leaderless = partition("12", leader=NO_LEADER, isr="12")
    assert before_shutdown(leaderless, 1, live=[1], eligible=[]) is leaderless


def test_a_preferred_replica_that_is_dead_or_out_of_sync_is_not_elected() -> None:
    error = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert elect_preferred(partition("123", leader=2, isr="23"), eligible=[1, 2, 3]) is error
    assert elect_preferred(partition("123", leader=2, isr="123"), eligible=[2, 3]) is error


def test_an_unclean_election_by_request_needs_a_leaderless_partition_and_a_live_replica() -> None:
    led = partition("123", leader=2, isr="2", epoch=4)
    assert elect_unclean(led, live=[2], eligible=[2]) is ErrorCode.ELECTION_NOT_NEEDED
    leaderless = replace(led, leader=NO_LEADER)
    assert elect_unclean(leaderless, live=[], eligible=[]) is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    elected = elect_unclean(leaderless, live=[1, 3], eligible=[1, 3])
    assert isinstance(elected, PartitionState)
    assert summary(elected) == (1, (1,), 5)


class TestALostDisk:
    def test_an_emptied_replica_leaves_the_isr_even_when_the_other_member_is_dead(self) -> None:
        state = partition("12", leader=NO_LEADER, isr="12", epoch=3)
        assert summary(after_lost_disk(state, 1, eligible=[1])) == (NO_LEADER, (2,), 3)

    def test_an_emptied_leader_hands_over_to_a_live_member_or_to_nobody(self) -> None:
        state = partition("123", leader=1, isr="123")
        assert summary(after_lost_disk(state, 1, eligible=[3])) == (3, (2, 3), 1)
        assert summary(after_lost_disk(state, 1, eligible=[])) == (NO_LEADER, (2, 3), 1)

    def test_an_emptied_sole_member_stays(self) -> None:
        state = partition("12", leader=NO_LEADER, isr="1")
        assert after_lost_disk(state, 1, eligible=[1, 2]) is state

    def test_a_replica_outside_the_isr_has_nothing_to_leave(self) -> None:
        state = partition("12", leader=2, isr="2")
        assert after_lost_disk(state, 1, eligible=[1, 2]) is state
