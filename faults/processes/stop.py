"""A clean stop: SIGTERM, controlled shutdown, and a start."""

from dataclasses import dataclass
from typing import ClassVar

from faults.processes.down import DownFault
from harness.ports.cluster import CanStop, Cluster, Evidence
from harness.ports.faults import Aliases, Struck, joined


@dataclass(frozen=True, kw_only=True)
class Stop(DownFault):
    name = "stop"
    aliases: ClassVar[Aliases] = {"shut-down": {}}
    says = "a clean stop, one victim after the other, then a start"
    kind = "stop"
    needs = (CanStop,)
    not_while = ("down", "paused")
    in_turn = True  # each hands its partitions over to the brokers that are left

    async def begin(self, cluster: Cluster, struck: Struck) -> Evidence:
        assert isinstance(cluster, CanStop)
        return joined([await cluster.shut_down(node) for node in struck.nodes])
