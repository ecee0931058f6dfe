"""A crash: SIGKILL, then a start on the same disk. Data in the page cache survives; the session does not."""

import asyncio
from dataclasses import dataclass
from typing import ClassVar

from faults.processes.down import DownFault
from harness.ports.cluster import CanCrash, Cluster, Evidence
from harness.ports.faults import Aliases, Struck, joined


@dataclass(frozen=True, kw_only=True)
class Kill(DownFault):
    name = "kill"
    aliases: ClassVar[Aliases] = {"crash": {}}
    says = "SIGKILL, then a start on the same disk"
    kind = "kill"
    needs = (CanCrash,)
    not_while = ("down",)

    async def begin(self, cluster: Cluster, struck: Struck) -> Evidence:
        assert isinstance(cluster, CanCrash)
        # Together: killing both at once is a different fault from killing one after the other.
        return joined(await asyncio.gather(*(cluster.kill(node) for node in struck.nodes)))
