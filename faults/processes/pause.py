"""A pause: SIGSTOP. The kernel still accepts connections and bytes, so it is not a network partition; a leader that is
paused longer than its session returns as a zombie."""

import asyncio
from dataclasses import dataclass

from harness.ports.cluster import CanPause, Cluster, Evidence
from harness.ports.faults import Fault, State, Struck, joined


@dataclass(frozen=True, kw_only=True)
class Pause(Fault):
    name = "pause"
    says = "SIGSTOP, then SIGCONT"
    kind = "pause"
    needs = (CanPause,)
    not_while = ("down", "paused")
    undone_by = "resume"

    @property
    def leaves(self) -> State:
        return "paused"

    async def begin(self, cluster: Cluster, struck: Struck) -> Evidence:
        assert isinstance(cluster, CanPause)
        return joined(await asyncio.gather(*(cluster.pause(node) for node in struck.nodes)))

    async def end(self, cluster: Cluster, struck: Struck) -> Evidence:
        assert isinstance(cluster, CanPause)
        return joined([await cluster.resume(node) for node in struck.nodes])
