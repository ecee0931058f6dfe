"""A network partition: some links are cut, and healed. Which ones, the patterns below say.

Hanging (the default) is what DROP does: bytes wait, new connections stay silent. Resetting is what REJECT does.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar, Literal

from faults import links
from harness.interfaces import CanCutLinks, Cluster, Evidence, Link, NodeId

Mode = Literal["hang", "reset"]
Pattern = Callable[[Cluster, Sequence[NodeId]], Sequence[Link]]


class Cut:
    """Cuts the links that `pattern` names for the victims, and heals exactly those."""

    kind: ClassVar[str] = "cut"
    needs: ClassVar[tuple[type, ...]] = (CanCutLinks,)

    def __init__(self, pattern: Pattern, *, mode: Mode = "hang") -> None:
        self._pattern = pattern
        self._mode: Mode = mode
        self.links: Sequence[Link] = ()

    async def begin(self, cluster: Cluster, victims: Sequence[NodeId]) -> Evidence:
        assert isinstance(cluster, CanCutLinks)
        self.links = self._pattern(cluster, victims)
        return await cluster.cut(self.links, mode=self._mode)

    async def end(self, cluster: Cluster, victims: Sequence[NodeId]) -> Evidence:
        assert isinstance(cluster, CanCutLinks)
        return await cluster.heal(self.links, mode="resume" if self._mode == "hang" else "reset")


def isolate_from(origin: str) -> Pattern:
    """The victims against everybody else: peers, the coordination service only (a zombie leader), clients, or all."""

    def pattern(cluster: Cluster, victims: Sequence[NodeId]) -> Sequence[Link]:
        return links.isolating(links.all_links(cluster), victims, origin)

    return pattern


def halves(cluster: Cluster, victims: Sequence[NodeId]) -> Sequence[Link]:
    """The victims on one side, the other brokers on the other; both sides keep the coordination service."""
    others = [broker for broker in links.brokers_of(cluster) if broker not in victims]
    return links.between_peers(links.all_links(cluster), [victims, others])


def majority_ring(cluster: Cluster, victims: Sequence[NodeId]) -> Sequence[Link]:
    """Every broker sees a majority, no two see the same one: each is cut from those farthest on a ring."""
    ring = links.brokers_of(cluster)
    peers_kept = len(ring) // 2
    odd_ring = len(ring) % 2 == 1
    reach = (peers_kept + 1) // 2 if odd_ring else peers_kept // 2
    opposite = len(ring) // 2 if not odd_ring and peers_kept % 2 else None  # kept to make the number up
    apart = set()
    for place, broker in enumerate(ring):
        for step in range(reach + 1, len(ring) - reach):
            if step != opposite:
                apart.add((links.end(broker), links.end(ring[(place + step) % len(ring)])))
    if len(ring) == 3:
        # Three in a ring touch each other: one link less, and each still sees a majority of two with itself.
        first, _, last = (links.end(broker) for broker in ring)
        apart = {(first, last), (last, first)}
    return [link for link in links.all_links(cluster) if (link.source, link.target) in apart]


def bridge(cluster: Cluster, victims: Sequence[NodeId]) -> Sequence[Link]:
    """Two halves that meet in the first victim only: it sees everybody, and neither half sees the other."""
    others = [broker for broker in links.brokers_of(cluster) if broker != victims[0]]
    middle = len(others) // 2
    return links.between_peers(links.all_links(cluster), [others[:middle], others[middle:]])


def named(names: Sequence[str]) -> Pattern:
    """Exactly the links a scenario names, such as "2>1"."""

    def pattern(cluster: Cluster, victims: Sequence[NodeId]) -> Sequence[Link]:
        return links.named(links.all_links(cluster), names)

    return pattern


def held_fetches(cluster: Cluster, victims: Sequence[NodeId]) -> Sequence[Link]:
    """What the other brokers open to the victims: their fetches stop, the victims' own connections live on."""
    ends = {links.end(node) for node in victims}
    peers = {links.end(node) for node in links.brokers_of(cluster)} - ends
    return [link for link in links.all_links(cluster) if link.source in peers and link.target in ends]
