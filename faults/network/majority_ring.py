"""A partition in which every broker reaches a majority, each a different one: every broker is cut from those farthest
from it on a ring."""

from collections.abc import Sequence
from dataclasses import dataclass

from faults import links
from faults.network.link_fault import CutFault
from harness.ports.cluster import Cluster, Link, NodeId


@dataclass(frozen=True, kw_only=True)
class MajorityRing(CutFault):
    name = "majority-ring"
    says = "every broker sees a majority, no two the same"

    def links_of(self, cluster: Cluster, victims: Sequence[NodeId]) -> Sequence[Link]:
        apart = _apart(links.brokers_of(cluster))
        return [link for link in links.all_links(cluster) if (link.source, link.target) in apart]


def _apart(ring: Sequence[NodeId]) -> set[tuple[NodeId, NodeId]]:
    if len(ring) == 3:
        # Three in a ring are all neighbours: with one link less, each still reaches a majority of two, itself included.
        first, _, last = ring
        return {(first, last), (last, first)}
    peers_kept = len(ring) // 2
    odd_ring = len(ring) % 2 == 1
    reach = (peers_kept + 1) // 2 if odd_ring else peers_kept // 2
    opposite = len(ring) // 2 if not odd_ring and peers_kept % 2 else None  # kept to reach the number of peers
    return {
        (broker, ring[(place + step) % len(ring)])
        for place, broker in enumerate(ring)
        for step in range(reach + 1, len(ring) - reach)
        if step != opposite
    }
