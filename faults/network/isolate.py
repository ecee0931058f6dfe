"""A partition that separates the victims: from their peers, from the coordination service only (a leader becomes a
zombie), from both (only clients reach them), from clients, or from all of them."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from faults import links
from faults.network.link_fault import CutFault
from faults.options import Origin
from harness.ports.cluster import Cluster, Link, NodeId
from harness.ports.faults import Aliases, LinksApart


@dataclass(frozen=True, kw_only=True)
class Isolate(CutFault):
    name = "isolate"
    aliases: ClassVar[Aliases] = {"cut-coordination": {"from": "coordination"}, "cut-clients": {"from": "clients"}}
    says = "cut from the other brokers, both directions; or from the coordination service, both, clients, or all"
    may_hit = ("broker", "controller")
    from_: Origin = "peers"

    @classmethod
    def drawn(cls, chance: random.Random) -> Mapping[str, Any]:
        return {**super().drawn(chance), "from": chance.choice(("peers", "coordination", "cluster", "clients", "all"))}

    def links_of(self, cluster: Cluster, victims: Sequence[NodeId]) -> Sequence[Link]:
        return links.isolating(links.all_links(cluster), victims, self.from_)

    def links_apart(self) -> frozenset[LinksApart]:
        """Nothing for peers: a cluster that can isolate a broker from all others is enough."""
        asked: Mapping[str, tuple[LinksApart, ...]] = {
            "peers": (),
            "coordination": ("coordination", "pairs"),
            "cluster": ("coordination", "pairs"),
            "clients": ("clients",),
            "all": ("clients",),
        }
        return frozenset(asked[self.from_])
