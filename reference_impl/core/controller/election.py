"""Elects partition leaders (docs/replication.md R32 to R36): the first live in-sync replica in assignment order.

One rule has priority: an update never removes an ISR member unless a live leader remains. Every member of the
controller's ISR holds every committed record, so any of them can later lead without loss. Each function takes a
partition's state and returns the next one; the identical object means that nothing has to be written.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from reference_impl.core.controller.controller_rules import ControllerRules
from reference_impl.core.identifiers import NO_LEADER, ErrorCode
from reference_impl.core.state import PartitionState

_SOUND = ControllerRules()


def first_in_order(replicas: Sequence[int], among: Collection[int], eligible: Collection[int]) -> int:
    """Returns the first replica of the assignment that is both a candidate and eligible, or NO_LEADER."""
    return next((replica for replica in replicas if replica in among and replica in eligible), NO_LEADER)


def settle(
    state: PartitionState,
    *,
    live: Collection[int],
    eligible: Collection[int],
    unclean: bool = False,
    rules: ControllerRules = _SOUND,
) -> PartitionState:
    """Adapts a partition to the set of live brokers; `eligible` are those of them that are not shutting down.

    A live leader stays, and dead brokers leave its ISR. Otherwise a leader is elected; without a candidate the ISR
    stays.
    """
    assert set(eligible) <= set(live)
    if state.leader in live:
        return _with_isr(state, [member for member in state.isr if member in live])
    may_lead = [replica for replica in state.replicas if rules.may_lead(replica in eligible)]
    candidate = first_in_order(state.replicas, state.isr, [each for each in may_lead if each != state.leader])
    if candidate != NO_LEADER:
        isr = [member for member in state.isr if member in live or member == candidate]
        return _led_by(state, candidate, isr, rules)
    if rules.elects_unclean(unclean):
        candidate = first_in_order(state.replicas, state.replicas, eligible)
        if candidate != NO_LEADER:
            return _led_by(state, candidate, [candidate], rules)
    return state if state.leader == NO_LEADER else _led_by(state, NO_LEADER, state.isr, rules)


def after_lost_disk(
    state: PartitionState, broker_id: int, *, eligible: Collection[int], rules: ControllerRules = _SOUND
) -> PartitionState:
    """R52: an emptied replica leaves every ISR that has another member, live or dead; a sole member stays."""
    assert broker_id >= 0
    if broker_id not in state.isr or len(state.isr) == 1:
        return state
    isr = [member for member in state.isr if member != broker_id]
    if state.leader != broker_id:
        return _with_isr(state, isr)
    return _led_by(state, first_in_order(state.replicas, isr, eligible), isr, rules)


def before_shutdown(
    state: PartitionState,
    broker_id: int,
    *,
    live: Collection[int],
    eligible: Collection[int],
    rules: ControllerRules = _SOUND,
) -> PartitionState:
    """R55: moves leadership to another live in-sync replica and removes the broker from the ISR; otherwise nothing
    changes."""
    assert broker_id >= 0
    others = [member for member in state.isr if member != broker_id]
    if state.leader == broker_id:
        successor = first_in_order(state.replicas, others, [other for other in eligible if other != broker_id])
        return state if successor == NO_LEADER else _led_by(state, successor, others, rules)
    return _with_isr(state, others) if state.leader in live and others else state


def elect_preferred(
    state: PartitionState, *, eligible: Collection[int], rules: ControllerRules = _SOUND
) -> PartitionState | ErrorCode:
    """Makes the first replica of the assignment the leader if it is live and in sync (ElectLeaders type 0)."""
    assert state.replicas
    preferred = state.replicas[0]
    if state.leader == preferred:
        return ErrorCode.ELECTION_NOT_NEEDED
    if preferred not in eligible or not rules.may_be_preferred(preferred in state.isr):
        return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    return _led_by(state, preferred, tuple(dict.fromkeys((*state.isr, preferred))), rules)


def elect_unclean(
    state: PartitionState, *, live: Collection[int], eligible: Collection[int], rules: ControllerRules = _SOUND
) -> PartitionState | ErrorCode:
    """Gives a leaderless partition any live replica as leader, preferring an in-sync one (ElectLeaders type 1)."""
    assert set(eligible) <= set(live)
    if state.leader in live:
        return ErrorCode.ELECTION_NOT_NEEDED
    elected = settle(state, live=live, eligible=eligible, unclean=True, rules=rules)
    return ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE if elected.leader == NO_LEADER else elected


def _with_isr(state: PartitionState, isr: Sequence[int]) -> PartitionState:
    # A pure ISR change keeps the leader epoch (KAFKA-15021); the write raises the partition epoch.
    assert isr, "an ISR is never empty"
    assert set(isr) <= set(state.replicas)
    return state if tuple(isr) == state.isr else replace(state, isr=tuple(isr))


def _led_by(state: PartitionState, leader: int, isr: Sequence[int], rules: ControllerRules) -> PartitionState:
    assert leader == NO_LEADER or leader in state.replicas
    assert isr, "an ISR is never empty"
    return replace(state, leader=leader, isr=tuple(isr), leader_epoch=rules.next_epoch(state.leader_epoch))
