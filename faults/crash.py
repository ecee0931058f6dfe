"""A crash: SIGKILL, and a restart on the same disk. What was in the page cache survives; the session does not."""

import asyncio
from collections.abc import Sequence
from typing import ClassVar

from faults.evidence import joined
from harness.interfaces import CanCrash, CanStop, Cluster, Evidence, NodeId


class Crash:
    kind: ClassVar[str] = "kill"
    needs: ClassVar[tuple[type, ...]] = (CanCrash,)

    async def begin(self, cluster: Cluster, victims: Sequence[NodeId]) -> Evidence:
        assert isinstance(cluster, CanCrash)
        # Together: "both at once" is a different story from "first one, then the other".
        return joined(await asyncio.gather(*(cluster.kill(node) for node in victims)))

    async def end(self, cluster: Cluster, victims: Sequence[NodeId]) -> Evidence:
        assert isinstance(cluster, CanCrash)
        return joined([await cluster.start_node(node) for node in victims])


class ShutDown:
    """A clean stop: SIGTERM, controlled shutdown, and a start."""

    kind: ClassVar[str] = "stop"
    needs: ClassVar[tuple[type, ...]] = (CanStop,)

    async def begin(self, cluster: Cluster, victims: Sequence[NodeId]) -> Evidence:
        assert isinstance(cluster, CanStop)
        return joined([await cluster.shut_down(node) for node in victims])

    async def end(self, cluster: Cluster, victims: Sequence[NodeId]) -> Evidence:
        assert isinstance(cluster, CanStop)
        return joined([await cluster.start_node(node) for node in victims])
