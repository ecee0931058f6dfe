"""A partition is a set of directed links: each pattern cuts what its name says and nothing else."""

from dataclasses import dataclass
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faults import links
from faults.network.bridge import Bridge
from faults.network.halves import Halves
from faults.network.hold_fetches import HoldFetches
from faults.network.isolate import Isolate
from faults.network.link_fault import CutFault
from faults.network.majority_ring import MajorityRing
from harness.errors import UsageError
from harness.ports.cluster import COORDINATION, ClientId, Link, Node, NodeId


@dataclass
class Links:
    """Only what the patterns ask of a cluster."""

    count: int

    @property
    def nodes(self) -> list[Node]:
        brokers = [Node(node=NodeId(n), role="broker", name=f"node{n}") for n in range(1, self.count + 1)]
        return [Node(node=COORDINATION, role="coordination", name="coordination"), *brokers]

    def links(self) -> list[Link]:
        brokers = [NodeId(n) for n in range(1, self.count + 1)]
        peers = [Link(source=a, target=b) for a in brokers for b in brokers if a != b]
        coordination = [Link(source=a, target=COORDINATION) for a in brokers]
        return peers + coordination + [Link(client=ClientId(1), target=b) for b in brokers]


def cut_by(fault: CutFault, count: int, *victims: int, monkeypatch: pytest.MonkeyPatch) -> set[Link]:
    cluster = Links(count)
    monkeypatch.setattr(links, "all_links", lambda _: cluster.links())
    return set(fault.links_of(cluster, [NodeId(v) for v in victims]))  # type: ignore[arg-type]


def between(*ends: tuple[int, int]) -> set[Link]:
    return {Link(source=NodeId(source), target=NodeId(target)) for source, target in ends}


def is_both_ways(found: set[Link]) -> bool:
    return {(link.source, link.target) for link in found} == {(link.target, link.source) for link in found}


def test_isolation_cuts_both_directions_to_peers_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    found = cut_by(Isolate(), 3, 1, monkeypatch=monkeypatch)
    assert found == between((1, 2), (2, 1), (1, 3), (3, 1))


def test_a_zombie_is_cut_from_the_coordination_service_only(monkeypatch: pytest.MonkeyPatch) -> None:
    found = cut_by(Isolate(from_="coordination"), 3, 1, monkeypatch=monkeypatch)
    assert found == between((1, COORDINATION))


def test_a_leader_that_is_cut_from_the_cluster_keeps_its_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    found = cut_by(Isolate(from_="cluster"), 3, 1, monkeypatch=monkeypatch)
    assert found == between((1, 2), (2, 1), (1, 3), (3, 1), (1, COORDINATION))


@pytest.mark.parametrize("origin", ["peers", "coordination", "cluster", "all"])
def test_a_controller_without_replicas_is_cut_from_those_who_turn_to_it(
    origin: Literal["peers", "coordination", "cluster", "all"], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = cut_by(Isolate(from_=origin), 3, COORDINATION, monkeypatch=monkeypatch)
    assert found == between((1, COORDINATION), (2, COORDINATION), (3, COORDINATION))


def test_clients_lose_the_victim_and_keep_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    found = cut_by(Isolate(from_="clients"), 3, 2, monkeypatch=monkeypatch)
    assert found == {Link(client=ClientId(1), target=NodeId(2))}


def test_held_fetches_leave_the_victims_own_connections_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cut_by(HoldFetches(), 3, 1, monkeypatch=monkeypatch) == between((2, 1), (3, 1))


@pytest.mark.parametrize("fault", [Isolate(), HoldFetches()])
def test_where_every_broker_is_a_victim_each_is_apart_from_each(
    fault: CutFault, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = cut_by(fault, 3, 1, 2, 3, monkeypatch=monkeypatch)
    assert found == between((1, 2), (2, 1), (1, 3), (3, 1), (2, 3), (3, 2))


def test_halves_cut_only_between_the_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    found = cut_by(Halves(), 4, 1, 2, monkeypatch=monkeypatch)
    assert found == between((1, 3), (1, 4), (2, 3), (2, 4), (3, 1), (4, 1), (3, 2), (4, 2))


@given(st.integers(3, 9))
def test_in_a_majority_ring_every_broker_sees_a_majority_and_not_everybody(count: int) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        found = cut_by(MajorityRing(), count, monkeypatch=monkeypatch)
    assert found, "somebody must be cut from somebody"
    assert is_both_ways(found)
    for broker in range(1, count + 1):
        seen = count - sum(link.source == broker for link in found)
        assert seen >= count // 2 + 1


@given(st.integers(3, 9), st.data())
def test_two_halves_meet_in_the_bridge_and_nowhere_else(count: int, data: st.DataObject) -> None:
    bridge = data.draw(st.integers(1, count))
    with pytest.MonkeyPatch.context() as monkeypatch:
        found = cut_by(Bridge(), count, bridge, monkeypatch=monkeypatch)
    brokers = range(1, count + 1)
    seen = {a: {b for b in brokers if not between((a, b)) <= found} for a in brokers}
    assert seen[bridge] == set(brokers)
    one, other = sorted({tuple(sorted(seen[a] - {bridge})) for a in seen if a != bridge})
    assert set(one).isdisjoint(other)
    assert abs(len(one) - len(other)) <= 1
    assert is_both_ways(found)


def test_links_are_named_as_scenarios_write_them() -> None:
    there = Links(3).links()
    meant = links.named(there, ["2>1", "n1>3", "c1>n2", "clients>3", " clients > n1 "])
    assert [str(link) for link in meant] == ["n2>n1", "n1>n3", "c1>n2", "c1>n3", "c1>n1"]


_NO_LINKS = ("9>1", "c2>1", "clients>9", "1", "1>", ">1", "one>2", "1>clients", "nc1>2", "1>2>3", "")


@pytest.mark.parametrize("name", _NO_LINKS)
def test_a_name_of_no_link_is_refused_with_those_there_are(name: str) -> None:
    with pytest.raises(UsageError) as refused:
        links.named(Links(2).links(), [name])
    assert str(refused.value).startswith(f"no link {name!r}: write ")
    assert str(refused.value).endswith("links: n1>n2 n2>n1 n1>n100 n2>n100 c1>n1 c1>n2")


@pytest.mark.parametrize("name", ["c1>2", "clients>n9", " c7>n1"])
def test_links_of_clients_are_told_from_others_by_their_names(name: str) -> None:
    assert links.is_of_clients(name)


@pytest.mark.parametrize("name", ["2>1", "n2>n1", "clients", "c>1", "clients>c1"])
def test_what_names_no_link_of_clients_is_taken_for_none(name: str) -> None:
    assert not links.is_of_clients(name)


NODES, CLIENTS = st.integers(0, 2**31 - 1).map(NodeId), st.integers(1, 99).map(ClientId)


@given(st.builds(Link, source=NODES, target=NODES) | st.builds(Link, client=CLIENTS, target=NODES))
def test_a_link_is_read_back_from_either_of_its_names(link: Link) -> None:
    assert Link.parse(str(link)) == Link.parse(link.short_name) == link


@pytest.mark.parametrize("ends", [{}, {"source": NodeId(2), "client": ClientId(1)}])
def test_one_node_or_one_client_opens_a_link(ends: dict[str, Any]) -> None:
    with pytest.raises(AssertionError):
        Link(target=NodeId(1), **ends)
