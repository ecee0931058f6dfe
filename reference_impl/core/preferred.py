"""When leaders drifted far enough from the preferred replicas to be moved back (replication.md 1.18, claim S20)."""

from collections.abc import Collection, Iterable

from reference_impl.core.election import elect_preferred
from reference_impl.core.state import PartitionState


def imbalance(partitions: Iterable[PartitionState], broker_id: int) -> float:
    """Of the partitions that prefer this broker, the share that is led elsewhere."""
    preferring = [state for state in partitions if state.replicas[0] == broker_id]
    if not preferring:
        return 0.0
    return sum(state.leader != broker_id for state in preferring) / len(preferring)


def rebalanced(
    partitions: Collection[PartitionState], *, eligible: Collection[int], percentage: float
) -> list[PartitionState]:
    """The partitions to hand back, of those brokers whose imbalance is above the percentage."""
    moved = []
    for broker_id in sorted(eligible):
        if imbalance(partitions, broker_id) * 100 <= percentage:
            continue
        for state in partitions:
            if state.replicas[0] == broker_id:
                elected = elect_preferred(state, eligible=eligible)
                if isinstance(elected, PartitionState):
                    moved.append(elected)
    return moved
