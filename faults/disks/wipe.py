"""Disk loss: the victims' data directories are emptied, and they start again with nothing. A running node is killed."""

from dataclasses import dataclass
from typing import ClassVar

from faults.evidence import joined
from faults.processes.down import DownFault, killed
from harness.ports.cluster import CanCrash, CanWipe, Cluster, Evidence
from harness.ports.faults import Aliases, Struck


@dataclass(frozen=True, kw_only=True)
class Wipe(DownFault):
    name = "wipe"
    aliases: ClassVar[Aliases] = {"disk-loss": {}}
    says = "an empty disk (SIGKILL first, if it runs), then a start"
    kind = "wipe"
    needs = (CanCrash, CanWipe)
    destroys = "disk"

    async def begin(self, cluster: Cluster, struck: Struck) -> Evidence:
        assert isinstance(cluster, CanWipe)
        proofs = await killed(cluster, struck.nodes)
        return joined([*proofs, *[await cluster.wipe(node) for node in struck.nodes]])
