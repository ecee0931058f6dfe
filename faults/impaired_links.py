"""Impaired links: packets are lost, doubled or overtaken, and TCP has to make up for it. No byte is lost for good."""

from collections.abc import Sequence
from typing import ClassVar

from faults.cut import Pattern
from harness.harms import CanImpairPackets, Impairment
from harness.interfaces import Cluster, Evidence, Link, NodeId


class ImpairedLinks:
    kind: ClassVar[str] = "impair"
    needs: ClassVar[tuple[type, ...]] = (CanImpairPackets,)

    def __init__(self, pattern: Pattern, impairment: Impairment) -> None:
        self._pattern = pattern
        self._impairment = impairment
        self.links: Sequence[Link] = ()

    async def begin(self, cluster: Cluster, victims: Sequence[NodeId]) -> Evidence:
        assert isinstance(cluster, CanImpairPackets)
        self.links = self._pattern(cluster, victims)
        return await cluster.impair(self.links, self._impairment)

    async def end(self, cluster: Cluster, victims: Sequence[NodeId]) -> Evidence:
        assert isinstance(cluster, CanImpairPackets)
        return await cluster.impair(self.links, Impairment())
