"""Power loss: records that a replica appended but never flushed are gone. A running node is killed first."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from faults.disks.disk_fault import DiskFault
from harness.ports.cluster import CanCrash, CanLosePower, Cluster, Evidence, NodeId
from harness.ports.faults import Aliases, Struck


@dataclass(frozen=True, kw_only=True)
class PowerLoss(DiskFault):
    """records: removes at least this many of the replica's last records. topic "": the scenario's first topic."""

    name = "power-loss"
    aliases: ClassVar[Aliases] = {"lose-tail": {}}
    says = "the last records of a replica were never flushed (SIGKILL first, if it runs), then a start"
    kind = "power-loss"
    needs = (CanCrash, CanLosePower)
    destroys = "tail"
    topic: str = ""
    partition: int = 0
    records: int = 1

    @classmethod
    def drawn(cls, chance: random.Random) -> Mapping[str, Any]:
        return {"records": chance.choice((1, 10, 100)), "spare": True}

    def least_records(self) -> int:
        return self.records

    def replicas(self, struck: Struck) -> Sequence[tuple[str, int | None]]:
        return [(self.topic or struck.topics[0], self.partition)]

    async def harm(self, cluster: Cluster, node: NodeId, struck: Struck) -> Evidence:
        assert isinstance(cluster, CanLosePower)
        return await cluster.lose_tail(node, self.topic or struck.topics[0], self.partition, records=self.records)
