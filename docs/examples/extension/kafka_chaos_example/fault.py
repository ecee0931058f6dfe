"""Mute: what a broker opens to the other brokers is cut. It can fetch from nobody, and everybody can fetch from it.

As a follower it falls out of the ISRs; as a leader it goes on, and so does its session.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.extending.faults import CanCutLinks, Cluster, Evidence, Fault, LinksApart, NodeId, Struck


@dataclass(frozen=True, kw_only=True)
class Mute(Fault):
    name = "mute"
    says = "what it opens to the other brokers is cut: it cannot fetch, and can be fetched from"
    kind = "cut"  # shown, judged and counted as ours of that kind are: coverage condition `cuts`
    needs = (CanCutLinks,)
    may_hit = ("broker",)
    each_apart = False  # the links of all victims are one fault, with one proof

    reset: bool = False  # connections are reset; else their bytes wait

    def strikes(self, cluster: Cluster, victims: Sequence[NodeId]) -> Struck:
        assert isinstance(cluster, CanCutLinks)
        brokers = {node.node for node in cluster.nodes if node.role == "broker"}
        opened = (link for link in cluster.links() if link.source in victims and link.target in brokers)
        return Struck(nodes=tuple(victims), links=tuple(opened))

    def links_apart(self) -> frozenset[LinksApart]:
        return frozenset({"pairs"})  # some links of a broker, not all of them: not every cluster of others can do that

    async def begin(self, cluster: Cluster, struck: Struck) -> Evidence:
        assert isinstance(cluster, CanCutLinks)
        return await cluster.cut(struck.links, mode="reset" if self.reset else "hang")

    async def end(self, cluster: Cluster, struck: Struck) -> Evidence:
        assert isinstance(cluster, CanCutLinks)
        return await cluster.heal(struck.links, mode="reset" if self.reset else "resume")
