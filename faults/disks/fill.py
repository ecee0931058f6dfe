"""A full disk: no byte is free in the victims' data directories. A broker that cannot write halts and keeps its data;
when there is space again, it is started if it has ended."""

from dataclasses import dataclass
from typing import ClassVar

from harness.ports.capabilities import CanFillDisks
from harness.ports.cluster import CanCrash, Cluster, Evidence
from harness.ports.faults import Aliases, Fault, Struck, joined


@dataclass(frozen=True, kw_only=True)
class Fill(Fault):
    name = "fill"
    aliases: ClassVar[Aliases] = {"disk-full": {}}
    says = "no byte is free on the disk; then room again, and a start if it has ended"
    kind = "full"
    needs = (CanFillDisks, CanCrash)
    not_while = ("down",)
    undone_by = "free"

    async def begin(self, cluster: Cluster, struck: Struck) -> Evidence:
        assert isinstance(cluster, CanFillDisks)
        return joined([await cluster.fill_disk(node) for node in struck.nodes])

    async def end(self, cluster: Cluster, struck: Struck) -> Evidence:
        assert isinstance(cluster, CanFillDisks)
        assert isinstance(cluster, CanCrash)
        proofs = []
        for node in struck.nodes:
            proofs.append(await cluster.free_disk(node))
            proofs.append(await cluster.start_node(node))
        return joined(proofs)
