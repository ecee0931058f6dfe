"""Decides when leaders are moved back to the preferred replicas (docs/replication.md R35, claim S20)."""

from collections.abc import Collection, Iterable

from reference_impl.core.controller.controller_rules import ControllerRules
from reference_impl.core.controller.election import elect_preferred
from reference_impl.core.state import PartitionState

_SOUND = ControllerRules()


def imbalance(partitions: Iterable[PartitionState], broker_id: int) -> float:
    """The share (0 to 1) of the partitions preferring this broker that another broker leads."""
    assert broker_id >= 0
    preferring = [state for state in partitions if state.replicas[0] == broker_id]
    if not preferring:
        return 0.0
    return sum(state.leader != broker_id for state in preferring) / len(preferring)


def rebalanced(
    partitions: Collection[PartitionState],
    *,
    eligible: Collection[int],
    percentage: float,
    rules: ControllerRules = _SOUND,
) -> list[PartitionState]:
    """The partitions to move back, of those brokers whose imbalance exceeds the percentage."""
    assert percentage >= 0
    moved = []
    for broker_id in sorted(eligible):
        if imbalance(partitions, broker_id) * 100 <= percentage:
            continue
        for state in partitions:
            if state.replicas[0] == broker_id:
                elected = elect_preferred(state, eligible=eligible, rules=rules)
                if isinstance(elected, PartitionState):
                    moved.append(elected)
    return moved
