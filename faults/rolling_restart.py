"""A rolling restart: one victim after the other is stopped cleanly, started, and waited back into every ISR it left."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from faults.evidence import joined
from harness.errors import HarnessError
from harness.interfaces import CanStop, Cluster, Evidence, NodeId


class RollingRestart:
    """begin does it all, since each restart is over before the next; `topics` are those whose ISRs are waited for."""

    kind: ClassVar[str] = "stop"
    needs: ClassVar[tuple[type, ...]] = (CanStop,)
    lasts: ClassVar[bool] = False

    def __init__(self, topics: Sequence[str], *, rejoin_timeout_s: float = 25.0) -> None:
        self._topics = topics
        self._rejoin_timeout_s = rejoin_timeout_s

    async def begin(self, cluster: Cluster, victims: Sequence[NodeId]) -> Evidence:
        assert isinstance(cluster, CanStop)
        proofs = []
        for node in victims:
            proofs.append(await cluster.shut_down(node))
            proofs.append(await cluster.start_node(node))
            await self._rejoined(cluster, node)
        # In force since the first went down, not since the last came back: what happened meanwhile is its doing.
        return replace(joined(proofs), t_ns=proofs[0].t_ns)

    async def end(self, cluster: Cluster, victims: Sequence[NodeId]) -> Evidence:
        """Starts a victim that an interruption left stopped."""
        assert isinstance(cluster, CanStop)
        return joined([await cluster.start_node(node) for node in victims])

    async def _rejoined(self, cluster: Cluster, node: NodeId) -> None:
        try:
            async with asyncio.timeout(self._rejoin_timeout_s):
                while not await self._in_every_isr(cluster, node):
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise HarnessError(
                f"rolling restart: broker {node} was not back in every ISR after {self._rejoin_timeout_s:g} s"
            ) from None

    async def _in_every_isr(self, cluster: Cluster, node: NodeId) -> bool:
        states = await cluster.live_partition_states(self._topics)
        latest = {}
        for state in sorted(states, key=lambda state: state.leader_epoch):
            latest[state.topic, state.partition] = state
        return bool(latest) and all(node in state.isr for state in latest.values() if node in state.replicas)
