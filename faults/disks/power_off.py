"""Power off: whatever a node's code has not synced is gone from its disk. A running node is killed first."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from faults.disks.disk_fault import DiskFault
from harness.ports.capabilities import CanLoseUnsynced
from harness.ports.cluster import CanCrash, Cluster, Evidence, NodeId
from harness.ports.faults import Struck


@dataclass(frozen=True, kw_only=True)
class PowerOff(DiskFault):
    """Of all logs of the node and of its other files: what was appended, written, renamed or removed since the fsync
    that would have kept it. `power-loss` takes so many records of one replica, synced or not."""

    name = "power-off"
    says = "all that the victim has not synced is gone from its disk (SIGKILL first, if it runs), then a start"
    kind = "power-loss"
    needs = (CanCrash, CanLoseUnsynced)
    destroys = "tail"
    weight = 0.0

    @classmethod
    def drawn(cls, chance: random.Random) -> Mapping[str, Any]:
        return {"spare": True}

    async def harm(self, cluster: Cluster, node: NodeId, struck: Struck) -> Evidence:
        assert isinstance(cluster, CanLoseUnsynced)
        return await cluster.lose_unsynced(node)
