"""Disk damage: flips bits in one batch of a replica's log, on a node that is down or, on request, that keeps running.

A broker that starts after a crash checks its log and cuts it before the damage; a running one serves what it reads.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from faults.disks.disk_fault import DiskFault
from faults.options import one_of
from harness.ports.capabilities import CanDamageDisks, Place
from harness.ports.cluster import CanCrash, Cluster, Evidence, NodeId
from harness.ports.faults import Aliases, State, Struck


@dataclass(frozen=True, kw_only=True)
class Damage(DiskFault):
    """running: a running node is not killed first. Only the broker itself can repair the damage, when it starts."""

    name = "damage"
    aliases: ClassVar[Aliases] = {"disk-damage": {"running": False}}
    says = "bits flipped in one batch of a replica, down or running; over with the next start"
    kind = "damage"
    needs = (CanCrash, CanDamageDisks)
    destroys = "batch"
    topic: str = ""
    partition: int = 0
    at: Annotated[Place, one_of("last", "middle", "unflushed")] = "last"
    running: bool = True

    @property
    def leaves(self) -> State:
        return "up" if self.running else "down"

    @property
    def kills_first(self) -> bool:
        return not self.running

    @classmethod
    def drawn(cls, chance: random.Random) -> Mapping[str, Any]:
        """Never of what a broker serves without reading it at its start: the promise is broken by the fault alone."""
        return {"at": "unflushed", "running": False, "spare": True}

    def least_records(self) -> int:
        return 1

    def replicas(self, struck: Struck) -> Sequence[tuple[str, int | None]]:
        return [(self.topic or struck.topics[0], self.partition)]

    async def harm(self, cluster: Cluster, node: NodeId, struck: Struck) -> Evidence:
        assert isinstance(cluster, CanDamageDisks)
        return await cluster.damage(node, self.topic or struck.topics[0], self.partition, at=self.at)
