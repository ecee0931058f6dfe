"""Who leads a partition (replication.md 1.9 and 1.18): the first live in-sync replica in assignment order.

One rule stands above all: an update never removes an ISR member unless a live leader remains. Every committed record is
on every member of the controller's ISR, so any of them may wait for the others' return and lead with nothing lost.
Each function takes a partition's state and answers the next one; the same object means: nothing to write.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from reference_impl.core.identifiers import NO_LEADER, ErrorCode
from reference_impl.core.state import PartitionState


def first_in_order(replicas: Sequence[int], among: Collection[int], eligible: Collection[int]) -> int:
    """The first of the assignment that is both among those asked for and eligible; NO_LEADER when there is none."""
    return next((replica for replica in replicas if replica in among and replica in eligible), NO_LEADER)


def settle(
    state: PartitionState, *, live: Collection[int], eligible: Collection[int], unclean: bool = False
) -> PartitionState:
    """The partition among these live brokers; `eligible` are those of them that are not shutting down.

    A live leader stays and the dead leave its ISR. Otherwise an election; without a candidate the ISR stays as it is.
    """
    if state.leader in live:
        return _with_isr(state, [member for member in state.isr if member in live])
    candidate = first_in_order(state.replicas, state.isr, eligible)
    if candidate != NO_LEADER:
        return _led_by(state, candidate, [member for member in state.isr if member in live])
    if unclean:
        candidate = first_in_order(state.replicas, state.replicas, eligible)
        if candidate != NO_LEADER:
            return _led_by(state, candidate, [candidate])
    return state if state.leader == NO_LEADER else _led_by(state, NO_LEADER, state.isr)


def after_lost_disk(state: PartitionState, broker_id: int, *, eligible: Collection[int]) -> PartitionState:
    """1.18: an emptied replica leaves every ISR that has another member, alive or not; as the sole member it stays."""
    if broker_id not in state.isr or len(state.isr) == 1:
        return state
    isr = [member for member in state.isr if member != broker_id]
    if state.leader != broker_id:
        return _with_isr(state, isr)
    return _led_by(state, first_in_order(state.replicas, isr, eligible), isr)


def before_shutdown(
    state: PartitionState, broker_id: int, *, live: Collection[int], eligible: Collection[int]
) -> PartitionState:
    """1.10: leadership moves to another live in-sync replica and the broker leaves the ISR; else all stays."""
    others = [member for member in state.isr if member != broker_id]
    if state.leader == broker_id:
        successor = first_in_order(state.replicas, others, [other for other in eligible if other != broker_id])
        return state if successor == NO_LEADER else _led_by(state, successor, others)
    return _with_isr(state, others) if state.leader in live and others else state


def elect_preferred(state: PartitionState, *, eligible: Collection[int]) -> PartitionState | ErrorCode:
    """Hands the partition to the first replica of its assignment, if that is live and in sync (ElectLeaders type 0)."""
    preferred = state.replicas[0]
    if state.leader == preferred:
        return ErrorCode.ELECTION_NOT_NEEDED
    if preferred not in eligible or preferred not in state.isr:
        return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    return _led_by(state, preferred, state.isr)


def elect_unclean(
    state: PartitionState, *, live: Collection[int], eligible: Collection[int]
) -> PartitionState | ErrorCode:
    """Gives a leaderless partition any live replica, an in-sync one first (ElectLeaders type 1)."""
    if state.leader in live:
        return ErrorCode.ELECTION_NOT_NEEDED
    elected = settle(state, live=live, eligible=eligible, unclean=True)
    return ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE if elected.leader == NO_LEADER else elected


def _with_isr(state: PartitionState, isr: Sequence[int]) -> PartitionState:
    # A pure ISR change leaves the leader epoch alone (KAFKA-15021); the partition epoch rises with the write.
    return state if tuple(isr) == state.isr else replace(state, isr=tuple(isr))


def _led_by(state: PartitionState, leader: int, isr: Sequence[int]) -> PartitionState:
    return replace(state, leader=leader, isr=tuple(isr), leader_epoch=state.leader_epoch + 1)
