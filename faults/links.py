"""Which links a network partition cuts: small pure functions of the existing links and the nodes to separate."""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from harness.errors import UsageError
from harness.ports.cluster import CanCutLinks, Cluster, Link, NodeId

_OF_CLIENTS = re.compile(r"\s*clients\s*>\s*n?(?P<target>[0-9]+)\s*")


def brokers_of(cluster: Cluster) -> list[NodeId]:
    return [node.node for node in cluster.nodes if node.role == "broker"]


def all_links(cluster: Cluster) -> Sequence[Link]:
    assert isinstance(cluster, CanCutLinks), "a fault on links runs only where the cluster can cut them"
    return cluster.links()


def between_peers(links: Sequence[Link], groups: Sequence[Collection[NodeId]]) -> list[Link]:
    """The links between brokers of different groups, both directions; a broker in no group keeps all of its links."""
    place = {node: number for number, group in enumerate(groups) for node in group}
    return [
        link
        for link in links
        if link.source in place and link.target in place and place[link.source] != place[link.target]
    ]


def apart_from_brokers(links: Sequence[Link]) -> set[NodeId]:
    """Coordination services and controllers that are not brokers: the nodes without a link from a client.

    Somebody else's cluster has no client links; there they are the nodes that open no link themselves.
    """
    brokers = {link.target for link in links if link.client is not None} or {
        link.source for link in links if link.source is not None
    }
    return {link.target for link in links} - brokers


def peers_of(links: Sequence[Link], victims: Collection[int]) -> list[Link]:
    """Every link between a victim and any other broker, both directions. A victim may be a controller without replicas:
    brokers open links to it."""
    others = apart_from_brokers(links) - set(victims)
    return [link for link in _between_nodes(links, victims) if link.source not in others and link.target not in others]


def to_coordination(links: Sequence[Link], victims: Collection[int]) -> list[Link]:
    """The victims' links to the coordination service or to the controllers; all links of a victim that is one."""
    apart = apart_from_brokers(links)
    return [link for link in _between_nodes(links, victims) if link.target in apart]


def _between_nodes(links: Sequence[Link], victims: Collection[int]) -> list[Link]:
    """The links between a victim and any node that is none."""
    return [link for link in links if link.source is not None and (link.source in victims) != (link.target in victims)]


def of_clients(links: Sequence[Link], victims: Collection[int]) -> list[Link]:
    return [link for link in links if link.client is not None and link.target in victims]


def isolating(links: Sequence[Link], victims: Collection[int], origin: str) -> list[Link]:
    """origin: peers | coordination | cluster | clients | all, as a scenario's `isolate ... from` says."""
    parts = {
        "peers": (peers_of,),
        "coordination": (to_coordination,),
        "cluster": (peers_of, to_coordination),
        "clients": (of_clients,),
        "all": (peers_of, to_coordination, of_clients),
    }
    return list(dict.fromkeys(link for part in parts[origin] for link in part(links, victims)))


def named(links: Sequence[Link], names: Sequence[str]) -> list[Link]:
    """Links written "2>1", "c1>2" or "clients>2" in a scenario. Raises UsageError that lists the existing links."""
    found: list[Link] = []
    for name in names:
        meant = _meant_by(name, links)
        if not meant:
            known = " ".join(str(link) for link in links)
            raise UsageError(f'no link {name!r}: write "2>1" (what broker 2 opens to broker 1); links: {known}')
        found.extend(meant)
    return found


def is_of_clients(name: str) -> bool:
    """Whether the name is of a link that clients open; the link need not exist."""
    try:
        return _OF_CLIENTS.fullmatch(name) is not None or Link.parse(name).client is not None
    except ValueError:
        return False


def moved(name: str, move: Callable[[int], int]) -> str:
    """The link between the brokers that stand for those of `name`; a client stays, and what is no link's name."""
    try:
        every = _OF_CLIENTS.fullmatch(name)
        if every is not None:
            return f"clients>{move(int(every['target']))}"
        link = Link.parse(name)
    except ValueError:
        return name
    source = None if link.source is None else NodeId(move(link.source))
    return replace(link, source=source, target=NodeId(move(link.target))).short_name


def _meant_by(name: str, links: Sequence[Link]) -> list[Link]:
    every = _OF_CLIENTS.fullmatch(name)
    if every is not None:
        return of_clients(links, [int(every["target"])])
    try:
        link = Link.parse(name)
    except ValueError:
        return []
    return [link] if link in links else []
