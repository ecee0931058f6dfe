"""Disk loss: the victims' data directories are emptied, and they start again with nothing. A running node is killed."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from faults.disks.disk_fault import DiskFault
from harness.ports.cluster import CanCrash, CanWipe, Cluster, Evidence, NodeId
from harness.ports.faults import Aliases, Struck


@dataclass(frozen=True, kw_only=True)
class Wipe(DiskFault):
    name = "wipe"
    aliases: ClassVar[Aliases] = {"disk-loss": {}}
    says = "an empty disk (SIGKILL first, if it runs), then a start"
    kind = "wipe"
    needs = (CanCrash, CanWipe)
    destroys = "disk"

    @classmethod
    def drawn(cls, chance: random.Random) -> Mapping[str, Any]:
        return {"spare": True}

    async def harm(self, cluster: Cluster, node: NodeId, struck: Struck) -> Evidence:
        assert isinstance(cluster, CanWipe)
        return await cluster.wipe(node)
