"""Decides whether a leader's ISR proposal is committed: the controller's checks in the order of docs/replication.md
R31."""

from collections.abc import Mapping
from dataclasses import replace

from reference_impl.core.controller.controller_rules import ControllerRules
from reference_impl.core.identifiers import ErrorCode
from reference_impl.core.state import IsrProposal, LiveBroker, PartitionState

_SOUND = ControllerRules()
RECOVERED = 0  # LeaderRecoveryState.RECOVERED; RECOVERING (KIP-704) is not implemented


def check_sender(broker_id: int, broker_epoch: int, brokers: Mapping[int, LiveBroker]) -> ErrorCode:
    """The first check: returns an error if the sender is not registered or is an older incarnation of its broker."""
    registered = brokers.get(broker_id)
    if registered is None or registered.broker_epoch != broker_epoch:
        return ErrorCode.STALE_BROKER_EPOCH
    return ErrorCode.NONE


def decide(
    proposal: IsrProposal,
    *,
    sender: int,
    state: PartitionState,
    brokers: Mapping[int, LiveBroker],
    recovery_state: int = RECOVERED,
    rules: ControllerRules = _SOUND,
) -> PartitionState | ErrorCode:
    """The remaining checks for a known partition: returns the state to commit, or the error."""
    assert proposal.topic_partition == state.topic_partition
    if proposal.leader_epoch > state.leader_epoch or proposal.partition_epoch > state.partition_epoch:
        return ErrorCode.NOT_CONTROLLER  # the leader knows the state of a newer controller
    if not rules.is_current(proposal.leader_epoch, state.leader_epoch):
        return ErrorCode.FENCED_LEADER_EPOCH
    if sender != state.leader:
        return ErrorCode.INVALID_REQUEST
    if not rules.is_current(proposal.partition_epoch, state.partition_epoch):
        return ErrorCode.INVALID_UPDATE_VERSION
    members = [member for member, _ in proposal.isr]
    if len(set(members)) != len(members) or not set(members) <= set(state.replicas) or sender not in members:
        return ErrorCode.INVALID_REQUEST
    if recovery_state != RECOVERED:
        return ErrorCode.INVALID_REQUEST
    if not all(_may_be_in_sync(brokers.get(member), epoch, rules) for member, epoch in proposal.isr):
        return ErrorCode.INELIGIBLE_REPLICA
    return replace(state, isr=_in_order_of_arrival(state.isr, members))


def _may_be_in_sync(broker: LiveBroker | None, fetched_with_epoch: int, rules: ControllerRules) -> bool:
    if broker is None or broker.shutting_down:
        return False
    return rules.may_join(fetched_with_epoch, broker.broker_epoch)


def _in_order_of_arrival(current: tuple[int, ...], proposed: list[int]) -> tuple[int, ...]:
    # A returning replica is appended at the end, as the scenario second-topic shows.
    staying = [member for member in current if member in proposed]
    return (*staying, *(member for member in proposed if member not in current))
