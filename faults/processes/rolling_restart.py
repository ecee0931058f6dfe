"""A rolling restart: one victim after the other is stopped cleanly and started; each must rejoin every ISR it left."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from faults.processes.down import DownFault
from harness.errors import HarnessError
from harness.ports.cluster import CanStop, Cluster, Evidence, NodeId
from harness.ports.faults import Struck, joined
from harness.values import Seconds


@dataclass(frozen=True, kw_only=True)
class RollingRestart(DownFault):
    """`begin` does everything, since each restart ends before the next. rejoin: the longest time for each to rejoin."""

    name = "rolling-restart"
    says = "clean restarts, one after the other, each awaited in every ISR"
    kind = "stop"
    needs = (CanStop,)
    not_while = ("down", "paused")
    each_apart = False
    rejoin_s: Seconds = 25.0

    @property
    def lasts_s(self) -> float:
        return 0.0

    async def begin(self, cluster: Cluster, struck: Struck) -> Evidence:
        assert isinstance(cluster, CanStop)
        proofs = []
        for node in struck.nodes:
            proofs.append(await cluster.shut_down(node))
            proofs.append(await cluster.start_node(node))
            await self._rejoined(cluster, node, struck.topics)
        # In force since the first victim went down, not since the last came back: it causes what happens in between.
        return replace(joined(proofs), t_ns=proofs[0].t_ns)

    async def _rejoined(self, cluster: Cluster, node: NodeId, topics: Sequence[str]) -> None:
        try:
            async with asyncio.timeout(self.rejoin_s):
                while not await _in_every_isr(cluster, node, topics):
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise HarnessError(
                f"rolling restart: broker {node} was not back in every ISR after {self.rejoin_s:g} s"
            ) from None


async def _in_every_isr(cluster: Cluster, node: NodeId, topics: Sequence[str]) -> bool:
    states = await cluster.live_partition_states(topics)
    latest = {}
    for state in sorted(states, key=lambda state: state.leader_epoch):
        latest[state.topic, state.partition] = state
    return bool(latest) and all(node in state.isr for state in latest.values() if node in state.replicas)
