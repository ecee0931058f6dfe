"""A pause: SIGSTOP. The kernel still accepts connections and bytes, so this is not a partition; a leader paused past
its session returns as a zombie."""

from collections.abc import Sequence
from typing import ClassVar

from faults.evidence import joined
from harness.interfaces import CanPause, Cluster, Evidence, NodeId


class Pause:
    kind: ClassVar[str] = "pause"
    needs: ClassVar[tuple[type, ...]] = (CanPause,)

    async def begin(self, cluster: Cluster, victims: Sequence[NodeId]) -> Evidence:
        assert isinstance(cluster, CanPause)
        return joined([await cluster.pause(node) for node in victims])

    async def end(self, cluster: Cluster, victims: Sequence[NodeId]) -> Evidence:
        assert isinstance(cluster, CanPause)
        return joined([await cluster.resume(node) for node in victims])
