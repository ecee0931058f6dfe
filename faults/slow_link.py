"""Slow links: every byte between the victims and the leaders they fetch from waits a while, and none is lost."""

from collections.abc import Sequence
from typing import ClassVar

from faults.cut import Pattern
from harness.interfaces import CanSlowLinks, Cluster, Evidence, Link, NodeId


class SlowLink:
    kind: ClassVar[str] = "slow"
    needs: ClassVar[tuple[type, ...]] = (CanSlowLinks,)

    def __init__(self, pattern: Pattern, *, delay_ms: float) -> None:
        self._pattern = pattern
        self._delay_ms = delay_ms
        self.links: Sequence[Link] = ()

    async def begin(self, cluster: Cluster, victims: Sequence[NodeId]) -> Evidence:
        assert isinstance(cluster, CanSlowLinks)
        self.links = self._pattern(cluster, victims)
        return await cluster.slow(self.links, delay_ms=self._delay_ms)

    async def end(self, cluster: Cluster, victims: Sequence[NodeId]) -> Evidence:
        assert isinstance(cluster, CanSlowLinks)
        return await cluster.slow(self.links, delay_ms=0)
