"""Disk loss: the process is killed, its data directory emptied, and it starts again with nothing."""

from collections.abc import Sequence
from typing import ClassVar

from faults.evidence import joined
from harness.interfaces import CanCrash, CanWipe, Cluster, Evidence, NodeId


class DiskLoss:
    kind: ClassVar[str] = "wipe"
    needs: ClassVar[tuple[type, ...]] = (CanCrash, CanWipe)

    async def begin(self, cluster: Cluster, victims: Sequence[NodeId]) -> Evidence:
        assert isinstance(cluster, CanCrash)
        assert isinstance(cluster, CanWipe)
        proofs = []
        for node in victims:
            proofs.append(await cluster.kill(node))
            proofs.append(await cluster.wipe(node))
        return joined(proofs)

    async def end(self, cluster: Cluster, victims: Sequence[NodeId]) -> Evidence:
        assert isinstance(cluster, CanCrash)
        return joined([await cluster.start_node(node) for node in victims])
