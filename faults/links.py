"""Which links a partition cuts: small pure functions over the links there are and the nodes that are set apart."""

from collections.abc import Collection, Sequence

from harness.errors import UsageError
from harness.interfaces import CanCutLinks, Cluster, Link, NodeId


def end(node: int) -> str:
    return f"n{node}"


def brokers_of(cluster: Cluster) -> list[NodeId]:
    return [node.node for node in cluster.nodes if node.role == "broker"]


def all_links(cluster: Cluster) -> Sequence[Link]:
    assert isinstance(cluster, CanCutLinks), "a fault on links runs only where the cluster can cut them"
    return cluster.links()


def between_peers(links: Sequence[Link], groups: Sequence[Collection[int]]) -> list[Link]:
    """The links between brokers of different groups, both directions; a broker in no group keeps all of its links."""
    place = {end(node): number for number, group in enumerate(groups) for node in group}
    return [
        link
        for link in links
        if link.source in place and link.target in place and place[link.source] != place[link.target]
    ]


def apart_from_brokers(links: Sequence[Link]) -> set[str]:
    """The ends of coordination services and controllers that are no brokers: nodes that no client is linked to.

    Somebody else's cluster has no links of clients; there they are the nodes that open no link themselves.
    """
    brokers = {link.target for link in links if link.source.startswith("c")} or {link.source for link in links}
    return {link.target for link in links} - brokers


def peers_of(links: Sequence[Link], victims: Collection[int]) -> list[Link]:
    """Every link between a victim and any other broker, both directions."""
    ends = {end(node) for node in victims}
    apart = apart_from_brokers(links)
    return [
        link
        for link in links
        if link.source.startswith("n")
        and link.source not in apart
        and link.target not in apart
        and (link.source in ends) != (link.target in ends)
    ]


def to_coordination(links: Sequence[Link], victims: Collection[int]) -> list[Link]:
    """The victims' links to the coordination service or to the controllers."""
    ends, apart = {end(node) for node in victims}, apart_from_brokers(links)
    return [link for link in links if link.source in ends and link.target in apart]


def of_clients(links: Sequence[Link], victims: Collection[int]) -> list[Link]:
    ends = {end(node) for node in victims}
    return [link for link in links if link.source.startswith("c") and link.target in ends]


def isolating(links: Sequence[Link], victims: Collection[int], origin: str) -> list[Link]:
    """origin: peers | coordination | clients | all, as a scenario's `isolate ... from` says."""
    parts = {"peers": peers_of, "coordination": to_coordination, "clients": of_clients}
    if origin == "all":
        return [link for part in parts.values() for link in part(links, victims)]
    return parts[origin](links, victims)


def named(links: Sequence[Link], names: Sequence[str]) -> list[Link]:
    """Links written "2>1", "c1>2" or "clients>2" in a scenario. Raises UsageError that lists what there is."""
    known = {str(link): link for link in links}
    found: list[Link] = []
    for name in names:
        source, arrow, target = (piece.strip() for piece in name.partition(">"))
        target = target if target.startswith("n") else f"n{target}"
        if source == "clients":
            found.extend(link for link in links if link.source.startswith("c") and link.target == target)
            continue
        source = source if source[:1] in ("n", "c") else f"n{source}"
        link = known.get(f"{source}>{target}")
        if not arrow or link is None:
            raise UsageError(
                f'no link {name!r}: write "2>1" (what broker 2 opens to broker 1); links: {" ".join(known)}'
            )
        found.append(link)
    return found
