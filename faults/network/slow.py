"""Slow links: every byte is delayed, and none is lost."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from faults.network.link_fault import NamedOrPeerLinks
from harness.ports.cluster import CanSlowLinks, Cluster, Evidence
from harness.ports.faults import Aliases, Struck
from harness.values import Seconds

_SLIGHT_S = 0.1


@dataclass(frozen=True, kw_only=True)
class Slow(NamedOrPeerLinks):
    name = "slow"
    aliases: ClassVar[Aliases] = {"slow-link": {}}
    says = "a delay on the victims' links to other brokers, or on the named ones"
    kind = "slow"
    needs = (CanSlowLinks,)
    delay_s: Seconds = 0.5

    @classmethod
    def drawn(cls, chance: random.Random) -> Mapping[str, Any]:
        return {"delay": f"{chance.choice((20, 100, 500, 2000))} ms"}

    @property
    def harms_replicas(self) -> bool:
        """A request that is under way when its sender dies, and the news of what it changed, come well within the time
        that a fault looks at the other replicas before it takes records off a disk (faults/disks/spare.py)."""
        return self.delay_s > _SLIGHT_S

    async def begin(self, cluster: Cluster, struck: Struck) -> Evidence:
        assert isinstance(cluster, CanSlowLinks)
        return await cluster.slow(struck.links, delay_ms=1000 * self.delay_s)

    async def end(self, cluster: Cluster, struck: Struck) -> Evidence:
        assert isinstance(cluster, CanSlowLinks)
        return await cluster.slow(struck.links, delay_ms=0)
