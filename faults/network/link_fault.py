"""The base of faults on links: the links are determined when the fault begins, and only these are healed."""

import random
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from faults import links
from faults.options import LinkNames, Mode
from harness.ports.cluster import CanCutLinks, Cluster, Evidence, Link, NodeId
from harness.ports.faults import Fault, LinksApart, NothingToStrike, Role, Struck


class LinkFault(Fault):
    """All its links together are one fault, also with several victims."""

    each_apart = False
    may_hit: ClassVar[tuple[Role, ...]] = ("broker",)

    @abstractmethod
    def links_of(self, cluster: Cluster, victims: Sequence[NodeId]) -> Sequence[Link]:
        """The links it hits for these victims."""

    def strikes(self, cluster: Cluster, victims: Sequence[NodeId]) -> Struck:
        struck = tuple(self.links_of(cluster, victims))
        if not struck:
            raise NothingToStrike(f"{self.name} of {', '.join(map(str, victims))}: there is no such link")
        return Struck(nodes=tuple(victims), links=struck)


@dataclass(frozen=True, kw_only=True)
class NamedOrPeerLinks(LinkFault):
    """links: only these; without it: every link between the victims and other brokers, both directions."""

    links: LinkNames = ()

    def links_of(self, cluster: Cluster, victims: Sequence[NodeId]) -> Sequence[Link]:
        every = links.all_links(cluster)
        return links.named(every, self.links) if self.links else links.peers_of(every, victims)

    def strikes(self, cluster: Cluster, victims: Sequence[NodeId]) -> Struck:
        """With named links the victims are the brokers at both ends."""
        found = super().strikes(cluster, victims)
        if not self.links:
            return found
        ends = {end for link in found.links for end in (link.source, link.target)}
        return Struck(
            nodes=tuple(node for node in links.brokers_of(cluster) if node in ends),
            links=found.links,
            named=self.links,
        )

    def links_apart(self) -> frozenset[LinksApart]:
        clients = any(links.is_of_clients(name) for name in self.links)
        return frozenset(("pairs", "clients") if clients else ("pairs",))


@dataclass(frozen=True, kw_only=True)
class CutFault(LinkFault):
    """A partition: some links are cut, and healed."""

    kind = "cut"
    needs = (CanCutLinks,)
    mode: Mode = "hang"

    @classmethod
    def drawn(cls, chance: random.Random) -> Mapping[str, Any]:
        return {"mode": chance.choice(("hang", "reset"))}

    def links_apart(self) -> frozenset[LinksApart]:
        return frozenset({"pairs"})

    async def begin(self, cluster: Cluster, struck: Struck) -> Evidence:
        assert isinstance(cluster, CanCutLinks)
        return await cluster.cut(struck.links, mode=self.mode)

    async def end(self, cluster: Cluster, struck: Struck) -> Evidence:
        assert isinstance(cluster, CanCutLinks)
        return await cluster.heal(struck.links, mode="resume" if self.mode == "hang" else "reset")
