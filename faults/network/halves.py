"""A partition in two: the victims on one side, the other brokers on the other; both keep the coordination service."""

from collections.abc import Sequence
from dataclasses import dataclass

from faults import links
from faults.network.link_fault import CutFault
from harness.ports.cluster import Cluster, Link, NodeId


@dataclass(frozen=True, kw_only=True)
class Halves(CutFault):
    name = "halves"
    says = "victims on one side, the rest on the other"

    def links_of(self, cluster: Cluster, victims: Sequence[NodeId]) -> Sequence[Link]:
        others = [broker for broker in links.brokers_of(cluster) if broker not in victims]
        return links.between_peers(links.all_links(cluster), [victims, others])
