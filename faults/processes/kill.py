"""A crash: SIGKILL, and a start on the same disk. What was in the page cache survives; the session does not."""

import asyncio
from dataclasses import dataclass
from typing import ClassVar

from faults.evidence import joined
from faults.processes.down import DownFault
from harness.ports.cluster import CanCrash, Cluster, Evidence
from harness.ports.faults import Aliases, Struck


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
        # Together: "both at once" is a different story from "first one, then the other".
        return joined(await asyncio.gather(*(cluster.kill(node) for node in struck.nodes)))
