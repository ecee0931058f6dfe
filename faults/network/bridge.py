"""A partition into two halves joined by the first victim: it reaches all brokers, the halves not each other."""

from collections.abc import Sequence
from dataclasses import dataclass

from faults import links
from faults.network.link_fault import CutFault
from harness.ports.cluster import Cluster, Link, NodeId


@dataclass(frozen=True, kw_only=True)
class Bridge(CutFault):
    name = "bridge"
    says = "two halves that meet in the first victim only"

    def links_of(self, cluster: Cluster, victims: Sequence[NodeId]) -> Sequence[Link]:
        others = [broker for broker in links.brokers_of(cluster) if broker != victims[0]]
        middle = len(others) // 2
        return links.between_peers(links.all_links(cluster), [others[:middle], others[middle:]])
