"""Held fetches: connections of the other brokers to the victims are cut; the victims' own connections stay. If every
broker is a victim, nobody fetches from anybody."""

from collections.abc import Sequence
from dataclasses import dataclass

from faults import links
from faults.network.link_fault import CutFault
from harness.ports.cluster import Cluster, Link, NodeId


@dataclass(frozen=True, kw_only=True)
class HoldFetches(CutFault):
    name = "hold-fetches"
    says = "the other brokers' fetches from the victims stop"

    def links_of(self, cluster: Cluster, victims: Sequence[NodeId]) -> Sequence[Link]:
        brokers = set(links.brokers_of(cluster))
        peers = brokers - set(victims) or brokers
        return [link for link in links.all_links(cluster) if link.source in peers and link.target in victims]
