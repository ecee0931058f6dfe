"""What an observer saw of a partition on brokers 1 to 3, for tests that tell some of it."""

from typing import Any

from harness.ports.cluster import PartitionState


def seen(by: int, leader: int, epoch: int, isr: tuple[int, ...] = (1, 2, 3), **columns: Any) -> PartitionState:
    """Of orders-0, as broker `by` answers."""
    place: dict[str, Any] = {"topic": "orders", "partition": 0, "t_ns": 0, "uncertainty_ns": 0, "replicas": (1, 2, 3)}
    own: dict[str, Any] = {"exact": False, "observer": by, "partition_epoch": None, "controller_epoch": None}
    return PartitionState(**place | own | {"leader": leader, "leader_epoch": epoch, "isr": isr} | columns)


def recorded(leader: int, epoch: int, isr: tuple[int, ...] = (1, 2, 3), **columns: Any) -> PartitionState:
    """Of orders-0, as the cluster's own log has it."""
    return seen(-1, leader, epoch, isr, **{"exact": True, "partition_epoch": 0, "controller_epoch": 1} | columns)
