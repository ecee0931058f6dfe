"""A full disk: not a byte is free in the victims' data directories. A broker that cannot write halts, and keeps what it
has; once there is room again it is started, if it has ended."""

from collections.abc import Sequence
from typing import ClassVar

from faults.evidence import joined
from harness.harms import CanFillDisks
from harness.interfaces import CanCrash, Cluster, Evidence, NodeId


class DiskFull:
    kind: ClassVar[str] = "full"
    needs: ClassVar[tuple[type, ...]] = (CanFillDisks, CanCrash)

    async def begin(self, cluster: Cluster, victims: Sequence[NodeId]) -> Evidence:
        assert isinstance(cluster, CanFillDisks)
        return joined([await cluster.fill_disk(node) for node in victims])

    async def end(self, cluster: Cluster, victims: Sequence[NodeId]) -> Evidence:
        assert isinstance(cluster, CanFillDisks)
        assert isinstance(cluster, CanCrash)
        proofs = []
        for node in victims:
            proofs.append(await cluster.free_disk(node))
            proofs.append(await cluster.start_node(node))
        return joined(proofs)
